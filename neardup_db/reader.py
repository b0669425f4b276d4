"""What can be asked of an index, in one state of its file."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import apsw

from . import limits
from . import records as checks
from .errors import MismatchError, NearDupError, ParameterError
from .schemes.base import Scheme
from .store import statistics
from .store.explain import Explanation, MatchExplanation, explain_pair, explain_query
from .store.joins import Joins, ranges, ranges_with, set_blocks
from .store.state import Basis, Sketch, Store
from .store.views import View, Views
from .text import TextRules
from .values import Cluster, Document, Key, Match, Pair, Stats

Made = TypeVar("Made")


class Reader:
    """The questions; `Index` adds everything that writes."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._views = Views(store)

    @property
    def connection(self) -> apsw.Connection:
        """The connection below, with the SQL functions loaded. Raises ClosedError."""
        db = self._store.db
        db.require_open()
        if db.is_attended:  # records in hand are written first
            with db.hold():
                db.settle()
        return db.connection

    @property
    def scheme(self) -> Scheme:
        """The scheme, complete with what was chosen for it, as the file has it now; of a closed index as it had it last."""
        return self._looked_at().scheme

    @property
    def text_rules(self) -> TextRules:
        """The text rules, as the file has them now; of a closed index as it had them last."""
        return self._looked_at().rules

    def _looked_at(self) -> Store:
        """What is known of the file, after a look at it."""
        if self._store.db.is_closed:
            return self._store
        with self._views.reading() as view:
            return view.store

    @property
    def name(self) -> str:
        """The name that the index's tables begin with."""
        return self._store.name

    # ---- asking ------------------------------------------------------------------------------------------------------

    def query(
        self,
        text: str | bytes,
        *,
        threshold: float | None = None,
        max_distance: int | None = None,
        measure: str | None = None,
        limit: int | None = None,
        any: bool = False,
        group: Key | None = None,
    ) -> list[Match]:
        """Documents that are near-duplicates of a text, best first; ties in the order of insertion.

        threshold, max_distance: stricter than the index's own, else ParameterError. any=True with a limit: any `limit` matches,
        best first, without looking at the rest.

        measure="containment": documents that contain the text, however long they are. Similarity is then the share of the text's
        shingles that are in the document, and threshold the least share, above 0 and at most 1, 0.8 unless given. An index of
        `MinHash(exact=True)` computes it for every document of the group; one of `BottomK(containment=True)` looks up and
        estimates it, see there. Others raise ParameterError.

        >>> from neardup_db import Index, MinHash
        >>> with Index(":memory:", MinHash(exact=True)) as index:
        ...     index.add("a1", "we heard that the quick brown fox jumps over the lazy dog every day")
        ...     index.query("The quick brown fox jumps!", measure="containment", threshold=0.9)
        []
        [Match(key='a1', similarity=1.0, distance=None)]
        """
        return self._query(lambda store: sketch_of(store, text), threshold, max_distance, limit, any, group, measure)

    def query_code(
        self,
        code: Any,
        *,
        threshold: float | None = None,
        max_distance: int | None = None,
        limit: int | None = None,
        any: bool = False,
        group: Key | None = None,
    ) -> list[Match]:
        """`query` for a code of bits."""
        return self._query(lambda store: store.sketch_code(code), threshold, max_distance, limit, any, group)

    def query_many(
        self,
        texts: Iterable[str | bytes],
        *,
        threshold: float | None = None,
        max_distance: int | None = None,
        measure: str | None = None,
        limit: int | None = None,
        any: bool = False,
        group: Key | None = None,
    ) -> list[list[Match]]:
        """`query` for each of many texts, all in one consistent state; one list of matches each."""
        checked = [checks.check_text(text) for text in checks.check_many("texts", texts)]
        sketches = self._sketched(lambda store: store.sketch_texts(checked, evidence=True))
        with self._views.reading() as view:
            if sketches.epoch != view.store.epoch:
                sketches = view.store.sketch_texts(checked, evidence=True)
            each = map(sketches.one, range(len(checked)))
            return [_matches(view, sketch, threshold, max_distance, limit, any, group, measure) for sketch in each]

    def _query(
        self,
        make: Callable[[Store], Sketch],
        threshold: float | None,
        max_distance: int | None,
        limit: int | None,
        first: bool,
        group: Key | None,
        measure: str | None = None,
    ) -> list[Match]:
        sketch = self._sketched(make)
        loan, view = self._views.take()
        store = view.store

        def ask() -> list[Match]:
            nonlocal sketch
            if sketch.epoch != store.epoch:
                sketch = make(store)
            return _matches(view, sketch, threshold, max_distance, limit, first, group, measure)

        with loan:
            if group is None:
                return store.at_once(ask)
            with store.reading():  # its number is another statement, which has to see the same state
                return ask()

    def _sketched(self, make: Callable[[Store], Made]) -> Made:
        """What `make` makes with the settings at hand; where these refuse it, with those that the file has now."""
        try:
            return make(self._store)
        except NearDupError:
            return make(self._looked_at())

    def matches(
        self, key: Key, *, threshold: float | None = None, measure: str | None = None, limit: int | None = None
    ) -> list[Match]:
        """Near-duplicates of a stored document, by its stored fingerprint, without itself. Raises KeyNotFoundError.

        threshold, measure: as of `query`.
        """
        checks.check_measure(measure)
        loan, view = self._views.take()
        with loan:
            return view.store.at_once(lambda: _matches_of(view, key, threshold, measure, limit))

    def pairs(self, threshold: float | Reader | None = None, other: Reader | None = None) -> Iterator[Pair]:
        """All pairs of near-duplicates, lazily; `key_a` is the earlier document.

        `pairs(other)`, or `pairs(threshold, other)`: all pairs of a document of this index and one of another, whose key is
        `key_b`, in groups of the same name; both must have the same scheme and text rules, else ParameterError.

        The candidate table is joined with itself, or with the other's fingerprints, a range of documents at a time; each range
        sees one state of the index.
        """
        if isinstance(threshold, Reader):
            threshold, other = None, threshold
        begun = self._begin_pairs(threshold, other)
        return self._pairs(begun, threshold, other)

    def _begin_pairs(self, threshold: float | None, other: Reader | None) -> tuple[Basis, Basis | None]:
        """What the index is, and the other one, now: the file is looked at first. ParameterError for what cannot be asked."""
        with self._views.reading() as view:
            mine = view.store.basis
            mine.scheme.query_bounds(threshold, None)
        if other is None:
            return mine, None
        with other._views.reading() as view:
            theirs = view.store.basis
        _require_alike(mine, theirs)
        return mine, theirs

    def _pairs(self, begun: tuple[Basis, Basis | None], threshold: float | None, other: Reader | None) -> Iterator[Pair]:
        """The pairs; from the beginning where the index is rebuilt before there was one."""
        listed = False
        while True:
            try:
                for pairs in self._parts(*begun, threshold, other):
                    for one in pairs.documents():
                        listed = True
                        yield Pair(one.a.key, one.b.key, one.similarity, one.distance)
                return
            except MismatchError:
                if listed or (now := self._begin_pairs(threshold, other)) == begun:
                    raise
                begun = now

    def _parts(self, mine: Basis, theirs: Basis | None, threshold: float | None, other: Reader | None) -> Iterator[Any]:
        joins = partial(self._joins, mine)
        if other is not None and theirs is not None:
            return ranges_with(joins, partial(other._joins, theirs), threshold, checks.now_ms)
        return (set_blocks if mine.scheme.is_set else ranges)(joins, threshold, checks.now_ms)

    @contextmanager
    def _joins(self, begun: Basis) -> Iterator[Joins]:
        """Joins, in one state of the file; of a listing that was begun when the index was `begun`."""
        with self._views.reading() as view:
            if view.store.epoch != begun.epoch:
                raise MismatchError(
                    f"index {self.name!r} was rebuilt while its pairs were listed, and pairs of before and after do not go "
                    "together: begin again with pairs()"
                )
            yield view.joins

    def clusters(self, min_size: int = 2) -> list[Cluster]:
        """Connected components of the graph of pairs, largest first; without `record_matches` they are computed now."""
        min_size = checks.check_count("min_size", min_size, 1)
        with self._views.reading() as view:
            return view.clusters.listing(min_size, checks.now_ms())

    # ---- single documents --------------------------------------------------------------------------------------------

    def get(self, key: Key) -> Document:
        """A stored document. Raises KeyNotFoundError."""
        with self._views.reading() as view:
            return view.documents.read(view.found(key, checks.now_ms()).id)

    def get_many(self, keys: Iterable[Key]) -> list[Document | None]:
        """Stored documents in the order of the keys; None for a key that is not there."""
        checked = [checks.check_key(key) for key in checks.check_many("keys", keys)]
        with self._views.reading() as view:
            now = checks.now_ms()
            found = [view.documents.visible(key, now) for key in checked]
            return [None if one is None else view.documents.read(one.id) for one in found]

    def __contains__(self, key: object) -> bool:
        with self._views.reading() as view:
            return view.documents.visible(checks.check_key(key), checks.now_ms()) is not None

    def __len__(self) -> int:
        with self._views.reading() as view:
            return view.documents.count(checks.now_ms())

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[Key]:
        """Keys in the order of insertion."""
        self._store.db.require_open()
        return self._keys()

    def _keys(self) -> Iterator[Key]:
        after = 0
        while True:
            with self._views.reading() as view:
                page = view.documents.page(after, checks.now_ms(), limits.LISTED_PAGE)
            if not page:
                return
            yield from [row[1] for row in page]
            after = page[-1][0]

    # ---- why, and how much ----------------------------------------------------------------------------------------------

    def explain(
        self, text: str | bytes, *, threshold: float | None = None, measure: str | None = None, group: Key | None = None
    ) -> Explanation:
        """How a query for this text runs: plan, probes, candidates, verified, matches, and the time of each step.

        threshold, measure: as of `query`.
        """
        checks.check_measure(measure)
        start = time.perf_counter()
        sketch = self._sketched(lambda store: sketch_of(store, text))
        fingerprint_s = time.perf_counter() - start
        with self._views.reading() as view:
            if sketch.epoch != view.store.epoch:
                sketch = sketch_of(view.store, text)
            group_id = view.documents.group_id(checks.check_group(group))
            now = checks.now_ms()
            return explain_query(view.store, view.search, sketch, group_id, now, fingerprint_s, threshold, measure)

    def explain_match(
        self, key_a: Key, key_b: Key, *, text_a: str | bytes | None = None, text_b: str | bytes | None = None
    ) -> MatchExplanation:
        """Why two stored documents match, or do not: similarity as stored and exactly, where they met, what their texts share.

        text_a, text_b: their texts, where the index does not store them; one with another fingerprint than the document's is a
        ParameterError. Raises KeyNotFoundError. The result's `html()` is a page with the texts side by side.

        >>> from neardup_db import Index, MinHash
        >>> with Index(":memory:", MinHash(threshold=0.5), store_text=True) as index:
        ...     matches = index.add("a", "one two three four five"), index.add("b", "one two three four six")
        ...     found = index.explain_match("a", "b")
        >>> found.jaccard, found.only_a, found.only_b
        (0.5, ('three four five',), ('three four six',))
        """
        given = _storable(text_a), _storable(text_b)
        with self._views.reading() as view:
            now = checks.now_ms()
            found = view.found(key_a, now), view.found(key_b, now)
            return explain_pair(view.store, view.search, (key_a, key_b), found, given)

    def stats(self) -> Stats:
        """Counts, sizes in bytes, settings, versions and the tier of CPU instructions in use."""
        with self._views.reading() as view:
            now = checks.now_ms()
            figures = statistics.collect(view.store, now)
            if figures["expired"] and view.store.record_matches:  # labels do not tell what only these connected
                figures["clusters"] = len(view.clusters.listing(2, now))
            return figures


def _require_alike(mine: Basis, theirs: Basis) -> None:
    """ParameterError where the fingerprints of two indexes cannot be compared."""
    if mine.scheme.reads_values_of(theirs.scheme) and mine.rules.settings() == theirs.rules.settings():
        return
    raise ParameterError(
        f"the other index has {theirs.scheme!r} under {theirs.rules!r}, this one {mine.scheme!r} under {mine.rules!r}: their "
        "fingerprints cannot be compared; rebuild() one of them like the other"
    )


def sketch_of(store: Store, text: str | bytes) -> Sketch:
    """What is asked for, or stored, when a text is given."""
    return store.sketch_texts([checks.check_text(text)], evidence=True).one(0)


def _storable(text: str | bytes | None) -> str | None:
    return None if text is None else checks.storable(checks.check_text(text))


def _matches(
    view: View,
    sketch: Sketch,
    threshold: float | None,
    max_distance: int | None,
    limit: int | None,
    first: bool,
    group: Key | None,
    measure: str | None,
) -> list[Match]:
    if limit is not None:
        limit = checks.check_count("limit", limit)
    checks.check_measure(measure)
    group_id = view.documents.group_id(checks.check_group(group))
    now = checks.now_ms()
    rows = view.search.matches(
        sketch,
        group_id,
        now,
        threshold=threshold,
        max_distance=max_distance,
        measure=measure,
        limit=limit,
        first=bool(first),
    )
    if first:  # the ones found first, in the order of every answer
        rows.sort(key=lambda row: (-row.similarity, row.id))
    return [row.match for row in rows]


def _matches_of(view: View, key: Key, threshold: float | None, measure: str | None, limit: int | None) -> list[Match]:
    now = checks.now_ms()
    with view.held(key, now) as (found, value):
        if limit is not None:
            limit = checks.check_count("limit", limit)
        if value is None:
            return []
        sketch = view.search.sketch_with(found.id, value)
        rows = view.search.matches(
            sketch, found.group_id, now, threshold=threshold, measure=measure, limit=limit, except_id=found.id
        )
        return [row.match for row in rows]
