"""By which library of SQLite this process has a file open.

Locks of files belong to a process. Whoever closes a file drops all of them, so two libraries on one file take away each other's,
and then two writers meet. Within one library SQLite sees to that.
"""

from __future__ import annotations

import math
import os
from functools import cache
from typing import NamedTuple
from weakref import WeakKeyDictionary

import apsw

from ... import _standard
from ..._turns import Turn
from ...errors import ParameterError
from ...system import in_children
from .connection import Database
from .standard import StandardConnection


class File(NamedTuple):
    """A file that is open, by whatever name."""

    device: int
    number: int


class Opening:
    """A file that a connection of our own is about to open: as good as open, inside the block.

    ParameterError where another library has it: to open it, and close it again, would drop the locks."""

    connection = None
    """The library is that of our own connections."""

    def __init__(self, path: str) -> None:
        self._path = path

    def record_identity(self) -> None:
        """As at the beginning of the block, where there was no such file then."""
        if self not in _files:
            _add(self._path, file_of(self._path), self)

    def __enter__(self) -> Opening:
        self.record_identity()
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        _files.pop(self, None)  # an error that somebody keeps would keep this


_files: WeakKeyDictionary[Database | Opening, File] = WeakKeyDictionary()
"""Of each database that was opened, or is about to be."""

_turn = Turn()
"""Of the thread that looks which files are open, and adds one."""


def _renew() -> None:
    global _turn
    _turn = Turn()  # whoever had it may not be in the child


in_children(_renew)


def register(db: Database) -> None:
    """Remember which file a database has open. ParameterError where another library has it, or is about to."""
    path = db.connection.filename
    _add(path, file_of(path), db)


def _add(path: str, file: File | None, user: Database | Opening) -> None:
    """Look who has the file and add this one, in one step: of two threads at the same moment one is told."""
    if file is not None:
        loan = _turn.take(math.inf)
        assert loan is not None
        with loan:
            _require_same(path, file, user)
            _files[user] = file


def file_of(path: str) -> File | None:
    """Which file a path names, whatever the path; None where there is none: in memory, or removed."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return File(status.st_dev, status.st_ino)


def _require_same(path: str, file: File, user: Database | Opening) -> None:
    for other in _holders_of(file):
        if (_is_standard(other) or _is_standard(user)) and _still_open(other) and _library(other) != _library(user):
            through = "an Index that is just being opened" if isinstance(other, Opening) else f"{other.caller_connection!r:.80}"
            raise ParameterError(
                f"{path!r} is open in this process by another library of SQLite, through {through}, and each of the "
                "two would drop the other's locks: give both indexes one connection, or close that one first"
            )


def _holders_of(file: File) -> list[Database | Opening]:
    """Who has a file. Other threads let go of files meanwhile, so the table itself is not walked through."""
    known = [reference() for reference in _files.keyrefs()]
    return [user for user in known if user is not None and _files.get(user) == file]


def _still_open(db: Database | Opening) -> bool:
    if isinstance(db, Opening):
        return True
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


def _is_standard(user: Database | Opening) -> bool:
    return isinstance(user.connection, StandardConnection)


def _library(user: Database | Opening) -> int:
    return user.connection.library if isinstance(user.connection, StandardConnection) else _of_apsw()


@cache
def _of_apsw() -> int:
    connection = apsw.Connection(":memory:")
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 1)
    connection.load_extension(_standard.__file__)
    connection.close()
    return _standard.loaded_library()
