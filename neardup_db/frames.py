"""Near-duplicates in data frames of pandas, polars (also lazy), pyarrow and DuckDB, through narwhals (the extra `frames`).

Results have the type, columns and row order of the input. A lazy frame is collected once. The result for a DuckDB relation is a
query over it, which raises an error if the relation returns other rows later. Texts are compared by their true Jaccard similarity
unless a scheme is given. Nulls and texts without a word match nothing.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

try:
    import narwhals as nw
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("neardup_db.frames needs narwhals: pip install 'neardup-db[frames]'") from error

from . import native
from .arrays import Array, np
from .duckdb_rows import RelationRows, names_beside
from .duplicates import Duplicates, duplicates_of, is_large
from .errors import ParameterError
from .index import Index
from .parameters import check_choice, check_kind, check_many, quoted
from .reader import Reader
from .schemes.base import Scheme, SetScheme
from .schemes.minhash import MinHash
from .store.database.open import open_scratch
from .tables import Columns, columns
from .text import TextRules
from .values import ANY_GROUP, Cluster, Pair

Keep = Literal["first", "last", "longest"]
Backend = Literal["pandas", "polars", "pyarrow"]

THRESHOLD = 0.8
_MARKS = ("cluster", "duplicate_of", "similarity")
_OF_KEYS = {"key", "key_a", "key_b", "representative"}
_TYPES: dict[str, Any] = {"cluster": nw.Int64, "size": nw.Int64, "similarity": nw.Float64, "distance": nw.Int64}


def drop_near_duplicates(
    frame: Any,
    text: str,
    threshold: float = THRESHOLD,
    *,
    keep: Keep = "first",
    order_by: str | Sequence[str] | None = None,
    group: str | None = None,
    connected: bool = False,
    against: Any = None,
    scheme: Scheme | None = None,
    rules: TextRules | None = None,
) -> Any:
    """Drop near-duplicate rows from a data frame. Every dropped row is a near-duplicate of a kept row.

    text: the column of texts. threshold: the least similarity, above 0 and at most 1. keep: the preferred row: "first" or "last"
    in row order, or in the order of the columns `order_by` (nulls last); or "longest", by characters, ties by the first. In this
    order, a row is kept unless it is a near-duplicate of a kept row. group: a column; only rows with equal values (or nulls) are
    compared. connected: keep one row of each connected component instead; a warning names a component with more than 1 % of at
    least 1,000 rows that only a chain connects. against: an index, or a data frame with the same text column; rows that are
    near-duplicates of anything in it, in any group, are dropped first. scheme: by default `MinHash(threshold, exact=True)`.
    rules: by default `TextRules()`. Raises ParameterError for a missing column or one without strings.

    >>> import polars
    >>> from neardup_db.frames import drop_near_duplicates
    >>> stories = polars.DataFrame({"id": [1, 2, 3], "body": ["The quick brown fox!", "the quick brown fox", None]})
    >>> drop_near_duplicates(stories, "body")["id"].to_list()
    [1, 3]
    """
    opened = _Opened("frame", frame, text, order_by, group)
    rule = _Rule(threshold, scheme, rules)
    order = _preferred(opened, text, keep, order_by)
    kept = np.ones(len(opened.frame), np.bool_)
    if against is not None:
        kept[_rows_matching(opened, text, against, rule)] = False
    with _indexed(opened, text, rule, kept, group) as index:
        kept[_duplicates(index, order, connected).gone] = False
    return opened.filtered(kept)


def mark_near_duplicates(
    frame: Any,
    text: str,
    threshold: float = THRESHOLD,
    *,
    keep: Keep = "first",
    order_by: str | Sequence[str] | None = None,
    group: str | None = None,
    connected: bool = False,
    key: str | None = None,
    scheme: Scheme | None = None,
    rules: TextRules | None = None,
) -> Any:
    """Add three columns that name the near-duplicates of each row.

    duplicate_of: the most similar row that `drop_near_duplicates` keeps instead of this row, as its number from 0 or its value in
    the column `key`; null for a kept row. similarity: of the two texts; with `connected` it may be below the threshold. cluster:
    a number from 0, in the order of first rows, shared by a kept row and the rows dropped for it; null without near-duplicates.
    Other arguments as for `drop_near_duplicates`. Raises ParameterError if a column of these names exists.

    >>> import polars
    >>> from neardup_db.frames import mark_near_duplicates
    >>> stories = polars.DataFrame({"body": ["The quick brown fox!", "the quick brown fox", None]})
    >>> mark_near_duplicates(stories, "body").rows()[1]
    ('the quick brown fox', 0, 0, 1.0)
    """
    opened = _Opened("frame", frame, text, order_by, group, key)
    for name in _MARKS:
        if name in opened.columns:
            raise ParameterError(f"the frame has a column {name!r} already, which would be overwritten: rename or drop it")
    rule, order, names = _Rule(threshold, scheme, rules), _preferred(opened, text, keep, order_by), opened.names(key)
    marks: dict[str, list[Any]] = {name: [None] * len(opened.frame) for name in _MARKS}
    with _indexed(opened, text, rule, True, group) as index:
        found = _duplicates(index, order, connected)
    for number, rows in enumerate(sorted(found.clusters())):
        for row in rows:
            marks["cluster"][row] = number
    for row, kept, similarity in zip(*(column.tolist() for column in found), strict=True):
        marks["duplicate_of"][row], marks["similarity"][row] = names(kept), similarity
    return opened.extended(marks, key)


def pairs_frame(
    source: Any,
    text: str | None = None,
    threshold: float | None = None,
    *,
    key: str | None = None,
    group: str | None = None,
    scheme: Scheme | None = None,
    rules: TextRules | None = None,
    backend: Backend | None = None,
) -> Any:
    """All near-duplicate pairs of an index or data frame, as a data frame.

    Columns: key_a (the earlier), key_b, similarity, and distance (null if the scheme has none). Keys of a data frame are row
    numbers from 0, or the values of the column `key`. threshold: stricter than an index's own; 0.8 by default for a data frame.
    group: a column of the data frame; only rows with equal values are compared. backend: "pandas", "polars" or "pyarrow"; by
    default pandas for an index, and the type of a data frame.

    >>> from neardup_db import Index, MinHash
    >>> from neardup_db.frames import pairs_frame
    >>> with Index(":memory:", MinHash(threshold=0.5)) as index:
    ...     report = index.add_many([("a", "the quick brown fox"), ("b", "The quick brown fox!")])
    ...     pairs_frame(index, backend="polars").rows()
    [('a', 'b', 1.0, None)]
    """

    def pairs(index: Reader, least: float | None) -> Columns:
        return columns(index.pairs(least), Pair)

    return _listing(source, text, threshold, (key, group, scheme, rules, backend), pairs)


def clusters_frame(
    source: Any,
    text: str | None = None,
    threshold: float | None = None,
    *,
    key: str | None = None,
    group: str | None = None,
    scheme: Scheme | None = None,
    rules: TextRules | None = None,
    backend: Backend | None = None,
    min_size: int = 2,
) -> Any:
    """The clusters of an index or data frame, as a data frame with a row for each document.

    Columns: cluster (numbered from 0, the largest first), size, representative (the earliest) and key. min_size: the smallest
    cluster size. Other arguments as for `pairs_frame`, but clusters of an index always use its own threshold.

    >>> import polars
    >>> from neardup_db.frames import clusters_frame
    >>> stories = polars.DataFrame({"id": ["x", "y", "z"], "body": ["The quick brown fox!", "a dog", "the quick brown fox"]})
    >>> clusters_frame(stories, "body", key="id").rows()
    [(0, 2, 'x', 'x'), (0, 2, 'x', 'z')]
    """

    def clusters(index: Reader, least: float | None) -> Columns:
        if least is not None:
            raise ParameterError(f"threshold={quoted(least)}: an index has the clusters of its own threshold; leave it out")
        return columns(index.clusters(min_size), Cluster)

    return _listing(source, text, threshold, (key, group, scheme, rules, backend), clusters)


def _listing(
    source: Any,
    text: str | None,
    threshold: float | None,
    more: tuple[str | None, str | None, Scheme | None, TextRules | None, Backend | None],
    listed: Callable[[Reader, float | None], Columns],
) -> Any:
    key, group, scheme, rules, backend = more
    check_choice("backend", backend, (None, *get_args(Backend)))
    if isinstance(source, Reader):
        for name, value in (("text", text), ("key", key), ("group", group), ("scheme", scheme), ("rules", rules)):
            if value is not None:
                raise ParameterError(f"{name}={quoted(value)} is for a data frame, and source is an index: leave {name}= out")
        return _frame_of(listed(source, threshold), nw.Implementation.from_backend(backend or "pandas"), None).to_native()
    opened = _Opened("source", source, text, group, key)
    if text is None:
        raise ParameterError("source is a data frame: name the column of texts, as in pairs_frame(frame, 'body')")
    rule, names = _Rule(THRESHOLD if threshold is None else threshold, scheme, rules), opened.names(key)
    with _indexed(opened, text, rule, True, group) as index:
        table = listed(index, None)
    for name in table.keys() & _OF_KEYS:
        table[name] = [names(row) for row in table[name]]
    if backend is not None:
        dtype = nw.Int64 if key is None else opened.frame.schema[key]
        return _frame_of(table, nw.Implementation.from_backend(backend), dtype).to_native()
    return opened.new_frame(table, key)


# ---- comparison ----------------------------------------------------------------------------------------------------------


class _Rule:
    def __init__(self, threshold: float, scheme: Scheme | None, rules: TextRules | None) -> None:
        check_kind("scheme", scheme, Scheme, "a scheme, e.g. MinHash(threshold=0.8)")
        check_kind("rules", rules, TextRules, "a TextRules, e.g. TextRules.words(shingle=3)")
        if scheme is not None and threshold != THRESHOLD:
            raise ParameterError(f"threshold={threshold} goes without a scheme: give it to the scheme, which is {scheme!r}")
        if scheme is not None and not scheme.takes_text:
            raise ParameterError(f"scheme={scheme!r} takes codes: give one that takes texts, e.g. MinHash(threshold=0.8)")
        self.scheme = MinHash(threshold=threshold, exact=True) if scheme is None else scheme
        self.rules = rules


def _preferred(opened: _Opened, text: str, keep: Keep, order_by: str | Sequence[str] | None) -> Array:
    """All row numbers, the preferred ones first: int64[n]."""
    check_choice("keep", keep, get_args(Keep))
    column = opened.column(text)
    order = np.arange(len(opened.frame))
    by = [order_by] if isinstance(order_by, str) else [*check_many("order_by", order_by or ())]
    if by:
        for name in by:
            opened.column(name, "order_by")
        by = list(dict.fromkeys(by))
        (number,) = names_beside(by, 1)
        try:
            rows = opened.frame.select(*by).with_row_index(number).sort(*by, number, nulls_last=keep != "last")
        except (TypeError, ValueError) as error:
            why = f"order_by={quoted(order_by)} has values that have no order ({quoted(str(error))})"
            raise ParameterError(f"{why}: give columns of numbers, texts or times") from error
        order = rows.get_column(number).to_numpy().astype(np.int64)
    if keep == "longest":
        lengths = (column if column.dtype == nw.String else column.cast(nw.String)).str.len_chars()
        negative = np.nan_to_num(-np.array(lengths.to_list(), np.float64))  # nulls are in no index
        return order[np.argsort(negative[order], kind="stable")]
    return order if keep == "first" else order[::-1]


@contextmanager
def _indexed(opened: _Opened, text: str, rule: _Rule, chosen: Any = True, group: str | None = None) -> Iterator[Index]:
    """A temporary index of the chosen rows (bool[n]) by their numbers, grouped by a column."""
    groups = opened.groups(group)
    rows, number = opened.numbered(text, chosen)
    with (
        tempfile.TemporaryDirectory(prefix="neardup-") as folder,
        closing(open_scratch(str(Path(folder) / "index.db"))) as connection,
        Index(connection, rule.scheme, text=rule.rules, record_matches=False) as index,
    ):
        if groups is None:
            index.add_many(rows, key=number, text=text)
        else:
            index.add_many({"key": row, "text": value, "group": groups[row]} for row, value in rows.iter_rows())
        yield index


def _duplicates(index: Index, order: Array, connected: bool) -> Duplicates:
    """Warns if a chain made a large component."""
    found, rows = duplicates_of(index, order[np.isin(order, np.fromiter(index, np.int64))], connected), len(index)
    size, lowest = found.largest()
    if is_large(size, rows) and lowest < native.bounds(index.scheme.native).lowest:
        warnings.warn(
            f"chains of near-duplicates connect {size:,} of {rows:,} rows, with a similarity to the one that is kept down to "
            f"{lowest:.2f}: leave connected= out, or give a higher threshold",
            UserWarning,
            stacklevel=3,
        )
    return found


def _rows_matching(opened: _Opened, text: str, against: Any, rule: _Rule) -> list[int]:
    """The numbers of the rows that are near-duplicates of a document in an index or a row of another frame."""
    rows, number = opened.numbered(text)
    asked = partial(Reader.query_many, texts=rows, text=text, limit=1)
    if isinstance(against, Reader):
        both = isinstance(against.scheme, SetScheme) and isinstance(rule.scheme, SetScheme)
        found = asked(against, group=ANY_GROUP, threshold=rule.scheme.threshold if both else None)  # type: ignore[attr-defined]
    else:
        with _indexed(_Opened("against", against, text), text, rule) as index:
            found = asked(index)
    return [row for row, matches in zip(rows.get_column(number).to_list(), found, strict=True) if matches]


# ---- data frames in and out --------------------------------------------------------------------------------------------


class _Opened:
    """A data frame in memory (of a relation, only the named columns). Results have the type of the given frame."""

    def __init__(self, name: str, given: Any, text: Any, *compared: Any) -> None:
        try:
            opened: Any = nw.from_native(given)
        except TypeError as error:
            kind = type(given).__name__
            index = "an Index, or " if name != "frame" else ""
            what = f"{name} is of type {kind}"
            raise ParameterError(f"{what}: give {index}a data frame of pandas, polars, pyarrow or DuckDB") from error
        except nw.exceptions.DuplicateError as error:
            what = f"{name} has several columns of one name: rename or drop all but one"
            raise ParameterError(f"{what} ({quoted(str(error))})") from error
        self._name = name
        self._is_native = not isinstance(given, (nw.DataFrame, nw.LazyFrame))
        self._is_lazy = isinstance(opened, nw.LazyFrame)
        self._rows: RelationRows | None = None
        self.columns: list[str] = opened.collect_schema().names()
        if self._is_lazy:
            made_by = opened.implementation
            if made_by.is_duckdb() and text in self.columns:
                names = [one for given in compared for one in ([given] if isinstance(given, str) else given or ())]
                self._rows = RelationRows(opened.to_native(), text, [one for one in names if one in self.columns])
                opened = nw.from_native(self._rows.table)
            elif not (made_by.is_polars() or made_by.is_duckdb()):
                raise ParameterError(f"{name} is a lazy frame of {made_by.value}: collect it into pandas, polars or pyarrow")
            else:
                opened = opened.collect()
        self.frame: nw.DataFrame[Any] = opened

    def filtered(self, rows: Any) -> Any:
        return self._finish_frame(
            _filtered(self.frame, rows) if self._rows is None else nw.from_native(self._rows.filtered(rows))
        )

    def extended(self, columns: dict[str, list[Any]], key: str | None) -> Any:
        """The frame with more columns of numbers or values of the column `key`; None is null."""
        if self._rows is None:
            return self._finish_frame(self.frame.with_columns(*(self._series(name, columns[name], key) for name in columns)))
        return self._finish_frame(nw.from_native(self._rows.extended(self._in_sql(columns, key))))

    def new_frame(self, columns: Columns, key: str | None) -> Any:
        if self._rows is None:
            dtype = nw.Int64 if key is None else self.frame.schema[key]
            return self._finish_frame(_frame_of(columns, self.frame.implementation, dtype))
        return self._finish_frame(nw.from_native(self._rows.from_columns(self._in_sql(columns, key))))

    def _in_sql(self, columns: Columns, key: str | None) -> dict[str, tuple[str, list[Any]]]:
        of_keys = "BIGINT" if key is None or self._rows is None else self._rows.type_of(key)
        kinds = {nw.Int64: "BIGINT", nw.Float64: "DOUBLE"}
        return {
            name: (kinds[_TYPES[name]] if name in _TYPES else of_keys, values if isinstance(values, list) else values.tolist())
            for name, values in columns.items()
        }

    def _finish_frame(self, frame: Any) -> Any:
        if self._is_lazy and not isinstance(frame, nw.LazyFrame):
            frame = frame.lazy()
        return frame.to_native() if self._is_native else frame

    def column(self, name: str, role: str = "text") -> Any:
        if not isinstance(name, str):
            raise ParameterError(f"{role}={quoted(name)} is of type {type(name).__name__}: give the name of a column, a str")
        if name not in self.columns:
            listed = ", ".join(map(repr, self.columns)) or "none"
            raise ParameterError(f"{role}={quoted(name)} is no column of {self._name}, which has {listed}")
        return self.frame.get_column(name)

    def numbered(self, text: str, chosen: Any = True) -> tuple[Any, str]:
        """(number, text) of the chosen rows with a text as a frame, and the name of its first column."""
        present = ~np.asarray(self.column(text).is_null().to_list(), np.bool_) & chosen
        (number,) = names_beside([text], 1)
        column = nw.maybe_reset_index(self.frame.select(text))  # Arrow's data has pandas' labels too, and not of any type
        return _filtered(column.with_row_index(number), present), number

    def groups(self, group: str | None) -> list[int | None] | None:
        """A group number for each row, equal for equal values of a column; None for null."""
        if group is None:
            return None
        column = self.column(group, "group")
        numbers: dict[Any, int] = {}
        try:
            return [
                None if null or value != value else numbers.setdefault(value, len(numbers))
                for value, null in zip(column.to_list(), column.is_null().to_list(), strict=True)
            ]
        except TypeError as error:
            why = f"group={quoted(group)} is a column of values that cannot be compared ({quoted(str(error))})"
            raise ParameterError(f"{why}: give one of numbers, texts or times") from error

    def names(self, key: str | None) -> Callable[[Any], Any]:
        return int if key is None else self.column(key, "key").to_list().__getitem__

    def _series(self, name: str, values: list[Any], key: str | None) -> Any:
        dtype = _TYPES.get(name) or (nw.Int64 if key is None else self.frame.schema[key])
        native = self.frame.to_native() if self.frame.implementation.is_pandas_like() else None
        return _series(name, values, dtype, self.frame.implementation, None if native is None else native.index)


def _filtered(frame: Any, rows: Any) -> Any:
    return frame.filter(rows.tolist()) if len(rows) else frame


def _frame_of(table: dict[str, Any], backend: Any, key_type: Any) -> Any:
    made = {}
    for name, values in table.items():
        values = list(values)
        dtype = _TYPES.get(name) or key_type or _type_of_keys(values, backend)
        made[name] = _series(name, values, dtype, backend, None)
    return nw.from_dict(made)


def _type_of_keys(keys: list[Any], backend: Any) -> Any:
    kinds = {type(key) for key in keys}
    if len(kinds) > 1:
        if backend.is_pandas():
            return nw.Object
        names = " and ".join(sorted(kind.__name__ for kind in kinds))
        raise ParameterError(f"the keys are {names}, and a column of {backend.value} holds one type: give backend='pandas'")
    return {int: nw.Int64, bytes: nw.Binary}.get(kinds.pop() if kinds else str, nw.String)


def _series(name: str, values: list[Any], dtype: Any, backend: Any, index: Any) -> Any:
    """A series of values with None for null. index: pandas' row index of the frame that the series joins."""
    if not backend.is_pandas_like():
        return nw.new_series(name, values, None if dtype == nw.Unknown else dtype, backend=backend)
    kinds = {nw.Float64: "float64", nw.Int64: "Int64", nw.Boolean: "boolean"}  # pandas' own integers cannot be null
    integer = "UInt64" if dtype.is_unsigned_integer() else "Int64" if dtype.is_integer() else None
    kind = next((native for one, native in kinds.items() if dtype == one), integer)
    if index is None and integer is not None and None not in values:
        kind = integer.lower()
    native = backend.to_native_namespace().Series(values, index=index, name=name, dtype=kind)
    return nw.from_native(native, series_only=True)
