"""`neardup watch`: passes on the new records of a stream, one by one, each line when it is complete."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import click

from .. import limits
from ..errors import ParameterError
from ..index import Index
from ..values import MOST_PROBLEMS, Key
from . import common, indexes
from .app import handled_signals
from .inputs.edits import AddFields, adding_fields, require_fields
from .inputs.encodings import BOM, UTF8, Converter
from .inputs.files import STDIN, FileError, Inputs, NamedFile
from .inputs.records import RecordSource
from .inputs.source import InputRecord, ReadOptions, RecordError
from .output import add_afterword, as_json_value, count_text, emit_json, print_note
from .outputs import scratch_folder
from .wording import in_command_terms

MARKS = ("duplicate_of", "similarity")  # the fields that --mark adds


@dataclass
class Counts:
    """passed_on: new; duplicates: of a record in the window; known: with an id in the window."""

    records: int = 0
    passed_on: int = 0
    duplicates: int = 0
    known: int = 0


@common.command(has_json=False)
@click.argument("index_path", metavar="[INDEX]", required=False, type=common.path)
@click.option("--window", help="Search among the records of this time (90s, 12h, 7d), or among this many of the latest.")
@click.option("--mark", is_flag=True, help="Pass on all records with two added fields: duplicate_of (an id) and similarity.")
@common.name_option
@common.scheme_options
@common.text_options
@common.id_type_option
@click.option("--source", "source_name", help="Name of the stream in the keys of records without an id.  [default: the time]")
@common.stream_options
@common.json_option
def watch(index_path: Path | None, window: str | None, mark: bool, name: str, as_json: bool, **options: Any) -> None:
    """Each line of standard input that has no near-duplicate in the window is copied unchanged to standard output as soon as it
    arrives. Other lines are dropped, or marked with --mark. If the first line begins with a brace, the format is JSON lines,
    otherwise lines of text, unless --format is given. An invalid line is reported on standard error and skipped.

    INDEX stores the records passed on, each before it is written to standard output, so that the next run continues the window;
    without INDEX the window is temporary. A new INDEX needs --window; an existing INDEX has its own. Only records that were
    passed on are in the window, so its size is bounded. A record whose id is in the window counts as a duplicate, whatever its
    text.

    SIGTERM, SIGINT (Ctrl-C) and the end of the input end the command, which prints its counts on standard error; with --json as
    JSON.

    \b
    tail -F posts.jsonl | neardup watch --window 24h >> unique.jsonl
    neardup watch seen.db --window 1000000 < posts.jsonl > unique.jsonl
    kafkacat -C -t posts | neardup watch seen.db --window 7d --mark | moderate
    """
    started = time.monotonic()
    given = None if window is None else common.parse_window(window)
    if given is None and (index_path is None or indexes.is_new(index_path)):
        raise click.UsageError("A new index needs --window: a time, as 24h, or a number of records, as 1000000")
    scheme, rules = common.scheme_of(options), common.text_rules(options)
    key = " ".join(filter(None, (options["source_name"], datetime.now(timezone.utc).isoformat(timespec="milliseconds"))))
    reading = common.read_options(options, on_error="skip")
    with contextlib.ExitStack() as stack:
        known: dict[str, Any] = {}
        if index_path is None:
            index_path = stack.enter_context(scratch_folder()) / "window.db"
            known = {"durability": "normal", "record_matches": False}
        index = stack.enter_context(indexes.open_or_create(index_path, scheme, text=rules, name=name, window=given, **known))
        if not index.scheme.takes_text:
            raise ParameterError("the index is one of codes: watch one of texts, or add the codes by neardup add")
        index.delete_many([])  # raises an error if the index follows a table
        if index.window is None:
            raise ParameterError(
                "the index has no window, and would keep all that is passed on: give it one with neardup window, as in neardup "
                f"window {index_path} 24h"
            )
        passing = Passing(index, mark)
        arrivals = stack.enter_context(contextlib.closing(Arrivals(sys.stdin.fileno(), passing.end, reading.encoding)))

        def stop(number: int, before: dict[int, Any]) -> None:
            """The first signal ends the stream; the second has its usual effect."""
            arrivals.stop()
            for other, handler in before.items():
                signal.signal(other, handler)

        stack.enter_context(handled_signals(_ENDING, stop, lambda handler: handler != signal.SIG_IGN))
        source = StreamSource(arrivals, reading, key)
        source.on_left_out = lambda problem: print_note(f"{problem}; skipped") if source.skipped <= MOST_PROBLEMS else None
        passing.run(source)
    _report(passing.counts, source, time.monotonic() - started, as_json)


class Passing:
    """Records that have arrived together form a transaction and are passed on after the commit."""

    def __init__(self, index: Index, mark: bool) -> None:
        self.counts = Counts()
        self._index, self._mark = index, mark
        self._arrived: list[InputRecord] = []
        self._add: AddFields | None = None

    def run(self, source: StreamSource) -> None:
        if self._mark:
            require_fields(source)
        self._output = sys.stdout.buffer
        self._source = source
        for record in source:
            self._arrived.append(record)
            if len(self._arrived) >= limits.WATCHED_TOGETHER:
                self.end()
        self.end()
        if source.header and not self.counts.records:
            self._begin()
            self._output.flush()

    def end(self) -> None:
        arrived, self._arrived = self._arrived, []
        if not arrived:
            return
        if not self.counts.records:
            self._begin()
        self.counts.records += len(arrived)
        with self._index.transaction():
            offered = [(record, *found) for record in arrived if (found := self._offer(record)) is not None]
        stored = sum(key is None for _, key, _ in offered)
        self.counts.passed_on += stored
        try:
            for record, key, similarity in offered:
                if key is None or self._mark:
                    marks = dict(zip(MARKS, (as_json_value(key), similarity), strict=True))
                    line = record.raw if self._add is None else self._add(record.raw, marks)
                    self._output.write(line if line.endswith(b"\n") else line + b"\n")
            self._output.flush()
        except OSError as error:
            add_afterword(error, f"up to {count_text(stored, 'new record')} were stored and not passed on")
            raise

    def _offer(self, record: InputRecord) -> tuple[Key | None, float | None] | None:
        """The key and similarity of the record that it duplicates, (None, None) for a new record, None for a skipped one."""
        try:
            if self._add is not None:  # before it is stored
                self._add(record.raw, dict.fromkeys(MARKS))
            if record.key in self._index:
                self.counts.known += 1
                return record.key, None
            found = self._index.add_if_new(record.key, record.text, limit=1, on_match="touch")
        except ValueError as error:
            self._source.skip_record(RecordError(self._source.problem(record, in_command_terms(str(error)))))
            return None
        self.counts.duplicates += bool(found)
        return (found[0].key, found[0].similarity) if found else (None, None)

    def _begin(self) -> None:
        header = self._source.header
        if self._mark:
            header, self._add = adding_fields(self._source, MARKS)
        self._output.write(header)


def _report(counts: Counts, source: StreamSource, seconds: float, as_json: bool) -> None:
    if source.replaced:
        print_note(f"{source.name}: {count_text(source.replaced, 'line')} with invalid UTF-8, read as U+FFFD")
    if as_json:
        found = {**asdict(counts), "skipped": source.skipped, "problems": source.problems, "seconds": seconds}
        emit_json(as_json_value(found), err=True)
        return
    parts = [count_text(counts.duplicates, "near-duplicate")]
    parts += [f"{counts.known:,} of a known id"] * (counts.known > 0) + [f"{source.skipped:,} skipped"] * (source.skipped > 0)
    print_note(f"{count_text(counts.records, 'record')} in {seconds:.1f} s: {counts.passed_on:,} new, {', '.join(parts)}")


_FIRST_LINE = 1 << 16  # bytes of the first line inspected to detect the format

_FORMATS = ("jsonl", "csv", "tsv", "lines")

_READ_BYTES, _READ_AHEAD = 1 << 16, 4  # the size of a read, and the reads that the thread may be ahead of the consumer
_LOOK_AGAIN_S = 0.1  # the longest wait in seconds before signal handlers run: on Windows a signal does not interrupt a wait

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
        self._seen = 0  # the length of the buffered prefix without a line end
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


class StreamSource(RecordSource):
    """The records of standard input, which can be read once. Without a format, a first line that starts with a brace selects JSON
    lines, otherwise lines of text."""

    def __init__(self, arrivals: Arrivals, options: ReadOptions, key: str) -> None:
        if options.format is not None and options.format not in _FORMATS:
            raise FileError(f"standard input: {options.format} cannot be read as a stream: give --format {'|'.join(_FORMATS)}")
        self._arrivals = arrivals
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
