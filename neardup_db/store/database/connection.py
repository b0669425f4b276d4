"""One SQLite connection: statements, caches and closing."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, ClassVar

import apsw

from ... import limits
from ..._python import array, locate
from ...errors import CorruptIndexError, NearDupError
from .errors import translated
from .log import CHECKPOINT_ERRORS, Log
from .open import cache_size
from .standard import StandardConnection
from .statements import Connection, Statement
from .transactions import Transactions


def undecodable(error: UnicodeDecodeError) -> CorruptIndexError:
    """The error for stored text that is not Unicode, which is damage."""
    return CorruptIndexError(f"the file holds text that is no Unicode ({error.object[:40]!r}): restore a backup")


class Statements(ABC):
    """Ways to run SQL, which have `execute` in common.

    The methods catch `failures` themselves, at no cost; a context manager would slow each statement down.
    """

    failures: ClassVar[tuple[type[Exception], ...]] = (UnicodeDecodeError,)  # the errors that `failure` converts

    @abstractmethod
    def execute(self, sql: str, bindings: Any = None) -> apsw.Cursor:
        """Run SQL. The caller holds the lock."""

    def failure(self, error: Any) -> NearDupError:
        return undecodable(error)

    def rows(self, sql: str, bindings: Any = None) -> list[tuple[Any, ...]]:
        try:
            return self.execute(sql, bindings).fetchall()
        except self.failures as error:
            raise self.failure(error) from error

    def row(self, sql: str, bindings: Any = None) -> tuple[Any, ...] | None:
        try:
            return self.execute(sql, bindings).fetchone()
        except self.failures as error:
            raise self.failure(error) from error

    def value(self, sql: str, bindings: Any = None) -> Any:
        row = self.row(sql, bindings)
        return None if row is None else row[0]

    def stream(self, sql: str, bindings: Any = None) -> Generator[tuple[Any, ...], None, None]:
        try:
            yield from self.execute(sql, bindings)
        except self.failures as error:
            raise self.failure(error) from error

    def page(self, sql: str, after_id: int, *more: Any) -> list[tuple[Any, ...]]:
        """Rows whose first column ascends from above `after_id`, the query's first parameter.

        Raises CorruptIndexError otherwise, because a paged listing of a damaged file might never end.
        """
        return self.ordered(self.rows(sql, (after_id, *more)), after_id)

    def ordered(self, rows: list[tuple[Any, ...]], after_id: int) -> list[tuple[Any, ...]]:
        """The same rows. Raises CorruptIndexError unless the last one is above `after_id`."""
        if rows and rows[-1][0] <= after_id:
            raise CorruptIndexError("the rows of a table are not in the order of their ids: restore a backup")
        return rows


class Database(Transactions, Statements):
    open_reader: Callable[[], apsw.Connection] | None = None  # opens another read connection to the file, if possible

    def __init__(self, connection: apsw.Connection, *, owned: bool, read_only: bool, timeout: float = 0.0) -> None:
        super().__init__(connection, owned=owned, read_only=read_only, timeout=timeout)
        self._cache_size: int = connection.pragma("cache_size") if owned else 0  # the cache size set for an owned connection

    @property
    def caller_connection(self) -> Any:
        return self.connection.given if isinstance(self.connection, StandardConnection) else self.connection

    def execute(self, sql: str, bindings: Any = None) -> apsw.Cursor:
        if self._depth:
            self._require_same()
        return self._run(sql, bindings)

    def execute_many(self, sql: str, bindings: Iterable[Any]) -> list[tuple[Any, ...]]:
        """All rows of SQL run for each binding. executemany stops at each row, which INSERT returns under count_changes."""
        if self._depth:
            self._require_same()
        try:
            if isinstance(self.connection, StandardConnection):
                return [row for values in bindings for row in self.connection.execute(sql, values)]
            return self._plain_cursor().executemany(sql, bindings).fetchall()
        except self.failures as error:
            raise self.failure(error) from error

    def prepared(self, sql: str) -> Statement | None:
        """None on a connection of the application."""
        return self.connection.prepared(sql) if isinstance(self.connection, Connection) else None

    @property
    def carray(self) -> str:
        return "nd_values" if isinstance(self.connection, StandardConnection) else "carray"

    def carried(self, values: Any) -> Any:
        """An int64 array, or a tuple of str or bytes, as a binding that `carray` reads without a copy."""
        if not isinstance(self.connection, StandardConnection):
            return apsw.carray(values)
        if not isinstance(values, tuple):
            return array(values.tobytes())
        are_blobs = bool(values) and isinstance(values[0], bytes)
        return array(*locate(list(values), 0, sys.maxsize, str.encode), are_blobs)

    @contextmanager
    def large_cache(self) -> Iterator[None]:
        """A larger cache inside the context, for writing many documents. A size set by the application is kept."""
        with self.lock(), translated(self.name):
            self.flush_pending(to_write=True)
            is_default = self.owned and self.connection.pragma("cache_size") == self._cache_size
            if is_default:
                self.connection.pragma("cache_size", -limits.CACHE_KIB_MANY)
        try:
            yield
        finally:
            guard = self.mutex.take(0) if is_default and not self.is_closed and not self.forked else None
            if guard is not None:
                with guard:
                    with suppress(apsw.Error):
                        self._cache_size = cache_size(self.connection)
                    with suppress(apsw.Error):
                        self.connection.pragma("cache_size", self._cache_size)
            elif is_default:  # in use by another thread: the next load resets it
                self._cache_size = -limits.CACHE_KIB_MANY

    def truncate_log(self) -> None:
        """Checkpoint and truncate the write-ahead log, unless others use it; does not wait for them."""
        Log(self.timeout).move(self.connection, "main", apsw.SQLITE_CHECKPOINT_TRUNCATE)

    def close(self) -> None:
        """Close an owned connection. A connection of the application, or of a parent process, stays open."""
        if self.forked:
            self.is_closed = True
            return
        with self.lock():
            if self.is_closed:
                return
            if self._depth:
                raise NearDupError("the index cannot be closed inside its own transaction: leave the transaction first")
            try:
                self.abandon()
            except apsw.ThreadingViolationError as error:
                self.is_closed = False
                self.undo.watch(self.connection)
                raise NearDupError(
                    "the index cannot be closed by a function that SQLite calls while it runs a statement of the index, and is "
                    "open as before: close it when the statement has ended"
                ) from error

    def abandon(self) -> None:
        self.is_closed = True
        with suppress(apsw.ConnectionClosedError):  # closed by its owner
            self.undo.unwatch(self.connection)
        if self.owned:
            with suppress(*CHECKPOINT_ERRORS):
                self.connection.close()
