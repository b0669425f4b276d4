"""Work of a large load in other threads, piece after piece, while the caller's thread reads the next records: in one thread it is
prepared (fingerprints), in a second one written to the database.

C code and statements run without Python's lock, so that what else there is to do has the other cores.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType

from .. import limits
from .connection import Database

Work = Callable[[], None]


class Lane:
    """A thread that runs functions in the order given; so many of them may wait, and so many bytes that these hold."""

    def __init__(self, name: str, most: int, most_bytes: int) -> None:
        self.name = name
        self.most = most
        self.most_bytes = most_bytes
        self.working = False
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._waiting: deque[tuple[Work, int]] = deque()
        self._lock = threading.Lock()
        """Entered by itself, not through the condition: what is raised between two steps of a condition leaves it taken."""
        self._changed = threading.Condition(self._lock)
        self._ended = False

    @property
    def is_current(self) -> bool:
        """Whether the caller is in its thread."""
        return self._thread is threading.current_thread()

    def start(self, work: Work, size: int) -> None:
        """Give it something to do that holds `size` bytes; waits while too much is waiting. Raises what went wrong earlier."""
        with self._lock:
            while self._is_full(size) and self._error is None and not self._ended:
                self._changed.wait()
            self._raise()
            if self._ended:
                return
            self._waiting.append((work, size))
            self._changed.notify_all()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self.name)
                try:
                    self._thread.start()
                except RuntimeError as error:  # what Python makes of an interrupt while it waits for the thread to begin
                    raise (error.__context__ or error) from None

    def _is_full(self, size: int) -> bool:
        waiting = len(self._waiting)
        return waiting >= self.most or (waiting > 0 and sum(one[1] for one in self._waiting) + size > self.most_bytes)

    def wait(self) -> None:
        """Until nothing is at work; raises what went wrong there, again each time: the thread has ended."""
        with self._lock:
            while (self._waiting or self.working) and self._error is None:
                self._changed.wait()
            self._raise()

    def _raise(self) -> None:
        if self._error is not None:
            self._waiting.clear()
            raise self._error

    def end(self) -> None:
        """Begin nothing more, and drop what waits."""
        with self._lock:
            self._ended = True
            self._waiting.clear()
            self._changed.notify_all()

    def join(self) -> None:
        """Until the thread has ended, after `end`."""
        if self._thread is not None:
            with suppress(RuntimeError):  # an interrupt came before it was started: if it is yet, it ends by itself
                self._thread.join()

    def _run(self) -> None:
        while True:
            with self._lock:
                while not self._waiting and not self._ended:
                    self._changed.wait()
                if self._ended:
                    return
                work, _ = self._waiting.popleft()
                self.working = True
                self._changed.notify_all()
            error: BaseException | None = None
            try:
                work()
            except BaseException as caught:
                error = caught
            del work
            with self._lock:
                self.working = False
                self._error = error
                self._changed.notify_all()
                if error is not None:
                    return


class Background:
    """Prepares and writes inside a transaction that the caller's thread holds, in the order given. Nothing else may use the
    database before `wait` has come back."""

    def __init__(self, db: Database) -> None:
        self.db = db
        self._preparing = Lane("neardup_db prepare", 1, 0)
        self._writing = Lane("neardup_db write", limits.WAITING_MAX, limits.WAITING_BYTES)
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
