"""Selects the records that can have a near-duplicate, because they share a bucket of the band table. Only the buckets are kept
for a record, in sorted runs, those of a long input in a temporary file."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from .. import limits, native
from ..arrays import np
from ..located import LocatedTexts
from ..schemes import MinHash
from ..schemes.base import native_scheme
from ..store.ingest.short_texts import TokenCounts
from ..text import TextRules
from .inputs.numbers import Numbers


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
        self._keys = array("I")
        """Buckets of the latest texts, not yet in a run."""
        self._runs = Numbers(folder)
        self._bounds: list[Any] = []
        """For each run, where the SORTED_RANGES bucket ranges begin in `_runs`, and the end of the last."""
        # Bands use the first slots of the signature, stored or not, so these are the index's buckets.
        self._native = native_scheme({**scheme.settings(), "num_perm": scheme.bands * scheme.rows, "evidence": "none"})

    def add(self, texts: list[str] | LocatedTexts) -> None:
        keys, tokens = native.text_buckets(self._native, self._rules.native, texts)
        token_counts = tokens.tolist()
        fewest = max(1, self._rules.min_tokens)
        if min(token_counts, default=fewest) < fewest:
            self.wordless += [place for place, count in enumerate(token_counts, self._texts) if count < fewest]
        self.token_counts.count_batch(token_counts, self._rules)
        self._keys.frombytes(keys.tobytes())
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
