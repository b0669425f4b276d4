"""Consistent copies of the database while others may write."""

from __future__ import annotations

import os
import stat

import apsw

from ...parameters import check_path
from ..database import checksums
from ..database.connection import Database
from ..database.errors import translate, translated
from ..database.files import MODE, result_file
from ..database.standard import StandardConnection


def write_backup(db: Database, argument: str | bytes | os.PathLike[str]) -> None:
    """Copy the database to a new file atomically, with the permissions of the original from the start. The caller holds the
    lock, outside of a transaction."""
    path = check_path(argument)
    original = db.connection.filename
    with result_file(path, 0o600 if original else MODE) as temporary_path, translated(path):
        mode = stat.S_IMODE(os.stat(original or temporary_path).st_mode)
        os.chmod(temporary_path, mode | 0o600)  # the original may be read-only
        try:
            _copy(db.connection, temporary_path)
        except apsw.IOError as error:
            if checksums.is_checksum_error(error):  # a page of the original: report its path, not the copy's
                raise translate(error, original) from error
            raise
        os.chmod(temporary_path, mode)


def _copy(original: apsw.Connection | StandardConnection, path: str) -> None:
    if isinstance(original, StandardConnection):
        original.backup_to(path)
        return
    vfs = checksums.vfs() if checksums.has_checksums(original) else None
    copy = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE, vfs=vfs)
    try:
        backup = copy.backup("main", original, "main")
        try:
            backup.step()
        finally:
            backup.finish()
    finally:
        copy.close()
