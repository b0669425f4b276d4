"""The effect of dismissed pairs on matches and clusters.

Edges are added only for new documents, which have no dismissed pairs, except on undismissal. Therefore clusters are split only
when a pair is dismissed and after a rebuild, which first connects all documents.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import chain

from ..asking.documents import EVER, DocumentRow
from .clusters import Clusters


def dismiss(clusters: Clusters, a: DocumentRow, b: DocumentRow, now: int) -> bool:
    """Dismiss a pair and split its cluster if needed. Returns False if it was dismissed already."""
    if not clusters.dismissed.add(a, b, now):
        return False
    clusters.dismissed.separate([a.id, b.id])
    label = clusters.documents.label(a.id)
    if clusters.edges.remove(a.id, b.id) and label is not None:
        clusters.split(label, {a.id, b.id}, now)
    return True


def dismiss_all(clusters: Clusters, a: DocumentRow, now: int) -> int:
    """Dismiss a document's pairs with all its matches, expired ones included, by one query and one removal. Returns the number
    of visible matches."""
    matched = [row.id for row in clusters.edges.search.stored_matches(a.id, EVER)]
    if not matched:
        return 0
    others = clusters.documents.rows_by_id(matched)
    clusters.dismissed.add_all(a, others, now)
    clusters.dismissed.separate([a.id, *matched])
    label = clusters.documents.label(a.id)
    if label is not None:
        neighbours = clusters.edges.adjacent(a.id)
        clusters.edges.drop(a.id)  # each recorded match is one of these pairs
        clusters.split(label, {a.id, *neighbours}, now)
    return sum(b.is_visible(now) for b in others)


def undismiss_all(clusters: Clusters, a: DocumentRow, now: int) -> int:
    """Restore all dismissed pairs of a document. Returns the number of visible documents in them."""
    store, dismissed = clusters.store, clusters.dismissed
    others = dismissed.dismissed_with(a.id) if store.dismisses else set()
    if not others:
        return 0
    if store.record_matches:
        for match in clusters.edges.search.stored_matches(a.id, EVER, dismissed=True):
            if match.id in others and not clusters.in_same_cluster(a.id, match.id):
                clusters.edges.record_match(a.id, match, now)
                clusters.join_two(a.id, match.id)
    dismissed.drop(a.id)
    return sum(b.is_visible(now) for b in clusters.documents.rows_by_id(others))


def undismiss(clusters: Clusters, a: DocumentRow, b: DocumentRow, now: int) -> bool:
    """Restore a dismissed pair, with its edge if the documents match. Returns False if it was not dismissed."""
    if not clusters.store.dismisses or not clusters.dismissed.is_dismissed(a.id, b.id):
        return False
    if clusters.store.record_matches:
        edge = clusters.edges.edge_between(a.id, b.id)
        if edge is not None:
            clusters.edges.record([edge], now)
            clusters.join_two(a.id, b.id)
    clusters.dismissed.remove(a.id, b.id)
    return True


def adopt(clusters: Clusters, pairs: Iterable[tuple[DocumentRow, DocumentRow]], now: int) -> int:
    """Dismiss pairs of imported documents, which are connected already. Returns the number of newly dismissed pairs."""
    added = [(a.id, b.id) for a, b in pairs if clusters.dismissed.add(a, b, now)]
    if added:
        clusters.dismissed.separate(chain.from_iterable(added))
        split_dismissed(clusters, now)
    return len(added)


def split_dismissed(clusters: Clusters, now: int) -> None:
    """Delete the recorded matches of dismissed pairs, and split the clusters that they connected."""
    store = clusters.store
    if not store.dismisses or not store.record_matches:
        return
    sql = """SELECT d.cluster_id, m.document_id, m.other_id FROM {index}_dismissed AS x CROSS JOIN {index}_match AS m
             CROSS JOIN {index}_document AS d
             WHERE m.document_id = x.document_id AND m.other_id = x.other_id AND d.id = m.document_id"""
    seeds: dict[int, set[int]] = defaultdict(set)
    for label, document_id, other_id in store.db.rows(store.sql(sql)):
        clusters.edges.remove(document_id, other_id)
        seeds[label] |= {document_id, other_id}
    for label, documents in seeds.items():
        clusters.split(label, documents, now)
