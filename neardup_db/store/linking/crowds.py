"""Crowds: clusters so large that their rows stand apart in the candidate table.

The rows of a crowd carry its label, so an added document takes a few rows of each crowd in its buckets instead of all of them.
All fingerprints of a cluster belong to its crowd, or none does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ... import limits
from ..asking.documents import Documents
from ..layout.schema import ALONE
from ..layout.state import Store


class Crowds:
    """Moves the rows of fingerprints in and out of crowds; runs inside the store's transactions."""

    def __init__(self, store: Store, documents: Documents) -> None:
        self.store = store
        self.db = store.db
        self.documents = documents

    def labels_among(self, labels: set[int]) -> set[int]:
        """The labels whose cluster is a crowd."""
        if not self.store.crowds:
            return set()
        sql = """SELECT f.crowd FROM {index}_document AS d JOIN {index}_fingerprint AS f ON f.id = d.fingerprint_id
                 WHERE d.cluster_id = ? LIMIT 1"""
        return {label for label in labels if self.db.value(self.store.sql(sql), (label,)) == label}

    def gather(self, crowd: int, labels: Iterable[int]) -> None:
        """Move all fingerprints of some clusters, or documents, into one crowd."""
        if not self.store.crowds:
            self.store.set(crowds=1)
            self.store.new_generation()
        of_cluster = self.store.sql("SELECT DISTINCT fingerprint_id FROM {index}_document WHERE cluster_id = ?")
        of_document = self.store.sql("SELECT fingerprint_id FROM {index}_document WHERE id = ?")
        for label in labels:
            rows = self.db.rows(of_cluster, (label,)) if label < ALONE else self.db.rows(of_document, (label - ALONE,))
            self._move([row[0] for row in rows], crowd)

    def remove_documents(self, document_ids: Sequence[int], label: int) -> None:
        """Take the fingerprints of documents, which no other document has, out of their crowd. They become a crowd of their own,
        under their new label, if they are many enough."""
        if not self.store.crowds:
            return
        sql = self.store.sql(
            """SELECT f.id FROM {index}_document AS d JOIN {index}_fingerprint AS f ON f.id = d.fingerprint_id
               WHERE d.id = ? AND f.crowd <> 0"""
        )
        crowded = {row[0] for row in self.db.rows_of_many(sql, [(document_id,) for document_id in document_ids])}
        self._move(crowded, label if len(crowded) >= limits.CROWD else 0)

    def _move(self, fingerprint_ids: Iterable[int], crowd: int) -> None:
        sql = self.store.sql("UPDATE {index}_fingerprint SET crowd = ? WHERE id = ?")
        for number in fingerprint_ids:
            self.store.table.unfile(number, number)
            self.db.execute(sql, (crowd, number))
            self.store.table.file(number, number)
