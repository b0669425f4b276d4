"""Choice of the records to keep among near-duplicates, for `neardup dedup` and data frames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .arrays import Array, np
from .index import Index


class Duplicates(NamedTuple):
    """The dropped records, ascending, and the record kept in place of each: int64[m]; float64[m]."""

    gone: Array
    kept: Array
    similarity: Array

    def clusters(self) -> list[list[int]]:
        """Each kept record with the records dropped for it, as ascending numbers; the largest first, ties by first record."""
        members: dict[int, list[int]] = {}
        for gone, kept in zip(self.gone.tolist(), self.kept.tolist(), strict=True):
            members.setdefault(kept, [kept]).append(gone)
        return sorted((sorted(numbers) for numbers in members.values()), key=lambda numbers: (-len(numbers), numbers[0]))

    def largest(self) -> tuple[int, float]:
        """(size, lowest similarity of a dropped to the kept record) of the largest cluster; (0, 1.0) without clusters."""
        staying, sizes = np.unique(self.kept, return_counts=True)
        if not len(staying):
            return 0, 1.0
        return 1 + int(sizes.max()), float(self.similarity[self.kept == staying[sizes.argmax()]].min())


def is_large(members: int, records: int) -> bool:
    """Whether a connected component is above 1 % of at least 1,000 records, so that a warning about chains is due."""
    return records >= 1000 and 100 * members > records


def duplicates_of(index: Index, order: Sequence[int] | Array, connected: bool = False) -> Duplicates:
    """The records of an index to drop. order: record numbers, which are their keys, in the order of preference.

    A record is dropped if it is a near-duplicate of a kept one; `kept` is the most similar of these, among equals the
    first in the order. connected: keep only the first record of each connected component."""
    numbers = np.asarray(order, np.int64)
    if connected:
        return _connected(index, numbers)
    kept, similarities = index._duplicates(numbers.tolist())
    gone = np.flatnonzero(kept >= 0)
    gone = gone[np.argsort(numbers[gone], kind="stable")]
    return Duplicates(numbers[gone], numbers[kept[gone]], similarities[gone])


def _connected(index: Index, numbers: Array) -> Duplicates:
    rank = {number: place for place, number in enumerate(numbers.tolist())}
    pairs = []
    for cluster in index.clusters():
        members = [int(key) for key in cluster.keys]
        kept = min(members, key=rank.__getitem__)
        pairs += [(number, kept) for number in members if number != kept]
    similarities = np.array(index._similarities(pairs), np.float64)  # those of one cluster come together
    both = np.array(pairs, np.int64).reshape(-1, 2)
    by_number = np.argsort(both[:, 0], kind="stable")
    return Duplicates(both[by_number, 0], both[by_number, 1], similarities[by_number])
