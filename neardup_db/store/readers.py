"""The connections that answer queries of one open index: the main one, and readers for threads that find it busy.

A query runs on the index's main connection where that is free, since its pages are in its cache. A thread that finds it busy gets
a reader: a connection of its own to the same file, which sees the state that was last committed.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import apsw

from .. import limits
from .._turns import Loan, Turn
from ..errors import BusyError, KeyNotFoundError, NearDupError
from ..parameters import check_key, quoted_key
from ..values import ANY_GROUP, AnyGroup, Key
from .asking.documents import DocumentRow, Documents
from .asking.joins import Joins
from .asking.search import Search
from .database.connection import Database
from .layout.state import Store
from .linking.clusters import Clusters

_LOOK_AGAIN_S = 0.01
"""Seconds for which a thread waits for one reader before it looks at all of them again."""


class StoreReader:
    """Everything that reads an index through one connection."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.documents = Documents(store)
        self.search = Search(store, self.documents)
        self.joins = Joins(store, self.documents, self.search)
        self.clusters = Clusters(store, self.documents, self.search, self.joins)

    def document_row(self, key: Any, now: int, group: Key | AnyGroup | None = ANY_GROUP) -> DocumentRow:
        """The row of a key that has not expired, of a document of the group. Raises KeyNotFoundError."""
        found = self.documents.visible(check_key(key), now, group)
        if found is None:
            raise _key_error(key, group)
        return found

    @contextmanager
    def row_and_value(self, key: Any, now: int) -> Iterator[tuple[DocumentRow, bytes | None]]:
        """The same with its stored value, None for an empty text; inside, their state stays."""
        with self.documents.row_and_value(check_key(key)) as held:
            if held is None or not held[0].is_visible(now):
                raise _key_error(key)
            yield held


def _key_error(key: Any, group: Key | AnyGroup | None = ANY_GROUP) -> KeyNotFoundError:
    which = "" if isinstance(group, AnyGroup) else " without a group" if group is None else f" of group {quoted_key(group)}"
    return KeyNotFoundError(f"no document{which} has the key {quoted_key(key)}")


class StoreReaders:
    """Gives each thread a reader of its own, with the turn to use its connection."""

    def __init__(self, store: Store) -> None:
        self.own = StoreReader(store)
        self._db = store.db
        self._others: list[StoreReader] = []
        """All readers but the main connection's. A reader works for the thread that holds its turn, and nothing else records
        that, so that no reader can be lost."""
        self.before: Callable[[StoreReaders], None] | None = None
        """What is done before each question."""
        self._opening = Turn()
        self._closed = False
        self._only: int | None = None
        """The thread that alone asks through the main connection, where one was named."""

    def reserve_main(self) -> bool:
        """From now on the main connection answers this thread only, so that no question of another thread keeps a write waiting.
        False where others have no other connection, and all remains as it was."""
        other = self._idle()
        if other is not None:
            other[0].end()
            self._only = threading.get_ident()
        return other is not None

    def acquire(self) -> tuple[Loan, StoreReader]:
        """The main connection's reader if it is free, or this thread's already; else another one, which sees the state that was
        last committed. It may be used until the loan ends. Raises ClosedError, BusyError.

        Waits for the main connection where no other can answer: in memory, on a caller's connection, and without a write-ahead
        log; where SQL of the caller's has begun a transaction, which may be this thread's; and where this thread's `add_many` has
        stored records that only the main connection sees."""
        if self.before is not None:
            self.before(self)
        return self.acquire_current()

    def acquire_current(self) -> tuple[Loan, StoreReader]:
        """`take`, as the file is now."""
        db = self._db
        if self._only is None or self._only == threading.get_ident():
            loan = db.take_now()
            if loan is not None:
                return loan, self.own
        else:
            db.require_open()
        taken = None if db.is_loading else self._idle()
        if taken is not None:
            return taken
        db.require_task()
        loan = db.lock()
        db.require_open()
        return loan, self.own

    @contextmanager
    def reading(self) -> Iterator[StoreReader]:
        """A consistent state, with settings that belong to it."""
        loan, reader = self.acquire()
        with loan, reader.store.db.reading():
            reader.store.refresh()
            yield reader

    @contextmanager
    def separate_reader(self) -> Iterator[StoreReader]:
        """As `reading`, for long: where there can be one, by a connection of its own, so that nobody waits for the end. What only
        this thread sees, because its transaction or its `add_many` is open, it sees by the connection that has it."""
        db = self._db
        db.require_open()
        taken = None
        if db.another is not None and not db.depth and not db.is_loading and not db.in_callers_transaction:
            taken = self._new_reader()
        if taken is None:
            with self.reading() as reader:
                yield reader
            return
        loan, reader = taken
        try:
            with loan, reader.store.reading():
                yield reader
        finally:
            reader.store.db.close()

    def _idle(self) -> tuple[Loan, StoreReader] | None:
        """An idle reader or a new one; waits for one where there are enough. None where there can be none."""
        if self._db.another is None or self._db.in_callers_transaction:
            return None
        deadline = time.monotonic() + self._db.timeout
        while not self._closed:
            for reader in tuple(self._others):
                loan = reader.store.db.turn.take(0)
                if loan is not None:
                    return loan, reader
            with self._opened_by_one():
                if self._closed:
                    return None
                if len(self._others) < limits.READERS_MAX:
                    made = self._new_reader()
                    if made is not None:
                        self._others.append(made[1])
                    return made
            readers = tuple(self._others)
            if not readers:  # closed just now
                continue
            reader = readers[os.urandom(1)[0] % len(readers)]
            loan = reader.store.db.turn.take(_LOOK_AGAIN_S)
            if loan is not None:
                return loan, reader
            if time.monotonic() >= deadline:
                raise BusyError(
                    f"{len(self._others)} threads have been asking this index for {self._db.timeout:g} s, and more do not ask "
                    "at the same time: try again, or give Index a larger timeout"
                )
        return None

    def _opened_by_one(self) -> Loan:
        loan = self._opening.take(self._db.timeout)
        if loan is None:
            raise BusyError(f"another thread has been opening a connection for {self._db.timeout:g} s: try again")
        return loan

    def _new_reader(self) -> tuple[Loan, StoreReader] | None:
        """A new reader, which nobody else knows; None where it cannot be opened: files have run out, or the file's settings are
        refused."""
        own = self.own.store
        assert own.db.another is not None
        try:
            db = Database(own.db.another(), owned=True, read_only=True, timeout=own.db.timeout)
        except (apsw.Error, NearDupError, OSError):
            return None
        reader = StoreReader(Store(db, own.name, own.shared))
        reader.store.tolerates_loss = False
        try:
            loan = db.lock()
            with reader.store.reading():
                pass
        except BaseException as error:
            db.abandon()
            if isinstance(error, NearDupError):
                return None
            raise
        return loan, reader

    def close(self) -> None:
        """Close all connections of our own, after their present queries; the index's own is the last, to end the log."""
        if self._db.forked:
            self._db.close()
            return
        with self._db.lock():
            if not self._db.in_own_transaction:
                self._close_readers()
            try:
                self._db.close()
            except BaseException:  # it goes on, and so do those who ask meanwhile
                self._closed = self._db.is_closed
                raise

    def _close_readers(self) -> None:
        self._closed = True
        try:
            with self._opened_by_one():
                while self._others:
                    self._others[-1].store.db.close()
                    self._others.pop()
        except BaseException:  # a reader is at work, for longer than the timeout or in this thread: the index goes on
            self._others = [reader for reader in self._others if not reader.store.db.is_closed]
            self._closed = False
            raise
