"""Files with a checksum in every page: the VFS of csrc/sqlite_checksums.c, opening with it, and what it has found."""

from __future__ import annotations

import ctypes
import time
from contextlib import suppress
from functools import cache
from importlib.resources import files

import apsw

VFS = "neardup_checksums"

RESERVED_BYTES = 8
"""At the end of each page, for its checksum."""

_LOCK_BYTE = 1 << 30
"""The page with this byte of a file is for locks; SQLite never writes it."""

_LOOKS = 5
"""How often a page that was refused is looked at again before it is called damaged."""


@cache
def _library() -> ctypes.CDLL:
    """The VFS, registered once in a process and inherited by its children."""
    path = str(files("neardup_db") / f"{VFS}.so")
    connection = apsw.Connection(":memory:")
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 1)
    connection.load_extension(path, "sqlite3_neardup_checksums_init")
    connection.close()
    library = ctypes.CDLL(path)
    library.neardup_checksums_damaged_page.restype = ctypes.c_int64
    return library


def vfs() -> str:
    """Name of the VFS, which is registered from now on."""
    _library()
    return VFS


def has(connection: apsw.Connection) -> bool:
    """Whether the pages of the connection's file are checked."""
    return connection.open_vfs == VFS


def are_in(path: str) -> bool:
    """Whether the header of a file says that its pages have checksums. SQLite is asked: a file that it has open must not be
    opened and closed by others."""
    connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return bool(connection.reserve_bytes() == RESERVED_BYTES)
    finally:
        connection.close()


def connect(path: str, flags: int) -> apsw.Connection:
    """A connection to a file that checks its pages where they have checksums."""
    connection = apsw.Connection(path, flags=flags)
    if connection.reserve_bytes() != RESERVED_BYTES:
        return connection
    connection.close()
    return apsw.Connection(path, flags=flags, vfs=vfs())


def create(path: str) -> apsw.Connection:
    """A connection to an empty file, whose pages are to have checksums unless another process makes it something else."""
    connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE, vfs=vfs())
    connection.reserve_bytes(reserve=RESERVED_BYTES)
    return connection


def damaged_page() -> int:
    """Number of the page that was refused last; where two threads meet damage at the same moment, perhaps the other's."""
    number: int = _library().neardup_checksums_damaged_page()
    return number


def damaged_pages(connection: apsw.Connection) -> list[int]:
    """Numbers of all pages of the connection's file whose checksum is wrong, whether something uses them or not."""
    if not has(connection):
        return []
    path, size = connection.filename, connection.pragma("page_size")
    if not are_in(path):  # the header is damaged
        return [1]
    file = apsw.VFSFile(VFS, path, [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY, 0])
    try:
        starts = (start for start in range(0, file.xFileSize(), size) if not start <= _LOCK_BYTE < start + size)
        refused = [start // size + 1 for start in starts if not _is_sound(file, start, size)]
        return [number for number in refused if not _is_sound_or_replaced(file, number, size, connection.filename_wal)]
    finally:
        file.xClose()


def _is_sound(file: apsw.VFSFile, start: int, size: int) -> bool:
    try:
        file.xRead(size, start)
    except apsw.IOError as error:
        if getattr(error, "extendedresult", 0) != apsw.SQLITE_IOERR_DATA:
            raise
        return False
    return True


def _is_sound_or_replaced(file: apsw.VFSFile, number: int, size: int, log: str) -> bool:
    """A second look at a page that was refused: another process may have been writing it just then, or have been killed while it
    did. Then the write-ahead log has the page that counts."""
    start = (number - 1) * size
    for look in range(_LOOKS):
        if number in _pages_in_log(log, size) or _is_sound(file, start, size) or start >= file.xFileSize():
            return True
        time.sleep(0.001 * look)
    return False


def _pages_in_log(path: str, size: int) -> set[int]:
    """Numbers of the pages in the write-ahead log, by SQLite's file format: a header of 32 bytes with the salts of the log at 16,
    then frames: a header of 24 bytes, the number of the page first and the salts at 8, and the page."""
    numbers = set()
    with suppress(FileNotFoundError), open(path, "rb") as log:
        salts = log.read(32)[16:24]
        while len(frame := log.read(24)) == 24 and frame[8:16] == salts:
            numbers.add(int.from_bytes(frame[:4], "big"))
            log.seek(size, 1)
    return numbers
