"""Which SQLite library of this process has a file open.

File locks belong to a process, and closing a file drops all of them. Two SQLite libraries that open one file therefore drop
each other's locks; a single library prevents this.
"""

from __future__ import annotations

import os
from typing import NamedTuple
from weakref import WeakKeyDictionary

import apsw

from ...errors import ParameterError
from .connection import Database
from .standard import StandardConnection
from .statements import apsw_library


class File(NamedTuple):
    """The identity of a file, independent of its path."""

    device: int
    number: int


_files: WeakKeyDictionary[Database, File] = WeakKeyDictionary()
"""The open files."""


def register(db: Database) -> None:
    """Record the file of an open connection. Raises like `require_same`."""
    path = db.connection.filename
    file = file_of(path)
    if file is not None:
        require_same(path, db.connection)
        _files[db] = file


def file_of(path: str) -> File | None:
    """None without a file (in memory, or deleted)."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return File(status.st_dev, status.st_ino)


def require_same(path: str, connection: apsw.Connection | StandardConnection | None = None) -> None:
    """Raise ParameterError if another library than that of the connection has the file open. None: an owned connection that is
    not open yet. Check before opening, because closing a file drops the locks of the other library."""
    file = file_of(path)
    for other in [reference() for reference in _files.keyrefs()]:
        if other is None or file is None or _files.get(other) != file:
            continue
        is_standard = any(isinstance(one, StandardConnection) for one in (connection, other.connection))
        if is_standard and _still_open(other) and _library(other.connection) != _library(connection):
            raise ParameterError(
                f"{path!r} is open in this process by another library of SQLite, through {other.caller_connection!r:.80}, and "
                "each of the two would drop the other's locks: give both indexes one connection, or close that one first"
            )


def _still_open(db: Database) -> bool:
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


def _library(connection: apsw.Connection | StandardConnection | None) -> int:
    return connection.library if isinstance(connection, StandardConnection) else apsw_library()
