"""The triggers on a followed table: plain SQL that any client fires. They only append the keys of changed rows to the table of
pending keys, so they never make a write of the application fail.

REPLACE deletes rows without a DELETE trigger; `sync` detects that by counting rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ...errors import MismatchError
from ..layout import definitions, schema
from ..layout.state import Store
from .table import Table, quote

_ROWID = "rowid, oid, _rowid_"  # names by which an UPDATE can set an INTEGER PRIMARY KEY. Unused names have no effect


def expected_triggers(index: str, table: Table) -> Mapping[str, str]:
    """The triggers' names and texts. Updates of other columns fire none, unless there is a condition, which may read them."""
    following, on = table.following, quote(table.name)
    key, insert = quote(following.key), f"INSERT INTO {index}_pending (key) VALUES"
    watched = [name for name in (following.key, following.text, following.group) if name is not None]
    of_any = "" if following.where is not None else _update_columns(table, watched)
    bodies = (
        f"AFTER INSERT ON {on} BEGIN {insert} (NEW.{key}); END",
        f"AFTER UPDATE{_update_columns(table, [following.key])} ON {on} BEGIN {insert} (OLD.{key}); END",
        f"AFTER UPDATE{of_any} ON {on} BEGIN {insert} (NEW.{key}); END",
        f"AFTER DELETE ON {on} BEGIN {insert} (OLD.{key}); END",
    )
    return {name: f"CREATE TRIGGER {name} {body}" for name, body in zip(_names(index), bodies, strict=True)}


def _update_columns(table: Table, watched: Sequence[str]) -> str:
    """The UPDATE columns that can change these columns; all if one is generated."""
    if any(column.generated for column in table.columns if column.name in watched):
        return ""
    return f" OF {', '.join(map(quote, dict.fromkeys(watched)))}, {_ROWID}"


def _names(index: str) -> list[str]:
    return [f"{index}_follow_{event}" for event in ("insert", "key", "update", "delete")]


def _is_own(store: Store, kind: str, name: str, sql: str | None) -> bool:
    """True if this package created the object, whatever ALTER TABLE has made of a trigger."""
    if kind == "trigger":
        return f"INSERT INTO {store.name}_pending (key) VALUES" in (sql or "")
    definition = definitions.expected(store.name, schema.PENDING).get(name)
    return definition is not None and definition == (kind, sql)


def _present(store: Store) -> Iterator[tuple[str, str, str | None]]:
    sql = "SELECT type, name, sql FROM main.sqlite_schema WHERE type {} 'trigger' AND name COLLATE NOCASE IN ({})"
    tables = {f"{store.name}_{part}" for part in schema.FOLLOWING}
    for kind, names in (("=", _names(store.name)), ("<>", tables)):
        yield from store.db.rows(sql.format(kind, ", ".join(f"'{name}'" for name in names)))


def has_triggers(store: Store, table: Table) -> bool:
    present = list(_present(store))
    found = {name: sql for kind, name, sql in present if kind == "trigger"}
    tables = [one for one in present if one[0] != "trigger"]
    is_sound = len(tables) == len(schema.FOLLOWING) and all(_is_own(store, *one) for one in tables)
    return is_sound and found == expected_triggers(store.name, table) and not _others_fire_first(store, table)


def _others_fire_first(store: Store, table: Table) -> bool:
    """True if another trigger on the table is newer. SQLite fires the newest first, and RAISE(IGNORE) or FAIL in it would
    prevent these triggers. Triggers of other indexes are harmless."""
    sql = """SELECT name FROM main.sqlite_schema WHERE type = 'trigger' AND tbl_name = ? COLLATE NOCASE
             AND rowid > (SELECT rowid FROM main.sqlite_schema WHERE type = 'trigger' AND name = ?)"""
    newer = {name for (name,) in store.db.rows(sql, (table.name, f"{store.name}_follow_insert"))}
    newer -= set(_names(store.name))
    return bool(newer) and not newer <= {name for index in schema.index_names(store.db.rows) for name in _names(index)}


def tables_exist(store: Store) -> bool:
    return sum(_is_own(store, *one) for one in _present(store) if one[0] == "table") == len(schema.FOLLOWING)


def install(store: Store, table: Table) -> None:
    """Create the triggers and their tables anew. Raises MismatchError, before any change, if the application uses a name."""
    for kind, name, sql in _present(store):
        if not _is_own(store, kind, name, sql):
            raise MismatchError(
                f"the database has a {kind} {name!r} that neardup_db did not make, and index {store.name!r} needs that name to "
                f"follow {table.name!r}: give the {kind} another name, or follow the table by an index of another name (name=...)"
            )
    if tables_exist(store):
        _drop(store, "trigger")
    else:
        remove(store)
        schema.create_tables(store.db, store.name, schema.PENDING)
    for name, text in expected_triggers(store.name, table).items():
        store.db.execute(text.replace(f"CREATE TRIGGER {name}", f"CREATE TRIGGER main.{name}", 1))


def remove(store: Store) -> None:
    """Drop the triggers, on any table, then the tables that they write to; not objects of the application with these names."""
    _drop(store, "trigger")
    _drop(store, "table")


def _drop(store: Store, kind: str) -> None:
    for one in list(_present(store)):
        if one[0] == kind and _is_own(store, *one):
            store.db.execute(f"DROP {kind} main.{one[1]}")
