"""Explains queries and pairs."""

from __future__ import annotations

import json
import time
from typing import Any

from ...compute import shingles
from ...errors import ParameterError
from ...values import Explanation, Key, MatchExplanation
from ..layout.sketches import Sketch
from .documents import DocumentRow
from .passages import passages_of_documents
from .search import QuerySpec, Search


def explain_query(
    search: Search, spec: QuerySpec, sketch: Sketch, group_id: int, now: int, fingerprint_s: float
) -> Explanation:
    store = search.store
    parameters = search.parameters(sketch, group_id, now, spec)
    parameters["share"] = None if spec.measure is None else parameters["threshold"]
    verify = search._verify(spec.measure)
    reads_all = verify.startswith("scan")
    probes = rows = distinct = verified = matches = 0
    candidates_s = query_s = 0.0
    if sketch.value is not None:
        start = time.perf_counter()
        if reads_all:
            rows = distinct = store.value("SELECT count(*) FROM {index}_fingerprint WHERE group_id = ?", (group_id,))
        else:
            probes = store.table.probes(parameters)
            rows, distinct = store.table.candidates(parameters)
        candidates_s = time.perf_counter() - start
        start = time.perf_counter()
        matched = search.matches(sketch, group_id, now, spec)
        query_s = time.perf_counter() - start
        matches = len(matched)
        sql = "SELECT count(DISTINCT fingerprint_id) FROM {index}_document WHERE id IN (SELECT value FROM json_each(?))"
        verified = store.value(sql, (json.dumps([row.id for row in matched]),))
    return Explanation(
        scheme=str(store.settings["scheme"]),
        plan=str(store.settings["plan"]) if verify == "buckets" else verify,
        table=f"{store.name}_fingerprint" if reads_all else store.table.name,
        tokens=sketch.token_count,
        probes=probes,
        rows=rows,
        candidates=distinct,
        verified=verified,
        matches=matches,
        fingerprint_s=fingerprint_s,
        candidates_s=candidates_s,
        query_s=query_s,
    )


def explain_pair(
    search: Search,
    keys: tuple[Key, Key],
    documents: tuple[DocumentRow, DocumentRow],
    given: tuple[str | None, str | None],
    now: int,
) -> MatchExplanation:
    """Compare two stored documents by their fingerprints, candidate rows and texts; `given`: texts that are not stored."""
    store = search.store
    a, b = (one._replace(fingerprint_id=number) for one, number in zip(documents, search.closest(*documents), strict=True))
    similarity, distance, is_match = 0.0, None, False
    probes = 0
    met: tuple[tuple[Any, ...], ...] = ()
    allowed = any(search.documents.exempt_value(one.id) is not None for one in documents)
    if allowed:
        similarity, distance = search.compared(*(search.sketch_of(search.documents.value_of(one)) for one in (a, b)))
    if a.fingerprint_id is not None and b.fingerprint_id is not None:
        first, second = search.stored_sketch(a.fingerprint_id), search.stored_sketch(b.fingerprint_id)
        similarity, distance = search.compared(first, second)
        bound, radius = store.scheme.query_bounds(None, None)
        parameters = {**search.parameters(first, a.group_id, 0), "share": None, "other_id": b.fingerprint_id}
        probes = store.table.probes(parameters)
        if a.group_id == b.group_id:
            met = store.table.shared_rows(parameters)
        is_match = bool(met) and similarity >= bound and (distance is None or distance <= radius)
    dismissed = store.dismisses and search.dismissed.is_dismissed(a.id, b.id)
    texts = [_text(search, *side) for side in zip(("text_a", "text_b"), keys, documents, given, strict=True)]
    shared = only_a = only_b = None
    if texts[0] is not None and texts[1] is not None and store.scheme.takes_text:
        sets = [dict.fromkeys(shingles(text, store.rules)) for text in texts if text is not None]
        shared = tuple(shingle for shingle in sets[0] if shingle in sets[1])
        only_a = tuple(shingle for shingle in sets[0] if shingle not in sets[1])
        only_b = tuple(shingle for shingle in sets[1] if shingle not in sets[0])
    has_places = store.scheme.name == "passages" and store.store_text and not store.rules.custom
    return MatchExplanation(
        *keys,
        similarity=similarity,
        distance=distance,
        is_match=is_match and not dismissed,
        met=met,
        text_a=texts[0],
        text_b=texts[1],
        shared=shared,
        only_a=only_a,
        only_b=only_b,
        scheme=repr(store.scheme),
        table=store.table.name,
        probes=probes,
        dismissed=dismissed,
        connected_by=_shortest_path(search, a, b, now) if dismissed else None,
        allowed=allowed,
        passages=tuple(passages_of_documents(search, a, b, None)) if has_places else None,
    )


def _shortest_path(search: Search, a: DocumentRow, b: DocumentRow, now: int) -> tuple[Key, ...] | None:
    """The keys on a shortest path of matching visible documents, or None. A path through one document costs two queries."""
    last = {row.id for row in search.stored_matches(b.id, now)}
    paths: dict[int, tuple[Key, ...]] = {a.id: ()}
    queue = [a.id]
    for document_id in queue:  # it grows
        for row in search.stored_matches(document_id, now):
            if row.id not in paths:
                paths[row.id] = (*paths[document_id], row.key)
                if row.id in last:
                    return paths[row.id]
                queue.append(row.id)
    return None


def _text(search: Search, name: str, key: Key, documents: DocumentRow, given: str | None) -> str | None:
    """The stored text of a document, else the given one. Raises ParameterError if its fingerprint is not the stored one."""
    store, stored = search.store, search.documents.text(documents.id)
    if given is None or not store.scheme.takes_text:
        return stored if given is None else given
    if given != stored and store.scheme.values([given], store.rules).split()[0] != search.documents.value_of(documents):
        raise ParameterError(f"{name} is not the text of {key!r}: its fingerprint is not the stored one")
    return given
