"""Pairs of documents dismissed as no duplicates; they are no edges of the match graph.

Pairs refer to document ids, so they survive a rebuild. The first dismissal creates the table (`Store.dismisses`). Dismissed
documents share their fingerprints with no others (`separate`), so a fingerprint matches for all of its documents or for none.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...values import Key
from .documents import DocumentRow, Documents

NONE: frozenset[tuple[int, int]] = frozenset()


class Dismissed:
    """Reads and writes dismissed pairs inside the store's transactions. Changes no cluster.

    Without the table, only `add_all`, `pairs_among`, and `page` may be called.
    """

    def __init__(self, documents: Documents) -> None:
        self.store, self.documents = documents.store, documents

    def dismissed_with(self, document_id: int) -> set[int]:
        sql = """SELECT other_id FROM {index}_dismissed WHERE document_id = ?1
                 UNION ALL SELECT document_id FROM {index}_dismissed WHERE other_id = ?1"""
        return {row[0] for row in self.store.rows(sql, (document_id,))}

    def is_dismissed(self, a: int, b: int) -> bool:
        sql = "SELECT 1 FROM {index}_dismissed WHERE document_id = ? AND other_id = ?"
        return self.store.value(sql, (max(a, b), min(a, b))) is not None

    def pairs_among(self, document_ids: Iterable[int]) -> frozenset[tuple[int, int]]:
        """The dismissed pairs (earlier, later) whose later document has one of these ids."""
        if not self.store.dismisses:
            return NONE
        sql = """SELECT x.other_id, x.document_id FROM {carray}(?) AS d CROSS JOIN {index}_dismissed AS x
                 WHERE x.document_id = d.value"""
        return frozenset(self.store.rows_of_numbers(sql, document_ids))

    def page(self, after: tuple[int, int], now: int, size: int) -> list[tuple[int, int, Key, Key]]:
        """(later id, earlier id, earlier key, later key) of the next pairs of visible documents."""
        if not self.store.dismisses:
            return []
        visible = "({0}.expires_at IS NULL OR {0}.expires_at > :now)"
        sql = f"""SELECT x.document_id, x.other_id, b.key, a.key FROM {{index}}_dismissed AS x
                  CROSS JOIN {{index}}_document AS a CROSS JOIN {{index}}_document AS b
                  WHERE (x.document_id, x.other_id) > (:later, :earlier) AND a.id = x.document_id AND b.id = x.other_id
                      AND {visible.format("a")} AND {visible.format("b")}
                  ORDER BY x.document_id, x.other_id LIMIT :size"""
        parameters = {"later": after[0], "earlier": after[1], "now": now, "size": size}
        return self.store.rows(sql, parameters)

    def add_all(self, a: DocumentRow, others: Iterable[DocumentRow], now: int) -> int:
        """Dismiss pairs of a document. Returns the number of pairs that were not dismissed."""
        if not self.store.dismisses:
            self.store.add_table("dismissed")
        sql = "INSERT OR IGNORE INTO {index}_dismissed (document_id, other_id, dismissed_at) VALUES (?, ?, ?) RETURNING 1"
        return len(self.store.execute_many(sql, [(max(a.id, b.id), min(a.id, b.id), now) for b in others]))

    def remove(self, a: int, others: Iterable[int]) -> None:
        sql = "DELETE FROM {index}_dismissed WHERE document_id = ? AND other_id = ?"
        self.store.execute_many(sql, [(max(a, b), min(a, b)) for b in others])

    def separate(self, document_ids: Iterable[int] | None = None, *, is_indexed: bool = True) -> None:
        """Give documents of dismissed pairs (None: all) unshared fingerprints. is_indexed: write their candidate rows."""
        if not self.store.dismisses:
            return
        if document_ids is None:
            every = "SELECT document_id FROM {index}_dismissed UNION SELECT other_id FROM {index}_dismissed"
            dismissed = {row[0] for row in self.store.rows(every)}
        else:
            dismissed = set(filter(self.dismissed_with, document_ids))
        for document in self.documents.rows_by_id(sorted(dismissed)):
            for number in self.documents.fingerprints_of(document.id, document.fingerprint_id):
                if self.documents.is_shared(number, document.id):
                    copy_id = self.documents.copy_fingerprint(number, document.id)
                    if is_indexed:
                        self.store.table.index_rows(copy_id, copy_id)

    def drop(self, document_id: int) -> None:
        for end in ("document_id", "other_id"):
            self.store.execute(f"DELETE FROM {{index}}_dismissed WHERE {end} = ?", (document_id,))

    def drop_damaged(self) -> int:
        sql = """DELETE FROM {index}_dismissed WHERE document_id <= other_id
                 OR document_id NOT IN (SELECT id FROM {index}_document) OR other_id NOT IN (SELECT id FROM {index}_document)"""
        self.store.execute(sql)
        return self.store.db.connection.changes()
