"""Builds a temporary index of the records of an input, to find their pairs and clusters.

The first pass computes the buckets of every text. The second rereads the texts that share a bucket and adds them under running
numbers to a temporary index, which verifies each match by the exact Jaccard similarity. The third pass is the caller's.
"""

from __future__ import annotations

import contextlib
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import apsw

from .. import limits
from ..errors import DiskFullError, ShortTextsWarning
from ..index import Index
from ..located import LocatedTexts
from ..native import trim_memory
from ..schemes import MinHash
from ..store.database.open import open_scratch
from ..text import TextRules
from ..values import Key
from .buckets import Buckets
from .choices import KnownRecords
from .inputs.fields import ABSENT, field_value
from .inputs.lines import Problem, RecordError
from .inputs.passes import Passes
from .inputs.source import InputRecord
from .output import escaped
from .screen import Meter

OF_DATABASE = (DiskFullError, apsw.FullError)
"""Exceptions raised by an index on a full disk."""


class Comparison:
    """The records of an input and the matching rule.

    named: the index stores record ids. group: compare only records with an equal value of this field. known: selects records to
    drop before the comparison. take: called with every record that may have a near-duplicate. When the index is complete,
    `records`, `record_bytes`, `wordless` (positions, from 0) and the source's error counts are set.
    """

    def __init__(
        self,
        passes: Passes,
        folder: Path,
        *,
        threshold: float = 0.8,
        recall: float = 0.99,
        rules: TextRules | None = None,
        named: bool = True,
        group: str | None = None,
        known: KnownRecords | None = None,
        take: Callable[[InputRecord], None] = lambda record: None,
    ) -> None:
        self.passes, self.folder, self.known = passes, folder, known
        self.scheme = MinHash(threshold=threshold, recall=recall, exact=True)
        self.rules = TextRules() if rules is None else rules
        self.records = self.record_bytes = self.skipped = self.replaced = 0
        self.problems: list[Problem] = []
        self.wordless: list[int] = []
        self._named, self._group, self._take = named, group, take

    @contextlib.contextmanager
    def temporary_index(self) -> Iterator[Index]:
        shared = self._shared()
        trim_memory()
        connection = open_scratch(str(self.folder / "index.db"))
        try:
            with Index(connection, self.scheme, text=self.rules, record_matches=False) as index:
                with Meter("Verify", self.passes.source.size_bytes) as meter, warnings.catch_warnings():
                    warnings.simplefilter("ignore", ShortTextsWarning)  # these are only a part of the texts
                    index.add_many(self._candidates(shared, meter))
                trim_memory()
                yield index
        finally:
            connection.close()

    def _count(self, meter: Meter) -> None:
        source = self.passes.source
        self.records, self.record_bytes = meter.records, meter.record_bytes
        self.skipped, self.problems, self.replaced = source.skipped, source.problems, source.replaced

    def _arguments(self, record: InputRecord) -> dict[str, Any]:
        self._take(record)
        return {**self._grouped(record), "metadata": {"id": record.key, "line": record.line}}

    def _grouped(self, record: InputRecord) -> dict[str, Any]:
        return {
            "key": record.number,
            "text": record.text,
            "group": None if self._group is None else self._group_of(record, field_value(record.fields, self._group)),
        }

    def _group_of(self, record: InputRecord, value: Any) -> Key | None:
        if value is ABSENT or value is None or value == "" or value != value:
            return None
        if isinstance(value, (dict, list, tuple)):
            what = f"--group-field: field {self._group!r} is {escaped(repr(value))[:60]}, numbers or text are needed"
            raise RecordError(self.passes.source.problem(record, what))
        is_key = isinstance(value, (str, bytes)) or (type(value) is int and -(2**63) <= value < 2**63)
        return value if is_key else str(value)

    def _shared(self) -> Any:
        """Whether each record shares a bucket with another and matches no other index, bool[n]."""
        with contextlib.closing(Buckets(self.scheme, self.rules, self.folder)) as buckets:
            self._fill(buckets)
            self.wordless = buckets.wordless
            warning = buckets.token_counts.warning(self.rules.shingle)
            if warning is not None:
                warnings.warn(warning, ShortTextsWarning, stacklevel=1)
            shared = buckets.shared()
        return shared if self.known is None else shared & ~self.known.flags

    def _fill(self, buckets: Buckets) -> None:
        """A second thread computes the buckets of one batch while the next is read."""

        def take(texts: list[str] | LocatedTexts) -> None:
            if self.known is not None:
                self.known.search(texts)
            buckets.add(texts)

        source = self.passes.source
        with Meter("Compare", source.size_bytes) as meter, ThreadPoolExecutor(1) as thread:
            waiting: deque[Future[None]] = deque()
            try:
                for piece in self.passes.pieces():
                    waiting.append(thread.submit(take, piece.texts))
                    meter.record_bytes += piece.size_bytes
                    meter.advance(source.position, len(piece.texts))
                    if len(waiting) > limits.PIECES_WAITING:
                        waiting.popleft().result()
                for future in waiting:
                    future.result()
            except BaseException:  # the thread must end first, because the block waits for it
                if self.known is not None:
                    self.known.stop()
                raise
        self._count(meter)

    def _candidates(self, shared: Any, meter: Meter) -> Iterator[Any]:
        for record in self.passes.chosen(shared):
            meter.advance(self.passes.source.position)
            if self._named:
                yield self._arguments(record)
            else:
                self._take(record)
                yield (record.number, record.text) if self._group is None else self._grouped(record)


def name_of(index: Index, number: int) -> tuple[Any, int]:
    metadata = index.get(number).metadata
    return metadata["id"], metadata["line"]
