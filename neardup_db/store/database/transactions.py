"""The lock, the transactions and the savepoints of one SQLite connection.

- Lock: `lock`, `reading` and `writing` take the connection's lock until their block ends. The same thread may lock again.
- Transaction: the outermost `reading` runs BEGIN, the outermost `writing` BEGIN IMMEDIATE. Inside a transaction of the
  application neither begins one.
- Savepoint: each `writing` inside another transaction sets one, unless `light` and this package began the transaction.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any, TypeVar

import apsw

from ..._python import LockGuard, ReentrantLock, has_open_cursor
from ...errors import BusyError, ClosedError, NearDupError, ReadOnlyError
from . import forks
from .errors import lost_transaction, translate, translated, unknown_outcome
from .standard import StandardConnection
from .statements import Connection
from .undo import Undo

Done = TypeVar("Done")

_NUMBERS = count()
_ROLL_BACKS = 100  # attempts to roll back while others interrupt the connection


def current_task() -> object | None:
    asyncio = sys.modules.get("asyncio")  # importing it takes longer than opening an index
    if asyncio is None or asyncio._get_running_loop() is None:
        return None
    return asyncio.current_task()


class _Level:
    """One of the nested transactions. Only its `with` block references it, so a freed level has lost its block."""

    __slots__ = ("began", "depth", "savepoint", "released", "changes", "mark", "outermost", "hold", "__weakref__")

    def __init__(self, began: bool, depth: int, savepoint: str | None, changes: int) -> None:
        self.began = began  # True for the outermost level
        self.depth = depth
        self.savepoint = savepoint  # the savepoint of an inner level, unique to it
        self.released = False  # True from just before the savepoint's RELEASE: if it is missing then, it was released
        self.changes = changes
        self.mark: Callable[[], None] = lambda: None  # in `Transactions.undo` while the same transaction is open
        self.outermost: weakref.ref[_Level] | None = None  # the outermost level of its transaction, if this package began it
        self.hold: object | None = None  # see `Undo.refuse_commits`


class Transactions:
    def __init__(self, connection: apsw.Connection, *, owned: bool, read_only: bool, timeout: float = 0.0) -> None:
        self.connection = connection
        self.timeout = timeout
        self.owned = owned
        self.read_only = read_only
        self.name = connection.filename if owned else ""  # the name of the file in messages
        self.mutex = connection.mutex if isinstance(connection, StandardConnection) else ReentrantLock()  # locked while in use
        self._loads: dict[int, weakref.WeakMethod[Callable[[bool], None]]] = {}
        """By thread, the function that flushes its innermost load: an outer one has nothing pending."""
        self.undo = Undo()
        self.undo.watch(connection)
        self._task: object | None = None  # the asyncio task inside `writing`
        self._number = next(_NUMBERS)  # unique among the objects that may share a connection
        self._depth = 0
        self._outermost: weakref.ref[_Level] | None = None  # the outermost level of the open transaction, if it began here
        self._ends = 0  # `Undo.ends` when the transaction was begun or joined
        self._joined = False  # True if the last call ran inside a transaction of the application
        self._uncertain: apsw.Error | None = None
        """The I/O error of a commit. The log may contain a transaction that this connection considers rolled back, and that
        would reappear after a crash, so no further use is safe."""
        self._process_id = os.getpid()
        self.is_closed = False
        forks.watch(self)

    # ---- the lock ------------------------------------------------------------------------------------------------------

    def require_open(self) -> None:
        """Raise ClosedError if the index is closed or was opened before a fork, NearDupError after a commit of unknown outcome.

        Call this before waiting for the lock: a thread that does not exist in a forked child may have held it.
        """
        if self.is_closed:
            raise ClosedError("the index is closed: open it again with Index(path)")
        if os.getpid() != self._process_id:
            raise ClosedError("this index was opened in the parent process: open it again in the child, after the fork")
        if self._uncertain is not None:
            raise unknown_outcome(self._uncertain, self.name) from self._uncertain

    def lock(self) -> LockGuard:
        """Lock the connection for this thread until the returned guard is released. Raises BusyError after the timeout.

        Rolls back a transaction whose block was interrupted before it could end it.
        """
        guard = self.mutex.take(self.timeout)
        if guard is None:
            raise BusyError(
                f"another thread has been inside a transaction, or a call like add_many, for {self.timeout:g} s: try "
                "again, give Index a larger timeout, or let that thread come out before it waits for this one"
            )
        if self._outermost is not None and self._outermost() is None and not self.forked:
            self._outermost, self._depth = None, 0
            with translated(self.name):
                self._roll_back_all()
        return guard

    def try_lock(self) -> LockGuard | None:
        """`lock` without waiting: None if another thread has the lock, or another asyncio task of this thread is inside a
        transaction. Raises like `require_open`."""
        guard = self.mutex.take(0)
        if self.is_closed or self._uncertain is not None or os.getpid() != self._process_id:
            self.require_open()
        return guard if self._depth == 0 or self.is_task else None

    @property
    def is_task(self) -> bool:
        return self._depth == 0 or not self.mutex.mine or self._task is current_task()

    def require_task(self) -> None:
        if not self.is_task:
            raise BusyError(
                "another asyncio task of this thread is inside a transaction of this index, and nothing was done: "
                "let tasks take turns (an asyncio.Lock around each transaction), or give each task an Index of its own"
            )

    @property
    def forked(self) -> bool:
        return os.getpid() != self._process_id

    # ---- pending records -----------------------------------------------------------------------------------------------

    @contextmanager
    def flush_before_use(self, flush: Callable[[bool], None]) -> Iterator[None]:
        """Call `flush(to_write)` before this thread uses the connection: it stores pending records, or fails if `to_write`."""
        thread = threading.get_ident()
        before = self._loads.get(thread)
        try:
            self._loads[thread] = weakref.WeakMethod(flush)
            yield
        finally:
            if before is None:
                self._loads.pop(thread, None)
            else:
                self._loads[thread] = before

    @property
    def is_loading(self) -> bool:
        return bool(self._loads) and threading.get_ident() in self._loads

    def flush_pending(self, *, to_write: bool = False) -> None:
        """Store this thread's pending records. to_write: raise NearDupError unless the load itself writes."""
        if self._loads:
            load = self._loads.get(threading.get_ident())
            flush = None if load is None else load()
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

    # ---- transactions --------------------------------------------------------------------------------------------------

    @contextmanager
    def reading(self) -> Iterator[bool]:
        """A read transaction: one consistent state. Yields True if it began here."""
        with self.lock():
            self.require_open()
            self.require_task()
            with translated(self.name):
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

    @contextmanager
    def writing(self, *, light: bool = False, is_block: bool = False) -> Iterator[bool]:
        """An atomic write transaction; nests. Yields True if it began here.

        A COMMIT by SQL of the application inside it rolls back, unless is_block: then its code runs inside. light: no savepoint
        inside a transaction of this package, for which SQLite would copy every page before changing it; an error after changes
        rolls back the outermost transaction, so detect errors before the first change.
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
                        if self.is_closed or self.forked or not self.connection.in_transaction:
                            self._outermost = None
                    elif level.outermost is self._outermost and self._depth:
                        self._depth -= 1

    def current_transaction(self) -> object | None:
        """`transaction` if this thread and task are in its `writing`, without pending records: `change` then needs no level."""
        if self._depth and self.mutex.mine and not self._loads and not self.forked:
            return self.transaction if self.connection.in_transaction and self.is_task else None
        return None

    @property
    def transaction(self) -> object | None:
        """A unique object for the open transaction, if it began here."""
        outermost = self._outermost
        return None if outermost is None or outermost() is None else outermost

    def change(self, work: Callable[[], Done]) -> Done:
        """The result of `work`, run inside a `current_transaction`: a light `writing` without the checks already done."""
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

    @property
    def depth(self) -> int:
        return self._depth if self.mutex.mine else 0

    @property
    def in_callers_transaction(self) -> bool:
        try:
            return self.connection.in_transaction and self._outermost is None
        except (apsw.ThreadingViolationError, apsw.ConnectionClosedError):  # in use by another thread, which has checked
            return self._joined

    @property
    def has_open_cursor(self) -> bool:
        """True if a statement on an owned connection has rows left, which its reader may fetch at any time."""
        return isinstance(self.connection, Connection) and has_open_cursor(self.connection)

    def _level(self, *, light: bool = False) -> _Level:
        """A new level. Raises NearDupError if SQLite rolled back the outer levels: statements would be stored alone."""
        began = not self.connection.in_transaction
        if began and self._depth:
            raise lost_transaction()
        is_own = self._outermost is not None
        savepoint = None if began or (light and is_own) else f"neardup_{self._number}_{self._depth}"
        level = _Level(began, self._depth, savepoint, self.connection.total_changes())
        self._joined = not began and not is_own
        if self._depth == 0:
            self._task = current_task()
        if began:
            self._outermost = weakref.ref(level)
        level.outermost = self._outermost
        return level

    def _end_reading(self) -> None:
        if not self.is_closed and self.connection.in_transaction and not self.forked:
            try:
                self._run("COMMIT")
            except apsw.InterruptError:
                self._roll_back_all()

    def _begin(self, level: _Level) -> None:
        """Begin the transaction or savepoint, inside the `try` block: an interrupt may follow at once."""
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
        if self.is_closed or level.outermost is not self._outermost:
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

    def _undo_light(self, changes: int) -> None:
        """Roll back the whole transaction if rows were changed since `changes`: without a savepoint there is no smaller unit."""
        if not self.forked and self.connection.in_transaction and self.connection.total_changes() != changes:
            self._roll_back_all()

    def _roll_back_all(self) -> None:
        """Roll back the open transaction, even while an interrupted cursor of the application is open.

        SQLite then interrupts every statement, including ROLLBACK, until that cursor is closed. But interrupting a statement that
        writes rolls back the transaction, and BEGIN, if not interrupted, fails inside one without effect.
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

    # ---- statements ----------------------------------------------------------------------------------------------------

    def _require_same(self) -> None:
        """Raise NearDupError if SQL of the application ended this transaction: statements would be stored outside of it."""
        if not self.connection.in_transaction or self.undo.ends != self._ends:
            raise lost_transaction()

    def _run(self, sql: str, bindings: Any = None) -> apsw.Cursor:
        connection = self.connection
        if connection.row_trace is None and connection.convert_jsonb is None and connection.cursor_factory is apsw.Cursor:
            return connection.execute(sql, bindings)
        return self._plain_cursor().execute(sql, bindings)

    def _plain_cursor(self) -> apsw.Cursor:
        """A cursor that returns unmodified rows, whatever the application configured for its own."""
        cursor = apsw.Cursor(self.connection)
        cursor.convert_jsonb = None
        if self.connection.row_trace is not None:
            cursor.row_trace = lambda cursor, row: row
        return cursor
