"""A forked child and the connections of its parent: it never uses one, never closes one, and may open files of its own.

SQLite forbids the first two: the child would end transactions of the parent, and free what it has locked. For the third see
csrc/sqlite/fork.c.
"""

from __future__ import annotations

import ctypes
from typing import Protocol
from weakref import WeakSet

import apsw

from ...native import EXTENSION
from ...system import in_children


class Holder(Protocol):
    """An object that has a connection."""

    @property
    def connection(self) -> apsw.Connection | None:
        """The connection, if it is open."""


_holders: WeakSet[Holder] = WeakSet()
_inherited = False
"""Whether this process was forked while it had connections, and has not been separated since."""


def watch(holder: Holder) -> None:
    """Keep the connection as it is in every child that is forked as long as `holder` lives."""
    _holders.add(holder)


def separate() -> None:
    """Before a file is opened: let SQLite forget which files the parent process had open."""
    global _inherited
    if _inherited:
        connection = apsw.Connection(":memory:")
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 1)
        connection.load_extension(EXTENSION, "sqlite3_neardup_fork_init")
        connection.close()
        _inherited = False


def _in_child() -> None:
    """One reference more to each connection, never given back: not even the end of the program closes it. SQLite is not called
    here, for a thread that is not in the child may have held one of its locks."""
    global _inherited
    for holder in _holders:
        _inherited = True
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(holder.connection))


in_children(_in_child)
