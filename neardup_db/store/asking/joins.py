"""All pairs of a whole index, a range of fingerprints at a time."""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from itertools import chain, combinations, groupby, pairwise, repeat
from operator import itemgetter
from typing import Any, NamedTuple

import apsw

from ... import limits
from ...arrays import np, npt
from ...compute.comparisons import jaccard_pieces
from ...values import ANY_GROUP, AnyGroup, Key
from ..database.errors import damaged
from ..layout.candidates import MAX_ID
from ..layout.state import Store
from .dismissed import NONE, Dismissed
from .documents import Documents
from .fingerprints import ACROSS_GROUPS, OF_GROUP
from .parts import nearest_codes
from .search import Search

Group = Key | AnyGroup | None
"""The name of a group, or all groups."""


class Member(NamedTuple):
    """A visible document that has a fingerprint of a range."""

    id: int
    key: Key
    cluster_id: int


class Members(Mapping[int, list[Member]]):
    """The documents of fingerprints, in the order of insertion.

    There may be half a million, so they stand in four tuples, which Python's collection of garbage passes by; a Member and a list
    for each would stop all threads for tenths of a second, each time that everything is looked through."""

    def __init__(self, columns: Sequence[tuple[Any, ...]]) -> None:
        """The four columns: fingerprint, id, key, label; fingerprints ascend."""
        self._numbers, self.ids, self._keys, self._labels = columns

    @classmethod
    def of_rows(cls, rows: Sequence[tuple[Any, ...]]) -> Members:
        """Of rows with these columns."""
        columns: list[list[Any]] = [[], [], [], []]
        for start in range(0, len(rows), limits.TURNED_ROWS):
            part = rows[start : start + limits.TURNED_ROWS]
            for place, column in enumerate(columns):
                column += map(itemgetter(place), part)
        return cls([tuple(column) for column in columns])

    def __getitem__(self, number: int) -> list[Member]:
        first = end = bisect_left(self._numbers, number)
        while end < len(self._numbers) and self._numbers[end] == number:
            end += 1
        if first == end:
            raise KeyError(number)
        part = slice(first, end)
        return list(map(Member, self.ids[part], self._keys[part], self._labels[part]))

    def __iter__(self) -> Iterator[int]:
        return (number for number, _ in groupby(self._numbers))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __or__(self, other: Members) -> Members:
        """With those of later fingerprints."""
        return Members([mine + theirs for mine, theirs in zip(self._columns(), other._columns(), strict=True)])

    def _columns(self) -> Sequence[tuple[Any, ...]]:
        return self._numbers, self.ids, self._keys, self._labels

    def shared_fingerprints(self) -> list[int]:
        """The fingerprints of more than one document."""
        return list(dict.fromkeys(number for number, following in pairwise(self._numbers) if number == following))


class DocumentPair(NamedTuple):
    """Two documents that match, the earlier one first."""

    a: Member
    b: Member
    similarity: float
    distance: int | None


class Codes(NamedTuple):
    """What tells by which codes two documents are most alike, where some have several.

    numbers: the fingerprints of documents that have rows for their codes; values: of all fingerprints that may be compared."""

    numbers: dict[int, list[int]]
    values: Mapping[int, bytes]

    def fingerprints_of(self, document_id: int, number: int) -> list[int]:
        """The fingerprints of a document, one of which is given."""
        return self.numbers.get(document_id) or [number]

    def rows(self, numbers: list[int]) -> list[bytes]:
        """The values of these fingerprints."""
        return [self.values[number] for number in numbers]


_REMEMBERED = 1 << 16
"""Pairs of documents whose nearest codes are remembered."""


class _Best:
    """By which codes two documents are most alike. That is found once for many pairs: two films match by most of their frames."""

    def __init__(self, ours: Codes, theirs: Codes) -> None:
        self._ours, self._theirs = ours, theirs
        self._known: dict[tuple[int, int], tuple[int, int]] = {}

    def is_pair(self, a: int, b: int, pair: tuple[int, int]) -> bool:
        """Whether of all pairs of codes of two documents this one is the nearest, the first of several."""
        if a not in self._ours.numbers and b not in self._theirs.numbers:
            return True
        if self._ours is self._theirs and a > b:  # of several that are as near, the same one from both sides
            a, b, pair = b, a, pair[::-1]
        known = self._known.get((a, b))
        if known is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            known = self._known[a, b] = self._nearest(
                self._ours.fingerprints_of(a, pair[0]), self._theirs.fingerprints_of(b, pair[1])
            )
        return known == pair

    def _nearest(self, a: list[int], b: list[int]) -> tuple[int, int]:
        if self._ours is self._theirs and (shared := set(a).intersection(b)):
            return min(shared), min(shared)
        i, j = nearest_codes(self._ours.rows(a), self._theirs.rows(b))
        return a[i], b[j]


@dataclass(frozen=True, slots=True)
class RangePairs:
    """Matches of the fingerprints from first_id to last_id among themselves and with those of higher ids.

    found: (fingerprint, other, similarity, distance); copies_distance: that of two equal ones; dismissed: pairs of documents
    (earlier, later) that are none; codes: where documents may have several codes, of which two come as a pair by the nearest."""

    first_id: int
    last_id: int
    found: list[tuple[int, int, float, int | None]]
    members: Members
    copies_distance: int | None
    dismissed: frozenset[tuple[int, int]] = NONE
    codes: Codes | None = None

    def documents(self) -> Iterator[DocumentPair]:
        """Every pair of their documents, one made after the other: equal copies can be very many."""
        every = self._all_pairs() if self.codes is None else self._nearest(self.codes)
        if not self.dismissed:
            return every
        return (pair for pair in every if (pair.a.id, pair.b.id) not in self.dismissed)

    def _nearest(self, codes: Codes) -> Iterator[DocumentPair]:
        """Every pair once, by the codes that are most alike."""
        best = _Best(codes, codes)
        for number in [number for number in self.members.shared_fingerprints() if self.first_id <= number <= self.last_id]:
            for a, b in combinations(self.members[number], 2):
                if best.is_pair(a.id, b.id, (number, number)):
                    yield DocumentPair(a, b, 1.0, self.copies_distance)
        for number, other, similarity, distance in self.found:
            for a in self.members.get(number, ()):
                for b in self.members.get(other, ()):
                    if a.id != b.id and best.is_pair(a.id, b.id, (number, other)):
                        yield DocumentPair(min(a, b), max(a, b), similarity, distance)

    def _all_pairs(self) -> Iterator[DocumentPair]:
        several = [number for number in self.members.shared_fingerprints() if self.first_id <= number <= self.last_id]
        for members in map(self.members.__getitem__, several):
            for i, a in enumerate(members):
                for b in members[i + 1 :]:
                    yield DocumentPair(a, b, 1.0, self.copies_distance)
        for fingerprint_id, other_id, similarity, distance in self.found:
            for a in self.members.get(fingerprint_id, ()):
                for b in self.members.get(other_id, ()):
                    yield DocumentPair(min(a, b), max(a, b), similarity, distance)


class Block(NamedTuple):
    """Fingerprints in the order of their ids: id, group, hashes (uint64[n]) of each, moved so that groups have none in common."""

    ids: npt.NDArray[np.int64]
    groups: npt.NDArray[np.int64]
    values: list[Any]


class OtherFingerprint(NamedTuple):
    """A fingerprint of another index, with its group's name, and its value."""

    id: int
    group: Key | None
    value: bytes

    def packed(self, group_id: int) -> bytes:
        """As neardup_join takes it, with the number that its group has in this index."""
        return struct.pack("<qqq", self.id, group_id, len(self.value)) + self.value


@dataclass(frozen=True, slots=True)
class CrossPairs:
    """Fingerprints of this index that match some of another index; found: (fingerprint, the other's, similarity, distance)."""

    found: list[tuple[int, int, float, int | None]]
    members: Members
    others: Members
    codes: tuple[Codes, Codes] | None = None
    """Of this index and of the other one, where one of them may have documents with several codes."""

    def documents(self) -> Iterator[DocumentPair]:
        """Every pair of their documents, that of the other index second."""
        best = None if self.codes is None else _Best(*self.codes)
        for fingerprint_id, other_id, similarity, distance in self.found:
            for a in self.members.get(fingerprint_id, ()):
                for b in self.others[other_id]:
                    if best is None or best.is_pair(a.id, b.id, (fingerprint_id, other_id)):
                        yield DocumentPair(a, b, similarity, distance)


class Joins:
    """Joins of an index with itself; inside the store's transactions."""

    def __init__(self, store: Store, documents: Documents, search: Search) -> None:
        self.store = store
        self.db = store.db
        self.documents = documents
        self.search = search
        self.dismissed: Dismissed = search.dismissed

    @contextmanager
    def reading(self) -> Iterator[Joins]:
        """These joins, in one state of the file."""
        with self.store.reading():
            yield self

    # ---- sets, in memory: quicker than by the table where many of the hashes filed are common ones -------------------------

    def _block(self, first_id: int, group: Group) -> Block:
        sql = f"""SELECT id, group_id, value, value_hash FROM {{index}}_fingerprint NOT INDEXED
                  WHERE id >= :first_id AND {OF_GROUP} ORDER BY id LIMIT +:most"""
        values = {"first_id": first_id, "group_id": self.documents.group_id(group), "most": limits.SET_BLOCK}
        ids, groups, sets, hashes = [], [], [], 0
        for number, group_id, value, value_hash in self.db.stream(self.store.sql(sql), values):
            if not self.documents.is_sound(value, value_hash):
                self.documents.value(number)  # raises, and says what to do
            self.documents.require_numbers((number, group_id))
            ids.append(number)
            groups.append(group_id)
            sets.append(_moved(np.frombuffer(value, "<u8"), group_id))
            hashes += len(sets[-1])
            if hashes >= limits.SET_HASHES:
                break
        return Block(np.array(ids, np.int64), np.array(groups, np.int64), sets)

    def _copies(self, first_id: int, last_id: int, now: int, group: Group) -> RangePairs:
        members = self._members([(first_id, last_id)], now, group_id=self.documents.group_id(group))
        return self._pairs(first_id, last_id, [], members, None)

    def _piece(self, found: list[tuple[int, int, float, int | None]], now: int) -> RangePairs:
        return self._pairs(0, -1, found, self._members(_runs(number for row in found for number in row[:2]), now), None)

    def _pairs(
        self,
        first_id: int,
        last_id: int,
        found: list[tuple[int, int, float, int | None]],
        members: Members,
        copies_distance: int | None,
    ) -> RangePairs:
        dismissed = self.dismissed.pairs_among(members.ids)
        codes = self.codes(members, (number for row in found for number in row[:2])) if self.store.has_parts else None
        return RangePairs(first_id, last_id, found, members, copies_distance, dismissed, codes)

    def codes(self, members: Members, found: Iterable[int], *, always: bool = False) -> Codes:
        """What tells by which codes these documents are most alike; found: fingerprints of theirs. always: values too where none
        has several codes."""
        numbers = self.documents.parts.fingerprints_by_document(members.ids)
        if not numbers and not always:
            return Codes({}, {})
        theirs = {(document_id, number) for document_id, several in numbers.items() for number in several}
        for number, some in members.items():
            for member in some:
                if member.id in numbers and (member.id, number) not in theirs:
                    why = "its fingerprint is none of its codes"
                    raise damaged(f"document {member.id} ({member.key!r})", self.store.name, why)
        wanted = {*found, *chain.from_iterable(numbers.values())}
        return Codes(numbers, self.documents.values(wanted))

    # ---- one range ---------------------------------------------------------------------------------------------------------

    def range(self, first_id: int, last_id: int, threshold: float | None, now: int, group_id: int) -> RangePairs:
        """The pairs of one range, of one group or of all. apsw.TooBigError where they are too many, unless it is one fingerprint
        only."""
        bound, _ = self.store.scheme.query_bounds(threshold, None)
        sql = """SELECT fingerprint_id, other_id, similarity, distance FROM neardup_join('{index}', ?, ?, 1, ?)
                 WHERE similarity >= ?"""
        most = None if first_id == last_id else limits.MEMBERS_MOST
        members = self._members([(first_id, last_id)], now, most, group_id)
        found = self.search.rows(self.store.sql(sql), (first_id, last_id, now, bound))
        members |= self._members(_runs(row[1] for row in found if row[1] > last_id), now, group_id=group_id)
        return self._pairs(first_id, last_id, found, members, 0 if self.store.scheme.takes_codes else None)

    def _members(
        self, ranges: Iterable[tuple[int, int]], now: int, most: int | None = None, group_id: int = ACROSS_GROUPS
    ) -> Members:
        """The visible documents of ranges of fingerprints, of one group or of all, by fingerprint, in the order of insertion.
        apsw.TooBigError where a range has more than `most`."""
        sql = self.store.sql(self.store.frame("members"))
        rows = self.db.rows_of_many(sql, ((*ids, now, group_id, -1 if most is None else most + 1) for ids in ranges))
        if most is not None and len(rows) > most:
            raise apsw.TooBigError(f"more than {most} documents")
        return Members.of_rows(rows)

    def members_of(self, fingerprint_id: int, now: int) -> list[Member]:
        """The visible documents of a fingerprint, in the order of insertion."""
        return self._members([(fingerprint_id, fingerprint_id)], now).get(fingerprint_id, [])

    # ---- with another index ------------------------------------------------------------------------------------------

    def _page(self, after: int, size: int, now: int, group: Group) -> tuple[list[OtherFingerprint], Members, Codes | None]:
        """Fingerprints with a visible document, of one group or of all, in the order of their ids, and these documents, with
        their codes where they may have several."""
        sql = self.store.frame("asked")
        rows, held = [], 0
        values = {"after": after, "group_id": self.documents.group_id(group), "now": now, "most": size}
        with closing(self.db.stream(self.store.sql(sql), values)) as read:
            for row in read:
                rows.append(row)
                held += len(self.documents.sound(row[0], row[3:]))
                if held >= limits.ASKED_BYTES:
                    break
        self.db.ordered(rows, after)
        ends = [(rows[0][0], rows[-1][0])] if rows else []
        members = self._members(ends, now, None if len(rows) == 1 else limits.MEMBERS_MOST)
        sought = [OtherFingerprint(number, name if group_id else None, value) for number, name, group_id, value, _ in rows]
        return sought, members, self.codes(members, members, always=True) if self.store.has_parts else None

    def _cross_pairs(
        self,
        sought: list[OtherFingerprint],
        others: Members,
        codes: Codes | None,
        threshold: float | None,
        now: int,
    ) -> CrossPairs:
        bound, _ = self.store.scheme.query_bounds(threshold, None)
        groups = {name: self.documents.group_id(name) for name in {other.group for other in sought}}
        packed = b"".join(other.packed(groups[other.group]) for other in sought)
        sql = """SELECT other_id, fingerprint_id, similarity, distance FROM neardup_join('{index}', ?, ?, 2, ?, ?)
                 WHERE similarity >= ?"""
        found = self.search.rows(self.store.sql(sql), (sought[0].id, sought[-1].id, now, packed, bound))
        members = self._members(_runs(row[0] for row in found), now)
        if codes is None and not self.store.has_parts:
            return CrossPairs(found, members, others)
        if codes is None:
            values = {other.id: other.value for other in sought}
            codes = Codes({}, values)
        return CrossPairs(found, members, others, (self.codes(members, members, always=True), codes))

    def connections(self, now: int, *, crowds_joined: bool = False) -> Iterator[tuple[int, int]]:
        """Pairs of fingerprints that connect those of every cluster of visible documents. Inside `reading`. crowds_joined: those
        of a crowd are connected like all others, for `check`, which takes nothing for granted."""
        sql = self.store.sql("SELECT fingerprint_id, other_id FROM neardup_join('{index}', ?, ?, ?, ?)")
        for first, last in self.documents.fingerprint_ranges(4 * self.documents.filed_at_once):
            yield from self.search.rows(sql, (first, last, 3 if crowds_joined else 0, now))


def _moved(hashes: npt.NDArray[np.uint64], group_id: int) -> npt.NDArray[np.uint64]:
    """Ascending hashes of a group, each moved as far as all others of the group and none of another group: sets of one group have
    as many hashes in common as before, those of two groups none but by chance."""
    if not group_id:
        return hashes
    moved = hashes + np.uint64(group_id * 0x9E3779B97F4A7C15 % 2**64)
    return np.roll(moved, -int(moved.argmin())) if len(moved) else moved


def _runs(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """The first and the last of each run of successive numbers."""
    distinct = np.unique(np.fromiter(numbers, np.int64))
    firsts, lasts = (distinct[np.diff(distinct, **end) != 1] for end in ({"prepend": -2}, {"append": MAX_ID + 2}))
    return list(zip(firsts.tolist(), lasts.tolist(), strict=True))


# ---- lazily: each range in one state of the file, by whichever connection is free ------------------------------------

Reading = Callable[[], AbstractContextManager[Joins]]
"""Joins in one state of the file."""


def ranges(reading: Reading, threshold: float | None, clock: Callable[[], int], group: Group = ANY_GROUP) -> Iterator[RangePairs]:
    """The pairs of one range of fingerprints after the other, those of one group or of all. A range grows while its pairs are
    few, and is halved where they are too many to hold."""
    first, size = 1, limits.RANGE_FIRST
    while True:
        with reading() as joins:
            group_id = joins.documents.group_id(group)
            following = joins.documents.next_fingerprint_id(first, group_id)
            if following is None:
                return
            first, end = following, max(following, min(joins.documents.last_fingerprint_id(), following + size - 1))
            try:
                pairs = joins.range(first, end, threshold, clock(), group_id)
            except apsw.TooBigError:
                size = max(1, (end - first + 1) // 4)  # each try that fails keeps the first pair waiting
                continue
        yield pairs
        first = end + 1
        documents = len(pairs.members.ids)
        if 4 * len(pairs.found) <= limits.PAIRS_WANTED and 4 * documents <= limits.MEMBERS_MOST:  # each reads the table
            size = min(4 * size, limits.RANGE_MOST)
        elif len(pairs.found) > 2 * limits.PAIRS_WANTED:
            size = max(1, size // 2)


def set_blocks(
    reading: Reading, threshold: float | None, clock: Callable[[], int], group: Group = ANY_GROUP
) -> Iterator[RangePairs]:
    """The pairs of `ranges`, where values are sets of hashes: a block of fingerprints is joined with itself and every later
    block, in memory, and the pairs come in pieces."""
    first = 1
    while True:
        with reading() as joins:
            block = joins._block(first, group)
        if not len(block.ids):
            return
        yield from _copies(reading, block, clock, group)
        yield from _pieces(reading, block, None, threshold, clock)
        first = after = int(block.ids[-1]) + 1
        while True:
            with reading() as joins:
                other = joins._block(after, group)
            if not len(other.ids):
                break
            yield from _pieces(reading, block, other, threshold, clock)
            after = int(other.ids[-1]) + 1


def _copies(reading: Reading, block: Block, clock: Callable[[], int], group: Group) -> Iterator[RangePairs]:
    """Documents with one and the same set, of some thousand sets of a block after the other."""
    ids = block.ids.tolist()
    for start in range(0, len(ids), limits.COPIES_AT_ONCE):
        part = ids[start : start + limits.COPIES_AT_ONCE]
        with reading() as joins:
            pairs = joins._copies(part[0], part[-1], clock(), group)
        yield pairs


def _pieces(
    reading: Reading, block: Block, other: Block | None, threshold: float | None, clock: Callable[[], int]
) -> Iterator[RangePairs]:
    """Pairs of different sets, of a block or of two. Sets are read once and never change; their documents are looked up for each
    piece."""
    with reading() as joins:
        bound, _ = joins.store.scheme.query_bounds(threshold, None)
    second = block if other is None else other
    others = None if other is None else other.values
    for places, similarities in jaccard_pieces(block.values, bound, limits.PAIRS_WANTED, others=others):
        alike = block.groups[places[:, 0]] == second.groups[places[:, 1]]
        a, b = block.ids[places[alike, 0]], second.ids[places[alike, 1]]
        found: list[tuple[int, int, float, int | None]]
        found = list(zip(a.tolist(), b.tolist(), similarities[alike].tolist(), repeat(None)))
        if not found:
            continue
        with reading() as joins:
            pairs = joins._piece(found, clock())
        yield pairs


def ranges_with(
    reading: Reading, other: Reading, threshold: float | None, clock: Callable[[], int], group: Group = ANY_GROUP
) -> Iterator[CrossPairs]:
    """Pairs of a document of this index and one of another, of one group or of all, a page of the other's fingerprints at a
    time."""
    after, size = 0, limits.RANGE_FIRST
    while True:
        now = clock()
        with other() as theirs:
            try:
                sought, members, codes = theirs._page(after, size, now, group)
            except apsw.TooBigError:
                size = max(1, size // 2)
                continue
        if not sought:
            return
        size = min(size, len(sought))
        with reading() as joins:
            try:
                pairs = joins._cross_pairs(sought, members, codes, threshold, now)
            except apsw.TooBigError:
                size = max(1, size // 2)
                continue
        yield pairs
        after = sought[-1].id
        size = min(2 * size, limits.RANGE_MOST) if 2 * len(pairs.found) <= limits.PAIRS_WANTED else max(1, size // 2)
