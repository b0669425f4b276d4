"""Bulk queries by a join of the sketches with the candidate table, and greedy deduplication."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain

import apsw

from ... import limits
from ...arrays import Array, np
from ...comparing import Deduplicator
from ...native import Values
from ...values import Key, Match
from ..layout.sketches import Sketch, Sketches
from .documents import Documents
from .fingerprints import ACROSS_GROUPS
from .search import QuerySpec, Search

Answer = Callable[[Sketch], list[Match]]  # answers one query with its own statement

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
    numbers = [number for number, value in enumerate(sketches.values) if value is not None]  # not those of empty texts
    asked = packed_values(numbers, group_id, [value for value in sketches.values if value is not None])
    parameters.update(asked=asked, last_id=count - 1, limit=limit)
    text = search.store.frame("matches_many").replace("{earliest}", "" if limit is None else _EARLIEST)
    results: list[list[Match]] = [[] for _ in range(count)]
    for number, *match in search.stream(text, parameters):
        if limit is None or len(results[number]) < limit:
            results[number].append(Match(*match))
    return results


def packed_values(numbers: Sequence[int], group_ids: int | Sequence[int], values: Sequence[bytes]) -> bytes:
    """Numbered values in the format of neardup_join; group_ids: of each, or of all."""
    heads = np.empty((len(numbers), 3), "<i8")
    heads[:, 0], heads[:, 1], heads[:, 2] = numbers, group_ids, list(map(len, values))
    if len(set(map(len, values))) == 1:
        rows = np.frombuffer(b"".join(values), np.uint8).reshape(len(numbers), -1)
        return np.hstack((heads.view(np.uint8), rows)).tobytes()
    return b"".join(chain.from_iterable(zip(heads.view("V24").ravel().tolist(), values, strict=True)))


Make = Callable[[int, int], Sketches]  # computes the sketches of queries first to end - 1. Two threads may call it


def pieces(count: int, make: Make, beside: bool) -> Iterator[Sketches]:
    """The sketches of all queries in pieces, large enough for a join and small enough for memory.

    beside: two threads compute the next piece while the caller uses the current one.
    """
    if not beside:
        yield from _pieces(count, make, lambda first, end: partial(make, first, end))
        return
    from concurrent.futures import ThreadPoolExecutor  # imported late: it takes longer than opening an index

    threads = ThreadPoolExecutor(2)
    try:
        yield from _pieces(count, make, lambda first, end: threads.submit(make, first, end).result)
    finally:
        threads.shutdown(cancel_futures=True)


def _pieces(count: int, make: Make, begin: Callable[[int, int], Callable[[], Sketches]]) -> Iterator[Sketches]:
    """begin: as `make`, but returns a function that waits for the sketches."""

    def parts_until(end: int) -> list[Callable[[], Sketches]]:
        return [begin(start, min(start + limits.ASKED_PART, end)) for start in range(done, end, limits.ASKED_PART)]

    sample = make(0, min(limits.ASKED_PART, count))
    done = len(sample.values)
    end = min(count, max(done, _fitting(sample.values)))
    parts = [lambda: sample, *parts_until(end)]
    while parts:
        values = list(chain.from_iterable(part().values for part in parts))
        done, end = end, min(count, end + _fitting(values))
        parts = parts_until(end)
        yield Sketches(values, None, sample.epoch)


def _fitting(values: Sequence[bytes | None]) -> int:
    size = sum(len(value) for value in values if value is not None)
    return max(1, min(limits.ASKED_MOST, limits.ASKED_BYTES * len(values) // (size + 1)))


def duplicates(documents: Documents, keys: Sequence[Key]) -> tuple[Array, Array]:
    """Greedy deduplication, in which a document is kept unless it is a near-duplicate of a kept one: (kept, similarities) for
    documents in order of preference, read from one state of the file.

    kept: int64[n], the position in `keys` of the most similar kept document; -1 if the document itself is kept. similarities:
    float64[n], the similarity to that document.
    """
    deduplicator = Deduplicator(documents.store.scheme.native)
    kept, similarities = np.empty(len(keys), np.int64), np.empty(len(keys), np.float64)
    for first in range(0, len(keys), limits.VALUES_DECIDED):
        page = slice(first, first + limits.VALUES_DECIDED)
        page_keys = list(keys[page])
        rows_by_key = documents.rows_by_key(page_keys)
        rows = [rows_by_key[key] for key in page_keys]
        values = documents.values({row.fingerprint_id for row in rows if row.fingerprint_id is not None})
        page_values = Values.joined([None if row.fingerprint_id is None else values[row.fingerprint_id] for row in rows])
        groups = np.fromiter((row.group_id for row in rows), np.int64, len(rows))
        kept[page], similarities[page] = deduplicator.add(page_values, groups)
    return kept, similarities
