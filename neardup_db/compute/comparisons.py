"""Comparison of two fingerprints, or of all pairs of many."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from .. import comparing, native
from ..arrays import np, npt
from ..errors import ParameterError
from ..parameters import check_fraction, check_integer
from ..schemes.codes import code_bytes
from .arguments import ascending, byte_rows, code_data, is_integer, joined_sets


def hamming_distance(a: Any, b: Any) -> int:
    """The number of differing bits. a, b: two int (at least 0), or two codes of equal length: uint8[n], bytes, hex digits.

    >>> hamming_distance(0b1011, 0b0010)
    2
    >>> hamming_distance(b"\\xff\\x00", b"\\x00\\x00")
    8
    """
    if is_integer(a) and is_integer(b):
        if a < 0 or b < 0:
            raise ParameterError(f"codes {a} and {b}: give integers of at least 0")
        return (int(a) ^ int(b)).bit_count()
    size = len(code_data("b", b) if is_integer(a) else code_data("a", a))
    return int(native.lib.nd_hamming(code_bytes(a, 8 * size, "a"), code_bytes(b, 8 * size, "b"), size))


def jaccard(a: Any, b: Any, threshold: float = 0.0) -> float:
    """|A and B| / |A or B| of two ascending arrays of distinct hashes; 0.0 if that is below the threshold.

    a, b: uint64[n], uint32[n] or lists of int; two empty sets give 0.0. The merge stops once the threshold is out of reach. The
    test is `common / (len(a) + len(b) - common) >= threshold` itself, so a pair exactly at the threshold is kept.

    >>> jaccard([1, 2, 3, 4], [2, 3, 4, 5])
    0.6
    >>> jaccard([1, 2, 3, 4], [2, 3, 4, 5], threshold=0.7)
    0.0
    """
    bound = 0.0 if threshold == 0 else check_fraction("threshold", threshold)
    left, right = ascending("a", a), ascending("b", b)
    if not len(left) or not len(right):
        return 0.0
    data_a, data_b = native.pointer(left, "uint64_t[]"), native.pointer(right, "uint64_t[]")
    similarity = float(native.lib.nd_jaccard(data_a, len(left), data_b, len(right), bound))
    return similarity if similarity >= bound else 0.0


def containment(a: Any, b: Any, k: int | None = None) -> float:
    """|A and B| / |A|, the share of A that is in B: 1.0 if A is a subset of B, 0.0 if A is empty.

    a, b: ascending arrays of distinct hashes, uint64[n], uint32[n] or lists of int. k=None: whole sets, with an exact result.
    k: bottom-k fingerprints, `bottom_k(hashes, k)`. The result is estimated from the m hashes of A that both fingerprints cover
    (up to the smaller of the two largest), with a standard deviation of about sqrt(c (1 - c) / m), and nan if m = 0. If A is the
    smaller set, m is about k |A| / |B|, so fingerprints tell little about much smaller sets.
    `Index.query(text, measure="containment")` searches an index by this measure.

    >>> containment([1, 2, 3, 4], [2, 3, 4, 5, 6, 7])
    0.75
    >>> containment([1, 4, 8], [1, 2, 4], k=3)
    1.0
    """
    left, right = ascending("a", a), ascending("b", b)
    data_a = native.pointer(left if len(left) else np.zeros(1, np.uint64), "uint64_t[]")
    data_b = native.pointer(right if len(right) else np.zeros(1, np.uint64), "uint64_t[]")
    if k is None:
        return float(native.lib.nd_containment(data_a, len(left), data_b, len(right)))
    k = check_integer("k", k, 1, (1 << 31) - 1, "hashes in a fingerprint")
    for name, array in (("a", left), ("b", right)):
        if len(array) > k:
            raise ParameterError(f"{name} has {len(array)} hashes, more than k={k}; leave k out for whole sets")
    estimate = float(native.lib.nd_containment_estimate(data_a, len(left), data_b, len(right), k))
    return estimate if estimate >= 0 else math.nan


def jaccard_pairs(
    fingerprints: Any, threshold: float, *, others: Any = None
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """All pairs of fingerprints with a Jaccard similarity at or above the threshold: int64[m, 2], i < j ascending; float64[m].

    fingerprints: a list of ascending arrays of distinct hashes (None for an empty one), or a 2-D array. others: the same; if
    given, each pair has one item of both, (fingerprints[i], others[j]).

    >>> ids, similarities = jaccard_pairs([[1, 2, 3], [7, 8], [1, 2, 4]], 0.5)
    >>> ids.tolist(), similarities.tolist()
    ([[0, 2]], [0.5])
    >>> jaccard_pairs([[1, 2, 3], [1, 2]], 0.5, others=[[7, 8], [1, 2, 4]])[0].tolist()
    [[0, 1], [1, 1]]
    """
    none = np.empty((0, 2), np.int64), np.empty(0, np.float64)
    return next(jaccard_pieces(fingerprints, threshold, others=others), none)


def jaccard_pieces(
    fingerprints: Any, threshold: float, most: int = 2**64 - 1, *, others: Any = None
) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]]:
    """The result of `jaccard_pairs` in sorted pieces of about `most` pairs, so that memory stays bounded."""
    bound = check_fraction("threshold", threshold)
    values, ends = joined_sets("fingerprints", fingerprints)
    split = None if others is None else len(ends)
    if others is not None:
        more, more_ends = joined_sets("others", others)
        values, ends = np.concatenate([values, more]), np.concatenate([ends, more_ends + np.uint64(len(values))])
    yield from comparing.set_pairs(values, ends, split, bound, most)


def find_all(codes: Any, max_distance: int, blocks: int | None = None, *, others: Any = None) -> npt.NDArray[np.int64]:
    """All pairs of codes that differ in at most max_distance bits: int64[m, 2], i < j ascending, each pair once.

    codes: uint64[n], uint8[n, size], or a list of int (64 bits) or bytes. blocks: above max_distance, as simhash-py has it; the
    function chooses its tables itself. others: codes of the same size; if given, each pair has one item of both,
    (codes[i], others[j]).

    >>> find_all([0b0000, 0b0111, 0b0001], 2).tolist()
    [[0, 2], [1, 2]]
    >>> find_all([0b0000, 0b0111, 0b0001], 2, others=[0b1111]).tolist()
    [[1, 0]]
    """
    kinds, sizes = ("uint64",), range(1, 513)
    rows = byte_rows("codes", codes, kinds, sizes)
    split, bits = None, 8 * rows.shape[1]
    if others is not None:
        more = byte_rows("others", others, kinds, sizes)
        if more.shape[1] != rows.shape[1]:
            raise ParameterError(f"codes have {bits} bits and others {8 * more.shape[1]}: pairs are of codes of one size")
        split, rows = len(rows), np.concatenate([rows, more])
    distance = check_integer("max_distance", max_distance, 0, bits, f"of {bits} bits")
    if blocks is not None:
        check_integer("blocks", blocks, distance + 1, min(bits, 64), f"above max_distance={distance}")
    flat = np.ascontiguousarray(rows).reshape(-1) if len(rows) else np.zeros(1, np.uint8)
    return comparing.code_pairs(flat, len(rows), split, bits, distance)
