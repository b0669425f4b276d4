"""A consistent copy of the whole database, made while others may write."""

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


def write_backup(db: Database, given: str | bytes) -> None:
    """Copy to a new file, which is complete or not there, and which has the permissions of the original from its first byte on.
    The caller holds the lock, outside of a transaction."""
    path = check_path(given)
    original = db.connection.filename
    try:
        if os.path.lexists(path):
            raise FileExistsError
        mode = stat.S_IMODE(os.stat(original).st_mode) if original else MODE
        made = mode | stat.S_IRUSR | stat.S_IWUSR  # also where nobody may write the original
        with new_file(path, made) as beside, translated(path):
            if original:
                os.chmod(beside, made)  # the umask is for files that nobody has decided about
            try:
                _copy(db.connection, beside)
            except apsw.IOError as error:
                if checksums.is_checksum_error(error):  # a page of the original, which has another name than the copy
                    raise translate(error, original) from error
                raise
        if mode != made:
            os.chmod(path, mode)
    except NearDupError:  # some are an OSError too
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
