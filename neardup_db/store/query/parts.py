"""Several codes under one key, such as the rotations of an image or the frames of a video.

The document row has the fingerprint of its first code. Documents with named or several codes have all of them in another table,
which the first named code creates (`Store.has_parts`). A query returns each document once, with its best code.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from ...compute.comparisons import find_all
from ...values import Part
from ..layout.state import Store

_SAMPLED = 16  # codes of a document that are compared with all codes of the other first


def nearest_codes(a: Sequence[bytes], b: Sequence[bytes]) -> tuple[int, int]:
    """The positions of the two most similar codes of two documents.

    A sample bounds the distance, then a join below it finds closer pairs, which are few even if all codes are similar.
    """
    numbers_a, numbers_b = ([int.from_bytes(code, "big") for code in codes] for codes in (a, b))
    step = -(-len(a) // _SAMPLED)
    places = [(x, y) for x in range(0, len(a), step) for y in range(len(b))]
    best = min(((numbers_a[x] ^ numbers_b[y]).bit_count(), x, y) for x, y in places)
    if step > 1 and best[0] > 0:
        nearer = find_all(a, best[0] - 1, others=b).tolist()
        best = min([best, *(((numbers_a[x] ^ numbers_b[y]).bit_count(), x, y) for x, y in nearer)])
    return best[1:]


class StoredPart(NamedTuple):
    id: int
    part: Part | None
    fingerprint_id: int


class Parts:
    """Reads and writes rows of codes inside the store's transactions. Only writers need the table to exist."""

    MOST = 2**48 - 1  # the highest number of a code: queries put a distance above these bits (sql/nearer.sql)

    def __init__(self, store: Store) -> None:
        self.store = store

    def codes_of(self, document_id: int) -> list[StoredPart]:
        """The codes of a document in insertion order; empty for a document with a single unnamed code."""
        if not self.store.has_parts:
            return []
        sql = "SELECT id, part, fingerprint_id FROM {index}_part WHERE document_id = ? ORDER BY id"
        return [StoredPart(*row) for row in self.store.rows(sql, (document_id,))]

    def fingerprints_by_document(self, document_ids: Iterable[int]) -> dict[int, list[int]]:
        sql = """SELECT p.document_id, p.fingerprint_id FROM {carray}(?) AS d CROSS JOIN {index}_part AS p
                 WHERE p.document_id = d.value"""
        fingerprints: dict[int, list[int]] = {}
        for document_id, fingerprint_id in self.store.rows_of_numbers(sql, document_ids) if self.store.has_parts else ():
            fingerprints.setdefault(document_id, []).append(fingerprint_id)
        return fingerprints

    def visible(self, now: int) -> Iterator[list[int]]:
        if not self.store.has_parts:
            return
        sql = """SELECT d.id, p.fingerprint_id FROM {index}_part AS p CROSS JOIN {index}_document AS d
                 WHERE d.id = p.document_id AND {visible} ORDER BY p.document_id"""
        for _, rows in groupby(self.store.stream(sql, (now,)), itemgetter(0)):
            yield [row[1] for row in rows]

    def next_number(self) -> int:
        return self.store.value("SELECT ifnull(max(id), 0) + 1 FROM {index}_part")

    def documents_with_rows(self, document_ids: Iterable[int]) -> set[int]:
        sql = "SELECT document_id FROM {index}_part WHERE document_id = ? LIMIT 1"
        return {row[0] for row in self.store.execute_many(sql, ((number,) for number in document_ids))}

    def existing_codes(self, codes: Iterable[tuple[int, int, Part | None]]) -> dict[int, StoredPart]:
        """The existing rows of codes (number, document, part), by the caller's number."""
        sql = "SELECT ?1, id, part, fingerprint_id FROM {index}_part WHERE document_id = ?2 AND part IS ?3"
        return {number: StoredPart(*row) for number, *row in self.store.execute_many(sql, codes)}

    def add_many(self, rows: Iterable[tuple[int, Part | None, int]]) -> None:
        self.store.execute_many("INSERT INTO {index}_part (document_id, part, fingerprint_id) VALUES (?, ?, ?)", rows)

    def add(self, document_id: int, part: Part | None, fingerprint_id: int, number: int | None = None) -> None:
        """Insert one code; number: the id of the code that it replaces."""
        sql = "INSERT INTO {index}_part (id, document_id, part, fingerprint_id) VALUES (?, ?, ?, ?)"
        self.store.execute(sql, (number, document_id, part, fingerprint_id))

    def first(self, document_id: int) -> int:
        sql = "SELECT min(id) FROM {index}_part WHERE document_id = ?"  # scans its codes: no index orders them by number
        return self.store.value(sql, (document_id,))

    def replace(self, number: int, fingerprint_id: int) -> None:
        self.store.execute("UPDATE {index}_part SET fingerprint_id = ? WHERE id = ?", (fingerprint_id, number))

    def remove(self, number: int) -> None:
        self.store.execute("DELETE FROM {index}_part WHERE id = ?", (number,))

    def drop(self, document_ids: Iterable[int]) -> set[int]:
        """Delete the codes of documents and return their fingerprint ids."""
        if not self.store.has_parts:
            return set()
        sql = "DELETE FROM {index}_part WHERE document_id = ? RETURNING fingerprint_id"
        return {row[0] for row in self.store.execute_many(sql, ((number,) for number in document_ids))}

    def used_fingerprints(self, fingerprint_ids: Iterable[int]) -> set[int]:
        if not self.store.has_parts:
            return set()
        sql = "SELECT fingerprint_id FROM {index}_part WHERE fingerprint_id = ? LIMIT 1"
        return {row[0] for row in self.store.execute_many(sql, ((number,) for number in fingerprint_ids))}
