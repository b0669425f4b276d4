"""Connections with the extension, and the pieces of an index that is made by hand, from migrations and settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw
import pytest

import neardup_db

PACKAGE = Path(neardup_db.extension_path()).parent

TEXT_RULES: dict[str, Any] = {
    "text.normalize": "NFKC", "text.case": "fold", "text.tokens": "words", "text.shingle": 3, "text.joiner": None,
    "text.nonword": "space", "text.short": "whole", "text.stopwords": "[]", "text.filter": None, "text.strip_accents": 0,
    "text.hash": "xxh3_64", "text.hash_seed": 0, "text.min_tokens": 0,
}  # fmt: skip
"""Settings of the default text rules."""


def load_extension(connection: apsw.Connection) -> None:
    """As an application does by itself."""
    connection.enable_load_extension(True)
    connection.load_extension(str(neardup_db.extension_path()), "sqlite3_neardup_init")


def open_database(path: str = ":memory:") -> apsw.Connection:
    """A connection with the extension."""
    connection = apsw.Connection(path)
    load_extension(connection)
    return connection


def damage(path: Path, sql: str) -> None:
    """Change a file behind the index's back; `@` stands for `neardup_`."""
    connection = apsw.Connection(str(path))
    connection.execute(sql.replace("@", "neardup_"))
    connection.close()


def sql_file(folder: str, name: str, index: str) -> str:
    """A file of SQL of the package, for an index of a name."""
    lines = (PACKAGE / folder / f"{name}.sql").read_text("utf-8").splitlines()
    return "\n".join(line for line in lines if not line.startswith("--")).replace("{index}", index)


def refused(db: apsw.Connection, sql: str, *values: Any) -> str:
    """What the error of a statement says."""
    with pytest.raises(apsw.SQLError) as caught:
        db.execute(sql, values).fetchall()
    return str(caught.value)
