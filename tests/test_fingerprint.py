"""Fingerprints and their comparison against plain Python, and against the published examples."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neardup_db.native import ffi, lib

MASK32, MASK64 = 2**32 - 1, 2**64 - 1
U64 = st.integers(0, MASK64)


def simhash(digests: list[bytes], bits: int, weights: list[int] | None = None) -> bytes:
    size = len(digests[0]) if digests else 32
    counters, code = ffi.new("int64_t[]", bits), ffi.new("uint8_t[]", bits // 8)
    native = ffi.NULL if weights is None else ffi.new("int64_t[]", weights)
    assert lib.nd_simhash(b"".join(digests), len(digests), size, bits, native, counters, code) == lib.ND_OK
    return bytes(code)


def coefficients(family: int, seed: int, num_perm: int) -> tuple[Any, Any]:
    a, b = ffi.new("uint32_t[]", num_perm), ffi.new("uint32_t[]", num_perm)
    assert lib.nd_minhash_coefficients(family, seed, num_perm, a, b) == lib.ND_OK
    return a, b


def minhash(family: int, seed: int, num_perm: int, hashes: list[int]) -> list[int]:
    a, b = coefficients(family, seed, num_perm)
    slots = ffi.new("uint32_t[]", num_perm)
    assert lib.nd_minhash(family, a, b, num_perm, ffi.new("uint64_t[]", hashes), len(hashes), slots) == lib.ND_OK
    return list(slots)


def array(values: Any) -> Any:
    return ffi.new("uint64_t[]", sorted(values))


# ---- SimHash


def test_simhash_ties_give_zero() -> None:
    """A bit set in exactly half of the digests is 0, and so is every bit without any digest."""
    assert simhash([b"\xf0", b"\x0f"], 8) == b"\x00"
    assert simhash([b"\xf0", b"\x0f", b"\x81"], 8) == b"\x81"
    assert simhash([], 256) == bytes(32)


def test_simhash_refuses_widths_that_the_digest_lacks() -> None:
    """Bits must be a multiple of 8 and no more than the digest has."""
    for bits in [0, 7, 12, 72]:
        counters, code = ffi.new("int64_t[]", 128), ffi.new("uint8_t[]", 16)
        assert lib.nd_simhash(bytes(8), 1, 8, bits, ffi.NULL, counters, code) == lib.ND_ERROR_PARAMETER, bits


def test_simhash_refuses_weights_whose_sum_leaves_64_bits() -> None:
    """Weights that could overflow a counter are refused, the largest ones that cannot are taken."""
    counters, code = ffi.new("int64_t[]", 8), ffi.new("uint8_t[]", 1)
    for weights, status in (
        ([2**62, 2**62], lib.ND_ERROR_PARAMETER),
        ([-(2**63), 0], lib.ND_ERROR_PARAMETER),
        ([2**62, 2**62 - 1], lib.ND_OK),
    ):
        assert lib.nd_simhash(b"\xff\x00", 2, 1, 8, ffi.new("int64_t[]", weights), counters, code) == status
    assert bytes(code) == b"\xff"


# ---- MinHash


@given(st.lists(U64, min_size=1, max_size=20), st.integers(0, MASK64))
def test_java32_keeps_the_signed_minimum(hashes: list[int], seed: int) -> None:
    """java32 takes the low 32 bits of a hash and the smallest of the products as signed numbers, unmixed."""
    a, b = coefficients(lib.ND_FAMILY_JAVA32, seed, 9)
    expected = []
    for x, y in zip(a, b, strict=True):
        values = [(x * h + y) & MASK32 for h in hashes]
        expected.append(min(values, key=lambda v: v - 2**32 if v >> 31 else v))
    assert minhash(lib.ND_FAMILY_JAVA32, seed, 9, hashes) == expected


def test_affine32_coefficients_come_from_splitmix64() -> None:
    """The first outputs of SplitMix64(1234567), as published, give a (odd) from the low half and b from the high half."""
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821]
    a, b = coefficients(lib.ND_FAMILY_AFFINE32, 1234567, 5)
    assert list(a) == [(v & MASK32) | 1 for v in published]
    assert list(b) == [v >> 32 for v in published]


def fold(value: int) -> int:
    return (value ^ value >> 32) * 0x9E3779B97F4A7C15 & MASK64


def mix32(value: int) -> int:
    value = (value ^ value >> 16) * 0x85EBCA6B & MASK32
    value = (value ^ value >> 13) * 0xC2B2AE35 & MASK32
    return value ^ value >> 16


@given(st.lists(U64, min_size=1, max_size=20), st.integers(0, MASK64))
def test_affine32_equals_its_formula(hashes: list[int], seed: int) -> None:
    """A slot is the mixed minimum of a * x + b over the folded hashes, in plain integers."""
    a, b = coefficients(lib.ND_FAMILY_AFFINE32, seed, 9)
    folded = [fold(fold(h)) >> 32 for h in hashes]
    expected = []
    for x, y in zip(a, b, strict=True):
        expected.append(mix32(min((x * m + y) & MASK32 for m in folded)))
    assert minhash(lib.ND_FAMILY_AFFINE32, seed, 9, hashes) == expected


def test_minhash_needs_hashes_and_a_known_family() -> None:
    """No hashes have no minimum, and an unknown family is refused."""
    a, b = coefficients(lib.ND_FAMILY_AFFINE32, 1, 4)
    slots = ffi.new("uint32_t[]", 4)
    assert lib.nd_minhash(lib.ND_FAMILY_AFFINE32, a, b, 4, ffi.NULL, 0, slots) == lib.ND_ERROR_PARAMETER
    assert lib.nd_minhash(2, a, b, 4, ffi.new("uint64_t[]", 1), 1, slots) == lib.ND_ERROR_PARAMETER
    assert lib.nd_minhash_coefficients(2, 1, 4, a, b) == lib.ND_ERROR_PARAMETER


@pytest.mark.parametrize("jaccard", [0.5, 0.6, 0.7, 0.8, 0.9, 0.95])
def test_min_hashes_of_random_sets_agree_as_independent_draws_would(jaccard: float) -> None:
    """Share of equal slots, its variance, differing low bits and band candidates are those of independent draws at the true J."""
    trials, size, num_perm = 800, 200, 128
    rng = np.random.default_rng(int(jaccard * 1000))
    a, b = coefficients(lib.ND_FAMILY_AFFINE32, 1, num_perm)
    common = round(jaccard * size)
    true = common / size
    equal, candidates, low_bits = [], {(9, 4): 0, (16, 6): 0, (9, 13): 0}, []
    slots = np.empty((2, num_perm), np.uint32)
    for _ in range(trials):
        hashes = rng.integers(0, 2**64, size, dtype=np.uint64)
        half = (size + common) // 2
        for row, mine in zip(slots, (hashes[:half], np.concatenate([hashes[:common], hashes[half:]])), strict=True):
            out = ffi.from_buffer("uint32_t[]", row, require_writable=True)
            data = np.ascontiguousarray(mine)
            lib.nd_minhash(lib.ND_FAMILY_AFFINE32, a, b, num_perm, ffi.from_buffer("uint64_t[]", data), len(data), out)
        same = (slots[0] & 0xFFFF) == (slots[1] & 0xFFFF)
        equal.append(same.mean())
        low_bits.append(((slots[0] ^ slots[1]) & 1).mean())
        for bands, rows in candidates:
            candidates[bands, rows] += bool(same[: bands * rows].reshape(bands, rows).all(axis=1).any())

    def within(measured: float, expected: float, deviation: float) -> bool:
        return abs(measured - expected) <= 4.5 * deviation + 1 / trials

    variance = true * (1 - true) / num_perm
    assert within(float(np.mean(equal)), true, math.sqrt(variance / trials))
    assert within(float(np.var(equal)), variance, variance * math.sqrt(2 / trials))
    differ = (1 - true) / 2
    assert within(float(np.mean(low_bits)), differ, math.sqrt(differ * (1 - differ) / num_perm / trials))
    for (bands, rows), count in candidates.items():
        p = 1 - (1 - true**rows) ** bands
        assert within(count / trials, p, math.sqrt(p * (1 - p) / trials)), (bands, rows)


# ---- bottom-k, samples, sorting


def test_sort_distinct_sorts_and_removes_repeats() -> None:
    """Whatever the length and however many repeats, the result is the sorted set."""
    for count in [0, 1, 2, 47, 48, 49, 50, 255, 256, 257, 5000]:
        for span in [1, 40, 2**16, 2**64]:
            values = np.random.default_rng(count).integers(0, span, count, dtype=np.uint64) * np.uint64((2**64 - 1) // span)
            expected = np.unique(values)
            left = lib.nd_sort_distinct(ffi.from_buffer("uint64_t[]", values, require_writable=True), count)
            assert np.array_equal(values[:left], expected), (count, span)


# ---- thresholds and similarities

THRESHOLDS = [0.5, 0.55, 0.6, 2 / 3, 0.7, 0.8, 0.9, 0.95, 1.0, 0.1, 1e-9]


def test_overlap_needed_is_the_first_that_passes_the_verdict() -> None:
    """For every total up to 600 it is what trying one overlap after another finds."""
    for threshold in THRESHOLDS:
        for total in range(601):
            passing = (c for c in range(total // 2 + 1) if total > c and c / (total - c) >= threshold)
            assert lib.nd_overlap_needed(total, threshold) == next(passing, total + 1), (threshold, total)


@given(st.integers(1, 10**12), st.floats(1e-6, 1.0))
def test_overlap_needed_of_large_totals(total: int, threshold: float) -> None:
    """The overlap returned passes and the one below does not, in doubles, for any total and threshold."""
    needed = lib.nd_overlap_needed(total, threshold)
    largest = total // 2
    if needed == total + 1:
        assert not largest / (total - largest) >= threshold
    else:
        assert needed / (total - needed) >= threshold
        assert needed == 0 or not (needed - 1) / (total - needed + 1) >= threshold


def test_prefix_count_leaves_out_what_every_partner_must_reach() -> None:
    """The prefix is count - o + 1 with the smallest o that passes o / count >= threshold."""
    for threshold in THRESHOLDS:
        assert lib.nd_prefix_count(0, threshold) == 0, threshold
        for count in range(1, 400):
            needed = next(c for c in range(count + 1) if c / count >= threshold)
            assert lib.nd_prefix_count(count, threshold) == count - needed + 1, (threshold, count)


SETS = st.sets(st.integers(0, 40) | st.sampled_from([2**63 - 1, 2**63, 2**64 - 1]), max_size=40)


def test_estimate_is_unbiased_where_the_ratio_of_fingerprints_is_not() -> None:
    """Over random sets with J = 1/3 the mean of the estimate is J within four standard errors."""
    rng = np.random.default_rng(3)
    got = []
    for _ in range(400):
        values = rng.integers(0, 2**64, 1500, dtype=np.uint64)
        left, right = np.sort(values[:1000])[:64].copy(), np.sort(np.concatenate([values[:500], values[1000:]]))[:64].copy()
        estimate = lib.nd_jaccard_estimate(ffi.from_buffer("uint64_t[]", left), 64, ffi.from_buffer("uint64_t[]", right), 64, 64)
        got.append(estimate)
    true = 500 / 1500
    assert abs(np.mean(got) - true) < 4 * math.sqrt(true * (1 - true) / 64 / 400)
