"""One SQLite connection with nested transactions, shared by threads."""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count
from typing import Any, TypeVar

import apsw

from ... import limits
from ..._questions import has_open_cursor
from ..._standard import Array, Hold
from ..._turns import Loan, Turn
from ...errors import BusyError, ClosedError, CorruptIndexError, NearDupError, ReadOnlyError
from . import forks
from .errors import CommitInCallError, lost_transaction, translate, translated, unknown_outcome
from .log import CHECKPOINT_ERRORS, Log
from .open import cache_size
from .standard import StandardConnection
from .statements import Connection, Statement

Done = TypeVar("Done")


def undecodable(error: UnicodeDecodeError) -> CorruptIndexError:
    """The error for stored text that is not Unicode, which is damage.

    Every method that reads rows catches UnicodeDecodeError itself, at no cost; a context manager around every statement would
    slow queries down.
    """
    return CorruptIndexError(f"the file holds text that is no Unicode ({error.object[:40]!r}): restore a backup")


def _raw_row(cursor: apsw.Cursor, row: Any) -> Any:
    return row


def current_task() -> object | None:
    asyncio = sys.modules.get("asyncio")  # importing it takes longer than opening an index
    if asyncio is None or asyncio._get_running_loop() is None:
        return None
    task: object | None = asyncio.current_task()
    return task


def _nothing() -> None:
    return None


class _Level:
    """One of the nested transactions. Only its `with` block references it, so a freed level has lost its block."""

    __slots__ = ("began", "depth", "savepoint", "released", "changes", "mark", "outermost", "hold", "__weakref__")

    def __init__(self, began: bool, depth: int, savepoint: str | None, changes: int) -> None:
        self.began = began
        """True for the outermost level."""
        self.depth = depth
        self.savepoint = savepoint
        """The savepoint of an inner level. The name is unique, so it never affects another savepoint."""
        self.released = False
        """True once the statement that decides the savepoint's fate is about to run: if the savepoint no longer exists, that
        statement removed it."""
        self.changes = changes
        self.mark: Callable[[], None] = partial(_nothing)
        """An entry of `Database.undo` as long as the same transaction is open."""
        self.outermost: weakref.ref[_Level] | None = None
        """The outermost level of its transaction, if this package began it."""
        self.hold: Loan | Hold | None = None
        """See `Undo.refuse_commits`."""


_NUMBERS = count()

_ROLL_BACKS = 100
"""Attempts to roll back while others interrupt the connection."""


class Undo(list[Callable[[], None]]):
    """Functions that restore cached state if the open transaction is rolled back, called from SQLite's hooks."""

    def __init__(self) -> None:
        super().__init__()
        self.ends = 0
        """The number of transactions that ended, as far as SQLite has reported."""
        self._calls = Turn()
        """Locked while a call is running, on an apsw connection."""
        self._standard: StandardConnection | None = None

    def refuse_commits(self) -> Loan | Hold | None:
        """Until the returned object is released, a COMMIT rolls back instead: it can only come from SQL of the application in
        the middle of a call."""
        return self._calls.take(0) if self._standard is None else self._standard.refuse_commits()

    def watch(self, connection: Any) -> None:
        """Register for the ends of the connection's transactions. The hooks have their own id, so the application's hooks
        stay."""
        if isinstance(connection, StandardConnection):
            self._standard = connection
            connection.watch(self)
        elif isinstance(connection, apsw.Connection):
            connection.set_commit_hook(self._commit, id=id(self))
            connection.set_rollback_hook(self.rolled_back, id=id(self))

    def unwatch(self, connection: Any) -> None:
        if isinstance(connection, StandardConnection):
            connection.unwatch(self)
        elif isinstance(connection, apsw.Connection):
            connection.set_commit_hook(None, id=id(self))
            connection.set_rollback_hook(None, id=id(self))

    def _commit(self) -> bool:
        if self._calls.taken:
            raise CommitInCallError  # SQLite rolls back
        self.committed()
        return False

    def committed(self) -> None:
        self.ends += 1
        self.clear()

    def rolled_back(self) -> None:
        self.ends += 1
        while self:
            self.pop()()


class Database:
    """A connection with nested transactions, usable by one thread at a time."""

    is_trusted = True
    """True if no SQL of the application runs on the connection."""

    open_reader: Callable[[], apsw.Connection] | None = None
    """Opens another read connection to the same file; None if that is impossible."""

    def __init__(self, connection: apsw.Connection, *, owned: bool, read_only: bool, timeout: float = 0.0) -> None:
        self.connection = connection
        self.timeout = timeout
        self.owned = owned
        self.read_only = read_only
        self.name = connection.filename if owned else ""
        """The name of the file in messages."""
        self.turn = connection.turn if isinstance(connection, StandardConnection) else Turn()
        """The lock for using the connection."""
        self._loads: dict[int, list[weakref.WeakMethod[Callable[[bool], None]]]] = {}
        """The loads with pending records by thread; these are flushed before the thread uses the connection."""
        self.undo = Undo()
        self.undo.watch(connection)
        self._task: object | None = None
        """The asyncio task inside `writing`."""
        self._cache_size: int = connection.pragma("cache_size") if owned else 0
        """The cache size that was set for an owned connection."""
        self._number = next(_NUMBERS)
        """Unique among the objects that may share a connection."""
        self._depth = 0
        self._outermost: weakref.ref[_Level] | None = None
        """The outermost level of the open transaction, if this package began it."""
        self._ends = 0
        """`Undo.ends` when the transaction was begun or joined."""
        self._joined = False
        """True if the last call ran inside a transaction of the application."""
        self._uncertain: apsw.Error | None = None
        """The I/O error of a commit. The log may contain a transaction that this connection considers rolled back, and that
        would reappear after a crash, so no further use is safe."""
        self._process_id = os.getpid()
        self._closed = False
        forks.watch(self)

    def require_open(self) -> None:
        """Raise ClosedError if the index is closed or was opened before a fork, and NearDupError after a commit with an unknown
        outcome.

        Call this before waiting for the lock: a thread that does not exist in a forked child may have held it.
        """
        if self._closed:
            raise ClosedError("the index is closed: open it again with Index(path)")
        if os.getpid() != self._process_id:
            raise ClosedError("this index was opened in the parent process: open it again in the child, after the fork")
        if self._uncertain is not None:
            raise unknown_outcome(self._uncertain, self.name) from self._uncertain

    def lock(self) -> Loan:
        """Lock the connection for this thread until the returned guard is released. Raises BusyError after the timeout."""
        loan = self.turn.take(self.timeout)
        if loan is None:
            raise BusyError(
                f"another thread has been inside a transaction, or a call like add_many, for {self.timeout:g} s: try "
                "again, give Index a larger timeout, or let that thread come out before it waits for this one"
            )
        self._recover()
        return loan

    def try_lock(self) -> Loan | None:
        """Lock the connection if it is free and no other asyncio task of this thread is inside a transaction, else return
        None. Raises like `require_open`."""
        loan = self.turn.take(0)
        if self._closed or self._uncertain is not None or os.getpid() != self._process_id:
            self.require_open()
        return loan if self._depth == 0 or self.is_task else None

    @property
    def is_task(self) -> bool:
        """True unless another asyncio task of this thread is inside a transaction."""
        return self._depth == 0 or not self.turn.mine or self._task is current_task()

    def require_task(self) -> None:
        """Raise BusyError if another asyncio task of this thread is inside a transaction."""
        if not self.is_task:
            raise BusyError(
                "another asyncio task of this thread is inside a transaction of this index, and nothing was done: "
                "let tasks take turns (an asyncio.Lock around each transaction), or give each task an Index of its own"
            )

    # ---- pending records -----------------------------------------------------------------------------------------------

    @contextmanager
    def flush_before_use(self, flush: Callable[[bool], None]) -> Iterator[None]:
        """Call `flush` before this thread uses the connection inside the context. It stores the thread's pending records, or
        raises an error for writes."""
        thread = threading.get_ident()
        before = [load for load in self._loads.get(thread, ()) if load() is not None]
        try:
            self._loads[thread] = [*before, weakref.WeakMethod(flush)]
            yield
        finally:
            if before:
                self._loads[thread] = before
            else:
                self._loads.pop(thread, None)

    @property
    def is_loading(self) -> bool:
        return bool(self._loads) and threading.get_ident() in self._loads

    def flush_pending(self, *, to_write: bool = False) -> None:
        """Store this thread's pending records before the connection is used. to_write: raise NearDupError unless the load
        itself writes."""
        if self._loads:
            for load in self._loads.get(threading.get_ident(), ()):
                flush = load()
                if flush is not None:  # None: an interrupted load
                    flush(to_write)

    def is_idle(self) -> bool:
        """True if no transaction is open, after flushing this thread's pending records."""
        if self._loads:
            self.flush_pending()
        try:
            return self._depth == 0 and not self.connection.in_transaction
        except apsw.Error as error:  # closed by its owner
            raise translate(error, self.name) from error

    @property
    def has_open_cursor(self) -> bool:
        """True if a statement on an owned connection has rows left, which its reader may fetch at any time."""
        return isinstance(self.connection, Connection) and has_open_cursor(self.connection)

    @property
    def caller_connection(self) -> Any:
        """The connection that the application knows."""
        return self.connection.given if isinstance(self.connection, StandardConnection) else self.connection

    @property
    def forked(self) -> bool:
        return os.getpid() != self._process_id

    @property
    def is_closed(self) -> bool:
        return self._closed

    @property
    def depth(self) -> int:
        """The number of transactions that this thread is inside of."""
        return self._depth if self.turn.mine else 0

    @property
    def in_own_transaction(self) -> bool:
        """True if any thread is inside `writing`."""
        return self._depth > 0

    @property
    def in_callers_transaction(self) -> bool:
        """True if SQL of the application began the open transaction."""
        try:
            return self.connection.in_transaction and not self._began
        except (apsw.ThreadingViolationError, apsw.ConnectionClosedError):  # in use by another thread, which has checked
            return self._joined

    def execute(self, sql: str, bindings: Any = None) -> apsw.Cursor:
        """Run SQL without result rows. The caller holds the lock through `reading` or `writing`."""
        if self._depth:
            self._require_same()
        return self._run(sql, bindings)

    def execute_many(self, sql: str, bindings: Iterable[Any]) -> list[tuple[Any, ...]]:
        """Run SQL for each of several bindings and return all rows.

        executemany stops at each result row, which even INSERT returns under PRAGMA count_changes.
        """
        if self._depth:
            self._require_same()
        return self._plain_cursor().executemany(sql, bindings).fetchall()

    def _require_same(self) -> None:
        """Raise NearDupError if SQL of the application ended this transaction. Further statements would be stored alone, or in
        another transaction."""
        if not self.connection.in_transaction or self.undo.ends != self._ends:
            raise lost_transaction()

    def _run(self, sql: str, bindings: Any = None) -> apsw.Cursor:
        connection = self.connection
        if connection.row_trace is None and connection.convert_jsonb is None and connection.cursor_factory is apsw.Cursor:
            return connection.execute(sql, bindings)
        return self._plain_cursor().execute(sql, bindings)

    def _plain_cursor(self) -> apsw.Cursor:
        """A cursor that returns unmodified rows, whatever the application configured for its own cursors."""
        if isinstance(self.connection, StandardConnection):
            return self.connection.cursor()
        cursor = apsw.Cursor(self.connection)
        cursor.convert_jsonb = None
        if self.connection.row_trace is not None:
            cursor.row_trace = _raw_row
        return cursor

    def prepared(self, sql: str) -> Statement | None:
        """A prepared statement for repeated queries; None on a connection of the application."""
        return self.connection.prepared(sql) if isinstance(self.connection, Connection) else None

    @property
    def carray(self) -> str:
        """The table function that reads `carried` values."""
        return "neardup_array" if isinstance(self.connection, StandardConnection) else "carray"

    def carried(self, values: Any) -> Any:
        """An array of int64, or a tuple of str or bytes, as a binding for `carray`, which reads it without a copy."""
        if not isinstance(self.connection, StandardConnection):
            return apsw.carray(values)
        return Array(values if isinstance(values, tuple) else values.tobytes())

    def rows(self, sql: str, bindings: Any = None) -> list[tuple[Any, ...]]:
        try:
            return self.execute(sql, bindings).fetchall()
        except UnicodeDecodeError as error:
            raise undecodable(error) from error

    def row(self, sql: str, bindings: Any = None) -> tuple[Any, ...] | None:
        """The first row of a query, or None."""
        try:
            row: tuple[Any, ...] | None = self.execute(sql, bindings).fetchone()
            return row
        except UnicodeDecodeError as error:
            raise undecodable(error) from error

    @contextmanager
    def first_row(self, sql: str, bindings: Any = None) -> Iterator[tuple[Any, ...] | None]:
        """The first row of a query, or None. The statement stays open inside the context, so queries there read the same state
        without BEGIN and COMMIT."""
        try:
            cursor = self.execute(sql, bindings)
            row: tuple[Any, ...] | None = cursor.fetchone()
        except UnicodeDecodeError as error:
            raise undecodable(error) from error
        try:
            yield row
        finally:
            cursor.close()

    def stream(self, sql: str, bindings: Any = None) -> Generator[tuple[Any, ...], None, None]:
        """The rows of a query one by one, for large results."""
        try:
            yield from self.execute(sql, bindings)
        except UnicodeDecodeError as error:
            raise undecodable(error) from error

    def rows_of_many(self, sql: str, bindings: Iterable[Any]) -> list[tuple[Any, ...]]:
        try:
            return self.execute_many(sql, bindings)
        except UnicodeDecodeError as error:
            raise undecodable(error) from error

    def page(self, sql: str, after_id: int, *more: Any) -> list[tuple[Any, ...]]:
        """Rows of a query whose first column ascends from above `after_id`, its first parameter.

        Raises CorruptIndexError otherwise, because a paged listing of a damaged file might never end.
        """
        return self.ordered(self.rows(sql, (after_id, *more)), after_id)

    def ordered(self, rows: list[tuple[Any, ...]], after_id: int) -> list[tuple[Any, ...]]:
        """The same rows. Raises CorruptIndexError unless the last one is above `after_id`."""
        if rows and rows[-1][0] <= after_id:
            raise CorruptIndexError("the rows of a table are not in the order of their ids: restore a backup")
        return rows

    def value(self, sql: str, bindings: Any = None) -> Any:
        row = self.row(sql, bindings)
        return None if row is None else row[0]

    def value_after_error(self, sql: str, bindings: Any) -> Any:
        """`value` if the transaction of this call may be over."""
        row = self._plain_cursor().execute(sql, bindings).fetchone()
        return None if row is None else row[0]

    @contextmanager
    def reading(self) -> Iterator[bool]:
        """A read transaction: one consistent state. Yields True if it began here."""
        with self.lock():
            self.require_open()
            self.require_task()
            try:
                self.flush_pending()
                level = self._level()
                try:
                    if level.began:
                        self._run("BEGIN")
                    yield level.began
                finally:
                    if level.began:
                        try:
                            self._end_reading()
                        except BaseException:  # interrupted, possibly before it took effect
                            self._end_reading()
                            raise
                        self._outermost = None
            except apsw.Error as error:
                raise translate(error, self.name) from error

    @contextmanager
    def writing(self, *, light: bool = False, is_block: bool = False) -> Iterator[bool]:
        """An atomic write transaction; nests. Yields True if it began here.

        A COMMIT by SQL of the application inside it rolls back, unless is_block: then the application's code runs inside. light:
        no savepoint inside another transaction, because SQLite would copy every page before changing it; an error after changes
        then ends the outermost transaction. Use it for work that detects its errors before its first change.
        """
        with self.lock():
            self.require_open()
            self.require_task()
            if self.read_only:
                raise ReadOnlyError("the index was opened with read_only=True: open it without, to write")
            with translated(self.name):
                if self._loads:
                    self.flush_pending(to_write=True)
                level = self._level(light=light)
                try:
                    self._depth += 1
                    self._begin(level)
                    if not is_block:
                        level.hold = self.undo.refuse_commits()
                    yield level.began
                    self._commit(level)
                except BaseException:
                    try:
                        self._roll_back(level)
                    except BaseException:  # interrupted, possibly before it took effect
                        self._roll_back(level)
                        raise
                    raise
                finally:
                    # no calls here: an interrupt can follow each
                    level.hold = None
                    if level.began:
                        self._depth = 0
                        if self._closed or self.forked or not self.connection.in_transaction:
                            self._outermost = None
                    elif level.outermost is self._outermost and self._depth:
                        self._depth -= 1

    def current_transaction(self) -> object | None:
        """A unique object for the transaction begun here, if this thread and task are inside `writing` and have no pending
        records, else None. A light change then needs no level (`change`)."""
        if self._depth and self.turn.mine and not self._loads and not self.forked:
            return self.transaction if self.connection.in_transaction and self.is_task else None
        return None

    @property
    def transaction(self) -> object | None:
        """A unique object for the open transaction, if it began here."""
        outermost = self._outermost
        return None if outermost is None or outermost() is None else outermost

    def change(self, work: Callable[[], Done]) -> Done:
        """Run `work` inside a `current_transaction` and return its result: a light `writing` without the checks already done."""
        changes = self.connection.total_changes()
        hold = self.undo.refuse_commits()
        try:
            result = work()
            if not self.connection.in_transaction:
                raise lost_transaction()
            return result
        except BaseException as error:
            try:
                self._undo_light(changes)
            except BaseException:  # interrupted, possibly before it took effect
                self._undo_light(changes)
                raise
            if isinstance(error, apsw.Error):
                raise translate(error, self.name) from error
            raise
        finally:
            del hold

    def _undo_light(self, changes: int) -> None:
        """Roll back the whole transaction if rows were changed since `changes`: without a savepoint there is no smaller unit."""
        if not self.forked and self.connection.in_transaction and self.connection.total_changes() != changes:
            self._roll_back_all()

    def _roll_back_all(self) -> None:
        """Roll back the open transaction, even while an interrupted cursor of the application is open.

        SQLite then interrupts every statement, including ROLLBACK, until that cursor is closed. But interrupting a statement that
        writes rolls back the whole transaction; BEGIN, if it is not interrupted, fails inside a transaction without effect.
        """
        for _ in range(_ROLL_BACKS):
            if not self.connection.in_transaction:
                return
            with suppress(apsw.InterruptError):
                self._run("ROLLBACK")
                return
            with suppress(apsw.InterruptError, apsw.SQLError, apsw.BusyError):
                self._run("BEGIN IMMEDIATE")
        self._run("ROLLBACK")

    def _level(self, *, light: bool = False) -> _Level:
        """A new level. Raises NearDupError if SQLite has rolled back all outer levels after an error, because further
        statements would be stored alone."""
        began = not self.connection.in_transaction
        if began and self._depth:
            raise lost_transaction()
        savepoint = None if light and self._began else f"neardup_{self._number}_{self._depth}"
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
        return self._outermost is not None

    def _recover(self) -> None:
        """Roll back a transaction whose block was interrupted before it could end it."""
        if self._outermost is not None and self._outermost() is None and not self.forked:
            self._outermost, self._depth = None, 0
            with translated(self.name):
                self._roll_back_all()

    def _end_reading(self) -> None:
        if not self._closed and self.connection.in_transaction and not self.forked:
            try:
                self._run("COMMIT")
            except apsw.InterruptError:
                self._roll_back_all()

    def _begin(self, level: _Level) -> None:
        """Begin the transaction or savepoint. Runs inside the `try` block: waiting for a writer can take long, and an
        interrupt may follow at once."""
        if level.began:
            self._run("BEGIN IMMEDIATE")
            self.undo.append(level.mark)
        elif level.savepoint is not None:
            self._run(f"SAVEPOINT {level.savepoint}")
        if level.depth == 0:
            self._ends = self.undo.ends

    def _commit(self, level: _Level) -> None:
        self.require_open()  # not in a child forked inside the transaction
        if not self.connection.in_transaction or (level.began and level.mark not in self.undo):
            raise lost_transaction()
        if self._depth != level.depth + 1:
            raise NearDupError(
                "a transaction that began inside this one has not ended, and nothing of both is stored: end transactions in the "
                "reverse order of their beginnings"
            )
        level.hold = None
        try:
            if level.began:
                self._run("COMMIT")
            elif level.savepoint is not None:
                level.released = True
                self._run(f"RELEASE {level.savepoint}")
        except apsw.SQLError as error:  # the savepoint does not exist
            if level.began:
                raise
            level.released = False
            raise lost_transaction() from error
        except apsw.IOError as error:
            if not level.began:
                raise
            self._uncertain = error
            raise unknown_outcome(error, self.name) from error

    def _roll_back(self, level: _Level) -> None:
        if self.forked:  # the connection is the parent's, and may be in use: do not touch it
            self._outermost = None
            return
        if self._closed or level.outermost is not self._outermost:
            return  # already over
        if not self.connection.in_transaction:  # not begun, committed, or rolled back by SQLite
            return
        if level.began:
            self._roll_back_all()
        elif self.undo.ends != self._ends:  # another transaction, without changes of this level
            return
        elif level.savepoint is None:
            self._undo_light(level.changes)
        else:
            try:
                self._run(f"ROLLBACK TO {level.savepoint}")
                level.released = True
                self._run(f"RELEASE {level.savepoint}")
            except apsw.SQLError:  # released before an interrupt, never set, or ended by the application
                if not level.released:
                    self._undo_light(level.changes)
            except apsw.InterruptError:
                self._undo_light(level.changes)

    @contextmanager
    def large_cache(self) -> Iterator[None]:
        """Use a larger cache inside the context, for writing many documents. A size set by the application is kept."""
        with self.lock(), translated(self.name):
            self.flush_pending(to_write=True)
            is_default = self.owned and self.connection.pragma("cache_size") == self._cache_size
            if is_default:
                self.connection.pragma("cache_size", -limits.CACHE_KIB_MANY)
        try:
            yield
        finally:
            loan = self.turn.take(0) if is_default and not self._closed and not self.forked else None
            if loan is not None:
                with loan:
                    with suppress(apsw.Error):
                        self._cache_size = cache_size(self.connection)
                    with suppress(apsw.Error):
                        self.connection.pragma("cache_size", self._cache_size)
            elif is_default:  # in use by another thread: the next load resets it
                self._cache_size = -limits.CACHE_KIB_MANY

    def keep_log_short(self) -> None:
        """Checkpoint the write-ahead log of an owned connection after a commit that finds it too long."""
        self.connection.set_wal_hook(Log(self.timeout).committed)

    def truncate_log(self) -> None:
        """Checkpoint and truncate the write-ahead log, unless others use it; does not wait for them."""
        Log(self.timeout).move(self.connection, "main", apsw.SQLITE_CHECKPOINT_TRUNCATE)

    def close(self) -> None:
        """Close an owned connection. A connection of the application, or of a parent process, stays open."""
        if self.forked:
            self._closed = True
            return
        with self.lock():
            if self._closed:
                return
            if self._depth:
                raise NearDupError("the index cannot be closed inside its own transaction: leave the transaction first")
            try:
                self.abandon()
            except apsw.ThreadingViolationError as error:
                self._closed = False
                self.undo.watch(self.connection)
                raise NearDupError(
                    "the index cannot be closed by a function that SQLite calls while it runs a statement of the index, and is "
                    "open as before: close it when the statement has ended"
                ) from error

    def abandon(self) -> None:
        """Close immediately, for a database that failed to open."""
        self._closed = True
        with suppress(apsw.ConnectionClosedError):  # closed by its owner
            self.undo.unwatch(self.connection)
        if self.owned:
            with suppress(*CHECKPOINT_ERRORS):
                self.connection.close()
