"""The table definitions of a file: an index file is data, so nothing in it may run code of its own when it is read or written.

SQLite runs the code in a schema: triggers, CHECK constraints, generated columns, expressions in indexes, and views and virtual
tables instead of tables. Tables must therefore be those that the migrations make, to the letter, without triggers. Indexes on
plain columns and tables beside ours are the user's own.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple

import apsw

from ...errors import CorruptIndexError, FormatError
from ..database.connection import Database
from . import candidates, schema
from .following import PREFIX

_TRUST = "or, if you trust whoever wrote the file, open it yourself and give the apsw.Connection"


class Definition(NamedTuple):
    """A row of sqlite_schema."""

    type: str
    sql: str | None


def expected(name: str, table: str | None, optional: tuple[str, ...] = ()) -> Mapping[str, Definition]:
    """What an index of this name has, by name; table: its candidate table; optional: those of `schema.OPTIONAL` that it has."""
    return _expected_definitions(name, table, schema.SCHEMA_VERSION, optional)


@cache
def _expected_definitions(name: str, table: str | None, version: int, optional: tuple[str, ...]) -> Mapping[str, Definition]:
    """The same at a schema version."""
    db = Database(apsw.Connection(":memory:"), owned=True, read_only=False)
    try:
        schema.create_tables(db, name, table, version, optional)
        rows = db.rows("SELECT name, type, sql FROM sqlite_schema WHERE name <> 'sqlite_sequence'")
        return {row[0]: Definition(*row[1:]) for row in rows}
    finally:
        db.close()


def require_data(db: Database, name: str) -> None:
    """Raise FormatError where reading or writing the index would run code from its schema."""
    versions = range(schema.OLDEST_VERSION, schema.SCHEMA_VERSION + 1)
    parts = (*schema.OPTIONAL, schema.PENDING)
    known = [_expected_definitions(name, table, version, parts) for version in versions for table in candidates.TABLES]
    names = sorted({name for made in known for name in made})
    found = _actual_definitions(db, names)
    ours = {entry for entry, made in found.items() if any(made == there.get(entry) for there in known)}
    setting = f"{name}_setting"
    unused: set[str] = set()
    if setting in ours:  # a newer version's tables are others
        schema.require_version(name, db.value(f"SELECT value FROM {setting} WHERE name = 'schema_version'"))
        if db.value(f"SELECT 1 FROM {setting} WHERE name = '{PREFIX}table'") is None:  # the application's, if they are there
            unused = {f"{name}_{part}" for part in schema.FOLLOWING}
    ours_tables = sorted({entry for made in known for entry in made if made[entry].type == "table"} - unused)
    for entry in found:
        if entry not in ours and entry.casefold() in {table.casefold() for table in ours_tables}:
            raise FormatError(
                f"the file's {found[entry].type} {entry!r} is not the table that this package makes: restore a backup, {_TRUST}"
            )
    sql = """SELECT l.name, t.value FROM json_each(?) AS t CROSS JOIN pragma_index_list(t.value) AS l
             CROSS JOIN pragma_index_xinfo(l.name) AS c
             WHERE (l.partial OR c.cid = -2) AND l.name NOT IN (SELECT value FROM json_each(?)) LIMIT 1"""
    for index, table in db.rows(sql, (_json(ours_tables), _json(ours))):
        raise FormatError(
            f"the file has the index {index!r} on {table!r}, which computes an expression with every write: drop it, {_TRUST}"
        )
    if db.value("SELECT 1 FROM sqlite_schema WHERE sql LIKE '%trigger%' LIMIT 1"):
        _require_no_triggers(db, ours_tables)


def require_tables(db: Database, name: str, table: str | None, optional: tuple[str, ...]) -> None:
    """Raise CorruptIndexError where a table of the index is missing."""
    wanted = [entry for entry, made in expected(name, table, optional).items() if made.type == "table"]
    missing = [entry for entry in wanted if entry not in _actual_definitions(db, wanted)]
    if missing:
        raise CorruptIndexError(f"the file lacks the table {missing[0]!r} of index {name!r}: restore a backup")


def missing(db: Database, name: str, optional: tuple[str, ...]) -> list[str]:
    """Those of `schema.RENEWABLE` that an index should have, and that are not there."""
    wanted = [part for part in optional if part in schema.RENEWABLE]
    found = _actual_definitions(db, [f"{name}_{part}" for part in wanted]) if wanted else {}
    return [part for part in wanted if f"{name}_{part}" not in found]


def unlisted(db: Database, name: str, settings: Mapping[str, Any]) -> list[str]:
    """Those of `schema.OPTIONAL` whose tables are there, as this package makes them, and whose settings do not say so: these are
    lost or damaged. Another table of that name is the user's own."""
    silent = [part for part in schema.OPTIONAL if settings.get(f"table.{part}") != 1]
    found = _actual_definitions(db, [f"{name}_{part}" for part in silent])
    ours = expected(name, None, schema.OPTIONAL) if found else {}
    return [part for part in silent if found.get(f"{name}_{part}", ()) == ours.get(f"{name}_{part}")]


def changed(db: Database, name: str, table: str | None, optional: tuple[str, ...]) -> list[str]:
    """Names of tables, indexes and views of the index that are missing, or not what the migrations made."""
    wanted = expected(name, table, optional)
    found = _actual_definitions(db, list(wanted))
    return sorted(entry for entry in wanted if found.get(entry) != wanted[entry])


def restore(db: Database, name: str, table: str | None, optional: tuple[str, ...]) -> list[str]:
    """Make indexes and views again that are missing or changed, and tables of `schema.RENEWABLE` that are missing; returns their
    names."""
    done = []
    for part in missing(db, name, optional):
        schema.create_optional(db, name, part)
        done.append(f"{name}_{part}")
    for entry in changed(db, name, table, optional):
        made = expected(name, table, optional)[entry]
        if made.type in ("index", "view") and made.sql is not None:
            there = _actual_definitions(db, [entry]).get(entry)
            if there is not None and there.type == made.type:
                db.execute(f'DROP {made.type.upper()} "{entry}"')
            db.execute(made.sql)
            done.append(entry)
    return done


def _actual_definitions(db: Database, names: list[str]) -> dict[str, Definition]:
    sql = "SELECT name, type, sql FROM sqlite_schema WHERE name COLLATE NOCASE IN (SELECT value FROM json_each(?))"
    return {row[0]: Definition(*row[1:]) for row in db.rows(sql, (_json(names),))}


def _json(names: Iterable[str]) -> str:
    return json.dumps(sorted(names))


def _require_no_triggers(db: Database, names: list[str]) -> None:
    """SQLite itself is asked, whatever a row of the schema says it is about: compiling a write names the triggers it runs."""
    triggers: list[str] = []

    def note(operation: int, one: Any, two: Any, database: Any, trigger: str | None) -> int:
        if trigger is not None:
            triggers.append(trigger)
        return apsw.SQLITE_OK

    db.connection.authorizer = note
    try:
        for table in names:
            columns = [row[0] for row in db.rows("SELECT name FROM pragma_table_info(?)", (table,))]
            if not columns:
                continue
            changes = ", ".join(f'"{column}" = NULL' for column in columns)
            for write in (f"INSERT INTO {table} DEFAULT VALUES", f"UPDATE {table} SET {changes}", f"DELETE FROM {table}"):
                db.rows(f"EXPLAIN {write}")
            if triggers:
                raise FormatError(
                    f"the file has the trigger {triggers[0]!r}, which would run with every write to {table!r}: drop it, {_TRUST}"
                )
    finally:
        db.connection.authorizer = None
