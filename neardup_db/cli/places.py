"""Where the records of an input stand, so that some of them can be read again, or copied, without reading the others."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ..arrays import np
from .files import InputFile
from .lines import RecordError
from .records import ChangedError, InputRecord, Place, RecordSource


class Places:
    """The places of a source's records in the order of their numbers: 24 bytes of each."""

    def __init__(self, source: RecordSource) -> None:
        self.source = source
        self._lines, self._starts, self._sizes = array("Q"), array("Q"), array("Q")
        self._files: list[Path | None] = [None]
        self._first = [0]
        """Of each file that has records, the place of its first one; of None there are none."""

    def __len__(self) -> int:
        return len(self._starts)

    def extend(self, records: Sequence[InputRecord]) -> None:
        """Takes the places of the next records."""
        for i, record in enumerate(records, len(self)):
            if record.path is not self._files[-1]:
                self._files.append(record.path)
                self._first.append(i)
        self._lines.extend([record.line for record in records])
        self._starts.extend([record.start for record in records])
        self._sizes.extend([len(record.raw) for record in records])

    def records(self, wanted: Any) -> Iterator[InputRecord]:
        """The records that bool[n] chooses, read again. ChangedError where there is no longer a record."""
        source = self.source
        source.start_again()
        for path, places in self._of_files(wanted):
            with source.opened(path) as file:
                for i in places.tolist():
                    yield self._read_again(file, i)

    def _read_again(self, file: InputFile, i: int) -> InputRecord:
        place = Place(self._lines[i], self._starts[i])
        try:
            return self.source.read_again(file, i + 1, place, self._sizes[i])
        except RecordError as error:
            raise ChangedError(f"{error}; it was read before, so the input has changed: nothing was written") from error

    def runs(self, wanted: Any) -> Iterator[tuple[Path, list[tuple[int, int]]]]:
        """For each file the records that bool[n] chooses as (start, end) of the bytes that stand together."""
        starts, sizes = np.frombuffer(self._starts, np.uint64), np.frombuffer(self._sizes, np.uint64)
        for path, places in self._of_files(wanted):
            first, end = starts[places], starts[places] + sizes[places]
            apart = np.flatnonzero(first[1:] != end[:-1])
            heads, tails = first[np.append(0, apart + 1)], end[np.append(apart, len(end) - 1)]
            yield path, list(zip(heads.tolist(), tails.tolist(), strict=True))

    def _of_files(self, wanted: Any) -> Iterator[tuple[Path, Any]]:
        """Each file that holds records that are wanted, and the places of these."""
        for path, first, end in zip(self._files, self._first, [*self._first[1:], len(self)], strict=True):
            places = first + np.flatnonzero(wanted[first:end])
            if path is not None and len(places):
                yield path, places
