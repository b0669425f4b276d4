"""All pairs of an index, one range of fingerprints at a time."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from itertools import chain, combinations, groupby, pairwise, product, repeat
from operator import itemgetter
from typing import Any, NamedTuple

import apsw

from ... import limits
from ...arrays import np, npt
from ...compute.comparisons import jaccard_pieces
from ...values import ANY_GROUP, AnyGroup, Key
from ..database.errors import damaged
from ..layout.candidates import MAX_ID
from .dismissed import NONE
from .fingerprints import ACROSS_GROUPS, OF_GROUP
from .many import packed_values
from .parts import nearest_codes
from .search import MatchRow, QuerySpec, Search

Group = Key | AnyGroup | None  # a group name, or all groups


class Member(NamedTuple):
    """A visible document of a fingerprint range."""

    id: int
    key: Key
    cluster_id: int


class Members(Mapping[int, list[Member]]):
    """Fingerprints with their documents in insertion order.

    Four tuples of columns hold up to half a million documents. Python's garbage collector skips them; an object for each document
    would stop all threads for tenths of a second at each collection.
    """

    def __init__(self, columns: Sequence[tuple[Any, ...]]) -> None:
        """columns: fingerprint, id, key, label, sorted by fingerprint."""
        self._columns = columns
        self._numbers, self.ids, self._keys, self._labels = columns

    @classmethod
    def of_rows(cls, rows: Sequence[tuple[Any, ...]]) -> Members:
        """Members from rows with these columns."""
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
        """These members followed by members of later fingerprints."""
        return Members([mine + theirs for mine, theirs in zip(self._columns, other._columns, strict=True)])

    def copies(self, distance: int | None) -> list[Found]:
        """The fingerprints with several documents, as matches with themselves."""
        shared = dict.fromkeys(number for number, following in pairwise(self._numbers) if number == following)
        return [(number, number, 1.0, distance) for number in shared]


Found = tuple[int, int, float, "int | None"]  # fingerprint, other fingerprint, similarity, distance


class DocumentPair(NamedTuple):
    """Two documents that match: the earlier one first, or that of another index second."""

    a: Member
    b: Member
    similarity: float
    distance: int | None


class Codes(NamedTuple):
    """The data to find the most similar codes of two documents.

    numbers: fingerprint ids of each document with rows of codes; values: stored values by fingerprint id.
    """

    numbers: dict[int, list[int]]
    values: Mapping[int, bytes]

    def fingerprints_of(self, document_id: int, number: int) -> list[int]:
        """The fingerprint ids of a document; number: a known one."""
        return self.numbers.get(document_id) or [number]

    def rows(self, numbers: list[int]) -> list[bytes]:
        return [self.values[number] for number in numbers]


_REMEMBERED = 1 << 16  # document pairs whose nearest codes are cached


class _Best:
    """Finds the most similar codes of two documents, with a cache: two videos match by most of their frames."""

    def __init__(self, ours: Codes, theirs: Codes) -> None:
        self._ours, self._theirs = ours, theirs
        self._known: dict[tuple[int, int], tuple[int, int]] = {}

    def is_pair(self, a: int, b: int, pair: tuple[int, int]) -> bool:
        """True if this pair of codes is the nearest of the two documents, the first one if several are equally near."""
        if a not in self._ours.numbers and b not in self._theirs.numbers:
            return True
        if self._ours is self._theirs and a > b:  # the same choice in both directions
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
class FingerprintPairs:
    """Matching fingerprints, and all pairs of their documents by iteration: lazily, because equal copies can have very many.

    others: the documents of another index, to which the second fingerprints belong. dismissed: (earlier, later) documents. codes:
    those of both sides if documents may have several; a pair is then reported for its nearest codes only.
    """

    matches: list[Found]
    members: Members
    copies: Sequence[Found] = ()  # fingerprints with several documents, as matches with themselves
    others: Members | None = None
    dismissed: frozenset[tuple[int, int]] = NONE
    codes: tuple[Codes, Codes] | None = None

    def __iter__(self) -> Iterator[DocumentPair]:
        best = None if self.codes is None else _Best(*self.codes)
        is_within, others, dismissed = self.others is None, self.members if self.others is None else self.others, self.dismissed
        for number, other, similarity, distance in chain(self.copies, self.matches):
            firsts = self.members.get(number, [])
            is_same = is_within and number == other
            for a, b in combinations(firsts, 2) if is_same else product(firsts, others.get(other, [])):
                if best is not None and (is_within and a.id == b.id or not best.is_pair(a.id, b.id, (number, other))):
                    continue
                if is_within and a > b:
                    a, b = b, a
                if not dismissed or (a.id, b.id) not in dismissed:
                    yield DocumentPair(a, b, similarity, distance)


class Block(NamedTuple):
    """Fingerprints in id order, with group and hashes (uint64[n]), which are shifted so that different groups share none."""

    ids: npt.NDArray[np.int64]
    groups: npt.NDArray[np.int64]
    values: list[Any]


class Page(NamedTuple):
    """Fingerprints with their group names, values and visible documents, and with codes in an index with parts."""

    ids: list[int]
    groups: list[Key | None]
    values: list[bytes]
    members: Members
    codes: Codes | None


class Joins:
    """Self-joins and cross-joins inside the store's transactions."""

    def __init__(self, search: Search) -> None:
        self.store, self.documents, self.search, self.dismissed = search.store, search.documents, search, search.dismissed

    @contextmanager
    def reading(self) -> Iterator[Joins]:
        with self.store.reading():
            yield self

    # ---- set schemes, in memory: faster than the candidate table if many hashes are common -------------------------------------

    def _block(self, first_id: int, group: Group) -> Block:
        sql = f"""SELECT id, group_id, value, value_hash FROM {{index}}_fingerprint NOT INDEXED
                  WHERE id >= :first_id AND {OF_GROUP} ORDER BY id LIMIT +:most"""
        values = {"first_id": first_id, "group_id": self.documents.group_id(group), "most": limits.SET_BLOCK}
        ids, groups, sets, hashes = [], [], [], 0
        for number, group_id, value, value_hash in self.store.stream(sql, values):
            if not self.documents.is_sound(value, value_hash):
                self.documents.value(number)  # raises CorruptIndexError
            self.documents.require_numbers((number, group_id))
            ids.append(number)
            groups.append(group_id)
            sets.append(_shifted(np.frombuffer(value, "<u8"), group_id))
            hashes += len(sets[-1])
            if hashes >= limits.SET_HASHES:
                break
        return Block(np.array(ids, np.int64), np.array(groups, np.int64), sets)

    def _pairs(self, matches: list[Found], members: Members, copies: Sequence[Found] = ()) -> FingerprintPairs:
        dismissed = self.dismissed.pairs_among(members.ids)
        codes = self.codes(members, (number for row in matches for number in row[:2])) if self.store.has_parts else None
        return FingerprintPairs(matches, members, copies, None, dismissed, None if codes is None else (codes, codes))

    def codes(self, members: Members, matches: Iterable[int], *, always: bool = False) -> Codes:
        """The data to find the most similar codes of these documents.

        matches: matched fingerprint ids. always: include values even if no document has several codes.
        """
        numbers = self.documents.parts.fingerprints_by_document(members.ids)
        if not numbers and not always:
            return Codes({}, {})
        expected = {(document_id, number) for document_id, several in numbers.items() for number in several}
        for number, documents in members.items():
            for member in documents:
                if member.id in numbers and (member.id, number) not in expected:
                    why = "its fingerprint is none of its codes"
                    raise damaged(f"document {member.id} ({member.key!r})", self.store.name, why)
        wanted = {*matches, *chain.from_iterable(numbers.values())}
        return Codes(numbers, self.documents.values(wanted))

    def range(self, first_id: int, last_id: int, threshold: float | None, now: int, group_id: int) -> FingerprintPairs:
        """The pairs of a fingerprint range, of one group or all. Raises apsw.TooBigError for too many of several fingerprints."""
        bound, _ = self.store.scheme.query_bounds(threshold, None)
        sql = """SELECT fingerprint_id, other_id, similarity, distance FROM neardup_join('{index}', ?, ?, 1, ?)
                 WHERE similarity >= ?"""
        most = None if first_id == last_id else limits.MEMBERS_MOST
        members = self._members([(first_id, last_id)], now, most, group_id)
        copies = members.copies(0 if self.store.scheme.takes_codes else None)
        matches = self.search.rows(sql, (first_id, last_id, now, bound))
        members |= self._members(_runs(row[1] for row in matches if row[1] > last_id), now, group_id=group_id)
        return self._pairs(matches, members, copies)

    def _members(
        self, ranges: Iterable[tuple[int, int]], now: int, most: int | None = None, group_id: int = ACROSS_GROUPS
    ) -> Members:
        """The visible documents of fingerprint ranges, in insertion order. Raises apsw.TooBigError for more than `most`."""
        sql = self.store.frame("members")
        rows = self.store.execute_many(sql, ((*ids, now, group_id, -1 if most is None else most + 1) for ids in ranges))
        if most is not None and len(rows) > most:
            raise apsw.TooBigError(f"more than {most} documents")
        return Members.of_rows(rows)

    def members_of(self, fingerprint_id: int, now: int) -> list[Member]:
        """The visible documents of a fingerprint, in insertion order."""
        return self._members([(fingerprint_id, fingerprint_id)], now).get(fingerprint_id, [])

    def _page(self, after: int, size: int, now: int, group: Group) -> Page:
        """The next fingerprints with visible documents, in id order."""
        sql = self.store.frame("fingerprint_page")
        rows, size_bytes = [], 0
        values = {"after": after, "group_id": self.documents.group_id(group), "now": now, "most": size}
        with closing(self.store.stream(sql, values)) as read:
            for row in read:
                rows.append(row)
                size_bytes += len(self.documents.sound(row[0], row[3:]))
                if size_bytes >= limits.ASKED_BYTES:
                    break
        self.store.ordered(rows, after)
        id_range = [(rows[0][0], rows[-1][0])] if rows else []
        members = self._members(id_range, now, None if len(rows) == 1 else limits.MEMBERS_MOST)
        groups = [name if group_id else None for _, name, group_id, _, _ in rows]
        codes = self.codes(members, members, always=True) if self.store.has_parts else None
        return Page([row[0] for row in rows], groups, [row[3] for row in rows], members, codes)

    def _cross_pairs(self, page: Page, threshold: float | None, now: int) -> FingerprintPairs:
        bound, _ = self.store.scheme.query_bounds(threshold, None)
        groups = {name: self.documents.group_id(name) for name in set(page.groups)}
        packed = packed_values(page.ids, [groups[name] for name in page.groups], page.values)
        sql = """SELECT other_id, fingerprint_id, similarity, distance FROM neardup_join('{index}', ?, ?, 2, ?, ?)
                 WHERE similarity >= ?"""
        matches = self.search.rows(sql, (page.ids[0], page.ids[-1], now, packed, bound))
        members = self._members(_runs(row[0] for row in matches), now)
        if page.codes is None and not self.store.has_parts:
            return FingerprintPairs(matches, members, others=page.members)
        codes = self.codes(members, members, always=True), page.codes or Codes({}, dict(zip(page.ids, page.values, strict=True)))
        return FingerprintPairs(matches, members, others=page.members, codes=codes)

    def connections(self, now: int, *, large_clusters_joined: bool = False) -> Iterator[tuple[int, int]]:
        """Pairs of fingerprints that connect every cluster of visible documents. Runs inside `reading`.

        large_clusters_joined: verify the pairs inside large clusters, too; `check` needs this.
        """
        sql = "SELECT fingerprint_id, other_id FROM neardup_join('{index}', ?, ?, ?, ?)"
        for first, last in self.documents.filing_ranges(4 * limits.FILING_BYTES):
            yield from self.search.rows(sql, (first, last, 3 if large_clusters_joined else 0, now))


def _shifted(hashes: npt.NDArray[np.uint64], group_id: int) -> npt.NDArray[np.uint64]:
    """The sorted hashes of a group, shifted by its constant: sets of one group keep their overlap, others meet only by chance."""
    if not group_id:
        return hashes
    shifted = hashes + np.uint64(group_id * 0x9E3779B97F4A7C15 % 2**64)
    return np.roll(shifted, -int(shifted.argmin())) if len(shifted) else shifted


def _runs(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """(first, last) of each run of consecutive numbers."""
    ordered = np.sort(np.fromiter(numbers, np.int64))
    firsts, lasts = (ordered[np.diff(ordered, **end) > 1] for end in ({"prepend": -2}, {"append": MAX_ID + 2}))
    return list(zip(firsts.tolist(), lasts.tolist(), strict=True))


# ---- lazily: each range in one state of the file, on any free connection ----------------------------------------------

Reading = Callable[[], AbstractContextManager[Joins]]  # opens a read transaction with its joins


def ranges(
    reading: Reading, threshold: float | None, clock: Callable[[], int], group: Group = ANY_GROUP
) -> Iterator[FingerprintPairs]:
    """The pairs of one fingerprint range after another, of one group or of all. The first range is small, so that the first pair
    comes early; later ones are as large as the pairs of the last one allow, because every range reads the table."""
    first, size = 1, limits.RANGE_FIRST
    while True:
        with reading() as joins:
            group_id = joins.documents.group_id(group)
            following = joins.documents.next_fingerprint_id(first, group_id)
            if following is None:
                return
            first, last = following, max(following, joins.documents.last_fingerprint_id())
            is_rest = last - first < min(4 * (size - 1), limits.RANGE_MOST)
            end = last if is_rest else min(last, first + size - 1)
            try:
                pairs = joins.range(first, end, threshold, clock(), group_id)
            except apsw.TooBigError:
                size = max(1, (end - first + 1) // 16)  # a failed attempt delays the first pair
                continue
        yield pairs
        first = end + 1
        allowed = min(2 * limits.PAIRS_WANTED // (len(pairs.matches) + 1), limits.MEMBERS_MOST // (len(pairs.members.ids) + 1))
        size = min(size * min(16, allowed), limits.RANGE_MOST) if allowed > 0 else max(1, size // 2)


def set_blocks(
    reading: Reading, threshold: float | None, clock: Callable[[], int], group: Group = ANY_GROUP
) -> Iterator[FingerprintPairs]:
    """`ranges` for set schemes: each block of fingerprints is joined in memory with itself and every later block."""
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


def _copies(reading: Reading, block: Block, clock: Callable[[], int], group: Group) -> Iterator[FingerprintPairs]:
    """Documents with equal sets, for a few thousand fingerprints of a block at a time."""
    ids = block.ids.tolist()
    for start in range(0, len(ids), limits.COPIES_AT_ONCE):
        part = ids[start : start + limits.COPIES_AT_ONCE]
        with reading() as joins:
            members = joins._members([(part[0], part[-1])], clock(), group_id=joins.documents.group_id(group))
            pairs = joins._pairs([], members, members.copies(None))
        yield pairs


def _pieces(
    reading: Reading, block: Block, other: Block | None, threshold: float | None, clock: Callable[[], int]
) -> Iterator[FingerprintPairs]:
    """Pairs of different sets within a block or between two. Sets are read once; their documents are read for each piece."""
    with reading() as joins:
        bound, _ = joins.store.scheme.query_bounds(threshold, None)
    second = block if other is None else other
    others = None if other is None else other.values
    for places, similarities in jaccard_pieces(block.values, bound, limits.PAIRS_WANTED, others=others):
        same_group = block.groups[places[:, 0]] == second.groups[places[:, 1]]
        a, b = block.ids[places[same_group, 0]], second.ids[places[same_group, 1]]
        matches: list[Found] = list(zip(a.tolist(), b.tolist(), similarities[same_group].tolist(), repeat(None)))
        if not matches:
            continue
        with reading() as joins:
            members = joins._members(_runs(number for row in matches for number in row[:2]), clock())
            pairs = joins._pairs(matches, members)
        yield pairs


def ranges_with(
    reading: Reading, other: Reading, threshold: float | None, clock: Callable[[], int], group: Group = ANY_GROUP
) -> Iterator[FingerprintPairs]:
    """Pairs of a document of this index and one of another, a page of the other's fingerprints at a time."""
    after, size = 0, limits.RANGE_FIRST
    while True:
        now = clock()
        with other() as other_joins:
            try:
                page = other_joins._page(after, size, now, group)
            except apsw.TooBigError:
                size = max(1, size // 2)
                continue
        if not page.ids:
            return
        size = min(size, len(page.ids))
        with reading() as joins:
            try:
                pairs = joins._cross_pairs(page, threshold, now)
            except apsw.TooBigError:
                size = max(1, size // 2)
                continue
        yield pairs
        after = page.ids[-1]
        size = min(2 * size, limits.RANGE_MOST) if 2 * len(pairs.matches) <= limits.PAIRS_WANTED else max(1, size // 2)


def containers(
    reading: Reading, threshold: float | None, clock: Callable[[], int], group: Group = ANY_GROUP
) -> Iterator[Iterator[DocumentPair]]:
    """The containment pairs of one fingerprint after another, of one group or of all. Each step reads one state of the file."""
    first, spec = 1, QuerySpec(threshold=threshold, measure="containment")
    while True:
        with reading() as joins:
            fingerprint_id = joins.documents.next_fingerprint_id(first, joins.documents.group_id(group))
            if fingerprint_id is None:
                return
            now, rows = clock(), list[MatchRow]()
            members = joins.members_of(fingerprint_id, now)
            if members:  # else all have expired
                sketch, group_id = joins.search.stored_sketch(fingerprint_id), joins.documents.group_of(fingerprint_id)
                rows = joins.search.matches(sketch, group_id, now, spec)
            dismissed = joins.dismissed.pairs_among([*(member.id for member in members), *(row.id for row in rows)])
        yield _contained(members, rows, dismissed)
        first = fingerprint_id + 1


def _contained(members: list[Member], rows: list[MatchRow], dismissed: frozenset[tuple[int, int]]) -> Iterator[DocumentPair]:
    for a in members:
        for row in rows:
            if row.id != a.id and (min(a.id, row.id), max(a.id, row.id)) not in dismissed:
                yield DocumentPair(a, Member(row.id, row.key, 0), row.similarity, row.distance)
