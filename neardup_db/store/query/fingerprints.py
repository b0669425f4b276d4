"""Rows of fingerprints, one for each distinct value of a group, and helpers for tables with ids."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from itertools import islice, pairwise
from typing import Any, TypeVar

import apsw

from ... import limits
from ...arrays import np
from ...errors import CorruptIndexError
from ...native import signed_hash
from ...values import Key
from ..database.errors import damaged
from ..layout import definitions
from ..layout.candidates import MAX_ID
from ..layout.state import Store
from .parts import Parts

Numbers = TypeVar("Numbers", bound=Collection["int | None"])
ACROSS_GROUPS = -2  # the group id for a query across all groups
OF_GROUP = f":group_id IN (group_id, {ACROSS_GROUPS})"  # the SQL condition for rows of one group, or of all


class Fingerprints:
    def __init__(self, store: Store) -> None:
        self.store = store
        self.db = store.db
        self.parts = Parts(store)

    def value(self, fingerprint_id: int) -> bytes:
        sql = "SELECT value, value_hash FROM {index}_fingerprint WHERE id = ?"
        return self.sound(fingerprint_id, self.store.row(sql, (fingerprint_id,)))

    def values(self, fingerprint_ids: Collection[int]) -> dict[int, bytes]:
        sql = """SELECT f.id, f.value, f.value_hash FROM {carray}(?) AS i CROSS JOIN {index}_fingerprint AS f
                 WHERE f.id = i.value"""
        rows = {number: value for number, *value in self.store.rows_of_numbers(sql, fingerprint_ids)}
        return {number: self.sound(number, tuple(rows.get(number, ())) or None) for number in fingerprint_ids}

    def group_of(self, fingerprint_id: int) -> int:
        sql = "SELECT group_id FROM {index}_fingerprint WHERE id = ?"
        return self.require_numbers([self.store.value(sql, (fingerprint_id,))])[0]

    def sound(self, fingerprint_id: int, row: tuple[Any, ...] | None) -> bytes:
        """The value of a row (value, value_hash). Raises CorruptIndexError if the hash does not match."""
        if row is None or not self.is_sound(*row):
            raise self._damaged(f"fingerprint {fingerprint_id}", "not the one that was written")
        return bytes(row[0])

    def is_sound(self, value: object, value_hash: int) -> bool:
        """True if a stored value matches its hash and has the scheme's format."""
        return isinstance(value, bytes) and signed_hash(value) == value_hash and self.store.scheme.is_value(value)

    def fingerprint_id(self, group_id: int, value: bytes, value_hash: int) -> int | None:
        """The id of the fingerprint with this value; value_hash: its `signed_hash`."""
        sql = "SELECT f.id FROM {index}_fingerprint AS f WHERE f.group_id = +? AND f.value_hash = +? AND f.value = ?"
        return self.store.value(sql + self._shareable, (group_id, value_hash, value))

    def ids_of_values(self, group_id: int, column: str, numbers: Any) -> dict[bytes, int]:
        """{value: id} of the group's fingerprints with one of these numbers (int64[n], any order) in `column`."""
        sql = f"""SELECT f.value, f.id FROM {{carray}}(?) AS i CROSS JOIN {{index}}_fingerprint AS f
                  WHERE f.group_id = +? AND f.{column} = i.value"""
        return dict(self.store.rows_of_numbers(sql + self._shareable, numbers, group_id))

    @property
    def _shareable(self) -> str:
        """The SQL condition that a new document may share fingerprint f: it belongs to no dismissed document."""
        if not self.store.dismisses:
            return ""
        first = "(SELECT d.id FROM {index}_document AS d WHERE d.fingerprint_id = f.id LIMIT 1)"
        if self.store.has_parts:
            first = f"ifnull({first}, (SELECT p.document_id FROM {{index}}_part AS p WHERE p.fingerprint_id = f.id LIMIT 1))"
        return f""" AND NOT EXISTS (SELECT 1 FROM {{index}}_dismissed AS x WHERE x.document_id = {first})
                    AND NOT EXISTS (SELECT 1 FROM {{index}}_dismissed AS x WHERE x.other_id = {first})"""

    def of_fingerprints(self, ids: Collection[int], now: int) -> Iterator[tuple[int, int, Key]]:
        """(fingerprint id, document id, key) of the visible documents with one of these fingerprints."""
        if not ids:
            return
        sought = np.sort(np.fromiter(self.require_numbers(ids), np.int64, len(ids)))
        yield from self.store.stream(self.store.frame("owners"), (self.db.carried(sought), now))

    def value_hashes(self) -> Iterator[tuple[Any, Any]]:
        """Pages of (value hashes, fingerprint ids) of all fingerprints, int64[n] each."""
        cursor = self.store.stream("SELECT value_hash, id FROM {index}_fingerprint")
        while rows := list(islice(cursor, limits.VALUE_HASHES)):
            page = np.array(rows, np.int64)
            yield page[:, 0], page[:, 1]

    def filing_ranges(self, most: int, from_id: int = 1) -> list[tuple[int, int]]:
        """Ranges (first id, last id) of fingerprints from `from_id` on, whose candidate rows take up to `most` bytes to sort."""
        each, more = (self.store.scheme.filing_bytes_of(*sizes) for sizes in ((1, 0), (0, 1)))
        sql = """SELECT min(id), max(id) FROM (
                     SELECT id, sum(? + ? * length(value)) OVER (ORDER BY id) / ? AS part
                     FROM {index}_fingerprint NOT INDEXED WHERE id >= ?)
                 GROUP BY CAST(part AS INTEGER) ORDER BY 1"""
        return self.store.rows(sql, (each, more, most, from_id))

    def next_fingerprint_id(self, first_id: int, group_id: int = ACROSS_GROUPS) -> int | None:
        sql = f"""SELECT id FROM {{index}}_fingerprint NOT INDEXED
                  WHERE id BETWEEN :first_id AND {MAX_ID} AND {OF_GROUP} ORDER BY id LIMIT 1"""
        return self.store.value(sql, {"first_id": first_id, "group_id": group_id})

    def last_fingerprint_id(self) -> int:
        """The highest id ever assigned; ids are never reused."""
        return self._last_id("fingerprint")

    @property
    def batch_size(self) -> int:
        return max(1, limits.FILING_BYTES // self.store.scheme.filing_bytes)

    def add_fingerprint(self, group_id: int, value: bytes, value_hash: int) -> int:
        """Insert a fingerprint without candidate rows and return its id."""
        sql = "INSERT INTO {index}_fingerprint (group_id, value, value_hash) VALUES (?, ?, ?)"
        return self._insert("fingerprint", sql, (group_id, value, value_hash))

    def fingerprint_of(self, group_id: int, value: bytes | None) -> int | None:
        """The id of the fingerprint with this value, None for an empty text. A new one is inserted, without candidate rows."""
        if value is None:
            return None
        value_hash = signed_hash(value)
        number = self.fingerprint_id(group_id, value, value_hash)
        return self.add_fingerprint(group_id, value, value_hash) if number is None else number

    def insert_fingerprints(self, first_id: int, group_id: int, values: Sequence[bytes], hashes: Any) -> None:
        """Insert fingerprints of a group in one statement; hashes: int64[n]."""
        sql = """INSERT OR FAIL INTO {index}_fingerprint (id, group_id, value, value_hash)
                 SELECT :first_id + v.rowid, :group_id, v.value, neardup_number(:hashes, v.rowid) FROM {carray}(:values) AS v"""
        parameters = {
            "first_id": first_id - 1,
            "group_id": group_id,
            "values": self.db.carried(tuple(values)),
            "hashes": hashes.astype("<i8").tobytes(),
        }
        self.store.execute(sql, parameters)

    def is_shared(self, fingerprint_id: int, document_id: int) -> bool:
        sql = "SELECT EXISTS (SELECT 1 FROM {index}_document WHERE fingerprint_id = ?1 AND id <> ?2)"
        if self.store.has_parts:
            sql += " OR EXISTS (SELECT 1 FROM {index}_part WHERE fingerprint_id = ?1 AND document_id <> ?2)"
        return bool(self.store.value(sql, (fingerprint_id, document_id)))

    def copy_fingerprint(self, fingerprint_id: int, document_id: int) -> int:
        """Give a document an unshared copy of its fingerprint. Returns the new id, which has no candidate rows yet."""
        sql = "SELECT group_id, value, value_hash, crowd FROM {index}_fingerprint WHERE id = ?"
        *values, crowd = self.store.rows(sql, (fingerprint_id,))[0]
        copy_id = self.add_fingerprint(*values)
        self.store.execute("UPDATE {index}_fingerprint SET crowd = ? WHERE id = ?", (crowd, copy_id))
        for table, column in (("document", "id"), *([("part", "document_id")] if self.store.has_parts else [])):
            update = f"UPDATE {{index}}_{table} SET fingerprint_id = ? WHERE fingerprint_id = ? AND {column} = ?"
            self.store.execute(update, (copy_id, fingerprint_id, document_id))
        return copy_id

    def _drop_fingerprints(self, unused: list[int]) -> None:
        for first_id, last_id in self._runs(unused):
            try:
                self.store.table.remove_rows(first_id, last_id)
            except CorruptIndexError:
                self.store.table.remove_damaged(first_id, last_id)
        self.store.execute_many("DELETE FROM {index}_fingerprint WHERE id = ?", ((number,) for number in unused))

    def _runs(self, ids: list[int]) -> Iterator[tuple[int, int]]:
        """(first, last) of runs of these ids without other fingerprints in between."""
        between = "SELECT ? FROM {index}_fingerprint WHERE id > ? AND id < ? LIMIT 1"
        gaps = [(end, start, end) for start, end in pairwise(ids) if end > start + 1]
        firsts = [*ids[:1], *(end for (end,) in self.store.execute_many(between, gaps))]
        lasts = [*(ids[bisect_left(ids, first) - 1] for first in firsts[1:]), *ids[-1:]]
        return zip(firsts, lasts, strict=True)

    def _has_value_index(self) -> bool:
        """Bulk loads drop it temporarily."""
        sql = "SELECT 1 FROM sqlite_schema WHERE type = 'index' AND name = ?"
        return self.db.value(sql, (f"{self.store.name}_fingerprint_value",)) is not None

    def drop_value_index(self) -> str | None:
        """Returns the SQL that recreates it, or None if it cannot be dropped now."""
        name = f"{self.store.name}_fingerprint_value"
        if not self.db.owned or not self._has_value_index():
            return None
        try:
            self.db.execute(f"DROP INDEX {name}")
        except apsw.LockedError:  # the application has an open cursor
            return None
        return definitions.expected(self.store.name, "index")[name].sql  # the stored text could have been altered by anybody

    def _insert(self, table: str, sql: str, row: tuple[Any, ...]) -> int:
        """Insert a row with the table's next id and return the id."""
        self.store.execute(sql, row)
        number = self.db.connection.last_insert_rowid()
        if number > MAX_ID:
            self._last_id(table)
        return number

    def _last_id(self, table: str) -> int:
        number = self.db.value("SELECT seq FROM sqlite_sequence WHERE name = ?", (f"{self.store.name}_{table}",)) or 0
        if not isinstance(number, int) or not 0 <= number < MAX_ID:
            raise self._damaged(f"the highest id of the table of {table}s", f"it is {number!r}")
        return number

    def require_numbers(self, numbers: Numbers) -> Numbers:
        """The same numbers. Raises CorruptIndexError for any but integers and NULL: STRICT does not protect a damaged file."""
        for number in numbers:
            if number is not None and type(number) is not int:
                raise self._damaged("an id or a label", f"it is {number!r}")
        return numbers

    def _damaged(self, what: str, why: object) -> CorruptIndexError:
        return damaged(what, self.store.name, why)
