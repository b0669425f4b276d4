"""Records in: JSON lines, CSV, TSV and folders of text files, one record at a time, with file and line in every error.

A `RecordSource` can be read more than once and gives the same records each time. Memory is bounded by the longest record.
"""

from __future__ import annotations

import csv
import fnmatch
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import limits
from .files import InputError, InputFile

FORMATS = ("jsonl", "csv", "tsv")
"""Formats of a file with many records; a folder of text files needs no name."""

DEFAULT_MAX_BYTES = 64_000_000
"""Longest line, CSV row or text file unless the caller says otherwise."""

_SUFFIXES = {".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".csv": "csv", ".tsv": "tsv", ".tab": "tsv"}
_BOM = b"\xef\xbb\xbf"


class RecordError(InputError):
    """One record cannot be used; the records after it can still be read."""


@dataclass(frozen=True, slots=True)
class Record:
    """One record of an input.

    key: the id as the input has it, or the running number of the record where it has none; text: what is compared; raw: the
    record's bytes as they stand in the input, line end included (of a folder: the file's); number: 1, 2, ... in the order of the
    input, counting only usable records; line: where it begins (1 for a file of a folder); fields: the other fields; path: the
    file that it stands in.
    """

    key: str | int
    text: str
    raw: bytes
    number: int
    line: int
    fields: dict[str, Any]
    path: Path


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How an input is read.

    format: one of FORMATS, None to go by the file's name; id_field and text_field: names of the fields, id_field None for "id",
    else "key", else the running number; integer_keys: ids are integers; on_error: "raise", or "skip" to leave out records that
    cannot be used; max_bytes: longest record; glob: which files of a folder.
    """

    format: str | None = None
    id_field: str | None = None
    text_field: str = "text"
    integer_keys: bool = False
    on_error: str = "raise"
    max_bytes: int = DEFAULT_MAX_BYTES
    glob: str = "*"


def format_of(path: Path) -> str | None:
    """The format that a file's name tells, None if it tells none; the end .gz or .zst is looked through."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    while suffixes and suffixes[-1] in (".gz", ".zst"):
        suffixes.pop()
    return _SUFFIXES.get(suffixes[-1]) if suffixes else None


class RecordSource:
    """An input of records: iterate it for its `Record`s; every iteration starts at the beginning.

    `skipped`, `first_skipped` and `replaced` tell of the last iteration: records left out because of an error, what the first of
    them was, and records in which invalid UTF-8 was read as U+FFFD. `header` is the header row of a CSV or TSV file as it stands.
    """

    def __init__(self, path: Path, options: ReadOptions, *, name: str | None = None, packing: str | None = None) -> None:
        self.path = path
        self.options = options
        self.name = name or str(path)
        self.folder = path.is_dir()
        self._packing = packing
        if not path.exists():
            raise InputError(f"{self.name}: no such file or folder")
        self.format = "folder" if self.folder else options.format or format_of(path)
        if self.format is None:
            raise InputError(f"{self.name}: its name does not tell the format; add --format {'|'.join(FORMATS)}")
        self.files: list[Path] = _text_files(path, options.glob) if self.folder else []
        self.size_bytes = sum(file.stat().st_size for file in self.files) if self.folder else path.stat().st_size
        self._start()

    def _start(self) -> None:
        self.header = b""
        self.skipped = 0
        self.first_skipped: RecordError | None = None
        self.replaced = 0
        self._number = 0
        self._input: InputFile | None = None
        self._done_bytes = 0

    @property
    def position(self) -> int:
        """Bytes on disk that the running iteration has read, up to `size_bytes`."""
        return self._done_bytes + (self._input.position if self._input is not None else 0)

    def __iter__(self) -> Iterator[Record]:
        self._start()
        if self.folder:
            yield from self._folder()
            return
        with InputFile(self.path, self.name, self._packing) as file:
            self._input = file
            yield from self._json_lines(file) if self.format == "jsonl" else self._rows(file)

    # ---- the three kinds -----------------------------------------------------------------------------------------------

    def _json_lines(self, file: InputFile) -> Iterator[Record]:
        lines = _Lines(file, self.options.max_bytes)
        while (line := self._guarded(lines.next)) is not _END:
            if isinstance(line, bytes) and line.strip():
                record = self._guarded(self._json_record, line, lines.number)
                if isinstance(record, Record):
                    yield record

    def _json_record(self, line: bytes, number: int) -> Record:
        try:
            value = json.loads(self._decode(line))
        except (ValueError, RecursionError) as error:
            raise self._error(number, f"no JSON ({error})") from error
        if not isinstance(value, dict):
            raise self._error(number, f"a JSON object is needed, this is {_kind(value)}: one {{...}} a line")
        return self._record(value, line, number)

    def _rows(self, file: InputFile) -> Iterator[Record]:
        limit = self.options.max_bytes
        csv.field_size_limit(max(csv.field_size_limit(), limit))
        rows = _Rows(_Lines(file, limit), "\t" if self.format == "tsv" else ",", self._decode, self._error)
        names = rows.next()
        if not isinstance(names, list):
            return
        self.header = bytes(rows.raw)
        self._check_header(names)
        while (row := self._guarded(rows.next)) is not _END:
            if isinstance(row, list) and row:
                record = self._guarded(self._row_record, names, row, rows)
                if isinstance(record, Record):
                    yield record

    def _check_header(self, names: Sequence[str]) -> None:
        for field in (self.options.text_field, self.options.id_field):
            if field is not None and field not in names:
                raise InputError(f"{self.name}, line 1: no column {field!r}; the header has {_listed(names)}. {_REMEDY}")

    def _row_record(self, names: Sequence[str], row: Sequence[str], rows: _Rows) -> Record:
        if len(row) != len(names):
            raise self._error(rows.line, f"{len(row)} columns, the header has {len(names)}")
        return self._record(dict(zip(names, row, strict=True)), bytes(rows.raw), rows.line)

    def _folder(self) -> Iterator[Record]:
        for path in self.files:
            record = self._guarded(self._file_record, path)
            if isinstance(record, Record):
                yield record

    def _file_record(self, path: Path) -> Record:
        name = path.relative_to(self.path).as_posix()
        try:
            with InputFile(path) as file:
                raw = file.read(self.options.max_bytes + 1)
                size_bytes = file.size_bytes
        except (InputError, OSError) as error:
            raise RecordError(str(error)) from error
        self._done_bytes += size_bytes
        if len(raw) > self.options.max_bytes:
            raise RecordError(f"{path}: {_too_long(self.options.max_bytes)}")
        text = self._decode(raw)
        self._number += 1
        return Record(_clean(name), text, raw, self._number, 1, {}, path)

    # ---- one record ----------------------------------------------------------------------------------------------------

    def _record(self, fields: dict[str, Any], raw: bytes, line: int) -> Record:
        text = fields.pop(self.options.text_field, None)
        if text is None:
            raise self._error(line, f"no field {self.options.text_field!r}; it has {_listed(fields)}. {_REMEDY}")
        if not isinstance(text, str):
            raise self._error(line, f"field {self.options.text_field!r} must be text, it is {_kind(text)}")
        key = self._key(fields, line)
        self._number += 1
        return Record(key if key is not None else self._numbered(), text, raw, self._number, line, fields, self.path)

    def _numbered(self) -> str | int:
        return self._number if self.options.integer_keys else str(self._number)

    def _key(self, fields: dict[str, Any], line: int) -> str | int | None:
        """The record's id, taken out of its fields; None where it has none."""
        names = ("id", "key") if self.options.id_field is None else (self.options.id_field,)
        name = next((name for name in names if fields.get(name) is not None), None)
        if name is None:
            if self.options.id_field is not None:
                raise self._error(line, f"no field {self.options.id_field!r}; it has {_listed(fields)}. {_REMEDY}")
            return None
        value = fields.pop(name)
        if isinstance(value, bool) or not isinstance(value, (str, int)):
            raise self._error(line, f"field {name!r} must be text or an integer, it is {_kind(value)}")
        if not self.options.integer_keys:
            return _clean(str(value))
        try:
            number = int(value)
        except ValueError as error:
            raise self._error(line, f"field {name!r} is {value!r}, no integer as --key-type int says") from error
        if not -(1 << 63) <= number < 1 << 63:
            raise self._error(line, f"field {name!r} is {number}, outside the 64-bit integers; use --key-type text")
        return number

    def _decode(self, raw: bytes) -> str:
        """Text of UTF-8 bytes; every invalid sequence becomes U+FFFD and is counted, once a piece."""
        try:
            return raw.decode("utf-8-sig" if raw.startswith(_BOM) else "utf-8")
        except UnicodeDecodeError:
            self.replaced += 1
            return raw.removeprefix(_BOM).decode("utf-8", "replace")

    def _error(self, line: int, what: str) -> RecordError:
        return RecordError(f"{self.name}, line {line}: {what}")

    def _guarded(self, read: Callable[..., Any], *arguments: Any) -> Any:
        """read(*arguments), or None where the record is wrong and wrong records are skipped."""
        try:
            return read(*arguments)
        except RecordError as error:
            if self.options.on_error != "skip":
                raise
            self.skipped += 1
            self.first_skipped = self.first_skipped or error
            return None


_REMEDY = "Name the fields with --id-field and --text-field."
_END = object()


class _Lines:
    """Lines of a file, none longer than the limit; `number` is that of the last one, from 1."""

    def __init__(self, file: InputFile, limit: int) -> None:
        self.file, self.limit, self.number = file, limit, 0

    def next(self) -> Any:
        """The next line as bytes, or _END."""
        line = self.file.readline(self.limit + 1)
        if not line:
            return _END
        self.number += 1
        if len(line) <= self.limit:
            return line
        while line and not line.endswith(b"\n"):
            line = self.file.readline(limits.LINE_BYTES)
        raise RecordError(f"{self.file.name}, line {self.number}: {_too_long(self.limit)}")


class _Rows:
    """Rows of a CSV file; `raw` holds the bytes of the last one and `line` where it begins."""

    def __init__(
        self, lines: _Lines, delimiter: str, decode: Callable[[bytes], str], error: Callable[[int, str], RecordError]
    ) -> None:
        self.lines, self._decode, self._error = lines, decode, error
        self.raw = bytearray()
        self.line = 1
        self._reader = csv.reader(self._texts(), delimiter=delimiter, strict=True)
        self._broken: RecordError | None = None

    def next(self) -> Any:
        """The next row as a list of texts (empty for an empty line), or _END."""
        self.raw.clear()
        self.line = self.lines.number + 1
        try:
            return next(self._reader)
        except (StopIteration, csv.Error) as error:
            if self._broken is not None:
                broken, self._broken = self._broken, None
                self._reader = csv.reader(self._texts(), self._reader.dialect)
                raise broken from None
            if isinstance(error, StopIteration):
                return _END
            raise self._error(self.line, f"no valid row ({error})") from error

    def _texts(self) -> Iterator[str]:
        """Decoded lines for the reader. A line too long ends them, since an iterator that raised cannot go on."""
        while True:
            try:
                line = self.lines.next()
            except RecordError as error:
                self._broken = error
                return
            if line is _END:
                return
            self.raw += line
            if len(self.raw) > self.lines.limit:
                self._broken = self._error(self.line, _too_long(self.lines.limit))
                return
            yield self._decode(line)


def _text_files(folder: Path, pattern: str) -> list[Path]:
    """Files below a folder whose name or relative path fits the pattern, in the order of their paths; hidden ones left out."""
    found = []
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in names:
            path = Path(parent, name)
            fits = fnmatch.fnmatch(name, pattern) or fnmatch.fnmatch(path.relative_to(folder).as_posix(), pattern)
            if fits and not name.startswith(".") and path.is_file():
                found.append(path)
    return sorted(found)


def _clean(key: str) -> str:
    """A key that can be stored as UTF-8: lone surrogates become U+FFFD."""
    return key.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _too_long(limit: int) -> str:
    return f"longer than {limit:,} bytes; raise the limit with --max-record-mb"


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false", int: "a number", float: "a number"}
    return "null" if value is None else names.get(type(value), type(value).__name__)


def _listed(names: Any) -> str:
    shown = [repr(name) for name in names][:12]
    return ", ".join(shown) + (", ..." if len(names) > 12 else "") if shown else "no other field"
