"""The followed table: its columns, key and row condition."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import apsw

from ...errors import MismatchError, ParameterError
from ...parameters import quoted
from ..database.connection import Database
from ..layout import definitions, schema
from ..layout.following import Following

_ROWID = ("rowid", "oid", "_rowid_")


def quote(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


class Column(NamedTuple):
    name: str
    type: str
    never_null: bool
    in_key: int  # position in the PRIMARY KEY, 0 if not part of it
    generated: bool


class Table(NamedTuple):
    """A followed table and its columns, with names as in the schema."""

    name: str
    columns: tuple[Column, ...]
    following: Following
    key_collation: str | None  # the collation in which keys are unique, which may differ from the column's; None for a rowid


def inspect_table(db: Database, wanted: Following) -> Table:
    name, has_rowid = _find_table(db, wanted.table)
    columns = tuple(_columns(db, name))
    alias = _rowid_alias(db, name, columns) if has_rowid else None
    key, collation = _key(db, name, wanted.key, columns, alias)
    text = _column(name, "text", wanted.text, columns)
    group = None if wanted.group is None else _column(name, "group", wanted.group, columns)
    if wanted.where is not None:
        _require_condition(wanted.where, tuple(column.name for column in columns), alias)
    following = Following(name, key, text, group, wanted.where, wanted.sync)
    return Table(name, columns, following, collation)


def find_followed_table(db: Database, following: Following) -> Table:
    """The table that an index follows. Raises MismatchError if it has changed incompatibly."""
    try:
        return inspect_table(db, following)
    except ParameterError as error:
        raise MismatchError(
            f"the followed table is no longer as it was: {error}. What was taken over is still there; call follow() again with "
            "the names of now, or unfollow()"
        ) from error


def _find_table(db: Database, wanted: str) -> tuple[str, bool]:
    """The table's name as in the schema, and whether its rows have a rowid."""
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
    names = schema.index_names(db.rows)
    return {entry.casefold() for index in names for entry in definitions.expected(index, *definitions.EVERY)}


def _columns(db: Database, table: str) -> Iterator[Column]:
    sql = """SELECT name, type, "notnull", pk, hidden FROM pragma_table_xinfo(?, 'main') WHERE hidden <> 1"""
    for name, kind, never_null, in_key, hidden in db.rows(sql, (table,)):
        yield Column(name, kind, bool(never_null), in_key, hidden > 0)


def _rowid_alias(db: Database, table: str, columns: Sequence[Column]) -> str | None:
    keys = [column for column in columns if column.in_key]
    if len(keys) != 1 or keys[0].type.upper() != "INTEGER":
        return None
    sql = "SELECT 1 FROM pragma_index_list(?, 'main') WHERE origin = 'pk'"  # INTEGER PRIMARY KEY DESC has such an index
    is_separate = db.value(sql, (table,))
    return None if is_separate else keys[0].name


def _column(table: str, argument: str, wanted: str, columns: Sequence[Column]) -> str:
    for column in columns:
        if _same_name(column.name, wanted):
            return column.name
    listed = ", ".join(column.name for column in columns)
    raise ParameterError(f"{argument}={wanted!r}: {table!r} has no such column, it has {quoted(listed)[1:-1]}: give one of them")


def _same_name(one: str, other: str) -> bool:
    """SQLite's comparison of names: only ASCII letters are case-insensitive."""
    return one == other or one.encode().lower() == other.encode().lower()


def _key(db: Database, table: str, wanted: str, columns: Sequence[Column], alias: str | None) -> tuple[str, str | None]:
    """The key column, and the collation in which keys are unique (None for a rowid). Refuses keys that may be reassigned."""
    if wanted.lower() in _ROWID and not any(_same_name(column.name, wanted) for column in columns):
        if alias is None:
            raise ParameterError(
                f"key={wanted!r}: the rowids of {table!r} are not declared, so VACUUM may number the rows again: give a declared "
                "key, such as a column id INTEGER PRIMARY KEY"
            )
        return alias, None
    name = _column(table, "key", wanted, columns)
    if name == alias:
        return name, None
    sql = """SELECT min(c.coll) FROM pragma_index_list(:table, 'main') AS l CROSS JOIN pragma_index_xinfo(l.name, 'main') AS c
             WHERE l."unique" AND NOT l.partial AND c.key AND c.name = :column AND (l.origin = 'pk' OR :never_null)
             AND (SELECT count(*) FROM pragma_index_info(l.name, 'main')) = 1"""
    never_null = any(column.never_null for column in columns if column.name == name)
    collation: str | None = db.value(sql, {"table": table, "column": name, "never_null": never_null})
    if collation is None:
        raise ParameterError(
            f"key={wanted!r}: this column of {table!r} is not the PRIMARY KEY, nor is it UNIQUE and NOT NULL, so it does not "
            "name one row: give a column that does"
        )
    return name, collation


_TOKEN = re.compile(
    r"""'(?:[^']|'')*' | "(?:[^"]|"")*" | `(?:[^`]|``)*` | \[[^\]]*\] | --[^\n]* | /\*.*?(?:\*/|\Z) | \w+ | \s+ | .""",
    re.DOTALL | re.VERBOSE,
)
_NOT_IN_CONDITIONS = frozenset(";?:@$#")
"""Characters that separate statements or begin a parameter, outside of quotes."""


@lru_cache(64)
def _require_condition(where: str, columns: tuple[str, ...], rowid: str | None) -> None:
    """Raise ParameterError for an invalid condition on a row. rowid: the alias of the rowid; None if rows have no such column.

    As the condition of a partial index on an in-memory table with the same columns, it may use only the row and deterministic
    functions, which inserting a row verifies. Two different enclosing constructs ensure that it is a single expression.
    """
    scratch = apsw.Connection(":memory:")
    first = quote(columns[0])
    declared = [quote(column) + " INTEGER PRIMARY KEY" * (column == rowid) for column in columns]
    ending = f", PRIMARY KEY ({first})) WITHOUT ROWID" if rowid is None else ")"
    try:
        forbidden = _NOT_IN_CONDITIONS.intersection(_TOKEN.findall(where))
        if forbidden:
            raise apsw.SQLError(f"it has {min(forbidden)!r}")
        scratch.config(apsw.SQLITE_DBCONFIG_DQS_DML, 0)  # an unknown name in quotes is no string
        scratch.config(apsw.SQLITE_DBCONFIG_DQS_DDL, 0)
        scratch.execute(f"CREATE TABLE followed ({', '.join(declared)}{ending}")
        scratch.execute(f"EXPLAIN SELECT CASE WHEN {where}\n THEN 1 END FROM followed").fetchall()
        scratch.execute(f"CREATE INDEX followed_where ON followed ({first}) WHERE ({where}\n)")
        scratch.execute(f"INSERT INTO followed ({first}) VALUES (0)")
    except apsw.Error as error:
        raise ParameterError(
            f"where={quoted(where)}: SQLite does not take it for a condition on one row ({error}): give SQL that computes with "
            'columns of the row and functions of SQLite alone, such as "published = 1"'
        ) from error
    finally:
        scratch.close()
