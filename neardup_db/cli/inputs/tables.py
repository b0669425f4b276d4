"""Reads the rows of Parquet and Arrow IPC files that share one schema. The first pass of `neardup dedup` creates no Python
strings. A null text is an empty record."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from ... import arrow, limits
from ...arrays import np
from ...located import LocatedTexts, fitting
from ...values import Key
from .encodings import UTF8
from .files import FileError, Inputs
from .source import (
    ChangedError,
    Copied,
    InputRecord,
    Marks,
    Piece,
    Problem,
    ReadOptions,
    RecordError,
    clean_key,
    integer_key,
    too_long,
)
from .table_files import IpcFile, ParquetFile, open_table, pyarrow_for

_REMEDY = "Name the columns with --id-field and --text-field."


class RowProblem(Problem):
    def __str__(self) -> str:
        return f"{self.file}, row {self.line}: {self.reason}"


class Rows(NamedTuple):
    """Consecutive rows. path: their file; first, place: the position of the first row in the file and in all files."""

    path: Path
    first: int
    place: int
    batch: Any


class TableSource(Copied):
    """A table source (see `Source`). All files have one format of TABLE_FORMATS and one schema. `left_out` holds the positions,
    from 0, of the rows skipped by the last iteration or by `pieces`."""

    def __init__(self, inputs: Inputs, options: ReadOptions) -> None:
        super().__init__(inputs, options)
        if not self.files:
            raise FileError(f"{self.name}: no files; choose some with --glob")
        if options.delimiter is not None or options.encoding != UTF8:
            raise FileError(f"{self.name}: --delimiter and --encoding are for text, not for tables: leave them out")
        self.pa = pyarrow_for(self.name)
        self.schema = self._common_schema()
        self._texts = [self._column(field, _is_text, "strings", "--text-field") for field in options.text_fields]
        self.id_column = self._id_column()

    def _start(self) -> None:
        super()._start()
        self.left_out: list[int] = []

    # ---- the schema ----------------------------------------------------------------------------------------------------

    def _common_schema(self) -> Any:
        first: Any = None
        for path in self.files:
            with self.opened(path) as table:
                if first is None:
                    first, self._paths = table.schema, _paths(self.pa, table.schema)
                self._require_equal(first, table.schema, path)
                if isinstance(table, ParquetFile):
                    table.require_readable()
        return first

    def _require_equal(self, first: Any, schema: Any, path: Path) -> None:
        if first.equals(schema):
            return
        field = next((field for field in (*schema, *first) if field not in list(first) or field not in list(schema)), None)
        kind = "" if field is None else f"the column {field.name!r} ({field.type}{'' if field.nullable else ', not null'})"
        raise FileError(
            f"{self._named[self.files[0]].name} and {self._named[path].name} differ in {kind or 'the order of their columns'}: "
            "choose files with --glob, or write them with one schema"
        )

    def _column(self, name: str, fits: Callable[[Any, Any], bool], kinds: str, option: str) -> list[str]:
        if name not in self._paths:
            raise FileError(f"{self.name}: no column {name!r}; it has {self._column_names()}. {_REMEDY}")
        way, kind = self._paths[name]
        if self.schema.names.count(way[0]) > 1:
            raise FileError(f"{self.name}: {self.schema.names.count(way[0])} columns are called {way[0]!r}: rename all but one")
        if not fits(self.pa, kind):
            raise FileError(
                f"{self.name}: the column {name!r} is {kind}, not {kinds}; the columns are {self._column_names()}. Cast it, or "
                f"name another with {option}"
            )
        return way

    def _id_column(self) -> list[str] | None:
        if self.options.id_field is not None:
            return self._column(self.options.id_field, _is_key, "strings or integers", "--id-field")
        for name in ("id", "key"):
            if self.schema.names.count(name) == 1:
                if self.options.typed_ids and not _is_key(self.pa, self.schema.field(name).type):
                    return None
                return self._column(name, _is_key, "strings or integers", "--id-field")
        return None

    def _column_names(self) -> str:
        shown = [f"{field.name!r} ({field.type})" for field in list(self.schema)[:12]]
        return (", ".join(shown) + (", ..." if len(self.schema) > 12 else "")) or "no column"

    # ---- reading -------------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def opened(self, path: Path) -> Iterator[ParquetFile | IpcFile]:
        """Raises ChangedError if the file has changed since it was first opened, or changes until it is closed."""
        self.require_state(path)
        try:
            yield open_table(path, self._named[path].name, self.format)
        except (FileError, UnicodeDecodeError) as error:
            self.require_state(path)
            if isinstance(error, FileError):
                raise
            raise FileError(f"{self._named[path].name}: damaged, a column name is not UTF-8 ({error})") from error
        self.require_state(path)

    @property
    def position(self) -> int:
        return self._done_bytes + (0 if self._open is None else int(self._open.share * self._open_bytes))

    _open: ParquetFile | IpcFile | None = None
    _done_bytes = _open_bytes = 0

    def text_rows(
        self, most: int, wanted: Any = None, columns: Sequence[str] | None = None
    ) -> Iterator[tuple[Rows, LocatedTexts]]:
        """The rows with their texts, in batches of at most `most` rows and about `limits.PIECE_BYTES` of text. wanted: as in
        `rows`; columns: to read besides the texts, by default all that records need."""
        if columns is None:
            columns = [*self._with_ids, *self._other_columns()]
        for rows in self.rows([*(".".join(way) for way in self._texts), *columns], most, wanted):
            texts, start = self.texts(rows.batch), 0
            while start < len(texts):
                count = fitting(texts.sizes[start : start + most], limits.PIECE_BYTES)
                part = Rows(rows.path, rows.first + start, rows.place + start, rows.batch.slice(start, count))
                yield part, texts[start : start + count]
                start += count

    @property
    def _with_ids(self) -> list[str]:
        return [".".join(self.id_column)] if self.id_column else []

    def rows(self, columns: Sequence[str] | None, most: int, wanted: Any = None) -> Iterator[Rows]:
        """The rows of the given columns, None for all, in batches of at most `most` if the format allows it. wanted: a mask,
        bool[n]; row groups without selected rows may be skipped."""
        place = self._done_bytes = 0

        def is_wanted(first: int, end: int) -> bool:
            return wanted is None or bool(wanted[place + first : place + end].any())

        for path in self.files:
            with self.opened(path) as self._open:
                self._open_bytes = self._states[path][0]
                for first, batch in self._open.parts(columns, most, is_wanted):
                    yield Rows(path, first, place + first, batch)
                place += self._open.rows
            self._open = None
            self._done_bytes += self._open_bytes
        if wanted is not None and place != len(wanted):
            raise ChangedError(f"{self.name}: {place:,} rows, where there were {len(wanted):,}: run it again")

    def column(self, batch: Any, way: Sequence[str]) -> Any:
        """Members of a null struct are null."""
        column = batch.column(batch.schema.get_field_index(way[0]))
        return self.pa.compute.struct_field(column, list(way[1:])) if len(way) > 1 else column

    def texts(self, batch: Any) -> LocatedTexts:
        """Several text columns are joined by line ends."""
        columns = [self.column(batch, way) for way in self._texts]
        if len(columns) > 1:
            large = self.pa.large_string()
            columns = [column.cast(large).fill_null("") for column in columns]
            columns = [self.pa.compute.binary_join_element_wise(*columns, self.pa.scalar("\n", large))]
        return _column_of(columns[0]).texts(0, len(batch))[0]

    # ---- records -------------------------------------------------------------------------------------------------------

    def usable(self, rows: Rows, texts: LocatedTexts) -> Any:
        """The mask of usable rows, bool[n]. Unusable rows are counted, or raise an error if they are not to be skipped."""
        usable = np.ones(len(texts), bool)
        for i in np.flatnonzero(texts.sizes > self.options.max_bytes).tolist():
            self._skip_row(rows, i, f"its text is {too_long(self.options.max_bytes)}")
            usable[i] = False
        if self.options.id_field is not None and self.id_column is not None:
            nulls = self.column(rows.batch, self.id_column).is_null().to_numpy(zero_copy_only=False)
            for i in np.flatnonzero(nulls & usable).tolist():
                self._skip_row(rows, i, f"the column {self.options.id_field!r} is null")
                usable[i] = False
        return usable

    def _is_utf8(self, batch: Any) -> bool:
        try:
            for way in self._texts:
                self.column(batch, way).validate(full=True)
        except self.pa.ArrowInvalid:
            return False
        return True

    def _other_columns(self) -> list[str]:
        if self.options.other_fields is not None:
            return list(self.options.other_fields)
        taken = [way[0] for way in (*self._texts, self.id_column) if way is not None and len(way) == 1]
        return [name for name in self.schema.names if name not in taken]

    def __iter__(self) -> Iterator[InputRecord]:
        self._start()
        if self.id_column is None and self.options.integer_keys:
            why = f"no column of ids, as --key-type int needs; it has {self._column_names()}. {_REMEDY}"
            raise FileError(f"{self.name}: {why}")
        numbers = itertools.count(1)
        for rows, texts in self.text_rows(limits.PIECE_RECORDS):
            yield from self.records(rows, texts, self.usable(rows, texts), numbers)

    def records(self, rows: Rows, texts: LocatedTexts, wanted: Any, numbers: Iterator[int]) -> Iterator[InputRecord]:
        batch, first = rows.batch, rows.first
        places = np.flatnonzero(wanted)
        ids = None if self.id_column is None else _column_of(self.column(batch, self.id_column)).values(0, len(batch))
        fields = self._fields(batch)
        name = clean_key(self._named[rows.path].key)
        for i, text in zip(places.tolist(), texts.at_indexes(places).to_list(), strict=True):
            self.replaced += isinstance(text, bytes)
            try:
                key = None if ids is None else self._key(ids[i])
            except ValueError as error:
                self._skip_row(rows, i, str(error))
                continue
            line = first + i + 1
            given: Any = f"{name}:{line}" if key is None else key
            others = {name: column[i] for name, column in fields.items()}
            yield InputRecord(given, _decoded(text), b"", next(numbers), line, 0, others, rows.path, key is None)

    def _key(self, value: Any) -> Key | None:
        value = _decoded(value)
        if not self.options.integer_keys:
            return value if value is None or (self.options.typed_ids and isinstance(value, int)) else clean_key(str(value))
        column = ".".join(cast(list[str], self.id_column))
        if value is None:
            raise ValueError(f"the column {column!r} is null, and --key-type int needs an id: use --key-type text")
        return integer_key(value, f"the column {column!r}")

    def _fields(self, batch: Any) -> dict[str, list[Any]]:
        """The other fields of a batch as JSON values, or as comparable values if requested by name. Raises FileError for a
        column that JSON cannot represent."""
        names = self._other_columns()
        if not names:
            return {}
        columns = {name: self.column(batch, self._column(name, lambda pa, kind: True, "", "")) for name in names}
        decimals: dict[str, list[Any]] = {}
        if self.options.other_fields is not None:
            exact = [name for name, column in columns.items() if self.pa.types.is_decimal(column.type)]
            decimals = {name: columns.pop(name).to_pylist() for name in exact}
            columns = {name: _comparable(self.pa, column) for name, column in columns.items()}
        if not columns:
            return decimals
        with arrow.Source("columns", self.pa.RecordBatch.from_arrays(list(columns.values()), list(columns))) as source:
            for (name, column), kind in zip(columns.items(), source.types, strict=True):
                if not arrow.is_json(kind):
                    raise FileError(f"{self.name}: the column {name!r} is {column.type}, not {arrow.METADATA}")
            (chunk,) = source.chunks()
            return {**decimals, **{name: column.values(0, len(batch)) for name, column in zip(columns, chunk, strict=True)}}

    # ---- skipped rows ----------------------------------------------------------------------------------------

    def _skip_row(self, rows: Rows, i: int, reason: str) -> None:
        error = RecordError(RowProblem(self._named[rows.path].name, rows.first + i + 1, None, reason))
        self.skip_record(error)
        self.left_out.append(rows.place + i)

    def problem(self, record: InputRecord, reason: str) -> Problem:
        return RowProblem(self._named[record.path].name, record.line, record.key, reason)

    # ---- copying -------------------------------------------------------------------------------------------------------

    def pieces(self) -> Iterator[Piece]:
        self._start()
        required = self._with_ids if self.options.id_field is not None else []
        for rows, texts in self.text_rows(limits.SKETCHED_RECORDS, columns=required):
            usable = self.usable(rows, texts)
            if not usable.all():
                texts = texts.at_indexes(usable)
            if not self._is_utf8(rows.batch):
                self.replaced += sum(isinstance(text, bytes) for text in texts)
            yield Piece(texts, int(texts.sizes.sum()))

    def chosen(self, wanted: Any) -> Iterator[InputRecord]:
        rows_wanted = self._row_mask(wanted)
        for rows, texts in self.text_rows(limits.PIECE_RECORDS, rows_wanted):
            here = rows_wanted[rows.place : rows.place + len(texts)]
            places = rows.place + np.flatnonzero(here)
            if len(places):
                yield from self.records(rows, texts, here, iter(self._numbers(places)))

    def _batches(self, wanted: Any) -> Iterator[tuple[Rows, Any]]:
        """Rows with masks of the selected ones."""
        mask = self._row_mask(wanted)
        for rows in self.rows(None, limits.PLACES_AT_ONCE, mask):
            yield rows, mask[rows.place : rows.place + len(rows.batch)]

    def _copy(self, batches: Iterable[Any], like: Path, output: Path, target: Path, marks: Marks | None, edit: None) -> None:
        schema = self.schema if marks is None else self._marked_schema(marks)
        try:
            with self.opened(like) as file, contextlib.closing(file.output(output, schema)) as table:
                for rows, here in batches:
                    columns = list(rows.batch.columns)
                    if not here.all():
                        columns = [_chosen(self.pa, column, here) for column in columns]
                    if marks is not None:
                        columns += self._mark_arrays(marks, schema, rows.place + np.flatnonzero(here))
                    if len(columns[0]):
                        table.write_batch(self.pa.RecordBatch.from_arrays(columns, schema=schema))
                    self.on_copied(self.position)
        except self.pa.ArrowException as error:  # system errors belong to the output
            raise FileError(f"{self.name}: its rows cannot be written ({error}): cast the column, or leave it out") from error

    def _row_mask(self, of_records: Any) -> Any:
        left_out = self.left_out
        if not left_out:
            return of_records
        of_rows = np.ones(len(of_records) + len(left_out), bool)
        of_rows[left_out] = False
        of_rows[of_rows] = of_records
        return of_rows

    def _numbers(self, places: Any) -> list[int]:
        numbers: list[int] = (places + 1 - np.searchsorted(np.sort(self.left_out), places)).tolist()
        return numbers

    def _marked_schema(self, marks: Marks) -> Any:
        """Integer ids keep their type; other ids are text."""
        pa = self.pa
        kind = pa.string() if self.id_column is None else self._paths[".".join(self.id_column)][1]
        kinds = {"cluster": pa.int64(), "similarity": pa.float64()}
        if pa.types.is_integer(kind):
            kinds["duplicate_of"] = kind
        schema = self.schema
        for name in marks.columns([]):
            schema = schema.append(pa.field(name, kinds.get(name, pa.string())))
        return schema

    def _mark_arrays(self, marks: Marks, schema: Any, places: Any) -> list[Any]:
        pa = self.pa
        columns = marks.columns(self._numbers(places))
        if schema.field("duplicate_of").type == pa.string():
            columns["duplicate_of"] = [None if key is None else str(key) for key in columns["duplicate_of"]]
        elif unnamed := next((key for key in columns["duplicate_of"] if isinstance(key, str)), None):
            raise FileError(
                f"{self.name}: the row {unnamed} is kept in place of others and has no id, so 'duplicate_of' cannot name it: "
                f"fill the column {'.'.join(self.id_column or ())!r}, or name another with --id-field"
            )
        return [pa.array(values, schema.field(name).type) for name, values in columns.items()]


def _column_of(array: Any) -> arrow.Column:
    with arrow.Source("column", array) as source:
        ((column,),) = source.chunks()
        return column


def _decoded(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _comparable(pa: Any, column: Any) -> Any:
    kind = column.type
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        return column.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
    return column


def _paths(pa: Any, schema: Any) -> dict[str, tuple[list[str], Any]]:
    """By the name of each field, the names that lead to it and its type. Dots lead into structs, unless a field has the full
    name."""
    found: dict[str, tuple[list[str], Any]] = {}
    level = [([field.name], field.type) for field in schema]
    while level:
        for way, kind in level:
            found.setdefault(".".join(way), (way, kind))
        structs = [(way, map(kind.field, range(kind.num_fields))) for way, kind in level if pa.types.is_struct(kind)]
        level = [([*way, member.name], member.type) for way, members in structs for member in members]
    return found


def _storage(pa: Any, kind: Any) -> Any:
    while True:
        if isinstance(kind, pa.BaseExtensionType):
            kind = kind.storage_type
        elif pa.types.is_dictionary(kind):
            kind = kind.value_type
        else:
            return kind


def _is_text(pa: Any, kind: Any) -> bool:
    return arrow.is_string(_storage(pa, kind))


def _is_key(pa: Any, kind: Any) -> bool:
    return _is_text(pa, kind) or bool(pa.types.is_integer(_storage(pa, kind)) and not isinstance(kind, pa.BaseExtensionType))


def _chosen(pa: Any, array: Any, chosen: Any) -> Any:
    """String views become large strings, because pyarrow cannot filter them."""
    plain = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}.get(array.type)
    mask = pa.array(chosen, pa.bool_())
    return array.filter(mask) if plain is None else array.cast(plain).filter(mask).cast(array.type)
