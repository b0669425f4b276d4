"""Begins and ends the following of a table, keeps its triggers, and takes over what is pending."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import apsw

from ... import limits
from ...errors import BusyError, CorruptIndexError, MismatchError, ParameterError, ReadOnlyError
from ...parameters import quoted
from ...values import MOST_PROBLEMS, SyncReport
from ..asking.documents import Documents
from ..database.errors import translated
from ..layout.following import PREFIX, SCAN, Following
from ..layout.state import Store
from ..readers import StoreReaders
from ..writing.writer import Writer
from . import triggers
from .compare import Comparison
from .rows import Rows
from .scan import Scan, lost_triggers, write_scan
from .stored import StoredDocuments
from .table import Table, found_again, inspect_table
from .taking import Taking


class Follower:
    """Of one open index."""

    def __init__(self, store: Store, documents: Documents, writer: Writer) -> None:
        self.store = store
        self.documents = documents
        self.writer = writer
        self.warning: str | None = None
        """What the last `sync` has to say of texts that are too short."""
        self._seen: int | None = None
        """The version of the schema in which the triggers were found to be right; None = not known."""

    # ---- beginning and ending ------------------------------------------------------------------------------------------

    def follow(self, wanted: Following) -> None:
        """Follow this table from now on; nothing changes where it is followed so already."""
        with self.store.writing():
            table = inspect_table(self.store.db, wanted)
            self._require_possible(table)
            before, sound = self.store.following, triggers.has_triggers(self.store, table)
            if before == table.following and sound:
                return
            if before is None:
                self._require_rows(table)
                triggers.remove(self.store)  # what a file may have of them was not checked when it was opened
            if before is None or not sound or before._replace(sync=None) != table.following._replace(sync=None):
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
        before = self.store.following
        if before is not None and before.table != table.name:
            with suppress(ParameterError):
                inspect_table(self.store.db, before)
                raise MismatchError(
                    f"index {self.store.name!r} follows the table {before.table!r} already: call unfollow() first, or follow "
                    f"{table.name!r} by an index of its own (name=...)"
                )

    def _require_rows(self, table: Table) -> None:
        """ParameterError where a document is no row of the table: the first `sync` would remove it."""
        rows, stored = Rows(self.store, table), StoredDocuments(self.store)
        after, last_id = 0, stored.last_id()
        while page := stored.page(after, last_id, limits.SYNC_ROWS):
            strange = [key for _, key in page if not rows.has_row(rows.place_of(key))]
            if strange:
                raise ParameterError(
                    f"index {self.store.name!r} has documents that are no rows of {table.name!r}, such as {quoted(strange[0])}, "
                    "and sync() would remove them: follow the table by an index of its own (name=...), or delete them first"
                )
            after = page[-1][0]

    def unfollow(self) -> bool:
        """Follow no table; the triggers go before the table that they write to. False where none was followed."""
        with self.store.writing():
            if self.store.following is None:
                return False
            triggers.remove(self.store)
            sql = "DELETE FROM {index}_setting WHERE substr(name, 1, ?) = ?"
            self.store.db.execute(self.store.sql(sql), (len(PREFIX), PREFIX))
            self.store.new_generation()
            return True

    # ---- keeping the triggers ------------------------------------------------------------------------------------------

    def mend(self) -> None:
        """Make triggers again that are missing, so that changes are noted from now on; the next `sync` compares all rows then. A
        table that is gone, or other columns, are for `sync` to tell, and damage is for `check`. A writer that is at work leaves
        it to these too."""
        if self.store.following is None or self.store.db.read_only:
            return
        with suppress(BusyError, CorruptIndexError, MismatchError, ReadOnlyError):
            with self.store.reading():
                sound = self._sound_table()[1]
            if not sound:
                with self.store.writing():
                    self.repair_triggers()

    def repair_triggers(self) -> list[str]:
        """Make triggers again that are missing or changed, if the table is there. Returns messages of what was done. Inside
        `writing`."""
        try:
            table, sound = self._sound_table()
            if table is None or sound:
                return []
            triggers.install(self.store, table)
        except MismatchError:
            return []
        write_scan(self.store, Scan(lost_triggers(table.name)))
        return [f"triggers on {table.name} made again"]

    def repair_documents(self) -> list[str]:
        """Have all rows compared by the next `sync`, where documents are not as their rows. Returns messages of what was done.
        Inside `writing`."""
        try:
            table = self._sound_table()[0]
        except MismatchError:
            return []
        if table is None or not any(examples for _, examples in Comparison(self.store).problems()):
            return []
        write_scan(self.store, Scan("check(repair=True)"))
        return [f"the next sync() compares all rows of {table.name}"]

    def _sound_table(self) -> tuple[Table | None, bool]:
        """The followed table, and whether its triggers are right."""
        if self.store.following is None:
            return None, True
        table = found_again(self.store.db, self.store.following)
        return table, triggers.has_triggers(self.store, table)

    # ---- taking over -----------------------------------------------------------------------------------------------------

    def sync(
        self, limit: int | None, full: bool, commit_every: int | None, tell: Callable[[int], Any] | None
    ) -> SyncReport:
        """Take over what is pending, in one transaction or, with `commit_every`, one for so many keys."""
        told, scanned = 0, 0

        def tell_all(looked: int) -> None:
            if tell is not None:
                tell(told + looked)

        report, left = SyncReport(), limit
        while True:
            part = commit_every if left is None else left if commit_every is None else min(left, commit_every)
            done, looked, ended = self._sync_batch(part, full and not told, tell_all)
            scanned += ended
            report = _summed(report, done)
            told += looked
            left = None if left is None else left - looked
            if done.complete or left == 0 or part is None or not looked or scanned > 1:  # a second comparison was of no use
                if told:
                    tell_all(0)
                return report

    def _sync_batch(self, limit: int | None, full: bool, tell: Callable[[int], Any] | None) -> tuple[SyncReport, int, bool]:
        """One transaction: its report, how many keys it looked at, and whether a comparison of all rows has ended in it."""
        with self.store.writing():
            if self.store.following is None:
                raise ParameterError(f"index {self.store.name!r} follows no table: call follow(table, key=..., text=...) first")
            taking = Taking(self.store, self.documents, self.writer, limit, full)
            report = taking.run(tell)
            self._remember_schema()
        self.warning = taking.ingest.token_counts.warning(self.store.rules.shingle)
        return report, taking.looked, taking.scanned

    def _remember_schema(self) -> None:
        """The triggers are right in this version of the schema, unless it is taken back. Of a part of a transaction that is taken
        back nobody tells, so nothing is remembered there."""
        db = self.store.db
        whole = db.depth == 1 and not db.in_callers_transaction
        self._seen = db.value("PRAGMA schema_version") if whole else None
        db.undo.append(self._forget)

    def _forget(self) -> None:
        self._seen = None

    def catch_up(self, readers: StoreReaders) -> None:
        """Take over what is pending before a question is answered, where `follow` said so."""
        following, db = self.store.following, self.store.db
        if following is None or following.sync is None or db.read_only or db.is_loading:  # attended: in the middle of `sync`
            return
        loan, reader = readers.acquire_current()
        with loan, translated(db.name):
            due = self._is_due(reader.store)
        if due:
            self.sync(None, False, None, None)

    def _is_due(self, asked: Store) -> bool:
        """Whether something is pending, or may be, as a question by this store sees it."""
        if asked.setting(f"{PREFIX}sync") is None:  # another connection has changed it just now
            return False
        try:
            if asked.db.value("PRAGMA schema_version") != self._seen:
                return True
            sql = "SELECT EXISTS (SELECT 1 FROM main.{index}_pending) OR EXISTS (SELECT 1 FROM {index}_setting WHERE name = ?)"
            return bool(asked.db.value(asked.sql(sql), (SCAN,)))
        except apsw.SQLError:  # the table of pending keys is gone
            return True


def _summed(first: SyncReport, second: SyncReport) -> SyncReport:
    """The report on two transactions, one after the other."""
    counts = {
        name: getattr(first, name) + getattr(second, name)
        for name in ("added", "replaced", "deleted", "unchanged", "skipped", "matched", "found")
    }
    problems = (*first.problems, *second.problems)[:MOST_PROBLEMS]
    return SyncReport(**counts, compared=first.compared or second.compared, complete=second.complete, problems=problems)
