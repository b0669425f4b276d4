"""Documents, fingerprints and groups: one row each, found by key, by value, by name."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice, pairwise
from typing import Any, NamedTuple, TypeVar

import apsw

from ... import limits
from ...arrays import np
from ...errors import CorruptIndexError
from ...native import signed_hash
from ...values import ANY_GROUP, AnyGroup, Document, Key, Part, Record, Times
from ..database.errors import damaged
from ..layout import definitions
from ..layout.candidates import MAX_ID
from ..layout.state import Store
from .parts import Parts

EVER = -(2**63)
"""A time before every expiry, at which all documents are visible. Edges, labels and crowds are of all of them, so that nothing
has to be stored when a document expires, or when a clock set back shows it again."""


class DocumentRow(NamedTuple):
    """A document's row as far as writing needs it."""

    id: int
    group_id: int
    fingerprint_id: int | None
    expires_at: int | None

    def is_visible(self, now: int) -> bool:
        return self.expires_at is None or self.expires_at > now


class StoredDocument(NamedTuple):
    """A document as far as fingerprints go, or one of its codes."""

    key: Key
    group: Key | None
    value: bytes | None
    token_count: int | None
    part: Part | None = None


_NO_NUMBER = -(2**63)


def numbers(values: Sequence[int | None]) -> bytes:
    """Numbers as `neardup_number` reads them, None as NULL."""
    if None in values:
        values = [_NO_NUMBER if value is None else value for value in values]
    return np.array(values, "<i8").tobytes()


def _keys_array(keys: Sequence[Key]) -> Any:
    """Keys as `Database.carried` takes them; None where they are of several types, or texts with a NUL, where a C string ends."""
    kind = type(keys[0])
    if set(map(type, keys)) != {kind} or (kind is str and "\0" in "".join(map(str, keys))):
        return None
    return np.array(keys, np.int64) if kind is int else tuple(keys)


Numbers = TypeVar("Numbers", bound=Collection["int | None"])

_EXPIRY = "min(ifnull(:expires_at, added_at + :window), ifnull(added_at + :window, :expires_at))"
"""`Window.expiry` in SQL; :window NULL = none by time."""

ACROSS_GROUPS = -2
"""Stands for the number of a group in a question to all of them."""

OF_GROUP = f":group_id IN (group_id, {ACROSS_GROUPS})"
"""The condition for rows of one group, or of all."""

NEVER_SEEN = -1
"""Group id that no document has: of a group name that the index does not know."""


class Documents:
    """Reading and writing single documents; runs inside the store's transactions and decides nothing about matches."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.db = store.db
        self.parts = Parts(store)
        self._emptied: set[int] = set()
        """Numbers of groups that may have no document."""

    # ---- reading -----------------------------------------------------------------------------------------------------

    def find(self, key: Key) -> DocumentRow | None:
        """The row of a key, visible or not."""
        sql = "SELECT id, group_id, fingerprint_id, expires_at FROM {index}_document WHERE key = ?"
        row = self.db.row(self.store.sql(sql), (key,))
        return None if row is None else DocumentRow(*self.require_numbers(row))

    def rows_by_id(self, document_ids: Iterable[int]) -> list[DocumentRow]:
        """The rows of documents that are there."""
        sql = "SELECT id, group_id, fingerprint_id, expires_at FROM {index}_document WHERE id = ?"
        rows = self.db.rows_of_many(self.store.sql(sql), ((number,) for number in document_ids))
        return [DocumentRow(*self.require_numbers(row)) for row in rows]

    def existing_keys(self, keys: Sequence[Key], now: int = EVER) -> set[Key]:
        """Those of the keys that have a row, visible at `now`: one statement for all of a type."""
        at_once = self.store.sql(
            "SELECT key FROM {carray}(?) AS k CROSS JOIN {index}_document AS d WHERE d.key = k.value AND {visible}"
        )
        one_by_one = self.store.sql("SELECT key FROM {index}_document WHERE key = ? AND {visible}")
        found: set[Key] = set()
        for kind in set(map(type, keys)):
            some = [key for key in keys if type(key) is kind]
            together = _keys_array(some)
            if together is None:
                found.update(key for (key,) in self.db.rows_of_many(one_by_one, ((key, now) for key in some)))
            else:
                found.update(key for (key,) in self.db.rows(at_once, (self.db.carried(together), now)))
        return found

    def rows_by_key(self, keys: Sequence[Key]) -> dict[Key, DocumentRow]:
        """The rows of those of the keys that have one, visible or not: one statement for all of a type."""
        columns = "SELECT d.key, d.id, d.group_id, d.fingerprint_id, d.expires_at FROM"
        at_once = self.store.sql(f"{columns} {{carray}}(?) AS k CROSS JOIN {{index}}_document AS d WHERE d.key = k.value")
        one_by_one = self.store.sql(f"{columns} {{index}}_document AS d WHERE d.key = ?")
        rows: list[tuple[Any, ...]] = []
        for kind in set(map(type, keys)):
            some = [key for key in dict.fromkeys(keys) if type(key) is kind]
            together = _keys_array(some)
            if together is None:
                rows += self.db.rows_of_many(one_by_one, ((key,) for key in some))
            else:
                rows += self.db.rows(at_once, (self.db.carried(together),))
        return {key: DocumentRow(*self.require_numbers(row)) for key, *row in rows}

    def visible(self, key: Key, now: int, group: Key | AnyGroup | None = ANY_GROUP) -> DocumentRow | None:
        """The row of a key that has not expired, of a document of the group."""
        found = self.find(key)
        return found if found is not None and found.is_visible(now) and self.is_in_group(found, group) else None

    def of_group(self, group_id: int, now: int) -> list[tuple[int, int]]:
        """(id, 1 if it is visible) of each document of a group, by the index over the fingerprints of groups; documents without
        a fingerprint, empty texts, are few, and those of all groups are read."""
        sql = """SELECT id, {visible} FROM (
                     SELECT d.id, d.expires_at FROM {index}_fingerprint AS f CROSS JOIN {index}_document AS d
                     WHERE f.group_id = +:group_id AND d.fingerprint_id = f.id AND d.group_id = f.group_id
                     UNION ALL SELECT id, expires_at FROM {index}_document
                     WHERE fingerprint_id IS NULL AND group_id = +:group_id)
                 ORDER BY id"""
        return self.db.rows(self.store.sql(sql), {"group_id": group_id, "now": now})

    @contextmanager
    def row_and_value(self, key: Key) -> Iterator[tuple[DocumentRow, bytes | None] | None]:
        """The row of a key, visible or not, and its stored value, None for an empty text; inside, their state stays."""
        sql = """SELECT d.id, d.group_id, d.fingerprint_id, d.expires_at, f.value, f.value_hash
                 FROM {index}_document AS d LEFT JOIN {index}_fingerprint AS f ON f.id = d.fingerprint_id WHERE d.key = +?"""
        with self.db.first_row(self.store.sql(sql), (key,)) as row:
            if row is None:
                yield None
                return
            found = DocumentRow(*self.require_numbers(row[:4]))
            yield found, None if found.fingerprint_id is None else self.sound(found.fingerprint_id, row[4:])

    def read_document(self, document_id: int) -> Document:
        sql = """SELECT d.key, g.name, d.metadata, d.text, d.token_count, d.added_at, d.last_seen, d.times_seen, d.expires_at,
                     d.fingerprint_id
                 FROM {index}_document AS d LEFT JOIN {index}_group AS g ON g.id = d.group_id WHERE d.id = ?"""
        row = self.db.rows(self.store.sql(sql), (document_id,))[0]
        key, group, metadata, text, tokens, added, seen, times, expires, fingerprint_id = row
        codes = self.codes(document_id, fingerprint_id) if self.store.scheme.takes_codes else {}
        try:
            return Document(
                key=key,
                group=group,
                metadata=None if metadata is None else json.loads(metadata),
                text=text,
                token_count=tokens,
                added_at=added / 1000,
                last_seen=seen / 1000,
                times_seen=times,
                expires_at=None if expires is None else expires / 1000,
                code=next(iter(codes.values()), None),
                codes=codes,
            )
        except (TypeError, ValueError, RecursionError) as error:
            raise self._damaged(f"document {document_id} ({key!r})", error) from error

    def fingerprints_of(self, document_id: int, first: int | None) -> list[int]:
        """The fingerprints of a document, each once; first: that of its own row."""
        several = [row.fingerprint_id for row in self.parts.codes_of(document_id)]
        return list(dict.fromkeys(several)) or [number for number in (first,) if number is not None]

    def codes(self, document_id: int, first: int | None) -> dict[Part | None, bytes]:
        """The codes of a document by part; first: the fingerprint of its own row."""
        rows = self.parts.codes_of(document_id)
        if not rows:
            return {} if first is None else {None: self.value(first)}
        return {row.part: self.value(row.fingerprint_id) for row in rows}

    def count(self, now: int) -> int:
        total: int = self.db.value(self.store.sql("SELECT count(*) FROM {index}_document"))
        gone: int = self.db.value(self.store.sql("SELECT count(*) FROM {index}_document WHERE expires_at <= ?"), (now,))
        if gone > total:
            raise self._damaged("the table of documents", f"{gone} of {total} have expired")
        return total - gone

    def key(self, document_id: int) -> Key:
        """The key of a document that is there."""
        key: Key = self.db.value(self.store.sql("SELECT key FROM {index}_document WHERE id = ?"), (document_id,))
        return key

    def label(self, document_id: int) -> int | None:
        """The label of a document's cluster; None if it is in none."""
        sql = self.store.sql("SELECT cluster_id FROM {index}_document WHERE id = ?")
        label: int | None = self.require_numbers([self.db.value(sql, (document_id,))])[0]
        return label

    def labels_of(self, document_ids: Iterable[int]) -> dict[int, int]:
        """The label of each of these documents; ALONE and its id where it is in no cluster."""
        sql = """SELECT d.id, ifnull(d.cluster_id, d.id + {alone}) FROM {carray}(?) AS i CROSS JOIN {index}_document AS d
                 WHERE d.id = i.value"""
        asked = np.unique(np.fromiter(document_ids, np.int64))
        rows = self.db.rows(self.store.sql(sql), (self.db.carried(asked),)) if len(asked) else []
        return {number: label for number, label in map(self.require_numbers, rows)}

    def page(self, after_id: int, now: int, size: int) -> list[tuple[int, Key, int | None, int]]:
        """(id, key, fingerprint_id, group_id) of the next visible documents in the order of insertion."""
        sql = """SELECT id, key, fingerprint_id, group_id FROM {index}_document
                 WHERE id > ? AND {visible} ORDER BY id LIMIT +?"""
        return self.db.page(self.store.sql(sql), after_id, now, size)

    def group_id(self, group: Key | AnyGroup | None, *, create: bool = False) -> int:
        """Number of a group; NEVER_SEEN for an unknown one that is not to be created."""
        if group is None:
            return 0
        if isinstance(group, AnyGroup):
            return ACROSS_GROUPS
        number = self.db.value(self.store.sql("SELECT id FROM {index}_group WHERE name = ?"), (group,))
        if number is None and create:
            self.db.execute(self.store.sql("INSERT INTO {index}_group (name) VALUES (?)"), (group,))
            number = self.db.connection.last_insert_rowid()
            self._emptied.add(number - 1)
        return NEVER_SEEN if number is None else number

    def group_name(self, group_id: int) -> Key | None:
        """The name of a group; None for no group."""
        name: Key | None = self.db.value(self.store.sql("SELECT name FROM {index}_group WHERE id = ?"), (group_id,))
        return name

    def is_in_group(self, found: DocumentRow, group: Key | AnyGroup | None) -> bool:
        """Whether a document is in a group."""
        return isinstance(group, AnyGroup) or found.group_id == self.group_id(group)

    def drop_groups(self, group_ids: Iterable[int] = ()) -> None:
        """Remove the names of those of these groups, and of some looked at before, that have no document.

        The highest number stays, so that none is used again: a listing that goes on in pieces remembers it. Only empty texts have
        no fingerprint to be found by; where there are too many to look at, the names stay until `drop_unused_groups`."""
        self._emptied.update(group_ids)
        if not self._emptied or not self._has_value_index():
            return
        sql = """DELETE FROM {index}_group WHERE id = ?1 AND id < (SELECT max(id) FROM {index}_group)
                 AND NOT EXISTS (SELECT 1 FROM {index}_fingerprint WHERE group_id = +?1)
                 AND NOT EXISTS (SELECT 1 FROM (SELECT group_id, row_number() OVER () AS place FROM {index}_document
                     WHERE fingerprint_id IS NULL LIMIT ?2) WHERE group_id = ?1 OR place = ?2)"""
        emptied, self._emptied = self._emptied, set()
        self.db.execute_many(self.store.sql(sql), [(number, limits.EMPTY_TEXTS) for number in sorted(emptied)])

    def _has_value_index(self) -> bool:
        """Whether there is the index over the hashes of values, which begins with groups: a large load sets it aside."""
        sql = "SELECT 1 FROM sqlite_schema WHERE type = 'index' AND name = ?"
        return self.db.value(sql, (f"{self.store.name}_fingerprint_value",)) is not None

    def drop_unused_groups(self) -> None:
        """Remove the names of groups that have no document. Looks at every document."""
        sql = "DELETE FROM {index}_group WHERE id NOT IN (SELECT group_id FROM {index}_document)"
        self.db.execute(self.store.sql(sql))

    def kinds(self, name: str, now: int) -> list[str]:
        """The types in SQLite's words of the keys ('key'), of the names of groups ('group'), or in an index with parts of these
        ('part'), of the visible documents."""
        sql = {
            "key": "SELECT DISTINCT typeof(key) FROM {index}_document WHERE {visible}",
            "group": """SELECT DISTINCT typeof(g.name) FROM {index}_document AS d JOIN {index}_group AS g ON g.id = d.group_id
                        WHERE {visible}""",
            "part": """SELECT DISTINCT typeof(p.part) FROM {index}_document AS d JOIN {index}_part AS p ON p.document_id = d.id
                       WHERE {visible} AND p.part IS NOT NULL""",
        }
        return [kind for (kind,) in self.db.rows(self.store.sql(sql[name]), (now,))]

    def stored(self, now: int) -> Iterator[StoredDocument]:
        """The visible documents with their fingerprints, in the order of insertion, each of several codes by itself."""
        rows = self.db.stream(self.store.sql(self.store.frame("exported")), (now,))
        for key, group, token_count, part, fingerprint_id, *value in rows:
            stored = None if fingerprint_id is None and value[0] is None else self.sound(fingerprint_id or 0, tuple(value))
            yield StoredDocument(key, group, stored, token_count, part)

    def value(self, fingerprint_id: int) -> bytes:
        """A stored value, checked against its hash."""
        sql = self.store.sql("SELECT value, value_hash FROM {index}_fingerprint WHERE id = ?")
        return self.sound(fingerprint_id, self.db.row(sql, (fingerprint_id,)))

    def values(self, fingerprint_ids: Collection[int]) -> dict[int, bytes]:
        """The same of many."""
        if not fingerprint_ids:
            return {}
        sql = """SELECT f.id, f.value, f.value_hash FROM {carray}(?) AS i CROSS JOIN {index}_fingerprint AS f
                 WHERE f.id = i.value"""
        asked = np.sort(np.fromiter(fingerprint_ids, np.int64, len(fingerprint_ids)))
        rows = {number: value for number, *value in self.db.rows(self.store.sql(sql), (self.db.carried(asked),))}
        return {number: self.sound(number, tuple(rows.get(number, ())) or None) for number in fingerprint_ids}

    def group_of(self, fingerprint_id: int) -> int:
        """The number of a fingerprint's group."""
        number: int = self.db.value(self.store.sql("SELECT group_id FROM {index}_fingerprint WHERE id = ?"), (fingerprint_id,))
        return self.require_numbers([number])[0]

    def sound(self, fingerprint_id: int, row: tuple[Any, ...] | None) -> bytes:
        """The value of (value, value_hash), if it is the one that was written."""
        if row is None or not self.is_sound(*row):
            raise self._damaged(f"fingerprint {fingerprint_id}", "not the one that was written")
        return bytes(row[0])

    def is_sound(self, value: object, value_hash: int) -> bool:
        """Whether a stored value is the one that was written, and one of the scheme's."""
        return isinstance(value, bytes) and signed_hash(value) == value_hash and self.store.scheme.is_value(value)

    def text(self, document_id: int) -> str | None:
        text: str | None = self.db.value(self.store.sql("SELECT text FROM {index}_document WHERE id = ?"), (document_id,))
        return text

    # ---- fingerprints ------------------------------------------------------------------------------------------------

    def fingerprint_id(self, group_id: int, value: bytes, value_hash: int) -> int | None:
        """The fingerprint with this value, if there is one; value_hash: `signed_hash` of it."""
        sql = "SELECT f.id FROM {index}_fingerprint AS f WHERE f.group_id = +? AND f.value_hash = +? AND f.value = ?"
        number: int | None = self.db.value(self.store.sql(sql + self._shareable), (group_id, value_hash, value))
        return number

    def fingerprint_ids(self, group_id: int, hashes: Any) -> dict[bytes, int]:
        """{value: id} of the stored fingerprints of a group that have one of the hashes (int64[n], any order)."""
        sql = """SELECT f.value, f.id FROM {carray}(?) AS h CROSS JOIN {index}_fingerprint AS f
                 WHERE f.group_id = +? AND f.value_hash = h.value"""
        return dict(self.db.rows(self.store.sql(sql + self._shareable), (self.db.carried(np.sort(hashes)), group_id)))

    def values_of(self, group_id: int, ids: Any) -> dict[bytes, int]:
        """{value: id} of those of the fingerprints (int64[n], any order) that are of a group."""
        if not len(ids):
            return {}
        sql = """SELECT f.value, f.id FROM {carray}(?) AS i CROSS JOIN {index}_fingerprint AS f
                 WHERE f.id = i.value AND f.group_id = ?"""
        return dict(self.db.rows(self.store.sql(sql + self._shareable), (self.db.carried(np.sort(ids)), group_id)))

    @property
    def _shareable(self) -> str:
        """The condition for a fingerprint f that new documents may share: it is not that of a dismissed document."""
        if not self.store.dismisses:
            return ""
        first = "(SELECT d.id FROM {index}_document AS d WHERE d.fingerprint_id = f.id LIMIT 1)"
        if self.store.has_parts:
            first = f"ifnull({first}, (SELECT p.document_id FROM {{index}}_part AS p WHERE p.fingerprint_id = f.id LIMIT 1))"
        return f""" AND NOT EXISTS (SELECT 1 FROM {{index}}_dismissed AS x WHERE x.document_id = {first})
                    AND NOT EXISTS (SELECT 1 FROM {{index}}_dismissed AS x WHERE x.other_id = {first})"""

    def is_shared(self, fingerprint_id: int, document_id: int) -> bool:
        """Whether a document other than this one has a fingerprint."""
        sql = "SELECT EXISTS (SELECT 1 FROM {index}_document WHERE fingerprint_id = ?1 AND id <> ?2)"
        if self.store.has_parts:
            sql += " OR EXISTS (SELECT 1 FROM {index}_part WHERE fingerprint_id = ?1 AND document_id <> ?2)"
        return bool(self.db.value(self.store.sql(sql), (fingerprint_id, document_id)))

    def copy_fingerprint(self, fingerprint_id: int, document_id: int) -> int:
        """Give a document a fingerprint of its own in place of an equal one. Returns its id; it has no candidate rows yet."""
        sql = self.store.sql("SELECT group_id, value, value_hash, crowd FROM {index}_fingerprint WHERE id = ?")
        *values, crowd = self.db.rows(sql, (fingerprint_id,))[0]
        own = self.add_fingerprint(*values)
        self.db.execute(self.store.sql("UPDATE {index}_fingerprint SET crowd = ? WHERE id = ?"), (crowd, own))
        for table, column in (("document", "id"), *([("part", "document_id")] if self.store.has_parts else [])):
            point = self.store.sql(f"UPDATE {{index}}_{table} SET fingerprint_id = ? WHERE fingerprint_id = ? AND {column} = ?")
            self.db.execute(point, (own, fingerprint_id, document_id))
        return own

    def of_fingerprints(self, ids: Collection[int], now: int) -> Iterator[tuple[int, int, Key]]:
        """(fingerprint, document, key) of the visible documents with one of the fingerprints."""
        if not ids:
            return
        sought = np.sort(np.fromiter(self.require_numbers(ids), np.int64, len(ids)))
        yield from self.db.stream(self.store.sql(self.store.frame("owners")), (self.db.carried(sought), now))

    def value_hashes(self) -> Iterator[tuple[Any, Any]]:
        """The hashes of all stored values and the fingerprints' ids, int64[n] each, some at a time."""
        cursor = self.db.stream(self.store.sql("SELECT value_hash, id FROM {index}_fingerprint"))
        while rows := list(islice(cursor, limits.VALUE_HASHES)):
            page = np.array(rows, np.int64)
            yield page[:, 0], page[:, 1]

    def drop_value_index(self) -> str | None:
        """Drop the index over the hashes of values; returns the SQL that makes it again, None where it cannot be dropped now."""
        name = f"{self.store.name}_fingerprint_value"
        if not self.db.owned or not self._has_value_index():
            return None
        try:
            self.db.execute(f"DROP INDEX {name}")
        except apsw.LockedError:  # the caller is reading rows of a query of its own
            return None
        return definitions.expected(self.store.name, None)[name].sql  # not the file's text, which may be anybody's

    def add_fingerprint(self, group_id: int, value: bytes, value_hash: int) -> int:
        """Write a new fingerprint, which is not filed yet; returns its id."""
        sql = self.store.sql("INSERT INTO {index}_fingerprint (group_id, value, value_hash) VALUES (?, ?, ?)")
        return self._insert("fingerprint", sql, (group_id, value, value_hash))

    @property
    def filed_at_once(self) -> int:
        """Fingerprints whose rows may be sorted together."""
        return max(1, limits.FILING_BYTES // self.store.scheme.filing_bytes)

    def fingerprint_of(self, group_id: int, value: bytes) -> int:
        """The fingerprint with this value, a new one, which is not filed yet, where there is none."""
        value_hash = signed_hash(value)
        number = self.fingerprint_id(group_id, value, value_hash)
        return self.add_fingerprint(group_id, value, value_hash) if number is None else number

    def fingerprint_ranges(self, size: int, from_id: int = 1) -> Iterator[tuple[int, int]]:
        """Ranges of `size` ids, first and last, that hold all fingerprints from one on; where none are for long, none are
        given."""
        first = self.next_fingerprint_id(from_id)
        while first is not None:
            yield first, first + size - 1
            first = self.next_fingerprint_id(first + size)

    def next_fingerprint_id(self, first_id: int, group_id: int = ACROSS_GROUPS) -> int | None:
        """The lowest id of a fingerprint from `first_id` on, of one group or of all."""
        sql = f"""SELECT id FROM {{index}}_fingerprint NOT INDEXED
                  WHERE id BETWEEN :first_id AND {MAX_ID} AND {OF_GROUP} ORDER BY id LIMIT 1"""
        number: int | None = self.db.value(self.store.sql(sql), {"first_id": first_id, "group_id": group_id})
        return number

    def last_fingerprint_id(self) -> int:
        """The highest id that a fingerprint ever had; ids are never used twice."""
        return self._last_id("fingerprint")

    def last_change(self) -> int:
        """The highest number that a change ever had."""
        return self._last_id("change")

    def _insert(self, table: str, sql: str, row: tuple[Any, ...]) -> int:
        """Write a row, which gets the next id of its table; returns the id."""
        try:
            self.db.execute(sql, row)
        except apsw.FullError:  # the disk, or the numbers for ids; the transaction is over
            self._last_id(table, self.db.value_after_all)
            raise
        number = self.db.connection.last_insert_rowid()
        if number > MAX_ID:
            self._last_id(table)
        return number

    def _last_id(self, table: str, value: Callable[..., Any] | None = None) -> int:
        value = value or self.db.value
        number = value("SELECT seq FROM sqlite_sequence WHERE name = ?", (f"{self.store.name}_{table}",)) or 0
        if not isinstance(number, int) or not 0 <= number < MAX_ID:
            raise self._damaged(f"the highest id of the table of {table}s", f"it is {number!r}")
        return number

    def require_numbers(self, numbers: Numbers) -> Numbers:
        """The same numbers, if all are numbers or NULL: STRICT binds writers of a file, not its damage."""
        for number in numbers:
            if number is not None and type(number) is not int:
                raise self._damaged("an id or a label", f"it is {number!r}")
        return numbers

    def _damaged(self, what: str, why: object) -> CorruptIndexError:
        return damaged(what, self.store.name, why)

    def older_copies(self, asked: Sequence[tuple[int, int]], now: int) -> list[tuple[int, int, int, bool]]:
        """(document, the newest one with its fingerprint before it, the label of that, whether any before it is visible) for each
        (document, fingerprint)."""
        sql = """SELECT :id, d.id, ifnull(d.cluster_id, d.id + {alone}), EXISTS (
                     SELECT 1 FROM {index}_document WHERE fingerprint_id = +:fingerprint_id AND id < :id
                     AND {visible})
                 FROM {index}_document AS d WHERE d.id = (
                     SELECT max(id) FROM {index}_document WHERE fingerprint_id = +:fingerprint_id AND id < :id)"""
        parameters = ({"id": number, "fingerprint_id": fingerprint_id, "now": now} for number, fingerprint_id in asked)
        rows = self.db.rows_of_many(self.store.sql(sql), parameters)
        return [(document_id, other_id, label, bool(visible)) for document_id, other_id, label, visible in rows]

    def set_aside(self, values: Mapping[int, bytes]) -> None:
        """Keep the values of documents that have no fingerprint, since they are like an allowed text."""
        sql = "INSERT INTO {index}_allowed_document (document_id, value, value_hash) VALUES (?, ?, ?)"
        rows = [(number, value, signed_hash(value)) for number, value in values.items()]
        self.db.execute_many(self.store.sql(sql), rows)

    def take_fingerprint(self, fingerprint_id: int, value: bytes, *, is_filed: bool = True) -> list[int]:
        """Set aside all documents of a fingerprint, and remove it; returns their ids. is_filed: it has candidate rows."""
        sql = self.store.sql("UPDATE {index}_document SET fingerprint_id = NULL WHERE fingerprint_id = ? RETURNING id")
        document_ids = [row[0] for row in self.db.rows(sql, (fingerprint_id,))]
        self.set_aside(dict.fromkeys(document_ids, value))
        if is_filed:
            self._unfile(fingerprint_id, fingerprint_id)
        self.db.execute(self.store.sql("DELETE FROM {index}_fingerprint WHERE id = ?"), (fingerprint_id,))
        return document_ids

    def aside(self, document_id: int) -> bytes | None:
        """The value of a document that is set aside; None of others."""
        if not self.store.allows:
            return None
        sql = self.store.sql("SELECT value, value_hash FROM {index}_allowed_document WHERE document_id = ?")
        row = self.db.row(sql, (document_id,))
        if row is None:
            return None
        if not self.is_sound(*row):
            raise self._damaged(f"the fingerprint of document {document_id}", "not the one that was written")
        return bytes(row[0])

    def drop(self, document_ids: Iterable[int], fingerprint_ids: set[int]) -> None:
        """Remove documents, and those of their fingerprints at which no other document points."""
        document_ids = list(document_ids)
        fingerprint_ids = fingerprint_ids | self.parts.drop(document_ids)
        for part, is_there in (("allowed_document", self.store.allows), ("own_end", self.store.keeps_ends)):
            if is_there:
                sql = self.store.sql(f"DELETE FROM {{index}}_{part} WHERE document_id = ?")
                self.db.execute_many(sql, ((one,) for one in document_ids))
        self.db.execute_many(self.store.sql("DELETE FROM {index}_document WHERE id = ?"), ((one,) for one in document_ids))
        sql = self.store.sql("SELECT fingerprint_id FROM {index}_document WHERE fingerprint_id = ? LIMIT 1")
        used = self.db.rows_of_many(sql, ((number,) for number in fingerprint_ids))
        unused = fingerprint_ids.difference(number for (number,) in used)
        unused -= self.parts.used_fingerprints(unused)
        self._drop_fingerprints(sorted(unused))

    def _drop_fingerprints(self, unused: list[int]) -> None:
        for first_id, last_id in self._runs(unused):
            self._unfile(first_id, last_id)
        self.db.execute_many(self.store.sql("DELETE FROM {index}_fingerprint WHERE id = ?"), ((number,) for number in unused))

    def _runs(self, ids: list[int]) -> Iterator[tuple[int, int]]:
        """The first and the last of runs of fingerprints, between which the file has no other."""
        between = self.store.sql("SELECT ? FROM {index}_fingerprint WHERE id > ? AND id < ? LIMIT 1")
        gaps = [(end, start, end) for start, end in pairwise(ids) if end > start + 1]
        firsts = [*ids[:1], *(end for (end,) in self.db.rows_of_many(between, gaps))]
        lasts = [*(ids[bisect_left(ids, first) - 1] for first in firsts[1:]), *ids[-1:]]
        return zip(firsts, lasts, strict=True)

    def _unfile(self, first_id: int, last_id: int) -> None:
        """Take the rows of fingerprints out; of those whose values are damaged, one by one."""
        try:
            self.store.table.unfile(first_id, last_id)
        except CorruptIndexError:
            values = self.store.sql("SELECT id, value, value_hash FROM {index}_fingerprint WHERE id BETWEEN ? AND ?")
            for number, *value in self.db.rows(values, (first_id, last_id)):
                if self.is_sound(*value):
                    self.store.table.unfile(number, number)
                else:
                    self.store.table.unfile_damaged(number)

    # ---- documents ---------------------------------------------------------------------------------------------------

    INSERT = """INSERT INTO {index}_document (id, key, group_id, fingerprint_id, token_count, added_at, last_seen, times_seen,
                expires_at, metadata, text) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""

    def insert_plain(
        self,
        first_id: int,
        keys: list[Key],
        group_ids: Sequence[int],
        fingerprint_ids: Sequence[int | None],
        token_counts: Sequence[int | None],
        times: Sequence[Times] | None,
        now: int,
    ) -> bool:
        """Write documents that have no more than a key and a fingerprint, by one statement, which runs without Python's lock;
        times: None where all are offered now, for the first time.

        False, and nothing is written, where the keys cannot be handed over together."""
        together = _keys_array(keys)
        if together is None:
            return False
        leave = times is not None and self.store.window.duration_ms is not None
        own = ", ".join(f"neardup_number(:{name}, k.rowid)" for name in ("added", "seen", "often", *(["ends"] if leave else [])))
        sql = f"""INSERT OR FAIL INTO {{index}}_document
                     (id, key, group_id, fingerprint_id, token_count, added_at, last_seen, times_seen, expires_at)
                 SELECT :first_id + k.rowid, k.value, neardup_number(:group_ids, k.rowid),
                     neardup_number(:fingerprint_ids, k.rowid), neardup_number(:token_counts, k.rowid),
                     {":now, :now, 1, :expires_at" if times is None else own if leave else f"{own}, NULL"}
                 FROM {{carray}}(:keys) AS k"""
        parameters = {
            "first_id": first_id - 1,
            "keys": self.db.carried(together),
            "group_ids": numbers(group_ids),
            "fingerprint_ids": numbers(fingerprint_ids),
            "token_counts": numbers(token_counts),
            "now": now,
            "expires_at": self.store.window.expiry(None, now),
        }
        if times is not None:
            added, seen, often = zip(*times, strict=True)
            parameters |= {"added": numbers(added), "seen": numbers(seen), "often": numbers(often)}
            if leave:
                parameters["ends"] = numbers([self.store.window.expiry(None, one) for one in added])
        self.db.execute(self.store.sql(sql), parameters)
        return True

    def insert_fingerprints(self, first_id: int, group_id: int, values: Sequence[bytes], hashes: Any) -> None:
        """Write new fingerprints of a group, by one statement; hashes: int64[n], those of the values."""
        sql = """INSERT OR FAIL INTO {index}_fingerprint (id, group_id, value, value_hash)
                 SELECT :first_id + v.rowid, :group_id, v.value, neardup_number(:hashes, v.rowid) FROM {carray}(:values) AS v"""
        parameters = {
            "first_id": first_id - 1,
            "group_id": group_id,
            "values": self.db.carried(tuple(values)),
            "hashes": hashes.astype("<i8").tobytes(),
        }
        self.db.execute(self.store.sql(sql), parameters)

    def next_id(self) -> int:
        """The id that the next document gets; ids are never used twice."""
        return self._last_id("document") + 1

    def row(
        self,
        document_id: int | None,
        record: Record,
        group_id: int,
        fingerprint_id: int | None,
        token_count: int | None,
        now: int,
    ) -> tuple[Any, ...]:
        """The values of INSERT, document_id None = the next one; a document begins in no cluster."""
        text = record.text if self.store.store_text else None
        times = record.times or (now, now, 1)
        return (
            *(document_id, record.key, group_id, fingerprint_id, token_count, *times),
            *(self.store.window.expiry(record.expires_at, times[0]), record.metadata, text),
        )

    def insert(self, row: tuple[Any, ...]) -> int:
        return self._insert("document", self.store.sql(self.INSERT), row)

    def update(self, document_id: int, changes: dict[str, Any]) -> None:
        """Overwrite columns; the names are this package's own."""
        assignments = ", ".join(f"{name} = {_EXPIRY if name == 'expires_at' else f':{name}'}" for name in changes)
        sql = self.store.sql(f"UPDATE {{index}}_document SET {assignments} WHERE id = :id")
        self.db.execute(sql, {**changes, "id": document_id, "window": self.store.window.duration_ms})
        if "expires_at" in changes:
            self.keep_end(document_id, changes["expires_at"])

    def keep_end(self, document_id: int, own: int | None) -> None:
        """Remember the end that a stored document has of its own, where the window ends it as soon or sooner: a change of the
        window needs it."""
        if self.store.keeps_ends:
            self.db.execute(self.store.sql("DELETE FROM {index}_own_end WHERE document_id = ?"), (document_id,))
            sql = """INSERT INTO {index}_own_end SELECT id, :own FROM {index}_document
                     WHERE id = :id AND :own >= added_at + :window"""
            parameters = {"own": own, "id": document_id, "window": self.store.window.duration_ms}
            self.db.execute(self.store.sql(sql), parameters)

    def touch(self, document_id: int, now: int, expires_at: int | None) -> None:
        """Count one more sighting of a document, and give it the expiry where there is one."""
        sql = f"""UPDATE {{index}}_document SET last_seen = :now, times_seen = times_seen + 1,
                  expires_at = CASE WHEN :expires_at IS NULL THEN expires_at ELSE {_EXPIRY} END WHERE id = :id"""
        values = {"now": now, "expires_at": expires_at, "id": document_id, "window": self.store.window.duration_ms}
        self.db.execute(self.store.sql(sql), values)
        if expires_at is not None:
            self.keep_end(document_id, expires_at)
