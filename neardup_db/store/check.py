"""The invariants of an index, each with its own message."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise

from ..values import CheckReport
from . import tables
from .clusters import Clusters, UnionFind
from .joins import RangePairs, ranges
from .state import Store
from .writer import Writer

SHOWN = 5
"""Problems of one kind that a report names."""

PAGE = 20_000
"""Fingerprints whose rows are compared at once."""


class Checker:
    """Looks at everything that is stored; runs inside the store's transactions."""

    def __init__(self, store: Store, writer: Writer, clusters: Clusters) -> None:
        self.store = store
        self.db = store.db
        self.writer = writer
        self.clusters = clusters

    def run(self, now: int) -> CheckReport:
        """Every invariant, in the order in which later ones rely on earlier ones."""
        problems = list(self._integrity())
        if problems:  # what SQLite cannot read is looked at no further
            return CheckReport(tuple(problems))
        for part in (self._fingerprints, self._documents, self._candidates, self._matches):
            problems += part()
        if not problems and self.store.record_matches:
            problems += self._labels(now)
        return CheckReport(tuple(problems))

    def _few(self, sql: str, message: str) -> Iterator[str]:
        rows = self.db.rows(self.store.sql(sql), {"limit": SHOWN + 1})
        if rows:
            ids = ", ".join(str(row[0]) for row in rows[:SHOWN]) + (", ..." if len(rows) > SHOWN else "")
            yield f"{message}: {ids}"

    def _integrity(self) -> Iterator[str]:
        for (message,) in self.db.rows("PRAGMA integrity_check(5)"):
            if message != "ok":
                yield f"SQLite's integrity check: {message}"

    def _fingerprints(self) -> Iterator[str]:
        damaged = self.damaged()
        if damaged:
            yield f"fingerprints whose value is damaged: {', '.join(map(str, damaged[:SHOWN]))}"
        yield from self._few(
            """SELECT min(id) FROM {index}_fingerprint GROUP BY group_id, value_hash, value HAVING count(*) > 1 LIMIT :limit""",
            "fingerprints stored more than once",
        )
        yield from self._few(
            """SELECT f.id FROM {index}_fingerprint AS f WHERE NOT EXISTS
               (SELECT 1 FROM {index}_document AS d WHERE d.fingerprint_id = f.id) LIMIT :limit""",
            "fingerprints that no document has",
        )

    def damaged(self) -> list[int]:
        """Ids of fingerprints whose value is none of the scheme's, or not the one that was written."""
        damaged: list[int] = []
        last = 0
        sql = self.store.sql("SELECT id, value, value_hash FROM {index}_fingerprint WHERE id > ? ORDER BY id LIMIT 5000")
        while rows := self.db.page(sql, last):
            damaged += [number for number, value, value_hash in rows if not self.writer.documents.is_sound(value, value_hash)]
            last = rows[-1][0]
        return damaged

    def _documents(self) -> Iterator[str]:
        yield from self._few(
            """SELECT d.id FROM {index}_document AS d LEFT JOIN {index}_fingerprint AS f ON f.id = d.fingerprint_id
               WHERE d.fingerprint_id IS NOT NULL AND (f.id IS NULL OR f.group_id <> d.group_id) LIMIT :limit""",
            "documents whose fingerprint is missing or of another group",
        )
        yield from self._few(
            """SELECT d.id FROM {index}_document AS d LEFT JOIN {index}_group AS g ON g.id = d.group_id
               WHERE d.group_id <> 0 AND g.id IS NULL LIMIT :limit""",
            "documents whose group has no name",
        )
        wrong = "cluster_id IS NULL" if self.store.record_matches else "cluster_id IS NOT NULL"
        sql = f"SELECT id FROM {{index}}_document WHERE {wrong} LIMIT :limit"
        yield from self._few(sql, "documents with a wrong cluster label")
        if self.store.store_text:
            yield from self._few(
                "SELECT id FROM {index}_document WHERE text IS NULL AND token_count IS NOT NULL LIMIT :limit",
                "documents whose text is missing",
            )

    def _candidates(self) -> Iterator[str]:
        table = self.store.scheme.table
        if table is None or self.damaged():  # rows follow from values: there is nothing to compare them with
            return
        expected, lacking = 0, 0
        lack: list[int] = []
        last: int = self.db.value(self.store.sql("SELECT max(id) FROM {index}_fingerprint")) or 0
        sql = self.store.sql(tables.missing_sql(table))
        for first in range(0, last + 1, PAGE):
            there, missing, ids = self.db.rows(sql, {"first_id": first, "last_id": first + PAGE - 1})[0]
            expected += there
            lacking += missing
            lack += json.loads(ids)[: SHOWN + 1 - len(lack)]
        if lacking:
            shown = ", ".join(map(str, lack[:SHOWN])) + (", ..." if len(lack) > SHOWN else "")
            yield f"fingerprints without all their rows in {self.store.name}_{table}: {shown}"
        if self.db.value(self.store.sql(f"SELECT count(*) FROM {{index}}_{table}")) != expected - lacking:
            parameters = {"first_id": 0, "last_id": tables.MAX_ID, "limit": SHOWN}
            rows = self.db.rows(self.store.sql(tables.excess_sql(table)), parameters)
            shown = ", ".join(str(row[0]) for row in rows)
            yield f"fingerprint ids of rows that no fingerprint has in {self.store.name}_{table}: {shown}"

    def _matches(self) -> Iterator[str]:
        yield from self._few(
            """SELECT m.document_id || '-' || m.other_id FROM {index}_match AS m
               LEFT JOIN {index}_document AS a ON a.id = m.document_id LEFT JOIN {index}_document AS b ON b.id = m.other_id
               WHERE a.id IS NULL OR b.id IS NULL OR m.document_id <= m.other_id OR a.group_id <> b.group_id
                   OR a.cluster_id IS NOT b.cluster_id LIMIT :limit""",
            "recorded matches that do not join two documents of one cluster",
        )

    def _labels(self, now: int) -> Iterator[str]:
        """Recorded edges are real pairs, and the labels are the components of the graph of all pairs."""
        recorded = UnionFind()
        for document_id, other_id in self.db.execute(self.store.sql("SELECT document_id, other_id FROM {index}_match")):
            recorded.union(document_id, other_id)
        first: dict[int, int] = {}
        sql = self.store.sql("SELECT id, cluster_id FROM {index}_document ORDER BY id")
        apart = [
            document_id
            for document_id, label in self.db.rows(sql)
            if recorded.find(first.setdefault(label, document_id)) != recorded.find(document_id)
        ]
        if apart:
            yield f"documents that no recorded match connects to their cluster: {', '.join(map(str, apart[:SHOWN]))}"
        unreal: list[int] = []
        unjoined: list[int] = []
        for pairs in ranges(self.clusters.joins.reading, None, lambda: now):
            real = {row[:2] for row in pairs.found}
            unjoined += self._unjoined(pairs)
            unreal += [
                document_id
                for document_id, *fingerprints in self._recorded(pairs.first_id, pairs.last_id, now)
                if fingerprints[0] != fingerprints[1] and tuple(fingerprints) not in real
            ]
        if unjoined:
            yield f"documents that match one of another cluster: {', '.join(map(str, sorted(set(unjoined))[:SHOWN]))}"
        if unreal:
            yield f"documents with a recorded match that is none: {', '.join(map(str, sorted(set(unreal))[:SHOWN]))}"

    def _unjoined(self, pairs: RangePairs) -> Iterator[int]:
        """The earlier document of pairs that have two labels; of equal copies the first ones that differ."""
        for members in pairs.members.values():
            yield from (a.id for a, b in pairwise(members) if a.cluster_id != b.cluster_id)
        for fingerprint_id, other_id, *_ in pairs.found:
            for a in pairs.members.get(fingerprint_id, ())[:1]:
                yield from (min(a, b).id for b in pairs.members.get(other_id, ())[:1] if a.cluster_id != b.cluster_id)

    def _recorded(self, first_id: int, last_id: int, now: int) -> Iterator[tuple[int, int, int]]:
        """(document, the lower fingerprint, the higher one) of recorded matches between visible documents, the lower one being of
        the range."""
        sql = """SELECT m.document_id, a.fingerprint_id, b.fingerprint_id FROM {index}_document AS a
                 CROSS JOIN {index}_match AS m CROSS JOIN {index}_document AS b
                 WHERE a.fingerprint_id BETWEEN :first_id AND :last_id AND (a.expires_at IS NULL OR a.expires_at > :now)
                     AND m.{mine} = a.id AND b.id = m.{other} AND b.fingerprint_id >= a.fingerprint_id
                     AND (b.expires_at IS NULL OR b.expires_at > :now)"""
        parameters = {"first_id": first_id, "last_id": last_id, "now": now}
        for mine, other in (("document_id", "other_id"), ("other_id", "document_id")):
            text = sql.replace("{mine}", mine).replace("{other}", other)
            yield from self.db.rows(self.store.sql(text), parameters)
