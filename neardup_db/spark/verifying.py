"""Documents that meet in buckets, compared on the executors by the C core: groups of bounded size, each part by part."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .. import limits, native
from ..arrays import np
from ..errors import NearDupError
from ..schemes import MinHash
from .sketching import Batches

if TYPE_CHECKING:
    import pyarrow as pa

GROUP = ["bucket", "slice", "size", "asks", "known", "key", "value"]
"""Columns of the rows of groups, in the order of bucket, slice and asks: documents of one group stand together. size: how many
they are; asks: whether a document is compared with those before it; known: the label of a component that it is in already, or
null."""


def arrow_type(kind: str) -> str:
    """A type of keys in the words of pyarrow, by Spark's."""
    return {"bigint": "int64"}.get(kind, kind)


def connector(scheme: MinHash, key_type: str) -> Batches:
    """What makes (key_a, key_b, similarity) of rows of groups: matching pairs, as many as connect what matches in each group.
    key_type: in the words of pyarrow."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows in _whole_groups(batches):
            yield _connected(scheme, rows, key_type)

    return run


def comparer(scheme: MinHash) -> Batches:
    """What makes (key, similarity) of batches of (key, value, other), other a value too."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in batches:
            pairs = zip(batch.column(1).to_pylist(), batch.column(2).to_pylist(), strict=True)
            similarities = [1.0 if a == b else native.similarity(scheme.native, a, b)[0] for a, b in pairs]
            yield pa.RecordBatch.from_arrays([batch.column(0), pa.array(similarities, pa.float64())], names=["key", "similarity"])

    return run


class _Rows:
    """Rows of whole groups, as columns."""

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
        """The groups but the last one, which may go on; and that."""
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
    """All rows, in pieces of some bytes that part no group."""
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
    ids, similarities = native.connections(
        scheme.native, native.Values.joined(values), len(asks) - sum(asks), groups[order], numbers[order], known
    )
    keys = _keys_by_number(columns["key"], numbers)
    arrays = [pa.array([keys[number] for number in ids[:, i].tolist()], key_type) for i in (0, 1)]
    return pa.RecordBatch.from_arrays([*arrays, pa.array(similarities, pa.float64())], names=["key_a", "key_b", "similarity"])


def _items(columns: dict[str, list[Any]]) -> tuple[Any, list[bool], list[bytes], list[Any]]:
    """A number for each row, the same for rows of one document, those that ask nothing first; and by number what is known of
    them.

    A document may ask in one group and not in another: it has two numbers then, of one component."""
    places: dict[tuple[bool, Any], int] = {}
    for place, item in enumerate(zip(columns["asks"], columns["key"], strict=True)):
        places.setdefault(item, place)
    ordered = sorted(places, key=lambda item: item[0])  # stable: else in the order of their rows
    number_of = {item: number for number, item in enumerate(ordered)}
    numbers = np.array([number_of[item] for item in zip(columns["asks"], columns["key"], strict=True)], np.int64)
    values = [columns["value"][places[item]] for item in ordered]
    labels = [_label(columns["known"][places[item]], item[1]) for item in ordered]
    return numbers, [asks for asks, _ in ordered], values, labels


def _label(known: Any, key: Any) -> tuple[bool, Any]:
    return (True, known) if known is not None else (False, key)


def _groups(columns: dict[str, list[Any]]) -> Any:
    """The number of each row's group, int64[n]. NearDupError where a group has not all its rows."""
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
                f"a bucket of {size} documents came in pieces, one of {counts[number]}: the plan of the query parted what "
                "belongs together; please report it with the version of Spark"
            )
    return np.array(found, np.int64)


def _keys_by_number(keys: list[Any], numbers: Any) -> dict[int, Any]:
    return dict(zip(numbers.tolist(), keys, strict=True))
