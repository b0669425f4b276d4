"""Page checksums: SQLite's cksumvfs, as built into apsw, and a scan that finds damaged pages.

The last 8 bytes of each page are two sums over its other 4-byte words; byte 20 of the file header declares them. Pages in the
write-ahead log have the log's own checksums.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from functools import cache

import apsw

from ...errors import ParameterError
from .statements import Connection

VFS = "cksmvfs"
RESERVED_BYTES = 8  # bytes at the end of each page for its checksum
_LOCK_BYTE = 1 << 30  # SQLite never writes the page that contains this byte; it is reserved for locks
_ATTEMPTS = 5
"""Failed checks before a page counts as damaged. Another process may be writing it, or was killed while writing it; then the
write-ahead log has the valid page."""


@cache
def vfs() -> str:
    """The name of the VFS, registered once; the default VFS stays. Raises ParameterError if apsw lacks it."""
    import apsw.sqlite_extra  # imported late: it imports much of the standard library

    if apsw.sqlite_extra.has("cksumvfs") is None:
        raise ParameterError(
            "the installed apsw lacks SQLite's cksumvfs, which page checksums need: install apsw from its wheel, or, for a new "
            "file, leave checksums out"
        )
    default = apsw.vfs_names()[0]
    connection = apsw.Connection(":memory:")
    try:
        apsw.sqlite_extra.load(connection, "cksumvfs")
    finally:
        connection.close()
        apsw.set_default_vfs(default)
    return VFS


def has_checksums(connection: apsw.Connection) -> bool:
    return connection.open_vfs == VFS


def file_has_checksums(path: str) -> bool:
    """True if the file's header declares checksums. Asks SQLite: closing a file that it has open would drop its locks."""
    connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return bool(connection.reserve_bytes() == RESERVED_BYTES)
    finally:
        connection.close()


def connect(path: str, flags: int) -> apsw.Connection:
    connection = Connection(path, flags=flags)
    if connection.reserve_bytes() != RESERVED_BYTES:
        return connection
    connection.close()
    return Connection(path, flags=flags, vfs=vfs())


def create(path: str) -> apsw.Connection:
    """A connection to an empty file whose pages will have checksums, unless another process initializes it first."""
    connection = Connection(path, flags=apsw.SQLITE_OPEN_READWRITE, vfs=vfs())
    connection.reserve_bytes(reserve=RESERVED_BYTES)
    return connection


def is_checksum_error(error: apsw.Error) -> bool:
    return getattr(error, "extendedresult", 0) == apsw.SQLITE_IOERR_DATA


def damaged_pages(path: str) -> list[int]:
    """The numbers of all pages with wrong checksums, used or not; only page 1 if the header denies checksums. Reads through
    SQLite, because other reads would drop its locks."""
    file = apsw.VFSFile(vfs(), path, [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY, 0])
    try:
        header = file.xRead(100, 0)
        size = int.from_bytes(header[16:18], "big")
        size = 1 << 16 if size == 1 else size
        if header[20] != RESERVED_BYTES or size < 512 or size & (size - 1):
            return [1]
        pages: Iterable[int] = range(1, -(-file.xFileSize() // size) + 1)
        for _ in range(_ATTEMPTS):
            mismatched = [number for number in pages if not _is_sound(file, number, size)]
            replaced = _pages_in_log(path + "-wal", size) if mismatched else set()
            pages = [number for number in mismatched if number not in replaced]
            if not pages:
                break
            time.sleep(0.001)
        return list(pages)
    finally:
        file.xClose()


def _is_sound(file: apsw.VFSFile, number: int, size: int) -> bool:
    """True if SQLite accepts the page, or if it is the lock page or beyond the end of a file that shrank."""
    start = (number - 1) * size
    if start <= _LOCK_BYTE < start + size:
        return True
    try:
        return len(file.xRead(size, start)) == size or start >= file.xFileSize()
    except apsw.IOError as error:
        if not is_checksum_error(error):
            raise
        return False


def _pages_in_log(path: str, size: int) -> set[int]:
    """The numbers of the pages in the write-ahead log: a 32-byte header with the salts at 16, then frames of a 24-byte header
    (page number at 0, salts at 8) and a page."""
    numbers = set()
    with suppress(FileNotFoundError), open(path, "rb") as log:
        salts = log.read(32)[16:24]
        while len(frame := log.read(24)) == 24 and frame[8:16] == salts:
            numbers.add(int.from_bytes(frame[:4], "big"))
            log.seek(size, 1)
    return numbers
