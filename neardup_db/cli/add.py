"""`neardup add`, with the file of --outcomes."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import IO, Any

import click

from ..errors import ParameterError
from ..index import Index
from ..parameters import check_expiry
from ..store.ingest.outcomes import Outcome
from ..system import real_path
from ..values import AddReport, Key, Match, Skipped
from . import common, indexes
from .common import Results
from .feed import feed
from .inputs.files import STDOUT, is_stream
from .inputs.opening import open_source, paths_named
from .inputs.records import format_of
from .inputs.source import InputRecord, Problem, Source
from .output import add_afterword, as_json_value, count_text, json_line, note_problems, without_words
from .outputs import check_apart, check_output, scratch_folder, written
from .progress import Meter
from .wording import in_command_terms, told_as


@common.command()
@common.index_argument
@common.sources_argument
@common.scheme_options
@common.text_options
@common.new_index_options
@click.option("--metadata", is_flag=True, help="Keep the other fields of each record as its metadata.")
@click.option("--group", help="Group of the new documents; documents match within their group only.")
@click.option("--expires-in", help="Documents expire after this time: 12h, 30d, 2w.")
@common.id_type_option
@common.if_exists_option("a record whose id is in the index")
@click.option("--only-new", is_flag=True, help="Skip records that have a near-duplicate in the index.")
@click.option("--source", "source_name", help="Name of IN in the keys of records without an id.  [default: its own name]")
@click.option("--commit-every", type=common.Count(1), default=20_000, help="Most records in a transaction.")
@click.option("--one-transaction", is_flag=True, help="Add all records or none.")
@click.option("--outcomes", type=common.place, metavar="FILE", help="Write each record's outcome to this new JSON lines file.")
@click.option("--force", is_flag=True, help="Replace the file of --outcomes if it exists.")
@common.input_options
@common.name_option
def add(index_path: Path, sources: tuple[Path, ...], name: str, **options: Any) -> Results:
    """INDEX is created if it does not exist. IN are files of JSON lines, CSV, TSV or lines of text (.txt), compressed (.gz, .zst)
    or not, Parquet or Arrow files, folders of such files or of texts, and patterns ('2025-*/*.jsonl'), all of one format; or -
    for standard input (with --format). A new index stores the scheme and the text rules; later calls must name the same or none.
    For --scheme binarycode the text is a code in hexadecimal.

    A record without an id has its file and line as key (posts.jsonl:17), a text in a folder its path, as given if files of
    several IN share a name. Adding a file twice, or another of the same name, is an error unless --source gives it another name.
    After an error or Ctrl-C, repeat the command with --if-exists ignore.

    --outcomes FILE (.gz, .zst: compressed) has a line for each record, in order: key, outcome (added, replaced, ignored,
    duplicate, skipped), match, similarity, distance, reason (of a skipped record), file, line. The match is the one that made it
    a duplicate, else the best. After an error the file has the committed records.

    \b
    neardup add articles.db articles.jsonl
    neardup add articles.db more.csv --text-field body --id-field url --if-exists replace --metadata
    neardup add names.db names.csv --tokens chars --shingle 3 --threshold 0.7 --store-text
    neardup add crawl.db 2025/part-0.jsonl --source 2025/part-0
    neardup add crawl.db monday.jsonl --only-new --outcomes monday.outcomes.jsonl
    neardup add crawl.db shards --glob '*.jsonl.gz' --on-error skip --commit-every 10000
    """
    started, scheme, rules = time.monotonic(), common.scheme_of(options), common.text_rules(options)
    reading, known = common.read_options(options), indexes.new_index_settings(options)
    with told_as(ttl="--expires-in"):
        given = options["expires_in"]
        expiry = check_expiry(None, common.parse_duration("--expires-in", given) if given else None)
    path = options["outcomes"]
    if path is not None:
        _check_outcomes(path, options["force"], index_path, paths_named(sources))
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(scratch_folder())
        source = open_source(sources, replace(reading, other_fields=None if options["metadata"] else ()), folder)
        if path is not None:
            check_apart(path, source.files)
        index = stack.enter_context(indexes.open_or_create(index_path, scheme, text=rules, name=name, **known))
        meter = stack.enter_context(Meter("Add", source.size_bytes))
        outcomes = None if path is None else stack.enter_context(OutcomeFile(path).writing())
        report, wordless = _add(index, source, meter, options, expiry, outcomes)
        nothing = without_words(index.text_rules, index.scheme)
    seconds, skipped = time.monotonic() - started, report.skipped + source.skipped
    rate, records = meter.records / max(seconds, 1e-9), meter.records + source.skipped
    note_problems(source.name, source.replaced, skipped, source.problems)
    counts = {**asdict(report), "skipped": skipped, "without_words": wordless, "problems": source.problems}
    value = {"records": records, **counts, "seconds": seconds, "records_per_second": rate}
    yield value, _lines(report, records, skipped, wordless, nothing, f"{seconds:.1f} s, {rate:,.0f} records/s")


def _add(
    index: Index, source: Source, meter: Meter, options: dict[str, Any], expiry: int | None, outcomes: OutcomeFile | None
) -> tuple[AddReport, int]:
    """Returns the report, and the number of new documents without tokens."""
    same = {"group": options["group"], "expires_at": expiry and expiry / 1000}
    same = {name: value for name, value in same.items() if value is not None}
    if not index.scheme.takes_text and (same or options["metadata"]):
        raise click.UsageError("--group, --expires-in and --metadata require an index of texts, not of codes")

    def arguments(record: InputRecord) -> dict[str, Any]:
        metadata = {"metadata": record.fields} if options["metadata"] and record.fields else {}
        return {"key": record.key, "text": record.text, **same, **metadata}

    choices: dict[str, Any] = {name: options[name] for name in ("if_exists", "only_new", "commit_every")}
    choices["on_error"] = source.options.on_error
    if outcomes is not None:
        choices["records"], choices["on_outcome"] = outcomes.reading(source), outcomes.record_outcome
    newest = index.connection.execute(f"SELECT coalesce(max(id), 0) FROM {index.name}_document").get
    ended: list[int] = []

    def committed(records: int) -> None:
        ended.append(records)
        if outcomes is not None:
            outcomes.write(0 if options["one_transaction"] else records)

    try:
        with index.transaction() if options["one_transaction"] else contextlib.nullcontext():
            report = feed(index, source, meter, arguments, committed=committed, **choices)
    except BaseException as error:
        if options["one_transaction"] or not sum(ended):
            add_afterword(error, "nothing was added")
        else:
            are = f"{count_text(sum(ended), 'record')} {'is' if sum(ended) == 1 else 'are'} committed"
            again = " with --if-exists ignore" if options["if_exists"] == "error" else " again"
            add_afterword(error, f"{are}, and the same command{again} goes on")
        raise
    wordless = f"SELECT count(*) FROM {index.name}_document WHERE id > ? AND fingerprint_id IS NULL"
    return report, index.connection.execute(wordless, (newest,)).get


def _lines(report: AddReport, records: int, skipped: int, wordless: int, nothing: str, speed: str) -> Iterator[str]:
    counts = {"added": report.added, "replaced": report.replaced, "ignored": report.ignored, "skipped": skipped}
    shown = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count) or "nothing added"
    yield f"{count_text(records, 'record')}: {shown}; {report.matched:,} with a near-duplicate among the earlier ones"
    if wordless:
        yield f"{count_text(wordless, 'document')} {nothing}: they match nothing, not even each other"
    yield speed


_OUTCOME = ("key", "outcome", "match", "similarity", "distance", "reason", "file", "line")


class OutcomeFile:
    """Records each outcome as it happens and writes the outcomes of committed records. A record that could not be read has a line
    in its input position, too."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read: deque[Problem] = deque()  # record places in reading order; a place without a reason was read
        self._told: list[str] = []  # lines not yet written
        self._file: IO[bytes]
        self._committed = 0
        self._is_incomplete = False  # writing failed, so committed records are missing from the file

    @contextlib.contextmanager
    def writing(self) -> Iterator[OutcomeFile]:
        """After an error the file holds the committed records, if any."""
        error: BaseException | None = None
        try:
            with written(self._path) as self._file:
                try:
                    yield self
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
        other, *score = (None, None, None) if match is None else (match.key, match.similarity, match.distance)
        values = (as_json_value(key), outcome, as_json_value(other), *score, reason, place.file, place.line)
        self._told.append(json_line(dict(zip(_OUTCOME, values, strict=True))) + "\n")


def _check_outcomes(path: Path, force: bool, index_path: Path, inputs: Iterable[Path]) -> None:
    if path == STDOUT or is_stream(path):
        raise ParameterError(f"--outcomes {path}: outcomes are written when they are committed; name a file")
    if real_path(path) == real_path(index_path):
        raise ParameterError(f"{path} is the index itself; name another file for the outcomes")
    check_output(path, force, inputs)
    if format_of(path) not in (None, "jsonl"):
        raise ParameterError(f"{path}: outcomes are written as JSON lines; name a .jsonl file")
