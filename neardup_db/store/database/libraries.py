"""Which SQLite library of this process has a file open.

File locks belong to a process, and closing a file drops all of them. Two SQLite libraries that open one file therefore drop
each other's locks; a single library prevents this.
"""

from __future__ import annotations

import math
import os
from functools import cache
from typing import NamedTuple
from weakref import WeakKeyDictionary

import apsw

from ... import _standard
from ..._locks import ReentrantLock
from ...errors import ParameterError
from ...system import in_children
from .connection import Database
from .standard import StandardConnection


class File(NamedTuple):
    """The identity of a file, independent of its path."""

    device: int
    number: int


class Opening:
    """A file that an owned connection is about to open; it counts as open inside the context. Raises ParameterError if another
    library has it open."""

    connection = None
    """None: the library is that of owned connections."""

    def __init__(self, path: str) -> None:
        self._path = path

    def record_identity(self) -> None:
        if self not in _files:
            _add(self._path, file_of(self._path), self)

    def __enter__(self) -> Opening:
        self.record_identity()
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        _files.pop(self, None)  # a stored traceback would keep this object alive


_files: WeakKeyDictionary[Database | Opening, File] = WeakKeyDictionary()
"""The files that are open or about to be opened."""

_mutex = ReentrantLock()
"""Locked while a thread checks which files are open and adds one."""


def _reset_lock() -> None:
    global _mutex
    _mutex = ReentrantLock()  # its owner may not exist in the child


in_children(_reset_lock)


def register(db: Database) -> None:
    path = db.connection.filename
    _add(path, file_of(path), db)


def _add(path: str, file: File | None, user: Database | Opening) -> None:
    """Check for other users of a file and record this one, atomically, so one of two threads gets the error."""
    if file is not None:
        guard = _mutex.take(math.inf)
        assert guard is not None
        with guard:
            _require_same(path, file, user)
            _files[user] = file


def file_of(path: str) -> File | None:
    """None without a file (in memory, or deleted)."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return File(status.st_dev, status.st_ino)


def _require_same(path: str, file: File, user: Database | Opening) -> None:
    for other in _holders_of(file):
        if (_is_standard(other) or _is_standard(user)) and _still_open(other) and _library(other) != _library(user):
            holder = "an Index that is just being opened" if isinstance(other, Opening) else f"{other.caller_connection!r:.80}"
            raise ParameterError(
                f"{path!r} is open in this process by another library of SQLite, through {holder}, and each of the "
                "two would drop the other's locks: give both indexes one connection, or close that one first"
            )


def _holders_of(file: File) -> list[Database | Opening]:
    users = [reference() for reference in _files.keyrefs()]
    return [user for user in users if user is not None and _files.get(user) == file]


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


def _is_standard(user: Database | Opening) -> bool:
    return isinstance(user.connection, StandardConnection)


def _library(user: Database | Opening) -> int:
    return user.connection.library if isinstance(user.connection, StandardConnection) else _apsw_library()


@cache
def _apsw_library() -> int:
    connection = apsw.Connection(":memory:")
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 1)
    connection.load_extension(_standard.__file__)
    connection.close()
    return _standard.loaded_library()
