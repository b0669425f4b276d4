"""Length-limited lines and rows of an input file."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from ... import limits
from ...values import Key
from .files import FileError

END = object()
"""Returned after the last line or row."""


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


class LineFile(Protocol):
    name: str

    def head(self, most: int) -> bytes: ...

    def readline(self, limit: int) -> bytes:
        """The next line with its line end, at most `limit` bytes; b"" at the end."""
        ...


class Lines:
    """Length-limited lines of a file. `number` is the line number of the last line, from 1; `start` and `end` are its byte
    offsets."""

    def __init__(self, file: LineFile, limit: int) -> None:
        self.file, self.limit = file, limit
        self.number = self.start = self.end = 0

    def next_line(self) -> Any:
        line = self.file.readline(self.limit + 1)
        if not line:
            return END
        self.number += 1
        self.start = self.end
        self.end += len(line)
        if len(line) <= self.limit:
            return line
        while line and not line.endswith(b"\n"):
            line = self.file.readline(limits.LINE_BYTES)
            self.end += len(line)
        raise RecordError(Problem(self.file.name, self.number, None, too_long(self.limit)))


class Rows:
    """CSV rows. `raw`, `line` and `start` are the bytes, first line and byte offset of the last row."""

    def __init__(
        self, lines: Lines, delimiter: str, decode: Callable[[bytes], str], error: Callable[[int, str], RecordError]
    ) -> None:
        self.lines, self._decode, self._error = lines, decode, error
        self.raw = bytearray()
        self.line, self.start = 1, 0
        self._reader = csv.reader(self._texts(), delimiter=delimiter, strict=True)
        self._broken: RecordError | None = None

    def next_row(self) -> Any:
        """The next row as a list of strings (empty for a blank line), or END."""
        self.raw.clear()
        self.line, self.start = self.lines.number + 1, self.lines.end
        try:
            return next(self._reader)
        except (StopIteration, csv.Error) as error:
            if self._broken is not None:
                broken, self._broken = self._broken, None
                self._reader = csv.reader(self._texts(), self._reader.dialect)
                raise broken from None
            if isinstance(error, StopIteration):
                return END
            raise self._error(self.line, f"not a valid row ({error})") from error

    def _texts(self) -> Iterator[str]:
        """A too long line ends the iteration, because a generator cannot continue after an exception."""
        while True:
            try:
                line = self.lines.next_line()
            except RecordError as error:
                self._broken = error
                return
            if line is END:
                return
            self.raw += line
            if len(self.raw) > self.lines.limit:
                self._broken = self._error(self.line, too_long(self.lines.limit))
                return
            yield self._decode(line)


def too_long(limit: int) -> str:
    return f"longer than {limit:,} bytes; raise the limit with --max-record-mb"
