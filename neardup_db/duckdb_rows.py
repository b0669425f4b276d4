"""Rows of a DuckDB relation by number, for `frames`.

A relation is a query, and its selected rows are another query over it; nothing is created in the database, and no table or
variable of the caller is looked up by name. Each run of the query numbers the rows again and may return others, so each text is
compared with the text that had its number, by 4 bits of its hash.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from .arrays import later, np

duckdb = later("duckdb")

_HASHES = 16

_CHANGED = (
    "the relation returned other rows, or another order, than when its texts were compared: store its rows with "
    "relation.create(...), or sort them with relation.order(...), and pass the result"
)


class RelationRows:
    """The rows of a relation. table: a pyarrow table with the compared columns, in row order."""

    def __init__(self, relation: Any, text: str, compared: Sequence[str]) -> None:
        self._relation = relation
        self._number, self._hash = names_beside({name.casefold() for name in relation.columns}, 2)
        hashed = f"(hash({_quoted(text)}) % {_HASHES})::BIGINT AS {self._hash}"
        self._numbered = relation.project(f"*, row_number() OVER () AS {self._number}, {hashed}")
        chosen = [*map(_quoted, dict.fromkeys((text, *compared))), self._number, self._hash]
        table = self._numbered.project(", ".join(chosen)).to_arrow_table().sort_by(self._number)
        self._hashes = table[self._hash].to_numpy()
        self.table = table.drop_columns([self._number, self._hash])

    def type_of(self, name: str) -> str:
        return str(dict(zip(self._relation.columns, self._relation.types, strict=True))[name])

    def filtered(self, rows: Any) -> Any:
        return self._selected_rows(rows).select(self._original_relation())

    def extended(self, columns: Mapping[str, tuple[str, Sequence[Any]]]) -> Any:
        """The relation with additional columns: (SQL type, a value for each row) by name."""
        new = _expressions(columns, "list_extract", duckdb.ColumnExpression(self._number))
        return self._selected_rows(np.ones(len(self._hashes), np.bool_)).select(self._original_relation(), *new)

    def from_columns(self, columns: Mapping[str, tuple[str, Sequence[Any]]]) -> Any:
        one_row = self._relation.limit(0).aggregate("count(*)")
        return one_row.select(*_expressions(columns, "unnest"))

    def _selected_rows(self, rows: Any) -> Any:
        count = len(self._hashes)
        place = duckdb.ColumnExpression(self._number) - duckdb.ConstantExpression(1)
        hashes = np.zeros((count, _HASHES), np.bool_)
        hashes[np.arange(count), self._hashes] = True
        fits = self._bit(hashes, place * duckdb.ConstantExpression(_HASHES) + duckdb.ColumnExpression(self._hash))
        changed = duckdb.FunctionExpression("error", duckdb.ConstantExpression(_CHANGED)).cast("BOOLEAN")
        condition = duckdb.CaseExpression(place >= duckdb.ConstantExpression(count), changed)
        return self._numbered.filter(condition.when(fits, self._bit(rows, place)).otherwise(changed))

    def _bit(self, bits: Any, place: Any) -> Any:
        constant = duckdb.ConstantExpression(np.packbits(bits).tobytes()).cast("BIT")
        return duckdb.FunctionExpression("get_bit", constant, place.cast("INTEGER")) == duckdb.ConstantExpression(1)

    def _original_relation(self) -> Any:
        return duckdb.StarExpression(exclude=[self._number, self._hash])


def _expressions(columns: Mapping[str, tuple[str, Sequence[Any]]], function: str, *more: Any) -> Iterator[Any]:
    for name, (kind, values) in columns.items():
        yield duckdb.FunctionExpression(function, duckdb.ConstantExpression(list(values)).cast(f"{kind}[]"), *more).alias(name)


def names_beside(present: Collection[str], count: int) -> list[str]:
    """Lower-case names that are not among these."""
    names = (f"row_{i}" for i in range(len(present) + count))
    return [name for name in names if name not in present][:count]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
