"""Checks the invariants of an index. Each has its own message."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from ... import limits
from ...errors import CorruptIndexError
from ...values import CheckReport
from ..asking.documents import EVER
from ..asking.fingerprints import ACROSS_GROUPS
from ..asking.joins import Member, RangePairs, ranges
from ..database import checksums
from ..following import pending
from ..layout import definitions
from ..layout.allowed import Allowed
from ..layout.candidates import MAX_ID
from ..layout.schema import ALONE
from ..layout.state import Store
from ..linking.allowing import fingerprints_like
from ..linking.clusters import Clusters
from ..linking.integrity import SHOWN, IntegrityChecks, with_examples
from ..writing.window import expiry_outside


class Checker:
    """Checks everything that is stored. The caller holds a transaction of the store, except for `pages`."""

    def __init__(self, store: Store, clusters: Clusters) -> None:
        self.store = store
        self.db = store.db
        self.documents = clusters.documents
        self.dismissed = clusters.dismissed
        self.joins = clusters.joins
        self.checks = IntegrityChecks(store)

    def pages(self) -> CheckReport:
        """Check all page checksums, if the file has any. No transaction may be open."""
        connection = self.db.connection
        damaged = checksums.damaged_pages(connection.filename) if checksums.has_checksums(connection) else []
        return CheckReport(tuple(with_examples("pages with a wrong checksum (restore a backup)", damaged)))

    def run(self) -> CheckReport:
        problems = [*_catch_corruption(self._integrity()), *_catch_corruption(self._definitions())]
        if problems:  # the tables are unreliable, so no other invariant can be checked
            return CheckReport(tuple(problems))
        damaged = self.damaged()
        problems += with_examples("fingerprints whose value is damaged", damaged)
        checks = self.checks
        own = checks.ids, checks.fingerprints, checks.documents, self._parts, self._encodings, checks.counters
        for part in (*own, self._dismissed, self._changes, self._window, checks.large_clusters):
            problems += _catch_corruption(part())
        if not damaged:  # candidate rows are computed from values, so damaged values would be misreported
            problems += _catch_corruption(self._allowed())
            problems += _catch_corruption(self._candidates())
            problems += _catch_corruption(self._texts())
        problems += _catch_corruption(checks.matches())
        if not problems and self.store.record_matches:
            problems += _catch_corruption(self._labels())
        if self.store.following is None:
            return CheckReport(tuple(problems))
        followed = list(pending.problems(self.store))
        notes = () if followed else tuple(pending.notes(self.store))
        return CheckReport((*problems, *followed), notes=notes)

    # ---- SQLite and its schema ---------------------------------------------------------------------------------------

    def _integrity(self) -> Iterator[str]:
        for (message,) in self.db.rows("PRAGMA integrity_check(5)"):
            if message != "ok":
                yield f"SQLite's integrity check: {message}"

    def _definitions(self) -> Iterator[str]:
        names = definitions.changed(self.db, self.store.name, self.store.scheme.table, self.store.optional)
        yield from with_examples("tables, indexes or views that are missing or changed", names)

    # ---- one row ------------------------------------------------------------------------------------------------------

    def damaged(self) -> list[int]:
        """The ids of fingerprints whose value does not match its hash or does not fit the scheme."""
        damaged: list[int] = []
        last = 0
        sql = self.store.sql("SELECT id, value, value_hash FROM {index}_fingerprint WHERE id > ? ORDER BY id LIMIT ?")
        while rows := self.db.page(sql, last, limits.CHECKED_VALUES):
            damaged += [number for number, value, value_hash in rows if not self.documents.is_sound(value, value_hash)]
            last = rows[-1][0]
        return damaged

    def _parts(self) -> Iterator[str]:
        """The codes of a document are fingerprints of its group, the first one is that of its row, and their parts are
        distinct."""
        if not self.store.has_parts:
            return
        yield from self.checks.report(
            """SELECT p.id FROM {index}_part AS p LEFT JOIN {index}_document AS d ON d.id = p.document_id
               LEFT JOIN {index}_fingerprint AS f ON f.id = p.fingerprint_id
               WHERE d.id IS NULL OR f.id IS NULL OR f.group_id <> d.group_id LIMIT :limit""",
            "parts whose document or fingerprint is missing or of another group",
        )
        yield from self.checks.report(
            """SELECT d.id FROM (SELECT document_id, min(id) AS first FROM {index}_part GROUP BY document_id) AS o
               CROSS JOIN {index}_part AS p CROSS JOIN {index}_document AS d
               WHERE p.id = o.first AND d.id = o.document_id AND d.fingerprint_id IS NOT p.fingerprint_id LIMIT :limit""",
            "documents whose fingerprint is not that of their first part",
        )
        yield from self.checks.report(
            """SELECT document_id FROM {index}_part GROUP BY document_id, part
               HAVING count(*) > 1 OR typeof(part) NOT IN ('text', 'integer', 'null') LIMIT :limit""",
            "documents with a part that has no name of its own",
        )

    def _encodings(self) -> Iterator[str]:
        """Keys, names and metadata are valid Unicode: reading invalid text raises CorruptIndexError."""
        parts = ["SELECT part FROM {index}_part"] if self.store.has_parts else []
        for sql in ("SELECT key, metadata FROM {index}_document", "SELECT name FROM {index}_group", *parts):
            for _ in self.db.stream(self.store.sql(sql)):
                pass
        yield from ()

    def _dismissed(self) -> Iterator[str]:
        """A dismissed pair is two documents without a recorded match and with unshared fingerprints."""
        if not self.store.dismisses:
            return
        pairs = """SELECT x.document_id || '-' || x.other_id FROM {index}_dismissed AS x
                   LEFT JOIN {index}_document AS a ON a.id = x.document_id LEFT JOIN {index}_document AS b ON b.id = x.other_id"""
        yield from self.checks.report(
            f"{pairs} WHERE a.id IS NULL OR b.id IS NULL OR x.document_id <= x.other_id LIMIT :limit",
            "dismissed pairs that are not two documents",
        )
        yield from self.checks.report(
            """SELECT m.document_id || '-' || m.other_id FROM {index}_dismissed AS x CROSS JOIN {index}_match AS m
               WHERE m.document_id = x.document_id AND m.other_id = x.other_id LIMIT :limit""",
            "dismissed pairs that are recorded as matches",
        )
        yield from self.checks.report(
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
        yield from self.checks.report(
            """SELECT z.document_id FROM {index}_allowed_document AS z LEFT JOIN {index}_document AS d ON d.id = z.document_id
               WHERE d.id IS NULL OR d.fingerprint_id IS NOT NULL LIMIT :limit""",
            "documents set aside that are missing or have a fingerprint",
        )
        allowed = store.sketcher.allowed
        if allowed is None:
            allowed = Allowed(store.scheme, [])
        differing: list[int] = []
        sql = store.sql(
            """SELECT z.document_id, z.value, z.value_hash FROM {index}_allowed_document AS z
               JOIN {index}_document AS d ON d.id = z.document_id WHERE z.document_id > ? ORDER BY z.document_id LIMIT ?"""
        )
        last = 0
        while page := self.db.page(sql, last, limits.CHECKED_TEXTS):
            for number, value, value_hash in page:
                if not documents.is_sound(value, value_hash) or not allowed.covers(value):
                    differing.append(number)
            last = page[-1][0]
        yield from with_examples("documents set aside that are like no allowed text", differing)
        yield from with_examples(
            "fingerprints that are like an allowed text", [number for number, _ in fingerprints_like(store, documents, allowed)]
        )

    def _changes(self) -> Iterator[str]:
        """A recorded change belongs to an existing document, unless it is a removal. A row with a key of an existing document
        records changed codes."""
        if not self.store.notes_changes:
            return
        missing = "c.document_id NOT IN (SELECT id FROM {index}_document)"
        invalid = f"c.key IS NULL AND {missing}" if self.store.has_parts else f"(c.key IS NULL) = ({missing})"
        yield from self.checks.report(
            f"SELECT c.number FROM {{index}}_change AS c WHERE {invalid} LIMIT :limit",
            "changes of documents that are not there, or that are there and noted as removed",
        )
        yield from self.checks.report(
            """WITH wanted(name, least, most) AS (VALUES ('change_log', 1, 9223372036854775807), ('changes_trimmed', 0,
                   (SELECT ifnull(max(seq), 0) FROM sqlite_sequence WHERE name = '{index}_change')))
               SELECT w.name || ' ' || quote(s.value) FROM wanted AS w LEFT JOIN {index}_setting AS s ON s.name = w.name
               WHERE typeof(s.value) <> 'integer' OR s.value NOT BETWEEN w.least AND w.most LIMIT :limit""",
            "settings of the log of changes that are missing or no such numbers",
        )

    def _window(self) -> Iterator[str]:
        invalid = expiry_outside(self.store, self.documents)
        if invalid is not None:
            _, condition, parameters = invalid
            sql = f"SELECT id FROM {{index}}_document WHERE {condition} LIMIT :limit"
            yield from self.checks.report(sql, "documents that stay outside of the window", **parameters)

    # ---- rows and texts against fingerprints ---------------------------------------------------------------------------

    def _candidates(self) -> Iterator[str]:
        table = self.store.table
        unreadable = table.unreadable()
        yield from with_examples(f"rows of {table.name} that do not hold the entries that were written", unreadable)
        if unreadable:
            return
        expected, missing_rows = 0, 0
        incomplete: list[int] = []
        for first, last in self.documents.fingerprint_ranges(limits.CHECKED_PAGE):
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
        last = 0
        sql = self.store.sql(
            """SELECT d.id, d.text, {value} FROM {index}_document AS d
               LEFT JOIN {index}_fingerprint AS f ON f.id = d.fingerprint_id {aside}
               WHERE d.id > ? AND d.text IS NOT NULL ORDER BY d.id LIMIT +?"""
        )
        while rows := self.db.page(sql, last, limits.CHECKED_TEXTS):
            values = self.store.scheme.values([row[1] for row in rows], self.store.rules).values
            changed += [row[0] for row, value in zip(rows, values, strict=True) if row[2] != value]
            last = rows[-1][0]
        yield from with_examples("documents whose text is not the one that was fingerprinted", changed)

    # ---- matches and clusters ------------------------------------------------------------------------------------------

    def _labels(self) -> Iterator[str]:
        """Labels name the connected components of all pairs, expired documents included. Every recorded match is a real pair."""
        yield from self.checks.connected()
        unconnected = set(islice(self._unconnected(), SHOWN + 1))
        if unconnected and self.store.dismisses:  # only the list of all pairs decides this
            every = ranges(self.joins.reading, None, lambda: EVER)
            unconnected = {number for pairs in every for number in self._split_pairs(pairs)}
        yield from with_examples("documents that match one of another cluster", sorted(unconnected))
        yield from self._recorded_code_matches() if self.store.has_parts else self._recorded_matches()

    def _unconnected(self) -> Iterator[int]:
        """Documents that match one with another label, the earlier of each two. Connecting pairs are enough: if any matching
        pair has two labels, so does a connecting one."""
        labels: dict[int, int] = {}
        copy = (0, 0, 0)
        members = self.store.sql(self.store.frame("members"))
        for number, document_id, _, label in self.db.stream(members, (1, MAX_ID, EVER, ACROSS_GROUPS, -1)):
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
        invalid = self.db.rows(self.store.sql(sql), {"bound": bound, "radius": radius})
        unreal = {number for number, is_real in invalid if not is_real}
        differing = {number for number, is_real in invalid if is_real}
        yield from with_examples("documents with a recorded match to one that they do not match", sorted(unreal))
        yield from with_examples("documents with a recorded match of another similarity or distance", sorted(differing))

    def _recorded_code_matches(self) -> Iterator[str]:
        """A recorded match belongs to two codes of its documents, not necessarily the most similar ones."""
        _, radius = self.store.scheme.query_bounds(None, None)
        yield from self.checks.report(
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


def _catch_corruption(problems: Iterator[str]) -> Iterator[str]:
    try:
        yield from problems
    except CorruptIndexError as error:
        yield str(error)
