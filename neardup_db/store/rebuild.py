"""Giving an index another scheme, or its tables anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import limits
from ..errors import ParameterError
from ..native import signed_hash
from . import schema
from .state import Given, Store
from .writer import Writer


def rebuild(store: Store, writer: Writer, changes: Given, now: int, step: Callable[[int], None]) -> None:
    """Everything that follows from the documents, with what is given changed; inside a write transaction.

    Stored values are kept where the new scheme reads them as they are; else texts are fingerprinted again."""
    db = store.db
    rules = changes.rules if changes.rules is not None else store.rules
    store_text = store.store_text if changes.store_text is None else changes.store_text
    record_matches = store.record_matches if changes.record_matches is None else changes.record_matches
    scheme = (changes.scheme if changes.scheme is not None else store.scheme).for_index(rules, store_text)
    keep_values = scheme.reads_values_of(store.scheme) and rules.settings() == store.rules.settings()
    if not keep_values:
        _require_texts(store, "the new scheme or text rules need new fingerprints")
    if store_text and not store.store_text:
        _require_texts(store, "store_text=True needs the texts")
    db.execute(f"DROP TABLE {store.name}_{store.scheme.table}")
    schema.create_candidate_table(db, store.name, scheme.table)
    new: dict[str, Any] = {**scheme.settings(), **rules.settings()}
    for name in {*store.scheme.settings(), *store.rules.settings()} - set(new):
        db.execute(store.sql("DELETE FROM {index}_setting WHERE name = ?"), (name,))
    store.set(**new, store_text=int(store_text), record_matches=int(record_matches))
    store.adopt(changes, fingerprints=not keep_values)
    if not keep_values:
        _fingerprint_again(store, step)
    if not store_text:
        db.execute(store.sql("UPDATE {index}_document SET text = NULL WHERE text IS NOT NULL"))
    writer.refile_all(now, step)


def _require_texts(store: Store, why: str) -> None:
    """ParameterError where the text of a document is not stored."""
    lacking = store.db.value(store.sql("SELECT count(*) FROM {index}_document WHERE text IS NULL"))
    if lacking:
        raise ParameterError(
            f"{why}, but {lacking} documents have no stored text: build a new index from the texts (store_text=True keeps them "
            "in the file)"
        )


def _fingerprint_again(store: Store, step: Callable[[int], None]) -> None:
    db = store.db
    db.execute(store.sql("UPDATE {index}_document SET fingerprint_id = NULL"))
    db.execute(store.sql("DELETE FROM {index}_fingerprint"))
    insert = store.sql("INSERT INTO {index}_fingerprint (group_id, value, value_hash) VALUES (?, ?, ?)")
    find = store.sql("SELECT id FROM {index}_fingerprint WHERE group_id = ? AND value_hash = ? AND value = ?")
    point = store.sql("UPDATE {index}_document SET fingerprint_id = ?, token_count = ? WHERE id = ?")
    page_sql = store.sql("SELECT id, group_id, text FROM {index}_document WHERE id > ? ORDER BY id LIMIT ?")
    after, done = 0, 0
    while page := db.page(page_sql, after, limits.REBUILT_PAGE):
        made = store.scheme.values([text for _, _, text in page], store.rules)
        for (document_id, group_id, _), value, count in zip(page, made.values, made.token_counts, strict=True):
            number = None
            if value is not None:
                number = db.value(find, (group_id, signed_hash(value), value))
                if number is None:
                    db.execute(insert, (group_id, value, signed_hash(value)))
                    number = db.connection.last_insert_rowid()
            db.execute(point, (number, count, document_id))
        after = page[-1][0]
        done += len(page)
        step(done)
