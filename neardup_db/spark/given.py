"""The caller's frame: column checks, documents, and the rows without duplicates."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from ..errors import ParameterError
from ..parameters import quoted
from .sql import F, T, sql

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def check_frame(df: Any) -> None:
    if not hasattr(df, "sparkSession"):
        raise ParameterError(f"df={quoted(df)}: give a DataFrame of Spark, e.g. spark.createDataFrame(...)")
    if df.isStreaming:
        raise ParameterError("df is a stream: give its batches, by foreachBatch, each as a day with earlier= and save=")


def documents_of(df: DataFrame, key: str | None, text: str) -> DataFrame:
    """(key, text) of each row. Spark's AnalysisException names a column that is missing or ambiguous."""
    kind = df.select(_column(text)).schema[0].dataType
    if not isinstance(kind, T.StringType):
        raise ParameterError(f"text={text!r} is a column of {kind.simpleString()}: give one of strings, or cast it")
    column = _column(text).cast("string")
    if key is None:
        return df.where(column.isNotNull()).select(_content_key(text).alias("key"), column.alias("text"))
    return df.select(_given_key(df, key).alias("key"), column.alias("text"))


def remove_keys(df: DataFrame, key: str | None, text: str, gone: DataFrame) -> DataFrame:
    """The rows of a frame except those with certain keys. key=None: one row of each text, and all rows without a text."""
    of_row = _content_key(text) if key is None else _given_key(df, key)
    name = f"__neardup_{uuid.uuid4().hex}"
    gone = gone.select(F.col("key").alias(name))
    stays = df.join(gone, of_row == gone[name], "left_anti")
    if key is not None:
        return stays
    equal = sql.Window.partitionBy(_content_key(text)).orderBy(whole_row(stays))
    placed = stays.withColumn(name, F.row_number().over(equal))
    return placed.where((F.col(name) == 1) | _column(text).isNull()).drop(name)


def whole_row(df: DataFrame) -> Column:
    return F.to_json(F.struct(*map(_column, df.columns)))


def _given_key(df: DataFrame, key: str) -> Column:
    """Keys for comparison: integers as long, strings by their bytes, whatever their collation."""
    kind = df.select(_column(key)).schema[0].dataType
    integers = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
    if not isinstance(kind, (T.StringType, *integers)):
        raise ParameterError(f"key={key!r} is a column of {kind.simpleString()}: give one of strings or integers, or cast it")
    return _column(key).cast("long" if isinstance(kind, integers) else "string")


def _content_key(text: str) -> Column:
    return F.sha2(_column(text).cast("binary"), 256)


def _column(name: Any) -> Column:
    if not isinstance(name, str):
        raise ParameterError(f"{quoted(name)} is no column: give its name")
    return F.col("`{}`".format(name.replace("`", "``")))
