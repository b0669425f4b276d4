"""All pairs of near-duplicates by brute force, in Python: the truth that the index is measured against.

Nothing here comes from the index but the text rules. A pair with Jaccard similarity >= t shares at least o = the smallest c with
c/n >= t of the n shingles of either set, so it shares one of the n - o + 1 rarest: those are looked up, everything found is
compared in full.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import numpy as np

Truth = dict[tuple[int, int], float]


def shingle_sets(texts: Iterable[Any], shingles: Callable[[Any], Iterable[Hashable]]) -> list[list[int]]:
    """The set of shingles of each text as ascending numbers, 0 = the rarest of all."""
    numbers: dict[Hashable, int] = {}
    found = ({numbers.setdefault(shingle, len(numbers)) for shingle in shingles(text)} for text in texts)
    sets = [np.fromiter(one, np.int64, len(one)) for one in found]
    counts = np.zeros(len(numbers), np.int64)
    for one in sets:
        counts[one] += 1
    rank = np.empty(len(numbers), np.int64)
    rank[np.argsort(counts, kind="stable")] = np.arange(len(numbers))
    return [np.sort(rank[one]).tolist() for one in sets]


def exact_pairs(sets: Sequence[Sequence[int]], threshold: float) -> Truth:
    """{(i, j): Jaccard} for all i < j with a similarity of at least the threshold. Empty sets are in no pair."""
    found: Truth = {}
    index: dict[int, list[int]] = defaultdict(list)
    for j, numbers in enumerate(sets):
        least = next((c for c in range(1, len(numbers) + 1) if c / len(numbers) >= threshold), 0)
        prefix = numbers[: len(numbers) - least + 1] if numbers else ()
        own = set(numbers)
        for i in sorted({i for number in prefix for i in index.get(number, ())}):
            if min(len(sets[i]), len(own)) / max(len(sets[i]), len(own)) < threshold:
                continue
            common = len(own.intersection(sets[i]))
            similarity = common / (len(own) + len(sets[i]) - common)
            if similarity >= threshold:
                found[i, j] = similarity
        for number in prefix:
            index[number].append(j)
    return found


def components(count: int, pairs: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Connected components with at least two of the documents 0 .. count - 1, each ascending, in the order of their first."""
    parent = list(range(count))

    def find(member: int) -> int:
        while parent[member] != member:
            parent[member] = parent[parent[member]]
            member = parent[member]
        return member

    for i, j in pairs:
        a, b = find(i), find(j)
        parent[max(a, b)] = min(a, b)
    sets: dict[int, list[int]] = defaultdict(list)
    for member in range(count):
        sets[find(member)].append(member)
    return [one for one in sets.values() if len(one) > 1]
