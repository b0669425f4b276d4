"""The caller's frame: column checks, documents, and the rows without duplicates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import ParameterError
from ..parameters import quoted
from .sql import F, T, sql

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_GONE = "__neardup_gone"


def check_frame(df: Any) -> None:
    if not hasattr(df, "sparkSession"):
        raise ParameterError(f"df={quoted(df)}: give a DataFrame of Spark, e.g. spark.createDataFrame(...)")
    if df.isStreaming:
        raise ParameterError("df is a stream: give its batches, by foreachBatch, each as a day with earlier= and save=")


def documents_of(df: DataFrame, key: str | None, text: str) -> DataFrame:
    for role, name in (("key", key), ("text", text)):
        if name is not None or role == "text":
            _require_one(df, role, name)
    kind = df.schema[text].dataType
    if not isinstance(kind, T.StringType):
        raise ParameterError(f"text={text!r} is a column of {kind.simpleString()}: give one of strings, or cast it")
    column = _column(text).cast("string")
    if key is None:
        return df.where(column.isNotNull()).select(_content_key(text).alias("key"), column.alias("text"))
    return df.select(_given_key(df, key).alias("key"), column.alias("text"))


def remove_keys(df: DataFrame, key: str | None, text: str, gone: DataFrame) -> DataFrame:
    """The rows of a frame except those with certain keys. key=None: one row of each text, and all rows without a text."""
    of_row = _content_key(text) if key is None else _given_key(df, key)
    gone = gone.select(F.col("key").alias(_GONE))
    stays = df.join(gone, of_row == gone[_GONE], "left_anti")
    return stays if key is not None else _distinct_texts(stays, text)


def _distinct_texts(rows: DataFrame, text: str) -> DataFrame:
    place = _unused(rows)
    whole = F.to_json(F.struct(*map(_column, rows.columns)))
    placed = rows.withColumn(place, F.row_number().over(sql.Window.partitionBy(_content_key(text)).orderBy(whole)))
    return placed.where((F.col(place) == 1) | _column(text).isNull()).drop(place)


def _unused(df: DataFrame) -> str:
    name = "__neardup_place"
    while _same_named_columns(df, name):
        name += "_"
    return name


def _require_one(df: DataFrame, role: str, name: Any) -> None:
    """Raises ParameterError unless the name denotes one column. Spark distinguishes `id` and `ID` only if the session is
    configured so."""
    listed = ", ".join(map(repr, df.columns))
    if name not in df.columns:
        raise ParameterError(f"{role}={quoted(name)} is no column of the frame, which has {listed}")
    if len(_same_named_columns(df, name)) > 1:
        raise ParameterError(f"{role}={name!r} names several columns of the frame, which has {listed}: rename all but one")


def _same_named_columns(df: DataFrame, name: str) -> list[str]:
    if df.sparkSession.conf.get("spark.sql.caseSensitive") == "true":
        return [column for column in df.columns if column == name]
    return [column for column in df.columns if column.lower() == name.lower()]


def check_distinct(df: DataFrame, key: str | None) -> None:
    """Raises ParameterError if rows with equal texts could not be ordered, because columns share a name."""
    repeated = [name for name in df.columns if len(_same_named_columns(df, name)) > 1]
    if key is None and repeated:
        raise ParameterError(
            f"key=None keeps one of equal rows by all their columns, and several are named {repeated[0]!r}: rename all but one "
            "of them, or give key="
        )


def _given_key(df: DataFrame, key: str) -> Column:
    """Keys for comparison: integers as long, strings by their bytes, whatever their collation."""
    kind = df.schema[key].dataType
    integers = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
    if not isinstance(kind, (T.StringType, *integers)):
        raise ParameterError(f"key={key!r} is a column of {kind.simpleString()}: give one of strings or integers, or cast it")
    return _column(key).cast("long" if isinstance(kind, integers) else "string")


def _content_key(text: str) -> Column:
    return F.sha2(_column(text).cast("binary"), 256)


def _column(name: str) -> Column:
    return F.col("`{}`".format(name.replace("`", "``")))
