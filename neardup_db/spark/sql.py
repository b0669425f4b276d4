"""The only import of pyspark, on first use, so that importing the package does not require it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..errors import ParameterError

if TYPE_CHECKING:
    from pyspark import errors, sql
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    protocol: Any
else:

    class _Later:
        """A module imported on its first attribute access."""

        def __init__(self, name: str) -> None:
            self._name = name

        def __getattr__(self, attribute: str) -> Any:
            try:
                return getattr(import_module(self._name), attribute)
            except ImportError as error:
                raise ParameterError(
                    "neardup_db.spark needs Spark: pip install 'neardup-db[spark]', and Java 17 or later"
                ) from error

    errors, sql, protocol = _Later("pyspark.errors"), _Later("pyspark.sql"), _Later("py4j.protocol")
    F, T = _Later("pyspark.sql.functions"), _Later("pyspark.sql.types")

__all__ = ["F", "T", "errors", "protocol", "sql"]
