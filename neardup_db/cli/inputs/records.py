"""Reads JSON lines, CSV, TSV, lines of text and folders of texts, one record at a time; errors name file and line. The longest
record bounds the memory use."""

from __future__ import annotations

import contextlib
import csv
import io
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from ... import limits
from .encodings import BOM, HEAD_BYTES, known_kind, refuse_utf16, why_not_text
from .files import PACKED_SUFFIXES, FileError, InputFile, Inputs
from .source import (
    ABSENT,
    ChangedError,
    InputRecord,
    Problem,
    ReadOptions,
    RecordError,
    Source,
    clean_key,
    field_value,
    integer_key,
    joined_names,
    too_long,
)

FORMATS = ("jsonl", "csv", "tsv", "lines", "parquet", "arrow")
"""Formats of files with many records. A folder of texts has no file format."""

_SUFFIXES = {
    ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".csv": "csv", ".tsv": "tsv", ".tab": "tsv",
    ".parquet": "parquet", ".pq": "parquet", ".arrow": "arrow", ".arrows": "arrow", ".feather": "arrow", ".ipc": "arrow",
}  # fmt: skip

NAMELESS = {"lines": "lines of text", "folder": "texts of a folder"}  # formats whose records have no fields


def format_of(path: Path) -> str | None:
    return _SUFFIXES.get(_suffix(path))


def format_of_file(path: Path) -> str | None:
    """The format of a file given by its own path: a .txt file holds lines, whereas in a folder it may be one text."""
    return "lines" if _suffix(path) == ".txt" else format_of(path)


def _suffix(path: Path) -> str:
    return next((suffix for suffix in map(str.lower, reversed(path.suffixes)) if suffix not in PACKED_SUFFIXES), "")


END = object()  # returned after the last line or row


class LineFile(Protocol):
    name: str

    def head(self, most: int) -> bytes: ...

    def readline(self, limit: int) -> bytes:
        """The next line with its line end, at most `limit` bytes; b"" at the end."""
        ...


class Lines:
    """Length-limited lines of a file. `number` is the line number of the last line, from 1; `start` and `end` are its byte
    offsets."""

    def __init__(self, file: LineFile, limit: int) -> None:
        self.file, self.limit = file, limit
        self.number = self.start = self.end = 0

    def next_line(self) -> Any:
        line = self.file.readline(self.limit + 1)
        if not line:
            return END
        self.number += 1
        self.start = self.end
        self.end += len(line)
        if len(line) <= self.limit:
            return line
        while line and not line.endswith(b"\n"):
            line = self.file.readline(limits.LINE_BYTES)
            self.end += len(line)
        raise RecordError(Problem(self.file.name, self.number, None, too_long(self.limit)))


class Rows:
    """CSV rows. `raw`, `line` and `start` are the bytes, first line and byte offset of the last row."""

    def __init__(
        self, lines: Lines, delimiter: str, decode: Callable[[bytes], str], error: Callable[[int, str], RecordError]
    ) -> None:
        self.lines, self._decode, self._error = lines, decode, error
        self.raw = bytearray()
        self.line, self.start = 1, 0
        self._reader = csv.reader(iter(self._next_text, END), delimiter=delimiter, strict=True)

    def next_row(self) -> Any:
        """The next row as a list of strings (empty for a blank line), or END. After an error the reader goes on with the next
        line."""
        self.raw.clear()
        self.line, self.start = self.lines.number + 1, self.lines.end
        try:
            return next(self._reader, END)
        except csv.Error as error:
            raise self._error(self.line, f"not a valid row ({error})") from error

    def _next_text(self) -> Any:
        line = self.lines.next_line()
        if line is END:
            return END
        self.raw += line
        if len(self.raw) > self.lines.limit:
            raise self._error(self.line, too_long(self.lines.limit))
        return self._decode(line)


class Place(NamedTuple):
    """The position of a record. line: its first line (1 for a text file); start: its byte offset in the decompressed file."""

    line: int
    start: int


class RecordSource(Source):
    """A text source (see `Source`). `header` is the header row of CSV and TSV."""

    def __init__(self, inputs: Inputs, options: ReadOptions) -> None:
        super().__init__(inputs, options)
        self._text_field: Any = options.text_fields[0] if len(options.text_fields) == 1 else None
        self._id_fields = ("id", "key") if options.id_field is None else (options.id_field,)
        called = NAMELESS.get(self.format)
        if called and (options.text_fields != ("text",) or options.id_field is not None):
            raise FileError(f"{self.name}: {called} have no fields: leave out --text-field and --id-field")
        if called and options.integer_keys:
            raise FileError(f"{self.name}: {called} have no ids, as --key-type int needs: use --key-type text")
        if options.delimiter is not None and self.format not in ("csv", "tsv"):
            raise FileError(f"{self.name}: --delimiter is for CSV and TSV: leave it out, or add --format csv")

    def _start(self) -> None:
        super()._start()
        self.header = b""
        self._columns: dict[Path, Sequence[str]] = {}  # the column names of each CSV or TSV file
        self._number = 0
        self._called = self.name
        self._input: InputFile | None = None
        self._done_bytes = 0

    @property
    def position(self) -> int:
        return self._done_bytes + (self._input.position if self._input is not None else 0)

    def __iter__(self) -> Iterator[InputRecord]:
        self._start()
        for path in self.files:
            if self.format == "folder":
                record = self._guarded(self._file_record, path)
                if isinstance(record, InputRecord):
                    yield record
            else:
                with self.opened(path) as file:
                    yield from self._records_of(file)

    def _records_of(self, file: LineFile) -> Iterator[InputRecord]:
        read = {"jsonl": self._json_lines, "lines": self._text_lines}.get(self.format, self._rows)
        return read(Lines(file, self.options.max_bytes))

    @contextlib.contextmanager
    def opened(self, path: Path) -> Iterator[InputFile]:
        """Raises ChangedError if the file has changed since it was first opened."""
        named = self._named[path]
        self._file, self._called, self._key_name = path, named.name, clean_key(named.key)
        self.require_state(path)
        with InputFile(path, named.name) as file:
            self.require_state(path, file.state)
            self._require_text(file)
            self._input = file
            yield file
            self._input = None
            self._done_bytes += file.state[0]

    def _require_text(self, file: LineFile) -> None:
        head = file.head(HEAD_BYTES)
        refuse_utf16(head, file.name)
        has_fields = self.format not in NAMELESS  # with fields, the error can name the invalid record
        why = known_kind(head) if has_fields else why_not_text(head)
        if why is not None:
            others = "; leave out such files with --glob or --on-error skip" if self.format == "folder" else ""
            raise FileError(f"{file.name}: {why}{others}")

    def read_again(self, file: InputFile, number: int, place: Place, size: int) -> InputRecord:
        """Reread the record at a place in an `opened` file. Raises RecordError if it is missing."""
        self._number = number - 1
        raw = file.read_from(place.start, size)
        if self.format == "folder":
            return self._file_text(file.path, raw)
        if self.format == "jsonl":
            return self._json_record(raw, place)
        if self.format == "lines":
            return self._line_record(raw, place)
        reader = csv.reader(io.StringIO(self._decode(raw), newline="\n"), delimiter=self.delimiter, strict=True)
        try:
            row = next(reader, [])
        except csv.Error as error:
            raise self._error(place.line, f"not a valid row ({error})") from error
        return self._row_record(self._columns[file.path], row, raw, place)

    @property
    def columns(self) -> Sequence[str]:
        return next(iter(self._columns.values()), ())

    @property
    def delimiter(self) -> str:
        return self.options.delimiter or ("\t" if self.format == "tsv" else ",")

    def problem(self, record: InputRecord, reason: str) -> Problem:
        file = self._named[record.path].name
        return Problem(file, 0 if self.format == "folder" else record.line, record.key, reason)

    # ---- the kinds -----------------------------------------------------------------------------------------------------

    def _json_lines(self, lines: Lines) -> Iterator[InputRecord]:
        while True:
            try:
                line = lines.next_line()
                if line is END:
                    return
                if not line.startswith(b"{") and not line.removeprefix(BOM).strip():
                    continue
                record = self._json_record(line, Place(lines.number, lines.start))
            except RecordError as error:
                self.skip_record(error)
            else:
                yield record

    def _json_record(self, line: bytes, place: Place) -> InputRecord:
        before, text = self.replaced, self._decode(line)
        try:
            value = _json_value(text)
        except (json.JSONDecodeError, RecursionError) as error:
            raise self._error(place.line, f"not JSON ({error})") from error
        except ValueError as error:  # Python's message mentions interpreter settings
            raise self._error(place.line, "contains a number with thousands of digits: write it as text, in quotes") from error
        if not isinstance(value, dict):
            raise self._error(place.line, f"a JSON object is needed, this is {_kind(value)}: one {{...}} a line")
        record = self._record(value, line, place)
        self.replaced = min(self.replaced, before + 1)  # count a line once
        return record

    def _text_lines(self, lines: Lines) -> Iterator[InputRecord]:
        while (line := self._guarded(lines.next_line)) is not END:
            if line is not None and line != BOM:
                yield self._line_record(line, Place(lines.number, lines.start))

    def _line_record(self, line: bytes, place: Place) -> InputRecord:
        text = self._decode(line).removesuffix("\n").removesuffix("\r")
        self._number += 1
        return InputRecord(f"{self._key_name}:{place.line}", text, line, self._number, *place, {}, self._file, True)

    def _rows(self, lines: Lines) -> Iterator[InputRecord]:
        csv.field_size_limit(max(csv.field_size_limit(), self.options.max_bytes))
        rows = Rows(lines, self.delimiter, self._decode, self._error)
        names = rows.next_row()
        if not isinstance(names, list) or (not any(names) and rows.next_row() is END):
            return
        if not self._columns:
            self.header = bytes(rows.raw)
        self._check_header(names)
        while (row := self._guarded(rows.next_row)) is not END:
            if isinstance(row, list) and row:
                record = self._guarded(self._row_record, names, row, bytes(rows.raw), Place(rows.line, rows.start))
                if isinstance(record, InputRecord):
                    yield record

    def _check_header(self, names: Sequence[str]) -> None:
        remedy = _REMEDY if len(names) > 1 else "give --delimiter if something else stands between columns, or name the fields"
        needed = [*self.options.text_fields, *([] if self.options.id_field is None else [self.options.id_field])]
        for field in (*needed, *(self.options.other_fields or ())):
            if (count := names.count(field)) > 1:
                raise FileError(f"{self._called}, line 1: {count} columns are called {field!r}: rename all but one")
        for field in needed:
            if field not in names:
                raise FileError(f"{self._called}, line 1: no column {field!r}; the header has {joined_names(names)}; {remedy}")
        self._columns[self._file] = names
        if self.options.one_header and names != self.columns:
            first = self._named[self.files[0]].name
            raise FileError(
                f"{self._called}, line 1: the columns are {joined_names(names)}, those of {first} {joined_names(self.columns)}: "
                "files with different columns cannot be combined; choose files with the same columns"
            )

    def _row_record(self, names: Sequence[str], row: Sequence[str], raw: bytes, place: Place) -> InputRecord:
        if len(row) != len(names):
            raise self._error(place.line, f"{len(row)} columns, the header has {len(names)}")
        return self._record(dict(zip(names, row, strict=True)), raw, place)

    def _file_record(self, path: Path) -> InputRecord:
        try:
            with self.opened(path) as file:
                raw = file.read(self.options.max_bytes + 1)
        except ChangedError:
            raise
        except (FileError, OSError) as error:
            raise self._error(0, str(error).removeprefix(f"{path}: ")) from error
        if len(raw) > self.options.max_bytes:
            raise self._error(0, too_long(self.options.max_bytes))
        return self._file_text(path, raw)

    def _file_text(self, path: Path, raw: bytes) -> InputRecord:
        text = self._decode(raw)
        self._number += 1
        return InputRecord(self._key_name, text, raw, self._number, 1, 0, {}, path)

    # ---- one record ----------------------------------------------------------------------------------------------------

    def _record(self, fields: dict[str, Any], raw: bytes, place: Place) -> InputRecord:
        line, start = place
        others = self.options.other_fields
        asked = {name: field_value(fields, name) for name in others} if others else {}
        text = fields.get(self._text_field)
        if type(text) is str:
            del fields[self._text_field]
        else:
            text = self._text(fields, line)
        key = self._key(fields, line)
        if asked:
            fields.update((name, value) for name, value in asked.items() if value is not ABSENT)
        self._number += 1
        named = f"{self._key_name}:{line}" if key is None else key
        return InputRecord(named, text, raw, self._number, line, start, fields, self._file, key is None)

    def _text(self, fields: dict[str, Any], line: int) -> str:
        names = self.options.text_fields
        values = [_pop_field(fields, name) for name in names]
        if self.options.integer_texts:
            values = [str(value) if type(value) is int else value for value in values]
        if all(value is None for value in values):
            raise self._error(line, f"no field {' or '.join(map(repr, names))}; it has {joined_names(fields)}; {_REMEDY}")
        for name, value in zip(names, values, strict=True):
            if value is not None and not isinstance(value, str):
                raise self._error(line, f"field {name!r} must be text, it is {_kind(value)}")
        return "\n".join(value or "" for value in values)

    def _key(self, fields: dict[str, Any], line: int) -> str | int | None:
        for name in self._id_fields:
            value = fields.get(name)
            if value is not None:
                del fields[name]
                break
        else:
            name = self.options.id_field or ""
            value = _pop_field(fields, name) if name else None
        if value == "" and self.format in ("csv", "tsv"):  # CSV has no null
            value, name = None, ""
        if type(value) is str and not self.options.integer_keys:
            key = clean_key(value)
            self.replaced += key != value
            return key
        if value is None:
            if name:
                raise self._error(line, f"no field {name!r}; it has {joined_names(fields)}; {_REMEDY}")
            if self.options.integer_keys:
                raise self._error(line, "no id, as --key-type int needs; name its field with --id-field, or use --key-type text")
            return None
        if isinstance(value, bool) or not isinstance(value, (str, int)):
            raise self._error(line, f"field {name!r} must be text or an integer, it is {_kind(value)}")
        if not self.options.integer_keys:
            return value if self.options.typed_ids else str(value)
        try:
            return integer_key(value, f"field {name!r}")
        except ValueError as error:
            raise self._error(line, str(error)) from error

    def _decode(self, raw: bytes) -> str:
        try:
            return raw.decode("utf-8-sig" if raw.startswith(BOM) else "utf-8")
        except UnicodeDecodeError:
            self.replaced += 1
            return raw.removeprefix(BOM).decode("utf-8", "replace")

    def _error(self, line: int, what: str) -> RecordError:
        return RecordError(Problem(self._called, line, None, what))

    def _guarded(self, read: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return read(*arguments)
        except RecordError as error:
            self.skip_record(error)
            return None


def _pop_field(fields: dict[str, Any], name: str) -> Any:
    """Remove a field and return its value, None if it is missing. Names work as in `field_value`."""
    if name in fields:
        return fields.pop(name)
    *path, last = name.split(".")
    inner: Any = fields
    for step in path:
        inner = inner.get(step) if isinstance(inner, dict) else None
    return inner.pop(last, None) if isinstance(inner, dict) else None


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false", int: "a number", float: "a number"}
    return "null" if value is None else names.get(type(value), type(value).__name__)


_JSON = json.JSONDecoder()
_REMEDY = "name the fields with --id-field and --text-field"


def _json_value(line: str) -> Any:
    if line.startswith("{"):
        value, end = _JSON.raw_decode(line)
        if line[end:] in ("\n", "\r\n", ""):
            return value
    return _JSON.decode(line)
