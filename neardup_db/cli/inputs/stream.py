"""Standard input as a stream: each line is returned when it is complete."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from .encodings import BOM, UTF8, Converter
from .files import STDIN, InputError, Inputs, NamedFile
from .lines import Problem
from .records import RecordSource
from .source import InputRecord, ReadOptions
from .waiting import Waiting

_FIRST_LINE = 1 << 16
"""Bytes of the first line inspected to detect the format."""

FORMATS = ("jsonl", "csv", "tsv", "lines")
"""The formats of a stream."""

_ENDING = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")


class Arrivals:
    """UTF-8 lines of a file descriptor. `before_waiting` is called after all data received so far was returned. `stop`, which
    signal handlers may call, ends the stream after the complete lines read so far."""

    name = "standard input"

    def __init__(self, descriptor: int, before_waiting: Callable[[], None], encoding: str = UTF8) -> None:
        self._waiting = Waiting(descriptor)
        self._before_waiting = before_waiting
        self._converter = None if encoding == UTF8 else Converter(encoding, self.name)
        self._held = bytearray()
        self._seen = 0
        """The length of the buffered prefix without a line end."""
        self._ended = self._stopped = False

    def close(self) -> None:
        self._waiting.close()

    def stop(self) -> None:
        self._stopped = True
        self._waiting.wake()

    def readline(self, limit: int) -> bytes:
        """A line cut by `stop` is dropped."""
        while True:
            end = self._held.find(b"\n", self._seen) + 1
            if end or len(self._held) >= limit:
                return self._pop_bytes(min(end or limit, limit))
            if self._ended:  # a handler may run after the end for an earlier signal
                return b"" if self._stopped else self._pop_bytes(len(self._held))
            self._seen = len(self._held)
            if not self._waiting.is_ready(wait=False):
                self._before_waiting()
                self._waiting.is_ready(wait=True)
            if self._stopped:
                return b""
            arrived = self._waiting.read()
            self._held += arrived if self._converter is None else self._converter.convert(arrived)
            self._ended = not arrived

    def head(self, most: int) -> bytes:
        self._held[:0] = self.readline(most)
        return bytes(self._held[:most])

    def _pop_bytes(self, size: int) -> bytes:
        self._seen = 0
        taken = bytes(self._held[:size])
        del self._held[:size]
        return taken


@contextlib.contextmanager
def stopped_by_signals(arrivals: Arrivals) -> Iterator[None]:
    """Within the block, the first termination signal stops the stream; the second has its default effect."""
    names = _ENDING if threading.current_thread() is threading.main_thread() else ()
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    before = {number: signal.getsignal(number) for number in numbers}
    before = {number: handler for number, handler in before.items() if handler != signal.SIG_IGN}

    def stop(number: int, frame: object) -> None:
        arrivals.stop()
        for other, handler in before.items():
            signal.signal(other, handler)

    for number in before:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class StreamSource(RecordSource):
    """The records of standard input, which can be read once. `report` is called with each skipped record, up to MOST_PROBLEMS.
    Without a format, a first line that starts with a brace selects JSON lines, otherwise lines of text."""

    def __init__(self, arrivals: Arrivals, options: ReadOptions, key: str, report: Callable[[Problem], None]) -> None:
        if options.format is not None and options.format not in FORMATS:
            raise InputError(f"standard input: {options.format} cannot be read as a stream: give --format {'|'.join(FORMATS)}")
        self._arrivals, self._report = arrivals, report
        format_ = options.format or _format_of(arrivals)
        super().__init__(Inputs(arrivals.name, format_, []), options)
        self._named = {STDIN: NamedFile(STDIN, arrivals.name, Path("stdin"), STDIN, key)}
        self._file, self._called, self._key_name = STDIN, arrivals.name, key

    def __iter__(self) -> Iterator[InputRecord]:
        self._require_text(self._arrivals)
        return self._records_of(self._arrivals)

    def add_problem(self, problem: Problem) -> None:
        count = len(self.problems)
        super().add_problem(problem)
        if len(self.problems) > count:
            self._report(problem)


def _format_of(arrivals: Arrivals) -> str:
    return "jsonl" if arrivals.head(_FIRST_LINE).removeprefix(BOM).lstrip(b" \t").startswith(b"{") else "lines"
