"""The methods of `Index` that add documents."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from . import clock, limits
from .arrow import ArrowArray, ArrowStream, is_arrow
from .errors import ParameterError, ShortTextsWarning
from .parameters import (
    Expiry,
    IfExists,
    OnError,
    OnMatch,
    Ttl,
    check_choice,
    check_if_exists,
    check_integer,
    check_many,
    check_text,
)
from .reader import Reader
from .records import check_fields, checked_record
from .schemes.codes import Code
from .store.database.errors import translated
from .store.following.follower import Follower
from .store.ingest.batch_writer import IngestOptions
from .store.ingest.columns import Codes, Table, code_records
from .store.ingest.ingest import Ingest
from .store.ingest.outcomes import OnOutcome, Outcome
from .store.ingest.writer import Writer
from .store.layout.sketches import Sketch
from .store.layout.state import Store
from .store.query.search import QuerySpec
from .store.transfer.importing import FingerprintFiles
from .store.transfer.merging import merge
from .values import AddReport, Key, Match, Part, Record


class AddMethods(Reader):
    _writer: Writer
    _follower: Follower
    _warned = False

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
        record = self._record(key, check_text(text), metadata, group, expires_at, ttl)
        return self._write(self._writer.add, record, _sketching(text), if_exists, check_integer("limit", limit))

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
        key and part. Given metadata and expiry replace the document's; the group must be the same. A match has a key's best code.

        >>> from neardup_db import BinaryCode, Index
        >>> with Index(":memory:", BinaryCode(bits=64, max_distance=3)) as index:
        ...     added = index.add_code("cat", 0x0F, part="as it is"), index.add_code("cat", 0xF000, part="turned")
        ...     index.query_code(0xF001), len(index), list(index.get("cat").codes)
        ([Match(key='cat', similarity=0.984375, distance=1, part='turned')], 1, ['as it is', 'turned'])
        """
        record = self._record(key, None, metadata, group, expires_at, ttl, part)
        return self._write(self._writer.add, record, QuerySpec(code=code).sketch, if_exists, check_integer("limit", limit))

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
        record = self._record(key, check_text(text), metadata, group, expires_at, ttl)
        return self._write_if_new(record, _sketching(text), if_exists, limit, on_match)

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
        record = self._record(key, None, metadata, group, expires_at, ttl, part)
        return self._write_if_new(record, QuerySpec(code=code).sketch, if_exists, limit, on_match)

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

        The fields of a mapping are named like `add`'s arguments, and unknown fields make a record invalid. With key=,
        text=, group= or metadata=, each record needs these fields; others are ignored.

        A data frame is anything that Arrow reads: a pyarrow Table, RecordBatch or RecordBatchReader, a pandas (2.2 or later) or
        polars DataFrame, a DuckDB relation. key, text, group: column names; keys and groups are strings, integers or binary.
        metadata: the columns of each row's metadata, {name: value}. A null key or text makes a record invalid; no group is null.

        commit_every: commit after this many records; None for one transaction. on_error="skip": skip and count invalid records.
        only_new: like `add_if_new` for each record in order. progress: called at times with the number of records so far.

        on_outcome: called as `f(key, outcome, match)` for each record, in order, after its transaction is committed (inside your
        own at the end of each part). The outcome is "added" or "replaced" (with the best earlier match, if any), "duplicate"
        (with the match for which only_new refused it), "ignored" (if_exists="ignore" and an existing key) or "skipped" (with a
        Skipped instead of a match). Calls wait in memory: use commit_every for millions of records. An exception ends `add_many`.

        The iterable and `progress` may query the index, which then contains every record yielded before, but not write to it;
        on_outcome may do both. Warns once (ShortTextsWarning) if most texts have fewer than 20 words, but shingles three or more.

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
        options = partial(IngestOptions, "text", if_exists, on_error, only_new, commit_every, progress, on_outcome)
        if is_arrow(records):
            with Table(records, key, text, group, metadata) as table:
                return self._load(table, options())
        records = check_many("records", records, "give pairs (key, text), mappings, or a table that Arrow reads")
        return self._load(records, options(fields=check_fields(key, text, group, metadata)))

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
            raise ParameterError("only_new=True does not go with part=, as some codes of a key may be new: call add_code_if_new")
        rows = self._current_store().scheme.code_rows(codes)
        more = {"metadata": metadata, "group": group, "expires_at": expires_at, "ttl": ttl, "part": part}
        options = IngestOptions("code", if_exists, on_error, only_new, commit_every, progress, on_outcome)
        return self._load(code_records(keys, rows, more), options)

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

        paths: a Parquet file, a folder of them, or a list of both, read in the order of their names. Files made with other text
        rules, another scheme or other fingerprint parameters raise MismatchError before anything is stored; bands and threshold
        may differ. Needs pyarrow (the extra "arrow"). Raises FormatError, and ParameterError for an index with stored texts.

        >>> import tempfile
        >>> from neardup_db import Index, MinHash
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with Index(":memory:", MinHash()) as index:
        ...         matches = index.add("a", "the quick brown fox jumps over the lazy dog")
        ...         written = index.export_fingerprints(f"{folder}/part.parquet")
        ...     with Index(":memory:", MinHash()) as other:
        ...         other.import_fingerprints(folder).added, other.query("The quick brown fox jumps over the lazy dog!")
        (1, [Match(key='a', similarity=1.0, distance=None)])
        """
        store = self._current_store()
        if store.store_text:
            raise ParameterError("this index stores its texts, and fingerprints bring none: import into one without store_text")
        files = FingerprintFiles(paths)
        files.require(store.scheme, store.rules)
        options = IngestOptions("value", if_exists, on_error, False, commit_every, progress, on_outcome, files.require)
        return self._load(files.records(), options)

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
        meanwhile. MismatchError unless text rules, scheme and fingerprint parameters are equal; bands and threshold may differ.

        The documents are added after the existing ones, in their order, with groups (by name), metadata, expiry and times
        (added_at, last_seen, times_seen). Expired documents, and documents too old for this index's window, are skipped. A key of
        another group raises DuplicateKeyError. Matches and clusters are computed as if all documents had been added here. Other
        arguments and the report as for `add_many`. Raises CorruptIndexError for a damaged document of the other index,
        ParameterError for the same index.

        >>> from neardup_db import Index, MinHash
        >>> with Index(":memory:", MinHash()) as index, Index(":memory:", MinHash()) as other:
        ...     matches = index.add("a", "the quick brown fox jumps"), other.add("b", "The quick brown fox jumps!")
        ...     index.merge(other)
        ...     index.clusters()
        AddReport(added=1, replaced=0, ignored=0, skipped=0, matched=1, problems=())
        [Cluster(representative='a', keys=('a', 'b'))]
        """
        self._store.db.require_open()
        options = IngestOptions("value", if_exists, commit_every=commit_every, progress=progress)
        report = merge(self._readers.own, self._writer, other._readers if isinstance(other, Reader) else other, options)
        self._checkpoint()
        return report

    def _load(self, records: Iterable[Any] | Codes | Table, options: IngestOptions) -> AddReport:
        self._current_store()
        with self._store.db.large_cache():
            ingest = Ingest(self._writer, options)
            report = ingest.run(records)
        self._checkpoint()
        self._warn(ingest.batch_writer.token_counts.warning(self._store.rules.shingle), 4)
        return report

    def _warn(self, warning: str | None, stacklevel: int) -> None:
        if warning is not None and not self._warned:
            self._warned = True
            warnings.warn(warning, ShortTextsWarning, stacklevel=stacklevel)

    def _checkpoint(self) -> None:
        db = self._store.db
        guard = db.mutex.take(0)
        if guard is not None:  # else another thread is at work already, and the work here is done
            with guard, translated(db.name):
                if db.owned and not db.connection.in_transaction:
                    db.truncate_log()

    def _write_if_new(
        self, record: Record, make: Callable[[Store], Sketch], if_exists: IfExists, limit: int, on_match: OnMatch | None
    ) -> list[Match]:
        check_choice("on_match", on_match, (None, "touch"))
        write = partial(self._writer.add_if_new, on_match=on_match)
        return self._write(write, record, make, if_exists, check_integer("limit", limit, 1))

    def _write(
        self,
        write: Callable[..., tuple[Outcome, list[Match]]],
        record: Record,
        make: Callable[[Store], Sketch],
        if_exists: IfExists,
        limit: int,
    ) -> list[Match]:
        """Write a record. Its sketch is computed before the transaction, and again inside after a concurrent rebuild."""
        check_if_exists(if_exists)
        sketch, store = self._sketched(make), self._store

        def work() -> list[Match]:
            store.require_own_documents()
            fitting = sketch if sketch.epoch == store.epoch else make(store)
            return write(record, fitting, clock.now_ms(), if_exists=if_exists, limit=limit)[1]

        return store.change(work, light=_is_light(record))

    def _record(self, key: Key, text: str | bytes | None, *more: Any) -> Record:
        self._store.db.require_open()
        return checked_record(key, text if self._store.store_text else None, *more)


def _sketching(text: str | bytes) -> Callable[[Store], Sketch]:
    return lambda store: store.sketcher.text_to_store(text)


def _is_light(record: Record) -> bool:
    """Whether writing a record cannot fail halfway by SQLite's size limit or a missing table."""
    for value in (record.key, record.text, record.metadata):
        if value is not None and not isinstance(value, int) and len(value) > limits.LIGHT_MAX:
            return False
    return record.part is None
