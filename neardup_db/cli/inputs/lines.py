"""Lines and rows of an input file, none longer than a limit."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from ... import limits
from ...values import Key
from .files import InputError

END = object()
"""What is given after the last line or row."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A record that was left out: the file, the line where it begins (0 if the file is one text), its key if known, and the
    reason."""

    file: str
    line: int
    key: Key | None
    reason: str

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}: {self.reason}" if self.line else f"{self.file}: {self.reason}"


class RecordError(InputError):
    """One record cannot be used; the records after it can still be read."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


class LineFile(Protocol):
    """What lines are read from. name: in messages."""

    name: str

    def head(self, most: int) -> bytes:
        """At most so many of the first bytes, which stay to be read."""
        ...

    def readline(self, limit: int) -> bytes:
        """The next line with its end, at most `limit` bytes of it; b"" at the end of the file."""
        ...


class Lines:
    """Lines of a file, none longer than the limit; of the last one `number` is its number, from 1, and `start` and `end`
    say where it stands in the file, in bytes."""

    def __init__(self, file: LineFile, limit: int) -> None:
        self.file, self.limit = file, limit
        self.number = self.start = self.end = 0

    def next_line(self) -> Any:
        """The next line as bytes, or END."""
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
    """Rows of a CSV file; `raw` holds the bytes of the last one, `line` and `start` say where it begins."""

    def __init__(
        self, lines: Lines, delimiter: str, decode: Callable[[bytes], str], error: Callable[[int, str], RecordError]
    ) -> None:
        self.lines, self._decode, self._error = lines, decode, error
        self.raw = bytearray()
        self.line, self.start = 1, 0
        self._reader = csv.reader(self._texts(), delimiter=delimiter, strict=True)
        self._broken: RecordError | None = None

    def next_row(self) -> Any:
        """The next row as a list of texts (empty for an empty line), or END."""
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
        """Decoded lines for the reader. A line too long ends them, since an iterator that raised cannot go on."""
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
    """Why a record of more than `limit` bytes is left out, and what to do."""
    return f"longer than {limit:,} bytes; raise the limit with --max-record-mb"
