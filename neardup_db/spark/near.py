"""The steps from texts to clusters or duplicates. Each step writes its result to Parquet."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial, reduce
from typing import TYPE_CHECKING, NamedTuple

from .. import limits
from ..errors import DuplicateKeyError, NearDupError, ParameterError
from ..fingerprint_files import SETTINGS, parsed_settings, require_buckets, settings_of
from ..schemes import MinHash
from ..text import TextRules
from . import meeting
from .components import components, labels_of
from .executors import root_cause
from .sql import F, errors, protocol, sql
from .tables import Tables, read_parquet
from .tasks import compare, connect, decide, sketch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KEEPS = ("first", "last", "longest")

_FINGERPRINTS = {"value": "binary", "token_count": "long", "buckets": "array<long>", "digest": "binary"}


class Job(NamedTuple):
    """The arguments of a call. today: the number of earlier days."""

    scheme: MinHash
    rules: TextRules
    keep: str
    earlier: Sequence[str]
    save: str | None
    work_dir: str | None
    max_rounds: int

    @property
    def today(self) -> int:
        return len(self.earlier)

    def path(self, name: str) -> str | None:
        return None if self.save is None else f"{self.save.rstrip('/')}/{name}"


# ---- fingerprints --------------------------------------------------------------------------------------------------------


def sketched(tables: Tables, documents: DataFrame, job: Job, distinct: bool) -> tuple[DataFrame, int]:
    """Write the fingerprints of documents. Returns them and their number. Raises ParameterError for null keys."""
    kinds = {"key": documents.schema["key"].dataType.simpleString(), **_FINGERPRINTS}
    settings = {SETTINGS: json.dumps(settings_of(job.scheme, job.rules))}
    schema = ", ".join(f"{name} {kind}" for name, kind in kinds.items())
    made = documents.mapInArrow(partial(sketch, job.scheme, job.rules), schema)
    if distinct:  # documents keyed by their text: equal texts are one document
        made = made.dropDuplicates(["key"])
    made = made.withColumn("value", F.col("value").alias("value", metadata=settings))
    nulls = F.count(F.when(F.col("key").isNull(), True))
    frame, figures = tables.write(made, "fingerprints", path=job.path("fingerprints"), nulls=nulls)
    if figures["nulls"]:
        raise ParameterError(f"{figures['nulls']:,} rows have no key: fill the nulls, leave such rows out, or give key=None")
    return frame, figures["rows"]


@contextmanager
def batches_by_bytes(spark: SparkSession) -> Iterator[None]:
    """Limits Arrow batches by bytes, because a batch of rows could have gigabytes of long texts. With plain tracebacks the first
    check runs in the Python processes of the later steps."""
    wanted = {
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(limits.SPARK_BATCH_ROWS),
        "spark.sql.execution.arrow.maxBytesPerBatch": str(limits.SPARK_TEXT_BYTES),
        "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
    }
    before = {name: spark.conf.get(name, None) for name in wanted}
    try:
        for name, value in wanted.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


def saved(spark: SparkSession, folder: str, job: Job) -> tuple[DataFrame, DataFrame]:
    """(fingerprints, matches) of an earlier day. Raises ParameterError if they cannot be read, MismatchError if they have other
    settings."""
    fingerprints = _saved(spark, folder, "fingerprints", ("key", *_FINGERPRINTS))
    metadata, path = fingerprints.schema["value"].metadata, f"{folder.rstrip('/')}/fingerprints"
    require_buckets(parsed_settings(metadata.get(SETTINGS), path), job.scheme, job.rules, path)
    return fingerprints, _saved(spark, folder, "matches", ("key_a", "key_b", "similarity"))


def _saved(spark: SparkSession, folder: str, name: str, columns: Sequence[str]) -> DataFrame:
    path, remedy = f"{folder.rstrip('/')}/{name}", "give a folder that save= of an earlier day wrote"
    try:
        frame = read_parquet(spark, path)
        found = frame.columns
    except (errors.PySparkException, protocol.Py4JJavaError) as error:
        raise ParameterError(f"earlier={folder!r}: {path} cannot be read ({root_cause(str(error))}): {remedy}") from error
    if not set(columns) <= set(found):
        listed, wanted = (", ".join(names) or "(none)" for names in (found, columns))
        raise ParameterError(f"earlier={folder!r}: {path} has the columns {listed} instead of {wanted}: {remedy}")
    return frame


def all_days(frames: Sequence[DataFrame]) -> DataFrame:
    """The fingerprints of several days with day numbers. Raises ParameterError if the key types differ."""
    kinds = {frame.schema["key"].dataType.simpleString() for frame in frames}
    if len(kinds) > 1:
        raise ParameterError(f"the keys of some days are {' and '.join(sorted(kinds))}: give keys of one type")
    return union(frame.select("key", *_FINGERPRINTS, F.lit(day).alias("day")) for day, frame in enumerate(frames))


def union(frames: Iterable[DataFrame]) -> DataFrame:
    return reduce(lambda whole, frame: whole.unionByName(frame), frames)


def require_distinct(keys: DataFrame) -> None:
    """Raises DuplicateKeyError for repeated keys; this shuffles only the keys."""
    repeated = keys.groupBy("key").agg(F.count(F.lit(1)).alias("n")).where("n > 1").limit(3).collect()
    if repeated:
        named = ", ".join(f"{row['key']!r} ({row['n']} times)" for row in repeated)
        raise DuplicateKeyError(
            f"keys are repeated: {named}. Give each row a key of its own, or key=None to make keys of the texts"
        )


# ---- matches --------------------------------------------------------------------------------------------------------------


class Matches(NamedTuple):
    """pairs: today's verified (key_a, key_b, similarity), which connect all matches together with the pairs of earlier days.
    edges: two key columns that connect the same documents, including earlier days. leaders: from `meeting.leaders`, written."""

    pairs: DataFrame
    edges: DataFrame
    leaders: DataFrame


def matches(tables: Tables, documents: DataFrame, earlier: DataFrame, job: Job) -> Matches:
    """documents: (key, value, token_count, buckets, digest, day) of all days. earlier: the pairs of earlier days."""
    today = job.today
    wanted = documents.select("key", "day", "token_count", "digest", "buckets")
    led, _ = tables.write(meeting.leaders(wanted, job.keep).drop("digest"), "leaders")
    copies = led.where((F.col("leader") != F.col("key")) & (F.col("day") == today))
    found = copies.select(F.col("key").alias("key_a"), F.col("leader").alias("key_b"), F.lit(1.0).alias("similarity"))
    rows, figures = tables.write(
        meeting.shared_buckets(led.where(F.col("leader") == F.col("key")), today),
        "met",
        many=F.count(F.when(F.col("met") > limits.SPARK_GROUP, True)),
    )
    values = documents.select("key", "value")
    verified, _ = tables.write(_verified(meeting.groups(rows, today, figures["many"] > 0), values, job.scheme), "verified")
    found = found.union(verified)
    edges = found.union(earlier).select("key_a", "key_b")
    if figures["many"]:
        stars = components(tables, edges, "between", job.max_rounds)
        many = rows.where(F.col("met") > limits.SPARK_GROUP)
        more, _ = tables.write(_verified(meeting.rest(many, labels_of(stars), today), values, job.scheme), "verified-rest")
        found, edges = found.union(more), stars.union(more.select("key_a", "key_b"))
    return Matches(found, edges, led)


_GROUP = ["bucket", "slice", "size", "asks", "known", "key", "value"]
"""Columns of group rows, ordered by bucket, slice and asks, so that groups are contiguous. size: the number of rows in the group;
asks: whether a document is compared with those before it; known: the label of its component, or null."""


def _verified(groups: DataFrame, values: DataFrame, scheme: MinHash) -> DataFrame:
    rows = groups.join(values, "key").select(*_GROUP)
    together = rows.repartition("bucket", "slice").sortWithinPartitions("bucket", "slice", "asks", "key")
    kind = groups.schema["key"].dataType.simpleString()
    return together.mapInArrow(partial(connect, scheme), f"key_a {kind}, key_b {kind}, similarity double")


# ---- clusters ---------------------------------------------------------------------------------------------------------------


def clusters(tables: Tables, documents: DataFrame, edges: DataFrame, job: Job, expected: int) -> DataFrame:
    """(key, cluster, representative, similarity) of today's documents, written."""
    stars = components(tables, edges, "components", job.max_rounds)
    labels = labels_of(stars)
    members = documents.select("key", "day", "token_count").join(labels, "key")
    best = members.groupBy("label").agg(meeting.preference(job.keep).chosen.alias("representative"))
    placed = members.where(F.col("day") == job.today).join(best, "label").select("key", "label", "representative")
    placed, figures = tables.write(placed, "members")
    measured = _measured(placed, documents.select("key", "value"), job.scheme)
    answer = documents.where(F.col("day") == job.today).select("key").join(measured, "key", "left")
    frame, counts = tables.write(answer, "clusters", path=job.path("clusters"), measured=F.count(F.col("similarity")))
    _require({"rows": expected, "measured": figures["rows"]}, counts)
    return frame


def _require(expected: dict[str, int], found: dict[str, int]) -> None:
    if found != expected:
        counts = ", ".join(f"{found[name]:,} of {count:,} {name}" for name, count in expected.items())
        raise NearDupError(f"{counts}: a table was lost or changed between two steps; no result was given")


def _measured(placed: DataFrame, values: DataFrame, scheme: MinHash) -> DataFrame:
    """(key, cluster, representative, similarity) of each clustered document."""
    mine = placed.join(values, "key")
    theirs = placed.select("representative").distinct().join(values.toDF("representative", "other"), "representative")
    both = mine.join(theirs, "representative").select("key", "label", "representative", "value", "other")
    kind = placed.schema["key"].dataType.simpleString()
    return both.mapInArrow(partial(compare, scheme), f"key {kind}, cluster {kind}, representative {kind}, similarity double")


# ---- duplicates --------------------------------------------------------------------------------------------------------------


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
    rows = members.where(compared).join(documents.select("key", "value"), "key").repartition("label")
    rows = rows.sortWithinPartitions("label", meeting.preference(job.keep).order).select("label", "size", "key", "value")
    kind = rows.schema["key"].dataType.simpleString()
    verdicts = rows.mapInArrow(partial(decide, job.scheme), f"key {kind}, duplicate_of {kind}, similarity double")
    decided, counts = tables.write(verdicts, "decided")
    _require({"rows": figures["compared"]}, counts)
    verdicts = decided.withColumnRenamed("key", "leader").withColumnRenamed("duplicate_of", "of_leader")
    new = members.where(is_new).join(verdicts, "leader", "left")
    duplicate_of = F.coalesce("of_leader", F.when(~is_leader, F.col("leader"))).alias("duplicate_of")
    similarity = F.when(F.col("size") == 1, 1.0).otherwise(F.col("similarity")).alias("similarity")
    answer = new.select("key", duplicate_of, similarity)
    frame, counts = tables.write(answer, "duplicates", path=job.path("duplicates"), measured=F.count(F.col("similarity")))
    _require({"rows": figures["new"], "measured": figures["new"]}, counts)
    return frame
