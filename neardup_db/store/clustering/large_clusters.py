"""Large clusters, whose candidate rows carry the cluster label (column `crowd`), so an added document reads a few rows of each
large cluster in its buckets instead of all. Either all fingerprints of a cluster carry the label or none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ... import limits
from ..layout.schema import ALONE
from ..layout.state import Store


class LargeClusters:
    def __init__(self, store: Store) -> None:
        self.store = store

    def labels_among(self, labels: set[int], crowds: Mapping[int, int]) -> set[int]:
        """The labels of large clusters. crowds: fingerprints that are still to be moved."""
        if not self.store.has_large_clusters:
            return set()
        sql = """SELECT f.id, f.crowd FROM {index}_document AS d JOIN {index}_fingerprint AS f ON f.id = d.fingerprint_id
                 WHERE d.cluster_id = ? LIMIT 1"""
        rows = self.store.execute_many(sql, [(label,) for label in labels])
        return labels.intersection(crowds.get(fingerprint_id, crowd) for fingerprint_id, crowd in rows)

    def gather(self, crowd: int, labels: Iterable[int]) -> dict[int, int]:
        """The fingerprints of clusters and single documents, with the large cluster that `move` gives them."""
        if not self.store.has_large_clusters:
            self.store.set(crowds=1)
            self.store.new_generation()
        of_cluster = "SELECT DISTINCT fingerprint_id FROM {index}_document WHERE cluster_id = ?"
        of_document = "SELECT fingerprint_id FROM {index}_document WHERE id = ?"
        fingerprint_ids: list[int] = []
        for label in labels:
            rows = self.store.rows(of_cluster, (label,)) if label < ALONE else self.store.rows(of_document, (label - ALONE,))
            fingerprint_ids += (row[0] for row in rows)
        return dict.fromkeys(fingerprint_ids, crowd)

    def remove_documents(self, document_ids: Sequence[int], label: int) -> None:
        """Take unshared fingerprints of documents out of their large cluster. If they are many, they form a large cluster
        under the new label."""
        if not self.store.has_large_clusters:
            return
        sql = """SELECT f.id FROM {index}_document AS d JOIN {index}_fingerprint AS f ON f.id = d.fingerprint_id
               WHERE d.id = ? AND f.crowd <> 0"""
        fingerprint_ids = {row[0] for row in self.store.execute_many(sql, [(document_id,) for document_id in document_ids])}
        self.move(dict.fromkeys(fingerprint_ids, label if len(fingerprint_ids) >= limits.CROWD else 0))

    def move(self, crowds: dict[int, int]) -> None:
        """Write the large cluster of each fingerprint, and empty `crowds`."""
        if crowds:
            self.store.table.move_rows(crowds)
            crowds.clear()
