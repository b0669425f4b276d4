"""What `check` says about a followed table. It compares no rows: `sync(full=True)` does."""

from __future__ import annotations

from collections.abc import Iterator

from ...errors import MismatchError
from ..layout.state import Store
from . import triggers
from .scan import lost_triggers, read_scan
from .table import find_followed_table


def problems(store: Store) -> Iterator[str]:
    """The caller holds a transaction."""
    assert store.following is not None
    try:
        find_followed_table(store.db, store.following)
    except MismatchError as error:
        yield str(error)


def notes(store: Store) -> Iterator[str]:
    """What the next sync does. The caller holds a transaction, and `problems` found none."""
    assert store.following is not None
    table = find_followed_table(store.db, store.following)
    scan = read_scan(store)
    reason = None if scan is None else scan.reason
    if not triggers.has_triggers(store, table):
        reason = lost_triggers(table.name)
    if reason is not None:
        yield f"all rows of {table.name} are to be compared ({reason}): sync() does it"
    count = store.value("SELECT count(*) FROM main.{index}_pending") if triggers.tables_exist(store) else 0
    if count:
        yield f"{count:,} changes of {table.name} are pending: sync() takes them over"
