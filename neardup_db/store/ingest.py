"""`add_many`: a stream of records in large batches, in the order given, with the outcome of adding them one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..errors import DuplicateKeyError, NearDupError
from ..records import Incoming, incoming, now_ms
from ..values import AddReport, Key
from .background import Background
from .documents import Documents, Record
from .state import Sketch, Store
from .writer import Writer

BATCH_RECORDS = 8192
BATCH_SIZE = 16 << 20
"""Characters of text in a batch: what bounds the memory that a batch needs."""

WORTH_A_THREAD = 1000
"""Records of a batch from which on it is written in the background."""


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

    def _transaction(self, batch: list[Incoming] | None, batches: Iterator[list[Incoming]]) -> None:
        """Write batches until a transaction is full: each while the next one is read and fingerprinted."""
        left = self.options.commit_every
        with Background(self.store.db) as background:
            while batch is not None:
                sketches = self._sketch(batch)
                work = partial(self._take, [one.record for one in batch], [one.if_exists for one in batch], sketches)
                if len(batch) < WORTH_A_THREAD:
                    background.wait()
                    work()
                else:
                    background.start(work)
                self._report()
                left = None if left is None else left - len(batch)
                batch = None if left == 0 else next(batches, None)
            background.start(self._flush)
            background.wait()
        self.writer.end_batches()
        self._report()

    # ---- reading the records -----------------------------------------------------------------------------------------

    def _batches(self, records: Iterable[Any]) -> Iterator[list[Incoming]]:
        """Checked records, so many that a batch pays and so few that its memory is bounded."""
        every = self.options.commit_every
        left = every  # of a transaction: a batch ends where it does
        batch: list[Incoming] = []
        size = 0
        for number, record in enumerate(records):
            try:
                one = incoming(
                    record, content=self.options.content, if_exists=self.options.if_exists, store_text=self.store.store_text
                )
                if self.options.content == "code":
                    one = one._replace(content=self.store.scheme.code_value(one.content))
            except NearDupError as error:
                if self.options.on_error == "skip":
                    self.wrong += 1
                    continue
                raise type(error)(f"record {number}: {error}") from error
            batch.append(one)
            size += len(one.content) if isinstance(one.content, (str, bytes)) else 0
            if len(batch) >= BATCH_RECORDS or len(batch) == left or size >= BATCH_SIZE:
                if every is not None and left is not None:
                    left = left - len(batch) or every
                yield batch
                batch, size = [], 0
        if batch:
            yield batch

    # ---- writing a batch ---------------------------------------------------------------------------------------------

    def _sketch(self, batch: list[Incoming]) -> list[Sketch]:
        if self.options.content == "code":
            return [Sketch(one.content, None, None, self.store.epoch) for one in batch]
        evidence = self.store.record_matches or self.options.only_new
        return self.store.sketch_texts([one.content for one in batch], evidence=evidence)

    def _flush(self) -> None:
        self.counts["matched"] += self.writer.flush(now_ms())

    def _report(self) -> None:
        if self.options.progress is not None and self.taken > self.reported:
            self.reported = self.taken
            self.options.progress(self.taken + self.wrong)

    def _take(self, records: list[Record], if_exists: list[str], sketches: list[Sketch]) -> None:
        """Write a batch: runs of records with new keys at once, the others one by one between them."""
        now = now_ms()
        run: list[int] = []
        taken: set[Key] = set() if self.options.only_new else self.documents.taken([record.key for record in records])
        for i, record in enumerate(records):
            if self.options.only_new or record.key in taken:
                self._write_run(records, sketches, run, now)
                run = []
                self._write_one(record, if_exists[i], sketches[i], now)
            else:
                run.append(i)
                taken.add(record.key)
        self._write_run(records, sketches, run, now)
        self.taken += len(records)
        if self.writer.is_full:
            self._flush()

    def _write_run(self, records: list[Record], sketches: list[Sketch], run: list[int], now: int) -> None:
        if len(run) == len(records):
            self.writer.add_batch(records, sketches, now)
        elif run:
            self.writer.add_batch([records[i] for i in run], [sketches[i] for i in run], now)
        self.counts["added"] += len(run)

    def _write_one(self, record: Record, if_exists: str, sketch: Sketch, now: int) -> None:
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
