"""Which of some documents stay, where each near-duplicate of one that stays is left out."""

from __future__ import annotations

from collections.abc import Sequence

from ... import limits
from ...arrays import Array, np
from ...native import Deduplicator, Values
from ...values import Key
from .documents import Documents


def duplicates(documents: Documents, keys: Sequence[Key]) -> tuple[Array, Array]:
    """Of documents in the order of preference the place in `keys` of the one that stays and is most similar, -1 where the
    document itself stays: int64[n]; and the similarity to that one, float64[n]. In one state of the file."""
    deduplicator = Deduplicator(documents.store.scheme.native)
    kept, similarities = np.empty(len(keys), np.int64), np.empty(len(keys), np.float64)
    for first in range(0, len(keys), limits.VALUES_DECIDED):
        part = slice(first, first + limits.VALUES_DECIDED)
        some = list(keys[part])
        found = documents.rows_by_key(some)
        rows = [found[key] for key in some]
        values = documents.values({row.fingerprint_id for row in rows if row.fingerprint_id is not None})
        given = Values.joined([None if row.fingerprint_id is None else values[row.fingerprint_id] for row in rows])
        groups = np.fromiter((row.group_id for row in rows), np.int64, len(rows))
        kept[part], similarities[part] = deduplicator.add(given, groups)
    return kept, similarities
