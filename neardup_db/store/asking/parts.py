"""Several codes under one key: rotations of a picture, frames of a film.

A document is one row, whose fingerprint is that of its first code. Documents that have a code with a part, or several codes, have
all their codes in a table besides. It is made by the first code with a part; `Store.has_parts` says whether an index has it, and
only then the queries look at it. A document is in an answer once, with its best code.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, count, groupby
from operator import itemgetter
from typing import NamedTuple

from ...arrays import np
from ...compute.comparisons import find_all
from ...values import Part
from ..layout.state import Store

_SAMPLED = 16
"""Codes that are compared with all others first, spread over their document."""


def nearest_codes(a: Sequence[bytes], b: Sequence[bytes]) -> tuple[int, int]:
    """The places of two codes, one of each document, that are most alike.

    A sample bounds their distance, and a join within less than that finds any that are nearer: few, even where all are alike."""
    ours, theirs = ([int.from_bytes(code, "big") for code in some] for some in (a, b))
    step = -(-len(a) // _SAMPLED)
    places = [(x, y) for x in range(0, len(a), step) for y in range(len(b))]
    best = min(((ours[x] ^ theirs[y]).bit_count(), x, y) for x, y in places)
    if step > 1 and best[0] > 0:
        nearer = find_all(a, best[0] - 1, others=b).tolist()
        best = min([best, *(((ours[x] ^ theirs[y]).bit_count(), x, y) for x, y in nearer)])
    return best[1:]


class StoredPart(NamedTuple):
    """A code of a document."""

    id: int
    part: Part | None
    fingerprint_id: int


class Parts:
    """Reads and writes the codes of documents that have rows for them; runs inside the store's transactions. Where the index has
    no table there are none; only what writes one needs it."""

    TABLE = "part"
    MOST = 2**48 - 1
    """No code has a higher number: the queries put a distance above it (sql/nearer.sql)."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.db = store.db

    def codes_of(self, document_id: int) -> list[StoredPart]:
        """The codes of a document, in the order in which they came; none where it has one code without a part."""
        if not self.store.has_parts:
            return []
        sql = "SELECT id, part, fingerprint_id FROM {index}_part WHERE document_id = ? ORDER BY id"
        return [StoredPart(*row) for row in self.db.rows(self.store.sql(sql), (document_id,))]

    def fingerprints_by_document(self, document_ids: Iterable[int]) -> dict[int, list[int]]:
        """The fingerprints of those of the documents that have rows here."""
        sql = """SELECT p.document_id, p.fingerprint_id FROM {carray}(?) AS d CROSS JOIN {index}_part AS p
                 WHERE p.document_id = d.value"""
        found: dict[int, list[int]] = {}
        if not self.store.has_parts:
            return found
        asked = np.unique(np.fromiter(document_ids, np.int64))
        if len(asked):
            for document_id, fingerprint_id in self.db.rows(self.store.sql(sql), (self.db.carried(asked),)):
                found.setdefault(document_id, []).append(fingerprint_id)
        return found

    def visible(self, now: int) -> Iterator[list[int]]:
        """The fingerprints of each visible document that has rows here."""
        if not self.store.has_parts:
            return
        sql = """SELECT d.id, p.fingerprint_id FROM {index}_part AS p CROSS JOIN {index}_document AS d
                 WHERE d.id = p.document_id AND {visible} ORDER BY p.document_id"""
        for _, rows in groupby(self.db.stream(self.store.sql(sql), (now,)), itemgetter(0)):
            yield [row[1] for row in rows]

    def next_number(self) -> int:
        """The number that the next code gets."""
        number: int = self.db.value(self.store.sql("SELECT ifnull(max(id), 0) + 1 FROM {index}_part"))
        return number

    def documents_with_rows(self, document_ids: Iterable[int]) -> set[int]:
        """Those of the documents that have rows here."""
        sql = self.store.sql("SELECT document_id FROM {index}_part WHERE document_id = ? LIMIT 1")
        return {row[0] for row in self.db.rows_of_many(sql, ((number,) for number in document_ids))}

    def existing_codes(self, codes: Iterable[tuple[int, int, Part | None]]) -> dict[int, StoredPart]:
        """The rows here of codes (any number, document, part), by the number."""
        sql = self.store.sql("SELECT ?1, id, part, fingerprint_id FROM {index}_part WHERE document_id = ?2 AND part IS ?3")
        return {number: StoredPart(*row) for number, *row in self.db.rows_of_many(sql, codes)}

    def add_many(self, rows: Iterable[tuple[int, Part | None, int]]) -> None:
        """More codes (document, part, fingerprint), in their order."""
        sql = "INSERT INTO {index}_part (document_id, part, fingerprint_id) VALUES (?, ?, ?)"
        self.db.execute_many(self.store.sql(sql), rows)

    def add(self, document_id: int, part: Part | None, fingerprint_id: int, number: int | None = None) -> None:
        """One more code of a document; number: the id of the one whose place it takes."""
        sql = "INSERT INTO {index}_part (id, document_id, part, fingerprint_id) VALUES (?, ?, ?, ?)"
        self.db.execute(self.store.sql(sql), (number, document_id, part, fingerprint_id))

    def first(self, document_id: int) -> int:
        """The number of the first code of a document that has rows here."""
        sql = "SELECT min(id) FROM {index}_part WHERE document_id = ?"  # reads all of them: no index is by number
        number: int = self.db.value(self.store.sql(sql), (document_id,))
        return number

    def replace(self, number: int, fingerprint_id: int) -> None:
        """Give a part another code."""
        self.db.execute(self.store.sql("UPDATE {index}_part SET fingerprint_id = ? WHERE id = ?"), (fingerprint_id, number))

    def remove(self, number: int) -> None:
        """Forget one code."""
        self.db.execute(self.store.sql("DELETE FROM {index}_part WHERE id = ?"), (number,))

    def drop(self, document_ids: Iterable[int]) -> set[int]:
        """Forget the codes of documents that go. Returns their fingerprints."""
        if not self.store.has_parts:
            return set()
        sql = self.store.sql("DELETE FROM {index}_part WHERE document_id = ? RETURNING fingerprint_id")
        return {row[0] for row in self.db.rows_of_many(sql, ((number,) for number in document_ids))}

    def number_again(self) -> int:
        """Give all codes new numbers in their order, where one has a number that is never given; returns how many codes there are
        then, else 0."""
        wrong = f"SELECT 1 FROM {{index}}_part WHERE id NOT BETWEEN 1 AND {self.MOST} LIMIT 1"
        if not self.store.has_parts or self.db.value(self.store.sql(wrong)) is None:
            return 0
        rows = self.db.rows(self.store.sql("SELECT document_id, part, fingerprint_id FROM {index}_part ORDER BY id"))
        self.db.execute(self.store.sql("DELETE FROM {index}_part"))
        self.add_many(rows)
        return len(rows)

    def name_again(self) -> int:
        """Give codes whose part is text that cannot be decoded another one, made of what can; returns how many there were."""
        if not self.store.has_parts:
            return 0
        encoding = self.db.value("PRAGMA encoding")
        sql = "SELECT id, document_id, CAST(part AS BLOB) FROM {index}_part WHERE typeof(part) = 'text'"
        renamed = 0
        for number, document_id, given in self.db.rows(self.store.sql(sql)):
            name = given.decode(encoding, "replace")
            if name.encode(encoding) != given:
                self._rename(number, document_id, name)
                renamed += 1
        return renamed

    def _rename(self, number: int, document_id: int, name: str) -> None:
        """Name a code, by a part that its document does not have yet."""
        taken = self.store.sql("SELECT 1 FROM {index}_part WHERE document_id = ? AND part = ?")
        names = chain([name], (f"{name} {place}" for place in count(2)))
        free = next(one for one in names if self.db.value(taken, (document_id, one)) is None)
        self.db.execute(self.store.sql("UPDATE {index}_part SET part = ? WHERE id = ?"), (free, number))

    def used_fingerprints(self, fingerprint_ids: Iterable[int]) -> set[int]:
        """Those of the fingerprints that are codes here."""
        if not self.store.has_parts:
            return set()
        sql = self.store.sql("SELECT fingerprint_id FROM {index}_part WHERE fingerprint_id = ? LIMIT 1")
        return {row[0] for row in self.db.rows_of_many(sql, ((number,) for number in fingerprint_ids))}
