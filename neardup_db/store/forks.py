"""A forked child and the connections of its parent: it never uses one, never closes one, and may open files of its own.

SQLite forbids the first two: the child would end transactions of the parent, and free what it has locked. For the third see
csrc/sqlite_fork.c.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from typing import Protocol
from weakref import WeakSet

import apsw


class Holder(Protocol):
    """Whatever has a connection."""

    @property
    def connection(self) -> apsw.Connection | None:
        """The connection, if it is open."""


class Worker(Protocol):
    """Whatever has a thread of its own that uses SQLite at any time."""

    def stop(self) -> None:
        """Let the thread end."""


_holders: WeakSet[Holder] = WeakSet()
_workers: WeakSet[Worker] = WeakSet()
_forking = threading.Lock()
_inherited = False
"""Whether this process was forked while it had connections, and has not been separated since."""


def watch(holder: Holder) -> None:
    """Keep the connection as it is in every child that is forked as long as `holder` lives."""
    _holders.add(holder)


def watch_thread(worker: Worker) -> None:
    """Let the thread end before every fork: what SQLite has locked in it would stay locked in the child for ever."""
    _workers.add(worker)


@contextmanager
def no_fork() -> Iterator[bool]:
    """Nothing is forked meanwhile. Yields False where a fork is under way: then no thread may be started."""
    quiet = _forking.acquire(blocking=False)
    try:
        yield quiet
    finally:
        if quiet:
            _forking.release()


def separate() -> None:
    """Before a file is opened: let SQLite forget which files the parent process had open."""
    global _inherited
    if _inherited:
        connection = apsw.Connection(":memory:")
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 1)
        connection.load_extension(str(files("neardup_db") / "neardup_fork.so"), "sqlite3_neardup_fork_init")
        connection.close()
        _inherited = False


def _before() -> None:
    _forking.acquire()
    for worker in list(_workers):
        worker.stop()


def _in_parent() -> None:
    _forking.release()


def _in_child() -> None:
    """One reference more to each connection, never given back: not even the end of the program closes it. SQLite is not called
    here, for a thread that is not in the child may have held one of its locks."""
    global _inherited
    _forking.release()
    for holder in _holders:
        _inherited = True
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(holder.connection))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
