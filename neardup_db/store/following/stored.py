"""Compares the documents of an index that follows a table with their rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ...parameters import storable
from ...values import Key
from ..layout.state import Store
from .rows import RawKey, Row


class Stored(NamedTuple):
    """The columns of a document that its row determines."""

    id: int
    expires_at: int | None
    group: Key | None
    token_count: int | None
    text: str | None
    value: bytes | None


class StoredDocuments:
    """Reads documents, indexed or not. The caller holds a transaction."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.db = store.db

    def last_id(self) -> int:
        return self.store.value("SELECT ifnull(max(id), 0) FROM {index}_document")

    def count(self) -> int:
        """The expected number of rows: documents and excluded rows."""
        sql = "SELECT (SELECT count(*) FROM {index}_document) + (SELECT count(*) FROM main.{index}_excluded)"
        return self.store.value(sql)

    def exclude(self, key_rows: Iterable[tuple[RawKey, Row | None]]) -> None:
        """Record which of these keys have rows but no documents. Runs inside `writing`."""
        raw_keys = dict(key_rows)
        excluded = [raw_key for raw_key, row in raw_keys.items() if row is not None and row.text is None]
        delete = "DELETE FROM main.{index}_excluded WHERE key = "
        for sql, keys in (delete, list(raw_keys)), ("INSERT OR REPLACE INTO main.{index}_excluded (key) SELECT ", excluded):
            for bound in {raw_key.bound for raw_key in keys}:
                values = [(raw_key.value,) for raw_key in keys if raw_key.bound == bound]
                self.store.execute_many(sql + bound, values)

    def document_at(self, key: Key) -> Stored | None:
        sql = """SELECT d.id, d.expires_at, g.name, d.token_count, d.text, {value}
                 FROM {index}_document AS d LEFT JOIN {index}_group AS g ON g.id = d.group_id
                     LEFT JOIN {index}_fingerprint AS f ON f.id = d.fingerprint_id {aside} WHERE d.key = ?"""
        row = self.store.row(sql, (key,))
        return None if row is None else Stored(*row)

    def page(self, after_id: int, last_id: int, most: int) -> list[tuple[int, Key]]:
        sql = "SELECT id, key FROM {index}_document WHERE id > ? AND id <= ? ORDER BY id LIMIT ?"
        return [(number, key) for number, key in self.db.page(self.store.sql(sql), after_id, last_id, most)]

    def differing(self, pairs: Sequence[tuple[Row, Stored]]) -> list[bool]:
        """For each row with a text and its document: True if the row would now produce another document."""
        if not pairs:
            return []
        if self.store.store_text:
            return [_differs(row, stored) or storable(row.text or "") != stored.text for row, stored in pairs]
        values = self.store.scheme.values([row.text or "" for row, _ in pairs], self.store.rules)
        return [
            _differs(row, stored) or value != stored.value or count != stored.token_count
            for (row, stored), value, count in zip(pairs, values.split(), values.tokens.tolist(), strict=True)
        ]


def _differs(row: Row, stored: Stored) -> bool:
    return stored.expires_at is not None or type(row.group) is not type(stored.group) or row.group != stored.group
