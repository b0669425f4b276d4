"""`neardup merge`: adds the documents of other indexes to one."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Any

import click

from ..errors import DuplicateKeyError
from ..index import Index
from ..values import AddReport
from .command import command
from .feed import print_report, sum_of_reports
from .options import if_exists_option, is_new, json_option, name_option, open_existing, removed_if_unused
from .progress import Meter
from .wording import naming_file


@command()
@click.argument("into", metavar="INTO", type=click.Path(path_type=Path))
@click.argument("sources", metavar="FROM...", nargs=-1, required=True, type=click.Path(path_type=Path))
@name_option
@if_exists_option("a document whose key is in INTO")
@click.option("--no-record-matches", is_flag=True, help="Skip the search for matches in a new INTO; clusters finds them later.")
@click.option("--commit-every", type=click.IntRange(min=1), help="Documents in a transaction.  [default: one for all]")
@json_option
def merge(
    into: Path,
    sources: tuple[Path, ...],
    name: str,
    if_exists: str,
    no_record_matches: bool,
    commit_every: int | None,
    as_json: bool,
) -> None:
    """Add the documents of other indexes to INTO.

    Fingerprints, groups, metadata, texts, times and expiry are copied, in the order of FROM; expired documents are not. A new
    INTO gets the settings of the first FROM except its window. All indexes must have the same text rules and, except for
    threshold and bands, the same scheme.

    \b
    neardup merge articles.db monday.db tuesday.db
    neardup merge crawl.db part-*.db --if-exists ignore --commit-every 100000
    """
    started = time.monotonic()
    report = AddReport()
    with contextlib.ExitStack() as stack:
        others = [stack.enter_context(_source(path, name)) for path in sources]
        stack.enter_context(naming_file(into))
        stack.enter_context(removed_if_unused(into))
        index = stack.enter_context(_target(into, name, others[0], no_record_matches))
        sizes = [path.stat().st_size for path in sources]
        meter = stack.enter_context(Meter("Merge", sum(sizes)))
        if commit_every is None:
            stack.enter_context(index.transaction())
        taken = 0
        for number, (path, other) in enumerate(zip(sources, others, strict=True)):
            total = len(other)

            def moved(done: int, before: int = sum(sizes[:number]), size: int = sizes[number], total: int = total) -> None:
                meter.advance(before + size * min(done, total) // max(total, 1), 0)

            try:
                told = index.merge(other, if_exists=if_exists, commit_every=commit_every, progress=moved)  # type: ignore[arg-type]
            except DuplicateKeyError as error:
                raise DuplicateKeyError(f"{path}: {error}") from error
            report = sum_of_reports(report, told, taken)
            taken += total
            meter.records += told.total
    print_report(report, ("replaced", "ignored"), time.monotonic() - started, as_json)


def _source(path: Path, name: str) -> Index:
    with naming_file(path):
        return open_existing(path, name)


def _target(into: Path, name: str, first: Index, no_record_matches: bool) -> Index:
    known: dict[str, Any] = {"record_matches": False} if no_record_matches else {}
    if is_new(into):
        sql = f"SELECT name, value FROM {first.name}_setting WHERE name IN ('store_text', 'record_matches')"
        settings = {name: bool(value) for name, value in first.connection.execute(sql)}
        known = {"scheme": first.scheme, "text": first.text_rules, **settings, **known}
    return Index(into, name=name, **known)
