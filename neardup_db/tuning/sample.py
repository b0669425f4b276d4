"""A sample of many texts that keeps near-duplicates together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from .. import limits
from ..arrays import Array, np
from ..schemes import BottomK
from ..text import TextRules
from ..values import Key

_SMALLEST = BottomK(k=1)
_ALIKE_MOST, _COUNTERS = 50, 1 << 20
"""Texts that may share a rank, and counters. Others of a large family get new ranks: a share is sampled, not all or none."""


class Row(NamedTuple):
    rank: int
    number: int
    key: Key
    text: str


class Sample:
    """Keeps a sample of the added texts in bounded memory.

    The rank of a text is a hash of its smallest shingle hash, and the lowest ranks are kept. Every text has the same chance,
    whatever its length, and similar texts are mostly kept together: a plain sample of a hundredth would have a ten-thousandth of
    the pairs, this one nearly a hundredth. wanted: ranks below 0 for keys with priority.
    """

    def __init__(self, size: int, seed: int, wanted: Mapping[Key, int]) -> None:
        self.count = self.empty = 0
        self._size, self._wanted = size, wanted
        self._rules = TextRules.chars(shingle=5, hash_seed=seed)
        self._first = seed << 40 & (1 << 62) - 1  # the generator of new ranks
        self._batch: list[tuple[Key, str]] = []
        self._batch_size = 0
        self._rows: list[Row] = []
        self._rows_size = 0
        self._alike = np.zeros(_COUNTERS, np.int64)
        self._highest = 1 << 64  # the highest rank that may still be kept

    def add(self, key: Key, text: str) -> None:
        self._batch.append((key, text))
        self._batch_size += len(text)
        if len(self._batch) >= limits.TUNED_BATCH or self._batch_size >= limits.TUNED_BYTES:
            self._sample_pairs()

    def rows(self) -> list[Row]:
        self._sample_pairs()
        if not self._fits(len(self._rows), self._rows_size):
            self._prune()
        return sorted(self._rows, key=lambda row: row.number)

    def _sample_pairs(self) -> None:
        batch, self._batch, self._batch_size = self._batch, [], 0
        values = _SMALLEST.values([text for _, text in batch], self._rules)
        hashes = np.frombuffer(values.data, "<u8")
        numbers = np.arange(len(hashes), dtype=np.uint64) + np.uint64(self._first + self.count)
        ranks, others = iter(_mixed(hashes).tolist()), iter(_mixed(numbers).tolist())
        for (key, text), value in zip(batch, values.split(), strict=True):
            self.count += 1
            if value is None:
                self.empty += 1
                continue
            rank, other = next(ranks), next(others)
            self._alike[rank % _COUNTERS] += 1
            if self._alike[rank % _COUNTERS] > _ALIKE_MOST + 4 * self.count // _COUNTERS:
                rank = other
            rank = self._wanted.get(key, rank)
            if rank <= self._highest:
                self._rows.append(Row(rank, self.count, key, text))
                self._rows_size += len(text)
        if not self._fits(len(self._rows) / 2, self._rows_size / 2):
            self._prune()

    def _fits(self, count: float, size: float) -> bool:
        """Whether this many texts with this many characters may be kept; the time to compare them grows with the product."""
        return count <= self._size and size <= limits.TUNED_BYTES and count * size <= limits.TUNED_WORK

    def _prune(self) -> None:
        self._rows.sort()
        kept: list[Row] = []
        size = 0
        for row in self._rows:
            if len(kept) > 1 and not self._fits(len(kept) + 1, size + len(row.text)):
                break
            kept.append(row)
            size += len(row.text)
        self._rows, self._rows_size, self._highest = kept, size, kept[-1].rank


def _mixed(numbers: Array) -> Array:
    """Mix numbers so that their order is lost, since long texts have smaller minimum hashes (splitmix64)."""
    x = numbers.astype(np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        x ^= x >> np.uint64(shift)
        x *= np.uint64(factor)
    return x
