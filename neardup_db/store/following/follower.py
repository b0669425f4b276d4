"""Starts and stops following a table, and applies pending changes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from itertools import chain
from typing import Any

import apsw

from ... import limits
from ...errors import MismatchError, ParameterError
from ...parameters import quoted
from ...values import SyncReport, summed
from ..database.errors import translated
from ..ingest.writer import Writer
from ..layout.following import PREFIX, SCAN, Following
from ..layout.state import Store
from ..readers import StoreReaders
from . import triggers
from .rows import Rows
from .scan import Scan, write_scan
from .sync_transaction import SyncTransaction
from .table import Table, inspect_table


class Follower:
    def __init__(self, writer: Writer) -> None:
        self.store, self.writer = writer.store, writer
        self.warning: str | None = None  # the warning of the last `sync` about short texts, if any
        self._checked_schema: int | None = None  # the schema version whose triggers were verified; None if unknown

    def follow(self, wanted: Following) -> None:
        """Follow this table from now on. Does nothing if it is followed this way already."""
        with self.store.writing():
            table = inspect_table(self.store.db, wanted)
            self._require_possible(table)
            previous, is_sound = self.store.following, triggers.has_triggers(self.store, table)
            if previous == table.following and is_sound:
                return
            if previous is None:
                self._require_rows(table)
                triggers.remove(self.store)  # triggers in the file were not verified at opening
            if previous is None or not is_sound or previous._replace(sync=None) != table.following._replace(sync=None):
                triggers.install(self.store, table)
                write_scan(self.store, Scan("follow() was called"))
            self.store.set(**table.following.settings())
            self.store.new_generation()

    def _require_possible(self, table: Table) -> None:
        try:
            list(Rows(self.store, table).rows_after(None, 1))
        except apsw.SQLError as error:
            raise ParameterError(
                f"table={table.name!r} cannot be read in the order of its keys here ({error}): give Index an apsw.Connection "
                "that has the collations and functions of the table"
            ) from error
        if not self.store.scheme.takes_text:
            raise ParameterError(
                f"index {self.store.name!r} has {self.store.scheme!r}, which takes codes: follow a table by an index of texts"
            )
        if not self.store.window.is_unlimited:
            raise ParameterError(
                f"index {self.store.name!r} has a window, which removes documents whose rows stay: call set_window(None) "
                "first, or follow the table by an index of its own (name=...) and give where= a condition"
            )
        previous = self.store.following
        if previous is not None and previous.table != table.name:
            with suppress(ParameterError):
                inspect_table(self.store.db, previous)
                raise MismatchError(
                    f"index {self.store.name!r} follows the table {previous.table!r} already: call unfollow() first, or follow "
                    f"{table.name!r} by an index of its own (name=...)"
                )

    def _require_rows(self, table: Table) -> None:
        """Raise ParameterError if a document has no row in the table: the first `sync` would delete it."""
        rows = Rows(self.store, table)
        sql = "SELECT id, key FROM {index}_document WHERE id > ? ORDER BY id LIMIT ?"
        for _, key in chain.from_iterable(self.store.pages(sql, limits.SYNC_ROWS)):
            if not rows.has_row(rows.raw_key_of(key)):
                raise ParameterError(
                    f"index {self.store.name!r} has documents that are no rows of {table.name!r}, such as {quoted(key)}, and "
                    "sync() would remove them: follow the table by an index of its own (name=...), or delete them first"
                )

    def unfollow(self) -> bool:
        """Drop the triggers before the table that they write to. Returns False if no table was followed."""
        with self.store.writing():
            if self.store.following is None:
                return False
            triggers.remove(self.store)
            self.store.execute("DELETE FROM {index}_setting WHERE substr(name, 1, ?) = ?", (len(PREFIX), PREFIX))
            self.store.new_generation()
            return True

    def sync(self, limit: int | None, full: bool, commit_every: int | None, progress: Callable[[int], Any] | None) -> SyncReport:
        """Apply pending changes in one transaction or, with `commit_every`, in several of that many keys."""
        done_keys, scanned = 0, 0

        def report_progress(looked: int) -> None:
            if progress is not None:
                progress(done_keys + looked)

        report, remaining = SyncReport(), limit
        while True:
            limits_given = [size for size in (commit_every, remaining) if size is not None]
            batch_limit = min(limits_given, default=None)
            batch_report, looked, scan_ended = self._sync_batch(batch_limit, full and not done_keys, report_progress)
            scanned += scan_ended
            compared = report.compared or batch_report.compared
            report = summed(report, batch_report, compared=compared, complete=batch_report.complete)
            done_keys += looked
            remaining = None if remaining is None else remaining - looked
            is_last = batch_report.complete or remaining == 0 or batch_limit is None or not looked
            if is_last or scanned > 1:  # a second comparison did not help
                if done_keys:
                    report_progress(0)
                return report

    def _sync_batch(self, limit: int | None, full: bool, progress: Callable[[int], Any] | None) -> tuple[SyncReport, int, bool]:
        """Returns (report, keys processed, whether a comparison of all rows ended)."""
        with self.store.writing():
            if self.store.following is None:
                raise ParameterError(f"index {self.store.name!r} follows no table: call follow(table, key=..., text=...) first")
            transaction = SyncTransaction(self.writer, limit, full)
            report = transaction.run(progress)
            self._remember_schema()
        self.warning = transaction.ingest.batch_writer.token_counts.warning(self.store.rules.shingle)
        return report, transaction.looked, transaction.scanned

    def _remember_schema(self) -> None:
        """Remember this schema version's triggers as correct; not inside a transaction, whose savepoints roll back unreported."""
        db = self.store.db
        whole = db.depth == 1 and not db.in_callers_transaction
        self._checked_schema = db.value("PRAGMA schema_version") if whole else None
        db.undo.append(self._forget)

    def _forget(self) -> None:
        self._checked_schema = None

    def catch_up(self, readers: StoreReaders) -> None:
        following, db = self.store.following, self.store.db
        if following is None or following.sync is None or db.read_only or db.is_loading:  # loading: `sync` itself is running
            return
        guard, reader = readers.acquire_current()
        with guard, translated(db.name):
            due = self._is_due(reader.store)
        if due:
            self.sync(None, False, None, None)

    def _is_due(self, reader_store: Store) -> bool:
        """True if changes are or may be pending, in the state that the query reads."""
        if reader_store.setting(f"{PREFIX}sync") is None:  # changed by another connection just now
            return False
        try:
            if reader_store.db.value("PRAGMA schema_version") != self._checked_schema:
                return True
            sql = "SELECT EXISTS (SELECT 1 FROM main.{index}_pending) OR EXISTS (SELECT 1 FROM {index}_setting WHERE name = ?)"
            return bool(reader_store.value(sql, (SCAN,)))
        except apsw.SQLError:  # the table of pending keys was dropped
            return True
