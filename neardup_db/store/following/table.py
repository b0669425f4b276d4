"""A table of the application, as far as following it goes: its columns, its key, and the condition on its rows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import NamedTuple

import apsw

from ...errors import MismatchError, ParameterError
from ...parameters import quoted
from ..database.connection import Database
from ..layout import candidates, definitions, schema
from ..layout.following import Following

_ROWID = ("rowid", "oid", "_rowid_")


def quote(name: str) -> str:
    """A name of the application's, as SQL has it."""
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


class Column(NamedTuple):
    """A column that the table declares."""

    name: str
    type: str
    never_null: bool
    in_key: int
    """Its place in the PRIMARY KEY, 0 = it is not part of it."""
    generated: bool


class Unique(NamedTuple):
    """A column that no two rows have in common."""

    column: str
    is_primary: bool
    collation: str | None
    """By which its values differ, None for the rowid."""


class Table(NamedTuple):
    """A table with the columns of an index that follows it, all names as the schema has them."""

    name: str
    columns: tuple[Column, ...]
    rowid: str | None
    """The column that is the rowid, None where it has no such name, or rows have none."""
    following: Following
    key_collation: str | None
    """By which no two keys are equal, which that of the column need not be; None for a rowid."""


def found(db: Database, wanted: Following) -> Table:
    """The table as it is now. ParameterError for what cannot be followed."""
    name, has_rowid = _found_table(db, wanted.table)
    columns = tuple(_columns(db, name))
    alias = _rowid_alias(db, name, columns) if has_rowid else None
    uniques = tuple(_uniques(db, name, alias))
    key = _key(name, wanted.key, columns, alias, uniques)
    text = _column(name, "text", wanted.text, columns)
    group = None if wanted.group is None else _column(name, "group", wanted.group, columns)
    if wanted.where is not None:
        _require_condition(wanted.where, tuple(column.name for column in columns), alias)
    following = Following(name, key, text, group, wanted.where, wanted.sync)
    collations = [unique.collation for unique in uniques if unique.column == key]
    return Table(name, columns, alias, following, None if None in collations else min(map(str, collations)))


def found_again(db: Database, following: Following) -> Table:
    """The table that an index follows. MismatchError where it is no longer as it was when that began."""
    try:
        return found(db, following)
    except ParameterError as error:
        raise MismatchError(
            f"the followed table is no longer as it was: {error}. What was taken over is still there; call follow() again with "
            "the names of now, or unfollow()"
        ) from error


# ---- the table and its columns ---------------------------------------------------------------------------------------------


def _found_table(db: Database, wanted: str) -> tuple[str, bool]:
    """Its name as the schema has it, and whether its rows have a rowid."""
    sql = "SELECT schema, name, type, wr FROM pragma_table_list WHERE name = ? COLLATE NOCASE ORDER BY schema <> 'main'"
    rows = db.rows(sql, (wanted,))
    if not rows:
        _, dot, name = wanted.partition(".")
        what = f"no table {wanted!r}"
        if dot and db.rows(sql, (name,)):
            raise ParameterError(f"table={wanted!r}: give the name alone, of a table of the database that holds the index")
        raise ParameterError(f"table={wanted!r}: the database that holds the index has {what}: give the name of one")
    place, name, kind, without_rowid = rows[0]
    if place != "main":
        raise ParameterError(
            f"table={wanted!r} is of the database {place!r}: an index follows a table of its own database, whose transactions "
            "both share; make the index there"
        )
    if kind != "table":
        raise ParameterError(f"table={wanted!r} is a {kind}{' table' * (kind != 'view')}, which has no triggers: give a table")
    if name.casefold().startswith("sqlite_") or name.casefold() in _tables_of_indexes(db):
        raise ParameterError(f"table={wanted!r} belongs to SQLite or to an index: give a table of the application")
    return name, not without_rowid


def _tables_of_indexes(db: Database) -> set[str]:
    tables = candidates.TABLES
    return {
        entry.casefold()
        for index in schema.index_names(db)
        for table in tables
        for entry in definitions.expected(index, table, (*schema.OPTIONAL, schema.PENDING))
    }


def _columns(db: Database, table: str) -> Iterator[Column]:
    sql = """SELECT name, type, "notnull", pk, hidden FROM pragma_table_xinfo(?, 'main') WHERE hidden <> 1"""
    for name, kind, never_null, in_key, hidden in db.rows(sql, (table,)):
        yield Column(name, kind, bool(never_null), in_key, hidden > 0)


def _rowid_alias(db: Database, table: str, columns: Sequence[Column]) -> str | None:
    """The column that is the rowid under a name of its own: INTEGER PRIMARY KEY."""
    keys = [column for column in columns if column.in_key]
    if len(keys) != 1 or keys[0].type.upper() != "INTEGER":
        return None
    apart = db.value("SELECT 1 FROM pragma_index_list(?, 'main') WHERE origin = 'pk'", (table,))  # INTEGER PRIMARY KEY DESC
    return None if apart else keys[0].name


def _column(table: str, argument: str, wanted: str, columns: Sequence[Column]) -> str:
    for column in columns:
        if _same_name(column.name, wanted):
            return column.name
    listed = ", ".join(column.name for column in columns)
    raise ParameterError(f"{argument}={wanted!r}: {table!r} has no such column, it has {quoted(listed)[1:-1]}: give one of them")


def _same_name(one: str, other: str) -> bool:
    """As SQLite compares names: only the 26 letters have a case."""
    return one == other or one.encode().lower() == other.encode().lower()


def _key(table: str, wanted: str, columns: Sequence[Column], alias: str | None, uniques: Sequence[Unique]) -> str:
    """The column that names a row. ParameterError for one that may be another row's tomorrow."""
    if wanted.lower() in _ROWID and not any(_same_name(column.name, wanted) for column in columns):
        if alias is None:
            raise ParameterError(
                f"key={wanted!r}: the rowids of {table!r} are not declared, so VACUUM may number the rows again: give a declared "
                "key, such as a column id INTEGER PRIMARY KEY"
            )
        return alias
    name = _column(table, "key", wanted, columns)
    for unique in uniques:
        if unique.column == name and (unique.is_primary or next(c for c in columns if c.name == name).never_null):
            return name
    raise ParameterError(
        f"key={wanted!r}: this column of {table!r} is not the PRIMARY KEY, nor is it UNIQUE and NOT NULL, so it does not name "
        "one row: give a column that does"
    )


def _uniques(db: Database, table: str, alias: str | None) -> Iterator[Unique]:
    if alias is not None:
        yield Unique(alias, True, None)
    sql = "SELECT name, origin FROM pragma_index_list(?, 'main') WHERE \"unique\" AND NOT partial ORDER BY name"
    for index, origin in db.rows(sql, (table,)):
        terms = db.rows("SELECT name, coll FROM pragma_index_xinfo(?, 'main') WHERE key", (index,))
        if len(terms) == 1 and terms[0][0] is not None:  # None: an expression
            yield Unique(terms[0][0], origin == "pk", terms[0][1])


# ---- the condition ---------------------------------------------------------------------------------------------------------


_TOKEN = re.compile(
    r"""'(?:[^']|'')*' | "(?:[^"]|"")*" | `(?:[^`]|``)*` | \[[^\]]*\] | --[^\n]* | /\*.*?(?:\*/|\Z) | \w+ | \s+ | .""",
    re.DOTALL | re.VERBOSE,
)
_NOT_IN_CONDITIONS = frozenset(";?:@$#")
"""What separates statements, or begins a parameter, outside of quotation marks."""


@lru_cache(64)
def _require_condition(where: str, columns: tuple[str, ...], rowid: str | None) -> None:
    """ParameterError for what is no condition on a row alone; nothing of it runs. rowid: the column that is the rowid; without
    one there is no such name.

    SQLite itself judges, by an empty table with columns of these names: it takes for the condition of an index only what follows
    from the row, with functions of its own. Two pairs of brackets around the text, of different kinds, show that it is one
    expression."""
    with _scratch(where, columns, rowid) as scratch:
        wrong = _NOT_IN_CONDITIONS.intersection(_TOKEN.findall(where))
        if wrong:
            raise apsw.SQLError(f"it has {min(wrong)!r}")
        scratch.execute(f"EXPLAIN SELECT CASE WHEN {where}\n THEN 1 END FROM followed").fetchall()
        scratch.execute(f"EXPLAIN {_index_where(where, columns)}").fetchall()


def require_lasting(where: str, columns: tuple[str, ...], rowid: str | None) -> None:
    """ParameterError for a condition that depends on the time: some functions say so only when they run."""
    with _scratch(where, columns, rowid) as scratch:
        scratch.execute(_index_where(where, columns))
        scratch.execute(f"INSERT INTO followed ({quote(columns[0])}) VALUES (0)")


@contextmanager
def _scratch(where: str, columns: tuple[str, ...], rowid: str | None) -> Iterator[apsw.Connection]:
    """An empty table of such columns, in memory. What it refuses is told of the condition."""
    scratch = apsw.Connection(":memory:")
    try:
        scratch.config(apsw.SQLITE_DBCONFIG_DQS_DML, 0)  # "a name that is no column" is no text
        scratch.config(apsw.SQLITE_DBCONFIG_DQS_DDL, 0)
        declared = [quote(column) + " INTEGER PRIMARY KEY" * (column == rowid) for column in columns]
        without = f", PRIMARY KEY ({quote(columns[0])})) WITHOUT ROWID" if rowid is None else ")"
        scratch.execute(f"CREATE TABLE followed ({', '.join(declared)}{without}")
        yield scratch
    except apsw.Error as error:
        raise ParameterError(
            f"where={quoted(where)}: SQLite does not take it for a condition on one row ({error}): give SQL that computes with "
            'columns of the row and functions of SQLite alone, such as "published = 1"'
        ) from error
    finally:
        scratch.close()


def _index_where(where: str, columns: tuple[str, ...]) -> str:
    return f"CREATE INDEX followed_where ON followed ({quote(columns[0])}) WHERE ({where}\n)"
