"""The connections by which one open index is asked: its own, and readers for threads that find it in use.

Uncontended, everything goes through the index's own connection, whose pages are in its cache. A thread that finds another one
at work there is given a reader: a connection of its own to the same file, which sees what was last committed.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import apsw

from .. import limits
from .._turns import Loan, Turn
from ..errors import BusyError, KeyNotFoundError, NearDupError
from ..records import check_key
from .clusters import Clusters
from .connection import Database
from .documents import Documents, Found
from .joins import Joins
from .search import Search
from .state import Store

_LOOK_AGAIN_S = 0.01
"""Seconds for which a thread waits for one reader before it looks at all of them again."""


class View:
    """What can be asked by one connection."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.documents = Documents(store)
        self.search = Search(store, self.documents)
        self.joins = Joins(store, self.documents, self.search)
        self.clusters = Clusters(store, self.documents, self.search, self.joins)

    def found(self, key: Any, now: int) -> Found:
        """The row of a key that has not expired. Raises KeyNotFoundError."""
        found = self.documents.visible(check_key(key), now)
        if found is None:
            raise _not_found(key)
        return found

    @contextmanager
    def held(self, key: Any, now: int) -> Iterator[tuple[Found, bytes | None]]:
        """The same with its stored value, None for an empty text; inside, their state stays."""
        with self.documents.held(check_key(key)) as held:
            if held is None or not held[0].is_visible(now):
                raise _not_found(key)
            yield held


def _not_found(key: Any) -> KeyNotFoundError:
    return KeyNotFoundError(f"no document has the key {key!r}")


class Views:
    """Gives each thread that asks a view of its own, with the turn to use its connection."""

    def __init__(self, store: Store) -> None:
        self.own = View(store)
        self._db = store.db
        self._readers: list[View] = []
        """All that were opened. Each is at work for whoever has its turn: nothing else says so, and so none can be lost."""
        self._opening = Turn()
        self._closed = False

    def take(self) -> tuple[Loan, View]:
        """The index's own view if it is free, or this thread's already; else a reader, which sees what was last committed.

        Own again, and waited for, where there is none: in memory, on a caller's connection, without a write-ahead log; where a
        transaction is open that was begun by SQL, since this thread may be the one that works in it; and where this thread has
        records in hand, which only its own view has. The view may be used until the loan ends. Raises ClosedError, BusyError."""
        db = self._db
        loan = db.turn.take(0)
        if loan is not None and (not db.in_own_transaction or db.is_task):
            db.require_open()
            return loan, self.own
        db.require_open()
        taken = None if db.is_attended else self._reader()
        if taken is not None:
            return taken
        db.require_task()
        loan = db.hold()
        db.require_open()
        return loan, self.own

    @contextmanager
    def reading(self) -> Iterator[View]:
        """A consistent state, with settings that belong to it."""
        loan, view = self.take()
        with loan, view.store.db.reading():
            view.store.refresh()
            yield view

    # ---- readers -----------------------------------------------------------------------------------------------------

    def _reader(self) -> tuple[Loan, View] | None:
        """An idle reader or a new one; waits for one where there are enough. None where there can be none."""
        if self._db.another is None or self._db.in_callers_transaction:
            return None
        deadline = time.monotonic() + self._db.timeout
        while not self._closed:
            for view in tuple(self._readers):
                loan = view.store.db.turn.take(0)
                if loan is not None:
                    return loan, view
            with self._opened_by_one():
                if self._closed:
                    return None
                if len(self._readers) < limits.READERS_MAX:
                    return self._open()
            readers = tuple(self._readers)
            if not readers:  # closed just now
                continue
            view = random.choice(readers)
            loan = view.store.db.turn.take(_LOOK_AGAIN_S)
            if loan is not None:
                return loan, view
            if time.monotonic() >= deadline:
                raise BusyError(
                    f"{len(self._readers)} threads have been asking this index for {self._db.timeout:g} s, and more do not ask "
                    "at the same time: try again, or give Index a larger timeout"
                )
        return None

    def _opened_by_one(self) -> Loan:
        loan = self._opening.take(self._db.timeout)
        if loan is None:
            raise BusyError(f"another thread has been opening a connection for {self._db.timeout:g} s: try again")
        return loan

    def _open(self) -> tuple[Loan, View] | None:
        """A new reader; None where it cannot be opened: files have run out, or the file's settings are refused."""
        own = self.own.store
        assert own.db.another is not None
        try:
            db = Database(own.db.another(), owned=True, read_only=True, timeout=own.db.timeout)
        except (apsw.Error, NearDupError, OSError):
            return None
        view = View(Store(db, own.name, own.common))
        try:
            loan = db.hold()
            with view.store.reading():
                pass
        except BaseException as error:
            db.abandon()
            if isinstance(error, NearDupError):
                return None
            raise
        self._readers.append(view)
        return loan, view

    # ---- the end -----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close all connections of our own, after what is asked by them just now; the index's own as the last, to end the log."""
        if self._db.forked:
            self._db.close()
            return
        with self._db.hold():
            if not self._db.in_own_transaction:
                self._close_readers()
            self._db.close()

    def _close_readers(self) -> None:
        self._closed = True
        try:
            with self._opened_by_one():
                while self._readers:
                    self._readers[-1].store.db.close()
                    self._readers.pop()
        except BaseException:  # a reader is at work for longer than the timeout: nothing is closed yet
            self._closed = False
            raise
