"""`add_many`: a stream of records in large batches, in the order given, with the outcome of adding them one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from .. import limits
from ..errors import DuplicateKeyError, NearDupError
from ..records import incoming, is_plain_key, now_ms
from ..values import AddReport, Key
from .background import Background, Work
from .documents import Documents
from .state import Sketches, Store
from .writer import Batch, Writer


class Columns(NamedTuple):
    """Keys and codes of the same length, in the place of records that have nothing else: what comes from arrays needs no look at
    each."""

    keys: Sequence[Any]
    codes: Sequence[bytes]

    def batches(self) -> Iterator[tuple[Sequence[Any], Sequence[bytes]]]:
        """So many at a time as a batch has."""
        for start in range(0, len(self.keys), limits.BATCH_RECORDS):
            yield self.keys[start : start + limits.BATCH_RECORDS], self.codes[start : start + limits.BATCH_RECORDS]


@dataclass(frozen=True, slots=True)
class IngestOptions:
    """The keyword arguments of `add_many`."""

    content: str
    if_exists: str
    on_error: str
    only_new: bool
    commit_every: int | None
    progress: Callable[[int], Any] | None


class Ingest:
    """One run of `add_many`."""

    def __init__(self, store: Store, documents: Documents, writer: Writer, options: IngestOptions) -> None:
        self.store = store
        self.documents = documents
        self.writer = writer
        self.options = options
        self.counts = dict.fromkeys(("added", "replaced", "ignored", "skipped", "matched"), 0)
        self.taken = 0
        self.reported = 0
        self.wrong = 0

    def run(self, records: Iterable[Any]) -> AddReport:
        """Take all records; one transaction, or one for every `commit_every` of them."""
        batches = self._batches(records)
        batch = next(batches, None)
        while batch is not None:
            try:
                with self.store.writing():
                    self._transaction(batch, batches)
            except BaseException:
                self.writer.forget()
                raise
            batch = next(batches, None)  # only now, when what was taken is safe: the next record may be long in coming, or wrong
        self.counts["skipped"] += self.wrong
        return AddReport(**self.counts)

    def _transaction(self, batch: Batch | None, batches: Iterator[Batch]) -> None:
        """Write batches until a transaction is full: each while the next one is fingerprinted, and the one after that read."""
        left = self.options.commit_every
        with Background(self.store.db) as background:
            while batch is not None:
                if len(batch) < limits.WORTH_THREADS and batch.size < limits.WORTH_THREADS_SIZE:
                    background.wait()
                    self._take(batch, self._sketch(batch))
                elif self.store.rules.custom:  # functions of the caller's, which may know only its own thread
                    background.start(*self._prepared(batch))
                else:
                    background.prepare(partial(self._prepared, batch))
                self._report()
                left = None if left is None else left - len(batch)
                batch = None if left == 0 else next(batches, None)
            background.start(self._flush)
            background.wait()
        self.writer.end_batches()
        self._report()

    # ---- reading the records -----------------------------------------------------------------------------------------

    def _batches(self, records: Iterable[Any]) -> Iterator[Batch]:
        """Checked records, so many that a batch pays and so few that its memory is bounded."""
        every = self.options.commit_every
        if isinstance(records, Columns) and every is None and not self.store.store_text:
            yield from self._column_batches(records)
            return
        if isinstance(records, Columns):
            records = (pair for keys, codes in records.batches() for pair in zip(keys, codes, strict=True))
        left = every  # of a transaction: a batch ends where it does
        most, most_size = limits.BATCH_RECORDS, limits.BATCH_SIZE
        batch = Batch()
        for number, record in enumerate(records):
            self._append_checked(batch, record, number)
            if len(batch) >= most or len(batch) == left or batch.size >= most_size:
                if every is not None and left is not None:
                    left = left - len(batch) or every
                yield batch
                batch = Batch()
        if len(batch):
            yield batch

    def _column_batches(self, columns: Columns) -> Iterator[Batch]:
        for number, (keys, codes) in enumerate(columns.batches()):
            batch = Batch()
            if all(map(is_plain_key, keys)):
                batch.keys, batch.contents = list(keys), list(codes)
            else:
                for i, record in enumerate(zip(keys, codes, strict=True)):
                    self._append_checked(batch, record, number * limits.BATCH_RECORDS + i)
            if len(batch):
                yield batch

    def _append_checked(self, batch: Batch, record: Any, number: int) -> None:
        """`_append`, which may skip a wrong record, and names it where it may not."""
        try:
            self._append(batch, record)
        except NearDupError as error:
            if self.options.on_error != "skip":
                raise type(error)(f"record {number}: {error}") from error
            self.wrong += 1

    def _append(self, batch: Batch, record: Any) -> None:
        """Check a record and add it to the batch."""
        code = self.options.content == "code"
        if type(record) is tuple and len(record) == 2 and not self.store.store_text and is_plain_key(record[0]):
            key, content = record  # by far the most, and the quickest
            if code:
                content = self.store.scheme.code_value(content)
            if type(content) is bytes or type(content) is str:
                batch.append(key, content)
                return
        one = incoming(record, content=self.options.content, if_exists=self.options.if_exists, store_text=self.store.store_text)
        content = self.store.scheme.code_value(one.content) if code else one.content
        batch.append(one.record.key, content)
        if any(value is not None for value in one.record[1:]):
            batch.more[len(batch) - 1] = one.record
        if one.if_exists != self.options.if_exists:
            batch.if_exists[len(batch) - 1] = one.if_exists

    # ---- writing a batch ---------------------------------------------------------------------------------------------

    def _prepared(self, batch: Batch) -> tuple[Work, int]:
        """What there is to write of a batch, and the bytes that this holds."""
        sketches = self._sketch(batch)
        size = sum(len(value) for value in sketches.values if value is not None) + batch.size * self.store.store_text
        return partial(self._take, batch, sketches), size

    def _sketch(self, batch: Batch) -> Sketches:
        """Fingerprints, in the place of the contents: batches wait to be written, and texts need ten times as much memory."""
        contents, batch.contents = batch.contents, []
        if self.options.content == "code":
            return Sketches(contents, None, None, self.store.epoch)
        evidence = self.store.record_matches or self.options.only_new
        return self.store.sketch_texts(contents, evidence=evidence, to_file=not self.options.only_new)

    def _flush(self) -> None:
        self.counts["matched"] += self.writer.flush(now_ms())

    def _report(self) -> None:
        if self.options.progress is not None and self.taken > self.reported:
            self.reported = self.taken
            self.options.progress(self.taken + self.wrong)

    def _take(self, batch: Batch, sketches: Sketches) -> None:
        """Write a batch: runs of records with new keys at once, the others one by one between them."""
        now = now_ms()
        taken: set[Key] = set() if self.options.only_new else self.documents.taken(batch.keys)
        if not taken and not self.options.only_new and len(set(batch.keys)) == len(batch):
            self._write_run(batch, sketches, range(len(batch)), now)
        else:
            self._take_in_runs(batch, sketches, taken, now)
        self.taken += len(batch)
        if self.writer.is_full:
            self._flush()

    def _take_in_runs(self, batch: Batch, sketches: Sketches, taken: set[Key], now: int) -> None:
        run: list[int] = []
        for i, key in enumerate(batch.keys):
            if self.options.only_new or key in taken:
                self._write_run(batch, sketches, run, now)
                run = []
                self._write_one(batch, sketches, i, now)
            else:
                run.append(i)
                taken.add(key)
        self._write_run(batch, sketches, run, now)

    def _write_run(self, batch: Batch, sketches: Sketches, run: Sequence[int], now: int) -> None:
        if len(run) == len(batch):
            self.writer.add_batch(batch, sketches, now)
        elif run:
            self.writer.add_batch(batch.some(run), sketches.some(run), now)
        self.counts["added"] += len(run)

    def _write_one(self, batch: Batch, sketches: Sketches, i: int, now: int) -> None:
        record, sketch = batch.record(i), sketches.one(i)
        if_exists = batch.if_exists.get(i, self.options.if_exists)
        self.counts["matched"] += self.writer.flush(now)
        self.writer.end_batches()
        try:
            if self.options.only_new:
                outcome, matches = self.writer.add_if_new(record, sketch, now, if_exists=if_exists, limit=1, on_match=None)
            else:
                outcome, matches = self.writer.add(record, sketch, now, if_exists=if_exists, limit=1)
        except DuplicateKeyError:
            if self.options.on_error != "skip":
                raise
            outcome, matches = "skipped", []
        if outcome != "matched":
            self.counts[outcome] += 1
        self.counts["matched"] += bool(matches)
