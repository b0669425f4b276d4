"""Adding one document, or a further code of one, with its matches as the answer, and removing a code.

A further code is added to its key's document, or replaces the code that has its part. After a replacement all recorded matches of
the document are found again, since they do not say which code they belong to.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ...errors import DuplicateKeyError, ParameterError
from ...native import signed_hash
from ...parameters import quoted_key
from ...values import AnyGroup, Key, Match, Part, Record
from ..asking.documents import DocumentRow, Documents
from ..asking.parts import Parts, StoredPart
from ..asking.query_spec import QuerySpec
from ..asking.search import MatchRow, Neighbour, Search
from ..layout.candidates import MAX_ID
from ..layout.sketches import Sketch
from ..layout.state import Store
from ..linking.clusters import Clusters
from ..linking.codes import LATEST, AddedCode, connect_codes
from .outcomes import Outcome
from .window import evict


class Place(NamedTuple):
    """Where a code goes."""

    existing: DocumentRow | None = None
    """The document that has the key; without `codes` it goes."""
    codes: list[StoredPart] | None = None
    """Its codes, where it stays."""
    replaced: StoredPart | None = None
    """The one of them that goes."""
    stays: bool = False
    """Whether everything is left as it is."""

    @property
    def existing_id(self) -> int:
        """The id of that document, 0 where there is none."""
        return 0 if self.existing is None else self.existing.id


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
        """Store a document, or a further code of one. Returns ("added" | "replaced" | "ignored", its matches among the earlier).

        whole: the record is all of the document, not one of several codes."""
        place = self._place(record, now, if_exists, whole)
        if place.stays:
            return "ignored", []
        self._make_room(record, place, now)
        if not self.store.record_matches:
            return self._store(record, sketch, place, [], now), []
        neighbours = self._neighbours(record, sketch, place, now)
        if place.codes is not None and self.store.dismisses:
            rows = self._matches(record, sketch, place, limit, now)
        else:
            rows = self._best_of(neighbours, place, limit, now)
        return self._store(record, sketch, place, neighbours, now), [row.match for row in rows]

    def add_if_new(
        self, record: Record, sketch: Sketch, now: int, *, if_exists: str, limit: int, on_match: str | None
    ) -> tuple[Outcome, list[Match]]:
        """Store a document, or a further code, if no other document matches it. Returns ("added" | "replaced" | "ignored" |
        "duplicate", the matches)."""
        place = self._place(record, now, if_exists)
        if place.stays:
            return "ignored", []
        neighbours: list[Neighbour] | None = None
        if place.existing is None:
            neighbours = self._neighbours(record, sketch, place, now)
            rows = self._best_of(neighbours, place, limit, now)
        else:
            rows = self._matches(record, sketch, place, limit, now)
        if rows:
            if on_match == "touch":
                self.documents.touch(rows[0].id, now, record.expires_at)
            return "duplicate", [row.match for row in rows]
        self._make_room(record, place, now)
        if neighbours is None:  # expired documents may match
            neighbours = self._neighbours(record, sketch, place, now) if self.store.record_matches else []
        return self._store(record, sketch, place, neighbours, now), []

    def replace_codes(self, codes: Iterable[tuple[Record, Sketch, DocumentRow, StoredPart]], now: int) -> tuple[int, set[int]]:
        """Give parts of documents other codes, with the outcome of `add` one by one, where no pair is dismissed.

        Returns how many match, and the documents that recorded matches were taken from: the caller mends their clusters, many at
        once, before anything else removes a document or a code."""
        documents, clusters = self.documents, self.clusters
        first_new = documents.last_fingerprint_id() + 1
        changed: list[AddedCode] = []
        known: list[tuple[Record, Sketch, DocumentRow]] = []
        gone: set[int] = set()
        firsts: dict[int, int] = {}
        dropped: set[int] = set()
        seeds: set[int] = set()
        noted: dict[int, Key] = {}
        matched = 0
        for record, sketch, document, replaced in codes:
            if self.store.record_matches:
                matched += self.search.has_earlier(sketch, document.group_id, now, document.id, MAX_ID, MAX_ID)
            fingerprint_id = self._fingerprint(sketch, sketch.value or b"", document.group_id)
            noted[document.id] = record.key
            self._update(document.id, record)
            if fingerprint_id == replaced.fingerprint_id:
                continue
            documents.parts.replace(replaced.id, fingerprint_id)
            if document.id not in firsts:
                firsts[document.id] = documents.parts.first(document.id)
            if replaced.id == firsts[document.id]:
                self._point(document, fingerprint_id)
            gone.add(replaced.fingerprint_id)
            if not self.store.record_matches:
                continue
            if document.id not in dropped:
                dropped.add(document.id)
                seeds.update((document.id, *clusters.edges.adjacent(document.id)))
                clusters.edges.drop(document.id)
            if fingerprint_id < first_new:
                known.append((record, sketch, document))
            else:
                changed.append(AddedCode(document.id, fingerprint_id))
        documents.drop([], gone)
        for record, sketch, document in known:
            place = Place(document)
            clusters.connect(document.id, self._neighbours(record, sketch, place, now), now, is_new=False)
        if changed:
            new = first_new, documents.last_fingerprint_id()
            connect_codes(clusters, changed, new, LATEST, MAX_ID, now)
        if self.store.notes_changes:
            clusters.changes.note_codes(noted.items())
        return matched, seeds

    def remove_part(self, key: Key, part: Part | None, now: int, group: Key | AnyGroup | None) -> bool:
        """Take one code of a document of the group out, and the document with its last one; False if there is no such code."""
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
        left = [code for code in codes if code != removed]
        self._remove_code(existing, left, removed, now)
        if [code.part for code in left] == [None]:  # as if it never had another
            self.documents.parts.drop([existing.id])
        if self.store.notes_changes:
            self.clusters.changes.note_codes([(existing.id, key)])
        return True

    def _place(self, record: Record, now: int, if_exists: str, whole: bool = False) -> Place:
        """Where a code goes; whole: it is all that its document is to have. Raises ParameterError, DuplicateKeyError."""
        self._require_codes(record.part)
        existing = self.documents.find(record.key)
        if existing is None or not existing.is_visible(now):
            return Place(existing)
        self._require_group(record, existing)
        codes = [] if whole else self.documents.parts.codes_of(existing.id)
        whole = whole or (not codes and record.part is None)
        replaced = next((code for code in codes if code.part == record.part), None)
        if not whole and replaced is None:
            return Place(existing, codes)
        if if_exists == "error" and whole:
            raise DuplicateKeyError(
                f"key {quoted_key(record.key)} is already in the index: delete it first, or give if_exists='replace' or 'ignore'"
            )
        if if_exists == "error":
            raise DuplicateKeyError(
                f"key {record.key!r} has a code with part={record.part!r} already: give it another part, or "
                "if_exists='replace' or 'ignore'"
            )
        return Place(existing, None if whole else codes, replaced, if_exists == "ignore")

    def _make_room(self, record: Record, place: Place, now: int) -> None:
        """Remove the document that goes, and have the table that the code needs: what connects documents looks at it."""
        if place.existing is not None and place.codes is None:
            self.clusters.remove([place.existing.id], now)
        if record.part is not None and not self.store.has_parts:
            self.store.add_table(Parts.TABLE)

    def _require_codes(self, part: Part | None) -> None:
        """ParameterError where documents cannot have several codes."""
        if part is not None and self.store.scheme.name != "binarycode":
            raise ParameterError(
                f"part={part!r}: only an index of BinaryCode keeps several codes under a key, and this one is of "
                f"{self.store.scheme!r}: leave part= out, and give each a key of its own"
            )

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

    def _matches(self, record: Record, sketch: Sketch, place: Place, limit: int, now: int) -> list[MatchRow]:
        """The matches among the documents of other keys."""
        group_id = self.documents.group_id(record.group)
        return self.search.matches(sketch, group_id, now, QuerySpec(limit=limit), except_id=place.existing_id)

    def _neighbours(self, record: Record, sketch: Sketch, place: Place, now: int) -> list[Neighbour]:
        """The documents of other keys that a code is connected to."""
        return self.search.neighbours(sketch, self.documents.group_id(record.group), now, except_id=place.existing_id)

    def _best_of(self, neighbours: list[Neighbour], place: Place, limit: int, now: int) -> list[MatchRow]:
        """The matches among the documents of these fingerprints."""
        if self.store.has_parts:
            return self.search.best_of_parts(neighbours, limit, now, place.existing_id)
        return self.search.best_of(neighbours, limit, now)

    def _store(self, record: Record, sketch: Sketch, place: Place, neighbours: list[Neighbour], now: int) -> Outcome:
        """Store what is given where it goes, and connect it. Returns "replaced" where it takes the place of what was visible."""
        existing = place.existing
        if existing is not None and place.codes is not None:
            return self._store_further(record, sketch, existing, place, neighbours, now)
        group_id = self.documents.group_id(record.group, create=True)
        fingerprint_id = None if sketch.value is None else self._fingerprint(sketch, sketch.value, group_id)
        row = self.documents.row(None, record, group_id, fingerprint_id, sketch.token_count, now)
        document_id = self.documents.insert(row)
        if record.expires_at is not None:
            self.documents.keep_end(document_id, record.expires_at)
        if sketch.aside is not None:
            self.documents.store_exempt_values({document_id: sketch.aside})
        if record.part is not None and fingerprint_id is not None:
            self.documents.parts.add(document_id, record.part, fingerprint_id)
        if self.store.record_matches:
            self.clusters.connect(document_id, neighbours, now)
        evict(self.store, self.clusters, document_id, 1, now)
        return "replaced" if existing is not None and existing.is_visible(now) else "added"

    def _store_further(
        self, record: Record, sketch: Sketch, document: DocumentRow, place: Place, neighbours: list[Neighbour], now: int
    ) -> Outcome:
        """Store one of several codes of a document. Returns "added" | "replaced"."""
        fingerprint_id = self._fingerprint(sketch, sketch.value or b"", document.group_id)
        if place.replaced is not None:
            self._replace(document, place.codes or [], place.replaced, fingerprint_id, now)
        else:
            if not place.codes and document.fingerprint_id is not None:
                self.documents.parts.add(document.id, None, document.fingerprint_id)
            self.documents.parts.add(document.id, record.part, fingerprint_id)
            if document.fingerprint_id is None:  # it was lost by damage
                self._point(document, fingerprint_id)
        self.clusters.dismissed.separate([document.id])
        if self.store.notes_changes:
            self.clusters.changes.note_codes([(document.id, record.key)])
        self._update(document.id, record)
        if self.store.record_matches:
            if place.replaced is not None:  # clusters may have been split
                neighbours = self._neighbours(record, sketch, place, now)
            self.clusters.connect(document.id, neighbours, now, is_new=False)
        return "added" if place.replaced is None else "replaced"

    def _fingerprint(self, sketch: Sketch, value: bytes, group_id: int) -> int:
        value_hash = signed_hash(value) if sketch.value_hash is None else sketch.value_hash
        number = self.documents.fingerprint_id(group_id, value, value_hash)
        if number is None:
            number = self.documents.add_fingerprint(group_id, value, value_hash)
            keys = None if sketch.keys is None else group_id.to_bytes(8, "little", signed=True) + sketch.keys
            self.store.table.index_rows(number, number, keys)
        return number

    def _update(self, document_id: int, record: Record) -> None:
        """What a further code says of its document."""
        given = {"metadata": record.metadata, "expires_at": record.expires_at}
        changes = {name: value for name, value in given.items() if value is not None}
        if changes:
            self.documents.update(document_id, changes)

    def _replace(
        self, document: DocumentRow, codes: list[StoredPart], replaced: StoredPart, fingerprint_id: int, now: int
    ) -> None:
        """Give a part of a document another code. The cluster that the old one held together is mended before the new one is
        there, which may match documents of other clusters."""
        if fingerprint_id == replaced.fingerprint_id:
            return
        self._remove_code(document, [code for code in codes if code != replaced], replaced, now)
        self.documents.parts.add(document.id, replaced.part, fingerprint_id, replaced.id)
        self._point(document, fingerprint_id if replaced == codes[0] else codes[0].fingerprint_id)

    def _remove_code(self, document: DocumentRow, left: list[StoredPart], removed: StoredPart, now: int) -> None:
        """Take a code of a document out, with all recorded matches of the document, which are found again by the codes left."""
        label = self.documents.label(document.id)
        seeds = {document.id, *self.clusters.edges.adjacent(document.id)}
        self.clusters.edges.drop(document.id)
        self.documents.parts.remove(removed.id)
        self._point(document, left[0].fingerprint_id if left else None)
        self.documents.drop([], {removed.fingerprint_id})
        if label is not None:
            self.clusters.split(label, seeds, now)

    def _point(self, document: DocumentRow, fingerprint_id: int | None) -> None:
        """Say which fingerprint is that of a document's first code."""
        self.documents.update(document.id, {"fingerprint_id": fingerprint_id})
