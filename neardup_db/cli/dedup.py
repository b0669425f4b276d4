"""`neardup dedup`: a file without its near-duplicates.

Three passes over the input. The first computes the buckets of every text and notes where the record stands. Only the texts that
share a bucket with another one can have a near-duplicate: the second pass reads those again and adds them to a temporary index
under their running numbers, which verifies each match by the true Jaccard similarity. One record of each of its clusters is
chosen, and the third pass copies the bytes of all records but the others of a cluster. `--index` wants all records in an index,
so there one pass takes the place of the first two.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import os
import tempfile
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import apsw
import click

from .. import limits
from ..arrays import np
from ..errors import DiskFullError, ParameterError, ShortTextsWarning
from ..index import Index
from ..native import trim_memory
from ..schemes import MinHash
from ..store.database.open import open_scratch
from ..text import TextRules
from ..values import Cluster
from .buckets import Buckets
from .command import command
from .feed import feed, warnings_as_notes
from .inputs.files import STDOUT, is_stream, packing_of
from .inputs.lines import Problem
from .inputs.opening import open_source, passes_of, paths_named
from .inputs.passes import Passes
from .inputs.records import ChangedError, InputRecord, format_of
from .inputs.source import Source
from .inputs.table_files import TABLE_FORMATS
from .options import NumberRange, input_options, json_option, read_options, text_options, text_rules
from .output import add_afterword, bytes_text, counted, emit, emit_json, json_line, leave_stdout, note, note_problems, plain
from .outputs import ANOTHER_OUTPUT, check_apart, check_kind, check_output, open_output, replacing, room_in
from .screen import Meter


@dataclass(frozen=True, slots=True)
class Plan:
    """The arguments of `deduplicate`. One of the outputs may be - for standard output; `folder` holds the temporary files."""

    passes: Passes
    output: Path
    folder: Path
    threshold: float = 0.8
    recall: float = 0.99
    rules: TextRules | None = None
    keep: str = "first"
    drop_empty: bool = False
    pairs: Path | None = None
    clusters: Path | None = None
    index: Path | None = None

    @property
    def outputs(self) -> list[Path]:
        """All of them. The records come last, so that they are in place only if the others are."""
        return [path for path in (self.pairs, self.clusters, self.index, self.output) if path is not None]

    @property
    def names_wanted(self) -> bool:
        """True where records are named by their ids, so that the index must know them."""
        return any(path is not None for path in (self.pairs, self.clusters, self.index))


@dataclass(slots=True)
class Summary:
    """Counts and speed of one run. Bytes are those of the records, unpacked; MB are 10^6 bytes."""

    records: int = 0
    kept: int = 0
    duplicates: int = 0
    empty: int = 0
    empty_dropped: int = 0
    clusters: int = 0
    largest_cluster: int = 0
    skipped: int = 0
    invalid_utf8: int = 0
    input_bytes: int = 0
    problems: list[Problem] = field(default_factory=list)
    seconds: float = 0.0
    records_per_second: float = 0.0
    mb_per_second: float = 0.0


def deduplicate(plan: Plan) -> Summary:
    """Carries out the plan. Outputs are put in place after every step has succeeded, but for those that are streams."""
    started = time.monotonic()
    summary = Summary()
    with _told_what_was_written() as begun, replacing(*plan.outputs) as new, contextlib.ExitStack() as stack:
        places = dict(zip(plan.outputs, new, strict=True))
        records = Records(plan)
        stack.callback(plan.passes.close)
        index = stack.enter_context(_compared(records, summary) if plan.index is None else _filed(records, places, summary))
        found = index.clusters()
        removed = _choose(records, found, summary)
        with _writing(plan, plan.output, begun), Meter("Write", plan.passes.source.size_bytes) as meter:
            plan.passes.write(~removed, places[plan.output], plan.output, meter)
        if plan.pairs is not None:
            with _writing(plan, plan.pairs, begun):
                _write_pairs(index, places[plan.pairs], plan.pairs)
        if plan.clusters is not None:
            with _writing(plan, plan.clusters, begun):
                _write_clusters(index, found, places[plan.clusters], plan.clusters, removed)
        plan.passes.source.require_unchanged()
    summary.seconds = time.monotonic() - started
    summary.records_per_second = summary.records / max(summary.seconds, 1e-9)
    summary.mb_per_second = summary.input_bytes / 1e6 / max(summary.seconds, 1e-9)
    return summary


@contextlib.contextmanager
def _told_what_was_written() -> Iterator[list[Path]]:
    """A list for the outputs that the block begins to write. An error says which of them has a part of its content: a stream
    cannot be taken back."""
    begun: list[Path] = []
    try:
        yield begun
    except BaseException as error:
        streams = ["standard output" if path == STDOUT else str(path) for path in begun if path == STDOUT or is_stream(path)]
        if streams:
            add_afterword(error, f"{' and '.join(streams)} may have a part of the output already: do not use it")
        elif isinstance(error, ChangedError):
            add_afterword(error, "nothing was written")
        raise


@contextlib.contextmanager
def _writing(plan: Plan, path: Path, begun: list[Path]) -> Iterator[None]:
    """The block writes an output. If the reader of a pipe has left, as `| head` does, the other outputs are still written."""
    begun.append(path)
    place = "standard output" if path == STDOUT else path.absolute().parent
    try:
        with room_in(place, ANOTHER_OUTPUT):
            yield
    except BrokenPipeError:
        if len(plan.outputs) == 1:
            raise
        if path == STDOUT:
            leave_stdout()


class Records:
    """What is known of the records of the input: which have no word and, if the longest of a cluster is kept, the lengths of
    the texts that are in the index, in characters."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.scheme = MinHash(threshold=plan.threshold, recall=plan.recall, exact=True)
        self.rules = TextRules() if plan.rules is None else plan.rules
        self.lengths: dict[int, int] = {}
        self.wordless: list[int] = []

    def arguments(self, record: InputRecord) -> dict[str, Any]:
        """What an index is to know of a record that is named by its id."""
        self.note(record)
        return {"key": record.number, "text": record.text, "metadata": {"id": record.key, "line": record.line}}

    def note(self, record: InputRecord) -> None:
        """Takes what the choice of the record that stays needs."""
        if self.plan.keep == "longest":
            self.lengths[record.number] = len(record.text)


@contextlib.contextmanager
def _compared(records: Records, summary: Summary) -> Iterator[Index]:
    """A temporary index of the records that may have a near-duplicate."""
    shared = _first_pass(records, summary)
    trim_memory()
    connection = open_scratch(str(records.plan.folder / "index.db"))
    try:
        with Index(connection, records.scheme, text=records.rules, record_matches=False) as index:
            with Meter("Verify", records.plan.passes.source.size_bytes) as meter, warnings.catch_warnings():
                warnings.simplefilter("ignore", ShortTextsWarning)  # these texts are not all of them
                index.add_many(_candidates(records, shared, meter))
            trim_memory()
            yield index
    finally:
        connection.close()


def _first_pass(records: Records, summary: Summary) -> Any:
    """Of each record whether its text shares a bucket with another one: bool[n]."""
    with contextlib.closing(Buckets(records.scheme, records.rules, records.plan.folder)) as buckets:
        _fill(buckets, records, summary)
        records.wordless = buckets.wordless
        warning = buckets.token_counts.warning(records.rules.shingle)
        if warning is not None:
            warnings.warn(warning, ShortTextsWarning, stacklevel=1)
        return buckets.shared()


def _fill(buckets: Buckets, records: Records, summary: Summary) -> None:
    """Reads all records. A second thread computes the buckets of one piece while the next is read."""
    source = records.plan.passes.source
    with Meter("Compare", source.size_bytes) as meter, ThreadPoolExecutor(1) as thread:
        waiting: deque[Future[None]] = deque()
        for piece in records.plan.passes.pieces():
            waiting.append(thread.submit(buckets.add, piece.texts))
            meter.record_bytes += piece.size_bytes
            meter.advance(source.position, len(piece.texts))
            if len(waiting) > limits.PIECES_WAITING:
                waiting.popleft().result()
        for future in waiting:
            future.result()
    _count(summary, source, meter)


def _candidates(records: Records, shared: Any, meter: Meter) -> Iterator[Any]:
    """The records that share a bucket, as `Index.add_many` takes them."""
    passes = records.plan.passes
    for record in passes.chosen(shared):
        meter.advance(passes.source.position)
        if records.plan.names_wanted:
            yield records.arguments(record)
        else:
            records.note(record)
            yield record.number, record.text


@contextlib.contextmanager
def _filed(records: Records, places: Mapping[Path, Path], summary: Summary) -> Iterator[Index]:
    """The index of all records that is to stay; `places` are the temporary paths of the outputs."""

    def arguments(record: InputRecord) -> dict[str, Any]:
        passes.note(record)
        return records.arguments(record)

    passes, target = records.plan.passes, cast(Path, records.plan.index)
    source = passes.source
    path = places[target]
    path.touch()  # with the mode of any new file
    full = room_in(target.absolute().parent, ANOTHER_OUTPUT, OF_DATABASE)
    with full, Index(path, records.scheme, text=records.rules, durability="normal") as index:
        with Meter("Compare", source.size_bytes) as meter:
            feed(index, source, meter, arguments, commit_every=limits.DEDUP_COMMIT_EVERY)
        _count(summary, source, meter)
        wordless = index.connection.execute("SELECT key FROM neardup_documents WHERE token_count = 0")
        records.wordless = [number - 1 for (number,) in wordless]
        yield index


def _count(summary: Summary, source: Source, meter: Meter) -> None:
    summary.records, summary.input_bytes = meter.records, meter.record_bytes
    summary.skipped, summary.problems, summary.invalid_utf8 = source.skipped, source.problems, source.replaced


def _choose(records: Records, clusters: Sequence[Cluster], summary: Summary) -> Any:
    """Chooses a record of each cluster. Returns which ones are removed, bool[n]; the number of a record is its place + 1."""
    removed = np.zeros(summary.records, bool)
    lengths = records.lengths
    for cluster in clusters:
        numbers = sorted(int(key) for key in cluster.keys)
        kept = numbers[0] if not lengths else max(numbers, key=lambda number: (lengths[number], -number))
        for number in numbers:
            removed[number - 1] = number != kept
        summary.clusters += 1
        summary.largest_cluster = max(summary.largest_cluster, len(numbers))
        summary.duplicates += len(numbers) - 1
    summary.empty = len(records.wordless)
    if records.plan.drop_empty:
        removed[records.wordless] = True
        summary.empty_dropped = summary.empty
    summary.kept = summary.records - int(removed.sum())
    return removed


# ---- the outputs -------------------------------------------------------------------------------------------------------


def _names(index: Index, number: int) -> tuple[Any, int]:
    """Id and line of a record."""
    metadata = index.get(number).metadata
    return metadata["id"], metadata["line"]


@contextlib.contextmanager
def _table_writer(path: Path, target: Path) -> Iterator[Callable[[dict[str, Any]], None]]:
    """A function that writes one row, as JSON lines or as CSV or TSV with a header, by the target's name."""
    kind = format_of(target)
    with open_output(path, packing_of(target)) as raw:
        file = codecs.getwriter("utf-8")(raw)  # which does not close it: standard output stays open
        writer = csv.writer(file, delimiter="\t" if kind == "tsv" else ",", lineterminator="\n")
        header_due = True

        def write(row: dict[str, Any]) -> None:
            nonlocal header_due
            if kind in (None, "jsonl"):
                file.write(json_line(row) + "\n")
                return
            if header_due:
                writer.writerow(row)
                header_due = False
            writer.writerow(row.values())

        yield write


def _write_pairs(index: Index, path: Path, target: Path | None) -> None:
    with _table_writer(path, target or path) as write:
        for pair in index.pairs():
            id_a, line_a = _names(index, int(pair.key_a))
            id_b, line_b = _names(index, int(pair.key_b))
            write({"id_a": id_a, "id_b": id_b, "similarity": pair.similarity, "line_a": line_a, "line_b": line_b})


def _write_clusters(index: Index, clusters: Sequence[Cluster], path: Path, target: Path | None, removed: Any) -> None:
    with _table_writer(path, target or path) as write:
        for number, cluster in enumerate(clusters, 1):
            for key in cluster.keys:
                name, line = _names(index, int(key))
                write({"cluster": number, "id": name, "kept": int(not removed[int(key) - 1]), "line": line})


# ---- the command -------------------------------------------------------------------------------------------------------

OF_DATABASE = (DiskFullError, apsw.FullError)
"""Errors of an index for whose file there is no room."""

_path = click.Path(path_type=Path)
_place = click.Path(path_type=Path, allow_dash=True)
_folder = click.Path(path_type=Path, exists=True, file_okay=False)
_above_0 = NumberRange(0, 1, min_open=True)
_between = NumberRange(0, 1, min_open=True, max_open=True)


@command()
@click.argument("sources", metavar="IN...", nargs=-1, required=True, type=_place)
@click.option("-o", "--output", required=True, type=_place, help="Write the remaining records here; - is standard output.")
@click.option("--threshold", type=_above_0, default=0.8, show_default=True, help="Least Jaccard similarity of near-duplicates.")
@click.option("--recall", type=_between, default=0.99, show_default=True, help="Share of the pairs at the threshold to find.")
@click.option("--keep", type=click.Choice(["first", "longest"]), default="first", show_default=True, help="Record to keep.")
@click.option("--drop-empty", is_flag=True, help="Leave out records without a word; by default all of them are kept.")
@click.option("--pairs", type=_place, help="Also write the pairs found (.jsonl, .csv or .tsv; - is standard output).")
@click.option("--clusters", type=_place, help="Also write the clusters found, one row for each member.")
@click.option("--index", "index_path", type=_path, help="Keep the index in this file; its keys are running numbers.")
@click.option("--tmp", type=_folder, help="Folder for temporary files.  [default: that of the output]")
@click.option("--force", is_flag=True, help="Replace outputs that exist.")
@text_options
@input_options
@json_option
def dedup(
    sources: tuple[Path, ...], output: Path, index_path: Path | None, tmp: Path | None, force: bool, as_json: bool, **options: Any
) -> None:
    """Copy the records of IN without near-duplicates.

    IN are files of JSON lines, CSV or TSV (.gz and .zst too), folders of such files, and patterns ('2025-*/*.jsonl'), all of one
    format: their records go into one file. Or IN is a folder of texts (the output is a folder), or - for standard input (with
    --format). Texts are near-duplicates if they share enough of
    their runs of three words; each pair found is verified by the exact similarity. One record of every cluster of
    near-duplicates stays. The bytes and the order of records do not change. Memory does not grow with the texts; the temporary
    index holds only the texts that may have a near-duplicate.

    \b
    neardup dedup posts.jsonl -o unique.jsonl
    neardup dedup posts.csv.gz -o unique.csv.gz --text-field body --keep longest --pairs pairs.csv
    neardup dedup shards --glob '*.jsonl.gz' -o unique.jsonl.gz
    zcat dump.gz | neardup dedup - --format jsonl -o -
    """
    rules, reading = text_rules(options), replace(read_options(options), one_header=True, typed_ids=True, other_fields=())
    paths = paths_named(sources)
    outputs = [path for path in (output, options["pairs"], options["clusters"], index_path) if path is not None]
    to_stdout = STDOUT in outputs
    if outputs.count(STDOUT) + as_json > 1:
        raise click.UsageError(
            "Only one of -o, --pairs, --clusters and --json can write to standard output; name a file for each of the others"
        )
    files = [path for path in outputs if path != STDOUT]
    for path in files:
        if [os.path.realpath(other) for other in files].count(os.path.realpath(path)) > 1:
            raise ParameterError(f"{path} is given for two outputs; name a file for each")
        check_output(path, force, paths)
        if path != output:
            check_kind(path, folder=False)
        if path in (options["pairs"], options["clusters"]) and format_of(path) in TABLE_FORMATS:
            raise ParameterError(f"{path}: pairs and clusters are written as JSON lines, CSV or TSV; name such a file")
    if index_path is not None:
        _check_index(index_path)
    beside = tmp or (Path.cwd() if output == STDOUT or is_stream(output) else output.absolute().parent)
    full = room_in(beside, "name a folder for temporary files on another one with --tmp", (OSError, *OF_DATABASE))
    with full, tempfile.TemporaryDirectory(prefix=".neardup-", dir=beside) as folder:
        opened = open_source(paths, reading, Path(folder))
        for path in files:
            check_apart(path, opened.files)
        _check_kinds(opened, paths, output)
        with warnings_as_notes():
            passes = passes_of(opened, Path(folder))
            summary = deduplicate(Plan(passes, output, Path(folder), rules=rules, index=index_path, **options))
    _report(summary, opened, as_json, to_stdout)


def _check_index(path: Path) -> None:
    """Refuses a stream, and a file with a log: SQLite would take that log for the log of the new index."""
    if path == STDOUT or is_stream(path):
        raise ParameterError(f"--index {path}: an index is a file; name one")
    for log in (Path(f"{path}-wal"), Path(f"{path}-journal")):
        if log.exists() and log.stat().st_size:
            raise ParameterError(f"{path} is in use, or was not closed ({log} exists): close it, or name another file")


def _check_kinds(source: Source, paths: Sequence[Path], output: Path) -> None:
    """Refuses an output whose name does not fit the input's format: records are copied as they are."""
    if source.format == "folder" and len(paths) > 1:
        raise ParameterError(f"{source.name}: a folder of texts goes with no other input, since the output is a copy of it")
    if source.format == "folder" and (output == STDOUT or is_stream(output)):
        raise ParameterError(f"a folder of texts cannot go to {output}; name an output folder")
    if output == STDOUT:
        return
    check_kind(output, folder=source.format == "folder")
    for folder in filter(Path.is_dir, paths):
        here, there = folder.resolve(), output.resolve()
        if here in there.parents or there in here.parents:
            raise ParameterError(f"{output} and {folder}: one is inside the other; name an output elsewhere")
    kind = format_of(output)
    if source.format in TABLE_FORMATS and packing_of(output) is not None:
        raise ParameterError(f"{output}: a table is compressed inside, as the input is; leave {output.suffix} out")
    if source.format == "folder" and kind is not None and not output.is_dir():
        raise ParameterError(f"{output}: the texts of {source.name} go into a folder, this names a {kind} file; name a folder")
    if source.format == "folder" or is_stream(output) or kind == source.format:
        return
    if len(paths) > 1 or paths[0].is_dir():
        raise ParameterError(f"{output}: the records of all files go into one, so its name must end in .{source.format}")
    if kind is not None:
        raise ParameterError(f"{output}: records are copied as they are, so its name must end in .{source.format}")


def _report(summary: Summary, source: Source, as_json: bool, to_stdout: bool) -> None:
    note_problems(source.name, summary.invalid_utf8, summary.skipped, summary.problems)
    if as_json:
        emit_json(plain(summary))
        return
    tell = note if to_stdout else emit
    tell(
        f"{counted(summary.records, 'record')}: {summary.kept:,} kept, {counted(summary.duplicates, 'near-duplicate')} removed"
        + (f", {summary.empty_dropped:,} empty dropped" if summary.empty_dropped else "")
        + (f", {summary.skipped:,} left out" if summary.skipped else "")
    )
    if summary.empty > summary.empty_dropped:
        kept = counted(summary.empty, "record")
        tell(f"{kept} without a word kept: they match nothing, not even each other. --drop-empty leaves them out")
    if summary.clusters:
        tell(f"{counted(summary.clusters, 'cluster')}, the largest of {counted(summary.largest_cluster, 'record')}")
    tell(
        f"{bytes_text(summary.input_bytes)} in {summary.seconds:.1f} s: "
        f"{summary.records_per_second:,.0f} records/s, {summary.mb_per_second:.1f} MB/s"
    )
