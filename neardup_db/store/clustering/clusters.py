"""Clusters: the connected components of the match graph, and their labels.

`cluster_id` labels components of at least two documents, expired ones included; `listing` computes the visible components.
Adding a document joins clusters. Removing one may split its cluster: every part that the remaining edges leave, except the
largest, queries again. That suffices, because an edge between two parts ends in one that queries.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby, pairwise
from operator import itemgetter

from ... import limits
from ...values import Cluster, Key
from ..layout.schema import ALONE
from ..layout.state import Store
from ..query.documents import EVER
from ..query.fingerprints import ACROSS_GROUPS, OF_GROUP
from ..query.joins import Joins
from ..query.search import Neighbour
from .changes import ALL, ChangeLog
from .edges import EdgeBatch, Edges, UnionFind, choose_edges
from .rejoining import reconnect

Unconnected = tuple[int, int, bool]  # document id, fingerprint id, whether it is visible


class Clusters:
    def __init__(self, joins: Joins) -> None:
        self.store, self.documents, self.search, self.joins = joins.store, joins.documents, joins.search, joins
        self.dismissed = joins.search.dismissed
        self.changes = ChangeLog(joins.documents)
        self.edges = Edges(joins.search)
        self.large_clusters = LargeClusters(joins.store)

    # ---- adding ------------------------------------------------------------------------------------------------------

    def connect(self, document_id: int, neighbours: Sequence[Neighbour], now: int, *, is_new: bool = True) -> None:
        """Record the edges of a new document, or of another code of a stored one, and join the clusters that they connect."""
        if not neighbours:
            return
        self.edges.record(choose_edges(document_id, neighbours, lambda label: label), now)
        label = ALONE + document_id if is_new else self.documents.labels_of([document_id])[document_id]
        labels = {label, *(neighbour.cluster_id for neighbour in neighbours)}
        self.join_many([(labels, len(neighbours) >= limits.CROWD)], document_id if is_new else ALL)

    def connect_many(
        self,
        documents: Sequence[Unconnected],
        new: tuple[int, int] | None,
        now: int,
        *,
        are_new: bool = True,
        crowds: dict[int, int] | None = None,
    ) -> tuple[set[int], set[int]]:
        """`connect` for documents that are in no cluster yet.

        documents: in id order, including every document of the fingerprints `new` (first id, last id), which have candidate
        rows. are_new: the documents were just added and are the newest. crowds: see `join_many`. Returns (documents that match
        an earlier visible one, documents that need a query to decide this because all matches found are later or expired).
        """
        batch = EdgeBatch(0 if self.store.scheme.takes_codes else None)
        matched: set[int] = set()
        unsure: set[int] = set()
        for document_id, label, neighbours, visible in self.edges.of_fingerprints(*new, now) if new else ():
            batch.add(document_id, label, neighbours)
            earlier = any(other_id is not None and other_id < document_id for other_id in visible)
            (matched if earlier else unsure).add(document_id)
        newest_copy: dict[int, int] = {}  # the newest document so far of each fingerprint
        expired: set[int] = set()  # fingerprints whose documents so far have expired
        first_copies: list[tuple[int, int]] = []  # the first document here of each older fingerprint
        for document_id, fingerprint_id, is_visible in documents:
            copy = newest_copy.get(fingerprint_id)
            if copy is not None:
                batch.add_copy(document_id, copy, ALONE + copy)
                (unsure if fingerprint_id in expired else matched).add(document_id)
            elif new is None or fingerprint_id < new[0]:
                first_copies.append((document_id, fingerprint_id))
            newest_copy[fingerprint_id] = document_id
            if is_visible:
                expired.discard(fingerprint_id)
            elif copy is None:
                expired.add(fingerprint_id)
        for document_id, copy, label, is_visible in self.documents.older_copies(first_copies, now):
            batch.add_copy(document_id, copy, label)
            (matched if is_visible else unsure).add(document_id)
        self.edges.record(batch.edges, now)
        self.join_many(batch.joined(), documents[0][0] if are_new else ALL, crowds)
        return matched, unsure - matched

    def remove_documents(self, document_ids: Sequence[int]) -> None:
        self._label(document_ids, None)

    def join_many(self, joined: Iterable[tuple[set[int], bool]], new_from: int, crowds: dict[int, int] | None = None) -> None:
        """Join several clusters into one, which gets the label of the largest, for each (labels, large).

        If none has a label, the id of the newest document becomes the label if it was just added: an older id may have been one
        before. large: make it a large cluster if a document was just added. new_from: documents from this id on were just added,
        so their label is not logged as a change. A label is in one set only. crowds: collects the fingerprints that move to a
        large cluster, with its label, for one `large_clusters.move` later; None moves them now.
        """
        moved = {} if crowds is None else crowds
        for labels, large in joined:
            self._join(labels, large, new_from, moved)
        if crowds is None:
            self.large_clusters.move(moved)

    def _join(self, labels: set[int], large: bool, new_from: int, crowds: dict[int, int]) -> None:
        """`join_many` of one set."""
        if len(labels) < 2:
            return
        self.documents.require_numbers(labels)
        is_new = max(labels) >= ALONE + new_from
        named = {label for label in labels if label < ALONE}
        large_labels = self.large_clusters.labels_among(named, crowds)
        if len(named) > 1:
            sizes = self._sizes(named)
            largest = max(named, key=lambda label: (sizes[label], label in large_labels, -label))
        elif named:
            largest = next(iter(named))
        else:
            largest = max(labels) - ALONE if is_new else self._new_label()
        if large_labels or (large and is_new and self.store.table.separates_large_clusters):
            crowds |= self.large_clusters.gather(largest, labels - {largest} if largest in large_labels else labels)
        sql = "UPDATE {index}_document SET cluster_id = ? WHERE cluster_id = ?"
        smaller = [label for label in named if label != largest]
        if self.store.notes_changes:
            of_label = "SELECT id FROM {index}_document WHERE cluster_id = ?"
            self.changes.note_moved(row[0] for row in self.store.execute_many(of_label, [(label,) for label in smaller]))
        self.store.execute_many(sql, [(largest, label) for label in smaller])
        self._label([label - ALONE for label in labels if label >= ALONE], largest, new_from)

    def _label(self, document_ids: Sequence[int], label: int | None, new_from: int = ALL) -> None:
        if self.store.notes_changes:
            self.changes.note_moved(document_id for document_id in document_ids if document_id < new_from)
        sql = "UPDATE {index}_document SET cluster_id = ? WHERE id = ?"
        self.store.execute_many(sql, [(label, document_id) for document_id in document_ids])

    def _sizes(self, labels: set[int]) -> dict[int, int]:
        """The number of documents of each cluster; of the largest, only enough to know that it is largest."""
        sql = "SELECT count(*) FROM (SELECT 1 FROM {index}_document WHERE cluster_id = ? LIMIT +?)"
        limit = limits.SIZE_KNOWN
        while True:
            sizes: dict[int, int] = {label: self.store.value(sql, (label, limit)) for label in labels}
            if sum(size == limit for size in sizes.values()) < 2:
                return sizes
            limit *= 4

    # ---- removing ----------------------------------------------------------------------------------------------------

    def remove(self, document_ids: Sequence[int], now: int) -> int:
        """Delete documents with edges and dismissed pairs, split the clusters that they connected, and return their number."""
        seeds: set[int] = set()
        group_ids: set[int] = set()
        removed = 0
        sql = "SELECT id, fingerprint_id, cluster_id, group_id FROM {index}_document WHERE id = ?"
        for start in range(0, len(document_ids), self.documents.batch_size):
            page = document_ids[start : start + self.documents.batch_size]
            rows = self.store.execute_many(sql, [(document_id,) for document_id in page])
            for row in rows:
                document_id, _, label, group_id = self.documents.require_numbers(row)
                group_ids.add(group_id)
                if label is not None:
                    seeds.update(self.edges.drop(document_id))
                if self.store.dismisses:
                    self.dismissed.drop(document_id)
            if self.store.notes_changes:
                self.changes.note_keys([(row[0], self.documents.key(row[0])) for row in rows])
            self.documents.drop([row[0] for row in rows], {row[1] for row in rows if row[1] is not None})
            removed += len(rows)
        self.split(seeds.difference(document_ids), now)
        self.documents.drop_groups(group_ids - {0})
        return removed

    def split(self, seeds: Iterable[int], now: int) -> None:
        """Split each cluster that its edges no longer connect; the largest part keeps the label. seeds: ends of removed edges."""
        by_label: dict[int, set[int]] = defaultdict(set)
        sql = "SELECT id, cluster_id FROM {index}_document WHERE id = ? AND cluster_id IS NOT NULL"
        for row in self.store.execute_many(sql, ((document_id,) for document_id in seeds)):
            document_id, label = self.documents.require_numbers(row)
            by_label[label].add(document_id)
        for label, ends in by_label.items():
            self.edges.connect_copies(ends, now)
            groups, edges = reconnect(self.edges, self.edges.loose_parts(ends), EVER)
            self.edges.record(edges, now)
            for group in self._smaller_parts(label, groups):
                self._form_cluster(group)
            remaining = self.store.rows("SELECT id FROM {index}_document WHERE cluster_id = ? LIMIT 2", (label,))
            if len(remaining) == 1:
                self._form_cluster([remaining[0][0]])

    def _smaller_parts(self, label: int, groups: list[list[int]]) -> list[list[int]]:
        if not groups:
            return []
        known_size, largest = sum(map(len, groups)), max(groups, key=len)
        sql = "SELECT id FROM {index}_document WHERE cluster_id = ? LIMIT ?"
        members = self.store.rows(sql, (label, known_size + len(largest)))
        if len(members) == known_size + len(largest):  # the unknown part is at least as large
            return groups
        known_ids = {document_id for group in groups for document_id in group}
        return [*(group for group in groups if group is not largest), [row[0] for row in members if row[0] not in known_ids]]

    def _form_cluster(self, document_ids: Sequence[int]) -> None:
        label = self._new_label() if len(document_ids) > 1 else None
        self._label(document_ids, label)
        self.large_clusters.remove_documents(document_ids, label or 0)

    def _new_label(self) -> int:
        label: int = self.store.setting("next_cluster")
        self.store.set(next_cluster=label - 1)
        return label

    # ---- listing -----------------------------------------------------------------------------------------------------

    def listing(self, min_size: int, now: int, group_id: int = ACROSS_GROUPS) -> list[Cluster]:
        """The clusters of visible documents, of one group or of all, largest first, ties by the earliest document."""
        groups = (self._labelled if self.store.record_matches else self._joined)(min_size, now, group_id)
        listed = [group for group in groups if len(group) >= min_size]
        listed.sort(key=lambda group: (-len(group), group[0][0]))
        return [Cluster(group[0][1], tuple(key for _, key in group)) for group in listed]

    def _labelled(self, min_size: int, now: int, group_id: int) -> Iterator[list[tuple[int, Key]]]:
        """(id, key) of the visible documents of each label, split where only expired documents connected them."""
        sql = f"""SELECT cluster_id, id, key FROM {{index}}_document
                  WHERE {{visible}} AND {OF_GROUP} AND cluster_id IN (
                      SELECT cluster_id FROM {{index}}_document WHERE cluster_id IS NOT NULL
                      GROUP BY cluster_id HAVING count(*) >= :min_size)
                  ORDER BY cluster_id, id"""
        values = {"now": now, "group_id": group_id}
        unsure_sql = "SELECT DISTINCT cluster_id FROM {index}_document WHERE expires_at <= ? AND cluster_id IS NOT NULL"
        labels_with_expired = {row[0] for row in self.store.rows(unsure_sql, (now,))}
        for label, rows in groupby(self.store.rows(sql, {**values, "min_size": min_size}), key=itemgetter(0)):
            group = [(document_id, key) for _, document_id, key in rows]
            if label in labels_with_expired and len(group) > 1:
                yield from self._visible_parts(group, now)
            else:
                yield group
        if min_size == 1:
            unclustered_sql = f"SELECT id, key FROM {{index}}_document WHERE cluster_id IS NULL AND {{visible}} AND {OF_GROUP}"
            yield from ([row] for row in self.store.rows(unclustered_sql, values))

    def _visible_parts(self, group: list[tuple[int, Key]], now: int) -> Iterator[list[tuple[int, Key]]]:
        connected = UnionFind()
        ids = dict(group)
        for document_id in ids:
            for other in self.edges.adjacent(document_id):
                if other in ids:
                    connected.union(document_id, other)
        yield from self._parts(group, connected, now)

    def _parts(self, group: list[tuple[int, Key]], connected: UnionFind, now: int) -> Iterator[list[tuple[int, Key]]]:
        """The components of documents, given the known edges `connected`, if no other document matches them."""
        keys = dict(group)
        by_root: dict[int, set[int]] = defaultdict(set)
        for document_id in keys:
            by_root[connected.find(document_id)].add(document_id)
        *smaller, _ = sorted(by_root.values(), key=len)
        separate, _ = reconnect(self.edges, smaller, now)
        separate_ids = {document_id for part in separate for document_id in part}
        for part in [*separate, [document_id for document_id in keys if document_id not in separate_ids]]:
            yield sorted((document_id, keys[document_id]) for document_id in part)

    def _joined(self, min_size: int, now: int, group_id: int) -> Iterator[list[tuple[int, Key]]]:
        """The components of visible documents by a join of the candidate table. Single documents are not held in memory."""
        joined = UnionFind()
        forest: list[tuple[int, int]] = []  # a spanning forest, needed only for dismissed pairs
        for fingerprint_id, other_id in self.joins.connections(now):
            if joined.union(fingerprint_id, other_id) and self.store.dismisses:
                forest.append((fingerprint_id, other_id))
        for fingerprint_ids in self.documents.parts.visible(now):
            for pair in pairwise(fingerprint_ids):
                joined.union(*pair)
        copies = self.store.frame("copies")
        connected_ids = {*joined.parent, *(row[0] for row in self.store.stream(copies))}
        if group_id != ACROSS_GROUPS:
            of_group = "SELECT id FROM {index}_fingerprint WHERE group_id = ?"
            connected_ids.intersection_update(row[0] for row in self.store.stream(of_group, (group_id,)))
        groups: dict[int, list[tuple[int, Key]]] = defaultdict(list)
        copies_of: dict[int, list[int]] = defaultdict(list)
        for fingerprint_id, number, key in self.documents.of_fingerprints(connected_ids, now):
            groups[joined.find(fingerprint_id)].append((number, key))
            if self.store.dismisses:
                copies_of[fingerprint_id].append(number)
        split, connected = self._without_dismissed(joined, forest, copies_of)
        for name, documents in groups.items():
            group = sorted(dict(documents).items())  # once each, even with several fingerprints
            if name in split:
                yield from self._parts(group, connected, now)
            else:
                yield group
        if min_size == 1:
            every = f"SELECT fingerprint_id, id, key FROM {{index}}_document WHERE {{visible}} AND {OF_GROUP}"
            rows = self.store.stream(every, {"now": now, "group_id": group_id})
            yield from ([(number, key)] for fingerprint_id, number, key in rows if fingerprint_id not in connected_ids)

    def _without_dismissed(
        self, joined: UnionFind, forest: list[tuple[int, int]], copies_of: dict[int, list[int]]
    ) -> tuple[set[int], UnionFind]:
        """The groups of fingerprints with a dismissed pair, and the documents that other pairs connect.

        joined: the groups. forest: pairs that connect each group's fingerprints. copies_of: the documents of each fingerprint.
        """
        group_of = {number: joined.find(fingerprint_id) for fingerprint_id, numbers in copies_of.items() for number in numbers}
        dismissed = self.dismissed.pairs_among(group_of)
        connected = UnionFind()
        for a, b in chain.from_iterable(pairwise(sorted(numbers)) for numbers in copies_of.values()):
            connected.union(a, b)
        for a, b in ((copies_of[a][0], copies_of[b][0]) for a, b in forest if copies_of[a] and copies_of[b]):
            if (min(a, b), max(a, b)) not in dismissed:
                connected.union(a, b)
        return {group_of[b] for a, b in dismissed if group_of.get(a) == group_of[b]}, connected


class LargeClusters:
    """Large clusters, whose candidate rows carry the label (column `crowd`), so an added document reads a few rows of each in its
    buckets instead of all. Either all fingerprints of a cluster carry the label or none."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def labels_among(self, labels: set[int], crowds: Mapping[int, int]) -> set[int]:
        """The labels of large clusters. crowds: fingerprints that are still to be moved."""
        if not self.store.has_large_clusters:
            return set()
        sql = """SELECT f.id, f.crowd FROM {index}_document AS d JOIN {index}_fingerprint AS f ON f.id = d.fingerprint_id
                 WHERE d.cluster_id = ? LIMIT 1"""
        rows = self.store.execute_many(sql, [(label,) for label in labels])
        return labels.intersection(crowds.get(fingerprint_id, crowd) for fingerprint_id, crowd in rows)

    def gather(self, crowd: int, labels: Iterable[int]) -> dict[int, int]:
        """The fingerprints of clusters and single documents, with the large cluster that `move` gives them."""
        if not self.store.has_large_clusters:
            self.store.set(crowds=1)
            self.store.new_generation()
        of_cluster = "SELECT DISTINCT fingerprint_id FROM {index}_document WHERE cluster_id = ?"
        of_document = "SELECT fingerprint_id FROM {index}_document WHERE id = ?"
        fingerprint_ids: list[int] = []
        for label in labels:
            rows = self.store.rows(of_cluster, (label,)) if label < ALONE else self.store.rows(of_document, (label - ALONE,))
            fingerprint_ids += (row[0] for row in rows)
        return dict.fromkeys(fingerprint_ids, crowd)

    def remove_documents(self, document_ids: Sequence[int], label: int) -> None:
        """Take unshared fingerprints out of their large cluster; if they are many, they form another one under the new label."""
        if not self.store.has_large_clusters:
            return
        sql = """SELECT f.id FROM {index}_document AS d JOIN {index}_fingerprint AS f ON f.id = d.fingerprint_id
               WHERE d.id = ? AND f.crowd <> 0"""
        fingerprint_ids = {row[0] for row in self.store.execute_many(sql, [(document_id,) for document_id in document_ids])}
        self.move(dict.fromkeys(fingerprint_ids, label if len(fingerprint_ids) >= limits.CROWD else 0))

    def move(self, crowds: dict[int, int]) -> None:
        """Write the large cluster of each fingerprint, and empty `crowds`."""
        if crowds:
            self.store.table.move_rows(crowds)
            crowds.clear()
