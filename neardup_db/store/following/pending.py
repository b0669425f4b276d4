"""What `check` says about a followed table. It compares no rows: `sync(full=True)` does."""

from __future__ import annotations

from ...errors import MismatchError
from ..layout.state import Store
from . import triggers
from .scan import lost_triggers, read_scan
from .table import find_followed_table


def report(store: Store) -> tuple[list[str], tuple[str, ...]]:
    """(problems, what the next sync does) of an index that follows a table. The caller holds a transaction."""
    assert store.following is not None
    try:
        table = find_followed_table(store.db, store.following)
    except MismatchError as error:
        return [str(error)], ()
    notes = []
    scan = read_scan(store)
    reason = None if scan is None else scan.reason
    if not triggers.has_triggers(store, table):
        reason = lost_triggers(table.name)
    if reason is not None:
        notes.append(f"all rows of {table.name} are to be compared ({reason}): sync() does it")
    count = store.value("SELECT count(*) FROM main.{index}_pending") if triggers.tables_exist(store) else 0
    if count:
        notes.append(f"{count:,} changes of {table.name} are pending: sync() takes them over")
    return [], tuple(notes)
