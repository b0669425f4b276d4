"""Allowed texts (`Index.allow`): texts similar to one of them are exempt from matching.

`layout/sketches.py` compares new texts. An exempt document has no fingerprint, like an empty text, but its value is kept until
the text is disallowed. The order of `add` and `allow` makes no difference.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from ... import limits
from ...errors import ParameterError
from ...native import signed_hash
from ..database.errors import damaged
from ..layout import schema
from ..layout.sketches import Allowed
from ..layout.state import Store
from ..query.documents import Documents
from .clusters import Clusters
from .codes import index_and_connect


def allow(clusters: Clusters, value: bytes | None, text: str | None, note: str | None, now: int) -> int:
    """Allow a text with this value. Returns the number of stored documents that become exempt."""
    store = clusters.store
    if not store.scheme.takes_text:
        raise ParameterError(f"{type(store.scheme).__name__} takes codes, and only texts can be allowed: dismiss() the documents")
    if value is None:
        raise ParameterError("the text has no shingle, and so it matches nothing anyway: give a text with words")
    if not store.allows:
        store.add_table("allowed")
    if store.value("SELECT 1 FROM {index}_allowed WHERE value = ?", (value,)) is not None:
        return 0
    count = store.value("SELECT count(*) FROM {index}_allowed")
    if count >= Allowed.MOST:
        raise ParameterError(f"{count:,} texts are allowed, and each new text is compared with all: disallow() some first")
    sql = "INSERT INTO {index}_allowed (value, text, note, allowed_at) VALUES (?, ?, ?, ?)"
    store.execute(sql, (value, text if store.store_text else None, note, now))
    added = Allowed(store.scheme, [value])
    _changed(store)
    return exempt_matching(clusters, added, now)


def disallow(clusters: Clusters, value: bytes | None, now: int) -> int:
    """Delete every allowed text that a text with this value is similar to. Returns their number."""
    store = clusters.store
    if not store.allows:
        return 0
    rows = store.rows("SELECT id, value FROM {index}_allowed")
    return withdraw(clusters, [number for number, allowed in rows if Allowed(store.scheme, [allowed]).covers(value)], now)


def withdraw(clusters: Clusters, numbers: list[int], now: int) -> int:
    """Delete allowed texts by number and return how many existed. Documents that are no longer exempt match again."""
    store = clusters.store
    if not store.allows:
        return 0
    sql = "DELETE FROM {index}_allowed WHERE id = ? RETURNING id"
    deleted = len(store.execute_many(sql, [(number,) for number in numbers]))
    if deleted:
        _changed(store)
        _match_again(clusters, now)
    return deleted


def _changed(store: Store) -> None:
    """Make every open index reload the allowed texts and discard its sketches."""
    store.set(allowed=schema.random_number())
    store.new_generation()


def exempt_matching(clusters: Clusters, allowed: Allowed, now: int) -> int:
    """Exempt every document similar to one of the allowed texts, and split the clusters that they connected. Returns the
    number of visible documents among them. Compares every fingerprint."""
    store, documents = clusters.store, clusters.documents
    seeds: set[int] = set()
    exempt_ids: set[int] = set()
    labels = "SELECT id, cluster_id FROM {index}_document WHERE fingerprint_id = ?"
    for fingerprint_id, value in list(fingerprints_like(documents, allowed)):
        rows = [documents.require_numbers(row) for row in store.rows(labels, (fingerprint_id,))]
        for document_id, label in rows:
            if label is not None:
                seeds.update(clusters.edges.drop(document_id))
        clusters.remove_documents([document_id for document_id, label in rows if label is not None])
        exempt_ids.update(documents.exempt_fingerprint(fingerprint_id, value))
    clusters.split(seeds - exempt_ids, now)
    return sum(one.is_visible(now) for one in documents.rows_by_id(exempt_ids))


def exempt_unindexed(documents: Documents) -> None:
    """Exempt the documents similar to an allowed text, while the candidate table is empty and there are no clusters."""
    allowed = documents.store.sketcher.allowed
    if allowed is not None:
        for fingerprint_id, value in list(fingerprints_like(documents, allowed)):
            documents.exempt_fingerprint(fingerprint_id, value, has_rows=False)


def fingerprints_like(documents: Documents, allowed: Allowed) -> Iterator[tuple[int, bytes]]:
    store = documents.store
    sql = "SELECT id, value, value_hash FROM {index}_fingerprint WHERE id > ? ORDER BY id LIMIT ?"
    for number, value, value_hash in chain.from_iterable(store.pages(sql, limits.CHECKED_TEXTS)):
        if not documents.is_sound(value, value_hash):
            raise damaged(f"fingerprint {number}", store.name, "not the one that was written")
        if allowed.covers(value):
            yield number, value


def _match_again(clusters: Clusters, now: int) -> None:
    store, documents = clusters.store, clusters.documents
    first = documents.last_fingerprint_id() + 1
    restore(documents, store.sketcher.allowed)
    if documents.last_fingerprint_id() < first:
        return
    clusters.dismissed.separate(is_indexed=False)
    index_and_connect(clusters, now, lambda _: None, first, are_new=False)


def restore(documents: Documents, allowed: Allowed | None) -> None:
    """Give exempt documents that are similar to no allowed text fingerprints without candidate rows."""
    store = documents.store
    sql = """SELECT z.document_id, d.group_id, z.value, z.value_hash FROM {index}_allowed_document AS z
             CROSS JOIN {index}_document AS d WHERE z.document_id > ? AND d.id = z.document_id ORDER BY z.document_id LIMIT ?"""
    update = "UPDATE {index}_document SET fingerprint_id = ? WHERE id = ?"
    for document_id, group_id, value, value_hash in chain.from_iterable(store.pages(sql, limits.CHECKED_TEXTS)):
        if signed_hash(value) != value_hash:
            raise damaged(f"the fingerprint of document {document_id}", store.name, "not the one that was written")
        if allowed is None or not allowed.covers(value):
            store.execute(update, (documents.fingerprint_of(group_id, value), document_id))
            store.execute("DELETE FROM {index}_allowed_document WHERE document_id = ?", (document_id,))
