"""The main class, `Index`: a near-duplicate index in a SQLite database."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from types import EllipsisType, TracebackType
from typing import Any, get_args

import apsw

from . import clock, limits
from .arrow import ArrowArray, ArrowStream, is_arrow
from .errors import ClosedError, NearDupError, ParameterError, ShortTextsWarning
from .parameters import (
    Durability,
    Expiry,
    FieldNames,
    IfExists,
    Moment,
    OnError,
    OnMatch,
    Sync,
    Ttl,
    WindowSize,
    check_asked_group,
    check_callable,
    check_choice,
    check_expiry,
    check_fields,
    check_flag,
    check_group,
    check_if_exists,
    check_integer,
    check_key,
    check_kind,
    check_many,
    check_metadata,
    check_moment,
    check_name,
    check_part,
    check_text,
    quoted,
    storable,
)
from .reader import Reader
from .schemes.base import Scheme
from .schemes.codes import Code
from .store.asking import statistics
from .store.asking.documents import DocumentRow
from .store.asking.question import Question
from .store.database.connection import Database
from .store.database.errors import translated
from .store.exchange.importing import FingerprintFiles
from .store.exchange.merging import merge
from .store.following.follower import Follower
from .store.layout.following import Following
from .store.layout.opening import Target, open_store
from .store.layout.sketches import Sketch
from .store.layout.state import Choices, Store
from .store.layout.window import Window
from .store.linking.allowing import allow, disallow, sketch_of, sketch_of_document, withdraw
from .store.linking.changes import Token
from .store.linking.clusters import Clusters
from .store.linking.dismissing import dismiss, dismiss_all, undismiss, undismiss_all
from .store.upkeep.backup import write_backup
from .store.upkeep.check import Checker
from .store.upkeep.rebuild import rebuild
from .store.upkeep.repair import Repair
from .store.writing.columns import Codes, Table, code_records
from .store.writing.ingest import Ingest, IngestOptions
from .store.writing.outcomes import OnOutcome, Outcome
from .store.writing.window import change_window
from .store.writing.writer import Writer
from .text import TextRules
from .values import ANY_GROUP, AddReport, AnyGroup, Changes, CheckReport, Key, Match, Part, Record, SyncReport

DEFAULT_NAME = "neardup"

_CODE = object()
"""Placeholder for the text of a document that is a code."""


class Index(Reader):
    """A near-duplicate index in one SQLite database.

    target: a path, `":memory:"`, or your own connection of apsw, sqlite3 or pysqlite3, whose transactions stay yours (see
    docs/reference/applications.md). scheme: creates a missing or empty file; the file stores all parameters, and later calls may
    omit them or must agree with them.
    text: the TextRules, by default `TextRules()`; use `TextRules.chars(shingle=3)` for texts below about 50 words. name: several
    indexes, and your own tables, may share a database. store_text: keep the texts in the file (default False). record_matches:
    search for matches on every add, record them and maintain clusters (default True). checksums: store a checksum in every page
    of a new file, so that every damaged byte is an error (default False). window: how long documents stay (a timedelta), or how
    many of the latest (an int); adds remove what leaves it (default None: all stay). durability: "full" (an acknowledged write
    survives a power cut) or "normal" (it survives a crash of the program). read_only: every write raises ReadOnlyError. attach:
    allow an index inside another program's database. timeout: seconds to wait for another writer or thread.

    Threads may share an Index: they write in turns and read in parallel, each through its own connection (in memory, and on your
    own connection, they read in turns too). A forked process opens its own Index. A pickled Index consists of path and options.
    Raises ParameterError, FormatError, MismatchError, BusyError.

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
        window: WindowSize | None = None,
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
            window=window,
            durability=durability,
            read_only=read_only,
            attach=attach,
            timeout=timeout,
        )
        super().__init__(store)
        self._warned = False
        if isinstance(target, (str, bytes, os.PathLike)):
            self._target = repr(os.fspath(target))
        else:
            self._target = f"connection to {store.db.connection.filename or ':memory:'!r}"
        self._closed = False
        own = self._readers.own
        self._writer = Writer(store, own.documents, own.search, own.clusters)
        self._follower = Follower(store, own.documents, self._writer)
        self._readers.before = self._follower.catch_up
        try:
            self._follower.mend()
        except BaseException:
            self.close()
            raise
        self._durability = durability

    # ---- the object --------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the index after the running queries of other threads. Your own connection stays open. Closing again does nothing;
        every other call raises ClosedError.

        >>> from neardup_db import Index, MinHash
        >>> index = Index(":memory:", MinHash())
        >>> index.close()
        """
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

    def __reduce__(self) -> tuple[Any, ...]:
        """Path and options. An Index restored by pickle or copy opens its own connections and creates no file."""
        db, choices = self._store.db, self._store.shared.choices[0]
        if db.another is None:
            raise TypeError(
                f"{self!r} has no path that another process, or a copy, could open: give Index the path of a file, or send the "
                "documents"
            )
        if db.is_closed:
            raise ClosedError(f"{self!r} cannot be copied or sent to another process: send the path, and open it there")
        bound = {"store_text": choices.store_text, "record_matches": choices.record_matches, "checksums": choices.checksums}
        how = {"durability": self._durability, "read_only": db.read_only, "timeout": db.timeout}
        return _reopened, (db.name, {"text": choices.rules, "name": self.name, **bound, **how})

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
        ttl: Ttl | None = None,
        if_exists: IfExists = "error",
        limit: int = 10,
    ) -> list[Match]:
        """Store a document and return at most `limit` of its earlier matches, best first.

        metadata: any JSON value. group: search for duplicates within this group only; keys are unique in the whole index.
        expires_at: an aware datetime, Unix seconds, or a timedelta from now, between the years 2000 and 2200. ttl: seconds or a
        timedelta, instead of `expires_at`. if_exists: "error", "replace" (the document becomes the newest) or "ignore"; a key of
        another group always raises DuplicateKeyError. Documents that leave the window with this add are still compared. Without
        `record_matches` the result is empty. Raises DuplicateKeyError, ParameterError, BusyError, ReadOnlyError.

        >>> from neardup_db import Index, MinHash
        >>> with Index(":memory:", MinHash(threshold=0.5)) as index:
        ...     index.add("a1", "the quick brown fox jumps over the lazy dog", metadata={"source": "wire"})
        ...     index.add("a2", "The quick brown fox jumps over the lazy cat!")
        []
        [Match(key='a1', similarity=0.75, distance=None)]
        """
        record = self._record(key, metadata, group, check_expiry(expires_at, ttl), text)
        return self._add(record, lambda store: store.sketch_to_store(text), if_exists, limit)

    def add_code(
        self,
        key: Key,
        code: Code,
        *,
        metadata: Any = None,
        group: Key | None = None,
        expires_at: Expiry | None = None,
        ttl: Ttl | None = None,
        part: Part | None = None,
        if_exists: IfExists = "error",
        limit: int = 10,
    ) -> list[Match]:
        """`add` for a bit code of the application (BinaryCode, SimHash, BitSampling).

        part: the name (text or integer) of this code among several codes of the key (BinaryCode only), such as the rotations of a
        picture. The first code of a key creates the document; codes with other parts are added to it. `if_exists` then applies to
        key and part. Given metadata and expiry replace the document's; the group must be the same. Results contain each key once,
        with its best code.

        >>> from neardup_db import BinaryCode, Index
        >>> with Index(":memory:", BinaryCode(bits=64, max_distance=3)) as index:
        ...     added = index.add_code("cat", 0x0F, part="as it is"), index.add_code("cat", 0xF000, part="turned")
        ...     index.query_code(0xF001), len(index), list(index.get("cat").codes)
        ([Match(key='cat', similarity=0.984375, distance=1, part='turned')], 1, ['as it is', 'turned'])
        """
        record = self._record(key, metadata, group, check_expiry(expires_at, ttl), part=part)
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
        ttl: Ttl | None = None,
        if_exists: IfExists = "error",
        limit: int = 10,
        on_match: OnMatch | None = None,
    ) -> list[Match]:
        """Store a document unless it has matches, in one transaction.

        Returns at most `limit` matches, best first; an empty list means that the document was stored. on_match="touch": count the
        best match as seen again (last_seen, times_seen), and give it the expiry of this call, if any. Other arguments and errors
        as for `add`. An existing key is an error even if the text has matches.

        >>> from neardup_db import Index, MinHash
        >>> with Index(":memory:", MinHash()) as index:
        ...     index.add_if_new("a1", "the quick brown fox jumps over the lazy dog")
        ...     index.add_if_new("a2", "The quick brown fox jumps over the lazy dog!", on_match="touch")
        ...     list(index), index.get("a1").times_seen
        []
        [Match(key='a1', similarity=1.0, distance=None)]
        (['a1'], 2)
        """
        record = self._record(key, metadata, group, check_expiry(expires_at, ttl), text)
        return self._add_if_new(record, lambda store: store.sketch_to_store(text), if_exists, limit, on_match)

    def add_code_if_new(
        self,
        key: Key,
        code: Code,
        *,
        metadata: Any = None,
        group: Key | None = None,
        expires_at: Expiry | None = None,
        ttl: Ttl | None = None,
        part: Part | None = None,
        if_exists: IfExists = "error",
        limit: int = 10,
        on_match: OnMatch | None = None,
    ) -> list[Match]:
        """`add_if_new` for a bit code. part: as for `add_code`. Codes of the same key do not match each other.

        >>> from neardup_db import BinaryCode, Index
        >>> with Index(":memory:", BinaryCode(bits=64, max_distance=3)) as index:
        ...     index.add_code_if_new("a", 0x0F), index.add_code_if_new("b", 0x0E), "b" in index
        ([], [Match(key='a', similarity=0.984375, distance=1)], False)
        """
        record = self._record(key, metadata, group, check_expiry(expires_at, ttl), part=part)
        return self._add_if_new(record, Question(code=code).sketch, if_exists, limit, on_match)

    def _add_if_new(
        self, record: Record, make: Callable[[Store], Sketch], if_exists: IfExists, limit: int, on_match: OnMatch | None
    ) -> list[Match]:
        check_if_exists(if_exists)
        check_choice("on_match", on_match, (None, "touch"))
        limit = check_integer("limit", limit, 1)
        return self._write(make, record, partial(self._writer.add_if_new, if_exists=if_exists, limit=limit, on_match=on_match))

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
        """Store many documents from an iterable of (key, text) pairs or mappings, or from a data frame, with bounded memory.

        The fields of a mapping are named like `add`'s arguments; other fields make a record invalid. If key, text, group or
        metadata name fields, each record must have these, and other fields are ignored.

        A data frame is anything that Arrow reads: a pyarrow Table, RecordBatch or RecordBatchReader, a pandas (2.2 or later) or
        polars DataFrame, a DuckDB relation. key, text, group: column names. metadata: the columns of each row's metadata,
        {name: value}. Keys and groups are strings, integers or binary. A null key or text makes a record invalid; a null group
        means no group.

        commit_every: commit after this many records; None for one transaction. on_error="skip": skip and count invalid records.
        only_new: like `add_if_new` for each record in order. progress: called at times with the number of records so far.

        on_outcome: called as `f(key, outcome, match)` for each record, in order, after its transaction is committed. The outcome
        is "added" or "replaced" (with the best earlier match, if any), "duplicate" (with the match because of which only_new
        refused it), "ignored" (if_exists="ignore" and an existing key) or "skipped" (with a Skipped instead of a match). Inside
        your own transaction the calls come at the end of each part. Pending calls wait in memory, so use commit_every for
        millions of records. The function may use the index; an exception from it ends `add_many`.

        The iterable and `progress` may query the index, which then contains every record yielded before, but not write to it.

        Warns once (ShortTextsWarning) if most texts have fewer than 20 words and shingles have three or more.

        >>> import pyarrow
        >>> from neardup_db import Index, MinHash
        >>> stories = pyarrow.table({"id": [1, 2], "body": ["the quick brown fox jumps", "the quick brown fox sleeps"]})
        >>> with Index(":memory:", MinHash(threshold=0.5)) as index:
        ...     index.add_many(stories, key="id", text="body")
        AddReport(added=2, replaced=0, ignored=0, skipped=0, matched=1, problems=())
        >>> rows = [{"id": 1, "body": "the quick brown fox jumps", "source": "wire"}]
        >>> with Index(":memory:", MinHash(threshold=0.5)) as index:
        ...     index.add_many(rows, key="id", text="body", metadata=["source"]).added, index.get(1).metadata
        (1, {'source': 'wire'})
        """
        if is_arrow(records):
            with Table(records, key, text, group, metadata) as table:
                return self._ingest("text", table, if_exists, on_error, only_new, commit_every, progress, on_outcome)
        records = check_many("records", records, "give pairs (key, text), mappings, or a table that Arrow reads")
        fields = check_fields(key, text, group, metadata)
        return self._ingest("text", records, if_exists, on_error, only_new, commit_every, progress, on_outcome, fields=fields)

    def _add_piece(
        self,
        first: int,
        records: list[Any],
        *,
        key: str | None,
        text: str | None,
        group: str | None,
        metadata: Sequence[str] | None,
        if_exists: IfExists,
        on_error: OnError,
        only_new: bool,
        on_outcome: OnOutcome | None = None,
    ) -> AddReport:
        """`add_many` for one piece of records; `first` is the number of its first record."""
        fields = check_fields(key, text, group, metadata)
        return self._ingest("text", records, if_exists, on_error, only_new, None, None, on_outcome, fields=fields, first=first)

    def add_codes(
        self,
        keys: Iterable[Key],
        codes: Iterable[Code],
        *,
        metadata: Any = None,
        group: Key | Iterable[Key | None] | None = None,
        expires_at: Expiry | Iterable[Expiry | None] | None = None,
        ttl: Ttl | Iterable[Ttl | None] | None = None,
        part: Part | Iterable[Part | None] | None = None,
        if_exists: IfExists = "error",
        on_error: OnError = "raise",
        only_new: bool = False,
        commit_every: int | None = None,
        progress: Callable[[int], Any] | None = None,
        on_outcome: OnOutcome | None = None,
    ) -> AddReport:
        """`add_many` for codes, with keys and codes of equal length.

        codes: any iterable of codes as for `add_code`, or an array: `uint8[n, bits // 8]`, `bool[n, bits]`, for 64 bits
        `uint64[n]` or `int64[n]`. metadata, group, expires_at, ttl, part: a list (array, Series) with a value for each record, or
        one value for all; metadata that is itself a list must be inside a list.

        part: as for `add_code`; a key is repeated for each of its codes, and the report counts codes. Raises ParameterError with
        only_new, because only some codes of a key may be new.

        >>> from neardup_db import BinaryCode, Index
        >>> with Index(":memory:", BinaryCode(bits=64, max_distance=3)) as index:
        ...     report = index.add_codes(["a", "b"], [0x0F, 0xFF00], metadata=[{"page": 1}, {"page": 2}], group="scans")
        ...     index.get("b").metadata, index.get("b").code.hex()
        ({'page': 2}, '000000000000ff00')
        """
        check_many("keys", keys)
        check_many("codes", codes)
        if part is not None and only_new:
            raise ParameterError(
                "only_new=True does not go with part=: a key may be new by some of its codes only. Ask query_codes first, or "
                "call add_code_if_new for each"
            )
        rows = self._current_store().scheme.code_rows(codes)
        more = {"metadata": metadata, "group": group, "expires_at": expires_at, "ttl": ttl, "part": part}
        records = code_records(keys, rows, more)
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
        """`add_many` for fingerprints from `export_fingerprints`, `neardup_db.spark` or
        `neardup_db.fingerprint_files.fingerprint_table`.

        paths: a Parquet file, a folder of them, or a list of both. Files are read in the order of their names, and the first rows
        become the earliest documents. Files made with other text rules, another scheme or other fingerprint parameters raise
        MismatchError before anything is stored; bands and threshold may differ. Other arguments as for `add_many`. Needs pyarrow
        (the extra "arrow"). Raises FormatError, and ParameterError for an index with stored texts.

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
        store = self._current_store()
        if store.store_text:
            raise ParameterError(
                "an index that stores its texts would lack those of fingerprints, which bring none: import into an index without "
                "store_text"
            )
        files = FingerprintFiles(paths)
        files.require(store.scheme, store.rules)
        records = files.records()
        return self._ingest("value", records, if_exists, on_error, False, commit_every, progress, on_outcome, files.require)

    def merge(
        self,
        other: Reader | str | bytes | os.PathLike[str],
        *,
        if_exists: IfExists = "error",
        commit_every: int | None = None,
        progress: Callable[[int], Any] | None = None,
    ) -> AddReport:
        """Add the documents of another index with their fingerprints, and their texts if both indexes store texts.

        other: an Index, or the path of a file with an index of the same name. It is read in one state and may be written
        meanwhile. Its text rules, scheme and fingerprint parameters must be equal, else MismatchError; bands, threshold and
        recording of matches may differ.

        The documents are added after the existing ones, in their order, with groups (by name), metadata, expiry and times
        (added_at, last_seen, times_seen). Several codes of a key are added as by `add_codes`. Expired documents, and documents
        too old for this index's window, are skipped. A key of another group raises DuplicateKeyError. Matches and clusters are
        computed as if all documents had been added here. Other arguments and the report as for `add_many`. Raises
        CorruptIndexError for a damaged document of the other index, ParameterError for the same index.

        >>> from neardup_db import Index, MinHash
        >>> with Index(":memory:", MinHash()) as index, Index(":memory:", MinHash()) as other:
        ...     index.add("a", "the quick brown fox jumps over the lazy dog")
        ...     other.add("b", "The quick brown fox jumps over the lazy dog!")
        ...     index.merge(other)
        ...     index.clusters()
        []
        []
        AddReport(added=1, replaced=0, ignored=0, skipped=0, matched=1, problems=())
        [Cluster(representative='a', keys=('a', 'b'))]
        """
        self._store.db.require_open()
        check_if_exists(if_exists)
        if commit_every is not None:
            commit_every = check_integer("commit_every", commit_every, 1)
        options = IngestOptions("value", if_exists, "raise", False, commit_every, check_callable("progress", progress))
        report = merge(self._readers.own, self._writer, other._readers if isinstance(other, Reader) else other, options)
        self._checkpoint()
        return report

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
        fields: FieldNames | None = None,
        first: int = 0,
    ) -> AddReport:
        check_if_exists(if_exists)
        check_choice("on_error", on_error, ("raise", "skip"))
        if commit_every is not None:
            commit_every = check_integer("commit_every", commit_every, 1)
        check_callable("progress", progress)
        check_callable("on_outcome", on_outcome)
        self._current_store()
        options = IngestOptions(
            content, if_exists, on_error, bool(only_new), commit_every, progress, on_outcome, require, fields, first=first
        )
        with self._store.db.large_cache():
            ingest = Ingest(self._store, self._readers.own.documents, self._writer, options)
            report = ingest.run(records)
        self._checkpoint()
        self._warn(ingest.token_counts.warning(self._store.rules.shingle), 4)
        return report

    def _warn(self, warning: str | None, stacklevel: int) -> None:
        """Warn once, with the caller `stacklevel` levels above."""
        if warning is not None and not self._warned:
            self._warned = True
            warnings.warn(warning, ShortTextsWarning, stacklevel=stacklevel)

    def _checkpoint(self) -> None:
        """Truncate a long write-ahead log."""
        db = self._store.db
        loan = db.turn.take(0)
        if loan is not None:  # else another thread is at work already, and the work here is done
            with loan, translated(db.name):
                if db.owned and not db.connection.in_transaction:
                    db.truncate_log()

    # ---- following a table -----------------------------------------------------------------------------------------------

    def follow(
        self,
        table: str,
        key: str = "id",
        text: str = "body",
        group: str | None = None,
        where: str | None = None,
        *,
        sync: Sync | None = None,
    ) -> None:
        """Make the rows of a table in the same database the documents of this index.

        key, text, group: column names. The key is the PRIMARY KEY, or UNIQUE and NOT NULL. Rows with a NULL text are no
        documents. where: an SQL condition on the row's own columns with SQLite's own functions; it becomes part of SQL, so never
        take it from users. Texts are not copied unless the index has store_text.

        Triggers in plain SQL note the keys of changed rows, and `sync` processes them, at first all rows. sync="query": every
        query does this first, unless the index is read_only. Another call changes columns, condition or `sync`. Raises
        ParameterError, and MismatchError if another table is followed or a needed name is taken.

        >>> import apsw
        >>> from neardup_db import Index, MinHash
        >>> application = apsw.Connection(":memory:")
        >>> _ = application.execute("CREATE TABLE articles (id INTEGER PRIMARY KEY, body TEXT)")
        >>> _ = application.execute("INSERT INTO articles (body) VALUES ('the quick brown fox jumps')")
        >>> index = Index(application, MinHash(threshold=0.5))
        >>> index.follow("articles")
        >>> index.sync().added
        1
        >>> index.query("The quick brown fox jumps!")
        [Match(key=1, similarity=1.0, distance=None)]
        """
        for name, value in (("table", table), ("key", key), ("text", text), ("group", group), ("where", where)):
            if value is not None or name in ("table", "key", "text"):
                check_name(name, value)
        check_choice("sync", sync, (None, *get_args(Sync)))
        self._store.db.require_open()
        self._follower.follow(Following(table, key, text, group, where, sync))

    def unfollow(self) -> bool:
        """Stop following the table: drop its triggers and keep the documents. False if no table was followed.

        >>> import apsw
        >>> from neardup_db import Index, MinHash
        >>> application = apsw.Connection(":memory:")
        >>> _ = application.execute("CREATE TABLE articles (id INTEGER PRIMARY KEY, body TEXT)")
        >>> index = Index(application, MinHash())
        >>> index.follow("articles")
        >>> index.unfollow(), index.unfollow()
        (True, False)
        """
        self._store.db.require_open()
        return self._follower.unfollow()

    def sync(
        self,
        limit: int | None = None,
        *,
        full: bool = False,
        commit_every: int | None = None,
        progress: Callable[[int], Any] | None = None,
    ) -> SyncReport:
        """Update the documents from changed rows of the followed table, in its own transaction or the open one.

        limit: process at most this many keys; `complete` of the report tells whether any are left. full=True: also compare all
        rows with their documents, in bounded memory (with a limit, over several calls). commit_every: commit after this many
        keys, so that other writers get their turn. progress: called at times with the number of processed keys.

        All rows are also compared if triggers are missing, which are then recreated, or if the number of rows shows an unnoted
        change, as after REPLACE. Raises MismatchError if the table or a column is gone or a needed name is taken, ParameterError
        if no table is followed, BusyError, ReadOnlyError.

        Warns once (ShortTextsWarning) as `add_many` does.

        >>> import apsw
        >>> from neardup_db import Index, MinHash
        >>> application = apsw.Connection(":memory:")
        >>> _ = application.execute("CREATE TABLE articles (id INTEGER PRIMARY KEY, body TEXT)")
        >>> index = Index(application, MinHash())
        >>> index.follow("articles")
        >>> _ = application.execute("INSERT INTO articles (body) VALUES ('the quick brown fox jumps')")
        >>> report = index.sync()
        >>> report.added, report.complete
        (1, True)
        """
        limit = None if limit is None else check_integer("limit", limit, 1)
        if commit_every is not None:
            commit_every = check_integer("commit_every", commit_every, 1)
        full = check_flag("full", full)
        check_callable("progress", progress)
        self._store.db.require_open()
        with self._store.db.large_cache():
            report = self._follower.sync(limit, full, commit_every, progress)
        self._checkpoint()
        self._warn(self._follower.warning, 3)
        return report

    # ---- changing and removing -----------------------------------------------------------------------------------------

    def update(self, key: Key, *, group: Key | AnyGroup | None = ANY_GROUP, **changes: Any) -> None:
        """Change `metadata=` or `expires_at=` of a document; None clears the value.

        ttl: seconds or a timedelta, instead of `expires_at`. To change the text, add the document with if_exists="replace".
        group: as for `get`. Raises KeyNotFoundError, ParameterError.

        >>> from neardup_db import Index, MinHash
        >>> with Index(":memory:", MinHash()) as index:
        ...     matches = index.add("a1", "the quick brown fox", metadata={"read": False})
        ...     index.update("a1", metadata={"read": True})
        ...     index.get("a1").metadata
        {'read': True}
        """
        columns: dict[str, Callable[[Any], Any]] = {
            "metadata": check_metadata, "expires_at": check_expiry, "ttl": partial(check_expiry, None)
        }  # fmt: skip
        unknown = [name for name in changes if name not in columns]
        if unknown or not changes:
            what = f"{unknown[0]!r} cannot be updated" if unknown else "nothing to update"
            remedy = "give metadata=, expires_at= or ttl=; to change a text, add it with if_exists='replace'"
            raise ParameterError(f"{what}: {remedy}")
        if "ttl" in changes and (changes["ttl"] is None or "expires_at" in changes):
            remedy = "give a time, and no expires_at=; expires_at=None clears the expiry"
            raise ParameterError(f"ttl={quoted(changes['ttl'])}: {remedy}")
        values = {name: columns[name](value) for name, value in changes.items()}
        if "ttl" in values:
            values["expires_at"] = values.pop("ttl")
        group = check_asked_group(group)
        with self._writing_documents():
            self._readers.own.documents.update(self._readers.own.document_row(key, clock.now_ms(), group).id, values)

    def delete(
        self, key: Key, *, part: Part | None | EllipsisType = ..., group: Key | AnyGroup | None = ANY_GROUP
    ) -> bool:
        """Delete a document; False if there was none. group: as for `get`.

        part: delete only the code with this part (None: the unnamed code), and the document with its last code. False if there is
        no such code. Raises ParameterError for a part in an index without BinaryCode.

        >>> from neardup_db import BinaryCode, Index
        >>> with Index(":memory:", BinaryCode(bits=64, max_distance=3)) as index:
        ...     report = index.add_codes(["cat", "cat"], [0x0F, 0xF000], part=["as it is", "turned"])
        ...     index.delete("cat", part="as it is"), index.query_code(0x0F), list(index.get("cat").codes)
        (True, [], ['turned'])
        """
        if isinstance(part, EllipsisType):
            return self.delete_many([key], group=group) == 1
        key, part, group = check_key(key), check_part(part), check_asked_group(group)
        with self._writing_documents():
            return self._writer.remove_part(key, part, clock.now_ms(), group)

    def delete_many(self, keys: Iterable[Key], *, group: Key | AnyGroup | None = ANY_GROUP) -> int:
        """Delete documents in one transaction and return their number. Missing and repeated keys are ignored. group: as for
        `get`.

        >>> from neardup_db import Index, MinHash
        >>> with Index(":memory:", MinHash()) as index:
        ...     report = index.add_many((number, f"report number {number} of the day") for number in range(5))
        ...     index.delete_many([0, 1, 7]), list(index)
        (2, [2, 3, 4])
        """
        checked, group = [check_key(key) for key in check_many("keys", keys)], check_asked_group(group)
        with self._writing_documents():
            now, documents = clock.now_ms(), self._readers.own.documents
            found = filter(None, map(documents.find, dict.fromkeys(checked)))
            rows = [row for row in found if documents.is_in_group(row, group)]
            self._readers.own.clusters.remove([row.id for row in rows], now)
            return sum(row.is_visible(now) for row in rows)

    def delete_group(self, name: Key | None) -> int:
        """Delete all documents of a group (None: without a group) in one transaction and return their number.

        The time is proportional to the deleted documents and to the empty texts of all groups.

        >>> from neardup_db import Index, MinHash
        >>> with Index(":memory:", MinHash()) as index:
        ...     for key, language in (("a", "de"), ("b", "de"), ("c", "fr")):
        ...         matches = index.add(key, f"text number {key} of this language", group=language)
        ...     index.delete_group("de"), index.delete_group("de"), list(index)
        (2, 0, ['c'])
        """
        name = check_group(name)
        with self._writing_documents():
            now, own = clock.now_ms(), self._readers.own
            rows = own.documents.of_group(own.documents.group_id(name), now)
            own.clusters.remove([document_id for document_id, _ in rows], now)
            return sum(is_visible for _, is_visible in rows)

    @property
    def window(self) -> WindowSize | None:
        """How long documents stay, or how many of the latest, as the file stores it; None: all."""
        return self._current_store().window.argument

    def set_window(self, window: WindowSize | None) -> None:
        """Change the window to a time span (a timedelta), a number of the latest documents (an int), or None for all.

        Documents outside the new window are invisible at once, and removed by later adds or `expire`. Removed documents do not
        return. Reads every document in one transaction.

        >>> from datetime import timedelta
        >>> from neardup_db import Index, MinHash
        >>> with Index(":memory:", MinHash(), window=2) as index:
        ...     for key in "abc":
        ...         matches = index.add(key, f"a text of its own, and its name is {key}")
        ...     print(list(index))
        ...     index.set_window(timedelta(hours=24))
        ...     index.window
        ['b', 'c']
        datetime.timedelta(days=1)
        """
        given = Window.from_argument(window)
        with self._writing_documents():
            change_window(self._store, self._readers.own.documents, given, clock.now_ms())

    def expire(self, now: Moment | None = None) -> int:
        """Delete every document expired at `now` (an aware datetime or Unix seconds; None: the clock) and return their number.

        >>> from datetime import timedelta
        >>> import time
        >>> from neardup_db import Index, MinHash
        >>> with Index(":memory:", MinHash()) as index:
        ...     matches = index.add("a1", "the quick brown fox", expires_at=timedelta(hours=1))
        ...     index.expire(), index.expire(time.time() + 7200)
        (0, 1)
        """
        given = check_moment(now, "now")
        with self._writing_documents():
            at = clock.now_ms()
            sql = self._store.sql("SELECT id FROM {index}_document WHERE expires_at <= ? ORDER BY id")
            rows = self._store.db.rows(sql, (at if given is None else given,))
            return self._readers.own.clusters.remove([row[0] for row in rows], at)

    def keep_newest(self, n: int) -> int:
        """Delete all but the `n` documents added last, and return the number deleted.

        >>> from neardup_db import Index, MinHash
        >>> with Index(":memory:", MinHash()) as index:
        ...     report = index.add_many((number, f"report number {number} of the day") for number in range(5))
        ...     index.keep_newest(2), list(index)
        (3, [3, 4])
        """
        n = check_integer("n", n)
        with self._writing_documents():
            now = clock.now_ms()
            sql = "SELECT id FROM {index}_document WHERE {visible} ORDER BY id DESC LIMIT -1 OFFSET ?"
            return self._readers.own.clusters.remove([row[0] for row in self._store.db.rows(self._store.sql(sql), (now, n))], now)

    # ---- human review --------------------------------------------------------------------------------------------------

    def dismiss(self, key_a: Key, key_b: Key | None = None) -> int:
        """Declare that two documents are no duplicates; False if they were dismissed before. With one key: dismiss the document
        with each stored document that it matches, and return the number of these pairs.

        A dismissed pair is in no `matches`, `pairs()` or recorded match, and its cluster is split unless other documents connect
        the two (`explain_match` names them). A dismissal survives `rebuild`, and ends with `undismiss` or when either document is
        deleted or replaced. Documents that do not match may be dismissed too. `query` and `add` still compare texts with both, so
        a later document may connect them again. Raises KeyNotFoundError, and ParameterError for equal keys.

        >>> from neardup_db import Index, MinHash
        >>> with Index(":memory:", MinHash(threshold=0.5)) as index:
        ...     added = [index.add(key, "chapter one of the report") for key in ("a", "b", "c")]
        ...     index.dismiss("a"), index.matches("a"), index.clusters(), list(index.dismissed())
        (2, [], [Cluster(representative='b', keys=('b', 'c'))], [('a', 'b'), ('a', 'c')])
        """
        return self._decide(dismiss_all, key_a) if key_b is None else self._decide(dismiss, key_a, key_b)

    def undismiss(self, key_a: Key, key_b: Key | None = None) -> int:
        """Undo `dismiss` for two documents; False if they were not dismissed. With one key: undo all of its dismissals and return
        their number. Raises KeyNotFoundError, and ParameterError for equal keys.

        >>> from neardup_db import Index, MinHash
        >>> with Index(":memory:", MinHash(threshold=0.5)) as index:
        ...     for key in ("a", "b"):
        ...         matches = index.add(key, "the weekly report of the harbour")
        ...     index.dismiss("a", "b"), len(index.clusters()), index.undismiss("a"), len(index.clusters())
        (True, 0, 1, 1)
        """
        return self._decide(undismiss_all, key_a) if key_b is None else self._decide(undismiss, key_a, key_b)

    def allow(self, text: str | bytes | None = None, *, key: Key | None = None, note: str | None = None) -> int:
        """Exempt texts like this one, such as a greeting or a footer, from matching in all groups. Returns the number of stored
        documents that are exempt now.

        Texts similar by the index's rule are exempt: `query` returns nothing for them, `add` and `add_if_new` store them without
        matches, and stored ones are in no `matches`, `pairs()` or cluster. The index keeps the fingerprint until `disallow`,
        independent of documents. key: use the text of a stored document. note: a comment, shown by `allowed()`.

        Compares every stored fingerprint once, and every later text with each allowed text, at most 1,000. Raises
        KeyNotFoundError, and ParameterError in an index of codes and for a text without shingles.

        >>> from neardup_db import Index, MinHash
        >>> reply = "Thanks for your message, we will reply within 24 hours"
        >>> with Index(":memory:", MinHash(threshold=0.5)) as index:
        ...     added = [index.add(number, reply) for number in range(3)]
        ...     index.allow(reply, note="automatic reply"), index.clusters(), index.add(4, reply), index.query(reply + "!")
        (3, [], [], [])
        """
        if note is not None and not isinstance(note, str):
            raise ParameterError(f"note={quoted(note)}: give text, or leave note= out")
        if note is not None:
            note = storable(note)
        stored = None if text is None else storable(check_text(text))

        def work(clusters: Clusters, sketch: Sketch, found: DocumentRow | None, now: int) -> int:
            kept = stored if found is None else clusters.documents.text(found.id)
            return allow(clusters, sketch, kept, note, now)

        return self._decide_text(work, text, key)

    def disallow(self, text: str | bytes | None = None, *, key: Key | None = None, id: int | None = None) -> int:
        """Undo `allow` for each allowed text like the given one, and return their number. Stored documents that are like no other
        allowed text match again.

        key: use the text of a stored document. id: the number of an allowed text, from `allowed()`. Raises KeyNotFoundError.

        >>> from neardup_db import Index, MinHash
        >>> with Index(":memory:", MinHash(threshold=0.5)) as index:
        ...     added = [index.add(number, "see you later, alligator") for number in range(2)]
        ...     index.allow("see you later, alligator"), index.disallow(key=0), index.disallow(key=0), len(index.clusters())
        (2, 1, 0, 1)
        """
        if id is None:
            return self._decide_text(lambda clusters, sketch, _, now: disallow(clusters, sketch, now), text, key)
        if text is not None or key is not None:
            raise ParameterError(f"id={quoted(id)} does not go with text= or key=: give one of the three")
        number = check_integer("id", id)
        self._follower.catch_up(self._readers)
        with self._store.writing():
            return withdraw(self._readers.own.clusters, [number], clock.now_ms())

    def _decide_text(
        self, decide: Callable[[Clusters, Sketch, DocumentRow | None, int], int], text: str | bytes | None, key: Key | None
    ) -> int:
        """Call `decide` with the sketch of a text, or of the stored document of a key."""
        if (text is None) == (key is None):
            raise ParameterError("give either a text or the key= of a stored document")
        if text is not None:
            check_text(text)
        self._follower.catch_up(self._readers)
        with self._store.writing():
            now, own = clock.now_ms(), self._readers.own
            if text is not None:
                return decide(own.clusters, sketch_of(self._store, text), None, now)
            found = own.document_row(check_key(key), now)
            return decide(own.clusters, sketch_of_document(own.clusters, found), found, now)

    def changes(self, since: str | None = None, *, limit: int = 1000) -> Changes:
        """At most `limit` changes since an earlier call, whose `token` is given as `since`, in one state of the index.

        To follow an index, another system calls this repeatedly with the latest token, which it may store. Without `since` the
        result starts from the beginning, with all documents as added. The first call makes the index record changes: a row for
        each removed document, each document in another cluster, and each changed set of codes, but none for added documents. The
        latest million rows are kept. Call again if `more` is true.

        Expired documents count until `expire` removes them. Cluster numbers are those of the view `neardup_clusters`: joined
        clusters take the number of the largest (sizes are compared up to 1,000), the largest part of a split cluster keeps its
        number, and numbers are not reused.

        Raises MismatchError if the changes since the token are lost: after `rebuild`, `check(repair=True)` or `forget_changes`,
        or after more than a million changes. Then start again without `since`. Raises ParameterError for an invalid token,
        ReadOnlyError for the first call with read_only=True.

        >>> from neardup_db import Index, MinHash
        >>> with Index(":memory:", MinHash(threshold=0.5)) as index:
        ...     begun = index.changes()
        ...     added = index.add("a", "chapter one of the report"), index.add("b", "chapter one of the report")
        ...     changes = index.changes(begun.token)
        >>> changes.added, changes.removed, changes.clusters
        (('a', 'b'), (), (('a', 2), ('b', 2)))
        """
        token = None if since is None else Token.parse(since)
        limit = min(check_integer("limit", limit, 1), 2**62)
        with self._readers.reading() as reader:
            if token is not None or reader.store.notes_changes:
                return reader.clusters.changes.page(token, limit)
        with self._store.writing():
            log = self._readers.own.clusters.changes
            if not self._store.notes_changes:
                log.begin()
            return log.page(None, limit)

    def forget_changes(self) -> bool:
        """Stop recording changes until `changes` is called without `since`, and invalidate all tokens. False if no changes were
        recorded.

        >>> from neardup_db import Index, MinHash
        >>> with Index(":memory:", MinHash()) as index:
        ...     token = index.changes().token
        ...     index.forget_changes(), index.forget_changes()
        (True, False)
        """
        with self._store.writing():
            return self._readers.own.clusters.changes.forget()

    def _decide(self, decide: Callable[..., int], *keys: Key) -> int:
        named = dict(zip(("key_a", "key_b"), keys, strict=False))
        checked = [check_key(key, name) for name, key in named.items()]
        if len(checked) == 2 and type(checked[0]) is type(checked[1]) and checked[0] == checked[1]:
            raise ParameterError(f"key_b={quoted(keys[1])} is key_a too: give the keys of two documents")
        self._follower.catch_up(self._readers)
        with self._store.writing():
            now = clock.now_ms()
            found = [self._readers.own.document_row(key, now) for key in checked]
            return decide(self._readers.own.clusters, *found, now)

    # ---- the whole index ---------------------------------------------------------------------------------------------

    @contextmanager
    def transaction(self) -> Iterator[Index]:
        """Combine calls in one transaction, which an exception rolls back. Transactions nest.

        Other threads wait to write, and read the state before the transaction (in memory, and on your own connection, they wait
        to read too). The transaction belongs to the thread and asyncio task that entered it; other tasks get a BusyError. Your
        exceptions, including those of statements on `connection`, pass through unchanged.

        >>> from neardup_db import DuplicateKeyError, Index, MinHash
        >>> with Index(":memory:", MinHash()) as index:
        ...     try:
        ...         with index.transaction():
        ...             matches = index.add("a1", "the quick brown fox")
        ...             matches = index.add("a1", "a key that is taken")
        ...     except DuplicateKeyError:
        ...         len(index)
        0
        """
        own: apsw.Error | None = None
        try:
            with self._store.writing(is_block=True):
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
        """Recompute candidate rows, matches and clusters with changed settings, in one transaction.

        scheme, text: new settings. store_text: False drops the stored texts; True needs an empty index or stored texts.
        record_matches: start or stop recording matches, also of stored documents. progress: called at times with the number of
        processed documents. Raises ParameterError if the change needs texts that are not stored.

        >>> from neardup_db import Index, MinHash
        >>> with Index(":memory:", MinHash(threshold=0.9)) as index:
        ...     index.add("a1", "the quick brown fox jumps over the lazy dog")
        ...     index.add("a2", "The quick brown fox jumps over the lazy cat!")
        ...     index.rebuild(MinHash(threshold=0.5))
        ...     index.clusters()
        []
        []
        [Cluster(representative='a1', keys=('a1', 'a2'))]
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
        """Verify every invariant of the file.

        repair=True recomputes what documents determine: fingerprints from stored texts, candidate rows, matches and clusters.
        `problems` of the report lists what cannot be recomputed. In a file with checksums all pages are verified first; if one is
        damaged, the report names it and nothing is repaired.

        >>> from neardup_db import Index, MinHash
        >>> with Index(":memory:", MinHash()) as index:
        ...     matches = index.add("a1", "the quick brown fox")
        ...     report = index.check()
        >>> report.ok, report.problems
        (True, ())
        """
        checker = Checker(self._store, self._readers.own.clusters)
        with self._alone():
            report = checker.pages()
        if not report.ok:  # nothing can be read or mended with certainty
            return report
        with self._alone(), self._store.losses_tolerated(), self._store.reading():
            report = checker.run()
        if report.ok or not repair:
            return report
        with self._alone(), self._store.losses_tolerated(), self._store.writing():
            mender = Repair(self._store, self._readers.own.clusters)
            done = self._follower.repair_triggers() + mender.indexes()
            found, lost = mender.run(clock.now_ms(), checker.damaged())
            found += self._follower.repair_documents()
            self._store.refresh()
            report = checker.run()
            return CheckReport((*lost, *report.problems), (*done, *found), report.notes)

    def compact(self) -> int:
        """Release unused space (VACUUM) and return the number of bytes by which the file shrank.

        This also erases the bytes of deleted documents and the names of empty groups. Raises NearDupError inside a transaction,
        DiskFullError.

        >>> from neardup_db import Index, MinHash
        >>> with Index(":memory:", MinHash()) as index:
        ...     report = index.add_many((number, f"report number {number} of the day " * 5) for number in range(1000))
        ...     removed = index.keep_newest(1)
        ...     index.compact() > 100_000
        True
        """
        with self._alone("compact") as db:
            with self._store.writing():
                self._readers.own.documents.drop_unused_groups()
            before = statistics.file_size(self._store)
            db.connection.execute("VACUUM").fetchall()
            if db.owned:
                db.truncate_log()
            return before - statistics.file_size(self._store)

    def backup(self, path: str | bytes | os.PathLike[str]) -> None:
        """Copy the whole database to a new file in one consistent state, while others may write. The file appears when complete.

        Raises ParameterError if the file exists, NearDupError inside a transaction, DiskFullError.

        >>> import os, tempfile
        >>> from neardup_db import Index, MinHash
        >>> with tempfile.TemporaryDirectory() as folder, Index(":memory:", MinHash()) as index:
        ...     matches = index.add("a1", "the quick brown fox")
        ...     index.backup(os.path.join(folder, "copy.db"))
        ...     with Index(os.path.join(folder, "copy.db")) as copy:
        ...         list(copy)
        ['a1']
        """
        with self._alone("backup") as db:
            write_backup(db, os.fspath(path))

    # ---- helpers -----------------------------------------------------------------------------------------------------

    @contextmanager
    def _writing_documents(self) -> Iterator[None]:
        """A write transaction for documents. Raises an error if the index follows a table."""
        with self._store.writing():
            self._store.require_own_documents()
            yield

    @contextmanager
    def _alone(self, method: str | None = None) -> Iterator[Database]:
        """Lock the connection after writing pending records. method: refuse to run inside a transaction."""
        db = self._store.db
        db.require_open()
        with db.lock(), translated(db.name):
            db.require_open()
            db.settle()
            if method is not None and db.connection.in_transaction:
                raise NearDupError(f"{method}() cannot run inside a transaction: leave it first")
            yield db

    def _write(
        self, make: Callable[[Store], Sketch], record: Record, write: Callable[..., tuple[Outcome, list[Match]]]
    ) -> list[Match]:
        """Write a record. Its sketch is computed before the transaction, and again inside after a concurrent rebuild."""
        sketch, store = self._sketched(make), self._store

        def work() -> list[Match]:
            store.require_own_documents()
            fitting = sketch if sketch.epoch == store.epoch else make(store)
            return write(record, fitting, clock.now_ms())[1]

        return store.change(work, light=_is_light(record))

    def _record(
        self, key: Key, metadata: Any, group: Any, expires_at: int | None, text: Any = _CODE, part: Part | None = None
    ) -> Record:
        self._store.db.require_open()
        stored = None
        if text is not _CODE:
            check_text(text)
            stored = storable(text) if self._store.store_text else None
        more = check_metadata(metadata), check_group(group), expires_at
        return Record(check_key(key), stored, *more, part=check_part(part))


def _reopened(path: str, options: dict[str, Any]) -> Index:
    return Index(path, **options)


def _is_light(record: Record) -> bool:
    """Whether writing a record cannot fail halfway by SQLite's size limit or a missing table."""
    for value in (record.key, record.text, record.metadata):
        if value is not None and not isinstance(value, int) and len(value) > limits.LIGHT_MAX:
            return False
    return record.part is None
