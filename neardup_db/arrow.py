"""Reads texts and columns of Arrow data through pyarrow: tables and arrays of pyarrow, pandas, polars and DuckDB.

Texts are not copied: this module returns their addresses in the producer's buffers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

from . import limits
from .arrays import Array, later, np
from .errors import NearDupError, ParameterError
from .located import LocatedTexts
from .parameters import quoted

STREAM, ARRAY = "__arrow_c_stream__", "__arrow_c_array__"
ON_DEVICES = "__arrow_c_device_stream__", "__arrow_c_device_array__"

types = later("pyarrow.types")

TEXTS = "strings, or cast it to them"
KEYS = "strings, integers or binary, or cast it"
METADATA = "JSON values: strings, numbers, booleans, and lists and structs of them; cast it, e.g. times to strings"
"""The accepted column types, for messages."""

_INLINE = 12  # the longest string that a string view holds inline, in bytes


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
    """The texts of an array of strings, or of a table column; a null is a ParameterError. name: the argument; remedy: how to
    name a column."""
    texts, nulls = texts_and_nulls(name, data, column, remedy)
    if nulls.any():
        raise ParameterError(f"{name}: row {int(np.argmax(nulls))} is null: fill the nulls, or leave such rows out")
    return texts


def texts_and_nulls(name: str, data: Any, column: str | None, remedy: str) -> tuple[LocatedTexts, Array]:
    """`texts_of` with an empty text for each null, and the null mask, bool[n]."""
    texts: list[LocatedTexts] = []
    nulls: list[Array] = []
    with Source(name, data) as source:
        if source.is_table and column is None:
            raise ParameterError(f"{name} is a table with the columns {source.column_names}: {remedy}")
        number = source.number("text", column, is_string, TEXTS)
        for chunk in source.chunks():
            strings = chunk[number]
            for start in range(0, len(strings), limits.SLICE_TEXTS):  # slices that fit the processor's cache
                located, absent = strings.texts(start, min(limits.SLICE_TEXTS, len(strings) - start))
                texts.append(located)
                nulls.append(np.zeros(len(located), np.bool_) if absent is None else absent)
    return LocatedTexts.joined(texts), np.concatenate([np.empty(0, np.bool_), *nulls])


# ---- types -----------------------------------------------------------------------------------------------------------


def is_string(kind: Any) -> bool:
    if types.is_dictionary(kind):
        return is_string(kind.value_type)
    return any(test(kind) for test in (types.is_string, types.is_large_string, types.is_string_view, types.is_null))


def _is_binary(kind: Any) -> bool:
    return any(test(kind) for test in (types.is_binary, types.is_large_binary, types.is_binary_view))


def is_key(kind: Any) -> bool:
    if types.is_dictionary(kind):
        return is_key(kind.value_type)
    return is_string(kind) or types.is_integer(kind) or _is_binary(kind)


def is_json(kind: Any) -> bool:
    if types.is_struct(kind):
        return all(is_json(kind.field(number).type) for number in range(kind.num_fields))
    if any(test(kind) for test in (types.is_dictionary, types.is_list, types.is_large_list, types.is_fixed_size_list)):
        return is_json(kind.value_type)
    return is_string(kind) or types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)


# ---- producers ---------------------------------------------------------------------------------------------------------


class _Exported:
    """The capsules of a producer, made once."""

    def __init__(self, name: str, data: Any) -> None:
        method = STREAM if hasattr(data, STREAM) else ARRAY
        try:
            made = getattr(data, method)()
        except (TypeError, ValueError, NotImplementedError) as error:  # pandas converts its columns in this call
            why = f"{name} cannot be exported to Arrow ({quoted(str(error))})"
            remedy = "give the columns that are needed alone, each of one type, e.g. df[['id', 'body']].reset_index(drop=True)"
            raise ParameterError(f"{why}: {remedy}") from error
        setattr(self, method, lambda requested_schema=None: made)


class Source:
    """The chunks of Arrow data, which the context manager releases. types: the column types; for an array, one type. Raises
    ParameterError without pyarrow."""

    def __init__(self, name: str, data: Any) -> None:
        try:
            import pyarrow as pa
        except ImportError as error:
            kind = f"{type(data).__module__.partition('.')[0]}.{type(data).__name__}"
            remedy = "pip install 'neardup-db[arrow]', or give Python's values, e.g. zip(df['id'], df['body'])"
            raise ParameterError(f"{name} is a {kind}, which needs pyarrow to be read: {remedy}") from error
        self._name = name
        self._batches: Any
        self._names: list[str] = []
        try:
            given = self._opened(pa, data)
        except pa.ArrowInvalid as error:
            raise ParameterError(f"{name} was read already: give the data, or a new stream of it ({error})") from error
        self.is_table = hasattr(given, "schema")
        if self.is_table:
            self._names, self.types = given.schema.names, tuple(given.schema.types)
        else:
            self.types = (given.type,)
        self._given = given

    def _opened(self, pa: Any, data: Any) -> Any:
        """A reader of batches or, if the data is an array, a chunked array."""
        if hasattr(data, STREAM):
            try:
                return pa.RecordBatchReader.from_stream(_Exported(self._name, data))
            except pa.ArrowInvalid:  # no table, or read already
                return pa.chunked_array(_Exported(self._name, data))
        array = pa.array(_Exported(self._name, data))
        if not pa.types.is_struct(array.type):
            return pa.chunked_array([array])
        batch = pa.RecordBatch.from_struct_array(array)
        return pa.RecordBatchReader.from_batches(batch.schema, [batch])

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *error: Any) -> None:
        if self.is_table:
            self._given.close()
        self._given = None

    @property
    def column_names(self) -> str:
        return ", ".join(map(repr, self._names)) or "(none)"

    def number(self, role: str, column: Any, holds: Callable[[Any], bool], kinds: str) -> int:
        """The position of the column that the argument `role` names; for an array, `column` must be None. Raises ParameterError
        if `holds` is false for the column type; `kinds` lists the accepted types."""
        if not self.is_table:
            if column is not None:
                what = f"{self._name} is an array of {self.types[0]}, not a table"
                raise ParameterError(f"{role}={quoted(column)}: {what}: leave {role}= out")
            number = 0
        else:
            if self._names.count(column) != 1:
                problem = "are several columns" if column in self._names else "is no column"
                raise ParameterError(f"{role}={quoted(column)} {problem} of {self._name}, which has {self.column_names}")
            number = self._names.index(column)
        if not holds(self.types[number]):
            called, what = (f"{role}={column!r}", "a column") if self.is_table else (self._name, "an array")
            raise ParameterError(f"{called} is {what} of {self.types[number]}: give one of {kinds}")
        return number

    def chunks(self) -> Iterator[list[Column]]:
        """The columns of each chunk. Raises NearDupError with the producer's message if it fails."""
        if not self.is_table:
            for array in self._given.chunks:
                yield [Column(self._name, array)]
            return
        batches = iter(self._given)
        while True:
            try:
                batch = next(batches)
            except StopIteration:
                return
            except Exception as error:  # whatever the producer raises
                raise NearDupError(f"{self._name}: its producer failed: {error}") from error
            yield [Column(name, array) for name, array in zip(self._names, batch.columns, strict=True)]


# ---- columns of a chunk ------------------------------------------------------------------------------------------------


class Column:
    """The rows of an array in a chunk. name: for messages."""

    def __init__(self, name: str, array: Any) -> None:
        self._name, self._array, self._kind = name, array, array.type
        self._is_null, self._is_binary = types.is_null(self._kind), _is_binary(self._kind)
        self._is_view = types.is_string_view(self._kind) or types.is_binary_view(self._kind)
        self._is_large = types.is_large_string(self._kind) or types.is_large_binary(self._kind)
        self._dictionary = Column(name, array.dictionary) if types.is_dictionary(array.type) else None
        self._located: tuple[Array, Array, Array] | None = None  # strings of the dictionary, with a null at the end

    def __len__(self) -> int:
        return len(self._array)

    def texts(self, start: int, count: int) -> tuple[LocatedTexts, Array | None]:
        """The strings or binary values without copies, and their null mask (bool[count], or None). Nulls are empty."""
        addresses, sizes, nulls = self._strings(self._array.slice(start, count))
        return LocatedTexts(addresses, sizes, (self._array,)), nulls

    def values(self, start: int, count: int) -> list[Any]:
        """Rows as str, bytes, int, float, bool, list, dict, None for null. Strings that are not UTF-8 stay bytes."""
        array = self._array.slice(start, count)
        if self._is_binary or is_string(self._kind):
            texts, nulls = self.texts(start, count)
            made: list[Any] = texts.to_list(as_bytes=self._is_binary)
            return made if nulls is None else [None if null else one for one, null in zip(made, nulls.tolist(), strict=True)]
        if self._dictionary is not None:
            self._indices(array)  # checked
        if array.null_count == 0 and types.is_integer(self._kind):
            return array.to_numpy().tolist()
        try:
            return array.to_pylist()
        except ValueError as error:  # strings that are not UTF-8, or two fields of one name
            raise NearDupError(f"the column {self._name!r} cannot be read ({error}): cast it, or leave it out") from error

    def _indices(self, array: Any) -> Array:
        """The dictionary indices; a null row has the index after the last value."""
        assert self._dictionary is not None
        beyond, nulls = len(self._dictionary), _nulls(array)
        given = array.indices if nulls is None else array.indices.fill_null(0)
        indices: Array = given.to_numpy(zero_copy_only=False).astype(np.int64)
        used = indices if nulls is None else indices[~nulls]
        if len(used) and (used.min() < 0 or used.max() >= beyond):
            raise self._broken("indices outside of its dictionary")
        if nulls is not None:
            indices[nulls] = beyond
        return indices

    def _strings(self, array: Any) -> tuple[Array, Array, Array | None]:
        """Addresses and sizes, uintp[n], and the null mask."""
        if self._dictionary is not None:
            if self._located is None:
                self._located = self._dictionary._with_null()
            places = self._indices(array)
            addresses, sizes, absent = self._located
            return addresses.take(places), sizes.take(places), absent.take(places)
        nulls, count = _nulls(array), len(array)
        if self._is_null or not count:
            return np.zeros(count, np.uintp), np.zeros(count, np.uintp), nulls
        addresses, sizes = (self._view_strings if self._is_view else self._offset_strings)(array, nulls)
        if nulls is not None:
            sizes[nulls] = 0
        return addresses, sizes, nulls

    def _with_null(self) -> tuple[Array, Array, Array]:
        """All strings followed by a null, and their null mask."""
        addresses, sizes, nulls = self._strings(self._array)
        nothing, none = np.zeros(1, np.uintp), np.zeros(len(sizes), np.bool_)
        return np.append(addresses, nothing), np.append(sizes, nothing), np.append(none if nulls is None else nulls, True)

    def _offset_strings(self, array: Any, nulls: Array | None) -> tuple[Array, Array]:
        _, ends, data = array.buffers()
        kind = np.int64 if self._is_large else np.int32
        offsets = np.frombuffer(ends, kind)[array.offset : array.offset + len(array) + 1].astype(np.int64)
        sizes = offsets[1:] - offsets[:-1]
        if offsets[0] < 0 or sizes.min() < 0:
            raise self._broken("strings that end before they begin")
        base = (ends if data is None else data).address  # without data all strings are empty, so any valid address will do
        return offsets[:-1].view(np.uintp) + np.uintp(base), sizes.view(np.uintp)

    def _view_strings(self, array: Any, nulls: Array | None) -> tuple[Array, Array]:
        """The strings of a layout with 16-byte views: size, then a short string itself, or prefix, buffer and offset."""
        _, packed, *spaces = array.buffers()
        at, count = array.offset, len(array)
        views = np.frombuffer(packed, np.int32)[4 * at : 4 * (at + count)].reshape(count, 4)  # size, prefix, buffer, offset
        sizes = views[:, 0].astype(np.int64)
        if nulls is not None:
            sizes[nulls] = 0
        if sizes.min() < 0:
            raise self._broken("strings of a negative size")
        first = packed.address + 16 * at + 4
        addresses = np.arange(first, first + 16 * count, 16, dtype=np.uintp)
        long: Any = slice(None) if sizes.min() > _INLINE else np.flatnonzero(sizes > _INLINE)
        which, offsets = views[long, 2].astype(np.intp), views[long, 3].astype(np.int64)
        if len(offsets):
            lengths = np.array([space.size for space in spaces], np.int64)
            wrong = which.view(np.uintp).max() >= len(spaces) or offsets.min() < 0  # unsigned, so that a negative index fails too
            if wrong or (offsets + sizes[long] > lengths[which]).any():
                raise self._broken("strings outside of its buffers")
            begins = np.array([space.address for space in spaces], np.uintp)
            addresses[long] = offsets.view(np.uintp) + begins[which]
        return addresses, sizes.view(np.uintp)

    def _broken(self, problem: str) -> NearDupError:
        return NearDupError(f"the producer's column {self._name!r} has {problem}")


def _nulls(array: Any) -> Array | None:
    """The null mask, bool[n]; None without nulls."""
    return array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
