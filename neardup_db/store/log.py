"""The write-ahead log is moved into the file by a second thread, while the first one goes on writing.

Moving takes as long as writing: each page once more, to its place, and waiting for the disk. SQLite by itself lets the commit
that finds the log long do all of it. Here a thread with a connection of its own begins, and moves what is there, again and again,
until little is left. That is moved within the next commit, since SQLite begins the log anew only where nobody has written
meanwhile. A log that grows more quickly than it is moved is waited for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from importlib.resources import files

import apsw

from .. import limits
from . import forks

OF_CHECKPOINT = (apsw.IOError, apsw.FullError)
"""What moving the log may fail with, and is no failure of the call that does it: all of it is still in the log, and the next one
moves it."""


class Log:
    """Moves the log of one connection. Its methods are called by whoever may use that connection."""

    def __init__(self, another: Callable[[], apsw.Connection]) -> None:
        self.connection: apsw.Connection | None = None
        self._another = another
        """Opens one more connection to the same file, to write."""
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._alone = False
        """Whether something is wrong with the second connection: all is moved within commits then."""
        self._pages = 0
        self._due = limits.LOG_PAGES
        """Pages of the log from which on something is to be done."""
        forks.watch(self)
        forks.watch_thread(self)

    def committed(self, connection: apsw.Connection, database: str, pages: int) -> int:
        """SQLite's hook: a commit has made the log so many pages long. What goes wrong here is no failure of the commit."""
        if database != "main":
            if pages >= limits.LOG_PAGES:
                _move(connection, database)
            return apsw.SQLITE_OK
        if pages < self._pages:  # the log was begun anew
            self._due = limits.LOG_PAGES
        self._pages = pages
        if pages >= self._due:
            self._continue(connection)
        return apsw.SQLITE_OK

    def _continue(self, connection: apsw.Connection) -> None:
        """Begin, leave it to the thread, or end what it has left over."""
        thread, short = self._thread, self._pages < limits.LOG_PAGES_MAX
        if short and (self._start() if thread is None else thread.is_alive()):
            return
        self._join()
        _move(connection, "main")
        self._due = self._pages + limits.LOG_PAGES  # where somebody reads an older state, after as much again

    def stop(self) -> None:
        """Come back when nothing is being moved."""
        thread, connection = self._thread, self.connection
        if thread is not None and thread.is_alive() and connection is not None:
            connection.interrupt()
        self._join()

    def close(self) -> None:
        """Close the second connection, before the first one, which then ends the log."""
        self.stop()
        self._alone = True
        if self.connection is not None:
            with suppress(*OF_CHECKPOINT):
                self.connection.close()
            self.connection = None

    # ---- the thread --------------------------------------------------------------------------------------------------

    def _start(self) -> bool:
        """Whether the thread moves pages now."""
        if self._alone:
            return False
        with forks.no_fork() as quiet:
            if not quiet:
                return False
            self._stopping = False
            self._thread = threading.Thread(target=self._run, name="neardup_db log")
            try:
                self._thread.start()
            except RuntimeError:  # the system gives no more of them, or the program is at its end
                self._thread = None
                return False
        return True

    def _join(self) -> None:
        self._stopping = True
        thread = self._thread  # before a fork another thread may wait here too
        if thread is not None:
            thread.join()
            self._thread = None

    def _run(self) -> None:
        moved = 0
        try:
            if self.connection is None:
                self.connection = self._another()
                _prepare(self.connection)
            while not self._stopping and self._pages - moved > limits.LOG_LITTLE:
                before, moved = moved, self.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)[1]
                self.connection.execute("SELECT neardup_sync()").fetchall()
                if moved - before <= limits.LOG_LITTLE:  # somebody reads an older state
                    break
        except (apsw.BusyError, apsw.InterruptError):  # another connection does it; it is to end
            pass
        except Exception:  # files have run out, or the disk has failed: from now on SQLite's own way
            self._alone = True


def _prepare(connection: apsw.Connection) -> None:
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 1)
    connection.load_extension(str(files("neardup_db") / "neardup_sync.so"), "sqlite3_neardup_sync_init")
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0)
    connection.pragma("schema_version")  # before something is read SQLite does not know of the log


def _move(connection: apsw.Connection, database: str) -> None:
    """What can be moved without waiting for anybody."""
    with suppress(apsw.BusyError, apsw.LockedError, *OF_CHECKPOINT):
        connection.wal_checkpoint(database, mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
