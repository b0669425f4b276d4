"""Checks with one small job, before any work, that the executors' Python has this version of neardup_db."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..errors import ParameterError
from .sql import F, errors, protocol

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ROWS = 256
"""Enough rows to reach the cores of all executors."""


def require_package(spark: SparkSession, version: str) -> None:
    """Raises ParameterError, with the executor's Python and the remedy, if one fails or has no or another neardup_db."""
    question = F.udf(asker(), "string", useArrow=False)  # by rows, because Arrow batches need pyarrow there
    try:
        answers = spark.range(_ROWS).select(question("id").alias("answer")).collect()
    except (errors.PySparkException, protocol.Py4JJavaError) as error:
        said = root_cause(str(error))
        raise ParameterError(f"the Python of the executors cannot run ({said}). {_remedy(version, 'python3')}") from error
    for answer in {row["answer"] for row in answers}:
        problem = problem_of(json.loads(answer), version)
        if problem is not None:
            raise ParameterError(problem)


def asker() -> Callable[[Any], str]:
    """The function that an executor runs. It is nested so that it is pickled by value and imports nothing from this package."""

    def ask(_: Any) -> str:
        import importlib
        import json
        import sys

        found = {"python": sys.executable, "release": sys.version.split()[0]}
        for name in ("neardup_db", "pyarrow"):
            try:
                found[name] = importlib.import_module(name).__version__
            except Exception as error:  # a package built for another Python may raise anything
                found[f"{name} failed"] = f"{type(error).__name__}: {error}"
        return json.dumps(found)

    return ask


def problem_of(found: dict[str, str], version: str) -> str | None:
    """The problem with an executor's Python and the remedy; None if there is none."""
    python = f"the Python of an executor, {found['python']} ({found['release']}),"
    for name in ("neardup_db", "pyarrow"):
        if name not in found:
            return f"{python} cannot import {name} ({found[f'{name} failed']}). {_remedy(version, found['python'])}"
    if found["neardup_db"] != version:
        return f"{python} has neardup_db {found['neardup_db']}, the driver {version}. {_remedy(version, found['python'])}"
    return None


def _remedy(version: str, python: str) -> str:
    return (
        f"Install there with {python} -m pip install 'neardup-db[spark]=={version}', or name a Python that has it before the "
        "session begins: PYSPARK_PYTHON in the environment, or spark.pyspark.python with spark-submit. Nothing was computed"
    )


def root_cause(report: str) -> str:
    """The root cause in a Java or Python error report with stack traces."""
    of_java = re.findall(r"^Caused by: (.*)$", report, re.MULTILINE)
    of_python = re.search(r"^[\w.]*(?:Error|Exception): (?!.*^[\w.]*(?:Error|Exception): ).*", report, re.MULTILINE | re.DOTALL)
    return max(of_java, key=len) if of_java else " ".join((of_python[0] if of_python else report).split())
