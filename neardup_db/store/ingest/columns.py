"""Records in columns: arrays of codes, and Arrow tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from itertools import zip_longest
from typing import Any, NamedTuple

from ... import limits
from ...arrays import Array
from ...arrow import KEYS, METADATA, TEXTS, Column, Source, is_json, is_key, is_string
from ...errors import ParameterError
from ...located import LocatedTexts, fitting
from ...parameters import check_group, check_key, check_metadata, is_plain_key, storable
from ...records import check_metadata_names
from ...schemes.codes import CodeRows
from ...values import Record


class Rows(NamedTuple):
    """Columns of records, of equal length. None means that no record has a value."""

    keys: list[Any]
    contents: Sequence[Any]  # texts or codes
    nulls: Array | None = None  # bool[n]: True for records without a text
    groups: list[Any] | None = None
    metadata: list[dict[str, Any]] | None = None

    def slice_rows(self, page: slice) -> Rows:
        columns: list[Any] = [None if column is None else column[page] for column in self]
        return Rows(*columns)

    def limit_bytes(self, most_size: int) -> Rows:
        """The first rows whose texts have at most this many bytes, and the row that reaches the limit."""
        contents = self.contents
        return self.slice_rows(slice(fitting(contents.sizes, most_size))) if isinstance(contents, LocatedTexts) else self

    def contents_at(self, places: list[int]) -> Sequence[Any]:
        contents = self.contents
        return contents.at_indexes(places) if isinstance(contents, LocatedTexts) else [contents[place] for place in places]

    def are_plain(self) -> bool:
        """True if there is nothing to check, and only keys and contents to store."""
        has_more = self.groups is not None or self.metadata is not None or (self.nulls is not None and bool(self.nulls.any()))
        return not has_more and _are_plain(self.keys)


def _are_plain(keys: list[Any]) -> bool:
    """True if all keys can be stored unchanged. No Python step per key if they have one type."""
    kinds = set(map(type, keys))
    if kinds == {str}:
        try:
            "".join(keys).encode()
        except UnicodeEncodeError:  # half of a surrogate pair
            return False
        return True
    if kinds == {int}:
        return is_plain_key(min(keys)) and is_plain_key(max(keys))
    return all(map(is_plain_key, keys))


class Row(NamedTuple):
    """One record of some rows. text: the text to store, if any."""

    rows: Rows
    place: int
    text: str | bytes | None

    def checked(self) -> Record:
        rows, place = self.rows, self.place
        for name, is_null in (("key", rows.keys[place] is None), ("text", rows.nulls is not None and rows.nulls[place])):
            if is_null:
                raise ParameterError(f"{name} is null: fill it or leave such rows out, as on_error='skip' does")
        return Record(
            check_key(rows.keys[place]),
            None if self.text is None else storable(self.text),
            None if rows.metadata is None else check_metadata(rows.metadata[place]),
            None if rows.groups is None else check_group(rows.groups[place]),
            None,
        )


class Codes(NamedTuple):
    """Keys and codes of equal length, without other values. Codes from arrays need no check each."""

    keys: Sequence[Any]
    codes: Sequence[bytes]

    def pairs(self) -> Iterator[tuple[Any, bytes]]:
        return (pair for rows in self.rows() for pair in zip(rows.keys, rows.contents, strict=True))

    def rows(self) -> Iterator[Rows]:
        for start in range(0, len(self.keys), limits.BATCH_RECORDS):
            page = slice(start, start + limits.BATCH_RECORDS)
            yield Rows(list(self.keys[page]), list(self.codes[page]))


def code_records(keys: Iterable[Any], codes: Iterable[Any], more: Mapping[str, Any]) -> Iterable[Any] | Codes:
    """The records of `add_codes`. more: arguments of `add_code`, one value for all or one for each. Refuses other lengths."""
    columns = {"key": _values(keys), "code": codes}
    same = {}
    for name, value in more.items():
        if _is_sequence(value):
            columns[name] = _values(value)
        elif value is not None:
            same[name] = value
    lengths = {name: len(column) for name, column in columns.items() if isinstance(column, Sized)}
    for name, length in lengths.items():
        if length != lengths.get("key", length):
            what, how = f"values of {name}", "give one for each key, or one for all"
            what, how = ("codes", "give one key for each code") if name == "code" else (what, how)
            raise ParameterError(f"{lengths['key']} keys for {length} {what}: {how}")
    if len(columns) == 2 and not same and isinstance(columns["key"], (list, tuple, range)) and isinstance(codes, CodeRows):
        return Codes(columns["key"], codes)
    rows = zip(*columns.values(), strict=True) if len(lengths) == len(columns) else _zip_columns(columns)
    return ({**same, **dict(zip(columns, row, strict=True))} for row in rows) if len(columns) > 2 or same else rows


def _values(column: Any) -> Iterable[Any]:
    as_list = getattr(column, "tolist", None) or getattr(column, "to_list", None)
    return column if as_list is None else as_list()


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping)) and getattr(value, "ndim", 1) > 0


_END = object()


def _zip_columns(columns: Mapping[str, Iterable[Any]]) -> Iterator[tuple[Any, ...]]:
    for number, row in enumerate(zip_longest(*columns.values(), fillvalue=_END)):
        ended = [name for name, value in zip(columns, row, strict=True) if value is _END]
        if ended:
            what = f"there are {number} values of {' and '.join(ended)}, and more of the others"
            raise ParameterError(f"{what}: give one for each key")
        yield row


class Table:
    """Records from an Arrow table, with the columns of key, text, group and metadata. A context manager. Raises ParameterError
    if a column is missing or has an unsuitable type."""

    def __init__(self, data: Any, key: Any, text: Any, group: Any, metadata: Any) -> None:
        self._source = source = Source("records", data)
        if not source.is_table:
            raise ParameterError(f"records is an array of {source.types[0]}: give a table with a column of keys and one of texts")
        if key is None or text is None:
            how = "say which hold the keys and the texts, as in add_many(table, key='id', text='body')"
            raise ParameterError(f"records is a table with the columns {source.column_names}: {how}")
        self._key = source.number("key", key, is_key, KEYS)
        self._text = source.number("text", text, is_string, TEXTS)
        self._group = None if group is None else source.number("group", group, is_key, KEYS)
        self._metadata = {name: source.number("metadata", name, is_json, METADATA) for name in check_metadata_names(metadata)}

    def __enter__(self) -> Table:
        return self

    def __exit__(self, *error: Any) -> None:
        self._source.__exit__(*error)

    def rows(self) -> Iterator[Rows]:
        for columns in self._source.chunks():
            length = len(columns[self._key])
            for start in range(0, length, limits.BATCH_RECORDS):
                yield self._rows(columns, start, min(limits.BATCH_RECORDS, length - start))

    def _rows(self, columns: list[Column], start: int, count: int) -> Rows:
        texts, nulls = columns[self._text].texts(start, count)
        groups = None if self._group is None else columns[self._group].values(start, count)
        metadata = None
        if self._metadata:
            values = [columns[number].values(start, count) for number in self._metadata.values()]
            metadata = [dict(zip(self._metadata, row, strict=True)) for row in zip(*values, strict=True)]
        return Rows(columns[self._key].values(start, count), texts, nulls, groups, metadata)


def size_of(contents: Sequence[Any]) -> int:
    return int(contents.sizes.sum()) if isinstance(contents, LocatedTexts) else sum(map(len, contents))
