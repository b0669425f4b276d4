"""Reads and writes table files in batches: Parquet, and the file and stream formats of Arrow IPC.

Only this folder imports pyarrow, and only when a table is opened.
"""

from __future__ import annotations

import contextlib
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

from ... import limits
from .files import InputError, packing_by_content

TABLE_FORMATS = ("parquet", "arrow")
"""Table formats. "arrow" is Arrow IPC, as file or stream."""

_READ_BYTES = 1 << 20
_IPC_FILE, _FEATHER_1 = b"ARROW1", b"FEA1"


def pyarrow_for(name: str) -> Any:
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError as error:
        raise InputError(f"{name}: Parquet and Arrow files need pyarrow: pip install 'neardup-db[arrow]'") from error
    return pyarrow


Wanted = Callable[[int, int], bool]
"""A function that says whether any row in a range of row numbers is selected."""


class Part(NamedTuple):
    """first: the file row number of the first row, from 0."""

    first: int
    batch: Any


class TableFile(ABC):
    """An open table file. rows: read or skipped so far, all after `parts`; share: the part of the file read, from 0 to 1."""

    kind: str

    def __init__(self, pa: Any, name: str) -> None:
        self._pa, self.name = pa, name
        self.rows = 0
        self.share = 0.0

    @property
    @abstractmethod
    def schema(self) -> Any:
        pass

    def require_readable(self) -> None:  # noqa: B027 (most formats show it when they are opened)
        """Raises InputError if the first row shows that rows cannot be read."""

    @abstractmethod
    def parts(self, columns: Sequence[str] | None, most: int, wanted: Wanted, counts: list[int]) -> Iterator[Part]:
        """The rows of the given columns ("a.b" is a struct member), None for all. most: rows in a batch, if the format allows it;
        wanted: row groups without selected rows may be skipped; counts: row counts of Arrow IPC batches, filled by the first
        read.
        """

    @abstractmethod
    def output(self, file: IO[bytes], schema: Any) -> Any:
        pass

    @contextlib.contextmanager
    def readable(self, where: str = "") -> Iterator[None]:
        try:
            yield
        except (self._pa.ArrowException, OSError, MemoryError, OverflowError) as error:
            said = next(iter(str(error).splitlines()), type(error).__name__)
            if "crypt" in said:
                raise InputError(f"{self.name}{where}: is encrypted ({said}): decrypt it first") from error
            raise InputError(f"{self.name}{where}: no {self.kind}, or damaged ({said}): copy or write the file again") from error


def open_table(path: Path, name: str, format: str) -> TableFile:
    pa = pyarrow_for(name)
    with open(path, "rb") as opened:
        head = opened.read(8)
    if packing_by_content(path) is not None:
        raise InputError(f"{name}: packed tables are not supported: unpack it first; Parquet and Arrow compress their data")
    if not head:
        raise InputError(f"{name}: the file is empty; a table without rows still has a schema")
    if head.startswith(_FEATHER_1):
        raise InputError(f"{name}: Feather version 1, which is not supported: write it again as version 2, or as Parquet")
    source = pa.OSFile(os.fsencode(path))
    if format == "parquet":
        return ParquetFile(pa, name, source)
    return (IpcFile if head.startswith(_IPC_FILE) else IpcStream)(pa, name, source)


# ---- Parquet -----------------------------------------------------------------------------------------------------------


class ParquetFile(TableFile):
    """A Parquet file. Only a part of a row group is in memory at a time."""

    kind = "Parquet"

    def __init__(self, pa: Any, name: str, source: Any) -> None:
        super().__init__(pa, name)
        with self.readable():
            # Only both options together avoid reading whole row groups.
            self._file = pa.parquet.ParquetFile(
                source, buffer_size=_READ_BYTES, pre_buffer=False, page_checksum_verification=True
            )
            self._schema = self._file.schema_arrow
        self._metadata = self._file.metadata

    def require_readable(self) -> None:
        if self._metadata.num_row_groups:  # asking the footer about an encrypted column would abort the process
            with self.readable(", row group 0"):
                next(self._file.iter_batches(1, row_groups=[0]), None)

    @property
    def schema(self) -> Any:
        return self._schema

    def parts(self, columns: Sequence[str] | None, most: int, wanted: Wanted, counts: list[int]) -> Iterator[Part]:
        leaves = self._leaf_columns(columns)
        row_bytes = 0.0
        for i in range(self._metadata.num_row_groups):
            group = self._metadata.row_group(i)
            first, count = self.rows, group.num_rows
            if count and wanted(first, first + count):
                row_bytes = max(row_bytes, _row_bytes(group, leaves))
                with self.readable(f", row group {i}"):
                    batches = self._file.iter_batches(_rows_of(row_bytes, most), row_groups=[i], columns=columns)
                while self.rows < first + count:
                    with self.readable(f", row group {i}"):
                        batch = next(batches, None)
                    if batch is None or not len(batch):
                        raise InputError(f"{self.name}, row group {i}: fewer rows than the {count:,} that the footer says")
                    row_bytes = max(row_bytes, batch.nbytes / len(batch))  # dictionary-encoded texts are larger in memory
                    part = Part(self.rows, batch)
                    self.rows += len(batch)
                    self.share = self.rows / self._metadata.num_rows
                    yield part
            self.rows = first + count
            self.share = self.rows / max(self._metadata.num_rows, 1)

    def _leaf_columns(self, columns: Sequence[str] | None) -> list[int] | None:
        if columns is None:
            return None
        paths = [self._metadata.schema.column(i).path for i in range(self._metadata.num_columns)]
        return [i for i, path in enumerate(paths) if any(path == column or path.startswith(f"{column}.") for column in columns)]

    def output(self, file: IO[bytes], schema: Any) -> Any:
        return ParquetOutput(self._pa, file, schema, self._codec())

    def _codec(self) -> str:
        if not self._metadata.num_row_groups:
            return "snappy"
        group = self._metadata.row_group(0)
        columns = (group.column(i) for i in range(group.num_columns))
        codec: str = max(columns, key=lambda column: column.total_uncompressed_size).compression
        return "none" if codec == "UNCOMPRESSED" else codec


def _row_bytes(group: Any, leaves: list[int] | None) -> float:
    sizes = [group.total_byte_size] if leaves is None else [group.column(i).total_uncompressed_size for i in leaves]
    return float(sum(sizes)) / float(group.num_rows)


def _rows_of(row_bytes: float, most: int) -> int:
    return max(1, min(most, int(limits.PIECE_BYTES / max(row_bytes, 1.0))))


class ParquetOutput:
    def __init__(self, pa: Any, file: IO[bytes], schema: Any, codec: str) -> None:
        self._pa, self._schema = pa, schema
        self._writer = pa.parquet.ParquetWriter(file, schema, compression=codec)
        self._waiting: list[Any] = []
        self._bytes = 0

    def write_batch(self, batch: Any) -> None:
        self._waiting.append(batch)
        self._bytes += batch.nbytes
        if self._bytes >= limits.GROUP_BYTES:
            self._end_group()

    def _end_group(self) -> None:
        table = self._pa.Table.from_batches(self._waiting, self._schema)
        self._writer.write_table(table)
        self._waiting, self._bytes = [], 0

    def close(self) -> None:
        if self._waiting:
            self._end_group()
        self._writer.close()


# ---- Arrow IPC ---------------------------------------------------------------------------------------------------------


class IpcFile(TableFile):
    """An Arrow IPC file, including Feather version 2. Batches are read whole, with the requested columns only."""

    kind = "Arrow IPC file"

    def __init__(self, pa: Any, name: str, source: Any) -> None:
        super().__init__(pa, name)
        self._source = source
        with self.readable():
            self._reader = self._opened(None)
            self._schema = self._reader.schema

    @property
    def schema(self) -> Any:
        return self._schema

    def _opened(self, columns: Sequence[str] | None) -> Any:
        return self._pa.ipc.open_file(self._source, options=self._options(columns))

    def _options(self, columns: Sequence[str] | None) -> Any:
        if columns is None:
            return None
        tops = {column for column in columns} | {column.partition(".")[0] for column in columns}
        return self._pa.ipc.IpcReadOptions(included_fields=[i for i, name in enumerate(self._schema.names) if name in tops])

    def parts(self, columns: Sequence[str] | None, most: int, wanted: Wanted, counts: list[int]) -> Iterator[Part]:
        with self.readable():
            reader = self._opened(columns)
        for i in range(reader.num_record_batches):
            first = self.rows
            if i < len(counts) and not wanted(first, first + counts[i]):
                self.rows += counts[i]
                continue
            with self.readable(f", batch {i}"):
                batch = reader.get_batch(i)
                self._validate(batch)
            if i == len(counts):
                counts.append(len(batch))
            self.rows += len(batch)
            self.share = (i + 1) / reader.num_record_batches
            yield Part(first, batch)

    def output(self, file: IO[bytes], schema: Any) -> Any:
        options = self._pa.ipc.IpcWriteOptions(compression="lz4", emit_dictionary_deltas=True)
        return self._pa.ipc.new_file(file, schema, options=options)

    def _validate(self, batch: Any) -> None:
        """Invalid UTF-8 passes."""
        for column in batch.columns:
            try:
                column.validate(full=True)
            except self._pa.ArrowInvalid as error:
                if "UTF8" not in str(error):
                    raise


class IpcStream(IpcFile):
    kind = "Arrow IPC stream"

    def _opened(self, columns: Sequence[str] | None) -> Any:
        self._source.seek(0)
        return self._pa.ipc.open_stream(self._source, options=self._options(columns))

    def parts(self, columns: Sequence[str] | None, most: int, wanted: Wanted, counts: list[int]) -> Iterator[Part]:
        with self.readable():
            reader = self._opened(columns)
            size = self._source.size()
        while True:
            with self.readable(f", behind row {self.rows}"):
                try:
                    batch = reader.read_next_batch()
                except StopIteration:
                    return
                self._validate(batch)
            first = self.rows
            self.rows += len(batch)
            self.share = self._source.tell() / size
            if wanted(first, self.rows):
                yield Part(first, batch)

    def output(self, file: IO[bytes], schema: Any) -> Any:
        return self._pa.ipc.new_stream(file, schema)
