"""Queries: the shared SQL with its parameters."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import starmap
from typing import Any, NamedTuple

import apsw

from ... import limits
from ...errors import CorruptIndexError
from ...values import Key, Match
from ..layout.candidates import MAX_ID
from ..layout.sketches import Sketch
from ..layout.state import Store
from .documents import EVER, Documents
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

    @property
    def match(self) -> Match:
        return Match(self.key, self.similarity, self.distance)


class Search:
    """Asks the candidate tables; runs inside the store's transactions."""

    def __init__(self, store: Store, documents: Documents) -> None:
        self.store = store
        self.documents = documents
        self.db = store.db

    def _verify(self, measure: str | None = None) -> str:
        return self.store.verification if measure is None else self.store.scheme.verification(measure)

    def parameters(self, sketch: Sketch, group_id: int, now: int, question: Question = USUAL) -> dict[str, Any]:
        bounds = self._bounds(question)
        asked = {"fingerprint": sketch.value, "evidence": sketch.evidence, "group_id": group_id, "now": now}
        return {**bounds, **asked, "outlined": self.store.outlined, "settled": self.store.settled}

    def _bounds(self, question: Question) -> dict[str, Any]:
        threshold, max_distance, measure = question.threshold, question.max_distance, question.measure
        usual = threshold is None and max_distance is None and measure is None
        if usual and self.store.usual is not None:
            return self.store.usual
        scheme = self.store.scheme
        bounds = scheme.query_bounds if measure is None else scheme.containment_bounds
        bound, radius = bounds(threshold, max_distance)
        found = {**scheme.query_parameters(), "threshold": bound, "max_distance": radius}
        if usual:
            self.store.usual = found
        return found

    def matches(
        self, sketch: Sketch, group_id: int, now: int, question: Question = USUAL, *, except_id: int = 0
    ) -> list[MatchRow]:
        """Visible documents that answer the question, best first, ties in the order of insertion; the sketch is the
        question's, or that of a stored document."""
        parameters = self.parameters(sketch, group_id, now, question)
        if sketch.value is None:
            return []
        limit = question.limit
        parameters["limit"], parameters["except_id"] = -1 if limit is None else limit, except_id
        frame = "matches_any" if question.any else "matches"
        query = self.store.query(frame, self._verify(question.measure), limit="" if limit is None else " LIMIT +:limit")
        return list(starmap(MatchRow, self.rows(query.sql, query.values(parameters))))

    def neighbours(self, sketch: Sketch, group_id: int, now: int, before_id: int = MAX_ID) -> list[Neighbour]:
        """Each verified fingerprint's newest document before `before_id`, expired or not, best first. Of a crowd only the first
        `limits.FROM_CROWD` that turn up and are visible, or, where none is, one that has expired: it connects all the same."""
        if sketch.value is None:
            return []
        parameters = self.parameters(sketch, group_id, now)
        parameters.update(before_id=before_id, limit=limits.FROM_CROWD)
        if not self.store.crowds:
            return self._neighbours("neighbours", "", parameters)
        found = self._neighbours("neighbours", ", 0", parameters)
        for crowd in self.store.table.crowds(parameters):
            parameters["crowd"] = crowd
            some = self._neighbours("neighbours_any", ", :crowd", parameters)
            if not some:
                some = self._neighbours("neighbours_any", ", :crowd", {**parameters, "now": EVER, "limit": 1})
            found += some
        found.sort(key=lambda neighbour: (-neighbour.similarity, -neighbour.id))
        return found

    def _neighbours(self, frame: str, crowd: str, parameters: dict[str, Any]) -> list[Neighbour]:
        query = self.store.query(frame, self._verify(), crowd)
        return [Neighbour._make(row[:5]) for row in self.rows(query.sql, query.values(parameters))]

    def rows(self, sql: str, parameters: Any) -> list[tuple[Any, ...]]:
        """The rows of a query of sql/. Only damage to the stored rows can make it fail."""
        try:
            return self.db.rows(sql, parameters)
        except apsw.SQLError as error:
            raise self._damaged(error) from error

    def stream(self, sql: str, parameters: Any) -> Iterator[tuple[Any, ...]]:
        """The same rows one by one, where there may be too many to hold."""
        try:
            yield from self.db.stream(sql, parameters)
        except apsw.SQLError as error:
            raise self._damaged(error) from error

    def _damaged(self, error: apsw.SQLError) -> CorruptIndexError:
        return CorruptIndexError(
            f"a query of index {self.store.name!r} failed over what is stored ({error}): run check(repair=True), "
            "or restore a backup"
        )

    def best_of(self, neighbours: list[Neighbour], limit: int, now: int, before_id: int = MAX_ID) -> list[MatchRow]:
        """The first `limit` matches among the documents of these fingerprints, as `matches` would order them.

        Looks at no more documents than it needs: thousands of equal copies share one fingerprint."""
        sql = self.store.sql(
            """SELECT key, id FROM {index}_document WHERE fingerprint_id = +? AND id < ?
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
                for key, number in self.db.rows(sql, (neighbour.fingerprint_id, before_id, now, limit))
            ]
            rows += sorted(tied, key=lambda row: row.id)
            start = end
        return rows[:limit]

    def stored_sketch(self, document_id: int, fingerprint_id: int) -> Sketch:
        """The sketch of a stored document, for asking again."""
        return self.sketch_with(document_id, self.documents.value(fingerprint_id))

    def sketch_with(self, document_id: int, value: bytes) -> Sketch:
        """The same, where its stored value is known."""
        evidence = None
        text = self.documents.text(document_id) if self.store.store_text else None
        if text is not None:
            proofs = self.store.scheme.evidence([text], self.store.rules)
            evidence = None if proofs is None else proofs[0]
        return Sketch(value, evidence, None, self.store.epoch)
