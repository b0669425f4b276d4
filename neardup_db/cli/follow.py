"""`neardup follow`, `sync` and `unfollow`: an index of an application's table."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Any

import click

from ..errors import ParameterError
from ..index import Index
from ..schemes import MinHash
from ..store.database.errors import translated
from ..store.database.open import open_file
from ..values import SyncReport
from .command import command
from .feed import print_report, warnings_as_notes
from .options import (
    index_command,
    is_new,
    json_option,
    name_option,
    open_index,
    scheme_of,
    scheme_options,
    text_options,
    text_rules,
)
from .output import FIRST_PROBLEMS, emit, emit_result, escaped, print_note
from .wording import in_command_terms, naming_file, renaming_arguments

COMMIT_EVERY = 20_000
"""Rows in a transaction, chosen so that the application waits at most about two seconds."""


@command()
@click.argument("database", metavar="DATABASE", type=click.Path(path_type=Path))
@click.argument("table")
@name_option
@click.option("--key", default="id", show_default=True, help="Column that names a row: the PRIMARY KEY, or UNIQUE and NOT NULL.")
@click.option("--text", default="body", show_default=True, help="Column of the texts.")
@click.option("--group", help="Column of groups; documents match within their group only.")
@click.option("--where", help="SQL condition on a row's columns; other rows are ignored.")
@click.option("--sync", type=click.Choice(["query"]), help="query: every query first applies pending changes.")
@click.option("--later", is_flag=True, help="Do not index the rows until the first neardup sync.")
@scheme_options
@text_options
@click.option("--store-text", is_flag=True, help="Keep the texts in a new index too, for explain and rebuild.")
@click.option("--no-record-matches", is_flag=True, help="In a new index, skip the search for matches; clusters finds them later.")
@json_option
def follow(database: Path, table: str, name: str, later: bool, as_json: bool, **options: Any) -> None:
    """Index the rows of an application's table in DATABASE.

    The index is created beside the application's tables if it does not exist. Triggers on TABLE, which fire in any program,
    record the keys of changed rows for `neardup sync`. The texts stay in TABLE only.

    \b
    neardup follow app.db articles --key id --text body
    neardup follow app.db articles --where "published = 1" --group lang --sync query
    """
    if is_new(database):
        raise ParameterError(f"{database}: no such file; give the database that has the table {table!r}")
    scheme, rules = scheme_of(options), text_rules(options)
    known: dict[str, Any] = {"store_text": True} if options.pop("store_text") else {}
    if options.pop("no_record_matches"):
        known["record_matches"] = False
    with naming_file(database), warnings_as_notes():
        how = {"text": rules, "name": name, **known}
        with renaming_arguments(table="TABLE", key="--key", text="--text", group="--group", where="--where"):
            _create(database, scheme, table, options, how)
        with Index(database, scheme, attach=True, **how) as index:
            with renaming_arguments(table="TABLE", key="--key", text="--text", group="--group", where="--where"):
                index.follow(table, **options)
            report, seconds = (SyncReport(complete=False), 0.0) if later else _synced(index, None, False, COMMIT_EVERY)
    _report(report, seconds, as_json)


def _create(database: Path, scheme: Any, table: str, options: dict[str, Any], how: dict[str, Any]) -> None:
    """One transaction, so that a wrong table or column leaves the file unchanged."""
    path = str(database)
    with translated(path), contextlib.closing(open_file(path, read_only=False, durability="full", timeout=30.0)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        sql = "SELECT 1 FROM sqlite_schema WHERE name = ? COLLATE NOCASE"
        if connection.execute(sql, (f"{how['name']}_setting",)).get is None:
            with Index(connection, scheme or MinHash(), **how) as index:
                index.follow(table, **options)
        connection.execute("COMMIT")


@index_command()
@click.option("--limit", type=click.IntRange(min=1), help="Process at most this many keys.")
@click.option("--full", is_flag=True, help="Also compare all rows with their documents, to find unrecorded changes.")
@click.option(
    "--commit-every", type=click.IntRange(min=1), default=COMMIT_EVERY, show_default=True, help="Keys in a transaction."
)
def sync(index_path: Path, name: str, limit: int | None, full: bool, commit_every: int, as_json: bool) -> None:
    """Update INDEX with the changed rows of its followed table.

    \b
    neardup sync app.db
    neardup sync app.db --full
    """
    with warnings_as_notes(), open_index(index_path, name, write=True) as index:
        report, seconds = _synced(index, limit, full, commit_every)
    _report(report, seconds, as_json)


@index_command()
def unfollow(index_path: Path, name: str, as_json: bool) -> int:
    """Stop following a table: its triggers go, documents stay.

    Do this before you drop the index's tables, because the triggers would make every write to the followed table fail. Exit code
    1 if INDEX follows no table.

    \b
    neardup unfollow app.db
    """
    with open_index(index_path, name, write=True) as index:
        done = index.unfollow()
    emit_result({"unfollowed": done}, "follows no table any more" if done else "followed no table", as_json=as_json)
    return 0 if done else 1


def _synced(index: Index, limit: int | None, full: bool, commit_every: int) -> tuple[SyncReport, float]:
    started = time.monotonic()
    return index.sync(limit, full=full, commit_every=commit_every), time.monotonic() - started


def _report(report: SyncReport, seconds: float, as_json: bool) -> None:
    for problem in () if as_json else report.problems[:FIRST_PROBLEMS]:
        key = "without a key" if problem.key is None else escaped(problem.key)
        print_note(f"row {key} skipped: {in_command_terms(problem.reason)}")
    if report.compared and not as_json:
        emit(f"all rows were compared ({escaped(in_command_terms(report.compared))}): {report.found:,} documents differed")
    print_report(report, ("replaced", "deleted", "unchanged", "skipped"), seconds, as_json)
    if not report.complete and not as_json:
        emit("more is pending: run neardup sync again")
