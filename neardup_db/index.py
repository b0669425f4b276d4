"""The face of the package: one near-duplicate index in a SQLite database."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import apsw

from . import limits
from . import records as checks
from .errors import NearDupError, ParameterError
from .reader import Reader, sketch_of
from .schemes.base import Scheme
from .schemes.codes import CodeRows
from .store import statistics
from .store.backup import back_up
from .store.check import Checker
from .store.connection import translated
from .store.documents import Record
from .store.ingest import Columns, Ingest, IngestOptions
from .store.opening import open_store, require_unicode
from .store.rebuild import rebuild
from .store.repair import Repair
from .store.state import Given, Sketch, Store
from .store.writer import Writer
from .text import TextRules
from .values import AddReport, CheckReport, Key, Match

_CODE = object()
"""Stands for the text of a document that is a code."""


class Index(Reader):
    """A near-duplicate index in one SQLite database.

    target: a path, `":memory:"`, or an open `apsw.Connection` whose transactions stay the caller's. A missing or empty file
    is created when `scheme` is given; afterwards the file knows its parameters, and those given again are compared with it.
    text: the TextRules, `TextRules()` unless given. name: several indexes, and tables of your own, may share a database.
    store_text: keep the texts in the file (default False). record_matches: look for matches on every add, record them and
    keep clusters (default True). checksums: True makes a file with a checksum in every page, so that each damaged byte of it
    is an error (default False; decided when the file is created). durability: "full" (an acknowledged write survives a power
    cut) or "normal" (it survives a crash of the program). attach: allow an index inside another program's database. timeout:
    seconds to wait for another writer, or for another thread that uses this object. memory_map: read the file, its first 2
    GB, through a memory map, which makes queries of large files about a quarter quicker; a disk that fails then ends the
    process in the place of an error. Not for files with checksums.

    An Index may be shared by threads: they write in turns, and ask at the same time, by connections of their own (in memory, and
    on a connection that was given, in turns too). A forked process opens its own. Raises ParameterError, FormatError,
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
        target: Any,
        scheme: Scheme | None = None,
        *,
        text: TextRules | None = None,
        name: str = "neardup",
        store_text: bool | None = None,
        record_matches: bool | None = None,
        checksums: bool | None = None,
        durability: str = "full",
        read_only: bool = False,
        attach: bool = False,
        timeout: float = 30.0,
        memory_map: bool = False,
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
            memory_map=memory_map,
        )
        super().__init__(store)
        self._closed = False
        own = self._views.own
        self._writer = Writer(store, own.documents, own.search, own.clusters)

    # ---- the object --------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the index, after what other threads are asking it just now; a connection that was given stays open. Closing again
        does nothing."""
        self._views.close()
        self._closed = True

    def __enter__(self) -> Index:
        self._store.db.require_open()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __del__(self) -> None:
        if not getattr(self, "_closed", True) and self._store.db.owned and not self._store.db.forked:
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
        return self._add(record, lambda store: sketch_of(store, text), if_exists, limit)

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
        return self._add(record, lambda store: store.sketch_code(code), if_exists, limit)

    def _add(self, record: Record, make: Callable[[Store], Sketch], if_exists: str, limit: int) -> list[Match]:
        checks.check_choice("if_exists", if_exists, checks.IF_EXISTS)
        limit = checks.check_count("limit", limit)
        with self._to_write(make, record) as sketch:
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
        limit = checks.check_count("limit", limit, 1)
        with self._to_write(lambda store: sketch_of(store, text), record) as sketch:
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
        progress: called now and then with the number of records taken so far, in the end with that of all.

        The iterable, and `progress`, may use the index: a question sees every record yielded before, a write stands between two
        records. The report names the first records that were left out.
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
        rows = self._looked_at().scheme.code_rows(codes)
        records: Iterable[Any] = zip(keys, rows, strict=True)
        if group is not None or expires_at is not None:
            records = ({"key": key, "code": code, "group": group, "expires_at": expires_at} for key, code in records)
        elif isinstance(keys, (list, tuple, range)) and isinstance(rows, CodeRows):
            records = Columns(keys, rows)
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
            commit_every = checks.check_count("commit_every", commit_every, 1)
        checks.check_callable("progress", progress)
        self._looked_at()
        options = IngestOptions(content, if_exists, on_error, bool(only_new), commit_every, progress)
        with self._store.db.large_cache():
            report = Ingest(self._store, self._views.own.documents, self._writer, options).run(records)
        self._checkpoint()
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
        columns = {"metadata": checks.check_metadata, "expires_at": checks.check_expiry}
        unknown = [name for name in changes if name not in columns]
        if unknown or not changes:
            what = f"{unknown[0]!r} cannot be updated" if unknown else "nothing to update"
            raise ParameterError(f"{what}: give metadata= or expires_at=; to change a text, add it with if_exists='replace'")
        values = {name: columns[name](value) for name, value in changes.items()}
        with self._store.writing():
            self._views.own.documents.update(self._views.own.found(key, checks.now_ms()).id, values)

    def delete(self, key: Key) -> bool:
        """Remove a document; False if there was none."""
        return self.delete_many([key]) == 1

    def delete_many(self, keys: Iterable[Key]) -> int:
        """Remove documents in one transaction; returns how many there were."""
        checked = [checks.check_key(key) for key in checks.check_many("keys", keys)]
        with self._store.writing():
            now = checks.now_ms()
            found = [self._views.own.documents.find(key) for key in dict.fromkeys(checked)]
            visible = sum(one is not None and (one.expires_at is None or one.expires_at > now) for one in found)
            self._views.own.clusters.remove([one.id for one in found if one is not None], now)
            return visible

    def expire(self, now: Any = None) -> int:
        """Remove every document whose time has come by `now` (aware datetime or Unix seconds; None = the clock)."""
        given = checks.check_expiry(now)
        with self._store.writing():
            clock = checks.now_ms()
            sql = self._store.sql("SELECT id FROM {index}_document WHERE expires_at <= ? ORDER BY id")
            rows = self._store.db.rows(sql, (clock if given is None else given,))
            return self._views.own.clusters.remove([row[0] for row in rows], clock)

    def keep_newest(self, n: int) -> int:
        """Remove all but the newest `n` documents; returns how many were removed."""
        n = checks.check_count("n", n)
        with self._store.writing():
            now = checks.now_ms()
            sql = """SELECT id FROM {index}_document WHERE expires_at IS NULL OR expires_at > ?
                     ORDER BY id DESC LIMIT -1 OFFSET ?"""
            return self._views.own.clusters.remove([row[0] for row in self._store.db.rows(self._store.sql(sql), (now, n))], now)

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
        kinds = (("scheme", scheme, Scheme), ("text", text, TextRules))
        flags = (("store_text", store_text, bool), ("record_matches", record_matches, bool))
        for label, value, kind in (*kinds, *flags):
            if value is not None and not isinstance(value, kind):
                raise ParameterError(f"{label}={value!r}: it is a {kind.__name__}")
        checks.check_callable("progress", progress)
        self._store.db.require_open()
        with self._store.db.large_cache(), self._store.writing():
            changes = Given(scheme, text, store_text, record_matches)
            rebuild(self._store, self._writer, changes, checks.now_ms(), progress or (lambda done: None))
        self._checkpoint()

    def check(self, repair: bool = False) -> CheckReport:
        """Look at every invariant of the file.

        repair=True rebuilds what follows from the documents: fingerprints from stored texts, table rows, matches and clusters.
        What could not be brought back stays among the `problems` of the report. In a file with checksums all pages are looked at
        first; where one is damaged, its number is the report, and nothing is repaired.
        """
        checker = Checker(self._store, self._writer, self._views.own.clusters)
        db = self._store.db
        db.require_open()
        with db.hold(), translated(db.name):
            db.require_open()
            db.settle()
            report = checker.pages()
        if not report.ok:  # nothing can be read or mended with certainty
            return report
        with self._store.reading():
            report = checker.run()
        if report.ok or not repair:
            return report
        with self._store.writing():
            mender = Repair(self._store, self._writer)
            done = mender.indexes()
            found, lost = mender.run(checks.now_ms(), checker.damaged())
            self._store.refresh()
            return CheckReport((*lost, *checker.run().problems), (*done, *found))

    def compact(self) -> int:
        """Give unused space of the file back (VACUUM); returns the bytes by which the file shrank.

        The names of groups in which no document is left go as well."""
        db = self._store.db
        db.require_open()
        with db.hold(), translated(db.name):
            db.require_open()
            db.settle()
            if db.connection.in_transaction:
                raise NearDupError("compact() cannot run inside a transaction: leave it first")
            with self._store.writing():
                self._views.own.documents.drop_unused_groups()
            before = statistics.file_size(self._store)
            db.connection.execute("VACUUM").fetchall()
            if db.owned:
                db.truncate_log()
            return before - statistics.file_size(self._store)

    def backup(self, path: str | Path) -> None:
        """Write a consistent copy of the whole database to a new file. Raises ParameterError if the file exists."""
        require_unicode(os.fsdecode(path))
        db = self._store.db
        db.require_open()
        with db.hold(), translated(db.name):
            db.require_open()
            db.settle()
            if db.connection.in_transaction:
                raise NearDupError("backup() cannot run inside a transaction: leave it first")
            back_up(db, os.fsdecode(path))

    # ---- helpers -----------------------------------------------------------------------------------------------------

    @contextmanager
    def _to_write(self, make: Callable[[Store], Sketch], record: Record) -> Iterator[Sketch]:
        """A fingerprint to write, made outside the transaction, and again inside it if a rebuild came between."""
        self._store.db.require_open()
        sketch = self._sketched(make)
        with self._store.writing(light=_is_light(record)):
            yield sketch if sketch.epoch == self._store.epoch else make(self._store)

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


def _is_light(record: Record) -> bool:
    """Whether nothing of a record can turn out to be longer than SQLite allows, when some of it has been written."""
    parts = record.key, record.text, record.metadata
    return all(part is None or isinstance(part, int) or len(part) <= limits.LIGHT_MAX for part in parts)
