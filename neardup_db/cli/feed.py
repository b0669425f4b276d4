"""Records into an index, a bounded piece at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from .. import limits
from ..index import Index
from ..values import AddReport
from .output import Meter
from .records import Record, RecordSource


def pieces(records: Iterable[Record], most_records: int) -> Iterator[list[Record]]:
    """The records in lists of at most so many records and, but for the last record, `limits.PIECE_BYTES`."""
    piece: list[Record] = []
    size_bytes = 0
    for record in records:
        piece.append(record)
        size_bytes += len(record.raw)
        if len(piece) >= most_records or size_bytes >= limits.PIECE_BYTES:
            yield piece
            piece, size_bytes = [], 0
    if piece:
        yield piece


def added(first: AddReport, second: AddReport) -> AddReport:
    """The sum of two reports."""
    return AddReport(
        *(getattr(first, name) + getattr(second, name) for name in ("added", "replaced", "ignored", "skipped", "matched"))
    )


def feed(
    index: Index,
    source: RecordSource,
    meter: Meter,
    arguments: Callable[[Record], dict[str, Any]],
    *,
    commit_every: int,
    **options: Any,
) -> AddReport:
    """Adds what a source holds, one transaction every `commit_every` records or `limits.COMMIT_BYTES`.

    Returns what became of them. `arguments` makes of a record the arguments of `Index.add`; `options` go to `Index.add_many`.
    """
    report = AddReport()
    most = min(commit_every, limits.PIECE_RECORDS)
    waiting = pieces(source, most)
    piece = next(waiting, None)
    while piece is not None:
        records = size_bytes = 0
        with index.transaction():
            while True:
                report = added(report, _add(index, [arguments(record) for record in piece], options))
                records += len(piece)
                piece_bytes = sum(len(record.raw) for record in piece)
                size_bytes += piece_bytes
                meter.record_bytes += piece_bytes
                meter.advance(source.position, len(piece), report.matched)
                full = records + most > commit_every or size_bytes >= limits.COMMIT_BYTES
                piece = None if full else next(waiting, None)
                if piece is None:
                    break
        piece = next(waiting, None)  # after the commit: an error of the next record undoes nothing of this transaction
    return report


def _add(index: Index, records: list[dict[str, Any]], options: dict[str, Any]) -> AddReport:
    if index.scheme.takes_text:
        return index.add_many(records, **options)
    return index.add_codes([record["key"] for record in records], [record["text"] for record in records], **options)
