"""Finds documents that differ from their rows although no change is pending."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from ... import limits
from ...errors import MismatchError
from ..layout.state import Store
from . import triggers
from .rows import RawKey, Rows
from .scan import read_scan
from .stored import StoredDocuments
from .table import find_followed_table


class Comparison:
    """Finds documents that differ from their rows although no change is pending, for `check`. The caller holds a transaction."""

    def __init__(self, store: Store) -> None:
        self.store = store
        assert store.following is not None
        self.following = store.following

    def notes(self) -> Iterator[str]:
        """Pending work, which is no problem."""
        if not triggers.tables_exist(self.store):
            return
        scan = read_scan(self.store)
        if scan is not None:
            yield f"all rows of {self.following.table} are to be compared ({scan.reason}): sync() does it"
        count = self.store.db.value(self.store.sql("SELECT count(*) FROM main.{index}_pending"))
        if count:
            yield f"{count:,} changes of {self.following.table} are pending: sync() takes them over"

    def problems(self) -> Iterator[tuple[str, list[object]]]:
        """(message, examples) for each problem, with one example more than is shown."""
        try:
            table = find_followed_table(self.store.db, self.following)
        except MismatchError as error:
            yield str(error), [self.following.table]
            return
        if not triggers.has_triggers(self.store, table):
            yield "triggers that are missing or changed on the table", [table.name]
            return
        rows, stored = Rows(self.store, table), StoredDocuments(self.store)
        if read_scan(self.store) is None and not rows.pending(0, 1):
            differing, rowless = _differing_rows(rows, stored), _keys_without_row(rows, stored)
            for what, found in (
                (f"rows of {table.name} whose document is missing or another one, and not pending", differing),
                (f"documents that are no row of {table.name}, and not pending", rowless),
            ):
                yield what, [_place_text(raw_key) for raw_key in islice(found, MOST_SHOWN)]


MOST_SHOWN = 6
"""One more than a report shows."""


def _place_text(raw_key: RawKey) -> str:
    return repr(raw_key.value.decode("utf-8", "replace") if raw_key.kind == "text" else raw_key.value)


def _differing_rows(rows: Rows, stored: StoredDocuments) -> Iterator[RawKey]:
    raw_key = None
    while page := list(rows.rows_after(raw_key, limits.CHECKED_TEXTS)):
        raw_key = page[-1].raw_key
        documents = {row.raw_key: None if row.key is None else stored.document_at(row.key) for row in page}
        both = [(row, document) for row in page if row.text is not None and (document := documents[row.raw_key]) is not None]
        differing = {row.raw_key for (row, _), differs in zip(both, stored.differing(both), strict=True) if differs}
        for row in page:
            if row.raw_key in differing or (row.text is None) != (documents[row.raw_key] is None):
                yield row.raw_key


def _keys_without_row(rows: Rows, stored: StoredDocuments) -> Iterator[RawKey]:
    after, last_id = 0, stored.last_id()
    while page := stored.page(after, last_id, limits.SYNC_ROWS):
        after = page[-1][0]
        raw_keys = [rows.raw_key_of(key) for _, key in page]
        yield from (raw_key for raw_key in raw_keys if not rows.has_row(raw_key))
