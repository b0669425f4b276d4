"""File systems that fail, stop or forget: SQLite's own, with a look at each call on its way.

A disk is used as the default of the process while a `with` block lasts; what it gets right it leaves to the real file system.
"""

from __future__ import annotations

import os
import random
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import apsw

REAL = apsw.vfs_names()[0]
"""SQLite's own way to files, on this system."""

SECTOR = 512
"""Bytes that reach a disk together, or not; a torn sector is its old bytes after its new ones."""


class Disk(apsw.VFS):
    """Passes every call on; `before` is told of it first, and may raise."""

    def __init__(self, name: str) -> None:
        super().__init__(name, REAL, makedefault=True)

    def __enter__(self) -> Any:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.unregister()
        apsw.set_default_vfs(REAL)

    def before(self, call: str, file: DiskFile | None, *arguments: Any) -> None:
        """A file is about to be opened (None), read, written, synced, truncated."""

    def opened(self, file: DiskFile) -> None:
        """A file has been opened."""

    def synced(self, file: DiskFile) -> None:
        """A file has been synced."""

    def xOpen(self, name: Any, flags: list[int]) -> DiskFile:  # noqa: N802
        self.before("open", None)
        file = DiskFile(self, name, flags)
        self.opened(file)
        return file


class DiskFile(apsw.VFSFile):
    """A file on a Disk."""

    def __init__(self, disk: Disk, name: Any, flags: list[int]) -> None:
        self.path = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        self.disk = disk
        super().__init__(REAL, name, flags)

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802
        self.disk.before("read", self)
        return super().xRead(amount, offset)

    def xWrite(self, data: Any, offset: int) -> None:  # noqa: N802
        self.disk.before("write", self, bytes(data), offset)
        super().xWrite(data, offset)

    def write_half(self, data: bytes, offset: int) -> None:
        """What a failing or interrupted write leaves."""
        super().xWrite(data[: len(data) // 2], offset)

    def xTruncate(self, size: int) -> None:  # noqa: N802
        self.disk.before("truncate", self, size)
        super().xTruncate(size)

    def xSync(self, flags: int) -> None:  # noqa: N802
        self.disk.before("sync", self)
        super().xSync(flags)
        self.disk.synced(self)


# ---- a disk that fails -------------------------------------------------------------------------------------------------

IO_ERROR = {
    "open": apsw.SQLITE_CANTOPEN,
    "read": apsw.SQLITE_IOERR_READ,
    "write": apsw.SQLITE_IOERR_WRITE,
    "sync": apsw.SQLITE_IOERR_FSYNC,
    "truncate": apsw.SQLITE_IOERR_TRUNCATE,
}
DISK_FULL = {"write": apsw.SQLITE_FULL}
"""What SQLite makes of the errors of a POSIX file system, by call; a sync for which there is no room is an I/O error."""


class FailingDisk(Disk):
    """Once armed, the n-th call that can fail fails, and all later ones if it is `lasting`; half of a failing write is done."""

    def __init__(self) -> None:
        super().__init__("failing")
        self.errors: dict[str, int] = {}
        self.countdown = 0
        self.lasting = False
        self.failed = 0
        self.calls: list[str] = []

    def arm(self, errors: dict[str, int], countdown: int, lasting: bool) -> None:
        """Fail from now on; `calls` lists the calls that could."""
        self.errors, self.countdown, self.lasting = errors, countdown, lasting
        self.failed, self.calls = 0, []

    def disarm(self) -> int:
        """Work again; how many calls have failed."""
        self.errors = {}
        return self.failed

    def before(self, call: str, file: DiskFile | None, *arguments: Any) -> None:
        """Count, and fail."""
        if call not in self.errors:
            return
        self.calls.append(call)
        if len(self.calls) == self.countdown or (self.lasting and len(self.calls) > self.countdown):
            self.failed += 1
            if call == "write" and file is not None:
                file.write_half(*arguments)
            raise apsw.exception_for(self.errors[call])


# ---- a disk that is looked at --------------------------------------------------------------------------------------------


class WatchedDisk(Disk):
    """Calls a function before every write, sync and truncation: the files are then as a kill at this moment leaves them."""

    def __init__(self, look: Callable[[], None]) -> None:
        super().__init__("watched")
        self.look = look

    def before(self, call: str, file: DiskFile | None, *arguments: Any) -> None:
        """Look."""
        if call not in ("open", "read"):
            self.look()


def copy_files(path: Path, folder: Path) -> Path:
    """A database file and its log, as they are, in another folder."""
    folder.mkdir()
    for suffix in ("", "-wal", "-journal"):
        part = Path(f"{path}{suffix}")
        if part.exists():
            shutil.copyfile(part, folder / part.name)
    return folder / path.name


# ---- a disk that forgets ---------------------------------------------------------------------------------------------------


class Inode:
    """Bytes that survive a power cut, and changes that may."""

    def __init__(self, content: bytes) -> None:
        self.durable = bytearray(content)
        self.pending: list[tuple[int, bytes | None]] = []
        """(offset, data) of a write, (size, None) of a truncation."""

    def sync(self) -> None:
        """All changes have reached the disk."""
        for change in self.pending:
            _apply(self.durable, *change)
        self.pending = []

    def after_power_cut(self, rng: random.Random) -> bytes:
        """What may be left: any of the changes, in any order of arrival, sectors torn."""
        left = bytearray(self.durable)
        share = rng.choice((0.0, 0.1, 0.5, 0.9, 1.0))
        until = rng.randint(0, len(self.pending)) if rng.random() < 0.5 else len(self.pending)
        for at, data in self.pending[:until]:
            if data is None:
                if rng.random() < share:
                    _apply(left, at, None)
                continue
            for start in range(0, len(data), SECTOR):
                if rng.random() < share:
                    part = data[start : start + SECTOR]
                    torn = share < 1 and rng.random() < 0.02
                    _apply(left, at + start, part[: len(part) // 2] if torn else part)
        return bytes(left)


def _apply(content: bytearray, at: int, data: bytes | None) -> None:
    if data is None:
        del content[at:]
    content.extend(bytes(max(0, at - len(content))))
    if data is not None:
        content[at : at + len(data)] = data


class ForgettingDisk(Disk):
    """Knows of every file what a power cut would leave: what was synced, and any part of what was not.

    A name is on the disk when its folder was synced: SQLite does that when it first syncs a journal or log that it created."""

    def __init__(self) -> None:
        super().__init__("forgetting")
        self.names: dict[str, Inode | None] = {}
        self.names_on_disk: dict[str, Inode | None] = {}
        self.look: Callable[[], None] = lambda: None
        self._looking = False
        self._lock = threading.RLock()
        """A power cut is one moment for all threads."""

    def opened(self, file: DiskFile) -> None:
        """Whatever a file that was not opened before holds is on the disk, but a new file's name is not."""
        with self._lock:
            self._opened(file)

    def _opened(self, file: DiskFile) -> None:
        if self.names.get(file.path) is None:
            content = Path(file.path).read_bytes()
            self.names[file.path] = Inode(content)
            if content:
                self.names_on_disk[file.path] = self.names[file.path]

    def xDelete(self, name: str, sync_folder: bool) -> None:  # noqa: N802
        super().xDelete(name, sync_folder)
        with self._lock:
            self.names[name] = None
            if sync_folder:
                self.names_on_disk = dict(self.names)

    def before(self, call: str, file: DiskFile | None, *arguments: Any) -> None:
        """Look, then note the change."""
        if file is None or call == "read":
            return
        with self._lock:
            if not self._looking:
                self._looking = True
                self.look()
                self._looking = False
            inode = self.names[file.path]
            assert inode is not None
            if call == "write":
                data, offset = arguments
                inode.pending.append((offset, data))
            elif call == "truncate":
                inode.pending.append((arguments[0], None))

    def synced(self, file: DiskFile) -> None:
        """The file has reached the disk, and with a log the names."""
        with self._lock:
            inode = self.names[file.path]
            assert inode is not None
            inode.sync()
            if not file.path.endswith(".db"):
                self.names_on_disk = dict(self.names)

    def cut_power(self, folder: Path, rng: random.Random) -> None:
        """Write what may be left into a folder."""
        folder.mkdir()
        for name, inode in self.names.items():
            left = rng.choice((inode, self.names_on_disk.get(name)))
            if left is not None:
                (folder / os.path.basename(name)).write_bytes(left.after_power_cut(rng))
