"""Converts SQLite and system errors to this package's errors."""

from __future__ import annotations

import errno
from functools import lru_cache

import apsw

from ...errors import (
    BusyError,
    ClosedError,
    CorruptIndexError,
    DiskFullError,
    FormatError,
    NearDupError,
    ParameterError,
    ReadOnlyError,
)
from . import checksums

_ERRORS: tuple[tuple[type[apsw.Error], int | None, type[NearDupError], str], ...] = (
    (apsw.BusyError, apsw.SQLITE_BUSY_SNAPSHOT, BusyError,
        "the transaction has read an older state than another connection has written since, so it cannot write any more: "
        "roll it back, and begin transactions that will write with BEGIN IMMEDIATE"),
    (apsw.LockedError, apsw.SQLITE_LOCKED_SHAREDCACHE, BusyError,
        "another connection that shares the cache holds a table ({error}): end its transaction and try again, or open "
        "connections without cache=shared, of which one waits for the other"),
    (apsw.LockedError, None, BusyError,
        "a statement of your own on this connection is not at its end ({error}): fetch all its rows, or close its cursor, "
        "and try again"),
    (apsw.BusyError, None, BusyError, "another connection holds the database ({error}): try again, or give a larger timeout"),
    (apsw.ReadOnlyError, None, ReadOnlyError,
        "the database cannot be written ({error}): to read it, open it with read_only=True; to write, without, in a folder "
        "that you may write to"),
    (apsw.TooBigError, None, ParameterError,
        "longer than the 1,000,000,000 bytes that SQLite keeps in one place ({error}): give a shorter one"),
    (apsw.CorruptError, None, CorruptIndexError,
        "SQLite cannot read the file ({error}): restore a backup; of an index that is open check() names what is damaged"),
    (apsw.IOError, apsw.SQLITE_IOERR_DATA, CorruptIndexError,
        "a page of the file is damaged ({error}: its checksum is wrong): restore a backup"),
    (apsw.ConstraintError, apsw.SQLITE_CONSTRAINT_DATATYPE, CorruptIndexError,  # a damaged old row
        "a row of the file is damaged ({error}): run check(repair=True), or restore a backup"),
    (apsw.ConstraintError, apsw.SQLITE_CONSTRAINT_COMMITHOOK, NearDupError,
        "a commit hook of the connection has refused the commit ({error}), and the whole transaction was rolled back: make "
        "the hook accept it, and begin again"),
    (apsw.FullError, None, DiskFullError,
        "the disk is full ({error}): the transaction was rolled back; make room, then go on with the same object"),
    (apsw.CantOpenError, None, NearDupError,
        "SQLite cannot open a file that it needs ({error}): check the permissions of the folder, and the number of open files"),
    (apsw.IOError, None, NearDupError,
        "the disk or file system failed ({error}): the transaction was rolled back; if it fails again, check the disk"),
    (apsw.NotADBError, None, FormatError, "{error}"),
    (apsw.ConnectionClosedError, None, ClosedError, "{error}"),
    (apsw.ThreadingViolationError, None, NearDupError, "{error}"),
    (apsw.Error, None, NearDupError, "SQLite: {kind}: {error}"),
)
"""SQLite's errors, the extended result that each must have (None: any), and our error with its message; the first counts."""


class CommitInCallError(apsw.ConstraintError):
    def __init__(self) -> None:
        super().__init__(
            "neardup: a call of an index is in the middle of its work, and the transaction is rolled back: commit after the call"
        )


def translate(error: apsw.Error, name: str = "") -> NearDupError:
    """This package's error for an SQLite error; name: the file, which the message begins with."""
    converted = _converted(error)
    if name and checksums.is_checksum_error(error):
        return _damaged(name)
    if name:
        converted.args = (f"{name}: {converted.args[0]}",)
    return converted


def _damaged(path: str) -> NearDupError:
    """The error for a wrong page checksum, with all damaged pages: reads the whole file."""
    try:
        pages = checksums.damaged_pages(path)
    except apsw.Error as error:
        return translate(error)
    shown = ", ".join(map(str, pages[:10])) + (", ..." if len(pages) > 10 else "")
    return CorruptIndexError(f"{path}: page {shown} of the file is damaged (its checksum is wrong): restore a backup")


def system_error(error: OSError, path: str, what: str) -> NearDupError:
    """This package's error for a system error; what: the failed action, such as "created"."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFullError(f"{path!r} cannot be {what} ({error.strerror}): make room on the disk, then call again")
    return ParameterError(f"{path!r} cannot be {what} ({error.strerror}): check the path and its permissions")


def _converted(error: apsw.Error) -> NearDupError:
    if isinstance(error, CommitInCallError):
        return lost_transaction()
    if isinstance(error, apsw.BusyError) and str(error).endswith("SQL statements in progress"):
        return BusyError(
            f"a statement on this connection that writes is not at its end ({error}), and nothing was done: use the index before "
            "or after it; a function that the statement calls may query the index, inside a transaction, and not write to it"
        )
    result = getattr(error, "extendedresult", 0)
    _, _, converted, message = next(row for row in _ERRORS if isinstance(error, row[0]) and row[1] in (None, result))
    return converted(message.format(error=error, kind=type(error).__name__))


def damaged(what: str, index: str, reason: object) -> CorruptIndexError:
    return CorruptIndexError(
        f"{what} of index {index!r} is missing or damaged, {reason}: run check(repair=True), or restore a backup"
    )


def unknown_outcome(error: apsw.Error, name: str) -> NearDupError:
    return NearDupError(
        f"{name}{': ' if name else ''}a commit failed with an I/O error ({error}), and only the file knows whether it happened: "
        "close the index (and a connection of your own), open it again, and check whether the last write is there"
    )


def lost_transaction() -> NearDupError:
    return NearDupError(
        "the transaction was rolled back by an error inside it, or ended by SQL on the connection: leave it, nothing that was "
        "rolled back is stored, and begin again; SQL of your own may end a transaction between two calls, and not in the middle "
        "of one (in its progress=, on_outcome= or records, or in another thread)"
    )


class _Translated:
    def __init__(self, name: str = "") -> None:
        self._name = name

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, apsw.Error):
            raise translate(error, self._name) from error


@lru_cache(64)
def translated(name: str = "") -> _Translated:
    """A context that converts SQLite errors; name: the file's name."""
    return _Translated(name)
