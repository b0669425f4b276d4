"""The schema of an index: creation, migration and settings."""

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
"""The first released version; older files are refused."""

_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))

MIGRATIONS = os.path.join(_PACKAGE, "migrations")
"""NNNN_index.sql migrates the common tables to version NNNN; each version has one. NNNN_TABLE.sql creates or migrates a
candidate table or a table of OPTIONAL."""
if not os.path.isdir(MIGRATIONS):  # an editable install uses those of the repository
    MIGRATIONS = os.path.join(os.path.dirname(_PACKAGE), "migrations")

ALONE = 2**62
"""ALONE + id represents the label of a document in no cluster; the file stores none. Labels in files are smaller. SQL texts
use {alone}."""


FRAGMENTS = ("visible", "document_codes", "coded", "nearer", "best_part")
"""Files of sql/ that other files include by their names in braces."""

WITH_PARTS = {
    "matches": "matches_parts",
    "matches_any": "matches_parts",
    "matches_many": "matches_many_parts",
    "nearest": "nearest_parts",
    "count": "count_parts",
    "neighbours": "neighbours_parts",
    "exported": "exported_parts",
}
"""Files of sql/ with a variant for indexes with parts, where a document may have several fingerprints. A common text would be
slower for every index. Only `Store.frame` chooses."""

ONE_CODE = {"{codes}": "{index}_document", "{has_code}": "d.fingerprint_id = v.fingerprint_id"}
SEVERAL_CODES = {"{codes}": "{document_codes}", "{has_code}": "{coded}"}
"""For indexes without and with parts: rows (document, fingerprint), and the condition that document d has fingerprint v."""


@cache
def sql_text(name: str) -> str:
    lines = _read_sql(os.path.join(_PACKAGE, "sql", f"{name}.sql")).splitlines()
    return with_fragments(" ".join(line.strip() for line in lines if not line.startswith("--")))


def with_fragments(text: str) -> str:
    for name in FRAGMENTS:
        text = text.replace(f"{{{name}}}", sql_text(name)) if f"{{{name}}}" in text else text
    return text


def parameters(sql: str) -> list[str]:
    """The parameters of a statement, in order of their numbers."""
    return list(dict.fromkeys(re.findall(r":([a-z_]+)", sql)))


def _migration_text(version: int, part: str) -> str | None:
    path = os.path.join(MIGRATIONS, f"{version:04}_{part}.sql")
    return _read_sql(path) if os.path.isfile(path) else None


def _read_sql(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def _apply_steps(db: Database, name: str, part: str, after: int, newest: int | None = None) -> None:
    """Run the migrations of the common tables (part "index") or of another table after a version; newest: the last version,
    None for the current one."""
    newest = SCHEMA_VERSION if newest is None else newest
    steps = {version: _migration_text(version, part) for version in range(max(after + 1, OLDEST_VERSION), newest + 1)}
    missing = [version for version, text in steps.items() if text is None]
    if missing and (part == "index" or (after == 0 and len(missing) == len(steps))):
        raise NearDupError(f"the package lacks migrations/{missing[0]:04}_{part}.sql: install neardup-db again")
    for text in steps.values():
        if text is not None:
            db.execute(text.replace("{index}", name)).fetchall()


OPTIONAL = ("dismissed", "change", "part", "allowed", "own_end")
"""Tables that are created when first needed; the setting `table.NAME` is 1 from then on."""

RENEWABLE = ("dismissed", "change", "own_end")
"""Tables of OPTIONAL that `check(repair=True)` recreates empty if they are missing, which loses no document."""

PENDING = "pending"
"""The migration with the tables of an index that follows a table."""

FOLLOWING = ("pending", "excluded")
"""These tables. They may be missing: dropping them loses no document."""


def create_tables(db: Database, name: str, table: str | None, newest: int | None = None, optional: Iterable[str] = ()) -> None:
    _apply_steps(db, name, "index", 0, newest)
    create_candidate_table(db, name, table, newest)
    for part in optional:
        _apply_steps(db, name, part, 0, newest)


def create_optional(db: Database, name: str, part: str) -> None:
    _apply_steps(db, name, part, 0)
    write_settings(db, name, {f"table.{part}": 1})


def drop_optional(db: Database, name: str, part: str) -> None:
    db.execute(f"DROP TABLE {name}_{part}")
    db.execute(f"DELETE FROM {name}_setting WHERE name = ?", (f"table.{part}",))


def optional_tables(settings: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(part for part in OPTIONAL if settings.get(f"table.{part}"))


def create_candidate_table(db: Database, name: str, table: str | None, newest: int | None = None) -> None:
    if table is not None:
        _apply_steps(db, name, table, 0, newest)


def create_pending_table(db: Database, name: str) -> None:
    """Create the tables of pending and excluded keys, for an index that follows a table."""
    _apply_steps(db, name, PENDING, 0)


def stored_name(db: Database, name: str) -> str | None:
    """The index name as it was created, or None. SQLite ignores case."""
    sql = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name = ? COLLATE NOCASE"
    table: str | None = db.value(sql, (f"{name}_setting",))
    return None if table is None else table[: len(name)]


def naming_error(db: Database, name: str, error: apsw.SQLError) -> NearDupError:
    """The error if an index cannot be created or read, perhaps because other objects have its names."""
    hidden = temp_object_error(db, name)
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


def temp_object_error(db: Database, name: str) -> ParameterError | None:
    """The error if a TEMP table or view hides a table of the index."""
    sql = "SELECT name FROM temp.sqlite_schema WHERE type IN ('table', 'view') AND name LIKE ? ESCAPE '\\' LIMIT 1"
    hidden = db.value(sql, (f"{name}\\_%",))
    if hidden is None:
        return None
    return ParameterError(
        f"the connection's TEMP object {hidden!r} may hide a table of index {name!r}: drop it, or give the index another name"
    )


def index_names(db: Database) -> list[str]:
    sql = """SELECT substr(a.name, 1, length(a.name) - 8) FROM sqlite_schema AS a JOIN sqlite_schema AS b
             ON b.name = substr(a.name, 1, length(a.name) - 8) || '_fingerprint'
             WHERE a.type = 'table' AND b.type = 'table' AND a.name LIKE '%\\_setting' ESCAPE '\\' ORDER BY 1"""
    return [row[0] for row in db.rows(sql)]


def is_empty(db: Database) -> bool:
    return db.value("SELECT 1 FROM sqlite_schema LIMIT 1") is None


def require_version(name: str, version: Any) -> None:
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
    """From 1 to 2^63 - 1, unique in practice."""
    return int.from_bytes(os.urandom(8), "big") % (2**63 - 1) + 1


def read_settings(db: Database, name: str) -> dict[str, Any]:
    """All settings of an index, after checking its versions."""
    settings = dict(db.rows(f"SELECT name, value FROM {name}_setting"))
    hidden = None if "schema_version" in settings else temp_object_error(db, name)
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
    """Migrate an older schema. Returns False if it was current. Runs inside the caller's transaction."""
    old = settings["schema_version"]
    if old == SCHEMA_VERSION:  # another process migrated it first
        return False
    _apply_steps(db, name, "index", old)
    follows = f"{PREFIX}table" in settings
    for part in (table, *optional_tables(settings), PENDING if follows else None):
        if part is not None:
            _apply_steps(db, name, part, old)
    write_settings(db, name, {"schema_version": SCHEMA_VERSION, "generation": random_number()})
    return True
