"""Rebuilding what follows from the rest: fingerprints from stored texts, candidate rows from fingerprints, clusters from both."""

from __future__ import annotations

from collections.abc import Iterable

from ..native import signed_hash
from .documents import Documents
from .state import Store
from .writer import Writer


def repair(store: Store, writer: Writer, damaged: Iterable[int], now: int) -> list[str]:
    """Mend what can be mended; says what was done. `damaged`: fingerprints that are not to be read. Inside `writing`.

    A fingerprint that is lost with its text stays lost: its documents are kept, and match nothing."""
    table = store.scheme.table
    if table is not None:
        store.db.execute(store.sql(f"DELETE FROM {{index}}_{table}"))
    lost = set(damaged)
    done = [f"{_merge_copies(store, lost)} fingerprints that were stored more than once merged"]
    made, lost = _from_texts(store, writer.documents, lost)
    done.append(f"{made} documents fingerprinted again from their texts")
    done.append(f"{_drop_orphans(store)} fingerprints without a document removed")
    if table is not None:
        writer.documents.file_all(lost)
        done.append(f"{store.name}_{table} rebuilt from the fingerprints")
    writer.reconnect_all(now, lambda _: None, lost)
    if store.record_matches:
        done.append("matches and clusters computed again")
    store.bump_generation()
    return done


def _merge_copies(store: Store, damaged: set[int]) -> int:
    """Point documents at the first of several equal fingerprints; the others are then without a document."""
    sql = """SELECT id, first_id FROM (
                 SELECT id, min(id) OVER (PARTITION BY group_id, value_hash, value) AS first_id FROM {index}_fingerprint)
             WHERE id <> first_id"""
    copies = [(first, copy) for copy, first in store.db.rows(store.sql(sql)) if copy not in damaged]
    sql = "UPDATE {index}_document SET fingerprint_id = ? WHERE fingerprint_id = ?"
    store.db.connection.executemany(store.sql(sql), copies)
    return len(copies)


def _from_texts(store: Store, documents: Documents, damaged: set[int]) -> tuple[int, set[int]]:
    """Fingerprint documents again that point at a damaged one, at none, or at one of another group.

    Returns how many, and the fingerprints that stay lost because a text is missing."""
    sql = """SELECT d.id, d.group_id, d.fingerprint_id, d.text, f.id IS NULL FROM {index}_document AS d
             LEFT JOIN {index}_fingerprint AS f ON f.id = d.fingerprint_id AND f.group_id = d.group_id
             WHERE d.fingerprint_id IS NOT NULL ORDER BY d.id"""
    wrong = [row for row in store.db.execute(store.sql(sql)) if row[4] or row[2] in damaged]
    made = 0
    lost = set(damaged)
    for document_id, group_id, fingerprint_id, text, _ in wrong:
        if text is None:
            lost.add(fingerprint_id)
            continue
        value = store.sketch_texts([text], evidence=False)[0].value
        number = None
        if value is not None:
            number = documents.fingerprint_id(group_id, value)
            if number is None or number in damaged:
                insert = "INSERT INTO {index}_fingerprint (group_id, value, value_hash) VALUES (?, ?, ?)"
                store.db.execute(store.sql(insert), (group_id, value, signed_hash(value)))
                number = store.db.connection.last_insert_rowid()
        documents.update(document_id, {"fingerprint_id": number})
        made += 1
    return made, lost


def _drop_orphans(store: Store) -> int:
    sql = """DELETE FROM {index}_fingerprint WHERE id NOT IN
             (SELECT fingerprint_id FROM {index}_document WHERE fingerprint_id IS NOT NULL)"""
    store.db.execute(store.sql(sql))
    return store.db.connection.changes()
