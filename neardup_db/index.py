"""The main class, `Index`: a near-duplicate index in a SQLite database."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import Any

import apsw

from . import clock
from .editing import EditMethods
from .errors import ClosedError, NearDupError
from .parameters import Durability, WindowSize, check_callable
from .schemes.base import Scheme
from .store.database.connection import Database
from .store.database.errors import translated
from .store.following.follower import Follower
from .store.ingest.writer import Writer
from .store.layout.opening import Choices, Target, open_store
from .store.maintenance.backup import write_backup
from .store.maintenance.check import Checker
from .store.maintenance.rebuild import rebuild
from .store.maintenance.repair import Repair
from .store.query import statistics
from .text import TextRules
from .values import CheckReport

DEFAULT_NAME = "neardup"


class Index(EditMethods):
    """A near-duplicate index in one SQLite database.

    target: a path, `":memory:"`, or your own connection of apsw, sqlite3 or pysqlite3, which then controls the transactions (see
    docs/reference/applications.md). scheme: creates a missing or empty file; the file stores all parameters, and later calls omit
    them or agree with them. text: the TextRules, by default `TextRules()`; use `TextRules.chars(shingle=3)` for texts below about
    50 words. name: several indexes, and your own tables, may share a database. store_text: keep the texts in the file (default
    False). record_matches: search for matches on every add, record them and maintain clusters (default True). checksums: store a
    checksum in every page of a new file, so that every damaged byte is an error (default False). window: how long documents stay
    (a timedelta), or how many of the latest (an int); None: all. durability: "full" (a write that has returned survives a power
    cut) or "normal" (it survives a crash of the program). read_only: every write raises ReadOnlyError. attach: allow an index
    inside another program's database. timeout: seconds to wait for another writer or thread.

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
        choices = Choices.checked(
            scheme, text, store_text=store_text, record_matches=record_matches, checksums=checksums, window=window
        )
        store = open_store(
            target, choices, name=name, durability=durability, read_only=read_only, attach=attach, timeout=timeout
        )
        super().__init__(store)
        if isinstance(target, (str, bytes, os.PathLike)):
            self._target = repr(os.fspath(target))
        else:
            self._target = f"connection to {store.db.connection.filename or ':memory:'!r}"
        self._closed = False
        own = self._readers.own
        self._writer = Writer(own.clusters)
        self._follower = Follower(self._writer)
        self._readers.before_query = self._follower.catch_up
        self._durability = durability

    # ---- the object --------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the index after the running queries of other threads; later calls raise ClosedError. Your connection stays open.

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
        db, store = self._store.db, self._store
        if db.open_reader is None:
            raise TypeError(f"{self!r} has no path that another process could open: give Index the path of a file")
        if db.is_closed:
            raise ClosedError(f"{self!r} cannot be copied or sent to another process: send the path, and open it there")
        rules = store.rules if store.rules.custom else None  # the file has no functions
        how: dict[str, Any] = {"durability": self._durability, "read_only": db.read_only, "timeout": db.timeout}
        return partial(Index, db.name, text=rules, name=self.name, **how), ()

    def __repr__(self) -> str:
        name = "" if self.name == DEFAULT_NAME else f" name={self.name!r}"
        return f"<neardup_db.Index {self._target}{name} {self._store.scheme!r}{', closed' if self._closed else ''}>"

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
        ...     matches = index.add("a1", "the quick brown fox jumps"), index.add("a2", "the quick brown fox jumps high")
        ...     index.rebuild(MinHash(threshold=0.5))
        ...     index.clusters()
        [Cluster(representative='a1', keys=('a1', 'a2'))]
        """
        changes = Choices.checked(scheme, text, store_text=store_text, record_matches=record_matches)
        check_callable("progress", progress)
        self._store.db.require_open()
        with self._store.db.large_cache(), self._store.writing():
            rebuild(self._readers.own.clusters, changes, clock.now_ms(), progress or (lambda done: None))
        self._checkpoint()

    def check(self, repair: bool = False) -> CheckReport:
        """Verify every invariant of the file.

        repair=True recomputes what documents determine: fingerprints from stored texts, candidate rows, matches and clusters.
        `problems` lists what cannot be recomputed. In a file with checksums all pages are verified first; if one is damaged, the
        report names it and nothing is repaired.

        >>> from neardup_db import Index, MinHash
        >>> with Index(":memory:", MinHash()) as index:
        ...     matches = index.add("a1", "the quick brown fox")
        ...     index.check()
        CheckReport(problems=(), repaired=(), notes=())
        """
        checker = Checker(self._readers.own.clusters)
        with self._alone():
            report = checker.pages()
        if not report.ok:  # nothing can be read or mended with certainty
            return report
        with self._alone(), self._store.reading():
            report = checker.run()
        if report.ok or not repair:
            return report
        with self._alone(), self._store.writing():
            mender = Repair(checker)
            done = mender.indexes()
            found, lost = mender.run(clock.now_ms())
            self._store.refresh()
            report = checker.run()
            return CheckReport((*lost, *report.problems), (*done, *found), report.notes)

    def compact(self) -> int:
        """Release unused space (VACUUM) and return the number of bytes by which the file shrank.

        Also erases the bytes of deleted documents and names of empty groups. Raises NearDupError in a transaction, DiskFullError.

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
            write_backup(db, path)

    @contextmanager
    def _alone(self, method: str | None = None) -> Iterator[Database]:
        """Lock the connection after writing pending records. method: refuse to run inside a transaction."""
        db = self._store.db
        db.require_open()
        with db.lock(), translated(db.name):
            db.require_open()
            db.flush_pending()
            if method is not None and db.connection.in_transaction:
                raise NearDupError(f"{method}() cannot run inside a transaction: leave it first")
            yield db
