"""Consistent copies of the database while others may write."""

from __future__ import annotations

import os
import stat

import apsw

from ...errors import NearDupError, ParameterError
from ...parameters import check_path
from ..database import checksums
from ..database.connection import Database
from ..database.errors import system_error, translate, translated
from ..database.files import MODE, new_file
from ..database.standard import StandardConnection


def write_backup(db: Database, argument: str | bytes | os.PathLike[str]) -> None:
    """Copy the database to a new file atomically, with the permissions of the original from the start. The caller holds the
    lock, outside of a transaction."""
    path = check_path(argument)
    original = db.connection.filename
    try:
        if os.path.lexists(path):
            raise FileExistsError
        mode = stat.S_IMODE(os.stat(original).st_mode) if original else MODE
        new_mode = mode | stat.S_IRUSR | stat.S_IWUSR  # even if the original is read-only
        with new_file(path, new_mode) as temporary_path, translated(path):
            if original:
                os.chmod(temporary_path, new_mode)  # overrides the umask
            try:
                _copy(db.connection, temporary_path)
            except apsw.IOError as error:
                if checksums.is_checksum_error(error):  # a page of the original: report its path, not the copy's
                    raise translate(error, original) from error
                raise
        if mode != new_mode:
            os.chmod(path, mode)
    except NearDupError:  # some are OSErrors, too
        raise
    except FileExistsError as error:
        raise ParameterError(f"{path!r} exists: give the path of a new file") from error
    except OSError as error:
        raise system_error(error, path, "created") from error


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
