"""`neardup dedup`: options, checks and report."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from ..duplicates import is_large
from ..parameters import Measure
from . import common, indexes
from .choices import ADDED_FIELDS, KeepOption, check_fields, open_against
from .common import Results
from .comparing import OF_DATABASE, Plan
from .copies import copied, output_options
from .deduplicate import Summary, deduplicate
from .inputs.opening import paths_named
from .output import bytes_text, count_text, note_problems, print_note, without_words

_above_0 = common.NumberRange(0, 1, min_open=True)


@common.command()
@common.sources_argument
@output_options
@click.option("--threshold", type=_above_0, default=0.8, help="Minimum Jaccard similarity of near-duplicates.")
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
    """Copy the records of IN without near-duplicates.

    IN are files of JSON lines, CSV, TSV or lines of text (.txt), compressed (.gz, .zst) or not, Parquet or Arrow files, folders
    of such files, and patterns ('2025-*/*.jsonl'), all of one format; a folder of texts (the output is a folder); or - for
    standard input (with --format). The records go to one output file, or with -o FOLDER/ to a file for each input file.

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
    rules, keep, mark = common.text_rules(options), options["keep"], options["mark"]
    needed = {keep.field if keep.rule == "by" else None, options["group_field"]}
    other_fields = tuple(sorted(field for field in needed if field is not None))
    reading = common.read_options(options, one_header=True, typed_ids=True, other_fields=other_fields)
    if mark and options["drop_empty"]:
        raise click.UsageError("--mark writes all records and --drop-empty drops some; give one of them")
    if not against and (measure is not None or common.is_option_given("against_name")):
        raise click.UsageError("--measure and --against-name require --against")
    others = {"--pairs": options["pairs"], "--clusters": options["clusters"]}
    with copied(paths_named(sources), reading, options, others, against, (OSError, *OF_DATABASE)) as copy:
        source = copy.source
        check_fields(source, keep, options["group_field"], ADDED_FIELDS[: 3 + bool(against)] if mark else ())
        keys = copy.folder if mark else None
        with indexes.warnings_as_notes(), open_against(against, against_name, options["threshold"], measure, keys) as known:
            plan = Plan(copy, rules=rules, known=known, **options)
            summary = deduplicate(plan)
    _note_chains(summary, plan)
    note_problems(source.name, summary.invalid_utf8, summary.skipped, summary.problems)
    yield copy.result(summary, _lines(summary, plan, measure))


def _note_chains(summary: Summary, plan: Plan) -> None:
    """Only --connected joins records unlike the kept one."""
    lowest = summary.largest_similarity
    if lowest is None or lowest >= plan.threshold or not is_large(summary.largest_cluster, summary.records):
        return
    print_note(
        f"chains of near-duplicates connect {summary.largest_cluster:,} of {summary.records:,} records, with a similarity to the "
        f"one that stays down to {lowest:.2f}: leave out --connected, or give a higher --threshold"
    )


def _lines(summary: Summary, plan: Plan, measure: Measure | None) -> Iterator[str]:
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
