"""Checks with one small job, before any work, that the executors' Python has this version of neardup_db."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ..errors import ParameterError
from .sql import F, errors, protocol

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def require_package(spark: SparkSession, version: str) -> None:
    """Raises ParameterError, with the executor's Python and the remedy, if one fails or has no or another neardup_db."""

    def ask(_: Any) -> str:  # nested, so that it is pickled by value and imports nothing from this package
        import importlib
        import sys

        python = f"{sys.executable} ({sys.version.split()[0]})"
        for name in ("neardup_db", "pyarrow"):
            try:
                found = importlib.import_module(name).__version__
            except Exception as error:  # a package built for another Python may raise anything
                raise ImportError(f"{python} cannot import {name} ({type(error).__name__}: {error})") from None
            if name == "neardup_db" and found != version:
                raise ImportError(f"{python} has neardup_db {found}, the driver {version}")
        return ""

    try:  # by rows, because Arrow batches need pyarrow there; enough of them to reach the cores of all executors
        spark.range(256).select(F.udf(ask, "string", useArrow=False)("id")).collect()
    except (errors.PySparkException, protocol.Py4JJavaError) as error:
        raise ParameterError(
            f"the Python of the executors cannot run ({root_cause(str(error))}). Install there: pip install "
            f"'neardup-db[spark]=={version}', or name a Python that has it before the session begins: PYSPARK_PYTHON in the "
            "environment, or spark.pyspark.python with spark-submit. Nothing was computed"
        ) from error


def root_cause(report: str) -> str:
    """The root cause in a Java or Python error report with stack traces."""
    of_java = re.findall(r"^Caused by: (.*)$", report, re.MULTILINE)
    of_python = re.search(r"^[\w.]*(?:Error|Exception): (?!.*^[\w.]*(?:Error|Exception): ).*", report, re.MULTILINE | re.DOTALL)
    return max(of_java, key=len) if of_java else " ".join((of_python[0] if of_python else report).split())
