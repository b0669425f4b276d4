"""Files that commands read and write: packed or not, bounded lines, and outputs that appear whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import gzip
import io
import os
import shutil
import stat
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import IO, Any, BinaryIO, cast

from .. import limits
from ..errors import NearDupError, ParameterError
from .output import add_afterword

PACKED_SUFFIXES = {".gz": "gzip", ".zst": "zstd"}
"""Packings by the end of a file's name."""

STDIN = STDOUT = Path("-")
"""How the command line names standard input and standard output."""

_BUFFER_BYTES = 1 << 18

_NOT_COPIED = {errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM, errno.EBADF, errno.ETXTBSY}
"""Errors of copying by the system of which reading and writing may know nothing: of two file systems, of pipes."""

_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}


class InputError(ParameterError):
    """An input file cannot be read; the message names the file and, where there is one, the line."""


def packing_of(path: Path) -> str | None:
    """'gzip', 'zstd' or None, by the end of the name."""
    return PACKED_SUFFIXES.get(path.suffix.lower())


def packing_by_content(path: Path) -> str | None:
    """'gzip', 'zstd' or None, by the first bytes."""
    with open(path, "rb") as file:
        head = file.read(4)
    return next((packing for magic, packing in _MAGIC.items() if head.startswith(magic)), None)


def _zstandard(path: Path) -> ModuleType:
    try:
        import zstandard
    except ImportError as error:
        raise InputError(
            f"{path}: .zst files need the package zstandard; install it with: pip install 'neardup-db[zstd]'"
        ) from error
    return zstandard


class InputFile:
    """A file opened for reading, unpacked on the way.

    `path` is its path, `name` its name in messages, `size_bytes` its size on disk, `state` its size and time of change when it
    was opened, and `position` how much of it on disk has been read.
    """

    def __init__(self, path: Path, name: str | None = None, packing: str | None = None) -> None:
        self.path = path
        self.name = name or str(path)
        self._raw: BinaryIO = open(path, "rb", buffering=_BUFFER_BYTES)  # noqa: SIM115 (closed by __exit__)
        self.state = state_of(os.fstat(self._raw.fileno()))
        self.size_bytes = self.state[0]
        self._stream: Any = self._raw
        self._read_bytes = 0
        packing = packing or packing_of(path)
        try:
            if packing == "gzip":
                packed = gzip.GzipFile(fileobj=self._raw, mode="rb")
                self._stream = io.BufferedReader(cast(io.RawIOBase, packed), _BUFFER_BYTES)
            elif packing == "zstd":
                reader = _zstandard(path).ZstdDecompressor().stream_reader(self._raw, read_across_frames=True)
                self._stream = io.BufferedReader(reader, _BUFFER_BYTES)
        except BaseException:
            self._raw.close()
            raise
        self._readline: Callable[[int], bytes] = self._stream.readline

    @property
    def position(self) -> int:
        """Bytes of the file on disk that were read so far."""
        return 0 if self._raw.closed else self._raw.tell()

    def readline(self, limit: int) -> bytes:
        """The next line with its end, at most `limit` bytes of it; b"" at the end of the file."""
        try:
            return self._readline(limit)
        except Exception as error:
            self._raise_damage(error)
            raise

    def read(self, size: int) -> bytes:
        """At most `size` bytes; b"" at the end of the file."""
        try:
            data = cast(bytes, self._stream.read(size))
        except Exception as error:
            self._raise_damage(error)
            raise
        self._read_bytes += len(data)
        return data

    def read_at(self, start: int, size: int) -> bytes:
        """At most `size` bytes from `start` on, which is not before the end of the last read: what is packed is only read
        onwards."""
        if self._stream is self._raw:
            self._raw.seek(start)
        else:
            while self._read_bytes < start and self.read(min(start - self._read_bytes, _BUFFER_BYTES)):
                pass
        return self.read(size)

    def copy_to(self, output: IO[bytes], start: int, end: int) -> int:
        """Has the system copy bytes from `start` to `end` to the end of another file. Returns how many it copied: none where a
        file is packed or no file of the system's, and fewer where the file is shorter."""
        if self._stream is not self._raw or not hasattr(os, "copy_file_range") or not isinstance(output, io.BufferedWriter):
            return 0
        copied = 0
        output.flush()
        try:
            while more := min(end - start - copied, limits.COPIED_BYTES):
                done = os.copy_file_range(self._raw.fileno(), output.fileno(), more, start + copied)
                if not done:
                    break
                copied += done
        except OSError as error:
            if error.errno not in _NOT_COPIED:
                raise
        self._raw.seek(start + copied)
        return copied

    def _raise_damage(self, error: Exception) -> None:
        """An InputError where the error says that the packing is damaged."""
        if isinstance(error, gzip.BadGzipFile):
            raise InputError(f"{self.name}: no gzip data ({error}); unpack it or give it the right name") from error
        if isinstance(error, (EOFError, zlib.error)):
            raise InputError(f"{self.name}: the packed data is damaged or ends early ({error}); copy the file again") from error
        if type(error).__module__.partition(".")[0] in ("zstandard", "zstd"):
            raise InputError(f"{self.name}: no zstd data, or damaged ({error}); unpack it or copy the file again") from error

    def close(self) -> None:
        """Closes the file."""
        self._stream.close()
        self._raw.close()

    def __enter__(self) -> InputFile:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def state_of(status: os.stat_result) -> tuple[int, int]:
    """What changes when somebody writes to a file: its size and its time of change."""
    return status.st_size, status.st_mtime_ns


@contextlib.contextmanager
def open_output(path: Path, packing: str | None) -> Iterator[IO[bytes]]:
    """A new file for writing bytes, packed as `packing` says; - is standard output. The same bytes always give the same file."""
    if path == STDOUT:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with cast(IO[bytes], _opened(path, packing)) as file:
        yield file


def _opened(path: Path, packing: str | None) -> Any:
    if packing == "gzip":
        return _GzipOutput(path)
    return _zstandard(path).open(path, "wb") if packing == "zstd" else open(path, "wb")


class _GzipOutput(gzip.GzipFile):
    """A gzip file without name and time in its head."""

    def __init__(self, path: Path) -> None:
        self._file = open(path, "wb")  # noqa: SIM115 (closed by close)
        super().__init__(filename="", mode="wb", fileobj=self._file, compresslevel=6, mtime=0)

    def close(self) -> None:
        super().close()
        self._file.close()


def check_output(path: Path, force: bool, inputs: Iterable[Path] = ()) -> None:
    """Refuses an output that is one of the inputs, that exists (unless `force`) or whose folder does not. A stream is written to,
    not replaced, so it needs no `force`."""
    if path.exists():
        check_apart(path, inputs)
        if is_stream(path):
            return
        if not (path.is_dir() or path.is_file()):
            raise ParameterError(f"{path} is neither a file nor a folder: name another output")
        if not force:
            raise ParameterError(f"{path} exists already: name another output, or add --force to replace it")
    if not path.absolute().parent.is_dir():
        raise ParameterError(f"{path}: the folder {path.absolute().parent} does not exist; create it first")


def check_apart(path: Path, inputs: Iterable[Path]) -> None:
    """Refuses an output that is one of the inputs, or a folder that holds one."""
    if not path.exists():
        return
    status, folder = path.stat(), path.resolve() if path.is_dir() else None
    for other in filter(Path.exists, inputs):
        if os.path.samestat(status, other.stat()):
            raise ParameterError(f"{path} is the input{'' if other == path else f' {other}'}: name another output")
        if folder is not None and folder in other.resolve().parents:
            raise ParameterError(f"{path} holds the input {other}: name another output")


def check_kind(path: Path, folder: bool) -> None:
    """Refuses an existing file if the output is a folder, and an existing folder if it is a file."""
    if path.exists() and path.is_dir() != folder:
        raise ParameterError(f"{path} is not a folder: name a folder" if folder else f"{path} is a folder: name a file in it")


def is_stream(path: Path) -> bool:
    """Whether a path leads to a character device or a pipe: those are written to, not replaced, and cannot be read twice."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return stat.S_ISCHR(mode) or stat.S_ISFIFO(mode)


@contextlib.contextmanager
def replacing(*paths: Path) -> Iterator[list[Path]]:
    """A temporary path beside each path. If the block succeeds they replace the paths, one after another; if it fails they are
    removed. An error while they replace names the path, and those that are replaced already.

    The block creates a file or a folder at each. A new file gets the mode and, where the system allows it, the owner of the old
    one. Behind a symbolic link the target is replaced. A stream or standard output is not replaced: its path is given as it is.
    """
    outputs = [None if path == STDOUT or is_stream(path) else _Output(path) for path in paths]
    made = [output for output in outputs if output is not None]
    replaced: list[Path] = []
    with contextlib.ExitStack() as stack:
        for output in made:
            stack.enter_context(output)
        yield [path if output is None else output.new for path, output in zip(paths, outputs, strict=True)]
        for output in made:
            with _named(output.path):
                output.prepare()
        try:
            for output in made:
                with _named(output.path):
                    output.put()
                replaced.append(output.path)
        except BaseException as error:
            if replaced:
                are = "is" if len(replaced) == 1 else "are"
                add_afterword(error, f"{' and '.join(map(str, replaced))} {are} in place already")
            raise


class _Output:
    """A file or folder that is made in a folder of its own beside the path, which exists inside `with`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._target = Path(os.path.realpath(path)) if path.is_symlink() else path

    def __enter__(self) -> None:
        self._scratch = Path(tempfile.mkdtemp(prefix=".neardup-", dir=self._target.absolute().parent))
        self._old = self._scratch / "replaced"
        self.new = self._scratch / f"new-{self._target.name}"

    def prepare(self) -> None:
        """Does all that may fail before the path is replaced."""
        if self._target.exists():
            _take_mode(self._target, self.new)

    def put(self) -> None:
        """Replaces the path."""
        if self._target.is_dir():
            os.rename(self._target, self._old)
        os.replace(self.new, self._target)

    def __exit__(self, *error: object) -> None:
        if self._old.exists() and not self._target.exists():  # ended between the two steps
            os.rename(self._old, self._target)
        shutil.rmtree(self._scratch, ignore_errors=True)


@contextlib.contextmanager
def _named(path: Path) -> Iterator[None]:
    """Errors of the system name the output instead of a temporary path."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, f"cannot be put in place ({error.strerror})", str(path)) from error


def _take_mode(old: Path, new: Path) -> None:
    """Owner, group and mode of a file for another, as far as the system allows it."""
    before = old.stat()
    if hasattr(os, "chown"):
        for owner, group in ((-1, before.st_gid), (before.st_uid, -1)):
            with contextlib.suppress(OSError):
                os.chown(new, owner, group)
    new.chmod(stat.S_IMODE(before.st_mode))


def write_text(path: Path, text: str) -> None:
    """Writes a text as a file, whole or not at all; - is standard output."""
    if path == STDOUT:
        sys.stdout.write(text)
        return
    with replacing(path) as (new,), room_in(path.absolute().parent, ANOTHER_OUTPUT):
        new.write_text(text, encoding="utf-8")


ANOTHER_OUTPUT = "name an output on another one"
"""The remedy of `room_in` for outputs."""


@contextlib.contextmanager
def room_in(place: Path | str, remedy: str, errors: tuple[type[Exception], ...] = (OSError,)) -> Iterator[None]:
    """Errors of a full disk name the folder, or what else is written to, and the remedy."""
    try:
        yield
    except errors as error:
        if isinstance(error, OSError):
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            if error.filename is not None:
                place = Path(os.fsdecode(error.filename)).absolute().parent
        raise NearDupError(f"{place}: no room is left: make room on its disk, or {remedy}") from error


def spool(source: Path, folder: Path) -> Path:
    """Copies standard input (-) or another stream to a file in `folder`: commands read an input twice or look at its packing."""
    path = folder / "input"
    with contextlib.ExitStack() as stack:
        stream = sys.stdin.buffer if source == STDIN else stack.enter_context(open(source, "rb"))
        shutil.copyfileobj(stream, stack.enter_context(open(path, "wb")), 1 << 20)
    return path
