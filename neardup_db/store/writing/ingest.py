"""Bulk loads (`add_many`): large batches in record order, with the same result as adding the records one by one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any

from ... import clock, limits
from ...errors import DuplicateKeyError, NearDupError, ParameterError
from ...parameters import IfExists, OnError, check_group, check_key, check_part, is_plain_key, storable
from ...records import FieldNames, check_record
from ...values import MOST_PROBLEMS, AddReport, Key, Record, Skipped
from ..asking.documents import Documents
from ..asking.parts import Parts
from ..layout.sketches import Sketches
from ..layout.state import Store
from .background import Background, Work
from .code_segment import CodeSegment, Owners
from .columns import Codes, Row, Rows, Table, size_of
from .outcomes import OnOutcome, Outcomes
from .segment import Batch
from .short_texts import TokenCounts
from .stored import Stored, StoredRows
from .writer import Writer


@dataclass(frozen=True, slots=True)
class IngestOptions:
    content: str
    if_exists: IfExists
    on_error: OnError
    only_new: bool
    commit_every: int | None
    progress: Callable[[int], Any] | None
    on_outcome: OnOutcome | None = None
    require: Callable[..., None] | None = None
    """Rejects records of another scheme or text rules; called inside the transaction."""
    fields: FieldNames | None = None
    """The field names of key, text and so on in mappings, if they differ from the arguments of `add`."""
    takes_over: bool = False
    """True if the records are rows of the followed table."""
    first: int = 0
    """The number of the first record."""


class Ingest:
    """One run of `add_many`.

    Full batches go to background threads, which fingerprint and write them while the caller's thread reads more records. The
    record iterator and `progress` may query the index: `flush_pending` runs first, so they see all earlier records. They must not
    write.
    """

    def __init__(self, store: Store, documents: Documents, writer: Writer, options: IngestOptions) -> None:
        self.store = store
        self.documents = documents
        self.writer = writer
        self.segment = CodeSegment(store, documents, writer.search, writer.clusters)
        self.options = options
        self.counts = dict.fromkeys(("added", "replaced", "ignored", "skipped", "matched"), 0)
        self.invalid: list[Skipped] = []
        self.rejected: list[Skipped] = []
        """The first skipped records: invalid ones found while reading, rejected ones found while writing, which runs later in
        its thread."""
        self.outcomes = None if options.on_outcome is None else Outcomes(options.on_outcome, options.first)
        self.token_counts = TokenCounts(store.scheme)
        self.taken = 0
        self.reported = 0
        self._batch = Batch(options.first, store.epoch)
        self._remaining = options.commit_every
        """The number of records that the transaction may still take."""
        self._open: tuple[AbstractContextManager[None], Background] | None = None
        """The open transaction and its threads."""
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
        problems = sorted([*self.invalid, *self.rejected], key=attrgetter("record"))[:MOST_PROBLEMS]
        return AddReport(**self.counts, problems=tuple(problems))

    def flush_pending(self, to_write: bool = False) -> None:
        """Write, index and connect all pending records before the caller uses the index. Raises NearDupError if the caller is
        about to write."""
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
        """Collect checked records in batches, large enough to be efficient and small enough to bound memory."""
        if isinstance(records, (Table, Stored)) or (isinstance(records, Codes) and self.options.commit_every is None):
            return self._read_columns(records)
        if isinstance(records, Codes):  # settings may change between two transactions, so each code is checked
            records = records.pairs()
        for number, record in enumerate(records, self.options.first):
            self._append_checked(record, number)
            self._submit_if_full()
        return None

    def _submit_if_full(self) -> None:
        batch = self._batch
        if len(batch) >= limits.BATCH_RECORDS or len(batch) == self._remaining or batch.size >= limits.BATCH_SIZE:
            self._submit_batch()
            self._report()
            if self._remaining == 0:
                self._commit()

    def _read_columns(self, columns: Codes | Table | Stored) -> None:
        """`_read_batches` for columns of records."""
        number = 0
        for rows in columns.rows():
            start, end = 0, len(rows.keys)
            while start < end:
                batch = self._batch
                max_records = limits.BATCH_RECORDS if self._remaining is None else min(limits.BATCH_RECORDS, self._remaining)
                page = rows.slice_rows(slice(start, start + max_records - len(batch))).limit_bytes(limits.BATCH_SIZE - batch.size)
                self._append_rows(page, number + start)
                start += len(page.keys)
                self._submit_if_full()
            number += end

    def _append_rows(self, rows: Rows | StoredRows, first: int) -> None:
        """Append rows to the batch, except invalid ones that `on_error` skips; first: the number of the first record."""
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
            if self.options.on_error != "skip":
                raise type(error)(f"record {number}: {error}") from error
            self._batch.skipped.append(number)
            skipped = self._skip(number, self._key_of(record), error, self.invalid)
            if self.outcomes is not None:
                self.outcomes.add_skipped(skipped)

    def _key_of(self, record: Any) -> Key | None:
        """The key of an invalid record, or None if it is unusable."""
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
        """True if the index was rebuilt since the last record was checked; the store then has the new settings. Always False
        inside the open transaction, which prevents a rebuild."""
        if self._open is not None:
            return False
        epoch = self.store.epoch
        with self._suspend_flush(), self.store.reading():
            return self.store.epoch != epoch

    def _skip(self, number: int, key: Key | None, error: NearDupError, problems: list[Skipped]) -> Skipped:
        self.counts["skipped"] += 1
        skipped = Skipped(number, key, str(error))
        if len(problems) < MOST_PROBLEMS:
            problems.append(skipped)
        return skipped

    def _append(self, batch: Batch, record: Any) -> None:
        code = self.options.content == "code"
        if self.options.content == "value":
            key, group, part = check_key(record.key), check_group(record.group), check_part(record.part)
            batch.append(key, self.store.checked_value(record.stored))
            several = record.is_one_of_several
            if group is not None or part is not None or several is not None:
                batch.more[len(batch) - 1] = Record(key, None, None, group, None, None, part, several)
            return
        if self.options.fields is not None:
            record = self.options.fields.record(record)
        elif type(record) is tuple and len(record) == 2 and not self.store.store_text and is_plain_key(record[0]):
            key, content = record  # the fast path: nearly every record takes it
            if code:
                content = self.store.scheme.code_value(content)
            if type(content) is bytes or type(content) is str:
                batch.append(key, content)
                return
        elif type(record) is Row:
            batch.add(record.checked())
            return
        options = self.options
        checked = check_record(record, content=options.content, if_exists=options.if_exists, store_text=self.store.store_text)
        content = self.store.scheme.code_value(checked.content) if code else checked.content
        batch.add(checked.record)
        batch.contents.append(content)
        batch.size += len(content)
        if checked.if_exists != options.if_exists:
            batch.if_exists[len(batch) - 1] = checked.if_exists

    # ---- the transaction ---------------------------------------------------------------------------------------------

    @contextmanager
    def without_flush(self) -> Iterator[None]:
        """Run statements of the record iterator that do not need candidate rows. Pending records are not indexed, which is
        much faster than `flush_pending`. The caller holds the transaction."""
        with self._suspend_flush():
            if self._open is not None:
                self._open[1].wait()
            yield

    @contextmanager
    def between_records(self, *, light: bool) -> Iterator[None]:
        """A write transaction for this package's own record iterators, between two records."""
        self.flush_pending()
        with self._suspend_flush(), self.store.writing(light=light):
            yield

    @contextmanager
    def _suspend_flush(self) -> Iterator[None]:
        """Statements inside do not flush pending records."""
        before, self._busy = self._busy, True
        try:
            yield
        finally:
            self._busy = before

    def _submit_batch(self) -> None:
        """Pass the batch to the background threads and begin the next one. The first batch begins the transaction, because
        records may arrive slowly."""
        if self._error is not None:
            raise self._error
        batch = self._batch
        self._batch = Batch(batch.first + len(batch) + len(batch.skipped), self.store.epoch)
        if not len(batch):
            return
        with self._suspend_flush():
            background = self._background()
            if not self.options.takes_over:
                self.store.require_own_documents()
            if self.options.require is not None:  # the transaction prevents a rebuild from here on
                self.options.require(self.store.scheme, self.store.rules)
            if batch.epoch != self.store.epoch:  # rebuilt since its first record was checked
                self._recheck(batch)
            if batch.has_parts and not self.store.has_parts and self.store.scheme.name == "binarycode":
                background.wait()
                self._flush()
                self.store.add_table(Parts.TABLE)  # not while another thread reads the settings
            self._batch.epoch = self.store.epoch
            self._is_flushed = False
            if len(batch) < limits.WORTH_THREADS and batch.size < limits.WORTH_THREADS_SIZE:
                background.wait()
                self._write_batch(batch, self._sketch(batch))
            elif self.store.rules.custom:  # custom functions may require the caller's thread
                background.start(*self._prepare(batch))
            else:
                background.prepare(partial(self._prepare, batch))
            if self._remaining is not None:
                self._remaining -= len(batch)

    def _background(self) -> Background:
        if self._open is None:
            self._open = self.store.writing(), Background(self.store.db)
            self._open[0].__enter__()
        return self._open[1]

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
        """Wait until everything submitted is written, indexed and connected."""
        if self._open is not None and not self._is_flushed:
            self._open[1].start(self._index_rows)
            self._open[1].wait()
            self.segment.end()
            self._is_flushed = True

    def _report(self) -> None:
        if self.options.progress is not None and self.taken > self.reported:
            self.reported = self.taken
            self.options.progress(self.taken + self.counts["skipped"])

    # ---- writing a batch ---------------------------------------------------------------------------------------------

    def _prepare(self, batch: Batch) -> tuple[Work, int]:
        """(the work of writing a batch, the bytes that it holds)."""
        sketches = self._sketch(batch)
        size = sum(map(len, filter(None, sketches.values))) + batch.metadata_size + batch.size * self.store.store_text
        return partial(self._write_batch, batch, sketches), size

    def _sketch(self, batch: Batch) -> Sketches:
        """Fingerprint the contents and drop them: the batch waits to be written, and texts need ten times the memory."""
        contents, batch.contents = batch.contents, []
        if self.options.content == "code":
            return self.store.sketch_code_values(contents)
        if self.options.content == "value":
            return self.store.sketch_values(contents)
        return self.store.sketch_texts(contents, to_file=not self.options.only_new)

    def _index_rows(self) -> None:
        self._connect(clock.now_ms())

    def _connect(self, now: int) -> None:
        """Index and connect the documents of the segment."""
        matched = self.segment.flush(now)
        self.counts["matched"] += len(matched)
        if self.outcomes is not None:
            best = ((document_id, self.segment.best_match(document_id, now)) for document_id in matched)
            self.outcomes.connect({document_id: match for document_id, match in best if match is not None})
        self.segment.evict(now)

    def _write_batch(self, batch: Batch, sketches: Sketches) -> None:
        """Write a batch: runs of new keys in bulk, other records one by one in between."""
        self.token_counts.count_batch(sketches.token_counts, self.store.rules)
        now = clock.now_ms()
        self.taken += len(batch)
        has_parts = self.store.has_parts or batch.has_parts
        if self.options.only_new or (has_parts and not self._can_write_codes()):
            for i in range(len(batch)):
                self._write_one(batch, sketches, i, now)
            return
        if has_parts:
            self._write_code_batch(batch, sketches, now)
            return
        existing_keys = self.documents.existing_keys(batch.keys)
        may_stay = self.options.if_exists == "ignore" and not batch.if_exists
        if existing_keys and may_stay and self.outcomes is None and self.store.window.documents is None:
            batch, sketches = self._drop_ignored(batch, sketches, existing_keys, now)
        if not existing_keys and len(set(batch.keys)) == len(batch):
            self._write_run(batch, sketches, range(len(batch)), now)
        else:
            self._write_runs(batch, sketches, existing_keys, now)
        if self.segment.is_full:
            self._index_rows()

    def _can_write_codes(self) -> bool:
        """True if codes of an index with parts can be stored in bulk.

        False if outcomes, dismissed pairs or a count window need the state after each code.
        """
        store = self.store
        return store.has_parts and self.outcomes is None and not store.dismisses and store.window.documents is None

    def _write_code_batch(self, batch: Batch, sketches: Sketches, now: int) -> None:
        """Write a batch in which several codes may belong to one key."""
        owners = Owners(self.documents, batch, now)
        split_seeds: set[int] = set()
        runs: list[tuple[str, list[int]]] = []
        whole = self.options.content == "value"
        for i in range(len(batch)):
            action = owners.action(i, self.options.if_exists, whole)
            if action == "ignored":
                self.counts["ignored"] += 1
            elif action != "alone":
                if not runs or runs[-1][0] != action:
                    runs.append((action, []))
                runs[-1][1].append(i)
            else:
                split_seeds |= self._write_codes(batch, sketches, runs, owners, now)
                self.writer.clusters.split_many(split_seeds, now)
                runs, split_seeds = [], set()
                self._write_one(batch, sketches, i, now)
                owners.reload(i)
        split_seeds |= self._write_codes(batch, sketches, runs, owners, now)
        self.writer.clusters.split_many(split_seeds, now)
        if self.segment.is_full:
            self._index_rows()

    def _write_codes(
        self, batch: Batch, sketches: Sketches, runs: list[tuple[str, list[int]]], owners: Owners, now: int
    ) -> set[int]:
        """Write runs of codes that are added or replace others. Returns the documents whose clusters may split."""
        split_seeds: set[int] = set()
        for action, run in runs:
            if action == "joins":
                self.segment.add_codes(batch.at_indexes(run), sketches.at_indexes(run), owners.owners_at(run), now)
                self.counts["added"] += len(run)
                continue
            self._connect(now)
            self.segment.end()
            codes = ((batch.record(i), sketches.sketch_at(i), *owners.replaced(i)) for i in run)
            matched, seeds = self.writer.replace_codes(codes, now)
            split_seeds |= seeds
            self.counts["matched"] += matched
            self.counts["replaced"] += len(run)
        return split_seeds

    def _drop_ignored(self, batch: Batch, sketches: Sketches, existing_keys: set[Key], now: int) -> tuple[Batch, Sketches]:
        """Drop the records that are ignored because their key exists, which would interrupt runs of new keys. Returns all
        records if a record has another group than its document, which is an error for this record."""
        rows = self.documents.rows_by_key(list(existing_keys))
        existing_groups = {key: row.group_id for key, row in rows.items() if row.is_visible(now)}
        group_ids = {name: self.documents.group_id(name) for name in {batch.group(i) for i in range(len(batch))}}
        if any(key in existing_groups and existing_groups[key] != group_ids[batch.group(i)] for i, key in enumerate(batch.keys)):
            return batch, sketches
        existing_keys -= existing_groups.keys()
        kept = [i for i, key in enumerate(batch.keys) if key not in existing_groups]
        self.counts["ignored"] += len(batch) - len(kept)
        return batch.at_indexes(kept), sketches.at_indexes(kept)

    def _write_runs(self, batch: Batch, sketches: Sketches, existing_keys: set[Key], now: int) -> None:
        run: list[int] = []
        for i, key in enumerate(batch.keys):
            if key in existing_keys:
                self._write_run(batch, sketches, run, now)
                run = []
                self._write_one(batch, sketches, i, now)
            else:
                run.append(i)
                existing_keys.add(key)
        self._write_run(batch, sketches, run, now)

    def _write_run(self, batch: Batch, sketches: Sketches, run: Sequence[int], now: int) -> None:
        if not run:
            return
        if len(run) < len(batch):
            batch, sketches = batch.at_indexes(run), sketches.at_indexes(run)
        first_id = self.segment.add(batch, sketches, now)
        self.counts["added"] += len(run)
        if self.outcomes is not None:
            self.outcomes.add_stored(batch.keys, first_id)

    def _write_one(self, batch: Batch, sketches: Sketches, i: int, now: int) -> None:
        record, sketch = batch.record(i), sketches.sketch_at(i)
        if_exists = batch.if_exists.get(i, self.options.if_exists)
        self._connect(now)
        self.segment.end()
        try:
            if self.options.only_new:
                outcome, matches = self.writer.add_if_new(record, sketch, now, if_exists=if_exists, limit=1, on_match=None)
            else:
                whole = self.options.content == "value" and record.part is None and not record.is_one_of_several
                outcome, matches = self.writer.add(record, sketch, now, if_exists=if_exists, limit=1, whole=whole)
        except (DuplicateKeyError, ParameterError) as error:
            if self.options.on_error != "skip":
                raise type(error)(f"record {batch.number(i)}: {error}") from error
            skipped = self._skip(batch.number(i), record.key, error, self.rejected)
            if self.outcomes is not None:
                self.outcomes.add(record.key, "skipped", skipped)
            return
        if outcome != "duplicate":
            self.counts[outcome] += 1
        self.counts["matched"] += bool(matches)
        if self.outcomes is not None:
            self.outcomes.add(record.key, outcome, matches[0] if matches else None)
