"""Candidate groups: documents joined by bucket, large buckets split into slices, and the comparisons that remain between slices.

A group is the input of one C call. Small groups are made by document set instead of bucket, because near-copies share most of
their buckets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .. import limits
from .sql import F, sql

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


class Preference(NamedTuple):
    """chosen: an aggregate, the key of the preferred document; order: sorts the preferred document first."""

    chosen: Column
    order: Column


def preference(keep: str) -> Preference:
    """The preference for keep="first", "last" or "longest". A document of an earlier day precedes one of a later day. Keys are
    distinct, so the order is total."""
    if keep == "last":
        rank = F.struct(-F.col("day"), F.col("key"))
        return Preference(F.max(rank)["key"], rank.desc())
    rank = F.struct("day", "key") if keep == "first" else F.struct(F.col("day"), -F.col("token_count"), F.col("key"))
    return Preference(F.min(rank)["key"], rank.asc())


def leaders(documents: DataFrame, keep: str) -> DataFrame:
    """Documents with a fingerprint; `leader` is the preferred document with the same fingerprint."""
    first = F.first("key").over(sql.Window.partitionBy("digest").orderBy(preference(keep).order))
    return documents.where(F.col("digest").isNotNull()).withColumn("leader", first)


def shared_buckets(documents: DataFrame, today: int) -> DataFrame:
    """(bucket, key, day, met) of each bucket shared by several documents, at least one of them of today. met: their number."""
    rows = documents.select("key", "day", F.explode(F.array_distinct("buckets")).alias("bucket"))
    if today > 0:
        rows = rows.join(rows.where(F.col("day") == today).select("bucket").distinct(), "bucket", "left_semi")
    return rows.withColumn("met", F.count(F.lit(1)).over(sql.Window.partitionBy("bucket"))).where("met > 1")


def groups(rows: DataFrame, today: int, many: bool) -> DataFrame:
    """Groups of documents to compare: (bucket, slice, size, asks, known, key).

    A large bucket is split twice, by two hashes of key and bucket, into overlapping slices of the group size, which connect
    similar documents without comparing all pairs of the bucket. many: whether there is one.
    """
    asks = F.col("day") == today
    found = (  # slice -1: an undivided bucket
        rows.where(F.col("met") <= limits.SPARK_GROUP)
        .groupBy("bucket")
        .agg(F.sort_array(F.collect_list(F.struct(asks.alias("asks"), F.col("key")))).alias("members"))
        .groupBy("members")
        .agg(F.min("bucket").alias("bucket"))
        .select("bucket", F.lit(-1).alias("slice"), F.size("members").alias("size"), F.explode("members").alias("member"))
        .select("bucket", F.col("slice").cast("long"), F.col("size").cast("long"), "member.asks", "member.key")
    )
    if many:
        slices = F.ceil(2 * F.col("met") / limits.SPARK_GROUP)
        cuts = [F.lit(cut) * slices + F.pmod(F.xxhash64("key", "bucket", F.lit(cut)), slices) for cut in (0, 1)]
        large = rows.where(F.col("met") > limits.SPARK_GROUP)
        found = found.unionByName(
            _sized(large.select("bucket", "key", asks.alias("asks"), F.explode(F.array(*cuts)).alias("slice")))
        )
    return found.withColumn("known", F.lit(None).cast(rows.schema["key"].dataType))


def _sized(rows: DataFrame) -> DataFrame:
    group = sql.Window.partitionBy("bucket", "slice")
    sized = rows.withColumn("slice", F.col("slice").cast("long")).withColumn("size", F.count(F.lit(1)).over(group))
    return sized.withColumn("any", F.max("asks").over(group)).where("size > 1 AND any").drop("any")


def rest(rows: DataFrame, labels: DataFrame, today: int) -> DataFrame:
    """The remaining comparisons in split buckets: pairs of parts that are not connected yet.

    rows: from `shared_buckets`, of split buckets. labels: (key, label) of all connected documents. The largest part of a bucket
    is not compared as a query or, if there are fewer of them, only today's documents are. Each query block meets each block of
    all.
    """
    bucket = sql.Window.partitionBy("bucket")
    labelled = rows.join(labels, "key", "left").withColumn("label", F.coalesce("label", "key"))
    sizes = labelled.groupBy("bucket", "label").agg(F.count(F.lit(1)).alias("n"))
    largest = sizes.groupBy("bucket").agg(
        F.max(F.struct("n", "label"))["label"].alias("largest"), F.count(F.lit(1)).alias("parts")
    )
    placed = labelled.join(largest.where("parts > 1"), "bucket")
    apart, new = F.col("label") != F.col("largest"), F.col("day") == today
    placed = placed.withColumns({"apart": F.sum(apart.cast("long")).over(bucket), "new": F.sum(new.cast("long")).over(bucket)})
    asks = F.when(F.col("new") < F.col("apart"), new).otherwise(apart)
    placed = placed.withColumns({"asks": asks, "asking": F.least("new", "apart")})
    blocks_asking, blocks = (F.ceil(F.col(name) / limits.SPARK_BLOCK) for name in ("asking", "met"))
    place = F.xxhash64("key", "bucket")
    of_asked = F.transform(_range_below(blocks_asking), lambda i: i * blocks + F.pmod(place, blocks))
    of_asking = F.transform(_range_below(blocks), lambda i: F.pmod(place, blocks_asking) * blocks + i)
    columns = "bucket", "key", F.col("label").alias("known")
    asked = placed.select(*columns, F.lit(False).alias("asks"), F.explode(of_asked).alias("slice"))
    asking = placed.where("asks").select(*columns, F.lit(True).alias("asks"), F.explode(of_asking).alias("slice"))
    both = asked.union(asking).groupBy("bucket", "slice", "key").agg(F.max("asks").alias("asks"), F.first("known").alias("known"))
    return _sized(both)


def _range_below(count: Column) -> Column:
    return F.sequence(F.lit(0).cast("long"), count - 1)
