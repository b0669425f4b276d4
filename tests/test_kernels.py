"""Every tier of kernels against plain Python and numpy, at lengths around the registers and at every alignment."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from neardup_db.native import ffi, lib

TIERS = [ffi.string(lib.nd_isa_at(i)).decode() for i in range(lib.nd_isa_count())]
LENGTHS = [0, 1, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 254, 255, 256, 257, 511, 512, 513, 1025]


@pytest.fixture(params=TIERS)
def tier(request: pytest.FixtureRequest) -> Iterator[str]:
    assert lib.nd_isa_force(request.param.encode()) == lib.ND_OK
    yield request.param
    assert lib.nd_isa_force(ffi.NULL) == lib.ND_OK


def random_bytes(size: int, seed: int) -> bytes:
    return np.random.default_rng(seed).integers(0, 256, size, dtype=np.uint8).tobytes()


def test_tiers_start_with_scalar_and_can_be_forced(tier: str) -> None:
    """The scalar tier is always there, a forced tier is the active one, an unknown one is refused."""
    assert TIERS[0] == "scalar"
    assert ffi.string(lib.nd_isa_name()).decode() == tier
    assert lib.nd_isa_force(b"abacus") == lib.ND_ERROR_PARAMETER
    assert ffi.string(lib.nd_isa_name()).decode() == tier
    assert lib.nd_isa_at(len(TIERS)) == ffi.NULL
    assert lib.nd_isa_at(-1) == ffi.NULL


@pytest.mark.parametrize("size", LENGTHS)
def test_hamming_counts_differing_bits(tier: str, size: int) -> None:
    """Hamming distance is the population of the XOR, whatever the addresses."""
    a, b = random_bytes(size, 1), random_bytes(size, 2)
    expected = (int.from_bytes(a, "big") ^ int.from_bytes(b, "big")).bit_count()
    for skew in range(8):
        left, right = ffi.new("uint8_t[]", bytes(skew) + a), ffi.new("uint8_t[]", bytes(7 - skew) + b)
        assert lib.nd_hamming(left + skew, right + 7 - skew, size) == expected


@pytest.mark.parametrize("count", LENGTHS)
def test_equal_slots_are_counted(tier: str, count: int) -> None:
    """Equal slots of 16 and of 32 bits are counted; a difference in any single byte of a slot counts as one."""
    rng = np.random.default_rng(count)
    wide = rng.integers(0, 2**32, count, dtype=np.uint32)
    other = wide ^ np.where(rng.random(count) < 0.4, np.uint32(1) << rng.integers(0, 32, count, dtype=np.uint32), np.uint32(0))
    narrow, narrow_other = wide.astype(np.uint16), other.astype(np.uint16)
    left, right = ffi.from_buffer("uint32_t[]", wide), ffi.from_buffer("uint32_t[]", other)
    assert lib.nd_equal_slots32(left, right, count) == int((wide == other).sum())
    left, right = ffi.from_buffer("uint16_t[]", narrow), ffi.from_buffer("uint16_t[]", narrow_other)
    assert lib.nd_equal_slots16(left, right, count) == int((narrow == narrow_other).sum())


@pytest.mark.parametrize("num_perm", [1, 7, 8, 9, 31, 32, 33, 40, 127, 128, 129])
@pytest.mark.parametrize("count", [1, 2, 8, 511, 512, 513, 1025])
def test_minhash_equals_its_formula(tier: str, num_perm: int, count: int) -> None:
    """affine32 slots are the mixed minima of a * x + b over the premixed hashes, computed here with numpy."""
    rng = np.random.default_rng(num_perm * 10_000 + count)
    hashes = rng.integers(0, 2**64, count, dtype=np.uint64)
    a, b = rng.integers(0, 2**32, num_perm, dtype=np.uint32), rng.integers(0, 2**32, num_perm, dtype=np.uint32)
    x = (((hashes ^ (hashes >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)).astype(np.uint32)
    slots = (a[:, None] * x[None, :] + b[:, None]).min(axis=1)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        slots = (slots ^ (slots >> np.uint32(shift))) * np.uint32(factor)
    slots ^= slots >> np.uint32(16)
    got = np.empty(num_perm, np.uint32)
    status = lib.nd_minhash(
        lib.ND_FAMILY_AFFINE32,
        ffi.from_buffer("uint32_t[]", a),
        ffi.from_buffer("uint32_t[]", b),
        num_perm,
        ffi.from_buffer("uint64_t[]", hashes),
        count,
        ffi.from_buffer("uint32_t[]", got, require_writable=True),
    )
    assert status == lib.ND_OK
    assert np.array_equal(got, slots)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 8, 16, 20, 31, 32])
@pytest.mark.parametrize("count", [0, 1, 2, 254, 255, 256, 511, 1025])
def test_simhash_is_the_sign_of_the_sums(tier: str, size: int, count: int) -> None:
    """Bit i of a SimHash says whether more than half of the digests have bit i set."""
    digests = np.frombuffer(random_bytes(size * count, size + count), np.uint8).reshape(count, size)
    ones = np.unpackbits(digests, axis=1).sum(axis=0, dtype=np.int64)
    expected = np.packbits(2 * ones > count).tobytes()
    counters, code = ffi.new("int64_t[]", 8 * size), ffi.new("uint8_t[]", size)
    assert lib.nd_simhash(digests.tobytes(), count, size, 8 * size, ffi.NULL, counters, code) == lib.ND_OK
    assert bytes(code) == expected


@pytest.mark.parametrize("counts", [(1, 1), (3, 4), (4, 4), (5, 9), (128, 128), (127, 129), (512, 40), (1, 600)])
def test_jaccard_with_and_without_an_early_stop(tier: str, counts: tuple[int, int]) -> None:
    """The merge gives the exact ratio, or 0.0 where that is below the threshold, for every share of common values."""
    rng = np.random.default_rng(sum(counts))
    for common in sorted({0, 1, min(counts) // 2, min(counts) * 4 // 5, min(counts) - 1, min(counts)}):
        values = rng.permutation(np.unique(rng.integers(0, 2**64, 2 * sum(counts), dtype=np.uint64)))
        a = np.sort(values[: counts[0]])
        b = np.sort(np.concatenate([values[:common], values[counts[0] : counts[0] + counts[1] - common]]))
        expected = common / (sum(counts) - common)
        for threshold in (0.0, 0.05, 0.3, 0.5, 0.55, 0.6, 0.7, 0.8, 0.9, 1.0, expected, np.nextafter(expected, 2.0)):
            got = lib.nd_jaccard(
                ffi.from_buffer("uint64_t[]", a), counts[0], ffi.from_buffer("uint64_t[]", b), counts[1], float(threshold)
            )
            assert got == (expected if expected >= threshold else 0.0)
