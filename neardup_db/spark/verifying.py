"""Compares candidate documents on the executors with the C core, in groups of bounded size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .. import comparing, limits, native
from ..arrays import np
from ..errors import NearDupError
from ..schemes import MinHash
from .sketching import Batches

if TYPE_CHECKING:
    import pyarrow as pa

GROUP = ["bucket", "slice", "size", "asks", "known", "key", "value"]
"""Columns of group rows, ordered by bucket, slice and asks, so that groups are contiguous. size: the number of rows in the group;
asks: whether a document is compared with those before it; known: the label of its component, or null."""


def arrow_type(kind: str) -> str:
    return {"bigint": "int64"}.get(kind, kind)


def connector(scheme: MinHash, key_type: str) -> Batches:
    """A function that returns (key_a, key_b, similarity) for group rows: matching pairs that connect the matches in each group.
    key_type: a pyarrow type name."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows in _whole_groups(batches):
            yield _connected(scheme, rows, key_type)

    return run


def comparer(scheme: MinHash) -> Batches:
    """A function that returns (key, similarity) for batches of (key, value, other), where `other` is also a value."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in batches:
            pairs = zip(batch.column(1).to_pylist(), batch.column(2).to_pylist(), strict=True)
            similarities = [1.0 if a == b else comparing.similarity(scheme.native, a, b)[0] for a, b in pairs]
            yield pa.RecordBatch.from_arrays([batch.column(0), pa.array(similarities, pa.float64())], names=["key", "similarity"])

    return run


class _Rows:
    def __init__(self) -> None:
        self.columns: dict[str, list[Any]] = {name: [] for name in GROUP}
        self.bytes = 0

    def __len__(self) -> int:
        return len(self.columns["key"])

    def append_batch(self, batch: pa.RecordBatch) -> None:
        for name, column in zip(GROUP, batch.columns, strict=True):
            self.columns[name] += column.to_pylist()
        self.bytes += batch.nbytes

    def split(self) -> tuple[_Rows, _Rows]:
        """All groups except the last, which may be incomplete, and the last."""
        buckets, slices = self.columns["bucket"], self.columns["slice"]
        at = len(self)
        while at > 0 and (buckets[at - 1], slices[at - 1]) == (buckets[-1], slices[-1]):
            at -= 1
        whole, rest = _Rows(), _Rows()
        for name, column in self.columns.items():
            whole.columns[name], rest.columns[name] = column[:at], column[at:]
        rest.bytes = sum(len(value) for value in rest.columns["value"])
        return whole, rest


def _whole_groups(batches: Iterator[pa.RecordBatch]) -> Iterator[_Rows]:
    rows = _Rows()
    for batch in batches:
        rows.append_batch(batch)
        if rows.bytes >= limits.SPARK_GROUP_BYTES:
            whole, rows = rows.split()
            if len(whole):
                yield whole
    if len(rows):
        yield rows


def _connected(scheme: MinHash, rows: _Rows, key_type: str) -> pa.RecordBatch:
    import pyarrow as pa

    columns = rows.columns
    numbers, asks, values, labels = _items(columns)
    groups = _groups(columns)
    order = np.lexsort((numbers, groups))
    first: dict[Any, int] = {}
    known = np.array([first.setdefault(label, number) for number, label in enumerate(labels)], np.int64)
    ids, similarities = comparing.connections(
        scheme.native, native.Values.joined(values), len(asks) - sum(asks), groups[order], numbers[order], known
    )
    keys = dict(zip(numbers.tolist(), columns["key"], strict=True))
    arrays = [pa.array([keys[number] for number in ids[:, i].tolist()], key_type) for i in (0, 1)]
    return pa.RecordBatch.from_arrays([*arrays, pa.array(similarities, pa.float64())], names=["key_a", "key_b", "similarity"])


def _items(columns: dict[str, list[Any]]) -> tuple[Any, list[bool], list[bytes], list[Any]]:
    """A number for each row, equal for rows of one document, with documents that only answer first; and by number, their known
    labels.

    A document may ask in one group and only answer in another. It then has two numbers in one component.
    """
    places: dict[tuple[bool, Any], int] = {}
    for place, item in enumerate(zip(columns["asks"], columns["key"], strict=True)):
        places.setdefault(item, place)
    ordered = sorted(places, key=lambda item: item[0])  # a stable sort keeps the row order
    number_of = {item: number for number, item in enumerate(ordered)}
    numbers = np.array([number_of[item] for item in zip(columns["asks"], columns["key"], strict=True)], np.int64)
    values = [columns["value"][places[item]] for item in ordered]
    known = [columns["known"][places[item]] for item in ordered]
    labels = [(False, item[1]) if label is None else (True, label) for label, item in zip(known, ordered, strict=True)]
    return numbers, [asks for asks, _ in ordered], values, labels


def _groups(columns: dict[str, list[Any]]) -> Any:
    """The group number of each row, int64[n]. Raises NearDupError if a group is incomplete."""
    found: list[int] = []
    counts: list[int] = []
    before = None
    for group in zip(columns["bucket"], columns["slice"], strict=True):
        if group != before:
            counts.append(0)
            before = group
        counts[-1] += 1
        found.append(len(counts) - 1)
    for number, size in zip(found, columns["size"], strict=True):
        if counts[number] != size:
            raise NearDupError(
                f"a bucket of {size} documents was split, a part has {counts[number]}: the query plan split a "
                "group; please report this with the Spark version"
            )
    return np.array(found, np.int64)
