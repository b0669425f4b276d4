"""Rebuilding what follows from the rest: indexes from tables, fingerprints from stored texts, candidate rows from fingerprints,
clusters from both."""

from __future__ import annotations

import json
from collections.abc import Sequence

from ..native import signed_hash
from . import definitions, tables
from .state import Store
from .writer import Writer

SHOWN = 5
"""Lost documents that the report names."""


class Repair:
    """Mends what can be mended; runs inside the store's write transaction."""

    def __init__(self, store: Store, writer: Writer) -> None:
        self.store = store
        self.db = store.db
        self.writer = writer

    def run(self, now: int, damaged: Sequence[int]) -> tuple[list[str], list[str]]:
        """Rebuild what follows from the documents: fingerprints where texts are stored, candidate rows, edges, clusters.

        damaged: fingerprints that are not to be read. Returns what was done, and what is lost. Inside a write transaction."""
        found, lost = self._repair_fingerprints(set(damaged))
        done = [*self._mend_counters(), *found]
        done.append(f"{self._drop_orphans()} fingerprints without a document removed")
        table = self.store.scheme.table
        self.db.execute(self.store.sql(f"DELETE FROM {{index}}_{table}"))
        done.append(f"{self.store.name}_{table} rebuilt from the fingerprints")
        self.writer.refile_all(now, lambda _: None)
        if self.store.record_matches:
            done.append("matches and clusters computed again")
        self.store.new_generation(fingerprints=True)
        return done, lost

    def indexes(self) -> list[str]:
        """Make SQLite's indexes and the views anew, by which all else is found; returns what was done."""
        done = [f"{name} made again" for name in definitions.restore(self.db, self.store.name, self.store.scheme.table)]
        if any(message != "ok" for (message,) in self.db.rows("PRAGMA integrity_check(1)")):
            for table in ("document", "fingerprint", "match", "group"):
                self.db.execute(self.store.sql(f"REINDEX {{index}}_{table}"))
            done.append("indexes of all tables built again")
        return done

    def _mend_counters(self) -> list[str]:
        """No id or label that is there may be given again."""
        done = []
        for table in ("document", "fingerprint"):
            name = f"{self.store.name}_{table}"
            highest = self.db.value(self.store.sql(f"SELECT max(id) FROM {{index}}_{table}")) or 0
            given = self.db.value("SELECT max(seq) FROM sqlite_sequence WHERE name = ?", (name,))
            if not isinstance(given, int) or not highest <= given <= tables.MAX_ID:
                self.db.execute("DELETE FROM sqlite_sequence WHERE name = ?", (name,))
                self.db.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", (name, highest))
                done.append(f"highest id of {name} set to {highest}")
        return done

    def _repair_fingerprints(self, damaged: set[int]) -> tuple[list[str], list[str]]:
        """Give every document a sound fingerprint of its own group, from its text or its old value, or none."""
        unpoint = self.store.sql("UPDATE {index}_document SET fingerprint_id = NULL WHERE fingerprint_id = ?")
        sql = self.store.sql(
            """SELECT d.id, d.key, d.group_id, d.fingerprint_id, f.value FROM {index}_document AS d
               LEFT JOIN {index}_fingerprint AS f ON f.id = d.fingerprint_id WHERE d.fingerprint_id IS NOT NULL
               AND (f.id IS NULL OR f.group_id <> d.group_id OR f.id IN (SELECT value FROM json_each(:damaged)))"""
        )
        rows = self.db.rows(sql, {"damaged": json.dumps(sorted(damaged))})
        for number in damaged:
            self.db.execute(unpoint, (number,))
            self.db.execute(self.store.sql("DELETE FROM {index}_fingerprint WHERE id = ?"), (number,))
        lost = []
        for document_id, key, group_id, fingerprint_id, value in rows:
            text = self.writer.documents.text(document_id)
            if text is not None:
                value = self.store.scheme.values([text], self.store.rules).values[0]
            elif fingerprint_id in damaged or value is None:
                value = None
                lost.append(key)
            self.db.execute(
                self.store.sql("UPDATE {index}_document SET fingerprint_id = ? WHERE id = ?"),
                (None if value is None else self._fingerprint_of(group_id, value), document_id),
            )
        self._merge_doubles()
        done = [f"{len(rows) - len(lost)} documents given a sound fingerprint"] if len(rows) > len(lost) else []
        few = ", ".join(map(repr, lost[:SHOWN])) + (", ..." if len(lost) > SHOWN else "")
        warning = f"{len(lost)} documents have lost their fingerprint and match nothing, add them again: {few}"
        return done, [warning] if lost else []

    def _fingerprint_of(self, group_id: int, value: bytes) -> int:
        number = self.writer.documents.fingerprint_id(group_id, value)
        if number is not None:
            return number
        sql = self.store.sql("INSERT INTO {index}_fingerprint (group_id, value, value_hash) VALUES (?, ?, ?)")
        self.db.execute(sql, (group_id, value, signed_hash(value)))
        return self.db.connection.last_insert_rowid()

    def _merge_doubles(self) -> None:
        """Documents of equal values point to the first of them; the others become orphans."""
        sql = """UPDATE {index}_document SET fingerprint_id = (
                     SELECT min(b.id) FROM {index}_fingerprint AS a JOIN {index}_fingerprint AS b
                     ON b.group_id = a.group_id AND b.value_hash = a.value_hash AND b.value = a.value
                     WHERE a.id = {index}_document.fingerprint_id)
                 WHERE fingerprint_id IN (
                     SELECT a.id FROM {index}_fingerprint AS a JOIN {index}_fingerprint AS b
                     ON b.group_id = a.group_id AND b.value_hash = a.value_hash AND b.value = a.value AND b.id < a.id)"""
        self.db.execute(self.store.sql(sql))

    def _drop_orphans(self) -> int:
        sql = """DELETE FROM {index}_fingerprint WHERE id NOT IN
                 (SELECT fingerprint_id FROM {index}_document WHERE fingerprint_id IS NOT NULL)"""
        self.db.execute(self.store.sql(sql))
        return self.db.connection.changes()
