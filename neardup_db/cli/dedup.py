"""`neardup dedup`: copies an input without near-duplicates, or with marks."""

from __future__ import annotations

import codecs
import contextlib
import csv
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from ..arrays import np
from ..duplicates import Duplicates, duplicates_of, is_large
from ..index import Index
from ..parameters import Measure
from ..system import is_reader_gone
from ..text import TextRules
from . import common, indexes
from .choices import ADDED_FIELDS, KeepOption, check_fields, open_against
from .common import Results
from .comparing import Comparison
from .copies import RunCounts, copied, output_options
from .inputs.files import STDOUT, is_stream, packing_of
from .inputs.opening import paths_named
from .inputs.records import format_of
from .inputs.source import ChangedError, Marks
from .output import add_afterword, bytes_text, count_text, json_line, leave_stdout, note_problems, print_note, without_words
from .outputs import open_output, replacing, room_for
from .progress import Meter


@common.command()
@common.sources_argument
@output_options
@click.option("--threshold", type=common.above_0, default=0.8, help="Minimum Jaccard similarity of near-duplicates.")
@click.option("--recall", type=common.inside, default=0.99, help="Recall of pairs at the threshold.")
@click.option("--keep", type=KeepOption(), default="first", help="Which to keep; by:FIELD the largest, by:-FIELD the smallest.")
@click.option("--connected", is_flag=True, help="Keep one record of each connected component, even if others are unlike it.")
@click.option("--group-field", metavar="FIELD", help="Compare only records with equal values of this field.")
@click.option("--mark", is_flag=True, help="Write all records, with the fields cluster, duplicate_of (an id) and similarity.")
@click.option("--against", multiple=True, type=common.path, metavar="INDEX", help="First drop records that match in this index.")
@click.option("--against-name", default="neardup", help="Name of the index within the files of --against.")
@click.option("--measure", type=click.Choice(["containment"]), help="With --against: drop records contained in a document.")
@click.option("--drop-empty", is_flag=True, help="Drop records without a word; by default all are kept.")
@click.option("--pairs", type=common.place, help="Also write the pairs found (.jsonl, .csv or .tsv; - is standard output).")
@click.option("--clusters", type=common.place, help="Also write the clusters found, a row for each member.")
@common.text_options
@common.input_options
def dedup(
    sources: tuple[Path, ...], against: tuple[Path, ...], against_name: str, measure: Measure | None, **options: Any
) -> Results:
    """IN are files of JSON lines, CSV, TSV or lines of text (.txt), compressed (.gz, .zst) or not, Parquet or Arrow files,
    folders of such files, and patterns ('2025-*/*.jsonl'), all of one format; a folder of texts (the output is a folder); or -
    for standard input (with --format). The records go to one output file, or with -o FOLDER/ to a file for each input file.

    Texts are near-duplicates if they share enough three-word runs; each pair found is verified by its exact similarity. Every
    removed record is a near-duplicate of a kept one. The bytes and the order of records do not change. docs/how-to/dedup.md
    explains --keep, --mark, --connected and --against.

    \b
    neardup dedup posts.jsonl -o unique.jsonl
    neardup dedup posts.csv.gz -o unique.csv.gz --text-field body --keep longest --pairs pairs.csv
    neardup dedup shards --glob '*.jsonl.gz' -o unique.jsonl.gz
    neardup dedup shards -o unique/
    neardup dedup posts.csv -o marked.csv --mark --keep by:score
    neardup dedup train.jsonl -o clean.jsonl --against test.db
    zcat dump.gz | neardup dedup - --format jsonl -o -
    """
    rules, keep, mark = common.text_rules(options) or TextRules(), options["keep"], options["mark"]
    needed = {keep.field if keep.rule == "by" else None, options["group_field"]}
    other_fields = tuple(sorted(field for field in needed if field is not None))
    reading = common.read_options(options, one_header=True, typed_ids=True, other_fields=other_fields)
    if mark and options["drop_empty"]:
        raise click.UsageError("--mark writes all records and --drop-empty drops some; give one of them")
    if not against and (measure is not None or common.is_option_given("against_name")):
        raise click.UsageError("--measure and --against-name require --against")
    others = {"--pairs": options["pairs"], "--clusters": options["clusters"]}
    with copied(paths_named(sources), reading, options, others, against) as copy:
        source = copy.source
        check_fields(source, keep, options["group_field"], ADDED_FIELDS[: 3 + bool(against)] if mark else ())
        keys = copy.folder if mark else None
        with indexes.warnings_as_notes(), open_against(against, against_name, options["threshold"], measure, keys) as known:
            summary = Summary()
            plan = Comparison(copy, summary, rules, known=known, **options)
            deduplicate(plan, summary)
    _note_chains(summary, plan)
    note_problems(source.name, summary.invalid_utf8, summary.skipped, summary.problems)
    yield copy.result(summary, _lines(summary, plan, measure))


def _note_chains(summary: Summary, plan: Comparison) -> None:
    """Only --connected joins records unlike the kept one."""
    lowest = summary.largest_similarity
    if lowest is None or lowest >= plan.threshold or not is_large(summary.largest_cluster, summary.records):
        return
    print_note(
        f"chains of near-duplicates connect {summary.largest_cluster:,} of {summary.records:,} records, with a similarity to the "
        f"one that stays down to {lowest:.2f}: leave out --connected, or give a higher --threshold"
    )


def _lines(summary: Summary, plan: Comparison, measure: Measure | None) -> Iterator[str]:
    stays, goes = ("without a mark", "marked") if plan.mark else ("kept", "removed")
    known = "contained in a document" if measure is not None else "like a document"
    yield (
        f"{count_text(summary.records, 'record')}: {summary.kept:,} {stays}, "
        + f"{count_text(summary.duplicates, 'near-duplicate')} {goes}"
        + (f", {summary.known:,} {known} of --against {goes}" if plan.known is not None else "")
        + (f", {summary.empty_dropped:,} empty dropped" if summary.empty_dropped else "")
        + (f", {summary.skipped:,} skipped" if summary.skipped else "")
    )
    if summary.empty > summary.empty_dropped:
        kept = count_text(summary.empty, "record")
        yield f"{kept} {without_words(plan.rules)} kept: they match nothing, not even each other. --drop-empty leaves them out"
    if summary.clusters:
        yield (
            f"{count_text(summary.clusters, 'cluster')}, the largest of {count_text(summary.largest_cluster, 'record')}, "
            f"at least {summary.largest_similarity:.2f} similar to the one that stays"
        )
    yield (
        f"{bytes_text(summary.input_bytes)} in {summary.seconds:.1f} s: "
        f"{summary.records_per_second:,.0f} records/s, {summary.mb_per_second:.1f} MB/s"
    )


@dataclass(slots=True)
class Summary(RunCounts):
    kept: int = 0
    duplicates: int = 0
    known: int = 0
    empty: int = 0
    empty_dropped: int = 0
    clusters: int = 0
    largest_cluster: int = 0
    largest_similarity: float | None = None
    """The lowest similarity of a removed record to the kept one in the largest cluster; None without clusters."""
    records_per_second: float = 0.0


def deduplicate(plan: Comparison, summary: Summary) -> None:
    """Outputs are put in place after every step has succeeded, except streams."""
    started = time.monotonic()
    with _reporting_partial_outputs() as begun, replacing(*plan.outputs) as places, contextlib.ExitStack() as stack:
        copy, source = plan.copy, plan.copy.source
        index = stack.enter_context(plan.index())
        found = duplicates_of(index, plan.choice.order(np.fromiter(index, np.int64)), plan.connected)
        removed, marks = _chosen(plan, index, found, summary)
        with _writing(plan, copy.output, begun), Meter("Write", source.size_bytes) as meter:
            source.on_copied = meter.advance
            written = ~removed if marks is None else np.ones(len(removed), bool)
            source.write(written, places[copy.output], copy.output, marks, shards=copy.shards)
        if plan.pairs is not None:
            with _writing(plan, plan.pairs, begun):
                _write_pairs(index, places[plan.pairs], plan.pairs)
        if plan.clusters is not None:
            with _writing(plan, plan.clusters, begun):
                _write_clusters(index, found.clusters(), places[plan.clusters], plan.clusters, removed)
        source.require_unchanged()
    summary.set_time(time.monotonic() - started)
    summary.records_per_second = summary.records / max(summary.seconds, 1e-9)


@contextlib.contextmanager
def _reporting_partial_outputs() -> Iterator[list[Path]]:
    """An error message names the partial outputs, because a stream cannot be withdrawn."""
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
def _writing(plan: Comparison, path: Path, begun: list[Path]) -> Iterator[None]:
    """If the reader of this output closes its pipe, the other outputs are still written."""
    begun.append(path)
    try:
        with room_for(path):
            yield
    except OSError as error:
        if len(plan.outputs) == 1 or not is_reader_gone(error):
            raise
        if path == STDOUT:
            leave_stdout()


def _chosen(plan: Comparison, index: Index, found: Duplicates, summary: Summary) -> tuple[Any, Marks | None]:
    """A record's number is its position + 1."""
    removed = np.zeros(summary.records, bool)
    removed[found.gone - 1] = True
    marks = None
    if plan.mark:
        zeros, against = np.zeros(summary.records, np.int64), None if plan.known is None else plan.known.names
        marks = Marks(zeros, zeros.copy(), np.zeros(summary.records), lambda numbers: _ids(index, numbers), against)
        for number, members in enumerate(found.clusters(), 1):
            marks.cluster[np.array(members) - 1] = number
        marks.duplicate_of[found.gone - 1], marks.similarity[found.gone - 1] = found.kept, found.similarity
    summary.duplicates, summary.clusters = len(found.gone), len(np.unique(found.kept))
    if summary.clusters:
        summary.largest_cluster, summary.largest_similarity = found.largest()
    if plan.known is not None:
        removed |= plan.known.flags
        summary.known = int(plan.known.flags.sum())
    summary.empty = len(plan.wordless)
    if plan.drop_empty:
        removed[plan.wordless] = True
        summary.empty_dropped = summary.empty
    summary.kept = summary.records - int(removed.sum())
    return removed, marks


def _ids(index: Index, numbers: Sequence[int]) -> list[Any]:
    return [document.metadata["id"] for document in index.get_many(numbers) if document is not None]


# ---- the outputs -------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _table_writer(path: Path, target: Path, *names: str) -> Iterator[Callable[..., None]]:
    kind = format_of(target)
    with open_output(path, packing_of(target)) as raw:
        file = codecs.getwriter("utf-8")(raw)  # not closed, so that standard output stays open
        writer = csv.writer(file, delimiter="\t" if kind == "tsv" else ",", lineterminator="\n")

        def write(*values: Any) -> None:
            if kind in (None, "jsonl"):
                file.write(json_line(dict(zip(names, values, strict=True))) + "\n")
            else:
                writer.writerow(values)

        if kind not in (None, "jsonl"):
            writer.writerow(names)
        yield write


def _write_pairs(index: Index, path: Path, target: Path) -> None:
    with _table_writer(path, target, "id_a", "id_b", "similarity", "line_a", "line_b") as write:
        for pair in index.pairs():
            a, b = index.get(pair.key_a).metadata, index.get(pair.key_b).metadata
            write(a["id"], b["id"], pair.similarity, a["line"], b["line"])


def _write_clusters(index: Index, clusters: Sequence[Sequence[int]], path: Path, target: Path, removed: Any) -> None:
    with _table_writer(path, target, "cluster", "id", "kept", "line") as write:
        for cluster, members in enumerate(clusters, 1):
            for number in members:
                record = index.get(number).metadata
                write(cluster, record["id"], int(not removed[number - 1]), record["line"])
