"""The schema of an index inside a database: creating it, migrating it, its settings."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import apsw

from ...errors import CorruptIndexError, FormatError, NearDupError, ParameterError
from ...native import lib
from ..database.connection import Database
from .following import PREFIX

SCHEMA_VERSION: int = lib.ND_SCHEMA_VERSION

OLDEST_VERSION: int = lib.ND_OLDEST_SCHEMA_VERSION
"""The first version that was released; older files are refused."""

_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))

MIGRATIONS = os.path.join(_PACKAGE, "migrations")
"""NNNN_index.sql: the step to version NNNN of the tables that every index has; each version has one. NNNN_TABLE.sql: that of a
candidate table or of one of OPTIONAL, from the version on that brought it, where it has one."""
if not os.path.isdir(MIGRATIONS):  # an editable install: they are where the repository has them
    MIGRATIONS = os.path.join(os.path.dirname(_PACKAGE), "migrations")

ALONE = 2**62
"""ALONE + its id stands for the label of a document that is in no cluster; the file has none for it. Every label in a file is
smaller. SQL texts say {alone}."""


FRAGMENTS = ("visible", "document_codes", "coded", "nearer", "best_part")
"""Files of sql/ that are parts of others, which have their names in braces."""

WITH_PARTS = {
    "matches": "matches_parts",
    "matches_any": "matches_parts",
    "matches_many": "matches_many_parts",
    "nearest": "nearest_parts",
    "count": "count_parts",
    "neighbours": "neighbours_parts",
    "exported": "exported_parts",
}
"""The files of sql/ that have a twin for indexes with parts, where a document may have several fingerprints: they look for its
best code, or one text would be slower for every index. `Store.frame` is the only one to choose."""

ONE_CODE = {"{codes}": "{index}_document", "{has_code}": "d.fingerprint_id = v.fingerprint_id"}
SEVERAL_CODES = {"{codes}": "{document_codes}", "{has_code}": "{coded}"}
"""In an index without parts, and in one with them: a row for each fingerprint of a document, and the condition that a document d
has the fingerprint v."""


@cache
def sql_text(name: str) -> str:
    """A file of sql/ without its leading comment lines, in one line: each run finds its statement by its text."""
    lines = _read_sql(os.path.join(_PACKAGE, "sql", f"{name}.sql")).splitlines()
    return with_fragments(" ".join(line.strip() for line in lines if not line.startswith("--")))


def with_fragments(text: str) -> str:
    """SQL with the fragments that it names."""
    for name in FRAGMENTS:
        text = text.replace(f"{{{name}}}", sql_text(name)) if f"{{{name}}}" in text else text
    return text


def parameters(sql: str) -> list[str]:
    """The parameters of a statement, in the order of their numbers."""
    return list(dict.fromkeys(re.findall(r":([a-z_]+)", sql)))


def _step(version: int, part: str) -> str | None:
    path = os.path.join(MIGRATIONS, f"{version:04}_{part}.sql")
    return _read_sql(path) if os.path.isfile(path) else None


def _read_sql(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def _apply_steps(db: Database, name: str, part: str, after: int, newest: int | None = None) -> None:
    """Run the steps of the common tables (part "index") or of a candidate table that lead from a version to the newest one, None
    = that of this package."""
    newest = SCHEMA_VERSION if newest is None else newest
    steps = {version: _step(version, part) for version in range(max(after + 1, OLDEST_VERSION), newest + 1)}
    missing = [version for version, text in steps.items() if text is None]
    if missing and (part == "index" or (after == 0 and len(missing) == len(steps))):
        raise NearDupError(f"the package lacks migrations/{missing[0]:04}_{part}.sql: install neardup-db again")
    for text in steps.values():
        if text is not None:
            db.execute(text.replace("{index}", name)).fetchall()


OPTIONAL = ("dismissed", "change", "part", "allowed", "own_end")
"""Tables that an index gets when they are first wanted; the setting `table.NAME` is 1 from then on."""

RENEWABLE = ("dismissed", "change", "own_end")
"""Those of OPTIONAL that `check(repair=True)` makes again, empty, where they are missing: no document is lost with them."""

PENDING = "pending"
"""The migration with the tables of an index that follows another table."""

FOLLOWING = ("pending", "excluded")
"""These tables. They may be missing: whoever drops them loses no document."""


def create_tables(
    db: Database, name: str, table: str | None, newest: int | None = None, optional: Iterable[str] = ()
) -> None:
    """All tables of an index, at the newest version, with some of OPTIONAL."""
    _apply_steps(db, name, "index", 0, newest)
    create_candidate_table(db, name, table, newest)
    for part in optional:
        _apply_steps(db, name, part, 0, newest)


def create_optional(db: Database, name: str, part: str) -> None:
    """One of OPTIONAL, at the newest version."""
    _apply_steps(db, name, part, 0)
    write_settings(db, name, {f"table.{part}": 1})


def drop_optional(db: Database, name: str, part: str) -> None:
    """Remove one of OPTIONAL."""
    db.execute(f"DROP TABLE {name}_{part}")
    db.execute(f"DELETE FROM {name}_setting WHERE name = ?", (f"table.{part}",))


def optional_tables(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Those of OPTIONAL that an index has, by its settings."""
    return tuple(part for part in OPTIONAL if settings.get(f"table.{part}"))


def create_candidate_table(db: Database, name: str, table: str | None, newest: int | None = None) -> None:
    """The candidate table of a scheme, at the newest version; None where the scheme has none."""
    if table is not None:
        _apply_steps(db, name, table, 0, newest)


def create_pending_table(db: Database, name: str) -> None:
    """The tables of pending and excluded keys, of an index that follows a table."""
    _apply_steps(db, name, PENDING, 0)


def stored_name(db: Database, name: str) -> str | None:
    """The name, in the letters in which the index was created, since SQLite's names know no upper and lower case; or None."""
    sql = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name = ? COLLATE NOCASE"
    table: str | None = db.value(sql, (f"{name}_setting",))
    return None if table is None else table[: len(name)]


def of_names(db: Database, name: str, error: apsw.SQLError) -> NearDupError:
    """The error where an index cannot be created or read: perhaps objects of the application's have its names."""
    hidden = hiding(db, name)
    if hidden is not None:
        return hidden
    if str(error).endswith("already exists") or str(error).startswith("there is already"):
        return ParameterError(f"{error} in the database, and is not of index {name!r}: give the index another name")
    if db.value("SELECT 1 FROM main.sqlite_schema WHERE name = ? COLLATE NOCASE", (f"{name}_setting",)) is None:
        return FormatError(
            f"the database no longer holds index {name!r}: the transaction that created it was rolled back, or its tables were "
            "dropped; open the index again, with a scheme to create it"
        )
    return FormatError(f"the table {name}_setting is not of an index ({error}): give the index another name, or restore a backup")


def hiding(db: Database, name: str) -> ParameterError | None:
    """The error for a TEMP table or view that hides one of the index's."""
    sql = "SELECT name FROM temp.sqlite_schema WHERE type IN ('table', 'view') AND name LIKE ? ESCAPE '\\' LIMIT 1"
    found = db.value(sql, (f"{name}\\_%",))
    if found is None:
        return None
    return ParameterError(
        f"the connection's TEMP object {found!r} may hide a table of index {name!r}: drop it, or give the index another name"
    )


def index_names(db: Database) -> list[str]:
    sql = """SELECT substr(a.name, 1, length(a.name) - 8) FROM sqlite_schema AS a JOIN sqlite_schema AS b
             ON b.name = substr(a.name, 1, length(a.name) - 8) || '_fingerprint'
             WHERE a.type = 'table' AND b.type = 'table' AND a.name LIKE '%\\_setting' ESCAPE '\\' ORDER BY 1"""
    return [row[0] for row in db.rows(sql)]


def is_empty(db: Database) -> bool:
    return db.value("SELECT 1 FROM sqlite_schema LIMIT 1") is None


def require_version(name: str, version: Any) -> None:
    """Raise FormatError if this package does not know the schema version of an index."""
    if not isinstance(version, int) or version < 1:
        raise CorruptIndexError(f"index {name!r}: the setting schema_version is {version!r}")
    if version < OLDEST_VERSION:
        raise FormatError(
            f"index {name!r} has schema version {version}, which only prereleases of neardup-db read: make a new index from the "
            "texts, or from fingerprints that the older package exports"
        )
    if version > SCHEMA_VERSION:
        raise FormatError(
            f"index {name!r} has schema version {version}, this package knows {SCHEMA_VERSION}: install a newer neardup-db"
        )


def random_number() -> int:
    """A number, 1 to 2^63 - 1, that no other history of a file has."""
    return int.from_bytes(os.urandom(8), "big") % (2**63 - 1) + 1


def read_settings(db: Database, name: str) -> dict[str, Any]:
    """All settings of an index, after a look at its versions."""
    settings = dict(db.rows(f"SELECT name, value FROM {name}_setting"))
    hidden = None if "schema_version" in settings else hiding(db, name)
    if hidden is not None:
        raise hidden
    require_version(name, settings.get("schema_version"))
    for setting in ("generation", "next_cluster", "store_text", "record_matches", "crowds"):
        if not isinstance(settings.get(setting), int):
            raise CorruptIndexError(
                f"index {name!r}: the setting {setting} is {settings.get(setting)!r}, not a number: restore a backup"
            )
    algorithm = settings.get("algorithm_version")
    if algorithm != lib.ND_ALGORITHM_VERSION:
        raise FormatError(
            f"index {name!r} holds fingerprints of algorithm version {algorithm!r}, this package computes version "
            f"{lib.ND_ALGORITHM_VERSION}: open it with the neardup-db that wrote it, or build it again from the texts"
        )
    return settings


def write_settings(db: Database, name: str, settings: Mapping[str, Any]) -> None:
    db.execute_many(f"INSERT OR REPLACE INTO {name}_setting (name, value) VALUES (?, ?)", list(settings.items()))


def migrate(db: Database, name: str, settings: dict[str, Any], table: str | None) -> bool:
    """Bring an older schema up to date; True where there was something to do. Inside the caller's transaction."""
    old = settings["schema_version"]
    if old == SCHEMA_VERSION:  # another process was faster
        return False
    _apply_steps(db, name, "index", old)
    follows = f"{PREFIX}table" in settings
    for part in (table, *optional_tables(settings), PENDING if follows else None):
        if part is not None:
            _apply_steps(db, name, part, old)
    write_settings(db, name, {"schema_version": SCHEMA_VERSION, "generation": random_number()})
    return True
