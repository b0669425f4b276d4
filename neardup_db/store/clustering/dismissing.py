"""The effect of dismissed pairs on matches and clusters.

Edges are added only for new documents, which have no dismissed pairs, except on undismissal. Therefore clusters are split only
when a pair is dismissed and after a rebuild, which first connects all documents.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from ..query.documents import EVER, DocumentRow
from .changes import ALL
from .clusters import Clusters
from .edges import edge_of


def dismiss(clusters: Clusters, a: DocumentRow, b: DocumentRow | None, now: int) -> int:
    """Dismiss a pair and split its cluster if needed. Returns False if it was dismissed already. b=None: dismiss the document's
    pairs with all its matches, expired ones included, and return the number of visible matches."""
    matches = clusters.edges.search.stored_matches(a.id, EVER) if b is None else []
    others = [b] if b is not None else clusters.documents.rows_by_id(row.id for row in matches)
    added = bool(others) and clusters.dismissed.add_all(a, others, now) > 0
    if added:
        clusters.dismissed.separate([a.id, *(other.id for other in others)])
        ends = [other.id for other in others if clusters.edges.remove(a.id, other.id)]
        clusters.split([a.id, *ends] if ends else [], now)
    return added if b is not None else sum(other.is_visible(now) for other in others)


def undismiss(clusters: Clusters, a: DocumentRow, b: DocumentRow | None, now: int) -> int:
    """Restore a dismissed pair, and join the clusters if it matches. Returns False if it was not dismissed. b=None: restore all
    dismissed pairs of the document, and return the number of visible documents in them."""
    others = clusters.dismissed.dismissed_with(a.id) if clusters.store.dismisses else set()
    if b is not None:
        others &= {b.id}
    if others and clusters.store.record_matches:
        for match in clusters.edges.search.stored_matches(a.id, EVER, dismissed=True):
            if match.id not in others:
                continue
            labels = set(clusters.documents.labels_of((a.id, match.id)).values())
            if len(labels) == 2:
                clusters.edges.record([edge_of(a.id, match.id, match.similarity, match.distance)], now)
                clusters.join_many([(labels, False)], ALL)
    if others:
        clusters.dismissed.remove(a.id, others)
    return bool(others) if b is not None else sum(row.is_visible(now) for row in clusters.documents.rows_by_id(others))


def adopt(clusters: Clusters, pairs: Iterable[tuple[DocumentRow, DocumentRow]], now: int) -> int:
    """Dismiss pairs of imported documents, which are connected already. Returns the number of newly dismissed pairs."""
    added = [(a.id, b.id) for a, b in pairs if clusters.dismissed.add_all(a, [b], now)]
    if added:
        clusters.dismissed.separate(chain.from_iterable(added))
        split_dismissed(clusters, now)
    return len(added)


def split_dismissed(clusters: Clusters, now: int) -> None:
    """Delete the recorded matches of dismissed pairs, and split the clusters that they connected."""
    store = clusters.store
    if not store.dismisses or not store.record_matches:
        return
    sql = """SELECT m.document_id, m.other_id FROM {index}_dismissed AS x CROSS JOIN {index}_match AS m
             WHERE m.document_id = x.document_id AND m.other_id = x.other_id"""
    pairs = store.rows(sql)
    for pair in pairs:
        clusters.edges.remove(*pair)
    clusters.split(chain.from_iterable(pairs), now)
