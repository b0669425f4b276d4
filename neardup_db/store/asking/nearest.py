"""The documents most similar to a text or a code, beyond the bound of the index too: by its tables where that will do, else by a
look at all."""

from __future__ import annotations

import sys
from typing import Any

from ...parameters import check_text
from ..layout import schema
from ..layout.candidates import MAX_ID
from ..layout.sketches import Sketch
from ..layout.state import Store
from .fingerprints import ACROSS_GROUPS
from .question import Question
from .search import Search

_LOOKED_UP = "neardup_candidates('{index}', :fingerprint, +:group_id{crowd}) AS c"
"""Where the verify_*.sql of sets take their candidates from."""

_EVERY = """(SELECT id AS fingerprint_id FROM {index}_fingerprint NOT INDEXED WHERE :group_id = 0 AND group_id = 0
    UNION ALL SELECT id FROM {index}_fingerprint WHERE :group_id <> 0 AND group_id = +:group_id
    UNION ALL SELECT id FROM {index}_fingerprint NOT INDEXED WHERE :group_id IS NULL) AS c"""
"""All fingerprints of the group, or where it is NULL of all groups; of an index without groups in the order of the table. Only
one of the parts runs."""

_MORE = 4
"""Times as many fingerprints are taken where those before had too few visible documents."""


def sketch_of(wanted: Any, store: Store) -> Sketch:
    """What is to be compared: a text or, where the scheme takes none or it cannot be one, a code."""
    scheme = store.scheme
    is_text = scheme.takes_text and (isinstance(wanted, (str, bytes)) or not scheme.takes_codes)
    return store.sketch_text(check_text(wanted, "wanted")) if is_text else store.sketch_code(wanted)


def nearest(search: Search, sketch: Sketch, group_id: int, now: int, n: int) -> list[tuple[Any, ...]]:
    """The n most similar visible documents as `Search.match_rows` gives them, ties in the order of insertion. Of sets those
    that have something in common. Inside `reading`. Raises ParameterError where stored values do not tell."""
    scheme = search.store.scheme
    scheme.require_order()
    if n == 0 or sketch.value is None:
        return []
    least = 0.0
    if scheme.plan != "scan":  # else the query looks at all, too
        rows = search.match_rows(sketch, group_id, now, Question(limit=n))
        least = rows[-1][1] if len(rows) == n else 0.0
        if least > 0.0 and scheme.finds_all:  # a similarity of codes that is 0.0 stands for several distances
            return rows
    parameters = {**search.parameters(sketch, group_id, now), "limit": n, "except_id": 0}
    if group_id == ACROSS_GROUPS:
        parameters["group_id"] = None
    return _of_codes(search, parameters, n) if scheme.takes_codes else _of_sets(search, parameters, least)


def _of_codes(search: Search, parameters: dict[str, Any], n: int) -> list[tuple[Any, ...]]:
    """The codes of the first table, which holds all, in as many passes as it takes to find n documents that are visible."""
    sql = search.store.sql(search.store.frame("nearest"))
    count_sql = search.store.sql("SELECT count(*) FROM neardup_nearest('{index}', :fingerprint, :group_id, :count)")
    count = n
    while True:
        given = {**parameters, "count": count}
        rows = search.rows(sql, given)
        if len(rows) == n or search.rows(count_sql, given)[0][0] < count:
            return rows
        count = min(_MORE * count, MAX_ID)


def _of_sets(search: Search, parameters: dict[str, Any], least: float) -> list[tuple[Any, ...]]:
    """The query by the rule of the index, with every fingerprint as a candidate and any similarity above 0, or from `least` on:
    as many as are wanted are known to have that."""
    verified = schema.sql_text(f"verify_{search.store.verification}").replace(_LOOKED_UP, _EVERY).replace("{crowd}", "")
    text = schema.sql_text("matches").replace("{verified}", verified).replace("{limit}", " LIMIT +:limit")
    return search.rows(search.store.sql(text), {**parameters, "threshold": max(least, sys.float_info.min)})
