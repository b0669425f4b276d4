"""`neardup add`: records into an index that lasts."""

from __future__ import annotations

import contextlib
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from ..errors import ParameterError
from ..index import Index
from ..values import AddReport
from .feed import feed
from .files import packing_by_content, spool_stdin
from .options import (
    index_argument,
    input_options,
    json_option,
    name_option,
    parse_duration,
    read_options,
    scheme_of,
    scheme_options,
    text_options,
    text_rules,
)
from .output import Meter, counted, emit, emit_json, note
from .records import FORMATS, Record, RecordSource


@click.command()
@index_argument
@click.argument("source", metavar="IN", type=click.Path(path_type=Path, allow_dash=True))
@name_option
@scheme_options
@text_options
@click.option("--store-text", is_flag=True, help="Keep the texts in a new index, for explain, rebuild and SQL.")
@click.option("--metadata", is_flag=True, help="Keep the other fields of each record as its metadata.")
@click.option("--group", help="Group of the new documents; duplicates are sought within a group.")
@click.option("--expires-in", help="Documents expire after this time: 12h, 30d, 2w.")
@click.option("--key-type", type=click.Choice(["text", "int"]), default="text", show_default=True, help="What ids are.")
@click.option(
    "--if-exists",
    type=click.Choice(["error", "replace", "ignore"]),
    default="error",
    show_default=True,
    help="A record whose id is in the index.",
)
@click.option("--only-new", is_flag=True, help="Leave out records that have a near-duplicate in the index.")
@click.option("--no-record-matches", is_flag=True, help="Seek no matches on the way: faster; clusters are found when asked for.")
@click.option("--commit-every", type=click.IntRange(min=1), default=50_000, show_default=True, help="Records in a transaction.")
@click.option("--one-transaction", is_flag=True, help="All records or none.")
@input_options
@json_option
def add(index_path: Path, source: Path, as_json: bool, **options: Any) -> None:
    """Add the records of IN to INDEX.

    INDEX is created if it is not there. IN is a file of JSON lines, CSV or TSV (.gz and .zst too), a folder of text files, or -
    for standard input (with --format). Scheme and text rules are stored in a new index; with an index that exists they are only
    checked. For --scheme binarycode the text is the code in hexadecimal.

    \b
    neardup add articles.db articles.jsonl
    neardup add articles.db more.csv --text-field body --id-field url --if-exists replace --metadata
    neardup add names.db names.csv --tokens chars --shingle 3 --threshold 0.7 --store-text
    """
    started = time.monotonic()
    scheme, rules, reading = scheme_of(options), text_rules(options), read_options(options, options["key_type"])
    lifetime_s = parse_duration(options["expires_in"]) if options["expires_in"] else None
    with contextlib.ExitStack() as stack:
        opened = _source(source, reading, stack)
        known: dict[str, Any] = {"store_text": True} if options["store_text"] else {}
        if options["no_record_matches"]:
            known["record_matches"] = False
        if scheme is None and _is_new(index_path):
            scheme = scheme_of({**_no_scheme(), "scheme": "minhash"})
        index = stack.enter_context(Index(index_path, scheme, text=rules, name=options["name"], **known))
        meter = stack.enter_context(Meter("Add", opened.size_bytes))
        report = _add(index, opened, meter, options, lifetime_s)
    seconds = time.monotonic() - started
    _report(report, opened, meter.records, seconds, as_json)


def _no_scheme() -> dict[str, Any]:
    return dict.fromkeys(("scheme", "threshold", "max_distance", "exact", "recall", "num_perm", "bits", "k", "containment"))


def _is_new(path: Path) -> bool:
    return not path.exists() or path.stat().st_size == 0


def _source(source: Path, reading: Any, stack: contextlib.ExitStack) -> RecordSource:
    if str(source) != "-":
        return RecordSource(source, reading)
    if reading.format is None:
        raise ParameterError(f"standard input has no name that tells its format; add --format {'|'.join(FORMATS)}")
    path = spool_stdin(Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="neardup-"))))
    return RecordSource(path, reading, name="standard input", packing=packing_by_content(path))


def _add(index: Index, source: RecordSource, meter: Meter, options: dict[str, Any], lifetime_s: float | None) -> AddReport:
    common: dict[str, Any] = {}
    if options["group"] is not None:
        common["group"] = options["group"]
    if lifetime_s is not None:
        common["expires_at"] = time.time() + lifetime_s
    if not index.scheme.takes_text and (common or options["metadata"]):
        raise click.UsageError("--group, --expires-in and --metadata do not go with codes, only with texts")

    def arguments(record: Record) -> dict[str, Any]:
        found = {"key": record.key, "text": record.text, **common}
        if options["metadata"] and record.fields:
            found["metadata"] = record.fields
        return found

    how = {"if_exists": options["if_exists"], "only_new": options["only_new"], "on_error": source.options.on_error}
    if not options["one_transaction"]:
        return feed(index, source, meter, arguments, commit_every=options["commit_every"], **how)
    with index.transaction():
        return feed(index, source, meter, arguments, commit_every=options["commit_every"], **how)


def _report(report: AddReport, source: RecordSource, records: int, seconds: float, as_json: bool) -> None:
    if source.replaced:
        note(f"{source.name}: {counted(source.replaced, 'line')} with invalid UTF-8, read with U+FFFD in its place")
    if source.first_skipped:
        note(f"{counted(source.skipped, 'record')} left out; the first: {source.first_skipped}")
    if as_json:
        rate = {"seconds": seconds, "records_per_second": records / max(seconds, 1e-9)}
        emit_json({"records": records, **asdict(report), "skipped": report.skipped + source.skipped, **rate})
        return
    parts = [f"{report.added:,} added", f"{report.replaced:,} replaced", f"{report.ignored:,} ignored"]
    shown = [part for part in parts if not part.startswith("0 ")] or ["nothing added"]
    emit(f"{counted(records, 'record')}: {', '.join(shown)}; {report.matched:,} with a near-duplicate among the earlier ones")
    emit(f"{seconds:.1f} s, {records / max(seconds, 1e-9):,.0f} records/s")
