"""Reads indexes through Datasette's connection of sqlite3 or pysqlite3. The file is not opened a second time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from datasette.utils import sqlite_timelimit

from ..errors import MismatchError, NearDupError, ParameterError
from ..index import Index
from ..parameters import is_index_name
from ..show.figures import plain_rows
from ..store.database.open import load
from ..store.layout import schema
from ..store.layout.sketches import Sketch

TIME_LIMIT_S = 10.0  # the default time limit for the statements of one page, in seconds
Cursor = Any  # a cursor of sqlite3 or pysqlite3 that returns plain tuples


def load_functions(connection: Any) -> str | None:
    """Returns None, or the reason if the functions cannot be loaded."""
    try:
        if not connection.execute("SELECT 1 FROM pragma_module_list WHERE name = 'neardup_search'").fetchone():
            load(connection)
    except (ParameterError, connection.Error) as error:
        return (
            f"The SQL functions of neardup_db cannot be loaded ({error}). Datasette uses pysqlite3 once it is installed: "
            "pip install pysqlite3"
        )
    return None


@contextmanager
def reading(connection: Any, limit_s: float = TIME_LIMIT_S) -> Iterator[Cursor]:
    """A read transaction with a limit for its total time. SQLite's errors, and the end of the time, raise NearDupError."""
    begun = time.perf_counter()
    try:
        with sqlite_timelimit(connection, limit_s * 1000):
            connection.execute("BEGIN")
            try:
                yield plain_rows(connection)
            finally:
                if connection.in_transaction:
                    connection.execute("COMMIT")
    except (connection.Error, NearDupError) as error:
        if time.perf_counter() - begun >= limit_s:
            raise NearDupError(
                f"the answer took longer than the time limit of {limit_s:g} s: raise time_limit_s in the plugin's settings"
            ) from error
        if isinstance(error, NearDupError):
            raise
        raise NearDupError(f"SQLite: {error}") from error


def index_names(db: Cursor) -> list[str]:
    """Names that are unsafe in SQL, as in a hostile file, are skipped."""
    return [name for name in schema.index_names(db.execute) if is_index_name(name)]


def open_index(db: Cursor, name: str) -> Index:
    """The index of this name. Raises FormatError, CorruptIndexError, and MismatchError also if the connection cannot load the SQL
    functions."""
    if reason := load_functions(db.connection):
        raise MismatchError(reason)
    return Index(db.connection, name=name, read_only=True)


def similarities(index: Index, document_id: int, other_ids: list[int]) -> dict[int, tuple[float | None, int | None]]:
    """(similarity, distance) of a document to each of the others, by the index's own measure; (None, None) for a text without
    shingles."""
    search = index._readers.own.search
    head, *others = search.documents.rows_by_id([document_id, *other_ids])
    measured: dict[int, tuple[float | None, int | None]] = {}
    sketches: dict[int, Sketch] = {}  # usually only one document's
    for other in others:
        measured[other.id] = (None, None)
        a, b = search.closest(head, other)
        if a is not None and b is not None:
            sketch = sketches.get(a) or sketches.setdefault(a, search.stored_sketch(a))
            measured[other.id] = search.compared(sketch, search.stored_sketch(b))
    return measured
