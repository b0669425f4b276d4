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
from . import common, indexes
from .common import Results
from .feed import report_result
from .output import FIRST_PROBLEMS, escaped, print_note
from .wording import in_command_terms, told_as

COMMIT_EVERY = 20_000  # rows in a transaction, chosen so that the application waits at most about two seconds


@common.command()
@click.argument("database", metavar="DATABASE", type=common.path)
@click.argument("table")
@common.name_option
@click.option("--key", default="id", help="Column that names a row: the PRIMARY KEY, or UNIQUE and NOT NULL.")
@click.option("--text", default="body", help="Column of the texts.")
@click.option("--group", help="Column of groups; documents match within their group only.")
@click.option("--where", help="SQL condition on a row's columns; other rows are ignored.")
@click.option("--sync", type=click.Choice(["query"]), help="query: every query first applies pending changes.")
@click.option("--later", is_flag=True, help="Do not index the rows until the first neardup sync.")
@common.scheme_options
@common.text_options
@common.new_index_options
def follow(database: Path, table: str, name: str, later: bool, **options: Any) -> Results:
    """The index is created beside the application's tables if it does not exist. Triggers on TABLE, which fire in any program,
    record the keys of changed rows for `neardup sync`. The texts stay in TABLE only.

    \b
    neardup follow app.db articles --key id --text body
    neardup follow app.db articles --where "published = 1" --group lang --sync query
    """
    if indexes.is_new(database):
        raise ParameterError(f"{database}: no such file; give the database that has the table {table!r}")
    scheme, settings = common.scheme_of(options), indexes.new_index_settings(options)
    settings.update(text=common.text_rules(options), name=name)
    with told_as(database), indexes.warnings_as_notes():
        with told_as(**_NAMES):
            _create(database, scheme, table, options, settings)
        with Index(database, scheme, attach=True, **settings) as index:
            with told_as(**_NAMES):
                index.follow(table, **options)
            result = _result(SyncReport(complete=False), 0.0) if later else _synced(index, None, False, COMMIT_EVERY)
    yield result


_NAMES: dict[str, Any] = {"table": "TABLE", "key": "--key", "text": "--text", "group": "--group", "where": "--where"}


def _create(database: Path, scheme: Any, table: str, options: dict[str, Any], settings: dict[str, Any]) -> None:
    """One transaction, so that a wrong table or column leaves the file unchanged."""
    path = str(database)
    with translated(path), contextlib.closing(open_file(path, read_only=False, durability="full", timeout=30.0)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        sql = "SELECT 1 FROM sqlite_schema WHERE name = ? COLLATE NOCASE"
        if connection.execute(sql, (f"{settings['name']}_setting",)).get is None:
            with Index(connection, scheme or MinHash(), **settings) as index:
                index.follow(table, **options)
        connection.execute("COMMIT")


@common.index_command()
@click.option("--limit", type=click.IntRange(min=1), help="Process at most this many keys.")
@click.option("--full", is_flag=True, help="Also compare all rows with their documents, to find unrecorded changes.")
@click.option("--commit-every", type=click.IntRange(min=1), default=COMMIT_EVERY, help="Keys in a transaction.")
def sync(index: Index, limit: int | None, full: bool, commit_every: int) -> Results:
    """
    \b
    neardup sync app.db
    neardup sync app.db --full
    """
    with indexes.warnings_as_notes():
        result = _synced(index, limit, full, commit_every)
    yield result


@common.index_command()
def unfollow(index: Index) -> Results:
    """Do this before you drop the index's tables, because the triggers would make every write to the followed table fail. Exit
    code 1 if INDEX follows no table.

    \b
    neardup unfollow app.db
    """
    done = index.unfollow()
    yield {"unfollowed": done}, "follows no table any more" if done else "followed no table"
    return 0 if done else 1


def _synced(index: Index, limit: int | None, full: bool, commit_every: int) -> tuple[Any, list[str]]:
    started = time.monotonic()
    return _result(index.sync(limit, full=full, commit_every=commit_every), time.monotonic() - started)


def _result(report: SyncReport, seconds: float) -> tuple[Any, list[str]]:
    for problem in () if common.is_json() else report.problems[:FIRST_PROBLEMS]:
        key = "without a key" if problem.key is None else escaped(problem.key)
        print_note(f"row {key} skipped: {in_command_terms(problem.reason)}")
    value, line = report_result(report, ("replaced", "deleted", "unchanged", "skipped"), seconds)
    lines = [line]
    if report.compared:
        told = escaped(in_command_terms(report.compared))
        lines.insert(0, f"all rows were compared ({told}): {report.found:,} documents differed")
    if not report.complete:
        lines.append("more is pending: run neardup sync again")
    return value, lines
