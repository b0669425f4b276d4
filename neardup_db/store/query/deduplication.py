"""Greedy deduplication: a document is kept unless it is a near-duplicate of a kept one."""

from __future__ import annotations

from collections.abc import Sequence

from ... import limits
from ...arrays import Array, np
from ...comparing import Deduplicator
from ...native import Values
from ...values import Key
from .documents import Documents


def duplicates(documents: Documents, keys: Sequence[Key]) -> tuple[Array, Array]:
    """(kept, similarities) for documents in order of preference, read from one state of the file.

    kept: int64[n], the position in `keys` of the most similar kept document; -1 if the document itself is kept. similarities:
    float64[n], the similarity to that document.
    """
    deduplicator = Deduplicator(documents.store.scheme.native)
    kept, similarities = np.empty(len(keys), np.int64), np.empty(len(keys), np.float64)
    for first in range(0, len(keys), limits.VALUES_DECIDED):
        page = slice(first, first + limits.VALUES_DECIDED)
        page_keys = list(keys[page])
        rows_by_key = documents.rows_by_key(page_keys)
        rows = [rows_by_key[key] for key in page_keys]
        values = documents.values({row.fingerprint_id for row in rows if row.fingerprint_id is not None})
        page_values = Values.joined([None if row.fingerprint_id is None else values[row.fingerprint_id] for row in rows])
        groups = np.fromiter((row.group_id for row in rows), np.int64, len(rows))
        kept[page], similarities[page] = deduplicator.add(page_values, groups)
    return kept, similarities
