"""The connections by which one open index is asked: its own, and readers for threads that find it in use.

Uncontended, everything goes through the index's own connection, whose pages are in its cache. A thread that finds another one
at work there is given a reader: a connection of its own to the same file, which sees what was last committed.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import apsw

from .. import limits
from ..errors import KeyNotFoundError, NearDupError
from ..records import check_key
from .clusters import Clusters
from .connection import Database
from .documents import Documents, Found
from .joins import Joins
from .search import Search
from .state import Store


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
    """Gives each thread that asks a view of its own, whose lock it then holds."""

    def __init__(self, store: Store) -> None:
        self.own = View(store)
        self._db = store.db
        self._idle: list[View] = []
        self._readers: list[View] = []
        self._opening = 0
        self._closed = False
        self._changed = threading.Condition()

    def take(self) -> View:
        """The index's own view if it is free, or this thread's already; else a reader, which sees what was last committed.

        Own again, and waited for, where there is none: in memory, on a caller's connection, without a write-ahead log; and
        where a transaction is open that was begun by SQL, since this thread may be the one that works in it. Raises
        ClosedError."""
        db = self._db
        view = self.own
        if not db.lock.acquire(blocking=False):
            db.require_open()
            view = self._reader() or view
            view.store.db.lock.acquire()
        try:
            db.require_open()
        except BaseException:
            self.give_back(view)
            raise
        return view

    def give_back(self, view: View) -> None:
        """Once for each `take`."""
        view.store.db.lock.release()
        if view is not self.own:
            with self._changed:
                self._idle.append(view)
                self._changed.notify()

    @contextmanager
    def reading(self) -> Iterator[View]:
        """A consistent state, with settings that belong to it."""
        view = self.take()
        try:
            with view.store.db.reading():
                view.store.refresh()
                yield view
        finally:
            self.give_back(view)

    @contextmanager
    def joins(self) -> Iterator[Joins]:
        """The same, for joins."""
        with self.reading() as view:
            yield view.joins

    # ---- readers -----------------------------------------------------------------------------------------------------

    def _reader(self) -> View | None:
        """An idle reader or a new one; waits for one where there are enough. None where there can be none."""
        if self._db.another is None or self._db.in_callers_transaction:
            return None
        with self._changed:
            while not self._idle and not self._closed and len(self._readers) + self._opening >= limits.READERS_MAX:
                self._changed.wait()
            if self._closed:
                return None
            if self._idle:
                return self._idle.pop()
            self._opening += 1
        reader = None
        try:
            reader = self._open()
        finally:
            with self._changed:
                self._opening -= 1
                if reader is not None:
                    self._readers.append(reader)
                self._changed.notify_all()
        return reader

    def _open(self) -> View | None:
        """A new reader; None where it cannot be opened: files have run out, or the file's settings are refused."""
        own = self.own.store
        assert own.db.another is not None
        try:
            db = Database(own.db.another(), owned=True, read_only=True, timeout=own.db.timeout)
        except (apsw.Error, NearDupError, OSError):
            return None
        view = View(Store(db, own.name, own.common, is_reader=True))
        try:
            with view.store.reading():
                return view
        except BaseException as error:
            db.close()
            if isinstance(error, NearDupError):
                return None
            raise

    # ---- the end -----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close all connections of our own, after what is asked by them just now; the index's own as the last, to end the log."""
        if self._db.forked:
            self._db.close()
            return
        with self._db.lock:
            if not self._db.in_own_transaction:
                self._close_readers()
            self._db.close()

    def _close_readers(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            while self._opening:
                self._changed.wait()
        for reader in self._readers:
            reader.store.db.close()
        self._readers.clear()
        self._idle.clear()
