"""Atomic file creation."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ... import system
from ...errors import NearDupError, ParameterError
from .errors import system_error

MODE = 0o644  # permissions of a new file before the umask, as SQLite sets them


def is_empty(path: str) -> bool:
    try:
        return os.stat(path).st_size == 0
    except FileNotFoundError:
        return True


@contextmanager
def new_file(path: str, mode: int) -> Iterator[str]:
    """Yield the path of an empty file in the same folder, which is renamed to `path` at the end. So no file at `path` is
    incomplete or overwritten. Raises FileExistsError."""
    temporary_path = os.path.join(os.path.dirname(path), f".neardup-{os.urandom(8).hex()}")
    try:
        _create_file(temporary_path, mode)
        yield temporary_path
        try:
            system.give_name(temporary_path, path)
        except FileExistsError:
            raise
        except OSError:  # the file system has no links or no space
            _create_file(path, mode)
            os.replace(temporary_path, path)
    finally:
        try:
            _remove(temporary_path)
        except BaseException:  # interrupted
            _remove(temporary_path)
            raise


@contextmanager
def result_file(path: str, mode: int = MODE) -> Iterator[str]:
    """`new_file` for a caller of this package, with its errors."""
    try:
        if os.path.lexists(path):
            raise FileExistsError
        with new_file(path, mode) as temporary_path:
            yield temporary_path
    except NearDupError:  # some are OSErrors, too
        raise
    except FileExistsError as error:
        raise ParameterError(f"{path!r} exists: give the path of a new file") from error
    except OSError as error:
        raise system_error(error, path, "created") from error


def _remove(temporary_path: str) -> None:
    for suffix in ("", "-wal", "-shm", "-journal"):
        with suppress(FileNotFoundError if system.REMOVES_OPEN_FILES else OSError):  # open files stay
            os.unlink(temporary_path + suffix)


def _create_file(path: str, mode: int) -> None:
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode))
