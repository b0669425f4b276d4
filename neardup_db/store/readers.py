"""Assigns connections to the threads that query an open index.

A query uses the main connection if it is free, because its cache holds the index's pages. Otherwise the thread gets a reader:
another connection to the same file, which reads the last committed state.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import apsw

from .. import limits
from .._python import LockGuard, ReentrantLock
from ..errors import BusyError, NearDupError
from .clustering.clusters import Clusters
from .database.connection import Database
from .layout.state import Store
from .query.documents import Documents
from .query.joins import Joins
from .query.search import Search

_RECHECK_S = 0.01  # seconds to wait for one busy reader before checking all of them again


class StoreReader:
    def __init__(self, store: Store) -> None:
        self.store = store
        self.documents = Documents(store)
        self.search = Search(self.documents)
        self.joins = Joins(self.search)
        self.clusters = Clusters(self.joins)


class StoreReaders:
    def __init__(self, store: Store) -> None:
        self.own = StoreReader(store)
        self._db = store.db
        self._others: list[StoreReader] = []
        """All readers except the main connection's. A reader belongs to the thread that holds its lock, and this is recorded
        nowhere else, so no reader can be lost."""
        self.before_query: Callable[[StoreReaders], None] | None = None  # called before each query
        self._opening = ReentrantLock()
        self._closed = False
        self._main_thread_id: int | None = None  # the only thread that may query through the main connection, if one is set

    def reserve_main(self) -> bool:
        """Reserve the main connection for this thread's writes. Returns False, without effect, if others have none but it."""
        other = self._idle()
        if other is not None:
            other[0].end()
            self._main_thread_id = threading.get_ident()
        return other is not None

    def acquire(self) -> tuple[LockGuard, StoreReader]:
        """A locked reader, valid until the guard is released: the main connection's if it is free or this thread holds it,
        else another one, which reads the last committed state. Raises ClosedError, BusyError.

        Waits for the main connection if no other can answer: in memory, on the application's connection, without a write-ahead
        log, inside a transaction begun by the application, and during this thread's `add_many`, whose records only it sees.
        """
        if self.before_query is not None:
            self.before_query(self)
        return self.acquire_current()

    def acquire_current(self) -> tuple[LockGuard, StoreReader]:
        """`acquire` without syncing a followed table first."""
        db = self._db
        if self._main_thread_id is None or self._main_thread_id == threading.get_ident():
            guard = db.try_lock()
            if guard is not None:
                return guard, self.own
        else:
            db.require_open()
        idle = None if db.is_loading else self._idle()
        if idle is not None:
            return idle
        db.require_task()
        guard = db.lock()
        db.require_open()
        return guard, self.own

    @contextmanager
    def reading(self) -> Iterator[StoreReader]:
        guard, reader = self.acquire()
        with guard, reader.store.db.reading():
            reader.store.refresh()
            yield reader

    @contextmanager
    def separate_reader(self) -> Iterator[StoreReader]:
        """`reading` for a long time, on a separate connection if possible, so that no other thread waits for it. Uncommitted
        data of this thread's transaction or `add_many` is read through the main connection."""
        db = self._db
        db.require_open()
        idle = None
        if db.open_reader is not None and not db.depth and not db.is_loading and not db.in_callers_transaction:
            idle = self._new_reader()
        if idle is None:
            with self.reading() as reader:
                yield reader
            return
        guard, reader = idle
        try:
            with guard, reader.store.reading():
                yield reader
        finally:
            reader.store.db.close()

    def _idle(self) -> tuple[LockGuard, StoreReader] | None:
        """An idle reader or a new one; waits at the maximum. None if further connections are impossible."""
        if self._db.open_reader is None or self._db.in_callers_transaction:
            return None
        deadline = time.monotonic() + self._db.timeout
        while not self._closed:
            for reader in tuple(self._others):
                guard = reader.store.db.mutex.take(0)
                if guard is not None:
                    return guard, reader
            with self._opening_lock():
                if self._closed:
                    return None
                if len(self._others) < limits.READERS_MAX:
                    new_reader = self._new_reader()
                    if new_reader is not None:
                        self._others.append(new_reader[1])
                    return new_reader
            readers = tuple(self._others)
            if not readers:  # closed meanwhile
                continue
            reader = readers[os.urandom(1)[0] % len(readers)]
            guard = reader.store.db.mutex.take(_RECHECK_S)
            if guard is not None:
                return guard, reader
            if time.monotonic() >= deadline:
                raise BusyError(
                    f"{len(self._others)} threads have been asking this index for {self._db.timeout:g} s, and more do not ask "
                    "at the same time: try again, or give a larger timeout"
                )
        return None

    def _opening_lock(self) -> LockGuard:
        guard = self._opening.take(self._db.timeout)
        if guard is None:
            raise BusyError(f"another thread has been opening a connection for {self._db.timeout:g} s: try again")
        return guard

    def _new_reader(self) -> tuple[LockGuard, StoreReader] | None:
        """A new locked reader. None if it cannot be opened: no more files, or the file's settings are refused."""
        own = self.own.store
        assert own.db.open_reader is not None
        try:
            db = Database(own.db.open_reader(), owned=True, read_only=True, timeout=own.db.timeout)
        except (apsw.Error, NearDupError, OSError):
            return None
        reader = StoreReader(Store(db, own.name, own.given_rules))
        try:
            guard = db.lock()
            with reader.store.reading():
                pass
        except BaseException as error:
            db.abandon()
            if isinstance(error, NearDupError):
                return None
            raise
        return guard, reader

    def close(self) -> None:
        """Close all owned connections after their current queries, the main one last, because it ends the log."""
        if self._db.forked:
            self._db.close()
            return
        with self._db.lock():
            if not self._db.depth:
                self._close_readers()
            try:
                self._db.close()
            except BaseException:  # the index stays open
                self._closed = self._db.is_closed
                raise

    def _close_readers(self) -> None:
        self._closed = True
        try:
            with self._opening_lock():
                while self._others:
                    self._others[-1].store.db.close()
                    self._others.pop()
        except BaseException:  # a reader is busy for longer than the timeout, or in this thread: the index stays open
            self._others = [reader for reader in self._others if not reader.store.db.is_closed]
            self._closed = False
            raise
