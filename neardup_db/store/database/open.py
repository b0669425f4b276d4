"""Opens owned connections, and registers the SQL functions on any connection."""

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

APPLICATION_ID = 0x4E445550  # the application id of files created by this package ("NDUP")
_COPY_PREFIX = "neardup_db-extension-"  # the prefix of folders that contain a copy of the extension
_STALE_AFTER_S = 3600  # the age in seconds from which an unused copy may be deleted


def extension_path() -> str:
    """Path of the SQLite extension, for `load_extension` in any SQLite client: `neardup.so`, on macOS `neardup.dylib`, on Windows
    `neardup.dll`.

    >>> import os
    >>> os.path.basename(extension_path()).startswith("neardup.")
    True
    """
    return EXTENSION


@cache
def _copy_for(module: str) -> str:
    """A copy of the extension for one module's SQLite library: a loaded extension serves only one."""
    import atexit
    import shutil
    import tempfile

    if not system.REMOVES_OPEN_FILES:
        _remove_stale_copies(tempfile.gettempdir())
    folder = tempfile.mkdtemp(prefix=_COPY_PREFIX)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return str(shutil.copy(extension_path(), folder))


def _remove_stale_copies(folder: str) -> None:
    for name in os.listdir(folder):
        copy_folder = os.path.join(folder, name)
        with suppress(OSError):  # loaded by a process
            if name.startswith(_COPY_PREFIX) and os.stat(copy_folder).st_mtime < time.time() - _STALE_AFTER_S:
                os.unlink(os.path.join(copy_folder, os.path.basename(extension_path())))
                os.rmdir(copy_folder)


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
    """Raise ReadOnlyError if a file that could not be opened has a write-ahead log. Without one it can be read alone."""
    if os.path.exists(path + "-wal"):
        raise ReadOnlyError(
            f"{path!r} has changes waiting in its -wal file, which cannot be read where the folder cannot be written "
            f"({error}): open it once where it can be, or copy both files to such a folder"
        ) from error


def _open_read_only(path: str, timeout: float) -> apsw.Connection:
    """Open read-only; as immutable if the folder is not writable and there is no log. path: without symbolic links, because
    SQLite places the log beside the file itself."""
    connection = checksums.connect(path, apsw.SQLITE_OPEN_READONLY)
    connection.set_busy_timeout(int(timeout * 1000))
    try:
        connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall()
        return connection
    except (apsw.CantOpenError, apsw.ReadOnlyError) as error:
        connection.close()
        refuse_waiting_log(path, error)
    escaped = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")  # URI syntax
    return checksums.connect(f"file:{escaped}?immutable=1", apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)


def open_file(target: str, *, read_only: bool, durability: str, timeout: float, sums: bool = False) -> apsw.Connection:
    """An owned connection to an existing file or ':memory:'; sums: to an empty file whose pages will have checksums."""
    forks.separate()
    if read_only:
        connection = _open_read_only(target, timeout)
    elif sums:
        connection = checksums.create(target)
    else:
        connection = checksums.connect(target, apsw.SQLITE_OPEN_READWRITE)
    return _configured(connection, durability, timeout)


class Scratch(apsw.Connection):
    """A connection that an index may close, and use in other threads."""


def open_scratch(path: str) -> Scratch:
    """A connection to a new temporary file, not needed after a crash."""
    connection = Scratch(path)
    connection.execute(
        "PRAGMA page_size = 32768; PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE; "
        f"PRAGMA temp_store = {_temp_store()}; PRAGMA cache_size = -{limits.CACHE_KIB_MANY}"
    ).fetchall()
    return connection


def remove_unused(path: str) -> None:
    """Delete the file of an index that never had a document, unless it is open elsewhere or the system keeps open files."""
    if not os.path.exists(path) or not system.REMOVES_OPEN_FILES:
        return
    with suppress(apsw.Error):
        connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            # Only a lone connection can leave WAL mode, and nobody else can begin before the file is gone.
            if connection.pragma("journal_mode", "delete") != "delete":
                return
            connection.execute("BEGIN EXCLUSIVE")
            if connection.execute("SELECT count(*) FROM sqlite_sequence").get == 0:
                os.unlink(path)
            connection.execute("ROLLBACK")
        finally:
            connection.close()


def open_reader(path: str, vfs: str, *, read_only: bool, timeout: float) -> apsw.Connection:
    if read_only:
        return _configured(_open_read_only(path, timeout), "full", timeout)
    return _configured(Connection(path, flags=apsw.SQLITE_OPEN_READONLY, vfs=vfs), "full", timeout)


def _configured(connection: apsw.Connection, durability: str, timeout: float) -> apsw.Connection:
    """Apply the settings of owned connections. Closes the connection on failure."""
    try:
        connection.set_busy_timeout(int(timeout * 1000))
        connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
        connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)  # plans do not depend on values, so none is prepared twice
        connection.execute(
            f"PRAGMA synchronous = {durability}; PRAGMA temp_store = {_temp_store()}; "
            f"PRAGMA fullfsync = {durability == 'full'}; PRAGMA checkpoint_fullfsync = ON; "  # macOS: flushes the disk's cache
            f"PRAGMA cache_size = {cache_size(connection)}; PRAGMA cache_spill = -{limits.SPILL_KIB}; "
            f"PRAGMA journal_size_limit = {2 * limits.LOG_PAGES * 4096}; PRAGMA cell_size_check = ON; "
            "PRAGMA mmap_size = 0"  # an I/O error in mapped memory ends the process
        ).fetchall()  # fetched to the end: some pragmas return a row
    except BaseException:
        connection.close()
        raise
    return connection


def cache_size(connection: apsw.Connection) -> int:
    size: int = connection.pragma("page_count") * connection.pragma("page_size")
    return -max(limits.CACHE_KIB, min(size // 100 >> 10, limits.CACHE_KIB_MOST))


def _temp_store() -> str:
    """In memory, SQLite sorts without limit and VACUUM copies the whole file: only if no temporary folder can be written."""
    return "FILE" if system.has_temporary_folder() else "MEMORY"
