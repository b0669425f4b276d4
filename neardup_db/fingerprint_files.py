"""Parquet files of fingerprints: what an index exports and imports, and what Spark computes.

A row is a document: `key` (string, int64 or binary), `value` (binary, the stored value; null for a text without shingles),
`token_count` (int64), `buckets` (list of int64: where the value stands in the band table), `digest` (the first 16 bytes of the
BLAKE2b of the value, by which equal values are told), and `group` where documents have groups. The settings of which the values
were made stand in the footer, where Spark keeps a frame's schema: in the metadata of `value`, as JSON. So files that either
writes can be read by the other.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .errors import CorruptIndexError, FormatError, MismatchError, ParameterError
from .native import lib
from .schemes import Scheme, scheme_from_settings
from .text import TextRules

FORMAT = 1
"""Raised when the columns, or what stands in them, change."""

SETTINGS = "neardup_db"
"""Name of the settings in the metadata of the column of values."""

_ROW_METADATA = b"org.apache.spark.sql.parquet.row.metadata"
_SPARK_TYPES = {"string": "string", "int64": "long", "binary": "binary"}
_DIGEST_BYTES = 16


def pyarrow() -> Any:
    """pyarrow with its Parquet module. ParameterError where it is not installed."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ParameterError("Parquet needs pyarrow: pip install 'neardup-db[arrow]'") from error
    return pyarrow


def digest(value: bytes) -> bytes:
    """16 bytes that tell a value from all others."""
    from hashlib import blake2b  # here, since most programs need none

    return blake2b(value, digest_size=_DIGEST_BYTES).digest()


# ---- settings ----------------------------------------------------------------------------------------------------------


def settings_of(scheme: Scheme, rules: TextRules) -> dict[str, Any]:
    """All that decides values and buckets, as it stands in a file."""
    return {"format": FORMAT, "algorithm_version": lib.ND_ALGORITHM_VERSION, **scheme.settings(), **rules.settings()}


def parsed_settings(text: Any, source: str) -> dict[str, Any]:
    """Settings as a file has them. Raises FormatError where there are none, or those of a newer package."""
    try:
        settings = json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise FormatError(
            f"{source} says nothing of the settings that its fingerprints were made with, so they cannot be compared with "
            "others: give files that export_fingerprints or neardup_db.spark wrote"
        ) from error
    if not isinstance(settings, dict) or settings.get("format") != FORMAT:
        found = settings.get("format") if isinstance(settings, dict) else settings
        raise FormatError(f"{source} has fingerprints of format {found!r}, this package reads {FORMAT}: update the older one")
    return settings


def require_values(settings: Mapping[str, Any], scheme: Scheme, rules: TextRules, source: str) -> None:
    """MismatchError where the values of a file are not those that this scheme makes under these rules."""
    _require(settings, rules, source, None if scheme.reads_values_of(_scheme(settings, source)) else scheme)


def require_buckets(settings: Mapping[str, Any], scheme: Scheme, rules: TextRules, source: str) -> None:
    """MismatchError where the values, the buckets or the rule of a file are others."""
    stored = _scheme(settings, source)
    chosen_by = {"expected": None, "recall": None}  # what other parameters were chosen by
    ours, theirs = ({**one.settings(), **chosen_by} for one in (scheme, stored))
    _require(settings, rules, source, None if ours == theirs else scheme)


def _scheme(settings: Mapping[str, Any], source: str) -> Scheme:
    try:
        return scheme_from_settings(settings)
    except CorruptIndexError as error:
        raise FormatError(f"{source}: {error}") from error


def _require(settings: Mapping[str, Any], rules: TextRules, source: str, other: Scheme | None) -> None:
    ours: dict[str, Any] = {"algorithm_version": lib.ND_ALGORITHM_VERSION, **rules.settings()}
    problems = [
        f"{name.removeprefix('text.')}={settings.get(name)!r} instead of {value!r}"
        for name, value in ours.items()
        if settings.get(name) != value
    ]
    if other is not None:
        problems.insert(0, f"{_scheme(settings, source)!r} instead of {other!r}")
    if problems:
        raise MismatchError(
            f"the fingerprints of {source} were made with other settings: {'; '.join(problems)}. Make them anew, or use an index "
            "of these settings"
        )


# ---- the schema of a file ------------------------------------------------------------------------------------------------


def schema(key: str, group: str | None, settings: Mapping[str, Any]) -> Any:
    """The pyarrow schema of a file; key, group: 'string', 'int64' or 'binary', group None where there is none."""
    pa = pyarrow()
    kinds = {"string": pa.string(), "int64": pa.int64(), "binary": pa.binary()}
    fields = [pa.field("key", kinds[key], nullable=False)]
    spark = [_spark_field("key", _SPARK_TYPES[key], nullable=False)]
    if group is not None:
        fields.append(pa.field("group", kinds[group]))
        spark.append(_spark_field("group", _SPARK_TYPES[group]))
    fields += [pa.field("value", pa.binary()), pa.field("token_count", pa.int64())]
    fields += [pa.field("buckets", pa.list_(pa.field("element", pa.int64(), nullable=False))), pa.field("digest", pa.binary())]
    spark += [_spark_field("value", "binary", metadata={SETTINGS: json.dumps(settings)}), _spark_field("token_count", "long")]
    spark.append(_spark_field("buckets", {"type": "array", "elementType": "long", "containsNull": False}))
    spark.append(_spark_field("digest", "binary"))
    return pa.schema(fields, metadata={_ROW_METADATA: json.dumps({"type": "struct", "fields": spark})})


def _spark_field(name: str, kind: Any, *, nullable: bool = True, metadata: Mapping[str, str] | None = None) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": nullable, "metadata": dict(metadata or {})}


def settings_in(schema: Any, source: str) -> dict[str, Any]:
    """The settings of a file, by its pyarrow schema. Raises FormatError."""
    try:
        spark = json.loads((schema.metadata or {}).get(_ROW_METADATA, b"null"))
        text = next(field["metadata"][SETTINGS] for field in spark["fields"] if field["name"] == "value")
    except (TypeError, ValueError, KeyError, StopIteration, RecursionError):
        text = None
    return parsed_settings(text, source)
