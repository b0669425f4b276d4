"""Verifies table definitions: using an index file must not run code from its schema.

Triggers, CHECK constraints, generated columns, expression indexes, and views or virtual tables in place of tables run code. So
tables must be as the migrations create them, without triggers. Other tables, and indexes on plain columns, are the user's.
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
    type: str
    sql: str | None


Definitions = Mapping[str, Definition]  # schema entries by name
EVERY = ("index", *candidates.TABLES, *schema.OPTIONAL, schema.PENDING)  # all migrations


@cache
def expected(name: str, *migrations: str) -> Definitions:
    """The schema entries that migrations create for an index."""
    db = Database(apsw.Connection(":memory:"), owned=True, read_only=False)
    try:
        schema.create_tables(db, name, *migrations)
        rows = db.rows("SELECT name, type, sql FROM sqlite_schema WHERE name <> 'sqlite_sequence'")
        return {row[0]: Definition(*row[1:]) for row in rows}
    finally:
        db.close()


def require_data(db: Database, name: str) -> None:
    """Raise FormatError if using the index would run code from its schema."""
    known = expected(name, *EVERY)
    found = _actual_definitions(db, known)
    own = {entry for entry, definition in found.items() if definition == known.get(entry)}
    setting = f"{name}_setting"
    unused: set[str] = set()
    if setting in own:  # another version has other tables
        schema.require_version(name, db.value(f"SELECT value FROM {setting} WHERE name = 'schema_version'"))
        if db.value(f"SELECT 1 FROM {setting} WHERE name = '{PREFIX}table'") is None:  # else the application's
            unused = {f"{name}_{part}" for part in schema.FOLLOWING}
    own_tables = [entry for entry, definition in known.items() if definition.type == "table" and entry not in unused]
    for entry in found:
        if entry not in own and entry.casefold() in {table.casefold() for table in own_tables}:
            raise FormatError(
                f"the file's {found[entry].type} {entry!r} is not the table that this package makes: restore a backup, {_TRUST}"
            )
    sql = """SELECT l.name, t.value FROM json_each(?) AS t CROSS JOIN pragma_index_list(t.value) AS l
             CROSS JOIN pragma_index_xinfo(l.name) AS c
             WHERE (l.partial OR c.cid = -2) AND l.name NOT IN (SELECT value FROM json_each(?)) LIMIT 1"""
    for index, table in db.rows(sql, (json.dumps(own_tables), json.dumps(sorted(own)))):
        raise FormatError(
            f"the file has the index {index!r} on {table!r}, which computes an expression with every write: drop it, {_TRUST}"
        )
    if db.value("SELECT 1 FROM sqlite_schema WHERE sql LIKE '%trigger%' LIMIT 1"):
        _require_no_triggers(db, own_tables)


def require_tables(db: Database, name: str, required: Definitions) -> None:
    found = _actual_definitions(db, required)
    missing = [entry for entry, definition in required.items() if definition.type == "table" and entry not in found]
    if missing:
        raise CorruptIndexError(f"the file lacks the table {missing[0]!r} of index {name!r}: restore a backup")


def optional_tables(db: Database, name: str) -> tuple[str, ...]:
    """The existing tables of `schema.OPTIONAL`. A table with another definition belongs to the user."""
    found = _actual_definitions(db, [f"{name}_{part}" for part in schema.OPTIONAL])
    own = expected(name, *EVERY) if found else {}
    return tuple(part for part in schema.OPTIONAL if found.get(f"{name}_{part}", ()) == own.get(f"{name}_{part}"))


def changed(db: Database, required: Definitions) -> list[str]:
    """The names of tables, indexes and views that are missing or differ."""
    found = _actual_definitions(db, required)
    return sorted(entry for entry in required if found.get(entry) != required[entry])


def restore(db: Database, required: Definitions) -> list[str]:
    """Recreate missing or changed indexes and views. Returns their names."""
    restored = []
    for entry in changed(db, required):
        definition = required[entry]
        if definition.type in ("index", "view") and definition.sql is not None:
            existing = _actual_definitions(db, [entry]).get(entry)
            if existing is not None and existing.type == definition.type:
                db.execute(f'DROP {definition.type.upper()} "{entry}"')
            db.execute(definition.sql)
            restored.append(entry)
    return restored


def _actual_definitions(db: Database, names: Iterable[str]) -> dict[str, Definition]:
    sql = "SELECT name, type, sql FROM sqlite_schema WHERE name COLLATE NOCASE IN (SELECT value FROM json_each(?))"
    return {row[0]: Definition(*row[1:]) for row in db.rows(sql, (json.dumps(list(names)),))}


def _require_no_triggers(db: Database, names: list[str]) -> None:
    """Raise FormatError for triggers. SQLite reports them when it compiles a write, whatever the rows of the schema say."""
    triggers: list[str] = []

    def record_trigger(operation: int, one: Any, two: Any, database: Any, trigger: str | None) -> int:
        if trigger is not None:
            triggers.append(trigger)
        return apsw.SQLITE_OK

    db.connection.authorizer = record_trigger
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
