"""Texts that are read several times: all of them, then some records again, and the kept ones once more to copy them."""

from __future__ import annotations

import shutil
import tempfile
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ... import limits
from ...arrays import np
from ..outputs import open_output
from .edits import Edit, adding_fields
from .encodings import BOM
from .files import FileError, InputFile, Inputs, packing_of
from .records import Place, RecordSource
from .source import ChangedError, Copied, InputRecord, Marks, Piece, ReadOptions, RecordError


class TextSource(RecordSource, Copied):
    """A text source that is read three times with the same records, which are numbered 1, 2, ... in source order. The
    place of each record is stored, 24 bytes in a file in `folder`, so that records are copied unchanged and others not read."""

    def __init__(self, inputs: Inputs, options: ReadOptions, folder: Path) -> None:
        super().__init__(inputs, options)
        self._folder = folder

    def pieces(self) -> Iterator[Piece]:
        """Read all texts. Records are not kept, so that their memory stays in the CPU cache."""
        self._places = Numbers(self._folder)  # line, start and size of each record
        self._firsts: dict[Path, int] = {}  # the position of the first record of each file that has records
        texts: list[str] = []
        places = array("Q")
        size_bytes = 0
        for record in self:
            self._firsts.setdefault(record.path, record.number - 1)
            texts.append(record.text)
            places.extend((record.line, record.start, len(record.raw)))
            size_bytes += len(record.raw)
            if len(texts) >= limits.SKETCHED_RECORDS or size_bytes >= limits.SKETCHED_BYTES:
                self._places.extend(places)
                yield Piece(texts, size_bytes)
                texts, places, size_bytes = [], array("Q"), 0
        if texts:
            self._places.extend(places)
            yield Piece(texts, size_bytes)

    def chosen(self, wanted: Any) -> Iterator[InputRecord]:
        """Reread the selected records. Raises ChangedError if one is missing."""
        for file, numbers, places in self._batches(wanted):
            for number, (line, start, size) in zip(numbers, places.tolist(), strict=True):
                try:
                    yield self.read_again(file, number, Place(line, start), size)
                except RecordError as error:
                    raise ChangedError(f"{error}; the first pass read it, so the input has changed") from error

    def write(
        self, kept: Any, output: Path, target: Path, marks: Marks | None = None, *, shards: bool = False, edit: Any = None
    ) -> None:
        """Texts of a folder that are not changed are copied as files, which takes half the time."""
        if self.format != "folder" or marks is not None or edit is not None:
            super().write(kept, output, target, marks, shards=shards, edit=edit)
            return
        output.mkdir()
        self._done_bytes = 0
        for path, first in self._firsts.items():  # a file is one record
            if kept[first]:
                copied = output / self.relative_path(path)
                copied.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, copied)
                self._done_bytes += path.stat().st_size
                self.on_copied(self._done_bytes)

    def _batches(self, wanted: Any) -> Iterator[tuple[InputFile, list[int], Any]]:
        """Batches of the selected records of a file: the open file, the numbers, and uint64[n, 3] of lines, starts and sizes."""
        self._done_bytes = 0
        ends = [*self._firsts.values(), len(self._places) // 3][1:]
        for (path, first), end in zip(self._firsts.items(), ends, strict=True):
            if not wanted[first:end].any():
                continue
            with self.opened(path) as file:
                for low in range(first, end, limits.PLACES_AT_ONCE):
                    high = min(end, low + limits.PLACES_AT_ONCE)
                    chosen = np.flatnonzero(wanted[low:high])
                    if len(chosen):
                        places = self._places.numbers_between(3 * low, 3 * high).reshape(-1, 3)
                        yield file, (low + 1 + chosen).tolist(), places[chosen]

    def _copy(self, batches: Any, like: Path, output: Path, target: Path, marks: Marks | None, edit: Edit | None) -> None:
        last, add = (self.header, None) if marks is None else adding_fields(self, list(marks.columns([])))
        before = None
        with open_output(output, packing_of(target)) as file:
            file.write(last)
            for opened, numbers, found in batches:
                columns = {} if marks is None else marks.columns(numbers)
                for i, (line, start, size) in enumerate(_runs(found) if marks is None and edit is None else found.tolist()):
                    raw = opened.read_from(start, size)
                    if len(raw) < size:
                        raise ChangedError(f"{opened.name} became shorter while it was read")
                    if before is not None and start == 0:
                        raw = raw.removeprefix(BOM)
                    if opened is not before and last and not last.endswith(b"\n"):  # the last line of a file may have none
                        file.write(b"\n")
                    try:
                        if add is not None:
                            raw = add(raw, {name: values[i] for name, values in columns.items()})
                        elif edit is not None:
                            raw = edit(numbers[i], raw)
                    except ValueError as error:
                        raise FileError(f"{opened.name}, line {line}: {error}") from error
                    file.write(raw)
                    last, before = raw, opened
                    self.on_copied(self.position)

    def close(self) -> None:
        if hasattr(self, "_places"):
            self._places.close()


def _runs(places: Any) -> Iterator[tuple[int, int, int]]:
    """Adjacent records as one, in pieces of at most `limits.COPIED_BYTES`."""
    lines, starts, ends = places[:, 0], places[:, 1], places[:, 1] + places[:, 2]
    cuts = np.flatnonzero(starts[1:] != ends[:-1])
    heads, tails = np.append(0, cuts + 1), np.append(cuts, len(places) - 1)
    for line, start, end in zip(lines[heads].tolist(), starts[heads].tolist(), ends[tails].tolist(), strict=True):
        for at in range(start, end, limits.COPIED_BYTES):
            yield line, at, min(end - at, limits.COPIED_BYTES)


class Numbers:
    """An append-only list of uint64 in an unnamed file in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 (closed with the list)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def extend(self, numbers: Any) -> None:
        """numbers: uint64[n], n > 0."""
        self._file.seek(8 * self._count)
        self._file.write(memoryview(numbers).cast("B"))
        self._count += len(numbers)

    def numbers_between(self, first: int, end: int) -> Any:
        self._file.seek(8 * first)
        return np.frombuffer(self._file.read(8 * (end - first)), np.uint64)

    def close(self) -> None:
        self._file.close()
