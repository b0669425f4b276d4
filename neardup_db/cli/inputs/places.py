"""Byte positions of an input's records, to reread or copy a selection without reading the rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ... import limits
from ...arrays import np
from .files import InputFile
from .lines import RecordError
from .numbers import Numbers
from .records import RecordSource
from .source import ChangedError, InputRecord, Place


class Places:
    """The positions of all records, by number: 24 bytes a record, mostly in files in `folder`. Selections are masks, bool[n]."""

    def __init__(self, source: RecordSource, folder: Path) -> None:
        self.source = source
        self._lines, self._starts, self._sizes = Numbers(folder), Numbers(folder), Numbers(folder)
        self._files: list[Path | None] = [None]
        self._first = [0]
        """The number of the first record of each file that has records."""

    def __len__(self) -> int:
        return len(self._starts)

    def extend(self, records: Sequence[InputRecord]) -> None:
        if records and not records[0].path is records[-1].path is self._files[-1]:
            for i, record in enumerate(records, len(self)):
                if record.path is not self._files[-1]:
                    self._files.append(record.path)
                    self._first.append(i)
        self._lines.extend([record.line for record in records])
        self._starts.extend([record.start for record in records])
        self._sizes.extend([len(record.raw) for record in records])

    def records(self, wanted: Any) -> Iterator[InputRecord]:
        for file, numbers, *columns in self.batches(wanted):
            for number, line, start, size in zip(numbers, *columns, strict=True):
                yield self.read_again(file, number, Place(line, start), size)

    def batches(self, wanted: Any) -> Iterator[tuple[InputFile, list[int], list[int], list[int], list[int]]]:
        """Batches of the selected records: the open file, and lists of numbers, lines, starts and sizes."""
        source = self.source
        source.start_again()
        for path, first, end in self._files_with_records(wanted):
            with source.opened(path) as file:
                for places in self._chosen(wanted, first, end):
                    lines, starts, sizes = (
                        column.numbers_between(places[0], places[-1] + 1)[places - places[0]].tolist() for column in self._columns
                    )
                    yield file, (places + 1).tolist(), lines, starts, sizes

    def read_again(self, file: InputFile, number: int, place: Place, size: int) -> InputRecord:
        """Raises ChangedError if the record is missing."""
        try:
            return self.source.read_again(file, number, place, size)
        except RecordError as error:
            raise ChangedError(f"{error}; the first pass read it, so the input has changed") from error

    def runs(self, wanted: Any) -> Iterator[tuple[Path, Iterator[tuple[int, int]]]]:
        for path, first, end in self._files_with_records(wanted):
            yield path, self._runs(wanted, first, end)

    def _runs(self, wanted: Any, first: int, end: int) -> Iterator[tuple[int, int]]:
        begun: int | None = None
        ended = 0
        for places in self._chosen(wanted, first, end):
            starts, sizes = (
                column.numbers_between(places[0], places[-1] + 1)[places - places[0]] for column in self._columns[1:]
            )
            ends = starts + sizes
            apart = np.flatnonzero(starts[1:] != ends[:-1])
            heads, tails = starts[np.append(0, apart + 1)].tolist(), ends[np.append(apart, len(ends) - 1)].tolist()
            for head, tail in zip(heads, tails, strict=True):
                if begun is None:
                    begun = head
                elif head != ended:
                    yield begun, ended
                    begun = head
                ended = tail
        if begun is not None:
            yield begun, ended

    def mask_of_file(self, path: Path, wanted: Any) -> Any:
        chosen = np.zeros(len(wanted), bool)
        for one, first, end in zip(self._files, self._first, [*self._first[1:], len(self)], strict=True):
            if one == path:
                chosen[first:end] = wanted[first:end]
        return chosen

    @property
    def _columns(self) -> tuple[Numbers, Numbers, Numbers]:
        return self._lines, self._starts, self._sizes

    def _files_with_records(self, wanted: Any) -> Iterator[tuple[Path, int, int]]:
        for path, first, end in zip(self._files, self._first, [*self._first[1:], len(self)], strict=True):
            if path is not None and wanted[first:end].any():
                yield path, first, end

    @staticmethod
    def _chosen(wanted: Any, first: int, end: int) -> Iterator[Any]:
        """The selected positions in first..end, in batches: int64[n], n > 0."""
        for low in range(first, end, limits.PLACES_AT_ONCE):
            places = low + np.flatnonzero(wanted[low : min(end, low + limits.PLACES_AT_ONCE)])
            if len(places):
                yield places

    def close(self) -> None:
        for column in self._columns:
            column.close()
