"""The values that the file has already: a bulk load looks them up in memory instead of in the index over stored hashes."""

from __future__ import annotations

from typing import Any

from ... import limits
from ...arrays import np
from ..asking.documents import Documents


class SeenHashes:
    """Hashes, each remembered by its lowest bits: a hash that was never added is nearly always known to be new, an added one is
    never taken for new. 32 MB; of 1 million hashes 3 % of the new ones look seen, of 10 million 26 %."""

    def __init__(self) -> None:
        self._slots = np.zeros(limits.SEEN_SLOTS, np.bool_)

    def add(self, hashes: Any) -> Any:
        """Remember hashes (int64[n]); returns bool[n], whether each may have been there before."""
        places = hashes & (len(self._slots) - 1)
        seen = self._slots[places]
        self._slots[places] = True
        return seen


class HashedIds:
    """The fingerprint ids of hashes, 16 bytes each: sorted arrays. A new one is merged into those that are no longer."""

    def __init__(self) -> None:
        self._runs: list[tuple[Any, Any]] = []

    def add(self, hashes: Any, ids: Any) -> None:
        """Remember the ids (int64[n]) of hashes (int64[n], any order)."""
        order = np.argsort(hashes)
        run = hashes[order], ids[order]
        while self._runs and len(self._runs[-1][0]) <= len(run[0]):
            earlier = self._runs.pop()
            merged = np.concatenate((earlier[0], run[0]))
            order = np.argsort(merged, kind="stable")  # which makes use of the order that is there
            run = merged[order], np.concatenate((earlier[1], run[1]))[order]
        self._runs.append(run)

    def find(self, hashes: Any) -> Any:
        """The ids (int64[m]) of all that have one of the hashes (int64[n])."""
        ids_of_runs = [np.empty(0, np.int64)]
        sought = np.sort(hashes)
        for stored, ids in self._runs:
            first = np.searchsorted(stored, sought)
            met = np.flatnonzero(stored[np.minimum(first, len(stored) - 1)] == sought)  # few
            ends = np.searchsorted(stored, sought[met], "right")
            ids_of_runs += [ids[first[i] : end] for i, end in zip(met, ends, strict=True)]
        return np.concatenate(ids_of_runs)


class KnownValues:
    """Finds the values of a bulk load that the file has already.

    The first ones are looked up in the file. When they are many enough to pay for reading all stored hashes once, `SeenHashes`
    tells most new values. When they are half as many as the stored ones, `HashedIds` takes over from SQLite's index over the
    hashes. The rows of that index are in no order, so each changes a page somewhere; to build it anew in one go takes a third of
    the time."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self._seen: SeenHashes | None = None
        self._ids: HashedIds | None = None
        self._value_index: str | None = None
        """The SQL that makes SQLite's index again, while `_ids` stands in for it."""
        self._looked_up = 0

    def find(self, group_id: int, hashes: Any, stored: int, *, large: bool) -> dict[bytes, int]:
        """{value: id} of the fingerprints of a group that have one of the hashes.

        stored: the number of stored fingerprints, or more. large: their values are so long that they should not be read for the
        sake of anything else."""
        suspects = self._suspects(hashes, stored, large)
        if not len(suspects):
            return {}
        if self._ids is None:
            return self._documents.fingerprint_ids(group_id, suspects)
        return self._documents.values_of(group_id, self._ids.find(suspects))

    def add(self, hashes: Any, ids: Any) -> None:
        """Remember fingerprints that were stored after `find` did not know them."""
        if self._ids is not None:
            self._ids.add(hashes, ids)

    def end(self) -> None:
        """Build SQLite's index again."""
        index, self._ids, self._value_index = self._value_index, None, None
        if index is not None:
            self._documents.db.execute(index)

    def _suspects(self, hashes: Any, stored: int, large: bool) -> Any:
        """Those of the hashes that may be among the stored ones."""
        self._looked_up += len(hashes)
        if self._seen is not None:
            suspects = hashes[self._seen.add(hashes)]
            if stored > limits.ASIDE_MAX:
                self.end()
            elif self._ids is None and self._looked_up >= stored // 2 and not large:
                self._set_index_aside()
            return suspects
        if limits.SEEN_FROM <= self._looked_up >= stored // 4:
            self._seen = SeenHashes()
            for page, _ in self._documents.value_hashes():
                self._seen.add(page)
            self._seen.add(hashes)
        return hashes if stored else hashes[:0]

    def _set_index_aside(self) -> None:
        self._value_index = self._documents.drop_value_index()
        if self._value_index is not None:
            self._ids = HashedIds()
            for page, ids in self._documents.value_hashes():
                self._ids.add(page, ids)
