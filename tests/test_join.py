"""All pairs against brute force: codes within a distance, sets at or above a similarity."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support import shared

from neardup_db.comparing import NO_SPLIT
from neardup_db.native import ffi, lib


def find_all(codes: Sequence[int], bits: int, distance: int) -> list[tuple[int, int]]:
    data = b"".join(c.to_bytes(bits // 8, "big") for c in codes)
    pairs = ffi.gc(lib.nd_pairs_new(), lib.nd_pairs_free)
    assert lib.nd_find_all(data, len(codes), NO_SPLIT, bits, distance, pairs) == lib.ND_OK
    ids = pairs.ids
    return [(ids[2 * i], ids[2 * i + 1]) for i in range(pairs.count)]


def close_codes(codes: Sequence[int], distance: int) -> list[tuple[int, int]]:
    indexed = list(enumerate(codes))
    return [(i, j) for (i, a), (j, b) in itertools.combinations(indexed, 2) if (a ^ b).bit_count() <= distance]


def join_sets(values: Any, ends: Any, count: int, threshold: float, pairs: Any) -> int:
    """Joins arrays in one piece."""
    join = ffi.gc(lib.nd_set_join_new(), lib.nd_set_join_free)
    status: int = lib.nd_set_join_begin(join, values, ends, count, NO_SPLIT, threshold)
    if status == lib.ND_OK:
        status = lib.nd_set_join_next(join, NO_SPLIT, pairs)
    return lib.ND_OK if status == lib.ND_DONE else status


def jaccard_pairs(sets: Sequence[Any], threshold: float) -> list[tuple[int, int, float]]:
    values = np.fromiter((v for s in sets for v in sorted(s)), np.uint64)
    ends = np.cumsum([len(s) for s in sets], dtype=np.uint64)
    pairs = ffi.gc(lib.nd_pairs_new(), lib.nd_pairs_free)
    native = [ffi.from_buffer("uint64_t[]", values), ffi.from_buffer("uint64_t[]", ends)]
    assert join_sets(*native, len(sets), threshold, pairs) == lib.ND_OK
    ids, similarities = pairs.ids, pairs.similarities
    return [(ids[2 * i], ids[2 * i + 1], similarities[i]) for i in range(pairs.count)]


def similar_sets(sets: Sequence[Any], threshold: float) -> list[tuple[int, int, float]]:
    alike = ((i, j, n / (len(sets[i]) + len(sets[j]) - n)) for (i, j), n in sorted(shared(sets).items()))
    return [pair for pair in alike if pair[2] >= threshold]


@st.composite
def clustered_codes(draw: st.DrawFn) -> tuple[list[int], int]:
    bits = 8 * draw(st.sampled_from([1, 2, 3, 7, 8, 9, 16, 32]))
    centres = draw(st.lists(st.integers(0, 2**bits - 1), min_size=1, max_size=4))
    codes = []
    for _ in range(draw(st.integers(0, 30))):
        code = draw(st.sampled_from(centres))
        for flip in draw(st.lists(st.integers(0, bits - 1), max_size=5)):
            code ^= 1 << flip
        codes.append(code)
    return codes, bits


@given(clustered_codes(), st.integers(0, 6))
def test_find_all_equals_brute_force(drawn: tuple[list[int], int], distance: int) -> None:
    """Clustered codes of every width, any distance: the same pairs, each once, ascending."""
    codes, bits = drawn
    assert find_all(codes, bits, distance) == close_codes(codes, distance)


@given(
    st.lists(st.sets(st.integers(0, 14) | st.sampled_from([2**63, 2**64 - 1]), max_size=12), max_size=25),
    st.sampled_from([0.05, 0.3, 0.5, 0.55, 0.6, 2 / 3, 0.7, 0.75, 0.8, 0.9, 1.0]) | st.floats(0.01, 1.0),
)
@example([{0}, {0, 1, 2, 2**63}, {0, 1, 2**63}], 0.7)
def test_jaccard_pairs_equal_brute_force(sets: list[set[int]], threshold: float) -> None:
    """Sets of unequal lengths, equal ones and empty ones among them: the same pairs with the same similarities."""
    assert jaccard_pairs(sets, threshold) == similar_sets(sets, threshold)


@pytest.mark.parametrize(("numerator", "denominator"), [(11, 20), (3, 5), (7, 10), (4, 5), (9, 10)])
def test_jaccard_pairs_exactly_at_the_threshold(numerator: int, denominator: int) -> None:
    """Pairs at 0.55, 0.6, 0.7, 0.8 and 0.9 to the last bit are found, at all lengths, and those one value below are not."""
    sets: list[set[int]] = []
    for scale in range(1, 8):
        common, union = numerator * scale, denominator * scale
        for only_a in range(union - common + 1):
            base = 10**6 * len(sets)
            a = {base + 3 * v for v in range(common + only_a)}
            b = {base + 3 * v for v in [*range(common), *range(common + only_a, union)]}
            sets += [a, b, {*b} - {base} | {base + 1}]
    expected = similar_sets(sets, numerator / denominator)
    assert {s for _, _, s in expected} >= {numerator / denominator}
    assert jaccard_pairs(sets, numerator / denominator) == expected
