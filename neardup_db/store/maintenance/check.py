"""Checks the invariants of an index. Each has its own message."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice

from ... import limits
from ...errors import CorruptIndexError
from ...values import CheckReport
from ..clustering.allowing import fingerprints_like
from ..clustering.clusters import Clusters
from ..clustering.edges import UnionFind
from ..database import checksums
from ..following import pending
from ..ingest.window import expiry_outside
from ..layout import definitions
from ..layout.allowed import Allowed
from ..layout.candidates import MAX_GIVEN_ID, MAX_ID
from ..layout.schema import ALONE
from ..query.documents import EVER
from ..query.fingerprints import ACROSS_GROUPS
from ..query.joins import Member, RangePairs, ranges
from ..query.parts import Parts

SHOWN = 5
"""The maximum number of examples in a problem message."""


class Checker:
    """Checks everything that is stored. The caller holds a transaction of the store, except for `pages`."""

    def __init__(self, clusters: Clusters) -> None:
        self.store, self.documents, self.joins, self.clusters = clusters.store, clusters.documents, clusters.joins, clusters

    def pages(self) -> CheckReport:
        """Check all page checksums, if the file has any. No transaction may be open."""
        connection = self.store.db.connection
        damaged = checksums.damaged_pages(connection.filename) if checksums.has_checksums(connection) else []
        return CheckReport(tuple(with_examples("pages with a wrong checksum (restore a backup)", damaged)))

    def run(self) -> CheckReport:
        problems = list(_catch_corruption(self._schema()))
        if problems:  # the tables are unreliable, so no other invariant can be checked
            return CheckReport(tuple(problems))
        damaged = self._damaged()
        problems += with_examples("fingerprints whose value is damaged", damaged)
        rows = self.ids, self._fingerprints, self._documents, self._parts, self._encodings, self._counters
        for part in (*rows, self._dismissed, self._changes, self._window, self._large_clusters):
            problems += _catch_corruption(part())
        if not damaged:  # candidate rows are computed from values, so damaged values would be misreported
            problems += _catch_corruption(self._allowed())
            problems += _catch_corruption(self._candidates())
            problems += _catch_corruption(self._texts())
        problems += _catch_corruption(self._matches())
        if not problems and self.store.record_matches:
            problems += _catch_corruption(self._labels())
        if self.store.following is None:
            return CheckReport(tuple(problems))
        followed, notes = pending.report(self.store)
        return CheckReport((*problems, *followed), notes=notes)

    def _report(self, sql: str, message: str, **parameters: int) -> Iterator[str]:
        """The message with the first values that a query with :limit returns; nothing without values."""
        rows = self.store.rows(sql, {"limit": SHOWN + 1, **parameters})
        yield from with_examples(message, [row[0] for row in rows])

    # ---- SQLite and its schema ---------------------------------------------------------------------------------------

    def _schema(self) -> Iterator[str]:
        for (message,) in self.store.db.rows("PRAGMA integrity_check(5)"):
            if message != "ok":
                yield f"SQLite's integrity check: {message}"
        names = definitions.changed(self.store.db, self.store.name, self.store.scheme.table, self.store.optional)
        yield from with_examples("tables, indexes or views that are missing or changed", names)

    # ---- one row ------------------------------------------------------------------------------------------------------

    def _damaged(self) -> list[int]:
        """The ids of fingerprints whose value does not match its hash or does not fit the scheme."""
        sql = "SELECT id, value, value_hash FROM {index}_fingerprint WHERE id > ? ORDER BY id LIMIT ?"
        rows = chain.from_iterable(self.store.pages(sql, limits.CHECKED_VALUES))
        return [number for number, value, value_hash in rows if not self.documents.is_sound(value, value_hash)]

    def ids(self) -> Iterator[str]:
        """Ids are in their range. Queries and candidate rows depend on it, so a repair refuses others."""
        last_ids = {"document": MAX_GIVEN_ID, "fingerprint": MAX_GIVEN_ID}
        if self.store.has_parts:
            last_ids["part"] = Parts.MOST
        for table, last_id in last_ids.items():
            yield from self._report(
                f"SELECT id FROM {{index}}_{table} WHERE id < 1 OR id > :last_id LIMIT :limit",
                f"ids of {self.store.name}_{table} that are never given (restore a backup)",
                last_id=last_id,
            )

    def _fingerprints(self) -> Iterator[str]:
        """Every fingerprint has a document. Equal values of a group are one fingerprint unless pairs were dismissed."""
        equal = self._report(
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
        yield from self._report(f"{unused} LIMIT :limit", "fingerprints that no document has")

    def _documents(self) -> Iterator[str]:
        """A document has a fingerprint of its group, a named group, and a label only in a cluster."""
        yield from self._report(
            """SELECT d.id FROM {index}_document AS d LEFT JOIN {index}_fingerprint AS f ON f.id = d.fingerprint_id
               WHERE d.fingerprint_id IS NOT NULL AND (f.id IS NULL OR f.group_id <> d.group_id) LIMIT :limit""",
            "documents whose fingerprint is missing or of another group",
        )
        yield from self._report(
            """SELECT d.id FROM {index}_document AS d LEFT JOIN {index}_group AS g ON g.id = d.group_id
               WHERE d.group_id <> 0 AND g.id IS NULL LIMIT :limit""",
            "documents whose group has no name",
        )
        wrong = "cluster_id IS NOT NULL"
        if self.store.record_matches:
            wrong = f"cluster_id IN (SELECT cluster_id FROM {{index}}_document WHERE {wrong} GROUP BY 1 HAVING count(*) = 1)"
        sql = f"SELECT id FROM {{index}}_document WHERE {wrong} LIMIT :limit"
        yield from self._report(sql, "documents with a wrong cluster label")
        if self.store.store_text:
            yield from self._report(
                "SELECT id FROM {index}_document WHERE text IS NULL AND token_count IS NOT NULL LIMIT :limit",
                "documents whose text is missing",
            )

    def _parts(self) -> Iterator[str]:
        """The codes of a document are fingerprints of its group, the first one is that of its row, and their parts are
        distinct."""
        if not self.store.has_parts:
            return
        yield from self._report(
            """SELECT p.id FROM {index}_part AS p LEFT JOIN {index}_document AS d ON d.id = p.document_id
               LEFT JOIN {index}_fingerprint AS f ON f.id = p.fingerprint_id
               WHERE d.id IS NULL OR f.id IS NULL OR f.group_id <> d.group_id LIMIT :limit""",
            "parts whose document or fingerprint is missing or of another group",
        )
        yield from self._report(
            """SELECT d.id FROM (SELECT document_id, min(id) AS first FROM {index}_part GROUP BY document_id) AS o
               CROSS JOIN {index}_part AS p CROSS JOIN {index}_document AS d
               WHERE p.id = o.first AND d.id = o.document_id AND d.fingerprint_id IS NOT p.fingerprint_id LIMIT :limit""",
            "documents whose fingerprint is not that of their first part",
        )
        yield from self._report(
            """SELECT document_id FROM {index}_part GROUP BY document_id, part
               HAVING count(*) > 1 OR typeof(part) NOT IN ('text', 'integer', 'null') LIMIT :limit""",
            "documents with a part that has no name of its own",
        )

    def _encodings(self) -> Iterator[str]:
        """Keys, names and metadata are valid Unicode: reading invalid text raises CorruptIndexError."""
        parts = ["SELECT part FROM {index}_part"] if self.store.has_parts else []
        for sql in ("SELECT key, metadata FROM {index}_document", "SELECT name FROM {index}_group", *parts):
            for _ in self.store.stream(sql):
                pass
        yield from ()

    def _counters(self) -> Iterator[str]:
        """No counter can assign an id or label again, which would join unrelated documents."""
        yield from self._report(
            """SELECT name || ' ' || quote(seq) FROM sqlite_sequence
               WHERE name IN ('{index}_document', '{index}_fingerprint', '{index}_change', '{index}_allowed')
                   AND (typeof(seq) <> 'integer' OR seq NOT BETWEEN 0 AND :last_id) LIMIT :limit""",
            "highest ids that are not numbers of the right size",
            last_id=MAX_GIVEN_ID,
        )
        for table in ("document", "fingerprint"):
            yield from self._report(
                f"""SELECT max(id) FROM {{index}}_{table} HAVING max(id) >
                    coalesce((SELECT max(seq) FROM sqlite_sequence WHERE name = '{{index}}_{table}'), 0)""",
                f"ids of {self.store.name}_{table} above the highest one ever given",
            )
        if not self.store.record_matches:
            return
        yield from self._report(
            "SELECT value FROM {index}_setting WHERE name = 'next_cluster' AND value NOT BETWEEN -:last_id AND -1",
            "cluster labels that are never given",
            last_id=MAX_GIVEN_ID,
        )
        yield from self._report(
            """SELECT id FROM {index}_document
               WHERE cluster_id <= (SELECT value FROM {index}_setting WHERE name = 'next_cluster')
                   OR cluster_id > (SELECT max(id) FROM {index}_document) AND cluster_id >
                       coalesce((SELECT max(seq) FROM sqlite_sequence WHERE name = '{index}_document'), 0) LIMIT :limit""",
            "documents with a cluster label that was never given",
        )

    def _dismissed(self) -> Iterator[str]:
        """A dismissed pair is two documents without a recorded match and with unshared fingerprints."""
        if not self.store.dismisses:
            return
        pairs = """SELECT x.document_id || '-' || x.other_id FROM {index}_dismissed AS x
                   LEFT JOIN {index}_document AS a ON a.id = x.document_id LEFT JOIN {index}_document AS b ON b.id = x.other_id"""
        yield from self._report(
            f"{pairs} WHERE a.id IS NULL OR b.id IS NULL OR x.document_id <= x.other_id LIMIT :limit",
            "dismissed pairs that are not two documents",
        )
        yield from self._report(
            """SELECT m.document_id || '-' || m.other_id FROM {index}_dismissed AS x CROSS JOIN {index}_match AS m
               WHERE m.document_id = x.document_id AND m.other_id = x.other_id LIMIT :limit""",
            "dismissed pairs that are recorded as matches",
        )
        yield from self._report(
            """SELECT d.id FROM {index}_document AS d
               WHERE (d.id IN (SELECT document_id FROM {index}_dismissed) OR d.id IN (SELECT other_id FROM {index}_dismissed))
                   AND EXISTS (SELECT 1 FROM {index}_document AS e WHERE e.fingerprint_id = d.fingerprint_id AND e.id <> d.id)
               LIMIT :limit""",
            "dismissed documents that share their fingerprint",
        )

    def _allowed(self) -> Iterator[str]:
        """A document is exempt, without a fingerprint, if and only if it is similar to an allowed text."""
        store, documents = self.store, self.documents
        if not store.allows:
            return
        yield from self._report(
            """SELECT z.document_id FROM {index}_allowed_document AS z LEFT JOIN {index}_document AS d ON d.id = z.document_id
               WHERE d.id IS NULL OR d.fingerprint_id IS NOT NULL LIMIT :limit""",
            "documents set aside that are missing or have a fingerprint",
        )
        allowed = store.sketcher.allowed
        if allowed is None:
            allowed = Allowed(store.scheme, [])
        sql = """SELECT z.document_id, z.value, z.value_hash FROM {index}_allowed_document AS z
                 JOIN {index}_document AS d ON d.id = z.document_id WHERE z.document_id > ? ORDER BY z.document_id LIMIT ?"""
        differing = [
            number
            for number, value, value_hash in chain.from_iterable(store.pages(sql, limits.CHECKED_TEXTS))
            if not documents.is_sound(value, value_hash) or not allowed.covers(value)
        ]
        yield from with_examples("documents set aside that are like no allowed text", differing)
        yield from with_examples(
            "fingerprints that are like an allowed text", [number for number, _ in fingerprints_like(documents, allowed)]
        )

    def _changes(self) -> Iterator[str]:
        """A recorded change belongs to an existing document, unless it is a removal. A row with a key of an existing document
        records changed codes."""
        if not self.store.notes_changes:
            return
        missing = "c.document_id NOT IN (SELECT id FROM {index}_document)"
        invalid = f"c.key IS NULL AND {missing}" if self.store.has_parts else f"(c.key IS NULL) = ({missing})"
        yield from self._report(
            f"SELECT c.number FROM {{index}}_change AS c WHERE {invalid} LIMIT :limit",
            "changes of documents that are not there, or that are there and noted as removed",
        )
        yield from self._report(
            """WITH wanted(name, least, most) AS (VALUES ('change_log', 1, 9223372036854775807), ('changes_trimmed', 0,
                   (SELECT ifnull(max(seq), 0) FROM sqlite_sequence WHERE name = '{index}_change')))
               SELECT w.name || ' ' || quote(s.value) FROM wanted AS w LEFT JOIN {index}_setting AS s ON s.name = w.name
               WHERE typeof(s.value) <> 'integer' OR s.value NOT BETWEEN w.least AND w.most LIMIT :limit""",
            "settings of the log of changes that are missing or no such numbers",
        )

    def _window(self) -> Iterator[str]:
        invalid = expiry_outside(self.documents)
        if invalid is not None:
            _, condition, parameters = invalid
            sql = f"SELECT id FROM {{index}}_document WHERE {condition} LIMIT :limit"
            yield from self._report(sql, "documents that stay outside of the window", **parameters)

    def _large_clusters(self) -> Iterator[str]:
        """A large cluster equals one cluster, because an added document is compared with only a few of its documents."""
        yield from self._report(
            """SELECT f.id FROM {index}_fingerprint AS f WHERE f.crowd <> 0 AND (
                   0 = (SELECT value FROM {index}_setting WHERE name = 'crowds')
                   OR EXISTS (SELECT 1 FROM {index}_document AS d WHERE d.fingerprint_id = f.id
                       AND d.cluster_id IS NOT f.crowd)) LIMIT :limit""",
            "fingerprints in a crowd that is not their cluster",
        )
        if not self.store.settings["crowds"]:
            return
        yield from self._report(
            """WITH crowds(label) AS MATERIALIZED (SELECT DISTINCT crowd FROM {index}_fingerprint WHERE crowd <> 0)
               SELECT f.id FROM crowds AS c CROSS JOIN {index}_document AS d CROSS JOIN {index}_fingerprint AS f
               WHERE d.cluster_id = c.label AND f.id = d.fingerprint_id AND f.crowd = 0 LIMIT :limit""",
            "fingerprints that are not in the crowd of their cluster",
        )

    # ---- rows and texts against fingerprints ---------------------------------------------------------------------------

    def _candidates(self) -> Iterator[str]:
        table = self.store.table
        unreadable = table.unreadable()
        yield from with_examples(f"rows of {table.name} that do not hold the entries that were written", unreadable)
        if unreadable:
            return
        expected, missing_rows = 0, 0
        incomplete: list[int] = []
        for first, last in self.documents.filing_ranges(limits.FILING_BYTES):
            expected_rows, missing, ids = table.missing(first, last)
            expected += expected_rows
            missing_rows += missing
            incomplete += ids[: SHOWN + 1 - len(incomplete)]
        yield from with_examples(f"fingerprints without all their rows in {table.name}", incomplete)
        if table.count() != expected - missing_rows:
            yield from with_examples(f"fingerprint ids of rows that no fingerprint has in {table.name}", table.excess(SHOWN + 1))

    def _texts(self) -> Iterator[str]:
        """Stored texts match their fingerprints."""
        if not self.store.store_text:
            return
        changed: list[int] = []
        sql = """SELECT d.id, d.text, {value} FROM {index}_document AS d
                 LEFT JOIN {index}_fingerprint AS f ON f.id = d.fingerprint_id {aside}
                 WHERE d.id > ? AND d.text IS NOT NULL ORDER BY d.id LIMIT +?"""
        for rows in self.store.pages(sql, limits.CHECKED_TEXTS):
            values = self.store.scheme.values([row[1] for row in rows], self.store.rules).split()
            changed += [row[0] for row, value in zip(rows, values, strict=True) if row[2] != value]
        yield from with_examples("documents whose text is not the one that was fingerprinted", changed)

    # ---- matches and clusters ------------------------------------------------------------------------------------------

    def _labels(self) -> Iterator[str]:
        """Labels name the connected components of all pairs, expired documents included. Every recorded match is a real pair."""
        yield from self._connected()
        unconnected = set(islice(self._unconnected(), SHOWN + 1))
        if unconnected and self.store.dismisses:  # only the list of all pairs decides this
            every = ranges(self.joins.reading, None, lambda: EVER)
            unconnected = {number for pairs in every for number in self._split_pairs(pairs)}
        yield from with_examples("documents that match one of another cluster", sorted(unconnected))
        yield from self._recorded_code_matches() if self.store.has_parts else self._recorded_matches()

    def _matches(self) -> Iterator[str]:
        """A recorded match joins a document with an earlier one of the same cluster."""
        yield from self._report(
            """SELECT m.document_id || '-' || m.other_id FROM {index}_match AS m
               LEFT JOIN {index}_document AS a ON a.id = m.document_id LEFT JOIN {index}_document AS b ON b.id = m.other_id
               WHERE a.id IS NULL OR b.id IS NULL OR m.document_id <= m.other_id OR a.group_id <> b.group_id
                   OR a.cluster_id IS NULL OR a.cluster_id IS NOT b.cluster_id LIMIT :limit""",
            "recorded matches that do not join two documents of one cluster",
        )

    def _connected(self) -> Iterator[str]:
        """The recorded matches connect each cluster."""
        if not self.store.record_matches:
            return
        recorded = UnionFind()
        for document_id, other_id in self.store.stream("SELECT document_id, other_id FROM {index}_match"):
            recorded.union(document_id, other_id)
        first: dict[int, int] = {}
        sql = "SELECT id, cluster_id FROM {index}_document WHERE cluster_id IS NOT NULL ORDER BY id"
        apart = (
            document_id
            for document_id, label in self.store.rows(sql)
            if recorded.find(first.setdefault(label, document_id)) != recorded.find(document_id)
        )
        yield from with_examples("documents that no recorded match connects to their cluster", islice(apart, SHOWN + 1))

    def _unconnected(self) -> Iterator[int]:
        """Documents that match one with another label, the earlier of each two. Connecting pairs are enough: if any matching
        pair has two labels, so does a connecting one."""
        labels: dict[int, int] = {}
        copy = (0, 0, 0)
        members = self.store.frame("members")
        for number, document_id, _, label in self.store.stream(members, (1, MAX_ID, EVER, ACROSS_GROUPS, -1)):
            if copy[0] == number and copy[2] != label:
                yield copy[1]
            copy = number, document_id, label
            if label < ALONE or self.store.has_parts:  # the codes of a single document may match
                labels[number] = label
        for pair in self.joins.connections(EVER, large_clusters_joined=True):
            if labels.get(pair[0], 0) != labels.get(pair[1], 1):
                yield min(member.id for number in pair for member in self.joins.members_of(number, EVER))

    def _recorded_matches(self) -> Iterator[str]:
        """A recorded match has the similarity and distance of its fingerprints, and a query would find it."""
        scheme = self.store.scheme
        distance = "neardup_hamming(x.value, y.value)" if scheme.takes_codes else "NULL"
        similarity = "neardup_similarity('{index}', x.value, y.value)"
        keys = "neardup_probe('{index}', x.value) AS p CROSS JOIN neardup_probe('{index}', y.value) AS q WHERE p.low = q.low"
        share_key = "TRUE" if scheme.finds_all else f"EXISTS (SELECT 1 FROM {keys})"
        sql = f"""SELECT document_id, found_similarity >= :bound AND ifnull(found_distance <= :radius, TRUE) AND met FROM (
                      SELECT m.document_id, m.similarity, m.distance, {similarity} AS found_similarity,
                             {distance} AS found_distance, {share_key} AS met
                      FROM {{index}}_match AS m CROSS JOIN {{index}}_document AS a CROSS JOIN {{index}}_document AS b
                      CROSS JOIN {{index}}_fingerprint AS x CROSS JOIN {{index}}_fingerprint AS y
                      WHERE a.id = m.document_id AND b.id = m.other_id AND x.id = a.fingerprint_id AND y.id = b.fingerprint_id
                      LIMIT -1)  -- so that SQLite computes each similarity once
                  WHERE similarity IS NOT found_similarity OR distance IS NOT found_distance OR similarity < :bound
                      OR distance > :radius OR NOT met"""
        bound, radius = scheme.query_bounds(None, None)
        invalid = self.store.rows(sql, {"bound": bound, "radius": radius})
        unreal = {number for number, is_real in invalid if not is_real}
        differing = {number for number, is_real in invalid if is_real}
        yield from with_examples("documents with a recorded match to one that they do not match", sorted(unreal))
        yield from with_examples("documents with a recorded match of another similarity or distance", sorted(differing))

    def _recorded_code_matches(self) -> Iterator[str]:
        """A recorded match belongs to two codes of its documents, not necessarily the most similar ones."""
        _, radius = self.store.scheme.query_bounds(None, None)
        yield from self._report(
            """WITH codes(document_id, fingerprint_id) AS (
                   SELECT id, fingerprint_id FROM {index}_document UNION SELECT document_id, fingerprint_id FROM {index}_part)
               SELECT m.document_id FROM {index}_match AS m WHERE m.distance IS NULL OR m.distance > :radius
                   OR m.similarity <> max(0.0, 1.0 - :slope * m.distance / :bits) OR NOT EXISTS (
                       SELECT 1 FROM codes AS a CROSS JOIN {index}_fingerprint AS x
                       CROSS JOIN neardup_candidates('{index}', x.value, x.group_id, NULL, m.distance) AS n CROSS JOIN codes AS b
                       WHERE a.document_id = m.document_id AND x.id = a.fingerprint_id AND n.distance = m.distance
                           AND b.document_id = m.other_id AND b.fingerprint_id = n.fingerprint_id)
                LIMIT :limit""",
            "documents with a recorded match that no two codes make",
            radius=radius,
            **{name: value for name, value in self.store.scheme.query_parameters().items() if name in ("slope", "bits")},
        )

    def _split_pairs(self, pairs: RangePairs) -> Iterator[int]:
        sets = [(members, members) for members in pairs.members.values()]
        sets += [(pairs.members.get(a, []), pairs.members.get(b, [])) for a, b, *_ in pairs.matches]
        enough = 2 * len(pairs.dismissed) + SHOWN + 1  # at least one of these is not dismissed
        for members, others in sets:
            yield from (a for a, b in islice(_of_two_clusters(members, others), enough) if (a, b) not in pairs.dismissed)


def _of_two_clusters(firsts: list[Member], others: list[Member]) -> Iterator[tuple[int, int]]:
    labelled: dict[int, list[Member]] = {}
    for member in others:
        labelled.setdefault(member.cluster_id, []).append(member)
    for a in firsts:
        for label, members in labelled.items():
            if label != a.cluster_id:
                yield from ((min(a, b).id, max(a, b).id) for b in members)


def with_examples(message: str, examples: Iterable[object]) -> Iterator[str]:
    """The message with the first SHOWN examples; nothing without examples."""
    listed = list(examples)
    if listed:
        yield f"{message}: {', '.join(map(str, listed[:SHOWN]))}{', ...' if len(listed) > SHOWN else ''}"


def _catch_corruption(problems: Iterator[str]) -> Iterator[str]:
    try:
        yield from problems
    except CorruptIndexError as error:
        yield str(error)
