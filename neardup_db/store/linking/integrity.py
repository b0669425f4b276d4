"""Integrity checks by bulk SQL. `Checker` verifies what needs values: candidate keys, real matches and split clusters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from ..asking.parts import Parts
from ..layout.candidates import MAX_GIVEN_ID
from ..layout.state import Store
from .edges import UnionFind

SHOWN = 5
"""The maximum number of examples in a problem message."""


class IntegrityChecks:
    """Each method yields the problems of one kind. The caller holds a transaction."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.db = store.db

    def report(self, sql: str, message: str, **parameters: int) -> Iterator[str]:
        """The message with the first values that a query with :limit returns; nothing without values."""
        rows = self.db.rows(self.store.sql(sql), {"limit": SHOWN + 1, **parameters})
        yield from with_examples(message, [row[0] for row in rows])

    def fingerprints(self) -> Iterator[str]:
        """Every fingerprint has a document. Equal values of a group are one fingerprint unless pairs were dismissed."""
        equal = self.report(
            """WITH alike(group_id, value_hash) AS MATERIALIZED (
                   SELECT group_id, value_hash FROM {index}_fingerprint GROUP BY 1, 2 HAVING count(*) > 1)
               SELECT min(f.id) FROM alike AS a CROSS JOIN {index}_fingerprint AS f
               WHERE f.group_id = a.group_id AND f.value_hash = a.value_hash
               GROUP BY f.group_id, f.value_hash, f.value HAVING count(*) > 1 LIMIT :limit""",
            "fingerprints stored more than once",
        )
        yield from () if self.store.dismisses else equal
        unused = self.store.frame("unused")
        if not self.store.has_parts:  # counts are enough here; `documents` finds missing ones
            counts = "SELECT count(*) <> (SELECT count(DISTINCT fingerprint_id) FROM {index}_document) FROM {index}_fingerprint"
            unused += f" AND ({counts})"
        yield from self.report(f"{unused} LIMIT :limit", "fingerprints that no document has")

    def documents(self) -> Iterator[str]:
        """A document has a fingerprint of its group, a named group, and a label only in a cluster."""
        yield from self.report(
            """SELECT d.id FROM {index}_document AS d LEFT JOIN {index}_fingerprint AS f ON f.id = d.fingerprint_id
               WHERE d.fingerprint_id IS NOT NULL AND (f.id IS NULL OR f.group_id <> d.group_id) LIMIT :limit""",
            "documents whose fingerprint is missing or of another group",
        )
        yield from self.report(
            """SELECT d.id FROM {index}_document AS d LEFT JOIN {index}_group AS g ON g.id = d.group_id
               WHERE d.group_id <> 0 AND g.id IS NULL LIMIT :limit""",
            "documents whose group has no name",
        )
        wrong = "cluster_id IS NOT NULL"
        if self.store.record_matches:
            wrong = f"cluster_id IN (SELECT cluster_id FROM {{index}}_document WHERE {wrong} GROUP BY 1 HAVING count(*) = 1)"
        sql = f"SELECT id FROM {{index}}_document WHERE {wrong} LIMIT :limit"
        yield from self.report(sql, "documents with a wrong cluster label")
        if self.store.store_text:
            yield from self.report(
                "SELECT id FROM {index}_document WHERE text IS NULL AND token_count IS NOT NULL LIMIT :limit",
                "documents whose text is missing",
            )

    def ids(self) -> Iterator[str]:
        """Ids are in their range. Queries and candidate rows depend on it, so a repair refuses others."""
        last_ids = {"document": MAX_GIVEN_ID, "fingerprint": MAX_GIVEN_ID}
        if self.store.has_parts:
            last_ids["part"] = Parts.MOST
        for table, last_id in last_ids.items():
            yield from self.report(
                f"SELECT id FROM {{index}}_{table} WHERE id < 1 OR id > :last_id LIMIT :limit",
                f"ids of {self.store.name}_{table} that are never given (restore a backup)",
                last_id=last_id,
            )

    def counters(self) -> Iterator[str]:
        """No counter can assign an id or label again, which would join unrelated documents."""
        yield from self.report(
            """SELECT name || ' ' || quote(seq) FROM sqlite_sequence
               WHERE name IN ('{index}_document', '{index}_fingerprint', '{index}_change', '{index}_allowed')
                   AND (typeof(seq) <> 'integer' OR seq NOT BETWEEN 0 AND :last_id) LIMIT :limit""",
            "highest ids that are not numbers of the right size",
            last_id=MAX_GIVEN_ID,
        )
        for table in ("document", "fingerprint"):
            yield from self.report(
                f"""SELECT max(id) FROM {{index}}_{table} HAVING max(id) >
                    coalesce((SELECT max(seq) FROM sqlite_sequence WHERE name = '{{index}}_{table}'), 0)""",
                f"ids of {self.store.name}_{table} above the highest one ever given",
            )
        if not self.store.record_matches:
            return
        yield from self.report(
            "SELECT value FROM {index}_setting WHERE name = 'next_cluster' AND value NOT BETWEEN -:last_id AND -1",
            "cluster labels that are never given",
            last_id=MAX_GIVEN_ID,
        )
        yield from self.report(
            """SELECT id FROM {index}_document
               WHERE cluster_id <= (SELECT value FROM {index}_setting WHERE name = 'next_cluster')
                   OR cluster_id > (SELECT max(id) FROM {index}_document) AND cluster_id >
                       coalesce((SELECT max(seq) FROM sqlite_sequence WHERE name = '{index}_document'), 0) LIMIT :limit""",
            "documents with a cluster label that was never given",
        )

    def large_clusters(self) -> Iterator[str]:
        """A large cluster equals one cluster, because an added document is compared with only a few of its documents."""
        yield from self.report(
            """SELECT f.id FROM {index}_fingerprint AS f WHERE f.crowd <> 0 AND (
                   0 = (SELECT value FROM {index}_setting WHERE name = 'crowds')
                   OR EXISTS (SELECT 1 FROM {index}_document AS d WHERE d.fingerprint_id = f.id
                       AND d.cluster_id IS NOT f.crowd)) LIMIT :limit""",
            "fingerprints in a crowd that is not their cluster",
        )
        if not self.store.settings["crowds"]:
            return
        yield from self.report(
            """WITH crowds(label) AS MATERIALIZED (SELECT DISTINCT crowd FROM {index}_fingerprint WHERE crowd <> 0)
               SELECT f.id FROM crowds AS c CROSS JOIN {index}_document AS d CROSS JOIN {index}_fingerprint AS f
               WHERE d.cluster_id = c.label AND f.id = d.fingerprint_id AND f.crowd = 0 LIMIT :limit""",
            "fingerprints that are not in the crowd of their cluster",
        )

    def matches(self) -> Iterator[str]:
        """A recorded match joins a document with an earlier one of the same cluster."""
        yield from self.report(
            """SELECT m.document_id || '-' || m.other_id FROM {index}_match AS m
               LEFT JOIN {index}_document AS a ON a.id = m.document_id LEFT JOIN {index}_document AS b ON b.id = m.other_id
               WHERE a.id IS NULL OR b.id IS NULL OR m.document_id <= m.other_id OR a.group_id <> b.group_id
                   OR a.cluster_id IS NULL OR a.cluster_id IS NOT b.cluster_id LIMIT :limit""",
            "recorded matches that do not join two documents of one cluster",
        )

    def connected(self) -> Iterator[str]:
        """The recorded matches connect each cluster."""
        if not self.store.record_matches:
            return
        recorded = UnionFind()
        for document_id, other_id in self.db.stream(self.store.sql("SELECT document_id, other_id FROM {index}_match")):
            recorded.union(document_id, other_id)
        first: dict[int, int] = {}
        sql = self.store.sql("SELECT id, cluster_id FROM {index}_document WHERE cluster_id IS NOT NULL ORDER BY id")
        apart = (
            document_id
            for document_id, label in self.db.rows(sql)
            if recorded.find(first.setdefault(label, document_id)) != recorded.find(document_id)
        )
        yield from with_examples("documents that no recorded match connects to their cluster", islice(apart, SHOWN + 1))


def with_examples(message: str, examples: Iterable[object]) -> Iterator[str]:
    """The message with the first SHOWN examples; nothing without examples."""
    listed = list(examples)
    if listed:
        yield f"{message}: {', '.join(map(str, listed[:SHOWN]))}{', ...' if len(listed) > SHOWN else ''}"
