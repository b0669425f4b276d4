"""Adds records to an index in bounded batches."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from .. import limits
from ..errors import DuplicateKeyError, NearDupError
from ..index import Index
from ..values import AddReport, SyncReport, summed
from .inputs.source import InputRecord, RecordError, Source, in_pieces
from .output import as_json_value, count_text
from .progress import Meter
from .wording import in_command_terms


def sum_of_reports(first: AddReport, second: AddReport, before: int) -> AddReport:
    """The second starts after the first `before` records."""
    later = tuple(replace(problem, record=before + problem.record) for problem in second.problems)
    return summed(first, replace(second, problems=later))


def feed(
    index: Index,
    source: Source,
    meter: Meter,
    arguments: Callable[[InputRecord], dict[str, Any]],
    *,
    commit_every: int,
    committed: Callable[[int], None] = lambda records: None,
    records: Iterable[InputRecord] | None = None,
    **options: Any,
) -> AddReport:
    """Add the records of a source, or only `records` of it. A transaction ends after `commit_every` records, or earlier after
    `limits.COMMIT_BYTES`; reading, which may block or fail, happens between transactions.

    `arguments` returns the `Index.add` arguments of a record; `committed` is called with the record count of each committed
    transaction; `options` go to `Index.add_many`.
    """
    report = AddReport()
    for piece in in_pieces(source if records is None else records, commit_every, limits.COMMIT_BYTES):
        with index.transaction():
            told = _add(index, source, piece, [arguments(record) for record in piece], options)
        committed(len(piece))
        report = sum_of_reports(report, told, meter.records)
        meter.advance(source.position, len(piece), report.matched)
    return report


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
        place = _PLACE.match(str(error))
        if place is None:
            raise
        record, reason = piece[int(place[1])], in_command_terms(str(error)[place.end() :])
        if isinstance(error, DuplicateKeyError) and record.named:
            reason += "; --source NAME tells another file of the same name apart"
        raise RecordError(source.problem(record, reason)) from error
    for problem in report.problems:
        source.add_problem(source.problem(piece[problem.record], in_command_terms(problem.reason)))
    return report


def report_result(report: AddReport | SyncReport, counts: Sequence[str], seconds: float) -> tuple[dict[str, Any], str]:
    """A report as a value and as a line. counts: the counts of the report to name after the added documents."""
    done = ", ".join([f"{count_text(report.added, 'document')} added", *(f"{getattr(report, name):,} {name}" for name in counts)])
    line = f"{done}; {report.matched:,} with a near-duplicate among the earlier ones; {seconds:.1f} s"
    return {**as_json_value(report), "seconds": seconds}, line
