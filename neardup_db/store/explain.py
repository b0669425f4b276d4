"""Why a query answers as it does, and why two documents match."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from ..compute import shingles
from ..values import Key
from . import tables
from .documents import Found
from .search import Search
from .state import Sketch, Store


@dataclass(frozen=True, slots=True)
class Explanation:
    """How one query ran. Times are seconds.

    probes: ranges looked up in the candidate table; rows: rows met there; candidates: different fingerprints among them;
    verified: fingerprints that meet the rule; matches: visible documents that have them.
    """

    scheme: str
    plan: str
    table: str | None
    tokens: int | None
    probes: int
    rows: int
    candidates: int
    verified: int
    matches: int
    fingerprint_s: float
    candidates_s: float
    query_s: float

    def __str__(self) -> str:
        return (
            f"{self.scheme}, plan {self.plan}"
            + (f" over {self.table}" if self.table else "")
            + f": {self.probes} probes, {self.rows} rows, {self.candidates} candidates, {self.verified} verified, "
            f"{self.matches} matches; fingerprint {self.fingerprint_s * 1e6:.0f} us, "
            f"candidates {self.candidates_s * 1e6:.0f} us, query {self.query_s * 1e6:.0f} us"
        )


@dataclass(frozen=True, slots=True)
class MatchExplanation:
    """Why two documents match, or do not.

    met: (table number, key) of the candidate rows that they share; `shared`, `only_a`, `only_b` are their shingles where texts
    are stored, else None.
    """

    key_a: Key
    key_b: Key
    similarity: float
    distance: int | None
    is_match: bool
    met: tuple[tuple[Any, ...], ...]
    text_a: str | None = field(default=None, repr=False)
    text_b: str | None = field(default=None, repr=False)
    shared: tuple[str, ...] | None = None
    only_a: tuple[str, ...] | None = None
    only_b: tuple[str, ...] | None = None

    @property
    def jaccard(self) -> float | None:
        """Jaccard similarity of the two sets of shingles; None without stored texts."""
        if self.shared is None or self.only_a is None or self.only_b is None:
            return None
        union = len(self.shared) + len(self.only_a) + len(self.only_b)
        return len(self.shared) / union if union else 0.0


def explain_query(
    store: Store,
    search: Search,
    sketch: Sketch,
    group_id: int,
    now: int,
    fingerprint_s: float,
    threshold: float | None = None,
    measure: str | None = None,
) -> Explanation:
    """Run the steps of a query one by one and time them."""
    parameters = search.parameters(sketch, group_id, now, threshold, measure=measure)
    verify = search._verify(measure)
    table = None if verify.startswith("scan") else store.scheme.table
    probes = rows = candidates = verified = matches = 0
    candidates_s = query_s = 0.0
    if sketch.value is not None:
        asked = ":fingerprint" if measure is None else ":fingerprint, :threshold"
        start = time.perf_counter()
        if table is None:
            sql = "SELECT count(*) FROM {index}_fingerprint WHERE group_id = ?"
            rows = candidates = store.db.value(store.sql(sql), (group_id,))
        else:
            probes = store.db.rows(store.sql(f"SELECT count(*) FROM neardup_probe('{{index}}', {asked})"), parameters)[0][0]
            rows, candidates = store.db.rows(store.sql(tables.candidates_sql(table, asked)), parameters)[0]
        candidates_s = time.perf_counter() - start
        start = time.perf_counter()
        found = search.matches(sketch, group_id, now, threshold=threshold, measure=measure)
        query_s = time.perf_counter() - start
        matches = len(found)
        verified = len(store.db.rows(store.query_sql("verified", verify), parameters))
    name = str(store.settings["scheme"])
    return Explanation(
        scheme=name,
        plan=verify,
        table=f"{store.name}_{table}" if table else None,
        tokens=sketch.token_count,
        probes=probes,
        rows=rows,
        candidates=candidates,
        verified=verified,
        matches=matches,
        fingerprint_s=fingerprint_s,
        candidates_s=candidates_s,
        query_s=query_s,
    )


def explain_pair(store: Store, search: Search, key_a: Key, a: Found, key_b: Key, b: Found) -> MatchExplanation:
    """Compare two stored documents in every way that the file allows."""
    texts = (search.documents.text(a.id), search.documents.text(b.id))
    similarity, distance, is_match = 0.0, None, False
    met: tuple[tuple[Any, ...], ...] = ()
    if a.fingerprint_id is not None and b.fingerprint_id is not None:
        first, second = search.stored_sketch(a.id, a.fingerprint_id), search.stored_sketch(b.id, b.fingerprint_id)
        similarity, distance = store.scheme.compare(first.value or b"", second.value or b"", first.evidence, second.evidence)
        bound, radius = store.scheme.query_bounds(None, None)
        table = store.scheme.table
        if table is not None and a.group_id == b.group_id:
            parameters = {**search.parameters(first, a.group_id, 0), "other_id": b.fingerprint_id}
            met = tuple(store.db.rows(store.sql(tables.met_sql(table)), parameters))
        close = similarity >= bound and (distance is None or distance <= radius)
        is_match = close and a.group_id == b.group_id and (table is None or bool(met) or distance is not None)
    shared = only_a = only_b = None
    if texts[0] is not None and texts[1] is not None:
        sets = [dict.fromkeys(shingles(text, store.rules)) for text in texts if text is not None]
        shared = tuple(one for one in sets[0] if one in sets[1])
        only_a = tuple(one for one in sets[0] if one not in sets[1])
        only_b = tuple(one for one in sets[1] if one not in sets[0])
    return MatchExplanation(key_a, key_b, similarity, distance, is_match, met, texts[0], texts[1], shared, only_a, only_b)
