"""Bulk loads into an index with several codes per key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ...values import Key, Part, Record
from ..clustering.codes import LATEST, AddedCode, Start, connect_codes
from ..layout.sketches import Sketches
from ..query.documents import DocumentRow, Documents
from .segment import Batch, Segment


@dataclass(slots=True)
class Owner:
    group: Key | None
    """Its group name, if the document is new in this load."""
    document: DocumentRow | None = None
    """Its row; None if it is new in this load."""
    has_rows: bool = False
    """True if it has rows of codes."""
    parts: set[Part | None] = field(default_factory=set)
    """The parts added by this batch; {None} for a document without rows of codes."""


class Owners:
    """The documents of a batch's keys."""

    def __init__(self, documents: Documents, batch: Batch, now: int) -> None:
        self._documents = documents
        self._batch = batch
        self._now = now
        rows = documents.rows_by_key(batch.keys)
        with_rows = documents.parts.documents_with_rows({row.id for row in rows.values()})
        self._owners = {
            key: Owner(None, row, row.id in with_rows, set() if row.id in with_rows else {None}) for key, row in rows.items()
        }
        wanted = ((i, rows[key].id, batch.record(i).part) for i, key in enumerate(batch.keys) if key in rows)
        self._with_code = documents.parts.existing_codes(wanted)
        """The positions of codes whose key and part exist."""

    def action(self, i: int, if_exists: str, whole: bool) -> str:
        """How a code is stored: it "joins" those stored in bulk, is "ignored", or is written "alone".

        whole: an unnamed code is the document's only one, unless the record says otherwise.
        """
        record = self._batch.record(i)
        owner, part = self._owners.get(record.key), record.part
        if record.expires_at is not None and record.expires_at <= self._now:
            return "alone"
        if owner is None:
            self._owners[record.key] = Owner(record.group, None, False, {part})
            return "joins"
        if owner.document is not None and (not owner.document.is_visible(self._now) or owner.document.fingerprint_id is None):
            return "alone"
        if not self._is_in_group(owner, record.group):
            return "alone"
        if i in self._with_code or part in owner.parts or (whole and part is None and not record.is_one_of_several):
            return "ignored" if self._batch.if_exists.get(i, if_exists) == "ignore" else "alone"
        owner.parts.add(part)
        return "joins"

    def _is_in_group(self, owner: Owner, group: Key | None) -> bool:
        if owner.document is not None:
            return owner.document.group_id == self._documents.group_id(group)
        return type(owner.group) is type(group) and owner.group == group

    def owners_at(self, positions: Sequence[int]) -> list[Owner]:
        return [self._owners[self._batch.keys[i]] for i in positions]


class CodeSegment(Segment):
    """A segment for codes, several of which may belong to one document. Between two flushes it holds either documents or
    codes."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._codes: list[AddedCode] = []
        self._start = LATEST
        """The next document id and code number before the first of these codes."""

    @property
    def unconnected_count(self) -> int:
        return super().unconnected_count + len(self._codes)

    def add_codes(self, batch: Batch, sketches: Sketches, owners: Sequence[Owner], now: int) -> None:
        self._require_stored()
        group_ids = self._group_ids(batch)
        fingerprint_ids: list[Any] = self._add_fingerprints(group_ids, sketches)
        first_id, first_part = self.documents.next_id(), self.documents.parts.next_number()
        if not self._codes:
            self._start = Start(first_id, first_part)
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
                self._codes.append(AddedCode(owner.document.id, fingerprint_id, *before))
        new_groups, new_fingerprints = [group_ids[i] for i in new_positions], [fingerprint_ids[i] for i in new_positions]
        if new_positions:
            no_tokens = [None] * len(new_positions)
            self._insert(batch.at_indexes(new_positions), new_groups, new_fingerprints, no_tokens, first_id, now)
        self.documents.parts.add_many(rows)
        for document_id, record in changes:
            values = {"metadata": record.metadata, "expires_at": record.expires_at}
            self.documents.update(document_id, {name: value for name, value in values.items() if value is not None})
        if changed and self.store.notes_changes:
            self.clusters.changes.note_keys(dict.fromkeys(changed))

    def flush(self, now: int, *, more_follow: bool = False) -> set[int]:
        """`Segment.flush`; with codes, returns the positions of those that match a visible document of another key."""
        codes, self._codes = self._codes, []
        if not codes:
            return super().flush(now, more_follow=more_follow)
        self._require_stored()
        connected = connect_codes(self.clusters, codes, self._index_rows(), self._start, self._start.document_id, now)
        return {place for place in connected if self._has_earlier(codes[place], now)}

    def _has_earlier(self, code: AddedCode, now: int) -> bool:
        sketch = self.search.stored_sketch(code.fingerprint_id)
        group_id = self.documents.group_of(code.fingerprint_id)
        return self.search.has_earlier(sketch, group_id, now, code.document_id, code.before_id, code.before_part)
