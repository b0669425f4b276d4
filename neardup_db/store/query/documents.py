"""Rows of documents and groups."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any, NamedTuple

from ... import limits
from ...arrays import np
from ...errors import KeyNotFoundError
from ...native import signed_hash
from ...parameters import check_key, quoted_key
from ...values import ANY_GROUP, AnyGroup, Document, Key, Part, Record, Times
from ..layout.state import Store
from .fingerprints import ACROSS_GROUPS, Fingerprints

EVER = -(2**63)
"""A time before every expiry, at which all documents are visible.

Edges, labels and large clusters cover all documents, so nothing stored changes when one expires or a clock is set back.
"""


class DocumentRow(NamedTuple):
    id: int
    group_id: int
    fingerprint_id: int | None
    expires_at: int | None

    def is_visible(self, now: int) -> bool:
        return self.expires_at is None or self.expires_at > now


_NO_NUMBER = -(2**63)


def numbers(values: Sequence[int | None]) -> bytes:
    """Numbers packed for `neardup_number`, None as NULL."""
    if None in values:
        values = [_NO_NUMBER if value is None else value for value in values]
    return np.array(values, "<i8").tobytes()


def _keys_array(keys: Sequence[Key]) -> Any:
    """Keys as `Database.carried` takes them, or None for mixed types and texts with a NUL character, where C strings end."""
    kind = type(keys[0])
    if set(map(type, keys)) != {kind} or (kind is str and "\0" in "".join(map(str, keys))):
        return None
    return np.array(keys, np.int64) if kind is int else tuple(keys)


_EXPIRY = "min(ifnull(:expires_at, added_at + :window), ifnull(added_at + :window, :expires_at))"  # `Window.expiry`
NEVER_SEEN = -1  # the group id for an unknown group name; no document has it


class Documents(Fingerprints):
    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._emptied: set[int] = set()  # ids of groups that may have lost their last document

    def find(self, key: Key) -> DocumentRow | None:
        row = self.store.row("SELECT id, group_id, fingerprint_id, expires_at FROM {index}_document WHERE key = ?", (key,))
        return None if row is None else DocumentRow(*self.require_numbers(row))

    def rows_by_id(self, document_ids: Iterable[int]) -> list[DocumentRow]:
        sql = "SELECT id, group_id, fingerprint_id, expires_at FROM {index}_document WHERE id = ?"
        rows = self.store.execute_many(sql, ((number,) for number in document_ids))
        return [DocumentRow(*self.require_numbers(row)) for row in rows]

    def rows_by_key(self, keys: Sequence[Key]) -> dict[Key, DocumentRow]:
        """Expired rows, too. One statement for each key type."""
        columns = "SELECT d.key, d.id, d.group_id, d.fingerprint_id, d.expires_at FROM"
        at_once = f"{columns} {{carray}}(?) AS k CROSS JOIN {{index}}_document AS d WHERE d.key = k.value"
        one_by_one = f"{columns} {{index}}_document AS d WHERE d.key = ?"
        rows: list[tuple[Any, ...]] = []
        for kind in set(map(type, keys)):
            typed_keys = [key for key in keys if type(key) is kind]
            packed = _keys_array(typed_keys)
            if packed is None:
                rows += self.store.execute_many(one_by_one, ((key,) for key in typed_keys))
            else:
                rows += self.store.rows(at_once, (self.db.carried(packed),))
        return {key: DocumentRow(*self.require_numbers(row)) for key, *row in rows}

    def visible(self, key: Key, now: int, group: Key | AnyGroup | None = ANY_GROUP) -> DocumentRow | None:
        row = self.find(key)
        return row if row is not None and row.is_visible(now) and self.is_in_group(row, group) else None

    def require(self, key: Any, now: int, group: Key | AnyGroup | None = ANY_GROUP) -> DocumentRow:
        """`visible` of a caller's key. Raises KeyNotFoundError."""
        row = self.visible(check_key(key), now, group)
        if row is None:
            raise _key_error(key, group)
        return row

    def of_group(self, group_id: int, now: int) -> list[tuple[int, int]]:
        """(id, 1 if visible) of a group's documents in insertion order. Empty texts, without fingerprints, take a scan."""
        sql = """SELECT id, {visible} FROM (
                     SELECT d.id, d.expires_at FROM {index}_fingerprint AS f CROSS JOIN {index}_document AS d
                     WHERE f.group_id = +:group_id AND d.fingerprint_id = f.id AND d.group_id = f.group_id
                     UNION ALL SELECT id, expires_at FROM {index}_document
                     WHERE fingerprint_id IS NULL AND group_id = +:group_id)
                 ORDER BY id"""
        return self.store.rows(sql, {"group_id": group_id, "now": now})

    @contextmanager
    def row_and_value(self, key: Any, now: int) -> Iterator[tuple[DocumentRow, bytes | None]]:
        """`require` with the stored value (None: empty text). Queries inside read the same state: the statement stays open."""
        sql = """SELECT d.id, d.group_id, d.fingerprint_id, d.expires_at, f.value, f.value_hash
                 FROM {index}_document AS d LEFT JOIN {index}_fingerprint AS f ON f.id = d.fingerprint_id WHERE d.key = +?"""
        with closing(self.store.stream(sql, (check_key(key),))) as rows:
            row = next(rows, None)
            document = None if row is None else DocumentRow(*self.require_numbers(row[:4]))
            if row is None or document is None or not document.is_visible(now):
                raise _key_error(key)
            yield document, None if document.fingerprint_id is None else self.sound(document.fingerprint_id, row[4:])

    def read_document(self, document_id: int) -> Document:
        sql = """SELECT d.key, g.name, d.metadata, d.text, d.token_count, d.added_at, d.last_seen, d.times_seen, d.expires_at,
                     d.fingerprint_id
                 FROM {index}_document AS d LEFT JOIN {index}_group AS g ON g.id = d.group_id WHERE d.id = ?"""
        row = self.store.rows(sql, (document_id,))[0]
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
        """The distinct fingerprint ids of a document; first: that of its row."""
        several = [row.fingerprint_id for row in self.parts.codes_of(document_id)]
        return list(dict.fromkeys(several)) or [number for number in (first,) if number is not None]

    def codes(self, document_id: int, first: int | None) -> dict[Part | None, bytes]:
        """The codes of a document by part; first: the fingerprint id of its row."""
        rows = self.parts.codes_of(document_id)
        if not rows:
            return {} if first is None else {None: self.value(first)}
        return {row.part: self.value(row.fingerprint_id) for row in rows}

    def count(self, now: int) -> int:
        total: int = self.store.value("SELECT count(*) FROM {index}_document")
        gone: int = self.store.value("SELECT count(*) FROM {index}_document WHERE expires_at <= ?", (now,))
        if gone > total:
            raise self._damaged("the table of documents", f"{gone} of {total} have expired")
        return total - gone

    def key(self, document_id: int) -> Key:
        return self.store.value("SELECT key FROM {index}_document WHERE id = ?", (document_id,))

    def labels_of(self, document_ids: Iterable[int]) -> dict[int, int]:
        """The cluster label of each document; ALONE + id without a cluster."""
        sql = """SELECT d.id, ifnull(d.cluster_id, d.id + {alone}) FROM {carray}(?) AS i CROSS JOIN {index}_document AS d
                 WHERE d.id = i.value"""
        return {number: label for number, label in map(self.require_numbers, self.store.rows_of_numbers(sql, document_ids))}

    def page(self, after_id: int, now: int, size: int) -> list[tuple[int, Key, int | None, int]]:
        """(id, key, fingerprint_id, group_id) of the next visible documents in insertion order."""
        sql = """SELECT id, key, fingerprint_id, group_id FROM {index}_document
                 WHERE id > ? AND {visible} ORDER BY id LIMIT +?"""
        return self.store.page(sql, after_id, now, size)

    def group_id(self, group: Key | AnyGroup | None, *, create: bool = False) -> int:
        """The id of a group name; NEVER_SEEN if it is unknown and `create` is false."""
        if group is None:
            return 0
        if isinstance(group, AnyGroup):
            return ACROSS_GROUPS
        number = self.store.value("SELECT id FROM {index}_group WHERE name = ?", (group,))
        if number is None and create:
            self.store.execute("INSERT INTO {index}_group (name) VALUES (?)", (group,))
            number = self.db.connection.last_insert_rowid()
            self._emptied.add(number - 1)
        return NEVER_SEEN if number is None else number

    def is_in_group(self, row: DocumentRow, group: Key | AnyGroup | None) -> bool:
        return isinstance(group, AnyGroup) or row.group_id == self.group_id(group)

    def drop_groups(self, group_ids: Iterable[int] = ()) -> None:
        """Delete the names of empty groups, checking these ids and those noted earlier.

        The highest id stays: paged listings remember it. If too many documents have no fingerprint, which need a scan, the
        names stay until `drop_unused_groups`.
        """
        self._emptied.update(group_ids)
        if not self._emptied or not self._has_value_index():
            return
        sql = """DELETE FROM {index}_group WHERE id = ?1 AND id < (SELECT max(id) FROM {index}_group)
                 AND NOT EXISTS (SELECT 1 FROM {index}_fingerprint WHERE group_id = +?1)
                 AND NOT EXISTS (SELECT 1 FROM (SELECT group_id, row_number() OVER () AS place FROM {index}_document
                     WHERE fingerprint_id IS NULL LIMIT ?2) WHERE group_id = ?1 OR place = ?2)"""
        emptied, self._emptied = self._emptied, set()
        self.store.execute_many(sql, [(number, limits.EMPTY_TEXTS) for number in sorted(emptied)])

    def drop_unused_groups(self) -> None:
        self.store.execute("DELETE FROM {index}_group WHERE id NOT IN (SELECT group_id FROM {index}_document)")

    def kinds(self, name: str, now: int) -> list[str]:
        """The SQLite types of visible documents' keys ('key'), group names ('group') or parts ('part', if there are any)."""
        sql = {
            "key": "SELECT DISTINCT typeof(key) FROM {index}_document WHERE {visible}",
            "group": """SELECT DISTINCT typeof(g.name) FROM {index}_document AS d JOIN {index}_group AS g ON g.id = d.group_id
                        WHERE {visible}""",
            "part": """SELECT DISTINCT typeof(p.part) FROM {index}_document AS d JOIN {index}_part AS p ON p.document_id = d.id
                       WHERE {visible} AND p.part IS NOT NULL""",
        }
        return [kind for (kind,) in self.store.rows(sql[name], (now,))]

    def text(self, document_id: int) -> str | None:
        return self.store.value("SELECT text FROM {index}_document WHERE id = ?", (document_id,))

    def last_change(self) -> int:
        """The highest id ever assigned in the change log."""
        return self._last_id("change")

    def older_copies(self, documents: Sequence[tuple[int, int]], now: int) -> list[tuple[int, int, int, bool]]:
        """(document, newest earlier copy, its label, whether any earlier copy is visible) for each (document, fingerprint)."""
        sql = """SELECT :id, d.id, ifnull(d.cluster_id, d.id + {alone}), EXISTS (
                     SELECT 1 FROM {index}_document WHERE fingerprint_id = +:fingerprint_id AND id < :id
                     AND {visible})
                 FROM {index}_document AS d WHERE d.id = (
                     SELECT max(id) FROM {index}_document WHERE fingerprint_id = +:fingerprint_id AND id < :id)"""
        parameters = ({"id": number, "fingerprint_id": fingerprint_id, "now": now} for number, fingerprint_id in documents)
        rows = self.store.execute_many(sql, parameters)
        return [(document_id, other_id, label, bool(visible)) for document_id, other_id, label, visible in rows]

    def store_exempt_values(self, values: Mapping[int, bytes]) -> None:
        sql = "INSERT INTO {index}_allowed_document (document_id, value, value_hash) VALUES (?, ?, ?)"
        rows = [(number, value, signed_hash(value)) for number, value in values.items()]
        self.store.execute_many(sql, rows)

    def exempt_fingerprint(self, fingerprint_id: int, value: bytes, *, has_rows: bool = True) -> list[int]:
        """Exempt all documents of a fingerprint, delete it and return their ids. has_rows: it has candidate rows."""
        sql = "UPDATE {index}_document SET fingerprint_id = NULL WHERE fingerprint_id = ? RETURNING id"
        document_ids = [row[0] for row in self.store.rows(sql, (fingerprint_id,))]
        self.store_exempt_values(dict.fromkeys(document_ids, value))
        if has_rows:
            self.store.table.remove_rows(fingerprint_id, fingerprint_id)
        self.store.execute("DELETE FROM {index}_fingerprint WHERE id = ?", (fingerprint_id,))
        return document_ids

    def exempt_value(self, document_id: int) -> bytes | None:
        if not self.store.allows:
            return None
        row = self.store.row("SELECT value, value_hash FROM {index}_allowed_document WHERE document_id = ?", (document_id,))
        if row is None:
            return None
        if not self.is_sound(*row):
            raise self._damaged(f"the fingerprint of document {document_id}", "not the one that was written")
        return bytes(row[0])

    def value_of(self, row: DocumentRow) -> bytes | None:
        """The value of a document, exempt or not; None for an empty text."""
        value = self.exempt_value(row.id)
        return self.value(row.fingerprint_id) if value is None and row.fingerprint_id is not None else value

    def drop(self, document_ids: Iterable[int], fingerprint_ids: set[int]) -> None:
        """Delete documents, and their fingerprints unless others use them."""
        document_ids = list(document_ids)
        fingerprint_ids = fingerprint_ids | self.parts.drop(document_ids)
        for part, is_there in (("allowed_document", self.store.allows), ("own_end", self.store.keeps_ends)):
            if is_there:
                sql = f"DELETE FROM {{index}}_{part} WHERE document_id = ?"
                self.store.execute_many(sql, ((one,) for one in document_ids))
        self.store.execute_many("DELETE FROM {index}_document WHERE id = ?", ((one,) for one in document_ids))
        sql = "SELECT fingerprint_id FROM {index}_document WHERE fingerprint_id = ? LIMIT 1"
        used = self.store.execute_many(sql, ((number,) for number in fingerprint_ids))
        unused = fingerprint_ids.difference(number for (number,) in used)
        unused -= self.parts.used_fingerprints(unused)
        self._drop_fingerprints(sorted(unused))

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
        """Insert documents without text, metadata or expiry in one statement, which runs without Python's lock.

        times: None if all are new at `now`. Returns False, and writes nothing, if the keys cannot be packed together.
        """
        packed = _keys_array(keys)
        if packed is None:
            return False
        has_window = times is not None and self.store.window.duration_ms is not None
        columns = ("added", "seen", "often", *(["ends"] if has_window else []))
        own_times = ", ".join(f"neardup_number(:{name}, k.rowid)" for name in columns)
        sql = f"""INSERT OR FAIL INTO {{index}}_document
                     (id, key, group_id, fingerprint_id, token_count, added_at, last_seen, times_seen, expires_at)
                 SELECT :first_id + k.rowid, k.value, neardup_number(:group_ids, k.rowid),
                     neardup_number(:fingerprint_ids, k.rowid), neardup_number(:token_counts, k.rowid),
                     {":now, :now, 1, :expires_at" if times is None else own_times if has_window else f"{own_times}, NULL"}
                 FROM {{carray}}(:keys) AS k"""
        parameters = {
            "first_id": first_id - 1,
            "keys": self.db.carried(packed),
            "group_ids": numbers(group_ids),
            "fingerprint_ids": numbers(fingerprint_ids),
            "token_counts": numbers(token_counts),
            "now": now,
            "expires_at": self.store.window.expiry(None, now),
        }
        if times is not None:
            added, seen, often = zip(*times, strict=True)
            parameters |= {"added": numbers(added), "seen": numbers(seen), "often": numbers(often)}
            if has_window:
                parameters["ends"] = numbers([self.store.window.expiry(None, one) for one in added])
        self.store.execute(sql, parameters)
        return True

    def next_id(self) -> int:
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
        """The values of INSERT; document_id None: the next id. A new document is in no cluster."""
        text = record.text if self.store.store_text else None
        times = record.times or (now, now, 1)
        return (
            *(document_id, record.key, group_id, fingerprint_id, token_count, *times),
            *(self.store.window.expiry(record.expires_at, times[0]), record.metadata, text),
        )

    def insert(self, row: tuple[Any, ...]) -> int:
        return self._insert("document", self.INSERT, row)

    def update(self, document_id: int, changes: dict[str, Any]) -> None:
        assignments = ", ".join(f"{name} = {_EXPIRY if name == 'expires_at' else f':{name}'}" for name in changes)
        sql = f"UPDATE {{index}}_document SET {assignments} WHERE id = :id"
        self.store.execute(sql, {**changes, "id": document_id, "window": self.store.window.duration_ms})
        if "expires_at" in changes:
            self.keep_end(document_id, changes["expires_at"])

    def update_given(self, document_id: int, record: Record) -> None:
        """Set the metadata and expiry that a record has."""
        values = {"metadata": record.metadata, "expires_at": record.expires_at}
        if changes := {name: value for name, value in values.items() if value is not None}:
            self.update(document_id, changes)

    def keep_end(self, document_id: int, own: int | None) -> None:
        """Store the document's explicit expiry if the window expires it first; a change of the window needs it."""
        if self.store.keeps_ends:
            self.store.execute("DELETE FROM {index}_own_end WHERE document_id = ?", (document_id,))
            sql = """INSERT INTO {index}_own_end SELECT id, :own FROM {index}_document
                     WHERE id = :id AND :own >= added_at + :window"""
            parameters = {"own": own, "id": document_id, "window": self.store.window.duration_ms}
            self.store.execute(sql, parameters)

    def touch(self, document_id: int, now: int, expires_at: int | None) -> None:
        sql = f"""UPDATE {{index}}_document SET last_seen = :now, times_seen = times_seen + 1,
                  expires_at = CASE WHEN :expires_at IS NULL THEN expires_at ELSE {_EXPIRY} END WHERE id = :id"""
        values = {"now": now, "expires_at": expires_at, "id": document_id, "window": self.store.window.duration_ms}
        self.store.execute(sql, values)
        if expires_at is not None:
            self.keep_end(document_id, expires_at)


def _key_error(key: Any, group: Key | AnyGroup | None = ANY_GROUP) -> KeyNotFoundError:
    group_text = "" if isinstance(group, AnyGroup) else " without a group" if group is None else f" of group {quoted_key(group)}"
    return KeyNotFoundError(f"no document{group_text} has the key {quoted_key(key)}")
