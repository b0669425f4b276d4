"""The interface of `neardup dedup` to its input: read all texts, reread some records, copy the kept ones."""

from __future__ import annotations

import shutil
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ... import limits
from ...arrays import np
from ...located import LocatedTexts
from ...values import Key
from ..outputs import open_output
from .edits import Edit, fields_of, marking
from .encodings import BOM
from .files import InputError, InputFile, packing_of
from .lines import RecordError
from .numbers import Numbers
from .records import RecordSource
from .source import ChangedError, InputRecord, Place, Source

if TYPE_CHECKING:  # slow to import
    from ..progress import Meter


class Piece(NamedTuple):
    texts: list[str] | LocatedTexts
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Marks:
    """The fields that --mark adds to n records.

    cluster: cluster numbers from 1, 0 for a single record, int64[n]; duplicate_of: the number of the record kept instead, 0 for a
    kept record, int64[n]; similarity: to that record, float64[n]; names, against: functions from record numbers to ids, and to
    the keys of the matching documents in another index (None without a match; against is None without --against).
    """

    cluster: Any
    duplicate_of: Any
    similarity: Any
    names: Callable[[Sequence[int]], list[Key]]
    against: Callable[[Sequence[int]], list[str | None]] | None = None

    def columns(self, numbers: Sequence[int]) -> dict[str, list[Any]]:
        places = np.array(numbers, np.int64) - 1
        stays = self.duplicate_of[places].tolist()
        known = sorted(set(stays) - {0})
        names: dict[int, Key | None] = {0: None, **dict(zip(known, self.names(known), strict=True))} if known else {0: None}
        columns = {"cluster": [number or None for number in self.cluster[places].tolist()]}
        columns["duplicate_of"] = [names[number] for number in stays]
        similarities = zip(stays, self.similarity[places].tolist(), strict=True)
        columns["similarity"] = [similarity if number else None for number, similarity in similarities]
        if self.against is not None:
            columns["against"] = self.against(numbers)
        return columns


class TextPasses:
    """A text source that is read three times with the same records, which are numbered 1, 2, ... in source order. Selections are
    masks, bool[n].

    The place of each record is stored, 24 bytes in a file in `folder`, so that records are copied unchanged and others not read.
    """

    def __init__(self, source: RecordSource, folder: Path) -> None:
        self.source = source
        self._places = Numbers(folder)
        """Line, start and size of each record."""
        self._files: list[Path] = []
        self._first: list[int] = []
        """The number of the first record of each file that has records."""

    def pieces(self) -> Iterator[Piece]:
        """Read all texts. Records are not kept, so that their memory stays in the CPU cache."""
        texts: list[str] = []
        places = array("Q")
        size_bytes = 0
        for record in self.source:
            if not self._files or record.path is not self._files[-1]:
                self._files.append(record.path)
                self._first.append(record.number - 1)
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

    @property
    def _count(self) -> int:
        return len(self._places) // 3

    def chosen(self, wanted: Any) -> Iterator[InputRecord]:
        """Reread the selected records. Raises ChangedError if one is missing."""
        for file, numbers, places in self.batches(wanted):
            for number, (line, start, size) in zip(numbers, places.tolist(), strict=True):
                try:
                    yield self.source.read_again(file, number, Place(line, start), size)
                except RecordError as error:
                    raise ChangedError(f"{error}; the first pass read it, so the input has changed") from error

    def batches(self, wanted: Any) -> Iterator[tuple[InputFile, list[int], Any]]:
        """Batches of the selected records of a file: the open file, the numbers, and uint64[n, 3] of lines, starts and sizes."""
        self.source.start_again()
        for path, first, end in self.files(wanted):
            with self.source.opened(path) as file:
                for low in range(first, end, limits.PLACES_AT_ONCE):
                    high = min(end, low + limits.PLACES_AT_ONCE)
                    chosen = np.flatnonzero(wanted[low:high])
                    if len(chosen):
                        places = self._places.numbers_between(3 * low, 3 * high).reshape(-1, 3)
                        yield file, (low + 1 + chosen).tolist(), places[chosen]

    def files(self, wanted: Any) -> Iterator[tuple[Path, int, int]]:
        """The files of the selected records, with the positions of their first and behind their last record."""
        for path, first, end in zip(self._files, self._first, [*self._first, self._count][1:], strict=True):
            if wanted[first:end].any():
                yield path, first, end

    def _mask_of_file(self, path: Path, wanted: Any) -> Any:
        chosen = np.zeros(len(wanted), bool)
        for one, first, end in self.files(wanted):
            if one == path:
                chosen[first:end] = wanted[first:end]
        return chosen

    def write(
        self,
        kept: Any,
        output: Path,
        target: Path,
        meter: Meter,
        marks: Marks | None = None,
        *,
        shards: bool = False,
        edit: Edit | None = None,
    ) -> None:
        """Write the selected records, marked, edited or as they are: files of a folder into the folder `output`, others into the
        file, compressed as the suffix of `target` says; with shards into the folder, a file for each source file, compressed
        like it."""
        if shards:
            for path, shard in shard_paths(self.source, output).items():
                self.write(self._mask_of_file(path, kept), shard, shard, meter, marks, edit=edit)
            return
        last = self.source.header
        if marks is not None:
            fields = fields_of(self.source, list(marks.columns([])))
            edit, last = marking(fields, marks.columns), fields.header
        if self.source.format == "folder":
            self._write_files(kept, output, meter, edit)
            return
        is_later, before = False, None
        with open_output(output, packing_of(target)) as file:
            file.write(last)
            for opened, numbers, found in self.batches(kept):
                change = None if edit is None else edit(numbers)
                for i, (line, start, size) in enumerate(_runs(found) if change is None else found.tolist()):
                    raw = opened.read_from(start, size)
                    if len(raw) < size:
                        raise ChangedError(f"{opened.name} became shorter while it was read")
                    if is_later and start == 0:
                        raw = raw.removeprefix(BOM)
                    if opened is not before and last and not last.endswith(b"\n"):  # the last line of a file may have none
                        file.write(b"\n")
                    try:
                        last = raw if change is None else change(i, raw)
                    except ValueError as error:
                        raise InputError(f"{opened.name}, line {line}: {error}") from error
                    file.write(last)
                    is_later, before = True, opened
                    meter.advance(self.source.position)

    def _write_files(self, kept: Any, output: Path, meter: Meter, edit: Edit | None) -> None:
        """A file is one record."""
        source = self.source
        output.mkdir()
        for path, first, _ in self.files(kept):
            copied = output / source.relative_path(path)
            copied.parent.mkdir(parents=True, exist_ok=True)
            if edit is None:
                shutil.copyfile(path, copied)
            else:
                with source.opened(path) as file, open_output(copied, packing_of(copied)) as new:
                    new.write(edit([first + 1])(0, file.read(source.options.max_bytes)))
            meter.advance(path.stat().st_size)

    def close(self) -> None:
        self._places.close()


def shard_paths(source: Source, output: Path) -> dict[Path, Path]:
    """The new files in the folder `output`, which is created with its folders, for the files of a source."""
    shards = {path: output / source.relative_path(path) for path in source.files}
    for folder in {output, *(path.parent for path in shards.values())}:
        folder.mkdir(parents=True, exist_ok=True)
    return shards


def _runs(places: Any) -> Iterator[tuple[int, int, int]]:
    """Adjacent records as one, in pieces of at most `limits.COPIED_BYTES`."""
    lines, starts, ends = places[:, 0], places[:, 1], places[:, 1] + places[:, 2]
    cuts = np.flatnonzero(starts[1:] != ends[:-1])
    heads, tails = np.append(0, cuts + 1), np.append(cuts, len(places) - 1)
    for line, start, end in zip(lines[heads].tolist(), starts[heads].tolist(), ends[tails].tolist(), strict=True):
        for at in range(start, end, limits.COPIED_BYTES):
            yield line, at, min(end - at, limits.COPIED_BYTES)


def in_pieces(records: Iterable[InputRecord], most: int, most_bytes: int | None = None) -> Iterator[list[InputRecord]]:
    """Pieces of at most `most` records and, but for the last one, `most_bytes`, by default `limits.PIECE_BYTES`."""
    piece: list[InputRecord] = []
    size_bytes = 0
    for record in records:
        piece.append(record)
        size_bytes += record.size_bytes
        if len(piece) >= most or size_bytes >= (most_bytes or limits.PIECE_BYTES):
            yield piece
            piece, size_bytes = [], 0
    if piece:
        yield piece
