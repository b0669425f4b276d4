"""Which parts of a cluster match each other, found for all of its documents by one join in memory.

A query for each document of a part compares it with all documents in its buckets, so that a cluster that falls into many parts
would take the square of its size. The join knows no buckets: a pair that it finds counts only if the two meet in the candidate
table, as a query would have it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from ... import limits
from ...arrays import np, npt
from ...compute.comparisons import jaccard_pieces
from ..asking.documents import Documents
from ..asking.search import Search
from ..layout.state import Store
from .edges import Edge, Edges, UnionFind, edge_of

LARGE_PARTS = 16
"""At most so many parts are each joined with all others, so that their inner pairs, which may be many, are not listed."""


def reconnect(edges: Edges, parts: list[set[int]], now: int) -> tuple[list[list[int]], list[Edge]]:
    """Find which loose parts of a cluster match each other or the rest of it. Only documents that are visible at `now` count.

    First documents are queried, since one match is enough where most parts match the rest. Further ones are joined in memory, if
    queries would read more rows than the cluster has documents. Returns the groups that stay apart, and the edges found."""
    rest, asked, looked_at = len(parts), 0, limits.JOINED_FROM
    owner = {document_id: number for number, part in enumerate(parts) for document_id in part}
    joined = UnionFind()
    found: list[Edge] = []
    for number, part in sorted(enumerate(parts), key=lambda item: len(item[1])):
        for document_id in sorted(part, reverse=True):
            if joined.find(number) == joined.find(rest):
                break
            asked += 1
            if asked == looked_at:
                looked_at *= 2
                rejoining = Rejoining(edges.store, edges.documents, edges.search, owner, rest, joined, now)
                if rejoining.pays(document_id, len(owner) - asked) and rejoining.load_documents():
                    rejoining.run()
                    return _separate_groups(parts, joined), found + rejoining.edges
            for match in edges.search.stored_matches(document_id, now):
                if joined.union(number, owner.get(match.id, rest)):
                    found.append(edge_of(document_id, match.id, match.similarity, match.distance))
    return _separate_groups(parts, joined), found


def _separate_groups(parts: list[set[int]], joined: UnionFind) -> list[list[int]]:
    """The groups of parts that are not joined with the rest."""
    groups: dict[int, list[int]] = defaultdict(list)
    for number, part in enumerate(parts):
        groups[joined.find(number)] += part
    groups.pop(joined.find(len(parts)), None)
    return list(groups.values())


class Rejoining:
    """The documents of a cluster that are visible at `now`, in the parts that its recorded edges leave.

    owner: the part of each loose document; all others are the part `rest`. joined: the parts that are known to match."""

    def __init__(
        self, store: Store, documents: Documents, search: Search, owner: Mapping[int, int], rest: int, joined: UnionFind, now: int
    ) -> None:
        self.store, self.documents, self.search = store, documents, search
        self.owner, self.rest, self.joined, self.now = owner, rest, joined, now
        self.edges: list[Edge] = []
        self._numbers: list[int] = []
        self._fingerprints: list[int] = []
        self._elements: list[npt.NDArray[np.uint64]] = []
        self._group_id = 0

    def pays(self, document_id: int, left: int) -> bool:
        """Whether queries of so many documents like this one read more rows than the cluster has documents. False where the join
        compares otherwise than a query."""
        if self.store.dismisses or self.store.has_parts or not self.store.scheme.has_elements:
            return False
        sql = "SELECT fingerprint_id, group_id, cluster_id FROM {index}_document WHERE id = ?"
        rows = self.store.db.rows(self.store.sql(sql), (document_id,))
        fingerprint_id, group_id, label = self.documents.require_numbers(rows[0])
        parameters = self.search.parameters(self.search.stored_sketch(fingerprint_id), group_id, 0)
        read, _ = self.store.table.candidates({**parameters, "share": None})
        most = (left + 1) * read
        sql = "SELECT count(*) FROM (SELECT 1 FROM {index}_document WHERE cluster_id = ? LIMIT ?)"
        size: int = self.store.db.value(self.store.sql(sql), (label, most))
        return size < most

    def load_documents(self) -> bool:
        """Take one document of each fingerprint. False if they are too many."""
        sql = """SELECT id, fingerprint_id, group_id FROM {index}_document WHERE {visible} AND cluster_id = (
                     SELECT x.cluster_id FROM {index}_document AS x WHERE x.id = :some) ORDER BY id LIMIT :most"""
        values = {"some": next(iter(self.owner)), "now": self.now, "most": limits.SET_BLOCK + 1}
        rows = self.store.db.rows(self.store.sql(sql), values)
        if len(rows) > limits.SET_BLOCK:
            return False
        held: dict[int, int] = {}
        elements = 0
        for row in rows:
            number, fingerprint_id, self._group_id = self.documents.require_numbers(row)
            if held.setdefault(fingerprint_id, number) != number:
                self._connect(number, held[fingerprint_id], 1.0, None)
                continue
            self._elements.append(self.store.scheme.elements(self.documents.value(fingerprint_id)))
            elements += len(self._elements[-1])
            if elements > limits.SET_HASHES:
                return False
        self._numbers, self._fingerprints = list(held.values()), list(held)
        return True

    def run(self) -> None:
        """Join the parts that match."""
        parts: dict[int, list[int]] = defaultdict(list)
        for place, number in enumerate(self._numbers):
            parts[self._part(number)].append(place)
        least = max(limits.JOINED_FROM, len(self._numbers) // LARGE_PARTS)
        large = [part for part in parts if len(parts[part]) > least and part != self.rest]
        for part in large:
            self._compare(parts[part], [place for other in parts if other != part for place in parts[other]])
        few = [place for part in parts if part not in large and part != self.rest for place in parts[part]]
        self._compare(few, None)
        self._compare(few, [place for part in (*large, self.rest) for place in parts[part]])

    def _part(self, document_id: int) -> int:
        return self.owner.get(document_id, self.rest)

    def _connect(self, a: int, b: int, similarity: float, distance: int | None) -> None:
        if self.joined.union(self._part(a), self._part(b)):
            self.edges.append(edge_of(a, b, similarity, distance))

    def _compare(self, places: Sequence[int], others: Sequence[int] | None) -> None:
        """Pairs of some fingerprints with each other, or with others, until the parts of all are joined with the rest."""
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
        """Join the parts of two fingerprints, unless they are joined already, if the two are a match."""
        numbers = self._numbers[a], self._numbers[b]
        if self.joined.find(self._part(numbers[0])) == self.joined.find(self._part(numbers[1])):
            return
        first, second = (self.search.stored_sketch(self._fingerprints[place]) for place in (a, b))
        similarity, distance = self.search.compared(first, second)
        if similarity < self.store.scheme.query_bounds(None, None)[0]:
            return
        parameters = {**self.search.parameters(first, self._group_id, 0), "share": None, "other_id": self._fingerprints[b]}
        if self.store.table.shared_rows(parameters):
            self._connect(*numbers, similarity, distance)
