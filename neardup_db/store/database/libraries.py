"""Which SQLite library of this process has a file open.

File locks belong to a process, and closing a file drops all of them. Two SQLite libraries that open one file therefore drop
each other's locks; a single library prevents this.
"""

from __future__ import annotations

import os
import threading
from weakref import WeakKeyDictionary

import apsw

from ...errors import ParameterError
from ...system import in_children
from .connection import Database
from .standard import StandardConnection
from .statements import apsw_library

File = tuple[int, int]  # the device and number of a file, independent of its path


class Opening:
    """A file that an owned connection is about to open; it counts as open inside the context. Check before opening, because
    closing a file drops the locks of the other library. Raises like `register`."""

    connection = None
    caller_connection = "an Index that is just being opened"

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> Opening:
        self.register()
        return self

    def register(self) -> None:
        """Again when the file exists, which may have been created meanwhile."""
        _register(self._path, self)

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        _files.pop(self, None)  # a stored traceback would keep this object alive


def _forget() -> None:
    """Open files are those of one process, and the lock's owner may not exist in a child."""
    global _files, _lock
    _files, _lock = WeakKeyDictionary(), threading.RLock()


_files: WeakKeyDictionary[Database | Opening, File]  # the files that are open or about to be opened
_lock: threading.RLock  # makes check and record of an open file a single step. A signal handler may open an index

_forget()
in_children(_forget)


def register(db: Database) -> None:
    """Record the file of an open connection. Raises ParameterError if another library has it open."""
    _register(db.connection.filename, db)


def _register(path: str, user: Database | Opening) -> None:
    file = file_of(path)
    if file is not None:
        with _lock:
            _require_same(path, file, user)
            _files[user] = file


def file_of(path: str) -> File | None:
    """None without a file (in memory, or deleted)."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino


def _require_same(path: str, file: File, user: Database | Opening) -> None:
    for other in [reference() for reference in _files.keyrefs()]:
        if other is None or _files.get(other) != file:
            continue
        is_standard = any(isinstance(one.connection, StandardConnection) for one in (user, other))
        if is_standard and _still_open(other) and _library(other) != _library(user):
            raise ParameterError(
                f"{path!r} is open in this process by another library of SQLite, through {other.caller_connection!s:.80}, and "
                "each of the two would drop the other's locks: give both indexes one connection, or close that one first"
            )


def _still_open(db: Database | Opening) -> bool:
    if isinstance(db, Opening):
        return True
    if db.is_closed or db.forked:
        return False
    if isinstance(db.connection, StandardConnection):
        return not db.connection.is_closed
    try:
        return bool(db.connection.filename)
    except apsw.ConnectionClosedError:  # closed by its owner
        return False
    except apsw.ThreadingViolationError:  # in use by another thread
        return True


def _library(user: Database | Opening) -> int:
    return user.connection.library if isinstance(user.connection, StandardConnection) else apsw_library()
