"""Queries: the SQL of `sql/` with its parameters."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from itertools import groupby, starmap
from operator import attrgetter
from typing import Any, NamedTuple

import apsw

from ... import comparing, limits
from ...errors import CorruptIndexError, NearDupError, ParameterError
from ...parameters import Measure, check_asked_group, check_limit, check_measure
from ...schemes.codes import Code
from ...values import AnyGroup, Key, Match, Part
from ..database.connection import Statements
from ..layout import schema
from ..layout.candidates import MAX_ID
from ..layout.sketches import Sketch
from ..layout.state import CompiledStatement, Store
from .dismissed import Dismissed
from .documents import DocumentRow, Documents
from .fingerprints import ACROSS_GROUPS
from .parts import nearest_codes


@dataclass(slots=True, eq=False)
class QuerySpec:
    """The text or code of a query and its options. Never changed; not frozen, because every query creates one.

    Raises ParameterError for a wrong measure, limit or group; text, code and bounds are checked with the scheme. any: accept any
    `limit` matches instead of the best.
    """

    text: str | bytes | None = None
    code: Code | None = None
    threshold: float | None = None
    max_distance: int | None = None
    measure: Measure | None = None
    limit: int | None = None
    any: bool = False
    group: Key | AnyGroup | None = None

    def __post_init__(self) -> None:
        if self.measure is not None or self.limit is not None or self.group is not None:  # else nothing is to be checked
            self.measure, self.limit = check_measure(self.measure), check_limit(self.limit)
            self.group = check_asked_group(self.group)
        if self.measure is not None and isinstance(self.group, AnyGroup):
            raise ParameterError(f"group=ANY_GROUP does not go with measure={self.measure!r}: ask one group after the other")

    def sketch(self, store: Store) -> Sketch:
        if self.text is None:
            return store.sketcher.code(self.code)
        return store.sketcher.text(self.text)


DEFAULT_QUERY = QuerySpec()  # every document that matches by the threshold of the index


class Neighbour(NamedTuple):
    """An earlier document that matches a new one; it represents all documents of its fingerprint."""

    id: int
    cluster_id: int
    similarity: float
    distance: int | None
    fingerprint_id: int


class MatchRow(NamedTuple):
    key: Key
    similarity: float
    distance: int | None
    id: int
    part: Part | None = None

    @property
    def match(self) -> Match:
        return Match(self.key, self.similarity, self.distance, self.part)


_PLACES = dict.fromkeys(("fingerprint", "group_id", "now", "outlined", "settled", "limit", "except_id", "before_id", "crowd"))
"""Parameters that vary between queries with the same bounds."""


class Search(Statements):
    failures = UnicodeDecodeError, apsw.SQLError

    def __init__(self, documents: Documents) -> None:
        self.store, self.db, self.documents = documents.store, documents.db, documents
        self.dismissed = Dismissed(documents)

    def _verify(self, measure: str | None = None) -> str:
        return self.store.verification if measure is None else self.store.scheme.verification(measure)

    def parameters(self, sketch: Sketch, group_id: int, now: int, spec: QuerySpec = DEFAULT_QUERY) -> dict[str, Any]:
        store = self.store
        is_default = spec.threshold is None and spec.max_distance is None and spec.measure is None
        if not is_default or (known := store.default_parameters) is None:
            known = self._bounds(spec)
            if is_default:
                store.default_parameters = known
        values = known.copy()  # a copy already has all keys, so the dictionary does not grow
        values["fingerprint"], values["group_id"], values["now"] = sketch.value, group_id, now
        values["outlined"], values["settled"] = store.outlined, store.settled
        return values

    def _bounds(self, spec: QuerySpec) -> dict[str, Any]:
        scheme = self.store.scheme
        threshold, radius = scheme.query_bounds(spec.threshold, spec.max_distance, spec.measure)
        return {**_PLACES, **scheme.query_parameters(), "threshold": threshold, "max_distance": radius}

    def matches(
        self, sketch: Sketch, group_id: int, now: int, spec: QuerySpec = DEFAULT_QUERY, *, except_id: int = 0
    ) -> list[MatchRow]:
        """The visible documents that match, best first, ties in insertion order."""
        return list(starmap(MatchRow, self.match_rows(sketch, group_id, now, spec, except_id)))

    def match_rows(self, sketch: Sketch, group_id: int, now: int, spec: QuerySpec, except_id: int = 0) -> list[tuple[Any, ...]]:
        """`matches` as tuples (key, similarity, distance, id), plus the part in an index with parts; see `build_matches`."""
        parameters = self.parameters(sketch, group_id, now, spec)
        if sketch.value is None:
            return []
        limit = spec.limit
        parameters["limit"], parameters["except_id"] = -1 if limit is None else limit, except_id
        verify = self.store.verification if spec.measure is None else self._verify(spec.measure)
        frame = "matches_any" if spec.any and not self.store.has_parts else "matches"
        query = self.store.query(frame, verify, "", "" if limit is None else " LIMIT +:limit", self._source(group_id))
        return self.answer(query, parameters)

    def build_matches(self, rows: list[tuple[Any, ...]]) -> list[Match]:
        if self.store.has_parts:
            return [Match(key, similarity, distance, part) for key, similarity, distance, _, part in rows]
        return [Match(key, similarity, distance) for key, similarity, distance, _ in rows]

    def matches_of(
        self, document_id: int, sketch: Sketch, group_id: int, now: int, spec: QuerySpec = DEFAULT_QUERY
    ) -> list[MatchRow]:
        """`matches` of a stored document without itself and its dismissed pairs, by all its codes. sketch: the first one."""
        if not self.store.dismisses and not self.store.has_parts:
            return self.matches(sketch, group_id, now, spec, except_id=document_id)
        dismissed = self.dismissed.dismissed_with(document_id) if self.store.dismisses else ()
        if not dismissed:
            return self._of_codes(document_id, sketch, group_id, now, spec)
        limit = None if spec.limit is None else spec.limit + len(dismissed)
        extended = QuerySpec(threshold=spec.threshold, max_distance=spec.max_distance, measure=spec.measure, limit=limit)
        rows = self._of_codes(document_id, sketch, group_id, now, extended)
        return [row for row in rows if row.id not in dismissed][: spec.limit]

    def _of_codes(self, document_id: int, sketch: Sketch, group_id: int, now: int, spec: QuerySpec) -> list[MatchRow]:
        """`matches_of` by all codes of a document; each other document appears once, with its best code."""
        numbers = self.documents.fingerprints_of(document_id, None)
        if len(numbers) < 2:
            return self.matches(sketch, group_id, now, spec, except_id=document_id)
        best: dict[int, MatchRow] = {}
        for number in numbers:
            for row in self.matches(self.stored_sketch(number), group_id, now, spec, except_id=document_id):
                if row.id not in best or row.similarity > best[row.id].similarity:
                    best[row.id] = row
        return sorted(best.values(), key=lambda row: (-row.similarity, row.id))[: spec.limit]

    def stored_matches(self, document_id: int, now: int, *, dismissed: bool = False) -> list[MatchRow]:
        """`matches_of` a document id; dismissed: include dismissed pairs."""
        sql = "SELECT fingerprint_id, group_id FROM {index}_document WHERE id = ? AND fingerprint_id IS NOT NULL"
        row = self.store.row(sql, (document_id,))
        ask = self._of_codes if dismissed else self.matches_of
        return [] if row is None else ask(document_id, self.stored_sketch(row[0]), row[1], now, DEFAULT_QUERY)

    def count(self, sketch: Sketch, group_id: int, now: int, spec: QuerySpec, since: int) -> tuple[Any, ...]:
        """(count, times seen, first added, last added, last seen) of the visible matches added since, in one statement."""
        parameters = self.parameters(sketch, group_id, now, spec)
        if sketch.value is None:
            return 0, 0, None, None, None
        parameters["since"] = since
        query = self.store.query("count", self._verify(spec.measure), source=self._source(group_id))
        return self.answer(query, parameters)[0]

    def has_match(self, sketch: Sketch, group_id: int, now: int, after_id: int, before_id: int) -> bool:
        parameters = self.parameters(sketch, group_id, now)
        if sketch.value is None:
            return False
        parameters["after_id"], parameters["before_id"] = after_id, before_id
        return bool(self.answer(self.store.query("earlier_any", self._verify()), parameters))

    def has_earlier(self, sketch: Sketch, group_id: int, now: int, except_id: int, before_id: int, before_part: int) -> bool:
        """True if another visible document had a matching code before these document and code ids. For an index with parts."""
        parameters = self.parameters(sketch, group_id, now)
        parameters["except_id"], parameters["before_id"], parameters["before_part"] = except_id, before_id, before_part
        return bool(self.answer(self.store.query("earlier_code", self._verify()), parameters))

    def _source(self, group_id: int) -> str:
        """The SQL of the candidate source for a query across all groups, else ""."""
        if group_id != ACROSS_GROUPS:
            return ""
        groups: int = self.store.value("SELECT count(*) FROM {index}_group")
        return self.store.table.across(groups + 1, self.documents.last_fingerprint_id())

    def neighbours(
        self, sketch: Sketch, group_id: int, now: int, before_id: int = MAX_ID, first_id: int = 0, except_id: int = 0
    ) -> list[Neighbour]:
        """The newest document before `before_id` of each matching fingerprint, expired or not, best first.

        A large cluster contributes the first `limits.FROM_CROWD` visible matches found, or one expired match, which connects
        as well. except_id: in an index with parts, the document that gets another code; its dismissed pairs are excluded.
        """
        if sketch.value is None:
            return []
        parameters = self.parameters(sketch, group_id, now)
        parameters["before_id"] = before_id
        if self.store.has_parts:
            parameters["except_id"] = except_id
            rows = self.answer(self.store.query("neighbours", self._verify()), parameters)
            dismissed = self.dismissed.dismissed_with(except_id) if except_id and self.store.dismisses else ()
            return [Neighbour._make(row[:5]) for row in rows if row[0] not in dismissed]
        query = self.store.query("neighbours", self._verify(), ", 0" if self.store.has_large_clusters else "")
        neighbours = [Neighbour._make(row[:5]) for row in self.answer(query, parameters)]
        if self.store.has_large_clusters:
            for label in self.store.table.large_clusters(parameters):
                neighbours += self._from_crowd({**parameters, "crowd": label}, first_id)
            neighbours.sort(key=lambda neighbour: (-neighbour.similarity, -neighbour.id))
        return neighbours

    def _from_crowd(self, parameters: dict[str, Any], first_id: int) -> list[Neighbour]:
        """The first visible matches of a large cluster from this id on, or else one expired match."""
        query = self.store.query("neighbours_any", self._verify(), ", :crowd")
        visible: list[Neighbour] = []
        expired: list[Neighbour] = []
        with closing(self.stream(query.sql, query.values(parameters))) as rows:
            for *row, is_visible in rows:
                if is_visible and row[0] < first_id:
                    continue
                if is_visible:
                    visible.append(Neighbour._make(row))
                    if len(visible) == limits.FROM_CROWD:
                        break
                elif not expired:
                    expired.append(Neighbour._make(row))
        return visible or expired

    def answer(self, query: CompiledStatement, parameters: dict[str, Any]) -> list[tuple[Any, ...]]:
        """The rows of a prepared query. Only damage to stored rows can make it fail."""
        if query.statement is None or self.db.connection.exec_trace is not None:
            return self.rows(query.sql, query.values(parameters))
        try:
            return query.statement.rows(query.values(parameters))
        except self.failures as error:
            raise self.failure(error) from error

    def execute(self, sql: str, bindings: Any = None) -> apsw.Cursor:
        return self.store.execute(sql, bindings)

    def failure(self, error: Any) -> NearDupError:
        if isinstance(error, UnicodeDecodeError):
            return super().failure(error)
        return schema.temp_object_error(self.db, self.store.name) or CorruptIndexError(
            f"a query of index {self.store.name!r} failed over what is stored ({error}): run check(repair=True), "
            "or restore a backup"
        )

    def best_of(
        self, neighbours: list[Neighbour], limit: int, now: int, before_id: int = MAX_ID, first_id: int = 0, except_id: int = 0
    ) -> list[MatchRow]:
        """The first `limit` matches among the fingerprints' documents, in the order of `matches`: each once, by its best code.

        Reads no more documents than needed, because thousands of copies may share one fingerprint.
        """
        values = first_id, before_id, except_id, now, limit
        best: dict[int, MatchRow] = {}
        for _, tied in groupby(neighbours, attrgetter("similarity")) if neighbours else ():  # mostly there are none
            sql = self.store.frame("best")
            rows = [
                (number, order, MatchRow(key, neighbour.similarity, neighbour.distance, number, part))
                for neighbour in tied
                for number, key, order, part in self.store.rows(sql, (neighbour.fingerprint_id, *values))
            ]
            for number, _, row in sorted(rows):  # no two have the same number and order
                best.setdefault(number, row)
            if len(best) >= limit:
                break
        return list(best.values())[:limit]

    def closest(self, a: DocumentRow, b: DocumentRow) -> tuple[int | None, int | None]:
        if not self.store.has_parts:
            return a.fingerprint_id, b.fingerprint_id
        numbers = [self.documents.fingerprints_of(one.id, one.fingerprint_id) for one in (a, b)]
        if not all(numbers):
            return a.fingerprint_id, b.fingerprint_id
        i, j = nearest_codes(*([self.documents.value(number) for number in ids] for ids in numbers))
        return numbers[0][i], numbers[1][j]

    def compared(self, a: Sketch, b: Sketch) -> tuple[float, int | None]:
        if a.value is None or b.value is None:
            return 0.0, None
        return comparing.similarity(self.store.scheme.native, a.value, b.value)

    def stored_sketch(self, fingerprint_id: int) -> Sketch:
        return self.sketch_of(self.documents.value(fingerprint_id))

    def sketch_of(self, value: bytes | None) -> Sketch:
        return Sketch(value, None, self.store.epoch)
