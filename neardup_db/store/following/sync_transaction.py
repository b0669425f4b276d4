"""Applies changed rows of a followed table: removals first, then additions in one bulk load."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from ... import clock, limits
from ...errors import ParameterError
from ...parameters import storable
from ...values import MOST_PROBLEMS, Key, Record, Skipped, SyncReport
from ..ingest.batch_writer import IngestOptions
from ..ingest.ingest import Ingest
from ..ingest.writer import Writer
from ..layout.state import Store
from . import triggers
from .rows import RawKey, Row, Rows
from .scan import Scan, lost_triggers, read_scan, write_scan
from .table import find_followed_table

KeyRow = tuple[RawKey, Row | None]  # a key, and its row if it exists


class Stored(NamedTuple):
    """The columns of a document that its row determines."""

    id: int
    expires_at: int | None
    group: Key | None
    token_count: int | None
    text: str | None
    value: bytes | None


class StoredDocuments:
    """Reads documents, indexed or not. The caller holds a transaction."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def last_id(self) -> int:
        return self.store.value("SELECT ifnull(max(id), 0) FROM {index}_document")

    def count(self) -> int:
        """The expected number of rows: documents and excluded rows."""
        sql = "SELECT (SELECT count(*) FROM {index}_document) + (SELECT count(*) FROM main.{index}_excluded)"
        return self.store.value(sql)

    def exclude(self, key_rows: Iterable[tuple[RawKey, Row | None]]) -> None:
        """Record which of these keys have rows but no documents. Runs inside `writing`."""
        raw_keys = dict(key_rows)
        excluded = [raw_key for raw_key, row in raw_keys.items() if row is not None and row.text is None]
        delete = "DELETE FROM main.{index}_excluded WHERE key = "
        for sql, keys in (delete, list(raw_keys)), ("INSERT OR REPLACE INTO main.{index}_excluded (key) SELECT ", excluded):
            for bound in {raw_key.bound for raw_key in keys}:
                values = [(raw_key.value,) for raw_key in keys if raw_key.bound == bound]
                self.store.execute_many(sql + bound, values)

    def document_at(self, key: Key) -> Stored | None:
        sql = """SELECT d.id, d.expires_at, g.name, d.token_count, d.text, {value}
                 FROM {index}_document AS d LEFT JOIN {index}_group AS g ON g.id = d.group_id
                     LEFT JOIN {index}_fingerprint AS f ON f.id = d.fingerprint_id {aside} WHERE d.key = ?"""
        row = self.store.row(sql, (key,))
        return None if row is None else Stored(*row)

    def page(self, after_id: int, last_id: int, most: int) -> list[tuple[int, Key]]:
        sql = "SELECT id, key FROM {index}_document WHERE id > ? AND id <= ? ORDER BY id LIMIT ?"
        return [(number, key) for number, key in self.store.page(sql, after_id, last_id, most)]

    def differing(self, pairs: Sequence[tuple[Row, Stored]]) -> list[bool]:
        """For each row with a text and its document: True if the row would now produce another document."""
        if not pairs:
            return []
        if self.store.store_text:
            return [_differs(row, stored) or storable(row.text or "") != stored.text for row, stored in pairs]
        values = self.store.scheme.values([row.text or "" for row, _ in pairs], self.store.rules)
        return [
            _differs(row, stored) or value != stored.value or count != stored.token_count
            for (row, stored), value, count in zip(pairs, values.split(), values.tokens.tolist(), strict=True)
        ]


def _differs(row: Row, stored: Stored) -> bool:
    return stored.expires_at is not None or type(row.group) is not type(stored.group) or row.group != stored.group


class SyncTransaction:
    """One transaction of `sync`, which the caller holds. A recorded change only says that a row is or was at a key: the
    current row decides, so a key may be processed repeatedly and in any order."""

    def __init__(self, writer: Writer, limit: int | None, full: bool) -> None:
        self.store = store = writer.store
        self.writer = writer
        self.full = full
        self.remaining = limit  # the number of keys that may still be processed
        assert store.following is not None
        self.table = find_followed_table(store.db, store.following)
        self.rows = Rows(store, self.table)
        self.stored = StoredDocuments(store)
        self.scan = read_scan(store)
        if not triggers.has_triggers(store, self.table):
            triggers.install(store, self.table)
            self.scan = Scan(lost_triggers(self.table.name))
        self.reason = ""
        self.ingest = Ingest(writer, IngestOptions("text", takes_over=True))
        self.counts = dict.fromkeys(("added", "replaced", "deleted", "unchanged", "skipped"), 0)
        self.found = 0
        self.counted = False  # True if the row count was verified just before the end
        self.scanned = False  # True if a comparison of all rows ended in this transaction
        self.problems: list[Skipped] = []
        self.looked = 0
        self.matched = 0  # matched documents among those added one by one
        self._light = store.db.depth == 1  # True if `sync` began the outermost transaction, which an error rolls back in any case
        self._progress: Callable[[int], Any] | None = None

    def run(self, progress: Callable[[int], Any] | None) -> SyncReport:
        """Apply pending changes and, if due, a comparison of all rows. progress: called at times with the number of keys done."""
        self._progress = progress
        added = self.ingest.run(map(_record, self._added()))
        write_scan(self.store, self.scan)
        return SyncReport(
            **self.counts,
            matched=added.matched + self.matched,
            compared=self.reason,
            found=self.found,
            complete=self.scan is None and not self._is_pending() and (self.counted or self._is_counted()),
            problems=tuple(self.problems),
        )

    def _added(self) -> Iterator[Row]:
        if self.scan is not None and self.scan.is_new and not self.full:  # the comparison includes the pending rows
            self._drop_pending(None)
        else:
            yield from self._pending()
        if self.scan is None and self.full:
            self.scan = Scan("full=True")
        elif self.scan is None and not self._is_pending():
            self.counted = self._is_counted()
            unseen = f"rows of {self.table.name!r} changed without a note, as REPLACE deletes them"
            self.scan = None if self.counted else Scan(unseen)
        if self.scan is not None:
            self.reason = self.scan.reason
            before = sum(self.counts[name] for name in ("added", "replaced", "deleted"))
            yield from self._compared()
            self.scanned = self.scan is None
            self.found = sum(self.counts[name] for name in ("added", "replaced", "deleted")) - before

    def _is_pending(self) -> bool:
        return self.store.value("SELECT 1 FROM main.{index}_pending LIMIT 1") is not None

    def _is_counted(self) -> bool:
        with self.store.reading():  # flushes all earlier records
            return self.rows.count() == self.stored.count()

    # ---- which keys --------------------------------------------------------------------------------------------------

    def _pending(self) -> Iterator[Row]:
        while most := self._page():
            with self.store.reading():  # flushes all earlier records, because a key may recur
                looked, last_id = self._changed_rows(self.rows.pending(0, most))
            if last_id is None:
                return
            self._drop_pending(last_id, looked)
            rows = list(self._rows_to_add(looked))
            if len(rows) <= limits.SYNC_SINGLY:
                self._add_singly(rows)
            else:
                yield from rows

    def _changed_rows(self, changes: Sequence[tuple[int, RawKey]]) -> tuple[list[KeyRow], int | None]:
        """The current rows of changed keys, each once, and the id of the last change processed."""
        looked: dict[RawKey, Row | None] = {}
        size, last_id = 0, None
        for last_id, raw_key in changes:  # noqa: B007
            self._count(1)
            if raw_key.kind == "null":
                if self.rows.without_key():
                    self._skip(None, f"the key of a row is NULL in {self.table.following.key!r}: give it one", self.looked)
            elif raw_key not in looked:
                row = looked[raw_key] = self.rows.row_at(raw_key)
                size += 0 if row is None else row.size
                if size >= limits.SYNC_BYTES:
                    break
        return list(looked.items()), last_id

    def _compared(self) -> Iterator[Row]:
        """The rows that differ from their documents; deletes documents without a row."""
        scan = self.scan
        assert scan is not None
        with self.store.reading():  # flushes pending changes; from here on no key recurs
            look = self.stored.last_id() > 0
            if scan.is_new:
                self.scan = scan = scan._replace(last_id=self.stored.last_id())
                self.store.execute("DELETE FROM main.{index}_excluded")
            if scan.is_new and self.rows.without_key():
                self._skip(None, f"the key of rows is NULL in {self.table.following.key!r}: give them one", self.looked)
        while scan.document_id is None and (most := self._page()):
            with self.ingest.without_flush():
                looked = [(row.raw_key, row) for row in self._next_rows(scan.raw_key, most)]
                self.stored.exclude(looked)
            if looked:
                self.scan = scan = scan._replace(raw_key=looked[-1][0])
                self._count(len(looked))
                yield from self._rows_to_add(looked) if look else self._new([row for _, row in looked])
            else:
                self.scan = scan = scan._replace(document_id=0)
        while scan.document_id is not None and (most := self._page()):
            with self.store.reading():
                documents = self.stored.page(scan.document_id, scan.last_id, most)
                removed_ids = [number for number, key in documents if not self.rows.has_row(self.rows.raw_key_of(key))]
            if not documents:
                self.scan = None
                return
            self.scan = scan = scan._replace(document_id=documents[-1][0])
            self._count(len(documents))
            self._remove(removed_ids)
            self.counts["deleted"] += len(removed_ids)

    def _next_rows(self, after: RawKey | None, most: int) -> list[Row]:
        rows, size = [], 0
        for row in self.rows.rows_after(after, most):
            rows.append(row)
            size += row.size
            if size >= limits.SYNC_BYTES:
                break
        return rows

    def _page(self) -> int:
        if self._progress is not None and self.looked:
            self._progress(self.looked)
        return limits.SYNC_ROWS if self.remaining is None else min(self.remaining, limits.SYNC_ROWS)

    def _count(self, looked: int) -> None:
        self.looked += looked
        if self.remaining is not None:
            self.remaining -= looked

    # ---- updating documents ------------------------------------------------------------------------------------------

    def _new(self, rows: Sequence[Row]) -> Iterator[Row]:
        for number, row in enumerate(rows, self.looked - len(rows)):
            if row.text is not None:
                self.counts["added"] += 1
                yield row
            elif row.problem is not None:
                self._skip(row.key, row.problem, number)

    def _rows_to_add(self, looked: Sequence[KeyRow]) -> Iterator[Row]:
        """The rows to add, after deleting every document that differs from its row."""
        with self.ingest.without_flush():
            documents = self._documents(looked)
        with_text = [row for _, row in looked if row is not None and row.text is not None]
        both = [(row, documents[row.raw_key]) for row in with_text if row.raw_key in documents]
        replaced = {row.raw_key for (row, _), differing in zip(both, self.stored.differing(both), strict=True) if differing}
        kept = {row.raw_key for row, _ in both} - replaced
        self._remove([stored.id for raw_key, stored in documents.items() if raw_key not in kept])
        for number, (raw_key, row) in enumerate(looked, self.looked - len(looked)):
            if row is not None and row.problem is not None:
                self.counts["deleted"] += raw_key in documents
                self._skip(row.key, row.problem, number)
            elif row is None or row.text is None:
                self.counts["deleted"] += raw_key in documents
            elif raw_key in kept:
                self.counts["unchanged"] += 1
            else:
                self.counts["replaced" if raw_key in replaced else "added"] += 1
                yield row

    def _documents(self, looked: Sequence[KeyRow]) -> dict[RawKey, Stored]:
        documents = {}
        for raw_key, _ in looked:
            try:
                stored = self.stored.document_at(self.rows.key_of(raw_key))
            except ParameterError:  # the key cannot belong to a document
                continue
            if stored is not None:
                documents[raw_key] = stored
        return documents

    def _add_singly(self, rows: Sequence[Row]) -> None:
        """Starting a bulk load costs as much as several single documents."""
        for row in rows:
            if row.key is None or row.text is None:
                continue
            text = storable(row.text) if self.store.store_text else None
            sketch = self.store.sketcher.text_to_store(row.text)
            with self.ingest.between_records(light=self._light):
                record = Record(row.key, text, None, row.group, None)
                _, matches = self.writer.add(record, sketch, clock.now_ms(), if_exists="error", limit=1)
            self.matched += bool(matches)

    def _remove(self, document_ids: Sequence[int]) -> None:
        if document_ids:
            with self.ingest.between_records(light=self._light):
                self.writer.clusters.remove(document_ids, clock.now_ms())

    def _drop_pending(self, last_id: int | None, looked: Sequence[KeyRow] = ()) -> None:
        """Delete pending changes up to an id (None: all) in the transaction that applies them. looked: the rows of their keys."""
        with self.ingest.without_flush():
            sql = "DELETE FROM main.{index}_pending" + (" WHERE id <= ?" if last_id is not None else "")
            self.store.execute(sql, None if last_id is None else (last_id,))
            self.stored.exclude(looked)

    def _skip(self, key: Key | None, reason: str, number: int) -> None:
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(Skipped(number, key, reason))
        self.counts["skipped"] += 1


def _record(row: Row) -> Any:
    if row.group is None:
        return row.key, row.text
    return {"key": row.key, "text": row.text, "group": row.group}
