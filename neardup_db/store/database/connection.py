"""One SQLite connection, its transactions, and the threads that share it."""

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
from .log import OF_CHECKPOINT, Log
from .open import cache_size
from .standard import StandardConnection
from .statements import Connection, Statement

Done = TypeVar("Done")


def undecodable(error: UnicodeDecodeError) -> CorruptIndexError:
    """Text of the file that is not Unicode is damage. Each method that reads rows has an `except` for it, which costs nothing: a
    context manager, entered with every statement, would take part of a query's time."""
    return CorruptIndexError(f"the file holds text that is no Unicode ({error.object[:40]!r}): restore a backup")


def _raw_row(cursor: apsw.Cursor, row: Any) -> Any:
    return row


def current_task() -> object | None:
    asyncio = sys.modules.get("asyncio")  # to import it takes longer than to open an index
    if asyncio is None or asyncio._get_running_loop() is None:
        return None
    task: object | None = asyncio.current_task()
    return task


def _nothing() -> None:
    return None


class _Level:
    """One of the nested transactions. Only its block refers to it, so a level that was freed has lost its block."""

    __slots__ = ("began", "depth", "savepoint", "released", "changes", "mark", "outermost", "hold", "__weakref__")

    def __init__(self, began: bool, depth: int, savepoint: str | None, changes: int) -> None:
        self.began = began
        """Whether it is the outermost one."""
        self.depth = depth
        """How many there are around it."""
        self.savepoint = savepoint
        """Of an inner one. No other has its name, so what is done to it is never done to another."""
        self.released = False
        """Whether what became of the savepoint is decided: where it is gone, then by the statement that this stands before."""
        self.changes = changes
        """Rows that the connection had changed before."""
        self.mark: Callable[[], None] = partial(_nothing)
        """Stands in `Database.undo` as long as the same transaction is open."""
        self.outermost: weakref.ref[_Level] | None = None
        """The outermost level of its transaction, where that was begun here."""
        self.hold: Loan | Hold | None = None
        """As of `Undo.hold`."""


_NUMBERS = count()

_ROLL_BACKS = 100
"""Tries to roll back while others interrupt the connection."""


class Undo(list[Callable[[], None]]):
    """Calls that forget the work of the open transaction if it is rolled back. SQLite itself says how it ended."""

    def __init__(self) -> None:
        super().__init__()
        self.ends = 0
        """How many transactions have ended, as far as SQLite has told."""
        self._calls = Turn()
        """Taken while a call is in the middle of its work, on a connection of apsw."""
        self._standard: StandardConnection | None = None

    def refuse_commits(self) -> Loan | Hold | None:
        """A call is in the middle of its work until what this returns has ended, or nobody has it any more: a COMMIT, which can
        only come from the caller's SQL then, rolls back."""
        return self._calls.take(0) if self._standard is None else self._standard.refuse_commits()

    def watch(self, connection: Any) -> None:
        """Hear of the ends of a connection's transactions. The hooks have a name of their own: those of its owner stay."""
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
            raise CommitInCallError  # and SQLite rolls back
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
    """A connection with nested transactions, safe to share among threads: one of them uses it at a time."""

    is_trusted = True
    """Whether no stranger's SQL comes to the connection."""

    another: Callable[[], apsw.Connection] | None = None
    """Opens one more connection to the same file, to read; None where there can be none."""

    def __init__(self, connection: apsw.Connection, *, owned: bool, read_only: bool, timeout: float = 0.0) -> None:
        self.connection = connection
        self.timeout = timeout
        self.owned = owned
        self.read_only = read_only
        self.name = connection.filename if owned else ""
        """Of the file, in messages."""
        self.turn = connection.turn if isinstance(connection, StandardConnection) else Turn()
        """Of the thread that uses the connection."""
        self._attending: dict[int, list[weakref.WeakMethod[Callable[[bool], None]]]] = {}
        """By thread: the loads with records in hand, which are to be written before the thread uses the connection for more."""
        self.undo = Undo()
        self.undo.watch(connection)
        self._task: object | None = None
        """The asyncio task that is inside `writing`."""
        self._cache_size: int = connection.pragma("cache_size") if owned else 0
        """As it was set for a connection of our own."""
        self._number = next(_NUMBERS)
        """Of this one among those that may share a connection."""
        self._depth = 0
        self._outermost: weakref.ref[_Level] | None = None
        """Of the transaction that was begun here, while it is open."""
        self._ends = 0
        """As of `Undo.ends`, when the transaction was begun, or joined, that this writes in."""
        self._joined = False
        """Whether the last call ran inside a transaction that was not begun here."""
        self._uncertain: apsw.Error | None = None
        """The I/O error of a commit: the log may hold a transaction that this connection takes for rolled back, and that is there
        again after a crash. Nothing may be built on either."""
        self._process_id = os.getpid()
        self._closed = False
        forks.watch(self)

    def require_open(self) -> None:
        """Raise ClosedError, also in a forked child. Call this before waiting for the lock: at the fork a thread that the child
        lacks may have held it. Raise NearDupError after a commit whose outcome is not known."""
        if self._closed:
            raise ClosedError("the index is closed: open it again with Index(path)")
        if os.getpid() != self._process_id:
            raise ClosedError("this index was opened in the parent process: open it again in the child, after the fork")
        if self._uncertain is not None:
            raise unknown_outcome(self._uncertain, self.name) from self._uncertain

    def lock(self) -> Loan:
        """This thread's turn to use the connection, which ends with the loan. Raises BusyError after the timeout."""
        loan = self.turn.take(self.timeout)
        if loan is None:
            raise BusyError(
                f"another thread has been inside a transaction, or a call like add_many, for {self.timeout:g} s: try "
                "again, give Index a larger timeout, or let that thread come out before it waits for this one"
            )
        self._recover()
        return loan

    def take_now(self) -> Loan | None:
        """This thread's turn, if it is free and no other asyncio task of the thread is inside a transaction. Raises as
        `require_open`."""
        loan = self.turn.take(0)
        if self._closed or self._uncertain is not None or os.getpid() != self._process_id:
            self.require_open()
        return loan if self._depth == 0 or self.is_task else None

    @property
    def is_task(self) -> bool:
        """Whether no other asyncio task of this thread is inside a transaction."""
        return self._depth == 0 or not self.turn.mine or self._task is current_task()

    def require_task(self) -> None:
        """Raise BusyError where another asyncio task of this thread is inside a transaction."""
        if not self.is_task:
            raise BusyError(
                "another asyncio task of this thread is inside a transaction of this index, and nothing was done: "
                "let tasks take turns (an asyncio.Lock around each transaction), or give each task an Index of its own"
            )

    # ---- records in hand -----------------------------------------------------------------------------------------------

    @contextmanager
    def flush_before_use(self, settle: Callable[[bool], None]) -> Iterator[None]:
        """Inside, this thread has records in hand: `settle` stores them before the thread asks for anything, and refuses that it
        writes."""
        thread = threading.get_ident()
        before = [attending for attending in self._attending.get(thread, ()) if attending() is not None]
        try:
            self._attending[thread] = [*before, weakref.WeakMethod(settle)]
            yield
        finally:
            if before:
                self._attending[thread] = before
            else:
                self._attending.pop(thread, None)

    @property
    def is_loading(self) -> bool:
        return bool(self._attending) and threading.get_ident() in self._attending

    def flush_pending(self, *, to_write: bool = False) -> None:
        """Store the records that this thread has in hand, before the connection is used. to_write: raise NearDupError instead,
        where the thread is not the load itself."""
        if self._attending:
            for attending in self._attending.get(threading.get_ident(), ()):
                settle = attending()
                if settle is not None:  # None: the load was interrupted at its end
                    settle(to_write)

    def is_at_rest(self) -> bool:
        """Whether no transaction is open, after this thread's records in hand were written."""
        if self._attending:
            self.flush_pending()
        try:
            return self._depth == 0 and not self.connection.in_transaction
        except apsw.Error as error:  # its owner has closed it
            raise translate(error, self.name) from error

    @property
    def has_open_cursor(self) -> bool:
        """Whether a statement on a connection of our own has rows left, so that its reader may come back for them at any time."""
        return isinstance(self.connection, Connection) and has_open_cursor(self.connection)

    @property
    def caller_connection(self) -> Any:
        """The connection as the caller knows it."""
        return self.connection.given if isinstance(self.connection, StandardConnection) else self.connection

    @property
    def forked(self) -> bool:
        return os.getpid() != self._process_id

    @property
    def is_closed(self) -> bool:
        return self._closed

    @property
    def depth(self) -> int:
        """How many transactions this thread is inside of; those of other threads do not count."""
        return self._depth if self.turn.mine else 0

    @property
    def in_own_transaction(self) -> bool:
        """Whether a thread is inside `writing`."""
        return self._depth > 0

    @property
    def in_callers_transaction(self) -> bool:
        """Whether the caller's own SQL on the connection has begun the open transaction."""
        try:
            return self.connection.in_transaction and not self._began
        except (apsw.ThreadingViolationError, apsw.ConnectionClosedError):  # another thread is at work, and has looked
            return self._joined

    def execute(self, sql: str, bindings: Any = None) -> apsw.Cursor:
        """Run SQL that gives no rows; the caller holds the lock through `reading` or `writing`."""
        if self._depth:
            self._require_same()
        return self._run(sql, bindings)

    def execute_many(self, sql: str, bindings: Iterable[Any]) -> list[tuple[Any, ...]]:
        """Run SQL once for each of some bindings. All rows are read: with PRAGMA count_changes even INSERT returns one, and
        executemany stops at each row."""
        if self._depth:
            self._require_same()
        return self._plain_cursor().executemany(sql, bindings).fetchall()

    def _require_same(self) -> None:
        """Raise NearDupError where other hands have ended the transaction that this writes in. What follows would be stored
        alone, or in another one of theirs."""
        if not self.connection.in_transaction or self.undo.ends != self._ends:
            raise lost_transaction()

    def _run(self, sql: str, bindings: Any = None) -> apsw.Cursor:
        connection = self.connection
        if connection.row_trace is None and connection.convert_jsonb is None and connection.cursor_factory is apsw.Cursor:
            return connection.execute(sql, bindings)
        return self._plain_cursor().execute(sql, bindings)

    def _plain_cursor(self) -> apsw.Cursor:
        """A cursor that returns rows as SQLite has them, whatever the application set for cursors of its own."""
        if isinstance(self.connection, StandardConnection):
            return self.connection.cursor()
        cursor = apsw.Cursor(self.connection)
        cursor.convert_jsonb = None
        if self.connection.row_trace is not None:
            cursor.row_trace = _raw_row
        return cursor

    def prepared(self, sql: str) -> Statement | None:
        """SQL that stays prepared, for what is asked again and again; None on a connection that is not of our own."""
        return self.connection.prepared(sql) if isinstance(self.connection, Connection) else None

    @property
    def carray(self) -> str:
        """The table function that gives the values of `carried`."""
        return "neardup_array" if isinstance(self.connection, StandardConnection) else "carray"

    def carried(self, values: Any) -> Any:
        """An array of int64, or a tuple of str or of bytes, to be bound for `carray`, which reads it where it stands."""
        if not isinstance(self.connection, StandardConnection):
            return apsw.carray(values)
        return Array(values if isinstance(values, tuple) else values.tobytes())

    def rows(self, sql: str, bindings: Any = None) -> list[tuple[Any, ...]]:
        try:
            return self.execute(sql, bindings).fetchall()
        except UnicodeDecodeError as error:
            raise undecodable(error) from error

    def row(self, sql: str, bindings: Any = None) -> tuple[Any, ...] | None:
        """The first row of a query, None where there is none."""
        try:
            row: tuple[Any, ...] | None = self.execute(sql, bindings).fetchone()
            return row
        except UnicodeDecodeError as error:
            raise undecodable(error) from error

    @contextmanager
    def first_row(self, sql: str, bindings: Any = None) -> Iterator[tuple[Any, ...] | None]:
        """The first row of a query, None where there is none. The query does not end inside, so queries there see the same
        state: a transaction without the two statements BEGIN and COMMIT."""
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
        """The rows of a query one by one, where there may be too many to hold."""
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

        In a damaged file it may not, and a listing that goes on after the last row would never end."""
        return self.ordered(self.rows(sql, (after_id, *more)), after_id)

    def ordered(self, rows: list[tuple[Any, ...]], after_id: int) -> list[tuple[Any, ...]]:
        """The same rows, if they are after that id, as `page` reads them."""
        if rows and rows[-1][0] <= after_id:
            raise CorruptIndexError("the rows of a table are not in the order of their ids: restore a backup")
        return rows

    def value(self, sql: str, bindings: Any = None) -> Any:
        row = self.row(sql, bindings)
        return None if row is None else row[0]

    def value_after_all(self, sql: str, bindings: Any) -> Any:
        """`value` where the transaction of this call may be over."""
        row = self._plain_cursor().execute(sql, bindings).fetchone()
        return None if row is None else row[0]

    @contextmanager
    def reading(self) -> Iterator[bool]:
        """One consistent state for everything inside. Yields True where this began a transaction."""
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
                        except BaseException:  # interrupted, perhaps before it did anything
                            self._end_reading()
                            raise
                        self._outermost = None
            except apsw.Error as error:
                raise translate(error, self.name) from error

    @contextmanager
    def writing(self, *, light: bool = False, is_block: bool = False) -> Iterator[bool]:
        """All or nothing for everything inside; nests. Yields True where this began a transaction.

        A COMMIT of other hands meanwhile rolls back, unless is_block: then the caller's own code runs inside. light: inside
        another transaction there is no savepoint, for which SQLite would copy every page before it changes. Then an error after
        changes ends the outermost transaction: for work that finds its own errors before it changes anything."""
        with self.lock():
            self.require_open()
            self.require_task()
            if self.read_only:
                raise ReadOnlyError("the index was opened with read_only=True: open it without, to write")
            with translated(self.name):
                if self._attending:
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
                    except BaseException:  # interrupted, perhaps before it did anything
                        self._roll_back(level)
                        raise
                    raise
                finally:
                    # without a call: behind each an interrupt can come
                    level.hold = None
                    if level.began:
                        self._depth = 0
                        if self._closed or self.forked or not self.connection.in_transaction:
                            self._outermost = None
                    elif level.outermost is self._outermost and self._depth:
                        self._depth -= 1

    def current_transaction(self) -> object | None:
        """The transaction that was begun here, an object that no other one has, where this thread and task are inside `writing`
        and have nothing to write before. Then a light change needs no level of its own (`change`)."""
        if self._depth and self.turn.mine and not self._attending and not self.forked:
            return self.transaction if self.connection.in_transaction and self.is_task else None
        return None

    @property
    def transaction(self) -> object | None:
        """The transaction that was begun here, as of `inside`."""
        begun = self._outermost
        return None if begun is None or begun() is None else begun

    def change(self, work: Callable[[], Done]) -> Done:
        """What `work` returns, where this thread is `inside` a transaction: as a light `writing`, without what the transaction
        has done already."""
        changes = self.connection.total_changes()
        hold = self.undo.refuse_commits()
        try:
            done = work()
            if not self.connection.in_transaction:
                raise lost_transaction()
            return done
        except BaseException as error:
            try:
                self._undo_light(changes)
            except BaseException:  # interrupted, perhaps before it did anything
                self._undo_light(changes)
                raise
            if isinstance(error, apsw.Error):
                raise translate(error, self.name) from error
            raise
        finally:
            del hold

    def _undo_light(self, changes: int) -> None:
        """End the transaction if rows were changed since there were so many changes: without a savepoint there is no less."""
        if not self.forked and self.connection.in_transaction and self.connection.total_changes() != changes:
            self._roll_back_all()

    def _roll_back_all(self) -> None:
        """End the open transaction without its changes, even while a cursor of the application's is open that was interrupted.

        Until that cursor ends SQLite interrupts every statement, ROLLBACK included. It rolls the whole transaction back, though,
        where it interrupts a statement that writes; where it does not, BEGIN fails inside a transaction and changes nothing."""
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
        """A new level. After some errors SQLite rolls back all of a transaction, outer levels too: statements that follow inside
        them must not be stored alone."""
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
        """Roll back a transaction that was begun here, and whose block was interrupted before it could end it."""
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
        """Inside the try: waiting for another writer can take long, and Ctrl-C then comes right after the transaction began."""
        if level.began:
            self._run("BEGIN IMMEDIATE")
            self.undo.append(level.mark)
        elif level.savepoint is not None:
            self._run(f"SAVEPOINT {level.savepoint}")
        if level.depth == 0:
            self._ends = self.undo.ends

    def _commit(self, level: _Level) -> None:
        self.require_open()  # not in a child that was forked inside
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
        except apsw.SQLError as error:  # there is no such savepoint
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
        if self.forked:  # it is the parent's, and so is the connection, which may be in the middle of a call: not one look at it
            self._outermost = None
            return
        if self._closed or level.outermost is not self._outermost:
            return  # over already
        if not self.connection.in_transaction:  # it did not begin, was committed, or SQLite has rolled back by itself
            return
        if level.began:
            self._roll_back_all()
        elif self.undo.ends != self._ends:  # it is another one, and has nothing of ours
            return
        elif level.savepoint is None:
            self._undo_light(level.changes)
        else:
            try:
                self._run(f"ROLLBACK TO {level.savepoint}")
                level.released = True
                self._run(f"RELEASE {level.savepoint}")
            except apsw.SQLError:  # it was released before an interrupt; or it could not be set, or other hands have ended it
                if not level.released:
                    self._undo_light(level.changes)
            except apsw.InterruptError:
                self._undo_light(level.changes)

    @contextmanager
    def large_cache(self) -> Iterator[None]:
        """Keep more pages meanwhile, for writing many documents; a size that is not ours stays as it is."""
        with self.lock(), translated(self.name):
            self.flush_pending(to_write=True)
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
                        self._cache_size = cache_size(self.connection)
                    with suppress(apsw.Error):
                        self.connection.pragma("cache_size", self._cache_size)
            elif ours:  # another thread is at work already: the next load sees to it
                self._cache_size = -limits.CACHE_KIB_MANY

    def keep_log_short(self) -> None:
        """Move the write-ahead log of a connection of our own whenever a commit finds it long."""
        self.connection.set_wal_hook(Log(self.timeout).committed)

    def truncate_log(self) -> None:
        """Move the write-ahead log into the file and cut it, unless others use it: there is no waiting for them."""
        Log(self.timeout).move(self.connection, "main", apsw.SQLITE_CHECKPOINT_TRUNCATE)

    def close(self) -> None:
        """Close a connection of our own; a caller's stays open, and so does that of a parent process."""
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
        """Close at any moment, for a database whose opening failed."""
        self._closed = True
        with suppress(apsw.ConnectionClosedError):  # by its owner
            self.undo.unwatch(self.connection)
        if self.owned:
            with suppress(*OF_CHECKPOINT):
                self.connection.close()
