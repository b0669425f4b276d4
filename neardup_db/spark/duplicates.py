"""Duplicates of kept rows: a task decides the rows of a component in preference order."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from .. import comparing, native
from ..arrays import np
from ..errors import NearDupError
from ..schemes import MinHash
from .components import components, labels_of
from .meeting import preference
from .sql import F, sql
from .verifying import arrow_type

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from .near import Job, Matches
    from .tables import Tables

_ROWS = ["label", "size", "key", "value"]
"""Input columns of a task, ordered by label and preference. size: the number of rows in the component."""


def duplicates(tables: Tables, documents: DataFrame, found: Matches, job: Job) -> DataFrame:
    """(key, duplicate_of, similarity) of today's documents in components, written. duplicate_of is null for a kept document.

    The preferred one of documents with equal values decides for all, so only its value is sent to the executors.
    """
    labels = labels_of(components(tables, found.edges, "components", job.max_rounds))
    is_new, is_leader = F.col("day") == job.today, F.col("leader") == F.col("key")
    component = sql.Window.partitionBy("label")
    members = found.leaders.select("key", "day", "token_count", "leader").join(labels, "key")
    members = members.withColumn("any", F.max(is_new).over(component)).where("any").drop("any")
    members = members.withColumn("size", F.sum(is_leader.cast("long")).over(component))
    compared = is_leader & (F.col("size") > 1)
    members, figures = tables.write(
        members, "members", new=F.count(F.when(is_new, True)), compared=F.count(F.when(compared, True))
    )
    rows = members.where(compared).join(documents.select("key", "value"), "key")
    decided, counts = tables.write(_decided(rows, job), "decided")
    _require(figures["compared"], counts["rows"], "compared")
    verdicts = decided.withColumnRenamed("key", "leader").withColumnRenamed("duplicate_of", "of_leader")
    new = members.where(is_new).join(verdicts, "leader", "left")
    duplicate_of = F.coalesce("of_leader", F.when(~is_leader, F.col("leader"))).alias("duplicate_of")
    similarity = F.when(F.col("size") == 1, 1.0).otherwise(F.col("similarity")).alias("similarity")
    answer = new.select("key", duplicate_of, similarity)
    frame, counts = tables.write(answer, "duplicates", path=job.path("duplicates"), measured=F.count(F.col("similarity")))
    _require(figures["new"], counts["rows"], "answered")
    _require(figures["new"], counts["measured"], "answered by a similarity")
    return frame


def _require(expected: int, found: int, what: str) -> None:
    if expected != found:
        raise NearDupError(
            f"{expected:,} documents are in clusters, and {found:,} were {what}: a table was lost or changed between two steps; "
            "no result was given"
        )


def _decided(rows: DataFrame, job: Job) -> DataFrame:
    kind = rows.schema["key"].dataType.simpleString()
    order = preference(job.keep).order
    together = rows.repartition("label").sortWithinPartitions("label", order).select(*_ROWS)
    deciding = partial(decide, job.scheme, arrow_type(kind))
    return together.mapInArrow(deciding, f"key {kind}, duplicate_of {kind}, similarity double")


def decide(scheme: MinHash, key_type: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """(key, duplicate_of, similarity) for rows in component and preference order. key_type: a pyarrow type name.

    A component may continue in the next batch. Memory is bounded by the kept rows of one component, and of the other components
    that begin in the same batch.
    """
    component, label, left = _Decider(scheme, key_type), None, 0
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
            component = _Decider(scheme, key_type, len(starts))
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

    def __init__(self, scheme: MinHash, key_type: str, number: int = 0) -> None:
        self.number, self._key_type = number, key_type
        self._deduplicator = comparing.Deduplicator(scheme.native)
        self._count = 0
        self._kept: dict[int, Any] = {}

    def decide(self, batch: pa.RecordBatch, numbers: Any) -> pa.RecordBatch:
        """numbers: the component of each row, int64[n]."""
        import pyarrow as pa

        keys, values = batch.column(2).to_pylist(), batch.column(3).to_pylist()
        kept, similarities = self._deduplicator.add(native.Values.joined(values), numbers)
        for place in np.flatnonzero(kept < 0).tolist():
            self._kept[self._count + place] = keys[place]
        self._count += len(keys)
        of = [None if number < 0 else self._kept[number] for number in kept.tolist()]
        columns = [pa.array(keys, self._key_type), pa.array(of, self._key_type), pa.array(similarities, pa.float64())]
        return pa.RecordBatch.from_arrays(columns, names=["key", "duplicate_of", "similarity"])
