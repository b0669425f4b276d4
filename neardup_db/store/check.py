"""The invariants of an index, each with its own message."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import pairwise

import apsw

from .. import limits, native
from ..errors import CorruptIndexError
from ..values import CheckReport
from . import checksums, definitions, tables
from .clusters import Clusters, UnionFind
from .documents import EVER
from .joins import RangePairs, ranges
from .state import Store
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

    def pages(self) -> CheckReport:
        """The checksums of all pages, where the file has them; outside of a transaction."""
        damaged = checksums.damaged_pages(self.db.connection)
        return CheckReport(tuple(_shown("pages with a wrong checksum (restore a backup)", damaged)))

    def run(self) -> CheckReport:
        """Every invariant, in the order in which later ones rely on earlier ones."""
        problems = [*_reported(self._integrity()), *_reported(self._definitions())]
        if problems:  # what SQLite cannot read is looked at no further
            return CheckReport(tuple(problems))
        damaged = self.damaged()
        problems += _shown("fingerprints whose value is damaged", damaged)
        for part in (self._fingerprints, self._documents, self._letters, self._counters, self._crowds):
            problems += _reported(part())
        if not damaged:  # rows and labels follow from values: with damaged ones there is nothing to compare them with
            problems += _reported(self._candidates())
            problems += _reported(self._texts())
        problems += _reported(self._matches())
        if not problems and self.store.record_matches:
            problems += _reported(self._labels())
        return CheckReport(tuple(problems))

    def _few(self, sql: str, message: str, **parameters: int) -> Iterator[str]:
        rows = self.db.rows(self.store.sql(sql), {"limit": SHOWN + 1, **parameters})
        yield from _shown(message, [row[0] for row in rows])

    # ---- SQLite and its schema ---------------------------------------------------------------------------------------

    def _integrity(self) -> Iterator[str]:
        for (message,) in self.db.rows("PRAGMA integrity_check(5)"):
            if message != "ok":
                yield f"SQLite's integrity check: {message}"

    def _definitions(self) -> Iterator[str]:
        names = definitions.changed(self.db, self.store.name, self.store.scheme.table)
        yield from _shown("tables, indexes or views that are missing or changed", names)

    # ---- one row ------------------------------------------------------------------------------------------------------

    def damaged(self) -> list[int]:
        """Ids of fingerprints whose value is none of the scheme's, or not the one that was written."""
        damaged: list[int] = []
        last = 0
        sql = self.store.sql("SELECT id, value, value_hash FROM {index}_fingerprint WHERE id > ? ORDER BY id LIMIT ?")
        while rows := self.db.page(sql, last, limits.CHECKED_VALUES):
            damaged += [number for number, value, value_hash in rows if not self.writer.documents.is_sound(value, value_hash)]
            last = rows[-1][0]
        return damaged

    def _fingerprints(self) -> Iterator[str]:
        yield from self._few(
            """SELECT min(id) FROM {index}_fingerprint GROUP BY group_id, value_hash, value HAVING count(*) > 1 LIMIT :limit""",
            "fingerprints stored more than once",
        )
        yield from self._few(
            """SELECT f.id FROM {index}_fingerprint AS f WHERE NOT EXISTS
               (SELECT 1 FROM {index}_document AS d WHERE d.fingerprint_id = f.id) LIMIT :limit""",
            "fingerprints that no document has",
        )

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
        wrong = "cluster_id IS NOT NULL"
        if self.store.record_matches:
            wrong = f"cluster_id IN (SELECT cluster_id FROM {{index}}_document WHERE {wrong} GROUP BY 1 HAVING count(*) = 1)"
        sql = f"SELECT id FROM {{index}}_document WHERE {wrong} LIMIT :limit"
        yield from self._few(sql, "documents with a wrong cluster label")
        if self.store.store_text:
            yield from self._few(
                "SELECT id FROM {index}_document WHERE text IS NULL AND token_count IS NOT NULL LIMIT :limit",
                "documents whose text is missing",
            )

    def _letters(self) -> Iterator[str]:
        """Text is Unicode: reading one that is not raises CorruptIndexError."""
        for sql in ("SELECT key, metadata FROM {index}_document", "SELECT name FROM {index}_group"):
            for _ in self.db.stream(self.store.sql(sql)):
                pass
        yield from ()

    def _counters(self) -> Iterator[str]:
        """An id or a label that is used twice would join what has nothing to do with each other."""
        yield from self._few(
            """SELECT name || ' ' || quote(seq) FROM sqlite_sequence WHERE name IN ('{index}_document', '{index}_fingerprint')
               AND (typeof(seq) <> 'integer' OR seq NOT BETWEEN 0 AND :last_id) LIMIT :limit""",
            "highest ids that are none",
            last_id=tables.MAX_ID,
        )
        for table in ("document", "fingerprint"):
            yield from self._few(
                f"SELECT id FROM {{index}}_{table} WHERE id NOT BETWEEN 1 AND :last_id LIMIT :limit",
                f"ids of {self.store.name}_{table} that are never given",
                last_id=tables.MAX_ID,
            )
            yield from self._few(
                f"""SELECT max(id) FROM {{index}}_{table} HAVING max(id) >
                    coalesce((SELECT max(seq) FROM sqlite_sequence WHERE name = '{{index}}_{table}'), 0)""",
                f"ids of {self.store.name}_{table} above the highest one ever given",
            )
        if not self.store.record_matches:
            return
        yield from self._few(
            """SELECT id FROM {index}_document
               WHERE cluster_id <= (SELECT value FROM {index}_setting WHERE name = 'next_cluster')
                   OR cluster_id > (SELECT max(id) FROM {index}_document) AND cluster_id >
                       coalesce((SELECT max(seq) FROM sqlite_sequence WHERE name = '{index}_document'), 0) LIMIT :limit""",
            "documents with a cluster label that was never given",
        )

    def _crowds(self) -> Iterator[str]:
        """What is asked for in a crowd stands for all of it: it is of one cluster, and the whole of that."""
        yield from self._few(
            """SELECT f.id FROM {index}_fingerprint AS f WHERE f.crowd <> 0 AND (
                   0 = (SELECT value FROM {index}_setting WHERE name = 'crowds')
                   OR EXISTS (SELECT 1 FROM {index}_document AS d WHERE d.fingerprint_id = f.id
                       AND d.cluster_id IS NOT f.crowd)) LIMIT :limit""",
            "fingerprints in a crowd that is not their cluster",
        )
        yield from self._few(
            """WITH crowds(label) AS MATERIALIZED (SELECT DISTINCT crowd FROM {index}_fingerprint WHERE crowd <> 0)
               SELECT f.id FROM crowds AS c CROSS JOIN {index}_document AS d CROSS JOIN {index}_fingerprint AS f
               WHERE d.cluster_id = c.label AND f.id = d.fingerprint_id AND f.crowd = 0 LIMIT :limit""",
            "fingerprints that are not in the crowd of their cluster",
        )

    # ---- what follows from fingerprints and texts ----------------------------------------------------------------------

    def _candidates(self) -> Iterator[str]:
        table = self.store.scheme.table
        if table == tables.BUCKETS:
            unreadable = self._unreadable()
            yield from _shown(f"rows of {self.store.name}_{table} that do not hold the entries that were written", unreadable)
            if unreadable:
                return
        expected, lacking = 0, 0
        lack: list[int] = []
        sql = self.store.sql(tables.missing_sql(table))
        for first, end in self.writer.documents.fingerprint_ranges(limits.CHECKED_PAGE):
            there, missing, ids = self.db.rows(sql, {"first_id": first, "last_id": end})[0]
            expected += there
            lacking += missing
            lack += json.loads(ids)[: SHOWN + 1 - len(lack)]
        yield from _shown(f"fingerprints without all their rows in {self.store.name}_{table}", lack)
        if self.db.value(self.store.sql(tables.count_sql(table))) != expected - lacking:
            parameters = {"first_id": 0, "last_id": tables.MAX_ID, "limit": SHOWN + 1}
            rows = self.db.rows(self.store.sql(tables.excess_sql(table)), parameters)
            message = f"fingerprint ids of rows that no fingerprint has in {self.store.name}_{table}"
            yield from _shown(message, [row[0] for row in rows])

    def _unreadable(self) -> list[int]:
        """The ids of rows of buckets that cannot be read: most often none, which one statement says."""
        try:
            self.db.value(self.store.sql(tables.readable_sql()))
            return []
        except apsw.SQLError:
            code = bytes(self.db.value(self.store.sql("SELECT value / 8 FROM {index}_setting WHERE name = 'bits'")))
        sql = self.store.sql("SELECT id, entries FROM {index}_code_bucket ORDER BY id")
        rows = self.db.stream(sql)
        return [number for number, entries in rows if not isinstance(entries, bytes) or native.near(entries, code, -1) is None]

    def _texts(self) -> Iterator[str]:
        """A stored text, from which rebuild() and exact verification start, is the one that was fingerprinted."""
        if not self.store.store_text:
            return
        others: list[int] = []
        last = 0
        sql = self.store.sql(
            """SELECT d.id, d.text, f.value FROM {index}_document AS d
               LEFT JOIN {index}_fingerprint AS f ON f.id = d.fingerprint_id
               WHERE d.id > ? AND d.text IS NOT NULL ORDER BY d.id LIMIT +?"""
        )
        while rows := self.db.page(sql, last, limits.CHECKED_TEXTS):
            made = self.store.scheme.values([row[1] for row in rows], self.store.rules).values
            others += [row[0] for row, value in zip(rows, made, strict=True) if row[2] != value]
            last = rows[-1][0]
        yield from _shown("documents whose text is not the one that was fingerprinted", others)

    # ---- matches and clusters ------------------------------------------------------------------------------------------

    def _matches(self) -> Iterator[str]:
        yield from self._few(
            """SELECT m.document_id || '-' || m.other_id FROM {index}_match AS m
               LEFT JOIN {index}_document AS a ON a.id = m.document_id LEFT JOIN {index}_document AS b ON b.id = m.other_id
               WHERE a.id IS NULL OR b.id IS NULL OR m.document_id <= m.other_id OR a.group_id <> b.group_id
                   OR a.cluster_id IS NULL OR a.cluster_id IS NOT b.cluster_id LIMIT :limit""",
            "recorded matches that do not join two documents of one cluster",
        )

    def _labels(self) -> Iterator[str]:
        """Recorded edges are real pairs, and the labels are the components of the graph of all pairs, those of expired documents
        too."""
        recorded = UnionFind()
        for document_id, other_id in self.db.stream(self.store.sql("SELECT document_id, other_id FROM {index}_match")):
            recorded.union(document_id, other_id)
        first: dict[int, int] = {}
        sql = self.store.sql("SELECT id, cluster_id FROM {index}_document WHERE cluster_id IS NOT NULL ORDER BY id")
        apart = [
            document_id
            for document_id, label in self.db.rows(sql)
            if recorded.find(first.setdefault(label, document_id)) != recorded.find(document_id)
        ]
        yield from _shown("documents that no recorded match connects to their cluster", apart)
        unreal: set[int] = set()
        unlike: set[int] = set()
        unjoined: set[int] = set()
        for pairs in ranges(self.clusters.joins.reading, None, lambda: EVER):
            real = {row[:2]: row[2:] for row in pairs.found}
            unjoined.update(self._unjoined(pairs))
            for document_id, a, b, *measured in self._recorded(pairs.first_id, pairs.last_id):
                found = (1.0, pairs.copies_distance) if a == b else real.get((a, b))
                if found is None:
                    unreal.add(document_id)
                elif tuple(measured) != found:
                    unlike.add(document_id)
        yield from _shown("documents that match one of another cluster", sorted(unjoined))
        yield from _shown("documents with a recorded match that is none", sorted(unreal))
        yield from _shown("documents with a recorded match of another similarity or distance", sorted(unlike))

    def _unjoined(self, pairs: RangePairs) -> Iterator[int]:
        """The earlier document of pairs that have two labels; of equal copies the first ones that differ."""
        for members in pairs.members.values():
            yield from (a.id for a, b in pairwise(members) if a.cluster_id != b.cluster_id)
        for fingerprint_id, other_id, *_ in pairs.found:
            for a in pairs.members.get(fingerprint_id, ())[:1]:
                yield from (min(a, b).id for b in pairs.members.get(other_id, ())[:1] if a.cluster_id != b.cluster_id)

    def _recorded(self, first_id: int, last_id: int) -> Iterator[tuple[int, int, int, float, int | None]]:
        """(document, the lower fingerprint, the higher one, similarity, distance) of recorded matches, the lower fingerprint
        being of the range."""
        sql = """SELECT m.document_id, a.fingerprint_id, b.fingerprint_id, m.similarity, m.distance FROM {index}_document AS a
                 CROSS JOIN {index}_match AS m CROSS JOIN {index}_document AS b
                 WHERE a.fingerprint_id BETWEEN :first_id AND :last_id
                     AND m.{mine} = a.id AND b.id = m.{other} AND b.fingerprint_id >= a.fingerprint_id"""
        parameters = {"first_id": first_id, "last_id": last_id}
        for mine, other in (("document_id", "other_id"), ("other_id", "document_id")):
            text = sql.replace("{mine}", mine).replace("{other}", other)
            yield from self.db.rows(self.store.sql(text), parameters)


def _reported(problems: Iterator[str]) -> Iterator[str]:
    """The problems, and as the last one what could not be read on the way."""
    try:
        yield from problems
    except CorruptIndexError as error:
        yield str(error)


def _shown(message: str, found: Iterable[object]) -> Iterator[str]:
    """The message with the first SHOWN of what was found; nothing where nothing was."""
    listed = list(found)
    if listed:
        yield f"{message}: {', '.join(map(str, listed[:SHOWN]))}{', ...' if len(listed) > SHOWN else ''}"
