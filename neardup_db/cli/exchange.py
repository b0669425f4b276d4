"""`neardup import` and `neardup export`: fingerprints as Parquet, documents as JSON lines."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Any

import click

from ..index import Index
from ..store.transfer.importing import FingerprintFiles
from .documents import write_lines
from .feed import print_report, warnings_as_notes
from .inputs.files import STDOUT
from .inputs.records import format_of
from .options import if_exists_option, index_command, index_files, is_new, open_index, removed_if_unused
from .output import count_text, emit_result, note_problems
from .outputs import check_kind, check_output
from .wording import naming_file


@index_command("import")
@click.argument("sources", metavar="IN...", nargs=-1, required=True, type=click.Path(path_type=Path))
@if_exists_option("a document whose key is in the index")
@click.option("--no-record-matches", is_flag=True, help="Skip the search for matches: faster; clusters finds them later.")
@click.option("--on-error", type=click.Choice(["raise", "skip"]), default="raise", show_default=True, help="A damaged row.")
@click.option("--commit-every", type=click.IntRange(min=1), help="Rows in a transaction.  [default: one transaction]")
def import_(
    index_path: Path,
    sources: tuple[Path, ...],
    name: str,
    if_exists: str,
    no_record_matches: bool,
    on_error: str,
    commit_every: int | None,
    as_json: bool,
) -> None:
    """Add documents to INDEX by exported fingerprints.

    IN is a Parquet file of `neardup export`, or a folder of fingerprints written by neardup_db.spark. A new INDEX gets the
    settings of the first file; all files must have the settings of INDEX. Needs pyarrow.

    \b
    neardup import articles.db fingerprints/
    neardup import crawl.db monday/fingerprints tuesday/fingerprints --if-exists ignore
    """
    started = time.monotonic()
    with contextlib.ExitStack() as stack:
        scheme = rules = None
        known: dict[str, Any] = {"record_matches": False} if no_record_matches else {}
        files = FingerprintFiles(sources)
        if is_new(index_path):
            scheme, rules = files.scheme, files.rules
        stack.enter_context(naming_file(index_path))
        stack.enter_context(removed_if_unused(index_path))
        index = stack.enter_context(Index(index_path, scheme, text=rules, name=name, **known))
        stack.enter_context(warnings_as_notes())
        options = {"if_exists": if_exists, "on_error": on_error, "commit_every": commit_every}
        report = index.import_fingerprints(sources, **options)  # type: ignore[arg-type]
    seconds = time.monotonic() - started
    note_problems(", ".join(map(str, sources)), 0, report.skipped, ())
    print_report(report, ("replaced", "ignored", "skipped"), seconds, as_json)


@index_command()
@click.argument("out", metavar="[OUT]", required=False, type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, allow_dash=True),
    help="Write the documents here, as JSON lines (.gz, .zst); - is standard output.",
)
@click.option("--force", is_flag=True, help="With -o: replace a file that exists.")
def export(index_path: Path, out: Path | None, output: Path | None, force: bool, name: str, as_json: bool) -> None:
    """Write documents as JSON lines, or fingerprints as Parquet.

    -o FILE: one JSON object a line for each document of a snapshot, in insertion order, as printed by `neardup get`. `neardup
    add` reads the file: key and text, and with --metadata the other fields as metadata.

    OUT: a new Parquet file for `neardup import` and neardup_db.spark, without texts, metadata or expiry. Needs pyarrow.

    \b
    neardup export articles.db -o articles.jsonl.gz
    neardup export articles.db articles.parquet
    """
    if (out is None) == (output is None):
        raise click.UsageError("Give either OUT, for fingerprints, or -o FILE, for documents")
    if out is not None and force:
        raise click.UsageError("--force requires -o FILE; OUT is a new file")
    if out == STDOUT:
        raise click.UsageError("Parquet cannot be written to a stream; name a file, or give -o - for documents as JSON lines")
    if output is not None:
        _check_lines(output, index_path, force, as_json)
    with open_index(index_path, name) as index:
        if output is not None:
            count = write_lines(index, output, index_path.stat().st_size)
        else:
            assert out is not None
            count = index.export_fingerprints(out)
    if output == STDOUT:
        return
    emit_result({"exported": count}, f"{count_text(count, 'document')} exported", as_json=as_json)


def _check_lines(output: Path, index_path: Path, force: bool, as_json: bool) -> None:
    if output == STDOUT:
        if as_json:
            raise click.UsageError("--json and -o - both write to standard output; name a file for the documents")
        return
    if format_of(output) not in (None, "jsonl"):
        raise click.UsageError(f"{output}: -o FILE is JSON lines, as documents.jsonl; OUT without -o is fingerprints as Parquet")
    check_kind(output, folder=False)
    check_output(output, force, index_files(index_path))
