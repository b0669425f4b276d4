"""Reads texts and columns through Arrow's C data interface: from pyarrow, pandas, polars and DuckDB.

A producer exports a stream of chunks, each a tree of buffers (`csrc/neardup_arrow.h`). Texts are not copied: this module returns
their addresses.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

from . import limits
from ._texts import pointer
from .arrays import Array, np
from .errors import NearDupError, ParameterError
from .located import LocatedTexts
from .native import ffi
from .parameters import quoted

STREAM, ARRAY = "__arrow_c_stream__", "__arrow_c_array__"
ON_DEVICES = "__arrow_c_device_stream__", "__arrow_c_device_array__"


class ArrowStream(Protocol):
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


class ArrowArray(Protocol):
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...


def is_arrow(data: Any) -> bool:
    """Whether this module can read `data`. Raises ParameterError if the data is in device memory only."""
    if hasattr(data, STREAM) or hasattr(data, ARRAY):
        return True
    if any(hasattr(data, method) for method in ON_DEVICES):
        raise ParameterError(f"{quoted(data)} exports its data in device memory only: copy it to main memory first")
    return False


def texts_of(name: str, data: Any, column: str | None, remedy: str) -> LocatedTexts:
    """The texts of an array of strings, or of a table column. name: the argument; remedy: how to name a column.

    Raises ParameterError for a null, a missing column or a column without strings.
    """
    texts, nulls = texts_and_nulls(name, data, column, remedy)
    if nulls.any():
        raise ParameterError(f"{name}: row {int(np.argmax(nulls))} is null: fill the nulls, or leave such rows out")
    return texts


def texts_and_nulls(name: str, data: Any, column: str | None, remedy: str) -> tuple[LocatedTexts, Array]:
    """`texts_of` with an empty text for each null, and the null mask, bool[n]."""
    texts = LocatedTexts(np.empty(0, np.uintp), np.empty(0, np.uintp))
    missing: list[tuple[int, Array]] = []
    before = 0
    with Source(name, data) as source:
        if source.is_table and column is None:
            raise ParameterError(f"{name} is a table with the columns {source.column_names}: {remedy}")
        number = source.number("text", column, is_string, TEXTS)
        for chunk in source.chunks():
            strings = chunk[number]
            for start in range(0, len(strings), limits.SLICE_TEXTS):  # slices that fit the processor's cache
                located, absent = strings.texts(start, min(limits.SLICE_TEXTS, len(strings) - start))
                if absent is not None:
                    missing.append((before, absent))
                texts += located
                before += len(located)
    nulls = np.zeros(before, np.bool_)
    for first, absent in missing:
        nulls[first : first + len(absent)] = absent
    return texts, nulls


# ---- types -----------------------------------------------------------------------------------------------------------

_STRINGS = ("u", "U", "vu")
_BINARY = ("z", "Z", "vz")
_OFFSETS = {"u": "i4", "z": "i4", "+l": "i4", "U": "i8", "Z": "i8", "+L": "i8"}
_INTEGERS = {"c": "i1", "C": "u1", "s": "i2", "S": "u2", "i": "i4", "I": "u4", "l": "i8", "L": "u8"}
_NUMBERS = {**_INTEGERS, "e": "f2", "f": "f4", "g": "f8"}
_NAMES = {
    "n": "null", "b": "bool", "c": "int8", "C": "uint8", "s": "int16", "S": "uint16", "i": "int32", "I": "uint32", "l": "int64",
    "L": "uint64", "e": "float16", "f": "float32", "g": "float64", "z": "binary", "Z": "large_binary", "vz": "binary_view",
    "u": "string", "U": "large_string", "vu": "string_view", "d": "decimal", "w": "fixed_size_binary", "td": "date", "tt": "time",
    "ts": "timestamp", "tD": "duration", "ti": "interval", "+l": "list", "+L": "large_list", "+w": "fixed_size_list",
    "+v": "list_view", "+s": "struct", "+m": "map", "+u": "union", "+r": "run_end_encoded",
}  # fmt: skip
_INLINE = 12
"""The longest string that a string view holds inline, in bytes."""

TEXTS = "strings, or cast it to them"
KEYS = "strings, integers or binary, or cast it"
METADATA = "JSON values: strings, numbers, booleans, and lists and structs of them; cast it, e.g. times to strings"
"""The accepted column types, for messages."""


class Type(NamedTuple):
    """A column type. values: the value type of a dictionary, whose `format` is the index type."""

    name: str
    format: str
    children: tuple[Type, ...]
    values: Type | None

    def __str__(self) -> str:
        if self.values is not None:
            return f"dictionary of {self.values}"
        names = (_NAMES[self.format[:size]] for size in (2, 1) if self.format[:size] in _NAMES)
        return next(names, f"Arrow format {self.format!r}")


def is_string(kind: Type) -> bool:
    return kind.format in (*_STRINGS, "n") if kind.values is None else is_string(kind.values)


def is_key(kind: Type) -> bool:
    return kind.format in (*_STRINGS, *_BINARY, *_INTEGERS, "n") if kind.values is None else is_key(kind.values)


def is_json(kind: Type) -> bool:
    if kind.values is not None:
        return is_json(kind.values)
    if kind.format in ("+l", "+L", "+s") or kind.format.startswith("+w:"):
        return all(map(is_json, kind.children))
    return kind.format in (*_STRINGS, *_NUMBERS, "b", "n")


def _type(schema: Any) -> Type:
    name = "" if schema.name == ffi.NULL else ffi.string(schema.name).decode("utf-8", "replace")
    children = tuple(_type(schema.children[i]) for i in range(schema.n_children))
    values = None if schema.dictionary == ffi.NULL else _type(schema.dictionary)
    return Type(name, ffi.string(schema.format).decode("ascii", "replace"), children, values)


# ---- producers ---------------------------------------------------------------------------------------------------------


def _new(c_type: str) -> Any:
    """An empty struct for the producer to fill; garbage collection releases it."""
    return ffi.gc(ffi.new(c_type), _release)


def _release(struct: Any) -> None:
    if struct.release != ffi.NULL:
        struct.release(struct)


def _capsules(name: str, data: Any, method: str) -> Any:
    try:
        return getattr(data, method)()
    except (TypeError, ValueError, NotImplementedError) as error:  # pandas converts its columns in this call
        why = f"{name} cannot be exported to Arrow ({quoted(str(error))})"
        remedy = "give the columns that are needed alone, each of one type, e.g. df[['id', 'body']].reset_index(drop=True)"
        raise ParameterError(f"{why}: {remedy}") from error
    except ImportError as error:  # pandas converts its columns with pyarrow
        kind = f"{type(data).__module__.partition('.')[0]}.{type(data).__name__}"
        remedy = "pip install 'neardup-db[arrow]', or give Python's values, e.g. zip(df['id'], df['body']) or list(df['body'])"
        raise ParameterError(f"{name} is a {kind}, which needs pyarrow to export its data: {remedy}") from error


def _move_from_capsule(name: str, capsule: Any, kind: str) -> Any:
    """Move the struct out of a capsule, which is left marked as released."""
    given = ffi.cast(f"nd_{kind} *", pointer(capsule, kind))
    if given.release == ffi.NULL:
        raise ParameterError(f"{name} was read already: give the data, or a new stream of it")
    mine = _new(f"nd_{kind} *")
    mine[0] = given[0]
    given.release = ffi.NULL
    return mine


class Source:
    """The chunks of Arrow data. On exit from the context manager, the producer's data is released.

    types: the column types; for an array, one type without a name.
    """

    def __init__(self, name: str, data: Any) -> None:
        self._name = name
        self._stream = self._array = None
        if hasattr(data, STREAM):
            self._stream = _move_from_capsule(name, _capsules(name, data, STREAM), "arrow_array_stream")
            schema = _new("nd_arrow_schema *")
            self._check(self._stream.get_schema(self._stream, schema))
        else:
            kinds = "arrow_schema", "arrow_array"
            schema, self._array = map(_move_from_capsule, (name, name), _capsules(name, data, ARRAY), kinds)
        whole = _type(schema)
        self.is_table = whole.format == "+s"
        self.types = whole.children if self.is_table else (whole._replace(name=""),)

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *error: Any) -> None:
        if self._stream is not None:
            _release(self._stream)
        self._array = None

    @property
    def column_names(self) -> str:
        return ", ".join(repr(one.name) for one in self.types) or "(none)"

    def number(self, role: str, column: Any, holds: Callable[[Type], bool], kinds: str) -> int:
        """The position of the column that the argument `role` names; for an array, `column` must be None. Raises ParameterError
        if `holds` is false for the column type; `kinds` lists the accepted types."""
        if not self.is_table:
            if column is not None:
                what = f"{self._name} is an array of {self.types[0]}, not a table"
                raise ParameterError(f"{role}={quoted(column)}: {what}: leave {role}= out")
            number = 0
        else:
            names = [one.name for one in self.types]
            if names.count(column) != 1:
                problem = "are several columns" if column in names else "is no column"
                raise ParameterError(f"{role}={quoted(column)} {problem} of {self._name}, which has {self.column_names}")
            number = names.index(column)
        if not holds(self.types[number]):
            called, what = (f"{role}={column!r}", "a column") if self.is_table else (self._name, "an array")
            raise ParameterError(f"{called} is {what} of {self.types[number]}: give one of {kinds}")
        return number

    def chunks(self) -> Iterator[list[Column]]:
        """The columns of each chunk. Raises NearDupError with the producer's message if it fails."""
        if self._stream is None:
            array, self._array = self._array, None
            yield self._columns(array)
            return
        while True:
            array = _new("nd_arrow_array *")
            self._check(self._stream.get_next(self._stream, array))
            if array.release == ffi.NULL:
                return
            yield self._columns(array)

    def _columns(self, array: Any) -> list[Column]:
        if not self.is_table:
            return [Column(self.types[0], array, 0, array.length, None, array)]
        if array.n_children != len(self.types):
            raise NearDupError(f"{self._name}: the producer's chunk has {array.n_children} columns, its type {len(self.types)}")
        nulls = _nulls("+s", array, array.offset, array.length)
        columns = zip(self.types, (array.children[i] for i in range(array.n_children)), strict=True)
        return [Column(kind, child, array.offset, array.length, nulls, array) for kind, child in columns]

    def _check(self, status: int) -> None:
        if status == 0:
            return
        said = ffi.NULL if self._stream is None else self._stream.get_last_error(self._stream)
        message = os.strerror(status) if said == ffi.NULL else ffi.string(said).decode("utf-8", "replace")
        raise NearDupError(f"{self._name}: its producer failed: {message}")


# ---- columns of a chunk ------------------------------------------------------------------------------------------------


def _buffer(array: Any, number: int, dtype: Any, start: int, count: int) -> Array:
    kind = np.dtype(dtype)
    if not count:
        return np.empty(0, kind)
    if number >= array.n_buffers or array.buffers[number] == ffi.NULL:
        raise NearDupError(f"the producer's array of {count} rows lacks its buffer {number}")
    data = ffi.cast("char *", array.buffers[number]) + start * kind.itemsize
    return np.frombuffer(ffi.buffer(data, count * kind.itemsize), kind)


def _address(array: Any, number: int) -> int:
    return int(ffi.cast("uintptr_t", array.buffers[number]))


def _bits(array: Any, number: int, start: int, count: int) -> Array:
    first = start // 8
    packed = _buffer(array, number, np.uint8, first, (start + count + 7) // 8 - first if count else 0)
    return np.unpackbits(packed, bitorder="little")[start % 8 : start % 8 + count].view(np.bool_)


def _nulls(layout: str, array: Any, start: int, count: int) -> Array | None:
    """The null mask, bool[count]; None if the producer reports no nulls."""
    if layout == "n":
        return np.ones(count, np.bool_)
    if array.null_count == 0 or not array.n_buffers or array.buffers[0] == ffi.NULL:
        return None
    return ~_bits(array, 0, start, count)


def _any_null(a: Array | None, b: Array | None) -> Array | None:
    return b if a is None else a if b is None else a | b


class Column:
    """`length` rows of an array from `first` on, relative to the array's offset. above: null rows of the table."""

    def __init__(self, kind: Type, array: Any, first: int, length: int, above: Array | None, owner: Any) -> None:
        if array.length < first + length:
            raise NearDupError(f"the producer's column {kind.name!r} has {array.length} rows, its table {first + length}")
        self.kind, self._array, self._first, self._length, self._above, self._owner = kind, array, first, length, above, owner
        values = kind.values
        self._dictionary = None if values is None else Column(values, array.dictionary, 0, array.dictionary.length, None, owner)
        self._listed: list[Any] | None = None
        self._located: tuple[Array, Array, Array | None] | None = None
        """Cached dictionary values as Python objects, and as addresses. Both end with a null."""

    def __len__(self) -> int:
        return self._length

    def texts(self, start: int, count: int) -> tuple[LocatedTexts, Array | None]:
        """The strings or binary values without copies, and their null mask (bool[count], or None). Nulls are empty."""
        addresses, sizes, nulls = self._strings(start, count)
        return LocatedTexts(addresses, sizes, (self._owner,)), nulls

    def values(self, start: int, count: int) -> list[Any]:
        """Rows as Python values: str, bytes, int, float, bool, list, dict, None for null. Invalid UTF-8 stays bytes."""
        kind, nulls = self.kind, self._nulls(start, count)
        at = self._array.offset + self._first + start
        made: list[Any]
        if self._dictionary is not None:
            if self._listed is None:
                self._listed = [*self._dictionary.values(0, len(self._dictionary)), None]
            made = [self._listed[i] for i in self._indices(start, count, nulls).tolist()]
        elif kind.format in (*_STRINGS, *_BINARY):
            made = self.texts(start, count)[0].to_list(as_bytes=kind.format in _BINARY)
        elif kind.format in _NUMBERS:
            made = _buffer(self._array, 1, _NUMBERS[kind.format], at, count).tolist()
        elif kind.format == "b":
            made = _bits(self._array, 1, at, count).tolist()
        elif kind.format == "n":
            made = [None] * count
        else:
            made = self._nested(at, count)
        return made if nulls is None else [None if null else one for one, null in zip(made, nulls.tolist(), strict=True)]

    def _nested(self, at: int, count: int) -> list[Any]:
        """Structs as dictionaries, lists as lists. at: includes the array's offset."""
        kind, array = self.kind, self._array
        if kind.format == "+s":
            if not kind.children:  # zip() of no columns yields no rows
                return [{} for _ in range(count)]
            columns = [Column(one, array.children[i], at, count, None, self._owner) for i, one in enumerate(kind.children)]
            rows = zip(*(column.values(0, count) for column in columns), strict=True)
            return [dict(zip((one.name for one in kind.children), row, strict=True)) for row in rows]
        if kind.format in _OFFSETS:
            ends = _buffer(array, 1, _OFFSETS[kind.format], at, count + 1 if count else 0).tolist() or [0]
        else:
            size = int(kind.format.removeprefix("+w:"))
            ends = list(range(at * size, (at + count) * size + 1, size)) if size else [0] * (count + 1)
        first, length = ends[0], ends[-1] - ends[0]
        items = Column(kind.children[0], array.children[0], first, length, None, self._owner).values(0, length)
        return [items[a - first : b - first] for a, b in zip(ends, ends[1:], strict=False)]

    def _nulls(self, start: int, count: int) -> Array | None:
        own = _nulls(self.kind.format, self._array, self._array.offset + self._first + start, count)
        return _any_null(own, None if self._above is None else self._above[start : start + count])

    def _indices(self, start: int, count: int, nulls: Array | None) -> Array:
        """The dictionary indices; a null row has the index after the last value."""
        at, beyond = self._array.offset + self._first + start, self._array.dictionary.length
        indices = _buffer(self._array, 1, _INTEGERS[self.kind.format], at, count).astype(np.int64)
        used = indices if nulls is None else indices[~nulls]
        if len(used) and (used.min() < 0 or used.max() >= beyond):
            raise NearDupError(f"the producer's column {self.kind.name!r} has indices outside of its dictionary")
        if nulls is not None:
            indices[nulls] = beyond
        return indices

    def _strings(self, start: int, count: int) -> tuple[Array, Array, Array | None]:
        """Addresses and sizes, uintp[count], and the null mask."""
        nulls = self._nulls(start, count)
        if self._dictionary is not None:
            if self._located is None:
                self._located = self._dictionary._with_null()
            places = self._indices(start, count, nulls)
            addresses, sizes, absent = self._located
            return addresses.take(places), sizes.take(places), nulls if absent is None else absent.take(places)
        if self.kind.format == "n":
            return np.zeros(count, np.uintp), np.zeros(count, np.uintp), nulls
        at = self._array.offset + self._first + start
        locate = _view_strings if self.kind.format.startswith("v") else _offset_strings
        addresses, sizes = locate(self._array, self.kind, at, count, nulls)
        if nulls is not None:
            sizes[nulls] = 0
        return addresses, sizes, nulls

    def _with_null(self) -> tuple[Array, Array, Array | None]:
        """All strings followed by a null, and their null mask; None if there are no other nulls."""
        addresses, sizes, nulls = self._strings(0, self._length)
        nothing = np.zeros(1, np.uintp)
        return np.append(addresses, nothing), np.append(sizes, nothing), None if nulls is None else np.append(nulls, True)


def _offset_strings(array: Any, kind: Type, at: int, count: int, nulls: Array | None) -> tuple[Array, Array]:
    if not count:
        return np.empty(0, np.uintp), np.empty(0, np.uintp)
    offsets = _buffer(array, 1, _OFFSETS[kind.format], at, count + 1).astype(np.int64, copy=False)
    sizes = offsets[1:] - offsets[:-1]
    if offsets[0] < 0 or sizes.min() < 0:
        raise NearDupError(f"the producer's column {kind.name!r} has strings that end before they begin")
    base = _address(array, 2)
    if not base:
        if sizes.any():
            raise NearDupError(f"the producer's column {kind.name!r} lacks the bytes of its strings")
        base = _address(array, 1)  # all strings are empty, so any valid address will do
    return offsets[:-1].view(np.uintp) + np.uintp(base), sizes.view(np.uintp)


def _view_strings(array: Any, kind: Type, at: int, count: int, nulls: Array | None) -> tuple[Array, Array]:
    """The strings of a layout with 16-byte views. A short string is inline, after its size; otherwise the view gives buffer and
    offset."""
    if not count:
        return np.empty(0, np.uintp), np.empty(0, np.uintp)
    views = _buffer(array, 1, np.int32, 4 * at, 4 * count).reshape(count, 4)  # size, prefix, buffer, offset
    sizes = views[:, 0].astype(np.int64)
    if nulls is not None:
        sizes[nulls] = 0
    least = sizes.min()
    if least < 0:
        raise NearDupError(f"the producer's column {kind.name!r} has strings of a negative size")
    if least > _INLINE:
        return _outlying_strings(array, kind, views, sizes), sizes.view(np.uintp)
    first = _address(array, 1) + 16 * at + 4
    addresses = np.arange(first, first + 16 * count, 16, dtype=np.uintp)
    long = np.flatnonzero(sizes > _INLINE)
    if len(long):
        addresses[long] = _outlying_strings(array, kind, views[long], sizes[long])
    return addresses, sizes.view(np.uintp)


def _outlying_strings(array: Any, kind: Type, views: Array, sizes: Array) -> Array:
    spaces = array.n_buffers - 3
    lengths = _buffer(array, array.n_buffers - 1, np.int64, 0, spaces)
    which, offsets = views[:, 2].astype(np.intp), views[:, 3].astype(np.int64)
    wrong = which.view(np.uintp).max() >= spaces or offsets.min() < 0  # unsigned, so that a negative index fails too
    if wrong or (offsets + sizes > (lengths[0] if spaces == 1 else lengths[which])).any():
        raise NearDupError(f"the producer's column {kind.name!r} has strings outside of its buffers")
    begins = np.array([_address(array, 2 + i) for i in range(spaces)], np.uintp)
    return offsets.view(np.uintp) + (begins[0] if spaces == 1 else begins[which])
