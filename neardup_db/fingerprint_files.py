"""Tables and Parquet files of fingerprints, which an index exports and imports, Spark computes, and `fingerprint_table` makes in
any other framework with Arrow tables. docs/reference/spark.md lists the columns.

If documents have several codes, a row is a code, and `part` names it; the rows of a key follow each other. The settings are JSON
in the metadata of `value`, where Spark keeps a frame's schema; Spark and an index read each other's files.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .arrays import np
from .arrow import KEYS, Source, is_key, is_string, texts_and_nulls, types
from .errors import CorruptIndexError, FormatError, MismatchError, ParameterError
from .native import Values, band_keys, lib
from .parameters import check_choice, quoted
from .schemes import Scheme, scheme_from_settings
from .schemes.base import rules_of, values_of
from .text import TextRules

FORMAT = 1  # raised when the columns or their contents change
SETTINGS = "neardup_db"  # name of the settings in the metadata of the column of values

_ROW_METADATA = b"org.apache.spark.sql.parquet.row.metadata"
_SPARK_TYPES = {"string": "string", "int64": "long", "binary": "binary"}
_DIGEST_BYTES = 16

def pyarrow() -> Any:
    """pyarrow with its Parquet module. Raises ParameterError if it is not installed."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ParameterError("Parquet needs pyarrow: pip install 'neardup-db[arrow]'") from error
    return pyarrow


def digest(value: bytes) -> bytes:
    from hashlib import blake2b  # here, since most programs need none

    return blake2b(value, digest_size=_DIGEST_BYTES).digest()


# ---- fingerprints without an index -----------------------------------------------------------------------------------------


def fingerprint_table(
    table: Any, key: str, text: str, scheme: Scheme, rules: TextRules | None = None, *, group: str | None = None
) -> Any:
    """The fingerprints of a table of texts, a row for each row, as a pyarrow.Table. No index is needed.

    table: a pyarrow Table or RecordBatch, or a DataFrame of pandas or polars. key, text, group: column names. Keys and groups are
    strings, integers or binary; a null key is refused, a null text has no fingerprint. rules: None for `TextRules()`.

    Write the result with `pyarrow.parquet.write_table`; `Index.import_fingerprints` loads such files into an index of the same
    scheme and rules. The metadata of the schema has the settings; if a framework drops it, take it from `fingerprint_schema`.
    Needs pyarrow (the extra "arrow").

    >>> import pyarrow
    >>> from neardup_db import MinHash
    >>> from neardup_db.fingerprint_files import fingerprint_table
    >>> stories = pyarrow.table({"id": [1, 2], "body": ["the quick brown fox jumps", None]})
    >>> made = fingerprint_table(stories, "id", "body", MinHash())
    >>> made.column_names, made["token_count"].to_pylist()
    (['key', 'value', 'token_count', 'buckets', 'digest'], [5, None])
    """
    pa = pyarrow()
    try:
        given = pa.table(table)
    except TypeError as error:
        raise ParameterError(f"table={quoted(table)}: give a table of Arrow, or a data frame of pandas or polars") from error
    rules = rules_of(rules)
    named = {"key": key} if group is None else {"key": key, "group": group}
    with Source("table", given) as source:
        chosen = {role: given.column(source.number(role, name, is_key, KEYS)) for role, name in named.items()}
    texts, nulls = texts_and_nulls("table", given, text, "name the column of the texts")
    if chosen["key"].null_count:
        row = chosen["key"].is_null().index(True).as_py()
        raise ParameterError(f"key={key!r}: row {row} is null: fill the nulls, or leave such rows out")
    kinds = {name: _kind_of(column.type) for name, column in chosen.items()}
    scheme = _as_indexed(scheme, rules)
    values = values_of(scheme.native, texts, rules)
    columns = columns_of(scheme, values)
    columns["token_count"] = pa.array(columns["token_count"], mask=nulls)
    made = fingerprint_schema(scheme, rules, **kinds)
    try:
        columns |= {name: column.cast(made.field(name).type) for name, column in chosen.items()}
    except pa.ArrowInvalid as error:
        raise ParameterError(f"keys and groups are strings, binary or integers of 64 bits with a sign: {error}") from error
    return pa.Table.from_pydict(columns, made)


def fingerprint_schema(scheme: Scheme, rules: TextRules | None = None, *, key: str = "string", group: str | None = None) -> Any:
    """The pyarrow.Schema of a `fingerprint_table`, with the settings in its metadata. key, group: "string", "int64" or "binary";
    group=None means no groups. Raises ParameterError.

    >>> from neardup_db import MinHash
    >>> from neardup_db.fingerprint_files import fingerprint_schema
    >>> fingerprint_schema(MinHash(), key="int64").field("key").type
    DataType(int64)
    """
    rules = rules_of(rules)
    check_choice("key", key, tuple(_SPARK_TYPES))
    check_choice("group", group, (None, *_SPARK_TYPES))
    return schema(key, group, settings_of(_as_indexed(scheme, rules), rules))


def columns_of(scheme: Scheme, values: Values) -> dict[str, Any]:
    """The columns of a file, but for key and group, of the stored values of texts."""
    stored = values.split()
    digests = [None if value is None else digest(value) for value in stored]
    tokens = values.tokens.astype(np.int64)
    return {"value": stored, "token_count": tokens, "buckets": _buckets(scheme, values), "digest": digests}


def _buckets(scheme: Scheme, values: Values) -> Any:
    """Each value's buckets in the band table, each once, as an array of lists: null without such a table."""
    pa = pyarrow()
    if scheme.plan != "bands":
        return pa.nulls(len(values.ends), pa.list_(pa.int64()))
    keys = band_keys(scheme.native, values)
    new = np.ones(keys.shape, np.bool_)  # the keys of a row ascend, so equal keys are neighbours
    np.not_equal(keys[:, 1:], keys[:, :-1], out=new[:, 1:])
    new &= (values.sizes() > 0)[:, None]
    ends = np.concatenate(([0], np.cumsum(new.sum(axis=1)))).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(ends), pa.array(keys[new]))


def _as_indexed(scheme: Any, rules: TextRules) -> Scheme:
    if not isinstance(scheme, Scheme) or not scheme.takes_text:
        raise ParameterError(f"scheme={quoted(scheme)}: give one that takes texts, e.g. MinHash(threshold=0.8)")
    return scheme.for_index(rules)


def _kind_of(key_type: Any) -> str:
    kind = key_type.value_type if types.is_dictionary(key_type) else key_type
    return "string" if is_string(kind) else "int64" if types.is_integer(kind) else "binary"


# ---- settings ----------------------------------------------------------------------------------------------------------


def settings_of(scheme: Scheme, rules: TextRules) -> dict[str, Any]:
    """The settings that decide values and buckets, in the form of a file."""
    return {"format": FORMAT, "algorithm_version": lib.ND_ALGORITHM_VERSION, **scheme.settings(), **rules.settings()}


def parsed_settings(text: Any, source: str) -> dict[str, Any]:
    """The settings of a file. Raises FormatError if it has none, or was written by a newer package."""
    try:
        settings = json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise FormatError(f"{source} has no settings: give files of export_fingerprints or neardup_db.spark") from error
    if not isinstance(settings, dict) or settings.get("format") != FORMAT:
        found = settings.get("format") if isinstance(settings, dict) else settings
        raise FormatError(f"{source} has fingerprints of format {found!r}, this package reads {FORMAT}: update the older one")
    return settings


def require_values(settings: Mapping[str, Any], scheme: Scheme, rules: TextRules, source: str) -> None:
    """Raises MismatchError if this scheme makes other values under these rules than the file has."""
    _require(settings, rules, source, None if scheme.reads_values_of(_scheme(settings, source)) else scheme)


def require_buckets(settings: Mapping[str, Any], scheme: Scheme, rules: TextRules, source: str) -> None:
    """Raises MismatchError if the values, the buckets or the rule of a file differ."""
    stored = _scheme(settings, source)
    chosen_by = {"expected": None, "recall": None}  # they only chose other parameters
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
        how = "recompute them, or use an index of these settings"
        raise MismatchError(f"the fingerprints of {source} were made with other settings: {'; '.join(problems)}: {how}")


# ---- the schema of a file ------------------------------------------------------------------------------------------------


def schema(key: str, group: str | None, settings: Mapping[str, Any], part: str | None = None) -> Any:
    """The pyarrow schema of a file. key, group, part: 'string', 'int64' or 'binary'; group, part: None for no such column."""
    pa = pyarrow()
    kinds = {"string": pa.string(), "int64": pa.int64(), "binary": pa.binary()}
    of_rows = [(name, kind) for name, kind in (("key", key), ("group", group), ("part", part)) if kind is not None]
    columns: list[tuple[str, Any, Any]] = [(name, kinds[kind], _SPARK_TYPES[kind]) for name, kind in of_rows]
    element = pa.field("element", pa.int64(), nullable=False)
    columns += [
        ("value", pa.binary(), "binary"),
        ("token_count", pa.int64(), "long"),
        ("buckets", pa.list_(element), {"type": "array", "elementType": "long", "containsNull": False}),
        ("digest", pa.binary(), "binary"),
    ]
    more = {"value": {SETTINGS: json.dumps(settings)}}
    spark = [
        {"name": name, "type": kind, "nullable": name != "key", "metadata": more.get(name, {})} for name, _, kind in columns
    ]
    fields = [pa.field(name, kind, nullable=name != "key") for name, kind, _ in columns]
    return pa.schema(fields, metadata={_ROW_METADATA: json.dumps({"type": "struct", "fields": spark})})


def settings_in(schema: Any, source: str) -> dict[str, Any]:
    try:
        spark = json.loads((schema.metadata or {}).get(_ROW_METADATA, b"null"))
        text = next(field["metadata"][SETTINGS] for field in spark["fields"] if field["name"] == "value")
    except (TypeError, ValueError, KeyError, StopIteration, RecursionError):
        text = None
    return parsed_settings(text, source)
