"""Forked children and the connections of the parent. A child never uses or closes one: it would end the parent's transactions
and release its locks. It may open its own files (csrc/sqlite/fork.c), unless another thread was using an index at the fork and
may have held a lock of SQLite's."""

from __future__ import annotations

import ctypes
from typing import Any
from weakref import WeakSet

import apsw

from ...errors import NearDupError
from ...native import EXTENSION
from ...system import in_children

_holders: WeakSet[Any] = WeakSet()  # objects with a connection and the mutex that is locked while it is used
_inherited = False  # True if this process was forked with open connections and has not been separated since
_in_use = False  # True if this process was forked while another thread used a connection


def watch(holder: Any) -> None:
    """Preserve the holder's connection in every forked child."""
    _holders.add(holder)


def require_idle() -> None:
    """Raise NearDupError if another thread was using an index at the fork."""
    if _in_use:
        raise NearDupError(
            "this process was forked while another thread was using an index, and SQLite may wait here for ever for a lock of "
            "that thread: start processes by multiprocessing's 'spawn' or 'forkserver', or fork while no thread uses an index"
        )


def separate() -> None:
    """Make SQLite forget the parent's open files, before a file is opened. Raises like `require_idle`."""
    global _inherited
    require_idle()
    if _inherited:
        connection = apsw.Connection(":memory:")
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 1)
        connection.load_extension(EXTENSION, "sqlite3_neardup_fork_init")
        connection.close()
        _inherited = False


def _in_child() -> None:
    """Leak a reference to each connection, so that not even interpreter shutdown closes it. Does not call SQLite, because a
    thread that does not exist in the child may have held one of its locks."""
    global _inherited, _in_use
    for holder in _holders:
        _inherited = True
        _in_use = _in_use or (holder.mutex.taken and not holder.mutex.mine and not holder.is_closed)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(holder.connection))


in_children(_in_child)
