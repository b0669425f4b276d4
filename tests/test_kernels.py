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


@pytest.mark.parametrize("num_perm", [1, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 40, 100, 127, 128, 129, 144, 256, 300])
@pytest.mark.parametrize("count", [1, 2, 8, 511, 512, 513, 1025])
def test_minhash_equals_its_formula(tier: str, num_perm: int, count: int) -> None:
    """affine32 slots are the mixed minima of a * x + b over the folded hashes, computed here with numpy."""
    rng = np.random.default_rng(num_perm * 10_000 + count)
    hashes = rng.integers(0, 2**64, count, dtype=np.uint64)
    a, b = rng.integers(0, 2**32, num_perm, dtype=np.uint32), rng.integers(0, 2**32, num_perm, dtype=np.uint32)
    folded = hashes
    for _ in range(2):
        folded = (folded ^ (folded >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
    x = (folded >> np.uint64(32)).astype(np.uint32)
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


@pytest.mark.parametrize("count", [*LENGTHS, 1983, 1984, 1985, 4001])
@pytest.mark.parametrize(("hash_bits", "bits"), [(64, 64), (64, 24), (32, 32), (32, 8)])
def test_simhash_of_numbers_is_the_sign_of_the_sums(tier: str, count: int, hash_bits: int, bits: int) -> None:
    """The same for hashes held as numbers, random and with bits that are nearly always or nearly never set."""
    rng = np.random.default_rng(count + bits)
    likely = np.uint64(1) << rng.integers(0, 64, (count, 40), dtype=np.uint64)
    for hashes in (rng.integers(0, 2**64, count, dtype=np.uint64), np.bitwise_or.reduce(likely, axis=1, initial=0)):
        kept = hashes >> np.uint64(64 - hash_bits)
        digests = kept.astype(">u8").view(np.uint8).reshape(count, 8)[:, 8 - hash_bits // 8 :][:, : bits // 8]
        ones = np.unpackbits(digests, axis=1).sum(axis=0, dtype=np.int64)
        counters, code = ffi.new("int64_t[]", bits), ffi.new("uint8_t[]", bits // 8)
        data = ffi.from_buffer("uint64_t[]", kept)
        assert lib.nd_simhash_u64(data, count, hash_bits, bits, ffi.NULL, counters, code) == lib.ND_OK
        assert bytes(code) == np.packbits(2 * ones > count).tobytes()
        assert list(counters) == (2 * ones - count).tolist()


@pytest.mark.parametrize("size", [1, 4, 8, 16, 20, 31])
@pytest.mark.parametrize("count", [0, 1, 2, 7, 64, 511, 512, 513, 1025])
def test_weighted_simhash_is_exact(tier: str, size: int, count: int) -> None:
    """Weights of every size and sign are summed without loss: one unit decides where the rest is balanced."""
    rng = np.random.default_rng(size * 10_000 + count)
    digests = rng.integers(0, 256, (count, size), dtype=np.uint8)
    weights = rng.integers(-(2**52), 2**52, count)
    if count >= 7:  # a great weight that the last one takes back but for one
        digests[-1] = digests[0]
        weights[0], weights[-1] = 2**61, 1 - 2**61
    signs = 2 * np.unpackbits(digests, axis=1).astype(object) - 1
    sums = [sum((int(w) * s for w, s in zip(weights, signs[:, bit], strict=True)), 0) for bit in range(8 * size)]
    counters, code = ffi.new("int64_t[]", 8 * size), ffi.new("uint8_t[]", size)
    native = ffi.new("int64_t[]", weights.tolist() or [0])
    assert lib.nd_simhash(digests.tobytes(), count, size, 8 * size, native, counters, code) == lib.ND_OK
    assert list(counters) == sums
    assert bytes(code) == np.packbits([total > 0 for total in sums]).tobytes()
    if size == 8:
        data = ffi.from_buffer("uint64_t[]", digests.reshape(-1).view(">u8").astype(np.uint64))
        assert lib.nd_simhash_u64(data, count, 64, 64, native, counters, code) == lib.ND_OK
        assert list(counters) == sums


def evenly(rng: np.random.Generator, count: int) -> np.ndarray:
    return rng.integers(0, 2**64, count, dtype=np.uint64)


BOTTOM_K_INPUTS = {
    "random": evenly,
    "repeats": lambda rng, count: evenly(rng, count // 7 + 1)[rng.integers(0, count // 7 + 1, count)],
    "ascending": lambda rng, count: np.arange(count, dtype=np.uint64),
    "descending": lambda rng, count: np.arange(count, 0, -1, dtype=np.uint64) << np.uint64(40),
    "of 32 bits": lambda rng, count: evenly(rng, count) >> np.uint64(32),
    "large": lambda rng, count: np.uint64(2**64 - 1) - (evenly(rng, count) >> np.uint64(60)),
    "in clusters": lambda rng, count: evenly(rng, count) & np.uint64(0xF0000000000000FF),
}


@pytest.mark.parametrize("kind", BOTTOM_K_INPUTS)
@pytest.mark.parametrize("count", [*LENGTHS, 20_000])
def test_bottom_k_are_the_smallest_distinct(tier: str, kind: str, count: int) -> None:
    """Whatever the hashes and their order, the k smallest distinct ones come out, ascending."""
    hashes = BOTTOM_K_INPUTS[kind](np.random.default_rng(count), count)
    for k in (1, 2, 31, 128, 700, 5000):
        out, out_count = np.empty(k, np.uint64), ffi.new("size_t *")
        status = lib.nd_bottom_k(
            ffi.from_buffer("uint64_t[]", hashes), count, k, ffi.from_buffer("uint64_t[]", out, require_writable=True), out_count
        )
        assert status == lib.ND_OK
        assert np.array_equal(out[: out_count[0]], np.unique(hashes)[:k])


# affine32, version 1: (seed, hashes) -> the first four of 128 slots, the last one, and all of them folded into one number by
# f = 0, then f = (f * 0x100000001B3 + slot) modulo 2^64 for each. Computed once by plain Python from the formula in
# ARCHITECTURE.md; "outputs" are the first 1,000 of SplitMix64 from 42. They never change: files hold such slots.
KNOWN = [
    (1, "zero", (0xC29B7EEE, 0x15D4A13C, 0xE840D2CC, 0x1E9371E6), 0x1120CCC0, 0xF16C0994FD7C10FA),
    (1, "ones", (0xF980E8B, 0xF26DF1A6, 0x5A2A951A, 0xD05CC9BC), 0x6A37D821, 0x5E557D56D9F33B01),
    (1, "1 to 10", (0x9FA2DF99, 0x763C1B53, 0x9650EC86, 0xC6C29B34), 0xE8E205E7, 0xBDBDC25DFCF808C2),
    (1, "outputs", (0x1F58819E, 0xB317FFF5, 0x3E3EE890, 0x3144484C), 0x101CF62A, 0x94CE3E64B0E804AF),
    (0xDEADBEEF, "zero", (0xFB1783, 0x8A39E1E, 0xD05C0C56, 0xCC3942B8), 0xC32025CE, 0xB40044C10BF3A1AC),
    (0xDEADBEEF, "ones", (0xA645D28F, 0xD49E6450, 0x1B7BB7D5, 0x9FE21AFA), 0xF6414308, 0xD8878A5B6E479048),
    (0xDEADBEEF, "1 to 10", (0x8D91C9B7, 0x3021811D, 0x6E0238F2, 0xFC32BED), 0x6B9A85C0, 0xC1835F3D626505B8),
    (0xDEADBEEF, "outputs", (0x4ECF7B42, 0xE6E72B5F, 0x8AF4F335, 0x2A65DEC7), 0x30BB872D, 0x46E3DC0602250C14),
]


def splitmix64(state: int, count: int) -> list[int]:
    outputs = []
    for _ in range(count):
        state = (state + 0x9E3779B97F4A7C15) % 2**64
        value = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        value = (value ^ value >> 27) * 0x94D049BB133111EB % 2**64
        outputs.append(value ^ value >> 31)
    return outputs


@pytest.mark.parametrize(("seed", "name", "first", "last", "folded"), KNOWN)
def test_affine32_version_1_gives_its_known_answers(
    tier: str, seed: int, name: str, first: tuple[int, ...], last: int, folded: int
) -> None:
    """The slots of version 1 are those that files written by it hold."""
    sets = {"zero": [0], "ones": [2**64 - 1], "1 to 10": list(range(1, 11)), "outputs": splitmix64(42, 1000)}
    hashes = sets[name]
    a, b, slots = ffi.new("uint32_t[]", 128), ffi.new("uint32_t[]", 128), ffi.new("uint32_t[]", 128)
    assert lib.ND_ALGORITHM_VERSION == 1
    assert lib.nd_minhash_coefficients(lib.ND_FAMILY_AFFINE32, seed, 128, a, b) == lib.ND_OK
    native = ffi.new("uint64_t[]", hashes)
    assert lib.nd_minhash(lib.ND_FAMILY_AFFINE32, a, b, 128, native, len(hashes), slots) == lib.ND_OK
    total = 0
    for slot in slots:
        total = (total * 0x100000001B3 + slot) % 2**64
    assert (tuple(slots[0:4]), slots[127], total) == (first, last, folded)


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
