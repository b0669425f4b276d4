"""How far all rows of a followed table were compared with the documents: a setting, so that it can be done in pieces and goes on
after a crash."""

from __future__ import annotations

import json
from typing import NamedTuple

from ..layout.following import SCAN
from ..layout.state import Store
from .rows import Place


class Scan(NamedTuple):
    """A comparison that is not finished: first of the rows, in the order of their keys, then of the documents."""

    why: str
    place: Place | None = None
    """The last row that was compared."""
    document_id: int | None = None
    """The last document that was; None while rows are left."""
    last_id: int = 0
    """The last document that there was at the beginning. Later ones come from rows, and triggers tell what becomes of these."""

    @property
    def is_new(self) -> bool:
        return self.place is None and self.document_id is None


def read_scan(store: Store) -> Scan | None:
    """The comparison that is to be done, or to be finished. Inside a transaction."""
    text = store.setting(SCAN)
    if text is None:
        return None
    try:
        why, kind, value, document_id, last_id = json.loads(text)
        if kind in ("text", "blob"):
            value = bytes.fromhex(value)
        return Scan(why, None if kind is None else Place(kind, value), document_id, last_id)
    except (TypeError, ValueError):
        return Scan("the setting follow.scan was damaged")


def write_scan(store: Store, scan: Scan | None) -> None:
    """Keep it; None = all is compared. Inside `writing`."""
    if scan is None:
        store.db.execute(store.sql("DELETE FROM {index}_setting WHERE name = ?"), (SCAN,))
        return
    kind, value = scan.place or (None, None)
    written = value.hex() if isinstance(value, bytes) else value
    store.set(**{SCAN: json.dumps([scan.why, kind, written, scan.document_id, scan.last_id])})


def lost_triggers(table: str) -> str:
    """Why, where nobody knows what has changed."""
    return f"the triggers on {table!r} were missing, or it was made anew"


def unseen_deletes(table: str) -> str:
    """Why, where the number of rows says that a change was not noted."""
    return f"rows of {table!r} changed without a note, as REPLACE deletes them"
