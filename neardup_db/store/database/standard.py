"""A connection of Python's sqlite3 module, or of pysqlite3, as an index uses it.

Statements of ours run on the connection of SQLite below Python's (csrc/python/standard/): nothing that the application has
set on its own touches them, and they change nothing there. The file is never opened by a second SQLite library.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial
from typing import Any, Protocol
from weakref import WeakValueDictionary

import apsw

from ... import _standard
from ..._standard import Handle, Hold
from ..._turns import Turn
from ...errors import ClosedError, NearDupError, ParameterError
from . import forks

_OLDEST = (3, 38, 0)
"""The oldest SQLite that the extension works with."""

_ROLLED_BACK = 2
"""What `Handle.ended` says where a transaction was rolled back."""

WAYS_OUT = (
    "give a connection of pysqlite3 (pip install pysqlite3, or pysqlite3-binary) or of a Python built with "
    "--enable-loadable-sqlite-extensions; or an apsw.Connection; or the path of a file that is the index's own"
)


class Loadable(Protocol):
    """A connection of sqlite3, or of pysqlite3, which says nothing of its types."""

    @property
    def in_transaction(self) -> bool: ...
    def enable_load_extension(self, enable: bool, /) -> Any: ...


class Ends(Protocol):
    """Hears how a transaction ended."""

    def committed(self) -> None: ...
    def rolled_back(self) -> None: ...


def module_of(connection: object) -> Any:
    """The module that a connection belongs to, whatever name it goes by; None where it is neither sqlite3 nor pysqlite3.

    Its own class of connections has the methods, whatever a class of the application's overrides."""
    for name in ("sqlite3", "pysqlite3"):
        module = sys.modules.get(name)
        if isinstance(connection, getattr(module, "Connection", ())):
            return module
    return None


@contextmanager
def loading(connection: Any) -> Iterator[None]:
    """Inside, extensions can be loaded into the connection; afterwards as before. Raises ParameterError where they never can."""
    module = module_of(connection)
    if module is None:
        raise ParameterError(f"connection={connection!r:.80}: give one of apsw, sqlite3 or pysqlite3")
    if not hasattr(connection, "enable_load_extension"):
        raise ParameterError(f"this Python's {module.__name__} module was built without extension loading: {WAYS_OUT}")
    if module.sqlite_version_info < _OLDEST:
        raise ParameterError(f"{module.__name__} has SQLite {module.sqlite_version}, and 3.38 or later is needed: {WAYS_OUT}")
    try:
        allowed = _answer(connection, "SELECT load_extension(NULL)") is not None
        connection.enable_load_extension(True)
        try:
            yield
        finally:
            connection.enable_load_extension(allowed)
    except module.Error as error:
        raise ParameterError(f"the SQL functions cannot be loaded into the connection ({error})") from error


def has_functions(connection: Any) -> bool:
    """Whether the functions of the extension are there already: they cannot be replaced while statements run."""
    return _answer(connection, "SELECT 1 FROM pragma_module_list WHERE name = 'neardup_search'") is not None


def _answer(connection: Any, sql: str) -> Any:
    """The first row of a statement of the application's connection, None where there is none, or SQLite refuses: so does
    load_extension, which loads nothing for NULL, where no extension may be loaded. Python's module cannot say it."""
    module = module_of(connection)
    try:
        cursor = module.Connection.cursor(connection)
        cursor.row_factory = None
        return cursor.execute(sql).fetchone()
    except module.DatabaseError:
        return None


class StandardConnection:
    """The part of `apsw.Connection` that an index uses, on a connection of the application's."""

    row_trace = exec_trace = convert_jsonb = None
    cursor_factory = apsw.Cursor
    """Statements of ours give their rows as they are, and none of them passes through Python."""

    open_vfs = ""
    """None of ours."""

    def __init__(self, given: Any, timeout: float) -> None:
        self.given = given
        self.process_id = os.getpid()
        module = module_of(given)
        look = partial(_transaction_probe(module), given)
        try:
            look()
        except module.Error as error:
            raise ClosedError(f"the connection that was given cannot be used ({error}): open it again") from error
        with loading(given):
            given.load_extension(_standard.__file__)
            self._handle = Handle(given, look, _only_thread(given), timeout)
        if not self._handle.is_serialized:
            raise ParameterError(
                f"the SQLite of {module.__name__} was built without locks for threads that share a connection "
                f"(SQLITE_THREADSAFE=1): {WAYS_OUT}"
            )
        self._handle.register()
        self._watching: list[Ends] = []
        self.turn = Turn()
        """Of the thread that uses the connection, by whichever index."""
        self.execute = self._handle.execute
        """execute(sql, values=None) -> Rows"""

    @property
    def filename(self) -> str:
        return self._handle.filename

    @property
    def is_connected(self) -> bool:
        """Whether the application has not closed the connection. Asks nothing of SQLite."""
        try:
            _transaction_probe(module_of(self.given))(self.given)
        except module_of(self.given).Error:
            return False
        return True

    @property
    def library(self) -> int:
        """A number that each library of SQLite in this process has for itself."""
        return self._handle.library

    @property
    def is_closed(self) -> bool:
        """Whether its owner has closed it; waits for no other thread."""
        with suppress(apsw.ConnectionClosedError):
            return not self._handle.is_serialized
        module = module_of(self.given)
        try:  # pysqlite3 looks at the thread before it looks whether the connection is open
            module.Connection.total_changes.__get__(self.given)
        except module.ProgrammingError:
            return True
        return False

    def require_open(self) -> None:
        """Raise apsw.ConnectionClosedError."""
        _ = self._handle.changes

    def wait_at_least(self, timeout: float) -> None:
        """For another thread of the application that uses the connection, seconds."""
        self._handle.timeout = max(self._handle.timeout, timeout)

    # ---- statements --------------------------------------------------------------------------------------------------

    def cursor(self) -> StandardConnection:
        """Statements of ours need none."""
        return self

    def executemany(self, sql: str, many: Iterable[Any]) -> _Fetched:
        found = _Fetched()
        for values in many:
            found += self._handle.execute(sql, values).fetchall()
        return found

    def changes(self) -> int:
        return self._handle.changes

    def total_changes(self) -> int:
        return self._handle.total_changes

    def last_insert_rowid(self) -> int:
        return self._handle.last_insert_rowid

    def data_version(self) -> int:
        return self._handle.data_version

    def interrupt(self) -> None:
        self._handle.interrupt()

    def backup_to(self, path: str) -> None:
        """Copy the main database to an empty file, through the library that has it open."""
        self._handle.backup(path)

    # ---- transactions ------------------------------------------------------------------------------------------------

    @property
    def in_transaction(self) -> bool:
        self.report_end()
        return self._handle.in_transaction

    def watch(self, ends: Ends) -> None:
        """Tell of each end of a transaction in which we have written. SQLite has one place for a hook, which is not ours."""
        self._watching.append(ends)

    def unwatch(self, ends: Ends) -> None:
        self._watching = [other for other in self._watching if other is not ends]

    def refuse_commits(self) -> Hold:
        """As long as somebody has what this returns, a COMMIT is refused and rolls back."""
        return self._handle.hold()

    def report_end(self) -> None:
        """Tell of an end since the last call. Whatever is remembered of a transaction is remembered after a look at it."""
        ended = self._handle.ended()
        if not ended:
            return
        for ends in tuple(self._watching):
            if ended == _ROLLED_BACK:
                ends.rolled_back()
            else:
                ends.committed()
        self._handle.told()  # at last: an interrupt before it, and all is told again


class _Fetched(list[tuple[Any, ...]]):
    """The rows of statements that have been run to their ends."""

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self


@cache
def _transaction_probe(module: Any) -> Any:
    """A look at a connection of the module's that fails where it is closed, and asks nothing of SQLite: there, `in_transaction`
    too may wait for another thread, while it keeps Python's lock."""
    closed = module.connect(":memory:")
    closed.close()
    look = module.Connection.isolation_level.__get__
    try:
        look(closed)
    except module.ProgrammingError:
        return look
    return module.Connection.cursor  # of pysqlite3


def _only_thread(given: Any) -> int:
    """The thread that alone may use the connection (check_same_thread), 0 where any may: the module says it to others."""
    module, refused = module_of(given), []

    def attempt() -> None:
        try:
            module.Connection.cursor(given)
        except module.ProgrammingError:
            refused.append(True)

    thread = threading.Thread(target=attempt, name="neardup-thread-check")
    thread.start()
    thread.join()
    return threading.get_ident() if refused else 0


_open: WeakValueDictionary[int, StandardConnection] = WeakValueDictionary()
"""By the address of the connection, which is kept alive: the indexes on one share what is registered there."""


def _require_no_parents() -> None:
    """Raise NearDupError in a forked child whose parent has an index on a connection of the application's library."""
    forks.require_idle()
    if any(one.process_id != os.getpid() and one.is_connected for one in _open.values()):
        raise NearDupError(
            "the parent process has an index open on a connection of sqlite3, and SQLite takes its locks for those of this fork, "
            "so that what is written here could be lost: open the first index after the fork, start the process by "
            "multiprocessing's 'spawn' or 'forkserver', or give Index the path of the file"
        )


def standard_connection(given: Any, timeout: float) -> StandardConnection:
    """The one of a connection of the application's."""
    found = _open.get(id(given))
    if found is None:
        _require_no_parents()
        found = _open[id(given)] = StandardConnection(given, timeout)
    found.require_open()
    found.wait_at_least(timeout)
    return found

