"""Bulk loads into an index with several codes per key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ...values import Key, Part, Record
from ..clustering.clusters import Clusters
from ..clustering.codes import LATEST, AddedCode, connect_codes
from ..layout.sketches import Sketches
from ..query.documents import DocumentRow, Documents
from ..query.parts import StoredPart
from .segment import Batch, Segment


@dataclass(slots=True)
class Owner:
    group: Key | None  # its group name, if the document is new in this load
    document: DocumentRow | None = None  # its row; None if it is new in this load
    has_rows: bool = False  # True if it has rows of codes
    parts: set[Part | None] = field(default_factory=set)  # the parts added by this batch; {None} without rows of codes


class Owners:
    def __init__(self, documents: Documents, batch: Batch, now: int) -> None:
        self._documents = documents
        self._batch = batch
        self._now = now
        self._places: dict[Key, list[int]] | None = None
        self._owners: dict[Key, Owner] = {}
        self._existing_codes: dict[int, StoredPart] = {}  # the existing code with the same key and part, by position
        self._load(documents.rows_by_key(batch.keys), range(len(batch)))

    def _load(self, document: dict[Key, DocumentRow], positions: Sequence[int]) -> None:
        with_rows = self._documents.parts.documents_with_rows({row.id for row in document.values()})
        for key, row in document.items():
            self._owners[key] = Owner(None, row, row.id in with_rows, set() if row.id in with_rows else {None})
        wanted = ((i, document[key].id, self._part(i)) for i in positions if (key := self._batch.keys[i]) in document)
        self._existing_codes |= self._documents.parts.existing_codes(wanted)

    def _part(self, i: int) -> Part | None:
        record = self._batch.more.get(i)
        return None if record is None else record.part

    def reload(self, i: int) -> None:
        """Reload a key after its code at position i was written by itself."""
        if self._places is None:
            self._places = {}
            for position, key in enumerate(self._batch.keys):
                self._places.setdefault(key, []).append(position)
        key = self._batch.keys[i]
        self._owners.pop(key, None)
        later_positions = [position for position in self._places[key] if position > i]
        for position in later_positions:
            self._existing_codes.pop(position, None)
        self._load(self._documents.rows_by_key([key]), later_positions)

    def action(self, i: int, if_exists: str, whole: bool) -> str:
        """How a code is stored: it "joins" the bulk, "replaces" the code with its part, is "ignored", or is written "alone".

        whole: an unnamed code is the document's only one, unless the record says otherwise.
        """
        key, record = self._batch.keys[i], self._batch.more.get(i)
        owner, part = self._owners.get(key), self._part(i)
        if record is not None and record.expires_at is not None and record.expires_at <= self._now:
            return "alone"
        if owner is None:
            self._owners[key] = Owner(None if record is None else record.group, None, False, {part})
            return "joins"
        if owner.document is not None and (not owner.document.is_visible(self._now) or owner.document.fingerprint_id is None):
            return "alone"
        if not self._is_in_group(owner, None if record is None else record.group):
            return "alone"
        whole = whole and part is None and (record is None or not record.is_one_of_several)
        is_replaced = i in self._existing_codes
        if is_replaced or part in owner.parts or whole:
            choice = self._batch.if_exists.get(i, if_exists)
            if choice != "replace" or not is_replaced or part in owner.parts or whole:
                return "ignored" if choice == "ignore" else "alone"
        owner.parts.add(part)
        return "replaces" if is_replaced else "joins"

    def _is_in_group(self, owner: Owner, group: Key | None) -> bool:
        if owner.document is not None:
            return owner.document.group_id == self._documents.group_id(group)
        return type(owner.group) is type(group) and owner.group == group

    def __getitem__(self, i: int) -> Owner:
        return self._owners[self._batch.keys[i]]

    def replaced(self, i: int) -> tuple[DocumentRow, StoredPart]:
        document = self[i].document
        assert document is not None
        return document, self._existing_codes[i]


class CodeSegment(Segment):
    """A segment for codes, several of which may belong to one document. Holds either documents or codes between two flushes."""

    def __init__(self, clusters: Clusters) -> None:
        super().__init__(clusters)
        self._codes: list[AddedCode] = []
        self._start = LATEST  # the next document id and code number before the first of these codes

    @property
    def unconnected_count(self) -> int:
        return super().unconnected_count + len(self._codes)

    def add_codes(self, batch: Batch, sketches: Sketches, owners: Sequence[Owner], now: int) -> None:
        self._require_stored()
        group_ids = self._group_ids(batch)
        fingerprint_ids: list[Any] = self._add_fingerprints(group_ids, sketches)
        first_id, first_part = self.documents.next_id(), self.documents.parts.next_number()
        if not self._codes:
            self._start = first_id, first_part
        new_positions: list[int] = []
        rows: list[tuple[int, Part | None, int]] = []
        changes: list[tuple[int, Record]] = []
        changed: list[tuple[int, Key]] = []
        for i, (owner, fingerprint_id) in enumerate(zip(owners, fingerprint_ids, strict=True)):
            record = batch.record(i)
            if owner.document is None:
                owner.document = DocumentRow(first_id + len(new_positions), group_ids[i], fingerprint_id, record.expires_at)
                new_positions.append(i)
            else:
                if not owner.has_rows and owner.document.fingerprint_id is not None:
                    rows.append((owner.document.id, None, owner.document.fingerprint_id))
                    owner.has_rows = True
                if record.metadata is not None or record.expires_at is not None:
                    changes.append((owner.document.id, record))
                if owner.document.id < first_id:
                    changed.append((owner.document.id, record.key))
            if record.part is not None or owner.has_rows:
                rows.append((owner.document.id, record.part, fingerprint_id))
                owner.has_rows = True
            if self.store.record_matches:
                before = first_id + len(new_positions), first_part + len(rows)
                self._codes.append(AddedCode(owner.document.id, fingerprint_id, self._is_visible(batch, i, now), *before))
        new_groups, new_fingerprints = [group_ids[i] for i in new_positions], [fingerprint_ids[i] for i in new_positions]
        if new_positions:
            no_tokens = [None] * len(new_positions)
            self._insert(batch.at_indexes(new_positions), new_groups, new_fingerprints, no_tokens, first_id, now)
        self.documents.parts.add_many(rows)
        for document_id, record in changes:
            self.documents.update_given(document_id, record)
        if changed and self.store.notes_changes:
            self.clusters.changes.note_keys(dict.fromkeys(changed))

    def flush(self, now: int, *, more_follow: bool = False) -> set[int]:
        """`Segment.flush`; with codes, returns the positions of those that match a visible document of another key."""
        codes, self._codes = self._codes, []
        if not codes:
            return super().flush(now, more_follow=more_follow)
        self._require_stored()
        matched, unsure = connect_codes(self.clusters, codes, self._index_rows(), self._start, self._start[0], now)
        return matched.union(place for place in unsure if self._has_earlier(codes[place], now))

    def _has_earlier(self, code: AddedCode, now: int) -> bool:
        sketch = self.search.stored_sketch(code.fingerprint_id)
        group_id = self.documents.group_of(code.fingerprint_id)
        return self.search.has_earlier(sketch, group_id, now, code.document_id, code.before_id, code.before_part)
