"""Input files, compressed or not; streams are copied to a file first."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import shutil
import stat
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO, NamedTuple, cast

from ...errors import ParameterError

PACKED_SUFFIXES = {".gz": "gzip", ".zst": "zstd"}

STDIN = STDOUT = Path("-")  # the command-line name of standard input and standard output

_BUFFER_BYTES = 1 << 18

_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}  # compression by magic bytes, which are not valid UTF-8
_OTHER_MAGIC = {b"BZh": "bzip2", b"\xfd7zXZ\0": "xz"}  # unsupported compression formats

_ZSTD_BYTES = 512
"""Compressed bytes read at a time; 4 of them may expand to 128 KB, so all of them to 16 MB, held twice while they are joined."""

_ZSTD_WINDOW_BYTES = 1 << 27  # the window limit that zstd applies by default
_HEAD_BYTES = 64  # the number of leading bytes that identify the file type


class FileError(ParameterError):
    """A file cannot be read, or not be written there. The message names the file and, if possible, the line."""


class NamedFile(NamedTuple):
    """An input file. name: for messages; below: the path relative to the given folder, or the file name; given: the path as on
    the command line; key: its name in keys of records without an id."""

    path: Path
    name: str
    below: Path
    given: Path
    key: str = ""


class Inputs(NamedTuple):
    name: str
    format: str
    files: list[NamedFile]


def packing_of(path: Path) -> str | None:
    """'gzip', 'zstd' or None, from the file suffix."""
    return PACKED_SUFFIXES.get(path.suffix.lower())


def packing_of_head(head: bytes, name: str) -> str | None:
    for magic, packing in _OTHER_MAGIC.items():
        if head.startswith(magic) and (packing != "bzip2" or head[4:10] == b"1AY&SY"):
            raise FileError(f"{name}: this is {packing} data, which is not supported: unpack it, or pack it with gzip or zstd")
    return next((packing for magic, packing in _MAGIC.items() if head.startswith(magic)), None)


def zstandard_for(path: Path) -> ModuleType:
    try:
        import zstandard
    except ImportError as error:
        raise FileError(
            f"{path}: .zst files need the package zstandard; install it with: pip install 'neardup-db[zstd]'"
        ) from error
    return zstandard


class _ZstdReader(io.RawIOBase):
    """Unlike the zstandard package's reader, it rejects a file that ends within a frame, and a window above the limit of zstd
    without --long (the writer may choose 2 GB)."""

    def __init__(self, packed: BinaryIO, zstandard: ModuleType, name: str) -> None:
        self._packed, self._zstandard, self._name = packed, zstandard, name
        self._frame: Any = None
        self._input = b""
        self._output = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._output:
            self._input = self._input or self._packed.read(_ZSTD_BYTES)
            if not self._input:
                if self._frame is not None:
                    raise FileError(f"{self._name}: the packed data ends early: copy the file again")
                return 0
            self._unpack()
        size = min(len(buffer), len(self._output))
        buffer[:size], self._output = self._output[:size], self._output[size:]
        return size

    def _unpack(self) -> None:
        if self._frame is None:
            self._input += self._packed.read(max(0, _HEAD_BYTES - len(self._input)))
            if self._zstandard.get_frame_parameters(self._input).window_size > _ZSTD_WINDOW_BYTES:
                why = "it was packed with a window of more than 128 MB (zstd --long)"
                raise FileError(f"{self._name}: {why}: pack it without --long, or unpack it")
            self._frame = self._zstandard.ZstdDecompressor().decompressobj()
        self._output = memoryview(self._frame.decompress(self._input))
        self._input = self._frame.unused_data
        if self._frame.eof:
            self._frame = None


class InputFile(contextlib.AbstractContextManager["InputFile"]):
    """An open file, decompressed while it is read. `state`: its size on disk and modification time when opened; `position`: the
    bytes read on disk."""

    def __init__(self, path: Path, name: str | None = None) -> None:
        self.path = path
        self.name = name or str(path)
        self._raw: BinaryIO = open(path, "rb", buffering=_BUFFER_BYTES)  # noqa: SIM115 (closed by __exit__)
        self.state = state_of(os.fstat(self._raw.fileno()))
        self._stream: Any = self._raw
        self._read_bytes = 0
        try:
            packing = packing_of(path) or packing_of_head(self._raw.peek(_HEAD_BYTES), self.name)  # type: ignore[attr-defined]
            if packing == "gzip":
                packed = gzip.GzipFile(fileobj=self._raw, mode="rb")
                self._stream = io.BufferedReader(cast(io.RawIOBase, packed), _BUFFER_BYTES)
            elif packing == "zstd":
                self._stream = io.BufferedReader(_ZstdReader(self._raw, zstandard_for(path), self.name), _BUFFER_BYTES)
        except BaseException as error:
            self._raw.close()
            self._raise_damage(error)
            raise
        self._readline: Callable[[int], bytes] = self._stream.readline

    @property
    def position(self) -> int:
        return 0 if self._raw.closed else self._raw.tell()

    def head(self, most: int) -> bytes:
        return self._checked(self._stream.peek, most)[:most]

    def readline(self, limit: int) -> bytes:
        """The next line with its line end, at most `limit` bytes; b"" at the end of the file."""
        try:  # the call of _checked would cost more than that of readline
            return self._readline(limit)
        except Exception as error:
            self._raise_damage(error)
            raise

    def read(self, size: int) -> bytes:
        data = self._checked(self._stream.read, size)
        self._read_bytes += len(data)
        return data

    def _checked(self, read: Callable[[int], bytes], size: int) -> bytes:
        try:
            return read(size)
        except Exception as error:
            self._raise_damage(error)
            raise

    def read_from(self, start: int, size: int) -> bytes:
        """At most `size` bytes from `start`, which must not be before the end of the last read, because compressed data is read
        forward only."""
        if self._stream is self._raw:
            self._raw.seek(start)
        else:
            while self._read_bytes < start and self.read(min(start - self._read_bytes, _BUFFER_BYTES)):
                pass
        return self.read(size)

    def _raise_damage(self, error: BaseException) -> None:
        if type(error) is OSError and error.filename is None and error.errno is not None:
            raise OSError(error.errno, error.strerror, self.name) from error
        if isinstance(error, gzip.BadGzipFile):
            raise FileError(f"{self.name}: not gzip data ({error}); unpack it or give it the right name") from error
        if isinstance(error, (EOFError, zlib.error)):
            raise FileError(f"{self.name}: the packed data is damaged or ends early ({error}); copy the file again") from error
        if type(error).__module__.partition(".")[0] in ("zstandard", "zstd"):
            raise FileError(f"{self.name}: not zstd data, or damaged ({error}); unpack it or copy the file again") from error

    def __exit__(self, *error: object) -> None:
        self._stream.close()
        self._raw.close()


def state_of(status: os.stat_result) -> tuple[int, int]:
    return status.st_size, status.st_mtime_ns


def is_stream(path: Path) -> bool:
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return stat.S_ISCHR(mode) or stat.S_ISFIFO(mode)


def spool(source: Path, path: Path) -> Path:
    """Commands read an input twice, or detect its compression."""
    with contextlib.ExitStack() as stack:
        stream = sys.stdin.buffer if source == STDIN else stack.enter_context(open(source, "rb"))
        shutil.copyfileobj(stream, stack.enter_context(open(path, "wb")), 1 << 20)
    return path
