"""Texts to fingerprints, on the executors: batches of Arrow through the C core."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from .. import limits
from ..arrays import Array, np
from ..arrow import Source
from ..fingerprint_files import digest
from ..located import LocatedTexts
from ..native import band_keys
from ..schemes import MinHash
from ..schemes.base import values_of
from ..text import TextRules

if TYPE_CHECKING:
    import pyarrow as pa

Batches = Callable[[Iterator["pa.RecordBatch"]], Iterator["pa.RecordBatch"]]


def sketcher(scheme: MinHash, rules: TextRules) -> Batches:
    """What makes (key, value, token_count, buckets, digest) of batches of (key, text)."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for part in _parts(batch):
                yield _sketched(part, scheme, rules)

    return run


def _parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """A batch in parts of bounded bytes: Spark may bound them by rows only."""
    rows = max(1, int(limits.SPARK_TEXT_BYTES * batch.num_rows / max(batch.nbytes, 1)))
    return (batch.slice(start, rows) for start in range(0, batch.num_rows, rows))


def texts_of(column: pa.Array) -> tuple[LocatedTexts, Array]:
    """The texts of a column of Arrow, where they stand, and which of them are null (bool[n]): those are empty."""
    with Source("text", column) as source:
        (chunk,) = source.chunks()
        texts, nulls = chunk[0].texts(0, len(column))
    return texts, np.zeros(len(column), np.bool_) if nulls is None else nulls


def _sketched(batch: pa.RecordBatch, scheme: MinHash, rules: TextRules) -> pa.RecordBatch:
    import pyarrow as pa

    texts, nulls = texts_of(batch.column(1))
    values = values_of(scheme.native, texts, rules)
    stored, keys = values.split(), band_keys(scheme.native, values)
    new = np.ones(keys.shape, np.bool_)  # a row's keys ascend, so that repeated ones stand together
    np.not_equal(keys[:, 1:], keys[:, :-1], out=new[:, 1:])
    new &= (values.sizes() > 0)[:, None]
    ends = np.concatenate(([0], np.cumsum(new.sum(axis=1)))).astype(np.int32)
    columns = [
        batch.column(0),
        pa.array(stored, pa.binary()),
        pa.array(values.tokens.astype(np.int64), mask=nulls),
        pa.ListArray.from_arrays(pa.array(ends), pa.array(keys[new])),
        pa.array([None if value is None else digest(value) for value in stored], pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, names=["key", "value", "token_count", "buckets", "digest"])
