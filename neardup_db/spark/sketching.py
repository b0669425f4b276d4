"""Texts to fingerprints, on the executors: batches of Arrow through the C core."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from .. import limits
from ..fingerprint_files import columns_of
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


def texts_of(column: Any) -> list[Any]:
    """The texts of a column of Arrow, None for null."""
    texts: list[Any] = column.to_pylist()
    return texts


def _sketched(batch: pa.RecordBatch, scheme: MinHash, rules: TextRules) -> pa.RecordBatch:
    import pyarrow as pa

    texts = texts_of(batch.column(1))
    values = values_of(scheme.native, ["" if text is None else text for text in texts], rules)
    made = columns_of(scheme, values)
    counts = [None if text is None else count for text, count in zip(texts, made["token_count"].tolist(), strict=True)]
    columns = [
        batch.column(0),
        pa.array(made["value"], pa.binary()),
        pa.array(counts, pa.int64()),
        pa.array(made["buckets"], pa.list_(pa.int64())),
        pa.array(made["digest"], pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, names=["key", "value", "token_count", "buckets", "digest"])
