"""Adds one document or code and returns its matches; replaces and removes codes.

Recorded matches do not say which code they belong to, so replacing a code finds all matches of the document again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ...errors import DuplicateKeyError, ParameterError
from ...native import signed_hash
from ...parameters import quoted_key
from ...values import AnyGroup, Key, Match, Part, Record
from ..clustering.clusters import Clusters
from ..clustering.codes import LATEST, AddedCode, connect_codes
from ..layout.candidates import MAX_ID
from ..layout.sketches import Sketch
from ..query.documents import DocumentRow
from ..query.parts import StoredPart
from ..query.search import MatchRow, Neighbour, QuerySpec
from .outcomes import Outcome
from .window import evict


class Target(NamedTuple):
    existing: DocumentRow | None = None  # the document with the key. Without `codes` it is replaced
    codes: list[StoredPart] | None = None  # its codes, if it is kept
    replaced: StoredPart | None = None  # the code that is replaced
    is_ignored: bool = False  # True if nothing changes

    @property
    def existing_id(self) -> int:
        return 0 if self.existing is None else self.existing.id


class Writer:
    def __init__(self, clusters: Clusters) -> None:
        self.store, self.documents, self.search, self.clusters = clusters.store, clusters.documents, clusters.search, clusters

    def add(
        self, record: Record, sketch: Sketch, now: int, *, if_exists: str, limit: int, whole: bool = False
    ) -> tuple[Outcome, list[Match]]:
        """Store a document, or another code of one. Returns ("added" | "replaced" | "ignored", earlier matches).

        whole: the record is the whole document, not one of its codes.
        """
        target = self._find_target(record, now, if_exists, whole)
        if target.is_ignored:
            return "ignored", []
        self._prepare_target(record, target, now)
        if not self.store.record_matches:
            return self._store(record, sketch, target, [], now), []
        neighbours = self._neighbours(record, sketch, target, now)
        if target.codes is not None and self.store.dismisses:
            rows = self._matches(record, sketch, target, limit, now)
        else:
            rows = self.search.best_of(neighbours, limit, now, except_id=target.existing_id)
        return self._store(record, sketch, target, neighbours, now), [row.match for row in rows]

    def add_if_new(
        self, record: Record, sketch: Sketch, now: int, *, if_exists: str, limit: int, on_match: str | None
    ) -> tuple[Outcome, list[Match]]:
        """Like `add` if no other document matches; else returns ("duplicate", matches)."""
        target = self._find_target(record, now, if_exists)
        if target.is_ignored:
            return "ignored", []
        neighbours: list[Neighbour] | None = None
        if target.existing is None:
            neighbours = self._neighbours(record, sketch, target, now)
            rows = self.search.best_of(neighbours, limit, now, except_id=target.existing_id)
        else:
            rows = self._matches(record, sketch, target, limit, now)
        if rows:
            if on_match == "touch":
                self.documents.touch(rows[0].id, now, record.expires_at)
            return "duplicate", [row.match for row in rows]
        self._prepare_target(record, target, now)
        if neighbours is None:  # the matches found so far exclude expired documents
            neighbours = self._neighbours(record, sketch, target, now) if self.store.record_matches else []
        return self._store(record, sketch, target, neighbours, now), []

    def replace_codes(self, codes: Iterable[tuple[Record, Sketch, DocumentRow, StoredPart]], now: int) -> tuple[int, set[int]]:
        """Replace codes of documents, with the same result as `add` for each. Requires an index without dismissed pairs.

        Returns (number of codes that match, documents whose clusters may split). Split these before anything else is removed.
        """
        documents, clusters = self.documents, self.clusters
        first_new = documents.last_fingerprint_id() + 1
        changed: list[AddedCode] = []
        with_stored_fingerprint: list[tuple[Record, Sketch, DocumentRow]] = []
        dropped_fingerprints: set[int] = set()
        first_codes: dict[int, int] = {}
        cleared: set[int] = set()
        seeds: set[int] = set()
        changed_keys: dict[int, Key] = {}
        matched = 0
        for record, sketch, document, replaced in codes:
            if self.store.record_matches:
                matched += self.search.has_earlier(sketch, document.group_id, now, document.id, MAX_ID, MAX_ID)
            fingerprint_id = self._fingerprint(sketch, sketch.value or b"", document.group_id)
            changed_keys[document.id] = record.key
            self.documents.update_given(document.id, record)
            if fingerprint_id == replaced.fingerprint_id:
                continue
            documents.parts.replace(replaced.id, fingerprint_id)
            if document.id not in first_codes:
                first_codes[document.id] = documents.parts.first(document.id)
            if replaced.id == first_codes[document.id]:
                self._set_fingerprint(document, fingerprint_id)
            dropped_fingerprints.add(replaced.fingerprint_id)
            if not self.store.record_matches:
                continue
            if document.id not in cleared:
                cleared.add(document.id)
                seeds.update((document.id, *clusters.edges.drop(document.id)))
            if fingerprint_id < first_new:
                with_stored_fingerprint.append((record, sketch, document))
            else:
                changed.append(AddedCode(document.id, fingerprint_id))
        documents.drop([], dropped_fingerprints)
        for record, sketch, document in with_stored_fingerprint:
            target = Target(document)
            clusters.connect(document.id, self._neighbours(record, sketch, target, now), now, is_new=False)
        if changed:
            new = first_new, documents.last_fingerprint_id()
            connect_codes(clusters, changed, new, LATEST, MAX_ID, now)
        if self.store.notes_changes:
            clusters.changes.note_keys(changed_keys.items())
        return matched, seeds

    def remove_part(self, key: Key, part: Part | None, now: int, group: Key | AnyGroup | None) -> bool:
        """Remove one code of a document in the group; the last code with its document. Returns False if it does not exist."""
        self._require_codes(part)
        existing = self.documents.visible(key, now, group)
        if existing is None:
            return False
        codes = self.documents.parts.codes_of(existing.id)
        if part is None and not codes or [code.part for code in codes] == [part]:
            return self.clusters.remove([existing.id], now) == 1
        removed = next((code for code in codes if code.part == part), None)
        if removed is None:
            return False
        remaining = [code for code in codes if code != removed]
        self._remove_code(existing, remaining, removed, now)
        if [code.part for code in remaining] == [None]:  # a single unnamed code needs no rows
            self.documents.parts.drop([existing.id])
        if self.store.notes_changes:
            self.clusters.changes.note_keys([(existing.id, key)])
        return True

    def _find_target(self, record: Record, now: int, if_exists: str, whole: bool = False) -> Target:
        """The document to store a code in; whole: the document's only code. Raises ParameterError, DuplicateKeyError."""
        self._require_codes(record.part)
        existing = self.documents.find(record.key)
        if existing is None or not existing.is_visible(now):
            return Target(existing)
        self._require_group(record, existing)
        codes = [] if whole else self.documents.parts.codes_of(existing.id)
        whole = whole or (not codes and record.part is None)
        replaced = next((code for code in codes if code.part == record.part), None)
        if not whole and replaced is None:
            return Target(existing, codes)
        if if_exists == "error" and whole:
            raise DuplicateKeyError(
                f"key {quoted_key(record.key)} is already in the index: delete it first, or give if_exists='replace' or 'ignore'"
            )
        if if_exists == "error":
            raise DuplicateKeyError(
                f"key {record.key!r} has a code with part={record.part!r} already: give it another part, or "
                "if_exists='replace' or 'ignore'"
            )
        return Target(existing, None if whole else codes, replaced, if_exists == "ignore")

    def _prepare_target(self, record: Record, target: Target, now: int) -> None:
        """Remove what is replaced, which may split clusters, and create the table of codes, before neighbours are queried."""
        if target.existing is not None and target.codes is None:
            self.clusters.remove([target.existing.id], now)
        elif target.existing is not None and target.codes is not None and target.replaced is not None:
            remaining = [code for code in target.codes if code != target.replaced]
            self._remove_code(target.existing, remaining, target.replaced, now)
        if record.part is not None and not self.store.has_parts:
            self.store.add_table("part")

    def _require_codes(self, part: Part | None) -> None:
        if part is not None and self.store.scheme.name != "binarycode":
            raise ParameterError(
                f"part={part!r}: only an index of BinaryCode keeps several codes under a key, and this one is of "
                f"{self.store.scheme!r}: leave part= out, and give each a key of its own"
            )

    def _require_group(self, record: Record, existing: DocumentRow) -> None:
        """Raise DuplicateKeyError if the key belongs to another group: keys are unique in the index."""
        if self.documents.is_in_group(existing, record.group):
            return
        other = self.store.value("SELECT name FROM {index}_group WHERE id = ?", (existing.group_id,))
        other_group, own_group = ("no group" if name is None else f"group {quoted_key(name)}" for name in (other, record.group))
        raise DuplicateKeyError(
            f"key {quoted_key(record.key)} is already in {other_group}, and this document is for {own_group}: "
            "a key is unique in the index, whatever the group. Delete it there first, or prefix keys with the group"
        )

    def _matches(self, record: Record, sketch: Sketch, target: Target, limit: int, now: int) -> list[MatchRow]:
        group_id = self.documents.group_id(record.group)
        return self.search.matches(sketch, group_id, now, QuerySpec(limit=limit), except_id=target.existing_id)

    def _neighbours(self, record: Record, sketch: Sketch, target: Target, now: int) -> list[Neighbour]:
        return self.search.neighbours(sketch, self.documents.group_id(record.group), now, except_id=target.existing_id)

    def _store(self, record: Record, sketch: Sketch, target: Target, neighbours: list[Neighbour], now: int) -> Outcome:
        """Store and connect a record. Returns "replaced" if it replaces a visible document or code."""
        existing = target.existing
        if existing is not None and target.codes is not None:
            return self._store_further(record, sketch, existing, target, neighbours, now)
        group_id = self.documents.group_id(record.group, create=True)
        fingerprint_id = None if sketch.value is None else self._fingerprint(sketch, sketch.value, group_id)
        row = self.documents.row(None, record, group_id, fingerprint_id, sketch.token_count, now)
        document_id = self.documents.insert(row)
        if record.expires_at is not None:
            self.documents.keep_end(document_id, record.expires_at)
        if sketch.exempt_value is not None:
            self.documents.store_exempt_values({document_id: sketch.exempt_value})
        if record.part is not None and fingerprint_id is not None:
            self.documents.parts.add(document_id, record.part, fingerprint_id)
        if self.store.record_matches:
            self.clusters.connect(document_id, neighbours, now)
        evict(self.clusters, document_id, 1, now)
        return "replaced" if existing is not None and existing.is_visible(now) else "added"

    def _store_further(
        self, record: Record, sketch: Sketch, document: DocumentRow, target: Target, neighbours: list[Neighbour], now: int
    ) -> Outcome:
        fingerprint_id = self._fingerprint(sketch, sketch.value or b"", document.group_id)
        codes, replaced = target.codes, target.replaced
        if not codes and document.fingerprint_id is not None:
            self.documents.parts.add(document.id, None, document.fingerprint_id)
        self.documents.parts.add(document.id, record.part, fingerprint_id, None if replaced is None else replaced.id)
        if document.fingerprint_id is None or (codes and replaced == codes[0]):  # None: lost by damage
            self._set_fingerprint(document, fingerprint_id)
        self.clusters.dismissed.separate([document.id])
        if self.store.notes_changes:
            self.clusters.changes.note_keys([(document.id, record.key)])
        self.documents.update_given(document.id, record)
        if self.store.record_matches:
            self.clusters.connect(document.id, neighbours, now, is_new=False)
        return "added" if replaced is None else "replaced"

    def _fingerprint(self, sketch: Sketch, value: bytes, group_id: int) -> int:
        value_hash = signed_hash(value) if sketch.value_hash is None else sketch.value_hash
        number = self.documents.fingerprint_id(group_id, value, value_hash)
        if number is None:
            number = self.documents.add_fingerprint(group_id, value, value_hash)
            keys = None if sketch.keys is None else group_id.to_bytes(8, "little", signed=True) + sketch.keys
            self.store.table.index_rows(number, number, keys)
        return number

    def _remove_code(self, document: DocumentRow, remaining: list[StoredPart], removed: StoredPart, now: int) -> None:
        """Delete a code and all recorded matches of its document; the caller finds matches again from the other codes."""
        seeds = [document.id, *self.clusters.edges.drop(document.id)]
        self.documents.parts.remove(removed.id)
        self._set_fingerprint(document, remaining[0].fingerprint_id if remaining else None)
        self.documents.drop([], {removed.fingerprint_id})
        self.clusters.split(seeds, now)

    def _set_fingerprint(self, document: DocumentRow, fingerprint_id: int | None) -> None:
        self.documents.update(document.id, {"fingerprint_id": fingerprint_id})
