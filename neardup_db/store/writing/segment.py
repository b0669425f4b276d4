"""A bulk load: many documents stored first, then filed and connected at once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count, repeat
from typing import Any

from ... import limits
from ...arrays import np
from ...errors import NearDupError
from ...native import signed_hashes
from ...values import Key, Match, Record, Times
from ..asking.documents import Documents
from ..asking.search import Search
from ..layout.sketches import Sketch, Sketches
from ..layout.state import Store
from ..linking.clusters import Clusters, Unconnected
from .known_values import KnownValues
from .window import evict


class Batch:
    """Records as columns: keys and contents (a list of texts or codes, or LocatedTexts, until they are fingerprinted), and whole
    records where there is more to them."""

    def __init__(self, first: int = 0, epoch: int = -1) -> None:
        self.first = first
        """Place of the first record among all that are read."""
        self.epoch = epoch
        """Of the settings by which the records were checked."""
        self.skipped: list[int] = []
        """Places of records that were left out, ascending."""
        self.keys: list[Key] = []
        self.contents: Any = []
        self.more: dict[int, Record] = {}
        self.times: list[Times] | None = None
        """Of documents that another index had; None for records that are offered now."""
        self.if_exists: dict[int, str] = {}
        """The choice of a record of its own."""
        self.size = 0
        """Characters of the texts and the metadata that were appended, or bytes of the codes."""
        self.metadata_size = 0
        """Characters of the metadata among them: these are held until they are written."""

    def __len__(self) -> int:
        return len(self.keys)

    def append(self, key: Key, content: Any) -> None:
        self.keys.append(key)
        self.contents.append(content)
        self.size += len(content)

    def add(self, record: Record) -> None:
        """A record whose content follows, by `extend`."""
        self.keys.append(record.key)
        if record.metadata is not None:
            self.metadata_size += len(record.metadata)
            self.size += len(record.metadata)
        if any(value is not None for value in record[1:]):
            self.more[len(self.keys) - 1] = record

    def extend(self, keys: Sequence[Key], contents: Any, size: int) -> None:
        """Keys and contents, of the same kind as those before, with the size of the contents."""
        self.keys += keys
        if self.contents:
            self.contents += contents
        else:
            self.contents = contents
        self.size += size

    def record(self, i: int) -> Record:
        record = self.more.get(i) or Record(self.keys[i], None, None, None, None)
        return record if self.times is None else record._replace(times=self.times[i])

    def group(self, i: int) -> Key | None:
        """The name of the group of the record at place i."""
        record = self.more.get(i)
        return None if record is None else record.group

    def number(self, i: int) -> int:
        """The place, among all that are read, of the record at place i of the batch."""
        number = self.first + i
        for skipped in self.skipped:
            number += skipped <= number
        return number

    def at_indexes(self, places: Sequence[int]) -> Batch:
        chosen = Batch()
        chosen.keys = [self.keys[i] for i in places]
        chosen.more = {i: self.more[place] for i, place in enumerate(places) if place in self.more}
        chosen.times = None if self.times is None else [self.times[place] for place in places]
        chosen.if_exists = {i: self.if_exists[place] for i, place in enumerate(places) if place in self.if_exists}
        return chosen

    @property
    def has_parts(self) -> bool:
        """Whether a code is one of several of its key."""
        return any(record.part is not None for record in self.more.values())

    @property
    def is_plain(self) -> bool:
        """Whether no document has more than a key, a group, a fingerprint and times."""
        return all(record.text is None and record.metadata is None and record.expires_at is None for record in self.more.values())


class Segment:
    """Stores batches of documents, whose rows and edges `flush` writes, many batches at once.

    In between the stored fingerprints are in no candidate table, so nothing else may read or write the index. It runs inside the
    store's transactions, and belongs to one of them."""

    def __init__(self, store: Store, documents: Documents, search: Search, clusters: Clusters) -> None:
        self.store = store
        self.db = store.db
        self.documents = documents
        self.search = search
        self.clusters = clusters
        self._known = KnownValues(documents)
        self._following: int | None = None
        """The id that the next document gets, if nothing is taken back."""
        self._unindexed: tuple[int, int] | None = None
        """The first and the last fingerprint that is in no candidate table."""
        self._unindexed_keys: list[Any] | None = []
        """Their keys, as `CandidateTable.file` takes them, int64[n, 1 + most] each; None where some are not at hand."""
        self._unconnected: list[Unconnected] = []
        self._added = 0
        """Documents that were stored since the last `flush`."""

    @property
    def is_full(self) -> bool:
        """Whether `flush` is due, because the work that waits for it has reached its bound."""
        first, last = self._unindexed or (0, -1)
        window = self.store.window.documents
        return (
            last - first + 1 >= self.documents.batch_size
            or self.waiting >= limits.UNCONNECTED_MAX
            or (window is not None and self._added >= window)  # the file never holds many more than twice the window
        )

    @property
    def waiting(self) -> int:
        """What `flush` is to connect."""
        return len(self._unconnected)

    def add(self, batch: Batch, sketches: Sketches, now: int) -> int:
        """Store documents whose keys are new and differ from each other. Returns the id of the first; the others follow."""
        self._require_stored()
        group_ids = self._group_ids(batch)
        fingerprint_ids = self._add_fingerprints(group_ids, sketches)
        tokens = sketches.token_counts if sketches.token_counts is not None else [None] * len(batch)
        first_id = self.documents.next_id()
        self._insert(batch, group_ids, fingerprint_ids, tokens, first_id, now)
        if sketches.aside:
            self.documents.store_exempt_values({first_id + i: value for i, value in sketches.aside.items()})
        if self.store.record_matches:
            hidden = {i for i in batch.more if not self._is_visible(batch, i, now)}
            if batch.times is not None and self.store.window.duration_ms is not None:
                hidden.update(i for i in range(len(batch)) if not self._is_visible(batch, i, now))
            for i, fingerprint_id in enumerate(fingerprint_ids):
                if fingerprint_id is not None:
                    self._unconnected.append((first_id + i, fingerprint_id, i not in hidden))
        return first_id

    def _insert(
        self,
        batch: Batch,
        group_ids: Sequence[int],
        fingerprint_ids: Sequence[int | None],
        tokens: Sequence[int | None],
        first_id: int,
        now: int,
    ) -> None:
        """Write documents with successive ids."""
        self._following = first_id + len(batch)
        self._added += len(batch)
        columns = batch.keys, group_ids, fingerprint_ids, tokens, batch.times
        if not batch.is_plain or not self.documents.insert_plain(first_id, *columns, now):
            records = map(batch.record, range(len(batch)))
            rows = map(self.documents.row, count(first_id), records, *columns[1:4], repeat(now))
            self.db.execute_many(self.store.sql(Documents.INSERT), rows)
            if self.store.keeps_ends:
                for i, record in batch.more.items():
                    if record.expires_at is not None:
                        self.documents.keep_end(first_id + i, record.expires_at)

    def _is_visible(self, batch: Batch, i: int, now: int) -> bool:
        """Whether the document of a record, which comes with it, is visible when it is there."""
        record, length = batch.more.get(i), self.store.window.duration_ms
        if record is not None and record.expires_at is not None and record.expires_at <= now:
            return False
        return batch.times is None or length is None or batch.times[i][0] + length > now

    def flush(self, now: int) -> set[int]:
        """File what `add` has stored, and connect it as adding one by one would. Returns the documents that have a match among
        the earlier ones."""
        self._require_stored()
        unconnected, self._unconnected = self._unconnected, []
        unindexed = self._index_rows()
        matched, unsure = self.clusters.connect_many(unconnected, unindexed, now) if unconnected else (set(), set())
        if self.store.window.documents is not None:  # what they match may have left it before they came
            unsure |= {document_id for document_id in matched if document_id > self.store.window.documents}
            matched -= unsure
        return matched.union(document_id for document_id in unsure if self.has_match(document_id, now))

    def _index_rows(self) -> tuple[int, int] | None:
        """File the fingerprints that are not; returns the first and the last id."""
        unindexed, keys = self._unindexed, self._unindexed_keys
        self._unindexed, self._unindexed_keys = None, []
        if unindexed is not None:
            joined = np.concatenate(keys).astype("<i8", copy=False) if keys else None
            del keys  # they are many bytes, as is each copy of them
            self.store.table.index_rows(*unindexed, joined)
        return unindexed

    def evict(self, now: int) -> None:
        """Remove what has left the window, after `flush`. What is known of fingerprints that go now is looked up in the file
        before it is believed."""
        added, self._added = self._added, 0
        if added:
            evict(self.store, self.clusters, self.documents.next_id() - 1, added, now)

    def end(self) -> None:
        """Let others write from now on, after `flush`; later documents are another segment."""
        self._known.end()
        self.documents.drop_groups()
        self._known = KnownValues(self.documents)
        self._following = None

    def _require_stored(self) -> None:
        """NearDupError where the caller's SQL has rolled back documents that the segment stored."""
        if self._following is not None and self._following != self.documents.next_id():
            raise NearDupError(
                "documents that add_many had stored were rolled back, or others stored, by SQL on the connection while it was "
                "under way: nothing of it is stored; use the methods of the index inside its records, or a transaction around it"
            )

    def has_match(self, document_id: int, now: int) -> bool:
        """Whether a document matches an earlier visible one, which was in the window when it was added."""
        sketch, group_id, first_id = self._question_of(document_id)
        return self.search.has_match(sketch, group_id, now, first_id, document_id)

    def best_match(self, document_id: int, now: int) -> Match | None:
        """The best match of a document, which is filed, among the earlier ones that were in the window then: what `Writer.add`
        answers first."""
        sketch, group_id, first_id = self._question_of(document_id)
        neighbours = self.search.neighbours(sketch, group_id, now, document_id, first_id)
        return next((row.match for row in self.search.best_of(neighbours, 1, now, document_id, first_id)), None)

    def _question_of(self, document_id: int) -> tuple[Sketch, int, int]:
        """Sketch and group of a document, and the first document that was in the window when it was added."""
        sql = self.store.sql("SELECT fingerprint_id, group_id FROM {index}_document WHERE id = ?")
        fingerprint_id, group_id = self.db.rows(sql, (document_id,))[0]
        sketch = self.search.stored_sketch(fingerprint_id)
        window = self.store.window.documents
        return sketch, group_id, 0 if window is None else document_id - window

    # ---- fingerprints ------------------------------------------------------------------------------------------------

    def _group_ids(self, batch: Batch) -> list[int]:
        group_ids = [0] * len(batch)
        numbers: dict[Key, int] = {}
        for i, record in batch.more.items():
            group = record.group
            if group is not None:
                if group not in numbers:
                    numbers[group] = self.documents.group_id(group, create=True)
                group_ids[i] = numbers[group]
        return group_ids

    def _add_fingerprints(self, group_ids: Sequence[int], sketches: Sketches) -> list[int | None]:
        """Fingerprint id of each document; new values are written."""
        ids: list[int | None] = [None] * len(group_ids)
        if len(set(group_ids)) == 1:
            self._add_group(group_ids[0], sketches, range(len(group_ids)), ids)
            return ids
        members: dict[int, list[int]] = {}
        for i, group_id in enumerate(group_ids):
            members.setdefault(group_id, []).append(i)
        for group_id, places in members.items():
            self._add_group(group_id, sketches.at_indexes(places), places, ids)
        return ids

    def _add_group(self, group_id: int, sketches: Sketches, places: Sequence[int], out: list[int | None]) -> None:
        """The fingerprint ids of one group's sketches, into their places of `out`."""
        values, hashes, keys, which = distinct(sketches)
        first = self.documents.last_fingerprint_id() + 1
        ids = np.zeros(len(values), np.int64)
        known = self._known.find(group_id, hashes, first - 1, large=keys is not None)
        if known:
            for i in np.flatnonzero(np.isin(hashes, signed_hashes(list(known)))).tolist():
                ids[i] = known.get(values[i], 0)
        new = np.flatnonzero(ids == 0)
        if len(new):
            ids[new] = np.arange(first, first + len(new))
            if len(new) < len(values):
                values, hashes = [values[i] for i in new.tolist()], hashes[new]
                keys = None if keys is None else keys[new]
            self.documents.insert_fingerprints(first, group_id, values, hashes)
            self._known.add(hashes, ids[new])
            self._unindexed = (self._unindexed[0] if self._unindexed else first, first + len(new) - 1)
            if keys is None or self._unindexed_keys is None:
                self._unindexed_keys = None
            else:
                self._unindexed_keys.append(np.insert(keys, 0, group_id, axis=1))
        numbers = ids.tolist()
        for place, number in zip(places, which.tolist(), strict=True):
            if number >= 0:
                out[place] = numbers[number]


def distinct(sketches: Sketches) -> tuple[Sequence[bytes], Any, Any, Any]:
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
