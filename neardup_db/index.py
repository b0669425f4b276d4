"""The face of the package: one near-duplicate index in a SQLite database."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import Any

import apsw

from . import clock, limits
from .arrow import ArrowArray, ArrowStream, is_arrow
from .errors import NearDupError, ParameterError, ShortTextsWarning
from .parameters import (
    Durability,
    Expiry,
    IfExists,
    OnError,
    OnMatch,
    check_callable,
    check_choice,
    check_expiry,
    check_flag,
    check_group,
    check_if_exists,
    check_integer,
    check_key,
    check_kind,
    check_many,
    check_metadata,
    check_text,
    quoted,
    storable,
)
from .reader import Reader
from .schemes.base import Scheme
from .schemes.codes import Code, CodeRows
from .store.asking import statistics
from .store.asking.question import Question
from .store.database.connection import Database
from .store.database.errors import translated
from .store.exchange.importing import FingerprintFiles
from .store.layout.opening import Target, open_store
from .store.layout.sketches import Sketch
from .store.layout.state import Choices, Store
from .store.upkeep.backup import back_up
from .store.upkeep.check import Checker
from .store.upkeep.rebuild import rebuild
from .store.upkeep.repair import Repair
from .store.writing.columns import Codes, Table
from .store.writing.ingest import Ingest, IngestOptions
from .store.writing.outcomes import OnOutcome, Outcome
from .store.writing.writer import Writer
from .text import TextRules
from .values import AddReport, CheckReport, Key, Match, Record

DEFAULT_NAME = "neardup"

_CODE = object()
"""Stands for the text of a document that is a code."""


class Index(Reader):
    """A near-duplicate index in one SQLite database.

    target: a path, `":memory:"`, or an open `apsw.Connection` whose transactions stay the caller's. A missing or empty file
    is created when `scheme` is given; afterwards the file knows its parameters, and those given again are compared with it.
    text: the TextRules, `TextRules()` unless given; for texts of fewer than about 50 words `TextRules.chars(shingle=3)`. name:
    several indexes, and tables of your own, may share a database. store_text: keep the texts in the file (default False).
    record_matches: look for matches on every add, record them and keep clusters (default True). checksums: True makes a file
    with a checksum in every page, so that each damaged byte of it is an error (default False; decided when the file is
    created). durability: "full" (an acknowledged write survives a power cut) or "normal" (it survives a crash of the program).
    read_only: every write is a ReadOnlyError (default False). attach: allow an index inside another program's database.
    timeout: seconds to wait for another writer, or for another thread that uses this object.

    Threads may share an Index: they write in turns and read at the same time, each by its own connection (in memory, and on a
    connection that was given, they read in turns too). A forked process opens its own. Raises ParameterError, FormatError,
    MismatchError, BusyError.

    >>> from neardup_db import Index, MinHash
    >>> with Index(":memory:", MinHash(threshold=0.5)) as index:
    ...     index.add("a1", "the quick brown fox jumps over the lazy dog")
    ...     index.add("a2", "The quick brown fox jumps over the lazy dog!")
    []
    [Match(key='a1', similarity=1.0, distance=None)]
    """

    def __init__(
        self,
        target: Target,
        scheme: Scheme | None = None,
        *,
        text: TextRules | None = None,
        name: str = DEFAULT_NAME,
        store_text: bool | None = None,
        record_matches: bool | None = None,
        checksums: bool | None = None,
        durability: Durability = "full",
        read_only: bool = False,
        attach: bool = False,
        timeout: float = 30.0,
    ) -> None:
        self._closed = True
        store = open_store(
            target,
            scheme,
            text=text,
            name=name,
            store_text=store_text,
            record_matches=record_matches,
            sums=checksums,
            durability=durability,
            read_only=read_only,
            attach=attach,
            timeout=timeout,
        )
        super().__init__(store)
        self._warned = False
        if isinstance(target, apsw.Connection):
            self._target = f"connection to {target.filename or ':memory:'!r}"
        else:
            self._target = repr(os.fspath(target))
        self._closed = False
        own = self._readers.own
        self._writer = Writer(store, own.documents, own.search, own.clusters)

    # ---- the object --------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the index, after what other threads are asking it just now; a connection that was given stays open. Closing again
        does nothing."""
        self._readers.close()
        self._closed = True

    def __enter__(self) -> Index:
        self._store.db.require_open()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __del__(self) -> None:
        if not getattr(self, "_closed", True) and self._store.db.owned and not self._store.db.forked:
            warnings.warn(f"unclosed {self!r}", ResourceWarning, stacklevel=2, source=self)

    def __reduce__(self) -> Any:
        raise TypeError(f"{self!r} cannot be copied or sent to another process: send the path, and open it there: Index(path)")

    def __repr__(self) -> str:
        name = "" if self.name == DEFAULT_NAME else f" name={self.name!r}"
        return f"<neardup_db.Index {self._target}{name} {self._store.scheme!r}{', closed' if self._closed else ''}>"

    # ---- adding ------------------------------------------------------------------------------------------------------

    def add(
        self,
        key: Key,
        text: str | bytes,
        *,
        metadata: Any = None,
        group: Key | None = None,
        expires_at: Expiry | None = None,
        if_exists: IfExists = "error",
        limit: int = 10,
    ) -> list[Match]:
        """Store a document; returns its matches among the earlier ones, best first, at most `limit`.

        metadata: anything JSON can hold. group: duplicates are sought within it only. expires_at: aware datetime or Unix
        seconds. if_exists: "error", "replace" (the document becomes the newest) or "ignore". Without `record_matches` nothing
        is looked for. Raises DuplicateKeyError, ParameterError, BusyError, ReadOnlyError.
        """
        record = self._record(key, metadata, group, expires_at, text)
        return self._add(record, lambda store: store.sketch_to_store(text), if_exists, limit)

    def add_code(
        self,
        key: Key,
        code: Code,
        *,
        metadata: Any = None,
        group: Key | None = None,
        expires_at: Expiry | None = None,
        if_exists: IfExists = "error",
        limit: int = 10,
    ) -> list[Match]:
        """`add` for a code of bits that the application brings (BinaryCode and the other Hamming schemes)."""
        record = self._record(key, metadata, group, expires_at)
        return self._add(record, Question(code=code).sketch, if_exists, limit)

    def _add(self, record: Record, make: Callable[[Store], Sketch], if_exists: IfExists, limit: int) -> list[Match]:
        check_if_exists(if_exists)
        limit = check_integer("limit", limit)
        return self._write(make, record, partial(self._writer.add, if_exists=if_exists, limit=limit))

    def add_if_new(
        self,
        key: Key,
        text: str | bytes,
        *,
        metadata: Any = None,
        group: Key | None = None,
        expires_at: Expiry | None = None,
        if_exists: IfExists = "error",
        limit: int = 10,
        on_match: OnMatch | None = None,
    ) -> list[Match]:
        """Store a document unless something matches it, in one transaction.

        Returns the matches, best first, at most `limit`; an empty list means that it was new and is stored. on_match="touch":
        the best match counts as seen again (last_seen, times_seen) and takes over `expires_at` where one is given.
        """
        record = self._record(key, metadata, group, expires_at, text)
        check_if_exists(if_exists)
        check_choice("on_match", on_match, (None, "touch"))
        limit = check_integer("limit", limit, 1)
        write = partial(self._writer.add_if_new, if_exists=if_exists, limit=limit, on_match=on_match)
        return self._write(lambda store: store.sketch_to_store(text), record, write)

    def add_many(
        self,
        records: Iterable[tuple[Key, str | bytes] | list[Any] | Mapping[str, Any]] | ArrowStream | ArrowArray,
        *,
        key: str | None = None,
        text: str | None = None,
        group: str | None = None,
        metadata: Sequence[str] | None = None,
        if_exists: IfExists = "error",
        on_error: OnError = "raise",
        only_new: bool = False,
        commit_every: int | None = None,
        progress: Callable[[int], Any] | None = None,
        on_outcome: OnOutcome | None = None,
    ) -> AddReport:
        """Store many documents: (key, text) pairs or mappings with the names of `add`'s arguments, from any iterable; or the rows
        of a data frame.

        A data frame is whatever Arrow reads: a pyarrow Table, RecordBatch or RecordBatchReader, a DataFrame of pandas (2.2 and
        later) or polars, a DuckDB relation. key, text, group: the names of its columns. metadata: those that make up each row's
        metadata, {name: value}. Texts are read where they stand, in any layout of Arrow's strings. Keys and groups are strings,
        integers or binary. A null key or text makes a wrong record; a null group is none.

        Large batches, sorted table writes, bounded memory. commit_every: a transaction for every so many records; None = one for
        all. on_error="skip": a wrong record is counted and left out. only_new: as `add_if_new` one by one, in order.
        progress: called now and then with the number of records taken so far, in the end with that of all.

        on_outcome: called as `f(key, outcome, match)` for each record, in order, once the transaction that it belongs to is
        committed. "added", "replaced": stored, with its best match among the earlier documents, None where it has none or
        the index records no matches. "duplicate": refused by only_new, with the Match that it was refused for. "ignored":
        if_exists="ignore", and the key was there; None. "skipped": wrong, with a Skipped instead of a match; the key is None
        where there is none. In a transaction of the caller's the calls come at the end of each part, and hold if that
        transaction commits. They wait in memory for the commit, so give commit_every for millions. The function may use the
        index. What it raises ends `add_many`, and what was committed stays.

        The iterable, and `progress`, may use the index: a question sees every record yielded before, a write stands between two
        records. The report names the first records that were left out.

        Warns once (ShortTextsWarning) where most texts have fewer than 20 words and shingles have three or more.

        >>> import pyarrow
        >>> from neardup_db import Index, MinHash
        >>> stories = pyarrow.table({"id": [1, 2], "body": ["the quick brown fox jumps", "the quick brown fox sleeps"]})
        >>> with Index(":memory:", MinHash(threshold=0.5)) as index:
        ...     index.add_many(stories, key="id", text="body")
        AddReport(added=2, replaced=0, ignored=0, skipped=0, matched=1, problems=())
        """
        if is_arrow(records):
            with Table(records, key, text, group, metadata) as table:
                return self._ingest("text", table, if_exists, on_error, only_new, commit_every, progress, on_outcome)
        records = check_many("records", records, "give pairs (key, text), mappings, or a table that Arrow reads")
        for name, column in (("key", key), ("text", text), ("group", group), ("metadata", metadata)):
            if column is not None:
                what = f"{name}={quoted(column)} names a column of a data frame"
                raise ParameterError(f"{what}, and records is none: leave {name}= out")
        return self._ingest("text", records, if_exists, on_error, only_new, commit_every, progress, on_outcome)

    def add_codes(
        self,
        keys: Iterable[Key],
        codes: Iterable[Code],
        *,
        group: Key | None = None,
        expires_at: Expiry | None = None,
        if_exists: IfExists = "error",
        on_error: OnError = "raise",
        only_new: bool = False,
        commit_every: int | None = None,
        progress: Callable[[int], Any] | None = None,
        on_outcome: OnOutcome | None = None,
    ) -> AddReport:
        """`add_many` for codes: keys and codes (for example the rows of a `uint8[n, bits // 8]`) of the same length.

        group and expires_at are those of all of them.
        """
        check_many("keys", keys)
        check_many("codes", codes)
        if isinstance(keys, Sized) and isinstance(codes, Sized) and len(keys) != len(codes):
            raise ParameterError(f"{len(keys)} keys for {len(codes)} codes: give one key for each code")
        rows = self._looked_at().scheme.code_rows(codes)
        records: Iterable[Any] | Codes = zip(keys, rows, strict=True)
        if group is not None or expires_at is not None:
            records = ({"key": key, "code": code, "group": group, "expires_at": expires_at} for key, code in records)
        elif isinstance(keys, (list, tuple, range)) and isinstance(rows, CodeRows):
            records = Codes(keys, rows)
        return self._ingest("code", records, if_exists, on_error, only_new, commit_every, progress, on_outcome)

    def import_fingerprints(
        self,
        paths: Any,
        *,
        if_exists: IfExists = "error",
        on_error: OnError = "raise",
        commit_every: int | None = None,
        progress: Callable[[int], Any] | None = None,
        on_outcome: OnOutcome | None = None,
    ) -> AddReport:
        """`add_many` for documents whose fingerprints were computed elsewhere: by `export_fingerprints` of another index, by
        `neardup_db.spark`, or by `neardup_db.fingerprint_files.fingerprint_table`.

        paths: a Parquet file, a folder of them, or a list of these. Files are read in the order of their names, so that the first
        rows are the earliest documents. The settings that the files were made with are compared with those of the index before
        anything is stored: other text rules, another scheme or other parameters that decide a fingerprint are a MismatchError.
        Bands and threshold are the index's own. The other arguments are those of `add_many`. Needs pyarrow (the extra "arrow").
        Raises FormatError, ParameterError for an index that compares stored texts.

        >>> import tempfile
        >>> from neardup_db import Index, MinHash
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with Index(":memory:", MinHash()) as index:
        ...         index.add("a", "the quick brown fox jumps over the lazy dog")
        ...         index.export_fingerprints(f"{folder}/part.parquet")
        ...     with Index(":memory:", MinHash()) as other:
        ...         other.import_fingerprints(folder).added
        ...         other.query("The quick brown fox jumps over the lazy dog!")
        []
        1
        1
        [Match(key='a', similarity=1.0, distance=None)]
        """
        store = self._looked_at()
        if store.scheme.settings().get("evidence") == "text":
            raise ParameterError(
                "an exact index that stores its texts compares these, and fingerprints bring none: import into an index without "
                "store_text"
            )
        files = FingerprintFiles(paths)
        files.require(store.scheme, store.rules)
        records = files.records()
        return self._ingest("value", records, if_exists, on_error, False, commit_every, progress, on_outcome, files.require)

    def _ingest(
        self,
        content: str,
        records: Iterable[Any] | Codes | Table,
        if_exists: IfExists,
        on_error: OnError,
        only_new: bool,
        commit_every: int | None,
        progress: Callable[[int], Any] | None,
        on_outcome: OnOutcome | None = None,
        require: Callable[[Scheme, TextRules], None] | None = None,
    ) -> AddReport:
        check_if_exists(if_exists)
        check_choice("on_error", on_error, ("raise", "skip"))
        if commit_every is not None:
            commit_every = check_integer("commit_every", commit_every, 1)
        check_callable("progress", progress)
        check_callable("on_outcome", on_outcome)
        self._looked_at()
        options = IngestOptions(content, if_exists, on_error, bool(only_new), commit_every, progress, on_outcome, require)
        with self._store.db.large_cache():
            ingest = Ingest(self._store, self._readers.own.documents, self._writer, options)
            report = ingest.run(records)
        self._checkpoint()
        warning = None if self._warned else ingest.token_counts.warning(self._store.rules.shingle)
        if warning is not None:
            self._warned = True
            warnings.warn(warning, ShortTextsWarning, stacklevel=3)
        return report

    def _checkpoint(self) -> None:
        """Give the disk space of a long write-ahead log back."""
        db = self._store.db
        loan = db.turn.take(0)
        if loan is not None:  # else another thread is at work already, and the work here is done
            with loan, translated(db.name):
                if db.owned and not db.connection.in_transaction:
                    db.truncate_log()

    # ---- changing and removing -----------------------------------------------------------------------------------------

    def update(self, key: Key, **changes: Any) -> None:
        """Change `metadata=` or `expires_at=` of a document; None clears. Raises KeyNotFoundError, ParameterError."""
        columns: dict[str, Callable[[Any], Any]] = {"metadata": check_metadata, "expires_at": check_expiry}
        unknown = [name for name in changes if name not in columns]
        if unknown or not changes:
            what = f"{unknown[0]!r} cannot be updated" if unknown else "nothing to update"
            raise ParameterError(f"{what}: give metadata= or expires_at=; to change a text, add it with if_exists='replace'")
        values = {name: columns[name](value) for name, value in changes.items()}
        with self._store.writing():
            self._readers.own.documents.update(self._readers.own.found(key, clock.now_ms()).id, values)

    def delete(self, key: Key) -> bool:
        """Remove a document; False if there was none."""
        return self.delete_many([key]) == 1

    def delete_many(self, keys: Iterable[Key]) -> int:
        """Remove documents in one transaction; returns how many there were."""
        checked = [check_key(key) for key in check_many("keys", keys)]
        with self._store.writing():
            now = clock.now_ms()
            rows = [self._readers.own.documents.find(key) for key in dict.fromkeys(checked)]
            self._readers.own.clusters.remove([row.id for row in rows if row is not None], now)
            return sum(row is not None and row.is_visible(now) for row in rows)

    def expire(self, now: Expiry | None = None) -> int:
        """Remove every document whose time has come by `now` (aware datetime or Unix seconds; None = the clock)."""
        given = check_expiry(now, "now")
        with self._store.writing():
            at = clock.now_ms()
            sql = self._store.sql("SELECT id FROM {index}_document WHERE expires_at <= ? ORDER BY id")
            rows = self._store.db.rows(sql, (at if given is None else given,))
            return self._readers.own.clusters.remove([row[0] for row in rows], at)

    def keep_newest(self, n: int) -> int:
        """Remove all but the newest `n` documents; returns how many were removed."""
        n = check_integer("n", n)
        with self._store.writing():
            now = clock.now_ms()
            sql = "SELECT id FROM {index}_document WHERE {visible} ORDER BY id DESC LIMIT -1 OFFSET ?"
            return self._readers.own.clusters.remove([row[0] for row in self._store.db.rows(self._store.sql(sql), (now, n))], now)

    # ---- the whole index ---------------------------------------------------------------------------------------------

    @contextmanager
    def transaction(self) -> Iterator[Index]:
        """Several calls as one transaction: all of them, or after an exception none. Nests. Other threads write after its end.
        What they ask is answered from the state before it, or, in memory and on a connection that was given, after its end too.
        It belongs to the thread, and the asyncio task, that enters it: another task gets a BusyError.

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
        self,
        scheme: Scheme | None = None,
        text: TextRules | None = None,
        *,
        store_text: bool | None = None,
        record_matches: bool | None = None,
        progress: Callable[[int], Any] | None = None,
    ) -> None:
        """Build tables, matches and clusters anew, changing what is given; one transaction.

        scheme, text: other ones. store_text=False drops the stored texts; True is possible where no text is lacking, so in an
        empty index. record_matches: seek and record matches from now on, among what is there too, or drop them. Raises
        ParameterError where new fingerprints are needed, or texts, and the texts are not stored.
        """
        check_kind("scheme", scheme, Scheme, "a scheme, e.g. MinHash(threshold=0.8)")
        check_kind("text", text, TextRules, "a TextRules, e.g. TextRules.words(shingle=3)")
        for name, value in (("store_text", store_text), ("record_matches", record_matches)):
            if value is not None:
                check_flag(name, value)
        check_callable("progress", progress)
        self._store.db.require_open()
        with self._store.db.large_cache(), self._store.writing():
            changes = Choices(scheme, text, store_text, record_matches)
            rebuild(self._store, self._readers.own.clusters, changes, clock.now_ms(), progress or (lambda done: None))
        self._checkpoint()

    def check(self, repair: bool = False) -> CheckReport:
        """Look at every invariant of the file.

        repair=True rebuilds what follows from the documents: fingerprints from stored texts, table rows, matches and clusters.
        What could not be brought back stays among the `problems` of the report. In a file with checksums all pages are looked at
        first; where one is damaged, its number is the report, and nothing is repaired.
        """
        checker = Checker(self._store, self._readers.own.clusters)
        with self._alone():
            report = checker.pages()
        if not report.ok:  # nothing can be read or mended with certainty
            return report
        with self._store.reading():
            report = checker.run()
        if report.ok or not repair:
            return report
        with self._store.writing():
            mender = Repair(self._store, self._readers.own.clusters)
            done = mender.indexes()
            found, lost = mender.run(clock.now_ms(), checker.damaged())
            self._store.refresh()
            return CheckReport((*lost, *checker.run().problems), (*done, *found))

    def compact(self) -> int:
        """Give unused space of the file back (VACUUM); returns the bytes by which the file shrank.

        The names of groups in which no document is left go as well."""
        with self._alone("compact") as db:
            with self._store.writing():
                self._readers.own.documents.drop_unused_groups()
            before = statistics.file_size(self._store)
            db.connection.execute("VACUUM").fetchall()
            if db.owned:
                db.truncate_log()
            return before - statistics.file_size(self._store)

    def backup(self, path: str | bytes | os.PathLike[str]) -> None:
        """Write a consistent copy of the whole database to a new file. Raises ParameterError if the file exists."""
        with self._alone("backup") as db:
            back_up(db, os.fspath(path))

    # ---- helpers -----------------------------------------------------------------------------------------------------

    @contextmanager
    def _alone(self, method: str | None = None) -> Iterator[Database]:
        """The connection for this thread alone, with no records in hand; outside of a transaction where a method is named."""
        db = self._store.db
        db.require_open()
        with db.hold(), translated(db.name):
            db.require_open()
            db.settle()
            if method is not None and db.connection.in_transaction:
                raise NearDupError(f"{method}() cannot run inside a transaction: leave it first")
            yield db

    def _write(
        self, make: Callable[[Store], Sketch], record: Record, write: Callable[..., tuple[Outcome, list[Match]]]
    ) -> list[Match]:
        """Write a record with its sketch, which is made outside the transaction, and again inside if a rebuild came between."""
        sketch, store = self._sketched(make), self._store

        def work() -> list[Match]:
            fitting = sketch if sketch.epoch == store.epoch else make(store)
            return write(record, fitting, clock.now_ms())[1]

        return store.change(work, light=_is_light(record))

    def _record(self, key: Key, metadata: Any, group: Any, expires_at: Expiry | None, text: Any = _CODE) -> Record:
        self._store.db.require_open()
        stored = None
        if text is not _CODE:
            check_text(text)
            stored = storable(text) if self._store.store_text else None
        return Record(check_key(key), stored, check_metadata(metadata), check_group(group), check_expiry(expires_at))


def _is_light(record: Record) -> bool:
    """Whether nothing of a record can turn out to be longer than SQLite allows, when some of it has been written."""
    for part in (record.key, record.text, record.metadata):
        if part is not None and not isinstance(part, int) and len(part) > limits.LIGHT_MAX:
            return False
    return True
