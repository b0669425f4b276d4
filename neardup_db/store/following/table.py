"""A table of the application, as far as following it goes: its columns, and what makes two of its rows exclude each other."""

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


class Unique(NamedTuple):
    """Columns, or expressions, that no two rows may have in common."""

    columns: tuple[str, ...]
    """Empty where there are expressions, or a condition."""
    is_primary: bool
    same: str
    """The SQL that holds for a row of the table which has them in common with NEW."""
    collations: tuple[str, ...] = ()


class Table(NamedTuple):
    """A table with the columns of an index that follows it, all names as the schema has them."""

    name: str
    columns: tuple[Column, ...]
    rowid: str | None
    """The column that is the rowid, None where it has no such name, or rows have none."""
    uniques: tuple[Unique, ...]
    following: Following
    condition_columns: tuple[str, ...]
    """Those that the condition reads."""
    key_collation: str | None
    """By which no two keys are equal, which that of the column need not be; None for a rowid."""


def found(db: Database, wanted: Following) -> Table:
    """The table as it is now. ParameterError for what cannot be followed."""
    name, has_rowid = _found_table(db, wanted.table)
    columns = tuple(_columns(db, name))
    alias = _rowid_alias(db, name, columns) if has_rowid else None
    uniques = tuple(_uniques(db, name, columns, alias))
    key = _key(name, wanted.key, columns, alias, uniques)
    text = _column(name, "text", wanted.text, columns)
    group = None if wanted.group is None else _column(name, "group", wanted.group, columns)
    read = () if wanted.where is None else condition_columns(wanted.where, tuple(column.name for column in columns), alias)
    following = Following(name, key, text, group, wanted.where, wanted.sync)
    collations = [unique.collations for unique in uniques if unique.columns == (key,)]
    collation = None if () in collations else min(collations)[0]  # BINARY where there is a choice
    return Table(name, columns, alias, uniques, following, read, collation)


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
    sql = """SELECT name, type, "notnull", pk FROM pragma_table_xinfo(?, 'main') WHERE hidden <> 1"""
    for name, kind, never_null, in_key in db.rows(sql, (table,)):
        yield Column(name, kind, bool(never_null), in_key)


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
        if unique.columns == (name,) and (unique.is_primary or next(c for c in columns if c.name == name).never_null):
            return name
    raise ParameterError(
        f"key={wanted!r}: this column of {table!r} is not the PRIMARY KEY, nor is it UNIQUE and NOT NULL, so it does not name "
        "one row: give a column that does"
    )


# ---- what excludes each other ----------------------------------------------------------------------------------------------


def _uniques(db: Database, table: str, columns: Sequence[Column], alias: str | None) -> Iterator[Unique]:
    """All that a REPLACE can remove other rows by. A rowid that is not declared is none of them: only SQL that writes a rowid
    by its name conflicts there."""
    if alias is not None:
        yield Unique((alias,), True, f"{quote(alias)} = NEW.{quote(alias)}")
    sql = "SELECT name, origin, partial FROM pragma_index_list(?, 'main') WHERE \"unique\" ORDER BY name"
    for index, origin, partial in db.rows(sql, (table,)):
        terms = db.rows("SELECT name, coll FROM pragma_index_xinfo(?, 'main') WHERE key ORDER BY seqno", (index,))
        names = tuple(name for name, _ in terms)
        plain = not partial and None not in names
        expressions, condition = ((), None) if plain else _parts(_definition(db, index))
        new = ", ".join(f"NEW.{quote(column.name)} AS {quote(column.name)}" for column in columns)
        same = [
            f"({expressions[place]}) = (SELECT {expressions[place]} FROM (SELECT {new}))"
            if name is None
            else f"{quote(name)} = NEW.{quote(name)} COLLATE {quote(collation)}"
            for place, (name, collation) in enumerate(terms)
        ]
        if condition is not None:
            same.append(f"({condition})")
        collations = tuple(collation for _, collation in terms)
        yield Unique(names if plain else (), origin == "pk", " AND ".join(same), collations)


def _definition(db: Database, index: str) -> str:
    text: str = db.value("SELECT sql FROM main.sqlite_schema WHERE type = 'index' AND name = ?", (index,))
    return text


_TOKEN = re.compile(
    r"""'(?:[^']|'')*' | "(?:[^"]|"")*" | `(?:[^`]|``)*` | \[[^\]]*\] | --[^\n]* | /\*.*?(?:\*/|\Z) | \w+ | \s+ | .""",
    re.DOTALL | re.VERBOSE,
)


def _parts(definition: str) -> tuple[list[str], str | None]:
    """The indexed terms of a CREATE INDEX, and its condition."""
    depth, terms, rest = 0, [""], ""
    ended = False
    for token in _TOKEN.findall(definition):
        if token.startswith(("--", "/*")):
            token = " "
        depth -= token == ")"
        if ended:
            rest += token
        elif depth == 0 and token == ")":
            ended = True
        elif depth == 1 and token == ",":
            terms.append("")
        elif depth >= 1:
            terms[-1] += token
        depth += token == "("
    orderless = [re.sub(r"\s+(ASC|DESC)\s*\Z", "", term, flags=re.IGNORECASE).strip() for term in terms]
    condition = re.match(r"\s*WHERE\b(.*)", rest, re.DOTALL | re.IGNORECASE)
    return orderless, condition and condition[1].strip()


_NOT_IN_CONDITIONS = frozenset(";?:@$#")
"""What separates statements, or begins a parameter, outside of quotation marks."""


# ---- the condition ---------------------------------------------------------------------------------------------------------


@lru_cache(64)
def condition_columns(where: str, columns: tuple[str, ...], rowid: str | None) -> tuple[str, ...]:
    """The columns that a condition reads. ParameterError for what is no condition on a row alone; nothing of it runs. rowid: the
    column that is the rowid; without one there is no such name.

    SQLite itself judges, by an empty table with columns of these names: it takes for the condition of an index only what follows
    from the row, with functions of its own. Two pairs of brackets around the text, of different kinds, show that it is one
    expression."""
    read: dict[str, None] = {}

    def note(operation: int, table: str | None, column: str | None, database: str | None, trigger: str | None) -> int:
        if operation == apsw.SQLITE_READ and column in columns:
            read[column] = None
        return apsw.SQLITE_OK

    with _scratch(where, columns, rowid) as scratch:
        wrong = _NOT_IN_CONDITIONS.intersection(_TOKEN.findall(where))
        if wrong:
            raise apsw.SQLError(f"it has {min(wrong)!r}")
        scratch.authorizer = note
        scratch.execute(f"EXPLAIN SELECT CASE WHEN {where}\n THEN 1 END FROM followed").fetchall()
        scratch.authorizer = None
        scratch.execute(f"EXPLAIN {_index_where(where, columns)}").fetchall()
    return tuple(read)


def require_lasting(where: str, columns: tuple[str, ...], rowid: str | None) -> None:
    """ParameterError for a condition, one that has columns to read, which depends on the time: some functions say so only when
    they run."""
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
