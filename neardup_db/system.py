"""What Linux, macOS and Windows do not do alike: no other module asks which it is, or for a call that one of them lacks."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
from collections.abc import Callable

IS_WINDOWS = os.name == "nt"

REMOVES_OPEN_FILES = not IS_WINDOWS
"""Whether a file that a process has open, or has loaded, can be removed and gets another name."""

SELECTS_ALL = not IS_WINDOWS
"""Whether `select` waits for every descriptor, and not for sockets only."""

EXTENSION_SUFFIX = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")
"""With which the name of a library ends that SQLite loads."""

LONGEST_NAME = 255
"""Of a file, where the folder does not say: in bytes, or in units of UTF-16 on Windows."""

_LONGEST_PLAIN_PATH = 220
"""Characters of a path on Windows that every program takes: 260 less what SQLite, or a temporary name, adds."""


def require_python_lock() -> None:
    """Raises ImportError on a free-threaded Python that was started with the order to do without its lock. Any other turns it on
    with the first module that needs it, ours among them; without it, one thread could close a connection that another uses."""
    if hasattr(sys, "_is_gil_enabled") and not sys._is_gil_enabled():
        raise ImportError(
            "neardup_db and apsw need Python's lock (the GIL), and this free-threaded Python was started with PYTHON_GIL=0 or "
            "-X gil=0: start it without, and it turns the lock on by itself when they are imported"
        )


def refuse_sources(package: str) -> None:
    """Raises ImportError if the package's folder is that of a checkout, whose modules in C are not compiled. `python` and
    `python -m` find that folder first when they run at the top of a checkout."""
    if os.path.exists(os.path.join(os.path.dirname(os.path.abspath(package)), "meson.build")):
        alone = "-P" if sys.version_info >= (3, 11) else "-I"
        raise ImportError(
            f"{package} holds source code that is not compiled: run Python from another folder, or as python {alone}, to import "
            "the installed package; to edit the sources, install them with: pip install --no-build-isolation --no-deps -e . "
            "(CONTRIBUTING.md)"
        ) from None


def length_of_name(folder: str, name: str) -> tuple[int, int]:
    """The length of a file's name as the system counts it, and the longest that the folder may have."""
    if not hasattr(os, "pathconf"):
        return len(name.encode("utf-16-le", "surrogatepass")) // 2, LONGEST_NAME
    return len(os.fsencode(name)), os.pathconf(folder, "PC_NAME_MAX") if os.path.isdir(folder) else LONGEST_NAME


def real_path(path: str | os.PathLike[str]) -> str:
    """The absolute path of a file without symbolic links. Of some disks Windows does not tell what a name stands for: then the
    name is taken for no link."""
    try:
        return os.path.realpath(path)
    except OSError:
        return os.path.abspath(path)


def reachable(path: str) -> str:
    r"""An absolute path as every call of the system takes it: on Windows a long one begins with \\?\."""
    if not IS_WINDOWS or len(path) <= _LONGEST_PLAIN_PATH or path.startswith("\\\\?\\"):
        return path
    return "\\\\?\\UNC" + path[1:] if path.startswith("\\\\") else "\\\\?\\" + path


def has_temporary_folder() -> bool:
    """Whether SQLite finds a folder for temporary files; Windows always names one."""
    folders = (os.environ.get("SQLITE_TMPDIR"), os.environ.get("TMPDIR"), "/var/tmp", "/usr/tmp", "/tmp", ".")  # as SQLite seeks
    return IS_WINDOWS or any(folder and os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK) for folder in folders)


def give_name(path: str, name: str) -> None:
    """Give a file, which may keep its own name too, another one that is free. Raises FileExistsError where it is taken."""
    if IS_WINDOWS:
        os.rename(path, name)  # refuses a name that is taken, as no other system does
    else:
        os.link(path, name)


def take_owner(status: os.stat_result, path: str | os.PathLike[str]) -> None:
    """Give a file owner and group of another, as far as the system allows it."""
    if hasattr(os, "chown"):
        for owner, group in ((-1, status.st_gid), (status.st_uid, -1)):
            with contextlib.suppress(OSError):
                os.chown(path, owner, group)


def take_mode(status: os.stat_result, path: str | os.PathLike[str]) -> None:
    """Give a file the mode of another. On Windows a mode says whether a file may be written, and one that may not can neither be
    replaced nor removed."""
    if not IS_WINDOWS:
        os.chmod(path, stat.S_IMODE(status.st_mode))


def copy_range(source: int, target: int, size: int, start: int) -> int:
    """Have the system copy bytes between the files of two descriptors. Returns how many it copied; OSError where it cannot."""
    if not hasattr(os, "copy_file_range"):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    return os.copy_file_range(source, target, size, start)


def in_children(call: Callable[[], None]) -> None:
    """Have each process that is forked from this one make a call; where none is forked, do nothing."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=call)


def is_reader_gone(error: OSError) -> bool:
    """Whether a pipe could not be written because nobody reads it any more. On Windows that is "invalid argument", as is a file's
    name that cannot be, which such an error names."""
    return isinstance(error, BrokenPipeError) or (IS_WINDOWS and error.errno == errno.EINVAL and error.filename is None)
