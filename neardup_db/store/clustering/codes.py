"""Connects many codes at once in an index with several codes per document.

A join finds enough pairs of fingerprints to connect all matches. These pairs, shared fingerprints, and the fingerprints of one
document connect the documents, so one document of each fingerprint is enough.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from ... import limits
from ...arrays import np
from ..layout.candidates import MAX_ID
from ..layout.schema import ALONE, sql_text
from ..query.documents import EVER
from ..query.joins import Found
from ..query.search import Neighbour
from .clusters import Clusters
from .dismissing import split_dismissed
from .edges import EdgeBatch


class AddedCode(NamedTuple):
    document_id: int
    fingerprint_id: int
    is_visible: bool = True
    before_id: int = MAX_ID  # the id of the next document when the code was stored
    before_part: int = MAX_ID  # the number of the next code when the code was stored


class _Older(NamedTuple):
    id: int
    label: int
    first_visible: int | None
    last_visible: int | None

    def has_other_document(self, document_id: int) -> bool:
        return self.first_visible is not None and not self.first_visible == self.last_visible == document_id


Start = tuple[int, int]  # the next document id and code number before the first code was stored
LATEST: Start = (MAX_ID, MAX_ID)  # if all other fingerprints are older


def index_and_connect(
    clusters: Clusters, now: int, step: Callable[[int], Any], first_id: int = 1, *, are_new: bool = True
) -> None:
    """Write the candidate rows of all fingerprints from `first_id` on, connect their documents, which are in no cluster, and
    apply dismissed pairs. are_new: no cluster had one of their ids as a label. step: called with the number done."""
    store, done = clusters.store, 0
    sql = store.frame("fingerprint_documents")
    for ids in clusters.documents.filing_ranges(limits.FILING_BYTES, first_id):
        store.table.index_rows(*ids)
        added = store.rows(sql, {"first_id": ids[0], "last_id": ids[1], "now": now})
        if store.record_matches and store.has_parts:
            connect_codes(clusters, [AddedCode(*row) for row in added], ids, LATEST, 0, now)
        elif store.record_matches:
            clusters.connect_many(added, ids, now, are_new=are_new)
        done += len(added)
        step(done)
    split_dismissed(clusters, now)


def connect_codes(
    clusters: Clusters, codes: Sequence[AddedCode], new: tuple[int, int] | None, start: Start, new_from: int, now: int
) -> tuple[set[int], set[int]]:
    """Record the edges of codes and join the clusters that they connect. The caller applies dismissed pairs afterwards.

    codes: in insertion order, including every code of the fingerprints `new` (first id, last id), which have candidate rows.
    new_from: documents from this id on were in no cluster before. Returns (positions of codes that match an earlier visible
    code of another document, positions of codes that need a query to decide this).
    """
    search = clusters.joins.search
    sql = "SELECT fingerprint_id, other_id, similarity, distance FROM neardup_join('{index}', ?, ?, 0, ?)"
    pairs = search.rows(sql, (*new, EVER)) if new else []
    older = _older(clusters, codes, pairs, new[0] if new else MAX_ID, start, now)
    labels = clusters.documents.labels_of(code.document_id for code in codes)
    labels |= {one.id: one.label for one in older.values()}
    newest = {number: one.id for number, one in older.items()}
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
    partners: dict[int, list[int]] = defaultdict(list)
    for number, rows in groupby(pairs, itemgetter(0)):
        others = [row[1:] for row in rows]
        for other, *_ in others:
            partners[number].append(other)
            partners[other].append(number)
        add(newest[number], sorted(others, key=itemgetter(1), reverse=True))
    clusters.edges.record(batch.edges, now)
    clusters.join_many(batch.joined(), new_from)
    alone = {label for label in labels.values() if label >= ALONE and not batch.joins(label)}
    return _matched(codes, older, partners, {code.document_id for code in codes if labels[code.document_id] in alone})


def _older(
    clusters: Clusters, codes: Sequence[AddedCode], pairs: Sequence[Found], first: int, start: Start, now: int
) -> dict[int, _Older]:
    """The fingerprints of codes and pairs below the id `first`."""
    fingerprint_ids = {code.fingerprint_id for code in codes}.union(row[1] for row in pairs)
    numbers = np.sort(np.fromiter((number for number in fingerprint_ids if number < first), np.int64))
    if not len(numbers):
        return {}
    before = {"numbers": clusters.store.db.carried(numbers), "now": now, "start_id": start[0], "start_part": start[1]}
    return {number: _Older(*row) for number, *row in clusters.store.rows(sql_text("older_codes"), before)}


def _matched(
    codes: Sequence[AddedCode], older: dict[int, _Older], partners: dict[int, list[int]], alone: set[int]
) -> tuple[set[int], set[int]]:
    """(positions of matched codes, positions of codes that the pairs found do not decide)."""
    first = _first_visible(codes)

    def matches(place: int, code: AddedCode, number: int) -> bool:
        """True if a visible document of another key had the fingerprint before this code."""
        if number in older and older[number].has_other_document(code.document_id):
            return True
        return any(other < place and document_id != code.document_id for other, document_id in first.get(number, ()))

    matched: set[int] = set()
    unsure: set[int] = set()
    for place, code in enumerate(codes):
        if code.document_id not in alone:
            like = code.fingerprint_id, *partners.get(code.fingerprint_id, ())
            is_known = any(matches(place, code, number) for number in like)
            (matched if is_known else unsure).add(place)
    return matched, unsure


def _first_visible(codes: Sequence[AddedCode]) -> dict[int, list[tuple[int, int]]]:
    """The first two visible documents of each fingerprint, as (position, document)."""
    first: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for place, code in enumerate(codes):
        documents = first[code.fingerprint_id]
        if code.is_visible and len(documents) < 2 and all(document_id != code.document_id for _, document_id in documents):
            documents.append((place, code.document_id))
    return first
