"""The invariants of an index, each with its own message."""

from __future__ import annotations

from collections.abc import Iterator

from ..values import CheckReport
from . import tables
from .clusters import Clusters, UnionFind
from .state import Sketch, Store
from .writer import Writer

SHOWN = 5
"""Problems of one kind that a report names."""


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
        parameters = {"first_id": 0, "last_id": tables.MAX_ID, "limit": SHOWN}
        for sql, message in (
            (tables.missing_sql(table), "fingerprints without all their rows in"),
            (tables.excess_sql(table), "fingerprint ids of rows that no fingerprint has in"),
        ):
            rows = self.db.rows(self.store.sql(sql), parameters)
            if rows:
                yield f"{message} {self.store.name}_{table}: {', '.join(str(row[0]) for row in rows)}"

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
        unreal, unjoined = [], []
        after = 0
        while page := self.writer.documents.page(after, now, 1000):
            for document_id, _, fingerprint_id, group_id in page:
                if fingerprint_id is None:
                    continue
                sketch: Sketch = self.clusters.search.stored_sketch(document_id, fingerprint_id)
                found = self.clusters.search.neighbours(sketch, group_id, now, tables.MAX_ID)
                real = {one.fingerprint_id for one in found}
                own = self.db.value(self.store.sql("SELECT cluster_id FROM {index}_document WHERE id = ?"), (document_id,))
                if any(one.cluster_id != own for one in found):
                    unjoined.append(document_id)
                if any(other not in real for other in self._recorded_fingerprints(document_id, now)):
                    unreal.append(document_id)
            after = page[-1][0]
        if unjoined:
            yield f"documents that match one of another cluster: {', '.join(map(str, unjoined[:SHOWN]))}"
        if unreal:
            yield f"documents with a recorded match that is none: {', '.join(map(str, unreal[:SHOWN]))}"

    def _recorded_fingerprints(self, document_id: int, now: int) -> list[int | None]:
        sql = """SELECT d.fingerprint_id FROM {index}_match AS m JOIN {index}_document AS d ON d.id = m.other_id
                 WHERE m.document_id = ? AND (d.expires_at IS NULL OR d.expires_at > ?)"""
        return [row[0] for row in self.db.execute(self.store.sql(sql), (document_id, now))]
