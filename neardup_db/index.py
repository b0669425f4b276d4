"""The face of the package: one near-duplicate index in a SQLite database."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import apsw

from . import records as checks
from .errors import KeyNotFoundError, NearDupError, ParameterError
from .schemes.base import Scheme
from .store import statistics
from .store.check import Checker
from .store.clusters import Clusters
from .store.connection import translated
from .store.documents import Documents, Found, Record
from .store.explain import Explanation, MatchExplanation, explain_pair, explain_query
from .store.ingest import Ingest, IngestOptions
from .store.opening import open_store
from .store.rebuild import rebuild
from .store.search import Search
from .store.state import Sketch
from .store.writer import Writer
from .text import TextRules
from .values import AddReport, CheckReport, Cluster, Document, Key, Match, Pair

PAGE = 500
"""Documents that a lazy listing reads in one transaction."""

_CODE = object()
"""Stands for the text of a document that is a code."""


class Index:
    """A near-duplicate index in one SQLite database.

    target: a path, `":memory:"`, or an open `apsw.Connection` whose transactions stay the caller's. A missing or empty file is
    created when `scheme` is given; afterwards the file knows its parameters, and those given again are compared with it.
    text: the TextRules, `TextRules()` unless given. name: several indexes, and tables of your own, may share a database.
    store_text: keep the texts in the file (default False). record_matches: look for matches on every add, record them and keep
    clusters (default True). durability: "full" (an acknowledged write survives a power cut) or "normal" (it survives a crash of
    the program). attach: allow an index inside another program's database. timeout: seconds to wait for another writer.

    An Index may be shared by threads. Raises ParameterError, FormatError, MismatchError, BusyError.

    >>> from neardup_db import Index, MinHash
    >>> with Index(":memory:", MinHash(threshold=0.5)) as index:
    ...     index.add("a1", "the quick brown fox jumps over the lazy dog")
    ...     index.add("a2", "The quick brown fox jumps over the lazy dog!")
    []
    [Match(key='a1', similarity=1.0, distance=None)]
    """

    def __init__(
        self,
        target: Any,
        scheme: Scheme | None = None,
        *,
        text: TextRules | None = None,
        name: str = "neardup",
        store_text: bool | None = None,
        record_matches: bool | None = None,
        durability: str = "full",
        read_only: bool = False,
        attach: bool = False,
        timeout: float = 30.0,
    ) -> None:
        self._closed = True
        self._store = open_store(
            target,
            scheme,
            text=text,
            name=name,
            store_text=store_text,
            record_matches=record_matches,
            durability=durability,
            read_only=read_only,
            attach=attach,
            timeout=timeout,
        )
        self._closed = False
        self._documents = Documents(self._store)
        self._search = Search(self._store, self._documents)
        self._clusters = Clusters(self._store, self._documents, self._search)
        self._writer = Writer(self._store, self._documents, self._search, self._clusters)

    # ---- the object --------------------------------------------------------------------------------------------------

    @property
    def connection(self) -> apsw.Connection:
        """The connection below, with the SQL functions loaded. Raises ClosedError."""
        self._store.db.require_open()
        return self._store.db.connection

    @property
    def scheme(self) -> Scheme:
        """The scheme, complete with what was chosen for it."""
        return self._store.scheme

    @property
    def text_rules(self) -> TextRules:
        """The text rules."""
        return self._store.rules

    @property
    def name(self) -> str:
        """The name that the index's tables begin with."""
        return self._store.name

    def close(self) -> None:
        """Close the index; a connection that was given stays open. Closing again does nothing."""
        self._store.db.close()
        self._closed = True

    def __enter__(self) -> Index:
        self._store.db.require_open()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __del__(self) -> None:
        if not getattr(self, "_closed", True) and self._store.db.owned:
            warnings.warn(f"unclosed {self!r}", ResourceWarning, stacklevel=2, source=self)

    def __repr__(self) -> str:
        return f"<neardup_db.Index {self._store.name!r} {self._store.scheme!r}>"

    # ---- adding ------------------------------------------------------------------------------------------------------

    def add(
        self,
        key: Key,
        text: str | bytes,
        *,
        metadata: Any = None,
        group: Key | None = None,
        expires_at: Any = None,
        if_exists: str = "error",
        limit: int = 10,
    ) -> list[Match]:
        """Store a document; returns its matches among the earlier ones, best first, at most `limit`.

        metadata: anything JSON can hold. group: duplicates are sought within it only. expires_at: aware datetime or Unix
        seconds. if_exists: "error", "replace" (the document becomes the newest) or "ignore". Without `record_matches` nothing
        is looked for. Raises DuplicateKeyError, ParameterError, BusyError, ReadOnlyError.
        """
        record = self._record(key, metadata, group, expires_at, text)
        return self._add(record, lambda: self._sketch(text), if_exists, limit)

    def add_code(
        self,
        key: Key,
        code: Any,
        *,
        metadata: Any = None,
        group: Key | None = None,
        expires_at: Any = None,
        if_exists: str = "error",
        limit: int = 10,
    ) -> list[Match]:
        """`add` for a code of bits that the application brings (BinaryCode and the other Hamming schemes)."""
        record = self._record(key, metadata, group, expires_at)
        return self._add(record, lambda: self._store.sketch_code(code), if_exists, limit)

    def _add(self, record: Record, make: Callable[[], Sketch], if_exists: str, limit: int) -> list[Match]:
        checks.check_choice("if_exists", if_exists, checks.IF_EXISTS)
        checks.check_count("limit", limit)
        with self._sketched(make, write=True) as sketch:
            return self._writer.add(record, sketch, checks.now_ms(), if_exists=if_exists, limit=limit)[1]

    def add_if_new(
        self,
        key: Key,
        text: str | bytes,
        *,
        metadata: Any = None,
        group: Key | None = None,
        expires_at: Any = None,
        if_exists: str = "error",
        limit: int = 10,
        on_match: str | None = None,
    ) -> list[Match]:
        """Store a document unless something matches it, in one transaction.

        Returns the matches, best first, at most `limit`; an empty list means that it was new and is stored. on_match="touch":
        the best match counts as seen again (last_seen, times_seen) and takes over `expires_at` where one is given.
        """
        record = self._record(key, metadata, group, expires_at, text)
        checks.check_choice("if_exists", if_exists, checks.IF_EXISTS)
        checks.check_choice("on_match", on_match, (None, "touch"))
        checks.check_count("limit", limit, 1)
        with self._sketched(lambda: self._sketch(text), write=True) as sketch:
            now = checks.now_ms()
            return self._writer.add_if_new(record, sketch, now, if_exists=if_exists, limit=limit, on_match=on_match)[1]

    def add_many(
        self,
        records: Iterable[Any],
        *,
        if_exists: str = "error",
        on_error: str = "raise",
        only_new: bool = False,
        commit_every: int | None = None,
        progress: Callable[[int], Any] | None = None,
    ) -> AddReport:
        """Store many documents: (key, text) pairs or mappings with the names of `add`'s arguments, from any iterable.

        Large batches, sorted table writes, bounded memory. commit_every: a transaction for every so many records; None = one for
        all. on_error="skip": a wrong record is counted and left out. only_new: as `add_if_new` one by one, in order.
        progress: called after each batch with the number of records taken so far.
        """
        return self._ingest("text", checks.check_many("records", records), if_exists, on_error, only_new, commit_every, progress)

    def add_codes(
        self,
        keys: Iterable[Key],
        codes: Iterable[Any],
        *,
        group: Key | None = None,
        expires_at: Any = None,
        if_exists: str = "error",
        on_error: str = "raise",
        only_new: bool = False,
        commit_every: int | None = None,
        progress: Callable[[int], Any] | None = None,
    ) -> AddReport:
        """`add_many` for codes: keys and codes (for example the rows of a `uint8[n, bits // 8]`) of the same length.

        group and expires_at are those of all of them.
        """
        checks.check_many("keys", keys)
        checks.check_many("codes", codes)
        if isinstance(keys, Sized) and isinstance(codes, Sized) and len(keys) != len(codes):
            raise ParameterError(f"{len(keys)} keys for {len(codes)} codes: give one key for each code")
        common = {"group": group, "expires_at": expires_at}
        records = ({"key": key, "code": code, **common} for key, code in zip(keys, codes, strict=True))
        return self._ingest("code", records, if_exists, on_error, only_new, commit_every, progress)

    def _ingest(
        self,
        content: str,
        records: Iterable[Any],
        if_exists: str,
        on_error: str,
        only_new: bool,
        commit_every: int | None,
        progress: Callable[[int], Any] | None,
    ) -> AddReport:
        checks.check_choice("if_exists", if_exists, checks.IF_EXISTS)
        checks.check_choice("on_error", on_error, ("raise", "skip"))
        if commit_every is not None:
            checks.check_count("commit_every", commit_every, 1)
        checks.check_callable("progress", progress)
        self._store.db.require_open()
        options = IngestOptions(content, if_exists, on_error, bool(only_new), commit_every, progress)
        report = Ingest(self._store, self._documents, self._writer, options).run(records)
        self._checkpoint()
        return report

    def _checkpoint(self) -> None:
        """Give the disk space of a long write-ahead log back."""
        db = self._store.db
        with db.lock, translated():
            if db.owned and not db.connection.in_transaction:
                db.truncate_log()

    # ---- asking ------------------------------------------------------------------------------------------------------

    def query(
        self,
        text: str | bytes,
        *,
        threshold: float | None = None,
        max_distance: int | None = None,
        limit: int | None = None,
        any: bool = False,
        group: Key | None = None,
    ) -> list[Match]:
        """Documents that are near-duplicates of a text, best first; ties in the order of insertion.

        threshold, max_distance: stricter than the index's own, else ParameterError. any=True with a limit: any `limit` matches,
        best first, without looking at the rest.
        """
        return self._query(lambda: self._sketch(text), threshold, max_distance, limit, any, group)

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
        return self._query(lambda: self._store.sketch_code(code), threshold, max_distance, limit, any, group)

    def query_many(
        self,
        texts: Iterable[str | bytes],
        *,
        threshold: float | None = None,
        max_distance: int | None = None,
        limit: int | None = None,
        any: bool = False,
        group: Key | None = None,
    ) -> list[list[Match]]:
        """`query` for each of many texts, all in one consistent state; one list of matches each."""
        checked = [checks.check_text(text) for text in checks.check_many("texts", texts)]
        sketches = self._store.sketch_texts(checked, evidence=True)
        with self._store.reading():
            if sketches and sketches[0].epoch != self._store.epoch:
                sketches = self._store.sketch_texts(checked, evidence=True)
            return [self._matches(sketch, threshold, max_distance, limit, any, group) for sketch in sketches]

    def _query(
        self,
        make: Callable[[], Sketch],
        threshold: float | None,
        max_distance: int | None,
        limit: int | None,
        first: bool,
        group: Key | None,
    ) -> list[Match]:
        self._store.db.require_open()
        with self._sketched(make) as sketch:
            return self._matches(sketch, threshold, max_distance, limit, first, group)

    def _matches(
        self,
        sketch: Sketch,
        threshold: float | None,
        max_distance: int | None,
        limit: int | None,
        first: bool,
        group: Key | None,
    ) -> list[Match]:
        if limit is not None:
            checks.check_count("limit", limit)
        group_id = self._documents.group_id(checks.check_group(group))
        now = checks.now_ms()
        rows = self._search.matches(
            sketch, group_id, now, threshold=threshold, max_distance=max_distance, limit=limit, first=bool(first)
        )
        if first:  # the ones found first, in the order of every answer
            rows.sort(key=lambda row: (-row.similarity, row.id))
        return [row.match for row in rows]

    def matches(self, key: Key, *, threshold: float | None = None, limit: int | None = None) -> list[Match]:
        """Near-duplicates of a stored document, by its stored fingerprint, without itself. Raises KeyNotFoundError."""
        with self._store.reading():
            now = checks.now_ms()
            found = self._found(key, now)
            if limit is not None:
                checks.check_count("limit", limit)
            if found.fingerprint_id is None:
                return []
            sketch = self._search.stored_sketch(found.id, found.fingerprint_id)
            rows = self._search.matches(sketch, found.group_id, now, threshold=threshold, limit=limit, except_id=found.id)
            return [row.match for row in rows]

    def pairs(self, threshold: float | None = None) -> Iterator[Pair]:
        """All pairs of near-duplicates, lazily; `key_a` is the earlier document. Each page of documents sees one state."""
        self._store.db.require_open()
        self._store.scheme.query_bounds(threshold, None)
        return self._pairs(threshold)

    def _pairs(self, threshold: float | None) -> Iterator[Pair]:
        after = 0
        while True:
            found: list[Pair] = []
            with self._store.reading():
                now = checks.now_ms()
                page = self._documents.page(after, now, PAGE)
                for document_id, key, fingerprint_id, group_id in page:
                    if fingerprint_id is not None:
                        sketch = self._search.stored_sketch(document_id, fingerprint_id)
                        rows = self._search.matches(sketch, group_id, now, threshold=threshold, after_id=document_id)
                        found += [Pair(key, row.key, row.similarity, row.distance) for row in rows]
            yield from found
            if not page:
                return
            after = page[-1][0]

    def clusters(self, min_size: int = 2) -> list[Cluster]:
        """Connected components of the graph of pairs, largest first; without `record_matches` they are computed now."""
        checks.check_count("min_size", min_size, 1)
        with self._store.reading():
            return self._clusters.listing(min_size, checks.now_ms())

    # ---- single documents --------------------------------------------------------------------------------------------

    def get(self, key: Key) -> Document:
        """A stored document. Raises KeyNotFoundError."""
        with self._store.reading():
            return self._documents.read(self._found(key, checks.now_ms()).id)

    def get_many(self, keys: Iterable[Key]) -> list[Document | None]:
        """Stored documents in the order of the keys; None for a key that is not there."""
        checked = [checks.check_key(key) for key in checks.check_many("keys", keys)]
        with self._store.reading():
            now = checks.now_ms()
            found = [self._documents.visible(key, now) for key in checked]
            return [None if one is None else self._documents.read(one.id) for one in found]

    def update(self, key: Key, **changes: Any) -> None:
        """Change `metadata=` or `expires_at=` of a document; None clears. Raises KeyNotFoundError, ParameterError."""
        columns = {"metadata": checks.check_metadata, "expires_at": checks.check_expiry}
        unknown = [name for name in changes if name not in columns]
        if unknown or not changes:
            what = f"{unknown[0]!r} cannot be updated" if unknown else "nothing to update"
            raise ParameterError(f"{what}: give metadata= or expires_at=; to change a text, add it with if_exists='replace'")
        values = {name: columns[name](value) for name, value in changes.items()}
        with self._store.writing():
            self._documents.update(self._found(key, checks.now_ms()).id, values)

    def __contains__(self, key: object) -> bool:
        with self._store.reading():
            return self._documents.visible(checks.check_key(key), checks.now_ms()) is not None

    def __len__(self) -> int:
        with self._store.reading():
            return self._documents.count(checks.now_ms())

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[Key]:
        """Keys in the order of insertion."""
        self._store.db.require_open()
        return self._keys()

    def _keys(self) -> Iterator[Key]:
        after = 0
        while True:
            with self._store.reading():
                page = self._documents.page(after, checks.now_ms(), PAGE)
            if not page:
                return
            yield from [row[1] for row in page]
            after = page[-1][0]

    # ---- removing ----------------------------------------------------------------------------------------------------

    def delete(self, key: Key) -> bool:
        """Remove a document; False if there was none."""
        return self.delete_many([key]) == 1

    def delete_many(self, keys: Iterable[Key]) -> int:
        """Remove documents in one transaction; returns how many there were."""
        checked = [checks.check_key(key) for key in checks.check_many("keys", keys)]
        with self._store.writing():
            now = checks.now_ms()
            found = [self._documents.find(key) for key in dict.fromkeys(checked)]
            visible = sum(one is not None and (one.expires_at is None or one.expires_at > now) for one in found)
            self._clusters.remove([one.id for one in found if one is not None], now)
            return visible

    def expire(self, now: Any = None) -> int:
        """Remove every document whose time has come by `now` (aware datetime or Unix seconds; None = the clock)."""
        given = checks.check_expiry(now)
        with self._store.writing():
            moment = checks.now_ms() if given is None else given
            sql = self._store.sql("SELECT id FROM {index}_document WHERE expires_at <= ? ORDER BY id")
            return self._clusters.remove([row[0] for row in self._store.db.rows(sql, (moment,))], moment)

    def keep_newest(self, n: int) -> int:
        """Remove all but the newest `n` documents; returns how many were removed."""
        checks.check_count("n", n)
        with self._store.writing():
            now = checks.now_ms()
            sql = """SELECT id FROM {index}_document WHERE expires_at IS NULL OR expires_at > ?
                     ORDER BY id DESC LIMIT -1 OFFSET ?"""
            return self._clusters.remove([row[0] for row in self._store.db.rows(self._store.sql(sql), (now, n))], now)

    # ---- the whole index ---------------------------------------------------------------------------------------------

    @contextmanager
    def transaction(self) -> Iterator[Index]:
        """Several calls as one transaction: all of them, or after an exception none. Nests; other threads wait.

        An exception of the caller's own comes out as it is, those of statements on `connection` too.
        """
        own: apsw.Error | None = None
        try:
            with self._store.writing():
                try:
                    yield self
                except apsw.Error as error:
                    own = error
                    raise
        except NearDupError as error:
            if own is not None and error.__cause__ is own:
                raise own from own.__cause__
            raise

    def rebuild(
        self, scheme: Scheme | None = None, text: TextRules | None = None, *, progress: Callable[[int], Any] | None = None
    ) -> None:
        """Build tables, matches and clusters anew, with another scheme or other text rules where given; one transaction.

        Raises ParameterError where new fingerprints are needed and the texts are not stored.
        """
        for label, value, kind in (("scheme", scheme, Scheme), ("text", text, TextRules)):
            if value is not None and not isinstance(value, kind):
                raise ParameterError(f"{label}={value!r}: it is a {kind.__name__}")
        checks.check_callable("progress", progress)
        with self._store.writing():
            rules = text if text is not None else self._store.rules
            chosen = (scheme if scheme is not None else self._store.scheme).for_index(rules, self._store.store_text)
            rebuild(self._store, self._writer, chosen, rules, checks.now_ms(), progress or (lambda done: None))
            self._store.adopt(scheme, text)
        self._checkpoint()

    def check(self, repair: bool = False) -> CheckReport:
        """Look at every invariant of the file.

        repair=True rebuilds what follows from the documents: fingerprints from stored texts, table rows, matches and clusters.
        What could not be brought back stays among the `problems` of the report.
        """
        checker = Checker(self._store, self._writer, self._clusters)
        with self._store.reading():
            report = checker.run(checks.now_ms())
        if report.ok or not repair:
            return report
        with self._store.writing():
            done, lost = checker.repair(checks.now_ms())
        with self._store.reading():
            return CheckReport((*lost, *checker.run(checks.now_ms()).problems), tuple(done))

    def explain(self, text: str | bytes, *, group: Key | None = None) -> Explanation:
        """How a query for this text runs: plan, probes, candidates, verified, matches, and the time of each step."""
        start = time.perf_counter()
        sketch = self._sketch(text)
        fingerprint_s = time.perf_counter() - start
        with self._store.reading():
            if sketch.epoch != self._store.epoch:
                sketch = self._sketch(text)
            group_id = self._documents.group_id(checks.check_group(group))
            return explain_query(self._store, self._search, sketch, group_id, checks.now_ms(), fingerprint_s)

    def explain_match(self, key_a: Key, key_b: Key) -> MatchExplanation:
        """Why two stored documents match, or do not. Raises KeyNotFoundError."""
        with self._store.reading():
            now = checks.now_ms()
            a, b = self._found(key_a, now), self._found(key_b, now)
            return explain_pair(self._store, self._search, key_a, a, key_b, b)

    def stats(self) -> dict[str, Any]:
        """Counts, sizes in bytes, settings, versions and the tier of CPU instructions in use."""
        with self._store.reading():
            return statistics.collect(self._store, checks.now_ms())

    def compact(self) -> int:
        """Give unused space of the file back (VACUUM); returns the bytes by which the file shrank."""
        db = self._store.db
        with db.lock, translated():
            db.require_open()
            if db.connection.in_transaction:
                raise NearDupError("compact() cannot run inside a transaction: leave it first")
            before = statistics.file_size(self._store)
            db.connection.execute("VACUUM").fetchall()
            if db.owned:
                db.truncate_log()
            return before - statistics.file_size(self._store)

    def backup(self, path: str | Path) -> None:
        """Write a consistent copy of the whole database to a new file. Raises ParameterError if the file exists."""
        target = Path(path)
        if target.exists():
            raise ParameterError(f"{str(path)!r} exists: give the path of a new file")
        with self._store.db.lock, translated():
            self._store.db.require_open()
            if self._store.db.connection.in_transaction:
                raise NearDupError("backup() cannot run inside a transaction: leave it first")
            try:
                copy = apsw.Connection(str(target))
            except apsw.CantOpenError as error:
                raise ParameterError(f"{str(path)!r} cannot be created ({error}): check the path and its permissions") from error
            try:
                with copy.backup("main", self._store.db.connection, "main") as backup:
                    backup.step()
            except BaseException:
                target.unlink(missing_ok=True)
                raise
            finally:
                copy.close()

    # ---- helpers -----------------------------------------------------------------------------------------------------

    def _record(self, key: Key, metadata: Any, group: Any, expires_at: Any, text: Any = _CODE) -> Record:
        self._store.db.require_open()
        stored = None
        if text is not _CODE:
            checks.check_text(text)
            stored = checks.storable(text) if self._store.store_text else None
        return Record(
            checks.check_key(key),
            stored,
            checks.check_metadata(metadata),
            checks.check_group(group),
            checks.check_expiry(expires_at),
        )

    def _sketch(self, text: str | bytes) -> Sketch:
        return self._store.sketch_texts([checks.check_text(text)], evidence=True)[0]

    @contextmanager
    def _sketched(self, make: Callable[[], Sketch], write: bool = False) -> Iterator[Sketch]:
        """A fingerprint, made outside the transaction, and again inside it if a rebuild came between."""
        self._store.db.require_open()
        sketch = make()
        with self._store.writing() if write else self._store.reading():
            if sketch.epoch != self._store.epoch:
                sketch = make()
            yield sketch

    def _found(self, key: Any, now: int) -> Found:
        found = self._documents.visible(checks.check_key(key), now)
        if found is None:
            raise KeyNotFoundError(f"no document has the key {key!r}")
        return found
