"""Adding documents: one at a time with an answer, or many in sorted batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count, repeat
from typing import Any

from ..errors import DuplicateKeyError
from ..native import signed_hashes
from ..values import Match
from .clusters import Clusters, Links
from .documents import Documents, Found, Record
from .search import Neighbour, Search
from .seen import SeenHashes
from .state import Sketch, Store

Unconnected = tuple[int, int, bool]
"""Document, its fingerprint, and whether it is visible."""

_NOTHING = (None, None)

SEEN_FROM = 50_000
"""Values looked up in the file before `SeenHashes` pays."""

UNCONNECTED_MAX = 500_000
"""Documents that wait to be connected: what bounds their memory where most are equal copies, which have no rows."""


class Writer:
    """Writes documents with their fingerprints, table rows and edges; runs inside the store's transactions."""

    def __init__(self, store: Store, documents: Documents, search: Search, clusters: Clusters) -> None:
        self.store = store
        self.db = store.db
        self.documents = documents
        self.search = search
        self.clusters = clusters
        self._unfiled: tuple[int, int] | None = None
        self._unconnected: list[Unconnected] = []
        self._seen: SeenHashes | None = None
        self._looked_up = 0

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
            self.clusters.settle_crowds([document_id])
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
        document_id = self._insert(record, sketch, self.documents.group_id(record.group, create=True), now)
        self.clusters.settle_crowds([document_id])
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

    def add_batch(self, records: Sequence[Record], sketches: Sequence[Sketch], now: int) -> None:
        """Store documents whose keys are new and differ from each other; `flush` files and connects them, many batches at once.

        Until then their fingerprints are in no candidate table, so that nothing else may be asked or written before."""
        groups = dict.fromkeys(record.group for record in records)
        numbers = {group: self.documents.group_id(group, create=True) for group in groups}
        group_ids = [numbers[record.group] for record in records]
        fingerprint_ids = self._add_fingerprints(group_ids, sketches)
        tokens = [sketch.token_count for sketch in sketches]
        first_id = self.documents.next_id()
        ids = range(first_id, first_id + len(records))
        plain = all(record[1:3] == _NOTHING and record.expires_at is None for record in records)
        keys = [record.key for record in records]
        if not plain or not self.documents.insert_plain(first_id, keys, group_ids, fingerprint_ids, tokens, now):
            rows = map(self.documents.row, ids, records, group_ids, fingerprint_ids, tokens, repeat(now))
            self.db.execute_many(self.store.sql(Documents.INSERT), rows)
        if self.store.record_matches:
            for i, fingerprint_id in enumerate(fingerprint_ids):
                if fingerprint_id is not None:
                    expires_at = records[i].expires_at
                    self._unconnected.append((first_id + i, fingerprint_id, expires_at is None or expires_at > now))

    def _add_fingerprints(self, group_ids: Sequence[int], sketches: Sequence[Sketch]) -> list[int | None]:
        """Fingerprint id of each document; new values are written."""
        found: list[int | None] = [None] * len(sketches)
        if len(set(group_ids)) == 1:
            self._add_group(group_ids[0], [sketch.value for sketch in sketches], range(len(sketches)), found)
            return found
        members: dict[int, list[int]] = {}
        for i, group_id in enumerate(group_ids):
            members.setdefault(group_id, []).append(i)
        for group_id, places in members.items():
            self._add_group(group_id, [sketches[i].value for i in places], places, found)
        return found

    def _add_group(self, group_id: int, values: Sequence[bytes | None], places: Sequence[int], found: list[int | None]) -> None:
        """The fingerprints of one group's values, into their places of `found`."""
        distinct = [value for value in dict.fromkeys(values) if value is not None]
        last = self.documents.last_fingerprint_id()
        hashes = signed_hashes(distinct)
        suspects = self._suspects(hashes, last)
        known = self.documents.fingerprint_ids(group_id, suspects) if len(suspects) else {}
        if known:
            fresh = [i for i, value in enumerate(distinct) if value not in known]
            distinct, hashes = [distinct[i] for i in fresh], hashes[fresh]
        if distinct:
            self.documents.insert_fingerprints(last + 1, group_id, distinct, hashes)
            self._unfiled = (self._unfiled[0] if self._unfiled else last + 1, last + len(distinct))
            known.update(zip(distinct, count(last + 1), strict=False))
        for place, value in zip(places, values, strict=True):
            if value is not None:
                found[place] = known[value]

    def _suspects(self, hashes: Any, stored: int) -> Any:
        """Those of the hashes that may be among the stored ones, at most so many; all of them until the batches of a transaction
        are many enough to pay for reading all stored hashes once."""
        if self._seen is not None:
            return hashes[self._seen.add(hashes)]
        self._looked_up += len(hashes)
        if SEEN_FROM <= self._looked_up >= stored // 4:
            self._seen = SeenHashes()
            for page in self.documents.value_hashes():
                self._seen.add(page)
            self._seen.add(hashes)
        return hashes if stored else hashes[:0]

    @property
    def is_full(self) -> bool:
        """Whether so much is waiting for `flush` that it should not become more."""
        first, last = self._unfiled or (0, -1)
        return last - first + 1 >= self.documents.filed_at_once or len(self._unconnected) >= UNCONNECTED_MAX

    def flush(self, now: int) -> int:
        """File what `add_batch` has stored, and connect it as adding one by one would. Returns how many of the documents have a
        match among the earlier ones."""
        unfiled, unconnected = self._unfiled, self._unconnected
        self._unfiled, self._unconnected = None, []
        if unfiled is not None:
            self.documents.file(*unfiled)
        return self._connect(unfiled, unconnected, now) if unconnected else 0

    def forget(self) -> None:
        """What waits for `flush` was rolled back."""
        self._unfiled, self._unconnected = None, []
        self.end_batches()

    def end_batches(self) -> None:
        """Others may write from now on."""
        self._seen, self._looked_up = None, 0

    def _connect(self, new: tuple[int, int] | None, documents: Sequence[Unconnected], now: int) -> int:
        """Edges and labels for documents that are clusters of their own, in the order of their ids, all of them that have one of
        the fingerprints `new`, the first and the last one. Returns how many match an earlier document."""
        links = Links(self.clusters, now)
        matched = {document_id for document_id, other_id in links.fingerprints(new) if other_id < document_id} if new else set()
        newest: dict[int, int] = {}  # of each fingerprint the newest visible document so far
        first: dict[int, int] = {}
        alone: list[Unconnected] = []
        for one in documents:
            document_id, fingerprint_id, visible = one
            earlier = newest.get(fingerprint_id)
            if earlier is not None:
                matched.add(document_id)
                if visible:
                    links.copy(document_id, earlier, earlier)
            elif new is None or fingerprint_id < new[0] or fingerprint_id in first or not visible:
                alone.append(one)
            first.setdefault(fingerprint_id, document_id)
            if visible:
                newest[fingerprint_id] = document_id
        for one, found in zip(alone, self.documents.older_copies(alone, now), strict=True):
            document_id, fingerprint_id, visible = one
            neighbours: list[Neighbour] = []
            if found is not None:
                if visible:
                    links.copy(document_id, *found)
            else:
                sketch = self.search.stored_sketch(document_id, fingerprint_id)
                group_id = self.documents.group_of(fingerprint_id)
                neighbours = self.search.neighbours(sketch, group_id, now, document_id)
                if visible and (new is None or fingerprint_id < new[0]):
                    links.found(document_id, document_id, neighbours)
            if found is not None or neighbours:
                matched.add(document_id)
        links.write()
        self.clusters.settle_crowds(one[0] for one in alone if one[2])
        return len(matched)

    # ---- all over again ----------------------------------------------------------------------------------------------

    def refile_all(self, now: int, step: Callable[[int], Any]) -> None:
        """Rows, edges and clusters of the whole index from its values; the candidate table is empty. `step(done)` reports."""
        self.db.execute(self.store.sql("UPDATE {index}_fingerprint SET crowd = 0 WHERE crowd <> 0"))
        self.db.execute(self.store.sql("DELETE FROM {index}_match"))
        cluster = "id" if self.store.record_matches else "NULL"
        self.db.execute(self.store.sql(f"UPDATE {{index}}_document SET cluster_id = {cluster}"))
        done = 0
        of_range = self.store.sql(
            """SELECT id, fingerprint_id, expires_at IS NULL OR expires_at > :now FROM {index}_document
               WHERE fingerprint_id BETWEEN :first_id AND :last_id ORDER BY id"""
        )
        for ids in self.documents.fingerprint_ranges(self.documents.filed_at_once):
            self.documents.file(*ids)
            documents = self.db.rows(of_range, {"first_id": ids[0], "last_id": ids[1], "now": now})
            if self.store.record_matches:
                self._connect(ids, documents, now)
            done += len(documents)
            step(done)


def _visible(found: Found, now: int) -> bool:
    return found.expires_at is None or found.expires_at > now
