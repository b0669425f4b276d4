"""A consistent copy of the whole database, made while others may write."""

from __future__ import annotations

from pathlib import Path

import apsw

from ..errors import ParameterError
from . import checksums
from .connection import Database
from .opening import make_file


def back_up(db: Database, path: str) -> None:
    """Copy to a new file, which is complete or not there. The caller holds the lock, outside of a transaction."""
    if not make_file(path):
        raise ParameterError(f"{path!r} exists: give the path of a new file")
    try:
        vfs = checksums.vfs() if checksums.has(db.connection) else None
        copy = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE, vfs=vfs)
        try:
            backup = copy.backup("main", db.connection, "main")
            try:
                backup.step()
            finally:
                backup.finish()
        finally:
            copy.close()
    except BaseException:
        for suffix in ("", "-journal"):
            Path(path + suffix).unlink(missing_ok=True)
        raise
