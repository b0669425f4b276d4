"""Shingles of texts, hashes of shingles and fingerprints of hashes."""

from __future__ import annotations

from typing import Any, Literal

from .. import native
from ..arrays import Array, np, npt
from ..errors import ParameterError
from ..parameters import check_choice, check_integer, check_seed
from ..schemes.base import FAMILIES, Family, rules_of
from ..text import HashName, TextRules
from .arguments import BITS_MAX, byte_rows, hashes_of, unsigned, weights_of


def shingles(text: str | bytes, rules: TextRules | None = None) -> list[str]:
    """The shingles of a text in text order, with repetitions; [] for an empty text. rules: None for `TextRules()`.

    >>> shingles("The cat sat on the mat.", TextRules(shingle=4))
    ['the cat sat on', 'cat sat on the', 'sat on the mat']
    """
    return rules_of(rules).shingles(text)


def shingle_hashes(text: str | bytes, rules: TextRules | None = None) -> Array:
    """The shingle hashes of a text in text order: uint64[n], uint32[n] or uint8[n, size], as wide as the rules' hash.

    >>> shingle_hashes("one two three four").dtype, len(shingle_hashes("one two three four"))
    (dtype('uint64'), 2)
    """
    rules = rules_of(rules)
    if not callable(rules.hash):
        return native.hashes_of(rules.run(text), rules.native, rules.hash_size)
    digests, _ = rules.digests(text)
    size = digests.shape[1]
    if size not in (4, 8):
        return digests.copy()
    return digests.reshape(-1).view(f">u{size}").astype(f"u{size}")


def hash_bytes(data: bytes | str, hash: HashName = "xxh3_64", seed: int = 0) -> int | bytes:
    """The hash of data (a str as UTF-8): an int for hashes up to 64 bits, digest bytes for md5, sha1 and sha256.

    hash: "xxh3_64", "fnv1a_32", "fnv1a_64", "djb2a", "md5", "sha1" or "sha256". seed: 0 to 2^64 - 1, for "xxh3_64" only.

    >>> hash_bytes(b"he", "djb2a")
    5861128
    >>> hash_bytes(b"", "md5").hex()
    'd41d8cd98f00b204e9800998ecf8427e'
    """
    check_choice("hash", hash, native.HASHES)
    number = check_integer("seed", seed, 0, (1 << 64) - 1)
    if number and hash != "xxh3_64":
        raise ParameterError(f"seed={seed} goes with hash='xxh3_64' only, not {hash!r}; leave it out")
    digest = native.digests_of_hash(native.HASHES.index(hash), number, native.text_bytes(data))
    return int.from_bytes(digest, "big") if len(digest) <= 8 else digest


def simhash(hashes: Any, bits: int = 64, weights: Any = None) -> npt.NDArray[np.uint8] | None:
    """The SimHash code of hashes: uint8[bits // 8], most significant bit first; None if there are no hashes.

    Bit i is 1 if the hashes with bit i set outweigh the others, and 0 on a tie (Charikar 2002). hashes: uint64[n], uint32[n], or
    uint8[n, size]. bits: a multiple of 8 up to their width. weights: an integer for each hash, None for 1, so that tokens count
    differently with the `shingle_hashes` of `TextRules(shingle=1)`; an index of `BinaryCode` takes such codes.

    >>> simhash([0xFF00000000000000, 0xF000000000000000, 0xF0F0000000000000]).tobytes().hex()
    'f000000000000000'
    """
    digests = byte_rows("hashes", hashes)
    count, size = digests.shape
    bits = check_integer("bits", bits, 8, 8 * size, f"the hashes have {8 * size} bits")
    if bits % 8:
        raise ParameterError(f"bits={bits}: give a multiple of 8, e.g. {bits - bits % 8}")
    weighing = None if weights is None else weights_of(weights, count)
    if not count:
        return None
    code, counters = np.zeros(bits // 8, np.uint8), np.zeros(bits, np.int64)
    weight_data = native.ffi.NULL if weighing is None else native.pointer(weighing, "int64_t[]")
    status = native.lib.nd_simhash(
        native.pointer(digests.reshape(-1), "uint8_t[]"), count, size, bits, weight_data,
        native.pointer(counters, "int64_t[]"), native.pointer(code, "uint8_t[]"),
    )  # fmt: skip
    native.check(status, "the weights add up to more than 63 bits")
    return code


def minhash(
    hashes: Any, num_perm: int = 128, seed: int = 1, slot_bits: Literal[16, 32] = 16, family: Family = "affine32"
) -> Array | None:
    """The MinHash signature of hashes: uint16[num_perm], uint32[num_perm] with slot_bits=32; None if there are no hashes.

    Each slot keeps the low slot_bits of the minimum of one hash function over all hashes (Broder 1997). seed: 0 to 2^63 - 1.
    family: "affine32", or "java32", a*x + b in signed 32 bits with a and b from java.util.Random(seed), as in the article
    "MinHashing and LSH" (its slots are signed: `.view("int32")`). Longer digests are cut to 8 bytes.

    >>> minhash([hash_bytes("he", "djb2a")], num_perm=2, seed=1337, slot_bits=32, family="java32").view("int32").tolist()
    [480357896, 1614176836]
    """
    values = hashes_of(hashes)
    num_perm = check_integer("num_perm", num_perm, 1, BITS_MAX, "hash functions")
    number = check_seed("seed", seed)
    check_choice("slot_bits", slot_bits, (16, 32))
    check_choice("family", family, FAMILIES)
    if not len(values):
        return None
    a, b, slots = (np.zeros(num_perm, np.uint32) for _ in range(3))
    rule, at = native.words("family").index(family), [native.pointer(one, "uint32_t[]") for one in (a, b, slots)]
    native.check(native.lib.nd_minhash_coefficients(rule, number, num_perm, *at[:2]), f"family {family}, num_perm={num_perm}")
    hashes_at = native.pointer(values, "uint64_t[]")
    native.check(native.lib.nd_minhash(rule, *at[:2], num_perm, hashes_at, len(values), at[2]), "minhash")
    return slots if slot_bits == 32 else (slots & np.uint32(0xFFFF)).astype(np.uint16)


def bottom_k(hashes: Any, k: int) -> Array:
    """The k smallest distinct hashes in ascending order: uint64[at most k], uint32 for uint32.

    >>> bottom_k([7, 3, 9, 3, 1], 3).tolist()
    [1, 3, 7]
    """
    values = hashes_of(hashes)
    k = check_integer("k", k, 1, (1 << 31) - 1, "hashes to keep")
    out, count = np.zeros(min(k, max(len(values), 1)), np.uint64), native.ffi.new("size_t *")
    data = native.pointer(values, "uint64_t[]")
    native.check(native.lib.nd_bottom_k(data, len(values), len(out), native.pointer(out, "uint64_t[]"), count), f"k={k}")
    smallest = out[: int(count[0])].copy()
    return smallest.astype(np.uint32) if getattr(hashes, "dtype", None) == np.uint32 else smallest


def bit_sample(signature: Any) -> npt.NDArray[np.uint8]:
    """The lowest bit of each slot of a MinHash signature: uint8[n // 8], slot 0 first (Li and Koenig 2010).

    signature: uint16[n], uint32[n] or a list of int; n a multiple of 8.

    >>> bit_sample([1, 2, 3, 4, 5, 6, 7, 9]).tolist()
    [171]
    """
    slots = unsigned("signature", signature)
    if len(slots) == 0 or len(slots) % 8:
        raise ParameterError(f"signature has {len(slots)} slots; one-bit samples need a multiple of 8")
    return np.packbits((slots & slots.dtype.type(1)).astype(np.uint8))
