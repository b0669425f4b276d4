"""The base classes of record sources, the reading options, the record type and its fields."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from pathlib import Path
from typing import Any, NamedTuple

from ... import limits
from ...arrays import np
from ...located import LocatedTexts
from ...parameters import quoted
from ...values import MOST_PROBLEMS, Key
from .encodings import UTF8
from .files import FileError, Inputs, state_of


@dataclass(frozen=True, slots=True)
class Problem:
    """line: 0 if the file is one text."""

    file: str
    line: int
    key: Key | None
    reason: str

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}: {self.reason}" if self.line else f"{self.file}: {self.reason}"


class RecordError(FileError):
    """Reading can continue with the next record."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


def too_long(limit: int) -> str:
    return f"longer than {limit:,} bytes; raise the limit with --max-record-mb"


class ChangedError(FileError):
    pass


class InputRecord(NamedTuple):
    """One record of an input.

    key: the record's id, or file and line without one ("posts.jsonl:17"); named: True for a key of file and line; raw: the bytes
    of the record with its line end (a folder's text: the file's bytes; a table row: empty); number: 1, 2, ... in input order,
    usable records only; line, start: as in `records.Place`; fields: the other fields; path: its file.
    """

    key: str | int
    text: str
    raw: bytes
    number: int
    line: int
    start: int
    fields: dict[str, Any]
    path: Path
    named: bool = False

    @property
    def size_bytes(self) -> int:
        """For a table row, about the size of its text."""
        return len(self.raw) or len(self.text)


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


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options for reading an input.

    format: one of FORMATS, None to use the file name; id_field: None for "id", else "key", else file and line; text_fields:
    several texts are joined by line ends; integer_keys: ids are integers; integer_texts: text fields may be integers, read as
    digits; typed_ids: integer ids stay integers; delimiter: None for the format's own; encoding: Python's name; on_error:
    "raise", or "skip" to skip invalid records; max_bytes: limit for a record; glob: selects files in a folder; source_name: the
    input's name in keys of records without an id, None for the file name; one_header: CSV or TSV shards must have equal columns;
    other_fields: table columns that become record fields, None for all (text records have all their fields, and with this option
    also text and id).
    """

    format: str | None = None
    id_field: str | None = None
    text_fields: tuple[str, ...] = ("text",)
    integer_keys: bool = False
    integer_texts: bool = False
    typed_ids: bool = False
    delimiter: str | None = None
    encoding: str = UTF8
    on_error: str = "raise"
    max_bytes: int = 64_000_000
    glob: str = "*"
    source_name: str | None = None
    one_header: bool = False
    other_fields: tuple[str, ...] | None = ()


class Source(ABC):
    """An input of records. Every iteration starts at the beginning and yields the same records.

    name: for messages; format: one of FORMATS, or "folder" for a folder of texts; files: in reading order. The last iteration
    sets `skipped` (the number of invalid records skipped), `problems` (the first MOST_PROBLEMS of these, with reasons) and
    `replaced` (the number with invalid text, read as U+FFFD). `on_left_out` is called for each skipped record in input order; for
    a table it may be called some rows early. `on_copied` is called with the position while records are copied.
    """

    def __init__(self, inputs: Inputs, options: ReadOptions) -> None:
        self.name, self.format, self.options = inputs.name, inputs.format, options
        self.files = [file.path for file in inputs.files]
        self.size_bytes = sum(file.stat().st_size for file in self.files)
        self.on_left_out: Callable[[Problem], object] = lambda problem: None
        self.on_copied: Callable[[int], object] = lambda position: None
        self._named = {file.path: file for file in inputs.files}
        self._states: dict[Path, tuple[int, int]] = {}  # the state of each file when it was opened
        self._start()

    def _start(self) -> None:
        self.skipped = self.replaced = 0
        self.problems: list[Problem] = []

    @abstractmethod
    def __iter__(self) -> Iterator[InputRecord]: ...

    @property
    @abstractmethod
    def position(self) -> int:
        pass

    @abstractmethod
    def problem(self, record: InputRecord, reason: str) -> Problem:
        pass

    def relative_path(self, path: Path) -> Path:
        return self._named[path].below

    def skip_record(self, error: RecordError) -> None:
        if self.options.on_error != "skip":
            raise error
        self.skipped += 1
        self.add_problem(error.problem)
        self.on_left_out(error.problem)

    def add_problem(self, problem: Problem) -> None:
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(problem)

    def require_state(self, path: Path, state: tuple[int, int] | None = None) -> None:
        """Raises ChangedError if a file has changed since it was first opened. state: the current state, None to query it."""
        name = self._named[path].name
        try:
            state = state_of(path.stat()) if state is None else state
        except FileNotFoundError as error:
            if path not in self._states:
                raise FileError(f"{name}: no such file or folder") from error
            raise ChangedError(f"{name} was removed while it was read: run it again when no program writes to it") from error
        if self._states.setdefault(path, state) != state:
            raise ChangedError(f"{name} changed while it was read: run it again when no program writes to it")

    def require_unchanged(self) -> None:
        for path in self._states:
            self.require_state(path)


class Copied(Source):
    """A source whose records are copied. Selections are masks, bool[n]."""

    _batches: Callable[[Any], Iterator[Any]]
    """Yields batches of selected records, each of one file, whose `path` the first item has."""

    _copy: Callable[..., None]  # writes batches to one output, in the form of the first path given

    def write(
        self, kept: Any, output: Path, target: Path, marks: Marks | None = None, *, shards: bool = False, edit: Any = None
    ) -> None:
        """Write the selected records, marked, edited (of a text source, by an `Edit`) or as they are: texts of a folder into the
        folder `output`, others into the file, compressed as the suffix of `target` says; with shards into the folder, a file for
        each source file, compressed like it."""
        batches = self._batches(kept)
        if not shards and self.format != "folder":
            self._copy(batches, self.files[0], output, target, marks, edit)
            return
        output.mkdir()
        begun: set[Path] = set()
        empty = ((path, ()) for path in self.files if shards and path not in begun)
        for path, some in chain(groupby(batches, key=lambda batch: batch[0].path), empty):
            begun.add(path)
            copied = output / self.relative_path(path)
            copied.parent.mkdir(parents=True, exist_ok=True)
            self._copy(some, path, copied, copied, marks, edit)

    def close(self) -> None: ...


def integer_key(value: Any, where: str) -> int:
    try:
        number = int(value)
    except ValueError as error:
        raise ValueError(f"{where} is {quoted(value)}, not an integer as --key-type int requires") from error
    if not -(1 << 63) <= number < 1 << 63:
        raise ValueError(f"{where} is {quoted(number)}, outside the 64-bit integers; use --key-type text")
    return number


def clean_key(key: str) -> str:
    return key if key.isascii() else key.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


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


ABSENT = object()


def field_value(fields: dict[str, Any], name: str) -> Any:
    """The value of a field, or ABSENT. Dots lead into objects, unless a field has the full name."""
    if name in fields:
        return fields[name]
    value: Any = fields
    for step in name.split("."):
        if not isinstance(value, dict) or step not in value:
            return ABSENT
        value = value[step]
    return value


def joined_names(names: Any) -> str:
    shown = [repr(name) for name in names][:12]
    return ", ".join(shown) + (", ..." if len(names) > 12 else "") if shown else "no other field"
