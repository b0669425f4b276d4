"""Schemes in the C core: stored values, keys to file and to probe, the rule. What must be found is found, for all five."""

from __future__ import annotations

import random
from typing import Any

import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

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


def keys(native: Any, value: bytes, probe: bool) -> list[Any]:
    out = ffi.gc(lib.nd_keys_new(), lib.nd_keys_free)
    function = lib.nd_scheme_probe_keys if probe else lib.nd_scheme_file_keys
    assert function(native, value, len(value), out) == lib.ND_OK
    rows, data, found = lib.nd_keys_rows(out), lib.nd_keys_bytes(out), []
    for i in range(lib.nd_keys_count(out)):
        row = rows[i]
        if row.size:
            strings = ffi.buffer(data + row.offset, 3 * row.size)[:]
            low, high, code = (strings[n * row.size : (n + 1) * row.size] for n in range(3))
            found.append((row.table_no, low, high, code))
        else:
            found.append((row.table_no, row.low, row.high, row.code))
    assert found == sorted(found, key=lambda k: k[:2])
    assert len({k[:2] for k in found}) == len(found)
    return found


def meets(native: Any, filed: bytes, probing: bytes) -> bool:
    """Whether a query by one value looks at a row of the other."""
    rows = keys(native, filed, False)
    return any(
        table == t and low <= value <= high for table, low, high, _ in keys(native, probing, True) for t, value, _, _ in rows
    )


def similarity(native: Any, a: bytes, b: bytes) -> tuple[float, int]:
    out, distance = ffi.new("double *"), ffi.new("int64_t *")
    assert lib.nd_scheme_similarity(native, a, len(a), b, len(b), out, distance) == lib.ND_OK
    return out[0], distance[0]


def value_of(native: Any, hashes: list[int], size: int = 8) -> bytes:
    values = ffi.gc(lib.nd_values_new(), lib.nd_values_free)
    digests = b"".join(h.to_bytes(size, "big") for h in hashes)
    assert lib.nd_scheme_append_digests(native, digests, size, len(hashes), 17, values) == lib.ND_OK
    assert lib.nd_values_count(values) == 1
    assert lib.nd_values_tokens(values)[0] == 17
    end = lib.nd_values_ends(values)[0]
    return bytes(ffi.buffer(lib.nd_values_bytes(values), end)) if end else b""


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


@pytest.mark.parametrize("kind", DEFAULTS)
def test_ordinary_parameters_are_accepted(kind: int) -> None:
    """The five schemes with their usual parameters pass the check."""
    assert complaint(scheme(kind)) is None


WRONG: list[tuple[int, dict[str, Any], str]] = [
    (lib.ND_SCHEME_SIMHASH, {"bits": 12}, "bits is 12"),
    (lib.ND_SCHEME_SIMHASH, {"bits": 0}, "bits is 0"),
    (lib.ND_SCHEME_SIMHASH, {"bits": 4104}, "bits is 4104"),
    (lib.ND_SCHEME_SIMHASH, {"max_distance": -1}, "max_distance is -1"),
    (lib.ND_SCHEME_SIMHASH, {"max_distance": 65}, "max_distance is 65"),
    (lib.ND_SCHEME_SIMHASH, {"max_distance": 64}, "max_distance is 64"),
    (lib.ND_SCHEME_SIMHASH, {"blocks": 3}, "blocks is 3"),
    (lib.ND_SCHEME_SIMHASH, {"blocks": 65}, "blocks is 65"),
    (lib.ND_SCHEME_SIMHASH, {"bits": 8, "blocks": 9}, "blocks is 9"),
    (lib.ND_SCHEME_SIMHASH, {"max_distance": 8, "blocks": 20}, "more than 4096 tables"),
    (lib.ND_SCHEME_SIMHASH, {"plan": lib.ND_PLAN_BANDS}, "plan is 3"),
    (lib.ND_SCHEME_BINARYCODE, {"chunks": 0}, "chunks is 0"),
    (lib.ND_SCHEME_BINARYCODE, {"chunks": 257}, "chunks is 257"),
    (lib.ND_SCHEME_BINARYCODE, {"chunks": 3}, "wider than 64 bits: use at least 4"),
    (lib.ND_SCHEME_BINARYCODE, {"chunks": 4}, "probe more than 2000000 values"),
    (lib.ND_SCHEME_BITSAMPLING, {"family": 1}, "family is 1"),
    (lib.ND_SCHEME_MINHASH, {"num_perm": 0}, "num_perm is 0"),
    (lib.ND_SCHEME_MINHASH, {"num_perm": 70000}, "num_perm is 70000"),
    (lib.ND_SCHEME_MINHASH, {"threshold": 0.0}, "threshold is 0"),
    (lib.ND_SCHEME_MINHASH, {"threshold": 1.25}, "threshold is 1.25"),
    (lib.ND_SCHEME_MINHASH, {"threshold": float("nan")}, "threshold is nan"),
    (lib.ND_SCHEME_MINHASH, {"rows": 0}, "rows is 0"),
    (lib.ND_SCHEME_MINHASH, {"bands": 22}, "bands is 22; with 6 rows and num_perm 128 it must be from 1 to 21"),
    (lib.ND_SCHEME_MINHASH, {"bands": 2**30, "rows": 100}, "bands is 1073741824"),
    (lib.ND_SCHEME_MINHASH, {"slot_bits": 8}, "slot_bits is 8"),
    (lib.ND_SCHEME_MINHASH, {"family": 2}, "family is 2"),
    (lib.ND_SCHEME_MINHASH, {"evidence": 3}, "evidence is 3"),
    (lib.ND_SCHEME_MINHASH, {"plan": lib.ND_PLAN_SCAN}, "plan is 0"),
    (lib.ND_SCHEME_BOTTOMK, {"k": 0}, "k is 0"),
    (lib.ND_SCHEME_BOTTOMK, {"measure": 2}, "measure is 2"),
    (lib.ND_SCHEME_BOTTOMK, {"threshold": -0.5}, "threshold is -0.5"),
    (lib.ND_SCHEME_BOTTOMK, {"plan": lib.ND_PLAN_BANDS}, "plan is 3"),
]


@pytest.mark.parametrize(("kind", "changes", "expected"), WRONG)
def test_wrong_parameters_are_named_with_their_value(kind: int, changes: dict[str, Any], expected: str) -> None:
    """A parameter out of its range gives a sentence that says which and what it is."""
    message = complaint(scheme(kind, **changes))
    assert message is not None and expected in message


def test_messages_fit_the_buffer() -> None:
    """A short buffer gets the beginning of the sentence, terminated; an unknown kind is refused too."""
    native = ffi.new("nd_scheme *", {"kind": 9})
    message = ffi.new("char[]", b"????????????")
    assert lib.nd_scheme_check(native, message, 8) == lib.ND_ERROR_PARAMETER
    assert ffi.string(message) == b"kind of"
    assert lib.nd_scheme_check(native, message, 0) == lib.ND_ERROR_PARAMETER


# ---- values


def test_minhash_value_is_the_low_slots_little_endian() -> None:
    """A signature holds the low 16 bits, or all 32, of each slot."""
    assert value_of(scheme(lib.ND_SCHEME_MINHASH), REPEATED) == signature_of(HASHES, 128, 2)
    assert value_of(scheme(lib.ND_SCHEME_MINHASH, slot_bits=32), REPEATED) == signature_of(HASHES, 128, 4)
    native = scheme(lib.ND_SCHEME_MINHASH, family=lib.ND_FAMILY_JAVA32, seed=1337, slot_bits=32)
    assert value_of(native, REPEATED) == signature_of(HASHES, 128, 4, 1, 1337)


def test_exact_minhash_values() -> None:
    """With evidence the value is the sorted distinct hashes, or the signature and two XXH3-64 of them."""
    ordered = little(sorted(HASHES))
    assert value_of(scheme(lib.ND_SCHEME_MINHASH, evidence=lib.ND_EVIDENCE_HASHES), REPEATED) == ordered
    digest = little([xxhash.xxh3_64_intdigest(ordered, seed) for seed in (0, 1)])
    native = scheme(lib.ND_SCHEME_MINHASH, evidence=lib.ND_EVIDENCE_TEXT)
    assert value_of(native, REPEATED) == signature_of(HASHES, 128, 2) + digest


def test_bottom_k_value_is_the_smallest_hashes() -> None:
    """A bottom-k value is the k smallest distinct hashes, ascending; 32-bit hashes are zero-extended, wide digests cut."""
    assert value_of(scheme(lib.ND_SCHEME_BOTTOMK), REPEATED) == little(sorted(HASHES)[:128])
    assert value_of(scheme(lib.ND_SCHEME_BOTTOMK), [7, 3, 7]) == little([3, 7])
    assert value_of(scheme(lib.ND_SCHEME_BOTTOMK), [2**32 - 1, 3], 4) == little([3, 2**32 - 1])
    assert value_of(scheme(lib.ND_SCHEME_BOTTOMK), [5 << 96 | 1, 4 << 96], 20) == little([4, 5])


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
    assert lib.nd_values_count(values) == 0


def test_bit_sampling_value_is_the_lowest_bits() -> None:
    """One-bit samples are the lowest bit of each slot, slot 0 first."""
    signature = signature_of(HASHES, 256, 4)
    bits = "".join(str(signature[4 * i] & 1) for i in range(256))
    assert value_of(scheme(lib.ND_SCHEME_BITSAMPLING), REPEATED) == int(bits, 2).to_bytes(32, "big")


def test_codes_are_not_made_from_text() -> None:
    """BinaryCode takes codes only."""
    values = ffi.gc(lib.nd_values_new(), lib.nd_values_free)
    native = scheme(lib.ND_SCHEME_BINARYCODE)
    for count in (0, 1):
        assert lib.nd_scheme_append_digests(native, bytes(32), 32, count, 1, values) == lib.ND_ERROR_PARAMETER


@pytest.mark.parametrize("kind", [lib.ND_SCHEME_SIMHASH, lib.ND_SCHEME_MINHASH, lib.ND_SCHEME_BOTTOMK, lib.ND_SCHEME_BITSAMPLING])
def test_texts_give_the_values_of_their_shingles(kind: int) -> None:
    """Texts are appended in order, an empty one with size 0; the values are those of XXH3-64 of the shingles."""
    spec = ffi.new("nd_rules_spec *", {"normalize": 2, "fold": 2, "hash": lib.ND_HASH_XXH3_64, "shingle": 2})
    joiner = ffi.new("uint8_t[]", b" ")
    spec.joiner, spec.joiner_size = joiner, 1
    out = ffi.new("nd_rules **")
    assert lib.nd_rules_new(spec, out) == lib.ND_OK
    rules, work = ffi.gc(out[0], lib.nd_rules_free), ffi.gc(lib.nd_text_new(), lib.nd_text_free)
    texts = [b"The quick brown FOX", b"", b"jumps!", b"?! -"]
    buffers = [ffi.new("uint8_t[]", t) for t in texts]
    values = ffi.gc(lib.nd_values_new(), lib.nd_values_free)
    native, sizes = scheme(kind), [len(t) for t in texts]
    for _ in range(2):
        assert lib.nd_scheme_append_texts(native, rules, work, buffers, sizes, 4, values) == lib.ND_OK
    assert lib.nd_values_count(values) == 8
    assert list(lib.nd_values_tokens(values)[0:8]) == [4, 0, 1, 0] * 2
    ends, data = list(lib.nd_values_ends(values)[0:8]), lib.nd_values_bytes(values)
    got = [bytes(ffi.buffer(data, ends[-1]))[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    shingles = [["the quick", "quick brown", "brown fox"], [], ["jumps"], []]
    expected = [value_of(native, [xxhash.xxh3_64_intdigest(s.encode()) for s in of]) if of else b"" for of in shingles]
    assert got == expected * 2
    lib.nd_values_clear(values)
    assert lib.nd_values_count(values) == 0
    if kind == lib.ND_SCHEME_SIMHASH:
        assert (
            lib.nd_scheme_append_texts(scheme(kind, bits=128), rules, work, buffers, sizes, 4, values) == lib.ND_ERROR_PARAMETER
        )
        assert lib.nd_values_count(values) == 0


DAMAGED: list[tuple[Any, list[bytes]]] = [
    (scheme(lib.ND_SCHEME_SIMHASH), [b"", bytes(7), bytes(9)]),
    (scheme(lib.ND_SCHEME_MINHASH), [b"", bytes(255), bytes(257), bytes(512)]),
    (scheme(lib.ND_SCHEME_MINHASH, evidence=lib.ND_EVIDENCE_TEXT), [bytes(256), bytes(16)]),
    (scheme(lib.ND_SCHEME_MINHASH, evidence=lib.ND_EVIDENCE_HASHES), [b"", bytes(4), little([2, 1]), little([1, 1])]),
    (scheme(lib.ND_SCHEME_BOTTOMK, k=2), [b"", bytes(15), little([2, 1]), little([3, 3]), little([1, 2, 3])]),
]


@pytest.mark.parametrize(("native", "values"), DAMAGED)
def test_damaged_values_are_refused(native: Any, values: list[bytes]) -> None:
    """A value of a wrong length or order gives ND_ERROR_DAMAGED from every function that reads one."""
    out, sim, distance = ffi.gc(lib.nd_keys_new(), lib.nd_keys_free), ffi.new("double *"), ffi.new("int64_t *")
    for value in values:
        assert lib.nd_scheme_value_check(native, value, len(value)) == lib.ND_ERROR_DAMAGED
        assert lib.nd_scheme_file_keys(native, value, len(value), out) == lib.ND_ERROR_DAMAGED
        assert lib.nd_scheme_probe_keys(native, value, len(value), out) == lib.ND_ERROR_DAMAGED
        assert lib.nd_keys_count(out) == 0
        assert lib.nd_scheme_similarity(native, value, len(value), value, len(value), sim, distance) == lib.ND_ERROR_DAMAGED


# ---- keys


def test_block_keys_are_the_permuted_code_and_its_prefix_ranges() -> None:
    """Filing gives the permuted code of each table; probing the range of its prefix, with 64-bit patterns as signed numbers."""
    native = scheme(lib.ND_SCHEME_SIMHASH, blocks=4)
    code = 0xFEDCBA9876543210
    filed = keys(native, code.to_bytes(8, "big"), False)
    probed = keys(native, code.to_bytes(8, "big"), True)
    blocks = [0x3210, 0x7654, 0xBA98, 0xFEDC]
    for table, leading in enumerate([3, 2, 1, 0]):
        permuted = blocks[leading]
        for other in [b for b in (3, 2, 1, 0) if b != leading]:
            permuted = permuted << 16 | blocks[other]
        low, high = blocks[leading] << 48, blocks[leading] << 48 | 2**48 - 1
        signed = [v - 2**64 if v >> 63 else v for v in (permuted, low, high)]
        assert filed[table] == (table, signed[0], signed[0], signed[0])
        assert probed[table] == (table, signed[1], signed[2], signed[0])


def test_narrow_codes_are_numbers_of_their_width() -> None:
    """Codes below 64 bits give keys from 0 up to 2 ** bits - 1."""
    native = scheme(lib.ND_SCHEME_SIMHASH, bits=16, max_distance=1, blocks=2)
    assert keys(native, b"\xab\xcd", False) == [(0, 0xABCD, 0xABCD, 0xABCD), (1, 0xCDAB, 0xCDAB, 0xCDAB)]
    assert keys(native, b"\xab\xcd", True) == [(0, 0xAB00, 0xABFF, 0xABCD), (1, 0xCD00, 0xCDFF, 0xCDAB)]


def test_wide_block_keys_are_byte_strings() -> None:
    """Codes above 64 bits are filed and probed as byte strings of their own width."""
    native = scheme(lib.ND_SCHEME_SIMHASH, bits=72, max_distance=1, blocks=2)
    code = bytes(range(0xA0, 0xA9))
    number = int.from_bytes(code, "big")
    swapped = ((number & 2**36 - 1) << 36 | number >> 36).to_bytes(9, "big")
    assert keys(native, code, False) == [(0, code, code, code), (1, swapped, swapped, swapped)]
    low = [c[:4] + bytes([c[4] & 0xF0]) + bytes(4) for c in (code, swapped)]
    high = [c[:4] + bytes([c[4] | 0x0F]) + b"\xff" * 4 for c in (code, swapped)]
    assert keys(native, code, True) == [(0, low[0], high[0], code), (1, low[1], high[1], swapped)]


def test_chunk_keys() -> None:
    """Filing gives each chunk's value; probing its neighbours within the radius, 64-bit ones as signed numbers."""
    native = scheme(lib.ND_SCHEME_BINARYCODE, bits=16, chunks=4, max_distance=4)
    assert keys(native, b"\x9b\x93", False) == [(0, 9, 9, 0), (1, 11, 11, 0), (2, 9, 9, 0), (3, 3, 3, 0)]
    near_nine = [1, 8, 9, 11, 13]
    expected = [(0, v, v, 0) for v in near_nine] + [(1, 11, 11, 0), (2, 9, 9, 0), (3, 3, 3, 0)]
    assert keys(native, b"\x9b\x93", True) == expected
    wide = scheme(lib.ND_SCHEME_BINARYCODE, bits=64, chunks=1, max_distance=1)
    flipped = [0xFFFFFFFFFFFFFFFF ^ (1 << b) for b in range(64)]
    signed = sorted([-1, *(v - 2**64 if v >> 63 else v for v in flipped)])
    assert keys(wide, b"\xff" * 8, True) == [(0, v, v, 0) for v in signed]


def test_band_keys_are_the_distinct_signed_buckets() -> None:
    """Keys of a signature are its buckets, ascending; one computed from stored hashes has the same."""
    signature = signature_of(HASHES, 128, 2)
    buckets = {xxhash.xxh3_64_intdigest(signature[i * 12 : (i + 1) * 12], i) & 0xFFFFFFFF for i in range(16)}
    expected = [(0, b, b, 0) for b in sorted(v - 2**32 if v >> 31 else v for v in buckets)]
    assert any(k[1] < 0 for k in expected) and any(k[1] > 0 for k in expected)
    for evidence in (lib.ND_EVIDENCE_NONE, lib.ND_EVIDENCE_HASHES, lib.ND_EVIDENCE_TEXT):
        native = scheme(lib.ND_SCHEME_MINHASH, evidence=evidence)
        value = value_of(native, REPEATED)
        assert keys(native, value, False) == keys(native, value, True) == expected


@pytest.mark.parametrize("num_perm", [1, 3, 17, 129])
@pytest.mark.parametrize("hash_count", [1, 2, 300])
def test_bands_of_one_slot_may_be_odd_in_number(num_perm: int, hash_count: int) -> None:
    """As many bands as slots, an odd number: each slot has its bucket, and no byte behind the scratch memory is written."""
    hashes = HASHES[:hash_count]
    signature = signature_of(hashes, num_perm, 4)
    buckets = {xxhash.xxh3_64_intdigest(signature[i * 4 : (i + 1) * 4], i) & 0xFFFFFFFF for i in range(num_perm)}
    expected = [(0, b, b, 0) for b in sorted(v - 2**32 if v >> 31 else v for v in buckets)]
    for evidence in (lib.ND_EVIDENCE_NONE, lib.ND_EVIDENCE_HASHES, lib.ND_EVIDENCE_TEXT):
        native = scheme(lib.ND_SCHEME_MINHASH, num_perm=num_perm, bands=num_perm, rows=1, slot_bits=32, evidence=evidence)
        assert keys(native, value_of(native, hashes), False) == expected


def test_prefix_keys_are_the_first_hashes() -> None:
    """A bottom-k fingerprint is filed under its first len - o + 1 hashes, as signed numbers in ascending order."""
    native = scheme(lib.ND_SCHEME_BOTTOMK, k=10, threshold=0.8)
    hashes = [1, 2**63, 2**63 + 5, *range(2**64 - 7, 2**64)]
    expected = sorted(v - 2**64 if v >> 63 else v for v in hashes[:3])
    assert keys(native, little(hashes), True) == keys(native, little(hashes), False) == [(0, v, v, 0) for v in expected]


def test_with_containment_all_hashes_are_filed() -> None:
    """Similar ones are looked up by the prefix; what contains a share t of n hashes by the first n - o + 1, o / n >= t."""
    native = scheme(lib.ND_SCHEME_BOTTOMK, k=10, threshold=0.8, containment=1)
    hashes = [1, 2**63, 2**63 + 5, *range(2**64 - 7, 2**64)]
    rows = [(0, v - 2**64 if v >> 63 else v) for v in hashes]
    value = little(hashes)
    assert [row[:2] for row in keys(native, value, False)] == sorted(rows)
    assert [row[:2] for row in keys(native, value, True)] == sorted(rows[:3])
    out = ffi.gc(lib.nd_keys_new(), lib.nd_keys_free)
    for share, count in ((1.0, 1), (0.9, 2), (0.8, 3), (0.7, 4), (0.65, 4), (0.1, 10), (1e-300, 10)):
        assert lib.nd_scheme_containment_keys(native, value, len(value), share, out) == lib.ND_OK
        found = lib.nd_keys_rows(out)
        assert [(found[i].table_no, found[i].low) for i in range(lib.nd_keys_count(out))] == sorted(rows[:count])
    for share in (0.0, -1.0, 1.5, float("nan")):
        assert lib.nd_scheme_containment_keys(native, value, len(value), share, out) == lib.ND_ERROR_PARAMETER
    assert lib.nd_scheme_containment_keys(native, value, 7, 0.5, out) == lib.ND_ERROR_DAMAGED
    assert lib.nd_keys_count(out) == 0
    without = scheme(lib.ND_SCHEME_BOTTOMK, k=10, threshold=0.8)
    assert lib.nd_scheme_containment_keys(without, value, len(value), 0.5, out) == lib.ND_ERROR_PARAMETER
    assert "containment is 2; it must be from 0 to 1" in str(complaint(scheme(lib.ND_SCHEME_BOTTOMK, k=10, containment=2)))


def test_the_prefix_never_shrinks_as_sets_grow() -> None:
    """What containment rests on: the prefix of any first part of a fingerprint lies within its own."""
    for threshold in (1e-9, 0.1, 1 / 3, 0.5, 2 / 3, 0.7, 0.8, 0.9, 0.95, 1.0):
        counts = [lib.nd_prefix_count(count, threshold) for count in range(1, 3000)]
        assert all(before <= after for before, after in zip(counts, counts[1:], strict=False))


def test_a_scan_has_no_keys() -> None:
    """The plan of looking at everything files and probes nothing."""
    native = scheme(lib.ND_SCHEME_BINARYCODE, plan=lib.ND_PLAN_SCAN)
    assert complaint(native) is None
    assert keys(native, bytes(32), True) == keys(native, bytes(32), False) == []


@st.composite
def code_schemes(draw: st.DrawFn) -> Any:
    bits = 8 * draw(st.sampled_from([1, 2, 4, 7, 8, 9, 16, 32]))
    distance = draw(st.integers(0, min(bits - 1, 5)))
    plan = draw(st.sampled_from([lib.ND_PLAN_BLOCKS, lib.ND_PLAN_CHUNKS]))
    blocks = draw(st.integers(distance + 1, min(bits, distance + 4)))
    chunks = draw(st.integers(max(1, bits // 24), min(bits, 40)))
    kind = draw(st.sampled_from([lib.ND_SCHEME_SIMHASH, lib.ND_SCHEME_BITSAMPLING, lib.ND_SCHEME_BINARYCODE]))
    return scheme(kind, plan=plan, bits=bits, max_distance=distance, blocks=blocks, chunks=chunks)


@settings(max_examples=150, deadline=None)
@given(code_schemes(), st.data())
def test_no_code_within_the_distance_is_missed(native: Any, data: st.DataObject) -> None:
    """Flip up to max_distance bits anywhere: the probe meets the filed rows, and the rule measures the distance."""
    assert complaint(native) is None
    bits = native.bits
    code = data.draw(st.integers(0, 2**bits - 1))
    flips = data.draw(st.sets(st.integers(0, bits - 1), max_size=native.max_distance))
    other = code ^ sum(1 << f for f in flips)
    a, b = code.to_bytes(bits // 8, "big"), other.to_bytes(bits // 8, "big")
    assert meets(native, a, b)
    slope = 2.0 if native.kind == lib.ND_SCHEME_BITSAMPLING else 1.0
    assert similarity(native, a, b) == (max(0.0, 1.0 - slope * len(flips) / bits), len(flips))


SMALL_SETS = st.sets(st.integers(0, 30) | st.integers(2**63 - 3, 2**63 + 3), min_size=1, max_size=20)


@settings(max_examples=400)
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


def test_minhash_rules() -> None:
    """Without evidence the share of equal slots, with stored hashes the true Jaccard, with texts the share of the signatures."""
    other = HASHES[:250] + [h ^ 1 for h in HASHES[250:]]
    signatures = [signature_of(h, 128, 2) for h in (HASHES, other)]
    share = sum(signatures[0][2 * i : 2 * i + 2] == signatures[1][2 * i : 2 * i + 2] for i in range(128)) / 128
    for evidence, expected in ((lib.ND_EVIDENCE_NONE, share), (lib.ND_EVIDENCE_HASHES, 250 / 350), (lib.ND_EVIDENCE_TEXT, share)):
        native = scheme(lib.ND_SCHEME_MINHASH, evidence=evidence)
        assert similarity(native, value_of(native, HASHES), value_of(native, other)) == (expected, -1)


def test_values_may_stand_at_any_address() -> None:
    """Similarity and keys do not depend on the alignment of the bytes."""
    for evidence in (lib.ND_EVIDENCE_NONE, lib.ND_EVIDENCE_HASHES):
        native = scheme(lib.ND_SCHEME_MINHASH, evidence=evidence)
        value = value_of(native, HASHES)
        moved, out, distance = ffi.new("uint8_t[]", b"???" + value), ffi.new("double *"), ffi.new("int64_t *")
        assert lib.nd_scheme_similarity(native, value, len(value), moved + 3, len(value), out, distance) == lib.ND_OK
        assert out[0] == 1.0
        found = ffi.gc(lib.nd_keys_new(), lib.nd_keys_free)
        assert lib.nd_scheme_probe_keys(native, moved + 3, len(value), found) == lib.ND_OK
        assert [lib.nd_keys_rows(found)[i].low for i in range(lib.nd_keys_count(found))] == [
            k[1] for k in keys(native, value, True)
        ]


def test_scans_are_preferred_where_probing_costs_more() -> None:
    """Few codes are scanned, many are probed; a scan stays one, and what is not Hamming never scans."""
    for kind in (lib.ND_SCHEME_SIMHASH, lib.ND_SCHEME_BINARYCODE, lib.ND_SCHEME_BITSAMPLING):
        assert lib.nd_scheme_prefers_scan(scheme(kind), 10) == 1
        assert lib.nd_scheme_prefers_scan(scheme(kind, plan=lib.ND_PLAN_SCAN), 10**12) == 1
    assert lib.nd_scheme_prefers_scan(scheme(lib.ND_SCHEME_SIMHASH), 1_000_000) == 0
    assert lib.nd_scheme_prefers_scan(scheme(lib.ND_SCHEME_BINARYCODE), 1_000_000) == 0
    assert lib.nd_scheme_prefers_scan(scheme(lib.ND_SCHEME_SIMHASH, bits=8, max_distance=4, blocks=5), 1_000_000) == 1
    for kind in (lib.ND_SCHEME_MINHASH, lib.ND_SCHEME_BOTTOMK):
        assert lib.nd_scheme_prefers_scan(scheme(kind), 1) == 0
