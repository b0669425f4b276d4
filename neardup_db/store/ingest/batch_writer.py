"""Writes the batches of a bulk load."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ... import clock
from ...errors import DuplicateKeyError, NearDupError, ParameterError
from ...parameters import IfExists, OnError, check_callable, check_choice, check_if_exists, check_integer
from ...records import FieldNames
from ...values import MOST_PROBLEMS, Key, Skipped
from ..layout.sketches import Sketches
from ..query.documents import DocumentRow
from .background import Work
from .code_segment import CodeSegment, Owners
from .outcomes import OnOutcome, Outcomes
from .segment import Batch
from .short_texts import TokenCounts
from .writer import Writer


@dataclass(slots=True)
class IngestOptions:
    """The arguments of a load. Raises ParameterError for a wrong one."""

    content: str
    if_exists: IfExists = "error"
    on_error: OnError = "raise"
    only_new: bool = False
    commit_every: int | None = None
    progress: Callable[[int], Any] | None = None
    on_outcome: OnOutcome | None = None
    require: Callable[..., None] | None = None  # rejects records of another scheme or text rules; called inside the transaction
    fields: FieldNames | None = None  # the field names of key, text and so on, if they differ from the arguments of `add`
    takes_over: bool = False  # True if the records are rows of the followed table
    first: int = 0  # the number of the first record

    def __post_init__(self) -> None:
        check_if_exists(self.if_exists)
        check_choice("on_error", self.on_error, ("raise", "skip"))
        if self.commit_every is not None:
            self.commit_every = check_integer("commit_every", self.commit_every, 1)
        check_callable("progress", self.progress)
        check_callable("on_outcome", self.on_outcome)


class SkippedRecords:
    def __init__(self, on_error: OnError) -> None:
        self._on_error = on_error
        self.count = 0
        self.first: list[Skipped] = []

    def add(self, number: int, key: Key | None, error: NearDupError) -> Skipped:
        """Raises the error with the record's number unless invalid records are skipped."""
        if self._on_error != "skip":
            raise type(error)(f"record {number}: {error}") from error
        self.count += 1
        skipped = Skipped(number, key, str(error))
        if len(self.first) < MOST_PROBLEMS:
            self.first.append(skipped)
        return skipped


class BatchWriter:
    """Fingerprints batches and writes them in order, inside the load's transaction: new keys in bulk, other records one by
    one, after everything before them is indexed and connected."""

    def __init__(self, writer: Writer, options: IngestOptions, outcomes: Outcomes | None) -> None:
        self.store, self.documents, self.writer = writer.store, writer.documents, writer
        self.options = options
        self.outcomes = outcomes
        self.segment = CodeSegment(writer.clusters)
        self.counts = dict.fromkeys(("added", "replaced", "ignored", "matched"), 0)
        self.rejected = SkippedRecords(options.on_error)
        self.token_counts = TokenCounts(writer.store.scheme)
        self.taken = 0  # the number of records written, ignored or rejected

    def prepare(self, batch: Batch) -> tuple[Work, int]:
        """(the work of writing a batch, the bytes that it holds)."""
        sketches = self.sketch(batch)
        size = sum(map(len, filter(None, sketches.values))) + batch.held_size + batch.size * self.store.store_text
        return partial(self.write, batch, sketches), size

    def sketch(self, batch: Batch) -> Sketches:
        """Fingerprint the contents and drop them: texts need ten times the memory."""
        contents, batch.contents = batch.contents, []
        if self.options.content == "code":
            return self.store.sketcher.code_values(contents)
        if self.options.content == "value":
            return self.store.sketcher.stored_values(contents)
        return self.store.sketcher.texts(contents, to_file=not self.options.only_new)

    def connect(self, now: int, *, more_follow: bool = False) -> None:
        matched = self.segment.flush(now, more_follow=more_follow)
        self.counts["matched"] += len(matched)
        if self.outcomes is not None:
            best = ((document_id, self.segment.best_match(document_id, now)) for document_id in matched)
            self.outcomes.connect({document_id: match for document_id, match in best if match is not None})
        self.segment.evict(now)

    def write(self, batch: Batch, sketches: Sketches) -> None:
        self.token_counts.count_batch(sketches.token_counts, self.store.rules)
        now = clock.now_ms()
        self.taken += len(batch)
        store = self.store
        has_parts = store.has_parts or batch.has_parts
        # outcomes, dismissed pairs and a count window need the state after each code
        in_bulk = self.outcomes is None and not store.dismisses and store.window.documents is None
        if self.options.only_new or (has_parts and not (store.has_parts and in_bulk)):
            for i in range(len(batch)):
                self._write_one(batch, sketches, i, now)
            return
        if has_parts:
            self._write_code_batch(batch, sketches, now)
            return
        existing = self.documents.rows_by_key(batch.keys)
        needs_no_order = self.outcomes is None and store.window.documents is None
        if not existing and len(set(batch.keys)) == len(batch):
            self._write_run(batch, sketches, range(len(batch)), now)
        else:
            may_stay = needs_no_order and self.options.if_exists == "ignore" and not batch.if_exists
            self._write_runs(batch, sketches, existing, may_stay, now)
        if self.segment.is_full:
            self.connect(now, more_follow=needs_no_order)

    def _write_code_batch(self, batch: Batch, sketches: Sketches, now: int) -> None:
        owners = Owners(self.documents, batch, now)
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
                self._write_codes(batch, sketches, runs, owners, now)
                runs = []
                self._write_one(batch, sketches, i, now)
                owners.reload(i)
        self._write_codes(batch, sketches, runs, owners, now)
        if self.segment.is_full:
            self.connect(now)

    def _write_codes(
        self, batch: Batch, sketches: Sketches, runs: list[tuple[str, list[int]]], owners: Owners, now: int
    ) -> None:
        """Write runs of codes that are added or replace others, and then split the clusters that they connected."""
        split_seeds: set[int] = set()
        for action, run in runs:
            if action == "joins":
                self.segment.add_codes(batch.at_indexes(run), sketches.at_indexes(run), [owners[i] for i in run], now)
                self.counts["added"] += len(run)
                continue
            self.connect(now)
            self.segment.end()
            codes = ((batch.record(i), sketches.sketch_at(i), *owners.replaced(i)) for i in run)
            matched, seeds = self.writer.replace_codes(codes, now)
            split_seeds |= seeds
            self.counts["matched"] += matched
            self.counts["replaced"] += len(run)
        self.writer.clusters.split(split_seeds, now)

    def _write_runs(
        self, batch: Batch, sketches: Sketches, existing: dict[Key, DocumentRow], may_stay: bool, now: int
    ) -> None:
        """may_stay: visible documents with the record's key and group stay. Such records interrupt no run of new keys."""
        known_keys = set(existing)
        run: list[int] = []
        for i, key in enumerate(batch.keys):
            row = existing.get(key) if may_stay else None
            if row is not None and row.is_visible(now) and self.documents.is_in_group(row, batch.group(i)):
                self.counts["ignored"] += 1
            elif key in known_keys:
                self._write_run(batch, sketches, run, now)
                run = []
                self._write_one(batch, sketches, i, now)
            else:
                run.append(i)
                known_keys.add(key)
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
        self.connect(now)
        self.segment.end()
        try:
            if self.options.only_new:
                outcome, matches = self.writer.add_if_new(record, sketch, now, if_exists=if_exists, limit=1, on_match=None)
            else:
                whole = self.options.content == "value" and record.part is None and not record.is_one_of_several
                outcome, matches = self.writer.add(record, sketch, now, if_exists=if_exists, limit=1, whole=whole)
        except (DuplicateKeyError, ParameterError) as error:
            skipped = self.rejected.add(batch.number(i), record.key, error)
            if self.outcomes is not None:
                self.outcomes.add(record.key, "skipped", skipped)
            return
        if outcome != "duplicate":
            self.counts[outcome] += 1
        self.counts["matched"] += bool(matches)
        if self.outcomes is not None:
            self.outcomes.add(record.key, outcome, matches[0] if matches else None)
