"""Adds records to an index in bounded batches."""

from __future__ import annotations

import contextlib
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import Any

from .. import limits
from ..errors import DuplicateKeyError, NearDupError, ShortTextsWarning
from ..index import Index
from ..parameters import quoted_key
from ..values import MOST_PROBLEMS, AddReport, Key, SyncReport
from .inputs.lines import RecordError
from .inputs.passes import in_pieces
from .inputs.source import InputRecord, Source
from .output import as_json_value, count_text, emit_result, print_note
from .screen import Meter
from .wording import in_command_terms


def sum_of_reports(first: AddReport, second: AddReport, before: int) -> AddReport:
    """The second starts after the first `before` records."""
    later = (replace(problem, record=before + problem.record) for problem in second.problems)
    return AddReport(
        added=first.added + second.added,
        replaced=first.replaced + second.replaced,
        ignored=first.ignored + second.ignored,
        skipped=first.skipped + second.skipped,
        matched=first.matched + second.matched,
        problems=(*first.problems, *later)[:MOST_PROBLEMS],
    )


def feed(
    index: Index,
    source: Source,
    meter: Meter,
    arguments: Callable[[InputRecord], dict[str, Any]],
    *,
    commit_every: int,
    exactly: bool = False,
    committed: Callable[[int], None] = lambda records: None,
    records: Iterator[InputRecord] | None = None,
    **options: Any,
) -> AddReport:
    """Add the records of a source, or only `records` of it. A transaction ends after `commit_every` records or, unless `exactly`,
    earlier after `limits.COMMIT_BYTES`.

    `arguments` returns the `Index.add` arguments of a record; `committed` is called with the record count of each committed
    transaction; `options` go to `Index.add_many`.
    """
    report = AddReport()
    records = iter(source) if records is None else records
    for first in records:  # outside of a transaction, because reading the next record may block or fail
        taken = size_bytes = 0
        with index.transaction():
            for piece in in_pieces(chain([first], islice(records, commit_every - 1)), limits.PIECE_RECORDS):
                told = _add(index, source, piece, [arguments(record) for record in piece], options)
                report = sum_of_reports(report, told, meter.records)
                taken += len(piece)
                piece_bytes = sum(record.size_bytes for record in piece)
                size_bytes += piece_bytes
                meter.record_bytes += piece_bytes
                meter.advance(source.position, len(piece), report.matched)
                if size_bytes >= limits.COMMIT_BYTES and not exactly:
                    break
        committed(taken)
    return report


@contextlib.contextmanager
def warnings_as_notes() -> Iterator[None]:
    told: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("always", ShortTextsWarning)
        warnings.showwarning = lambda message, *_, **__: told.append(str(message))
        yield
    for message in told:
        print_note(in_command_terms(message))


_PLACE = re.compile(r"record (\d+): ")


def _add(
    index: Index, source: Source, piece: list[InputRecord], records: list[dict[str, Any]], options: dict[str, Any]
) -> AddReport:
    """Errors and skipped records name file and line."""
    try:
        if index.scheme.takes_text:
            report = index.add_many(records, **options)
        else:
            report = index.add_codes([record["key"] for record in records], [record["text"] for record in records], **options)
    except NearDupError as error:
        taken = None
        if isinstance(error, DuplicateKeyError) and options.get("if_exists", "error") == "error":  # not of another group
            taken = _first_refused(index, source, piece, records[0].get("group"))
        if taken is not None:
            raise RecordError(source.problem(*taken)) from error
        place = _PLACE.match(str(error))
        if place is None:
            raise
        raise RecordError(source.problem(piece[int(place[1])], in_command_terms(str(error)[place.end() :]))) from error
    for problem in report.problems:
        source.add_problem(source.problem(piece[problem.record], in_command_terms(problem.reason)))
    return report


def _first_refused(index: Index, source: Source, piece: list[InputRecord], group: Key | None) -> tuple[InputRecord, str] | None:
    """The first record of a failed batch whose key is in the index or earlier in the batch, and why; None if the key belongs to
    another group."""
    earlier: dict[Key, InputRecord] = {}
    for record in piece:
        if record.key in earlier:
            first = earlier[record.key]
            file = "" if first.path == record.path else f"{source.problem(first, '').file}, "
            return record, f"key {quoted_key(record.key)} stands in {file}line {first.line} already: {_REMEDY}"
        if record.key in index:
            if index.get_many([record.key], group=group) == [None]:
                return None
            return record, f"key {quoted_key(record.key)} is already in the index: {_REMEDY_NAMED if record.named else _REMEDY}"
        earlier[record.key] = record
    return None


_REMEDY = "add --if-exists ignore to keep the first, --if-exists replace to keep the last, or --on-error skip"
_REMEDY_NAMED = (
    "was this file added before? Add --if-exists ignore to add only what is missing or, if it is another file of the same name, "
    "--source NAME to tell them apart"
)


def print_report(report: AddReport | SyncReport, counts: Sequence[str], seconds: float, as_json: bool) -> None:
    """counts: the counts of the report to name after the added documents."""
    done = ", ".join([f"{count_text(report.added, 'document')} added", *(f"{getattr(report, name):,} {name}" for name in counts)])
    line = f"{done}; {report.matched:,} with a near-duplicate among the earlier ones; {seconds:.1f} s"
    emit_result({**as_json_value(report), "seconds": seconds}, line, as_json=as_json)
