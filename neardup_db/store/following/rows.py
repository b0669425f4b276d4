"""Rows of a followed table, read as raw bytes, because an application's columns may hold anything."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import apsw

from ...errors import ParameterError
from ...parameters import check_key, quoted
from ...values import Key
from ..layout.state import Store
from .table import Table, quote


class RawKey(NamedTuple):
    """A value of a key column: its SQLite type, and the raw bytes of a text."""

    kind: str
    value: Any

    @property
    def bound(self) -> str:
        """The SQL of a parameter with this value. The unary plus keeps the cast's affinity from being applied to the column."""
        return "+CAST(? AS TEXT)" if self.kind == "text" else "?"


class Row(NamedTuple):
    raw_key: RawKey
    key: Key | None
    text: str | bytes | None  # None for an excluded row: its text is NULL, it fails the condition, or it has the problem
    group: Key | None
    problem: str | None

    @property
    def size(self) -> int:
        return 0 if self.text is None else len(self.text)


_FAILURES = (apsw.SQLError, apsw.TooBigError)  # SQLite errors for a row whose condition or generated column cannot be computed


class Rows:
    """Reads the followed table and the pending keys. The caller holds a transaction."""

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

    def rows_after(self, raw_key: RawKey | None, limit: int) -> Iterator[Row]:
        """The next rows in key order, without rows whose key is NULL."""
        try:
            for row in self.db.stream(*self._page_query(self._source, raw_key, limit)):
                limit -= 1
                raw_key = RawKey(*row[:2])
                yield self._row(row)
        except _FAILURES:  # one row fails: read the others singly
            for key in self.db.rows(*self._page_query(self._keys, raw_key, limit)):
                single = self.row_at(RawKey(*key))
                if single is not None:
                    yield single

    def _page_query(self, select: str, raw_key: RawKey | None, limit: int) -> tuple[str, tuple[Any, ...]]:
        condition = f"{self._key} IS NOT NULL" if raw_key is None else f"{self._key} > {raw_key.bound}"
        return f"{select} WHERE {condition} ORDER BY {self._key} LIMIT {limit}", () if raw_key is None else (raw_key.value,)

    def row_at(self, raw_key: RawKey) -> Row | None:
        """The row with exactly this key, including case and type."""
        try:
            rows = self.db.rows(f"{self._source} WHERE {self._key} = {raw_key.bound}", (raw_key.value,))
        except _FAILURES as error:
            problem = f"SQLite cannot compute where=, or a generated column, of this row ({error}): correct the row"
            return Row(raw_key, self._key_or_none(raw_key), None, None, problem) if self.has_row(raw_key) else None
        return next((self._row(row) for row in rows if _has_key(raw_key, row)), None)

    def has_row(self, raw_key: RawKey) -> bool:
        rows = self.db.rows(f"{self._keys} WHERE {self._key} = {raw_key.bound}", (raw_key.value,))
        return any(_has_key(raw_key, row) for row in rows)

    def count(self) -> int:
        """The number of rows with a key, by the table's smallest index."""
        return self.db.value(f"SELECT count(*) - ({self._without_key('count(*)')}) FROM {self._table}")

    def without_key(self) -> bool:
        return self.db.value(f"{self._without_key('1')} LIMIT 1") is not None

    def _without_key(self, columns: str) -> str:
        return f"SELECT {columns} FROM {self._table} WHERE {self._key} IS NULL"

    def raw_key_of(self, key: Key) -> RawKey:
        if isinstance(key, str):
            return RawKey("text", key.encode(self.encoding))
        return RawKey("integer" if isinstance(key, int) else "blob", key)

    def key_of(self, raw_key: RawKey) -> Key:
        """The document key of a row. Raises ParameterError if it is no valid key."""
        return check_key(self._value("key", raw_key))

    def pending(self, after_id: int, limit: int) -> list[tuple[int, RawKey]]:
        sql = f"SELECT id, {_kind_and_value('key')} FROM main.{{index}}_pending WHERE id > ? ORDER BY id LIMIT ?"
        return [(number, RawKey(kind, value)) for number, kind, value in self.store.page(sql, after_id, limit)]

    def _row(self, row: tuple[Any, ...]) -> Row:
        kind, value, text_kind, text, group_kind, _ = row
        raw_key = RawKey(kind, value)
        if kind == "integer" and text_kind == "text" and group_kind == "null" and self.encoding == "utf-8":  # the common case
            return Row(raw_key, value, text, None, None)
        if text_kind is None:
            return Row(raw_key, self._key_or_none(raw_key), None, None, None)
        key: Key | None = None
        try:
            key = self.key_of(raw_key)
            group = None if row[4] == "null" else check_key(self._value("group", RawKey(*row[4:])), "group")
            text = self._text(RawKey(*row[2:4]))
        except ParameterError as error:
            return Row(raw_key, key, None, None, str(error))
        return Row(raw_key, key, text, group, None)

    def _key_or_none(self, raw_key: RawKey) -> Key | None:
        try:
            return self.key_of(raw_key)
        except ParameterError:
            return None

    def _value(self, name: str, raw_key: RawKey) -> Any:
        if raw_key.kind != "text":
            return raw_key.value
        try:
            return raw_key.value.decode(self.encoding)
        except UnicodeDecodeError as error:
            columns = f"{name}={quoted(raw_key.value)} is stored as text and is no Unicode"
            raise ParameterError(f"{columns}: store it as a BLOB") from error

    def _text(self, raw_key: RawKey) -> str | bytes | None:
        if raw_key.kind not in ("text", "null"):
            column = self.table.following.text
            raise ParameterError(f"{column}={quoted(raw_key.value)} is stored as {raw_key.kind.upper()}, not as text: store text")
        if raw_key.kind == "null" or self.encoding == "utf-8":
            return raw_key.value  # of invalid Unicode the core uses the valid parts
        return raw_key.value.decode(self.encoding, "replace")


def _has_key(raw_key: RawKey, row: Sequence[Any]) -> bool:
    return raw_key == row[:2] and type(raw_key.value) is type(row[1])


def _value(column: str) -> str:
    return f"CASE typeof({column}) WHEN 'text' THEN CAST({column} AS BLOB) ELSE {column} END"


def _kind_and_value(column: str) -> str:
    return f"typeof({column}), {_value(column)}"
