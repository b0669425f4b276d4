"""Files with a checksum in every page: SQLite's own cksumvfs, which apsw brings, and a walk that names the damaged pages.

The last 8 bytes of a page are two sums over its other 4-byte words; byte 20 of a file's header says that they are there. A page
that does not fit its sums is an I/O error of SQLite's (SQLITE_IOERR_DATA), and never an answer. Pages in the write-ahead log have
the log's checksums.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from typing import Any

import apsw

from ...arrays import np
from ...errors import FormatError, ParameterError
from .statements import Connection

VFS = "cksmvfs"

RESERVED_BYTES = 8
"""At the end of each page, for its checksum."""

_LOCK_BYTE = 1 << 30
"""The page with this byte of a file is for locks; SQLite never writes it."""

_LOOKS = 5
"""How often a page that was refused is looked at again before it is called damaged."""

_AT_ONCE = 1024
"""Pages that are summed together."""


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
    denies the checksums. FormatError where no page fits.

    The file is read through SQLite: reading it beside SQLite would lose the locks of other connections."""
    file = apsw.VFSFile("", path, [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY, 0])
    try:
        header = file.xRead(100, 0)
        size = int.from_bytes(header[16:18], "big")
        size = 1 << 16 if size == 1 else size
        if header[20] != RESERVED_BYTES or size < 512 or size & (size - 1):
            return [1]
        wrong = [number for number in _damaged_pages(file, size) if not (number - 1) * size <= _LOCK_BYTE < number * size]
        if len(wrong) * size >= file.xFileSize():
            raise FormatError(
                f"{path}: no page fits its checksum, so the file was not written by this version (earlier, unreleased ones had "
                "other checksums): open it with the version that wrote it, and add its documents to a new file"
            )
        return [number for number in wrong if not _is_sound_or_replaced(file, number, size, path + "-wal")]
    finally:
        file.xClose()


def _damaged_pages(file: apsw.VFSFile, size: int) -> Iterator[int]:
    """Numbers of the pages that do not fit their sums, and of one that is not whole."""
    end = file.xFileSize()
    for start in range(0, end, _AT_ONCE * size):
        data = file.xRead(min(_AT_ONCE * size, (end - start) // size * size), start)
        yield from (start // size + 1 + np.flatnonzero(~_fit(data, size))).tolist()
    if end % size:
        yield end // size + 1


def _fit(data: bytes, size: int) -> Any:
    """Of each whole page whether it fits its sums, bool[n]: sums modulo 2^32 over pairs of words, each with the other one so far
    (source: ext/misc/cksumvfs.c of SQLite)."""
    words = np.frombuffer(data[: len(data) // size * size], "<u4").reshape(-1, size // 4).T
    first, second = np.zeros((2, words.shape[1]), np.uint32)
    for i in range(0, len(words) - 2, 2):
        first += words[i] + second
        second += words[i + 1] + first
    return (first == words[-2]) & (second == words[-1])


def _is_sound_or_replaced(file: apsw.VFSFile, number: int, size: int, log: str) -> bool:
    """A second look at a page that was refused: another process may have been writing it just then, or have been killed while it
    did. Then the write-ahead log has the page that counts."""
    start = (number - 1) * size
    for look in range(_LOOKS):
        if number in _pages_in_log(log, size) or start >= file.xFileSize():
            return True
        if _fit(file.xRead(size, start), size).tolist() == [True]:
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
