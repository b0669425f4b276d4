"""Why a query answers as it does, and why two documents match."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from ..compute import shingles
from ..errors import ParameterError
from ..show.explanation import explanation_html, explanation_page
from ..show.style import fragment
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
    """Why two documents match, or do not. A notebook shows it as HTML, with the texts side by side.

    similarity, distance: as the scheme measures them on what is stored; jaccard: of the shingles, exactly. met: (table number,
    key) of the rows of `table` that both have, of the `probes` that a query for the first looks up; table is None where a query
    looks at every document. `text_a`, `text_b` are the texts, and `shared`, `only_a`, `only_b` their shingles, where texts are
    stored or were given, else None.
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
    scheme: str = ""
    table: str | None = None
    probes: int = 0

    @property
    def jaccard(self) -> float | None:
        """Jaccard similarity of the two sets of shingles; None without texts."""
        if self.shared is None or self.only_a is None or self.only_b is None:
            return None
        union = len(self.shared) + len(self.only_a) + len(self.only_b)
        return len(self.shared) / union if union else 0.0

    def html(self) -> str:
        """A whole HTML page that needs no other file: figures, where the two met, shingles, the texts side by side."""
        return explanation_page(self)

    def _repr_html_(self) -> str:
        return fragment(explanation_html(self))


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
        asked = f":fingerprint, {'NULL' if measure is None else ':threshold'}, :group_id"
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
        plan=str(store.settings["plan"]) if verify == "buckets" else verify,
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


def explain_pair(
    store: Store, search: Search, keys: tuple[Key, Key], found: tuple[Found, Found], given: tuple[str | None, str | None]
) -> MatchExplanation:
    """Compare two stored documents in every way that the file, and the texts `given`, allow."""
    a, b = found
    similarity, distance, is_match = 0.0, None, False
    table = store.scheme.table
    probes = 0
    met: tuple[tuple[Any, ...], ...] = ()
    if a.fingerprint_id is not None and b.fingerprint_id is not None:
        first, second = search.stored_sketch(a.id, a.fingerprint_id), search.stored_sketch(b.id, b.fingerprint_id)
        similarity, distance = store.scheme.compare(first.value or b"", second.value or b"", first.evidence, second.evidence)
        bound, radius = store.scheme.query_bounds(None, None)
        if table is not None:
            parameters = {**search.parameters(first, a.group_id, 0), "other_id": b.fingerprint_id}
            sql = "SELECT count(*) FROM neardup_probe('{index}', :fingerprint, NULL, :group_id)"
            probes = store.db.rows(store.sql(sql), parameters)[0][0]
            met = tuple(store.db.rows(store.sql(tables.met_sql(table)), parameters)) if a.group_id == b.group_id else ()
        close = similarity >= bound and (distance is None or distance <= radius)
        is_match = close and a.group_id == b.group_id and (table is None or bool(met) or distance is not None)
    texts = [_text(store, search, *one) for one in zip(("text_a", "text_b"), keys, found, given, strict=True)]
    shared = only_a = only_b = None
    if texts[0] is not None and texts[1] is not None and store.scheme.takes_text:
        sets = [dict.fromkeys(shingles(text, store.rules)) for text in texts if text is not None]
        shared = tuple(one for one in sets[0] if one in sets[1])
        only_a = tuple(one for one in sets[0] if one not in sets[1])
        only_b = tuple(one for one in sets[1] if one not in sets[0])
    return MatchExplanation(
        *keys,
        similarity=similarity,
        distance=distance,
        is_match=is_match,
        met=met,
        text_a=texts[0],
        text_b=texts[1],
        shared=shared,
        only_a=only_a,
        only_b=only_b,
        scheme=repr(store.scheme),
        table=table and f"{store.name}_{table}",
        probes=probes,
    )


def _text(store: Store, search: Search, name: str, key: Key, found: Found, given: str | None) -> str | None:
    """The stored text of a document, else the one given, if it has the stored fingerprint."""
    stored = search.documents.text(found.id)
    if given is None or not store.scheme.takes_text:
        return stored if given is None else given
    value = None if found.fingerprint_id is None else search.documents.value(found.fingerprint_id)
    if given != stored and store.sketch_texts([given], evidence=False).one(0).value != value:
        raise ParameterError(f"{name} is not the text of {key!r}: its fingerprint is not the stored one")
    return given
