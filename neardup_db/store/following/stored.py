"""The documents of an index that follows a table, compared with their rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ...parameters import storable
from ...values import Key
from ..layout.state import Store
from .rows import Place, Row


class Stored(NamedTuple):
    """A document as far as its row decides it."""

    id: int
    expires_at: int | None
    group: Key | None
    token_count: int | None
    text: str | None
    value: bytes | None


class StoredDocuments:
    """Reads documents, whatever of them is filed. The caller holds a transaction."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.db = store.db

    def last_id(self) -> int:
        """The id of the newest document, 0 where there are none."""
        number: int = self.db.value(self.store.sql("SELECT ifnull(max(id), 0) FROM {index}_document"))
        return number

    def count(self) -> int:
        """How many rows there must be: those of the documents, and the excluded ones."""
        sql = "SELECT (SELECT count(*) FROM {index}_document) + (SELECT count(*) FROM main.{index}_excluded)"
        number: int = self.db.value(self.store.sql(sql))
        return number

    def exclude(self, looked: Iterable[tuple[Place, Row | None]]) -> None:
        """Remember which of these keys are rows, but no documents. Inside `writing`."""
        places = dict(looked)
        excluded = [place for place, row in places.items() if row is not None and row.text is None]
        delete = "DELETE FROM main.{index}_excluded WHERE key = "
        insert = "INSERT OR REPLACE INTO main.{index}_excluded (key) SELECT "
        for sql, some in (delete, list(places)), (insert, excluded):
            for bound in {place.bound for place in some}:
                self.db.execute_many(self.store.sql(sql) + bound, [(place.value,) for place in some if place.bound == bound])

    def document_at(self, key: Key) -> Stored | None:
        """The document with this key, visible or not."""
        sql = """SELECT d.id, d.expires_at, g.name, d.token_count, d.text, {value}
                 FROM {index}_document AS d LEFT JOIN {index}_group AS g ON g.id = d.group_id
                     LEFT JOIN {index}_fingerprint AS f ON f.id = d.fingerprint_id {aside} WHERE d.key = ?"""
        row = self.db.row(self.store.sql(sql), (key,))
        return None if row is None else Stored(*row)

    def page(self, after_id: int, last_id: int, most: int) -> list[tuple[int, Key]]:
        """Ids and keys of the next documents in the order of their ids."""
        sql = "SELECT id, key FROM {index}_document WHERE id > ? AND id <= ? ORDER BY id LIMIT ?"
        return [(number, key) for number, key in self.db.page(self.store.sql(sql), after_id, last_id, most)]

    def unlike(self, pairs: Sequence[tuple[Row, Stored]]) -> list[bool]:
        """Of each row, which has a text, and its document: whether the document is another one than the row makes today."""
        if not pairs:
            return []
        if self.store.store_text:
            return [_differs(row, stored) or storable(row.text or "") != stored.text for row, stored in pairs]
        made: Any = self.store.scheme.values([row.text or "" for row, _ in pairs], self.store.rules)
        return [
            _differs(row, stored) or value != stored.value or count != stored.token_count
            for (row, stored), value, count in zip(pairs, made.values, made.token_counts, strict=True)
        ]


def _differs(row: Row, stored: Stored) -> bool:
    return stored.expires_at is not None or type(row.group) is not type(stored.group) or row.group != stored.group
