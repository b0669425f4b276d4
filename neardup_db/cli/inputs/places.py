"""Byte positions of an input's records, to reread or copy a selection without reading the rest."""

from __future__ import annotations

from array import array
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
    """The positions of all records, by number: 24 bytes a record, in a file in `folder`. Selections are masks, bool[n]."""

    def __init__(self, source: RecordSource, folder: Path) -> None:
        self.source = source
        self._numbers = Numbers(folder)
        """Line, start and size of each record."""
        self._files: list[Path] = []
        self._first: list[int] = []
        """The number of the first record of each file that has records."""

    def __len__(self) -> int:
        return len(self._numbers) // 3

    def extend(self, records: Sequence[InputRecord]) -> None:
        places = array("Q")
        for i, record in enumerate(records, len(self)):
            if not self._files or record.path is not self._files[-1]:
                self._files.append(record.path)
                self._first.append(i)
            places.extend((record.line, record.start, len(record.raw)))
        if places:
            self._numbers.extend(places)

    def records(self, wanted: Any) -> Iterator[InputRecord]:
        """Raises ChangedError if a record is missing."""
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
                        places = self._numbers.numbers_between(3 * low, 3 * high).reshape(-1, 3)
                        yield file, (low + 1 + chosen).tolist(), places[chosen]

    def files(self, wanted: Any) -> Iterator[tuple[Path, int, int]]:
        """The files of the selected records, with the positions of their first and behind their last record."""
        for path, first, end in zip(self._files, self._first, [*self._first, len(self)][1:], strict=True):
            if wanted[first:end].any():
                yield path, first, end

    def mask_of_file(self, path: Path, wanted: Any) -> Any:
        chosen = np.zeros(len(wanted), bool)
        for one, first, end in self.files(wanted):
            if one == path:
                chosen[first:end] = wanted[first:end]
        return chosen

    def close(self) -> None:
        self._numbers.close()
