"""Fingerprints texts on the executors, in Arrow batches, with the C core."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from .. import limits
from ..arrow import texts_and_nulls
from ..fingerprint_files import columns_of
from ..schemes import MinHash
from ..schemes.base import values_of
from ..text import TextRules

if TYPE_CHECKING:
    import pyarrow as pa

def sketch(scheme: MinHash, rules: TextRules, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """(key, value, token_count, buckets, digest) for batches of (key, text). Batches are cut into parts of bounded bytes, since
    Spark may bound them by rows only."""
    for batch in batches:
        rows = max(1, int(limits.SPARK_TEXT_BYTES * batch.num_rows / max(batch.nbytes, 1)))
        for start in range(0, batch.num_rows, rows):
            yield _sketched(batch.slice(start, rows), scheme, rules)


def _sketched(batch: pa.RecordBatch, scheme: MinHash, rules: TextRules) -> pa.RecordBatch:
    import pyarrow as pa

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
