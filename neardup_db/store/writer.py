"""Adding documents: one at a time with an answer, or many in sorted batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import DuplicateKeyError
from ..native import signed_hash
from ..values import Match
from .clusters import Clusters, Edge, UnionFind, choose_edges
from .documents import Documents, Found, Record
from .search import Neighbour, Search
from .state import Sketch, Store


class Writer:
    """Writes documents with their fingerprints, table rows and edges; runs inside the store's transactions."""

    def __init__(self, store: Store, documents: Documents, search: Search, clusters: Clusters) -> None:
        self.store = store
        self.db = store.db
        self.documents = documents
        self.search = search
        self.clusters = clusters

    # ---- one ---------------------------------------------------------------------------------------------------------

    def add(self, record: Record, sketch: Sketch, now: int, *, if_exists: str, limit: int) -> tuple[str, list[Match]]:
        """Store a document. Returns ("added" | "replaced" | "ignored", its matches among the earlier ones)."""
        found, stays = self._existing(record, now, if_exists)
        if stays:
            return "ignored", []
        if found is not None:
            self.clusters.remove([found.id], now)
        group_id = self.documents.group_id(record.group, create=True)
        neighbours: list[Neighbour] = []
        if self.store.record_matches:
            neighbours = self.search.neighbours(sketch, group_id, now)
        matches = self.search.best_of(neighbours, limit, now)
        document_id = self._insert(record, sketch, group_id, now)
        if record.expires_at is None or record.expires_at > now:
            self.clusters.connect(document_id, neighbours, now)
        replaced = found is not None and _visible(found, now)
        return "replaced" if replaced else "added", [row.match for row in matches]

    def add_if_new(
        self, record: Record, sketch: Sketch, now: int, *, if_exists: str, limit: int, on_match: str | None
    ) -> tuple[str, list[Match]]:
        """Store a document if nothing matches it. Returns ("added" | "replaced" | "ignored" | "matched", the matches)."""
        found, stays = self._existing(record, now, if_exists)
        if stays:
            return "ignored", []
        group_id = self.documents.group_id(record.group)
        if found is None:
            rows = self.search.best_of(self.search.neighbours(sketch, group_id, now), limit, now)
        else:
            rows = self.search.matches(sketch, group_id, now, limit=limit, except_id=found.id)
        if rows:
            if on_match == "touch":
                self.documents.touch(rows[0].id, now, record.expires_at)
            return "matched", [row.match for row in rows]
        if found is not None:
            self.clusters.remove([found.id], now)
        self._insert(record, sketch, self.documents.group_id(record.group, create=True), now)
        replaced = found is not None and _visible(found, now)
        return "replaced" if replaced else "added", []

    def _existing(self, record: Record, now: int, if_exists: str) -> tuple[Found | None, bool]:
        """The document that has the key already, and whether it stays. An expired one never does."""
        found = self.documents.find(record.key)
        if found is None or not _visible(found, now):
            return found, False
        if if_exists == "error":
            raise DuplicateKeyError(
                f"key {record.key!r} is already in the index: delete it first, or give if_exists='replace' or 'ignore'"
            )
        return found, if_exists == "ignore"

    def _insert(self, record: Record, sketch: Sketch, group_id: int, now: int) -> int:
        fingerprint_id = None
        if sketch.value is not None:
            fingerprint_id = self.documents.fingerprint_id(group_id, sketch.value)
            if fingerprint_id is None:
                fingerprint_id = self.documents.add_fingerprint(group_id, sketch.value)
        document_id = self.documents.next_id()
        self.documents.insert(self.documents.row(document_id, record, group_id, fingerprint_id, sketch.token_count, now))
        return document_id

    # ---- many --------------------------------------------------------------------------------------------------------

    def add_batch(self, records: Sequence[Record], sketches: Sequence[Sketch], now: int) -> int:
        """Store documents whose keys are new and differ from each other. Returns how many have a match among the earlier ones.

        Fingerprints, table rows (sorted) and documents are written first, each by one statement for the whole batch; then
        every document asks for what came before it."""
        groups = dict.fromkeys(record.group for record in records)
        numbers = {group: self.documents.group_id(group, create=True) for group in groups}
        group_ids = [numbers[record.group] for record in records]
        fingerprint_ids = self._add_fingerprints(group_ids, sketches)
        first_id = self.documents.next_id()
        rows = [
            self.documents.row(first_id + i, records[i], group_ids[i], fingerprint_ids[i], sketches[i].token_count, now)
            for i in range(len(records))
        ]
        self.db.execute_many(self.store.sql(Documents.INSERT), rows)
        if not self.store.record_matches:
            return 0
        return self._connect_batch(first_id, records, sketches, group_ids, fingerprint_ids, now)

    def _add_fingerprints(self, group_ids: Sequence[int], sketches: Sequence[Sketch]) -> list[int | None]:
        """Fingerprint id of each document; new values are written and filed."""
        last = self.db.value("SELECT seq FROM sqlite_sequence WHERE name = ?", (f"{self.store.name}_fingerprint",)) or 0
        values = [None if one.value is None else (group_id, one.value) for group_id, one in zip(group_ids, sketches, strict=True)]
        distinct = {value: signed_hash(value[1]) for value in dict.fromkeys(values) if value is not None}
        known = self.documents.fingerprint_ids(distinct) if last else {}
        new = [value for value in distinct if value not in known]
        rows = [(number, *value, distinct[value]) for number, value in enumerate(new, last + 1)]
        known.update((value, number) for number, value in enumerate(new, last + 1))
        if rows:
            sql = "INSERT INTO {index}_fingerprint (id, group_id, value, value_hash) VALUES (?, ?, ?, ?)"
            self.db.execute_many(self.store.sql(sql), rows)
            self.documents.file(rows[0][0], rows[-1][0])
        return [None if value is None else known[value] for value in values]

    def _connect_batch(
        self,
        first_id: int,
        records: Sequence[Record],
        sketches: Sequence[Sketch],
        group_ids: Sequence[int],
        fingerprint_ids: Sequence[int | None],
        now: int,
    ) -> int:
        """Edges and clusters of the documents from first_id on, as adding them one by one would give."""
        visible = [record.expires_at is None or record.expires_at > now for record in records]
        earlier: list[int | None] = []  # of each document: the newest visible one of the batch with its fingerprint
        newest: dict[int, int] = {}
        for i, fingerprint_id in enumerate(fingerprint_ids):
            earlier.append(None if fingerprint_id is None else newest.get(fingerprint_id))
            if fingerprint_id is not None and visible[i]:
                newest[fingerprint_id] = first_id + i
        asking = [i for i, fingerprint_id in enumerate(fingerprint_ids) if fingerprint_id is not None and earlier[i] is None]
        answers = self.search.neighbours_of_many(((sketches[i], group_ids[i], first_id + i) for i in asking), now)
        answer = next(answers, None)
        labels = UnionFind()
        edges: list[Edge] = []
        matched = 0
        for i, copied in enumerate(earlier):
            document_id, fingerprint_id = first_id + i, fingerprint_ids[i]
            neighbours: Sequence[Neighbour] = ()
            if copied is not None and fingerprint_id is not None:
                neighbours = (self._copy_of(copied, fingerprint_id),)
            elif answer is not None and answer[0] == document_id:
                neighbours = answer[1]
                answer = next(answers, None)
            if not neighbours:
                continue
            matched += 1
            if visible[i]:
                edges += choose_edges(document_id, neighbours, labels.find)
                for one in neighbours:
                    labels.union(one.cluster_id, document_id)
        self.clusters.record(edges, now)
        for group in labels.sets():
            self.clusters.join(set(group))
        return matched

    def _copy_of(self, document_id: int, fingerprint_id: int) -> Neighbour:
        """An equal copy as a neighbour. Inside a batch a document's label is still its own id."""
        return Neighbour(document_id, document_id, 1.0, 0 if self.store.scheme.takes_codes else None, fingerprint_id)

    # ---- all over again ----------------------------------------------------------------------------------------------

    def reconnect_all(self, now: int, step: Any) -> None:
        """Edges and clusters of the whole index from its fingerprints; `step(done)` reports."""
        self.db.execute(self.store.sql("DELETE FROM {index}_match"))
        cluster = "id" if self.store.record_matches else "NULL"
        self.db.execute(self.store.sql(f"UPDATE {{index}}_document SET cluster_id = {cluster}"))
        if not self.store.record_matches:
            return
        after, done = 0, 0
        while page := self.documents.page(after, now, 1000):
            for document_id, _, fingerprint_id, group_id in page:
                if fingerprint_id is not None:
                    sketch = self.search.stored_sketch(document_id, fingerprint_id)
                    self.clusters.connect(document_id, self.search.neighbours(sketch, group_id, now, document_id), now)
            after = page[-1][0]
            done += len(page)
            step(done)


def _visible(found: Found, now: int) -> bool:
    return found.expires_at is None or found.expires_at > now
