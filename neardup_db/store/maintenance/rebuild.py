"""Rebuilds the tables of an index with other settings or after a repair."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import limits
from ...errors import ParameterError
from ...schemes.base import Scheme
from ...text import TextRules
from ..clustering.allowing import exempt_unindexed, restore
from ..clustering.clusters import Clusters
from ..clustering.codes import index_and_connect
from ..layout import schema
from ..layout.opening import Choices
from ..layout.state import Store
from ..query.documents import Documents


def rebuild(clusters: Clusters, changes: Choices, now: int, step: Callable[[int], Any]) -> None:
    """Rebuild everything that the documents determine, with other settings, inside a write transaction. Texts are
    fingerprinted again unless the new scheme can read the stored values."""
    store, db = clusters.store, clusters.store.db
    rules = changes.rules if changes.rules is not None else store.rules
    store_text = store.store_text if changes.store_text is None else changes.store_text
    record_matches = store.record_matches if changes.record_matches is None else changes.record_matches
    scheme = (changes.scheme if changes.scheme is not None else store.scheme).for_index(rules)
    keep_values = rules.settings() == store.rules.settings() and scheme.reads_values_of(store.scheme)
    if not keep_values:
        _require_texts(store, "the new scheme or text rules need new fingerprints")
    if store_text and not store.store_text:
        _require_texts(store, "store_text=True needs the texts")
    if store.allows:
        restore(clusters.documents, None)
        if not keep_values:
            _refingerprint_allowed(store, scheme, rules)
    db.execute(f"DROP TABLE {store.table.name}")
    schema.create_tables(db, store.name, scheme.table)
    new: dict[str, Any] = {**scheme.settings(), **rules.settings()}
    for name in {*store.scheme.settings(), *store.rules.settings()} - set(new):
        store.execute("DELETE FROM {index}_setting WHERE name = ?", (name,))
    store.set(**new, store_text=int(store_text), record_matches=int(record_matches))
    store.given_rules[:0] = [] if changes.rules is None else [changes.rules]
    store.new_generation(fingerprints=not keep_values)
    if not keep_values:
        _refingerprint(store, clusters.documents, step)
    if not store_text:
        store.execute("UPDATE {index}_document SET text = NULL WHERE text IS NOT NULL")
        if store.allows:
            store.execute("UPDATE {index}_allowed SET text = NULL")
    exempt_unindexed(clusters.documents)
    reindex(clusters, now, step)


def _require_texts(store: Store, reason: str) -> None:
    missing = store.value("SELECT count(*) FROM {index}_document WHERE text IS NULL")
    if missing:
        raise ParameterError(
            f"{reason}, but {missing} documents have no stored text: build a new index from the texts (store_text=True keeps "
            "them in the file)"
        )


def _refingerprint_allowed(store: Store, scheme: Scheme, rules: TextRules) -> None:
    """Raises ParameterError if an allowed text is not stored."""
    rows = store.rows("SELECT id, text FROM {index}_allowed")
    missing = [number for number, text in rows if text is None]
    if missing:
        raise ParameterError(
            f"the new scheme or text rules need new fingerprints, but {len(missing)} allowed texts have no stored text: "
            "disallow() them first, and allow() the texts again afterwards"
        )
    values = scheme.values([text for _, text in rows], rules).split()
    update = "UPDATE {index}_allowed SET value = ? WHERE id = ?"
    delete = "DELETE FROM {index}_allowed WHERE id = ?"
    for (number, _), value in zip(rows, values, strict=True):
        if value:
            store.execute(update, (value, number))
        else:  # no shingle under the new rules, so it matches nothing anyway
            store.execute(delete, (number,))


def _refingerprint(store: Store, documents: Documents, step: Callable[[int], Any]) -> None:
    store.execute("UPDATE {index}_document SET fingerprint_id = NULL")
    store.execute("DELETE FROM {index}_fingerprint")
    update = "UPDATE {index}_document SET fingerprint_id = ?, token_count = ? WHERE id = ?"
    page_sql = "SELECT id, group_id, text FROM {index}_document WHERE id > ? ORDER BY id LIMIT ?"
    done = 0
    for page in store.pages(page_sql, limits.REBUILT_PAGE):
        values = store.scheme.values([text for _, _, text in page], store.rules)
        for (document_id, group_id, _), value, count in zip(page, values.split(), values.tokens.tolist(), strict=True):
            store.execute(update, (documents.fingerprint_of(group_id, value), count, document_id))
        done += len(page)
        step(done)


def reindex(clusters: Clusters, now: int, step: Callable[[int], Any]) -> None:
    """Recompute candidate rows, edges and clusters; the candidate table is empty. step: called with the number done."""
    store = clusters.store
    clusters.dismissed.separate(is_indexed=False)
    store.execute("UPDATE {index}_fingerprint SET crowd = 0 WHERE crowd <> 0")
    store.execute("DELETE FROM {index}_match")
    store.execute("UPDATE {index}_document SET cluster_id = NULL WHERE cluster_id IS NOT NULL")
    index_and_connect(clusters, now, step)
    clusters.changes.restart()
