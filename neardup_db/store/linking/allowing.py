"""Allowed texts: what is like one of them matches nothing.

A new text is compared with the allowed ones when it is sketched (`layout/allowed.py`). A stored document that is like one is set
aside: it has no fingerprint, as an empty text, and its value is kept until the allowed text is withdrawn. So a document is set
aside if and only if it is like an allowed text, whichever came first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from ... import limits
from ...errors import ParameterError
from ...native import signed_hash
from ..asking.documents import DocumentRow, Documents
from ..database.errors import damaged
from ..layout import schema
from ..layout.allowed import Allowed
from ..layout.sketches import Sketch
from ..layout.state import Store
from .clusters import Clusters
from .dismissing import split_dismissed


def sketch_of(store: Store, text: str | bytes) -> Sketch:
    """A text with what it is compared by, whether or not it is like an allowed one."""
    return Sketch(store.scheme.values([text], store.rules).values[0], None, store.epoch)


def sketch_of_document(clusters: Clusters, found: DocumentRow) -> Sketch:
    """A stored document likewise."""
    documents = clusters.documents
    value = documents.aside(found.id)
    if value is None and found.fingerprint_id is not None:
        value = documents.value(found.fingerprint_id)
    return Sketch(value, None, -1 if value is None else clusters.store.epoch)


def allow(clusters: Clusters, sketch: Sketch, text: str | None, note: str | None, now: int) -> int:
    """Allow a text; returns how many stored documents are set aside."""
    store = clusters.store
    if not store.scheme.takes_text:
        raise ParameterError(f"{type(store.scheme).__name__} takes codes, and only texts can be allowed: dismiss() the documents")
    compared = sketch.value
    if compared is None:
        raise ParameterError("the text has no shingle, and so it matches nothing anyway: give a text with words")
    if not store.allows:
        store.add_table(Allowed.TABLE)
    if store.db.value(store.sql("SELECT 1 FROM {index}_allowed WHERE value = ?"), (compared,)) is not None:
        return 0
    count = store.db.value(store.sql("SELECT count(*) FROM {index}_allowed"))
    if count >= Allowed.MOST:
        raise ParameterError(f"{count:,} texts are allowed, and each new text is compared with all: disallow() some first")
    sql = "INSERT INTO {index}_allowed (value, text, note, allowed_at) VALUES (?, ?, ?, ?)"
    store.db.execute(store.sql(sql), (compared, text if store.store_text else None, note, now))
    added = Allowed(store.scheme, [compared])
    _changed(store)
    return set_aside(clusters, added, now)


def disallow(clusters: Clusters, sketch: Sketch, now: int) -> int:
    """Withdraw each allowed text that a text is like; returns how many there were."""
    store = clusters.store
    if not store.allows:
        return 0
    rows = store.db.rows(store.sql("SELECT id, value FROM {index}_allowed"))
    return withdraw(clusters, [number for number, value in rows if _matches_sketch(store, sketch, value)], now)


def withdraw(clusters: Clusters, numbers: list[int], now: int) -> int:
    """Withdraw allowed texts by number; returns how many there were. Documents that are like no other one match again."""
    store = clusters.store
    if not store.allows:
        return 0
    sql = store.sql("DELETE FROM {index}_allowed WHERE id = ? RETURNING id")
    found = len(store.db.rows_of_many(sql, [(number,) for number in numbers]))
    if found:
        _changed(store)
        _match_again(clusters, now)
    return found


def _matches_sketch(store: Store, sketch: Sketch, value: bytes) -> bool:
    return Allowed(store.scheme, [value]).covers(sketch.value)


def _changed(store: Store) -> None:
    """Have every open index read the allowed texts again: what it has sketched is sketched again."""
    store.set(allowed=schema.random_number())
    store.new_generation()


# ---- documents ---------------------------------------------------------------------------------------------------------------


def set_aside(clusters: Clusters, allowed: Allowed, now: int) -> int:
    """Set aside each document that is like one of the allowed texts, and split the clusters that these held together; returns how
    many visible ones there were. Compares every fingerprint of the index."""
    store, documents = clusters.store, clusters.documents
    seeds: dict[int, set[int]] = defaultdict(set)
    gone: set[int] = set()
    labels = store.sql("SELECT id, cluster_id FROM {index}_document WHERE fingerprint_id = ?")
    for fingerprint_id, value in list(fingerprints_like(store, documents, allowed)):
        rows = [documents.require_numbers(row) for row in store.db.rows(labels, (fingerprint_id,))]
        for document_id, label in rows:
            if label is not None:
                seeds[label].update(clusters.edges.adjacent(document_id))
                clusters.edges.drop(document_id)
        clusters.remove_documents([document_id for document_id, label in rows if label is not None])
        gone.update(documents.take_fingerprint(fingerprint_id, value))
    for label, ends in seeds.items():
        clusters.mend(label, ends - gone, now)
    return sum(one.is_visible(now) for one in documents.rows_by_id(gone))


def set_aside_unfiled(store: Store, documents: Documents) -> None:
    """Set aside each document that is like an allowed text, while the candidate table is empty and there are no clusters."""
    allowed = store.sketch_rules.allowed
    if allowed is not None:
        for fingerprint_id, value in list(fingerprints_like(store, documents, allowed)):
            documents.take_fingerprint(fingerprint_id, value, is_filed=False)


def fingerprints_like(store: Store, documents: Documents, allowed: Allowed) -> Iterator[tuple[int, bytes]]:
    """The fingerprints that are like one of the allowed texts, with their values."""
    sql = store.sql("SELECT id, value, value_hash FROM {index}_fingerprint WHERE id > ? ORDER BY id LIMIT ?")
    last = 0
    while page := store.db.page(sql, last, limits.CHECKED_TEXTS):
        for number, value, value_hash in page:
            if not documents.is_sound(value, value_hash):
                raise damaged(f"fingerprint {number}", store.name, "not the one that was written")
            if allowed.covers(value):
                yield number, value
        last = page[-1][0]


def _match_again(clusters: Clusters, now: int) -> None:
    """Give the documents that are like no allowed text any more their fingerprints, and connect them."""
    store, documents = clusters.store, clusters.documents
    first = documents.last_fingerprint_id() + 1
    restore(store, documents, store.sketch_rules.allowed)
    if documents.last_fingerprint_id() < first:
        return
    clusters.dismissed.separate(is_indexed=False)
    filed = store.sql(store.frame("filed"))
    for first_id, last_id in documents.fingerprint_ranges(documents.filed_at_once, first):
        store.table.file(first_id, last_id)
        added = store.db.rows(filed, {"first_id": first_id, "last_id": last_id, "now": now})
        if store.record_matches:
            clusters.connect_many(added, (first_id, last_id), now, are_new=False)
    split_dismissed(clusters, now)


def restore(store: Store, documents: Documents, allowed: Allowed | None) -> None:
    """Give documents that were set aside, and are like no allowed text, fingerprints, which are not filed yet."""
    sql = store.sql(
        """SELECT z.document_id, d.group_id, z.value, z.value_hash FROM {index}_allowed_document AS z
           CROSS JOIN {index}_document AS d WHERE z.document_id > ? AND d.id = z.document_id ORDER BY z.document_id LIMIT ?"""
    )
    point = store.sql("UPDATE {index}_document SET fingerprint_id = ? WHERE id = ?")
    drop = store.sql("DELETE FROM {index}_allowed_document WHERE document_id = ?")
    last = 0
    while page := store.db.page(sql, last, limits.CHECKED_TEXTS):
        for document_id, group_id, value, value_hash in page:
            if signed_hash(value) != value_hash:
                raise damaged(f"the fingerprint of document {document_id}", store.name, "not the one that was written")
            if allowed is None or not allowed.covers(value):
                store.db.execute(point, (documents.fingerprint_of(group_id, value), document_id))
                store.db.execute(drop, (document_id,))
        last = page[-1][0]
