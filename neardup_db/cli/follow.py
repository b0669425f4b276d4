"""`neardup follow`, `sync` and `unfollow`: an index of the rows of a table that is there already."""

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
from .feed import warnings_as_notes
from .options import (
    index_argument,
    is_new,
    json_option,
    name_option,
    open_index,
    scheme_of,
    scheme_options,
    text_options,
    text_rules,
)
from .output import FIRST_PROBLEMS, counted, emit, emit_json, escaped, plain, print_note
from .wording import about, called, worded

COMMIT_EVERY = 20_000
"""Rows in a transaction: the application waits for about two seconds at most."""


@command()
@click.argument("database", metavar="DATABASE", type=click.Path(path_type=Path))
@click.argument("table")
@name_option
@click.option("--key", default="id", show_default=True, help="Column that names a row: the PRIMARY KEY, or UNIQUE and NOT NULL.")
@click.option("--text", default="body", show_default=True, help="Column of the texts.")
@click.option("--group", help="Column of groups; near-duplicates are searched within a group.")
@click.option("--where", help="SQL that a row has to meet, of its own columns.")
@click.option("--sync", type=click.Choice(["query"]), help="query: every question takes over what is pending first.")
@click.option("--later", is_flag=True, help="Leave the rows to the first neardup sync.")
@scheme_options
@text_options
@click.option("--store-text", is_flag=True, help="Keep the texts in a new index too, for explain and rebuild.")
@click.option("--no-record-matches", is_flag=True, help="Look for no matches in a new index; clusters finds them later.")
@json_option
def follow(database: Path, table: str, name: str, later: bool, as_json: bool, **options: Any) -> None:
    """Index the rows of an application's table in DATABASE.

    The index is made beside the application's tables if it is not there. Triggers on TABLE, which any program fires, note the
    keys of rows that change; `neardup sync` takes them over. The texts stay in TABLE alone.

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
    with about(database), warnings_as_notes():
        how = {"text": rules, "name": name, **known}
        with called(table="TABLE", key="--key", text="--text", group="--group", where="--where"):
            _create(database, scheme, table, options, how)
        with Index(database, scheme, attach=True, **how) as index:
            with called(table="TABLE", key="--key", text="--text", group="--group", where="--where"):
                index.follow(table, **options)
            report, seconds = (SyncReport(complete=False), 0.0) if later else _synced(index, None, False, COMMIT_EVERY)
    _report(report, seconds, as_json)


def _create(database: Path, scheme: Any, table: str, options: dict[str, Any], how: dict[str, Any]) -> None:
    """Make the index, if there is none of that name, in one transaction with its triggers: a wrong table or column leaves nothing
    in the file."""
    path = str(database)
    with translated(path), contextlib.closing(open_file(path, read_only=False, durability="full", timeout=30.0)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        sql = "SELECT 1 FROM sqlite_schema WHERE name = ? COLLATE NOCASE"
        if connection.execute(sql, (f"{how['name']}_setting",)).get is None:
            with Index(connection, scheme or MinHash(), **how) as index:
                index.follow(table, **options)
        connection.execute("COMMIT")


@command()
@index_argument
@name_option
@click.option("--limit", type=click.IntRange(min=1), help="Look at this many keys at most.")
@click.option("--full", is_flag=True, help="Compare all rows with their documents too, and mend what no trigger saw.")
@click.option(
    "--commit-every", type=click.IntRange(min=1), default=COMMIT_EVERY, show_default=True, help="Keys in a transaction."
)
@json_option
def sync(index_path: Path, name: str, limit: int | None, full: bool, commit_every: int, as_json: bool) -> None:
    """Take over the changed rows of the table that INDEX follows.

    \b
    neardup sync app.db
    neardup sync app.db --full
    """
    with warnings_as_notes(), open_index(index_path, name, write=True) as index:
        report, seconds = _synced(index, limit, full, commit_every)
    _report(report, seconds, as_json)


@command()
@index_argument
@name_option
@json_option
def unfollow(index_path: Path, name: str, as_json: bool) -> int:
    """Follow no table any more: the triggers go, the documents stay.

    Do this before the index's tables are dropped: without them the triggers would make every write to the followed table fail.
    Exit code 1 if INDEX follows no table.

    \b
    neardup unfollow app.db
    """
    with open_index(index_path, name, write=True) as index:
        done = index.unfollow()
    if as_json:
        emit_json({"unfollowed": done})
    else:
        emit("follows no table any more" if done else "followed no table")
    return 0 if done else 1


def _synced(index: Index, limit: int | None, full: bool, commit_every: int) -> tuple[SyncReport, float]:
    started = time.monotonic()
    return index.sync(limit, full=full, commit_every=commit_every), time.monotonic() - started


def _report(report: SyncReport, seconds: float, as_json: bool) -> None:
    if as_json:
        emit_json({**plain(report), "seconds": seconds})
        return
    for problem in report.problems[:FIRST_PROBLEMS]:
        print_note(f"row {'without a key' if problem.key is None else escaped(problem.key)} left out: {worded(problem.reason)}")
    if report.compared:
        emit(f"all rows were compared ({escaped(worded(report.compared))}): {report.found:,} documents differed")
    emit(
        f"{counted(report.added, 'document')} added, {report.replaced:,} replaced, {report.deleted:,} deleted, "
        f"{report.unchanged:,} unchanged, {report.skipped:,} left out; {report.matched:,} with a near-duplicate among the "
        f"earlier ones; {seconds:.1f} s"
    )
    if not report.complete:
        emit("more is pending: run neardup sync again")
