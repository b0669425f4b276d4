"""Bulk loads (`add_many`): batches in record order, with the same result as adding the records one by one."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from operator import attrgetter
from typing import Any

from ... import clock, limits
from ...errors import NearDupError
from ...parameters import check_group, check_key, check_part, is_plain_key, storable
from ...records import check_record
from ...values import MOST_PROBLEMS, AddReport, Key, Record
from .background import Background
from .batch_writer import BatchWriter, IngestOptions, SkippedRecords
from .columns import Codes, Row, Rows, Table, size_of
from .outcomes import Outcomes
from .segment import Batch
from .stored import Stored, StoredRows
from .writer import Writer


class Ingest:
    """One run of `add_many`.

    The caller's thread reads records; background threads fingerprint and write full batches. The first batch begins the
    transaction. The record iterator and `progress` may query the index, which calls `flush_pending` first, so they see all
    earlier records. They must not write.
    """

    def __init__(self, writer: Writer, options: IngestOptions) -> None:
        self.store = writer.store
        self.options = options
        self.invalid = SkippedRecords(options.on_error)  # skipped while reading; `BatchWriter.rejected`: while writing
        self.outcomes = None if options.on_outcome is None else Outcomes(options.on_outcome, options.first)
        self.batch_writer = BatchWriter(writer, options, self.outcomes)
        self.reported = 0
        self._batch = Batch(options.first, writer.store.epoch)
        self._remaining = options.commit_every  # the number of records that the transaction may still take
        self._open: tuple[AbstractContextManager[None], Background] | None = None  # the open transaction and its threads
        self._busy = False
        self._is_flushed = True
        self._error: BaseException | None = None
        """An error of writing earlier records, raised again by the next batch. It first surfaced in a query of the record
        iterator or of `progress`, which may have caught it."""

    def run(self, records: Iterable[Any] | Codes | Table | Stored) -> AddReport:
        """Add all records, in one transaction or one for every `commit_every` records."""
        with self.store.db.flush_before_use(self.flush_pending):
            try:
                self._read_batches(records)
                self._submit_batch()
                self._commit()
            except BaseException:
                self._roll_back(*sys.exc_info())
                raise
        rejected, counts = self.batch_writer.rejected, self.batch_writer.counts
        problems = sorted([*self.invalid.first, *rejected.first], key=attrgetter("record"))[:MOST_PROBLEMS]
        return AddReport(**counts, skipped=self.invalid.count + rejected.count, problems=tuple(problems))

    def flush_pending(self, to_write: bool = False) -> None:
        """Write, index and connect all pending records. Raises NearDupError if the caller is about to write."""
        if self._busy:
            return
        if to_write:
            raise NearDupError(
                "the index is loading records, so what their iterator or progress= would write to it is refused, and nothing was "
                "changed: write before the load, after it, or in on_outcome="
            )
        if self._is_flushed and not self._batch:
            return
        try:
            self._submit_batch()
            with self._suspend_flush():
                self._flush()
        except BaseException as error:
            self._error = error
            raise

    # ---- reading the records -----------------------------------------------------------------------------------------

    def _read_batches(self, records: Iterable[Any] | Codes | Table | Stored) -> None:
        if isinstance(records, (Table, Stored)) or (isinstance(records, Codes) and self.options.commit_every is None):
            self._read_columns(records)
            return
        if isinstance(records, Codes):  # settings may change between two transactions, so each code is checked
            records = records.pairs()
        for number, record in enumerate(records, self.options.first):
            self._append_checked(record, number)
            self._submit_if_full()

    def _submit_if_full(self) -> None:
        count = len(self._batch.keys)
        if count >= limits.BATCH_RECORDS or count == self._remaining or self._batch.size >= limits.BATCH_SIZE:
            self._submit_batch()
            self._report()
            if self._remaining == 0:
                self._commit()

    def _read_columns(self, columns: Codes | Table | Stored) -> None:
        number = 0
        for rows in columns.rows():
            start, end = 0, len(rows.contents)
            while start < end:
                batch = self._batch
                max_records = limits.BATCH_RECORDS if self._remaining is None else min(limits.BATCH_RECORDS, self._remaining)
                page = rows.slice_rows(slice(start, start + max_records - len(batch))).limit_bytes(limits.BATCH_SIZE - batch.size)
                self._append_rows(page, number + start)
                start += len(page.contents)
                self._submit_if_full()
            number += end

    def _append_rows(self, rows: Rows | StoredRows, first: int) -> None:
        """Append rows, except invalid ones that `on_error` skips; first: the number of the first record."""
        if isinstance(rows, StoredRows):
            return rows.append_to(self._batch)
        batch, store_text = self._batch, self.store.store_text and self.options.content == "text"
        if not store_text and rows.are_plain():
            batch.extend(rows.keys, rows.contents, size_of(rows.contents))
            return None
        texts = list(rows.contents) if store_text else [None] * len(rows.keys)
        kept = []
        for place, text in enumerate(texts):
            count = len(batch)
            self._append_checked(Row(rows, place, text), first + place)
            if len(batch) > count:
                kept.append(place)
        contents = rows.contents_at(kept)
        batch.extend([], contents, size_of(contents))
        return None

    def _append_checked(self, record: Any, number: int) -> None:
        """Append a record. An invalid one is skipped or raises an error with its number."""
        try:
            try:
                self._append(self._batch, record)
            except NearDupError:
                if not self._is_rebuilt():
                    raise
                self._append(self._batch, record)
        except NearDupError as error:
            skipped = self.invalid.add(number, self._key_of(record), error)
            self._batch.skipped.append(number)
            if self.outcomes is not None:
                self.outcomes.skipped.append(skipped)

    def _key_of(self, record: Any) -> Key | None:
        if self.options.content == "value":
            key = record.key
        elif type(record) is Row:
            key = record.rows.keys[record.place]
        elif isinstance(record, Mapping):
            key = record.get("key" if self.options.fields is None else self.options.fields.key)
        else:
            key = record[0] if isinstance(record, (tuple, list)) and len(record) == 2 else None
        try:
            return check_key(key)
        except NearDupError:
            return None

    def _is_rebuilt(self) -> bool:
        """True if the index was rebuilt since the last record was checked; then the store has the new settings."""
        if self._open is not None:  # the transaction prevents it
            return False
        epoch = self.store.epoch
        with self._suspend_flush(), self.store.reading():
            return self.store.epoch != epoch

    def _append(self, batch: Batch, record: Any) -> None:
        options = self.options
        if options.content == "value":
            key, group, part = check_key(record.key), check_group(record.group), check_part(record.part)
            checked_record = Record(key, None, None, group, None, None, part, record.is_one_of_several)
            batch.add(checked_record, self.store.checked_value(record.stored))
            return
        if options.fields is not None:
            record = options.fields.record(record)
        elif type(record) is tuple and len(record) == 2 and not self.store.store_text and is_plain_key(record[0]):
            key, content = record  # the fast path: nearly every record takes it
            if options.content == "code":
                content = self.store.scheme.code_value(content)
            if type(content) is str or type(content) is bytes:
                batch.append(key, content)
                return
        elif type(record) is Row:
            batch.add(record.checked())
            return
        checked = check_record(record, content=options.content, if_exists=options.if_exists, store_text=self.store.store_text)
        content = self.store.scheme.code_value(checked.content) if options.content == "code" else checked.content
        batch.add(checked.record, content)
        if checked.if_exists != options.if_exists:
            batch.if_exists[len(batch) - 1] = checked.if_exists

    # ---- the transaction ---------------------------------------------------------------------------------------------

    @contextmanager
    def without_flush(self) -> Iterator[None]:
        """Run statements of the record iterator that do not need candidate rows: pending records are not indexed, which is
        much faster than `flush_pending`. The caller holds the transaction."""
        with self._suspend_flush():
            if self._open is not None:
                self._open[1].wait()
            yield

    @contextmanager
    def between_records(self, *, light: bool) -> Iterator[None]:
        self.flush_pending()
        with self._suspend_flush(), self.store.writing(light=light):
            yield

    @contextmanager
    def _suspend_flush(self) -> Iterator[None]:
        before, self._busy = self._busy, True
        try:
            yield
        finally:
            self._busy = before

    def _submit_batch(self) -> None:
        """Pass the batch to the background threads and begin the next one."""
        if self._error is not None:
            raise self._error
        batch = self._batch
        self._batch = Batch(batch.first + len(batch) + len(batch.skipped), self.store.epoch)
        if not len(batch):
            return
        with self._suspend_flush():
            if self._open is None:
                self._open = self.store.writing(), Background(self.store.db)
                self._open[0].__enter__()
            background = self._open[1]
            if not self.options.takes_over:
                self.store.require_own_documents()
            if self.options.require is not None:  # the transaction prevents a rebuild from here on
                self.options.require(self.store.scheme, self.store.rules)
            if batch.epoch != self.store.epoch:  # rebuilt since its first record was checked
                self._recheck(batch)
            if batch.has_parts and not self.store.has_parts and self.store.scheme.name == "binarycode":
                background.wait()
                self._flush()
                self.store.add_table("part")  # not while another thread reads the settings
            self._batch.epoch = self.store.epoch
            self._is_flushed = False
            if len(batch) < limits.WORTH_THREADS and batch.size < limits.WORTH_THREADS_SIZE:
                background.wait()
                self.batch_writer.write(batch, self.batch_writer.sketch(batch))
            elif self.store.rules.custom:  # custom functions may require the caller's thread
                background.start(*self.batch_writer.prepare(batch))
            else:
                background.prepare(partial(self.batch_writer.prepare, batch))
            if self._remaining is not None:
                self._remaining -= len(batch)

    def _recheck(self, batch: Batch) -> None:
        if self.options.content == "code":
            batch.contents = [self.store.scheme.code_value(code) for code in batch.contents]
            return
        if self.options.content == "value":
            batch.contents = [self.store.checked_value(value) for value in batch.contents]
            return
        for i, text in enumerate(batch.contents):
            stored = storable(text) if self.store.store_text else None
            if stored is not None or i in batch.more:
                batch.more[i] = batch.record(i)._replace(text=stored)

    def _commit(self) -> None:
        if self._open is not None:
            with self._suspend_flush():
                self._flush()
            self._report()
            with self._suspend_flush():
                transaction, background = self._open
                background.__exit__(None, None, None)
                transaction.__exit__(None, None, None)
            self._open = None
        self._remaining = self.options.commit_every
        if self.outcomes is not None:  # a failed commit must not report outcomes
            with self._suspend_flush():  # nothing is pending, so the function may write
                self.outcomes.report()

    def _roll_back(self, *error: Any) -> None:
        """End the transaction after an error. May raise another error for the caller to see.

        An ExitStack removes a block before it ends it, so an interrupt in between would leave the transaction open.
        """
        opened, self._open, self._busy, self._error = self._open, None, True, None
        if opened is not None:
            transaction, background = opened
            try:
                background.__exit__(*error)
            finally:
                transaction.__exit__(*error)

    def _flush(self) -> None:
        if self._open is not None and not self._is_flushed:
            self._open[1].start(lambda: self.batch_writer.connect(clock.now_ms()))
            self._open[1].wait()
            self.batch_writer.segment.end()
            self._is_flushed = True

    def _report(self) -> None:
        taken = self.batch_writer.taken
        if self.options.progress is not None and taken > self.reported:
            self.reported = taken
            self.options.progress(taken + self.invalid.count)
