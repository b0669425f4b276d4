"""Results as columns, for pandas, polars, pyarrow and other libraries that take a dictionary of columns.

pandas.DataFrame(columns(index.clusters()))
polars.DataFrame(columns(index.pairs()))
pyarrow.table(columns(index.query(text)))
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from typing import Any

from .arrays import np
from .errors import ParameterError
from .values import Cluster, Document, Match, Pair

Columns = dict[str, Any]  # column names with lists or numpy arrays of equal length

Kind = type[Match] | type[Pair] | type[Cluster] | type[Document]
_KINDS: tuple[Kind, ...] = (Match, Pair, Cluster, Document)


def columns(results: Iterable[Any], kind: Kind | None = None) -> Columns:
    """Results of an index as a dictionary of columns of equal length.

    results: from `query`, `matches` or `add` (columns key, similarity, distance, and part if a code has one); `query_many` or
    `query_codes` (preceded by the query number); `pairs` (key_a, key_b, similarity, distance); `clusters` (a row a document:
    cluster, numbered from 0, size, representative, key); or `get_many` (attributes without `codes`, metadata as JSON, no None).

    Similarities are float64, counts int64 and times datetime64[ms] in UTC. Keys, texts and optional values are lists with None.
    kind: Match, Pair, Cluster or Document, for a result that may be empty (default: Match). Raises ParameterError for other
    objects and for results of different kinds.

    >>> from neardup_db import Match
    >>> from neardup_db.tables import columns
    >>> columns([Match("a1", 1.0), Match("a2", 0.9)])
    {'key': ['a1', 'a2'], 'similarity': array([1. , 0.9]), 'distance': [None, None]}
    """
    rows = [row for row in results if row is not None]
    if rows and all(isinstance(row, list) for row in rows):
        inner = columns([match for matches in rows for match in matches], kind or Match)
        return {"query": np.repeat(np.arange(len(rows), dtype=np.int64), [len(matches) for matches in rows]), **inner}
    kinds = {type(row) for row in rows} | ({kind} if kind is not None else set()) or {Match}
    if len(kinds) > 1 or not kinds <= set(_KINDS):
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise ParameterError(f"results are of {names}: give results of one kind, Match, Pair, Cluster or Document")
    return _clusters(rows) if kinds == {Cluster} else _attributes(rows, kinds.pop())


def _attributes(rows: Sequence[Any], kind: type) -> Columns:
    names = [field.name for field in fields(kind) if field.name != "codes"]
    if kind is Match and all(row.part is None for row in rows):
        names.remove("part")
    return {name: _SHAPES.get(name, list)([getattr(row, name) for row in rows]) for name in names}


def _clusters(rows: Sequence[Cluster]) -> Columns:
    sizes = np.array([len(row) for row in rows], dtype=np.int64)
    return {
        "cluster": np.repeat(np.arange(len(rows), dtype=np.int64), sizes),
        "size": np.repeat(sizes, sizes),
        "representative": [row.representative for row in rows for _ in row.keys],
        "key": [key for row in rows for key in row.keys],
    }


def _times(values: list[float | None]) -> Any:
    times = [np.datetime64("NaT", "ms") if value is None else np.datetime64(round(value * 1000), "ms") for value in values]
    return np.array(times, dtype="datetime64[ms]")


_SHAPES: dict[str, Callable[[list[Any]], Any]] = {
    "similarity": lambda values: np.array(values, dtype=np.float64),
    **dict.fromkeys(
        ("distance", "token_count", "times_seen"), lambda values: values if None in values else np.array(values, dtype=np.int64)
    ),
    **dict.fromkeys(("added_at", "last_seen", "expires_at"), _times),
    "metadata": lambda values: [None if value is None else json.dumps(value, ensure_ascii=False) for value in values],
}
