"""The interface of `neardup dedup` to its input: read all texts, reread some records, copy the kept ones."""

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
from .places import Places
from .records import RecordSource
from .source import InputRecord, Source
from .writing import fields_of, marking, write_records

if TYPE_CHECKING:  # slow to import
    from ..screen import Meter


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


class Passes(ABC):
    """A source that is read three times with the same records. Records are numbered 1, 2, ... in source order."""

    source: Source

    @abstractmethod
    def pieces(self) -> Iterator[Piece]:
        pass

    @abstractmethod
    def chosen(self, wanted: Any) -> Iterator[InputRecord]:
        """Reread the records selected by a mask, bool[n]. Raises ChangedError if one is missing."""

    @abstractmethod
    def write(self, kept: Any, output: Path, target: Path, meter: Meter, marks: Marks | None = None) -> None:
        """Write the records selected by a mask, bool[n], compressed as the suffix of `target` says, with their marks if given."""

    @abstractmethod
    def write_shards(self, kept: Any, outputs: Mapping[Path, Path], meter: Meter, marks: Marks | None = None) -> None:
        """The same with an output file, compressed like its source, for each source file."""

    @abstractmethod
    def close(self) -> None:
        pass


class TextPasses(Passes):
    """A text source. The byte range of each record is stored, so that records are copied unchanged."""

    def __init__(self, source: RecordSource, folder: Path) -> None:
        self.source: RecordSource = source
        self.places = Places(source, folder)

    def pieces(self) -> Iterator[Piece]:
        for piece in in_pieces(self.source, limits.SKETCHED_RECORDS):
            self.places.extend(piece)
            yield Piece([record.text for record in piece], sum(len(record.raw) for record in piece))

    def chosen(self, wanted: Any) -> Iterator[InputRecord]:
        return self.places.records(wanted)

    def write(self, kept: Any, output: Path, target: Path, meter: Meter, marks: Marks | None = None) -> None:
        if marks is None:
            write_records(self.places, kept, output, target, meter)
            return
        fields = fields_of(self.source, list(marks.columns([])))
        write_records(self.places, kept, output, target, meter, marking(fields, marks.columns), fields.header)

    def write_shards(self, kept: Any, outputs: Mapping[Path, Path], meter: Meter, marks: Marks | None = None) -> None:
        for path, output in outputs.items():
            self.write(self.places.mask_of_file(path, kept), output, output, meter, marks)

    def close(self) -> None:
        self.places.close()


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
