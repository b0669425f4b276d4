"""Pairs of a document and one that contains it, a fingerprint at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from .joins import DocumentPair, Joins, Member, Reading
from .question import Question
from .search import MatchRow


@dataclass(frozen=True, slots=True)
class Containers:
    """The documents of a fingerprint, and the documents that contain them, themselves among these."""

    members: list[Member]
    found: list[MatchRow]

    def documents(self) -> Iterator[DocumentPair]:
        """Every pair of them, the contained document first."""
        for a in self.members:
            for row in self.found:
                if row.id != a.id:
                    yield DocumentPair(a, Member(row.id, row.key, 0), row.similarity, row.distance)


def containers(reading: Reading, threshold: float | None, clock: Callable[[], int]) -> Iterator[Containers]:
    """The pairs of one fingerprint after the other, each in one state of the file."""
    first, question = 1, Question(threshold=threshold, measure="containment")
    while True:
        with reading() as joins:
            fingerprint_id = joins.documents.next_fingerprint_id(first)
            if fingerprint_id is None:
                return
            pairs = _containers(joins, fingerprint_id, question, clock())
        yield pairs
        first = fingerprint_id + 1


def _containers(joins: Joins, fingerprint_id: int, question: Question, now: int) -> Containers:
    members = joins.members_of(fingerprint_id, now)
    if not members:  # all of them have expired
        return Containers([], [])
    sketch = joins.search.stored_sketch(members[0].id, fingerprint_id)
    group_id = joins.documents.group_of(fingerprint_id)
    return Containers(members, joins.search.matches(sketch, group_id, now, question))
