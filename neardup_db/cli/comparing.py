"""Builds a temporary index of the records of an input, to find their pairs and clusters.

The first pass computes the buckets of every text. The second rereads the texts that share a bucket and adds them under running
numbers to a temporary index, which verifies each match by the exact Jaccard similarity. The third pass is the caller's.
"""

from __future__ import annotations

import contextlib
import warnings
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from .. import limits, native
from ..arrays import np
from ..errors import ShortTextsWarning
from ..index import Index
from ..located import LocatedTexts
from ..native import trim_memory
from ..schemes import MinHash
from ..schemes.base import native_scheme
from ..store.ingest.short_texts import TokenCounts
from ..text import TextRules
from ..values import Key
from .choices import Choice, KeepRule, KnownRecords
from .copies import Copy, RunCounts
from .indexes import scratch_index
from .inputs.passes import Numbers
from .inputs.source import ABSENT, InputRecord, RecordError, field_value
from .output import escaped
from .progress import Meter


class Buckets:
    """The buckets of texts under a banding scheme. `wordless`: the positions, from 0, of texts without tokens or with fewer than
    `min_tokens`, which match nothing.

    An entry is a uint64: the bucket in the upper half, the text's position in the lower half.
    """

    def __init__(self, scheme: MinHash, rules: TextRules, folder: Path) -> None:
        self.token_counts = TokenCounts()
        self.wordless: list[int] = []
        self._rules = rules
        self._bands = scheme.bands
        self._texts = 0
        self._keys = array("I")  # buckets of the latest texts, not yet in a run
        self._runs = Numbers(folder)
        self._bounds: list[Any] = []
        """For each run, where the SORTED_RANGES bucket ranges begin in `_runs`, and the end of the last."""
        # Bands use the first slots of the signature, stored or not, so these are the index's buckets.
        self._native = native_scheme({**scheme.settings(), "num_perm": scheme.bands * scheme.rows, "evidence": "none"})

    def add(self, texts: list[str] | LocatedTexts) -> None:
        values = native.values_of_texts(self._native, self._rules.native, texts)
        token_counts = values.tokens.tolist()
        fewest = max(1, self._rules.min_tokens)
        if min(token_counts, default=fewest) < fewest:
            self.wordless += [place for place, count in enumerate(token_counts, self._texts) if count < fewest]
        self.token_counts.count_batch(token_counts, self._rules)
        self._keys.frombytes(native.band_keys(self._native, values).astype(np.uint32).tobytes())
        self._texts += len(texts)
        if len(self._keys) >= limits.SORTED_KEYS:
            self._store_run()

    def shared(self) -> Any:
        shared = np.zeros(self._texts, bool)
        if self._bounds:
            self._store_run()
        for entries in self._ranges() if self._bounds else (self._entries(),):
            differing = entries[1:] ^ entries[:-1]
            met = np.flatnonzero((differing != 0) & (differing >> np.uint64(32) == 0))
            for place in (met, met + 1):
                shared[entries[place] & np.uint64(0xFFFFFFFF)] = True
        return shared

    def close(self) -> None:
        self._runs.close()

    def _entries(self) -> Any:
        keys = np.frombuffer(self._keys, np.uint32).reshape(-1, self._bands)
        places = np.arange(self._texts - len(keys), self._texts, dtype=np.uint64)
        has_words = np.ones(len(keys), bool)
        first = self._texts - len(keys)
        has_words[[place - first for place in self.wordless[bisect_left(self.wordless, first) :]]] = False
        entries = (keys.astype(np.uint64) << np.uint64(32) | places[:, None])[has_words].ravel()
        entries.sort()
        return entries

    def _store_run(self) -> None:
        entries = self._entries()
        firsts = [(number << 64) // limits.SORTED_RANGES for number in range(limits.SORTED_RANGES)]
        bounds = np.append(np.searchsorted(entries, np.array(firsts, np.uint64)), len(entries))
        self._bounds.append(bounds + len(self._runs))
        self._runs.extend(entries)
        self._keys = array("I")

    def _ranges(self) -> Iterator[Any]:
        """All entries, sorted: each batch has one bucket range, or several with up to SORTED_KEYS entries."""
        bounds = np.array(self._bounds)
        sizes = np.diff(bounds, axis=1).sum(axis=0)
        cuts, size = [0], 0
        for number, more in enumerate(sizes.tolist()):
            if size and size + more > limits.SORTED_KEYS:
                cuts.append(number)
                size = 0
            size += more
        for low, high in pairwise([*cuts, limits.SORTED_RANGES]):
            part = np.concatenate([self._runs.numbers_between(run[low], run[high]) for run in bounds.tolist()])
            part.sort()
            yield part


@dataclass
class Comparison:
    """The arguments of `neardup dedup`, and what finds the pairs of the records. One output may be - for standard output.

    When the index is complete, `counts` and `wordless` (positions, from 0) are set, and `choice` knows all records that may have
    a near-duplicate.
    """

    copy: Copy
    counts: RunCounts
    rules: TextRules
    threshold: float = 0.8
    recall: float = 0.99
    keep: KeepRule = KeepRule()
    connected: bool = False
    group_field: str | None = None
    known: KnownRecords | None = None
    mark: bool = False
    drop_empty: bool = False
    pairs: Path | None = None
    clusters: Path | None = None

    @property
    def outputs(self) -> list[Path]:
        """The records come last, so that they are in place only if the others are."""
        return [path for path in (self.pairs, self.clusters, self.copy.output) if path is not None]

    def __post_init__(self) -> None:
        self._source = self.copy.source
        self._scheme = MinHash(threshold=self.threshold, recall=self.recall, exact=True)
        self.choice = Choice(self.keep, self._source)
        self.wordless: list[int] = []

    @contextlib.contextmanager
    def index(self) -> Iterator[Index]:
        """A temporary index; its keys are record numbers, and its metadata ids and lines if the plan wants names."""
        shared = self._shared()
        trim_memory()
        with scratch_index(self.copy.folder, self._scheme, self.rules) as index:
            with Meter("Verify", self._source.size_bytes) as meter, warnings.catch_warnings():
                warnings.simplefilter("ignore", ShortTextsWarning)  # these are only a part of the texts
                index.add_many(self._candidates(shared, meter))
            trim_memory()
            yield index

    def _shared(self) -> Any:
        """Whether each record shares a bucket with another and matches no other index, bool[n]."""
        known = self.known
        with contextlib.closing(Buckets(self._scheme, self.rules, self.copy.folder)) as buckets:

            def take(texts: list[str] | LocatedTexts) -> None:
                if known is not None:
                    known.search(texts)
                buckets.add(texts)

            self.counts.read(self._source, take, known.stop if known is not None else lambda: None)
            self.wordless = buckets.wordless
            warning = buckets.token_counts.warning(self.rules.shingle)
            if warning is not None:
                warnings.warn(warning, ShortTextsWarning, stacklevel=1)
            shared = buckets.shared()
        return shared if known is None else shared & ~known.flags

    def _candidates(self, shared: Any, meter: Meter) -> Iterator[Any]:
        is_named = self.mark or self.pairs is not None or self.clusters is not None
        for record in self._source.chosen(shared):
            meter.advance(self._source.position)
            self.choice.observe(record)
            if not is_named and self.group_field is None:
                yield record.number, record.text
                continue
            arguments: dict[str, Any] = {"key": record.number, "text": record.text}
            if self.group_field is not None:
                arguments["group"] = self._group(record, self.group_field)
            if is_named:
                arguments["metadata"] = {"id": record.key, "line": record.line}
            yield arguments

    def _group(self, record: InputRecord, field: str) -> Key | None:
        value = field_value(record.fields, field)
        if value is ABSENT or value is None or value == "" or value != value:
            return None
        if isinstance(value, (dict, list, tuple)):
            what = f"--group-field: field {field!r} is {escaped(repr(value))[:60]}, numbers or text are needed"
            raise RecordError(self._source.problem(record, what))
        is_key = isinstance(value, (str, bytes)) or (type(value) is int and -(2**63) <= value < 2**63)
        return value if is_key else str(value)
