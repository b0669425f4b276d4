"""An input of records, whatever its format: how it is read, one record, and what all formats have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ...parameters import quoted
from ...values import MOST_PROBLEMS
from .encodings import UTF8
from .files import InputError, Inputs, state_of
from .lines import Problem, RecordError

DEFAULT_MAX_BYTES = 64_000_000
"""Longest line, CSV row or text file unless the caller says otherwise."""


class Place(NamedTuple):
    """Where a record stands. line: where it begins (1 for a file of text); start: its first byte in the unpacked file."""

    line: int
    start: int


class ChangedError(InputError):
    """A file is not as it was when it was read first."""


class InputRecord(NamedTuple):
    """One record of an input.

    key: the record's id, or file and line if it has none ("posts.jsonl:17"); named: True for a key of file and line; text: the
    text to compare; raw: the record's bytes in the input, line end included (in a folder of texts: the file's bytes; none of
    a row of a table); number: 1, 2, ... in the order of the input, counting only usable records; line, start: as in `Place`;
    fields: the other fields; path: its file.
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
        """Bytes of the record in the input; of a row of a table about those of its text."""
        return len(self.raw) or len(self.text)


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How an input is read.

    format: one of FORMATS, None to go by the file's name; id_field and text_fields: names of the fields, id_field None for
    "id", else "key", else file and line, texts of several fields joined by line ends; integer_keys: ids are integers;
    integer_texts: fields of the text may be integers, which are taken by their digits; typed_ids: ids that are integers stay
    integers; delimiter: between columns, None for that of the format; encoding: as Python names it; on_error: "raise", or
    "skip" to leave out records that cannot be used; max_bytes: longest record; glob: which files of a folder; source_name:
    name of the input in the keys of records without an id, None for the file's name; one_header: shards of CSV or TSV must
    have the same columns; other_fields: the columns of a table that become the fields of its records, None for all; records
    of text have all of theirs, and of these also what is their text or id.
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
    max_bytes: int = DEFAULT_MAX_BYTES
    glob: str = "*"
    source_name: str | None = None
    one_header: bool = False
    other_fields: tuple[str, ...] | None = ()


class Source(ABC):
    """An input of records. Every iteration starts at the beginning and gives the same records.

    name: in messages; format: one of FORMATS, or "folder" for a folder of texts; files: read one after another. `skipped`,
    `problems` and `replaced` are of the last iteration: how many records were left out because of an error, the first
    MOST_PROBLEMS of them with the reasons, and how many held invalid text, read as U+FFFD. `on_left_out` is called with each one
    left out, where it would have come; of a table some rows earlier.
    """

    def __init__(self, inputs: Inputs, options: ReadOptions) -> None:
        self.name, self.format, self.options = inputs.name, inputs.format, options
        self.files = [file.path for file in inputs.files]
        self.size_bytes = sum(file.stat().st_size for file in self.files)
        self.on_left_out: Callable[[Problem], object] = lambda problem: None
        self._named = {file.path: file for file in inputs.files}
        self._states: dict[Path, tuple[int, int]] = {}
        """Of each file that was opened what it was like then."""
        self._start()

    def _start(self) -> None:
        """Begins an iteration."""
        self.skipped = self.replaced = 0
        self.problems: list[Problem] = []

    @abstractmethod
    def __iter__(self) -> Iterator[InputRecord]: ...

    @property
    @abstractmethod
    def position(self) -> int:
        """Bytes on disk that the running iteration has read, up to `size_bytes`."""

    @abstractmethod
    def problem(self, record: InputRecord, reason: str) -> Problem:
        """The Problem of a record that was read but cannot be used."""

    def relative_path(self, path: Path) -> Path:
        """The path of one of the files below the folder that was named."""
        return self._named[path].below

    def skip_record(self, error: RecordError) -> None:
        """Counts a record that cannot be used, or raises the error unless such records are skipped."""
        if self.options.on_error != "skip":
            raise error
        self.skipped += 1
        self.add_problem(error.problem)
        self.on_left_out(error.problem)

    def add_problem(self, problem: Problem) -> None:
        """Adds to `problems`, up to MOST_PROBLEMS."""
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(problem)

    def require_state(self, path: Path, state: tuple[int, int] | None = None) -> None:
        """ChangedError where a file is not as it was when it was opened first. state: None to look."""
        name = self._named[path].name
        try:
            state = state_of(path.stat()) if state is None else state
        except FileNotFoundError as error:
            if path not in self._states:
                raise InputError(f"{name}: no such file or folder") from error
            raise ChangedError(f"{name} was removed while it was read: run it again when nobody writes to it") from error
        if self._states.setdefault(path, state) != state:
            raise ChangedError(f"{name} changed while it was read: run it again when nobody writes to it")

    def require_unchanged(self) -> None:
        """ChangedError where a file is not as it was when it was opened first."""
        for path in self._states:
            self.require_state(path)


def integer_key(value: Any, where: str) -> int:
    """An id as a 64-bit integer. Raises ValueError with the reason."""
    try:
        number = int(value)
    except ValueError as error:
        raise ValueError(f"{where} is {quoted(value)}, no integer as --key-type int says") from error
    if not -(1 << 63) <= number < 1 << 63:
        raise ValueError(f"{where} is {quoted(number)}, outside the 64-bit integers; use --key-type text")
    return number


def clean_key(key: str) -> str:
    """A key that can be stored as UTF-8: lone surrogates become U+FFFD."""
    return key if key.isascii() else key.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
