"""Work on the database in a second thread, piece after piece, while the first one prepares the next ones.

Statements run without Python's lock, so that what is prepared meanwhile (reading records, fingerprints) has the other core.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from types import TracebackType

from .connection import Database

WAITING_MAX = 16
WAITING_BYTES = 96 << 20
"""Pieces of work that may wait, and what they may hold: what bounds the memory of them."""


class Background:
    """Runs functions in another thread inside a transaction that the caller's thread holds, in the order given.

    Whoever comes to the database through `Database.reading` or `writing` in the meantime waits until all of them are done."""

    def __init__(self, db: Database) -> None:
        self.db = db
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._waiting: deque[tuple[Callable[[], None], int]] = deque()
        self._changed = threading.Condition()
        self._working = False
        self._ended = False

    def __enter__(self) -> Background:
        self.db.settle = self.wait
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if kind is None:
                self.wait()
        finally:
            self._end()
            self.db.settle = _nothing

    def start(self, work: Callable[[], None], size: int = 0) -> None:
        """Give a piece of work, which holds `size` bytes; waits while too many are waiting. Raises what went wrong in an earlier
        one."""
        self.db.require_open()  # the thread is not in a child that was forked meanwhile
        if not self.db.owned:  # a caller's connection may call back into code that knows only its own thread
            work()
            return
        with self._changed:
            while self._is_full(size) and self._error is None:
                self._changed.wait()
            self._raise()
            self._waiting.append((work, size))
            self._changed.notify_all()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="neardup_db")
            self._thread.start()

    def _is_full(self, size: int) -> bool:
        waiting = len(self._waiting)
        return waiting >= WAITING_MAX or (waiting > 0 and sum(one[1] for one in self._waiting) + size > WAITING_BYTES)

    def wait(self) -> None:
        """Until nothing is at work; raises what went wrong there, again each time: the thread has ended."""
        if self._thread is None or self._thread is threading.current_thread():
            return
        with self._changed:
            while (self._waiting or self._working) and self._error is None:
                self._changed.wait()
            self._raise()

    def _raise(self) -> None:
        if self._error is not None:
            self._waiting.clear()
            raise self._error

    def _end(self) -> None:
        """Stop the thread. What it has not begun is dropped: after an error the transaction is over."""
        if self.db.forked:
            return
        with self._changed:
            self._ended = True
            if self._working:
                self.db.connection.interrupt()
            self._waiting.clear()
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and not self._ended:
                    self._changed.wait()
                if self._ended:
                    return
                work, _ = self._waiting.popleft()
                self._working = True
                self._changed.notify_all()
            error: BaseException | None = None
            try:
                work()
            except BaseException as caught:
                error = caught
            with self._changed:
                self._working = False
                self._error = error
                self._changed.notify_all()
                if error is not None:
                    return


def _nothing() -> None:
    return None
