"""`neardup add`."""

from __future__ import annotations

import contextlib
import tempfile
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click

from ..index import Index
from ..parameters import check_expiry
from ..schemes import MinHash
from ..values import AddReport
from .feed import feed, warnings_as_notes
from .inputs.opening import open_source, paths_named
from .inputs.source import InputRecord, Source
from .options import (
    Count,
    if_exists_option,
    index_command,
    input_options,
    is_new,
    parse_duration,
    read_options,
    removed_if_unused,
    scheme_of,
    scheme_options,
    text_options,
    text_rules,
)
from .outcomes import OutcomeFile, outcome_file
from .output import add_afterword, as_json_value, count_text, emit, emit_json, note_problems, without_words
from .outputs import check_apart, room_in
from .progress import Meter
from .wording import in_options, naming_file, renaming_arguments

COMMIT_EVERY = 20_000


@index_command()
@click.argument("sources", metavar="IN...", nargs=-1, required=True, type=click.Path(path_type=Path, allow_dash=True))
@scheme_options
@text_options
@click.option("--store-text", is_flag=True, help="Keep the texts in a new index, for explain, rebuild and SQL.")
@click.option("--metadata", is_flag=True, help="Keep the other fields of each record as its metadata.")
@click.option("--group", help="Group of the new documents; documents match within their group only.")
@click.option("--expires-in", help="Documents expire after this time: 12h, 30d, 2w.")
@click.option("--key-type", type=click.Choice(["text", "int"]), default="text", show_default=True, help="Type of the ids.")
@if_exists_option("a record whose id is in the index")
@click.option("--only-new", is_flag=True, help="Skip records that have a near-duplicate in the index.")
@click.option("--no-record-matches", is_flag=True, help="Skip the search for matches: faster; clusters finds them later.")
@click.option("--source", "source_name", help="Name of IN in the keys of records without an id.  [default: its own name]")
@click.option("--commit-every", type=Count(1), default=COMMIT_EVERY, show_default=True, help="Most records in a transaction.")
@click.option("--one-transaction", is_flag=True, help="Add all records or none.")
@click.option(
    "--outcomes",
    type=click.Path(path_type=Path, allow_dash=True),
    metavar="FILE",
    help="Write the outcome of each record to this new JSON lines file (.gz, .zst: compressed).",
)
@click.option("--force", is_flag=True, help="Replace the file of --outcomes if it exists.")
@input_options
def add(index_path: Path, sources: tuple[Path, ...], as_json: bool, **options: Any) -> None:
    """Add the records of IN to INDEX.

    INDEX is created if it does not exist. IN are files of JSON lines, CSV, TSV or lines of text (.txt), compressed (.gz, .zst) or
    not, Parquet or Arrow files, folders of such files or of texts, and patterns ('2025-*/*.jsonl'), all of one format; or - for
    standard input (with --format). A new index stores the scheme and the text rules; later calls must name the same or none. For
    --scheme binarycode the text is a code in hexadecimal.

    A record without an id has its file and line as key (posts.jsonl:17), a text in a folder its path, as given if files of
    several IN share a name. Adding a file twice, or another of the same name, is an error unless --source gives it another name.
    After an error or Ctrl-C, repeat the command with --if-exists ignore.

    --outcomes FILE has a line for each record, in order: key, outcome (added, replaced, ignored, duplicate, skipped), match,
    similarity, distance, reason (of a skipped record), file, line. The match is the one that made it a duplicate, else the best.
    After an error the file has the committed records.

    \b
    neardup add articles.db articles.jsonl
    neardup add articles.db more.csv --text-field body --id-field url --if-exists replace --metadata
    neardup add names.db names.csv --tokens chars --shingle 3 --threshold 0.7 --store-text
    neardup add crawl.db 2025/part-0.jsonl --source 2025/part-0
    neardup add crawl.db monday.jsonl --only-new --outcomes monday.outcomes.jsonl
    neardup add crawl.db shards --glob '*.jsonl.gz' --on-error skip --commit-every 10000
    """
    started = time.monotonic()
    scheme, rules, reading = scheme_of(options), text_rules(options), read_options(options, options["key_type"])
    with in_options(), renaming_arguments(ttl="--expires-in"):
        expiry = check_expiry(None, parse_duration("--expires-in", options["expires_in"]) if options["expires_in"] else None)
    path, force = options["outcomes"], options["force"]
    outcomes = None if path is None else outcome_file(path, force, index_path, paths_named(sources))
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="neardup-")))
        with room_in(folder.parent, "name a folder for temporary files on another one with the variable TMPDIR"):
            opened = open_source(sources, replace(reading, other_fields=None if options["metadata"] else ()), folder)
        if path is not None:
            check_apart(path, opened.files)
        known: dict[str, Any] = {"store_text": True} if options["store_text"] else {}
        if options["no_record_matches"]:
            known["record_matches"] = False
        if scheme is None and is_new(index_path):
            scheme = MinHash()
        stack.enter_context(naming_file(index_path))
        stack.enter_context(removed_if_unused(index_path))
        index = stack.enter_context(Index(index_path, scheme, text=rules, name=options["name"], **known))
        stack.enter_context(warnings_as_notes())
        meter = stack.enter_context(Meter("Add", opened.size_bytes))
        if outcomes is not None:
            stack.enter_context(outcomes.writing())
        nothing = without_words(index.text_rules, index.scheme)
        report, wordless = _add(index, opened, meter, options, expiry, outcomes)
    seconds = time.monotonic() - started
    _report(report, wordless, nothing, opened, meter.records, seconds, as_json)


def _add(
    index: Index, source: Source, meter: Meter, options: dict[str, Any], expiry: int | None, outcomes: OutcomeFile | None
) -> tuple[AddReport, int]:
    """Returns the report, and the number of new documents without tokens."""
    common: dict[str, Any] = {}
    if options["group"] is not None:
        common["group"] = options["group"]
    if expiry is not None:
        common["expires_at"] = expiry / 1000
    if not index.scheme.takes_text and (common or options["metadata"]):
        raise click.UsageError("--group, --expires-in and --metadata require an index of texts, not of codes")

    def arguments(record: InputRecord) -> dict[str, Any]:
        metadata = {"metadata": record.fields} if options["metadata"] and record.fields else {}
        return {"key": record.key, "text": record.text, **common, **metadata}

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
        add_afterword(error, _resume_hint(0 if options["one_transaction"] else sum(ended), options["if_exists"]))
        raise
    wordless = f"SELECT count(*) FROM {index.name}_document WHERE id > ? AND fingerprint_id IS NULL"
    return report, index.connection.execute(wordless, (newest,)).get


def _resume_hint(committed: int, if_exists: str) -> str:
    if not committed:
        return "nothing was added"
    again = "the same command again goes on" if if_exists != "error" else "the same command with --if-exists ignore goes on"
    return f"{count_text(committed, 'record')} {'is' if committed == 1 else 'are'} committed, and {again}"


def _report(report: AddReport, wordless: int, nothing: str, source: Source, records: int, seconds: float, as_json: bool) -> None:
    skipped = report.skipped + source.skipped
    note_problems(source.name, source.replaced, skipped, source.problems)
    if as_json:
        rate = {"seconds": seconds, "records_per_second": records / max(seconds, 1e-9)}
        counts = {**asdict(report), "skipped": skipped, "without_words": wordless, "problems": as_json_value(source.problems)}
        emit_json({"records": records + source.skipped, **counts, **rate})
        return
    parts = [f"{report.added:,} added", f"{report.replaced:,} replaced", f"{report.ignored:,} ignored", f"{skipped:,} skipped"]
    shown = [part for part in parts if not part.startswith("0 ")] or ["nothing added"]
    emit(
        f"{count_text(records + source.skipped, 'record')}: {', '.join(shown)}; {report.matched:,} with a near-duplicate "
        "among the earlier ones"
    )
    if wordless:
        emit(f"{count_text(wordless, 'document')} {nothing}: they match nothing, not even each other")
    emit(f"{seconds:.1f} s, {records / max(seconds, 1e-9):,.0f} records/s")
