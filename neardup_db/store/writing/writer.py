"""Adding one document, with its matches as the answer."""

from __future__ import annotations

from ...errors import DuplicateKeyError
from ...native import signed_hash
from ...parameters import quoted_key
from ...values import Match, Record
from ..asking.documents import DocumentRow, Documents
from ..asking.question import Question
from ..asking.search import Neighbour, Search
from ..layout.sketches import Sketch
from ..layout.state import Store
from ..linking.clusters import Clusters
from .outcomes import Outcome
from .window import evict


class Writer:
    """Writes documents with their fingerprints, table rows and edges; runs inside the store's transactions."""

    def __init__(self, store: Store, documents: Documents, search: Search, clusters: Clusters) -> None:
        self.store = store
        self.db = store.db
        self.documents = documents
        self.search = search
        self.clusters = clusters

    def add(
        self, record: Record, sketch: Sketch, now: int, *, if_exists: str, limit: int, whole: bool = False
    ) -> tuple[Outcome, list[Match]]:
        """Store a document. Returns ("added" | "replaced" | "ignored", its matches among the earlier ones).

        whole: the record is all of the document, not one of several codes."""
        existing, stays = self._existing(record, now, if_exists)
        if stays:
            return "ignored", []
        if existing is not None:
            self.clusters.remove([existing.id], now)
        group_id = self.documents.group_id(record.group, create=True)
        neighbours = self.search.neighbours(sketch, group_id, now) if self.store.record_matches else []
        matches = [row.match for row in self.search.best_of(neighbours, limit, now)]
        return self._store(record, sketch, group_id, existing, neighbours, now), matches

    def add_if_new(
        self, record: Record, sketch: Sketch, now: int, *, if_exists: str, limit: int, on_match: str | None
    ) -> tuple[Outcome, list[Match]]:
        """Store a document if nothing matches it. Returns ("added" | "replaced" | "ignored" | "duplicate", the matches)."""
        existing, stays = self._existing(record, now, if_exists)
        if stays:
            return "ignored", []
        group_id = self.documents.group_id(record.group)
        neighbours: list[Neighbour] = []
        if existing is None:
            neighbours = self.search.neighbours(sketch, group_id, now)
            rows = self.search.best_of(neighbours, limit, now)
        else:
            rows = self.search.matches(sketch, group_id, now, Question(limit=limit), except_id=existing.id)
        if rows:
            if on_match == "touch":
                self.documents.touch(rows[0].id, now, record.expires_at)
            return "duplicate", [row.match for row in rows]
        if existing is not None:
            self.clusters.remove([existing.id], now)
            neighbours = self.search.neighbours(sketch, group_id, now)  # expired documents may match
        group_id = self.documents.group_id(record.group, create=True)
        return self._store(record, sketch, group_id, existing, neighbours, now), []

    def _existing(self, record: Record, now: int, if_exists: str) -> tuple[DocumentRow | None, bool]:
        """The document that has the key already, and whether it stays. An expired one never does."""
        existing = self.documents.find(record.key)
        if existing is None or not existing.is_visible(now):
            return existing, False
        self._require_group(record, existing)
        if if_exists == "error":
            raise DuplicateKeyError(
                f"key {quoted_key(record.key)} is already in the index: delete it first, or give if_exists='replace' or 'ignore'"
            )
        return existing, if_exists == "ignore"

    def _require_group(self, record: Record, existing: DocumentRow) -> None:
        """DuplicateKeyError where a document of another group has the key: keys are unique in the index, and no write changes a
        document of another group."""
        if self.documents.is_in_group(existing, record.group):
            return
        there, here = (
            "no group" if name is None else f"group {quoted_key(name)}"
            for name in (self.documents.group_name(existing.group_id), record.group)
        )
        raise DuplicateKeyError(
            f"key {quoted_key(record.key)} is already in {there}, and this document is for {here}: a key is unique in the index, "
            "whatever the group. Delete it there first, or prefix keys with the group"
        )

    def _store(
        self, record: Record, sketch: Sketch, group_id: int, existing: DocumentRow | None, neighbours: list[Neighbour], now: int
    ) -> Outcome:
        """Store a document and connect it. Returns "replaced" where it takes the key of a visible one, else "added"."""
        fingerprint_id = None if sketch.value is None else self._fingerprint(sketch, sketch.value, group_id)
        row = self.documents.row(None, record, group_id, fingerprint_id, sketch.token_count, now)
        document_id = self.documents.insert(row)
        if record.expires_at is not None:
            self.documents.keep_end(document_id, record.expires_at)
        if sketch.aside is not None:
            self.documents.set_aside({document_id: sketch.aside})
        if record.part is not None and fingerprint_id is not None:
            self.documents.parts.add(document_id, record.part, fingerprint_id)
        if self.store.record_matches:
            self.clusters.connect(document_id, neighbours, now)
        evict(self.store, self.clusters, document_id, 1, now)
        return "replaced" if existing is not None and existing.is_visible(now) else "added"

    def _fingerprint(self, sketch: Sketch, value: bytes, group_id: int) -> int:
        value_hash = signed_hash(value) if sketch.value_hash is None else sketch.value_hash
        number = self.documents.fingerprint_id(group_id, value, value_hash)
        if number is None:
            number = self.documents.add_fingerprint(group_id, value, value_hash)
            keys = None if sketch.keys is None else group_id.to_bytes(8, "little", signed=True) + sketch.keys
            self.store.table.file(number, number, keys)
        return number
