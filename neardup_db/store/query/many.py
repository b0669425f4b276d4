"""Bulk queries: a join of the sketches with the candidate table."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from itertools import chain

import apsw

from ... import limits
from ...arrays import np
from ...values import Match
from ..layout.sketches import Sketch, Sketches
from .fingerprints import ACROSS_GROUPS
from .query_spec import QuerySpec
from .search import Search

Answer = Callable[[Sketch], list[Match]]
"""Answers one query with its own statement."""

_EARLIEST = """ AND d.id <= ifnull((
    SELECT x.id FROM {index}_document AS x
    WHERE x.fingerprint_id = j.other_id AND {visible} ORDER BY x.id LIMIT 1 OFFSET :limit - 1), d.id)"""
"""Limits the documents of each fingerprint to the query's limit: thousands of copies may share one."""


def answers(search: Search, sketches: Sketches, spec: QuerySpec, group_id: int, now: int, one: Answer) -> list[list[Match]]:
    """The result of `one` for each sketch, computed by a join if possible, all in the state of the caller's transaction."""
    count = len(sketches.values)
    is_small = count < limits.JOINED_FROM or group_id == ACROSS_GROUPS  # the join searches one group for each query
    if is_small or spec.measure is not None or (spec.any and spec.limit is not None):
        return [one(sketches.sketch_at(number)) for number in range(count)]
    try:
        return _joined(search, sketches, spec, group_id, now)
    except apsw.TooBigError:  # too many pairs, or a value larger than the application's connection allows
        halves = sketches.at_indexes(range(count // 2)), sketches.at_indexes(range(count // 2, count))
        return [results for part in halves for results in answers(search, part, spec, group_id, now, one)]


def _joined(search: Search, sketches: Sketches, spec: QuerySpec, group_id: int, now: int) -> list[list[Match]]:
    count, limit = len(sketches.values), spec.limit
    parameters = search.parameters(sketches.sketch_at(0), group_id, now, spec)
    parameters.update(asked=_packed(sketches, group_id), last_id=count - 1, limit=limit)
    text = search.store.frame("matches_many").replace("{earliest}", "" if limit is None else _EARLIEST)
    results: list[list[Match]] = [[] for _ in range(count)]
    for number, *match in search.stream(search.store.sql(text), parameters):
        if limit is None or len(results[number]) < limit:
            results[number].append(Match(*match))
    return results


def _packed(sketches: Sketches, group_id: int) -> bytes:
    """The sketches of non-empty texts in the format of neardup_join."""
    numbers = [number for number, value in enumerate(sketches.values) if value is not None]
    values = [value for value in sketches.values if value is not None]
    heads = np.empty((len(numbers), 3), "<i8")
    heads[:, 0], heads[:, 1], heads[:, 2] = numbers, group_id, list(map(len, values))
    if len(set(map(len, values))) == 1:
        rows = np.frombuffer(b"".join(values), np.uint8).reshape(len(numbers), -1)
        return np.hstack((heads.view(np.uint8), rows)).tobytes()
    return b"".join(chain.from_iterable(zip(heads.view("V24").ravel().tolist(), values, strict=True)))


# ---- pieces ----------------------------------------------------------------------------------------------------------

Make = Callable[[int, int], Sketches]
"""Computes the sketches of queries first to end - 1. Two threads may call it."""


def pieces(count: int, make: Make, beside: bool) -> Iterator[Sketches]:
    """The sketches of all queries in pieces, large enough for a join and small enough for memory.

    beside: a second thread computes the next piece while the caller uses the current one.
    """
    size, sketched = limits.ASKED_MOST, {}
    if count > limits.ASKED_PART:
        sketched = {0: make(0, limits.ASKED_PART)}
        size = _fitting(sketched[0])
    piece = _Piece(0, min(size, count), make, beside, sketched if size >= limits.ASKED_PART else {})
    try:
        while piece.first < count:
            sketches = piece.finish()
            piece = _Piece(piece.end, min(piece.end + _fitting(sketches), count), make, beside, {})
            yield sketches
    finally:
        piece.waiting.clear()


def _fitting(sketches: Sketches) -> int:
    size = sum(len(value) for value in sketches.values if value is not None)
    return max(1, min(limits.ASKED_MOST, limits.ASKED_BYTES * len(sketches.values) // (size + 1)))


class _Piece:
    """A piece of queries: `finish` computes parts from the front, a background thread from the back."""

    def __init__(self, first: int, end: int, make: Make, beside: bool, sketched: dict[int, Sketches]) -> None:
        self.first, self.end = first, end
        self.waiting = deque(part for part in range(first, end, limits.ASKED_PART) if part not in sketched)
        self._make = make
        self._sketched = sketched
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True) if beside and len(self.waiting) > 1 else None
        if self._thread is not None:
            self._thread.start()

    def _run(self) -> None:
        try:
            self._work(self.waiting.pop)
        except BaseException as error:  # raised by finish()
            self._error = error

    def finish(self) -> Sketches:
        self._work(self.waiting.popleft)
        if self._thread is not None:
            self._thread.join()
        if self._error is not None:
            raise self._error
        sketched = [self._sketched[first] for first in sorted(self._sketched)]
        return Sketches(list(chain.from_iterable(part.values for part in sketched)), None, sketched[0].epoch)

    def _work(self, take: Callable[[], int]) -> None:
        while self.waiting:
            try:
                first = take()
            except IndexError:  # the other thread took the last part
                return
            self._sketched[first] = self._make(first, min(first + limits.ASKED_PART, self.end))
