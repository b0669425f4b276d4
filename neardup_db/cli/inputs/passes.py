"""What `neardup dedup` asks of an input: its texts, some of its records again, and a copy of those that stay."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ... import limits
from ...arrays import np
from ...located import LocatedTexts
from ...values import Key
from .copies import copy_records
from .marked import write_marked
from .places import Places
from .records import RecordSource
from .source import InputRecord, Source

if TYPE_CHECKING:  # what it draws with is slow to import
    from ..screen import Meter


class Piece(NamedTuple):
    """Some records in a row. texts: a list, or `LocatedTexts`; size_bytes: of their records."""

    texts: list[str] | LocatedTexts
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Marks:
    """What --mark writes beside each of n records. cluster: its number from 1 on, 0 where the record is alone, int64[n];
    duplicate_of: the number of the record that stays instead of this one, 0 where this one stays, int64[n]; similarity: to that
    one, float64[n]; names: the ids of records by their numbers; against: if it is not None there is a further field of this name,
    text, which it gives for records by their numbers: the key of what another index has like the record, None where it has
    nothing."""

    cluster: Any
    duplicate_of: Any
    similarity: Any
    names: Callable[[Sequence[int]], list[Key]]
    against: Callable[[Sequence[int]], list[str | None]] | None = None

    def columns(self, numbers: Sequence[int]) -> dict[str, list[Any]]:
        """The fields of some records by their names, None where a record has no value."""
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


class Passes(ABC):
    """A source that is read three times, with the same records each time. Records have the numbers 1, 2, ... in its order."""

    source: Source

    @abstractmethod
    def pieces(self) -> Iterator[Piece]:
        """All records, some at a time: the first pass."""

    @abstractmethod
    def record_place(self, record: InputRecord) -> None:
        """Takes the place of the next record, where an iteration over `source` is the first pass."""

    @abstractmethod
    def chosen(self, wanted: Any) -> Iterator[InputRecord]:
        """The records that bool[n] chooses, read again. ChangedError where there is no longer a record."""

    @abstractmethod
    def write(self, kept: Any, output: Path, target: Path, meter: Meter, marks: Marks | None = None) -> None:
        """Writes the records that bool[n] chooses to `output`, packed as the name of `target` says; each with its marks if there
        are any."""

    @abstractmethod
    def write_shards(self, kept: Any, outputs: Mapping[Path, Path], meter: Meter, marks: Marks | None = None) -> None:
        """The same with a file for each file of the source, packed as its name says: `outputs` has all of them."""

    @abstractmethod
    def close(self) -> None:
        """Removes what was noted in temporary files."""


class TextPasses(Passes):
    """A source of text: the place of each record is noted, so that its bytes are copied as they are."""

    def __init__(self, source: RecordSource, folder: Path) -> None:
        self.source: RecordSource = source
        self._places = Places(source, folder)

    def pieces(self) -> Iterator[Piece]:
        for piece in in_pieces(self.source, limits.SKETCHED_RECORDS):
            self._places.extend(piece)
            yield Piece([record.text for record in piece], sum(len(record.raw) for record in piece))

    def record_place(self, record: InputRecord) -> None:
        self._places.extend((record,))

    def chosen(self, wanted: Any) -> Iterator[InputRecord]:
        return self._places.records(wanted)

    def write(self, kept: Any, output: Path, target: Path, meter: Meter, marks: Marks | None = None) -> None:
        if marks is None:
            copy_records(self._places, kept, output, target, meter)
        else:
            write_marked(self._places, kept, marks.columns, output, target, meter)

    def write_shards(self, kept: Any, outputs: Mapping[Path, Path], meter: Meter, marks: Marks | None = None) -> None:
        for path, output in outputs.items():
            self.write(self._places.mask_of_file(path, kept), output, output, meter, marks)

    def close(self) -> None:
        self._places.close()


def in_pieces(records: Iterable[InputRecord], most: int) -> Iterator[list[InputRecord]]:
    """The records in lists of at most `most` and, but for the last record, `limits.PIECE_BYTES`."""
    piece: list[InputRecord] = []
    size_bytes = 0
    for record in records:
        piece.append(record)
        size_bytes += record.size_bytes
        if len(piece) >= most or size_bytes >= limits.PIECE_BYTES:
            yield piece
            piece, size_bytes = [], 0
    if piece:
        yield piece
