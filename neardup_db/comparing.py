"""Checks and compares stored values in the C core: two of them, one with many, all pairs, duplicates, shared runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from . import limits
from .arrays import Array, np
from .located import LocatedTexts
from .native import Values, check, copied, ffi, lib, new, owned, pointer, text_batches, workspace

NO_SPLIT = 2**64 - 1  # the `split` argument of a join within one collection


def similarity(scheme: Any, a: bytes, b: bytes) -> tuple[float, int | None]:
    """(similarity, distance) of two stored values; distance is None if the scheme has none."""
    result, distance = ffi.new("double *"), ffi.new("int64_t *")
    check(lib.nd_scheme_similarity(scheme, a, len(a), b, len(b), result, distance), "comparing fingerprints")
    return float(result[0]), None if distance[0] < 0 else int(distance[0])


def matches_any(scheme: Any, value: bytes, others: Values) -> bool:
    """True if a stored value matches one of the others by the scheme's rule."""
    like = ffi.new("int *")
    check(lib.nd_scheme_is_like(scheme, value, len(value), *others.arguments(), like), "comparing with allowed texts")
    return bool(like[0])


def _pairs(handle: Any, split: int | None = None) -> Array:
    ids = copied(handle.ids, 2 * handle.count, np.int64).reshape(-1, 2)
    return ids if split is None else ids - np.array([0, split])


def code_pairs(codes: Array, count: int, split: int | None, bits: int, distance: int) -> Array:
    """The pairs of codes within a distance, int64[m, 2]. codes: uint8, at least one. split: as for `set_pairs`."""
    handle, data = new("pairs"), pointer(codes, "uint8_t[]")
    check(lib.nd_find_all(data, count, NO_SPLIT if split is None else split, bits, distance, handle), "all pairs")
    return _pairs(handle, split)


def set_pairs(values: Array, ends: Array, split: int | None, threshold: float, most: int) -> Iterator[tuple[Array, Array]]:
    """The pairs of similar sets and their similarities, in batches of about `most`. split: only pairs of a set before this
    position and one from there on, whose numbers then count from there."""
    count = len(ends)
    values = values if len(values) else np.zeros(1, np.uint64)
    ends = ends if count else np.zeros(1, np.uint64)
    data = pointer(values, "uint64_t[]"), pointer(ends, "uint64_t[]"), count
    join, handle = new("set_join"), new("pairs")
    check(lib.nd_set_join_begin(join, *data, NO_SPLIT if split is None else split, threshold), "all pairs")
    while (status := lib.nd_set_join_next(join, most, handle)) != lib.ND_DONE:
        check(status, "all pairs")
        yield _pairs(handle, split), copied(handle.similarities, handle.count, np.float64)


def connections(scheme: Any, values: Values, first: int, buckets: Array, items: Array, known: Array) -> tuple[Array, Array]:
    """Matching pairs that connect all similar values which share a bucket: int64[m, 2], float64[m].

    buckets, items: int64[n], each row places a value in a bucket, in ascending bucket order. Values before `first` are not
    compared with each other. known: the position of a value already connected with each value, or its own, int64.
    """
    handle = new("pairs")
    rows = pointer(buckets, "int64_t[]"), pointer(items, "int64_t[]"), len(buckets), pointer(known, "int64_t[]")
    check(lib.nd_scheme_connect(scheme, *values.arguments(), first, *rows, handle), "values that meet")
    return _pairs(handle), copied(handle.similarities, handle.count, np.float64)


class Deduplicator:
    """Decides in order which records to keep: one is a duplicate if it matches an earlier kept one. Only these use memory."""

    def __init__(self, scheme: Any) -> None:
        self._handle = owned(lib.nd_deduplicator_new(scheme), lib.nd_deduplicator_free)

    def add(self, values: Values, groups: Array | None = None) -> tuple[Array, Array]:
        """Returns for each record the number of the most similar kept record, the earliest if several are equal, int64[n], and
        their similarity, float64[n]; -1 and 1.0 for a kept record. Records are numbered from 0 across all calls. groups:
        int64[n]; records match within their group."""
        count, ends = len(values.ends), values.ends
        kept, similarities = np.empty(count, np.int64), np.empty(count, np.float64)
        starts = np.concatenate([np.zeros(1, np.uint64), ends])
        data = ffi.from_buffer("uint8_t[]", values.data)
        for first in range(0, count, limits.DEDUPLICATED_STEP):  # so that an interrupt is handled between steps
            part = slice(first, first + limits.DEDUPLICATED_STEP)
            start = int(starts[first])
            own_ends = ends[part] - np.uint64(start)
            own_groups = ffi.NULL if groups is None else pointer(groups[part], "int64_t[]")
            out = pointer(kept[part], "int64_t[]"), pointer(similarities[part], "double[]")
            placed = data + start, pointer(own_ends, "uint64_t[]"), len(own_ends)
            check(lib.nd_deduplicator_add(self._handle, *placed, own_groups, *out), "fingerprints of records")
        return kept, similarities


class RunFilter:
    """Tells which of many texts may share a passage with one of a few. Add the few, then ask: no text may be added later."""

    def __init__(self, scheme: Any, rules: Any) -> None:
        self._rules = rules
        self._handle = owned(lib.nd_run_filter_new(scheme), lib.nd_run_filter_free)
        self._filled = False

    def add(self, texts: list[Any]) -> None:
        for _, piece in text_batches(texts):
            check(lib.nd_run_filter_add(self._handle, self._rules, workspace(), *piece), "test texts")

    def meet(self, texts: list[Any] | LocatedTexts) -> Array:
        """False for each text that shares no passage, bool[n]; the core runs without the interpreter lock."""
        if not self._filled:
            check(lib.nd_run_filter_fill(self._handle), "test texts")
            self._filled = True
        met = np.empty(len(texts), np.bool_)
        for places, piece in text_batches(texts):
            out = pointer(met[places], "uint8_t[]")
            check(lib.nd_run_filter_meet(self._handle, self._rules, workspace(), *piece, out), "passages of texts")
        return met
