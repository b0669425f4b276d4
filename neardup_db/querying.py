"""The methods of an index that search for one or many texts or codes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

from . import clock, limits
from .arrays import np
from .arrow import ArrowArray, ArrowStream, is_arrow, texts_of
from .errors import NearDupError, ParameterError
from .parameters import (
    Measure,
    Moment,
    check_asked_group,
    check_integer,
    check_many,
    check_since,
    check_text,
    check_texts,
    quoted,
)
from .schemes.base import Scheme
from .schemes.codes import Code
from .store.layout.sketches import Sketch, Sketches
from .store.layout.state import Store
from .store.query.documents import EVER
from .store.query.many import answers, pieces
from .store.query.nearest import nearest, sketch_of
from .store.query.search import QuerySpec
from .store.readers import StoreReader, StoreReaders
from .text import TextRules
from .values import AnyGroup, Count, Key, Match

Made = TypeVar("Made")


class QueryMethods:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._readers = StoreReaders(store)

    @property
    def connection(self) -> Any:
        """The underlying connection with the SQL functions loaded: an `apsw.Connection`, or your own. Raises ClosedError."""
        db = self._store.db
        db.require_open()
        if db.is_loading:  # records in hand are written first
            with db.lock():
                db.flush_pending()
        return db.caller_connection

    @property
    def scheme(self) -> Scheme:
        """The scheme with all parameters, as the file stores it now (for a closed index: stored it last)."""
        return self._current_store().scheme

    @property
    def text_rules(self) -> TextRules:
        """The text rules, as the file stores them now (for a closed index: stored them last)."""
        return self._current_store().rules

    def _current_store(self) -> Store:
        if self._store.db.is_closed:
            return self._store
        with self._readers.reading() as reader:
            return reader.store

    @property
    def name(self) -> str:
        """The prefix of the index's tables."""
        return self._store.name

    # ---- queries -----------------------------------------------------------------------------------------------------

    def query(
        self,
        text: str | bytes,
        *,
        threshold: float | None = None,
        max_distance: int | None = None,
        measure: Measure | None = None,
        limit: int | None = None,
        any: bool = False,
        group: Key | AnyGroup | None = None,
    ) -> list[Match]:
        """All near-duplicates of a text, best first; ties in insertion order.

        threshold, max_distance: stricter bounds than the index's, else ParameterError. limit: the most matches (None: all).
        any=True with a limit: any `limit` matches, best first, without searching the rest. group: the group to search; None for
        documents without a group, ANY_GROUP for all documents.

        measure="containment": documents that contain the text, however long they are. The similarity is the share of the text's
        shingles in the document, and `threshold` the minimum (0.8 by default). `MinHash(exact=True)` computes it for every
        document of the group, `BottomK(containment=True)` estimates it for candidates; `Passages` takes the share of tokens in
        common passages. Other schemes raise ParameterError.

        >>> from neardup_db import Index, MinHash
        >>> with Index(":memory:", MinHash(exact=True)) as index:
        ...     index.add("a1", "we heard that the quick brown fox jumps over the lazy dog every day")
        ...     index.query("We heard that the quick brown fox jumps over the lazy dog, every day!")
        ...     index.query("The quick brown fox jumps!")
        ...     index.query("The quick brown fox jumps!", measure="containment", threshold=0.9)
        []
        [Match(key='a1', similarity=1.0, distance=None)]
        []
        [Match(key='a1', similarity=1.0, distance=None)]
        """
        return self._run_query(_matches, QuerySpec(check_text(text), None, threshold, max_distance, measure, limit, any, group))

    def query_code(
        self,
        code: Code,
        *,
        threshold: float | None = None,
        max_distance: int | None = None,
        limit: int | None = None,
        any: bool = False,
        group: Key | AnyGroup | None = None,
    ) -> list[Match]:
        """`query` for a bit code, in an index of BinaryCode, SimHash or BitSampling. Other schemes raise ParameterError.

        >>> from neardup_db import BinaryCode, Index
        >>> with Index(":memory:", BinaryCode(bits=64, max_distance=3)) as index:
        ...     added = index.add_codes(["a", "b"], [0x0F, 0xFF00])
        ...     index.query_code(0x0E), index.query_code("ff00" + "0" * 12)
        ([Match(key='a', similarity=0.984375, distance=1)], [])
        """
        return self._run_query(_matches, QuerySpec(None, code, threshold, max_distance, None, limit, any, group))

    def query_many(
        self,
        texts: Iterable[str | bytes] | ArrowStream | ArrowArray,
        *,
        text: str | None = None,
        threshold: float | None = None,
        max_distance: int | None = None,
        measure: Measure | None = None,
        limit: int | None = None,
        any: bool = False,
        group: Key | AnyGroup | None = None,
    ) -> list[list[Match]]:
        """`query` for each of many texts, all in one state of the index. Returns a list of matches for each text.

        From a few dozen texts on, one join is several times as fast as single queries; two threads fingerprint above a thousand.

        texts: any iterable, an Arrow array of strings (pyarrow, pandas, polars), or a data frame with the column name in `text`.
        None and null are refused. Other arguments and errors as for `query`.

        >>> from neardup_db import Index, MinHash
        >>> with Index(":memory:", MinHash()) as index:
        ...     matches = index.add("a1", "the quick brown fox jumps over the lazy dog")
        ...     index.query_many(["The quick brown fox jumps over the lazy dog!", "nothing of the kind"])
        [[Match(key='a1', similarity=1.0, distance=None)], []]
        """
        checked = _texts(texts, text)
        question = QuerySpec(None, None, threshold, max_distance, measure, limit, any, group)
        ready = self._sketched(partial(_few_sketched, checked))
        with self._readers.reading() as reader:
            store = reader.store
            if ready is not None and ready.epoch == store.epoch:
                return _answers(reader, question, [ready])
            beside = len(checked) >= limits.WORTH_THREADS and not store.rules.custom
            sketches = pieces(len(checked), lambda first, end: store.sketcher.texts(checked[first:end]), beside)
            return _answers(reader, question, sketches)

    def query_codes(
        self,
        codes: Iterable[Code],
        *,
        threshold: float | None = None,
        max_distance: int | None = None,
        limit: int | None = None,
        any: bool = False,
        group: Key | AnyGroup | None = None,
    ) -> list[list[Match]]:
        """`query_code` for each of many codes, all in one state of the index. Returns a list of matches for each code.

        codes: as for `add_codes`: a list of bytes, ints or hex digits, `uint64[n]` for 64 bits, or `uint8[n, bits // 8]`. From a
        few dozen codes on, one join finds all matches. Raises ParameterError as `query_code`.

        >>> from neardup_db import BinaryCode, Index
        >>> with Index(":memory:", BinaryCode(bits=64, max_distance=3)) as index:
        ...     added = index.add_codes(["a", "b"], [0x0F, 0xFF00])
        ...     index.query_codes([0x0E, 0xFFFFFF])
        [[Match(key='a', similarity=0.984375, distance=1)], []]
        """
        check_many("codes", codes)
        given = codes if isinstance(codes, np.ndarray) else list(codes)
        question = QuerySpec(None, None, threshold, max_distance, None, limit, any, group)
        with self._readers.reading() as reader:
            store = reader.store
            rows: Any = store.scheme.code_rows(given)
            make = partial(store.sketcher.codes, rows)
            return _answers(reader, question, pieces(len(rows), make, False))

    def nearest(self, wanted: Code, n: int, *, group: Key | AnyGroup | None = None) -> list[Match]:
        """The `n` documents most similar to a text or code, best first, also beyond the index's rule; ties in insertion order.

        wanted: a text, or a code. str and bytes are codes only in a `BinaryCode` index; elsewhere use `nearest_code`. The result
        is exact. If `n` documents match by the index's rule, codes and `BottomK` cost one query. Otherwise all fingerprints are
        read: tens of milliseconds for a million codes, seconds for a million texts (`MinHash(exact=True)`, `BottomK`). Texts
        without a common shingle are left out. Raises ParameterError for `MinHash()`: its estimates cannot rank all texts.

        >>> from neardup_db import BinaryCode, Index
        >>> with Index(":memory:", BinaryCode(bits=64, max_distance=3)) as index:
        ...     added = index.add_codes(["a", "b", "c"], [0x0F, 0xFF00, 2**64 - 1])
        ...     index.nearest(0x0E, 2)
        [Match(key='a', similarity=0.984375, distance=1), Match(key='b', similarity=0.828125, distance=11)]
        """
        return self._nearest(partial(sketch_of, wanted), n, group)

    def nearest_code(self, code: Code, n: int, *, group: Key | AnyGroup | None = None) -> list[Match]:
        """`nearest` for a code, also in hexadecimal digits or bytes, in any index of codes.

        >>> from neardup_db import BinaryCode, Index
        >>> with Index(":memory:", BinaryCode(bits=64, max_distance=3)) as index:
        ...     added = index.add_codes(["a", "b"], [0x0F, 0xFF00])
        ...     index.nearest_code("000000000000ff0f", 2)
        [Match(key='b', similarity=0.9375, distance=4), Match(key='a', similarity=0.875, distance=8)]
        """
        return self._nearest(QuerySpec(code=code).sketch, n, group)

    def _nearest(self, make: Callable[[Store], Sketch], n: int, group: Key | AnyGroup | None) -> list[Match]:
        n, group = check_integer("n", n), check_asked_group(group)
        sketch = self._sketched(make)
        with self._readers.reading() as reader:
            if sketch.epoch != reader.store.epoch:
                sketch = make(reader.store)
            rows = nearest(reader.search, sketch, reader.documents.group_id(group), clock.now_ms(), n)
            return reader.search.build_matches(rows)

    def _run_query(self, ask: Callable[..., Made], question: QuerySpec, *more: Any) -> Made:
        sketch = self._sketched(question.sketch)
        guard, reader = self._readers.acquire()
        with guard:
            if question.group is None:
                return reader.store.without_transaction(_answer, reader, sketch, question, ask, *more)
            with reader.store.reading():  # its number is another statement, which has to see the same state
                return _answer(reader, sketch, question, ask, *more)

    def _sketched(self, make: Callable[[Store], Made]) -> Made:
        """The result of `make` with the known settings or, if these refuse it, with the current settings of the file."""
        try:
            return make(self._store)
        except NearDupError:
            return make(self._current_store())

    def count(
        self,
        text: str | bytes,
        *,
        since: Moment | timedelta | None = None,
        threshold: float | None = None,
        max_distance: int | None = None,
        measure: Measure | None = None,
        group: Key | AnyGroup | None = None,
    ) -> Count:
        """The number of documents that `query` would return, with their times, without listing them.

        since: only documents added since an aware datetime, Unix seconds, or a timedelta before now. Others: as for `query`.

        >>> from datetime import timedelta
        >>> from neardup_db import Index, MinHash
        >>> with Index(":memory:", MinHash(threshold=0.5)) as index:
        ...     for key in range(3):
        ...         matches = index.add(key, f"cheap watches for sale here today, offer number {key}")
        ...     found = index.count("Cheap watches for sale here today! Offer number 9", since=timedelta(hours=1))
        >>> found.count, found.times_seen, found.first_added_at <= found.last_added_at
        (3, 3, True)
        """
        return self._count(QuerySpec(check_text(text), None, threshold, max_distance, measure, group=group), since)

    def count_code(
        self,
        code: Code,
        *,
        since: Moment | timedelta | None = None,
        threshold: float | None = None,
        max_distance: int | None = None,
        group: Key | AnyGroup | None = None,
    ) -> Count:
        """`count` for a bit code.

        >>> from neardup_db import BinaryCode, Index
        >>> with Index(":memory:", BinaryCode(bits=64, max_distance=3)) as index:
        ...     added = index.add_codes(["a", "b"], [0x0F, 0xFF00])
        ...     index.count_code(0x0E).count
        1
        """
        return self._count(QuerySpec(None, code, threshold, max_distance, group=group), since)

    def _count(self, question: QuerySpec, since: Any) -> Count:
        after = check_since(since)
        return self._run_query(_counted, question, EVER if after is None else after)

    def matches(
        self,
        key: Key,
        *,
        threshold: float | None = None,
        measure: Measure | None = None,
        limit: int | None = None,
        group: AnyGroup | None = None,
    ) -> list[Match]:
        """The near-duplicates of a stored document, except dismissed ones (`Index.dismiss`). Raises KeyNotFoundError.

        threshold, measure: as for `query`. group: None for the document's group, or ANY_GROUP.

        >>> from neardup_db import Index, MinHash
        >>> with Index(":memory:", MinHash()) as index:
        ...     for key in ("a1", "a2"):
        ...         matches = index.add(key, "the quick brown fox jumps over the lazy dog")
        ...     index.matches("a1")
        [Match(key='a2', similarity=1.0, distance=None)]
        """
        if group is not None and not isinstance(group, AnyGroup):
            raise ParameterError(f"group={quoted(group)}: give ANY_GROUP, or None for the group of the document")
        question = QuerySpec(threshold=threshold, measure=measure, limit=limit, group=group)
        guard, reader = self._readers.acquire()
        with guard:
            if group is None:
                return reader.store.without_transaction(_matches_of, reader, key, question)
            with reader.store.reading():
                return _matches_of(reader, key, question)


def _answer(reader: StoreReader, sketch: Sketch, question: QuerySpec, ask: Callable[..., Made], *more: Any) -> Made:
    """The result of `ask`. The sketch is computed again if the settings changed."""
    if sketch.epoch != reader.store.epoch:
        sketch = question.sketch(reader.store)
    return ask(reader, sketch, question, *more)


def _counted(reader: StoreReader, sketch: Sketch, question: QuerySpec, since: int) -> Count:
    group_id = reader.documents.group_id(question.group)
    count, times_seen, *times = reader.search.count(sketch, group_id, clock.now_ms(), question, since)
    return Count(count, times_seen, *(None if time is None else time / 1000 for time in times))


def _matches(reader: StoreReader, sketch: Sketch, question: QuerySpec) -> list[Match]:
    group_id = 0 if question.group is None else reader.documents.group_id(question.group)
    rows = reader.search.match_rows(sketch, group_id, clock.now_ms(), question)
    if question.any:  # the ones found first, in the order of every answer
        rows.sort(key=lambda row: (-row[1], row[3]))
    return reader.search.build_matches(rows)


def _texts(texts: Any, column: str | None) -> Sequence[str | bytes]:
    if is_arrow(texts):
        return texts_of("texts", texts, column, "say which holds the texts, as in query_many(table, text='body')")
    given = check_many("texts", texts, "give a list of texts, or an array or table that Arrow reads")
    if column is not None:
        raise ParameterError(f"text={quoted(column)} names a column of a data frame, and texts is none: leave text= out")
    return check_texts("texts", given)


def _few_sketched(texts: Sequence[str | bytes], store: Store) -> Sketches | None:
    """The sketches of few texts, and of all under custom functions, before the transaction; None if they come in pieces."""
    few = len(texts) <= limits.ASKED_PART or store.rules.custom
    return store.sketcher.texts(texts) if few else None


def _answers(reader: StoreReader, question: QuerySpec, pieces: Iterable[Sketches]) -> list[list[Match]]:
    group_id, now = reader.documents.group_id(question.group), clock.now_ms()
    one = partial(_matches, reader, question=question)
    found: list[list[Match]] = []
    for sketches in pieces:
        found += answers(reader.search, sketches, question, group_id, now, one)
    return found


def _matches_of(reader: StoreReader, key: Key, question: QuerySpec) -> list[Match]:
    now = clock.now_ms()
    with reader.documents.row_and_value(key, now) as (found, value):
        if value is None:
            return []
        sketch = reader.search.sketch_of(value)
        group_id = found.group_id if question.group is None else reader.documents.group_id(question.group)
        rows = reader.search.matches_of(found.id, sketch, group_id, now, question)
        return [row.match for row in rows]
