"""Reads indexes through Datasette's connection of sqlite3 or pysqlite3. The file is not opened a second time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..errors import NearDupError, ParameterError
from ..index import Index
from ..parameters import is_index_name
from ..store.database.open import load
from ..store.layout import schema
from ..store.layout.sketches import Sketch
from ..store.query.documents import DocumentRow

_STEPS = 2000
"""SQLite instructions between two checks of the clock."""


class TookTooLong(NearDupError):
    pass


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


class ForeignDatabase:
    """A connection that returns plain tuples, whatever row factory Datasette has set, and NearDupError for SQLite's errors."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self._overdue = False
        self._limit_s = 0.0

    def rows(self, sql: str, bindings: Any = ()) -> list[tuple[Any, ...]]:
        with self._translated():
            cursor = self.connection.cursor()
            cursor.row_factory = None
            return cursor.execute(sql, bindings).fetchall()  # type: ignore[no-any-return]

    def execute(self, sql: str, bindings: Any = ()) -> list[tuple[Any, ...]]:
        """As a connection, for the figures."""
        return self.rows(sql, bindings)

    def row(self, sql: str, bindings: Any = ()) -> tuple[Any, ...] | None:
        return next(iter(self.rows(sql, bindings)), None)

    def value(self, sql: str, bindings: Any = ()) -> Any:
        row = self.row(sql, bindings)
        return None if row is None else row[0]

    @contextmanager
    def reading(self) -> Iterator[None]:
        """One read transaction."""
        with self._translated():
            self.connection.execute("BEGIN")
            try:
                yield
            finally:
                if self.connection.in_transaction:
                    self.connection.execute("COMMIT")

    @contextmanager
    def time_limit(self, seconds: float) -> Iterator[None]:
        """Limits the total time of all statements in the block; after that they raise TookTooLong."""
        deadline = time.monotonic() + seconds
        self._overdue, self._limit_s = False, seconds

        def is_overdue() -> bool:
            self._overdue = time.monotonic() > deadline
            return self._overdue

        self.connection.set_progress_handler(is_overdue, _STEPS)
        try:
            yield
        finally:
            self.connection.set_progress_handler(None, _STEPS)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (self.connection.Error, NearDupError) as error:
            if self._overdue and not isinstance(error, TookTooLong):
                raise TookTooLong(
                    f"the answer took longer than the time limit of {self._limit_s:g} s: raise time_limit_s in the plugin's "
                    "settings"
                ) from error
            if isinstance(error, NearDupError):
                raise
            raise NearDupError(f"SQLite: {error}") from error


def index_names(db: ForeignDatabase) -> list[str]:
    """Names that are unsafe in SQL, as in a hostile file, are skipped."""
    return [name for name in schema.index_names(db) if is_index_name(name)]


def open_index(db: ForeignDatabase, name: str) -> Index:
    """The index of this name. Raises FormatError, MismatchError or CorruptIndexError, and ParameterError if the connection cannot
    load the SQL functions."""
    return Index(db.connection, name=name, read_only=True)


def similarities(index: Index, document_id: int, other_ids: list[int]) -> dict[int, tuple[float | None, int | None]]:
    """(similarity, distance) of a document to each of the others, by the index's own measure; (None, None) for a text without
    shingles."""
    store, search = index._store, index._readers.own.search

    def row(number: int) -> DocumentRow:
        sql = store.sql("SELECT id, group_id, fingerprint_id, expires_at FROM {index}_document WHERE id = ?")
        return DocumentRow(*(store.db.row(sql, (number,)) or (number, 0, None, None)))

    head = row(document_id)
    measured: dict[int, tuple[float | None, int | None]] = {}
    sketches: dict[int, Sketch] = {}  # usually only one document's
    for number in other_ids:
        measured[number] = (None, None)
        a, b = search.closest(head, row(number))
        if a is not None and b is not None:
            sketch = sketches.get(a) or sketches.setdefault(a, search.stored_sketch(a))
            measured[number] = search.compared(sketch, search.stored_sketch(b))
    return measured
