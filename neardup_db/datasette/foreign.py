"""Reads an index through another program's connection of sqlite3 or pysqlite3.

The file is not opened a second time: the connection runs the same SQL that an `Index` runs on its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..errors import NearDupError, ParameterError
from ..parameters import is_index_name
from ..reader import Reader
from ..store.asking.documents import DocumentRow
from ..store.database.connection import Database
from ..store.database.open import load
from ..store.layout import schema
from ..store.layout.sketches import Sketch
from ..store.layout.state import Answer, Store

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


class ForeignDatabase(Database):
    """Another program's connection of sqlite3 or pysqlite3, with the package's connection interface."""

    is_trusted = False

    def __init__(self, connection: Any) -> None:
        super().__init__(connection, owned=False, read_only=True)
        self._overdue = False
        self._limit_s = 0.0

    def execute(self, sql: str, bindings: Any = None) -> Any:
        with self._translated():
            cursor: Any = self.connection.cursor()
            cursor.row_factory = None  # plain tuples, whatever the application has set
            names = schema.parameters(sql)
            if names and isinstance(bindings, tuple):  # Python 3.14's sqlite3 binds named parameters by name only
                bindings = dict(zip(names, bindings, strict=True))
            return cursor.execute(sql, () if bindings is None else bindings)

    def rows(self, sql: str, bindings: Any = None) -> list[tuple[Any, ...]]:
        with self._translated():
            return super().rows(sql, bindings)

    def row(self, sql: str, bindings: Any = None) -> tuple[Any, ...] | None:
        with self._translated():
            return super().row(sql, bindings)

    @contextmanager
    def first_row(self, sql: str, bindings: Any = None) -> Iterator[tuple[Any, ...] | None]:
        with self._translated(), super().first_row(sql, bindings) as row:
            yield row

    @contextmanager
    def reading(self) -> Iterator[bool]:
        with self.lock(), self._translated():
            began = not self.connection.in_transaction
            try:
                if began:
                    self.execute("BEGIN")
                yield began
            finally:
                if began and self.connection.in_transaction:
                    self.execute("COMMIT")

    @contextmanager
    def time_limit(self, seconds: float) -> Iterator[None]:
        """Limits the total time of all statements in the block; after that they raise TookTooLong."""
        connection: Any = self.connection
        deadline = time.monotonic() + seconds
        self._overdue, self._limit_s = False, seconds

        def is_overdue() -> bool:
            self._overdue = time.monotonic() > deadline
            return self._overdue

        connection.set_progress_handler(is_overdue, _STEPS)
        try:
            yield
        finally:
            connection.set_progress_handler(None, _STEPS)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        connection: Any = self.connection
        try:
            yield
        except connection.Error as error:
            if self._overdue:
                raise TookTooLong(
                    f"the answer took longer than the time limit of {self._limit_s:g} s: raise time_limit_s in the plugin's "
                    "settings"
                ) from error
            raise NearDupError(f"SQLite: {error}") from error


class ForeignStore(Store):
    def __init__(self, db: ForeignDatabase, name: str) -> None:
        super().__init__(db, name, [])

    def without_transaction(self, ask: Callable[..., Answer], *arguments: Any) -> Answer:
        with self.reading():
            return ask(*arguments)


class ForeignReader(Reader):
    """An index on another program's connection: `query`, `query_code`, `get`, and similarities of cluster members."""

    def similarities(self, document_id: int, other_ids: list[int]) -> dict[int, tuple[float | None, int | None]]:
        """(similarity, distance) of a document to each of the others, by the index's own measure; (None, None) for a text without
        shingles. Call it inside `reading`."""
        search, head = self._readers.own.search, self._document_row(document_id)
        measured: dict[int, tuple[float | None, int | None]] = {}
        sketches: dict[int, Sketch] = {}  # usually only one document's
        for number in other_ids:
            other = self._document_row(number)
            measured[number] = (None, None)
            a, b = search.closest(head, other)
            if a is not None and b is not None:
                sketch = sketches.get(a) or sketches.setdefault(a, search.stored_sketch(a))
                measured[number] = search.compared(sketch, search.stored_sketch(b))
        return measured

    def _document_row(self, document_id: int) -> DocumentRow:
        sql = self._store.sql("SELECT id, group_id, fingerprint_id, expires_at FROM {index}_document WHERE id = ?")
        return DocumentRow(*(self._store.db.row(sql, (document_id,)) or (document_id, 0, None, None)))


def index_names(db: ForeignDatabase) -> list[str]:
    """Names that are unsafe in SQL, as in a hostile file, are skipped."""
    return [name for name in schema.index_names(db) if is_index_name(name)]


def open_reader(db: ForeignDatabase, name: str) -> ForeignReader:
    """The index of this name. Raises FormatError, MismatchError or CorruptIndexError, as opening the file read-only does."""
    store = ForeignStore(db, name)
    with db.reading():
        store.load()
    return ForeignReader(store)
