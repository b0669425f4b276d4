"""Recorded matches and clusters.

A cluster is a connected component of the graph of pairs that queries return. The match table holds enough edges to connect each
cluster, never a wrong one; `cluster_id` labels the components of two documents and more. Both are of all documents, expired ones
too, so that neither depends on the time; `listing` looks for the visible parts. Adding joins, removing may split: then
the parts that the remaining edges leave ask again by their stored fingerprints, all but the largest, since any edge between two
parts has an end in one that asks.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from .. import limits
from ..values import Cluster, Key
from . import tables
from .documents import EVER, Documents
from .joins import Joins
from .schema import sql_text
from .search import Neighbour, Search
from .state import Store

ALONE = tables.MAX_ID
"""ALONE + its id is the label of a document that is in no cluster, where one is wanted; in the file it has none. No other label
is so large."""

Edge = tuple[int, int, float, "int | None"]  # later document, earlier document, similarity, distance


class UnionFind:
    """Disjoint sets of anything hashable; unknown members are sets of their own."""

    def __init__(self) -> None:
        self.parent: dict[Any, Any] = {}

    def find(self, member: Any) -> Any:
        """The set's present name."""
        parent = self.parent
        root = member
        while (above := parent.get(root, root)) != root:
            root = above
        while (above := parent.get(member, member)) != root:
            parent[member] = root
            member = above
        return root

    def union(self, a: Any, b: Any) -> bool:
        """Join two sets; False if they were one already."""
        a, b = self.find(a), self.find(b)
        if a == b:
            return False
        self.parent[a] = b
        self.parent.setdefault(b, b)
        return True

    def sets(self) -> list[list[Any]]:
        """All sets of members that were ever joined."""
        found: dict[Any, list[Any]] = defaultdict(list)
        for member in self.parent:
            found[self.find(member)].append(member)
        return list(found.values())


def choose_edges(document_id: int, neighbours: Sequence[Neighbour], label: Callable[[int], Any]) -> list[Edge]:
    """One edge to the best neighbour in every cluster touched, and the best few more. Neighbours come best first."""
    seen: set[Any] = set()
    edges: list[Edge] = []
    spare: list[Edge] = []
    for one in neighbours:
        cluster = label(one.cluster_id)
        edge = (max(document_id, one.id), min(document_id, one.id), one.similarity, one.distance)
        if cluster not in seen:
            seen.add(cluster)
            edges.append(edge)
        elif len(spare) < limits.EXTRA_EDGES:
            spare.append(edge)
    return edges + spare


class Clusters:
    """Keeps the match table and the labels; runs inside the store's transactions."""

    def __init__(self, store: Store, documents: Documents, search: Search, joins: Joins) -> None:
        self.store = store
        self.db = store.db
        self.documents = documents
        self.search = search
        self.joins = joins

    # ---- adding ------------------------------------------------------------------------------------------------------

    def record(self, edges: Iterable[Edge], now: int) -> None:
        """Write edges."""
        sql = """INSERT OR IGNORE INTO {index}_match (document_id, other_id, similarity, distance, found_at)
                 VALUES (?, ?, ?, ?, ?)"""
        rows = [(*edge, now) for edge in edges]
        if rows:
            self.db.execute_many(self.store.sql(sql), rows)

    def connect(self, document_id: int, neighbours: Sequence[Neighbour], now: int) -> None:
        """Record the edges of an added document and join the clusters that it touches."""
        if not neighbours:
            return
        self.record(choose_edges(document_id, neighbours, lambda label: label), now)
        self.join({one.cluster_id for one in neighbours} | {ALONE + document_id}, large=len(neighbours) >= limits.CROWD)

    def join(self, labels: set[int], *, large: bool = False) -> None:
        """Make one cluster of several, one of them at least an added document: the smaller ones take the largest one's label, and
        where none has one the newest document's id becomes it, which never was one. large: its rows in the candidate table are to
        stand apart from now on."""
        self.documents.require_numbers(labels)
        named = {label for label in labels if label < ALONE}
        crowds = self._crowds(named)
        if len(named) > 1:
            largest = max(named, key=lambda label: (label in crowds, self._size(label), -label))
        else:
            largest = next(iter(named), max(labels) - ALONE)
        if crowds or (large and self.store.scheme.table in tables.CROWDED):
            self._crowd(largest, labels - {largest} if largest in crowds else labels)
        sql = self.store.sql("UPDATE {index}_document SET cluster_id = ? WHERE cluster_id = ?")
        self.db.execute_many(sql, [(largest, label) for label in named if label != largest])
        self._label([label - ALONE for label in labels if label >= ALONE], largest)

    def _label(self, document_ids: Iterable[int], label: int | None) -> None:
        sql = self.store.sql("UPDATE {index}_document SET cluster_id = ? WHERE id = ?")
        self.db.execute_many(sql, [(label, document_id) for document_id in document_ids])

    def _size(self, label: int) -> int:
        """Documents of a cluster, `limits.SIZE_KNOWN` at most: to count a large one would take longer than to join it."""
        sql = "SELECT count(*) FROM (SELECT 1 FROM {index}_document WHERE cluster_id = ? LIMIT +?)"
        size: int = self.db.value(self.store.sql(sql), (label, limits.SIZE_KNOWN))
        return size

    # ---- crowds: clusters so large that their rows stand apart in the candidate table ------------------------------------

    def _crowds(self, labels: set[int]) -> set[int]:
        """Those of the labels whose fingerprints stand apart. All fingerprints of a cluster do, or none."""
        if not self.store.crowds:
            return set()
        sql = """SELECT f.crowd FROM {index}_document AS d JOIN {index}_fingerprint AS f ON f.id = d.fingerprint_id
                 WHERE d.cluster_id = ? LIMIT 1"""
        return {label for label in labels if self.db.value(self.store.sql(sql), (label,)) == label}

    def _crowd(self, crowd: int, labels: Iterable[int]) -> None:
        """Let the rows of all fingerprints of some clusters, or documents, stand together."""
        if not self.store.crowds:
            self.store.set(crowds=1)
            self.store.new_generation()
        of_cluster = self.store.sql("SELECT DISTINCT fingerprint_id FROM {index}_document WHERE cluster_id = ?")
        of_one = self.store.sql("SELECT fingerprint_id FROM {index}_document WHERE id = ?")
        for label in labels:
            rows = self.db.rows(of_cluster, (label,)) if label < ALONE else self.db.rows(of_one, (label - ALONE,))
            self.documents.set_crowd([row[0] for row in rows], crowd)

    # ---- removing ----------------------------------------------------------------------------------------------------

    def remove(self, document_ids: Sequence[int], now: int) -> int:
        """Delete documents with all that is theirs, then mend the clusters they held together. Returns how many there were."""
        seeds: dict[int, set[int]] = defaultdict(set)
        removed = 0
        for document_id in document_ids:
            sql = self.store.sql("SELECT fingerprint_id, cluster_id FROM {index}_document WHERE id = ?")
            row = self.db.row(sql, (document_id,))
            if row is None:
                continue
            fingerprint_id, label = self.documents.require_numbers(row)
            if label is not None:
                seeds[label].update(self.adjacent(document_id))
                self._drop_edges(document_id)
            self.db.execute(self.store.sql("DELETE FROM {index}_document WHERE id = ?"), (document_id,))
            if fingerprint_id is not None:
                self.documents.drop_unused_fingerprint(fingerprint_id)
            removed += 1
        gone = set(document_ids)
        for label, neighbours in seeds.items():
            self._mend(label, neighbours - gone, now)
        return removed

    def adjacent(self, document_id: int) -> list[int]:
        """Documents that share a recorded edge with this one."""
        sql = """SELECT other_id FROM {index}_match WHERE document_id = ?1
                 UNION ALL SELECT document_id FROM {index}_match WHERE other_id = ?1"""
        return self.documents.require_numbers([row[0] for row in self.db.rows(self.store.sql(sql), (document_id,))])

    def _drop_edges(self, document_id: int) -> None:
        self.db.execute(self.store.sql("DELETE FROM {index}_match WHERE document_id = ?"), (document_id,))
        self.db.execute(self.store.sql("DELETE FROM {index}_match WHERE other_id = ?"), (document_id,))

    def _mend(self, label: int, seeds: set[int], now: int) -> None:
        """Split a cluster if removing documents left it unconnected. `seeds` were neighbours of the removed ones."""
        parts = self._loose_parts(seeds)
        groups, edges = self._reconnect(parts, EVER)
        self.record(edges, now)
        for group in groups:
            self._part(group)
        left = self.db.rows(self.store.sql("SELECT id FROM {index}_document WHERE cluster_id = ? LIMIT 2"), (label,))
        if len(left) == 1:
            self._part([left[0][0]])

    def _part(self, group: Sequence[int]) -> None:
        """Let documents be a cluster of their own; one alone is none."""
        label = None
        if len(group) > 1:
            label = self.store.setting("next_cluster")
            self.store.set(next_cluster=label - 1)
        self._label(group, label)
        if self.store.crowds:
            self._leave_crowd(group, label or 0)

    def _leave_crowd(self, documents: Sequence[int], label: int) -> None:
        """Take the fingerprints of documents out of their crowd, or make them one of their own: no other document has them."""
        sql = self.store.sql(
            """SELECT f.id FROM {index}_document AS d JOIN {index}_fingerprint AS f ON f.id = d.fingerprint_id
               WHERE d.id = ? AND f.crowd <> 0"""
        )
        apart = {row[0] for row in self.db.rows_of_many(sql, [(document_id,) for document_id in documents])}
        self.documents.set_crowd(apart, label if len(apart) >= limits.CROWD else 0)

    def _loose_parts(self, seeds: set[int]) -> list[set[int]]:
        """The parts that the recorded edges leave of a component, all but one, which is never walked to its end.

        The parts are walked in turns, one document each, so that the cost is that of the smaller ones."""
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
                    elif other != part:  # two walks have met: the smaller becomes part of the larger
                        small, part = sorted((part, other), key=lambda one: len(members[one]))
                        for member in members[small]:
                            owner[member] = part
                        members[part] |= members.pop(small)
                        frontier[part].extend(frontier.pop(small))
        return finished

    def _reconnect(self, parts: list[set[int]], now: int) -> tuple[list[list[int]], list[Edge]]:
        """Ask for the parts whether they belong to each other or to the rest of their cluster, by documents visible at `now`.

        Returns the groups that stay apart from the rest, and the edges found."""
        rest = len(parts)
        owner = {document_id: number for number, part in enumerate(parts) for document_id in part}
        joined = UnionFind()
        edges: list[Edge] = []
        for number, part in sorted(enumerate(parts), key=lambda item: len(item[1])):
            for document_id in sorted(part, reverse=True):
                if joined.find(number) == joined.find(rest):
                    break
                for edge in self._edges_of(document_id, now):
                    other = edge[0] if edge[1] == document_id else edge[1]
                    if joined.union(number, owner.get(other, rest)):
                        edges.append(edge)
        groups: dict[int, list[int]] = defaultdict(list)
        for number, part in enumerate(parts):
            groups[joined.find(number)] += part
        groups.pop(joined.find(rest), None)
        return list(groups.values()), edges

    def _edges_of(self, document_id: int, now: int) -> Iterator[Edge]:
        """All pairs of a document with visible ones, by its stored fingerprint."""
        sql = "SELECT fingerprint_id, group_id FROM {index}_document WHERE id = ? AND fingerprint_id IS NOT NULL"
        row = self.db.row(self.store.sql(sql), (document_id,))
        if row is None:
            return
        sketch = self.search.stored_sketch(document_id, row[0])
        for match in self.search.matches(sketch, row[1], now, except_id=document_id):
            yield (max(document_id, match.id), min(document_id, match.id), match.similarity, match.distance)

    # ---- listing -----------------------------------------------------------------------------------------------------

    def listing(self, min_size: int, now: int) -> list[Cluster]:
        """Clusters of visible documents, largest first, ties by the earliest document."""
        groups = self._labelled(min_size, now) if self.store.record_matches else self._joined(min_size, now)
        listed = [group for group in groups if len(group) >= min_size]
        listed.sort(key=lambda group: (-len(group), group[0][0]))
        return [Cluster(group[0][1], tuple(key for _, key in group)) for group in listed]

    def _labelled(self, min_size: int, now: int) -> Iterator[list[tuple[int, Key]]]:
        """(id, key) of each label's visible documents; a label that an invisible document may hold together is looked at."""
        sql = """SELECT cluster_id, id, key FROM {index}_document
                 WHERE (expires_at IS NULL OR expires_at > ?) AND cluster_id IN (
                     SELECT cluster_id FROM {index}_document WHERE cluster_id IS NOT NULL
                     GROUP BY cluster_id HAVING count(*) >= ?)
                 ORDER BY cluster_id, id"""
        unsure_sql = "SELECT DISTINCT cluster_id FROM {index}_document WHERE expires_at <= ? AND cluster_id IS NOT NULL"
        unsure = {row[0] for row in self.db.rows(self.store.sql(unsure_sql), (now,))}
        for label, rows in groupby(self.db.rows(self.store.sql(sql), (now, min_size)), key=lambda row: row[0]):
            group = [(document_id, key) for _, document_id, key in rows]
            if label in unsure and len(group) > 1:
                yield from self._visible_parts(group, now)
            else:
                yield group
        if min_size == 1:
            alone = "SELECT id, key FROM {index}_document WHERE cluster_id IS NULL AND (expires_at IS NULL OR expires_at > ?)"
            yield from ([row] for row in self.db.rows(self.store.sql(alone), (now,)))

    def _visible_parts(self, group: list[tuple[int, Key]], now: int) -> Iterator[list[tuple[int, Key]]]:
        keys = dict(group)
        edges = UnionFind()
        for document_id in keys:
            edges.parent.setdefault(document_id, document_id)
            for other in self.adjacent(document_id):
                if other in keys:
                    edges.union(document_id, other)
        parts = sorted((set(part) for part in edges.sets()), key=len)
        apart, _ = self._reconnect(parts[:-1], now)
        loose = {document_id for part in apart for document_id in part}
        for part in [*apart, [document_id for document_id in keys if document_id not in loose]]:
            yield sorted((document_id, keys[document_id]) for document_id in part)

    def _joined(self, min_size: int, now: int) -> Iterator[list[tuple[int, Key]]]:
        """Components where no matches are recorded: the candidate table tells. Of documents that are alone nothing is held."""
        joined = UnionFind()
        for fingerprint_id, other_id in self.joins.connections(now):
            joined.union(fingerprint_id, other_id)
        copies = """SELECT fingerprint_id FROM {index}_document WHERE fingerprint_id IS NOT NULL
                    GROUP BY fingerprint_id HAVING count(*) > 1"""
        several = {*joined.parent, *(row[0] for row in self.db.stream(self.store.sql(copies)))}
        groups: dict[int, list[tuple[int, Key]]] = defaultdict(list)
        for fingerprint_id, number, key in self.documents.of_fingerprints(several, now):
            groups[joined.find(fingerprint_id)].append((number, key))
        yield from (sorted(group, key=itemgetter(0)) for group in groups.values())
        if min_size == 1:
            every = "SELECT fingerprint_id, id, key FROM {index}_document WHERE expires_at IS NULL OR expires_at > ?"
            rows = self.db.stream(self.store.sql(every), (now,))
            yield from ([(number, key)] for fingerprint_id, number, key in rows if fingerprint_id not in several)


class Links:
    """The edges and joined labels of many documents, written at once."""

    def __init__(self, clusters: Clusters, now: int) -> None:
        self.clusters = clusters
        self.now = now
        self.labels = UnionFind()
        self.edges: list[Edge] = []
        self.large: set[int] = set()
        self.copies: set[int] = set()

    def fingerprints(self, ids: tuple[int, int]) -> Iterator[tuple[int, int | None]]:
        """Link the documents of fingerprints ids[0] to ids[1] by what `neardup_join` finds. Yields (the first document of the
        fingerprint, the first visible one of that which it matches, if there is one)."""
        store = self.clusters.store
        parameters = {"first_id": ids[0], "last_id": ids[1], "now": self.now, "ever": EVER}
        rows = self.clusters.search.rows(store.sql(sql_text("join_documents")), parameters)
        for (document_id, label), found in groupby(rows, itemgetter(0, 1)):
            taken = list(found)
            self.found(document_id, label, [Neighbour._make(row[2:7]) for row in taken])
            yield from ((document_id, row[7]) for row in taken)

    def found(self, document_id: int, label: int, neighbours: Sequence[Neighbour]) -> None:
        """Link a document with what it matches, best first."""
        self.edges += choose_edges(document_id, neighbours, self.labels.find)
        for one in neighbours:
            self.labels.union(one.cluster_id, label)
        if len(neighbours) >= limits.CROWD:
            self.large.add(label)

    def copy(self, document_id: int, other_id: int, label: int) -> None:
        """Link a document with an earlier one of the same fingerprint."""
        distance = 0 if self.clusters.store.scheme.takes_codes else None
        self.edges.append((document_id, other_id, 1.0, distance))
        self.labels.union(label, ALONE + document_id)
        self.copies.add(ALONE + document_id)

    def write(self) -> None:
        """All edges and labels into the tables."""
        self.clusters.record(self.edges, self.now)
        for group in self.labels.sets():
            labels = set(group)
            large = len(labels - self.copies) >= limits.CROWD or not self.large.isdisjoint(labels)
            self.clusters.join(labels, large=large)
