"""All pairs of a whole index, a range of fingerprints at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import apsw
import numpy as np

from .. import limits
from ..compute import jaccard_pairs
from ..values import Key
from .documents import Documents
from .search import Search
from .state import Store


class Member(NamedTuple):
    """A visible document that has a fingerprint of a range."""

    id: int
    key: Key
    cluster_id: int


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


class Block(NamedTuple):
    """Fingerprints in the order of their ids: id, group, hashes (uint64[n]) of each."""

    ids: list[int]
    groups: list[int]
    values: list[Any]


class Asked(NamedTuple):
    """A fingerprint of another index: its group's name, what is compared."""

    id: int
    group: Key | None
    value: bytes | None
    evidence: bytes | None


@dataclass(frozen=True, slots=True)
class Between:
    """What fingerprints of another index match: found: (fingerprint, the other's, similarity, distance)."""

    found: list[tuple[int, int, float, int | None]]
    members: dict[int, list[Member]]
    others: dict[int, list[Member]]

    def documents(self) -> Iterator[DocumentPair]:
        """Every pair of their documents, that of the other index second."""
        for fingerprint_id, other_id, similarity, distance in self.found:
            for a in self.members.get(fingerprint_id, ()):
                for b in self.others[other_id]:
                    yield DocumentPair(a, b, similarity, distance)


_ASKED = "CREATE TEMP TABLE IF NOT EXISTS {index}_asked (id INTEGER PRIMARY KEY, group_id INTEGER, value BLOB, evidence BLOB)"


class Joins:
    """Joins of an index with itself; inside the store's transactions."""

    def __init__(self, store: Store, documents: Documents, search: Search) -> None:
        self.store = store
        self.db = store.db
        self.documents = documents
        self.search = search

    @contextmanager
    def reading(self) -> Iterator[Joins]:
        """These, in one state of the file."""
        with self.store.reading():
            yield self

    # ---- sets, in memory: quicker than by the table where many of the hashes filed are common ones -------------------------

    def _block(self, first_id: int) -> Block:
        sql = """SELECT id, group_id, value, value_hash FROM {index}_fingerprint WHERE id >= ? ORDER BY id LIMIT +?"""
        block = Block([], [], [])
        for number, group_id, value, value_hash in self.db.stream(self.store.sql(sql), (first_id, limits.SET_BLOCK)):
            if not self.documents.is_sound(value, value_hash):
                self.documents.value(number)  # raises, and says what to do
            block.ids.append(number)
            block.groups.append(group_id)
            block.values.append(np.frombuffer(value, "<u8"))
        return block

    def _set_pairs(self, block: Block, other: Block | None, threshold: float | None, now: int) -> RangePairs:
        bound, _ = self.store.scheme.query_bounds(threshold, None)
        places, similarities = jaccard_pairs(block.values, bound, others=None if other is None else other.values)
        second = block if other is None else other
        found: list[tuple[int, int, float, int | None]] = [
            (block.ids[i], second.ids[j], similarity, None)
            for (i, j), similarity in zip(places.tolist(), similarities.tolist(), strict=True)
            if block.groups[i] == second.groups[j]
        ]
        if other is not None:
            members = self._members(((number, number) for row in found for number in row[:2]), now)
            return RangePairs(0, -1, found, members, None)
        first_id, last_id = block.ids[0], block.ids[-1]
        return RangePairs(first_id, last_id, found, self._members([(first_id, last_id)], now), None)

    # ---- one range ---------------------------------------------------------------------------------------------------------

    def range(self, first_id: int, last_id: int, threshold: float | None, now: int) -> RangePairs:
        """The pairs of one range. apsw.TooBigError where they are too many, unless it is one fingerprint only."""
        bound, _ = self.store.scheme.query_bounds(threshold, None)
        sql = """SELECT fingerprint_id, other_id, similarity, distance FROM neardup_join('{index}', ?, ?, 1, ?)
                 WHERE similarity >= ?"""
        found = self.search.rows(self.store.sql(sql), (first_id, last_id, now, bound))
        others = [(number, number) for number in {row[1] for row in found} if number > last_id]
        members = self._members([(first_id, last_id), *others], now)
        return RangePairs(first_id, last_id, found, members, 0 if self.store.scheme.takes_codes else None)

    def _members(self, ranges: Iterable[tuple[int, int]], now: int) -> dict[int, list[Member]]:
        """The visible documents of ranges of fingerprints, by fingerprint, in the order of insertion."""
        sql = """SELECT fingerprint_id, id, key, ifnull(cluster_id, id + (1 << 62)) FROM {index}_document
                 WHERE fingerprint_id BETWEEN ? AND ?
                 AND (expires_at IS NULL OR expires_at > ?) ORDER BY fingerprint_id, id"""
        members: dict[int, list[Member]] = {}
        parameters = ((*one, now) for one in dict.fromkeys(ranges))
        for number, *member in self.db.rows_of_many(self.store.sql(sql), parameters):
            members.setdefault(number, []).append(Member(*member))
        return members

    # ---- with another index ------------------------------------------------------------------------------------------

    def _page(self, after: int, size: int, now: int) -> tuple[list[Asked], dict[int, list[Member]]]:
        """Fingerprints with a visible document, in the order of their ids, and these documents."""
        sql = """SELECT f.id, g.name, f.group_id FROM {index}_fingerprint AS f LEFT JOIN {index}_group AS g ON g.id = f.group_id
                 WHERE f.id > ? AND EXISTS (SELECT 1 FROM {index}_document AS d WHERE d.fingerprint_id = f.id
                     AND (d.expires_at IS NULL OR d.expires_at > ?)) ORDER BY f.id LIMIT +?"""
        rows = self.db.page(self.store.sql(sql), after, now, size)
        members = self._members(((number, number) for number, _, _ in rows), now)
        asked = []
        for number, name, group_id in rows:
            sketch = self.search.stored_sketch(members[number][0].id, number)
            asked.append(Asked(number, name if group_id else None, sketch.value, sketch.evidence))
        return asked, members

    def _between(self, asked: list[Asked], members: dict[int, list[Member]], threshold: float | None, now: int) -> Between:
        bound, _ = self.store.scheme.query_bounds(threshold, None)
        groups = {name: self.documents.group_id(name) for name in {one.group for one in asked}}
        self.db.execute(self.store.sql(_ASKED)).fetchall()
        rows = [(one.id, groups[one.group], one.value, one.evidence) for one in asked]
        self.db.execute_many(self.store.sql("INSERT INTO temp.{index}_asked VALUES (?, ?, ?, ?)"), rows)
        sql = """SELECT other_id, fingerprint_id, similarity, distance FROM neardup_join('{index}', ?, ?, 2, ?)
                 WHERE similarity >= ?"""
        try:
            found = self.search.rows(self.store.sql(sql), (asked[0].id, asked[-1].id, now, bound))
        finally:  # it would stay as long as the connection is open
            self.db.execute(self.store.sql("DELETE FROM temp.{index}_asked"))
        return Between(found, self._members(((row[0], row[0]) for row in found), now), members)

    def connections(self, now: int) -> Iterator[tuple[int, int]]:
        """Pairs of fingerprints that connect those of every cluster of visible documents. Inside `reading`."""
        sql = self.store.sql("SELECT fingerprint_id, other_id FROM neardup_join('{index}', ?, ?, 0, ?)")
        for first, last in self.documents.fingerprint_ranges(4 * self.documents.filed_at_once):
            yield from self.search.rows(sql, (first, last, now))


# ---- lazily: each range in one state of the file, by whichever connection is free ------------------------------------

Reading = Callable[[], AbstractContextManager[Joins]]
"""Joins in one state of the file."""


def ranges(reading: Reading, threshold: float | None, clock: Callable[[], int]) -> Iterator[RangePairs]:
    """The pairs of one range of fingerprints after the other. A range grows while its pairs are few, and is halved where they
    are too many to hold."""
    first, size = 1, limits.RANGE_FIRST
    while True:
        with reading() as joins:
            following = joins.documents.next_fingerprint_id(first)
            if following is None:
                return
            first, end = following, max(following, min(joins.documents.last_fingerprint_id(), following + size - 1))
            try:
                pairs = joins.range(first, end, threshold, clock())
            except apsw.TooBigError:
                size = (end - first + 1) // 2
                continue
        yield pairs
        first = end + 1
        if 2 * len(pairs.found) <= limits.PAIRS_WANTED:
            size = min(2 * size, limits.RANGE_MOST)
        elif len(pairs.found) > 2 * limits.PAIRS_WANTED:
            size = max(1, size // 2)


def set_blocks(reading: Reading, threshold: float | None, clock: Callable[[], int]) -> Iterator[RangePairs]:
    """What `ranges` gives, where values are sets of hashes: a block of fingerprints is joined with itself and every later
    block, in memory."""
    first = 1
    while True:
        with reading() as joins:
            block = joins._block(first)
            if not block.ids:
                return
            pairs = joins._set_pairs(block, None, threshold, clock())
        yield pairs
        first = after = block.ids[-1] + 1
        while True:
            with reading() as joins:
                other = joins._block(after)
                if not other.ids:
                    break
                pairs = joins._set_pairs(block, other, threshold, clock())
            yield pairs
            after = other.ids[-1] + 1


def ranges_with(reading: Reading, other: Reading, threshold: float | None, clock: Callable[[], int]) -> Iterator[Between]:
    """Pairs of a document of this index and one of another, a page of the other's fingerprints at a time."""
    after, size = 0, limits.RANGE_FIRST
    while True:
        now = clock()
        with other() as theirs:
            asked, members = theirs._page(after, size, now)
        if not asked:
            return
        with reading() as joins:
            try:
                pairs = joins._between(asked, members, threshold, now)
            except apsw.TooBigError:
                size = max(1, size // 2)
                continue
        yield pairs
        after = asked[-1].id
        size = min(2 * size, limits.RANGE_MOST) if 2 * len(pairs.found) <= limits.PAIRS_WANTED else max(1, size // 2)
