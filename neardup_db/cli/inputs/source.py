"""The face of an input of records, whatever its format."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from .lines import Problem
from .records import InputRecord, ReadOptions


class Source(Protocol):
    """An input of records. Every iteration starts at the beginning and gives the same records.

    name: in messages; format: one of FORMATS, or "folder" for a folder of texts; files: read one after another. `skipped`,
    `problems` and `replaced` are of the last iteration: how many records were left out because of an error, the first
    MOST_PROBLEMS of them with the reasons, and how many held invalid text, read as U+FFFD. `on_left_out` is called with each one
    left out, where it would have come; of a table some rows earlier.
    """

    name: str
    format: str
    options: ReadOptions
    files: list[Path]
    size_bytes: int
    skipped: int
    problems: list[Problem]
    replaced: int
    on_left_out: Callable[[Problem], object]

    def __iter__(self) -> Iterator[InputRecord]: ...

    @property
    def position(self) -> int:
        """Bytes on disk that the running iteration has read, up to `size_bytes`."""
        ...

    def relative_path(self, path: Path) -> Path:
        """The path of one of the files below the folder that was named."""
        ...

    def problem(self, record: InputRecord, reason: str) -> Problem:
        """The Problem of a record that was read but cannot be used."""
        ...

    def add_problem(self, problem: Problem) -> None:
        """Adds to `problems`, up to MOST_PROBLEMS."""
        ...

    def require_unchanged(self) -> None:
        """ChangedError where a file is not as it was when it was opened first."""
        ...
