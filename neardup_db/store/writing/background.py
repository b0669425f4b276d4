"""The threads of a large load. While the caller's thread reads records, one thread fingerprints the batch before, and a second
one writes the batch before that to the database.

C code and SQL statements run without Python's lock, so the three threads use three cores.
"""

from __future__ import annotations

import _thread
import threading
import weakref
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from types import TracebackType

from ... import limits
from ..database.connection import Database

Work = Callable[[], None]


class Lane:
    """A thread that runs functions in the order given. At most `most` of them wait, and hold at most `most_bytes`.

    One thread gives at a time. Functions and reports go through queues written in C: a lock of Python's conditions would stay
    locked where an interrupt comes in between."""

    def __init__(self, most: int, most_bytes: int) -> None:
        self.most = most
        self.most_bytes = most_bytes
        self.working = False
        self._identity: int | None = None
        self._started = self._ended = self._over = False
        self._error: BaseException | None = None
        self._sizes: deque[int] = deque()
        """Of the pieces that were given and are not known to be done."""
        self._given: SimpleQueue[Work | None] = SimpleQueue()
        self._told: SimpleQueue[BaseException | str] = SimpleQueue()

    @property
    def is_current(self) -> bool:
        return self._identity == threading.get_ident()

    def start(self, work: Work, size: int) -> None:
        """Give it a piece of work that holds `size` bytes; waits while too much is waiting. Raises the error of earlier work."""
        self._listen()
        while self._is_full(size) and self._error is None and not self._ended:
            self._hear(self._told.get())
        if self._error is not None:
            raise self._error
        if self._ended:
            return
        if not self._started:
            _thread.start_new_thread(self._run, ())
            self._started = True
        self._sizes.append(size)
        self._given.put(work)

    def _is_full(self, size: int) -> bool:
        waiting = len(self._sizes) - 1
        return waiting >= self.most or (waiting > 0 and sum(self._sizes) - self._sizes[0] + size > self.most_bytes)

    def wait(self) -> None:
        """Wait until all work is done. Raises the error that ended the thread, each time again."""
        while self._sizes and self._error is None:
            self._hear(self._told.get())
        if self._error is not None:
            raise self._error

    def _listen(self) -> None:
        while not self._told.empty():
            self._hear(self._told.get())

    def _hear(self, told: BaseException | str) -> None:
        if isinstance(told, BaseException):
            self._error = told
        elif told == _DONE:
            self._sizes.popleft()

    def end(self) -> None:
        """Begin no more work, and drop what waits. May be called at any time, by any thread."""
        self._ended = True
        self._given.put(None)
        self._told.put(_ENDED)

    def join(self) -> None:
        """Wait until the thread has ended, after `end`."""
        while self._started and not self._over:
            self._hear(self._told.get())

    def _run(self) -> None:
        self._identity = threading.get_ident()
        try:
            while (work := self._given.get()) is not None and not self._ended:
                self.working = True
                try:
                    work()
                finally:
                    self.working = False
                    del work
                self._told.put(_DONE)
        except BaseException as error:
            self._told.put(error)
        self._over = True  # not by the report alone: an interrupt may lose it
        self._told.put(_OVER)


_DONE, _OVER, _ENDED = "done", "over", "ended"
"""Reports to the thread that gives work: a piece is done, the lane's thread is gone, `end` was called."""


class Background:
    """Prepares and writes inside a transaction that the caller's thread holds, in the order given. Nothing else may use the
    database before `wait` has come back."""

    def __init__(self, db: Database) -> None:
        self.db = db
        self._is_alone = db.owned and not db.has_open_cursor
        """Whether the caller's thread does not use the connection meanwhile, as an iterator of records may that reads from it."""
        self._preparing = Lane(1, 0)
        self._writing = Lane(limits.WAITING_MAX, limits.WAITING_BYTES)
        self._enders = [weakref.finalize(self, lane.end) for lane in (self._preparing, self._writing)]
        """An interrupt may come before `_end`."""
        for ender in self._enders:
            ender.atexit = False

    def __enter__(self) -> Background:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if kind is None:
                self.wait()
        finally:
            self._end()

    def prepare(self, make: Callable[[], tuple[Work, int]]) -> None:
        """Run `make`, which does not use the database, and then the work that it returns, which writes and holds so many bytes.
        Waits while another piece is waiting. Raises the error of an earlier piece."""
        self.db.require_open()  # the threads are not in a child that was forked meanwhile
        if not self._is_alone:  # a caller's connection may call back into code that works in the caller's thread only
            work, _ = make()
            work()
        else:
            self._preparing.start(lambda: self._writing.start(*make()), 0)

    def start(self, work: Work, size: int = 0) -> None:
        """Run work that writes, and holds `size` bytes, after all that was given before. Raises the error of earlier work."""
        self.db.require_open()
        self._preparing.wait()
        if not self._is_alone:
            work()
        else:
            self._writing.start(work, size)

    def wait(self) -> None:
        """Wait until all work is done; raises its error."""
        if not self._preparing.is_current and not self._writing.is_current:
            self._preparing.wait()
            self._writing.wait()

    def _end(self) -> None:
        """Stop the threads, and drop the work that they have not begun: after an error the transaction is over."""
        if self.db.forked:
            return
        self._preparing.end()
        self._writing.end()
        if self._writing.working:
            self.db.connection.interrupt()
        self._preparing.join()
        self._writing.join()
        for ender in self._enders:  # each holds a lane, whose error holds all that was at work
            ender.detach()
