"""Background threads of a large load: the caller's thread reads records, one thread fingerprints the previous batch, and
another writes the one before. C code and SQL run without Python's lock, so the load uses three cores."""

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
    """A thread that runs functions in order. At most `max_waiting` wait, with at most `max_bytes`. One thread at a time submits.

    Functions and reports pass through queues in C, because an interrupt could leave the lock of a Python condition locked.
    """

    def __init__(self, max_waiting: int, max_bytes: int) -> None:
        self.max_waiting = max_waiting
        self.max_bytes = max_bytes
        self.working = False
        self._identity: int | None = None
        self._started = self._ended = self._over = False
        self._error: BaseException | None = None
        self._sizes: deque[int] = deque()  # the sizes of submitted functions that are not known to be done
        self._queue: SimpleQueue[Work | None] = SimpleQueue()
        self._reports: SimpleQueue[BaseException | str] = SimpleQueue()

    @property
    def is_current(self) -> bool:
        return self._identity == threading.get_ident()

    def start(self, work: Work, size: int) -> None:
        """Submit work that holds `size` bytes; waits while too much is pending. Raises the error of earlier work."""
        while not self._reports.empty():
            self._handle_report(self._reports.get())
        while self._is_full(size) and self._error is None and not self._ended:
            self._handle_report(self._reports.get())
        if self._error is not None:
            raise self._error
        if self._ended:
            return
        if not self._started:
            _thread.start_new_thread(self._run, ())
            self._started = True
        self._sizes.append(size)
        self._queue.put(work)

    def _is_full(self, size: int) -> bool:
        waiting = len(self._sizes) - 1
        return waiting >= self.max_waiting or (waiting > 0 and sum(self._sizes) - self._sizes[0] + size > self.max_bytes)

    def wait(self) -> None:
        """Wait until all work is done. Raises the error that ended the thread, every time."""
        while self._sizes and self._error is None:
            self._handle_report(self._reports.get())
        if self._error is not None:
            raise self._error

    def _handle_report(self, report: BaseException | str) -> None:
        if isinstance(report, BaseException):
            self._error = report
        elif report == _DONE:
            self._sizes.popleft()

    def end(self) -> None:
        """Drop pending work. Any thread may call this."""
        self._ended = True
        self._queue.put(None)
        self._reports.put(_ENDED)

    def join(self) -> None:
        while self._started and not self._over:
            self._handle_report(self._reports.get())

    def _run(self) -> None:
        self._identity = threading.get_ident()
        try:
            while (work := self._queue.get()) is not None and not self._ended:
                self.working = True
                try:
                    work()
                finally:
                    self.working = False
                    del work
                self._reports.put(_DONE)
        except BaseException as error:
            self._reports.put(error)
        self._over = True  # an interrupt may lose the report
        self._reports.put(_OVER)


_DONE, _OVER, _ENDED = "done", "over", "ended"  # reports: a function is done, the thread has ended, `end` was called


class Background:
    """Prepares and writes batches in order, inside the caller's transaction. The database is in use until `wait` returns."""

    def __init__(self, db: Database) -> None:
        self.db = db
        self._is_alone = db.owned and not db.has_open_cursor
        """True if the caller's thread does not use the connection meanwhile, as a record iterator that reads from it would."""
        self._preparing = Lane(1, 0)
        self._writing = Lane(limits.WAITING_MAX, limits.WAITING_BYTES)
        self._enders = [weakref.finalize(self, lane.end) for lane in (self._preparing, self._writing)]
        """Ends the threads if an interrupt prevents `_end`."""
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
        """Run `make`, which does not use the database, then its result, which writes and holds the returned number of bytes.

        Waits while another batch is pending. Raises the error of earlier work.
        """
        self.db.require_open()  # a forked child does not have the threads
        if not self._is_alone:  # an application's connection may call code that is bound to the caller's thread
            work, _ = make()
            work()
        else:
            self._preparing.start(lambda: self._writing.start(*make()), 0)

    def start(self, work: Work, size: int = 0) -> None:
        """Run work that writes and holds `size` bytes, after all earlier work. Raises the error of earlier work."""
        self.db.require_open()
        self._preparing.wait()
        if not self._is_alone:
            work()
        else:
            self._writing.start(work, size)

    def wait(self) -> None:
        if not self._preparing.is_current and not self._writing.is_current:
            self._preparing.wait()
            self._writing.wait()

    def _end(self) -> None:
        if self.db.forked:
            return
        self._preparing.end()
        self._writing.end()
        if self._writing.working:
            self.db.connection.interrupt()
        self._preparing.join()
        self._writing.join()
        for ender in self._enders:  # each references a lane, whose error references the work's objects
            ender.detach()
