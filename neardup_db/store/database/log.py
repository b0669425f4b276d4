"""Checkpoints of the write-ahead log, run by the commit that finds it too long.

SQLite's automatic checkpoint skips pages in use, so with several writers the log never restarts. This one takes the write lock
if it is free, which it usually is right after a commit.
"""

from __future__ import annotations

import apsw

from ... import limits

CHECKPOINT_ERRORS = (apsw.IOError, apsw.FullError)  # they do not fail the call: the log is complete, and the next call retries


class Log:
    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._due: dict[str, int] = {}  # the log size in pages, by database, below which no checkpoint is tried

    def committed(self, connection: apsw.Connection, database: str, pages: int) -> int:
        """SQLite's WAL hook: a commit has left `pages` in the log. Errors here do not fail the commit."""
        if pages < limits.LOG_PAGES:
            self._due.pop(database, None)
        elif pages >= self._due.get(database, 0) and not self.move(connection, database, apsw.SQLITE_CHECKPOINT_FULL):
            self._due[database] = pages + max(limits.LOG_PAGES, pages) // 8  # each attempt reads the whole log
        return apsw.SQLITE_OK

    def move(self, connection: apsw.Connection, database: str, mode: int) -> bool:
        """Checkpoint in a mode of SQLite, without waiting for other connections. Returns True if the whole log was copied."""
        connection.set_busy_timeout(0)
        try:
            connection.wal_checkpoint(database, mode=mode)
        except (apsw.BusyError, apsw.LockedError, *CHECKPOINT_ERRORS):  # locked: the application has an open cursor
            return False
        finally:
            connection.set_busy_timeout(int(self._timeout * 1000))
        return True
