"""Documents of an index as JSON or as fingerprints, and those of other files into one: get, export, import, merge."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click

from .. import clock
from ..errors import CorruptIndexError, DuplicateKeyError
from ..index import Index
from ..store.database.connection import undecodable
from ..store.transfer.importing import FingerprintFiles
from ..values import AddReport, Key
from . import common, indexes
from .common import Results
from .feed import report_result, sum_of_reports
from .inputs.files import STDOUT
from .inputs.records import format_of
from .output import as_json_value, count_text, escaped, json_line, note_problems, print_note
from .outputs import check_output, written
from .progress import Meter


@common.index_command()
@common.keys_options
@common.group_option
def get(index: Index, keys: tuple[str, ...], file: Any, key_type: str, group: str | None) -> Results:
    """Prints one object a line, with and without --json: key, group, metadata, text if INDEX stores texts, code if it holds
    codes, codes with their parts if a document has several, token_count, added_at, last_seen, times_seen, expires_at, cluster.
    Times are seconds since 1970. With --group a document of another group counts as missing. Exit code 1 if none exists.

    \b
    neardup get articles.db a1 a2
    """
    condition, more = ("d.key = ?", ()) if group is None else ("d.key = ? AND g.name = ?", (indexes.find_group(index, group),))
    for key in common.parse_keys(keys, file, key_type):
        document = next(_documents(index, condition, (key, *more)), None)
        if document is None:
            print_note(f"no document{'' if group is None else ' of the group'} has the key {escaped(key) or repr(key)}")
        else:
            yield document, None


@common.index_command()
@click.argument("out", metavar="[OUT]", required=False, type=common.path)
@click.option("-o", "--output", type=common.place, help="Write the documents here, as JSON lines; - is standard output.")
@click.option("--force", is_flag=True, help="With -o: replace a file that exists.")
def export(index: Index, out: Path | None, output: Path | None, force: bool) -> Results:
    """-o FILE: one JSON object a line for each document of a snapshot, in insertion order, as printed by `neardup get`. `neardup
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
    if output == STDOUT and common.is_json():
        raise click.UsageError("--json and -o - both write to standard output; name a file for the documents")
    if out is not None:
        count = index.export_fingerprints(out)
    elif output is not None:
        if format_of(output) not in (None, "jsonl"):
            what = "-o FILE is JSON lines, as documents.jsonl; OUT without -o is fingerprints as Parquet"
            raise click.UsageError(f"{output}: {what}")
        check_output(output, force, indexes.index_files())
        count, total, size_bytes = 0, max(len(index), 1), indexes.index_files()[0].stat().st_size
        with written(output) as file, Meter("Export", size_bytes) as meter:
            for count, document in enumerate(_documents(index, "true", ()), 1):
                file.write(f"{json_line(document)}\n".encode())
                meter.advance(size_bytes * min(count, total) // total)
    yield {"exported": count}, () if output == STDOUT else f"{count_text(count, 'document')} exported"


_NAMES = (
    "key", "group", "metadata", "text", "code", "codes", "token_count", "added_at", "last_seen", "times_seen", "expires_at",
    "cluster",
)  # fmt: skip
_WHERE_THERE = ("text", "code", "codes")


def _documents(index: Index, condition: str, parameters: Iterable[Key]) -> Iterator[dict[str, Any]]:
    sql = f"""SELECT d.key, g.name, d.metadata, d.text, {"f.value" if index.scheme.takes_codes else "NULL"}, {_codes(index)},
                  d.token_count, d.added_at / 1000.0, d.last_seen / 1000.0, d.times_seen, d.expires_at / 1000.0, d.cluster_id
              FROM {index.name}_document AS d LEFT JOIN {index.name}_group AS g ON g.id = d.group_id
                  LEFT JOIN {index.name}_fingerprint AS f ON f.id = d.fingerprint_id
              WHERE {condition} AND (d.expires_at IS NULL OR d.expires_at > ?) ORDER BY d.id"""
    try:
        for row in index.connection.execute(sql, (*parameters, clock.now_ms())):
            document = dict(zip(_NAMES, row, strict=True))
            if document["metadata"] is not None:
                try:
                    document["metadata"] = json.loads(document["metadata"])
                except (TypeError, ValueError, RecursionError) as error:
                    what = f"the metadata of the document {escaped(document['key'])} is damaged ({error})"
                    raise CorruptIndexError(f"{what}: run neardup check --repair, or restore a backup") from error
            if document["code"] is not None:
                document["code"] = document["code"].hex()
            if document["codes"] is not None:
                document["codes"] = json.loads(document["codes"])
            shown = {name: value for name, value in document.items() if value is not None or name not in _WHERE_THERE}
            yield {name: as_json_value(value) for name, value in shown.items()}
    except UnicodeDecodeError as error:
        raise undecodable(error) from error


_CODES = """(SELECT json_group_array(json_object('part', c.part, 'code', c.code)) FROM (
    SELECT p.part, lower(hex(x.value)) AS code FROM {name}_part AS p JOIN {name}_fingerprint AS x ON x.id = p.fingerprint_id
    WHERE p.document_id = d.id ORDER BY p.id) AS c HAVING count(*) > 0)"""


def _codes(index: Index) -> str:
    """NULL for documents with one unnamed code."""
    table = f"SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = '{index.name}_part'"
    return _CODES.replace("{name}", index.name) if index.connection.execute(table).fetchone() else "NULL"


@common.command("import")
@common.index_argument
@click.argument("sources", metavar="IN...", nargs=-1, required=True, type=common.path)
@common.if_exists_option("a document whose key is in the index")
@click.option("--no-record-matches", is_flag=True, help="Skip the search for matches: faster; clusters finds them later.")
@click.option("--on-error", type=click.Choice(["raise", "skip"]), default="raise", help="A damaged row.")
@click.option("--commit-every", type=click.IntRange(min=1), help="Rows in a transaction.  [default: one transaction]")
@common.name_option
def import_(index_path: Path, sources: tuple[Path, ...], name: str, no_record_matches: bool, **options: Any) -> Results:
    """IN is a Parquet file of `neardup export`, or a folder of fingerprints written by neardup_db.spark. A new INDEX gets the
    settings of the first file; all files must have the settings of INDEX. Needs pyarrow.

    \b
    neardup import articles.db fingerprints/
    neardup import crawl.db monday/fingerprints tuesday/fingerprints --if-exists ignore
    """
    started, files = time.monotonic(), FingerprintFiles(sources)
    scheme, rules = (files.scheme, files.rules) if indexes.is_new(index_path) else (None, None)
    known = {"record_matches": False} if no_record_matches else {}
    with indexes.open_or_create(index_path, scheme, text=rules, name=name, **known) as index:
        report = index.import_fingerprints(sources, **options)
    note_problems(", ".join(map(str, sources)), 0, report.skipped, ())
    yield report_result(report, ("replaced", "ignored", "skipped"), time.monotonic() - started)


@common.command()
@click.argument("into", metavar="INTO", type=common.path)
@click.argument("sources", metavar="FROM...", nargs=-1, required=True, type=common.path)
@common.name_option
@common.if_exists_option("a document whose key is in INTO")
@click.option("--no-record-matches", is_flag=True, help="Skip the search for matches in a new INTO; clusters finds them later.")
@click.option("--commit-every", type=click.IntRange(min=1), help="Documents in a transaction.  [default: one for all]")
def merge(
    into: Path, sources: tuple[Path, ...], name: str, if_exists: Any, no_record_matches: bool, commit_every: int | None
) -> Results:
    """Fingerprints, groups, metadata, texts, times and expiry are copied, in the order of FROM; expired documents are not. A new
    INTO gets the settings of the first FROM except its window. All indexes must have the same text rules and, except for
    threshold and bands, the same scheme.

    \b
    neardup merge articles.db monday.db tuesday.db
    neardup merge crawl.db part-*.db --if-exists ignore --commit-every 100000
    """
    started, report, taken = time.monotonic(), AddReport(), 0
    with contextlib.ExitStack() as stack:
        others = [stack.enter_context(indexes.open_existing(path, name)) for path in sources]
        sizes = [path.stat().st_size for path in sources]
        settings: dict[str, Any] = {"record_matches": False} if no_record_matches else {}
        if indexes.is_new(into):
            sql = f"SELECT name, value FROM {name}_setting WHERE name IN ('store_text', 'record_matches')"
            first = {name: bool(value) for name, value in others[0].connection.execute(sql)}
            settings = {"scheme": others[0].scheme, "text": others[0].text_rules, **first, **settings}
        index = stack.enter_context(indexes.open_or_create(into, name=name, **settings))
        meter = stack.enter_context(Meter("Merge", sum(sizes)))
        if commit_every is None:
            stack.enter_context(index.transaction())
        for number, (path, other) in enumerate(zip(sources, others, strict=True)):
            total = len(other)

            def moved(done: int, before: int = sum(sizes[:number]), size: int = sizes[number], total: int = total) -> None:
                meter.advance(before + size * min(done, total) // max(total, 1), 0)

            try:
                told = index.merge(other, if_exists=if_exists, commit_every=commit_every, progress=moved)
            except DuplicateKeyError as error:
                raise DuplicateKeyError(f"{path}: {error}") from error
            report = sum_of_reports(report, told, taken)
            taken += total
            meter.records += told.total
    yield report_result(report, ("replaced", "ignored"), time.monotonic() - started)
