"""Connects many codes at once in an index with several codes per document.

A join finds enough pairs of fingerprints to connect all matches. These pairs, shared fingerprints, and the fingerprints of one
document connect the documents, so one document of each fingerprint is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from ... import limits
from ..layout.candidates import MAX_ID
from ..layout.schema import ALONE, sql_text
from ..query.documents import EVER
from ..query.search import Neighbour
from .clusters import Clusters
from .dismissing import split_dismissed
from .edges import EdgeBatch


class AddedCode(NamedTuple):
    document_id: int
    fingerprint_id: int
    before_id: int = MAX_ID
    """The id of the next document when the code was stored."""
    before_part: int = MAX_ID
    """The number of the next code when the code was stored."""


class Start(NamedTuple):
    """The next document id and code number before the first code was stored."""

    document_id: int
    part: int


LATEST = Start(MAX_ID, MAX_ID)
"""If all other fingerprints are older."""


def index_and_connect(
    clusters: Clusters, now: int, step: Callable[[int], Any], first_id: int = 1, *, are_new: bool = True
) -> None:
    """Write the candidate rows of all fingerprints from `first_id` on, connect their documents, which are in no cluster, and
    split the clusters of dismissed pairs. are_new: no cluster had one of their ids as a label. step: called with the number
    done."""
    store, done = clusters.store, 0
    sql = store.frame("fingerprint_documents")
    for ids in clusters.documents.filing_ranges(limits.FILING_BYTES, first_id):
        store.table.index_rows(*ids)
        added = store.rows(sql, {"first_id": ids[0], "last_id": ids[1], "now": now})
        if store.record_matches and store.has_parts:
            connect_codes(clusters, [AddedCode(*row[:2]) for row in added], ids, LATEST, 0, now)
        elif store.record_matches:
            clusters.connect_many(added, ids, now, are_new=are_new)
        done += len(added)
        step(done)
    split_dismissed(clusters, now)


def connect_codes(
    clusters: Clusters, codes: Sequence[AddedCode], new: tuple[int, int] | None, start: Start, new_from: int, now: int
) -> list[int]:
    """Record the edges of codes and join the clusters that they connect. Ignores dismissed pairs; the caller splits clusters
    afterwards.

    codes: in insertion order, including every code of the fingerprints `new` (first id, last id), which have candidate rows.
    new_from: documents from this id on were in no cluster before. Returns the positions of codes whose document is in a cluster;
    a query decides whether the code itself matches another document.
    """
    search, documents = clusters.joins.search, clusters.documents
    sql = "SELECT fingerprint_id, other_id, similarity, distance FROM neardup_join('{index}', ?, ?, 0, ?)"
    pairs = search.rows(sql, (*new, EVER)) if new else []
    newest = _older_documents(clusters, {code.fingerprint_id for code in codes}.union(row[1] for row in pairs), new, start)
    labels = documents.labels_of([*(code.document_id for code in codes), *newest.values()])
    batch = EdgeBatch(0)

    def add(document_id: int, others: Sequence[tuple[int, float, int | None]]) -> None:
        neighbours = [
            Neighbour(newest[number], labels[newest[number]], similarity, distance, number)
            for number, similarity, distance in others
            if newest.get(number, document_id) != document_id
        ]
        if neighbours:
            batch.add(document_id, labels[document_id], neighbours)

    for code in codes:
        add(code.document_id, [(code.fingerprint_id, 1.0, 0)])
        newest[code.fingerprint_id] = code.document_id
    for number, rows in groupby(pairs, itemgetter(0)):
        add(newest[number], sorted((row[1:] for row in rows), key=itemgetter(1), reverse=True))
    clusters.edges.record(batch.edges, now)
    clusters.join_many(batch.joined(), new_from)
    alone = {label for label in labels.values() if label >= ALONE and not batch.joins(label)}
    return [place for place, code in enumerate(codes) if labels[code.document_id] not in alone]


def _older_documents(
    clusters: Clusters, fingerprint_ids: set[int], new: tuple[int, int] | None, start: Start
) -> dict[int, int]:
    """The newest document of each older fingerprint before `start`."""
    first = MAX_ID if new is None else new[0]
    sql = sql_text("older_codes")
    older = [number for number in fingerprint_ids if number < first]
    return dict(clusters.store.rows_of_numbers(sql, older, start.document_id, start.part))
