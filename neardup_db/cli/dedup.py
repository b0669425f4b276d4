"""`neardup dedup`: options, checks and report."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from ..duplicates import is_large
from ..errors import ParameterError
from ..parameters import Measure
from ..system import real_path
from .choices import ADDED_FIELDS, KeepOption, check_fields, open_against
from .command import command
from .comparing import OF_DATABASE, Plan
from .deduplicate import Summary, deduplicate
from .feed import warnings_as_notes
from .inputs.files import STDOUT, is_stream, packing_of
from .inputs.opening import open_source, passes_of, paths_named
from .inputs.records import format_of
from .inputs.source import Source
from .inputs.table_files import TABLE_FORMATS
from .options import NumberRange, input_options, is_option_given, json_option, read_options, text_options, text_rules
from .output import as_json_value, bytes_text, count_text, emit, emit_json, note_problems, print_note, without_words
from .outputs import check_apart, check_kind, check_output, room_in

_path = click.Path(path_type=Path)
_place = click.Path(path_type=Path, allow_dash=True)
_folder = click.Path(path_type=Path, exists=True, file_okay=False)
_above_0 = NumberRange(0, 1, min_open=True)
_between = NumberRange(0, 1, min_open=True, max_open=True)


@command()
@click.argument("sources", metavar="IN...", nargs=-1, required=True, type=_place)
@click.option(
    "-o",
    "--output",
    "output_name",
    required=True,
    type=click.Path(allow_dash=True),
    help="Write the remaining records here; - is standard output, FOLDER/ a shard for each shard of IN.",
)
@click.option("--threshold", type=_above_0, default=0.8, show_default=True, help="Minimum Jaccard similarity of near-duplicates.")
@click.option("--recall", type=_between, default=0.99, show_default=True, help="Recall of pairs at the threshold.")
@click.option(
    "--keep",
    type=KeepOption(),
    default="first",
    show_default=True,
    help="Which near-duplicate to keep; by:FIELD keeps the largest value, by:-FIELD the smallest.",
)
@click.option("--connected", is_flag=True, help="Keep one record of each connected component, even if others are unlike it.")
@click.option("--group-field", metavar="FIELD", help="Compare only records with equal values of this field.")
@click.option(
    "--mark", is_flag=True, help="Write all records with added fields: cluster, duplicate_of (an id), and the similarity to it."
)
@click.option(
    "--against", multiple=True, type=_path, metavar="INDEX", help="First drop records that match a document of this index."
)
@click.option("--against-name", default="neardup", show_default=True, help="Name of the index within the files of --against.")
@click.option(
    "--measure",
    type=click.Choice(["containment"]),
    help="With --against: drop records contained in a document, instead of similar ones.",
)
@click.option("--drop-empty", is_flag=True, help="Drop records without a word; by default all are kept.")
@click.option("--pairs", type=_place, help="Also write the pairs found (.jsonl, .csv or .tsv; - is standard output).")
@click.option("--clusters", type=_place, help="Also write the clusters found, a row for each member.")
@click.option("--tmp", type=_folder, help="Folder for temporary files.  [default: the output's]")
@click.option("--force", is_flag=True, help="Replace outputs that exist.")
@text_options
@input_options
@json_option
@click.pass_context
def dedup(
    context: click.Context,
    /,
    sources: tuple[Path, ...],
    output_name: str,
    against: tuple[Path, ...],
    against_name: str,
    measure: Measure | None,
    tmp: Path | None,
    force: bool,
    as_json: bool,
    **options: Any,
) -> None:
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
    rules = text_rules(options)
    output = Path(output_name)
    to_folder = output_name.endswith(("/", os.sep)) or (output.is_dir() and (len(sources) > 1 or sources[0].is_dir()))
    needed = {options["keep"].field if options["keep"].rule == "by" else None, options["group_field"]}
    other_fields = tuple(sorted(field for field in needed if field is not None))
    reading = replace(read_options(options), one_header=True, typed_ids=True, other_fields=other_fields)
    paths = paths_named(sources)
    outputs = [path for path in (output, options["pairs"], options["clusters"]) if path is not None]
    to_stdout = STDOUT in outputs
    if outputs.count(STDOUT) + as_json > 1:
        raise click.UsageError(
            "Only one of -o, --pairs, --clusters and --json can write to standard output; name a file for each of the others"
        )
    if options["mark"] and options["drop_empty"]:
        raise click.UsageError("--mark writes all records and --drop-empty drops some; give one of them")
    if not against and (measure is not None or is_option_given(context, "against_name")):
        raise click.UsageError("--measure and --against-name require --against")
    files = [path for path in outputs if path != STDOUT]
    for path in files:
        if [real_path(other) for other in files].count(real_path(path)) > 1:
            raise ParameterError(f"{path} is given for two outputs; name a file for each")
        check_output(path, force, (*paths, *against))
        if path != output:
            check_kind(path, folder=False)
        if path in (options["pairs"], options["clusters"]) and format_of(path) in TABLE_FORMATS:
            raise ParameterError(f"{path}: pairs and clusters are written as JSON lines, CSV or TSV; name such a file")
    beside = tmp or folder_for_temporary_files(output)
    full = room_in(beside, "name a folder for temporary files on another one with --tmp", (OSError, *OF_DATABASE))
    with full, tempfile.TemporaryDirectory(prefix=".neardup-", dir=beside) as folder:
        opened = open_source(paths, reading, Path(folder))
        for path in files:
            check_apart(path, opened.files)
        shards = to_folder and opened.format != "folder"
        check_kinds(opened, paths, output, shards)
        keep, mark = options["keep"], options["mark"]
        check_fields(opened, keep, options["group_field"], ADDED_FIELDS[: 3 + bool(against)] if mark else ())
        keys = Path(folder) if mark else None
        with warnings_as_notes(), open_against(against, against_name, options["threshold"], measure, keys) as known:
            passes = passes_of(opened, Path(folder))
            plan = Plan(passes, output, Path(folder), rules=rules, known=known, shards=shards, **options)
            summary = deduplicate(plan)
    _report(summary, plan, measure, as_json, to_stdout)


def folder_for_temporary_files(output: Path) -> Path:
    """For a stream the current folder or, if that is read-only, the system's."""
    if output != STDOUT and not is_stream(output):
        return output.absolute().parent
    return Path.cwd() if os.access(Path.cwd(), os.W_OK) else Path(tempfile.gettempdir())


def check_kinds(source: Source, paths: Sequence[Path], output: Path, shards: bool) -> None:
    """Records are copied unchanged, so the output needs the input's format."""
    if source.format == "folder" and len(paths) > 1:
        raise ParameterError(f"{source.name}: a folder of texts cannot be combined with other inputs, as it is copied")
    if source.format == "folder" and (output == STDOUT or is_stream(output)):
        raise ParameterError(f"a folder of texts cannot go to {output}; name an output folder")
    if source.format in TABLE_FORMATS and (output == STDOUT or is_stream(output)):
        raise ParameterError(f"a table cannot go to {output}, where a part of it could look whole; name an output file")
    if output == STDOUT:
        return
    check_kind(output, folder=shards or source.format == "folder")
    for folder in filter(Path.is_dir, paths):
        here, there = folder.resolve(), output.resolve()
        if here in there.parents or there in here.parents:
            raise ParameterError(f"{output} and {folder}: one is inside the other; name an output elsewhere")
    if shards:
        _check_shards(source, paths)
        return
    kind = format_of(output)
    if source.format in TABLE_FORMATS and packing_of(output) is not None:
        raise ParameterError(f"{output}: a table is compressed inside, as the input is; leave {output.suffix} out")
    if source.format == "folder" and kind is not None and not output.is_dir():
        raise ParameterError(f"{output}: the texts of {source.name} go into a folder, this names a {kind} file; name a folder")
    if source.format == "folder" or is_stream(output) or kind == (None if source.format == "lines" else source.format):
        return
    ending = "txt" if source.format == "lines" else source.format
    if len(paths) > 1 or paths[0].is_dir():
        raise ParameterError(f"{output}: the records of all files go into one, so its name must end in .{ending}")
    if kind is not None:
        raise ParameterError(f"{output}: records are copied as they are, so its name must end in .{ending}")


def _check_shards(source: Source, paths: Sequence[Path]) -> None:
    if any(path == STDOUT or is_stream(path) for path in paths):
        raise ParameterError(f"{source.name}: a stream has no name for a file in a folder: name an output file")
    seen: dict[Path, Path] = {}
    for path in source.files:
        other = seen.setdefault(source.relative_path(path), path)
        if other != path:
            raise ParameterError(f"{other} and {path} would be one file of the output: name a folder that holds both")


def _note_chains(summary: Summary, plan: Plan) -> None:
    """Only --connected joins records unlike the kept one."""
    lowest = summary.largest_similarity
    if lowest is None or lowest >= plan.threshold or not is_large(summary.largest_cluster, summary.records):
        return
    print_note(
        f"chains of near-duplicates connect {summary.largest_cluster:,} of {summary.records:,} records, with a similarity to the "
        f"one that stays down to {lowest:.2f}: leave out --connected, or give a higher --threshold"
    )


def _report(summary: Summary, plan: Plan, measure: Measure | None, as_json: bool, to_stdout: bool) -> None:
    source = plan.passes.source
    _note_chains(summary, plan)
    note_problems(source.name, summary.invalid_utf8, summary.skipped, summary.problems)
    if as_json:
        emit_json(as_json_value(summary))
        return
    tell = print_note if to_stdout else emit
    stays, goes = ("without a mark", "marked") if plan.mark else ("kept", "removed")
    known = "contained in a document" if measure is not None else "like a document"
    tell(
        f"{count_text(summary.records, 'record')}: {summary.kept:,} {stays}, "
        + f"{count_text(summary.duplicates, 'near-duplicate')} {goes}"
        + (f", {summary.known:,} {known} of --against {goes}" if plan.known is not None else "")
        + (f", {summary.empty_dropped:,} empty dropped" if summary.empty_dropped else "")
        + (f", {summary.skipped:,} skipped" if summary.skipped else "")
    )
    if summary.empty > summary.empty_dropped:
        kept = count_text(summary.empty, "record")
        tell(f"{kept} {without_words(plan.rules)} kept: they match nothing, not even each other. --drop-empty leaves them out")
    if summary.clusters:
        tell(
            f"{count_text(summary.clusters, 'cluster')}, the largest of {count_text(summary.largest_cluster, 'record')}, "
            f"at least {summary.largest_similarity:.2f} similar to the one that stays"
        )
    tell(
        f"{bytes_text(summary.input_bytes)} in {summary.seconds:.1f} s: "
        f"{summary.records_per_second:,.0f} records/s, {summary.mb_per_second:.1f} MB/s"
    )
