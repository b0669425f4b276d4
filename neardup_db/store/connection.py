"""One SQLite connection: how it is opened, what a transaction is, and which of our errors an SQLite error becomes."""

from __future__ import annotations

import atexit
import errno
import os
import shutil
import sqlite3
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, lru_cache, partial
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote

import apsw

from .. import limits
from .._turns import Loan, Turn
from ..errors import (
    BusyError,
    ClosedError,
    CorruptIndexError,
    DiskFullError,
    FormatError,
    NearDupError,
    ParameterError,
    ReadOnlyError,
)
from . import checksums, forks
from .log import OF_CHECKPOINT, Log

APPLICATION_ID = 0x4E445550
"""Of a file that this package created ("NDUP")."""

MAP_BYTES = 2**31 - 2**16
"""Of a file that is read through a memory map, the most that SQLite maps: the beginning; the rest is read as usual."""

_SYNCHRONOUS = {"full": "FULL", "normal": "NORMAL"}

_ERRORS: tuple[tuple[type[Exception], type[NearDupError]], ...] = (
    (apsw.BusyError, BusyError),
    (apsw.LockedError, BusyError),
    (apsw.ReadOnlyError, ReadOnlyError),
    (apsw.NotADBError, FormatError),
    (apsw.ConnectionClosedError, ClosedError),
)


def translate(error: apsw.Error, name: str = "") -> NearDupError:
    """Our error for an error of SQLite; its message begins with the name of the file, where there is one."""
    ours = _translated(error)
    if name:
        ours.args = (f"{name}: {ours.args[0]}",)
    return ours


def system_error(error: OSError, path: str, what: str) -> NearDupError:
    """Our error for an error of the operating system: `what` cannot be done with the file."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFullError(f"{path!r} cannot be {what} ({error.strerror}): make room on the disk, then call again")
    return ParameterError(f"{path!r} cannot be {what} ({error.strerror}): check the path and its permissions")


def _translated(error: apsw.Error) -> NearDupError:
    if isinstance(error, apsw.BusyError) and getattr(error, "extendedresult", 0) == apsw.SQLITE_BUSY_SNAPSHOT:
        return BusyError(
            "the transaction has read an older state than another connection has written since, so it cannot write any more: "
            "roll it back, and begin transactions that will write with BEGIN IMMEDIATE"
        )
    if isinstance(error, (apsw.BusyError, apsw.LockedError)):
        return BusyError(f"another connection holds the database ({error}): try again, or give a larger timeout")
    if isinstance(error, apsw.ReadOnlyError):
        return ReadOnlyError(
            f"the database cannot be written ({error}): to read it, open it with read_only=True; to write, without, in a folder "
            "that you may write to"
        )
    if isinstance(error, apsw.TooBigError):
        return ParameterError(f"longer than the 1,000,000,000 bytes that SQLite keeps in one place ({error}): give a shorter one")
    if isinstance(error, apsw.CorruptError):
        return CorruptIndexError(
            f"SQLite cannot read the file ({error}): restore a backup; of an index that is open check() "
            "names what is damaged"
        )
    if getattr(error, "extendedresult", 0) == apsw.SQLITE_IOERR_DATA:
        return CorruptIndexError(
            f"page {checksums.damaged_page()} of the file is damaged (its checksum is wrong): restore a backup; of an index that "
            "is open check() names all such pages"
        )
    if getattr(error, "extendedresult", 0) == apsw.SQLITE_CONSTRAINT_DATATYPE:  # what a row had before: we write no such value
        return CorruptIndexError(f"a row of the file is damaged ({error}): run check(repair=True), or restore a backup")
    if isinstance(error, apsw.FullError):
        return DiskFullError(
            f"the disk is full ({error}): the transaction was taken back; make room, then go on with the same object"
        )
    if isinstance(error, apsw.CantOpenError):
        return NearDupError(
            f"SQLite cannot open a file that it needs ({error}): look at the permissions of the folder, and at how many files "
            "are open"
        )
    if isinstance(error, apsw.IOError):
        return NearDupError(
            f"the disk or file system failed ({error}): the transaction was taken back; where it fails again, look at the disk"
        )
    for theirs, ours in _ERRORS:
        if isinstance(error, theirs):
            return ours(str(error))
    return NearDupError(f"SQLite: {type(error).__name__}: {error}")


def _unknown(error: apsw.Error, name: str) -> NearDupError:
    return NearDupError(
        f"{name}{': ' if name else ''}a commit failed with an I/O error ({error}), and only the file knows whether it happened: "
        "close the index (and a connection of your own), open it again, and look whether the last write is there"
    )


def _lost() -> NearDupError:
    return NearDupError(
        "the transaction was rolled back by an error inside it, or ended by SQL on the connection: leave it, nothing that was "
        "rolled back is stored, and begin again"
    )


def extension_path() -> str:
    """Path of the SQLite extension `neardup.so`, for `load_extension` in any SQLite client.

    >>> extension_path().endswith("neardup.so")
    True
    """
    return str(files("neardup_db") / "neardup.so")


@cache
def _copy_for_sqlite3() -> str:
    """The extension once more, under another path: a loaded extension belongs to one SQLite library, here to apsw's."""
    folder = tempfile.mkdtemp(prefix="neardup_")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return str(shutil.copy(extension_path(), folder))


def load(connection: Any) -> None:
    """Register the SQL functions (`neardup_search` and the others) on an open `apsw` or `sqlite3` connection.

    Raises ParameterError for another kind of object, or where this Python's sqlite3 cannot load extensions.

    >>> import apsw
    >>> connection = apsw.Connection(":memory:")
    >>> load(connection)
    >>> connection.execute("SELECT neardup_hamming(1, 2)").get
    2
    """
    if isinstance(connection, apsw.Connection):
        allowed = connection.config(apsw.SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, -1)
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 1)
        try:
            connection.load_extension(extension_path(), "sqlite3_neardup_init")
        finally:
            connection.config(apsw.SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, allowed)
    elif isinstance(connection, sqlite3.Connection):
        if not hasattr(connection, "enable_load_extension"):
            raise ParameterError("this Python's sqlite3 module was built without extension loading: use an apsw.Connection")
        connection.enable_load_extension(True)
        try:
            connection.load_extension(_copy_for_sqlite3())
        finally:
            connection.enable_load_extension(False)
    else:
        raise ParameterError(f"connection must be an apsw.Connection or a sqlite3.Connection, not {type(connection).__name__}")


def _open_read_only(path: Path, timeout: float) -> apsw.Connection:
    """Read-only; where the folder cannot be written and no log is waiting, the file is taken as one that does not change. The
    path has no symbolic links: SQLite has the log beside the file itself."""
    plain = checksums.connect(str(path), apsw.SQLITE_OPEN_READONLY)
    plain.set_busy_timeout(int(timeout * 1000))
    try:
        plain.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall()
        return plain
    except (apsw.CantOpenError, apsw.ReadOnlyError) as error:
        plain.close()
        if path.with_name(path.name + "-wal").exists():
            raise ReadOnlyError(
                f"{str(path)!r} has changes waiting in its -wal file, which cannot be read where the folder cannot be written "
                f"({error}): open it once where it can be, or copy both files to such a folder"
            ) from error
    uri = f"file:{quote(str(path))}?immutable=1"
    return checksums.connect(uri, apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)


def open_file(
    target: str, *, read_only: bool, durability: str, timeout: float, memory_map: bool, sums: bool = False
) -> apsw.Connection:
    """A connection of our own to an existing file or ':memory:'; sums: to an empty file, whose pages are to have checksums."""
    forks.separate()
    if read_only:
        connection = _open_read_only(Path(target), timeout)
    elif sums:
        connection = checksums.create(target)
    else:
        connection = checksums.connect(target, apsw.SQLITE_OPEN_READWRITE)
    if memory_map and checksums.has(connection):
        connection.close()
        raise ParameterError(
            f"memory_map=True: {target!r} has page checksums, and a map would pass them by; leave memory_map out"
        )
    return _configured(connection, durability, timeout, memory_map)


def open_reader(path: str, vfs: str, *, read_only: bool, timeout: float, memory_map: bool) -> apsw.Connection:
    """One more connection to a file that is open, to read; read_only: as that was opened."""
    if read_only:
        return _configured(_open_read_only(Path(path), timeout), "full", timeout, memory_map)
    return _configured(apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY, vfs=vfs), "full", timeout, memory_map)


def _configured(connection: apsw.Connection, durability: str, timeout: float, memory_map: bool) -> apsw.Connection:
    """The connection with our settings; closed again if that fails."""
    try:
        connection.set_busy_timeout(int(timeout * 1000))
        connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
        connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)  # plans do not depend on values: nothing is planned twice
        connection.execute(
            f"PRAGMA synchronous = {_SYNCHRONOUS[durability]}; PRAGMA temp_store = {_temp_store()}; "
            f"PRAGMA cache_size = {_cache_size(connection)}; PRAGMA cache_spill = -{limits.SPILL_KIB}; "
            f"PRAGMA journal_size_limit = {2 * limits.LOG_PAGES * 4096}; PRAGMA cell_size_check = ON; "
            f"PRAGMA mmap_size = {MAP_BYTES if memory_map else 0}"
        ).fetchall()  # to the last statement: some give a row
    except BaseException:
        connection.close()
        raise
    return connection


def _cache_size(connection: apsw.Connection) -> int:
    """As the pragma takes it, for a file of the present size."""
    size: int = connection.pragma("page_count") * connection.pragma("page_size")
    return -max(limits.CACHE_KIB, min(size // 100 >> 10, limits.CACHE_KIB_MOST))


def _temp_store() -> str:
    """Where SQLite puts what does not fit into its cache: in memory it sorts without bound, as a list of single rows, and copies
    the whole file for VACUUM; but where no folder for temporary files can be written there is no other place."""
    folders = (os.environ.get("SQLITE_TMPDIR"), os.environ.get("TMPDIR"), "/var/tmp", "/usr/tmp", "/tmp", ".")  # as SQLite seeks
    there = any(folder and os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK) for folder in folders)
    return "FILE" if there or os.name != "posix" else "MEMORY"


class _Decoded:
    """Text of the file that is no Unicode is damage, where it is read."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, UnicodeDecodeError):
            found = error.object[:40]
            raise CorruptIndexError(f"the file holds text that is no Unicode ({found!r}): restore a backup") from error


_DECODED = _Decoded()
"""No generator as `contextmanager` makes it: entered with every statement, these would take a tenth of a query's time."""


def _as_it_is(cursor: apsw.Cursor, row: Any) -> Any:
    return row


def current_task() -> object | None:
    """The asyncio task that is running in this thread, if there is one."""
    asyncio = sys.modules.get("asyncio")  # to import it takes longer than to open an index
    if asyncio is None or asyncio._get_running_loop() is None:
        return None
    task: object | None = asyncio.current_task()
    return task


def _nothing() -> None:
    return None


class _Level:
    """One of the nested transactions. Its block alone has it: a level that nobody has any more has lost its block."""

    __slots__ = ("began", "depth", "savepoint", "changes", "mark", "outermost", "__weakref__")

    def __init__(self, began: bool, depth: int, savepoint: str | None, changes: int) -> None:
        self.began = began
        """Whether it is the outermost one."""
        self.depth = depth
        """How many there are around it."""
        self.savepoint = savepoint
        """Of an inner one."""
        self.changes = changes
        """Rows that the connection had changed before."""
        self.mark: Callable[[], None] = partial(_nothing)
        """Stands in `Database.undo` as long as the same transaction is open."""
        self.outermost: weakref.ref[_Level] | None = None
        """Of its transaction, where that was begun here."""


class Undo(list[Callable[[], None]]):
    """What is to be forgotten if the open transaction, whoever began it, is rolled back. SQLite itself says how it ended."""

    unfinished = False
    """Whether rows are there that lack what belongs to them, so that a COMMIT, which only SQL of the caller's can do now, is to
    roll back."""

    def watch(self, connection: Any) -> None:
        """Be told of the ends of a connection's transactions. The hooks have a name of their own: those of its owner stay."""
        if isinstance(connection, apsw.Connection):
            connection.set_commit_hook(self._committed, id=id(self))
            connection.set_rollback_hook(self._rolled_back, id=id(self))

    def unwatch(self, connection: Any) -> None:
        """Be told no more."""
        if isinstance(connection, apsw.Connection):
            connection.set_commit_hook(None, id=id(self))
            connection.set_rollback_hook(None, id=id(self))

    def _committed(self) -> bool:
        if not self.unfinished:
            self.clear()
        return self.unfinished  # True: roll back

    def _rolled_back(self) -> None:
        self.unfinished = False
        while self:
            self.pop()()


class Database:
    """A connection with nested transactions, safe to share among threads: one of them uses it at a time."""

    another: Callable[[], apsw.Connection] | None = None
    """Opens one more connection to the same file, to read; None where there can be none."""

    def __init__(self, connection: apsw.Connection, *, owned: bool, read_only: bool, timeout: float = 0.0) -> None:
        self.connection = connection
        self.timeout = timeout
        self.owned = owned
        self.read_only = read_only
        self.name = connection.filename if owned else ""
        """Of the file, in messages."""
        self.turn = Turn()
        """Of the thread that uses the connection."""
        self._attending: dict[int, list[weakref.WeakMethod[Callable[[], None]]]] = {}
        """By thread: what has records in hand that are to be written before the thread goes on to use the connection."""
        self.undo = Undo()
        self.undo.watch(connection)
        self._task: object | None = None
        """The asyncio task that is inside `writing`."""
        self._cache_size: int = connection.pragma("cache_size") if owned else 0
        """As it was set for a connection of our own."""
        self._depth = 0
        self._outermost: weakref.ref[_Level] | None = None
        """Of the transaction that was begun here, while it is open."""
        self._joined = False
        """Whether what was done last belonged to one that was not."""
        self._uncertain: apsw.Error | None = None
        """The I/O error of a commit: the log may hold a transaction that this connection takes for rolled back, and that is there
        again after a crash. Nothing may be built on either."""
        self._process_id = os.getpid()
        self._closed = False
        forks.watch(self)

    def require_open(self) -> None:
        """Raise ClosedError, also in a forked child, where it is asked before the lock is waited for: at the fork, a thread that
        is not in the child may have held it. Raise NearDupError after a commit whose outcome is not known."""
        if self._closed:
            raise ClosedError("the index is closed: open it again with Index(path)")
        if os.getpid() != self._process_id:
            raise ClosedError("this index was opened in the parent process: open it again in the child, after the fork")
        if self._uncertain is not None:
            raise _unknown(self._uncertain, self.name) from self._uncertain

    def hold(self) -> Loan:
        """This thread's turn to use the connection, which ends with the loan. Raises BusyError after the timeout."""
        loan = self.turn.take(self.timeout)
        if loan is None:
            raise BusyError(
                f"another thread has been inside a transaction, or a call like add_many, for {self.timeout:g} s: try "
                "again, give Index a larger timeout, or let that thread come out before it waits for this one"
            )
        self._recover()
        return loan

    @property
    def is_task(self) -> bool:
        """Whether no other asyncio task of this thread is inside a transaction."""
        return self._depth == 0 or self._task is current_task()

    def require_task(self) -> None:
        """Raise BusyError where another asyncio task of this thread is inside a transaction."""
        if not self.is_task:
            raise BusyError(
                "another asyncio task of this thread is inside a transaction of this index, and nothing was done: "
                "let tasks take turns (an asyncio.Lock around each transaction), or give each task an Index of its own"
            )

    # ---- records in hand -----------------------------------------------------------------------------------------------

    @contextmanager
    def attended(self, settle: Callable[[], None]) -> Iterator[None]:
        """This thread has records in hand meanwhile: `settle` writes them, and is called before the thread uses the connection
        for anything else."""
        thread = threading.get_ident()
        before = [one for one in self._attending.get(thread, ()) if one() is not None]
        try:
            self._attending[thread] = [*before, weakref.WeakMethod(settle)]
            yield
        finally:
            if before:
                self._attending[thread] = before
            else:
                self._attending.pop(thread, None)

    @property
    def is_attended(self) -> bool:
        """Whether this thread has records in hand."""
        return bool(self._attending) and threading.get_ident() in self._attending

    def settle(self) -> None:
        """Let what this thread has in hand be written, before the connection is used."""
        if self._attending:
            for attending in self._attending.get(threading.get_ident(), ()):
                settle = attending()
                if settle is not None:  # its load was not interrupted where it was to end
                    settle()

    @property
    def forked(self) -> bool:
        """Whether this process is a child of the one that opened it."""
        return os.getpid() != self._process_id

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    @property
    def depth(self) -> int:
        """How many blocks of `writing` are open."""
        return self._depth

    @property
    def in_own_transaction(self) -> bool:
        """Whether a thread is inside `writing`."""
        return self._depth > 0

    @property
    def in_callers_transaction(self) -> bool:
        """Whether a transaction is open that SQL on the connection has begun, and so its user's."""
        try:
            return self.connection.in_transaction and not self._began
        except (apsw.ThreadingViolationError, apsw.ConnectionClosedError):  # another thread is at work, and has looked
            return self._joined

    def execute(self, sql: str, bindings: Any = None) -> apsw.Cursor:
        """Run SQL that gives no rows; the caller holds the lock through `reading` or `writing`."""
        if self.connection.row_trace is None:
            return self.connection.execute(sql, bindings)
        return self._plain_cursor().execute(sql, bindings)

    def execute_many(self, sql: str, bindings: Iterable[Any]) -> apsw.Cursor:
        """Run SQL that gives no rows, once for each of the bindings."""
        return self._plain_cursor().executemany(sql, bindings)

    def _plain_cursor(self) -> apsw.Cursor:
        """A cursor that gives rows as they are, whatever a caller's connection makes of its own."""
        cursor = self.connection.cursor()
        if self.connection.row_trace is not None:
            cursor.row_trace = _as_it_is
        return cursor

    def rows(self, sql: str, bindings: Any = None) -> list[tuple[Any, ...]]:
        """All rows of a query."""
        with _DECODED:
            return self.execute(sql, bindings).fetchall()

    def row(self, sql: str, bindings: Any = None) -> tuple[Any, ...] | None:
        """The first row of a query, None where there is none."""
        with _DECODED:
            row: tuple[Any, ...] | None = self.execute(sql, bindings).fetchone()
            return row

    @contextmanager
    def held(self, sql: str, bindings: Any = None) -> Iterator[tuple[Any, ...] | None]:
        """The first row of a query, None where there is none. The query does not end inside, so that what is asked there sees the
        same state: a transaction without BEGIN and COMMIT, which are two statements more."""
        with _DECODED:
            cursor = self.execute(sql, bindings)
            row: tuple[Any, ...] | None = cursor.fetchone()
        try:
            yield row
        finally:
            cursor.close()

    def stream(self, sql: str, bindings: Any = None) -> Iterator[tuple[Any, ...]]:
        """The rows of a query one by one, where there may be too many to hold."""
        with _DECODED:
            yield from self.execute(sql, bindings)

    def rows_of_many(self, sql: str, bindings: Iterable[Any]) -> list[tuple[Any, ...]]:
        """All rows of a query that is run once for each of the bindings."""
        with _DECODED:
            return self.execute_many(sql, bindings).fetchall()

    def page(self, sql: str, after_id: int, *more: Any) -> list[tuple[Any, ...]]:
        """Rows of a query whose first column ascends from above `after_id`, its first parameter.

        In a damaged file it may not, and whoever goes on after the last row would never come to an end."""
        rows = self.rows(sql, (after_id, *more))
        if rows and rows[-1][0] <= after_id:
            raise CorruptIndexError("the rows of a table are not in the order of their ids: restore a backup")
        return rows

    def value(self, sql: str, bindings: Any = None) -> Any:
        """The first column of the first row, None where there is no row."""
        row = self.row(sql, bindings)
        return None if row is None else row[0]

    @contextmanager
    def reading(self) -> Iterator[bool]:
        """One consistent state for everything inside. Yields True where this began a transaction."""
        with self.hold():
            self.require_open()
            self.require_task()
            try:
                self.settle()
                level = self._level()
                try:
                    if level.began:
                        self.connection.execute("BEGIN")
                    yield level.began
                finally:
                    if level.began:
                        try:
                            self._end_reading()
                        except BaseException:  # interrupted, perhaps before it did anything
                            self._end_reading()
                            raise
                        self._outermost = None
            except apsw.Error as error:
                raise translate(error, self.name) from error

    @contextmanager
    def writing(self, *, light: bool = False) -> Iterator[bool]:
        """All or nothing for everything inside; nests. Yields True where this began a transaction.

        light: inside another one without a savepoint, for which SQLite copies every page before it changes. Then an error is that
        of the outermost transaction, and ends it, if there were changes before it: for what finds its own errors before those."""
        with self.hold():
            self.require_open()
            self.require_task()
            if self.read_only:
                raise ReadOnlyError("the index was opened with read_only=True: open it without, to write")
            with translated(self.name):
                self.settle()
                level = self._level(light=light)
                try:
                    self._depth += 1
                    self._begin(level)
                    yield level.began
                    self._commit(level)
                except BaseException:
                    try:
                        self._roll_back(level)
                    except BaseException:  # interrupted, perhaps before it did anything
                        self._roll_back(level)
                        raise
                    raise
                finally:
                    # without a call: behind each an interrupt can come
                    if level.began:
                        self._depth = 0
                        if self._closed or not self.connection.in_transaction:
                            self._outermost = None
                    elif level.outermost is self._outermost and self._depth:
                        self._depth -= 1

    def _level(self, *, light: bool = False) -> _Level:
        """A new level. After some errors SQLite rolls back all of a transaction, outer levels too: what follows inside them must
        not be stored alone."""
        began = not self.connection.in_transaction
        if began and self._depth:
            raise _lost()
        savepoint = None if light and self._began else f"neardup_{self._depth}"
        level = _Level(began, self._depth, savepoint, self.connection.total_changes())
        self._joined = not began and not self._began
        if self._depth == 0:
            self._task = current_task()
        if began:
            self._outermost = weakref.ref(level)
        level.outermost = self._outermost
        return level

    @property
    def _began(self) -> bool:
        """Whether the open transaction was begun here."""
        return self._outermost is not None

    def _recover(self) -> None:
        """Roll back a transaction that was begun here and whose block is gone, interrupted where it was to end it."""
        if self._outermost is not None and self._outermost() is None and not self.forked:
            self._outermost, self._depth = None, 0
            if self.connection.in_transaction:
                with translated(self.name):
                    self.connection.execute("ROLLBACK")

    def _end_reading(self) -> None:
        if not self._closed and self.connection.in_transaction and not self.forked:
            self.connection.execute("COMMIT")

    def _begin(self, level: _Level) -> None:
        """Inside the try: waiting for another writer can take long, and Ctrl-C then comes right after the transaction began."""
        if level.began:
            self.connection.execute("BEGIN IMMEDIATE")
            self.undo.append(level.mark)
        elif level.savepoint is not None:
            self.connection.execute(f"SAVEPOINT {level.savepoint}")

    def _commit(self, level: _Level) -> None:
        self.require_open()  # not in a child that was forked inside
        if not self.connection.in_transaction or (level.began and level.mark not in self.undo):
            raise _lost()
        if self._depth != level.depth + 1:
            raise NearDupError(
                "a transaction that began inside this one has not ended, and nothing of both is stored: end transactions in the "
                "reverse order of their beginnings"
            )
        try:
            if level.began:
                self.connection.execute("COMMIT")
            elif level.savepoint is not None:
                self.connection.execute(f"RELEASE {level.savepoint}")
        except apsw.IOError as error:
            if not level.began:
                raise
            self._uncertain = error
            raise _unknown(error, self.name) from error

    def _roll_back(self, level: _Level) -> None:
        if self.forked or self._closed or level.outermost is not self._outermost:
            return  # it is the parent's, in memory that both share; or over already
        if not self.connection.in_transaction:  # it did not begin, was committed, or SQLite has rolled back by itself
            return
        if level.began:
            self.connection.execute("ROLLBACK")
        elif level.savepoint is None:
            if self.connection.total_changes() != level.changes:
                self.connection.execute("ROLLBACK")
        else:
            # an error: the savepoint itself could not be set, or was released: nothing of ours is left
            with suppress(apsw.SQLError):
                self.connection.execute(f"ROLLBACK TO {level.savepoint}; RELEASE {level.savepoint}")

    @contextmanager
    def large_cache(self) -> Iterator[None]:
        """Keep more pages meanwhile, for writing many documents; a size that is not ours stays as it is."""
        with self.hold(), translated(self.name):
            ours = self.owned and self.connection.pragma("cache_size") == self._cache_size
            if ours:
                self.connection.pragma("cache_size", -limits.CACHE_KIB_MANY)
        try:
            yield
        finally:
            loan = self.turn.take(0) if ours and not self._closed and not self.forked else None
            if loan is not None:
                with loan:
                    with suppress(apsw.Error):
                        self._cache_size = _cache_size(self.connection)
                    with suppress(apsw.Error):
                        self.connection.pragma("cache_size", self._cache_size)
            elif ours:  # another thread is at work already: the next load sees to it
                self._cache_size = -limits.CACHE_KIB_MANY

    def keep_log_short(self) -> None:
        """Move the write-ahead log of a connection of our own whenever a commit finds it long."""
        self.connection.set_wal_hook(Log(self.timeout).committed)

    def truncate_log(self) -> None:
        """Move the write-ahead log into the file and cut it, unless others are at work just now: they are not waited for."""
        Log(self.timeout).move(self.connection, "main", apsw.SQLITE_CHECKPOINT_TRUNCATE)

    def close(self) -> None:
        """Close a connection of our own; a caller's stays open, and so does that of a parent process."""
        if self.forked:
            self._closed = True
            return
        with self.hold():
            if self._closed:
                return
            if self._depth:
                raise NearDupError("the index cannot be closed inside its own transaction: leave the transaction first")
            self.abandon()

    def abandon(self) -> None:
        """The same in the midst of anything, for a database that was not opened to its end."""
        self._closed = True
        with suppress(apsw.ConnectionClosedError):  # by its owner
            self.undo.unwatch(self.connection)
        if self.owned:
            with suppress(*OF_CHECKPOINT):
                self.connection.close()


class _Translated:
    """Errors of SQLite come out as errors of this package."""

    def __init__(self, name: str = "") -> None:
        self._name = name

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, apsw.Error):
            raise translate(error, self._name) from error


@lru_cache(64)
def translated(name: str = "") -> _Translated:
    """A block whose errors of SQLite come out as errors of this package; name: of the file."""
    return _Translated(name)
