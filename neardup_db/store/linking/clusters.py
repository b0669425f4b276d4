"""Clusters: the connected components of the graph of all pairs, and the labels that name them.

`cluster_id` labels the components of two documents and more, of expired documents too; `listing` looks for the visible parts.
Adding a document joins clusters. Removing one may split its cluster: then the parts that the remaining edges leave query again by
their stored fingerprints, all but the largest, since any edge between two parts has an end in a part that queries.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from operator import itemgetter

from ... import limits
from ...values import Cluster, Key
from ..asking.documents import EVER, Documents
from ..asking.fingerprints import ACROSS_GROUPS, OF_GROUP
from ..asking.joins import Joins
from ..asking.search import Neighbour, Search
from ..layout.schema import ALONE
from ..layout.state import Store
from .changes import ALL, ChangeLog
from .crowds import Crowds
from .edges import EdgeBatch, Edges, UnionFind, choose_edges
from .rejoining import reconnect

Unconnected = tuple[int, int, bool]  # document, its fingerprint, whether it is visible


class Clusters:
    """Keeps the labels; runs inside the store's transactions."""

    def __init__(self, store: Store, documents: Documents, search: Search, joins: Joins) -> None:
        self.store = store
        self.db = store.db
        self.documents = documents
        self.joins = joins
        self.dismissed = search.dismissed
        self.changes = ChangeLog(store, documents)
        self.edges = Edges(store, documents, search)
        self.crowds = Crowds(store, documents)

    # ---- adding ------------------------------------------------------------------------------------------------------

    def connect(self, document_id: int, neighbours: Sequence[Neighbour], now: int, *, is_new: bool = True) -> None:
        """Record the edges that a document, or a further code of a stored one, brings and join the clusters that it touches."""
        if not neighbours:
            return
        self.edges.record(choose_edges(document_id, neighbours, lambda label: label), now)
        own = ALONE + document_id if is_new else self._label_of(document_id)
        labels = {own, *(neighbour.cluster_id for neighbour in neighbours)}
        self.join(labels, large=len(neighbours) >= limits.CROWD, new_from=document_id if is_new else ALL)

    def connect_many(
        self, documents: Sequence[Unconnected], new: tuple[int, int] | None, now: int, *, are_new: bool = True
    ) -> tuple[set[int], set[int]]:
        """Record the edges of documents that are in no cluster yet, and join the clusters that they touch.

        documents: in the order of their ids, all those that have one of the fingerprints `new`, the first and the last id, which
        are filed. are_new: the documents are just added, and not older than others. Returns the documents that match an earlier
        visible one, and those of which only a query tells, since all that they were found to match has expired or is later."""
        batch = EdgeBatch(0 if self.store.scheme.takes_codes else None)
        matched: set[int] = set()
        met: set[int] = set()
        for document_id, label, neighbours, visible in self.edges.of_fingerprints(*new, now) if new else ():
            batch.add(document_id, label, neighbours)
            earlier = any(other_id is not None and other_id < document_id for other_id in visible)
            (matched if earlier else met).add(document_id)
        newest: dict[int, int] = {}  # of each fingerprint the newest document so far
        hidden: set[int] = set()  # fingerprints of which all documents so far have expired
        first: list[tuple[int, int]] = []  # documents that are the first here with an older fingerprint
        for document_id, fingerprint_id, is_visible in documents:
            copy = newest.get(fingerprint_id)
            if copy is not None:
                batch.add_copy(document_id, copy, ALONE + copy)
                (met if fingerprint_id in hidden else matched).add(document_id)
            elif new is None or fingerprint_id < new[0]:
                first.append((document_id, fingerprint_id))
            newest[fingerprint_id] = document_id
            if is_visible:
                hidden.discard(fingerprint_id)
            elif copy is None:
                hidden.add(fingerprint_id)
        for document_id, copy, label, is_visible in self.documents.older_copies(first, now):
            batch.add_copy(document_id, copy, label)
            (matched if is_visible else met).add(document_id)
        self.edges.record(batch.edges, now)
        for labels, large in batch.joined():
            self.join(labels, large=large, new_from=documents[0][0] if are_new else ALL)
        return matched, met - matched

    def join_two(self, a: int, b: int) -> None:
        """Make one cluster of those of two documents between which an edge was recorded."""
        self.join({self._label_of(a), self._label_of(b)})

    def in_same_cluster(self, a: int, b: int) -> bool:
        """Whether two documents are in one cluster."""
        return self._label_of(a) == self._label_of(b)

    def _label_of(self, document_id: int) -> int:
        label = self.documents.label(document_id)
        return ALONE + document_id if label is None else label

    def remove_documents(self, document_ids: Sequence[int]) -> None:
        """Documents that are set aside are in no cluster."""
        self._label(document_ids, None)

    def join(self, labels: set[int], *, large: bool = False, new_from: int = ALL) -> None:
        """Make one cluster of several. The smaller ones take the largest one's label. Where none has a label, the id of the
        newest document becomes it if that one is just added; the id of a stored document may have been a label before.

        large: make the cluster a crowd, if a document is just added. new_from: documents from this id on are just added, so their
        label is no change."""
        if len(labels) < 2:
            return
        self.documents.require_numbers(labels)
        is_new = max(labels) >= ALONE + new_from
        named = {label for label in labels if label < ALONE}
        crowds = self.crowds.labels_among(named)
        if len(named) > 1:
            sizes = self._sizes(named)
            largest = max(named, key=lambda label: (sizes[label], label in crowds, -label))
        elif named:
            largest = next(iter(named))
        else:
            largest = max(labels) - ALONE if is_new else self._new_label()
        if crowds or (large and is_new and self.store.table.has_crowds):
            self.crowds.gather(largest, labels - {largest} if largest in crowds else labels)
        sql = self.store.sql("UPDATE {index}_document SET cluster_id = ? WHERE cluster_id = ?")
        smaller = [label for label in named if label != largest]
        if self.store.notes_changes:
            for label in smaller:
                self.changes.note_relabelled(label)
        self.db.execute_many(sql, [(largest, label) for label in smaller])
        self._label([label - ALONE for label in labels if label >= ALONE], largest, new_from)

    def _label(self, document_ids: Sequence[int], label: int | None, new_from: int = ALL) -> None:
        if self.store.notes_changes:
            self.changes.note_moved(document_id for document_id in document_ids if document_id < new_from)
        sql = self.store.sql("UPDATE {index}_document SET cluster_id = ? WHERE id = ?")
        self.db.execute_many(sql, [(label, document_id) for document_id in document_ids])

    def _sizes(self, labels: set[int]) -> dict[int, int]:
        """Documents of each cluster; the largest is counted no further than it takes to know that it is."""
        sql = self.store.sql("SELECT count(*) FROM (SELECT 1 FROM {index}_document WHERE cluster_id = ? LIMIT +?)")
        most = limits.SIZE_KNOWN
        while True:
            sizes: dict[int, int] = {label: self.db.value(sql, (label, most)) for label in labels}
            if sum(size == most for size in sizes.values()) < 2:
                return sizes
            most *= 4

    # ---- removing ----------------------------------------------------------------------------------------------------

    def remove(self, document_ids: Sequence[int], now: int) -> int:
        """Delete documents with all that is theirs, then mend the clusters that they held together. Returns how many there
        were."""
        neighbours: dict[int, set[int]] = defaultdict(set)
        group_ids: set[int] = set()
        removed = 0
        sql = self.store.sql("SELECT id, fingerprint_id, cluster_id, group_id FROM {index}_document WHERE id = ?")
        for start in range(0, len(document_ids), self.documents.filed_at_once):
            part = document_ids[start : start + self.documents.filed_at_once]
            rows = self.db.rows_of_many(sql, [(document_id,) for document_id in part])
            for row in rows:
                document_id, _, label, group_id = self.documents.require_numbers(row)
                group_ids.add(group_id)
                if label is not None:
                    neighbours[label].update(self.edges.adjacent(document_id))
                    self.edges.drop(document_id)
                if self.store.dismisses:
                    self.dismissed.drop(document_id)
            if self.store.notes_changes:
                self.changes.note_removed([(row[0], self.documents.key(row[0])) for row in rows])
            self.documents.drop([row[0] for row in rows], {row[1] for row in rows if row[1] is not None})
            removed += len(rows)
        gone = set(document_ids)
        for label, seeds in neighbours.items():
            self.mend(label, seeds - gone, now)
        self.documents.drop_groups(group_ids - {0})
        return removed

    def mend(self, label: int, seeds: set[int], now: int) -> None:
        """Split a cluster if the edges that are left no longer connect it. `seeds` were the ends of those that are gone. The
        largest part keeps the label."""
        self.edges.connect_copies(seeds, now)
        groups, edges = reconnect(self.edges, self.edges.loose_parts(seeds), EVER)
        self.edges.record(edges, now)
        for group in self._smaller_parts(label, groups):
            self._set_apart(group)
        left = self.db.rows(self.store.sql("SELECT id FROM {index}_document WHERE cluster_id = ? LIMIT 2"), (label,))
        if len(left) == 1:
            self._set_apart([left[0][0]])

    def mend_many(self, seeds: set[int], now: int) -> None:
        """`mend` each cluster that has some of the seeds."""
        by_label: dict[int, set[int]] = defaultdict(set)
        for document_id, label in self.documents.labels_of(seeds).items():
            if label < ALONE:
                by_label[label].add(document_id)
        for label, ends in by_label.items():
            self.mend(label, ends, now)

    def _smaller_parts(self, label: int, groups: list[list[int]]) -> list[list[int]]:
        """All parts of a cluster but the largest, where `groups` are all parts but one, which is not known."""
        if not groups:
            return []
        inside, largest = sum(map(len, groups)), max(groups, key=len)
        sql = "SELECT id FROM {index}_document WHERE cluster_id = ? LIMIT ?"
        some = self.db.rows(self.store.sql(sql), (label, inside + len(largest)))
        if len(some) == inside + len(largest):  # the part that is not known is as large
            return groups
        known = {document_id for group in groups for document_id in group}
        return [*(group for group in groups if group is not largest), [row[0] for row in some if row[0] not in known]]

    def _set_apart(self, document_ids: Sequence[int]) -> None:
        """Make documents a cluster of their own; a single one is in no cluster."""
        label = self._new_label() if len(document_ids) > 1 else None
        self._label(document_ids, label)
        self.crowds.remove_documents(document_ids, label or 0)

    def _new_label(self) -> int:
        """A label that no cluster ever had."""
        label: int = self.store.setting("next_cluster")
        self.store.set(next_cluster=label - 1)
        return label

    # ---- listing -----------------------------------------------------------------------------------------------------

    def listing(self, min_size: int, now: int, group_id: int = ACROSS_GROUPS) -> list[Cluster]:
        """Clusters of visible documents, of one group or of all, largest first, ties by the earliest document."""
        groups = (self._labelled if self.store.record_matches else self._joined)(min_size, now, group_id)
        listed = [group for group in groups if len(group) >= min_size]
        listed.sort(key=lambda group: (-len(group), group[0][0]))
        return [Cluster(group[0][1], tuple(key for _, key in group)) for group in listed]

    def _labelled(self, min_size: int, now: int, group_id: int) -> Iterator[list[tuple[int, Key]]]:
        """(id, key) of each label's visible documents, in parts where only expired documents held them together."""
        sql = f"""SELECT cluster_id, id, key FROM {{index}}_document
                  WHERE {{visible}} AND {OF_GROUP} AND cluster_id IN (
                      SELECT cluster_id FROM {{index}}_document WHERE cluster_id IS NOT NULL
                      GROUP BY cluster_id HAVING count(*) >= :min_size)
                  ORDER BY cluster_id, id"""
        values = {"now": now, "group_id": group_id}
        unsure_sql = "SELECT DISTINCT cluster_id FROM {index}_document WHERE expires_at <= ? AND cluster_id IS NOT NULL"
        unsure = {row[0] for row in self.db.rows(self.store.sql(unsure_sql), (now,))}
        for label, rows in groupby(self.db.rows(self.store.sql(sql), {**values, "min_size": min_size}), key=itemgetter(0)):
            group = [(document_id, key) for _, document_id, key in rows]
            if label in unsure and len(group) > 1:
                yield from self._visible_parts(group, now)
            else:
                yield group
        if min_size == 1:
            alone = f"SELECT id, key FROM {{index}}_document WHERE cluster_id IS NULL AND {{visible}} AND {OF_GROUP}"
            yield from ([row] for row in self.db.rows(self.store.sql(alone), values))

    def _visible_parts(self, group: list[tuple[int, Key]], now: int) -> Iterator[list[tuple[int, Key]]]:
        """The visible documents of a label, in the clusters that they are without the expired ones."""
        connected = UnionFind()
        ids = dict(group)
        for document_id in ids:
            connected.parent.setdefault(document_id, document_id)
            for other in self.edges.adjacent(document_id):
                if other in ids:
                    connected.union(document_id, other)
        yield from self._parts(group, connected, now)

    def _parts(self, group: list[tuple[int, Key]], connected: UnionFind, now: int) -> Iterator[list[tuple[int, Key]]]:
        """The clusters that documents are, where nothing else matches one of them and the edges in `connected` are known."""
        keys = dict(group)
        parts = sorted((set(part) for part in connected.sets()), key=len)
        apart, _ = reconnect(self.edges, parts[:-1], now)
        loose = {document_id for part in apart for document_id in part}
        for part in [*apart, [document_id for document_id in keys if document_id not in loose]]:
            yield sorted((document_id, keys[document_id]) for document_id in part)

    def _joined(self, min_size: int, now: int, group_id: int) -> Iterator[list[tuple[int, Key]]]:
        """Components where no matches are recorded: they come from the candidate table. Of documents that are alone nothing is
        held in memory."""
        joined = UnionFind()
        forest: list[tuple[int, int]] = []  # as few pairs as connect all; only dismissed ones ask for them
        for fingerprint_id, other_id in self.joins.connections(now):
            if joined.union(fingerprint_id, other_id) and self.store.dismisses:
                forest.append((fingerprint_id, other_id))
        for fingerprint_ids in self.documents.parts.visible(now):
            for pair in pairwise(fingerprint_ids):
                joined.union(*pair)
        copies = self.store.sql(self.store.frame("copies"))
        several = {*joined.parent, *(row[0] for row in self.db.stream(copies))}
        if group_id != ACROSS_GROUPS:
            of_group = self.store.sql("SELECT id FROM {index}_fingerprint WHERE group_id = ?")
            several.intersection_update(row[0] for row in self.db.stream(of_group, (group_id,)))
        groups: dict[int, list[tuple[int, Key]]] = defaultdict(list)
        copies_of: dict[int, list[int]] = defaultdict(list)
        for fingerprint_id, number, key in self.documents.of_fingerprints(several, now):
            groups[joined.find(fingerprint_id)].append((number, key))
            if self.store.dismisses:
                copies_of[fingerprint_id].append(number)
        split = self._split_groups(joined, forest, copies_of)
        for name, found in groups.items():
            group = sorted(dict(found).items())  # each once, of however many fingerprints it is
            if name in split:
                yield from self._parts(group, split[name], now)
            else:
                yield group
        if min_size == 1:
            every = f"SELECT fingerprint_id, id, key FROM {{index}}_document WHERE {{visible}} AND {OF_GROUP}"
            rows = self.db.stream(self.store.sql(every), {"now": now, "group_id": group_id})
            yield from ([(number, key)] for fingerprint_id, number, key in rows if fingerprint_id not in several)

    def _split_groups(
        self, joined: UnionFind, forest: list[tuple[int, int]], copies_of: dict[int, list[int]]
    ) -> dict[int, UnionFind]:
        """For each group of fingerprints with a dismissed pair, the connections of its documents without such pairs.

        joined: the groups. forest: pairs that connect the fingerprints of each. copies_of: the documents of each fingerprint."""
        home = {number: joined.find(fingerprint_id) for fingerprint_id, numbers in copies_of.items() for number in numbers}
        dismissed = self.dismissed.pairs_among(home)
        split = {home[b]: UnionFind() for a, b in dismissed if a in home and home[a] == home[b]}
        for number, name in home.items():
            if name in split:
                split[name].parent.setdefault(number, number)
        edges = [pair for numbers in copies_of.values() for pair in pairwise(sorted(numbers))]
        edges += [(copies_of[a][0], copies_of[b][0]) for a, b in forest if copies_of[a] and copies_of[b]]
        for a, b in edges:
            if home[a] in split and (min(a, b), max(a, b)) not in dismissed:
                split[home[a]].union(a, b)
        return split
