"""The functions of near-duplicate search without an index: shingles, fingerprints, comparisons, candidates, all pairs.

Arrays of hashes are uint64[n], uint32[n] for hashes of 32 bits and uint8[n, size] for digests of more than 8 bytes, big-endian;
plain lists of int, or of bytes for digests, do as well. Wrong types and values raise ParameterError.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from . import native
from .errors import ParameterError
from .parameters import choice, fraction, integer
from .parameters import seed as checked_seed
from .schemes import plans
from .schemes.common import FAMILIES
from .text import TextRules

__all__ = [
    "BlockTable", "bit_sample", "block_tables", "bottom_k", "candidate_probability", "choose_bands", "containment", "find_all",
    "hamming_distance", "hash_bytes", "jaccard", "jaccard_pairs", "minhash", "neighbours", "permute", "pick_bands",
    "shingle_hashes", "shingles", "simhash", "simhash_weighted", "split_chunks",
]  # fmt: skip

Array = npt.NDArray[Any]

_BITS_MAX = 1 << 16
_NEIGHBOURS_MAX = 10_000_000

# ---- texts and hashes --------------------------------------------------------------------------------------------------


def shingles(text: str | bytes, rules: TextRules | None = None) -> list[str]:
    """The shingles of a text, in their order, repeated ones repeated; [] for an empty text. rules: None for `TextRules()`.

    >>> shingles("The cat sat on the mat.", TextRules(shingle=4))
    ['the cat sat on', 'cat sat on the', 'sat on the mat']
    """
    return _rules(rules).shingles(text)


def shingle_hashes(text: str | bytes, rules: TextRules | None = None) -> Array:
    """The hashes of a text's shingles, in their order: uint64[n], uint32[n] or uint8[n, size], as wide as the rules' hash.

    >>> shingle_hashes("one two three four").dtype, len(shingle_hashes("one two three four"))
    (dtype('uint64'), 2)
    """
    rules = _rules(rules)
    if not callable(rules.hash):
        return native.hashes_of(rules.run(text), rules.native, rules.hash_size)
    digests, _ = rules.digests(text)
    size = digests.shape[1]
    if size not in (4, 8):
        return digests.copy()
    return digests.reshape(-1).view(f">u{size}").astype(f"u{size}")


def hash_bytes(data: bytes | str, hash: str = "xxh3_64", seed: int = 0) -> int | bytes:
    """The hash of data (a str as UTF-8): an int for hashes of up to 64 bits, the digest in bytes for md5, sha1 and sha256.

    hash: "xxh3_64", "fnv1a_32", "fnv1a_64", "djb2a", "md5", "sha1" or "sha256". seed: 0 to 2^64 - 1, of "xxh3_64" only.

    >>> hash_bytes(b"he", "djb2a")
    5861128
    >>> hash_bytes(b"", "md5").hex()
    'd41d8cd98f00b204e9800998ecf8427e'
    """
    choice("hash", hash, native.HASHES)
    number = integer("seed", seed, 0, (1 << 64) - 1)
    if number and hash != "xxh3_64":
        raise ParameterError(f"seed={seed} goes with hash='xxh3_64' only, not {hash!r}; leave it out")
    digest = native.digests_of_hash(native.HASHES.index(hash), number, native.text_bytes(data))
    return int.from_bytes(digest, "big") if len(digest) <= 8 else digest


# ---- fingerprints ------------------------------------------------------------------------------------------------------


def simhash(hashes: Any, bits: int = 64, weights: Any = None) -> npt.NDArray[np.uint8] | None:
    """The SimHash code of hashes: uint8[bits // 8], most significant bit first; None if there are no hashes.

    Bit i is 1 where the hashes with bit i set weigh more than those without; a tie gives 0 (Charikar 2002). hashes: uint64[n],
    uint32[n], or uint8[n, size]; bits: a multiple of 8 up to their width; weights: an integer for each hash, None for 1.

    >>> simhash([0xFF00000000000000, 0xF000000000000000, 0xF0F0000000000000]).tobytes().hex()
    'f000000000000000'
    """
    digests = _digests(hashes)
    count, size = digests.shape
    bits = integer("bits", bits, 8, 8 * size, f"the hashes have {8 * size} bits")
    if bits % 8:
        raise ParameterError(f"bits must be a multiple of 8, not {bits}; take {bits - bits % 8}")
    weighing = None if weights is None else _weights(weights, count)
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


def simhash_weighted(
    text: str | bytes, weight: Callable[[str], int], rules: TextRules | None = None, bits: int | None = None
) -> npt.NDArray[np.uint8] | None:
    """The SimHash code of a text whose shingles weigh differently: uint8[bits // 8]; None for a text without shingles.

    weight: called with each shingle, repeated ones each time, for an integer of 64 bits: 0 leaves the shingle out, and 1 for all
    gives `SimHash().fingerprint`. With `TextRules(shingle=1)` shingles are tokens. Weights that are fractions, such as
    inverse document frequencies, are to be scaled and rounded, so that the code is the same on every machine. rules: None for
    `TextRules()`. bits: a multiple of 8, None for the width of the rules' hash. An index of the scheme
    `BinaryCode(bits=64, max_distance=3)` takes such codes, with `add_code` and `query_code` (Manku, Jain and Das Sarma 2007 weigh
    the features of web pages so).

    >>> words = TextRules(shingle=1)
    >>> def weight(word):
    ...     return 0 if word in ("the", "a") else len(word)
    >>> a, b = simhash_weighted("The lighthouse", weight, words), simhash_weighted("a lighthouse", weight, words)
    >>> hamming_distance(a, b)
    0
    """
    rules = _rules(rules)
    listed, hashes = rules.shingles(text), shingle_hashes(text, rules)
    width = 8 * rules.hash_size if bits is None else bits
    return simhash(hashes, width, [_weight_of(weight, shingle) for shingle in listed])


def minhash(hashes: Any, num_perm: int = 128, seed: int = 1, slot_bits: int = 16, family: str = "affine32") -> Array | None:
    """The MinHash signature of hashes: uint16[num_perm], uint32[num_perm] with slot_bits=32; None if there are no hashes.

    Each slot is the minimum of one hash function over all hashes, its low slot_bits kept (Broder 1997). seed: 0 to 2^63 - 1.
    family: "affine32", or "java32", a*x + b in signed 32 bits with a and b drawn by java.util.Random(seed), as in the article
    "MinHashing and LSH" (its slots are signed: `.view("int32")`). Of digests wider than 64 bits the first 8 bytes are used.

    >>> minhash([hash_bytes("he", "djb2a")], num_perm=2, seed=1337, slot_bits=32, family="java32").view("int32").tolist()
    [480357896, 1614176836]
    """
    values = _hashes(hashes)
    num_perm = integer("num_perm", num_perm, 1, _BITS_MAX, "hash functions")
    number = checked_seed("seed", seed)
    choice("slot_bits", slot_bits, (16, 32))
    choice("family", family, FAMILIES)
    return native.minhash(values, num_perm, number, family, slot_bits) if len(values) else None


def bottom_k(hashes: Any, k: int) -> Array:
    """The k smallest distinct hashes in ascending order: uint64[at most k], uint32 for uint32.

    >>> bottom_k([7, 3, 9, 3, 1], 3).tolist()
    [1, 3, 7]
    """
    values = _hashes(hashes)
    k = integer("k", k, 1, (1 << 31) - 1, "hashes to keep")
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
    slots = _unsigned("signature", signature)
    if len(slots) == 0 or len(slots) % 8:
        raise ParameterError(f"signature has {len(slots)} slots; one-bit samples need a multiple of 8")
    return np.packbits((slots & slots.dtype.type(1)).astype(np.uint8))


# ---- comparisons -------------------------------------------------------------------------------------------------------


def hamming_distance(a: Any, b: Any) -> int:
    """How many bits differ. a, b: both int (0 or above), or both of one length: uint8[n], bytes, hex digits.

    >>> hamming_distance(0b1011, 0b0010)
    2
    >>> hamming_distance(b"\\xff\\x00", b"\\x00\\x00")
    8
    """
    whole_a, whole_b = _is_integer(a), _is_integer(b)
    if whole_a and whole_b:
        if a < 0 or b < 0:
            raise ParameterError(f"codes must be 0 or above, not {a} and {b}")
        return (int(a) ^ int(b)).bit_count()
    data_a = _code_data("a", a) if not whole_a else None
    data_b = _code_data("b", b) if not whole_b else None
    data_a = _int_data("a", a, len(data_b or b"")) if data_a is None else data_a
    data_b = _int_data("b", b, len(data_a)) if data_b is None else data_b
    if len(data_a) != len(data_b):
        raise ParameterError(f"codes of {8 * len(data_a)} and {8 * len(data_b)} bits cannot be compared")
    return native.hamming(data_a, data_b)


def jaccard(a: Any, b: Any, threshold: float = 0.0) -> float:
    """|A and B| / |A or B| of two ascending arrays of distinct hashes; 0.0 if that is below the threshold.

    a, b: uint64[n], uint32[n] or lists of int; two empty ones give 0.0. The merge stops as soon as the threshold cannot be
    reached; the test is `common / (len(a) + len(b) - common) >= threshold` itself, so no pair exactly at it is lost.

    >>> jaccard([1, 2, 3, 4], [2, 3, 4, 5])
    0.6
    >>> jaccard([1, 2, 3, 4], [2, 3, 4, 5], threshold=0.7)
    0.0
    """
    bound = 0.0 if threshold == 0 else fraction("threshold", threshold)
    left, right = _ascending("a", a), _ascending("b", b)
    if not len(left) or not len(right):
        return 0.0
    data_a, data_b = native.pointer(left, "uint64_t[]"), native.pointer(right, "uint64_t[]")
    similarity = float(native.lib.nd_jaccard(data_a, len(left), data_b, len(right), bound))
    return similarity if similarity >= bound else 0.0


def containment(a: Any, b: Any, k: int | None = None) -> float:
    """|A and B| / |A|, how much of A is in B: 1.0 where A is a part of B, however long B is; 0.0 where A is empty.

    a, b: ascending arrays of distinct hashes, uint64[n], uint32[n] or lists of int. k=None: they are whole sets, and the value is
    exact. k: they are bottom-k fingerprints, `bottom_k(hashes, k)`, and the value is estimated from the hashes that both cover,
    up to the smaller of the two last ones, with a standard deviation of about sqrt(c (1 - c) / m) for m such hashes of a. Where A
    is the smaller set m is about k |A| / |B|: fingerprints say little of a set many times smaller, nan where m is 0.
    `Index.query(text, measure="containment")` asks this of all documents.

    >>> containment([1, 2, 3, 4], [2, 3, 4, 5, 6, 7])
    0.75
    >>> containment([1, 4, 8], [1, 2, 4], k=3)
    1.0
    """
    left, right = _ascending("a", a), _ascending("b", b)
    data_a = native.pointer(left if len(left) else np.zeros(1, np.uint64), "uint64_t[]")
    data_b = native.pointer(right if len(right) else np.zeros(1, np.uint64), "uint64_t[]")
    if k is None:
        return float(native.lib.nd_containment(data_a, len(left), data_b, len(right)))
    k = integer("k", k, 1, (1 << 31) - 1, "hashes in a fingerprint")
    for name, array in (("a", left), ("b", right)):
        if len(array) > k:
            raise ParameterError(f"{name} has {len(array)} hashes, more than k={k}; leave k out for whole sets")
    estimate = float(native.lib.nd_containment_estimate(data_a, len(left), data_b, len(right), k))
    return estimate if estimate >= 0 else math.nan


def jaccard_pairs(
    fingerprints: Any, threshold: float, *, others: Any = None
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """All pairs of fingerprints with a Jaccard similarity at or above the threshold: int64[m, 2], i < j ascending; float64[m].

    fingerprints: a list of ascending arrays of distinct hashes (None for an empty one), or a 2-D array of them. others: the same;
    if given, pairs are of fingerprints[i] and others[j] alone, ascending.

    >>> ids, similarities = jaccard_pairs([[1, 2, 3], [7, 8], [1, 2, 4]], 0.5)
    >>> ids.tolist(), similarities.tolist()
    ([[0, 2]], [0.5])
    >>> jaccard_pairs([[1, 2, 3], [1, 2]], 0.5, others=[[7, 8], [1, 2, 4]])[0].tolist()
    [[0, 1], [1, 1]]
    """
    pieces = list(jaccard_pieces(fingerprints, threshold, others=others))
    if len(pieces) == 1:
        return pieces[0]
    return np.empty((0, 2), np.int64), np.empty(0, np.float64)


def jaccard_pieces(
    fingerprints: Any, threshold: float, most: int = 2**64 - 1, *, others: Any = None
) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]]:
    """What `jaccard_pairs` returns, in pieces of about `most` pairs, each ascending for itself: memory does not grow with their
    number."""
    bound = fraction("threshold", threshold)
    values, ends = _joined_sets("fingerprints", fingerprints)
    split = None if others is None else len(ends)
    if others is not None:
        more, more_ends = _joined_sets("others", others)
        values, ends = np.concatenate([values, more]), np.concatenate([ends, more_ends + np.uint64(len(values))])
    for ids, similarities in native.set_pairs(values, ends, split, bound, most):
        yield (ids if split is None else ids - np.array([0, split])), similarities


def find_all(codes: Any, max_distance: int, blocks: int | None = None, *, others: Any = None) -> npt.NDArray[np.int64]:
    """All pairs of codes that differ in at most max_distance bits: int64[m, 2], i < j ascending, each pair once.

    codes: uint64[n], uint8[n, size], or a list of int (64 bits) or of bytes. blocks: of the permuted tables that find the pairs,
    above max_distance; None for a good number (Manku, Jain and Das Sarma 2007). others: codes of the same size; if given, pairs
    are of codes[i] and others[j] alone, ascending.

    >>> find_all([0b0000, 0b0111, 0b0001], 2).tolist()
    [[0, 2], [1, 2]]
    >>> find_all([0b0000, 0b0111, 0b0001], 2, others=[0b1111]).tolist()
    [[1, 0]]
    """
    rows = _code_rows("codes", codes)
    split = len(rows)
    bits = 8 * rows.shape[1]
    if others is not None:
        more = _code_rows("others", others)
        if more.shape[1] != rows.shape[1]:
            raise ParameterError(f"codes have {bits} bits and others {8 * more.shape[1]}: pairs are of codes of one size")
        rows = np.concatenate([rows, more])
    distance = integer("max_distance", max_distance, 0, bits, f"of {bits} bits")
    count = 0 if blocks is None else integer("blocks", blocks, distance + 1, min(bits, 64), f"above max_distance={distance}")
    flat = np.ascontiguousarray(rows).reshape(-1) if len(rows) else np.zeros(1, np.uint8)
    data, rule = (native.pointer(flat, "uint8_t[]"), len(rows)), (bits, distance, count)
    if others is None:
        ids, _ = native.pairs(lambda out: native.lib.nd_find_all(*data, *rule, out))
        return ids
    ids, _ = native.pairs(lambda out: native.lib.nd_find_all_between(*data, split, *rule, out))
    return np.asarray(ids - np.array([0, split]))


# ---- candidates --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BlockTable:
    """One of the permuted tables for codes of `bits` bits in `blocks` blocks.

    order: all block numbers, most significant place first; block 0 is the least significant of the code as it came.
    prefix_bits: bits of the leading blocks, on which two codes of a range agree.
    """

    bits: int
    blocks: int
    order: tuple[int, ...]
    prefix_bits: int


def block_tables(bits: int, blocks: int, distance: int) -> list[BlockTable]:
    """The tables in which every pair of codes within `distance` bits shares a prefix: C(blocks, blocks - distance) of them.

    In order of the leading blocks named from the most significant one. bits: 1 or more. distance: below blocks.

    >>> tables = block_tables(64, 6, 3)
    >>> len(tables), tables[0]
    (20, BlockTable(bits=64, blocks=6, order=(5, 4, 3, 2, 1, 0), prefix_bits=32))
    """
    bits = integer("bits", bits, 1, _BITS_MAX)
    blocks = integer("blocks", blocks, 1, min(bits, 64), "blocks of a code")
    distance = integer("distance", distance, 0, blocks - 1, f"below blocks={blocks}")
    count = math.comb(blocks, distance)
    if count > 100_000:
        raise ParameterError(f"blocks={blocks} and distance={distance} make {count} tables; take fewer blocks")
    bounds = plans.block_bounds(bits, blocks)
    tables = []
    for leading in combinations(range(blocks - 1, -1, -1), blocks - distance):
        rest = tuple(block for block in range(blocks - 1, -1, -1) if block not in leading)
        prefix_bits = sum(bounds[block + 1] - bounds[block] for block in leading)
        tables.append(BlockTable(bits, blocks, leading + rest, prefix_bits))
    return tables


def permute(code: Any, table: BlockTable) -> Any:
    """A code with its blocks in the table's order, as the kind that it came in.

    code: an int, bytes, uint8[size], uint8[n, size], or uint64 (one number or an array) for tables of at most 64 bits.

    >>> hex(permute(0x1234, BlockTable(16, 4, (2, 3, 1, 0), 8)))
    '0x2134'
    """
    if not isinstance(table, BlockTable):
        raise ParameterError(f"table must be a BlockTable (see block_tables), not {table!r}")
    if isinstance(code, np.ndarray) and code.dtype == np.uint8 and code.ndim == 2:
        return np.array([permute(row, table) for row in code], np.uint8).reshape(code.shape)
    if isinstance(code, (np.ndarray, np.integer)) and code.dtype == np.uint64:
        return _permuted_words(code, table)
    if _is_integer(code):
        if not 0 <= code < 1 << table.bits:
            raise ParameterError(f"code={code} is no code of {table.bits} bits")
        return _permuted(int(code), table)
    data = _code_data("code", code)
    if 8 * len(data) != table.bits:
        raise ParameterError(f"code has {8 * len(data)} bits, the table {table.bits}")
    moved = _permuted(int.from_bytes(data, "big"), table).to_bytes(len(data), "big")
    if isinstance(code, str):
        return moved.hex()
    return np.frombuffer(moved, np.uint8).copy() if isinstance(code, np.ndarray) else moved


def split_chunks(code: Any, chunks: int, bits: int | None = None) -> list[Any]:
    """A code cut into chunks, the most significant first: list of int; of str where the code is a str of 0 and 1.

    code: uint8[size], bytes, a str of 0 and 1, or an int with `bits`. Chunks have the bounds of blocks.

    >>> split_chunks("1001101110010011", 4)
    ['1001', '1011', '1001', '0011']
    >>> split_chunks(b"\\x9b\\x93", 4)
    [9, 11, 9, 3]
    """
    number, width = _bits_of(code, bits)
    chunks = integer("chunks", chunks, 1, width, f"of {width} bits")
    bounds = plans.block_bounds(width, chunks)
    if isinstance(code, str):
        return [code[width - bounds[i] : width - bounds[i - 1]] for i in range(chunks, 0, -1)]
    return [number >> bounds[i - 1] & (1 << bounds[i] - bounds[i - 1]) - 1 for i in range(chunks, 0, -1)]


@overload
def neighbours(chunk: str, bits: int, radius: int) -> list[str]: ...
@overload
def neighbours(chunk: int, bits: int, radius: int) -> list[int]: ...
def neighbours(chunk: str | int, bits: int, radius: int) -> list[str] | list[int]:
    """All values of so many bits that differ from chunk in at most `radius` bits: itself, then one bit away, then two, ...

    Among those equally far the most significant bit is flipped first. chunk: an int, or a str of 0 and 1. bits: 1 to 64.

    >>> neighbours("1011", 4, 1)
    ['1011', '0011', '1111', '1001', '1010']
    """
    bits = integer("bits", bits, 1, 64, "of a chunk")
    number, _ = _bits_of(chunk, bits)
    radius = integer("radius", radius, 0, bits)
    capacity = int(native.lib.nd_neighbour_count(bits, radius))
    if capacity > _NEIGHBOURS_MAX:
        raise ParameterError(f"{capacity} values are within radius={radius} of {bits} bits; take a smaller radius")
    out, count = np.zeros(capacity, np.uint64), native.ffi.new("size_t *")
    native.check(native.lib.nd_neighbours(number, bits, radius, native.pointer(out, "uint64_t[]"), capacity, count))
    values: list[int] = out[: int(count[0])].tolist()
    return [format(value, f"0{bits}b") for value in values] if isinstance(chunk, str) else values


def pick_bands(threshold: float, num_perm: int) -> int:
    """How many bands the article "MinHashing and LSH" (part 2) picks: those whose implied threshold fits.

    b bands of n / b rows have their threshold, where the curve is steepest, near (1 / b)^(b / n). Solved for b that is
    b * ln(b) = n * ln(1 / threshold); the number is rounded up. This promises no recall: see `choose_bands`.

    >>> [pick_bands(threshold, 100) for threshold in (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)]
    [23, 18, 14, 10, 6, 4, 2]
    """
    target = integer("num_perm", num_perm, 1, _BITS_MAX) * -math.log(fraction("threshold", threshold))
    bands = 1
    while bands < num_perm and bands * math.log(bands) < target - 1e-9:
        bands += 1
    return bands


def choose_bands(threshold: float, num_perm: int, recall: float) -> tuple[int, int]:
    """(bands, rows) that find a pair at the threshold with probability `recall` at least, at the least cost.

    The cost weighs the rows written and probed against the false candidates that real text would give among a million
    documents: `neardup_db.schemes.plans.band_cost` states the numbers. At 0.8, 128, 0.99 nine bands of 4 rows write least and
    would look at 213 false candidates, 16 of 6 at 138, which pays for the seven rows more. ParameterError where no choice with
    bands * rows <= num_perm reaches the recall.

    >>> choose_bands(0.8, 128, 0.99)
    (12, 5)
    """
    return plans.cheapest_bands(
        fraction("threshold", threshold),
        integer("num_perm", num_perm, 1, _BITS_MAX),
        fraction("recall", recall, include_one=False),
        1_000_000,
    )


def candidate_probability(similarity: Any, bands: int, rows: int) -> Any:
    """1 - (1 - similarity^rows)^bands: the probability that a pair becomes a candidate; an array for an array.

    >>> round(candidate_probability(0.8, bands=16, rows=8), 3)
    0.947
    """
    bands, rows = integer("bands", bands, 1, _BITS_MAX), integer("rows", rows, 1, _BITS_MAX)
    values = np.asarray(similarity, dtype=np.float64)
    if not ((values >= 0.0) & (values <= 1.0)).all():
        raise ParameterError(f"similarity must be from 0 to 1, not {similarity!r}")
    found = [plans.band_probability(float(value), bands, rows) for value in values.reshape(-1)]
    return found[0] if values.ndim == 0 else np.array(found).reshape(values.shape)


# ---- what callers pass -------------------------------------------------------------------------------------------------


def _rules(rules: Any) -> TextRules:
    if rules is None:
        return TextRules()
    if not isinstance(rules, TextRules):
        raise ParameterError(f"rules must be TextRules or None, not {type(rules).__name__}")
    return rules


def _is_integer(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _unsigned(name: str, values: Any) -> Array:
    """values as a 1-D array of unsigned integers; a list becomes uint64."""
    if isinstance(values, np.ndarray):
        if values.ndim != 1 or values.dtype.kind != "u":
            raise ParameterError(f"{name} must be a one-dimensional array of uint64 or uint32, not {_kind(values)}")
        return values
    if isinstance(values, (str, bytes)) or not hasattr(values, "__iter__"):
        raise ParameterError(f"{name} must be an array or a list of int, not {type(values).__name__}")
    listed = list(values)
    for value in listed:
        if not _is_integer(value) or not 0 <= value < 1 << 64:
            raise ParameterError(f"{name} must hold integers from 0 to 2^64 - 1; {value!r} is none")
    return np.array(listed, dtype=np.uint64)


def _hashes(hashes: Any) -> npt.NDArray[np.uint64]:
    """Hashes as contiguous uint64[n]; of digests wider than 8 bytes the first 8."""
    if _is_digests(hashes):
        first = _digests(hashes)[:, :8]
        padded = np.zeros((len(first), 8), np.uint8)
        padded[:, 8 - first.shape[1] :] = first
        return padded.reshape(-1).view(">u8").astype(np.uint64)
    return np.ascontiguousarray(_unsigned("hashes", hashes), dtype=np.uint64)


def _is_digests(hashes: Any) -> bool:
    if isinstance(hashes, np.ndarray):
        return hashes.ndim == 2
    return isinstance(hashes, Sequence) and len(hashes) > 0 and isinstance(hashes[0], bytes)


def _digests(hashes: Any) -> npt.NDArray[np.uint8]:
    """Hashes as contiguous digests uint8[n, size], big-endian."""
    if not _is_digests(hashes):
        array = _unsigned("hashes", hashes)
        if array.dtype not in (np.uint32, np.uint64):
            raise ParameterError(f"hashes must be uint64, uint32 or uint8[n, size], not {array.dtype}")
        size = array.dtype.itemsize
        return np.ascontiguousarray(array.astype(f">u{size}")).view(np.uint8).reshape(len(array), size)
    if not isinstance(hashes, np.ndarray):
        return _joined("hashes", hashes)
    if hashes.dtype != np.uint8 or hashes.shape[1] < 4:
        raise ParameterError(f"digests must be uint8[n, size] of at least 4 bytes, not {_kind(hashes)}")
    return np.ascontiguousarray(hashes)


def _joined(name: str, items: Sequence[Any]) -> npt.NDArray[np.uint8]:
    """A list of bytes of one length as uint8[n, size]."""
    size = len(items[0])
    if size == 0 or any(not isinstance(item, bytes) or len(item) != size for item in items):
        raise ParameterError(f"{name} must all be bytes of one length, as the first, of {size}")
    return np.frombuffer(b"".join(items), np.uint8).reshape(len(items), size)


def _weight_of(weight: Callable[[str], int], shingle: str) -> int:
    value = weight(shingle)
    if not _is_integer(value) or not -(1 << 63) <= value < 1 << 63:
        raise ParameterError(f"weight({shingle!r}) is {value!r}; it must be an integer of 64 bits: scale and round fractions")
    return int(value)


def _weights(weights: Any, count: int) -> npt.NDArray[np.int64]:
    array = np.asarray(weights)
    if array.shape != (count,) or (count and array.dtype.kind not in "iu"):
        raise ParameterError(f"weights must be {count} integers, one for each hash, not {array.dtype}{list(array.shape)}")
    if array.dtype == np.uint64 and count and array.max() >= 1 << 63:
        raise ParameterError(f"weights must be below 2^63, not {array.max()}")
    return np.ascontiguousarray(array, dtype=np.int64)


def _ascending(name: str, hashes: Any) -> npt.NDArray[np.uint64]:
    array = np.ascontiguousarray(_unsigned(name, hashes), dtype=np.uint64)
    if len(array) > 1 and not (array[1:] > array[:-1]).all():
        raise ParameterError(f"{name} must be in ascending order without repeats; use numpy.unique({name})")
    return array


def _joined_sets(name: str, fingerprints: Any) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """Ascending arrays one after another, and where each ends; all of them checked at once where all are arrays of uint64."""
    if isinstance(fingerprints, (str, bytes)) or not hasattr(fingerprints, "__iter__"):
        raise ParameterError(f"{name} must be a list of arrays, not {type(fingerprints).__name__}")
    if isinstance(fingerprints, np.ndarray) and fingerprints.ndim == 2 and fingerprints.dtype.kind == "u":
        rows = np.ascontiguousarray(fingerprints, dtype=np.uint64)
        sizes = np.full(len(rows), rows.shape[1], np.uint64)
        arrays: Sequence[Array] = list(rows)
        values = rows.reshape(-1)
    else:
        arrays = [np.empty(0, np.uint64) if one is None else one for one in fingerprints]
        if not all(isinstance(one, np.ndarray) and one.ndim == 1 and one.dtype == np.uint64 for one in arrays):
            arrays = [_ascending(f"{name}[{i}]", one) for i, one in enumerate(arrays)]
        sizes = np.fromiter(map(len, arrays), np.uint64, len(arrays))
        values = np.concatenate(arrays) if arrays else np.empty(0, np.uint64)
    ends = np.cumsum(sizes, dtype=np.uint64)
    falls = np.flatnonzero(values[1:] <= values[:-1]) + 1
    if len(falls) and not np.isin(falls, ends).all():
        for i, one in enumerate(arrays):
            _ascending(f"{name}[{i}]", one)
    return values, ends


def _code_data(name: str, code: Any) -> bytes:
    """The bytes of a code that says how long it is."""
    if isinstance(code, (bytes, bytearray)):
        return bytes(code)
    if isinstance(code, np.ndarray) and code.dtype == np.uint8 and code.ndim == 1:
        return code.tobytes()
    if isinstance(code, str):
        try:
            return bytes.fromhex(code[2:] if code[:2] in ("0x", "0X") else code)
        except ValueError as error:
            raise ParameterError(f"{name}={code!r} is not an even number of hex digits") from error
    raise ParameterError(f"{name} must be an int, bytes, hex digits or uint8[size], not {_kind(code)}")


def _int_data(name: str, code: Any, size: int) -> bytes:
    if not 0 <= code < 1 << 8 * size:
        raise ParameterError(f"{name}={code} is no code of {8 * size} bits like the other")
    return int(code).to_bytes(size, "big")


def _code_rows(name: str, codes: Any) -> npt.NDArray[np.uint8]:
    """Codes as uint8[n, size]."""
    if isinstance(codes, np.ndarray) and codes.ndim == 2:
        if codes.dtype != np.uint8 or not 1 <= codes.shape[1] <= 512:
            raise ParameterError(f"{name} must be uint64[n] or uint8[n, size] with size up to 512, not {_kind(codes)}")
        return codes
    if not isinstance(codes, np.ndarray) and _is_digests(codes):
        return _joined(name, codes)
    array = _unsigned(name, codes)
    if array.dtype != np.uint64:
        raise ParameterError(f"{name} must be uint64[n] or uint8[n, size], not {_kind(codes)}")
    return np.ascontiguousarray(array.astype(">u8")).view(np.uint8).reshape(len(array), 8)


def _bits_of(code: Any, bits: int | None) -> tuple[int, int]:
    """(the code as a number, its width)."""
    if isinstance(code, str):
        if not code or set(code) - set("01"):
            raise ParameterError(f"a code in a str is written with 0 and 1, not {code!r}")
        number, width = int(code, 2), len(code)
    elif _is_integer(code):
        if bits is None:
            raise ParameterError(f"say how many bits the code {code} has: bits=64")
        width = integer("bits", bits, 1, _BITS_MAX)
        if not 0 <= code < 1 << width:
            raise ParameterError(f"{code} is no code of {width} bits")
        return int(code), width
    else:
        data = _code_data("code", code)
        number, width = int.from_bytes(data, "big"), 8 * len(data)
    if bits is not None and bits != width:
        raise ParameterError(f"the code has {width} bits, not bits={bits}")
    if not width:
        raise ParameterError("the code is empty")
    return number, width


def _permuted(code: int, table: BlockTable) -> int:
    moved = 0
    for start, width, at in _moves(table):
        moved |= (code >> start & (1 << width) - 1) << at
    return moved


def _permuted_words(codes: Any, table: BlockTable) -> Any:
    if table.bits > 64:
        raise ParameterError(f"uint64 codes have at most 64 bits, the table {table.bits}; use uint8[n, {table.bits // 8}]")
    if table.bits < 64 and bool(np.any(codes >> np.uint64(table.bits))):
        raise ParameterError(f"a code is above 2^{table.bits} - 1, the largest of the table's")
    moved = codes ^ codes
    for start, width, at in _moves(table):
        moved |= (codes >> np.uint64(start) & np.uint64((1 << width) - 1)) << np.uint64(at)
    return moved


def _moves(table: BlockTable) -> list[tuple[int, int, int]]:
    """(first bit, width, first bit where it goes) of each block."""
    bounds, at, moves = plans.block_bounds(table.bits, table.blocks), table.bits, []
    for block in table.order:
        width = bounds[block + 1] - bounds[block]
        at -= width
        moves.append((bounds[block], width, at))
    return moves


def _kind(value: Any) -> str:
    return f"{value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else type(value).__name__
