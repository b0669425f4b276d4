"""The progress of a comparison of all rows with the documents, stored as a setting: it proceeds in steps and survives a crash."""

from __future__ import annotations

import json
from typing import NamedTuple

from ..layout.following import SCAN
from ..layout.state import Store
from .rows import RawKey


class Scan(NamedTuple):
    """An unfinished comparison: first of the rows in key order, then of the documents."""

    reason: str
    raw_key: RawKey | None = None  # the last compared row
    document_id: int | None = None  # the last compared document; None until all rows are compared
    last_id: int = 0  # the newest document at the start. Triggers record changes of later ones

    @property
    def is_new(self) -> bool:
        return self.raw_key is None and self.document_id is None


def read_scan(store: Store) -> Scan | None:
    """Runs inside a transaction."""
    text = store.setting(SCAN)
    if text is None:
        return None
    try:
        reason, kind, value, document_id, last_id = json.loads(text)
        if kind in ("text", "blob"):
            value = bytes.fromhex(value)
        return Scan(reason, None if kind is None else RawKey(kind, value), document_id, last_id)
    except (TypeError, ValueError):
        return Scan("the setting follow.scan was damaged")


def write_scan(store: Store, scan: Scan | None) -> None:
    """Store the progress; None when the comparison is complete. Runs inside `writing`."""
    if scan is None:
        store.execute("DELETE FROM {index}_setting WHERE name = ?", (SCAN,))
        return
    kind, value = scan.raw_key or (None, None)
    written = value.hex() if isinstance(value, bytes) else value
    store.set(**{SCAN: json.dumps([scan.reason, kind, written, scan.document_id, scan.last_id])})


def lost_triggers(table: str) -> str:
    return f"the triggers on {table!r} were missing, or it was made anew"
