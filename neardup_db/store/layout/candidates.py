"""Candidate tables: writes, removes, checks and looks up the rows of fingerprints.

A row is one key of a fingerprint (`KeyTable`), or holds the entries of many codes (`BucketTable`). Stored value and cluster
determine all of them (`neardup_filing`), so one or two statements index, remove, rebuild or check one fingerprint or all.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import apsw

from ... import limits, native
from ...arrays import Array, np
from ...errors import NearDupError
from ..database.connection import Database, Statements
from ..database.errors import damaged
from .schema import sql_text

BUCKET_BITS, PART_BITS = native.lib.ND_BUCKET_BITS, native.lib.ND_PART_BITS
"""A bucket row's id: table number, then these bits for the bucket and for the page of the bucket."""

MAX_ID = 2**62  # above every fingerprint id; the end of a range of all fingerprints
MAX_GIVEN_ID = MAX_ID // 2  # above every id that can be assigned: a higher id or counter is damage


class CandidateTable(Statements):
    failures = UnicodeDecodeError, apsw.SQLError

    separates_large_clusters: ClassVar[bool]  # True if rows of large clusters are separate within a bucket

    _insert_rows: str
    """Inserts the rows of fingerprints :first_id to :last_id in table order. OR FAIL and OR REPLACE avoid a statement journal,
    for which SQLite copies every page before it changes; an error ends the transaction."""
    _count: str  # the number of rows or entries
    _expected_row: str  # the row or entry that corresponds to row e of `neardup_filing`
    _excess: str  # ids of rows or entries that no fingerprint in the range :first_id to :last_id has, or that exist twice
    _probed_rows: str  # tables and WHERE clause of the rows or entries m that probe p reads
    _is_other: str  # the condition that m belongs to fingerprint :other_id
    _probed_key: str  # the key or bucket of probe p

    def __init__(self, db: Database, index: str, table: str) -> None:
        self.db = db
        self.index = index
        self.name = f"{index}_{table}"
        self._keys = sql_text(f"keys_{table}").replace("{index}", index)
        self._probe = f"neardup_probe('{index}', :fingerprint, :share, :group_id) AS p"

    def execute(self, sql: str, bindings: Any = None) -> apsw.Cursor:
        try:
            return self.db.execute(sql, bindings)
        except apsw.SQLError as error:
            raise self.failure(error) from error

    def failure(self, error: Any) -> NearDupError:
        return damaged("the candidate table", self.index, error)

    # ---- writing -----------------------------------------------------------------------------------------------------

    def index_rows(self, first_id: int, last_id: int, keys: bytes | Array | None = None) -> None:
        """Write the candidate rows of fingerprints first_id to last_id, sorted. keys: the group and keys of each, int64
        little-endian, if known, so that values are not read."""
        self.execute(self._insert_rows, {"first_id": first_id, "last_id": last_id, "keys": keys})

    @abstractmethod
    def remove_rows(self, first_id: int, last_id: int) -> None:
        """Remove the candidate rows of fingerprints first_id to last_id, before the fingerprints are deleted."""

    @abstractmethod
    def remove_damaged(self, first_id: int, last_id: int) -> None:
        """`remove_rows` where damaged values do not determine the rows. Scans all rows."""

    def move_rows(self, crowds: Mapping[int, int]) -> None:
        """Give fingerprints and their rows the labels of other large clusters."""
        raise NotImplementedError

    # ---- checking ----------------------------------------------------------------------------------------------------

    @abstractmethod
    def unreadable(self) -> list[int]:
        """The ids of damaged rows."""

    def count(self) -> int:
        rows: int = self.value(self._count)
        return rows

    def missing(self, first_id: int, last_id: int) -> tuple[int, int, list[int]]:
        """(expected rows, missing rows, fingerprint ids with missing rows) of fingerprints first_id to last_id."""
        sql = f"""SELECT count(*), count(*) FILTER (WHERE lacks), json_group_array(DISTINCT fingerprint_id) FILTER (WHERE lacks)
                  FROM (SELECT e.fingerprint_id, NOT EXISTS ({self._expected_row}) AS lacks
                        FROM neardup_filing('{self.index}', ?, ?) AS e)"""
        count, lacking, ids = self.rows(sql, (first_id, last_id))[0]
        return count, lacking, json.loads(ids)

    def excess(self, limit: int) -> list[int]:
        """Up to `limit` fingerprint ids of rows or entries that no fingerprint should have. Slow."""
        parameters = {"first_id": 0, "last_id": MAX_ID, "limit": limit}
        return [row[0] for row in self.rows(f"{self._excess} LIMIT :limit", parameters)]

    # ---- looking up --------------------------------------------------------------------------------------------------

    def probes(self, parameters: Mapping[str, Any]) -> int:
        """The number of keys or buckets that a query looks up. :share is the threshold of a containment query, else NULL."""
        probes: int = self.value(f"SELECT count(*) FROM {self._probe}", parameters)
        return probes

    def candidates(self, parameters: Mapping[str, Any]) -> tuple[int, int]:
        sql = f"SELECT count(*), count(DISTINCT m.fingerprint_id) FROM {self._probe} CROSS JOIN {self._probed_rows}"
        rows, fingerprints = self.rows(sql, parameters)[0]
        return rows, fingerprints

    def shared_rows(self, parameters: Mapping[str, Any]) -> tuple[tuple[Any, ...], ...]:
        """The (table number, key or bucket) of each probe that finds fingerprint :other_id."""
        sql = f"SELECT p.table_no, {self._probed_key} FROM {self._probe} CROSS JOIN {self._probed_rows} AND {self._is_other}"
        return tuple(self.rows(sql, parameters))

    def large_clusters(self, parameters: Mapping[str, Any]) -> Sequence[int]:
        """The labels of large clusters in the buckets of :fingerprint."""
        return ()

    @abstractmethod
    def across(self, groups: int, fingerprints: int) -> str:
        """A subquery with the columns of neardup_candidates: for :fingerprint in all groups. The arguments are upper bounds."""


class KeyTable(CandidateTable):
    """A row has bucket (`column`), group, large cluster and fingerprint id."""

    separates_large_clusters = True

    def __init__(self, db: Database, index: str, table: str, column: str) -> None:
        super().__init__(db, index, table)
        columns = f"{column}, group_id, crowd, fingerprint_id"
        self._insert_rows = f"INSERT OR FAIL INTO {self.name} ({columns}) {self._keys.replace(':last_id', ':last_id, :keys')}"
        self._delete_rows = f"DELETE FROM {self.name} WHERE ({columns}) IN ({self._keys})"
        # sorted: an IN of a large unsorted list reads and writes a page of its temporary table for each row
        rows = f"""SELECT k.low, k.group_id, k.crowd, k.fingerprint_id FROM {db.carray}(?) AS i
                   CROSS JOIN neardup_filing('{index}', i.value, i.value) AS k ORDER BY 1, 2, 3, 4"""
        self._delete_some = f"DELETE FROM {self.name} WHERE ({columns}) IN ({rows})"
        self._insert_some = f"INSERT OR FAIL INTO {self.name} ({columns}) {rows}"
        self._count = f"SELECT count(*) FROM {self.name}"
        self._expected_row = f"""SELECT 1 FROM {self.name} AS t WHERE t.{column} = e.low AND t.group_id = e.group_id
                          AND t.crowd = e.crowd AND t.fingerprint_id = e.fingerprint_id"""
        self._excess = f"SELECT DISTINCT fingerprint_id FROM (SELECT {columns} FROM {self.name} EXCEPT {self._keys})"
        self._probed_rows = f"{self.name} AS m WHERE m.group_id = :group_id AND m.{column} = p.low"
        self._probed_key = "p.low"
        crowd = f"(SELECT x.crowd FROM {index}_fingerprint AS x WHERE x.id = :other_id)"  # else the whole bucket is read
        self._is_other = f"m.crowd = {crowd} AND m.fingerprint_id = :other_id"
        self._across = (
            f"(SELECT DISTINCT x.fingerprint_id FROM neardup_probe('{index}', :fingerprint) AS p "
            f"CROSS JOIN {self.name} AS x WHERE x.{column} = p.low)"
        )
        rows = f"FROM {self.name} AS b WHERE b.group_id = :group_id AND b.{column} ="
        self._large_clusters = (  # skips from label to label
            f"WITH RECURSIVE met(bucket, crowd) AS (SELECT p.low, (SELECT min(b.crowd) {rows} p.low) "
            f"FROM neardup_probe('{self.index}', :fingerprint) AS p "
            f"UNION ALL SELECT m.bucket, (SELECT min(b.crowd) {rows} m.bucket AND b.crowd > m.crowd) "
            f"FROM met AS m WHERE m.crowd IS NOT NULL) SELECT DISTINCT crowd FROM met WHERE crowd <> 0"
        )

    def remove_rows(self, first_id: int, last_id: int) -> None:
        self.execute(self._delete_rows, {"first_id": first_id, "last_id": last_id})

    def remove_damaged(self, first_id: int, last_id: int) -> None:
        self.db.execute(f"DELETE FROM {self.name} WHERE fingerprint_id BETWEEN ? AND ?", (first_id, last_id))

    def move_rows(self, crowds: Mapping[int, int]) -> None:
        ids = self.db.carried(np.sort(np.fromiter(crowds, np.int64, len(crowds))))
        self.execute(self._delete_some, (ids,))
        self.db.execute_many(f"UPDATE {self.index}_fingerprint SET crowd = ?2 WHERE id = ?1", sorted(crowds.items()))
        self.execute(self._insert_some, (ids,))

    def unreadable(self) -> list[int]:
        return []

    def across(self, groups: int, fingerprints: int) -> str:
        return self._across

    def large_clusters(self, parameters: Mapping[str, Any]) -> Sequence[int]:
        return [row[0] for row in self.rows(self._large_clusters, parameters)]


class BucketTable(CandidateTable):
    """A row holds the entries of one bucket and group, or a page of them (`neardup_buckets`)."""

    separates_large_clusters = False

    def __init__(self, db: Database, index: str, table: str) -> None:
        super().__init__(db, index, table)
        self._code_bytes = f"(SELECT value / 8 FROM {index}_setting WHERE name = 'bits')"
        self._entries = f"{self.name} AS t CROSS JOIN neardup_entries(t.entries, {self._code_bytes}) AS e"
        columns = "id, group_id, entries"
        self._insert_rows = f"INSERT OR REPLACE INTO {self.name} ({columns}) {self._keys.replace(':filed', '1')}"
        self._delete_rows = f"""INSERT OR REPLACE INTO {self.name} ({columns})
                           SELECT r.id, r.group_id, ifnull(r.entries, x'') FROM ({self._keys.replace(":filed", "0")}) AS r
                           RETURNING iif(length(entries) = 0, id, NULL)"""
        self._count = f"SELECT count(*) FROM {self._entries}"
        self._expected_row = f"""SELECT 1 FROM {self.name} AS t CROSS JOIN json_each(neardup_near(t.entries, e.code, 0)) AS n
                          WHERE t.id BETWEEN e.low AND e.high AND t.group_id = e.group_id AND n.value ->> 0 = e.fingerprint_id"""
        columns = "group_id, fingerprint_id, code"
        self._excess = f"""SELECT fingerprint_id FROM (
                               SELECT id >> {PART_BITS}, {columns}
                               FROM (SELECT t.id, t.group_id, e.fingerprint_id, e.code FROM {self._entries})
                               EXCEPT SELECT low >> {PART_BITS}, {columns} FROM neardup_filing('{index}', :first_id, :last_id))
                           UNION SELECT e.fingerprint_id FROM {self._entries}
                           GROUP BY t.id >> {PART_BITS}, e.fingerprint_id HAVING count(*) > 1"""
        self._probed_rows = f"""{self.name} AS t CROSS JOIN neardup_entries(t.entries, length(:fingerprint)) AS m
                        WHERE t.id BETWEEN p.low AND p.high AND t.group_id = :group_id"""
        self._is_other = "m.fingerprint_id = :other_id"
        self._probed_key = f"p.low >> {PART_BITS} & {2**BUCKET_BITS - 1}"

    def across(self, groups: int, fingerprints: int) -> str:
        """Each group has its own buckets: reads group by group, or compares all codes if that is faster."""
        if groups * limits.CODES_A_GROUP > fingerprints:
            return (
                f"(SELECT f.id AS fingerprint_id, neardup_hamming(f.value, :fingerprint) AS distance "
                f"FROM {self.index}_fingerprint AS f NOT INDEXED WHERE neardup_intact(f.value, f.value_hash) "
                "AND neardup_hamming(f.value, :fingerprint) <= :max_distance)"
            )
        return (
            f"(SELECT c.fingerprint_id, c.distance FROM (SELECT 0 AS id UNION ALL SELECT id FROM {self.index}_group) AS g "
            f"CROSS JOIN neardup_candidates('{self.index}', :fingerprint, g.id, NULL, :max_distance) AS c)"
        )

    def remove_rows(self, first_id: int, last_id: int) -> None:
        rows = self.rows(self._delete_rows, {"first_id": first_id, "last_id": last_id})
        empty = [number for (number,) in rows if number is not None]
        if empty:
            self.db.execute(f"DELETE FROM {self.name} WHERE id IN (SELECT value FROM json_each(?))", (json.dumps(empty),))

    def remove_damaged(self, first_id: int, last_id: int) -> None:
        ids = (first_id, last_id)
        sql = f"SELECT t.entries, length(e.code), t.id FROM {self._entries} WHERE e.fingerprint_id BETWEEN ? AND ? GROUP BY t.id"
        rows = self.rows(sql, ids)
        changed = [(native.remove_entries(entries, code_bytes, *ids), row) for entries, code_bytes, row in rows]
        self.db.execute_many(f"UPDATE {self.name} SET entries = ? WHERE id = ?", changed)
        self.db.execute(f"DELETE FROM {self.name} WHERE length(entries) = 0")

    def unreadable(self) -> list[int]:
        try:  # usually none, as one statement shows
            self.db.value(f"SELECT count(neardup_near(t.entries, zeroblob({self._code_bytes}), -1)) FROM {self.name} AS t")
            return []
        except apsw.SQLError:
            size = self.db.value(f"SELECT {self._code_bytes}")
        rows = self.db.stream(f"SELECT id, entries FROM {self.name} ORDER BY id")
        return [number for number, entries in rows if not isinstance(entries, bytes) or not native.is_row(entries, size)]


_BUCKETS = {"minhash_band": "bucket", "bottomk_prefix": "hash", "passage_hash": "hash"}  # the bucket column of each table of keys
TABLES = ("code_bucket", *_BUCKETS)  # all candidate tables. An index has one


def candidate_table(db: Database, index: str, table: str) -> CandidateTable:
    return KeyTable(db, index, table, _BUCKETS[table]) if table in _BUCKETS else BucketTable(db, index, table)
