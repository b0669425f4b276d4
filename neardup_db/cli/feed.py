"""Records into an index, a bounded piece at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ..index import Index
from ..values import AddReport
from .output import Meter
from .records import Record, RecordSource

PIECE_BYTES = 32 * 1024 * 1024
"""Text that is held at a time, and the size of a transaction where none is asked for."""


def pieces(records: Iterable[Record], most_records: int, most_bytes: int = PIECE_BYTES) -> Iterator[list[Record]]:
    """The records in lists of at most so many records and, but for the last record, bytes."""
    piece: list[Record] = []
    size_bytes = 0
    for record in records:
        piece.append(record)
        size_bytes += len(record.raw)
        if len(piece) >= most_records or size_bytes >= most_bytes:
            yield piece
            piece, size_bytes = [], 0
    if piece:
        yield piece


def added(first: AddReport, second: AddReport) -> AddReport:
    """The sum of two reports."""
    return AddReport(
        *(getattr(first, name) + getattr(second, name) for name in ("added", "replaced", "ignored", "skipped", "matched"))
    )


def metered(source: RecordSource, meter: Meter) -> Iterator[Record]:
    """The records of a source, each told to the meter."""
    for record in source:
        meter.advance(source.position)
        yield record


def feed(
    index: Index,
    source: RecordSource,
    meter: Meter,
    arguments: Callable[[Record], dict[str, Any]],
    *,
    commit_every: int,
    **options: Any,
) -> AddReport:
    """Adds what a source holds, one transaction every `commit_every` records or PIECE_BYTES; returns what became of them.

    `arguments` makes of a record the arguments of `Index.add`; `options` go to `Index.add_many`.
    """
    report = AddReport()
    meter.duplicates = 0
    for piece in pieces(metered(source, meter), commit_every):
        records = [arguments(record) for record in piece]
        if index.scheme.takes_text:
            report = added(report, index.add_many(records, **options))
        else:
            report = added(report, index.add_codes([one["key"] for one in records], [one["text"] for one in records], **options))
        meter.duplicates = report.matched
    return report
