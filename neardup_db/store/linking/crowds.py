"""Crowds: clusters so large that their rows stand apart in the candidate table.

The rows of a crowd carry its label, so an added document takes a few rows of each crowd in its buckets instead of all of them.
All fingerprints of a cluster belong to its crowd, or none does. Only torn fingerprints, of which two copies are dismissed, belong
to none: their documents may be in several clusters.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set

from ... import limits
from ..asking.dismissed import Dismissed
from ..asking.documents import Documents
from ..layout.schema import ALONE
from ..layout.state import Store


class Crowds:
    """Moves the rows of fingerprints in and out of crowds; runs inside the store's transactions."""

    def __init__(self, store: Store, documents: Documents, dismissed: Dismissed) -> None:
        self.store = store
        self.db = store.db
        self.documents = documents
        self.dismissed = dismissed

    def labels_among(self, labels: set[int], without: Set[int] = frozenset()) -> set[int]:
        """Those of the labels whose cluster is a crowd; without: fingerprints that do not tell, as torn ones do not."""
        if not self.store.crowds:
            return set()
        sql = """SELECT f.crowd FROM {index}_document AS d JOIN {index}_fingerprint AS f ON f.id = d.fingerprint_id
                 WHERE d.cluster_id = ?"""
        if self.store.dismisses:
            sql += f" AND NOT {Dismissed.IS_TORN}"
        if without:
            sql += f" AND f.id NOT IN ({', '.join(map(str, sorted(without)))})"
        return {label for label in labels if self.db.value(self.store.sql(f"{sql} LIMIT 1"), (label,)) == label}

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

    def release(self, fingerprint_ids: Iterable[int]) -> None:
        """Take fingerprints that are torn now out of their crowds."""
        if self.store.crowds:
            self._move(fingerprint_ids, 0)

    def settle(self, fingerprint_ids: set[int]) -> None:
        """Move fingerprints that may be torn no longer into the crowds of their clusters."""
        if not self.store.crowds:
            return
        whole = fingerprint_ids - self.dismissed.split_fingerprints(fingerprint_ids)
        for number in sorted(whole):
            label = self.documents.label_of(number)
            if label is not None and self.labels_among({label}, whole):
                self._move([number], label)

    def _move(self, fingerprint_ids: Iterable[int], crowd: int) -> None:
        if crowd and self.store.dismisses:
            fingerprint_ids = set(fingerprint_ids)
            fingerprint_ids -= self.dismissed.split_fingerprints(fingerprint_ids)
        sql = self.store.sql("UPDATE {index}_fingerprint SET crowd = ? WHERE id = ?")
        for number in fingerprint_ids:
            self.store.table.unfile(number, number)
            self.db.execute(sql, (crowd, number))
            self.store.table.file(number, number)
