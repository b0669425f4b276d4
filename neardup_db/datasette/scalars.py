"""The SQL functions that verify candidates, for connections that cannot load the extension: the same core, called through Python.

Each does what the function of this name in the extension does; what is wrong with an argument is an error of the statement there
and here.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from .. import native
from ..errors import CorruptIndexError
from ..schemes import MinHash

_SET_SCHEME = MinHash(exact=True).native
"""Its stored values are sets of hashes of any size."""

_WORD = (1 << 64) - 1


def _set(value: bytes) -> Any:
    """(pointer, count) of a stored set of hashes: ascending, distinct, 64 bits each."""
    if not isinstance(value, bytes) or (value and not native.is_value(_SET_SCHEME, value)):
        raise CorruptIndexError("a blob does not hold ascending distinct 64-bit hashes: run check(repair=True)")
    return native.ffi.from_buffer("uint64_t[]", value), len(value) // 8


def hamming(a: bytes | int | None, b: bytes | int | None) -> int | None:
    """Differing bits of two integers (64-bit patterns) or of two blobs of equal size."""
    if type(a) is bytes and type(b) is bytes and len(a) == len(b):
        return native.hamming(a, b)
    if a is None or b is None:
        return None
    if type(a) is int and type(b) is int:
        return ((a ^ b) & _WORD).bit_count()
    raise CorruptIndexError("two integers or two blobs of equal size are needed: run check(repair=True)")


def near(entries: bytes | None, code: bytes | None, max_distance: int | None) -> str | None:
    """The entries of a row of buckets within max_distance bits of a code, as JSON; None where there is none."""
    if entries is None or code is None or max_distance is None:
        return None
    found = native.near(entries, code, max_distance) if isinstance(entries, bytes) and isinstance(code, bytes) else None
    if found is None:
        raise CorruptIndexError("a row of buckets holds no entries of codes of this size: run check(repair=True)")
    return json.dumps(found) if found else None


def intact(value: bytes | None, value_hash: int | None) -> bool | None:
    """True where the hash is that of the value; anything else is an error."""
    if value is None or value_hash is None:
        return None
    if not isinstance(value, bytes) or native.signed_hash(value) != value_hash:
        raise CorruptIndexError("a fingerprint is not the one that its hash was made of: run check(repair=True)")
    return True


def slot_share(a: bytes | None, b: bytes | None, slot_bits: int) -> float | None:
    """Share of equal slots of two MinHash signatures of 16-bit or 32-bit slots."""
    if a is None or b is None:
        return None
    size = slot_bits // 8
    if not isinstance(a, bytes) or not isinstance(b, bytes) or len(a) != len(b) or not a or len(a) % size:
        raise CorruptIndexError("two signatures of equal size and whole slots are needed: run check(repair=True)")
    equal, kind = (native.lib.nd_equal_slots16, "uint16_t[]") if size == 2 else (native.lib.nd_equal_slots32, "uint32_t[]")
    count = len(a) // size
    return float(equal(native.ffi.from_buffer(kind, a), native.ffi.from_buffer(kind, b), count)) / count


def jaccard(a: bytes | None, b: bytes | None, threshold: float = 0.0) -> float | None:
    """Jaccard similarity of two sets of hashes; 0.0 as soon as it is certain to be below threshold."""
    return None if a is None or b is None else float(native.lib.nd_jaccard(*_set(a), *_set(b), threshold))


def jaccard_estimate(a: bytes | None, b: bytes | None, k: int) -> float | None:
    """Unbiased estimate of the sets' Jaccard similarity from their k smallest hashes each."""
    return None if a is None or b is None else float(native.lib.nd_jaccard_estimate(*_set(a), *_set(b), k))


def containment(a: bytes | None, b: bytes | None) -> float | None:
    """How much of one set of hashes is in the other."""
    return None if a is None or b is None else float(native.lib.nd_containment(*_set(a), *_set(b)))


def containment_estimate(a: bytes | None, b: bytes | None, k: int) -> float | None:
    """The same estimated from the k smallest hashes of each; NULL where nothing is known."""
    if a is None or b is None:
        return None
    share = float(native.lib.nd_containment_estimate(*_set(a), *_set(b), k))
    return share if share >= 0.0 else None


FUNCTIONS: tuple[tuple[str, int, Callable[..., Any]], ...] = (
    ("neardup_hamming", 2, hamming),
    ("neardup_near", 3, near),
    ("neardup_intact", 2, intact),
    ("neardup_slot_share", 3, slot_share),
    ("neardup_jaccard", 2, jaccard),
    ("neardup_jaccard", 3, jaccard),
    ("neardup_jaccard_estimate", 3, jaccard_estimate),
    ("neardup_containment", 2, containment),
    ("neardup_containment_estimate", 3, containment_estimate),
)
"""Name, number of arguments, function."""


def register(connection: Any) -> None:
    """Make the functions known to a connection of Python's sqlite3, or of a module like it."""
    for name, arguments, function in FUNCTIONS:
        connection.create_function(name, arguments, function, deterministic=True)
