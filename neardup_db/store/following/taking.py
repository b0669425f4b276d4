"""Taking changed rows of a followed table over into the index: removals first, then all that is new by one bulk load."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ... import clock, limits
from ...errors import ParameterError
from ...parameters import storable
from ...values import MOST_PROBLEMS, Key, Record, Skipped, SyncReport
from ..asking.documents import Documents
from ..layout.state import Store
from ..writing.ingest import Ingest, IngestOptions
from ..writing.writer import Writer
from . import triggers
from .rows import Place, Row, Rows
from .scan import Scan, lost_triggers, read_scan, unseen_deletes, write_scan
from .stored import Stored, StoredDocuments
from .table import found_again

Looked = tuple[Place, Row | None]
"""A key, and its row where there is one."""


class Taking:
    """One transaction of `sync`, which the caller holds.

    A change says only that a row is, or was, at a key. The row that is there now decides, so a key may be looked at any number of
    times, in any order."""

    def __init__(self, store: Store, documents: Documents, writer: Writer, limit: int | None, full: bool) -> None:
        self.store = store
        self.writer = writer
        self.full = full
        self.left = limit
        """Keys that may still be looked at."""
        assert store.following is not None
        self.table = found_again(store.db, store.following)
        self.rows = Rows(store, self.table)
        self.stored = StoredDocuments(store)
        self.scan = read_scan(store)
        if not triggers.has_triggers(store, self.table):
            triggers.install(store, self.table)
            self.scan = Scan(lost_triggers(self.table.name))
        self.why = ""
        options = IngestOptions("text", "error", "raise", False, None, None, takes_over=True)
        self.ingest = Ingest(store, documents, writer, options)
        self.counts = dict.fromkeys(("added", "replaced", "deleted", "unchanged", "skipped"), 0)
        self.found = 0
        self.counted = False
        """Whether the number of rows was found right before the end."""
        self.scanned = False
        """Whether a comparison of all rows has ended in this transaction."""
        self.problems: list[Skipped] = []
        self.looked = 0
        self.matched = 0
        """Of the documents that were added one by one."""
        self._light = store.db.depth == 1
        """Whether the outermost transaction is that of `sync`, which an error takes back in any case."""
        self._tell: Callable[[int], Any] | None = None

    def run(self, tell: Callable[[int], Any] | None) -> SyncReport:
        """Take over what is pending and, where a comparison is to be done, all rows. tell: called with the number of keys that
        were looked at, now and then."""
        self._tell = tell
        added = self.ingest.run(map(_record, self._added()))
        write_scan(self.store, self.scan)
        return SyncReport(
            **self.counts,
            matched=added.matched + self.matched,
            compared=self.why,
            found=self.found,
            complete=self.scan is None and not self._is_pending() and (self.counted or self._is_counted()),
            problems=tuple(self.problems),
        )

    def _added(self) -> Iterator[Row]:
        """The rows that become documents, where they are many."""
        if self.scan is not None and self.scan.is_new and not self.full:  # it looks at every row, those that are pending too
            self._drop_pending(None)
        else:
            yield from self._pending()
        if self.scan is None and self.full:
            self.scan = Scan("full=True")
        elif self.scan is None and not self._is_pending():
            self.counted = self._is_counted()
            self.scan = None if self.counted else Scan(unseen_deletes(self.table.name))
        if self.scan is not None:
            self.why = self.scan.why
            before = sum(self.counts[name] for name in ("added", "replaced", "deleted"))
            yield from self._compared()
            self.scanned = self.scan is None
            self.found = sum(self.counts[name] for name in ("added", "replaced", "deleted")) - before

    def _is_pending(self) -> bool:
        return self.store.db.value(self.store.sql("SELECT 1 FROM main.{index}_pending LIMIT 1")) is not None

    def _is_counted(self) -> bool:
        """Whether the table has as many rows as there are documents and excluded rows."""
        with self.store.reading():  # all earlier records are written then
            return self.rows.count() == self.stored.count()

    # ---- which keys --------------------------------------------------------------------------------------------------

    def _pending(self) -> Iterator[Row]:
        """Those of what is pending."""
        while most := self._page():
            with self.store.reading():  # all earlier records are written then: a key may come again
                looked, last_id = self._changed_rows(self.rows.pending(0, most))
            if last_id is None:
                return
            self._drop_pending(last_id, looked)
            rows = list(self._rows_to_add(looked))
            if len(rows) <= limits.SYNC_SINGLY:
                self._add_singly(rows)
            else:
                yield from rows

    def _changed_rows(self, changes: Sequence[tuple[int, Place]]) -> tuple[list[Looked], int | None]:
        """The rows of changed keys, each once, and the id of the last change that was looked at."""
        looked: dict[Place, Row | None] = {}
        size, last_id = 0, None
        for last_id, place in changes:  # noqa: B007
            self._count(1)
            if place.kind == "null":
                if self.rows.without_key():
                    self._skip(None, f"the key of a row is NULL in {self.table.following.key!r}: give it one", self.looked)
            elif place not in looked:
                row = looked[place] = self.rows.row_at(place)
                size += 0 if row is None else row.size
                if size >= limits.SYNC_BYTES:
                    break
        return list(looked.items()), last_id

    def _compared(self) -> Iterator[Row]:
        """Those that differ from their documents; removes documents without a row."""
        scan = self.scan
        assert scan is not None
        with self.store.reading():  # what was pending is written then; from here on no key comes twice
            look = self.stored.last_id() > 0
            if scan.is_new:
                self.scan = scan = scan._replace(last_id=self.stored.last_id())
                self.store.db.execute(self.store.sql("DELETE FROM main.{index}_excluded"))
            if scan.is_new and self.rows.without_key():
                self._skip(None, f"the key of rows is NULL in {self.table.following.key!r}: give them one", self.looked)
        while scan.document_id is None and (most := self._page()):
            with self.ingest.without_flush():
                looked = [(row.place, row) for row in self._next_rows(scan.place, most)]
                self.stored.exclude(looked)
            if looked:
                self.scan = scan = scan._replace(place=looked[-1][0])
                self._count(len(looked))
                yield from self._rows_to_add(looked) if look else self._new([row for _, row in looked])
            else:
                self.scan = scan = scan._replace(document_id=0)
        while scan.document_id is not None and (most := self._page()):
            with self.store.reading():
                documents = self.stored.page(scan.document_id, scan.last_id, most)
                gone = [number for number, key in documents if not self.rows.has_row(self.rows.place_of(key))]
            if not documents:
                self.scan = None
                return
            self.scan = scan = scan._replace(document_id=documents[-1][0])
            self._count(len(documents))
            self._remove(gone)
            self.counts["deleted"] += len(gone)

    def _next_rows(self, after: Place | None, most: int) -> list[Row]:
        rows, size = [], 0
        for row in self.rows.rows_after(after, most):
            rows.append(row)
            size += row.size
            if size >= limits.SYNC_BYTES:
                break
        return rows

    def _page(self) -> int:
        """How many keys may be looked at together, 0 = none are left."""
        if self._tell is not None and self.looked:
            self._tell(self.looked)
        return limits.SYNC_ROWS if self.left is None else min(self.left, limits.SYNC_ROWS)

    def _count(self, looked: int) -> None:
        self.looked += looked
        if self.left is not None:
            self.left -= looked

    # ---- what becomes of them ----------------------------------------------------------------------------------------

    def _new(self, rows: Sequence[Row]) -> Iterator[Row]:
        """Of rows of which none is a document, those that become one."""
        for number, row in enumerate(rows, self.looked - len(rows)):
            if row.text is not None:
                self.counts["added"] += 1
                yield row
            elif row.problem is not None:
                self._skip(row.key, row.problem, number)

    def _rows_to_add(self, looked: Sequence[Looked]) -> Iterator[Row]:
        """Those that become documents, after the removal of all that is not as its row."""
        with self.ingest.without_flush():
            documents = self._documents(looked)
        with_text = [row for _, row in looked if row is not None and row.text is not None]
        both = [(row, documents[row.place]) for row in with_text if row.place in documents]
        replaced = {row.place for (row, _), unlike in zip(both, self.stored.unlike(both), strict=True) if unlike}
        kept = {row.place for row, _ in both} - replaced
        self._remove([stored.id for place, stored in documents.items() if place not in kept])
        for number, (place, row) in enumerate(looked, self.looked - len(looked)):
            if row is not None and row.problem is not None:
                self.counts["deleted"] += place in documents
                self._skip(row.key, row.problem, number)
            elif row is None or row.text is None:
                self.counts["deleted"] += place in documents
            elif place in kept:
                self.counts["unchanged"] += 1
            else:
                self.counts["replaced" if place in replaced else "added"] += 1
                yield row

    def _documents(self, looked: Sequence[Looked]) -> dict[Place, Stored]:
        found = {}
        for place, _ in looked:
            try:
                stored = self.stored.document_at(self.rows.key_of(place))
            except ParameterError:  # no document has such a key
                continue
            if stored is not None:
                found[place] = stored
        return found

    def _add_singly(self, rows: Sequence[Row]) -> None:
        """Add a few documents: a bulk load takes as long to begin as several of these."""
        for row in rows:
            if row.key is None or row.text is None:
                continue
            text = storable(row.text) if self.store.store_text else None
            sketch = self.store.sketch_to_store(row.text)
            with self.ingest.between_records(light=self._light):
                record = Record(row.key, text, None, row.group, None)
                _, matches = self.writer.add(record, sketch, clock.now_ms(), if_exists="error", limit=1)
            self.matched += bool(matches)

    def _remove(self, document_ids: Sequence[int]) -> None:
        if document_ids:
            with self.ingest.between_records(light=self._light):
                self.writer.clusters.remove(document_ids, clock.now_ms())

    def _drop_pending(self, last_id: int | None, looked: Sequence[Looked] = ()) -> None:
        """Changes up to this one, None = all, are taken over with the records that follow, in this transaction. looked: the rows
        of their keys."""
        with self.ingest.without_flush():
            sql = "DELETE FROM main.{index}_pending" + (" WHERE id <= ?" if last_id is not None else "")
            self.store.db.execute(self.store.sql(sql), None if last_id is None else (last_id,))
            self.stored.exclude(looked)

    def _skip(self, key: Key | None, reason: str, number: int) -> None:
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(Skipped(number, key, reason))
        self.counts["skipped"] += 1


def _record(row: Row) -> Any:
    """As a bulk load takes it."""
    if row.group is None:
        return row.key, row.text
    return {"key": row.key, "text": row.text, "group": row.group}
