"""The write-ahead log of a connection of our own is moved into the file by the commit that finds it long.

SQLite's own checkpoint moves the pages that no connection is writing. With several writers some pages are always left, and since
the log restarts only where none are, it would grow without end. Here the checkpoint takes the right to write, if it is free;
right after a commit it nearly always is.
"""

from __future__ import annotations

import apsw

from ... import limits

OF_CHECKPOINT = (apsw.IOError, apsw.FullError)
"""Errors of moving the log. They are no failure of the call that moves it: all of it is still in the log, and the next call moves
it."""


class Log:
    """Keeps the logs of one connection short."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._due: dict[str, int] = {}
        """By database: pages of the log before which it is not tried again."""

    def committed(self, connection: apsw.Connection, database: str, pages: int) -> int:
        """SQLite's hook: a commit has made the log so many pages long. Errors here are no failure of the commit."""
        if pages < limits.LOG_PAGES:
            self._due.pop(database, None)
        elif pages >= self._due.get(database, 0) and not self.move(connection, database, apsw.SQLITE_CHECKPOINT_FULL):
            self._due[database] = pages + max(limits.LOG_PAGES, pages) // 8  # each try looks at the whole log
        return apsw.SQLITE_OK

    def move(self, connection: apsw.Connection, database: str, mode: int) -> bool:
        """Move the log, as SQLite's mode says, without waiting for other connections. True if all of it was moved."""
        connection.set_busy_timeout(0)
        try:
            connection.wal_checkpoint(database, mode=mode)
        except (apsw.BusyError, apsw.LockedError, *OF_CHECKPOINT):  # locked: the caller is reading rows of a query of its own
            return False
        finally:
            connection.set_busy_timeout(int(self._timeout * 1000))
        return True
