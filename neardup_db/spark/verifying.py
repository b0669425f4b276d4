"""Compares candidate documents on the executors with the C core, in groups of bounded size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .. import comparing, limits, native
from ..arrays import Array, np
from ..errors import NearDupError
from ..schemes import MinHash

if TYPE_CHECKING:
    import pyarrow as pa

GROUP = ["bucket", "slice", "size", "asks", "known", "key", "value"]
"""Columns of group rows, ordered by bucket, slice and asks, so that groups are contiguous. size: the number of rows in the group;
asks: whether a document is compared with those before it; known: the label of its component, or null."""


def arrow_type(kind: str) -> str:
    return {"bigint": "int64"}.get(kind, kind)


def connect(scheme: MinHash, key_type: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """(key_a, key_b, similarity) for group rows: matching pairs that connect the matches in each group. key_type: a pyarrow type
    name."""
    for rows in _whole_groups(batches):
        yield _connected(scheme, rows, key_type)


def compare(scheme: MinHash, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """(key, similarity) for batches of (key, value, other), where `other` is also a value."""
    import pyarrow as pa

    for batch in batches:
        pairs = zip(batch.column(1).to_pylist(), batch.column(2).to_pylist(), strict=True)
        similarities = [1.0 if a == b else comparing.similarity(scheme.native, a, b)[0] for a, b in pairs]
        yield pa.RecordBatch.from_arrays([batch.column(0), pa.array(similarities, pa.float64())], names=["key", "similarity"])


def _whole_groups(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The rows in tables of bounded size that end with a group."""
    import pyarrow as pa

    table, size = None, 0
    for batch in batches:
        table = pa.Table.from_batches([batch]) if table is None else pa.concat_tables([table, pa.Table.from_batches([batch])])
        size += batch.nbytes
        if size >= limits.SPARK_GROUP_BYTES:
            last = int(_group_starts(table)[-1])
            if last:
                yield table.slice(0, last)
            table = table.slice(last).combine_chunks()
            size = table.nbytes
    if table is not None and len(table):
        yield table


def _group_starts(table: pa.Table) -> Array:
    """The first row of each group. Groups are contiguous."""
    numbers = [table[name].to_numpy() for name in ("bucket", "slice")]
    changes = np.logical_or(*(column[1:] != column[:-1] for column in numbers))
    return np.concatenate([np.zeros(1, np.int64), 1 + np.flatnonzero(changes)])


def _connected(scheme: MinHash, table: pa.Table, key_type: str) -> pa.RecordBatch:
    import pyarrow as pa

    groups = _groups(table)
    numbers, first = _items(table)
    items = table.take(pa.array(first))
    order = np.lexsort((numbers, groups))
    labels: dict[Any, int] = {}
    pairs = zip(items["known"].to_pylist(), items["key"].to_pylist(), strict=True)
    places = [(False, key) if label is None else (True, label) for label, key in pairs]
    known = [labels.setdefault(place, number) for number, place in enumerate(places)]
    values, answering = native.Values.joined(items["value"].to_pylist()), int(np.sum(~items["asks"].to_numpy()))
    ids, similarities = comparing.connections(
        scheme.native, values, answering, groups[order], numbers[order], np.array(known, np.int64)
    )
    keys = [items["key"].combine_chunks().take(pa.array(ids[:, end])).cast(key_type) for end in (0, 1)]
    return pa.RecordBatch.from_arrays([*keys, pa.array(similarities, pa.float64())], names=["key_a", "key_b", "similarity"])


def _items(table: pa.Table) -> tuple[Array, Array]:
    """A number for each row, equal for rows of one document, with documents that only answer first; and the first row of each
    number.

    A document may ask in one group and only answer in another. It then has two numbers in one component.
    """
    keys = table["key"].combine_chunks().dictionary_encode().indices.to_numpy().astype(np.int64)
    asks = table["asks"].to_numpy().astype(np.int64)
    _, first, numbers = np.unique(asks * len(table) + keys, return_index=True, return_inverse=True)
    return numbers.astype(np.int64), first


def _groups(table: pa.Table) -> Array:
    """The group number of each row, int64[n]. Raises NearDupError if a group is incomplete."""
    starts = _group_starts(table)
    counts = np.diff(np.append(starts, len(table)))
    sizes = table["size"].to_numpy()
    groups = np.repeat(np.arange(len(starts)), counts)
    for split in np.flatnonzero(sizes != counts[groups])[:1].tolist():
        raise NearDupError(
            f"a bucket of {sizes[split]} documents was split, a part has {counts[groups[split]]}: the query plan split a group; "
            "please report this with the Spark version"
        )
    return groups
