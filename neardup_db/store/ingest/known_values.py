"""Finds values that are stored already during a bulk load, in memory instead of through the value index."""

from __future__ import annotations

from typing import Any

from ... import limits
from ...arrays import np
from ..query.documents import Documents


class HashedIds:
    """Maps hashes to fingerprint ids in sorted arrays, 16 bytes each. A new array is merged with all that are not longer."""

    def __init__(self) -> None:
        self._runs: list[tuple[Any, Any]] = []

    def add(self, hashes: Any, ids: Any) -> None:
        """Add the ids (int64[n]) of hashes (int64[n], any order)."""
        order = np.argsort(hashes)
        run = hashes[order], ids[order]
        while self._runs and len(self._runs[-1][0]) <= len(run[0]):
            earlier = self._runs.pop()
            merged = np.concatenate((earlier[0], run[0]))
            order = np.argsort(merged, kind="stable")  # a stable sort uses the existing order
            run = merged[order], np.concatenate((earlier[1], run[1]))[order]
        self._runs.append(run)

    def find(self, hashes: Any) -> Any:
        """The ids (int64[m]) with one of the hashes (int64[n])."""
        ids_of_runs = [np.empty(0, np.int64)]
        sorted_hashes = np.sort(hashes)
        for stored, ids in self._runs:
            first = np.searchsorted(stored, sorted_hashes)
            found = np.flatnonzero(stored[np.minimum(first, len(stored) - 1)] == sorted_hashes)  # few
            ends = np.searchsorted(stored, sorted_hashes[found], "right")
            ids_of_runs += [ids[first[i] : end] for i, end in zip(found, ends, strict=True)]
        return np.concatenate(ids_of_runs)


class KnownValues:
    """The first values are looked up in the value index. When reading all stored hashes pays, a Bloom filter recognizes most new
    values. When half as many values have come as are stored, `HashedIds` replaces the value index until `end`: its entries are
    in random order, so each insertion changes a page somewhere, and rebuilding it once takes a third of the time."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self._seen: Any = None  # a Bloom filter of hash bits, 32 MB. False positives: 3 % at 1 million hashes, 26 % at 10 million
        self._ids: HashedIds | None = None
        self._value_index: str | None = None  # the SQL that recreates the value index while `_ids` replaces it
        self._lookup_count = 0

    def find(self, group_id: int, hashes: Any, stored: int, *, large: bool) -> dict[bytes, int]:
        """{value: id} of the group's fingerprints with one of the hashes.

        stored: an upper bound of stored fingerprints. large: the values are too long to be read only for their hashes.
        """
        suspects = self._suspects(hashes, stored, large)
        if self._ids is None:
            return self._documents.ids_of_values(group_id, "value_hash", suspects)
        return self._documents.ids_of_values(group_id, "id", self._ids.find(suspects))

    def add(self, hashes: Any, ids: Any) -> None:
        """Add fingerprints that were stored because `find` did not return them."""
        if self._ids is not None:
            self._ids.add(hashes, ids)

    def end(self) -> None:
        index, self._ids, self._value_index = self._value_index, None, None
        if index is not None:
            self._documents.db.execute(index)

    def _suspects(self, hashes: Any, stored: int, large: bool) -> Any:
        self._lookup_count += len(hashes)
        if self._seen is not None:
            suspects = hashes[self._see(hashes)]
            if stored > limits.ASIDE_MAX:
                self.end()
            elif self._ids is None and self._lookup_count >= stored // 2 and not large:
                self._drop_value_index()
            return suspects
        if limits.SEEN_FROM <= self._lookup_count >= stored // 4:
            self._seen = np.zeros(limits.SEEN_SLOTS, np.bool_)
            for page, _ in self._documents.value_hashes():
                self._see(page)
            self._see(hashes)
        return hashes if stored else hashes[:0]

    def _see(self, hashes: Any) -> Any:
        """Add hashes (int64[n]). Returns bool[n]: True if a hash may have been added before."""
        places = hashes & (len(self._seen) - 1)
        seen = self._seen[places]
        self._seen[places] = True
        return seen

    def _drop_value_index(self) -> None:
        self._value_index = self._documents.drop_value_index()
        if self._value_index is not None:
            self._ids = HashedIds()
            for page, ids in self._documents.value_hashes():
                self._ids.add(page, ids)
