"""Work on the database in a second thread, one piece at a time, while the first one prepares the next.

Statements run without Python's lock, so that what is prepared meanwhile (reading records, fingerprints) has the other core.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType

from .connection import Database


class Background:
    """Runs functions in another thread inside a transaction that the caller's thread holds.

    Whoever comes to the database through `Database.reading` or `writing` in the meantime waits for the piece at work."""

    def __init__(self, db: Database) -> None:
        self.db = db
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def __enter__(self) -> Background:
        self.db.settle = self.wait
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self._join()
        finally:
            self.db.settle = _nothing
        if kind is None:
            self.wait()

    def start(self, work: Callable[[], None]) -> None:
        """Begin a piece of work, after the one before it."""
        self.wait()
        if not self.db.owned:  # a caller's connection may call back into code that knows only its own thread
            work()
            return
        self._thread = threading.Thread(target=self._run, args=(work,), name="neardup_db")
        self._thread.start()

    def wait(self) -> None:
        """Until nothing is at work; raises what went wrong there."""
        self._join()
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def _join(self) -> None:
        thread = self._thread
        if thread is None or thread is threading.current_thread():
            return
        try:
            thread.join()
        except BaseException:  # Ctrl-C: the transaction is over, so its work may be as well
            self.db.connection.interrupt()
            thread.join()
            raise
        finally:
            self._thread = None

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            self._error = error


def _nothing() -> None:
    return None
