"""Standard input as a stream: each line is returned when it is complete."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from .encodings import BOM, UTF8, Converter
from .files import STDIN, FileError, Inputs, NamedFile
from .lines import Problem
from .records import RecordSource
from .source import InputRecord, ReadOptions

_FIRST_LINE = 1 << 16
"""Bytes of the first line inspected to detect the format."""

FORMATS = ("jsonl", "csv", "tsv", "lines")
"""The formats of a stream."""

_READ_BYTES, _READ_AHEAD = 1 << 16, 4
"""The size of a read, and the reads that the thread may be ahead of the consumer."""

_LOOK_AGAIN_S = 0.1
"""The longest wait in seconds before signal handlers run: on Windows a signal does not interrupt a wait."""

_ENDING = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")


class Arrivals:
    """UTF-8 lines of a file descriptor, which a thread reads, because `select` on Windows accepts only sockets.

    `before_waiting` is called after all received data was returned. `stop`, which signal handlers may call, ends the stream
    after the complete lines read so far.
    """

    name = "standard input"

    def __init__(self, descriptor: int, before_waiting: Callable[[], None], encoding: str = UTF8) -> None:
        self._arrived: queue.Queue[bytes | OSError] = queue.Queue(_READ_AHEAD)
        self._before_waiting = before_waiting
        self._converter = None if encoding == UTF8 else Converter(encoding, self.name)
        self._held = bytearray()
        self._seen = 0
        """The length of the buffered prefix without a line end."""
        self._ended = self._stopped = self._closed = False
        threading.Thread(target=self._fetch, args=(descriptor,), name="neardup-standard-input", daemon=True).start()

    def _fetch(self, descriptor: int) -> None:
        arrived: bytes | OSError = b" "
        while arrived and not self._closed and not isinstance(arrived, OSError):
            try:
                arrived = os.read(descriptor, _READ_BYTES)
            except OSError as error:
                arrived = error
            self._arrived.put(arrived)

    def close(self) -> None:
        """The descriptor stays open."""
        self._closed = True

    def stop(self) -> None:
        self._stopped = True

    def readline(self, limit: int) -> bytes:
        """A line cut by `stop` is dropped."""
        while True:
            end = self._held.find(b"\n", self._seen) + 1
            if end or len(self._held) >= limit:
                return self._pop_bytes(min(end or limit, limit))
            if self._ended:  # a handler may run after the end for an earlier signal
                return b"" if self._stopped else self._pop_bytes(len(self._held))
            self._seen = len(self._held)
            if self._arrived.empty():
                self._before_waiting()
            arrived = self._wait()
            if self._stopped:
                return b""
            self._held += arrived if self._converter is None else self._converter.convert(arrived)
            self._ended = not arrived

    def _wait(self) -> bytes:
        while not self._stopped:
            with contextlib.suppress(queue.Empty):
                arrived = self._arrived.get(timeout=_LOOK_AGAIN_S)
                if isinstance(arrived, OSError):
                    raise arrived
                return arrived
        return b""

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
            raise FileError(f"standard input: {options.format} cannot be read as a stream: give --format {'|'.join(FORMATS)}")
        self._arrivals, self._report = arrivals, report
        format_ = options.format
        if format_ is None:
            is_json = arrivals.head(_FIRST_LINE).removeprefix(BOM).lstrip(b" \t").startswith(b"{")
            format_ = "jsonl" if is_json else "lines"
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
