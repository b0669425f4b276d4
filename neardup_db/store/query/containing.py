"""Containment pairs, one fingerprint at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ...values import ANY_GROUP
from .joins import DocumentPair, Group, Member, Reading
from .search import MatchRow, QuerySpec


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
        yield _pairs(members, rows, dismissed)
        first = fingerprint_id + 1


def _pairs(members: list[Member], rows: list[MatchRow], dismissed: frozenset[tuple[int, int]]) -> Iterator[DocumentPair]:
    for a in members:
        for row in rows:
            if row.id != a.id and (min(a.id, row.id), max(a.id, row.id)) not in dismissed:
                yield DocumentPair(a, Member(row.id, row.key, 0), row.similarity, row.distance)
