"""Queries: the shared SQL with its parameters."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from itertools import groupby, starmap
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

import apsw

from ... import limits
from ...errors import CorruptIndexError, NearDupError
from ...values import Key, Match, Part
from ..database.connection import undecodable
from ..layout import schema
from ..layout.candidates import MAX_ID
from ..layout.sketches import Sketch
from ..layout.state import Query, Store
from .dismissed import Dismissed
from .documents import DocumentRow, Documents
from .fingerprints import ACROSS_GROUPS
from .parts import nearest_codes
from .question import USUAL, Question


class Neighbour(NamedTuple):
    """A document that a new one is connected to, standing for all documents of its fingerprint."""

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


_PLACES = dict.fromkeys(
    ("fingerprint", "group_id", "now", "outlined", "settled", "limit", "except_id", "before_id", "crowd")
)
"""Parameters that questions of one rule have different values of."""


class Search:
    """Asks the candidate tables; runs inside the store's transactions."""

    def __init__(self, store: Store, documents: Documents) -> None:
        self.store = store
        self.documents = documents
        self.dismissed = Dismissed(store, documents)
        self.db = store.db

    def _verify(self, measure: str | None = None) -> str:
        return self.store.verification if measure is None else self.store.scheme.verification(measure)

    def parameters(self, sketch: Sketch, group_id: int, now: int, question: Question = USUAL) -> dict[str, Any]:
        store = self.store
        usual = question.threshold is None and question.max_distance is None and question.measure is None
        if not usual or (known := store.usual) is None:
            known = self._bounds(question)
            if usual:
                store.usual = known
        found = known.copy()  # with room for what is set here: no dictionary grows
        found["fingerprint"], found["group_id"], found["now"] = sketch.value, group_id, now
        found["outlined"], found["settled"] = store.outlined, store.settled
        return found

    def _bounds(self, question: Question) -> dict[str, Any]:
        """The parameters that the rule gives, and a place for each of the others."""
        scheme = self.store.scheme
        bounds = scheme.query_bounds if question.measure is None else scheme.containment_bounds
        threshold, radius = bounds(question.threshold, question.max_distance)
        return {**_PLACES, **scheme.query_parameters(), "threshold": threshold, "max_distance": radius}

    def matches(
        self, sketch: Sketch, group_id: int, now: int, question: Question = USUAL, *, except_id: int = 0
    ) -> list[MatchRow]:
        """Visible documents that answer the question, best first, ties in the order of insertion; the sketch is the
        question's, or that of a stored document."""
        return list(starmap(MatchRow, self.match_rows(sketch, group_id, now, question, except_id)))

    def match_rows(
        self, sketch: Sketch, group_id: int, now: int, question: Question, except_id: int = 0
    ) -> list[tuple[Any, ...]]:
        """The same as plain tuples (key, similarity, distance, id), of an index with parts also the part: most questions need no
        more, and `made` makes matches of them."""
        parameters = self.parameters(sketch, group_id, now, question)
        if sketch.value is None:
            return []
        limit = question.limit
        parameters["limit"], parameters["except_id"] = -1 if limit is None else limit, except_id
        verify = self.store.verification if question.measure is None else self._verify(question.measure)
        frame = "matches_any" if question.any else "matches"
        query = self.store.query(frame, verify, "", "" if limit is None else " LIMIT +:limit", self._source(group_id))
        return self.answer(query, parameters)

    def build_matches(self, rows: list[tuple[Any, ...]]) -> list[Match]:
        """The matches of `match_rows`."""
        if self.store.has_parts:
            return [Match(key, similarity, distance, part) for key, similarity, distance, _, part in rows]
        return [Match(key, similarity, distance) for key, similarity, distance, _ in rows]

    def matches_of(self, document_id: int, sketch: Sketch, group_id: int, now: int, question: Question = USUAL) -> list[MatchRow]:
        """`matches` of a stored document, without itself and without those that are dismissed as its duplicates. The sketch is
        that of its first code; of several codes each is asked for."""
        if not self.store.dismisses and not self.store.has_parts:
            return self.matches(sketch, group_id, now, question, except_id=document_id)
        without = self.dismissed.dismissed_with(document_id) if self.store.dismisses else ()
        if not without:
            return self._of_codes(document_id, sketch, group_id, now, question)
        limit = None if question.limit is None else question.limit + len(without)
        more = Question(threshold=question.threshold, max_distance=question.max_distance, measure=question.measure, limit=limit)
        rows = self._of_codes(document_id, sketch, group_id, now, more)
        return [row for row in rows if row.id not in without][: question.limit]

    def _of_codes(self, document_id: int, sketch: Sketch, group_id: int, now: int, question: Question) -> list[MatchRow]:
        """`matches` of a stored document by all its codes, each other one with its best match."""
        numbers = self.documents.fingerprints_of(document_id, None)
        if len(numbers) < 2:
            return self.matches(sketch, group_id, now, question, except_id=document_id)
        best: dict[int, MatchRow] = {}
        for number in numbers:
            for row in self.matches(self.stored_sketch(number), group_id, now, question, except_id=document_id):
                if row.id not in best or row.similarity > best[row.id].similarity:
                    best[row.id] = row
        return sorted(best.values(), key=lambda row: (-row.similarity, row.id))[: question.limit]

    def stored_matches(self, document_id: int, now: int, *, dismissed: bool = False) -> list[MatchRow]:
        """The same where only the document's id is known; dismissed: with those that are dismissed."""
        sql = "SELECT fingerprint_id, group_id FROM {index}_document WHERE id = ? AND fingerprint_id IS NOT NULL"
        row = self.db.row(self.store.sql(sql), (document_id,))
        ask = self._of_codes if dismissed else self.matches_of
        return [] if row is None else ask(document_id, self.stored_sketch(row[0]), row[1], now, USUAL)

    def count(self, sketch: Sketch, group_id: int, now: int, question: Question, since: int) -> tuple[Any, ...]:
        """How many visible documents answer the question and were added at `since` or later, how often they were offered, when
        the earliest and the latest of them were added, and when one was last offered; by one statement."""
        parameters = self.parameters(sketch, group_id, now, question)
        if sketch.value is None:
            return 0, 0, None, None, None
        parameters["since"] = since
        query = self.store.query("count", self._verify(question.measure), source=self._source(group_id))
        return self.answer(query, parameters)[0]

    def has_match(self, sketch: Sketch, group_id: int, now: int, after_id: int, before_id: int) -> bool:
        """Whether a visible document with an id from one to before another is a match."""
        parameters = self.parameters(sketch, group_id, now)
        if sketch.value is None:
            return False
        parameters["after_id"], parameters["before_id"] = after_id, before_id
        return bool(self.answer(self.store.query("earlier_any", self._verify()), parameters))

    def has_earlier(
        self, sketch: Sketch, group_id: int, now: int, except_id: int, before_id: int, before_part: int
    ) -> bool:
        """Whether a visible document other than one had a matching code before these were the next numbers of documents and of
        rows of codes, in an index with parts."""
        parameters = self.parameters(sketch, group_id, now)
        parameters["except_id"], parameters["before_id"], parameters["before_part"] = except_id, before_id, before_part
        return bool(self.answer(self.store.query("earlier_code", self._verify()), parameters))

    def _source(self, group_id: int) -> str:
        """What gives the candidates, where all groups are asked; else nothing."""
        if group_id != ACROSS_GROUPS:
            return ""
        groups: int = self.db.value(self.store.sql("SELECT count(*) FROM {index}_group"))
        return self.store.table.across(groups + 1, self.documents.last_fingerprint_id())

    def neighbours(
        self, sketch: Sketch, group_id: int, now: int, before_id: int = MAX_ID, first_id: int = 0, except_id: int = 0
    ) -> list[Neighbour]:
        """Each verified fingerprint's newest document before `before_id`, expired or not, best first. Of a crowd only the first
        `limits.FROM_CROWD` that turn up and are visible, or, where none is, one that has expired: it connects all the same.
        except_id: a document that has a further code, in an index with parts; no neighbour is dismissed as its duplicate."""
        if sketch.value is None:
            return []
        parameters = self.parameters(sketch, group_id, now)
        parameters["before_id"], parameters["first_id"] = before_id, first_id
        if self.store.has_parts:
            parameters["except_id"] = except_id
            rows = self.answer(self.store.query("neighbours", self._verify()), parameters)
            without = self.dismissed.dismissed_with(except_id) if except_id and self.store.dismisses else ()
            return [Neighbour._make(row[:5]) for row in rows if row[0] not in without]
        query = self.store.query("neighbours", self._verify(), ", 0" if self.store.crowds else "")
        found = [Neighbour._make(row[:5]) for row in self.answer(query, parameters)]
        if self.store.crowds:
            for crowd in self.store.table.crowds(parameters):
                found += self._from_crowd({**parameters, "crowd": crowd})
            found.sort(key=lambda neighbour: (-neighbour.similarity, -neighbour.id))
        return found

    def best_of_parts(self, neighbours: list[Neighbour], limit: int, now: int, except_id: int) -> list[MatchRow]:
        """`best_of` in an index with parts, without one document: each once, with its best code. Of a document with dismissed
        pairs the neighbours do not tell."""
        document = "d.id <> :except_id AND {visible}"
        first = "(SELECT min(x.id) FROM {index}_part AS x WHERE x.document_id = d.id AND x.fingerprint_id = :fingerprint_id)"
        sql = self.store.sql(
            f"""SELECT f.id, f.key, f.first, (SELECT x.part FROM {{index}}_part AS x WHERE x.id = f.first) FROM (
                    SELECT * FROM (
                        SELECT d.id, d.key, {first} AS first FROM {{index}}_document AS d
                        WHERE d.fingerprint_id = :fingerprint_id AND {document} ORDER BY d.id LIMIT :limit)
                    UNION SELECT * FROM (
                        SELECT DISTINCT d.id, d.key, {first} FROM {{index}}_part AS p CROSS JOIN {{index}}_document AS d
                        WHERE p.fingerprint_id = :fingerprint_id AND d.id = p.document_id AND {document}
                        ORDER BY p.document_id LIMIT :limit)
                ) AS f"""
        )
        best: dict[int, MatchRow] = {}
        for _, tied in groupby(neighbours, attrgetter("similarity")):
            found = []
            for neighbour in tied:
                values = {"fingerprint_id": neighbour.fingerprint_id, "except_id": except_id, "now": now, "limit": limit}
                for number, key, place, part in self.db.rows(sql, values):
                    found.append((number, place or 0, MatchRow(key, neighbour.similarity, neighbour.distance, number, part)))
            for number, _, row in sorted(found, key=itemgetter(0, 1)):
                best.setdefault(number, row)
            if len(best) >= limit:
                break
        return list(best.values())[:limit]

    def _from_crowd(self, parameters: dict[str, Any]) -> list[Neighbour]:
        """The first ones that turn up in a crowd and are visible, or else one that has expired. The rest is not looked at."""
        frame = "neighbours_since" if parameters["first_id"] > 0 else "neighbours_any"
        query = self.store.query(frame, self._verify(), ", :crowd")
        found: list[Neighbour] = []
        expired: list[Neighbour] = []
        with closing(self.stream(query.sql, query.values(parameters))) as rows:
            for *row, is_visible in rows:
                if is_visible:
                    found.append(Neighbour._make(row))
                    if len(found) == limits.FROM_CROWD:
                        break
                elif not expired:
                    expired.append(Neighbour._make(row))
        return found or expired

    def answer(self, query: Query, parameters: dict[str, Any]) -> list[tuple[Any, ...]]:
        """The rows of a query of sql/. Only damage to the stored rows can make it fail."""
        if query.statement is None or self.db.connection.exec_trace is not None:
            return self.rows(query.sql, query.values(parameters))
        try:
            return query.statement.rows(query.values(parameters))
        except apsw.SQLError as error:
            raise self._damaged(error) from error
        except UnicodeDecodeError as error:
            raise undecodable(error) from error

    def rows(self, sql: str, parameters: Any) -> list[tuple[Any, ...]]:
        """The rows of another, by apsw."""
        try:
            return self.db.rows(sql, parameters)
        except apsw.SQLError as error:
            raise self._damaged(error) from error

    def stream(self, sql: str, parameters: Any) -> Generator[tuple[Any, ...], None, None]:
        """The same rows one by one, where there may be too many to hold."""
        try:
            yield from self.db.stream(sql, parameters)
        except apsw.SQLError as error:
            raise self._damaged(error) from error

    def _damaged(self, error: apsw.SQLError) -> NearDupError:
        return schema.hiding(self.db, self.store.name) or CorruptIndexError(
            f"a query of index {self.store.name!r} failed over what is stored ({error}): run check(repair=True), "
            "or restore a backup"
        )

    def best_of(
        self, neighbours: list[Neighbour], limit: int, now: int, before_id: int = MAX_ID, first_id: int = 0
    ) -> list[MatchRow]:
        """The first `limit` matches among the documents of these fingerprints, as `matches` would order them.

        Looks at no more documents than it needs: thousands of equal copies share one fingerprint."""
        sql = self.store.sql(
            """SELECT key, id FROM {index}_document WHERE fingerprint_id = +? AND id >= ? AND id < ?
               AND {visible} ORDER BY id LIMIT +?"""
        )
        rows: list[MatchRow] = []
        start = 0
        while start < len(neighbours) and len(rows) < limit:
            end = start
            while end < len(neighbours) and neighbours[end].similarity == neighbours[start].similarity:
                end += 1
            tied = [
                MatchRow(key, neighbour.similarity, neighbour.distance, number)
                for neighbour in neighbours[start:end]
                for key, number in self.db.rows(sql, (neighbour.fingerprint_id, first_id, before_id, now, limit))
            ]
            rows += sorted(tied, key=lambda row: row.id)
            start = end
        return rows[:limit]

    def closest(self, a: DocumentRow, b: DocumentRow) -> tuple[int | None, int | None]:
        """The fingerprints of the codes by which two documents are most alike."""
        if not self.store.has_parts:
            return a.fingerprint_id, b.fingerprint_id
        numbers = [self.documents.fingerprints_of(one.id, one.fingerprint_id) for one in (a, b)]
        if not all(numbers):
            return a.fingerprint_id, b.fingerprint_id
        i, j = nearest_codes(*([self.documents.value(number) for number in some] for some in numbers))
        return numbers[0][i], numbers[1][j]

    def compared(self, a: Sketch, b: Sketch) -> tuple[float, int | None]:
        """(similarity, distance) of two texts by the scheme's rule."""
        if a.value is None or b.value is None:
            return 0.0, None
        return self.store.scheme.compare(a.value, b.value)

    def stored_sketch(self, fingerprint_id: int) -> Sketch:
        """A stored fingerprint as a sketch, for asking again."""
        return self.sketch_of(self.documents.value(fingerprint_id))

    def sketch_of(self, value: bytes) -> Sketch:
        """A stored value as a sketch."""
        return Sketch(value, None, self.store.epoch)
