"""Recorded edges of the match graph: enough to connect each cluster, and only real matches.

Edges, labels and large clusters include expired documents, so none of them depends on the time.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any

from ... import limits
from ..layout.schema import ALONE, sql_text
from ..query.documents import EVER
from ..query.search import Neighbour, Search

Edge = tuple[int, int, float, "int | None"]  # later document, earlier document, similarity, distance


class UnionFind:
    """Disjoint sets of hashable members. An unknown member is a set by itself."""

    def __init__(self) -> None:
        self.parent: dict[Any, Any] = {}

    def find(self, member: Any) -> Any:
        parent = self.parent
        root = member
        while (above := parent.get(root, root)) != root:
            root = above
        while (above := parent.get(member, member)) != root:
            parent[member] = root
            member = above
        return root

    def union(self, a: Any, b: Any) -> bool:
        """Returns False if they were one set already."""
        a, b = self.find(a), self.find(b)
        if a == b:
            return False
        self.parent[a] = b
        self.parent.setdefault(b, b)
        return True

    def sets(self) -> list[list[Any]]:
        members: dict[Any, list[Any]] = defaultdict(list)
        for member in self.parent:
            members[self.find(member)].append(member)
        return list(members.values())


def choose_edges(document_id: int, neighbours: Sequence[Neighbour], label: Callable[[int], Any]) -> list[Edge]:
    """The edges to record: one to the best neighbour in each cluster, and a few more. Neighbours are sorted, best first."""
    connected: set[Any] = set()
    edges: list[Edge] = []
    extra: list[Edge] = []
    for neighbour in neighbours:
        cluster = label(neighbour.cluster_id)
        edge = edge_of(document_id, neighbour.id, neighbour.similarity, neighbour.distance)
        if cluster not in connected:
            connected.add(cluster)
            edges.append(edge)
        elif len(extra) < limits.EXTRA_EDGES:
            extra.append(edge)
    return edges + extra


def edge_of(document_id: int, other_id: int, similarity: float, distance: int | None) -> Edge:
    return max(document_id, other_id), min(document_id, other_id), similarity, distance


class EdgeBatch:
    def __init__(self, copies_distance: int | None) -> None:
        self.edges: list[Edge] = []
        self._labels = UnionFind()
        self._copies_distance = copies_distance  # the distance of equal copies; None if the scheme has no distance
        self._copies: set[int] = set()
        self._large: set[int] = set()

    def add(self, document_id: int, label: int, neighbours: Sequence[Neighbour]) -> None:
        self.edges += choose_edges(document_id, neighbours, self._labels.find)
        for neighbour in neighbours:
            self._labels.union(neighbour.cluster_id, label)
        if len(neighbours) >= limits.CROWD:
            self._large.add(label)

    def add_copy(self, document_id: int, other_id: int, label: int) -> None:
        self.edges.append((document_id, other_id, 1.0, self._copies_distance))
        self._labels.union(label, ALONE + document_id)
        self._copies.add(ALONE + document_id)

    def joins(self, label: int) -> bool:
        return label in self._labels.parent

    def joined(self) -> Iterator[tuple[set[int], bool]]:
        """(labels to join, whether they become a large cluster) for each set of joined labels."""
        for members in self._labels.sets():
            labels = set(members)
            yield labels, len(labels - self._copies) >= limits.CROWD or not self._large.isdisjoint(labels)


class Edges:
    def __init__(self, search: Search) -> None:
        self.store, self.documents, self.search = search.store, search.documents, search

    def record(self, edges: Iterable[Edge], now: int) -> None:
        sql = """INSERT OR IGNORE INTO {index}_match (document_id, other_id, similarity, distance, found_at)
                 VALUES (?, ?, ?, ?, ?)"""
        rows = [(*edge, now) for edge in edges]
        if rows:
            self.store.execute_many(sql, rows)

    def drop(self, document_id: int) -> list[int]:
        """Delete the edges of a document. Returns the documents at their other ends."""
        others = self.adjacent(document_id)
        for end in ("document_id", "other_id"):
            self.store.execute(f"DELETE FROM {{index}}_match WHERE {end} = ?", (document_id,))
        return others

    def remove(self, a: int, b: int) -> bool:
        """Returns False if there was no edge."""
        self.store.execute("DELETE FROM {index}_match WHERE document_id = ? AND other_id = ?", (max(a, b), min(a, b)))
        return self.store.db.connection.changes() == 1

    def adjacent(self, document_id: int) -> list[int]:
        sql = """SELECT other_id FROM {index}_match WHERE document_id = ?1
                 UNION ALL SELECT document_id FROM {index}_match WHERE other_id = ?1"""
        return self.documents.require_numbers([row[0] for row in self.store.rows(sql, (document_id,))])

    def of_fingerprints(
        self, first_id: int, last_id: int, now: int
    ) -> Iterator[tuple[int, int, list[Neighbour], list[int | None]]]:
        """(id, label, neighbours, first visible copies) for the first document of each fingerprint that matches earlier ones.

        First visible copies: for each neighbour, the first visible document of its fingerprint, None if all have expired.
        """
        parameters = {"first_id": first_id, "last_id": last_id, "now": now, "ever": EVER}
        rows = self.search.rows(sql_text("join_documents"), parameters)
        for (document_id, label), group in groupby(rows, itemgetter(0, 1)):
            matched = list(group)
            yield document_id, label, [Neighbour._make(row[2:7]) for row in matched], [row[7] for row in matched]

    def connect_copies(self, document_ids: set[int], now: int) -> None:
        """Record edges between copies: else each removal among thousands of them would walk and query them all."""
        if len(document_ids) < 2 or self.store.has_parts:
            return
        sql = "SELECT fingerprint_id, id FROM {index}_document WHERE id = ? AND fingerprint_id IS NOT NULL"
        rows = sorted(map(self.documents.require_numbers, self.store.execute_many(sql, [(number,) for number in document_ids])))
        distance = 0 if self.store.scheme.takes_codes else None
        copies = [(a[1], b[1]) for a, b in pairwise(rows) if a[0] == b[0]]
        self.record([edge_of(a, b, 1.0, distance) for a, b in copies], now)

    def loose_parts(self, seeds: set[int]) -> list[set[int]]:
        """The parts into which the recorded edges split a component, except one part that is not walked to its end.

        Walks from all seeds advance in turn, one document each, so the cost depends on the smaller parts only.
        """
        owner: dict[int, int] = {}
        members: dict[int, set[int]] = {}
        frontier: dict[int, deque[int]] = {}
        for number, seed in enumerate(sorted(seeds)):
            owner[seed], members[number], frontier[number] = number, {seed}, deque([seed])
        finished: list[set[int]] = []
        while len(frontier) > 1:
            for part in list(frontier):
                if part not in frontier or len(frontier) == 1:
                    continue
                if not frontier[part]:
                    del frontier[part]
                    finished.append(members[part])
                    continue
                for document_id in self.adjacent(frontier[part].popleft()):
                    other = owner.get(document_id)
                    if other is None:
                        owner[document_id] = part
                        members[part].add(document_id)
                        frontier[part].append(document_id)
                    elif other != part:  # two walks meet: merge the smaller into the larger
                        small, part = sorted((part, other), key=lambda walk: len(members[walk]))
                        for member in members[small]:
                            owner[member] = part
                        members[part] |= members.pop(small)
                        frontier[part].extend(frontier.pop(small))
        return finished
