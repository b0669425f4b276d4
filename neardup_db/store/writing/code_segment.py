"""A bulk load of codes into an index in which a key may have several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ...values import Key, Part, Record
from ..asking.documents import DocumentRow, Documents
from ..asking.parts import StoredPart
from ..layout.sketches import Sketches
from ..linking.codes import LATEST, AddedCode, Start, connect_codes
from .segment import Batch, Segment


@dataclass(slots=True)
class Owner:
    """The document that a code belongs to."""

    group: Key | None
    """The name of its group, of one that comes with this load."""
    found: DocumentRow | None = None
    """Its row; None where it comes with this load."""
    is_listed: bool = False
    """Whether it has rows for its codes."""
    parts: set[Part | None] = field(default_factory=set)
    """Those that came in this batch; of a document without rows None."""


class Owners:
    """The documents of the keys of a batch, and what becomes of each of its codes."""

    def __init__(self, documents: Documents, batch: Batch, now: int) -> None:
        self._documents = documents
        self._batch = batch
        self._now = now
        self._places: dict[Key, list[int]] | None = None
        self._owners: dict[Key, Owner] = {}
        self._taken: dict[int, StoredPart] = {}
        """The code of its document that has the part of the one at a place."""
        self._look_up(documents.rows_by_key(batch.keys), range(len(batch)))

    def _look_up(self, found: dict[Key, DocumentRow], places: Sequence[int]) -> None:
        listed = self._documents.parts.documents_with_rows({row.id for row in found.values()})
        for key, row in found.items():
            self._owners[key] = Owner(None, row, row.id in listed, set() if row.id in listed else {None})
        asked = ((i, found[key].id, self._part(i)) for i in places if (key := self._batch.keys[i]) in found)
        self._taken |= self._documents.parts.existing_codes(asked)

    def _part(self, i: int) -> Part | None:
        record = self._batch.more.get(i)
        return None if record is None else record.part

    def look_again(self, i: int) -> None:
        """What is known of a key after the code at a place was written by itself."""
        if self._places is None:
            self._places = {}
            for place, key in enumerate(self._batch.keys):
                self._places.setdefault(key, []).append(place)
        key = self._batch.keys[i]
        self._owners.pop(key, None)
        later = [place for place in self._places[key] if place > i]
        for place in later:
            self._taken.pop(place, None)
        self._look_up(self._documents.rows_by_key([key]), later)

    def fate(self, i: int, if_exists: str, whole: bool) -> str:
        """What becomes of a code: it "joins" those that are stored at once; it "replaces" the one with its part; it is "ignored";
        or it has to be written "alone".
        whole: a code without a part is all that its document is to have, unless it is one of several."""
        key, record = self._batch.keys[i], self._batch.more.get(i)
        owner, part = self._owners.get(key), self._part(i)
        if record is not None and record.expires_at is not None and record.expires_at <= self._now:
            return "alone"
        if owner is None:
            self._owners[key] = Owner(None if record is None else record.group, None, False, {part})
            return "joins"
        if owner.found is not None and (not owner.found.is_visible(self._now) or owner.found.fingerprint_id is None):
            return "alone"
        if not self._is_group(owner, None if record is None else record.group):
            return "alone"
        whole = whole and part is None and (record is None or not record.is_one_of_several)
        is_replaced = i in self._taken
        if is_replaced or part in owner.parts or whole:
            choice = self._batch.if_exists.get(i, if_exists)
            if choice != "replace" or not is_replaced or part in owner.parts or whole:
                return "ignored" if choice == "ignore" else "alone"
        owner.parts.add(part)
        return "replaces" if is_replaced else "joins"

    def _is_group(self, owner: Owner, group: Key | None) -> bool:
        if owner.found is not None:
            return owner.found.group_id == self._documents.group_id(group)
        return type(owner.group) is type(group) and owner.group == group

    def owners_at(self, places: Sequence[int]) -> list[Owner]:
        """Those of some codes."""
        return [self._owners[self._batch.keys[i]] for i in places]

    def replaced(self, i: int) -> tuple[DocumentRow, StoredPart]:
        """The document of a code that "replaces" another one, and that one."""
        found = self._owners[self._batch.keys[i]].found
        assert found is not None
        return found, self._taken[i]


class CodeSegment(Segment):
    """`Segment` for codes, of which documents may have several. It has either documents or codes between two calls of `flush`."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._codes: list[AddedCode] = []
        self._start = LATEST
        """What came next when the first of these codes came."""

    @property
    def waiting(self) -> int:
        return super().waiting + len(self._codes)

    def add_codes(self, batch: Batch, sketches: Sketches, owners: Sequence[Owner], now: int) -> None:
        """Store codes that new documents bring, or that visible ones do not have yet."""
        self._require_stored()
        group_ids = self._group_ids(batch)
        fingerprint_ids: list[Any] = self._add_fingerprints(group_ids, sketches)
        first_id, first_part = self.documents.next_id(), self.documents.parts.next_number()
        if not self._codes:
            self._start = Start(first_id, first_part)
        bringing: list[int] = []
        rows: list[tuple[int, Part | None, int]] = []
        changes: list[tuple[int, Record]] = []
        known: list[tuple[int, Key]] = []
        for i, (owner, fingerprint_id) in enumerate(zip(owners, fingerprint_ids, strict=True)):
            record = batch.record(i)
            if owner.found is None:
                owner.found = DocumentRow(first_id + len(bringing), group_ids[i], fingerprint_id, record.expires_at)
                bringing.append(i)
            else:
                if not owner.is_listed and owner.found.fingerprint_id is not None:
                    rows.append((owner.found.id, None, owner.found.fingerprint_id))
                    owner.is_listed = True
                if record.metadata is not None or record.expires_at is not None:
                    changes.append((owner.found.id, record))
                if owner.found.id < first_id:
                    known.append((owner.found.id, record.key))
            if record.part is not None or owner.is_listed:
                rows.append((owner.found.id, record.part, fingerprint_id))
                owner.is_listed = True
            if self.store.record_matches:
                before = first_id + len(bringing), first_part + len(rows)
                self._codes.append(AddedCode(owner.found.id, fingerprint_id, self._is_visible(batch, i, now), *before))
        of_new = [group_ids[i] for i in bringing], [fingerprint_ids[i] for i in bringing], [None] * len(bringing)
        if bringing:
            self._insert(batch.at_indexes(bringing), *of_new, first_id, now)
        self.documents.parts.add_many(rows)
        for document_id, record in changes:
            given = {"metadata": record.metadata, "expires_at": record.expires_at}
            self.documents.update(document_id, {name: value for name, value in given.items() if value is not None})
        if known and self.store.notes_changes:
            self.clusters.changes.note_codes(dict.fromkeys(known))

    def flush(self, now: int) -> set[int]:
        """`Segment.flush`; where there are codes it returns the places of those that match a visible document of another key."""
        codes, self._codes = self._codes, []
        if not codes:
            return super().flush(now)
        self._require_stored()
        matched, unsure = connect_codes(self.clusters, codes, self._index_rows(), self._start, self._start.document_id, now)
        return matched.union(place for place in unsure if self._has_earlier(codes[place], now))

    def _has_earlier(self, code: AddedCode, now: int) -> bool:
        """Whether a visible document of another key had a matching code before this one."""
        sketch = self.search.stored_sketch(code.fingerprint_id)
        group_id = self.documents.group_of(code.fingerprint_id)
        return self.search.has_earlier(sketch, group_id, now, code.document_id, code.before_id, code.before_part)
