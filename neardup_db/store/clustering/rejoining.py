"""Finds the parts of a split cluster that match each other, by queries or one join in memory.

Queries compare each document with all others in its buckets: for many parts, the square of the cluster's size. The join
ignores buckets; a pair that it finds counts only if both share a candidate row, as in a query.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from ... import limits
from ...arrays import np, npt
from ...compute.comparisons import jaccard_pieces
from ..query.search import Search
from .edges import Edge, Edges, UnionFind, edge_of

LARGE_PARTS = 16  # the most parts that are joined with all others separately, to avoid listing their many inner pairs


def reconnect(edges: Edges, parts: list[set[int]], now: int) -> tuple[list[list[int]], list[Edge]]:
    """Find the loose parts of a cluster that match each other or the rest. Only documents visible at `now` count.

    Starts with queries, because one match per part is usually enough. Returns (groups of separate parts, edges found).
    """
    rest, queried, next_check = len(parts), 0, limits.JOINED_FROM
    owner = {document_id: number for number, part in enumerate(parts) for document_id in part}
    joined = UnionFind()
    connecting_edges: list[Edge] = []
    for number, part in sorted(enumerate(parts), key=lambda item: len(item[1])):
        for document_id in sorted(part, reverse=True):
            if joined.find(number) == joined.find(rest):
                break
            queried += 1
            if queried == next_check:
                next_check *= 2
                rejoining = Rejoining(edges.search, owner, rest, joined, now)
                if rejoining.is_cheaper(document_id, len(owner) - queried) and rejoining.load_documents():
                    rejoining.run()
                    return _separate_groups(parts, joined), connecting_edges + rejoining.edges
            for match in edges.search.stored_matches(document_id, now):
                if joined.union(number, owner.get(match.id, rest)):
                    connecting_edges.append(edge_of(document_id, match.id, match.similarity, match.distance))
    return _separate_groups(parts, joined), connecting_edges


def _separate_groups(parts: list[set[int]], joined: UnionFind) -> list[list[int]]:
    groups: dict[int, list[int]] = defaultdict(list)
    for number, part in enumerate(parts):
        groups[joined.find(number)] += part
    groups.pop(joined.find(len(parts)), None)
    return list(groups.values())


class Rejoining:
    """Joins a cluster's visible documents in memory.

    owner: the part of each loose document; all others belong to part `rest`. joined: the parts that are known to match.
    """

    def __init__(self, search: Search, owner: Mapping[int, int], rest: int, joined: UnionFind, now: int) -> None:
        self.store, self.documents, self.search = search.store, search.documents, search
        self.owner, self.rest, self.joined, self.now = owner, rest, joined, now
        self.edges: list[Edge] = []
        self._numbers: list[int] = []
        self._fingerprints: list[int] = []
        self._elements: list[npt.NDArray[np.uint64]] = []
        self._group_id = 0

    def is_cheaper(self, document_id: int, left: int) -> bool:
        """True if querying the `left` remaining documents reads more rows than the cluster has documents. document_id: a
        typical document. False if a join does not compare as a query does."""
        if self.store.has_parts or not self.store.scheme.has_elements:
            return False
        rows = self.store.rows("SELECT fingerprint_id, group_id, cluster_id FROM {index}_document WHERE id = ?", (document_id,))
        fingerprint_id, group_id, label = self.documents.require_numbers(rows[0])
        parameters = self.search.parameters(self.search.stored_sketch(fingerprint_id), group_id, 0)
        candidate_rows, _ = self.store.table.candidates({**parameters, "share": None})
        query_rows = (left + 1) * candidate_rows
        sql = "SELECT count(*) FROM (SELECT 1 FROM {index}_document WHERE cluster_id = ? LIMIT ?)"
        size: int = self.store.value(sql, (label, query_rows))
        return size < query_rows

    def load_documents(self) -> bool:
        """Load one document of each fingerprint. Returns False if they are too many."""
        sql = """SELECT id, fingerprint_id, group_id FROM {index}_document WHERE {visible} AND cluster_id = (
                     SELECT x.cluster_id FROM {index}_document AS x WHERE x.id = :some) ORDER BY id LIMIT :most"""
        values = {"some": next(iter(self.owner)), "now": self.now, "most": limits.SET_BLOCK + 1}
        rows = self.store.rows(sql, values)
        if len(rows) > limits.SET_BLOCK:
            return False
        first_copies: dict[int, int] = {}  # copies have no dismissed pair
        elements = 0
        for row in rows:
            number, fingerprint_id, self._group_id = self.documents.require_numbers(row)
            if first_copies.setdefault(fingerprint_id, number) != number:
                self._connect(number, first_copies[fingerprint_id], 1.0, None)
                continue
            self._elements.append(self.store.scheme.elements(self.documents.value(fingerprint_id)))
            elements += len(self._elements[-1])
            if elements > limits.SET_HASHES:
                return False
        self._numbers, self._fingerprints = list(first_copies.values()), list(first_copies)
        return True

    def run(self) -> None:
        parts: dict[int, list[int]] = defaultdict(list)
        for place, number in enumerate(self._numbers):
            parts[self._part(number)].append(place)
        min_size = max(limits.JOINED_FROM, len(self._numbers) // LARGE_PARTS)
        large = [part for part in parts if len(parts[part]) > min_size and part != self.rest]
        for part in large:
            self._compare(parts[part], [place for other in parts if other != part for place in parts[other]])
        small_parts = [place for part in parts if part not in large and part != self.rest for place in parts[part]]
        self._compare(small_parts, None)
        self._compare(small_parts, [place for part in (*large, self.rest) for place in parts[part]])

    def _part(self, document_id: int) -> int:
        return self.owner.get(document_id, self.rest)

    def _connect(self, a: int, b: int, similarity: float, distance: int | None) -> None:
        if self.joined.union(self._part(a), self._part(b)):
            self.edges.append(edge_of(a, b, similarity, distance))

    def _compare(self, places: Sequence[int], others: Sequence[int] | None) -> None:
        """Compare fingerprints with each other, or with others, until all their parts are joined with the rest."""
        if not places or others == []:
            return
        second = places if others is None else others
        values = [self._elements[place] for place in places]
        other_values = None if others is None else [self._elements[place] for place in others]
        bound = self.store.scheme.elements_bound
        for ids, _ in jaccard_pieces(values, bound, limits.PAIRS_WANTED, others=other_values):
            firsts, seconds = self._roots(places), self._roots(second)
            if (firsts == self.joined.find(self.rest)).all():
                return
            for a, b in ids[firsts[ids[:, 0]] != seconds[ids[:, 1]]].tolist():
                self._join_if_match(places[a], second[b])

    def _roots(self, places: Sequence[int]) -> npt.NDArray[np.int64]:
        return np.array([self.joined.find(self._part(self._numbers[place])) for place in places], np.int64)

    def _join_if_match(self, a: int, b: int) -> None:
        numbers = self._numbers[a], self._numbers[b]
        if self.joined.find(self._part(numbers[0])) == self.joined.find(self._part(numbers[1])):
            return
        if self.store.dismisses and self.search.dismissed.is_dismissed(*numbers):
            return
        first, second = (self.search.stored_sketch(self._fingerprints[place]) for place in (a, b))
        similarity, distance = self.search.compared(first, second)
        if similarity < self.store.scheme.query_bounds(None, None)[0]:
            return
        parameters = {**self.search.parameters(first, self._group_id, 0), "share": None, "other_id": self._fingerprints[b]}
        if self.store.table.shared_rows(parameters):
            self._connect(*numbers, similarity, distance)
