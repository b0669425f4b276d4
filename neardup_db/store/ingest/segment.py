"""Bulk loads: documents are stored first, then indexed and connected together."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count, repeat
from typing import Any

from ... import limits
from ...arrays import np
from ...errors import NearDupError
from ...native import signed_hashes
from ...values import Key, Match, Record, Times
from ..clustering.clusters import Clusters, Unconnected
from ..layout.sketches import Sketch, Sketches
from ..query.documents import Documents
from .known_values import KnownValues
from .window import evict


class Batch:
    """Records as columns: `keys`, `contents` (texts, codes or LocatedTexts) until fingerprinted; `more`: complete records."""

    def __init__(self, first: int = 0, epoch: int = -1) -> None:
        self.first = first  # the number of the first record in the input
        self.epoch = epoch  # the settings version that the records were checked with
        self.skipped: list[int] = []  # the numbers of skipped records, ascending
        self.keys: list[Key] = []
        self.contents: Any = []
        self.more: dict[int, Record] = {}
        self.times: list[Times] | None = None  # of documents from another index; None for new documents
        self.if_exists: dict[int, str] = {}  # the `if_exists` of records that have their own
        self.size = 0  # characters of texts, keys and metadata, or bytes of codes
        self.held_size = 0  # those of keys and metadata, which are held until they are written

    def __len__(self) -> int:
        return len(self.keys)

    def append(self, key: Key, content: Any) -> None:
        self.keys.append(key)
        self.contents.append(content)
        self.size += len(content)
        if not isinstance(key, int):
            self._hold(len(key))

    def _hold(self, size: int) -> None:
        self.size += size
        self.held_size += size

    def add(self, record: Record, content: Any = None) -> None:
        """Append a record; content: None if it follows by `extend`."""
        if content is not None:
            self.contents.append(content)
            self.size += len(content)
        self.keys.append(record.key)
        self._hold((0 if isinstance(record.key, int) else len(record.key)) + len(record.metadata or ""))
        if any(value is not None for value in record[1:]):
            self.more[len(self.keys) - 1] = record

    def extend(self, keys: Sequence[Key], contents: Any, size: int) -> None:
        """Append keys and contents of the same kind; size: that of the contents."""
        self.keys += keys
        if self.contents:
            self.contents += contents
        else:
            self.contents = contents
        self.size += size
        self._hold(sum(len(key) for key in keys if not isinstance(key, int)))

    def record(self, i: int) -> Record:
        times = None if self.times is None else self.times[i]
        return self.more.get(i) or Record(self.keys[i], None, None, None, None, times)

    def group(self, i: int) -> Key | None:
        record = self.more.get(i)
        return None if record is None else record.group

    def number(self, i: int) -> int:
        number = self.first + i
        for skipped in self.skipped:
            number += skipped <= number
        return number

    def at_indexes(self, indexes: Sequence[int]) -> Batch:
        subset = Batch()
        subset.keys = [self.keys[i] for i in indexes]
        subset.more = {i: self.more[place] for i, place in enumerate(indexes) if place in self.more}
        subset.times = None if self.times is None else [self.times[place] for place in indexes]
        subset.if_exists = {i: self.if_exists[place] for i, place in enumerate(indexes) if place in self.if_exists}
        return subset

    @property
    def has_parts(self) -> bool:
        return any(record.part is not None for record in self.more.values())

    @property
    def is_plain(self) -> bool:
        """True if all documents have only a key, a group, a fingerprint and times."""
        return all(record.text is None and record.metadata is None and record.expires_at is None for record in self.more.values())


class Segment:
    """Stores batches of documents; `flush` later writes the candidate rows and edges of many batches together. In between
    nothing else may read or write the index. Belongs to one transaction."""

    def __init__(self, clusters: Clusters) -> None:
        self.store, self.documents, self.search, self.clusters = clusters.store, clusters.documents, clusters.search, clusters
        self._known = KnownValues(clusters.documents)
        self._expected_next_id: int | None = None  # the id of the next document, unless stored documents are rolled back
        self._unindexed: tuple[int, int] | None = None  # the first and last fingerprint without candidate rows
        self._unindexed_keys: list[Any] | None = []
        """Their keys for `CandidateTable.index_rows`, int64[n, 1 + most] each; None if some are missing."""
        self._filing_bytes = 0.0  # memory to sort their candidate rows
        self._unconnected: list[Unconnected] = []
        self._crowds: dict[int, int] = {}  # fingerprints whose rows are to be moved to a large cluster, with its label
        self._added = 0  # documents stored since the last `flush`

    @property
    def is_full(self) -> bool:
        window = self.store.window.documents
        return (
            self._filing_bytes >= limits.FILING_BYTES
            or self.unconnected_count >= limits.UNCONNECTED_MAX
            or (window is not None and self._added >= window)  # the file holds little more than twice the window
        )

    @property
    def unconnected_count(self) -> int:
        return len(self._unconnected)

    def add(self, batch: Batch, sketches: Sketches, now: int) -> int:
        """Store documents with new, distinct keys and consecutive ids. Returns the first id."""
        self._require_stored()
        group_ids = self._group_ids(batch)
        fingerprint_ids = self._add_fingerprints(group_ids, sketches)
        tokens = sketches.token_counts if sketches.token_counts is not None else [None] * len(batch)
        first_id = self.documents.next_id()
        self._insert(batch, group_ids, fingerprint_ids, tokens, first_id, now)
        if sketches.exempt_values:
            self.documents.store_exempt_values({first_id + i: value for i, value in sketches.exempt_values.items()})
        if self.store.record_matches:
            may_be_old = batch.times is not None and self.store.window.duration_ms is not None
            expired = {i for i in (range(len(batch)) if may_be_old else batch.more) if not self._is_visible(batch, i, now)}
            for i, fingerprint_id in enumerate(fingerprint_ids):
                if fingerprint_id is not None:
                    self._unconnected.append((first_id + i, fingerprint_id, i not in expired))
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
        self._expected_next_id = first_id + len(batch)
        self._added += len(batch)
        columns = batch.keys, group_ids, fingerprint_ids, tokens, batch.times
        if not batch.is_plain or not self.documents.insert_plain(first_id, *columns, now):
            records = map(batch.record, range(len(batch)))
            rows = map(self.documents.row, count(first_id), records, *columns[1:4], repeat(now))
            self.store.execute_many(Documents.INSERT, rows)
            if self.store.keeps_ends:
                for i, record in batch.more.items():
                    if record.expires_at is not None:
                        self.documents.keep_end(first_id + i, record.expires_at)

    def _is_visible(self, batch: Batch, i: int, now: int) -> bool:
        record, duration_ms = batch.more.get(i), self.store.window.duration_ms
        if record is not None and record.expires_at is not None and record.expires_at <= now:
            return False
        return batch.times is None or duration_ms is None or batch.times[i][0] + duration_ms > now

    def flush(self, now: int, *, more_follow: bool = False) -> set[int]:
        """Index and connect stored documents. Returns the ids of documents that match an earlier one.

        more_follow: only batches come before the next `flush`, so rows of large clusters are moved later, many together.
        """
        self._require_stored()
        unconnected, self._unconnected = self._unconnected, []
        unindexed = self._index_rows()
        matched: set[int] = set()
        unsure: set[int] = set()
        if unconnected:
            matched, unsure = self.clusters.connect_many(unconnected, unindexed, now, crowds=self._crowds)
        if not more_follow or len(self._crowds) >= limits.CROWD_MOVES:
            self.clusters.large_clusters.move(self._crowds)
        if self.store.window.documents is not None:  # a match may have left the window before the document was added
            unsure |= {document_id for document_id in matched if document_id > self.store.window.documents}
            matched -= unsure
        return matched.union(document_id for document_id in unsure if self.has_match(document_id, now))

    def _index_rows(self) -> tuple[int, int] | None:
        """Write the candidate rows of new fingerprints. Returns their first and last id."""
        unindexed, keys = self._unindexed, self._unindexed_keys
        self._unindexed, self._unindexed_keys, self._filing_bytes = None, [], 0.0
        if unindexed is not None:
            joined = np.concatenate(keys).astype("<i8", copy=False) if keys else None
            del keys  # large, as is each copy
            self.store.table.index_rows(*unindexed, joined)
        return unindexed

    def evict(self, now: int) -> None:
        """Delete documents that left the window, after `flush`. Known values of deleted fingerprints are verified in the file."""
        added, self._added = self._added, 0
        if added:
            evict(self.clusters, self.documents.next_id() - 1, added, now)

    def end(self) -> None:
        """End the segment after `flush`, so others may write."""
        self._known.end()
        self.documents.drop_groups()
        self._known = KnownValues(self.documents)
        self._expected_next_id = None

    def _require_stored(self) -> None:
        """Raise NearDupError if SQL of the application has rolled back stored documents."""
        if self._expected_next_id is not None and self._expected_next_id != self.documents.next_id():
            raise NearDupError(
                "documents that add_many had stored were rolled back, or others stored, by SQL on the connection while it was "
                "under way: nothing of it is stored; use the methods of the index inside its records, or a transaction around it"
            )

    def has_match(self, document_id: int, now: int) -> bool:
        """True if a document matches an earlier one that was visible and in the window at the time of its addition."""
        sketch, group_id, first_id = self._query_of(document_id)
        return self.search.has_match(sketch, group_id, now, first_id, document_id)

    def best_match(self, document_id: int, now: int) -> Match | None:
        """The best match of an indexed document at the time of its addition, as returned by `Writer.add`."""
        sketch, group_id, first_id = self._query_of(document_id)
        neighbours = self.search.neighbours(sketch, group_id, now, document_id, first_id)
        return next((row.match for row in self.search.best_of(neighbours, 1, now, document_id, first_id)), None)

    def _query_of(self, document_id: int) -> tuple[Sketch, int, int]:
        """(sketch, group id, first document in the window when this one was added)."""
        sql = "SELECT fingerprint_id, group_id FROM {index}_document WHERE id = ?"
        fingerprint_id, group_id = self.store.rows(sql, (document_id,))[0]
        sketch = self.search.stored_sketch(fingerprint_id)
        window = self.store.window.documents
        return sketch, group_id, 0 if window is None else document_id - window

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
        """The fingerprint id of each document; new values are inserted."""
        ids: list[int | None] = [None] * len(group_ids)
        if len(set(group_ids)) == 1:
            self._add_group(group_ids[0], sketches, range(len(group_ids)), ids)
            return ids
        members: dict[int, list[int]] = {}
        for i, group_id in enumerate(group_ids):
            members.setdefault(group_id, []).append(i)
        for group_id, indexes in members.items():
            self._add_group(group_id, sketches.at_indexes(indexes), indexes, ids)
        return ids

    def _add_group(self, group_id: int, sketches: Sketches, indexes: Sequence[int], result: list[int | None]) -> None:
        values, hashes, keys, positions = distinct(sketches)
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
            self._filing_bytes += self.store.scheme.filing_bytes_of(len(new), sum(map(len, values)))
            self._unindexed = (self._unindexed[0] if self._unindexed else first, first + len(new) - 1)
            if keys is None or self._unindexed_keys is None:
                self._unindexed_keys = None
            else:
                self._unindexed_keys.append(np.insert(keys, 0, group_id, axis=1))
        numbers = ids.tolist()
        for index, number in zip(indexes, positions.tolist(), strict=True):
            if number >= 0:
                result[index] = numbers[number]


def distinct(sketches: Sketches) -> tuple[Sequence[bytes], Any, Any, Any]:
    """(values, hashes, keys, positions) of the distinct values, in order of first occurrence.

    hashes, keys: None if unknown. positions: for each sketch, the position of its value, or -1 without a value.
    """
    values: Sequence[Any] = sketches.values
    nonempty = np.arange(len(values))
    if None in values:
        nonempty = np.flatnonzero([value is not None for value in values])
        values = [value for value in values if value is not None]
    hashes = signed_hashes(values) if sketches.hashes is None else sketches.hashes[nonempty]
    keys = None if sketches.hashes is None or sketches.keys is None else sketches.keys[nonempty]
    leaders = _leaders(values, hashes)
    first_positions = np.flatnonzero(leaders == np.arange(len(values)))
    positions = np.full(len(sketches.values), -1)
    positions[nonempty] = np.searchsorted(first_positions, leaders)
    if len(first_positions) < len(values):
        values, hashes = [values[i] for i in first_positions.tolist()], hashes[first_positions]
        keys = None if keys is None else keys[first_positions]
    return values, hashes, keys, positions


def _leaders(values: Sequence[bytes], hashes: Any) -> Any:
    """int64[n]: for each value, the position of the first equal value. Compares only values with equal hashes, because hashing
    long values for a dictionary takes longer than writing them."""
    _, first_positions, hash_index = np.unique(hashes, return_index=True, return_inverse=True)
    leaders = first_positions[hash_index]
    repeated = np.flatnonzero(leaders != np.arange(len(values)))
    if all(values[i] == values[j] for i, j in zip(repeated.tolist(), leaders[repeated].tolist(), strict=True)):
        return leaders
    places: dict[bytes, int] = {}
    return np.array([places.setdefault(value, i) for i, value in enumerate(values)], np.int64)
