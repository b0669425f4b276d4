"""All pairs of larger and awkward collections in every tier: codes by chunk tables, sets by bitmaps and by lists; containment."""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import pytest

from neardup_db import compute
from neardup_db.compute.comparisons import jaccard_pieces

Codes = npt.NDArray[np.uint8]
Sets = list[npt.NDArray[np.uint64]]
Tiers = Callable[[], Iterator[str]]


def close_pairs(codes: Codes, distance: int) -> npt.NDArray[np.int64]:
    """Pairs within the distance, from the Gram matrix of bits as 1 and -1: equal ones less others."""
    bits = 2 * np.unpackbits(codes, axis=1).astype(np.float32) - 1
    places = np.flatnonzero(bits @ bits.T >= bits.shape[1] - 2 * distance)
    pairs = np.stack(divmod(places, len(codes)), axis=1)
    return pairs[pairs[:, 0] < pairs[:, 1]]


def planted_codes(count: int, bits: int, distance: int, seed: int) -> Codes:
    """Random codes; a third of them copies of earlier ones, distance - 2 to distance + 2 bits flipped."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 256, (count, bits // 8), dtype=np.uint8)
    for row in range(count * 2 // 3, count):
        codes[row] = codes[rng.integers(0, count * 2 // 3)]
        for flip in rng.choice(bits, max(0, distance - 2 + row % 5), replace=False):
            codes[row, flip // 8] ^= 1 << flip % 8
    return codes


# 3,000 are the fewest codes that chunks of radius 1 serve in the third and fourth and chunks at all in the fifth; in the
# last they have more pairs than a kernel has room for.
@pytest.mark.parametrize(
    ("bits", "distance", "count"),
    [(64, 3, 1500), (64, 5, 1500), (64, 9, 3000), (96, 12, 3000), (256, 31, 3000), (512, 60, 3000)],
)
def test_codes_at_distances_that_chunk_tables_serve(tiers: Tiers, bits: int, distance: int, count: int) -> None:
    """Codes with neighbours around the distance: numpy's brute force agrees, in every tier."""
    codes = planted_codes(count, bits, distance, bits + distance)
    expected = close_pairs(codes, distance)
    assert len(expected) > count / 8
    for tier in tiers():
        assert np.array_equal(compute.find_all(codes, distance), expected), tier


@pytest.mark.parametrize("bits", [64, 256])
def test_near_copies_of_one_code(tiers: Tiers, bits: int) -> None:
    """800 codes one or two bits from one centre fill one bucket of most tables: every pair is found once."""
    rng = np.random.default_rng(5)
    codes = np.tile(rng.integers(0, 256, bits // 8, dtype=np.uint8), (800, 1))
    for row in range(800):
        for flip in rng.choice(bits, 1 + row % 2, replace=False):
            codes[row, flip // 8] ^= 1 << flip % 8
    expected = close_pairs(codes, 3)
    assert len(expected) > 150_000
    for tier in tiers():
        assert np.array_equal(compute.find_all(codes, 3), expected), tier


def similarities_of(sets: Sets) -> npt.NDArray[np.float64]:
    """Of all pairs, from the matrix of overlaps by shared values."""
    values, places = np.unique(np.concatenate(sets), return_inverse=True)
    member = np.zeros((len(sets), len(values)), np.float32)
    member[np.repeat(np.arange(len(sets)), [len(one) for one in sets]), places] = 1
    common = (member @ member.T).astype(np.float64)
    sizes = np.array([len(one) for one in sets], np.float64)
    alike: npt.NDArray[np.float64] = common / np.maximum(sizes[:, None] + sizes[None, :] - common, 1)
    return alike


def similar_pairs(alike: npt.NDArray[np.float64], threshold: float) -> list[tuple[int, int, float]]:
    """Pairs at or above the threshold."""
    first, second = divmod(np.flatnonzero(alike >= threshold), len(alike))
    return [(i, j, float(alike[i, j])) for i, j in zip(first.tolist(), second.tolist(), strict=True) if i < j]


def found(sets: Sets, threshold: float) -> list[tuple[int, int, float]]:
    ids, similarities = compute.jaccard_pairs(sets, threshold)
    return [(i, j, s) for (i, j), s in zip(ids.tolist(), similarities.tolist(), strict=True)]


@functools.cache
def clustered_sets(count: int, shortest: int, longest: int, universe: int, seed: int) -> Sets:
    """Sets of values below the universe; two in three are earlier ones with a share of their values replaced."""
    rng = np.random.default_rng(seed)
    sets: Sets = []
    for i in range(count):
        size = int(rng.integers(shortest, longest + 1))
        drawn = rng.choice(universe, size, replace=False).astype(np.uint64)
        if i % 3:
            old = sets[int(rng.integers(0, len(sets)))]
            drawn = np.concatenate([old[rng.random(len(old)) > rng.random() * 0.4], drawn[: len(drawn) // 10]])
        sets.append(np.unique(drawn))
    return sets


@pytest.mark.parametrize(
    ("count", "shortest", "longest", "universe"),
    [
        (250, 128, 128, 100_000),  # fingerprints of one length: bitmaps of one size
        (250, 1, 300, 3000),  # all lengths
        (1200, 2, 8, 400),  # many short sets: lists
        (1200, 3, 9, 30),  # many short sets of few values: some lists are longer than the sets to look at
        (60, 1500, 2500, 20_000),  # sets that no bitmap tells apart
    ],
)
def test_sets_by_bitmaps_and_by_lists(tiers: Tiers, count: int, shortest: int, longest: int, universe: int) -> None:
    """Whichever way is taken, the pairs and their similarities are those of the matrix of overlaps."""
    sets = clustered_sets(count, shortest, longest, universe, count + longest)
    alike = similarities_of(sets)
    for threshold in (0.3, 0.8):
        expected = similar_pairs(alike, threshold)
        assert expected
        for tier in tiers():
            assert found(sets, threshold) == expected, (threshold, tier)


@pytest.mark.parametrize("threshold", [0.1, 0.5, 0.55, 0.6, 2 / 3, 0.7, 0.75, 0.8, 0.9, 1.0])
def test_short_sets_of_unequal_lengths(tiers: Tiers, threshold: float) -> None:
    """Sets of 1 to 9 values that stand side by side in a block: a short one that can be nobody's partner hides no other."""
    first, rest = np.array([0], np.uint64), np.array([0, 1, 2, 3], np.uint64)
    rng = np.random.default_rng(round(1000 * threshold))
    cases = [
        [np.unique(rng.integers(0, most, rng.integers(1, 10)).astype(np.uint64)) for _ in range(120)] for most in (6, 12, 30)
    ]
    for sets in cases:
        expected = similar_pairs(similarities_of(sets), threshold)
        assert expected
        for tier in tiers():
            assert found([first, rest[:3], rest], 0.7) == [(1, 2, 0.75)], tier
            assert found(sets, threshold) == expected, tier


def test_values_that_fall_on_one_bit_of_a_bitmap(tier: str) -> None:
    """Multiples of a power of two, consecutive numbers, and numbers of a factor that turns their hash around: nothing is lost."""
    inverse = pow(0x9E3779B97F4A7C15, -1, 2**64)
    for step in (1, 1 << 40, inverse, inverse << 30):
        base = [i * step % 2**64 for i in range(1, 301)]
        sets = [np.unique(np.array(base[start : start + 100], np.uint64)) for start in range(0, 200, 7)]
        expected = similar_pairs(similarities_of(sets), 0.5)
        assert len(expected) > 20
        assert found(sets, 0.5) == expected


@pytest.mark.parametrize("universe", [250, 400])
def test_sets_that_have_much_in_common(universe: int) -> None:
    """1,200 sets of 128 out of a few hundred values, most of them not far below the threshold: wider bitmaps lose no pair."""
    sets = clustered_sets(1200, 128, 128, universe, universe)
    expected = similar_pairs(similarities_of(sets), 0.5)
    assert len(expected) > 300
    assert found(sets, 0.5) == expected


def test_lists_of_values_whose_hashes_begin_alike() -> None:
    """1,300 short sets of values that a factor turns into 1 to 400: hashes alike in all but the last bits mix no values up."""
    inverse = pow(0x9E3779B97F4A7C15, -1, 2**64)
    small = clustered_sets(1300, 2, 8, 400, 77)
    sets = [np.sort((one + np.uint64(1)) * np.uint64(inverse)) for one in small]
    alike = similarities_of(sets)
    for threshold in (0.3, 0.5, 0.8):
        expected = similar_pairs(alike, threshold)
        assert len(expected) > 300
        assert found(sets, threshold) == expected


def test_sets_of_values_that_hundreds_have() -> None:
    """1,300 sets of one value that all have, six of twenty, and three of a thousand: whatever their order, no pair is lost."""
    rng = np.random.default_rng(9)
    sets: Sets = []
    for _ in range(1300):
        drawn = [[99], rng.choice(20, 6, replace=False), 100 + rng.integers(0, 1000, 3)]
        sets.append(np.unique(np.concatenate(drawn).astype(np.uint64)))
    alike = similarities_of(sets)
    for threshold in (0.4, 0.5):
        expected = similar_pairs(alike, threshold)
        assert len(expected) > 30
        assert found(sets, threshold) == expected


@pytest.mark.parametrize(("longest", "universe"), [(8, 400), (8, 40), (128, 5000)])
def test_pairs_between_two_collections_of_sets(longest: int, universe: int) -> None:
    """Wherever a collection is cut in two, the pairs between both parts are those that cross the cut, equal sets among them."""
    sets = [np.empty(0, np.uint64), *clustered_sets(1200, 1, longest, universe, universe)]
    sets += sets[:100]
    expected = similar_pairs(similarities_of(sets), 0.5)
    for cut in (0, 1, 7, 650, 1290, len(sets)):
        ids, similarities = compute.jaccard_pairs(sets[:cut], 0.5, others=sets[cut:])
        between = [(i, j - cut, s) for i, j, s in expected if i < cut <= j]
        assert [(i, j, s) for (i, j), s in zip(ids.tolist(), similarities.tolist(), strict=True)] == between, cut


@pytest.mark.parametrize(("longest", "universe"), [(8, 40), (128, 5000)])
def test_pairs_of_sets_in_pieces(longest: int, universe: int) -> None:
    """Pieces of any size are together what all pairs are, each pair in one of them, and hold no more than one set goes beyond."""
    sets = clustered_sets(1200, 1, longest, universe, universe)
    chains = max(Counter(one.tobytes() for one in sets).values())
    for cut in (None, 500):
        others = None if cut is None else sets[cut:]
        ids, similarities = compute.jaccard_pairs(sets[:cut], 0.5, others=others)
        expected = [(*pair, one) for pair, one in zip(ids.tolist(), similarities.tolist(), strict=True)]
        for most in (1, 10, 100):
            pieces = list(jaccard_pieces(sets[:cut], 0.5, most, others=others))
            together = [(*pair, one) for ids, alike in pieces for pair, one in zip(ids.tolist(), alike.tolist(), strict=True)]
            assert sorted(together) == expected, (cut, most)
            assert len(pieces) > 1 and max(len(ids) for ids, _ in pieces) < most + len(sets) * chains


@pytest.mark.parametrize(("bits", "distance", "count"), [(64, 3, 2000), (256, 31, 3000)])
def test_pairs_between_two_collections_of_codes(bits: int, distance: int, count: int) -> None:
    """Wherever codes are cut in two, the pairs between both parts are those that cross the cut."""
    codes = planted_codes(count, bits, distance, bits)
    expected = close_pairs(codes, distance)
    for cut in (0, 1, 1000, count - 10, count):
        between = expected[(expected[:, 0] < cut) & (cut <= expected[:, 1])] - [0, cut]
        assert np.array_equal(compute.find_all(codes[:cut], distance, others=codes[cut:]), between), cut


def test_arrays_are_taken_in_every_form() -> None:
    """A matrix, arrays of uint64 or uint32, lists of int and None give the same pairs."""
    rows = np.array([[1, 2, 3], [1, 2, 4], [7, 8, 9]], np.uint64)
    for form in (rows, rows.astype(np.uint32), list(rows), rows.tolist(), tuple(rows.astype(np.uint32))):
        assert found(form, 0.5) == [(0, 1, 0.5)]  # type: ignore[arg-type]
    assert found([None, rows[0], np.empty(0, np.uint64), rows[1]], 0.5) == [(1, 3, 0.5)]  # type: ignore[list-item]
    assert found([], 0.5) == []


def test_containment_of_whole_sets(tier: str) -> None:
    """The share of the first set's values that the second has, at lengths around the registers."""
    assert compute.containment([1, 2, 3, 4], [2, 3, 4, 5, 6, 7]) == 0.75
    assert compute.containment([], [1]) == 0.0
    assert compute.containment([1], []) == 0.0
    rng = np.random.default_rng(8)
    for a_count, b_count in itertools.product([1, 3, 4, 7, 8, 9, 16, 17, 100], repeat=2):
        a = np.unique(rng.integers(0, 120, a_count).astype(np.uint64))
        b = np.unique(rng.integers(0, 120, b_count).astype(np.uint64))
        assert compute.containment(a, b) == len(set(a.tolist()) & set(b.tolist())) / len(a)


def test_containment_of_fingerprints_by_hand() -> None:
    """Only hashes up to the smaller of the two last ones count, unless a fingerprint is the whole set."""
    assert compute.containment([1, 4, 8], [1, 2, 4], k=3) == 1.0  # 8 is beyond what [1, 2, 4] covers
    assert compute.containment([1, 4, 8], [1, 2, 4], k=4) == 2 / 3  # both are whole sets: 8 is known not to be there
    assert compute.containment([1, 2, 4], [1, 4, 8], k=3) == 2 / 3
    assert compute.containment([5], [1, 2, 4], k=3) != compute.containment([5], [1, 2, 4], k=3)  # nan: nothing is covered
    assert compute.containment([], [1, 2, 4], k=3) == 0.0


@pytest.mark.parametrize(("size_a", "size_b", "common"), [(300, 300, 150), (200, 2000, 180), (2000, 300, 90), (60, 5000, 30)])
def test_containment_of_fingerprints_is_right_on_average(size_a: int, size_b: int, common: int) -> None:
    """Over 1,000 random pairs of sets the mean estimate is the containment, but for noise and a bias of the order of 1/k."""
    rng = np.random.default_rng(size_a)
    k, estimates = 128, []
    for _ in range(1000):
        hashes = rng.integers(0, 2**64, size_a + size_b - common, dtype=np.uint64)
        a, b = compute.bottom_k(hashes[:size_a], k), compute.bottom_k(hashes[size_a - common :], k)
        estimates.append(compute.containment(a, b, k=k))
    known = np.array([value for value in estimates if value == value])
    noise = known.std() / np.sqrt(len(known))
    assert len(known) > 750
    assert abs(known.mean() - common / size_a) < 4 * noise + 1 / k
