"""How a connection of our own is opened, with its settings; and the SQL functions on any connection."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from functools import cache
from typing import Any

import apsw

from ... import limits, system
from ...errors import ReadOnlyError
from ...native import EXTENSION
from . import checksums, forks
from .standard import has_functions, loading, module_of
from .statements import Connection

APPLICATION_ID = 0x4E445550
"""Of a file that this package created ("NDUP")."""

_SYNCHRONOUS = {"full": "FULL", "normal": "NORMAL"}


def extension_path() -> str:
    """Path of the SQLite extension, for `load_extension` in any SQLite client: `neardup.so`, on macOS `neardup.dylib`, on Windows
    `neardup.dll`.

    >>> import os
    >>> os.path.basename(extension_path()).startswith("neardup.")
    True
    """
    return EXTENSION


_COPY = "neardup_db-extension-"
"""With which the name of a folder for a copy of the extension begins."""


_OLD_S = 3600
"""Seconds after which a folder for a copy has a copy that is loaded, or one that is left."""


@cache
def _copy_for(module: str) -> str:
    """A copy of the extension for one module's SQLite library, by the module's own name: a loaded extension serves only one."""
    import atexit
    import shutil
    import tempfile

    if not system.REMOVES_OPEN_FILES:
        _remove_left(tempfile.gettempdir())
    folder = tempfile.mkdtemp(prefix=_COPY)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return str(shutil.copy(extension_path(), folder))


def _remove_left(folder: str) -> None:
    """Remove the copies of processes that have ended: where no open file can be removed, they could not remove their own."""
    for name in os.listdir(folder):
        left = os.path.join(folder, name)
        with suppress(OSError):  # a process has it loaded
            if name.startswith(_COPY) and os.stat(left).st_mtime < time.time() - _OLD_S:
                os.unlink(os.path.join(left, os.path.basename(extension_path())))
                os.rmdir(left)


def load(connection: Any) -> None:
    """Register the SQL functions (`neardup_search` and the others) on an open connection of `apsw`, `sqlite3` or `pysqlite3`.

    Raises ParameterError for another kind of object, or where this Python's sqlite3 cannot load extensions.

    >>> import apsw
    >>> connection = apsw.Connection(":memory:")
    >>> load(connection)
    >>> connection.execute("SELECT neardup_hamming(1, 2)").get
    2
    """
    if isinstance(connection, apsw.Connection):
        allowed = connection.config(apsw.SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, -1)
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 1)
        try:
            connection.load_extension(extension_path(), "sqlite3_neardup_init")
        finally:
            connection.config(apsw.SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, allowed)
        return
    with loading(connection):
        if not has_functions(connection):
            connection.load_extension(_copy_for(module_of(connection).Connection.__module__))


def refuse_waiting_log(path: str, error: Exception) -> None:
    """Raise ReadOnlyError if a log waits beside a file that could not be opened; without one it can be read as it is."""
    if os.path.exists(path + "-wal"):
        raise ReadOnlyError(
            f"{path!r} has changes waiting in its -wal file, which cannot be read where the folder cannot be written "
            f"({error}): open it once where it can be, or copy both files to such a folder"
        ) from error


def _open_read_only(path: str, timeout: float) -> apsw.Connection:
    """Read-only; where the folder cannot be written and no log is waiting, the file is taken as one that does not change. The
    path has no symbolic links: SQLite has the log beside the file itself."""
    plain = checksums.connect(path, apsw.SQLITE_OPEN_READONLY)
    plain.set_busy_timeout(int(timeout * 1000))
    try:
        plain.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall()
        return plain
    except (apsw.CantOpenError, apsw.ReadOnlyError) as error:
        plain.close()
        refuse_waiting_log(path, error)
    escaped = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")  # as SQLite wants it
    uri = f"file:{escaped}?immutable=1"
    return checksums.connect(uri, apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)


def open_file(target: str, *, read_only: bool, durability: str, timeout: float, sums: bool = False) -> apsw.Connection:
    """A connection of our own to an existing file or ':memory:'; sums: to an empty file, whose pages are to have checksums."""
    forks.separate()
    if read_only:
        connection = _open_read_only(target, timeout)
    elif sums:
        connection = checksums.create(target)
    else:
        connection = checksums.connect(target, apsw.SQLITE_OPEN_READWRITE)
    return _configured(connection, durability, timeout)


class Scratch(apsw.Connection):
    """A connection that an index may use, and close, as its own: unlike a caller's it is used in other threads too."""


def open_scratch(path: str) -> Scratch:
    """A connection to a new file that nobody else opens and that is not needed after an end of the program: changes are taken
    back from memory, nothing is forced onto the disk, and pages hold several large values."""
    connection = Scratch(path)
    connection.execute(
        "PRAGMA page_size = 32768; PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE; "
        f"PRAGMA temp_store = {_temp_store()}; PRAGMA cache_size = -{limits.CACHE_KIB_MANY}"
    ).fetchall()
    return connection


def remove_unused(path: str) -> None:
    """Remove a file in which no index ever had a document, unless another connection has it open."""
    if not os.path.exists(path):
        return
    with suppress(apsw.Error):
        connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            # Only a connection that is alone leaves the log, and nobody else can begin before the file is gone.
            if connection.pragma("journal_mode", "delete") != "delete":
                return
            connection.execute("BEGIN EXCLUSIVE")
            unused = _is_unused(connection)
            if unused and system.REMOVES_OPEN_FILES:
                os.unlink(path)
            connection.execute("ROLLBACK")
        finally:
            connection.close()
        if unused and not system.REMOVES_OPEN_FILES:
            _remove_closed(path)


def _is_unused(connection: apsw.Connection) -> bool:
    return bool(connection.execute("SELECT count(*) FROM sqlite_sequence").get == 0)


def _remove_closed(path: str) -> None:
    """Remove a file that was unused when it was closed. It gets a name that nobody else knows before the second look at it."""
    beside = os.path.join(os.path.dirname(path), f".neardup-{os.urandom(8).hex()}")
    try:
        os.rename(path, beside)
    except OSError:  # another connection has it open
        return
    connection = apsw.Connection(beside, flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        unused = _is_unused(connection)
    finally:
        connection.close()
    if unused:
        os.unlink(beside)
    else:
        os.rename(beside, path)


def open_reader(path: str, vfs: str, *, read_only: bool, timeout: float) -> apsw.Connection:
    """One more connection to a file that is open, to read; read_only: as that was opened."""
    if read_only:
        return _configured(_open_read_only(path, timeout), "full", timeout)
    return _configured(Connection(path, flags=apsw.SQLITE_OPEN_READONLY, vfs=vfs), "full", timeout)


def _configured(connection: apsw.Connection, durability: str, timeout: float) -> apsw.Connection:
    """The connection with our settings; closed again if that fails."""
    try:
        connection.set_busy_timeout(int(timeout * 1000))
        connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
        connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)  # plans do not depend on values: nothing is planned twice
        connection.execute(
            f"PRAGMA synchronous = {_SYNCHRONOUS[durability]}; PRAGMA temp_store = {_temp_store()}; "
            f"PRAGMA cache_size = {cache_size(connection)}; PRAGMA cache_spill = -{limits.SPILL_KIB}; "
            f"PRAGMA journal_size_limit = {2 * limits.LOG_PAGES * 4096}; PRAGMA cell_size_check = ON; "
            "PRAGMA mmap_size = 0"  # an I/O error on a map ends the process
        ).fetchall()  # to the last statement: some give a row
    except BaseException:
        connection.close()
        raise
    return connection


def cache_size(connection: apsw.Connection) -> int:
    """As the pragma takes it, for a file of the present size."""
    size: int = connection.pragma("page_count") * connection.pragma("page_size")
    return -max(limits.CACHE_KIB, min(size // 100 >> 10, limits.CACHE_KIB_MOST))


def _temp_store() -> str:
    """The place for data that does not fit into SQLite's cache. In memory SQLite sorts without bound, as a list of single rows,
    and copies the whole file for VACUUM; but without a writable folder for temporary files there is no other place."""
    return "FILE" if system.has_temporary_folder() else "MEMORY"
