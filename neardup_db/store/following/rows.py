"""The rows of a followed table, as documents or as what cannot be one. Values are read as the bytes that stand there, since the
columns of an application may hold anything."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import apsw

from ...errors import ParameterError
from ...parameters import check_key, quoted
from ...values import Key
from ..layout.state import Store
from .table import Table, quote


class Place(NamedTuple):
    """A value of a key column as it stands there: its type in SQLite's words; of a text the bytes."""

    kind: str
    value: Any

    @property
    def bound(self) -> str:
        """The SQL for a parameter that is this value. Without the sign the type of the cast would be given to the column."""
        return "+CAST(? AS TEXT)" if self.kind == "text" else "?"


class Row(NamedTuple):
    """A row of the followed table."""

    place: Place
    key: Key | None
    text: str | bytes | None
    """None for a row that is excluded: its text is NULL, it does not meet the condition, or it has the problem."""
    group: Key | None
    problem: str | None

    @property
    def size(self) -> int:
        return 0 if self.text is None else len(self.text)


_FAILURES = (apsw.SQLError, apsw.TooBigError)
"""What SQLite raises for a row whose condition, or generated column, cannot be computed."""


class Rows:
    """Reads the followed table, and the pending keys. The caller holds a transaction."""

    def __init__(self, store: Store, table: Table) -> None:
        self.db = store.db
        self.store = store
        self.table = table
        self.encoding = str(self.db.value("PRAGMA encoding")).replace("UTF-16", "utf-16-").lower()
        following = table.following
        key = quote(following.key)
        self._key = key if table.key_collation is None else f"{key} COLLATE {quote(table.key_collation)}"
        text, kind = _value(quote(following.text)), f"typeof({quote(following.text)})"
        if following.where is not None:
            text, kind = (f"CASE WHEN ({following.where}\n) THEN {one} END" for one in (text, kind))
        group = "'null', NULL" if following.group is None else _kind_and_value(quote(following.group))
        self._table = f"main.{quote(table.name)}"
        self._keys = f"SELECT {_kind_and_value(key)} FROM {self._table}"
        self._source = f"SELECT {_kind_and_value(key)}, {kind}, {text}, {group} FROM {self._table}"

    def rows_after(self, place: Place | None, most: int) -> Iterator[Row]:
        """The next rows in the order of their keys. Those without a key are passed over."""
        try:
            for row in self.db.stream(*self._page_query(self._source, place, most)):
                most -= 1
                place = Place(*row[:2])
                yield self._row(row)
        except _FAILURES:  # of one of the rows: the others go on, one by one
            for key in self.db.rows(*self._page_query(self._keys, place, most)):
                single = self.row_at(Place(*key))
                if single is not None:
                    yield single

    def _page_query(self, select: str, place: Place | None, most: int) -> tuple[str, tuple[Any, ...]]:
        here = f"{self._key} IS NOT NULL" if place is None else f"{self._key} > {place.bound}"
        return f"{select} WHERE {here} ORDER BY {self._key} LIMIT {most}", () if place is None else (place.value,)

    def row_at(self, place: Place) -> Row | None:
        """The row with exactly this key, letters and type included."""
        try:
            rows = self.db.rows(f"{self._source} WHERE {self._key} = {place.bound}", (place.value,))
        except _FAILURES as error:
            problem = f"SQLite cannot compute where=, or a generated column, of this row ({error}): correct the row"
            return Row(place, self._key_or_none(place), None, None, problem) if self.has_row(place) else None
        return next((self._row(row) for row in rows if _has_key(place, row)), None)

    def has_row(self, place: Place) -> bool:
        """Whether there is a row with exactly this key."""
        rows = self.db.rows(f"{self._keys} WHERE {self._key} = {place.bound}", (place.value,))
        return any(_has_key(place, row) for row in rows)

    def count(self) -> int:
        """How many rows have a key. SQLite counts by the smallest index of the table."""
        number: int = self.db.value(f"SELECT count(*) - ({self._without_key('count(*)')}) FROM {self._table}")
        return number

    def without_key(self) -> bool:
        """Whether there are rows whose key is NULL."""
        return self.db.value(f"{self._without_key('1')} LIMIT 1") is not None

    def _without_key(self, what: str) -> str:
        return f"SELECT {what} FROM {self._table} WHERE {self._key} IS NULL"

    def place_of(self, key: Key) -> Place:
        """Where a document's row stands."""
        if isinstance(key, str):
            return Place("text", key.encode(self.encoding))
        return Place("integer" if isinstance(key, int) else "blob", key)

    def key_of(self, place: Place) -> Key:
        """The key of the document of a row. ParameterError where there can be none."""
        return check_key(self._value("key", place))

    def pending(self, after_id: int, most: int) -> list[tuple[int, Place]]:
        """Ids and keys of the next changes."""
        sql = self.store.sql(f"SELECT id, {_kind_and_value('key')} FROM main.{{index}}_pending WHERE id > ? ORDER BY id LIMIT ?")
        return [(number, Place(kind, value)) for number, kind, value in self.db.page(sql, after_id, most)]

    def _row(self, row: tuple[Any, ...]) -> Row:
        kind, value, text_kind, text, group_kind, _ = row
        place = Place(kind, value)
        if kind == "integer" and text_kind == "text" and group_kind == "null" and self.encoding == "utf-8":  # most are
            return Row(place, value, text, None, None)
        if text_kind is None:
            return Row(place, self._key_or_none(place), None, None, None)
        try:
            key = self.key_of(place)
        except ParameterError as error:
            return Row(place, None, None, None, str(error))
        try:
            group = None if row[4] == "null" else check_key(self._value("group", Place(*row[4:])), "group")
            text = self._text(Place(*row[2:4]))
        except ParameterError as error:
            return Row(place, key, None, None, str(error))
        return Row(place, key, text, group, None)

    def _key_or_none(self, place: Place) -> Key | None:
        try:
            return self.key_of(place)
        except ParameterError:
            return None

    def _value(self, name: str, place: Place) -> Any:
        if place.kind != "text":
            return place.value
        try:
            return place.value.decode(self.encoding)
        except UnicodeDecodeError as error:
            what = f"{name}={quoted(place.value)} is stored as text and is no Unicode"
            raise ParameterError(f"{what}: store it as a BLOB") from error

    def _text(self, place: Place) -> str | bytes | None:
        if place.kind not in ("text", "null"):
            column = self.table.following.text
            raise ParameterError(f"{column}={quoted(place.value)} is stored as {place.kind.upper()}, not as text: store text")
        if place.kind == "null" or self.encoding == "utf-8":
            text: bytes | None = place.value  # of texts that are no Unicode the core takes what there is
            return text
        decoded: str = place.value.decode(self.encoding, "replace")
        return decoded


def _has_key(place: Place, row: Sequence[Any]) -> bool:
    return place == row[:2] and type(place.value) is type(row[1])


def _value(column: str) -> str:
    """The SQL for a column's value, a text as bytes."""
    return f"CASE typeof({column}) WHEN 'text' THEN CAST({column} AS BLOB) ELSE {column} END"


def _kind_and_value(column: str) -> str:
    return f"typeof({column}), {_value(column)}"
