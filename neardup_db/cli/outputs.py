"""Output files, compressed or not, written atomically."""

from __future__ import annotations

import contextlib
import errno
import gzip
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, cast

from ..errors import NearDupError, ParameterError
from ..system import real_path, take_mode, take_owner
from .inputs.files import STDOUT, is_stream, zstandard_for
from .output import add_afterword, afterword, print_note


@contextlib.contextmanager
def open_output(path: Path, packing: str | None) -> Iterator[IO[bytes]]:
    """Equal content gives equal files."""
    if path == STDOUT:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with cast(IO[bytes], _open_packed(path, packing)) as file:
        yield file


def _open_packed(path: Path, packing: str | None) -> Any:
    if packing == "gzip":
        return _GzipOutput(path)
    return zstandard_for(path).open(path, "wb") if packing == "zstd" else open(path, "wb")


class _GzipOutput(gzip.GzipFile):
    def __init__(self, path: Path) -> None:
        self._file = open(path, "wb")  # noqa: SIM115 (closed by close)
        super().__init__(filename="", mode="wb", fileobj=self._file, compresslevel=6, mtime=0)

    def close(self) -> None:
        super().close()
        self._file.close()


_UNWRITTEN_PACKINGS = {".7z", ".br", ".bz2", ".lz4", ".lzma", ".xz", ".zip"}


def check_output(path: Path, force: bool, inputs: Iterable[Path] = ()) -> None:
    """Refuses an output that is one of the inputs, that exists (unless `force`), whose folder is missing, or whose suffix names
    an unsupported compression. A stream is written, not replaced, so it needs no `force`."""
    if path.suffix.lower() in _UNWRITTEN_PACKINGS:
        raise ParameterError(f"{path}: {path.suffix} is not written: name it .gz or .zst, or leave {path.suffix} out")
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
    if not path.exists():
        return
    status, folder = path.stat(), path.resolve() if path.is_dir() else None
    for other in filter(Path.exists, inputs):
        if os.path.samestat(status, other.stat()):
            raise ParameterError(f"{path} is the input{'' if other == path else f' {other}'}: name another output")
        if folder is not None and folder in other.resolve().parents:
            raise ParameterError(f"{path} holds the input {other}: name another output")


def check_kind(path: Path, folder: bool) -> None:
    if path.exists() and path.is_dir() != folder:
        raise ParameterError(f"{path} is not a folder: name a folder" if folder else f"{path} is a folder: name a file in it")


@contextlib.contextmanager
def replacing(*paths: Path) -> Iterator[list[Path]]:
    """A temporary path beside each path, where the block creates a file or folder. If the block succeeds, they replace the paths
    in order; otherwise they are deleted.

    A new file gets the mode and, if permitted, the owner of the old one. For a symbolic link the target is replaced. Streams and
    standard output are not replaced: their own path is returned.
    """
    outputs = [None if path == STDOUT or is_stream(path) else _Output(path) for path in paths]
    made = [output for output in outputs if output is not None]
    with contextlib.ExitStack() as stack:
        for output in made:
            stack.enter_context(output)
        yield [path if output is None else output.new for path, output in zip(paths, outputs, strict=True)]
        for output in made:
            with _naming_output(output.path):
                output.prepare()
        for output in made:
            with _naming_output(output.path):
                output.replace()


class _Output:
    """An output file or folder, created in a temporary folder beside the path, which exists during the `with` block."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._target = Path(real_path(path)) if path.is_symlink() else path

    def __enter__(self) -> None:
        folder = self._target.absolute().parent
        try:
            self._scratch = Path(tempfile.mkdtemp(prefix=".neardup-", dir=folder))
        except OSError as error:
            if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
                raise
            why = f"{folder}: nothing can be written there ({error.strerror})"  # not the temporary name
            raise ParameterError(f"{why}: name an output in another folder") from error
        self._old = self._scratch / "replaced"
        self.new = self._scratch / f"new-{self._target.name}"

    def prepare(self) -> None:
        if self._target.exists():
            before = self._target.stat()
            take_owner(before, self.new)
            take_mode(before, self.new)

    def replace(self) -> None:
        if self._target.is_dir():
            os.rename(self._target, self._old)
        os.replace(self.new, self._target)

    def __exit__(self, *error: object) -> None:
        if self._old.exists() and not self._target.exists():  # interrupted between the two renames
            os.rename(self._old, self._target)
        shutil.rmtree(self._scratch, ignore_errors=True)


@contextlib.contextmanager
def _naming_output(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, f"cannot be put in place ({error.strerror})", str(path)) from error


def write_page(path: Path, html: str) -> None:
    with replacing(path) as (new,), room_for(path), open_output(new, None) as file:
        file.write(html.encode())
    if path != STDOUT:
        print_note(f"wrote {path}")


def room_for(path: Path, errors: tuple[type[Exception], ...] = (OSError,)) -> contextlib.AbstractContextManager[None]:
    place = "standard output" if path == STDOUT else path if is_stream(path) else path.absolute().parent
    return room_in(place, "name an output on another one", errors)


@contextlib.contextmanager
def room_in(place: Path | str, remedy: str, errors: tuple[type[Exception], ...] = (OSError,)) -> Iterator[None]:
    try:
        yield
    except errors as error:
        if isinstance(error, OSError):
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            if error.filename is not None:
                place = Path(os.fsdecode(error.filename)).absolute().parent
        full = NearDupError(f"{place}: no room is left: make room on its disk, or {remedy}")
        if before := afterword(error):
            add_afterword(full, before.removeprefix("; "))
        raise full from error


@contextlib.contextmanager
def scratch_folder(place: Path | None = None, errors: tuple[type[Exception], ...] = (OSError,)) -> Iterator[Path]:
    """A new folder for temporary files, in `place` of --tmp or where Python makes them."""
    option, prefix = ("the variable TMPDIR", "neardup-") if place is None else ("--tmp", ".neardup-")
    remedy = f"name a folder for temporary files on another one with {option}"
    with (
        room_in(place or Path(tempfile.gettempdir()), remedy, errors),
        tempfile.TemporaryDirectory(prefix=prefix, dir=place) as folder,
    ):
        yield Path(folder)
