"""Reads and writes table files in batches: Parquet, and the file and stream formats of Arrow IPC.

Only this folder imports pyarrow, and only when a table is opened.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from ... import limits
from .files import FileError, packing_of_head

TABLE_FORMATS = ("parquet", "arrow")  # "arrow" is Arrow IPC, as file or stream

_READ_BYTES = 1 << 20
_IPC_FILE, _FEATHER_1 = b"ARROW1", b"FEA1"


def pyarrow_for(name: str) -> Any:
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError as error:
        raise FileError(f"{name}: Parquet and Arrow files need pyarrow: pip install 'neardup-db[arrow]'") from error
    return pyarrow


Wanted = Callable[[int, int], bool]  # a function that says whether any row in a range of row numbers is selected


class TableFile:
    """What both kinds of an open table file have. rows: read or skipped so far, all after `parts`; share: the part of the file
    read, from 0 to 1.

    `parts` yields batches of rows, with the position of the first in the file. columns: to read ("a.b" is a struct member), None
    for all; most: rows in a batch, if the format allows it; wanted: row groups without selected rows may be skipped. `output`
    makes a writer of a new file of the same format.
    """

    kind: str

    def __init__(self, pa: Any, name: str) -> None:
        self._pa, self.name = pa, name
        self.rows = 0
        self.share = 0.0

    @contextlib.contextmanager
    def readable(self, where: str = "") -> Iterator[None]:
        try:
            yield
        except (self._pa.ArrowException, OSError, MemoryError, OverflowError) as error:
            said = next(iter(str(error).splitlines()), type(error).__name__)
            if "crypt" in said:
                raise FileError(f"{self.name}{where}: is encrypted ({said}): decrypt it first") from error
            raise FileError(f"{self.name}{where}: no {self.kind}, or damaged ({said}): copy or write the file again") from error


def open_table(path: Path, name: str, format: str) -> ParquetFile | IpcFile:
    pa = pyarrow_for(name)
    with open(path, "rb") as opened:
        head = opened.read(16)
    if packing_of_head(head, name) is not None:
        raise FileError(f"{name}: packed tables are not supported: unpack it first; Parquet and Arrow compress their data")
    if not head:
        raise FileError(f"{name}: the file is empty; a table without rows still has a schema")
    if head.startswith(_FEATHER_1):
        raise FileError(f"{name}: Feather version 1, which is not supported: write it again as version 2, or as Parquet")
    source = pa.OSFile(os.fsencode(path))
    return ParquetFile(pa, name, source) if format == "parquet" else IpcFile(pa, name, source, head.startswith(_IPC_FILE))


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
            self.schema = self._file.schema_arrow

    def require_readable(self) -> None:
        """Raises FileError if the first row cannot be read, as in an encrypted file."""
        if self._file.metadata.num_row_groups:  # asking the footer about an encrypted column would abort the process
            with self.readable(", row group 0"):
                next(self._file.iter_batches(1, row_groups=[0]), None)

    def parts(self, columns: Sequence[str] | None, most: int, wanted: Wanted) -> Iterator[tuple[int, Any]]:
        metadata, row_bytes = self._file.metadata, 1.0
        for i in range(metadata.num_row_groups):
            group = metadata.row_group(i)
            end = self.rows + group.num_rows
            if group.num_rows and wanted(self.rows, end):
                row_bytes = max(row_bytes, group.total_byte_size / group.num_rows)
                size = max(1, min(most, int(limits.PIECE_BYTES / row_bytes)))
                with self.readable(f", row group {i}"):
                    batches = self._file.iter_batches(size, row_groups=[i], columns=columns)
                while self.rows < end:
                    with self.readable(f", row group {i}"):
                        batch = next(batches, None)
                    if batch is None or not len(batch):
                        raise FileError(f"{self.name}, row group {i}: fewer rows than the footer says: copy the file again")
                    row_bytes = max(row_bytes, batch.nbytes / len(batch))  # dictionary-encoded texts are larger in memory
                    self.rows += len(batch)
                    self.share = self.rows / metadata.num_rows
                    yield self.rows - len(batch), batch
            self.rows = end
            self.share = self.rows / max(metadata.num_rows, 1)

    def output(self, path: Path, schema: Any) -> Any:
        codec = "snappy"
        if self._file.metadata.num_row_groups:  # the codec of the largest column
            group = self._file.metadata.row_group(0)
            columns = map(group.column, range(group.num_columns))
            codec = max(columns, key=lambda column: column.total_uncompressed_size).compression
        return ParquetOutput(self._pa, path, schema, "none" if codec == "UNCOMPRESSED" else codec)


class ParquetOutput:
    """Row groups of up to `limits.GROUP_BYTES`."""

    def __init__(self, pa: Any, path: Path, schema: Any, codec: str) -> None:
        self._pa, self._schema = pa, schema
        self._writer = pa.parquet.ParquetWriter(path, schema, compression=codec)
        self._waiting: list[Any] = []
        self._bytes = 0

    def write_batch(self, batch: Any) -> None:
        self._waiting.append(batch)
        self._bytes += batch.nbytes
        if self._bytes >= limits.GROUP_BYTES:
            self._end_group()

    def _end_group(self) -> None:
        self._writer.write_table(self._pa.Table.from_batches(self._waiting, self._schema))
        self._waiting, self._bytes = [], 0

    def close(self) -> None:
        if self._waiting:
            self._end_group()
        self._writer.close()


class IpcFile(TableFile):
    """An Arrow IPC file, including Feather version 2, or a stream. Batches are read whole, with the requested columns only."""

    kind = "Arrow IPC"

    def __init__(self, pa: Any, name: str, source: Any, is_file: bool) -> None:
        super().__init__(pa, name)
        self._source, self._is_file = source, is_file
        with self.readable():
            self.schema = self._reader(None).schema

    def _reader(self, columns: Sequence[str] | None) -> Any:
        options = None
        if columns is not None:
            tops = {*columns, *(column.partition(".")[0] for column in columns)}
            fields = [i for i, name in enumerate(self.schema.names) if name in tops]
            options = self._pa.ipc.IpcReadOptions(included_fields=fields)
        self._source.seek(0)
        return (self._pa.ipc.open_file if self._is_file else self._pa.ipc.open_stream)(self._source, options=options)

    def parts(self, columns: Sequence[str] | None, most: int, wanted: Wanted) -> Iterator[tuple[int, Any]]:
        with self.readable():
            reader, size = self._reader(columns), self._source.size()
            batches = map(reader.get_batch, range(reader.num_record_batches)) if self._is_file else iter(reader)
        for i in count():
            with self.readable(f", behind row {self.rows}"):
                batch = next(batches, None)
                if batch is None:
                    return
                self._validate(batch)
            first, self.rows = self.rows, self.rows + len(batch)
            self.share = (i + 1) / reader.num_record_batches if self._is_file else self._source.tell() / size
            if wanted(first, self.rows):
                yield first, batch

    def output(self, path: Path, schema: Any) -> Any:
        if not self._is_file:
            return self._pa.ipc.new_stream(str(path), schema)
        options = self._pa.ipc.IpcWriteOptions(compression="lz4", emit_dictionary_deltas=True)
        return self._pa.ipc.new_file(str(path), schema, options=options)

    def _validate(self, batch: Any) -> None:
        """Invalid UTF-8 passes."""
        for column in batch.columns:
            try:
                column.validate(full=True)
            except self._pa.ArrowInvalid as error:
                if "UTF8" not in str(error):
                    raise
