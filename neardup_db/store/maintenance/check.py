"""Checks the invariants of an index. Each has its own message."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import chain, islice

from ... import limits
from ...errors import CorruptIndexError, MismatchError
from ...values import CheckReport
from ..clustering.allowing import fingerprints_like
from ..clustering.clusters import Clusters
from ..clustering.edges import UnionFind
from ..database import checksums
from ..following import triggers
from ..following.scan import lost_triggers, read_scan
from ..following.table import find_followed_table
from ..ingest.window import expiry_outside
from ..layout import definitions, schema
from ..layout.candidates import MAX_GIVEN_ID, MAX_ID
from ..layout.following import Following
from ..layout.schema import ALONE
from ..layout.sketches import Allowed
from ..query.documents import EVER
from ..query.fingerprints import ACROSS_GROUPS
from ..query.joins import FingerprintPairs, ranges
from ..query.parts import Parts

SHOWN = 5  # the maximum number of examples in a problem message


_TABLES = re.compile(r"(?:FROM|JOIN) \{index\}_([a-z]+)")


@cache
def _invariants() -> list[tuple[str, str]]:
    """(message, statement) of each invariant in sql/invariants.sql."""
    _, *blocks = schema.with_fragments(schema.read_sql("invariants")).split("\n\n-- ")
    return [(message, sql) for message, _, sql in (block.partition("\n") for block in blocks)]


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
        rows = (self._violations(*invariant) for invariant in _invariants())
        problems += chain.from_iterable(map(_catch_corruption, (*rows, self._encodings(), self._window())))
        if not damaged:  # candidate rows are computed from values, so damaged values would be misreported
            problems += _catch_corruption(self._allowed())
            problems += _catch_corruption(self._candidates())
            problems += _catch_corruption(self._texts())
        if not problems and self.store.record_matches:
            problems += _catch_corruption(self._labels())
        if self.store.following is None:
            return CheckReport(tuple(problems))
        followed, notes = self._following(self.store.following)
        return CheckReport((*problems, *followed), notes=notes)

    def _report(self, sql: str, message: str, **parameters: int) -> Iterator[str]:
        """The message with the first values that a query with :limit returns; nothing without values."""
        rows = self.store.rows(sql, {"limit": SHOWN + 1, **parameters})
        yield from with_examples(message, [row[0] for row in rows])

    def _violations(self, message: str, sql: str) -> Iterator[str]:
        store = self.store
        if set(_TABLES.findall(sql)).intersection(schema.OPTIONAL) <= set(store.optional):
            flags = ("dismisses", "record_matches", "store_text", "has_parts", "notes_changes")
            parameters = {name: getattr(store, name) for name in flags}
            parameters |= {"last_id": MAX_GIVEN_ID, "last_part": Parts.MOST, "crowds": store.settings["crowds"]}
            yield from self._report(f"{sql} LIMIT :limit", message.replace("{index}", store.name), **parameters)

    def _following(self, following: Following) -> tuple[list[str], tuple[str, ...]]:
        """(problems, what the next sync does) of a followed table. Compares no rows: `sync(full=True)` does."""
        store, notes = self.store, []
        try:
            table = find_followed_table(store.db, following)
        except MismatchError as error:
            return [str(error)], ()
        scan = read_scan(store)
        reason = None if scan is None else scan.reason
        if not triggers.has_triggers(store, table):
            reason = lost_triggers(table.name)
        if reason is not None:
            notes.append(f"all rows of {table.name} are to be compared ({reason}): sync() does it")
        count = store.value("SELECT count(*) FROM main.{index}_pending") if triggers.tables_exist(store) else 0
        if count:
            notes.append(f"{count:,} changes of {table.name} are pending: sync() takes them over")
        return [], tuple(notes)

    # ---- SQLite and its schema ---------------------------------------------------------------------------------------

    def _schema(self) -> Iterator[str]:
        for (message,) in self.store.db.rows("PRAGMA integrity_check(5)"):
            if message != "ok":
                yield f"SQLite's integrity check: {message}"
        names = definitions.changed(self.store.db, self.store.definitions)
        yield from with_examples("tables, indexes or views that are missing or changed", names)

    # ---- one row ------------------------------------------------------------------------------------------------------

    def _damaged(self) -> list[int]:
        """The ids of fingerprints whose value does not match its hash or does not fit the scheme."""
        sql = "SELECT id, value, value_hash FROM {index}_fingerprint WHERE id > ? ORDER BY id LIMIT ?"
        rows = chain.from_iterable(self.store.pages(sql, limits.CHECKED_VALUES))
        return [number for number, value, value_hash in rows if not self.documents.is_sound(value, value_hash)]

    def ids(self) -> Iterator[str]:
        """Ids are in their range. Queries and candidate rows depend on it, so a repair refuses others."""
        for message, sql in _invariants():
            if message.startswith("ids of") and "never given" in message:
                yield from self._violations(message, sql)

    def _encodings(self) -> Iterator[str]:
        """Keys, names and metadata are valid Unicode: reading invalid text raises CorruptIndexError."""
        parts = ["SELECT part FROM {index}_part"] if self.store.has_parts else []
        for sql in ("SELECT key, metadata FROM {index}_document", "SELECT name FROM {index}_group", *parts):
            for _ in self.store.stream(sql):
                pass
        yield from ()

    def _window(self) -> Iterator[str]:
        invalid = expiry_outside(self.documents)
        if invalid is not None:
            _, condition, parameters = invalid
            sql = f"SELECT id FROM {{index}}_document WHERE {condition} LIMIT :limit"
            yield from self._report(sql, "documents that stay outside of the window", **parameters)

    def _allowed(self) -> Iterator[str]:
        """A document is exempt, without a fingerprint, if and only if it is similar to an allowed text."""
        store, documents = self.store, self.documents
        if not store.allows:
            return
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

    def _connected(self) -> Iterator[str]:
        """The recorded matches connect each cluster."""
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
        """Documents that match one of another label, the earlier ones. If any pair has two labels, so has a connecting one."""
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
        parameters = self.store.scheme.query_parameters()
        yield from self._report(
            schema.sql_text("recorded_code_matches") + " LIMIT :limit",
            "documents with a recorded match that no two codes make",
            radius=self.store.scheme.query_bounds(None, None)[1],
            **{name: parameters[name] for name in ("slope", "bits")},
        )

    def _split_pairs(self, pairs: FingerprintPairs) -> Iterator[int]:
        """The earlier document of pairs with two labels. Dismissed documents share no fingerprint, so the first ones decide."""
        firsts = {}
        for number, (first, *others) in pairs.members.items():
            firsts[number] = first
            yield from (first.id for other in others if other.cluster_id != first.cluster_id)
        for number, other_number, *_ in pairs.matches:
            a, b = sorted((firsts[number], firsts[other_number]))
            if a.cluster_id != b.cluster_id and (a.id, b.id) not in pairs.dismissed:
                yield a.id


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
