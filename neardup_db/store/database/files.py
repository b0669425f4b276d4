"""Making a file whole: it is written under a random name and gets its own name at the end."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ... import system

MODE = 0o644
"""Permissions of a new file, less those that the umask takes: what SQLite gives."""


def is_empty(path: str) -> bool:
    """Whether the file is not there, or has no bytes."""
    try:
        return os.stat(path).st_size == 0
    except FileNotFoundError:
        return True


@contextmanager
def new_file(path: str, mode: int) -> Iterator[str]:
    """Yields the path of an empty file in the same folder, which gets the name `path` at the end: a file of that name is whole,
    and nothing is ever removed from there. Raises FileExistsError where there is something of that name."""
    beside = os.path.join(os.path.dirname(path), f".neardup-{os.urandom(8).hex()}")
    try:
        _create_file(beside, mode)
        yield beside
        try:
            system.give_name(beside, path)
        except FileExistsError:
            raise
        except OSError:  # the file system has no links, or has no room
            _create_file(path, mode)
            os.replace(beside, path)
    finally:
        try:
            _remove(beside)
        except BaseException:  # Ctrl-C just then
            _remove(beside)
            raise


def _remove(beside: str) -> None:
    for suffix in ("", "-wal", "-shm", "-journal"):
        with suppress(FileNotFoundError if system.REMOVES_OPEN_FILES else OSError):  # what is open stays
            os.unlink(beside + suffix)


def _create_file(path: str, mode: int) -> None:
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode))
