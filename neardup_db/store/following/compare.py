"""Tells what is pending from what is wrong: documents that are not as their rows, though nothing says that they changed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from ... import limits
from ...errors import MismatchError
from ..layout.state import Store
from . import triggers
from .rows import Place, Rows
from .scan import read_scan
from .stored import StoredDocuments
from .table import found_again


class Comparison:
    """Compares the documents with the rows of the followed table, for `check`. The caller holds a transaction."""

    def __init__(self, store: Store) -> None:
        self.store = store
        assert store.following is not None
        self.following = store.following

    def notes(self) -> Iterator[str]:
        """What is pending, and no problem."""
        if not triggers.tables_exist(self.store):
            return
        scan = read_scan(self.store)
        if scan is not None:
            yield f"all rows of {self.following.table} are to be compared ({scan.why}): sync() does it"
        count = self.store.db.value(self.store.sql("SELECT count(*) FROM main.{index}_pending"))
        if count:
            yield f"{count:,} changes of {self.following.table} are pending: sync() takes them over"

    def problems(self) -> Iterator[tuple[str, list[object]]]:
        """Messages, each with examples; one more example than is shown is enough."""
        try:
            table = found_again(self.store.db, self.following)
        except MismatchError as error:
            yield str(error), [self.following.table]
            return
        if not triggers.has_triggers(self.store, table):
            yield "triggers that are missing or changed on the table", [table.name]
            return
        rows, stored = Rows(self.store, table), StoredDocuments(self.store)
        if read_scan(self.store) is None and not rows.pending(0, 1):
            for what, found in (
                (f"rows of {table.name} whose document is missing or another one, and not pending", _unlike(rows, stored)),
                (f"documents that are no row of {table.name}, and not pending", _keys_without_row(rows, stored)),
            ):
                yield what, [_place_text(place) for place in islice(found, MOST_SHOWN)]


MOST_SHOWN = 6
"""One more than a report names."""


def _place_text(place: Place) -> str:
    return repr(place.value.decode("utf-8", "replace") if place.kind == "text" else place.value)


def _unlike(rows: Rows, stored: StoredDocuments) -> Iterator[Place]:
    """Keys of rows that differ from their documents."""
    place = None
    while page := list(rows.rows_after(place, limits.CHECKED_TEXTS)):
        place = page[-1].place
        documents = {row.place: None if row.key is None else stored.document_at(row.key) for row in page}
        both = [(row, document) for row in page if row.text is not None and (document := documents[row.place]) is not None]
        unlike = {row.place for (row, _), other in zip(both, stored.unlike(both), strict=True) if other}
        yield from (row.place for row in page if row.place in unlike or (row.text is None) != (documents[row.place] is None))


def _keys_without_row(rows: Rows, stored: StoredDocuments) -> Iterator[Place]:
    """Keys of documents without a row."""
    after, last_id = 0, stored.last_id()
    while page := stored.page(after, last_id, limits.SYNC_ROWS):
        after = page[-1][0]
        places = [rows.place_of(key) for _, key in page]
        yield from (place for place in places if not rows.has_row(place))
