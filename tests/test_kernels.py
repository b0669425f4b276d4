"""The tiers of kernels: how one is chosen, and the slots that files hold. What each kernel gives is tested in C (tests/c)."""

from __future__ import annotations

from neardup_db.native import ffi, lib


def test_tiers_start_with_the_platforms_own_and_can_be_forced(tier: str) -> None:
    """The first tier is what every CPU of the platform has, a forced tier is the active one, an unknown one is refused."""
    assert ffi.string(lib.nd_isa_at(0)) in (b"scalar", b"neon")
    assert ffi.string(lib.nd_isa_name()).decode() == tier
    assert lib.nd_isa_force(b"abacus") == lib.ND_ERROR_PARAMETER
    assert ffi.string(lib.nd_isa_name()).decode() == tier
    assert lib.nd_isa_at(lib.nd_isa_count()) == ffi.NULL
    assert lib.nd_isa_at(-1) == ffi.NULL


# affine32, version 1: (seed, hashes) -> the first four of 128 slots, the last one, and all of them folded into one number by
# f = 0, then f = (f * 0x100000001B3 + slot) modulo 2^64 for each. Computed once by plain Python from the formula in
# docs/reference/format.md; "outputs" are the first 1,000 of SplitMix64 from 42. They never change: files hold such slots.
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


def test_affine32_version_1_gives_its_known_answers(tier: str) -> None:
    """The slots of version 1 are those that files written by it hold."""
    sets = {"zero": [0], "ones": [2**64 - 1], "1 to 10": list(range(1, 11)), "outputs": splitmix64(42, 1000)}
    a, b, slots = ffi.new("uint32_t[]", 128), ffi.new("uint32_t[]", 128), ffi.new("uint32_t[]", 128)
    assert lib.ND_ALGORITHM_VERSION == 1
    for seed, name, first, last, folded in KNOWN:
        hashes = sets[name]
        assert lib.nd_minhash_coefficients(lib.ND_FAMILY_AFFINE32, seed, 128, a, b) == lib.ND_OK, (seed, name)
        native = ffi.new("uint64_t[]", hashes)
        assert lib.nd_minhash(lib.ND_FAMILY_AFFINE32, a, b, 128, native, len(hashes), slots) == lib.ND_OK, (seed, name)
        total = 0
        for slot in slots:
            total = (total * 0x100000001B3 + slot) % 2**64
        assert (tuple(slots[0:4]), slots[127], total) == (first, last, folded), (seed, name)
