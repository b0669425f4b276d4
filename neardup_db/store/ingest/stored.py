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
from ...values import Key, Part, Record, Times
from ..database.errors import damaged
from ..layout.sketches import StoredValue
from ..layout.window import Window
from ..query.documents import EVER, Documents
from .segment import Batch


class StoredRows(NamedTuple):
    """Checked documents as columns of equal length."""

    keys: list[Key]
    values: list[StoredValue]
    times: list[Times]
    sizes: list[int]
    """Bytes of the value, the text and the metadata."""
    texts: list[str | None]
    metadata: list[str | None]
    groups: list[Key | None]
    expiries: list[int | None]
    parts: list[Part | None]
    of_several: list[bool | None]
    """True for an unnamed code stored beside other codes of its document."""

    def slice_rows(self, page: slice) -> StoredRows:
        return StoredRows(*(column[page] for column in self))  # type: ignore[arg-type]

    def limit_bytes(self, most_size: int) -> StoredRows:
        """The first documents with this many bytes in total, including the one that reaches the limit."""
        return self.slice_rows(slice(fitting(np.array(self.sizes, np.int64), most_size)))

    def append_to(self, batch: Batch) -> None:
        first = len(batch)
        batch.extend(self.keys, self.values, sum(self.sizes))
        batch.times = [*(batch.times or ()), *self.times]
        if all(column.count(None) == len(column) for column in self[4:]):
            return
        no_times = [None] * len(self.keys)  # the batch has them
        columns = self.texts, self.metadata, self.groups, self.expiries, no_times, self.parts, self.of_several
        for place, more in enumerate(zip(*columns, strict=True), first):
            if more != _NOTHING:
                batch.more[place] = Record._make((batch.keys[place], *more))


_NOTHING = (None,) * 7


class Stored:
    """The visible documents of an index in insertion order, read from one state. A document with several codes appears
    once per code, with metadata and expiry only the first time.

    window: the window of the target index; documents too old for it are left out. before: called before each page. Raises
    CorruptIndexError, naming the document, if one is damaged.
    """

    def __init__(
        self,
        documents: Documents,
        now: int,
        window: Window,
        *,
        with_texts: bool,
        before: Callable[[], None] | None = None,
    ) -> None:
        self._documents = documents
        self._store, self._db = documents.store, documents.db
        self._now, self._before = now, before
        self._since = EVER if window.duration_ms is None else now - window.duration_ms
        self._with_texts = with_texts
        several = self._store.has_parts
        own_end = "(SELECT o.expires_at FROM {index}_own_end AS o WHERE o.document_id = d.id)"
        expires_at = f"ifnull({own_end}, d.expires_at)" if self._store.keeps_ends else "d.expires_at"
        code = "ifnull(p.fingerprint_id, d.fingerprint_id)" if several else "d.fingerprint_id"
        self._sql = self._store.sql(
            f"""SELECT d.id, d.key, d.token_count, d.added_at, d.last_seen, d.times_seen, {"d.text" if with_texts else "NULL"},
                    d.metadata, g.name, {expires_at}, {{value}}, {{value_hash}}, d.fingerprint_id, d.group_id,
                    {"p.part" if several else "NULL"}, d.metadata IS NULL OR json_valid(d.metadata),
                    ifnull(length({{value}}), 0) + ifnull(length(CAST(d.metadata AS BLOB)), 0)
                        + {"ifnull(length(CAST(d.text AS BLOB)), 0)" if with_texts else "0"}
                FROM {{index}}_document AS d LEFT JOIN {{index}}_group AS g ON g.id = d.group_id
                    {"LEFT JOIN {index}_part AS p ON p.document_id = d.id" if several else ""}
                    LEFT JOIN {{index}}_fingerprint AS f ON f.id = {code} {{aside}}
                WHERE d.id > ? AND {{visible}} AND d.added_at > ? ORDER BY d.id{", p.id" if several else ""}"""
        )

    def rows(self) -> Iterator[StoredRows]:
        after = 0
        while page := self._page(after):
            after = page[-1][0]
            columns = self._checked(page)
            ids, keys, counts, *times, texts, metadata, groups, expiries, values, _, _, _, parts, _, sizes = map(list, columns)
            same_document = [i for i in range(1, len(ids)) if ids[i] == ids[i - 1]]
            of_several: list[bool | None] = [None] * len(ids)
            for place in same_document:
                metadata[place] = expiries[place] = None
                for code in (place - 1, place):
                    of_several[code] = True if parts[code] is None else None
            stored = list(map(StoredValue, values, counts))
            seen = list(zip(*times, strict=True))
            yield StoredRows(keys, stored, seen, sizes, texts, metadata, groups, expiries, parts, of_several)

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

    def _checked(self, page: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """The page as columns. Raises CorruptIndexError if a row is damaged."""
        columns = list(zip(*page, strict=True))
        if self._damage_in(columns) is not None:
            for row in page:
                problem = self._damage_in([(value,) for value in row])
                if problem is not None:
                    error = damaged(f"document {row[0]} ({row[1]!r})", self._store.name, problem)
                    if self._db.name:
                        error.args = (f"{self._db.name}: {error.args[0]}",)
                    raise error
        return columns

    def _damage_in(self, columns: list[tuple[Any, ...]]) -> str | None:
        for (name, kinds), column in zip(_COLUMNS.items(), columns, strict=True):
            if not kinds.issuperset(map(type, column)):
                return f"its {name} is none"
        _, _, counts, added, seen, often, texts, _, names, expiries, values, hashes, *others = columns
        fingerprint_ids, group_ids, _, are_json, _ = others
        present = [value for value in values if value is not None]
        known = [number for number in hashes if number is not None]
        if len(present) + fingerprint_ids.count(None) < len(values) or len(known) != len(present):
            return "its fingerprint lacks"
        joined = Values.joined(present)
        if not np.array_equal(joined.hashes(), np.array(known, np.int64)):
            return "its fingerprint is not the one that was written"
        if not self._store.scheme.are_values(joined):
            return "its fingerprint is none of the scheme's"
        if self._with_texts and None in texts:
            return "its text lacks"
        if names.count(None) > group_ids.count(0):
            return "its group has no name"
        if min(filter(None, counts), default=0) < 0:
            return "its number of tokens is below 0"
        if min(often, default=1) < 1:
            return "its number of times is below 1"
        for name, times in (("time of adding", added), ("time when it was last seen", seen), ("expiry", expiries)):
            known = [time for time in times if time is not None]
            if min(known, default=0) < -LATEST_MS or max(known, default=0) > LATEST_MS:
                return f"its {name} is out of range"
        return None if all(are_json) else "its metadata is no JSON"


_NAME: set[type] = {str, bytes, int}
_NUMBER: set[type] = {int}
_NOTHING_KIND: set[type] = {type(None)}
_COLUMNS = {
    "id": _NUMBER,
    "key": _NAME,
    "number of tokens": _NUMBER | _NOTHING_KIND,
    "time of adding": _NUMBER,
    "time when it was last seen": _NUMBER,
    "number of times": _NUMBER,
    "text": {str} | _NOTHING_KIND,
    "metadata": {str} | _NOTHING_KIND,
    "group": _NAME | _NOTHING_KIND,
    "expiry": _NUMBER | _NOTHING_KIND,
    "fingerprint": {bytes} | _NOTHING_KIND,
    "hash": _NUMBER | _NOTHING_KIND,
    "number of the fingerprint": _NUMBER | _NOTHING_KIND,
    "number of the group": _NUMBER,
    "part": {str, int} | _NOTHING_KIND,
    "check of the metadata": _NUMBER,
    "size": _NUMBER,
}
"""The columns read, with the types of their values."""
