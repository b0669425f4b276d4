"""All pairs of a whole index, a range of fingerprints at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import apsw

from ..values import Key
from .documents import Documents
from .search import Search
from .state import Store

PAIRS_WANTED = 50_000
"""Pairs of fingerprints that a range should have: what bounds the memory of a join, and the time of one transaction."""

RANGE_FIRST, RANGE_MOST = 1024, 1 << 18


class Member(NamedTuple):
    """A visible document that has a fingerprint of a range."""

    id: int
    key: Key
    cluster_id: int | None


class DocumentPair(NamedTuple):
    """Two documents that match, the earlier one first."""

    a: Member
    b: Member
    similarity: float
    distance: int | None


@dataclass(frozen=True, slots=True)
class RangePairs:
    """What the fingerprints from first_id to last_id match among themselves and among those of higher ids.

    found: (fingerprint, other, similarity, distance); copies_distance: that of two equal ones."""

    first_id: int
    last_id: int
    found: list[tuple[int, int, float, int | None]]
    members: dict[int, list[Member]]
    copies_distance: int | None

    def documents(self) -> Iterator[DocumentPair]:
        """Every pair of their documents, one made after the other: equal copies can be very many."""
        for members in (self.members[number] for number in self.members if self.first_id <= number <= self.last_id):
            for i, a in enumerate(members):
                for b in members[i + 1 :]:
                    yield DocumentPair(a, b, 1.0, self.copies_distance)
        for fingerprint_id, other_id, similarity, distance in self.found:
            for a in self.members.get(fingerprint_id, ()):
                for b in self.members.get(other_id, ()):
                    yield DocumentPair(min(a, b), max(a, b), similarity, distance)


class Joins:
    """Joins of an index with itself; each range in a transaction of its own, unless the caller is in one."""

    def __init__(self, store: Store, documents: Documents, search: Search) -> None:
        self.store = store
        self.db = store.db
        self.documents = documents
        self.search = search

    def ranges(self, threshold: float | None, clock: Callable[[], int]) -> Iterator[RangePairs]:
        """The pairs of one range of fingerprints after the other. A range grows while its pairs are few, and is halved where they
        are too many to hold."""
        first, size = 1, RANGE_FIRST
        while True:
            with self.store.reading():
                last = self.documents.last_fingerprint_id()
                if first > last:
                    return
                end = min(last, first + size - 1)
                try:
                    pairs = self.range(first, end, threshold, clock())
                except apsw.TooBigError:
                    size = (end - first + 1) // 2
                    continue
            yield pairs
            first = end + 1
            if 2 * len(pairs.found) <= PAIRS_WANTED:
                size = min(2 * size, RANGE_MOST)
            elif len(pairs.found) > 2 * PAIRS_WANTED:
                size = max(1, size // 2)

    def range(self, first_id: int, last_id: int, threshold: float | None, now: int) -> RangePairs:
        """The pairs of one range. apsw.TooBigError where they are too many, unless it is one fingerprint only."""
        bound, _ = self.store.scheme.query_bounds(threshold, None)
        sql = """SELECT fingerprint_id, other_id, similarity, distance FROM neardup_join('{index}', ?, ?, 1, ?)
                 WHERE similarity >= ?"""
        found = self.search.rows(self.store.sql(sql), (first_id, last_id, now, bound))
        members: dict[int, list[Member]] = {}
        sql = """SELECT fingerprint_id, id, key, cluster_id FROM {index}_document WHERE fingerprint_id BETWEEN ? AND ?
                 AND (expires_at IS NULL OR expires_at > ?) ORDER BY fingerprint_id, id"""
        asked = [(number, number, now) for number in {row[1] for row in found} if number > last_id]
        for number, *member in self.db.execute_many(self.store.sql(sql), [(first_id, last_id, now), *asked]):
            members.setdefault(number, []).append(Member(*member))
        return RangePairs(first_id, last_id, found, members, 0 if self.store.scheme.takes_codes else None)

    def connections(self, now: int) -> Iterator[tuple[int, int]]:
        """Pairs of fingerprints that connect those of every cluster of visible documents. Inside `reading`."""
        last, size = self.documents.last_fingerprint_id(), 4 * self.documents.filed_at_once
        sql = self.store.sql("SELECT fingerprint_id, other_id FROM neardup_join('{index}', ?, ?, 0, ?)")
        for first in range(1, last + 1, size):
            yield from self.search.rows(sql, (first, min(last, first + size - 1), now))
