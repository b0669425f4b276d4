"""Adding documents: one at a time with an answer, or many in sorted batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count, repeat
from typing import Any

import numpy as np

from .. import limits
from ..errors import DuplicateKeyError, NearDupError
from ..native import signed_hashes
from ..values import Key, Match
from .clusters import ALONE, Clusters, Links
from .documents import Documents, Found, Record
from .search import Neighbour, Search
from .seen import HashedIds, SeenHashes, Segment, Unconnected
from .state import Sketch, Sketches, Store


class Batch:
    """Records as columns: keys and contents (texts or codes, until they are fingerprinted), and whole records where there is more
    to them."""

    def __init__(self, first: int = 0, epoch: int = -1) -> None:
        self.first = first
        """Place of the first record among all that are read."""
        self.epoch = epoch
        """Of the settings by which the records were checked."""
        self.skipped: list[int] = []
        """Places of records that were left out, ascending."""
        self.keys: list[Key] = []
        self.contents: list[Any] = []
        self.more: dict[int, Record] = {}
        self.if_exists: dict[int, str] = {}
        """What a record says of its own."""
        self.size = 0
        """Characters of the texts that were appended, or bytes of the codes."""

    def __len__(self) -> int:
        return len(self.keys)

    def append(self, key: Key, content: Any) -> None:
        """Add a record that has no more."""
        self.keys.append(key)
        self.contents.append(content)
        self.size += len(content)

    def record(self, i: int) -> Record:
        """The record at place i."""
        return self.more.get(i) or Record(self.keys[i], None, None, None, None)

    def number(self, i: int) -> int:
        """The place, among all that are read, of the record at place i of the batch."""
        number = self.first + i
        for skipped in self.skipped:
            number += skipped <= number
        return number

    def some(self, places: Sequence[int]) -> Batch:
        """The records at some places."""
        chosen = Batch()
        chosen.keys = [self.keys[i] for i in places]
        chosen.more = {i: self.more[place] for i, place in enumerate(places) if place in self.more}
        chosen.if_exists = {i: self.if_exists[place] for i, place in enumerate(places) if place in self.if_exists}
        return chosen


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
        self.clusters.connect(document_id, neighbours, now)
        replaced = found is not None and found.is_visible(now)
        return "replaced" if replaced else "added", [row.match for row in matches]

    def add_if_new(
        self, record: Record, sketch: Sketch, now: int, *, if_exists: str, limit: int, on_match: str | None
    ) -> tuple[str, list[Match]]:
        """Store a document if nothing matches it. Returns ("added" | "replaced" | "ignored" | "matched", the matches)."""
        found, stays = self._existing(record, now, if_exists)
        if stays:
            return "ignored", []
        group_id = self.documents.group_id(record.group)
        neighbours: list[Neighbour] = []
        if found is None:
            neighbours = self.search.neighbours(sketch, group_id, now)
            rows = self.search.best_of(neighbours, limit, now)
        else:
            rows = self.search.matches(sketch, group_id, now, limit=limit, except_id=found.id)
        if rows:
            if on_match == "touch":
                self.documents.touch(rows[0].id, now, record.expires_at)
            return "matched", [row.match for row in rows]
        if found is not None:
            self.clusters.remove([found.id], now)
            neighbours = self.search.neighbours(sketch, group_id, now)
        document_id = self._insert(record, sketch, self.documents.group_id(record.group, create=True), now)
        if self.store.record_matches:  # with documents that have expired
            self.clusters.connect(document_id, neighbours, now)
        replaced = found is not None and found.is_visible(now)
        return "replaced" if replaced else "added", []

    def _existing(self, record: Record, now: int, if_exists: str) -> tuple[Found | None, bool]:
        """The document that has the key already, and whether it stays. An expired one never does."""
        found = self.documents.find(record.key)
        if found is None or not found.is_visible(now):
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

    def add_batch(self, batch: Batch, sketches: Sketches, now: int) -> None:
        """Store documents whose keys are new and differ from each other; `flush` files and connects them, many batches at once.

        Until then their fingerprints are in no candidate table, so that nothing else may be asked or written before."""
        segment = self.store.segment
        self._require_stored(segment)
        group_ids = self._group_ids(batch)
        fingerprint_ids = self._add_fingerprints(group_ids, sketches)
        tokens = sketches.token_counts if sketches.token_counts is not None else [None] * len(batch)
        first_id = self.documents.next_id()
        segment.following = first_id + len(batch)
        self.db.undo.unfinished = True
        plain = not any(
            any(value is not None for value in (one.text, one.metadata, one.expires_at)) for one in batch.more.values()
        )
        if not plain or not self.documents.insert_plain(first_id, batch.keys, group_ids, fingerprint_ids, tokens, now):
            records = map(batch.record, range(len(batch)))
            rows = map(self.documents.row, count(first_id), records, group_ids, fingerprint_ids, tokens, repeat(now))
            self.db.execute_many(self.store.sql(Documents.INSERT), rows)
        if self.store.record_matches:
            ends = {i: one.expires_at for i, one in batch.more.items() if one.expires_at is not None}
            for i, fingerprint_id in enumerate(fingerprint_ids):
                if fingerprint_id is not None:
                    self.store.segment.unconnected.append((first_id + i, fingerprint_id, i not in ends or ends[i] > now))

    def _group_ids(self, batch: Batch) -> list[int]:
        """The number of each record's group."""
        group_ids = [0] * len(batch)
        numbers: dict[Key, int] = {}
        for i, one in batch.more.items():
            group = one.group
            if group is not None:
                if group not in numbers:
                    numbers[group] = self.documents.group_id(group, create=True)
                group_ids[i] = numbers[group]
        return group_ids

    def _add_fingerprints(self, group_ids: Sequence[int], sketches: Sketches) -> list[int | None]:
        """Fingerprint id of each document; new values are written."""
        found: list[int | None] = [None] * len(group_ids)
        if len(set(group_ids)) == 1:
            self._add_group(group_ids[0], sketches, range(len(group_ids)), found)
            return found
        members: dict[int, list[int]] = {}
        for i, group_id in enumerate(group_ids):
            members.setdefault(group_id, []).append(i)
        for group_id, places in members.items():
            self._add_group(group_id, sketches.some(places), places, found)
        return found

    def _add_group(self, group_id: int, sketches: Sketches, places: Sequence[int], found: list[int | None]) -> None:
        """The fingerprints of one group's sketches, into their places of `found`."""
        values, hashes, keys, which = _distinct(sketches)
        first = self.documents.last_fingerprint_id() + 1
        ids = np.zeros(len(values), np.int64)
        known = self._known(group_id, hashes, first - 1, large=keys is not None)
        if known:
            for i in np.flatnonzero(np.isin(hashes, signed_hashes(list(known)))).tolist():
                ids[i] = known.get(values[i], 0)
        fresh = np.flatnonzero(ids == 0)
        if len(fresh):
            ids[fresh] = np.arange(first, first + len(fresh))
            last = int(ids[fresh[-1]])
            if len(fresh) < len(values):
                values, hashes = [values[i] for i in fresh.tolist()], hashes[fresh]
                keys = None if keys is None else keys[fresh]
            self.documents.insert_fingerprints(first, group_id, values, hashes)
            if self.store.segment.hashed is not None:
                self.store.segment.hashed.add(hashes, ids[fresh])
            self.store.segment.unfiled = (self.store.segment.unfiled[0] if self.store.segment.unfiled else first, last)
            if keys is None or self.store.segment.unfiled_keys is None:
                self.store.segment.unfiled_keys = None
            else:
                self.store.segment.unfiled_keys.append(np.insert(keys, 0, group_id, axis=1))
        numbers = ids.tolist()
        for place, number in zip(places, which.tolist(), strict=True):
            if number >= 0:
                found[place] = numbers[number]

    def _known(self, group_id: int, hashes: Any, stored: int, *, large: bool) -> dict[bytes, int]:
        """{value: id} of the stored fingerprints of a group that have one of the hashes; `stored`: at most so many there are;
        large: their values are such that they should not be read for the sake of anything else."""
        suspects = self._suspects(hashes, stored, large)
        if not len(suspects):
            return {}
        if self.store.segment.hashed is None:
            return self.documents.fingerprint_ids(group_id, suspects)
        return self.documents.values_of(group_id, self.store.segment.hashed.find(suspects))

    def _suspects(self, hashes: Any, stored: int, large: bool) -> Any:
        """Those of the hashes that may be among the stored ones; all of them until the batches of a transaction are many enough
        to pay for reading all stored hashes once."""
        if self.store.segment.seen is not None:
            suspects = hashes[self.store.segment.seen.add(hashes)]
            self.store.segment.looked_up += len(hashes)
            if stored > limits.ASIDE_MAX:
                self._bring_index_back()
            elif self.store.segment.hashed is None and self.store.segment.looked_up >= stored // 2 and not large:
                self._set_index_aside()
            return suspects
        self.store.segment.looked_up += len(hashes)
        if limits.SEEN_FROM <= self.store.segment.looked_up >= stored // 4:
            self.store.segment.seen = SeenHashes()
            for page, _ in self.documents.value_hashes():
                self.store.segment.seen.add(page)
            self.store.segment.seen.add(hashes)
        return hashes if stored else hashes[:0]

    def _set_index_aside(self) -> None:
        """Do without the index over the hashes of values until `end_batches`: its rows are in no order, each changes a page
        somewhere, and to build it anew in one go takes a third of the time."""
        self.store.segment.value_index = self.documents.drop_value_index()
        if self.store.segment.value_index is not None:
            self.store.segment.hashed = HashedIds()
            for page, ids in self.documents.value_hashes():
                self.store.segment.hashed.add(page, ids)

    @property
    def is_full(self) -> bool:
        """Whether so much is waiting for `flush` that it should not become more."""
        first, last = self.store.segment.unfiled or (0, -1)
        return last - first + 1 >= self.documents.filed_at_once or len(self.store.segment.unconnected) >= limits.UNCONNECTED_MAX

    def flush(self, now: int) -> int:
        """File what `add_batch` has stored, and connect it as adding one by one would. Returns how many of the documents have a
        match among the earlier ones."""
        segment = self.store.segment
        self._require_stored(segment)
        unfiled, keys, unconnected = segment.unfiled, segment.unfiled_keys, segment.unconnected
        segment.unfiled, segment.unfiled_keys, segment.unconnected = None, [], []
        if unfiled is not None and keys:
            self.documents.file_keys(unfiled[0], np.concatenate(keys))
        elif unfiled is not None:
            self.documents.file(*unfiled)
        matched, unsure = self._connect(unfiled, unconnected, now) if unconnected else (set(), set())
        self.db.undo.unfinished = False
        return len(matched) + sum(self._has_match(document_id, now) for document_id in unsure)

    def _has_match(self, document_id: int, now: int) -> bool:
        """Whether a document matches a visible one before it."""
        sql = self.store.sql("SELECT fingerprint_id, group_id FROM {index}_document WHERE id = ?")
        fingerprint_id, group_id = self.db.rows(sql, (document_id,))[0]
        sketch = self.search.stored_sketch(document_id, fingerprint_id)
        neighbours = self.search.neighbours(sketch, group_id, now, document_id)
        return bool(self.search.best_of(neighbours, 1, now, document_id))

    def end_batches(self) -> None:
        """Others may write from now on."""
        self._bring_index_back()
        self.store.segment = Segment()

    def _bring_index_back(self) -> None:
        segment = self.store.segment
        index, segment.hashed, segment.value_index = segment.value_index, None, None
        if index is not None:
            self.db.execute(index)

    def _require_stored(self, segment: Segment) -> None:
        """NearDupError where SQL of the caller's has taken back what the segment has stored."""
        if segment.following is not None and segment.following != self.documents.next_id():
            raise NearDupError(
                "documents that add_many had stored were rolled back, or others stored, by SQL on the connection while it was "
                "under way: nothing of it is stored; use the methods of the index inside its records, or a transaction around it"
            )

    def _connect(self, new: tuple[int, int] | None, documents: Sequence[Unconnected], now: int) -> tuple[set[int], set[int]]:
        """Edges and labels for documents that are in no cluster yet, in the order of their ids, all of them that have one of
        the fingerprints `new`, the first and the last one. Returns those that match an earlier visible document, and those of
        which only a query tells, since what they were found to match has expired or is later."""
        links = Links(self.clusters, now)
        matched: set[int] = set()
        met: set[int] = set()
        for document_id, other_id in links.fingerprints(new) if new else ():
            met.add(document_id)
            if other_id is not None and other_id < document_id:
                matched.add(document_id)
        newest: dict[int, int] = {}  # of each fingerprint the newest document so far
        hidden: set[int] = set()  # fingerprints of which all documents so far have expired
        older: list[tuple[int, int]] = []
        for document_id, fingerprint_id, visible in documents:
            earlier = newest.get(fingerprint_id)
            if earlier is not None:
                links.copy(document_id, earlier, ALONE + earlier)
                (met if fingerprint_id in hidden else matched).add(document_id)
            elif new is None or fingerprint_id < new[0]:
                older.append((document_id, fingerprint_id))
            newest[fingerprint_id] = document_id
            if visible:
                hidden.discard(fingerprint_id)
            elif earlier is None:
                hidden.add(fingerprint_id)
        for document_id, other_id, label, seen in self.documents.older_copies(older, now):
            links.copy(document_id, other_id, label)
            (matched if seen else met).add(document_id)
        links.write()
        return matched, met - matched

    # ---- all over again ----------------------------------------------------------------------------------------------

    def refile_all(self, now: int, step: Callable[[int], Any]) -> None:
        """Rows, edges and clusters of the whole index from its values; the candidate table is empty. `step(done)` reports."""
        self.db.execute(self.store.sql("UPDATE {index}_fingerprint SET crowd = 0 WHERE crowd <> 0"))
        self.db.execute(self.store.sql("DELETE FROM {index}_match"))
        self.db.execute(self.store.sql("UPDATE {index}_document SET cluster_id = NULL WHERE cluster_id IS NOT NULL"))
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


def _distinct(sketches: Sketches) -> tuple[Sequence[bytes], Any, Any, Any]:
    """The different values in the order of their first ones, with hashes and keys (None where they are not at hand), and for each
    sketch the place of its value among them, -1 = it has none."""
    values: Sequence[Any] = sketches.values
    present = np.arange(len(values))
    if None in values:
        present = np.flatnonzero([value is not None for value in values])
        values = [value for value in values if value is not None]
    hashes = signed_hashes(values) if sketches.hashes is None else sketches.hashes[present]
    keys = None if sketches.hashes is None or sketches.keys is None else sketches.keys[present]
    leaders = _leaders(values, hashes)
    different = np.flatnonzero(leaders == np.arange(len(values)))
    which = np.full(len(sketches.values), -1)
    which[present] = np.searchsorted(different, leaders)
    if len(different) < len(values):
        values, hashes = [values[i] for i in different.tolist()], hashes[different]
        keys = None if keys is None else keys[different]
    return values, hashes, keys, which


def _leaders(values: Sequence[bytes], hashes: Any) -> Any:
    """For each value the place of the first one that equals it, int64[n]. Only values of one hash are compared: hashing them
    again for a dictionary takes longer than writing them where they are long."""
    _, first, group = np.unique(hashes, return_index=True, return_inverse=True)
    leaders = first[group]
    repeated = np.flatnonzero(leaders != np.arange(len(values)))
    if all(values[i] == values[j] for i, j in zip(repeated.tolist(), leaders[repeated].tolist(), strict=True)):
        return leaders
    places: dict[bytes, int] = {}
    return np.array([places.setdefault(value, i) for i, value in enumerate(values)], np.int64)
