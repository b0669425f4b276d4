"""Near-duplicates among the records of a temporary index: which records stay, for the command `dedup` and for data frames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .arrays import Array, np
from .index import Index


class Duplicates(NamedTuple):
    """The records that go, ascending, each with the record that stays instead.

    gone, kept: the numbers of both, int64[m]; similarity: that of the two, float64[m]."""

    gone: Array
    kept: Array
    similarity: Array

    def clusters(self) -> list[list[int]]:
        """Each record that stays in the place of others, with these: ascending numbers; the largest cluster first, then that with
        the first record."""
        members: dict[int, list[int]] = {}
        for gone, kept in zip(self.gone.tolist(), self.kept.tolist(), strict=True):
            members.setdefault(kept, [kept]).append(gone)
        return sorted((sorted(numbers) for numbers in members.values()), key=lambda numbers: (-len(numbers), numbers[0]))

    def largest(self) -> tuple[int, float]:
        """Records of the largest cluster, and the lowest similarity in it of a record to the one that stays; (0, 1.0) if none
        is."""
        staying, sizes = np.unique(self.kept, return_counts=True)
        if not len(staying):
            return 0, 1.0
        return 1 + int(sizes.max()), float(self.similarity[self.kept == staying[sizes.argmax()]].min())


def is_large(members: int, records: int) -> bool:
    """Whether a connected component is so large, above 1 % of 1,000 records or more, that it is told where a chain made it."""
    return records >= 1000 and 100 * members > records


def duplicates_of(index: Index, order: Sequence[int], connected: bool = False) -> Duplicates:
    """Which of the records of an index go. order: their numbers, which are their keys, in the order of preference.

    A record goes if it is a near-duplicate of one that stays, and is named with the most similar of these, the first in the order
    of several. connected: of each connected component only the record that comes first stays."""
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
