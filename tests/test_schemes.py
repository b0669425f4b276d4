"""The six schemes without an index: fingerprints, similarity, parameters, settings, plans, bounds of queries."""

from __future__ import annotations

import hashlib
import pickle
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from itertools import accumulate
from math import comb

import numpy as np
import pytest
import xxhash
from packed import packed
from test_fingerprint import fold, mix32
from test_kernels import splitmix64
from test_scheme_core import keys

from neardup_db import BinaryCode, BitSampling, BottomK, MinHash, ParameterError, Passages, SimHash, TextRules, compute
from neardup_db.schemes import plans, scheme_from_settings

TEXT = "the quick brown fox jumps over the lazy dog and then it sleeps all day"
OTHER = "the quick brown fox jumps over the lazy cat and then it sleeps all day"
SCHEMES_OF_TEXT = [
    *(SimHash(), MinHash(), MinHash(exact=True, slot_bits=32), BottomK(k=5), BitSampling(bits=64), Passages(shortest=5))
]
OTHERS = [BinaryCode(), SimHash(128, 7), BinaryCode(256, 100), BottomK(measure="estimate"), Passages(threshold=0.5)]
ALL = [*SCHEMES_OF_TEXT, *OTHERS]


def hashes_of(text):
    words = text.split()
    return [xxhash.xxh3_64_intdigest(" ".join(words[i : i + 3]).encode()) for i in range(len(words) - 2)]


# ---- fingerprints ------------------------------------------------------------------------------------------------------


def test_simhash_of_text():
    """SimHash is the majority of each bit over the XXH3-64 hashes of the shingles, the first bit the most significant."""
    hashes = hashes_of(TEXT)
    code = sum(1 << bit for bit in range(64) if 2 * sum(h >> bit & 1 for h in hashes) > len(hashes))
    assert SimHash().fingerprint(TEXT).tobytes() == code.to_bytes(8, "big")
    assert SimHash(bits=24).fingerprint(TEXT).tobytes() == code.to_bytes(8, "big")[:3]


def test_bottom_k_of_text():
    """BottomK is the k smallest hashes, ascending; their similarity is the Jaccard similarity of the two arrays."""
    a, b = (sorted(set(hashes_of(text)))[:5] for text in (TEXT, OTHER))
    scheme = BottomK(k=5)
    first, second = scheme.fingerprint(TEXT), scheme.fingerprint(OTHER)
    assert first.dtype == np.uint64 and first.tolist() == a and second.tolist() == b
    assert scheme.similarity(first, second) == len({*a} & {*b}) / len({*a} | {*b})


def test_bottom_k_estimate():
    """measure="estimate" counts common hashes among the k smallest of the union."""
    a, b = ([1, 2, 3, 4], [2, 3, 4, 9])
    scheme = BottomK(k=4, measure="estimate")
    assert scheme.similarity(np.array(a, np.uint64), np.array(b, np.uint64)) == 3 / 4
    assert BottomK(k=4).similarity(np.array(a, np.uint64), np.array(b, np.uint64)) == 3 / 5


def test_bottom_k_of_32_bits():
    """With a hash of 32 bits the fingerprint is uint32; with a wide one it is the digests' first eight bytes."""
    narrow = BottomK().fingerprint("a b c", TextRules(hash="fnv1a_32"))
    assert narrow.dtype == np.uint32
    wide = BottomK().fingerprint("a b c", TextRules(hash="sha256"))
    assert wide.tolist() == [int.from_bytes(hashlib.sha256(b"a b c").digest()[:8], "big")]


def test_minhash_of_text():
    """MinHash slots are those of the documented family: a folded hash, affine functions, the minimum mixed again."""
    draw = iter(splitmix64(1, 128))
    numbers = [fold(fold(h)) >> 32 for h in hashes_of(TEXT)]
    expected = []
    for _ in range(128):
        a, b = (lambda drawn: (drawn & 0xFFFFFFFF | 1, drawn >> 32))(next(draw))
        expected.append(mix32(min((a * x + b) % 2**32 for x in numbers)))
    wide = MinHash(slot_bits=32).fingerprint(TEXT)
    assert wide.dtype == np.uint32 and wide.tolist() == expected
    narrow = MinHash(exact=True).fingerprint(TEXT)
    assert narrow.dtype == np.uint16 and narrow.tolist() == [slot & 0xFFFF for slot in expected]
    bits = BitSampling(bits=64).fingerprint(TEXT)
    assert bits.tobytes() == int("".join(str(slot & 1) for slot in expected[:64]), 2).to_bytes(8, "big")


def test_minhash_similarity():
    """The similarity of signatures is the share of equal slots."""
    scheme = MinHash(num_perm=16, threshold=0.9)
    a = np.arange(16, dtype=np.uint16)
    b = a.copy()
    b[:3] += 100
    assert scheme.similarity(a, b) == 13 / 16


def test_hamming_similarity():
    """Codes are 1 - d / bits alike; one-bit samples max(0, 1 - 2 d / bits)."""
    a, b = bytes(8), bytes([0xFF, 0x0F] + [0] * 6)
    assert SimHash().similarity(a, b) == SimHash(64).similarity(a, b) == BinaryCode(64, 3).similarity(a, b) == 1 - 12 / 64
    assert BitSampling(64).similarity(a, b) == 1 - 24 / 64
    assert BitSampling(64).similarity(a, b"\xff" * 8) == 0.0


def test_empty():
    """An empty text has no fingerprint, a row of zeros among many, and no similarity to anything."""
    for scheme in SCHEMES_OF_TEXT:
        assert scheme.fingerprint("...") is None and scheme.fingerprint("") is None, scheme
        assert scheme.similarity(None, scheme.fingerprint(TEXT)) == scheme.similarity(None, None) == 0.0, scheme
        rows, empty = scheme.fingerprints([TEXT, "", OTHER], return_empty=True)
        assert empty.tolist() == [False, True, False], scheme
        assert np.array_equal(rows[0], scheme.fingerprint(TEXT)) and np.array_equal(rows[2], scheme.fingerprint(OTHER)), scheme
        assert not np.any(rows[1]), scheme
        assert len(scheme.fingerprints([])) == 0, scheme
        if not isinstance(rows, list):
            assert scheme.fingerprints(["", ""]).shape == (2, rows.shape[1]) and scheme.fingerprints([]).shape == (
                0,
                rows.shape[1],
            )
            assert scheme.fingerprints([]).dtype == rows.dtype, scheme


def test_kinds_of_texts():
    """Lists of str or bytes, tuples, generators and numpy arrays of the same texts give the same."""
    for scheme in SCHEMES_OF_TEXT:
        texts = [TEXT, OTHER, "kurz", "日本語のテキスト"]
        expected = scheme.fingerprints(texts)
        encoded = [text.encode() for text in texts]
        for other in (encoded, tuple(texts), (text for text in texts), np.array(texts, dtype=object), np.array(texts)):
            for a, b in zip(expected, scheme.fingerprints(other), strict=True):
                assert np.array_equal(a, b) and a.dtype == b.dtype, scheme


def test_threads():
    """Threads that share one scheme and one set of rules do not disturb each other."""
    texts = [f"{word} message number {i} of the thread" for i in range(300) for word in ("first", "second", "third")]
    for scheme in (MinHash(), BottomK(k=4)):
        expected = scheme.fingerprints(texts)
        with ThreadPoolExecutor(4) as pool:
            many = list(pool.map(lambda _, scheme=scheme: scheme.fingerprints(texts), range(8)))
            single = list(pool.map(scheme.fingerprint, texts))
        for found in (*many, single):
            assert all(np.array_equal(a, b) for a, b in zip(expected, found, strict=True))


def test_custom_rules():
    """Rules through Python give what the same rules give in C."""
    for scheme in SCHEMES_OF_TEXT:
        custom = TextRules(tokens=str.split, hash=lambda data: xxhash.xxh3_64_digest(data), filter=lambda token: True)
        a, b = scheme.fingerprints([TEXT, "", OTHER], custom), scheme.fingerprints([TEXT, "", OTHER])
        assert all(np.array_equal(x, y) for x, y in zip(a, b, strict=True)), scheme
        assert scheme.fingerprint("", custom) is None, scheme


def test_wide_custom_hash():
    """SimHash is as wide as a callable's digest."""
    rules = TextRules(hash=lambda data: hashlib.sha512(data).digest())
    assert SimHash().fingerprint("one text", rules).tobytes() == hashlib.sha512(b"one text").digest()
    assert SimHash().for_index(rules).bits == 512


def test_code_kinds():
    """A code may be bytes, an int, hex, uint8 or, for 64 bits, uint64: bit 63 is the first byte's most significant bit."""
    scheme, number = BinaryCode(64, 3), 0x8000000000000001
    data = b"\x80" + bytes(6) + b"\x01"
    for code in (number, data, np.uint64(number), "8000000000000001", "0x8000000000000001", np.frombuffer(data, np.uint8)):
        assert scheme.code_value(code) == data
    assert np.array_equal(scheme.decoded(data, TextRules()), np.frombuffer(data, np.uint8))
    with pytest.raises(ParameterError):
        scheme.code_value(" 800000000000000")
    with pytest.raises(ParameterError, match="BinaryCode"):
        MinHash().code_value(number)


# ---- parameters --------------------------------------------------------------------------------------------------------


def test_value_object():
    """A scheme is frozen, hashable, equal by parameters, and comes back from repr, pickle and settings."""
    for scheme in ALL:
        with pytest.raises(AttributeError):
            scheme.expected = 5
        assert eval(repr(scheme)) == scheme and hash(eval(repr(scheme))) == hash(scheme), scheme
        copy = pickle.loads(pickle.dumps(scheme))
        assert copy == scheme and dict(copy.given) == dict(scheme.given), scheme
        ready = scheme.for_index(TextRules(hash="sha256"))
        back = scheme_from_settings(ready.settings())
        assert back == ready and back.settings() == ready.settings() and dict(back.given) == {}, scheme
        assert scheme.mismatches(back) == [], scheme
        assert ready.given == scheme.given, scheme


# ---- bands and plans ---------------------------------------------------------------------------------------------------


def test_bands_keep_the_recall():
    """The chosen bands fit num_perm and reach the recall at the threshold; one fewer band would not."""
    for recall in [0.5, 0.9, 0.99, 0.999]:
        for num_perm in [16, 64, 128, 256]:
            for threshold in (0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 1.0):
                if 1 - (1 - threshold) ** num_perm < recall:
                    with pytest.raises(ParameterError, match="cannot be reached"):
                        MinHash(num_perm, threshold, recall=recall)
                    continue
                scheme = MinHash(num_perm, threshold, recall=recall)
                assert scheme.bands * scheme.rows <= num_perm, (num_perm, recall, threshold)
                assert 1 - (1 - threshold**scheme.rows) ** scheme.bands >= recall - 1e-12, (num_perm, recall, threshold)
                assert 1 - (1 - threshold**scheme.rows) ** (scheme.bands - 1) < recall, (num_perm, recall, threshold)


def test_one_of_bands_and_rows():
    """With bands or rows given the other fits; with both, the recall is the one that they reach."""
    assert (MinHash(rows=4).bands, MinHash(rows=4).rows) == (9, 4)
    assert MinHash(bands=9).rows == 4
    both = MinHash(bands=9, rows=13)
    assert both.recall == pytest.approx(1 - (1 - 0.8**13) ** 9) and round(both.recall, 3) == 0.399
    assert MinHash(bands=20, rows=5).recall == 0.99


def test_default_plans():
    """SimHash, 64 bits, distance 3: 4 tables, 10 for a hundred million; PDQ: chunks at 31 bits, a scan at 63; 37 bits at 0.8."""
    simhash = SimHash().for_index(TextRules())
    assert (simhash.plan, simhash.blocks, simhash.table) == ("blocks", 4, "code_bucket")
    assert [SimHash(64, 3, expected=10**n).blocks for n in (7, 8)] == [4, 5]
    assert (BinaryCode(256, 31).plan, BinaryCode(256, 31).table) == ("chunks", "code_bucket")
    assert (BinaryCode(256, 63).plan, BinaryCode(256, 63).table) == ("scan", "code_bucket")
    assert (BitSampling().max_distance, BitSampling().plan) == (37, "chunks")
    assert BitSampling(chunks=16).chunks == 16


@pytest.mark.parametrize("bits", [8, 16, 32, 64, 128, 256, 1024, 4096])
def test_every_plan_is_a_scheme(bits):
    """Whatever the distance and the size, the plan chosen is one that the core accepts."""
    for distance in {0, 1, 3, 7, bits // 16, bits // 8, bits // 4, bits // 2, bits - 1}:
        if distance < bits:
            for expected in (1, 10**6, 10**9) if bits < 1024 else (10**6,):
                scheme = BinaryCode(bits, distance, expected)
                assert scheme.plan in ("blocks", "chunks", "scan")
                assert (scheme.blocks is not None) == (scheme.plan == "blocks")
                assert (scheme.chunks is not None) == (scheme.plan == "chunks")


def test_sample_distance():
    """The distance is the smallest that a pair at the threshold keeps with the recall, by the binomial sum."""
    for bits, threshold, recall in [(64, 0.5, 0.9), (256, 0.8, 0.99), (128, 0.95, 0.999), (8, 1.0, 0.99)]:
        p = (1 - Fraction(str(threshold))) / 2
        sums = accumulate(comb(bits, i) * p**i * (1 - p) ** (bits - i) for i in range(bits + 1))
        expected = next(r for r, total in enumerate(sums) if total >= Fraction(str(recall)))
        assert plans.sample_distance(bits, threshold, recall) == expected, (bits, threshold, recall)


# ---- queries -----------------------------------------------------------------------------------------------------------


def test_bounds_of_sets():
    """A threshold may be raised by a query, not lowered; a distance there is none."""
    scheme = MinHash(threshold=0.8)
    assert scheme.query_bounds(None, None) == (0.8, -1) and scheme.query_bounds(0.9, None) == (0.9, -1)
    for threshold, named in ((0.7, "0.7.*0.8"), (0.0, "threshold"), (1.5, "1.5"), (True, "True")):
        with pytest.raises(ParameterError, match=named):
            scheme.query_bounds(threshold, None)
    with pytest.raises(ParameterError, match="no distance; use threshold"):
        BottomK().query_bounds(None, 3)


def test_bounds_of_codes():
    """A distance may be lowered by a query, not raised; a threshold must be at least the similarity at the distance."""
    scheme = BinaryCode(64, 16)
    assert scheme.query_bounds(None, None) == (-1.0, 16) and scheme.query_bounds(None, 0) == (-1.0, 0)
    assert scheme.query_bounds(0.75, None) == (0.75, 16)
    for threshold, distance in ((0.74, None), (None, 17), (None, -1), (None, 1.0)):
        with pytest.raises(ParameterError):
            scheme.query_bounds(threshold, distance)
    assert BitSampling(64, max_distance=16).query_bounds(0.5, None) == (0.5, 16)


# ---- stored values -----------------------------------------------------------------------------------------------------


def fingerprint_in(scheme, value):
    """The fingerprint that a stored value holds, or that follows from its shingle hashes."""
    if not isinstance(scheme, MinHash):
        return scheme.decoded(value, TextRules())
    if scheme.exact:
        values = {packed(compute.shingle_hashes(text).tolist()): text for text in (TEXT, "two words")}
        return scheme.fingerprint(values[value])
    return scheme.decoded(value[: scheme.value_size], TextRules())


def test_values():
    """A stored value gives the fingerprint back; token counts are those of the text; an empty text has no value."""
    for scheme in SCHEMES_OF_TEXT:
        ready = scheme.for_index(TextRules())
        short = "of just five words here" if scheme.name == "passages" else "two words"
        made = ready.values([TEXT, "", short], TextRules())
        first, none, last = made.split()
        assert made.tokens.tolist() == [15, 0, len(short.split())] and none is None, scheme
        for text, value in ((TEXT, first), (short, last)):
            assert np.array_equal(fingerprint_in(ready, value), scheme.fingerprint(text)), scheme
            assert ready.is_value(value) and not ready.is_value(value + b"x"), scheme
            assert keys(ready.native, value, True), scheme


def test_reads_values_of():
    """A scheme reads another's stored values where what decides them is the same."""
    rules = TextRules()
    assert MinHash(threshold=0.9).reads_values_of(MinHash(threshold=0.5))
    assert not MinHash(seed=2).reads_values_of(MinHash()) and not MinHash().reads_values_of(MinHash(exact=True))
    assert MinHash(64, exact=True).for_index(rules).reads_values_of(MinHash(seed=5, exact=True).for_index(rules))
    assert SimHash(64, 7).reads_values_of(SimHash(64)) and not SimHash(64).reads_values_of(BinaryCode(64, 3))
    assert BitSampling(max_distance=20).reads_values_of(BitSampling()) and not BottomK(k=64).reads_values_of(BottomK())


def test_bits_beyond_the_hash():
    """More bits than the hash has is a ParameterError that names hashes that are wide enough."""
    with pytest.raises(ParameterError, match="md5.*sha256"):
        SimHash(bits=128).fingerprint(TEXT)
    assert SimHash(bits=128).fingerprint(TEXT, TextRules(hash="md5")).shape == (16,)


@pytest.mark.parametrize(
    "made", [SimHash, MinHash, BottomK, BitSampling, Passages, BinaryCode, TextRules], ids=lambda made: made.__name__
)
def test_an_unknown_argument_is_an_error_of_the_scheme(made):
    """A misspelt argument is a TypeError that names what was called, as of any Python function."""
    with pytest.raises(TypeError, match=rf"{made.__name__}\(\): got an unexpected keyword argument 'treshold'"):
        made(treshold=0.5)
