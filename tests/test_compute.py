"""The functions without an index, against plain Python and against the C core's own pieces."""

from __future__ import annotations

import hashlib
import math
import random
from itertools import combinations

import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from neardup_db import BottomK, Index, MinHash, SimHash, TextRules, compute
from neardup_db.compute.arguments import joined_sets
from neardup_db.native import ffi, lib

M64 = (1 << 64) - 1
hash64 = st.integers(0, M64)
small_sets = st.sets(st.integers(0, 40), max_size=30)


# ---- hashes ------------------------------------------------------------------------------------------------------------


@given(st.binary(max_size=300))
def test_hash_bytes(data):
    """Hashes of up to 64 bits are numbers, wider ones digests; each equals an independent implementation's."""
    assert compute.hash_bytes(data) == xxhash.xxh3_64_intdigest(data)
    assert compute.hash_bytes(data, "xxh3_64", seed=M64) == xxhash.xxh3_64_intdigest(data, M64)
    for name in ("md5", "sha1", "sha256"):
        assert compute.hash_bytes(data, name) == hashlib.new(name, data).digest()
    value, djb = 0xCBF29CE484222325, 5381
    for byte in data:
        value, djb = (value ^ byte) * 0x100000001B3 & M64, djb * 33 & 0xFFFFFFFF ^ byte
    assert compute.hash_bytes(data, "fnv1a_64") == value and compute.hash_bytes(data, "djb2a") == djb


def test_hash_bytes_of_text():
    """A str is hashed as UTF-8."""
    assert compute.hash_bytes("é", "md5") == hashlib.md5("é".encode()).digest()


def test_shingle_hashes_types():
    """uint64 for hashes of 64 bits, uint32 for 32, rows of bytes for wider ones, empty ones of the same type."""
    for name, dtype, shape in (("xxh3_64", "uint64", (2,)), ("djb2a", "uint32", (2,)), ("sha1", "uint8", (2, 20))):
        hashes = compute.shingle_hashes("one two three four", TextRules(hash=name))
        assert hashes.dtype == dtype and hashes.shape == shape
        empty = compute.shingle_hashes("", TextRules(hash=name))
        assert empty.dtype == dtype and empty.shape == (0, *shape[1:])
    assert compute.shingle_hashes("a b c", TextRules(hash="fnv1a_32")).tolist() == [compute.hash_bytes(b"a b c", "fnv1a_32")]


# ---- fingerprints ------------------------------------------------------------------------------------------------------


weights = st.integers(-5, 5) | st.integers(-(2**56), 2**56)


@given(st.lists(st.tuples(st.binary(min_size=16, max_size=16), weights), min_size=1, max_size=40), st.integers(1, 16))
def test_simhash(weighed, size):
    """Each bit is the sign of the weights with it less those without, ties 0, for any number of leading bits."""
    digests, weights = [one[0] for one in weighed], [one[1] for one in weighed]
    bits = 8 * size
    for used, code in ((weights, compute.simhash(digests, bits, weights)), ([1] * len(digests), compute.simhash(digests, bits))):
        expected = 0
        for bit in range(bits):
            balance = sum(w if d[bit // 8] >> 7 - bit % 8 & 1 else -w for d, w in zip(digests, used, strict=True))
            expected = expected << 1 | (balance > 0)
        assert code.tobytes() == expected.to_bytes(size, "big")


@given(st.lists(hash64, min_size=1, max_size=40))
def test_simhash_of_numbers(hashes):
    """uint64 hashes, a list of them and their big-endian digests give the same code; uint32 likewise."""
    digests = [value.to_bytes(8, "big") for value in hashes]
    expected = compute.simhash(digests).tobytes()
    assert compute.simhash(hashes).tobytes() == compute.simhash(np.array(hashes, np.uint64)).tobytes() == expected
    narrow = np.array([value >> 32 for value in hashes], np.uint32)
    assert compute.simhash(narrow, bits=32).tobytes() == expected[:4]


def test_simhash_of_a_text_with_weights():
    """Each bit is the sign of its shingles' weights, repeated shingles each time; weights of 1 give the scheme's fingerprint."""
    text = "To be, or not to be: that is the question"
    weights = {"to": 1, "be": -3, "or": 0, "not": 2**40, "that": 5, "is": 1, "the": np.int16(2), "question": 7}
    words = ["to", "be", "or", "not", "to", "be", "that", "is", "the", "question"]
    expected = 0
    for bit in range(63, -1, -1):
        balance = sum(int(weights[w]) * (1 if xxhash.xxh3_64_intdigest(w.encode()) >> bit & 1 else -1) for w in words)
        expected = expected << 1 | (balance > 0)
    rules = TextRules(shingle=1)
    hashes = compute.shingle_hashes(text, rules)
    assert compute.simhash(hashes, weights=[weights[w] for w in words]).tobytes() == expected.to_bytes(8, "big")
    for of in (TextRules(), TextRules(hash="sha1"), TextRules.chars()):
        hashes = compute.shingle_hashes(text, of)
        assert compute.simhash(hashes, 8 * of.hash_size).tolist() == SimHash().fingerprint(text, of).tolist()


def test_fingerprints_of_nothing():
    """No hashes: no SimHash, no signature, an empty bottom-k."""
    assert compute.simhash([]) is None and compute.minhash(np.empty(0, np.uint64)) is None
    assert compute.bottom_k([], 5).shape == (0,)


@given(st.lists(st.integers(0, 60) | hash64, max_size=200), st.integers(1, 70))
def test_bottom_k(hashes, k):
    """The k smallest distinct hashes, ascending."""
    assert compute.bottom_k(hashes, k).tolist() == sorted(set(hashes))[:k]


def test_bottom_k_types():
    """uint32 stays uint32; wide digests count by their first eight bytes."""
    assert compute.bottom_k(np.array([5, 3, 5], np.uint32), 2).dtype == np.uint32
    digests = compute.shingle_hashes("a b c d", TextRules(hash="md5"))
    assert compute.bottom_k(digests, 9).tolist() == sorted(int.from_bytes(row.tobytes()[:8], "big") for row in digests)


def test_hashes_of_six_bytes():
    """A callable's digests of any width count as the scheme counts them: a big-endian number of at most eight bytes."""
    rules = TextRules(hash=lambda data: hashlib.md5(data).digest()[:6], shingle=1)
    hashes = compute.shingle_hashes("one two", rules)
    numbers = sorted(int.from_bytes(hashlib.md5(word).digest()[:6], "big") for word in (b"one", b"two"))
    assert hashes.shape == (2, 6) and compute.bottom_k(hashes, 5).tolist() == numbers
    assert BottomK().fingerprint("one two", rules).tolist() == numbers
    assert np.array_equal(compute.minhash(hashes), MinHash().fingerprint("one two", rules))


def test_minhash_slots():
    """16 bits are the low ones of 32; the order of the hashes and repeats do not matter; seeds do."""
    hashes = [xxhash.xxh3_64_intdigest(str(i).encode()) for i in range(50)]
    wide, narrow = compute.minhash(hashes, slot_bits=32), compute.minhash(hashes)
    assert wide.dtype == np.uint32 and narrow.dtype == np.uint16 and np.array_equal(narrow, wide & np.uint32(0xFFFF))
    assert np.array_equal(compute.minhash(hashes[::-1] + hashes[:7]), narrow)
    assert not np.array_equal(compute.minhash(hashes, seed=2), narrow)
    assert np.array_equal(compute.minhash(hashes, num_perm=16), narrow[:16])


@given(st.lists(st.integers(0, 0xFFFF), min_size=8, max_size=64).filter(lambda slots: len(slots) % 8 == 0))
def test_bit_sample(slots):
    """The lowest bit of each slot, slot 0 the most significant bit of byte 0."""
    expected = int("".join(str(slot & 1) for slot in slots), 2).to_bytes(len(slots) // 8, "big")
    assert compute.bit_sample(np.array(slots, np.uint16)).tobytes() == compute.bit_sample(slots).tobytes() == expected


# ---- comparisons -------------------------------------------------------------------------------------------------------


@given(st.binary(max_size=70).flatmap(lambda a: st.tuples(st.just(a), st.binary(min_size=len(a), max_size=len(a)))))
def test_hamming_distance(pair):
    """The bits that differ, whatever the kind of the codes."""
    a, b = pair
    x, y = int.from_bytes(a, "big"), int.from_bytes(b, "big")
    expected = bin(x ^ y).count("1")
    arrays = [np.frombuffer(code, np.uint8) for code in pair]
    for first, second in ((a, b), (x, y), arrays, (a.hex(), b), (a, y), (x, arrays[1]), ("0x" + a.hex(), b.hex())):
        assert compute.hamming_distance(first, second) == expected


@given(small_sets, small_sets, st.sampled_from([0.0, 0.3, 0.5, 0.55, 0.6, 0.7, 0.8, 0.9, 1.0]))
def test_jaccard(a, b, threshold):
    """Common over all, by plain sets; 0.0 where that is below the threshold, and never lost at it."""
    union = len(a | b)
    exact = len(a & b) / union if union else 0.0
    expected = exact if exact >= threshold else 0.0
    for kind in (list, lambda one: np.array(one, np.uint64), lambda one: np.array(one, np.uint32)):
        assert compute.jaccard(kind(sorted(a)), kind(sorted(b)), threshold) == expected


def test_rows_of_an_array_are_not_copied():
    """The rows of one uint64 array are sets: the array itself is read."""
    rows = np.array([[1, 5, 9], [1, 5, 9], [2, 3, 4]], np.uint64)
    values, ends = joined_sets("fingerprints", rows)
    assert np.shares_memory(values, rows) and ends.tolist() == [3, 6, 9]
    assert compute.jaccard_pairs(rows, 0.5)[0].tolist() == [[0, 1]]
    assert compute.jaccard_pairs(rows.astype(np.uint16), 0.5)[0].tolist() == [[0, 1]]


# ---- all pairs of codes ------------------------------------------------------------------------------------------------


def test_find_all():
    """Every pair within the distance once, in order, by brute force over clustered codes."""
    for size in [1, 4, 8, 16, 32]:
        for distance in [0, 1, 3, 6]:
            draw = random.Random(size * 100 + distance)
            centres = [draw.getrandbits(8 * size) for _ in range(4)]
            codes = []
            for _ in range(60):
                code = draw.choice(centres)
                for bit in draw.sample(range(8 * size), draw.randint(0, min(4, 8 * size))):
                    code ^= 1 << bit
                codes.append(code)
            expected = [[i, j] for i, j in combinations(range(60), 2) if bin(codes[i] ^ codes[j]).count("1") <= distance]
            rows = np.frombuffer(b"".join(code.to_bytes(size, "big") for code in codes), np.uint8).reshape(60, size)
            for blocks in (None, distance + 1, min(distance + 2, 8 * size)):
                if blocks is None or distance < blocks <= 8 * size:
                    assert compute.find_all(rows, distance, blocks).tolist() == expected, (size, distance)
            if size == 8:
                assert compute.find_all(np.array(codes, np.uint64), distance).tolist() == expected, (size, distance)
                assert compute.find_all(codes, distance).tolist() == expected, (size, distance)
            assert compute.find_all([code.to_bytes(size, "big") for code in codes], distance).tolist() == expected


def test_find_all_input():
    """None and one code have no pairs."""
    for codes in ([], [1], np.empty((0, 32), np.uint8), np.empty(0, np.uint64)):
        assert compute.find_all(codes, 3).shape == (0, 2)


# ---- candidates --------------------------------------------------------------------------------------------------------


def test_block_tables_are_the_cores():
    """Tables and prefixes are those that the C core files codes by; a permuted code is its blocks in their order."""
    for bits, blocks, distance in [(64, 5, 3), (64, 6, 3), (8, 8, 7), (128, 7, 2), (256, 4, 0)]:
        tables = compute.block_tables(bits, blocks, distance)
        assert len(tables) == math.comb(blocks, distance) == lib.nd_block_table_count(blocks, distance)
        draw = random.Random(bits)
        for index, table in enumerate(tables):
            order = ffi.new("uint8_t[]", blocks)
            assert lib.nd_block_table(blocks, distance, index, order) == lib.ND_OK, (bits, blocks, distance)
            assert table.order == tuple(order), (bits, blocks, distance)
            assert table.prefix_bits == lib.nd_block_prefix_bits(bits, blocks, distance, order), (bits, blocks, distance)
            digits = f"{draw.getrandbits(bits):0{bits}b}"
            moved = "".join(digits[bits - (block + 1) * bits // blocks : bits - block * bits // blocks] for block in order)
            code, expected = (int(text, 2).to_bytes(bits // 8, "big") for text in (digits, moved))
            assert compute.permute(code, table) == expected, (bits, blocks, distance)


def test_permute_kinds():
    """A code comes out as the kind that it went in: int, bytes, hex, uint8, uint64, many of them."""
    table = compute.block_tables(64, 4, 2)[-1]
    assert table.order == (1, 0, 3, 2)
    code, moved = 0x1111222233334444, 0x3333444411112222
    assert compute.permute(code, table) == moved
    assert compute.permute(code.to_bytes(8, "big"), table) == moved.to_bytes(8, "big")
    assert compute.permute("1111222233334444", table) == "3333444411112222"
    one = compute.permute(np.uint64(code), table)
    assert one == moved and isinstance(one, np.uint64)
    many = compute.permute(np.array([code, 0], np.uint64), table)
    assert many.dtype == np.uint64 and many.tolist() == [moved, 0]
    row = np.frombuffer(code.to_bytes(8, "big"), np.uint8)
    assert compute.permute(row, table).tobytes() == moved.to_bytes(8, "big")
    assert compute.permute(np.stack([row, row]), table).tobytes() == moved.to_bytes(8, "big") * 2


def test_split_chunks_are_the_cores():
    """Chunks are those that the C core files codes by, and put together they are the code."""
    for bits, chunks in [(64, 1), (64, 4), (64, 5), (256, 16), (256, 13), (8, 8), (24, 7)]:
        code = random.Random(bits + chunks).getrandbits(bits)
        data, out = code.to_bytes(bits // 8, "big"), ffi.new("uint64_t[]", chunks)
        assert lib.nd_split_chunks(data, bits, chunks, out) == lib.ND_OK, (bits, chunks)
        assert compute.split_chunks(data, chunks) == compute.split_chunks(code, chunks, bits=bits) == list(out), (bits, chunks)
        assert compute.split_chunks(np.frombuffer(data, np.uint8), chunks) == list(out), (bits, chunks)
        text = format(code, f"0{bits}b")
        assert "".join(compute.split_chunks(text, chunks)) == text, (bits, chunks)
        assert [int(chunk, 2) for chunk in compute.split_chunks(text, chunks)] == list(out), (bits, chunks)


def test_neighbours():
    """All values within the radius, nearest first, each once, itself the first."""
    for bits, radius in [(1, 0), (1, 1), (4, 2), (5, 5), (16, 2), (64, 1), (64, 2)]:
        chunk = random.Random(bits).getrandbits(bits)
        found = compute.neighbours(chunk, bits, radius)
        assert len(set(found)) == len(found) == sum(math.comb(bits, flips) for flips in range(radius + 1)), (bits, radius)
        distances = [bin(chunk ^ value).count("1") for value in found]
        assert found[0] == chunk and distances == sorted(distances) and max(distances) <= radius, (bits, radius)
        assert all(0 <= value < 1 << bits for value in found), (bits, radius)
        assert compute.neighbours(format(chunk, f"0{bits}b"), bits, radius) == [format(value, f"0{bits}b") for value in found]


# ---- bands -------------------------------------------------------------------------------------------------------------


def test_choose_bands():
    """The recall is kept at the threshold, and among those that keep it none has more rows with as few bands."""
    for threshold in (0.5, 0.7, 0.8, 0.9):
        bands, rows = compute.choose_bands(threshold, 128, 0.99)
        assert bands * rows <= 128 and 1 - (1 - threshold**rows) ** bands >= 0.99
        assert 1 - (1 - threshold ** (rows + 1)) ** bands < 0.99 or bands * (rows + 1) > 128


def test_band_buckets_are_those_of_the_band_table():
    """Signatures of 16 and of 32 bits fall into the buckets that an index files them under."""
    texts = [f"one two three four five {i}" for i in range(20)]
    for slot_bits in (16, 32):
        scheme = MinHash(threshold=0.5, slot_bits=slot_bits)
        buckets = compute.band_buckets(scheme.fingerprints(texts), scheme.bands, scheme.rows)
        assert buckets.shape == (20, scheme.bands) and buckets.dtype == np.int32
        with Index(":memory:", scheme) as index:
            index.add_many(enumerate(texts))
            sql = "SELECT d.key, b.bucket FROM neardup_document d JOIN neardup_minhash_band b USING (fingerprint_id)"
            stored = sorted(index.connection.execute(sql))
        assert stored == sorted({(i, bucket) for i, row in enumerate(buckets.tolist()) for bucket in row})


def test_pick_bands():
    """The implied threshold of the picked bands is at or below the one asked for, that of one band fewer above it."""
    for threshold in [0.1, 0.5, 0.8, 0.95, 1.0]:
        for num_perm in [1, 16, 100, 128, 1000]:
            bands = compute.pick_bands(threshold, num_perm)
            assert 1 <= bands <= num_perm, (threshold, num_perm)
            if bands < num_perm:
                assert (1 / bands) ** (bands / num_perm) <= threshold + 1e-9, (threshold, num_perm)
            if bands > 1:
                assert (1 / (bands - 1)) ** ((bands - 1) / num_perm) > threshold, (threshold, num_perm)


def test_candidate_probability():
    """The curve at its ends, in between, and for an array; small probabilities are not lost to rounding."""
    assert compute.candidate_probability(0, 9, 4) == 0.0 and compute.candidate_probability(1.0, 9, 4) == 1.0
    assert compute.candidate_probability(0.8, 9, 4) == pytest.approx(1 - (1 - 0.4096) ** 9, rel=1e-12)
    curve = compute.candidate_probability(np.array([[0.0, 1.0]]), 3, 2)
    assert curve.shape == (1, 2) and curve.tolist() == [[0.0, 1.0]]
    assert compute.candidate_probability(1e-5, 10, 5) == pytest.approx(1e-24, rel=1e-9)
