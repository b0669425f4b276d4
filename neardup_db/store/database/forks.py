"""A forked child and the connections of its parent: it never uses one, never closes one, and may open files of its own, unless
another thread was using an index at the fork.

SQLite forbids the first two: the child would end transactions of the parent, and free what it has locked. For the third see
csrc/sqlite/fork.c. A thread that was inside SQLite may have held one of its locks, which nobody in the child releases.
"""

from __future__ import annotations

import ctypes
from typing import Protocol
from weakref import WeakSet

import apsw

from ..._turns import Turn
from ...errors import NearDupError
from ...native import EXTENSION
from ...system import in_children


class Holder(Protocol):
    """An object that has a connection."""

    turn: Turn

    @property
    def connection(self) -> apsw.Connection | None:
        """The connection, if it is open."""

    @property
    def is_closed(self) -> bool:
        """Whether the object has closed it."""


_holders: WeakSet[Holder] = WeakSet()
_inherited = False
"""Whether this process was forked while it had connections, and has not been separated since."""
_in_use = False
"""Whether this process was forked while another thread used a connection."""


def watch(holder: Holder) -> None:
    """Keep the connection as it is in every child that is forked as long as `holder` lives."""
    _holders.add(holder)


def require_idle() -> None:
    """Raise NearDupError where another thread was using an index at the fork."""
    if _in_use:
        raise NearDupError(
            "this process was forked while another thread was using an index, and SQLite may wait here for ever for a lock of "
            "that thread: start processes by multiprocessing's 'spawn' or 'forkserver', or fork while no thread uses an index"
        )


def separate() -> None:
    """Before a file is opened: let SQLite forget which files the parent process had open. Raises as `require_idle`."""
    global _inherited
    require_idle()
    if _inherited:
        connection = apsw.Connection(":memory:")
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 1)
        connection.load_extension(EXTENSION, "sqlite3_neardup_fork_init")
        connection.close()
        _inherited = False


def _in_child() -> None:
    """One reference more to each connection, never given back: not even the end of the program closes it. SQLite is not called
    here, for a thread that is not in the child may have held one of its locks."""
    global _inherited, _in_use
    for holder in _holders:
        _inherited = True
        _in_use = _in_use or (holder.turn.taken and not holder.turn.mine and not holder.is_closed)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(holder.connection))


in_children(_in_child)
