"""Candidate keys: block tables, chunks and their neighbours, bands. Guarantees tried out, published examples reproduced."""

from __future__ import annotations

import itertools
import math

import pytest

from neardup_db.native import ffi, lib


def block_table(blocks: int, distance: int, index: int) -> list[int]:
    order = ffi.new("uint8_t[]", blocks)
    assert lib.nd_block_table(blocks, distance, index, order) == lib.ND_OK
    return list(order)


def neighbours(chunk: int, bits: int, radius: int) -> list[int]:
    capacity = sum(math.comb(bits, r) for r in range(radius + 1))
    out, count = ffi.new("uint64_t[]", capacity), ffi.new("size_t *")
    assert lib.nd_neighbours(chunk, bits, radius, out, capacity, count) == lib.ND_OK
    assert count[0] == capacity
    return list(out)


# ---- blocks


@pytest.mark.parametrize(
    ("blocks", "distance"), [(1, 0), (4, 3), (5, 3), (6, 3), (7, 0), (8, 5), (10, 9), (12, 4), (64, 1), (200, 1)]
)
def test_block_tables_are_all_choices_in_lexicographic_order(blocks: int, distance: int) -> None:
    """One table for each choice of leading blocks, in the order of itertools.combinations from the most significant block."""
    names = range(blocks - 1, -1, -1)
    leading = list(itertools.combinations(names, blocks - distance))
    assert lib.nd_block_table_count(blocks, distance) == len(leading)
    for index, chosen in enumerate(leading):
        assert block_table(blocks, distance, index) == [*chosen, *(b for b in names if b not in chosen)]
    order = ffi.new("uint8_t[]", blocks)
    assert lib.nd_block_table(blocks, distance, len(leading), order) == lib.ND_ERROR_PARAMETER


def test_block_tables_beyond_reason_are_none() -> None:
    """No tables where the distance is not below the number of blocks, or where there would be more than 100,000."""
    assert [lib.nd_block_table_count(*pair) for pair in ((0, 0), (3, 3), (3, 4), (64, 32), (30, 15), (256, 256), (257, 1))] == [
        0
    ] * 7
    assert lib.nd_block_table_count(256, 1) == 256
    assert lib.nd_block_table_count(20, 6) == math.comb(20, 6) == 38_760
    assert lib.nd_block_table_count(20, 8) == 0  # C(20, 8) = 125,970


# ---- chunks


def test_chunks_wider_than_64_bits_or_narrower_than_one_are_refused() -> None:
    """A chunk must fit a 64-bit number and have a bit at least."""
    out = ffi.new("uint64_t[]", 80)
    for bits, chunks, status in (
        (128, 1, lib.ND_ERROR_PARAMETER),
        (128, 2, lib.ND_OK),
        (72, 73, lib.ND_ERROR_PARAMETER),
        (64, 0, lib.ND_ERROR_PARAMETER),
    ):
        assert lib.nd_split_chunks(bytes(16), bits, chunks, out) == status
    assert lib.nd_chunk_bits(64, 4, 4) == 0


def test_neighbours_of_64_bits_and_too_small_buffers() -> None:
    """A chunk of 64 bits works, a short buffer is told what it needs, widths beyond 64 are refused."""
    assert neighbours(2**64 - 1, 64, 1)[:3] == [2**64 - 1, 2**63 - 1, 2**64 - 1 - 2**62]
    out, count = ffi.new("uint64_t[]", 4), ffi.new("size_t *")
    assert lib.nd_neighbours(0, 4, 1, out, 4, count) == lib.ND_ERROR_CAPACITY
    assert count[0] == 5
    assert lib.nd_neighbours(0, 65, 0, out, 4, count) == lib.ND_ERROR_PARAMETER
    assert lib.nd_neighbours(0, 0, 0, out, 4, count) == lib.ND_ERROR_PARAMETER


def test_neighbour_counts_are_sums_of_binomials() -> None:
    """Counts are exact up to 2 ** 63 and saturate beyond."""
    for bits in [1, 7, 16, 31, 32, 33, 62, 63, 64]:
        for radius in range(bits + 3):
            exact = sum(math.comb(bits, r) for r in range(radius + 1))
            assert lib.nd_neighbour_count(bits, radius) == (exact if exact <= 2**63 else 2**64 - 1), (bits, radius)


@pytest.mark.parametrize(("bits", "chunks"), [(12, 2), (12, 3), (14, 4), (13, 5)])
def test_probing_with_the_radii_misses_nothing(bits: int, chunks: int) -> None:
    """Every pattern of up to R flipped bits has a chunk within its radius, for every R."""
    starts = [0]
    for i in reversed(range(chunks)):
        starts.append(starts[-1] + lib.nd_chunk_bits(bits, chunks, i))
    bounds = list(reversed(list(itertools.pairwise(starts))))  # chunk 0 is the most significant
    for distance in range(bits + 1):
        radii = [lib.nd_chunk_radius(chunks, distance, i) for i in range(chunks)]
        whole, first = divmod(distance, chunks)
        assert radii == [whole] * (first + 1) + [whole - 1] * (chunks - first - 1)
        for flips in itertools.combinations(range(bits), distance):
            assert any(sum(low <= f < high for f in flips) <= radius for (low, high), radius in zip(bounds, radii, strict=True))
    assert lib.nd_chunk_radius(chunks, 3, chunks) == -1


# ---- bands


def test_bands_beyond_the_signature_are_refused() -> None:
    """bands * rows may not exceed the slots, and slots have 2 or 4 bytes."""
    buckets = ffi.new("int32_t[]", 64)
    for bands, rows, slot_size in ((7, 5, 2), (1, 31, 2), (31, 1, 2), (3, 0, 2), (3, 3, 8)):
        assert lib.nd_band_buckets(bytes(240), 30, slot_size, bands, rows, buckets) == lib.ND_ERROR_PARAMETER
