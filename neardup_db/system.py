"""Differences between Linux, macOS and Windows. Only this module tests for the system or for a call that one of them lacks."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
from collections.abc import Callable

IS_WINDOWS = os.name == "nt"

REMOVES_OPEN_FILES = not IS_WINDOWS  # whether an open or loaded file can be removed and renamed

EXTENSION_SUFFIX = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")
"""The file suffix of a library that SQLite loads."""

LONGEST_NAME = 255  # the longest file name if the folder does not tell: in bytes, or in UTF-16 units on Windows
_LONGEST_PLAIN_PATH = 220  # every Windows program accepts 260 with the suffixes of SQLite and of temporary names


def require_python_lock() -> None:
    """Raise ImportError on a free-threaded Python told to run without the GIL, which importing this package otherwise enables.
    Without it, one thread could close a connection that another uses."""
    if hasattr(sys, "_is_gil_enabled") and not sys._is_gil_enabled():
        raise ImportError(
            "neardup_db and apsw need Python's lock (the GIL), and this free-threaded Python was started with PYTHON_GIL=0 or "
            "-X gil=0: start it without, and it turns the lock on by itself when they are imported"
        )


def refuse_sources(package: str) -> None:
    """Raise ImportError if the package is imported from a checkout, whose C modules are not compiled: `python` finds that folder
    first at the top of a checkout."""
    if os.path.exists(os.path.join(os.path.dirname(os.path.abspath(package)), "meson.build")):
        alone = "-P" if sys.version_info >= (3, 11) else "-I"
        raise ImportError(
            f"{package} holds source code that is not compiled: run Python from another folder, or as python {alone}, to import "
            "the installed package; to edit the sources, install them with: pip install --no-build-isolation --no-deps -e . "
            "(CONTRIBUTING.md)"
        ) from None


def length_of_name(folder: str, name: str) -> tuple[int, int]:
    """(length, longest) of a file name in a folder, in the system's units."""
    if not hasattr(os, "pathconf"):
        return len(name.encode("utf-16-le", "surrogatepass")) // 2, LONGEST_NAME
    return len(os.fsencode(name)), os.pathconf(folder, "PC_NAME_MAX") if os.path.isdir(folder) else LONGEST_NAME


def real_path(path: str | os.PathLike[str]) -> str:
    """The absolute path of a file without symbolic links, except links on disks where Windows cannot resolve them."""
    try:
        return os.path.realpath(path)
    except OSError:
        return os.path.abspath(path)


def reachable(path: str) -> str:
    r"""An absolute path that every system call accepts. On Windows a long one begins with \\?\."""
    if not IS_WINDOWS or len(path) <= _LONGEST_PLAIN_PATH or path.startswith("\\\\?\\"):
        return path
    return "\\\\?\\UNC" + path[1:] if path.startswith("\\\\") else "\\\\?\\" + path


def has_temporary_folder() -> bool:
    """Whether SQLite finds a folder for temporary files, as it always does on Windows."""
    folders = (os.environ.get("SQLITE_TMPDIR"), os.environ.get("TMPDIR"), "/var/tmp", "/usr/tmp", "/tmp", ".")  # as SQLite seeks
    return IS_WINDOWS or any(folder and os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK) for folder in folders)


def give_name(path: str, name: str) -> None:
    """Link or rename a file to an unused name. Raises FileExistsError if the name is taken."""
    if IS_WINDOWS:
        os.rename(path, name)  # refuses a name that is taken, as no other system does
    else:
        os.link(path, name)


def take_owner(status: os.stat_result, path: str | os.PathLike[str]) -> None:
    """Give a file the owner and group of another, as far as permitted."""
    if hasattr(os, "chown"):
        for owner, group in ((-1, status.st_gid), (status.st_uid, -1)):
            with contextlib.suppress(OSError):
                os.chown(path, owner, group)


def take_mode(status: os.stat_result, path: str | os.PathLike[str]) -> None:
    """Give a file the mode of another, except on Windows, where a read-only file can be neither replaced nor removed."""
    if not IS_WINDOWS:
        os.chmod(path, stat.S_IMODE(status.st_mode))


def in_children(call: Callable[[], None]) -> None:
    """Call a function in each forked child. Does nothing on systems without fork."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=call)


def is_reader_gone(error: OSError) -> bool:
    """Whether a write failed because the pipe has no reader. Windows reports "invalid argument", which it also reports for an
    invalid file name, but then the error has that name."""
    return isinstance(error, BrokenPipeError) or (IS_WINDOWS and error.errno == errno.EINVAL and error.filename is None)
