"""Work of a large load in other threads, piece after piece, while the caller's thread reads the next records: in one thread it is
prepared (fingerprints), in a second one written to the database.

C code and statements run without Python's lock, so that what else there is to do has the other cores.
"""

from __future__ import annotations

import _thread
import threading
import weakref
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from types import TracebackType

from .. import limits
from .connection import Database

Work = Callable[[], None]


class Lane:
    """A thread that runs functions in the order given; so many of them may wait, and so many bytes that these hold.

    One thread gives at a time. What is given, and what became of it, goes through queues of C: what Python's conditions lock
    stays locked where an interrupt comes in between."""

    def __init__(self, most: int, most_bytes: int) -> None:
        self.most = most
        self.most_bytes = most_bytes
        self.working = False
        self._identity: int | None = None
        self._started = self._ended = self._over = False
        self._error: BaseException | None = None
        self._sizes: deque[int] = deque()
        """Of the pieces that were given and, as far as is known, are not done."""
        self._given: SimpleQueue[Work | None] = SimpleQueue()
        self._told: SimpleQueue[BaseException | str] = SimpleQueue()

    @property
    def is_current(self) -> bool:
        """Whether the caller is in its thread."""
        return self._identity == threading.get_ident()

    def start(self, work: Work, size: int) -> None:
        """Give it something to do that holds `size` bytes; waits while too much is waiting. Raises what went wrong earlier."""
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
        """Until nothing is at work; raises what went wrong there, again each time: the thread has ended."""
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
        elif told == _OVER:
            self._over = True

    def end(self) -> None:
        """Begin nothing more, and drop what waits. May be called at any time, by any thread."""
        self._ended = True
        self._given.put(None)
        self._told.put(_ENDED)

    def join(self) -> None:
        """Until the thread has ended, after `end`."""
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
        self._told.put(_OVER)


_DONE, _OVER, _ENDED = "done", "over", "ended"
"""What a lane's thread tells: a piece is done, it is gone; and what lets go whoever waits for it."""


class Background:
    """Prepares and writes inside a transaction that the caller's thread holds, in the order given. Nothing else may use the
    database before `wait` has come back."""

    def __init__(self, db: Database) -> None:
        self.db = db
        self._preparing = Lane(1, 0)
        self._writing = Lane(limits.WAITING_MAX, limits.WAITING_BYTES)
        for lane in (self._preparing, self._writing):  # where an interrupt comes before `_end`
            weakref.finalize(self, lane.end).atexit = False

    def __enter__(self) -> Background:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if kind is None:
                self.wait()
        finally:
            self._end()

    def prepare(self, make: Callable[[], tuple[Work, int]]) -> None:
        """Let a piece of work, and how many bytes it holds, be made and then written; waits while another one is waiting. `make`
        does not use the database. Raises what went wrong with an earlier piece."""
        self.db.require_open()  # the threads are not in a child that was forked meanwhile
        if not self.db.owned:  # a caller's connection may call back into code that knows only its own thread
            work, _ = make()
            work()
        else:
            self._preparing.start(lambda: self._writing.start(*make()), 0)

    def start(self, work: Work, size: int = 0) -> None:
        """Let something that holds `size` bytes be written after all that was given before. Raises what went wrong with that."""
        self.db.require_open()
        self._preparing.wait()
        if not self.db.owned:
            work()
        else:
            self._writing.start(work, size)

    def wait(self) -> None:
        """Until nothing is at work; raises what went wrong there."""
        if not self._preparing.is_current and not self._writing.is_current:
            self._preparing.wait()
            self._writing.wait()

    def _end(self) -> None:
        """Stop the threads. What they have not begun is dropped: after an error the transaction is over."""
        if self.db.forked:
            return
        self._preparing.end()
        self._writing.end()
        if self._writing.working:
            self.db.connection.interrupt()
        self._preparing.join()
        self._writing.join()
