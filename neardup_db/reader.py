"""The read-only interface of an index. Each result comes from one state of the file."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from . import clock, limits
from .arrays import Array
from .errors import MismatchError, ParameterError
from .parameters import (
    Measure,
    check_asked_group,
    check_group,
    check_integer,
    check_key,
    check_many,
    check_measure,
    check_text,
    quoted,
    storable,
)
from .passage_methods import PassageMethods
from .store.layout.sketcher import Sketcher
from .store.layout.sketches import Sketch
from .store.query import statistics
from .store.query.explain import explain_pair, explain_query
from .store.query.joins import Joins, containers, ranges, ranges_with, set_blocks
from .store.query.many import duplicates
from .store.query.search import QuerySpec
from .store.readers import StoreReader
from .store.transfer.exporting import export
from .values import ANY_GROUP, AllowedText, AnyGroup, Cluster, Document, Explanation, Key, MatchExplanation, Pair, Stats


class Reader(PassageMethods):
    """The reading methods; `Index` adds the writing ones."""

    # ---- pairs and clusters ------------------------------------------------------------------------------------------

    def pairs(
        self, threshold: float | None = None, *, measure: Measure | None = None, group: Key | AnyGroup | None = ANY_GROUP
    ) -> Iterator[Pair]:
        """An iterator over all pairs of near-duplicates except dismissed ones; `key_a` is the earlier document. Pairs are within
        a group. group: only pairs of this group.

        The candidate table is joined with itself, one range of documents at a time. Each range comes from one state of the index.

        measure="containment": all pairs in which document `key_b` contains document `key_a`, as in `query`; two documents that
        contain each other are two pairs. Each document is a query, so `MinHash(exact=True)` takes quadratic time: use
        `BottomK(containment=True)` above a few thousand documents. Other schemes raise ParameterError.

        >>> from neardup_db import Index, MinHash
        >>> with Index(":memory:", MinHash(exact=True)) as index:
        ...     fox = index.add("fox", "the quick brown fox jumps")
        ...     day = index.add("day", "the quick brown fox jumps over the lazy dog every day")
        ...     list(index.pairs(measure="containment"))
        [Pair(key_a='fox', key_b='day', similarity=1.0, distance=None)]
        """
        return self._pairs(threshold, None, check_measure(measure), check_asked_group(group))

    def pairs_with(
        self, other: Reader, threshold: float | None = None, *, group: Key | AnyGroup | None = ANY_GROUP
    ) -> Iterator[Pair]:
        """An iterator over all pairs of a document of this index (`key_a`) and one of another (`key_b`), both of one group.

        group: only pairs of this group. Raises ParameterError unless both indexes have the same scheme and text rules.

        >>> from neardup_db import Index, MinHash
        >>> with Index(":memory:", MinHash()) as test, Index(":memory:", MinHash()) as train:
        ...     matches = test.add("test 1", "the quick brown fox jumps over the lazy dog")
        ...     matches = train.add("train 7", "The quick brown fox jumps over the lazy dog!")
        ...     list(test.pairs_with(train))
        [Pair(key_a='test 1', key_b='train 7', similarity=1.0, distance=None)]
        """
        if not isinstance(other, Reader):
            raise ParameterError(f"other={quoted(other)}: give another Index")
        return self._pairs(threshold, other, None, check_asked_group(group))

    def _pairs(
        self, threshold: float | None, other: Reader | None, measure: Measure | None, group: Key | AnyGroup | None
    ) -> Iterator[Pair]:
        """Invalid arguments raise at once. A rebuild before the first pair restarts the listing."""

        def current() -> list[Sketcher]:
            with self._readers.reading() as reader:
                mine = reader.store.sketcher
                mine.scheme.query_bounds(threshold, None, measure)
            if other is None:
                return [mine]
            with other._readers.reading() as reader:
                _require_alike(mine, reader.store.sketcher)
                return [mine, reader.store.sketcher]

        def listing(begun: list[Sketcher]) -> Iterator[Pair]:
            listed = False
            while True:
                list_pairs: Any = containers if measure is not None else set_blocks if begun[0].scheme.is_set else ranges
                joins = [partial(self._joins, begun[0])]
                if other is not None:
                    list_pairs = ranges_with
                    joins.append(partial(other._joins, begun[1]))
                try:
                    for pairs in list_pairs(*joins, threshold, clock.now_ms, group):
                        for pair in pairs:
                            listed = True
                            yield Pair(pair.a.key, pair.b.key, pair.similarity, pair.distance)
                    return
                except MismatchError:
                    if listed or (now := current()) == begun:
                        raise
                    begun = now

        return listing(current())

    @contextmanager
    def _joins(self, begun: Sketcher) -> Iterator[Joins]:
        """The joins of one state of the file. Raises MismatchError if the index was rebuilt after `begun`."""
        with self._readers.reading() as reader:
            if reader.store.epoch != begun.epoch:
                raise MismatchError(f"index {self.name!r} was rebuilt while its pairs were listed: begin again with pairs()")
            yield reader.joins

    def clusters(self, min_size: int = 2, *, group: Key | AnyGroup | None = ANY_GROUP) -> list[Cluster]:
        """The clusters, largest first: connected components of the graph of pairs. Without `record_matches` this computes them.

        min_size: the smallest cluster size; 1 includes documents without matches. group: only clusters of this group; a cluster
        is within a group. The representative, which is also the first key, is the earliest document.

        >>> from neardup_db import Index, MinHash
        >>> with Index(":memory:", MinHash()) as index:
        ...     for key in ("a1", "a2"):
        ...         matches = index.add(key, "the quick brown fox jumps over the lazy dog")
        ...     index.clusters()
        [Cluster(representative='a1', keys=('a1', 'a2'))]
        """
        min_size, group = check_integer("min_size", min_size, 1), check_asked_group(group)
        with self._readers.reading() as reader:
            return reader.clusters.listing(min_size, clock.now_ms(), reader.documents.group_id(group))

    def dismissed(self) -> Iterator[tuple[Key, Key]]:
        """An iterator over the dismissed pairs of keys (`Index.dismiss`), the earlier document first, ordered by the later.

        >>> from neardup_db import Index, MinHash
        >>> with Index(":memory:", MinHash()) as index:
        ...     for key in ("a", "b"):
        ...         matches = index.add(key, "the weekly report of the harbour")
        ...     index.dismiss("b", "a"), list(index.dismissed())
        (True, [('a', 'b')])
        """
        self._store.db.require_open()
        rows = self._listed(lambda reader, last, *more: reader.search.dismissed.page(last[:2], *more), (0, 0))
        return (row[2:] for row in rows)

    def allowed(self) -> list[AllowedText]:
        """The allowed texts (`Index.allow`), in order.

        >>> from neardup_db import Index, MinHash
        >>> with Index(":memory:", MinHash(), store_text=True) as index:
        ...     aside = index.allow("Thanks for your message, we will reply within 24 hours", note="automatic reply")
        ...     [(one.id, one.text, one.note) for one in index.allowed()]
        [(1, 'Thanks for your message, we will reply within 24 hours', 'automatic reply')]
        """
        with self._readers.reading() as reader:
            store = reader.store
            sql = "SELECT id, text, note, allowed_at FROM {index}_allowed ORDER BY id"
            rows = store.rows(sql) if store.allows else []
            return [AllowedText(number, text, note, at / 1000) for number, text, note, at in rows]

    # ---- single documents --------------------------------------------------------------------------------------------

    def get(self, key: Key, *, group: Key | AnyGroup | None = ANY_GROUP) -> Document:
        """A stored document. Raises KeyNotFoundError.

        group: a condition; None means no group. A document of another group counts as absent.

        >>> from neardup_db import Index, MinHash
        >>> with Index(":memory:", MinHash(), store_text=True) as index:
        ...     matches = index.add("a1", "the quick brown fox", metadata={"source": "wire"})
        ...     document = index.get("a1")
        >>> document.text, document.metadata, document.token_count
        ('the quick brown fox', {'source': 'wire'}, 4)
        """
        group = check_asked_group(group)
        with self._readers.reading() as reader:
            return reader.documents.read_document(reader.documents.require(key, clock.now_ms(), group).id)

    def get_many(self, keys: Iterable[Key], *, group: Key | AnyGroup | None = ANY_GROUP) -> list[Document | None]:
        """Stored documents in the order of the keys, None for a missing key. group: as for `get`.

        >>> from neardup_db import Index, MinHash
        >>> with Index(":memory:", MinHash()) as index:
        ...     matches = index.add("a1", "the quick brown fox")
        ...     [document and document.key for document in index.get_many(["a0", "a1"])]
        [None, 'a1']
        """
        checked, group = [check_key(key) for key in check_many("keys", keys)], check_asked_group(group)
        with self._readers.reading() as reader:
            now = clock.now_ms()
            rows = [reader.documents.visible(key, now, group) for key in checked]
            return [None if row is None else reader.documents.read_document(row.id) for row in rows]

    def __contains__(self, key: object) -> bool:
        with self._readers.reading() as reader:
            return reader.documents.visible(check_key(key), clock.now_ms()) is not None

    def __len__(self) -> int:
        with self._readers.reading() as reader:
            return reader.documents.count(clock.now_ms())

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[Key]:
        """Iterate over the keys in insertion order."""
        self._store.db.require_open()
        rows = self._listed(lambda reader, last, *more: reader.documents.page(last[0], *more), (0,))
        return (row[1] for row in rows)

    def _listed(self, page: Callable[[StoreReader, Any, int, int], list[Any]], last: Any) -> Iterator[Any]:
        """All rows, read in pages. page: returns rows of a reader after the last one, given the time and their number."""
        while True:
            with self._readers.reading() as reader:
                rows = page(reader, last, clock.now_ms(), limits.LISTED_PAGE)
            if not rows:
                return
            yield from rows
            last = rows[-1]

    def export_fingerprints(self, path: str | bytes | os.PathLike[str]) -> int:
        """Write keys and fingerprints of the visible documents to a new Parquet file, in insertion order. Returns their number.

        Columns: key, group (if there are groups), value, token_count, buckets, digest (see docs/reference/spark.md). Keys must
        have one type. Metadata, expiry and texts are not included. `import_fingerprints` and `neardup_db.spark` read the file,
        which contains one state of the index. Needs pyarrow (the extra "arrow"). Raises ParameterError if the file exists.

        >>> import os, tempfile
        >>> from neardup_db import Index, MinHash
        >>> with tempfile.TemporaryDirectory() as folder, Index(":memory:", MinHash()) as index:
        ...     matches = index.add("a1", "the quick brown fox")
        ...     index.export_fingerprints(os.path.join(folder, "part.parquet"))
        1
        """
        with self._readers.reading() as reader:
            return export(reader.store, reader.documents, path, clock.now_ms())

    # ---- explanations ---------------------------------------------------------------------------------------------------

    def explain(
        self, text: str | bytes, *, threshold: float | None = None, measure: Measure | None = None, group: Key | None = None
    ) -> Explanation:
        """How a query for this text runs: plan, probes, candidates, verified, matches, and the time of each step.

        threshold, measure: as for `query`.

        >>> from neardup_db import Index, MinHash
        >>> with Index(":memory:", MinHash()) as index:
        ...     matches = index.add("a1", "the quick brown fox jumps over the lazy dog")
        ...     how = index.explain("The quick brown fox jumps over the lazy dog!")
        >>> how.probes, how.candidates, how.verified
        (12, 1, 1)
        """
        question = QuerySpec(check_text(text), threshold=threshold, measure=measure, group=check_group(group))
        start = time.perf_counter()
        sketch = self._sketched(question.sketch)
        fingerprint_s = time.perf_counter() - start
        with self._readers.reading() as reader:
            if sketch.epoch != reader.store.epoch:
                sketch = question.sketch(reader.store)
            group_id = reader.documents.group_id(group)
            return explain_query(reader.search, question, sketch, group_id, clock.now_ms(), fingerprint_s)

    def explain_match(
        self, key_a: Key, key_b: Key, *, text_a: str | bytes | None = None, text_b: str | bytes | None = None
    ) -> MatchExplanation:
        """Why two stored documents match or do not match: stored and exact similarity, shared candidate rows and shingles.

        text_a, text_b: their texts, if the index does not store them; a text with another fingerprint raises ParameterError. The
        result's `html()` is a page with both texts side by side. For a dismissed pair the result names the documents that still
        connect the two. Raises KeyNotFoundError.

        >>> from neardup_db import Index, MinHash
        >>> with Index(":memory:", MinHash(threshold=0.5), store_text=True) as index:
        ...     matches = index.add("a", "one two three four five"), index.add("b", "one two three four six")
        ...     found = index.explain_match("a", "b")
        >>> found.jaccard, found.only_a, found.only_b
        (0.5, ('three four five',), ('three four six',))
        """
        given = _storable(text_a), _storable(text_b)
        with self._readers.reading() as reader:
            now = clock.now_ms()
            found = reader.documents.require(key_a, now), reader.documents.require(key_b, now)
            return explain_pair(reader.search, (key_a, key_b), found, given, now)

    def _similarities(self, pairs: Iterable[tuple[Key, Key]]) -> list[float]:
        similarities, sketches = [], {}
        with self._readers.reading() as reader:
            now = clock.now_ms()

            def sketch(key: Key) -> Sketch:
                found = reader.documents.require(key, now)
                return reader.search.stored_sketch(found.fingerprint_id or 0)

            for a, b in pairs:  # several after another have one b
                if b not in sketches:
                    sketches = {b: sketch(b)}
                similarities.append(reader.search.compared(sketch(a), sketches[b])[0])
        return similarities

    def _duplicates(self, keys: Sequence[Key]) -> tuple[Array, Array]:
        with self._readers.reading() as reader:
            return duplicates(reader.documents, keys)

    def stats(self) -> Stats:
        """Counts, sizes in bytes, settings, versions and the CPU instruction set in use.

        >>> from neardup_db import Index, MinHash
        >>> with Index(":memory:", MinHash()) as index:
        ...     report = index.add_many([("a1", "the quick brown fox"), ("a2", "The quick brown fox!")])
        ...     stats = index.stats()
        >>> stats["documents"], stats["clusters"], stats["settings"]["scheme"]
        (2, 1, 'minhash')
        """
        with self._readers.reading() as reader:
            now = clock.now_ms()
            figures = statistics.collect(reader.store, now)
            if figures["expired"] and reader.store.record_matches:  # labels do not tell what only these connected
                figures["clusters"] = len(reader.clusters.listing(2, now))
            return figures


def _require_alike(mine: Sketcher, theirs: Sketcher) -> None:
    """Raise ParameterError if the fingerprints of two indexes cannot be compared."""
    if mine.scheme.reads_values_of(theirs.scheme) and mine.rules.settings() == theirs.rules.settings():
        return
    raise ParameterError(
        f"the other index has {theirs.scheme!r} under {theirs.rules!r}, this one {mine.scheme!r} under {mine.rules!r}: their "
        "fingerprints cannot be compared; rebuild() one of them like the other"
    )


def _storable(text: str | bytes | None) -> str | None:
    return None if text is None else storable(check_text(text))
