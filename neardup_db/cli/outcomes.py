"""The JSON lines file of `neardup add --outcomes`, with the outcome of each record."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from ..errors import ParameterError
from ..store.ingest.outcomes import Outcome
from ..system import real_path
from ..values import Key, Match, Skipped
from .inputs.files import STDOUT, is_stream, packing_of
from .inputs.lines import Problem
from .inputs.records import format_of
from .inputs.source import InputRecord, Source
from .output import add_afterword, as_json_value, json_line
from .outputs import check_kind, check_output, open_output, replacing, room_for
from .wording import in_command_terms


class OutcomeFile:
    """Records each outcome as it happens and writes the outcomes of committed records. A record that could not be read has a line
    in its input position, too."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read: deque[Problem] = deque()
        """Record places in reading order. A place without a reason was read."""
        self._told: list[str] = []
        """Lines not yet written."""
        self._file: IO[bytes]
        self._committed = 0
        self._is_incomplete = False
        """Writing failed, so committed records are missing from the file."""

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """After an error the file holds the committed records, if any."""
        error: BaseException | None = None
        try:
            with replacing(self._path) as (new,), room_for(self._path), open_output(new, packing_of(self._path)) as self._file:
                try:
                    yield
                    self._write_unread()
                    self.write(0)
                except BaseException as raised:
                    if not self._committed or self._is_incomplete:
                        raise
                    error = raised
        except BaseException as unwritten:
            add_afterword(unwritten, f"no outcomes are in {self._path}")
            raise
        if error is not None:
            add_afterword(error, f"their outcomes are in {self._path}")
            raise error

    def reading(self, source: Source) -> Iterator[InputRecord]:
        source.on_left_out = self._read.append
        for record in source:
            self._read.append(source.problem(record, ""))
            yield record

    def record_outcome(self, key: Key | None, outcome: Outcome, match: Match | Skipped | None) -> None:
        self._write_unread()
        place = self._read.popleft()
        reason = in_command_terms(match.reason) if isinstance(match, Skipped) else None
        self._write_line(place, key, outcome, match if isinstance(match, Match) else None, reason)

    def write(self, committed: int) -> None:
        self._committed += committed
        self._is_incomplete = True
        self._file.write("".join(self._told).encode())
        self._file.flush()
        self._is_incomplete = False
        self._told = []

    def _write_unread(self) -> None:
        while self._read and self._read[0].reason:
            place = self._read.popleft()
            self._write_line(place, place.key, "skipped", None, place.reason)

    def _write_line(self, place: Problem, key: Key | None, outcome: Outcome, match: Match | None, reason: str | None) -> None:
        found = (None, None, None) if match is None else (as_json_value(match.key), match.similarity, match.distance)
        line = {
            "key": as_json_value(key),
            "outcome": outcome,
            **dict(zip(("match", "similarity", "distance"), found, strict=True)),
            "reason": reason,
            "file": place.file,
            "line": place.line,
        }
        self._told.append(json_line(line) + "\n")


def outcome_file(path: Path, force: bool, index_path: Path, inputs: Iterable[Path]) -> OutcomeFile:
    if path == STDOUT or is_stream(path):
        raise ParameterError(f"--outcomes {path}: outcomes are written when they are committed; name a file")
    if real_path(path) == real_path(index_path):
        raise ParameterError(f"{path} is the index itself; name another file for the outcomes")
    check_output(path, force, inputs)
    check_kind(path, folder=False)
    if format_of(path) not in (None, "jsonl"):
        raise ParameterError(f"{path}: outcomes are written as JSON lines; name a .jsonl file")
    return OutcomeFile(path)
