"""Connections of Python's sqlite3 module, or of pysqlite3.

Statements run directly on the SQLite connection (csrc/python/standard/), whatever its Python settings, which stay.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import cache, partial
from typing import Any, Protocol
from weakref import WeakValueDictionary

import apsw

from ... import _python
from ..._python import Handle, ReentrantLock
from ...errors import ClosedError, NearDupError, ParameterError
from . import forks

_OLDEST = (3, 38, 0)  # the oldest supported SQLite
_ROLLED_BACK = 2  # the value of `Handle.ended` after a rollback

REMEDIES = (
    "give a connection of pysqlite3 (pip install pysqlite3, or pysqlite3-binary) or of a Python built with "
    "--enable-loadable-sqlite-extensions; or an apsw.Connection; or the path of a file that is the index's own"
)


class Loadable(Protocol):
    @property
    def in_transaction(self) -> bool: ...
    def enable_load_extension(self, enable: bool, /) -> Any: ...


def module_of(connection: object) -> Any:
    """The module of a connection, sqlite3 or pysqlite3 under any name; None for other objects. Methods are taken from its own
    Connection class, because subclasses may override them."""
    for name in ("sqlite3", "pysqlite3"):
        module = sys.modules.get(name)
        if isinstance(connection, getattr(module, "Connection", ())):
            return module
    return None


@contextmanager
def loading(connection: Any) -> Iterator[None]:
    """Allow extension loading inside the context. Raises ParameterError if the module cannot."""
    module = module_of(connection)
    if module is None:
        raise ParameterError(f"connection={connection!r:.80}: give one of apsw, sqlite3 or pysqlite3")
    if not hasattr(connection, "enable_load_extension"):
        raise ParameterError(f"this Python's {module.__name__} module was built without extension loading: {REMEDIES}")
    if module.sqlite_version_info < _OLDEST:
        raise ParameterError(f"{module.__name__} has SQLite {module.sqlite_version}, and 3.38 or later is needed: {REMEDIES}")
    try:
        was_allowed = _answer(connection, "SELECT load_extension(NULL)") is not None
        connection.enable_load_extension(True)
        try:
            yield
        finally:
            connection.enable_load_extension(was_allowed)
    except module.Error as error:
        raise ParameterError(f"the SQL functions cannot be loaded into the connection ({error})") from error


def has_functions(connection: Any) -> bool:
    """True if the extension's functions are registered: they cannot be replaced while statements run."""
    return _answer(connection, "SELECT 1 FROM pragma_module_list WHERE name = 'neardup_search'") is not None


def _answer(connection: Any, sql: str) -> Any:
    """The first row of a statement; None without a row or if SQLite refuses. load_extension(NULL) loads nothing and fails if
    loading is disabled, which Python's module cannot report."""
    module = module_of(connection)
    try:
        cursor = module.Connection.cursor(connection)
        cursor.row_factory = None
        return cursor.execute(sql).fetchone()
    except module.DatabaseError:
        return None


class StandardConnection:
    """The part of `apsw.Connection` that an index uses, on a connection of the application."""

    row_trace = exec_trace = convert_jsonb = None
    cursor_factory = apsw.Cursor  # rows are returned unmodified; no Python hook applies to them

    open_vfs = ""  # not one of this package's VFSs

    def __init__(self, given: Any, timeout: float) -> None:
        self.given = given
        self.process_id = os.getpid()
        module = module_of(given)
        probe = partial(_transaction_probe(module), given)
        try:
            probe()
        except module.Error as error:
            raise ClosedError(f"the connection that was given cannot be used ({error}): open it again") from error
        with loading(given):
            given.load_extension(_python.__file__)
            self._handle = Handle(given, probe, _only_thread(given), timeout)
        if not self._handle.is_serialized:
            raise ParameterError(
                f"the SQLite of {module.__name__} was built without locks for threads that share a connection "
                f"(SQLITE_THREADSAFE=1): {REMEDIES}"
            )
        self._handle.register()
        self.filename = str(self._handle.execute("PRAGMA database_list").fetchall()[0][2])
        self.library = self._handle.library
        self._watching: list[Any] = []
        self.mutex = ReentrantLock()  # the lock for using the connection, shared by all its indexes
        self.execute = self._handle.execute  # execute(sql, values=None) -> Rows

    @property
    def is_connected(self) -> bool:
        """True unless the application has closed it. Does not call SQLite."""
        try:
            _transaction_probe(module_of(self.given))(self.given)
        except module_of(self.given).Error:
            return False
        return True

    @property
    def is_closed(self) -> bool:
        """True if the owner has closed it. Does not wait for other threads."""
        with suppress(apsw.ConnectionClosedError):
            return not self._handle.is_serialized
        module = module_of(self.given)
        try:  # pysqlite3 checks the thread before it checks whether the connection is open
            module.Connection.total_changes.__get__(self.given)
        except module.ProgrammingError:
            return True
        return False

    def require_open(self) -> None:
        _ = self._handle.changes

    def wait_at_least(self, timeout: float) -> None:
        """Raise the timeout in seconds for other threads of the application to release the connection."""
        self._handle.timeout = max(self._handle.timeout, timeout)

    def changes(self) -> int:
        return self._handle.changes

    def total_changes(self) -> int:
        return self._handle.total_changes

    def last_insert_rowid(self) -> int:
        return self._handle.last_insert_rowid

    def data_version(self) -> int:
        return self._handle.data_version

    def interrupt(self) -> None:
        module_of(self.given).Connection.interrupt(self.given)

    def backup_to(self, path: str) -> None:
        self.require_open()
        module = module_of(self.given)
        try:
            with closing(module.connect(path)) as copy:
                module.Connection.backup(self.given, copy)
        except module.Error as error:
            raise apsw.exception_for(getattr(error, "sqlite_errorcode", apsw.SQLITE_ERROR)) from error

    @property
    def in_transaction(self) -> bool:
        self.report_end()
        return self._handle.in_transaction

    def watch(self, ends: Any) -> None:
        """Register for the end of each transaction with changes. SQLite's single hook belongs to the application."""
        self._watching.append(ends)

    def unwatch(self, ends: Any) -> None:
        self._watching = [other for other in self._watching if other is not ends]

    def refuse_commits(self) -> object:
        return self._handle.hold()

    def report_end(self) -> None:
        """Report a transaction end since the last call, before cached transaction state is read."""
        ended = self._handle.ended()
        if not ended:
            return
        for ends in tuple(self._watching):
            if ended == _ROLLED_BACK:
                ends.rolled_back()
            else:
                ends.committed()
        self._handle.told()  # last, so an interrupt before it repeats the notification


@cache
def _transaction_probe(module: Any) -> Any:
    """A function that fails for a closed connection without calling SQLite: even `in_transaction` may wait for another thread
    while holding Python's lock."""
    closed = module.connect(":memory:")
    closed.close()
    probe = module.Connection.isolation_level.__get__
    try:
        probe(closed)
    except module.ProgrammingError:
        return probe
    return module.Connection.cursor  # for pysqlite3


def _only_thread(given: Any) -> int:
    """The only thread that may use the connection (check_same_thread), or 0 for any. Tested from another thread."""
    module, refusals = module_of(given), []

    def attempt() -> None:
        try:
            module.Connection.cursor(given)
        except module.ProgrammingError:
            refusals.append(True)

    thread = threading.Thread(target=attempt, name="neardup-thread-check")
    thread.start()
    thread.join()
    return threading.get_ident() if refusals else 0


_open: WeakValueDictionary[int, StandardConnection] = WeakValueDictionary()  # by id, kept alive; shared by all indexes on one


def _require_no_parents() -> None:
    """Raise NearDupError in a forked child whose parent has an index on a connection of this library."""
    forks.require_idle()
    if any(one.process_id != os.getpid() and one.is_connected for one in _open.values()):
        raise NearDupError(
            "the parent process has an index open on a connection of sqlite3, and SQLite takes its locks for those of this fork, "
            "so that what is written here could be lost: open the first index after the fork, start the process by "
            "multiprocessing's 'spawn' or 'forkserver', or give Index the path of the file"
        )


def standard_connection(given: Any, timeout: float) -> StandardConnection:
    rows = _open.get(id(given))
    if rows is None:
        _require_no_parents()
        rows = _open[id(given)] = StandardConnection(given, timeout)
    rows.require_open()
    rows.wait_at_least(timeout)
    return rows
