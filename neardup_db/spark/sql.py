"""The only import of pyspark, on first use, so that importing the package does not require it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..arrays import later

if TYPE_CHECKING:
    from pyspark import errors, sql
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    protocol: Any
else:
    errors, sql, protocol = later("pyspark.errors"), later("pyspark.sql"), later("py4j.protocol")
    F, T = later("pyspark.sql.functions"), later("pyspark.sql.types")

__all__ = ["F", "T", "errors", "protocol", "sql"]
