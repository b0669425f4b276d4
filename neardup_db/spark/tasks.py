"""What executors run with the C core, on Arrow batches: fingerprints, comparisons in groups of bounded size, components of few
edges, duplicates of kept rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .. import comparing, limits, native
from ..arrays import Array, later, np
from ..arrow import texts_and_nulls
from ..errors import NearDupError
from ..fingerprint_files import columns_of
from ..schemes import MinHash
from ..schemes.base import values_of
from ..store.clustering.edges import UnionFind
from ..text import TextRules

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = later("pyarrow")


def sketch(scheme: MinHash, rules: TextRules, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """(key, value, token_count, buckets, digest) for batches of (key, text). Batches are cut into parts of bounded bytes, since
    Spark may bound them by rows only."""
    for batch in batches:
        rows = max(1, int(limits.SPARK_TEXT_BYTES * batch.num_rows / max(batch.nbytes, 1)))
        for start in range(0, batch.num_rows, rows):
            yield _sketched(batch.slice(start, rows), scheme, rules)


def _sketched(batch: pa.RecordBatch, scheme: MinHash, rules: TextRules) -> pa.RecordBatch:
    texts, nulls = texts_and_nulls("text", batch.column(1), None, "")
    made = columns_of(scheme, values_of(scheme.native, texts, rules))
    columns = [
        batch.column(0),
        pa.array(made["value"], pa.binary()),
        pa.array(made["token_count"], mask=nulls),
        made["buckets"],
        pa.array(made["digest"], pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, names=["key", "value", "token_count", "buckets", "digest"])


def connect(scheme: MinHash, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """(key_a, key_b, similarity) for group rows: matching pairs that connect the matches in each group."""
    for rows in _whole_groups(batches):
        yield _connected(scheme, rows)


def compare(scheme: MinHash, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """(key, cluster, representative, similarity) for batches of (key, label, representative, value, representative's value)."""
    for batch in batches:
        pairs = zip(batch.column(3).to_pylist(), batch.column(4).to_pylist(), strict=True)
        similarities = [1.0 if a == b else comparing.similarity(scheme.native, a, b)[0] for a, b in pairs]
        columns = [*batch.columns[:3], pa.array(similarities, pa.float64())]
        yield pa.RecordBatch.from_arrays(columns, names=["key", "cluster", "representative", "similarity"])


def _whole_groups(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The rows in tables of bounded size that end with a group."""
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


def _connected(scheme: MinHash, table: pa.Table) -> pa.RecordBatch:
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
    keys = [items["key"].combine_chunks().take(pa.array(ids[:, end])) for end in (0, 1)]
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


def stars(rows: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Each vertex with the smallest of its component, for batches of edges, `rows` in all; the smallest has no row."""
    found = UnionFind()
    types: Any = ()
    for batch in batches:
        types, rows = batch.schema, rows - batch.num_rows
        for larger, smaller in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
            found.union(larger, smaller)
    if rows:
        raise NearDupError(f"the edges differ by {abs(rows):,} from their count: a table was lost or changed between two steps")
    leaves = [(key, centre) for keys in found.sets() for centre in [min(keys)] for key in keys if key != centre]
    if leaves:
        columns = zip(zip(*leaves, strict=True), types, strict=True)
        yield pa.RecordBatch.from_arrays([pa.array(column, field.type) for column, field in columns], schema=types)


def decide(scheme: MinHash, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """(key, duplicate_of, similarity) for rows of (label, size of the component, key, value) in component and preference order.

    A component may continue in the next batch. Memory is bounded by the kept rows of one component, and of the other components
    that begin in the same batch.
    """
    component, label, left = _Decider(scheme), None, 0
    for batch in batches:
        labels, sizes = (batch.column(place).to_pylist() for place in (0, 1))
        starts = []
        for row, (here, size) in enumerate(zip(labels, sizes, strict=True)):
            if here != label:
                _require_whole(left)
                label, left = here, size
                starts.append(row)
            left -= 1
        numbers = np.searchsorted(np.array(starts, np.int64), np.arange(len(labels)), "right")  # 0: the component before
        begins = starts[0] if starts else len(labels)
        if begins:
            yield component.decide(batch.slice(0, begins), numbers[:begins] + component.number)
        if starts:
            component = _Decider(scheme, len(starts))
            yield component.decide(batch.slice(begins), numbers[begins:])
    _require_whole(left)


def _require_whole(left: int) -> None:
    if left:
        raise NearDupError(
            f"a component was split, {abs(left)} rows too {'few' if left > 0 else 'many'}: the query plan split a group; please "
            "report this with the Spark version"
        )


class _Decider:
    """number: of the last component, which the next batch may continue."""

    def __init__(self, scheme: MinHash, number: int = 0) -> None:
        self.number = number
        self._deduplicator = comparing.Deduplicator(scheme.native)
        self._count = 0
        self._kept: dict[int, Any] = {}

    def decide(self, batch: pa.RecordBatch, numbers: Any) -> pa.RecordBatch:
        """numbers: the component of each row, int64[n]."""
        keys, values = batch.column(2).to_pylist(), batch.column(3).to_pylist()
        kept, similarities = self._deduplicator.add(native.Values.joined(values), numbers)
        for place in np.flatnonzero(kept < 0).tolist():
            self._kept[self._count + place] = keys[place]
        self._count += len(keys)
        of = [None if number < 0 else self._kept[number] for number in kept.tolist()]
        columns = [batch.column(2), pa.array(of, batch.column(2).type), pa.array(similarities, pa.float64())]
        return pa.RecordBatch.from_arrays(columns, names=["key", "duplicate_of", "similarity"])
