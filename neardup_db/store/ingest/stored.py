"""Documents as stored in an index, for `Index.merge` and `export_fingerprints`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, NamedTuple

from ... import limits
from ...arrays import np
from ...located import fitting
from ...native import Values
from ...parameters import LATEST_MS
from ...values import Record
from ..database.errors import damaged
from ..layout.sketches import StoredValue
from ..layout.window import Window
from ..query.documents import EVER, Documents
from .segment import Batch


class StoredRows(NamedTuple):
    """Checked documents. sizes: bytes of the value, the text and the metadata."""

    records: list[Record]
    contents: list[StoredValue]
    sizes: list[int]

    def slice_rows(self, page: slice) -> StoredRows:
        return StoredRows(self.records[page], self.contents[page], self.sizes[page])

    def limit_bytes(self, most_size: int) -> StoredRows:
        """The first documents with this many bytes in total, including the one that reaches the limit."""
        return self.slice_rows(slice(fitting(np.array(self.sizes, np.int64), most_size)))

    def append_to(self, batch: Batch) -> None:
        first = len(batch)
        batch.extend([record.key for record in self.records], self.contents, sum(self.sizes))
        batch.times = [*(batch.times or ()), *(record.times for record in self.records if record.times is not None)]
        batch.more.update(row for row in enumerate(self.records, first) if row[1][1:5] + row[1][6:] != _NOTHING)


_NOTHING = (None,) * 6  # the values of a record that has only a key and times


class Stored:
    """The visible documents of an index in insertion order, read from one state. A document with several codes appears
    once per code, with metadata and expiry only the first time.

    window: the window of the target index; documents too old for it are left out. before: called before each page. Raises
    CorruptIndexError, naming the document, if one is damaged.
    """

    def __init__(
        self, documents: Documents, now: int, window: Window, *, with_texts: bool, before: Callable[[], None] | None = None
    ) -> None:
        self._documents = documents
        self._store, self._db = documents.store, documents.db
        self._now, self._before = now, before
        self._since = EVER if window.duration_ms is None else now - window.duration_ms
        several = self._store.has_parts
        own_end = "(SELECT o.expires_at FROM {index}_own_end AS o WHERE o.document_id = d.id)"
        expires_at = f"ifnull({own_end}, d.expires_at)" if self._store.keeps_ends else "d.expires_at"
        code = "ifnull(p.fingerprint_id, d.fingerprint_id)" if several else "d.fingerprint_id"
        text, part = "d.text" if with_texts else "NULL", "p.part" if several else "NULL"
        self._sql = self._store.sql(
            f"""SELECT d.id, d.key, d.token_count, d.added_at, d.last_seen, d.times_seen, {text}, d.metadata, g.name,
                    {expires_at}, {{value}}, {{value_hash}}, {part},
                    {_problem(expires_at, part, "d.text" if with_texts else "''")},
                    ifnull(length({{value}}), 0) + ifnull(length(CAST(d.metadata AS BLOB)), 0)
                        + ifnull(length(CAST({text} AS BLOB)), 0)
                FROM {{index}}_document AS d LEFT JOIN {{index}}_group AS g ON g.id = d.group_id
                    {"LEFT JOIN {index}_part AS p ON p.document_id = d.id" if several else ""}
                    LEFT JOIN {{index}}_fingerprint AS f ON f.id = {code} {{aside}}
                WHERE d.id > ? AND {{visible}} AND d.added_at > ? ORDER BY d.id{", p.id" if several else ""}"""
        )

    def rows(self) -> Iterator[StoredRows]:
        after = 0
        while page := self._page(after):
            after = page[-1][0]
            columns = map(list, zip(*page, strict=True))
            ids, keys, counts, *times, texts, metadata, groups, expiries, values, hashes, parts, problems, sizes = columns
            self._require_sound(page, values, hashes, problems)
            same_document = [i for i in range(1, len(ids)) if ids[i] == ids[i - 1]]
            of_several: list[bool | None] = [None] * len(ids)
            for place in same_document:
                metadata[place] = expiries[place] = None
                for code in (place - 1, place):
                    of_several[code] = True if parts[code] is None else None
            seen = zip(*times, strict=True)
            records = list(map(Record, keys, texts, metadata, groups, expiries, seen, parts, of_several))
            yield StoredRows(records, list(map(StoredValue, values, counts)), sizes)

    def _page(self, after: int) -> list[tuple[Any, ...]]:
        if self._before is not None:
            self._before()
        page: list[tuple[Any, ...]] = []
        page_size = 0
        with closing(self._db.stream(self._sql, (after, self._now, self._since))) as rows:
            for row in rows:
                if (page_size >= limits.BATCH_SIZE or len(page) >= limits.BATCH_RECORDS) and row[0] != page[-1][0]:
                    break
                page.append(row)
                page_size += row[-1]
        return self._db.ordered(page, after)

    def _require_sound(self, page: list[tuple[Any, ...]], values: list[Any], hashes: list[Any], problems: list[Any]) -> None:
        if not any(problems):
            joined = Values.joined([value for value in values if value is not None])
            known = np.array([number for number in hashes if number is not None], np.int64)
            if np.array_equal(joined.hashes(), known) and self._store.scheme.are_values(joined):
                return
        for row, value, value_hash, problem in zip(page, values, hashes, problems, strict=True):
            if problem is None and value is not None and not self._documents.is_sound(value, value_hash):
                problem = "its fingerprint is not the one that was written"
            if problem is not None:
                error = damaged(f"document {row[0]} ({row[1]!r})", self._store.name, problem)
                if self._db.name:
                    error.args = (f"{self._db.name}: {error.args[0]}",)
                raise error


def _problem(expires_at: str, part: str, text: str) -> str:
    """The SQL of what is wrong with a row of `Stored`; NULL if nothing is, apart from the bytes of the value."""

    def beyond(time: str) -> str:
        return f"typeof({time}) <> 'integer' OR {time} NOT BETWEEN -{LATEST_MS} AND {LATEST_MS}"

    has_value = "d.fingerprint_id IS NOT NULL OR {value} IS NOT NULL"
    return f"""CASE WHEN typeof(d.key) NOT IN ('text', 'blob', 'integer') THEN 'its key is none'
        WHEN typeof(d.token_count) NOT IN ('integer', 'null') OR d.token_count < 0 THEN 'its number of tokens is below 0'
        WHEN typeof(d.times_seen) <> 'integer' OR d.times_seen < 1 THEN 'its number of times is below 1'
        WHEN {beyond("d.added_at")} THEN 'its time of adding is out of range'
        WHEN {beyond("d.last_seen")} THEN 'its time when it was last seen is out of range'
        WHEN {expires_at} IS NOT NULL AND ({beyond(expires_at)}) THEN 'its expiry is out of range'
        WHEN typeof({text}) <> 'text' THEN 'its text lacks'
        WHEN d.group_id <> 0 AND typeof(g.name) NOT IN ('text', 'blob', 'integer') THEN 'its group has no name'
        WHEN typeof({part}) NOT IN ('text', 'integer', 'null') THEN 'its part has no name'
        WHEN typeof(d.metadata) <> 'null' AND NOT json_valid(CAST(d.metadata AS TEXT)) THEN 'its metadata is no JSON'
        WHEN ({has_value}) AND (typeof({{value}}) <> 'blob' OR typeof({{value_hash}}) <> 'integer') THEN 'its fingerprint lacks'
        END"""
