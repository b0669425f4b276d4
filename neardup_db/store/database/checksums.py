"""Files with a checksum in every page: SQLite's own cksumvfs, which apsw brings, and a walk that names the pages it refuses.

The last 8 bytes of a page are two sums over its other 4-byte words; byte 20 of a file's header says that they are there. A page
that does not fit its sums is an I/O error of SQLite's (SQLITE_IOERR_DATA), and never an answer. Pages in the write-ahead log have
the log's checksums.
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

RESERVED_BYTES = 8
"""At the end of each page, for its checksum."""

_LOCK_BYTE = 1 << 30
"""The page with this byte of a file is for locks; SQLite never writes it."""

_LOOKS = 5
"""How often a page has to be refused before it is damaged. Another process may be writing it, or was killed while it did: then
the write-ahead log has the page that counts."""


@cache
def vfs() -> str:
    """Name of the VFS, registered from now on in this process and its children. The default one stays the default.

    ParameterError where apsw came without it."""
    import apsw.sqlite_extra  # here, since it imports a good part of the standard library

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
    """Whether the pages of the connection's file are checked."""
    return connection.open_vfs == VFS


def file_has_checksums(path: str) -> bool:
    """Whether the header of a file says that its pages have checksums. SQLite is asked: a file that it has open must not be
    opened and closed by others."""
    connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return bool(connection.reserve_bytes() == RESERVED_BYTES)
    finally:
        connection.close()


def connect(path: str, flags: int) -> apsw.Connection:
    """A connection to a file that checks its pages where they have checksums."""
    connection = Connection(path, flags=flags)
    if connection.reserve_bytes() != RESERVED_BYTES:
        return connection
    connection.close()
    return Connection(path, flags=flags, vfs=vfs())


def create(path: str) -> apsw.Connection:
    """A connection to an empty file, whose pages are to have checksums unless another process makes it something else."""
    connection = Connection(path, flags=apsw.SQLITE_OPEN_READWRITE, vfs=vfs())
    connection.reserve_bytes(reserve=RESERVED_BYTES)
    return connection


def refused(error: apsw.Error) -> bool:
    """Whether an error of SQLite says that a page does not fit its checksum."""
    return getattr(error, "extendedresult", 0) == apsw.SQLITE_IOERR_DATA


def damaged_pages(path: str) -> list[int]:
    """Numbers of all pages of a file whose checksum is wrong, whether something uses them or not; page 1 alone where the header
    denies the checksums.

    The file is read through SQLite: reading it beside SQLite would lose the locks of other connections."""
    file = apsw.VFSFile(vfs(), path, [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY, 0])
    try:
        header = file.xRead(100, 0)
        size = int.from_bytes(header[16:18], "big")
        size = 1 << 16 if size == 1 else size
        if header[20] != RESERVED_BYTES or size < 512 or size & (size - 1):
            return [1]
        pages: Iterable[int] = range(1, -(-file.xFileSize() // size) + 1)
        for _ in range(_LOOKS):
            wrong = [number for number in pages if not _is_sound(file, number, size)]
            replaced = _pages_in_log(path + "-wal", size) if wrong else set()
            pages = [number for number in wrong if number not in replaced]
            if not pages:
                break
            time.sleep(0.001)
        return list(pages)
    finally:
        file.xClose()


def _is_sound(file: apsw.VFSFile, number: int, size: int) -> bool:
    """Whether SQLite accepts a page, which is also missing where the file has become shorter, or holds only locks."""
    start = (number - 1) * size
    if start <= _LOCK_BYTE < start + size:
        return True
    try:
        return len(file.xRead(size, start)) == size or start >= file.xFileSize()
    except apsw.IOError as error:
        if not refused(error):
            raise
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
