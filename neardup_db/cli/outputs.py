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
from typing import Any

from ..errors import NearDupError, ParameterError
from ..system import real_path, take_mode, take_owner
from .inputs.files import STDOUT, FileError, is_stream, packing_of, zstandard_for
from .output import add_afterword, afterword, print_note


@contextlib.contextmanager
def open_output(path: Path, packing: str | None) -> Iterator[Any]:
    """A binary file, compressed if asked. Equal content gives equal files."""
    if path == STDOUT:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
    elif packing == "zstd":
        with zstandard_for(path).open(path, "wb") as file:
            yield file
    else:
        with open(path, "wb") as file:
            if packing is None:
                yield file
            else:
                with gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=0) as packed:
                    yield packed


_UNWRITTEN_PACKINGS = {".7z", ".br", ".bz2", ".lz4", ".lzma", ".xz", ".zip"}


def check_output(path: Path, force: bool, inputs: Iterable[Path] = (), folder: bool | None = False) -> None:
    """Refuses an output that is one of the inputs, that exists (unless `force`), whose folder is missing, or whose suffix names
    an unsupported compression. A stream is written, not replaced, so it needs no `force`. folder: whether it must be one; None if
    that is not known yet."""
    if path == STDOUT:
        return
    if folder is not None:
        check_kind(path, folder)
    if path.suffix.lower() in _UNWRITTEN_PACKINGS:
        raise FileError(f"{path}: {path.suffix} is not written: name it .gz or .zst, or leave {path.suffix} out")
    if path.exists():
        check_apart(path, inputs)
        if is_stream(path):
            return
        if not (path.is_dir() or path.is_file()):
            raise FileError(f"{path} is neither a file nor a folder: name another output")
        if not force:
            raise FileError(f"{path} exists already: name another output, or add --force to replace it")
    if not path.absolute().parent.is_dir():
        raise FileError(f"{path}: the folder {path.absolute().parent} does not exist; create it first")


def check_apart(path: Path, inputs: Iterable[Path]) -> None:
    if not path.exists():
        return
    status, folder = path.stat(), path.resolve() if path.is_dir() else None
    for other in filter(Path.exists, inputs):
        if os.path.samestat(status, other.stat()):
            raise FileError(f"{path} is the input{'' if other == path else f' {other}'}: name another output")
        if folder is not None and folder in other.resolve().parents:
            raise FileError(f"{path} holds the input {other}: name another output")


def check_kind(path: Path, folder: bool) -> None:
    if path.exists() and path.is_dir() != folder:
        raise FileError(f"{path} is not a folder: name a folder" if folder else f"{path} is a folder: name a file in it")


@contextlib.contextmanager
def replacing(*paths: Path) -> Iterator[dict[Path, Path]]:
    """A temporary path beside each path, where the block creates a file or folder. If the block succeeds, they replace the paths
    in order; otherwise they are deleted.

    A new file gets the mode and, if permitted, the owner of the old one. For a symbolic link the target is replaced. Streams and
    standard output are not replaced: their own path is returned.
    """
    made = [_Output(path) for path in paths if path != STDOUT and not is_stream(path)]
    with contextlib.ExitStack() as stack:
        new = {output.path: stack.enter_context(output) for output in made}
        yield {path: new.get(path, path) for path in paths}
        for step in (_Output.prepare, _Output.replace):
            for output in made:
                try:
                    step(output)
                except OSError as error:
                    what = f"cannot be put in place ({error.strerror})"
                    raise OSError(error.errno, what, str(output.path)) from error


class _Output:
    """An output file or folder, created in a temporary folder beside the path, which exists during the `with` block."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._target = Path(real_path(path)) if path.is_symlink() else path

    def __enter__(self) -> Path:
        folder = self._target.absolute().parent
        try:
            self._scratch = Path(tempfile.mkdtemp(prefix=".neardup-", dir=folder))
        except OSError as error:
            if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
                raise
            why = f"{folder}: nothing can be written there ({error.strerror})"  # not the temporary name
            raise ParameterError(f"{why}: name an output in another folder") from error
        self._old, self._new = self._scratch / "replaced", self._scratch / f"new-{self._target.name}"
        return self._new

    def prepare(self) -> None:
        if self._target.exists():
            before = self._target.stat()
            take_owner(before, self._new)
            take_mode(before, self._new)

    def replace(self) -> None:
        if self._target.is_dir():
            os.rename(self._target, self._old)
        os.replace(self._new, self._target)

    def __exit__(self, *error: object) -> None:
        if self._old.exists() and not self._target.exists():  # interrupted between the two renames
            os.rename(self._old, self._target)
        shutil.rmtree(self._scratch, ignore_errors=True)


@contextlib.contextmanager
def written(path: Path) -> Iterator[Any]:
    """A binary file that replaces the path if the block succeeds, compressed as its suffix says."""
    with replacing(path) as new, room_for(path), open_output(new[path], packing_of(path)) as file:
        yield file


def write_page(path: Path, html: str) -> None:
    with written(path) as file:
        file.write(html.encode())
    if path != STDOUT:
        print_note(f"wrote {path}")


def room_for(path: Path) -> contextlib.AbstractContextManager[None]:
    place = "standard output" if path == STDOUT else path if is_stream(path) else path.absolute().parent
    return room_in(place, "name an output on another one")


@contextlib.contextmanager
def room_in(place: Path | str, remedy: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        if error.filename is not None:
            place = Path(os.fsdecode(error.filename)).absolute().parent
        full = NearDupError(f"{place}: no room is left: make room on its disk, or {remedy}")
        if before := afterword(error):
            add_afterword(full, before.removeprefix("; "))
        raise full from error


@contextlib.contextmanager
def scratch_folder(place: Path | None = None) -> Iterator[Path]:
    """A new folder for temporary files, in `place` of --tmp or where Python makes them."""
    option, prefix = ("the variable TMPDIR", "neardup-") if place is None else ("--tmp", ".neardup-")
    remedy = f"name a folder for temporary files on another one with {option}"
    with (
        room_in(place or Path(tempfile.gettempdir()), remedy),
        tempfile.TemporaryDirectory(prefix=prefix, dir=place) as folder,
    ):
        yield Path(folder)
