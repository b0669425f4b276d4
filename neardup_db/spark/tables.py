"""Frames that are written to Parquet between two steps: what a step gave is counted, and counted again when it is read.

Checkpoints of Spark are not used: local ones are lost with an executor, and reliable ones are not counted by anybody. A file that
was lost is an error here, whatever the session's settings say about missing files.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
import uuid
from typing import TYPE_CHECKING

from ..errors import NearDupError, ParameterError
from .sql import F, errors, sql

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType


def read_parquet(spark: SparkSession, path: str, schema: StructType | None = None) -> DataFrame:
    """A folder of Parquet; a file that is missing or damaged is an error. schema: None = as the files have it."""
    reader = spark.read.option("ignoreMissingFiles", "false").option("ignoreCorruptFiles", "false")
    return (reader if schema is None else reader.schema(schema)).parquet(path)


class Tables:
    """The tables of one run, in a folder of its own below `folder`."""

    def __init__(self, spark: SparkSession, folder: str | None) -> None:
        self.spark = spark
        self.folder = f"{(folder or _own_folder(spark)).rstrip('/')}/neardup-{uuid.uuid4().hex}"
        self._names: list[str] = []

    def write(
        self, frame: DataFrame, name: str, *, path: str | None = None, **figures: Column
    ) -> tuple[DataFrame, dict[str, int]]:
        """Write a frame, and read it again; with it come the figures, aggregates over its rows, and `rows`, how many they are.

        path: instead of one in the run's folder. NearDupError where other rows come back than were written."""
        if path is None:
            path = f"{self.folder}/{name}"
            self._names.append(name)
        observed = sql.Observation()
        counts = [F.count(F.lit(1)).alias("rows"), *(figure.alias(name) for name, figure in figures.items())]
        try:
            frame.observe(observed, *counts).write.mode("errorifexists").parquet(path)
        except errors.AnalysisException as error:
            if error.getCondition() != "PATH_ALREADY_EXISTS":
                raise
            raise ParameterError(f"{path} exists: give save= a new folder, or remove this one") from error
        found = {name: int(value or 0) for name, value in observed.get.items()} or dict.fromkeys(("rows", *figures), 0)
        again = read_parquet(self.spark, path, frame.schema)
        self.require(again, found["rows"], path)
        return again, found

    def require(self, frame: DataFrame, rows: int, path: str) -> None:
        """NearDupError where a table has not so many rows: the count is read from the footers of its files."""
        count = frame.count()
        if count != rows:
            raise NearDupError(
                f"{rows:,} rows were written to {path}, and {count:,} are read: files were lost or changed by others. Give "
                "work_dir= a folder on a reliable file system that nothing else writes to, and run again; no result was given"
            )

    def drop_all_but(self, name: str) -> None:
        """Remove the run's tables but one."""
        for written in self._names:
            if written != name:
                self.drop(written)

    def drop(self, name: str) -> None:
        """Remove a table of the run that is needed no more. Where the file system cannot be reached from here it stays."""
        jvm = getattr(self.spark, "_jvm", None)
        if jvm is not None:
            path = jvm.org.apache.hadoop.fs.Path(f"{self.folder}/{name}")
            path.getFileSystem(self.spark._jsparkSession.sessionState().newHadoopConf()).delete(path, True)


def _own_folder(spark: SparkSession) -> str:
    """Where tables go if the caller does not say: the checkpoint folder of the session, or with a local Spark one that is removed
    when the program ends."""
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
