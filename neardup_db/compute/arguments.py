"""Checks of hashes, codes and weights from callers, and their conversion to arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..arrays import Array, np, npt
from ..errors import ParameterError
from ..parameters import check_integer, quoted
from ..schemes.codes import hex_bytes

BITS_MAX = 1 << 16


def is_integer(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def unsigned(name: str, values: Any) -> Array:
    """Values as a one-dimensional array of unsigned integers; a list becomes uint64."""
    if isinstance(values, np.ndarray):
        if values.ndim != 1 or values.dtype.kind != "u":
            raise ParameterError(f"{name} is {kind_of(values)}: give a one-dimensional array of uint64 or uint32")
        return values
    if isinstance(values, (str, bytes)) or not hasattr(values, "__iter__"):
        raise ParameterError(f"{name}={quoted(values)}: give an array or a list of int")
    listed = list(values)
    for value in listed:
        if not is_integer(value) or not 0 <= value < 1 << 64:
            raise ParameterError(f"{name} has {quoted(value)}: give integers from 0 to 2^64 - 1")
    return np.array(listed, dtype=np.uint64)


def hashes_of(hashes: Any) -> npt.NDArray[np.uint64]:
    """Hashes as contiguous uint64[n]; longer digests are cut to 8 bytes."""
    if is_digests(hashes):
        first = byte_rows("hashes", hashes)[:, :8]
        padded = np.zeros((len(first), 8), np.uint8)
        padded[:, 8 - first.shape[1] :] = first
        return padded.reshape(-1).view(">u8").astype(np.uint64)
    return np.ascontiguousarray(unsigned("hashes", hashes), dtype=np.uint64)


def is_digests(hashes: Any) -> bool:
    if isinstance(hashes, np.ndarray):
        return hashes.ndim == 2
    return isinstance(hashes, Sequence) and len(hashes) > 0 and isinstance(hashes[0], bytes)


def byte_rows(
    name: str, values: Any, kinds: Sequence[str] = ("uint64", "uint32"), sizes: range = range(4, 1 << 16)
) -> npt.NDArray[np.uint8]:
    """Hashes or codes as contiguous uint8[n, size], big-endian."""
    rows = values if is_digests(values) else unsigned(name, values)
    if not isinstance(rows, np.ndarray):
        return joined(name, rows)
    if rows.dtype.name not in (kinds if rows.ndim == 1 else ("uint8",)) or (rows.ndim == 2 and rows.shape[1] not in sizes):
        remedy = f"give {' or '.join(kinds)} [n], or uint8[n, size] of {sizes[0]} to {sizes[-1]} bytes"
        raise ParameterError(f"{name} is {kind_of(values)}: {remedy}")
    size = rows.dtype.itemsize
    return np.ascontiguousarray(rows if rows.ndim == 2 else rows.astype(f">u{size}").view(np.uint8).reshape(len(rows), size))


def joined(name: str, items: Sequence[Any]) -> npt.NDArray[np.uint8]:
    """A list of bytes of equal length as uint8[n, size]."""
    size = len(items[0])
    if size == 0 or any(not isinstance(item, bytes) or len(item) != size for item in items):
        raise ParameterError(f"{name} must all be bytes of one length, as the first, of {size}")
    return np.frombuffer(b"".join(items), np.uint8).reshape(len(items), size)


def weights_of(weights: Any, count: int) -> npt.NDArray[np.int64]:
    array = np.asarray(weights)
    if array.shape != (count,) or (count and array.dtype.kind not in "iu"):
        raise ParameterError(f"weights are {array.dtype}{list(array.shape)}: give {count} integers, one for each hash")
    if array.dtype == np.uint64 and count and array.max() >= 1 << 63:
        raise ParameterError(f"weights are up to {array.max()}: give integers below 2^63")
    return np.ascontiguousarray(array, dtype=np.int64)


def ascending(name: str, hashes: Any) -> npt.NDArray[np.uint64]:
    array = np.ascontiguousarray(unsigned(name, hashes), dtype=np.uint64)
    if len(array) > 1 and not (array[1:] > array[:-1]).all():
        raise ParameterError(f"{name} is not in ascending order without repeats: give numpy.unique({name})")
    return array


def joined_sets(name: str, fingerprints: Any) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """Ascending arrays, concatenated, with the end of each. Arrays that are all uint64 are checked at once."""
    if isinstance(fingerprints, (str, bytes)) or not hasattr(fingerprints, "__iter__"):
        raise ParameterError(f"{name}={quoted(fingerprints)}: give a list of arrays")
    arrays: Any
    if isinstance(fingerprints, np.ndarray) and fingerprints.ndim == 2 and fingerprints.dtype.kind == "u":
        arrays = np.ascontiguousarray(fingerprints, np.uint64)
        ends, values = np.cumsum(np.full(len(arrays), arrays.shape[1], np.uint64)), arrays.reshape(-1)
    else:
        arrays = [np.empty(0, np.uint64) if item is None else item for item in fingerprints]
        if not all(isinstance(array, np.ndarray) and array.ndim == 1 and array.dtype == np.uint64 for array in arrays):
            arrays = [ascending(f"{name}[{i}]", array) for i, array in enumerate(arrays)]
        ends = np.cumsum(np.fromiter(map(len, arrays), np.uint64, len(arrays)), dtype=np.uint64)
        values = np.concatenate([np.empty(0, np.uint64), *arrays])
    falls = np.flatnonzero(values[1:] <= values[:-1]) + 1
    if len(falls) and not np.isin(falls, ends).all():
        for i, array in enumerate(arrays):
            ascending(f"{name}[{i}]", array)
    return values, ends


def code_data(name: str, code: Any) -> bytes:
    if isinstance(code, (bytes, bytearray)):
        return bytes(code)
    if isinstance(code, np.ndarray) and code.dtype == np.uint8 and code.ndim == 1:
        return code.tobytes()
    if isinstance(code, str):
        return hex_bytes(code, name)
    raise ParameterError(f"{name} is {kind_of(code)}: give an int, bytes, hex digits or uint8[size]")


def bits_of(code: Any, bits: int | None) -> tuple[int, int]:
    if isinstance(code, str):
        if not code or set(code) - set("01"):
            raise ParameterError(f"a code in a str is written with 0 and 1, not {code!r}")
        number, width = int(code, 2), len(code)
    elif is_integer(code):
        if bits is None:
            raise ParameterError(f"say how many bits the code {code} has: bits=64")
        width = check_integer("bits", bits, 1, BITS_MAX)
        if not 0 <= code < 1 << width:
            raise ParameterError(f"{code} is no code of {width} bits")
        return int(code), width
    else:
        data = code_data("code", code)
        number, width = int.from_bytes(data, "big"), 8 * len(data)
    if bits is not None and bits != width:
        raise ParameterError(f"the code has {width} bits, not bits={bits}")
    if not width:
        raise ParameterError("the code is empty")
    return number, width


def kind_of(value: Any) -> str:
    return f"{value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else type(value).__name__
