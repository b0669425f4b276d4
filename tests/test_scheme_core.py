"""Schemes in the C core: stored values, keys to file and to probe, the rule. What must be found is found, for all five."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import buckets
import numpy as np
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st
from packed import packed, unpacked

import neardup_db as nd
from neardup_db import native
from neardup_db.native import ffi, lib

DEFAULTS: dict[int, dict[str, Any]] = {
    lib.ND_SCHEME_SIMHASH: {"plan": lib.ND_PLAN_BLOCKS, "bits": 64, "max_distance": 3, "blocks": 6},
    lib.ND_SCHEME_MINHASH: {
        "plan": lib.ND_PLAN_BANDS, "num_perm": 128, "bands": 16, "rows": 6, "slot_bits": 16, "threshold": 0.8, "seed": 1,
    },
    lib.ND_SCHEME_BOTTOMK: {"plan": lib.ND_PLAN_PREFIX, "k": 128, "threshold": 0.5},
    lib.ND_SCHEME_BITSAMPLING: {"plan": lib.ND_PLAN_CHUNKS, "bits": 256, "max_distance": 37, "chunks": 16, "seed": 1},
    lib.ND_SCHEME_BINARYCODE: {"plan": lib.ND_PLAN_CHUNKS, "bits": 256, "max_distance": 31, "chunks": 16},
}  # fmt: skip


def scheme(kind: int, **changes: Any) -> Any:
    return ffi.new("nd_scheme *", {"kind": kind, **DEFAULTS[kind], **changes})


def complaint(native: Any) -> str | None:
    message = ffi.new("char[]", 400)
    status = lib.nd_scheme_check(native, message, 400)
    text = ffi.string(message).decode()
    assert (status == lib.ND_OK) == (text == "")
    return text or None


def keys(native: Any, value: bytes, probe: bool, group: int = 0) -> list[Any]:
    out = ffi.gc(lib.nd_keys_new(), lib.nd_keys_free)
    function = lib.nd_scheme_probe_keys if probe else lib.nd_scheme_file_keys
    assert function(native, group, value, len(value), out) == lib.ND_OK
    rows = out.rows
    found = [(rows[i].table_no, rows[i].low, rows[i].high) for i in range(out.count)]
    assert found == sorted(found, key=lambda k: k[:2])
    assert len({k[:2] for k in found}) == len(found)
    return found


def meets(native: Any, filed: bytes, probing: bytes, group: int = 0) -> bool:
    """Whether a query by one value looks at where the other is filed."""
    return not {*keys(native, filed, False, group)}.isdisjoint(keys(native, probing, True, group))


def similarity(native: Any, a: bytes, b: bytes) -> tuple[float, int]:
    out, distance = ffi.new("double *"), ffi.new("int64_t *")
    assert lib.nd_scheme_similarity(native, a, len(a), b, len(b), out, distance) == lib.ND_OK
    return out[0], distance[0]


def value_of(native: Any, hashes: list[int], size: int = 8) -> bytes:
    values = ffi.gc(lib.nd_values_new(), lib.nd_values_free)
    digests = b"".join(h.to_bytes(size, "big") for h in hashes)
    assert lib.nd_scheme_append_digests(native, digests, size, len(hashes), 17, values) == lib.ND_OK
    assert values.count == 1
    assert values.tokens[0] == 17
    end = values.ends[0]
    return bytes(ffi.buffer(values.bytes, end)) if end else b""


def signature_of(hashes: list[int], num_perm: int, slot_size: int, family: int = 0, seed: int = 1) -> bytes:
    a, b, slots = (ffi.new("uint32_t[]", num_perm) for _ in range(3))
    assert lib.nd_minhash_coefficients(family, seed, num_perm, a, b) == lib.ND_OK
    assert lib.nd_minhash(family, a, b, num_perm, ffi.new("uint64_t[]", hashes), len(hashes), slots) == lib.ND_OK
    return b"".join((s & (2 ** (8 * slot_size) - 1)).to_bytes(slot_size, "little") for s in slots)


def little(hashes: Any) -> bytes:
    return b"".join(h.to_bytes(8, "little") for h in hashes)


HASHES = [int.from_bytes(random.Random(i).randbytes(8), "big") for i in range(300)]
REPEATED = HASHES + HASHES[:50]


# ---- parameters


def test_messages_fit_the_buffer() -> None:
    """A short buffer gets the beginning of the sentence, terminated; an unknown kind is refused too."""
    native = ffi.new("nd_scheme *", {"kind": 9})
    message = ffi.new("char[]", b"????????????")
    assert lib.nd_scheme_check(native, message, 8) == lib.ND_ERROR_PARAMETER
    assert ffi.string(message) == b"kind of"
    assert lib.nd_scheme_check(native, message, 0) == lib.ND_ERROR_PARAMETER


# ---- values


@settings(deadline=None)
@given(st.lists(st.one_of(st.integers(0, 2**64 - 1), st.integers(0, 99)), min_size=1, max_size=400))
def test_packed_values_are_read_as_they_were_written(hashes: list[int]) -> None:
    """The value tells how many hashes it has, and 40 bits of each; no other bytes are a value of them."""
    value = value_of(PACKED, hashes)
    assert value == packed(hashes)
    room = ffi.new("uint64_t[]", lib.nd_set_count(len(value)))
    assert lib.nd_set_read(value, len(value), room) == lib.ND_OK == lib.nd_set_read(value, len(value), ffi.NULL)
    assert bytes(ffi.buffer(room)) == unpacked(hashes)


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_what_is_read_as_packed_is_written_so(value: bytes) -> None:
    """Of any bytes, those that are accepted are exactly those that the numbers in them are written as."""
    count = lib.nd_set_count(len(value))
    room = ffi.new("uint64_t[]", count + 1)
    if lib.nd_set_read(value, len(value), room) == lib.ND_OK:
        numbers = [room[i] >> 24 for i in range(count)]
        bits = sum(1 << i + (number >> 32) for i, number in enumerate(numbers))
        lows = b"".join((number & 0xFFFFFFFF).to_bytes(4, "little") for number in numbers)
        assert numbers == sorted(set(numbers)) and value == lows + bits.to_bytes((count + 262) // 8, "little")


def test_sizes_tell_how_many_hashes() -> None:
    """No two numbers of hashes have packed values of one size, and of the other sizes none has hashes."""
    sizes = {4 * count + (count + 262) // 8: count for count in range(1, 3000)}
    assert [lib.nd_set_count(size) for size in range(12000)] == [sizes.get(size, 0) for size in range(12000)]


def test_simhash_value_uses_the_whole_digest() -> None:
    """A SimHash may be as wide as the digest and no wider."""
    wide = [random.Random(i).getrandbits(256) for i in range(21)]
    ones = [sum(h >> (255 - bit) & 1 for h in wide) for bit in range(256)]
    expected = int("".join(str(int(2 * n > 21)) for n in ones), 2).to_bytes(32, "big")
    assert value_of(scheme(lib.ND_SCHEME_SIMHASH, bits=256), wide, 32) == expected
    assert value_of(scheme(lib.ND_SCHEME_SIMHASH, bits=64), wide, 32) == expected[:8]
    values = ffi.gc(lib.nd_values_new(), lib.nd_values_free)
    assert (
        lib.nd_scheme_append_digests(scheme(lib.ND_SCHEME_SIMHASH, bits=72), bytes(8), 8, 1, 1, values) == lib.ND_ERROR_PARAMETER
    )
    assert values.count == 0


PACKED = scheme(lib.ND_SCHEME_MINHASH, evidence=lib.ND_EVIDENCE_PACKED)
SPOILT = [
    packed(HASHES)[:-1],
    packed(HASHES) + b"\0",
    bytes(1200) + packed(HASHES)[1200:],  # two equal numbers, or two that descend
    packed(HASHES)[:-1] + bytes([packed(HASHES)[-1] ^ 128]),  # a bit behind the last
    packed(HASHES)[:1200] + bytes([packed(HASHES)[1200] ^ 1]) + packed(HASHES)[1201:],
]

DAMAGED: list[tuple[Any, list[bytes]]] = [
    (scheme(lib.ND_SCHEME_SIMHASH), [b"", bytes(7), bytes(9)]),
    (scheme(lib.ND_SCHEME_MINHASH), [b"", bytes(255), bytes(257), bytes(512)]),
    (PACKED, [b"", bytes(4), bytes(36), bytes(37), b"abcd\x03" + bytes(31), bytes(8) + b"\x01" + bytes(31) + b"\x80", *SPOILT]),
    (scheme(lib.ND_SCHEME_BOTTOMK, k=2), [b"", bytes(15), little([2, 1]), little([3, 3]), little([1, 2, 3])]),
]


def test_damaged_values_are_refused() -> None:
    """A value of a wrong length or order gives ND_ERROR_DAMAGED from every function that reads one."""
    for rule, values in DAMAGED:
        out, sim, distance = ffi.gc(lib.nd_keys_new(), lib.nd_keys_free), ffi.new("double *"), ffi.new("int64_t *")
        for value in values:
            assert lib.nd_scheme_value_check(rule, value, len(value)) == lib.ND_ERROR_DAMAGED, value
            assert lib.nd_scheme_file_keys(rule, 0, value, len(value), out) == lib.ND_ERROR_DAMAGED, value
            assert lib.nd_scheme_probe_keys(rule, 0, value, len(value), out) == lib.ND_ERROR_DAMAGED, value
            assert out.count == 0, value
            assert lib.nd_scheme_similarity(rule, value, len(value), value, len(value), sim, distance) == lib.ND_ERROR_DAMAGED


# ---- keys


def ranges(lows: list[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """A bucket is 2 ** 20 rows."""
    return [(table, low, low + 2**20 - 1) for table, low in lows]


def test_a_bucket_is_what_its_codes_have_in_common() -> None:
    """Up to 30 bits of the leading blocks, in the group 0, are the number of the bucket; filing and probing give it alike."""
    native = scheme(lib.ND_SCHEME_SIMHASH, blocks=4)
    code = 0xFEDCBA9876543210.to_bytes(8, "big")
    expected = ranges(list(enumerate(t << 50 | b << 20 for t, b in enumerate([0xFEDC, 0xBA98, 0x7654, 0x3210]))))
    assert keys(native, code, False) == keys(native, code, True) == expected
    narrow = scheme(lib.ND_SCHEME_SIMHASH, bits=16, max_distance=1, blocks=2)
    assert keys(narrow, b"\xab\xcd", True) == ranges([(0, 0xAB << 20), (1, 1 << 50 | 0xCD << 20)])


def test_chunk_keys() -> None:
    """Filing gives the bucket of each chunk; probing those of its neighbours within the radius."""
    native = scheme(lib.ND_SCHEME_BINARYCODE, bits=16, chunks=4, max_distance=4)
    own = [(1, 1 << 50 | 11 << 20), (2, 2 << 50 | 9 << 20), (3, 3 << 50 | 3 << 20)]
    assert keys(native, b"\x9b\x93", False) == ranges([(0, 9 << 20), *own])
    assert keys(native, b"\x9b\x93", True) == ranges([*((0, v << 20) for v in [1, 8, 9, 11, 13]), *own])
    wide = scheme(lib.ND_SCHEME_BINARYCODE, bits=64, chunks=1, max_distance=1)
    flipped = [2**64 - 1, *(2**64 - 1 ^ 1 << b for b in range(64))]
    assert keys(wide, b"\xff" * 8, True) == ranges([(0, low) for low in sorted(buckets.bucket(0, v, 64) for v in flipped)])


def test_band_keys_are_the_distinct_signed_buckets() -> None:
    """Keys of a signature are its buckets, ascending; one computed from stored hashes has the same."""
    signature = signature_of(HASHES, 128, 2)
    buckets = {xxhash.xxh3_64_intdigest(signature[i * 12 : (i + 1) * 12], i) & 0xFFFFFFFF for i in range(16)}
    expected = [(0, b, b) for b in sorted(v - 2**32 if v >> 31 else v for v in buckets)]
    assert any(k[1] < 0 for k in expected) and any(k[1] > 0 for k in expected)
    for evidence in (lib.ND_EVIDENCE_NONE, lib.ND_EVIDENCE_PACKED):
        native = scheme(lib.ND_SCHEME_MINHASH, evidence=evidence)
        value = value_of(native, REPEATED)
        assert keys(native, value, False) == keys(native, value, True) == expected


def test_settings_are_words_with_numbers() -> None:
    """A setting's word and its number are each other's, and what is no word has none."""
    assert native.words("plan") == ("scan", "blocks", "chunks", "bands", "prefix", "winnow")
    assert [lib.nd_setting_number(b"plan", word.encode()) for word in native.words("plan")] == [0, 1, 2, 3, 4, 5]
    assert (lib.nd_setting_number(b"plan", b"NFC"), lib.nd_setting_number(b"plans", b"scan")) == (-1, -1)
    assert native.words("plans") == () and lib.nd_setting_word(b"plan", -1) == ffi.NULL


def test_a_sketch_is_value_hash_and_keys_of_the_single_calls() -> None:
    """One call gives what an index stores of a text, or of a code, as the calls for value, hash and keys do; of an empty text
    only its tokens."""
    for scheme in [nd.MinHash(), nd.MinHash(exact=True), nd.BottomK(), nd.SimHash(bits=64), nd.BinaryCode(64)]:
        if scheme.takes_text:
            rules, text = nd.TextRules().native, "one two three four five six seven äöü"
            value, count = native.value_maker(scheme.native, rules)(text)
            assert value is not None, scheme
            made = native.sketch_of_text(scheme.native, rules, text)
            assert made.token_count == count == 8, scheme
            assert native.sketch_of_value(scheme.native, value, 8) == made, scheme
            assert native.sketch_of_text(scheme.native, rules, " ") == (None, 0, None, None), scheme
        else:
            value = bytes(range(8))
            made = native.sketch_of_value(scheme.native, value)
        assert made.value == value, scheme
        assert made.value_hash == np.uint64(xxhash.xxh3_64_intdigest(value)).astype(np.int64), scheme
        if scheme.native.plan != lib.ND_PLAN_BANDS:
            assert made.keys is None, scheme
            return
        lows = np.frombuffer(made.keys, "<i8").tolist()
        assert len(lows) == scheme.native.bands and lows == sorted(lows), scheme
        assert sorted(set(lows)) == [low for _, low, _ in keys(scheme.native, value, False)], scheme


def test_bands_of_one_slot_may_be_odd_in_number() -> None:
    """As many bands as slots, an odd number: each slot has its bucket, and no byte behind the scratch memory is written."""
    for num_perm in [1, 3, 17, 129]:
        for hash_count in [1, 2, 300]:
            hashes = HASHES[:hash_count]
            signature = signature_of(hashes, num_perm, 4)
            buckets = {xxhash.xxh3_64_intdigest(signature[i * 4 : (i + 1) * 4], i) & 0xFFFFFFFF for i in range(num_perm)}
            expected = [(0, b, b) for b in sorted(v - 2**32 if v >> 31 else v for v in buckets)]
            for evidence in (lib.ND_EVIDENCE_NONE, lib.ND_EVIDENCE_PACKED):
                native = scheme(lib.ND_SCHEME_MINHASH, num_perm=num_perm, bands=num_perm, rows=1, slot_bits=32, evidence=evidence)
                assert keys(native, value_of(native, hashes), False) == expected, (num_perm, hash_count)


def test_prefix_keys_are_the_first_hashes() -> None:
    """A bottom-k fingerprint is filed under its first len - o + 1 hashes, as signed numbers in ascending order."""
    native = scheme(lib.ND_SCHEME_BOTTOMK, k=10, threshold=0.8)
    hashes = [1, 2**63, 2**63 + 5, *range(2**64 - 7, 2**64)]
    expected = sorted(v - 2**64 if v >> 63 else v for v in hashes[:3])
    assert keys(native, little(hashes), True) == keys(native, little(hashes), False) == [(0, v, v) for v in expected]


def test_the_prefix_never_shrinks_as_sets_grow() -> None:
    """What containment rests on: the prefix of any first part of a fingerprint lies within its own."""
    for threshold in (1e-9, 0.1, 1 / 3, 0.5, 2 / 3, 0.7, 0.8, 0.9, 0.95, 1.0):
        counts = [lib.nd_prefix_count(count, threshold) for count in range(1, 3000)]
        assert all(before <= after for before, after in zip(counts, counts[1:], strict=False))


def test_a_scan_has_one_bucket() -> None:
    """The plan of looking at everything files and probes all codes of a group in one place."""
    native = scheme(lib.ND_SCHEME_BINARYCODE, plan=lib.ND_PLAN_SCAN)
    assert complaint(native) is None
    assert keys(native, bytes(32), True) == keys(native, b"\xff" * 32, False) == [(0, 0, 2**20 - 1)]


@st.composite
def code_schemes(draw: st.DrawFn) -> Any:
    bits = 8 * draw(st.sampled_from([1, 2, 4, 7, 8, 9, 16, 32]))
    distance = draw(st.integers(0, min(bits - 1, 5)))
    plan = draw(st.sampled_from([lib.ND_PLAN_BLOCKS, lib.ND_PLAN_CHUNKS]))
    blocks = draw(st.integers(distance + 1, min(bits, distance + 4)))
    chunks = draw(st.integers(max(1, bits // 24), min(bits, 40)))
    kind = draw(st.sampled_from([lib.ND_SCHEME_SIMHASH, lib.ND_SCHEME_BITSAMPLING, lib.ND_SCHEME_BINARYCODE]))
    return scheme(kind, plan=plan, bits=bits, max_distance=distance, blocks=blocks, chunks=chunks)


@settings(max_examples=100, deadline=None)
@given(code_schemes(), st.sampled_from([0, 0, 1, 2**31, 2**63 - 1]), st.data())
def test_codes_are_filed_and_probed_in_the_buckets_of_plain_python(native: Any, group: int, data: st.DataObject) -> None:
    """Blocks and chunks of any number and width, in any group, wherever the bits stand."""
    bits, distance = native.bits, native.max_distance
    code = data.draw(st.integers(0, 2**bits - 1) | st.sampled_from([0, 2**bits - 1]))
    value = code.to_bytes(bits // 8, "big")
    if native.plan == lib.ND_PLAN_BLOCKS:
        filed = probed = list(enumerate(buckets.block_buckets(code, bits, native.blocks, distance, group)))
    else:
        filed = buckets.chunk_buckets(code, bits, native.chunks, None, group)
        probed = buckets.chunk_buckets(code, bits, native.chunks, distance, group)
    assert keys(native, value, False, group) == ranges(filed)
    assert keys(native, value, True, group) == ranges(probed)


@settings(max_examples=60, deadline=None)
@given(code_schemes(), st.sampled_from([0, 1, 2**40]), st.data())
def test_no_code_within_the_distance_is_missed(native: Any, group: int, data: st.DataObject) -> None:
    """Flip up to max_distance bits anywhere: the probe meets the filed rows, and the rule measures the distance."""
    assert complaint(native) is None
    bits = native.bits
    code = data.draw(st.integers(0, 2**bits - 1))
    flips = data.draw(st.sets(st.integers(0, bits - 1), max_size=native.max_distance))
    other = code ^ sum(1 << f for f in flips)
    a, b = code.to_bytes(bits // 8, "big"), other.to_bytes(bits // 8, "big")
    assert meets(native, a, b, group)
    slope = 2.0 if native.kind == lib.ND_SCHEME_BITSAMPLING else 1.0
    assert similarity(native, a, b) == (max(0.0, 1.0 - slope * len(flips) / bits), len(flips))


SMALL_SETS = st.sets(st.integers(0, 30) | st.integers(2**63 - 3, 2**63 + 3), min_size=1, max_size=20)


@settings(max_examples=100)
@given(SMALL_SETS, SMALL_SETS, st.integers(1, 20), st.sampled_from([0.2, 0.5, 0.55, 0.6, 0.7, 0.8, 0.9, 1.0]), st.integers(0, 1))
def test_no_bottom_k_fingerprint_at_the_threshold_is_missed(
    a: set[int], b: set[int], k: int, threshold: float, measure: int
) -> None:
    """Fingerprints of any lengths whose similarity, by either measure, reaches the threshold share a hash of their prefixes."""
    native = scheme(lib.ND_SCHEME_BOTTOMK, k=k, threshold=threshold, measure=measure)
    left, right = sorted(a)[:k], sorted(b)[:k]
    if measure == lib.ND_MEASURE_FINGERPRINT:
        expected = len({*left} & {*right}) / len({*left} | {*right})
    else:
        union = sorted({*left} | {*right})[:k]
        expected = len({*union} & {*left} & {*right}) / len(union)
    assert similarity(native, little(left), little(right)) == (expected, -1)
    if expected >= threshold:
        assert meets(native, little(left), little(right)) and meets(native, little(right), little(left))


def test_values_may_stand_at_any_address() -> None:
    """Similarity and keys do not depend on the alignment of the bytes."""
    for evidence in (lib.ND_EVIDENCE_NONE, lib.ND_EVIDENCE_PACKED):
        native = scheme(lib.ND_SCHEME_MINHASH, evidence=evidence)
        value = value_of(native, HASHES)
        moved, out, distance = ffi.new("uint8_t[]", b"???" + value), ffi.new("double *"), ffi.new("int64_t *")
        assert lib.nd_scheme_similarity(native, value, len(value), moved + 3, len(value), out, distance) == lib.ND_OK
        assert out[0] == 1.0
        found = ffi.gc(lib.nd_keys_new(), lib.nd_keys_free)
        assert lib.nd_scheme_probe_keys(native, 0, moved + 3, len(value), found) == lib.ND_OK
        assert [found.rows[i].low for i in range(found.count)] == [k[1] for k in keys(native, value, True)]


def test_texts_without_values_in_a_new_thread() -> None:
    """Their rows are zeros, although the thread's buffer has no memory yet."""
    with ThreadPoolExecutor(1) as pool:
        rows, empty = pool.submit(nd.MinHash().fingerprints, ["", " "], return_empty=True).result()
    assert empty.all() and not rows.any()
