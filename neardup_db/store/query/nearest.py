"""The documents most similar to a text or code, also below the threshold: by the candidate table if it suffices, or a scan."""

from __future__ import annotations

import sys
from typing import Any

from ...parameters import check_text
from ..layout.candidates import MAX_ID
from ..layout.sketches import Sketch
from ..layout.state import Store
from .fingerprints import ACROSS_GROUPS
from .search import QuerySpec, Search

_EVERY = """(SELECT id AS fingerprint_id FROM {index}_fingerprint NOT INDEXED WHERE :group_id = 0 AND group_id = 0
    UNION ALL SELECT id FROM {index}_fingerprint WHERE :group_id <> 0 AND group_id = +:group_id
    UNION ALL SELECT id FROM {index}_fingerprint NOT INDEXED WHERE :group_id IS NULL)"""
"""All fingerprints of the group, or of all groups if :group_id is NULL, in table order where possible. Only one branch runs."""

_MORE = 4  # growth factor for the number of fingerprints if too few of their documents were visible


def sketch_of(wanted: Any, store: Store) -> Sketch:
    """The sketch of a text, or of a code if the scheme takes no texts or the value is none."""
    scheme = store.scheme
    is_text = scheme.takes_text and (isinstance(wanted, (str, bytes)) or not scheme.takes_codes)
    return store.sketcher.text(check_text(wanted, "wanted")) if is_text else store.sketcher.code(wanted)


def nearest(search: Search, sketch: Sketch, group_id: int, now: int, n: int) -> list[tuple[Any, ...]]:
    """The n most similar visible documents as rows of `Search.match_rows`, ties in insertion order; of set schemes only those
    with a similarity above 0. Runs inside `reading`. Raises ParameterError if stored values cannot be ranked."""
    scheme = search.store.scheme
    scheme.require_order()
    if n == 0 or sketch.value is None:
        return []
    least = 0.0
    if scheme.plan != "scan":  # the scan plan reads all fingerprints anyway
        rows = search.match_rows(sketch, group_id, now, QuerySpec(limit=n))
        least = rows[-1][1] if len(rows) == n else 0.0
        if least > 0.0 and scheme.finds_all:  # a code similarity of 0.0 covers several distances
            return rows
    parameters = {**search.parameters(sketch, group_id, now), "limit": n, "except_id": 0}
    if group_id == ACROSS_GROUPS:
        parameters["group_id"] = None
    return _of_codes(search, parameters, n) if scheme.takes_codes else _of_sets(search, parameters, least)


def _of_codes(search: Search, parameters: dict[str, Any], n: int) -> list[tuple[Any, ...]]:
    sql = search.store.frame("nearest")
    count_sql = "SELECT count(*) FROM neardup_nearest('{index}', :fingerprint, :group_id, :count)"
    count = n
    while True:
        values = {**parameters, "count": count}
        rows = search.rows(sql, values)
        if len(rows) == n or search.rows(count_sql, values)[0][0] < count:
            return rows
        count = min(_MORE * count, MAX_ID)


def _of_sets(search: Search, parameters: dict[str, Any], least: float) -> list[tuple[Any, ...]]:
    """The query with every fingerprint as a candidate and the lowest threshold. least: a similarity that `n` documents have."""
    query = search.store.query("matches", search.store.verification, limit=" LIMIT +:limit", source=_EVERY)
    return search.answer(query, {**parameters, "threshold": max(least, sys.float_info.min)})
