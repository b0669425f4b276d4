"""By which library of SQLite this process has a file open.

Locks of files belong to a process. Whoever closes a file drops all of them, so two libraries on one file take away each other's,
and then two writers meet. Within one library SQLite sees to that.
"""

from __future__ import annotations

import os
from functools import cache
from typing import NamedTuple
from weakref import WeakKeyDictionary

import apsw

from ... import _standard
from ...errors import ParameterError
from .connection import Database
from .standard import StandardConnection


class File(NamedTuple):
    """A file that is open, by whatever name."""

    device: int
    number: int


_files: WeakKeyDictionary[Database, File] = WeakKeyDictionary()
"""Of each database that was opened."""


def note(db: Database) -> None:
    """Remember which file a database has open. ParameterError where another library has it."""
    path = db.connection.filename
    file = file_of(path)
    if file is not None:
        _require_same(path, file, db)
        _files[db] = file


def require_own(path: str) -> None:
    """ParameterError where another library than that of our own connections has the file open. Before it is opened: to close it
    again would drop the locks."""
    file = file_of(path)
    if file is not None:
        _require_same(path, file, None)


def file_of(path: str) -> File | None:
    """Which file a path names, whatever the path; None where there is none: in memory, or removed."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return File(status.st_dev, status.st_ino)


def _require_same(path: str, file: File, db: Database | None) -> None:
    """db: None = one of our own connections, which is not there yet."""
    for other in _of(file):
        if (_is_standard(other) or _is_standard(db)) and _is_open(other) and _library(other) != _library(db):
            raise ParameterError(
                f"{path!r} is open in this process by another library of SQLite, through {other.given!r:.80}, and each of the "
                "two would drop the other's locks: give both indexes one connection, or close that one first"
            )


def _of(file: File) -> list[Database]:
    """The databases in a file. Other threads open and close files meanwhile, so the table itself is not walked through."""
    known = [reference() for reference in _files.keyrefs()]
    return [db for db in known if db is not None and _files.get(db) == file]


def _is_open(db: Database) -> bool:
    if db.is_closed or db.forked:
        return False
    if isinstance(db.connection, StandardConnection):
        return not db.connection.is_closed
    try:
        return bool(db.connection.filename)
    except apsw.ConnectionClosedError:  # by its owner
        return False
    except apsw.ThreadingViolationError:  # another thread is at work
        return True


def _is_standard(db: Database | None) -> bool:
    return db is not None and isinstance(db.connection, StandardConnection)


def _library(db: Database | None) -> int:
    return db.connection.library if db is not None and isinstance(db.connection, StandardConnection) else _of_apsw()


@cache
def _of_apsw() -> int:
    connection = apsw.Connection(":memory:")
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 1)
    connection.load_extension(_standard.__file__)
    connection.close()
    return _standard.loaded_library()
