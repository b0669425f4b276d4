"""The schema of an index: creation and settings."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

import apsw

from ...errors import CorruptIndexError, FormatError, NearDupError, ParameterError
from ...native import lib
from ..database.connection import Database

SCHEMA_VERSION: int = lib.ND_SCHEMA_VERSION

_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))

MIGRATIONS = os.path.join(_PACKAGE, "migrations")
"""NNNN_index.sql creates the common tables of schema version NNNN, NNNN_TABLE.sql another table."""
if not os.path.isdir(MIGRATIONS):  # an editable install uses those of the repository
    MIGRATIONS = os.path.join(os.path.dirname(_PACKAGE), "migrations")

ALONE = 2**62  # ALONE + id represents the label of a document in no cluster. Labels in files are smaller. SQL texts use {alone}

FRAGMENTS = ("visible", "document_codes", "coded", "nearer", "best_part", "unused")  # files of sql/ that others include
WITH_PARTS = ("matches", "matches_many", "nearest", "best", "count", "neighbours")
"""Files of sql/ with a variant, NAME_parts, for indexes with parts, where a document may have several fingerprints. A common text
would be slower for every index. Only `Store.frame` chooses."""

ONE_CODE = {"{codes}": "{index}_document", "{has_code}": "d.fingerprint_id = v.fingerprint_id"}
SEVERAL_CODES = {"{codes}": "{document_codes}", "{has_code}": "{coded}"}
"""For indexes without and with parts: rows (document, fingerprint), and the condition that document d has fingerprint v."""


@cache
def sql_text(name: str) -> str:
    lines = read_sql(name).splitlines()
    return with_fragments(" ".join(line.strip() for line in lines if not line.startswith("--")))


def with_fragments(text: str) -> str:
    for name in FRAGMENTS:
        text = text.replace(f"{{{name}}}", sql_text(name)) if f"{{{name}}}" in text else text
    return text


def parameters(sql: str) -> list[str]:
    """The parameters of a statement, in order of their numbers."""
    return list(dict.fromkeys(re.findall(r":([a-z_]+)", sql)))


def read_sql(name: str, folder: str = os.path.join(_PACKAGE, "sql")) -> str:
    with open(os.path.join(folder, f"{name}.sql"), encoding="utf-8") as file:
        return file.read()


OPTIONAL = ("dismissed", "change", "part", "allowed", "own_end")  # tables that are created when first needed
PENDING = "pending"  # the migration with the tables of an index that follows a table
FOLLOWING = ("pending", "excluded")  # these tables. They may be missing: dropping them loses no document


def create_tables(db: Database, name: str, *parts: str) -> None:
    """Create the common tables (part "index"), a candidate table, or tables of OPTIONAL or PENDING."""
    for part in parts:
        text = read_sql(f"{SCHEMA_VERSION:04}_{part}", MIGRATIONS)
        db.execute(text.replace("{index}", name)).fetchall()


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


def index_names(rows: Callable[[str], Iterable[Any]]) -> list[str]:
    """The indexes of a file. rows: runs a statement on it."""
    sql = """SELECT substr(a.name, 1, length(a.name) - 8) FROM sqlite_schema AS a JOIN sqlite_schema AS b
             ON b.name = substr(a.name, 1, length(a.name) - 8) || '_fingerprint'
             WHERE a.type = 'table' AND b.type = 'table' AND a.name LIKE '%\\_setting' ESCAPE '\\' ORDER BY 1"""
    return [row[0] for row in rows(sql)]


def is_empty(db: Database) -> bool:
    return db.value("SELECT 1 FROM sqlite_schema LIMIT 1") is None


def require_version(name: str, version: Any) -> None:
    if not isinstance(version, int) or version < 1:
        raise CorruptIndexError(f"index {name!r}: the setting schema_version is {version!r}")
    if version < SCHEMA_VERSION:
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
