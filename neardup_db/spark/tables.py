"""Intermediate frames as Parquet. Rows are counted when they are written, and again when they are read.

Spark's checkpoints are not used, because an executor's failure loses local ones, and the rows of reliable ones are not verified.
A lost file is an error here, whatever the session's setting for missing files.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..errors import NearDupError, ParameterError
from .sql import F, errors, sql

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, DataFrameWriter, SparkSession
    from pyspark.sql.types import StructType


def read_parquet(spark: SparkSession, path: str, schema: StructType | None = None) -> DataFrame:
    """Read a Parquet folder. A missing or damaged file is an error. schema: None for the schema in the files."""
    reader = spark.read.option("ignoreMissingFiles", "false").option("ignoreCorruptFiles", "false")
    return (reader if schema is None else reader.schema(schema)).parquet(path)


def count_rows(frame: DataFrame) -> int:
    """The number of rows, by the footers of Parquet files. `DataFrame.count` adds a shuffle to it."""
    return _observed(frame.select(), {}, lambda writer: writer.format("noop").mode("overwrite").save())["rows"]


def _observed(frame: DataFrame, figures: dict[str, Column], write: Callable[[DataFrameWriter], None]) -> dict[str, int]:
    observed, counts = sql.Observation(), {"rows": F.count(F.lit(1)), **figures}
    write(frame.observe(observed, *(count.alias(name) for name, count in counts.items())).write)
    return dict.fromkeys(counts, 0) | {name: int(value or 0) for name, value in observed.get.items()}


class Tables:
    """The tables of one run, in a new folder below `folder`."""

    def __init__(self, spark: SparkSession, folder: str | None) -> None:
        self.spark = spark
        self.folder = f"{(folder or _own_folder(spark)).rstrip('/')}/neardup-{uuid.uuid4().hex}"
        self._names: list[str] = []

    def write(
        self, frame: DataFrame, name: str, *, path: str | None = None, **figures: Column
    ) -> tuple[DataFrame, dict[str, int]]:
        """Write a frame and read it back. Returns it with aggregates over its rows, and `rows`, their number.

        path: used instead of a path in the run's folder. Raises NearDupError if the rows read differ from those written.
        """
        if path is None:
            path = f"{self.folder}/{name}"
            self._names.append(name)
        try:
            written = _observed(frame, figures, lambda writer: writer.mode("errorifexists").parquet(path))
        except errors.AnalysisException as error:
            if error.getCondition() != "PATH_ALREADY_EXISTS":
                raise
            raise ParameterError(f"{path} exists: give save= a new folder, or remove this one") from error
        again = read_parquet(self.spark, path, frame.schema)
        if (count := count_rows(again)) != written["rows"]:
            raise NearDupError(
                f"{written['rows']:,} rows were written to {path}, {count:,} are read: files were lost or changed by others. "
                "Give work_dir= a folder on a reliable file system that nothing else writes to; run again: no result was given"
            )
        return again, written

    def drop_all_but(self, name: str) -> None:
        for written in self._names:
            if written != name:
                self.drop(written)

    def drop(self, name: str) -> None:
        jvm = getattr(self.spark, "_jvm", None)
        if jvm is not None:
            path = jvm.org.apache.hadoop.fs.Path(f"{self.folder}/{name}")
            path.getFileSystem(self.spark._jsparkSession.sessionState().newHadoopConf()).delete(path, True)


def _own_folder(spark: SparkSession) -> str:
    """The default folder for tables: the session's checkpoint folder or, with a local Spark, one deleted at exit."""
    context = getattr(spark, "sparkContext", None)
    checkpoints = context.getCheckpointDir() if context is not None and hasattr(context, "getCheckpointDir") else None
    if checkpoints:
        return str(checkpoints)
    if not (spark.conf.get("spark.master", "") or "").startswith("local"):
        raise ParameterError(
            "work_dir=None: the steps are written to Parquet in between, so give work_dir= a folder that all executors reach, or "
            "set the session's checkpoint folder"
        )
    folder = tempfile.mkdtemp(prefix="neardup-spark-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return f"file:{folder}"
