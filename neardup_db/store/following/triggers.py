"""The triggers on a followed table. They are plain SQL, so any client fires them, and append the keys of changed rows to the
table of pending ones: nothing in them can refuse a write of the application.

REPLACE removes rows without a DELETE trigger, so what a new row would replace is noted before: by each unique index but that of
the key itself, whose value the new row has."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from ..layout import definitions, schema
from ..layout.state import Store
from .table import Table, Unique, quote

_EVENTS = ("before_insert", "insert", "before_update", "update", "delete")


def names(index: str) -> list[str]:
    """Of all triggers that an index can have."""
    return [f"{index}_follow_{event}" for event in _EVENTS]


def wanted(index: str, table: Table) -> Mapping[str, str]:
    """The triggers that a table needs now, name and text as the schema has them."""
    key = quote(table.following.key)
    into = f"INSERT INTO {index}_pending (key)"
    victims = [f"{into} SELECT {key} FROM {quote(table.name)} WHERE {one.same}" for one in table.uniques if _may_hit(one, table)]
    watched = [table.following.key, table.following.text, table.following.group, *table.condition_columns]
    changed = " OR ".join(map(_differs, dict.fromkeys(column for column in watched if column is not None)))
    bodies = {
        "insert": ("AFTER INSERT", "", [f"{into} VALUES (NEW.{key})"]),
        "update": (
            "AFTER UPDATE",
            f" WHEN {changed}",
            [f"{into} VALUES (NEW.{key})", f"{into} SELECT OLD.{key} WHERE {_differs(table.following.key)}"],
        ),
        "delete": ("AFTER DELETE", "", [f"{into} VALUES (OLD.{key})"]),
    }
    if victims:
        others = [f"{victim} AND {key} IS NOT OLD.{key}" for victim in victims]
        bodies |= {"before_insert": ("BEFORE INSERT", "", victims), "before_update": ("BEFORE UPDATE", "", others)}
    return {
        f"{index}_follow_{event}": (
            f"CREATE TRIGGER {index}_follow_{event} {when} ON {quote(table.name)}{condition} BEGIN {'; '.join(body)}; END"
        )
        for event, (when, condition, body) in bodies.items()
    }


def _may_hit(unique: Unique, table: Table) -> bool:
    """Whether a row can be replaced because of this and have another key than the new row. Equal keys are the same bytes where
    the column makes one kind of value of all, and compares it as it is."""
    key = table.following.key
    if unique.columns != (key,):
        return True
    kind = next(column.type for column in table.columns if column.name == key)
    one_kind = re.search("INT|CHAR|CLOB|TEXT", kind, re.IGNORECASE)
    return bool(unique.collations) and (unique.collations != ("BINARY",) or one_kind is None)


def _differs(column: str) -> str:
    """The SQL that holds where an UPDATE changes a column, letters and type included."""
    old, new = f"OLD.{quote(column)}", f"NEW.{quote(column)}"
    return f"({old} IS NOT {new} COLLATE BINARY OR typeof({old}) <> typeof({new}))"


def are_there(store: Store, table: Table) -> bool:
    """Whether the triggers, and the table that they write to, are as they have to be."""
    return dict(_present(store)) == wanted(store.name, table) and not _pending_is_other(store)


def _present(store: Store) -> Iterator[tuple[str, str]]:
    sql = "SELECT name, sql FROM main.sqlite_schema WHERE type = 'trigger' AND name IN ({})".format(
        ", ".join(f"'{name}'" for name in names(store.name))
    )
    yield from store.db.rows(sql)


def _pending_is_other(store: Store) -> bool:
    return f"{store.name}_pending" in definitions.changed(store.db, store.name, store.scheme.table, (schema.PENDING,))


def pending_exists(store: Store) -> bool:
    """Whether there is a table of pending keys."""
    sql = "SELECT 1 FROM main.sqlite_schema WHERE type = 'table' AND name = ?"
    return store.db.value(sql, (f"{store.name}_pending",)) is not None


def install(store: Store, table: Table) -> None:
    """Make the triggers, and the table that they write to, whatever there is of them."""
    remove(store)
    if pending_exists(store) and _pending_is_other(store):
        store.db.execute(store.sql("DROP TABLE main.{index}_pending"))
    if not pending_exists(store):
        schema.create_pending_table(store.db, store.name)
    for name, text in wanted(store.name, table).items():
        store.db.execute(text.replace(f"CREATE TRIGGER {name}", f"CREATE TRIGGER main.{name}", 1))


def remove(store: Store) -> None:
    """Drop the triggers, on whichever table they are by now."""
    for name in names(store.name):
        store.db.execute(f"DROP TRIGGER IF EXISTS main.{name}")
