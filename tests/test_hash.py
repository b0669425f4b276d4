"""The hashes of the C core against the reference implementations of others."""

from __future__ import annotations

import hashlib
import random

import xxhash

from neardup_db.native import ffi, lib

SEEDS = [0, 1, 0x9E3779B185EBCA87, 2**64 - 1]
DATA = bytes(i * 131 % 251 for i in range(8192))  # a prime period: swapped blocks never look equal


def digest(hash_number: int, data: bytes, seed: int = 0) -> bytes:
    size = lib.nd_hash_size(hash_number)
    out = ffi.new("uint8_t[]", size)
    assert lib.nd_hash_bytes(hash_number, seed, data, len(data), out) == lib.ND_OK
    return bytes(out)


def test_xxh3_equals_the_xxhash_package_for_every_length_to_1024() -> None:
    """XXH3-64 is the published one for every length class, with and without a seed."""
    for seed in SEEDS:
        for size in range(1025):
            assert lib.nd_xxh3_64(DATA, size, seed) == xxhash.xxh3_64_intdigest(DATA[:size], seed), (seed, size)


def test_xxh3_of_long_inputs() -> None:
    """Block boundaries (1024 bytes), the last stripe and some 100 KB inputs agree as well."""
    for seed in SEEDS:
        sizes = [*range(1025, 4097, 13), *(1024 * n + d for n in range(1, 8) for d in (-64, -1, 0, 1, 63, 64, 65))]
        for size in sizes:
            assert lib.nd_xxh3_64(DATA, size, seed) == xxhash.xxh3_64_intdigest(DATA[:size], seed), (seed, size)
        for size in (100_000, 102_400, 131_071, 300_001):
            data = random.Random(size).randbytes(size)
            assert lib.nd_xxh3_64(data, size, seed) == xxhash.xxh3_64_intdigest(data, seed), (seed, size)


def test_xxh3_of_unaligned_starts() -> None:
    """The address of the input has no influence."""
    buffer = ffi.new("uint8_t[]", DATA)
    for start in range(1, 17):
        for size in (0, 3, 8, 9, 16, 17, 33, 128, 129, 240, 241, 1024, 1025, 3000):
            expected = xxhash.xxh3_64_intdigest(DATA[start : start + size], 7)
            assert lib.nd_xxh3_64(buffer + start, size, 7) == expected, (start, size)


def test_xxh3_digest_is_big_endian() -> None:
    """The digest of XXH3-64 is the canonical form, most significant byte first, and takes the seed."""
    for seed in SEEDS:
        assert digest(lib.ND_HASH_XXH3_64, b"sample document", seed) == xxhash.xxh3_64_digest(b"sample document", seed)


def test_digests_equal_hashlib() -> None:
    """MD5, SHA-1 and SHA-256 agree with hashlib at every length around their blocks and for a long input."""
    for name, hash_number in [("md5", 4), ("sha1", 5), ("sha256", 6)]:
        for size in [*range(301), 1000, 4095, 4096, 4097, 8192]:
            assert digest(hash_number, DATA[:size]) == hashlib.new(name, DATA[:size]).digest(), (name, size)
        data = DATA * 200
        assert digest(hash_number, data) == hashlib.new(name, data).digest(), name


def test_fnv1a() -> None:
    """FNV-1a gives the vectors of its authors."""
    vectors = [(b"", 0x811C9DC5, 0xCBF29CE484222325), (b"a", 0xE40C292C, 0xAF63DC4C8601EC8C)]
    for text, fnv32, fnv64 in [*vectors, (b"foobar", 0xBF9CF968, 0x85944171F73967E8)]:
        assert int.from_bytes(digest(lib.ND_HASH_FNV1A_32, text), "big") == fnv32, text
        assert int.from_bytes(digest(lib.ND_HASH_FNV1A_64, text), "big") == fnv64, text


def test_djb2a() -> None:
    """djb2a gives the article's value, its start for nothing, and wraps at 32 bits."""
    assert int.from_bytes(digest(lib.ND_HASH_DJB2A, b""), "big") == 5381
    assert int.from_bytes(digest(lib.ND_HASH_DJB2A, b"he"), "big") == 5861128
    value = 5381
    for byte in DATA[:300]:
        value = value * 33 % 2**32 ^ byte
    assert int.from_bytes(digest(lib.ND_HASH_DJB2A, DATA[:300]), "big") == value


def test_the_seed_is_for_xxh3_alone() -> None:
    """The other hashes ignore the seed."""
    for hash_number in range(1, 7):
        assert digest(hash_number, b"abc", 0) == digest(hash_number, b"abc", 99)


def test_sizes_and_unknown_hashes() -> None:
    """Each hash has its digest size; an unknown number has none and is refused."""
    assert [lib.nd_hash_size(number) for number in range(-1, 8)] == [0, 8, 4, 8, 4, 16, 20, 32, 0]
    out = ffi.new("uint8_t[]", 32)
    assert lib.nd_hash_bytes(7, 0, b"abc", 3, out) == lib.ND_ERROR_PARAMETER
    assert lib.nd_hash_bytes(-1, 0, b"abc", 3, out) == lib.ND_ERROR_PARAMETER
