"""Pairs of documents that a person has dismissed: "these are not duplicates".

A dismissed pair is no edge of the graph of matches. The pairs go by the ids of their documents, so they survive a rebuild and go
with either document. The table is made by the first dismissal; `Store.dismisses` says whether an index has it.

Equal copies share a fingerprint, and one of them stands for all. Two kinds of fingerprints are exceptions, so the table names the
fingerprints of each pair. A fingerprint is *touched* if a document of it is in a dismissed pair: a new copy may match what that
document does not. It is *torn* if two copies of it are dismissed: its documents may be in several clusters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...arrays import np
from ...values import Key
from ..layout.state import Store
from .documents import DocumentRow, Documents

NONE: frozenset[tuple[int, int]] = frozenset()


class Dismissed:
    """Reads and writes the pairs; runs inside the store's transactions and changes no cluster. Where the index has no table, only
    `add`, `among` and `page` may be called."""

    TABLE = "dismissed"

    IS_TORN = "EXISTS (SELECT 1 FROM {index}_dismissed AS x WHERE x.fingerprint_id = f.id AND x.other_fingerprint_id = f.id)"
    """Whether a fingerprint f is torn, in SQL."""

    def __init__(self, store: Store, documents: Documents) -> None:
        self.store = store
        self.db = store.db
        self.documents = documents

    # ---- reading -----------------------------------------------------------------------------------------------------

    def dismissed_with(self, document_id: int) -> set[int]:
        """The documents that are dismissed as duplicates of this one."""
        sql = """SELECT other_id FROM {index}_dismissed WHERE document_id = ?1
                 UNION ALL SELECT document_id FROM {index}_dismissed WHERE other_id = ?1"""
        return {row[0] for row in self.db.rows(self.store.sql(sql), (document_id,))}

    def is_dismissed(self, a: int, b: int) -> bool:
        """Whether two documents are a dismissed pair."""
        sql = "SELECT 1 FROM {index}_dismissed WHERE document_id = ? AND other_id = ?"
        return self.db.value(self.store.sql(sql), (max(a, b), min(a, b))) is not None

    def pairs_among(self, document_ids: Iterable[int]) -> frozenset[tuple[int, int]]:
        """The dismissed pairs (earlier, later) whose later document is one of these."""
        if not self.store.dismisses:
            return NONE
        sql = """SELECT x.other_id, x.document_id FROM {carray}(?) AS d CROSS JOIN {index}_dismissed AS x
                 WHERE x.document_id = d.value"""
        asked = np.sort(np.fromiter(document_ids, np.int64))
        return frozenset(self.db.rows(self.store.sql(sql), (self.db.carried(asked),))) if len(asked) else NONE

    def split_fingerprints(self, fingerprint_ids: Iterable[int]) -> set[int]:
        """Those of the fingerprints that are torn."""
        sql = "SELECT fingerprint_id FROM {index}_dismissed WHERE fingerprint_id = ?1 AND other_fingerprint_id = ?1 LIMIT 1"
        return self._select_ids(sql, fingerprint_ids)

    def touched(self, fingerprint_ids: Iterable[int]) -> set[int]:
        """Those of the fingerprints that are touched."""
        sql = """SELECT ?1 WHERE EXISTS (SELECT 1 FROM {index}_dismissed WHERE fingerprint_id = ?1)
                 OR EXISTS (SELECT 1 FROM {index}_dismissed WHERE other_fingerprint_id = ?1)"""
        return self._select_ids(sql, fingerprint_ids)

    def _select_ids(self, sql: str, fingerprint_ids: Iterable[int]) -> set[int]:
        return {row[0] for row in self.db.rows_of_many(self.store.sql(sql), ((number,) for number in fingerprint_ids))}

    def page(self, after: tuple[int, int], now: int, size: int) -> list[tuple[int, int, Key, Key]]:
        """(later, earlier, key of the earlier, key of the later) of the next pairs of visible documents."""
        if not self.store.dismisses:
            return []
        visible = "({0}.expires_at IS NULL OR {0}.expires_at > :now)"
        sql = f"""SELECT x.document_id, x.other_id, b.key, a.key FROM {{index}}_dismissed AS x
                  CROSS JOIN {{index}}_document AS a CROSS JOIN {{index}}_document AS b
                  WHERE (x.document_id, x.other_id) > (:later, :earlier) AND a.id = x.document_id AND b.id = x.other_id
                      AND {visible.format("a")} AND {visible.format("b")}
                  ORDER BY x.document_id, x.other_id LIMIT :size"""
        parameters = {"later": after[0], "earlier": after[1], "now": now, "size": size}
        return self.db.rows(self.store.sql(sql), parameters)

    def pairs(self) -> Iterator[tuple[int, int]]:
        """All of them: (later, earlier)."""
        if self.store.dismisses:
            yield from self.db.stream(self.store.sql("SELECT document_id, other_id FROM {index}_dismissed"))

    # ---- writing -----------------------------------------------------------------------------------------------------

    def add(self, a: DocumentRow, b: DocumentRow, now: int) -> bool:
        """Dismiss a pair; False if it was dismissed already."""
        self.add_all(a, [b], now)
        return self.db.connection.changes() == 1

    def add_all(self, a: DocumentRow, others: Iterable[DocumentRow], now: int) -> None:
        """Dismiss the pairs of a document with others."""
        if not self.store.dismisses:
            self.store.add_table(self.TABLE)
        sql = """INSERT OR IGNORE INTO {index}_dismissed
                 (document_id, other_id, fingerprint_id, other_fingerprint_id, dismissed_at) VALUES (?, ?, ?, ?, ?)"""
        pairs = ((a, b) if a.id > b.id else (b, a) for b in others)
        rows = [(later.id, earlier.id, later.fingerprint_id, earlier.fingerprint_id, now) for later, earlier in pairs]
        self.db.execute_many(self.store.sql(sql), rows)

    def remove(self, a: int, b: int) -> None:
        """Forget a pair."""
        sql = "DELETE FROM {index}_dismissed WHERE document_id = ? AND other_id = ?"
        self.db.execute(self.store.sql(sql), (max(a, b), min(a, b)))

    def drop(self, document_id: int) -> set[int]:
        """Forget the pairs of a document that goes. Returns the fingerprints that were torn by one of them."""
        torn = set()
        for end in ("document_id", "other_id"):
            sql = f"DELETE FROM {{index}}_dismissed WHERE {end} = ? RETURNING fingerprint_id, other_fingerprint_id"
            torn |= {a for a, b in self.db.rows(self.store.sql(sql), (document_id,)) if a is not None and a == b}
        return torn

    def follow_fingerprints(self) -> None:
        """Write the fingerprints of all pairs anew, after documents were given other ones."""
        sql = """UPDATE {index}_dismissed SET
                 fingerprint_id = (SELECT d.fingerprint_id FROM {index}_document AS d WHERE d.id = document_id),
                 other_fingerprint_id = (SELECT d.fingerprint_id FROM {index}_document AS d WHERE d.id = other_id)"""
        self.db.execute(self.store.sql(sql))

    def follow_fingerprint(self, document_id: int, fingerprint_id: int | None) -> None:
        """Write the fingerprint of a document that was given another one into its pairs."""
        for end, column in (("document_id", "fingerprint_id"), ("other_id", "other_fingerprint_id")):
            sql = self.store.sql(f"UPDATE {{index}}_dismissed SET {column} = ? WHERE {end} = ?")
            self.db.execute(sql, (fingerprint_id, document_id))

    def drop_lost(self) -> int:
        """Forget pairs that are not two documents, the later first; returns how many there were. Only damage makes such ones."""
        sql = """DELETE FROM {index}_dismissed WHERE document_id <= other_id
                 OR document_id NOT IN (SELECT id FROM {index}_document) OR other_id NOT IN (SELECT id FROM {index}_document)"""
        self.db.execute(self.store.sql(sql))
        return self.db.connection.changes()
