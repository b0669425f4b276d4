"""What `neardup dedup` asks of tables: the rows that stay are written with all columns as they are."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from ... import limits
from ...arrays import np
from ..outputs import open_output
from .files import InputError
from .passes import Marks, Passes, Piece
from .source import InputRecord
from .tables import Rows, TableSource

if TYPE_CHECKING:
    from ..screen import Meter

CLUSTER, DUPLICATE_OF, SIMILARITY, AGAINST = "cluster", "duplicate_of", "similarity", "against"
"""The columns that --mark adds, the last one with --against."""


class TablePasses(Passes):
    """A source of rows. Nothing is noted but the rows that were left out: a row is found again by its number."""

    def __init__(self, source: TableSource) -> None:
        self.source: TableSource = source
        _require_filter(source)

    def pieces(self) -> Iterator[Piece]:
        for texts in self.source.sketched():
            yield Piece(texts, int(texts.sizes.sum()))

    def record_place(self, record: InputRecord) -> None:
        pass

    def chosen(self, wanted: Any) -> Iterator[InputRecord]:
        rows_wanted, left_out = self._of_rows(wanted), np.sort(self.source.left_out)
        for rows, texts in self.source.text_rows(limits.PIECE_RECORDS, rows_wanted):
            here = rows_wanted[rows.place : rows.place + len(texts)]
            places = rows.place + np.flatnonzero(here)
            if len(places):
                numbers = places + 1 - np.searchsorted(left_out, places)
                yield from self.source.records(rows, texts, here, iter(numbers.tolist()))

    def write(self, kept: Any, output: Path, target: Path, meter: Meter, marks: Marks | None = None) -> None:
        mask, added = self._of_rows(kept), None if marks is None else _Added(self, marks)
        rows = self.source.rows(None, limits.PLACES_AT_ONCE, mask)
        self._write(rows, mask, output, self.source.files[0], added, meter)

    def write_shards(self, kept: Any, outputs: Mapping[Path, Path], meter: Meter, marks: Marks | None = None) -> None:
        mask, added = self._of_rows(kept), None if marks is None else _Added(self, marks)
        left = dict(outputs)
        for path, rows in groupby(self.source.rows(None, limits.PLACES_AT_ONCE, mask), key=lambda rows: rows.path):
            self._write(rows, mask, left.pop(path), path, added, meter)
        for path, output in left.items():  # of which no row is wanted
            self._write(iter(()), mask, output, path, added, meter)

    def _write(
        self, some: Iterator[Rows], mask: Any, output: Path, path: Path, added: _Added | None, meter: Meter
    ) -> None:
        """Writes the rows that bool[n] chooses into a file of the kind of another one."""
        source = self.source
        schema = source.schema if added is None else added.schema
        with source.opened(path) as like, open_output(output, None) as file, _until_error(file) as sink:
            with _writable(source):
                table = like.output(sink, schema)
            for rows in some:
                columns = list(rows.part.batch.columns)
                here = mask[rows.place : rows.place + len(rows.part.batch)]
                with _writable(source):
                    if not here.all():
                        columns = [_chosen(source.pa, column, here) for column in columns]
                    if added is not None:
                        columns += added.columns(rows.place + np.flatnonzero(here))
                    if len(columns[0]):
                        table.write_batch(source.pa.RecordBatch.from_arrays(columns, schema=schema))
                meter.advance(source.position)
            with _writable(source):
                table.close()

    def _of_rows(self, of_records: Any) -> Any:
        """bool[n] of the records as bool of all rows; rows that were left out are False."""
        left_out = self.source.left_out
        if not left_out:
            return of_records
        of_rows = np.ones(len(of_records) + len(left_out), bool)
        of_rows[left_out] = False
        of_rows[of_rows] = of_records
        return of_rows

    def close(self) -> None:
        pass


class _Added:
    """The columns of --mark. schema: that of the input with them behind its own; the ids are of the type that they have in the
    input."""

    def __init__(self, passes: TablePasses, marks: Marks) -> None:
        source = self._source = passes.source
        pa = source.pa
        for name in (CLUSTER, DUPLICATE_OF, SIMILARITY, *([] if marks.against is None else [AGAINST])):
            if name in source.schema.names:
                raise InputError(f"{source.name}: there is a column {name!r} already, which --mark adds: rename it first")
        kind = pa.string() if source.id_column is None else source.type_of(source.id_column)
        self._kind, self._plain = kind, without_views(pa, kind)
        self.schema = source.schema.append(pa.field(CLUSTER, pa.int64())).append(pa.field(DUPLICATE_OF, kind))
        self.schema = self.schema.append(pa.field(SIMILARITY, pa.float64()))
        self._against = marks.against
        if marks.against is not None:
            self.schema = self.schema.append(pa.field(AGAINST, pa.string()))
        total = len(marks.cluster) + len(source.left_out)
        is_record = np.ones(total, bool)
        is_record[source.left_out] = False
        places = self._places = np.flatnonzero(is_record)
        self._clusters, self._staying = np.zeros(total, np.int64), np.full(total, -1, np.int64)
        self._clusters[places] = marks.cluster
        self._similarities = np.zeros(total)
        self._similarities[places] = marks.similarity
        is_marked = marks.duplicate_of > 0
        self._staying[places[is_marked]] = places[marks.duplicate_of[is_marked] - 1]
        self._named = np.unique(self._staying[self._staying >= 0])
        """The places of the rows whose ids are written beside others."""
        numbers = np.searchsorted(places, self._named) + 1
        self._ids = self._read_ids(total, lambda which: marks.names(numbers[which].tolist()))

    def _read_ids(self, total: int, names: Callable[[Any], list[Any]]) -> Any:
        """The ids of those rows, in their order."""
        source, pa = self._source, self._source.pa
        if source.id_column is None:
            return pa.array([str(name) for name in names(slice(None))], self._plain)
        wanted = np.zeros(total, bool)
        wanted[self._named] = True
        parts = []
        for rows in source.rows([".".join(source.id_column)], limits.PLACES_AT_ONCE, wanted):
            column = source.column(rows.part.batch, source.id_column)
            here = wanted[rows.place : rows.place + len(column)]
            parts.append(column.cast(self._plain).filter(pa.array(here)))
        ids = pa.chunked_array(parts, self._plain).unify_dictionaries().combine_chunks()
        if isinstance(ids, pa.ChunkedArray):  # of no rows, or of many bytes
            ids = pa.concat_arrays([*ids.chunks, pa.array([], self._plain)])
        nulls = np.flatnonzero(ids.is_null().to_numpy(zero_copy_only=False))
        if not len(nulls):
            return ids
        if self._plain not in (pa.string(), pa.large_string()):
            raise InputError(
                f"{source.name}: row {self._named[nulls[0]] + 1} stays in the place of others and has no id, so {DUPLICATE_OF!r} "
                f"cannot name it: fill the column {'.'.join(source.id_column)!r}, or name another with --id-field"
            )
        given = np.full(len(ids), None, object)
        given[nulls] = names(nulls)
        return source.pa.compute.coalesce(ids, pa.array(given, self._plain))

    def columns(self, places: Any) -> list[Any]:
        """The columns of rows at some places."""
        pa = self._source.pa
        clusters, staying = self._clusters[places], self._staying[places]
        ids = self._ids.take(pa.array(np.searchsorted(self._named, staying), mask=staying < 0))
        columns = [pa.array(clusters, mask=clusters == 0), ids.cast(self._kind)]
        columns.append(pa.array(self._similarities[places], mask=staying < 0))
        if self._against is not None:
            numbers = np.searchsorted(self._places, places) + 1
            columns.append(pa.array(self._against(numbers.tolist()), pa.string()))
        return columns


class _Sink:
    """A file to which nothing is written any more after an error: pyarrow ends a Parquet file that is let go, and with that end a
    part of the rows would look whole."""

    closed = False

    def __init__(self, file: IO[bytes]) -> None:
        self._file: IO[bytes] | None = file

    def write(self, data: Any) -> int:
        return len(data) if self._file is None else self._file.write(data)

    def flush(self) -> None:
        if self._file is not None:
            self._file.flush()

    def discard(self) -> None:
        self._file = None


@contextlib.contextmanager
def _until_error(file: IO[bytes]) -> Iterator[Any]:
    sink = _Sink(file)
    try:
        yield sink
    except BaseException:
        sink.discard()
        raise


@contextlib.contextmanager
def _writable(source: TableSource) -> Iterator[None]:
    """Errors of pyarrow name the input; those of the system are of the output."""
    try:
        yield
    except source.pa.ArrowException as error:
        raise InputError(f"{source.name}: its rows cannot be written ({error}): cast the column, or leave it out") from error


# ---- choosing rows -----------------------------------------------------------------------------------------------------


def _require_filter(source: TableSource) -> None:
    """InputError where pyarrow cannot choose rows of a column."""
    for field in source.schema:
        try:
            _chosen(source.pa, source.pa.nulls(0, field.type), [])
        except (source.pa.ArrowNotImplementedError, source.pa.ArrowTypeError) as error:
            raise InputError(
                f"{source.name}: rows of the column {field.name!r} ({field.type}) cannot be chosen ({error}): cast it, or leave "
                "it out"
            ) from error


def _chosen(pa: Any, array: Any, chosen: Any) -> Any:
    """The rows of an array that bool[n] chooses. pyarrow filters no strings by views, but large strings."""
    plain, mask = without_views(pa, array.type), pa.array(chosen, pa.bool_())
    if plain == array.type:
        return array.filter(mask)
    return array.cast(plain).filter(mask).cast(array.type)


def without_views(pa: Any, kind: Any) -> Any:
    """The type with large strings or binary instead of views of them."""
    return {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}.get(kind, kind)
