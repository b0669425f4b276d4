"""The passes of `neardup dedup` over tables: kept rows are written with all columns unchanged."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ... import limits
from ...arrays import np
from .files import InputError
from .passes import Marks, Piece, TextPasses, shard_paths
from .source import InputRecord
from .tables import Rows, TableSource

if TYPE_CHECKING:
    from ..progress import Meter


class TablePasses:
    """A source of rows, with the interface of `TextPasses`. Rows are found again by number, so only skipped rows are recorded."""

    def __init__(self, source: TableSource) -> None:
        self.source: TableSource = source

    def pieces(self) -> Iterator[Piece]:
        for texts in self.source.sketched():
            yield Piece(texts, int(texts.sizes.sum()))

    def chosen(self, wanted: Any) -> Iterator[InputRecord]:
        rows_wanted = self._row_mask(wanted)
        for rows, texts in self.source.text_rows(limits.PIECE_RECORDS, rows_wanted):
            here = rows_wanted[rows.place : rows.place + len(texts)]
            places = rows.place + np.flatnonzero(here)
            if len(places):
                yield from self.source.records(rows, texts, here, iter(self._numbers(places)))

    def write(
        self, kept: Any, output: Path, target: Path, meter: Meter, marks: Marks | None = None, *, shards: bool = False
    ) -> None:
        mask = self._row_mask(kept)
        rows = self.source.rows(None, limits.PLACES_AT_ONCE, mask)
        if not shards:
            self._write(rows, mask, output, self.source.files[0], marks, meter)
            return
        left = shard_paths(self.source, output)
        for path, some in groupby(rows, key=lambda one: one.path):
            self._write(some, mask, left.pop(path), path, marks, meter)
        for path, shard in left.items():  # no row of this file is selected
            self._write((), mask, shard, path, marks, meter)

    def _write(self, some: Iterable[Rows], mask: Any, output: Path, path: Path, marks: Marks | None, meter: Meter) -> None:
        source = self.source
        schema = source.schema if marks is None else self._marked_schema(marks)
        with source.opened(path) as like, _writable(source), contextlib.closing(like.output(output, schema)) as table:
            for rows in some:
                here = mask[rows.place : rows.place + len(rows.part.batch)]
                columns = list(rows.part.batch.columns)
                if not here.all():
                    columns = [_chosen(source.pa, column, here) for column in columns]
                if marks is not None:
                    columns += self._mark_arrays(marks, schema, rows.place + np.flatnonzero(here))
                if len(columns[0]):
                    table.write_batch(source.pa.RecordBatch.from_arrays(columns, schema=schema))
                meter.advance(source.position)

    def _row_mask(self, of_records: Any) -> Any:
        left_out = self.source.left_out
        if not left_out:
            return of_records
        of_rows = np.ones(len(of_records) + len(left_out), bool)
        of_rows[left_out] = False
        of_rows[of_rows] = of_records
        return of_rows

    def _numbers(self, places: Any) -> list[int]:
        numbers: list[int] = (places + 1 - np.searchsorted(np.sort(self.source.left_out), places)).tolist()
        return numbers

    def _marked_schema(self, marks: Marks) -> Any:
        """Integer ids keep their type; other ids are text."""
        source, pa = self.source, self.source.pa
        kind = pa.string() if source.id_column is None else source.type_of(source.id_column)
        kinds = {"cluster": pa.int64(), "similarity": pa.float64()}
        if pa.types.is_integer(kind):
            kinds["duplicate_of"] = kind
        schema = source.schema
        for name in marks.columns([]):
            if name in schema.names:
                raise InputError(f"{source.name}: there is a column {name!r} already, which --mark adds: rename it first")
            schema = schema.append(pa.field(name, kinds.get(name, pa.string())))
        return schema

    def _mark_arrays(self, marks: Marks, schema: Any, places: Any) -> list[Any]:
        source, pa = self.source, self.source.pa
        columns = marks.columns(self._numbers(places))
        if schema.field("duplicate_of").type == pa.string():
            columns["duplicate_of"] = [None if key is None else str(key) for key in columns["duplicate_of"]]
        elif unnamed := next((key for key in columns["duplicate_of"] if isinstance(key, str)), None):
            raise InputError(
                f"{source.name}: the row {unnamed} is kept in place of others and has no id, so 'duplicate_of' cannot name it: "
                f"fill the column {'.'.join(source.id_column or ())!r}, or name another with --id-field"
            )
        return [pa.array(values, schema.field(name).type) for name, values in columns.items()]

    def close(self) -> None:
        pass


Passes = TextPasses | TablePasses


@contextlib.contextmanager
def _writable(source: TableSource) -> Iterator[None]:
    """System errors belong to the output."""
    try:
        yield
    except source.pa.ArrowException as error:
        raise InputError(f"{source.name}: its rows cannot be written ({error}): cast the column, or leave it out") from error


def _chosen(pa: Any, array: Any, chosen: Any) -> Any:
    """String views become large strings, because pyarrow cannot filter them."""
    plain = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}.get(array.type)
    mask = pa.array(chosen, pa.bool_())
    return array.filter(mask) if plain is None else array.cast(plain).filter(mask).cast(array.type)
