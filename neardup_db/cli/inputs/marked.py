"""Writes records with additional fields; the original bytes are unchanged."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..outputs import open_output
from .encodings import BOM
from .files import InputError, packing_of
from .places import Places
from .records import RecordSource
from .source import ChangedError

if TYPE_CHECKING:  # slow to import
    from ..screen import Meter


def write_marked(
    places: Places,
    kept: Any,
    columns: Callable[[Sequence[int]], Mapping[str, Sequence[Any]]],
    output: Path,
    target: Path,
    meter: Meter,
) -> None:
    """Write the records selected by a mask, bool[n], to the file `output`, compressed as the suffix of `target` says, with the
    fields that `columns` returns for record numbers. Refuses records without fields, or with one of these."""
    source = places.source
    require_fields(source)
    with open_output(output, packing_of(target)) as file:
        fields = fields_of(source, list(columns([])))
        file.write(fields.header)
        ended = source.format == "jsonl" or fields.header.endswith(b"\n")
        for name, line, raw, values in _records(places, kept, columns):
            file.write(b"" if ended else b"\n")  # the last line of a shard may lack its line end
            try:
                file.write(fields.extended(raw, values))
            except ValueError as error:
                raise InputError(f"{name}, line {line}: {error}") from error
            ended = raw.endswith(b"\n")
            meter.advance(source.position)


def require_fields(source: RecordSource) -> None:
    if source.format not in ("jsonl", "csv", "tsv"):
        raise InputError(f"{source.name}: marks are fields, and these records have none: leave out --mark")


def fields_of(source: RecordSource, added: Sequence[str]) -> _JsonFields | _RowFields:
    return (_JsonFields if source.format == "jsonl" else _RowFields)(source, added)


class _JsonFields:
    def __init__(self, source: RecordSource, added: Sequence[str]) -> None:
        self.header = source.header
        self._added = added
        escaped = r"\\u00[567]"  # JSON may escape the letters of a name
        self._perhaps = re.compile("|".join([*(f'"{name}"' for name in added), escaped]))

    def extended(self, raw: bytes, values: Mapping[str, Any]) -> bytes:
        """Raises ValueError if the object already has one of the members."""
        text = raw.decode("utf-8", "replace")
        if self._perhaps.search(text):
            _refuse_present(self._added, json.loads(text.removeprefix("\ufeff")))
        end = raw.rindex(b"}")
        more = json.dumps(values, ensure_ascii=False)[1:-1]
        return raw[:end] + f", {more}".encode() + raw[end:]


class _RowFields:
    def __init__(self, source: RecordSource, added: Sequence[str]) -> None:
        self._row = io.StringIO()
        self._writer = csv.writer(self._row, delimiter=source.delimiter, lineterminator="")
        try:
            _refuse_present(added, source.columns)
        except ValueError as error:
            raise InputError(f"{source.name}, line 1: {error}") from error
        self.header = self.extended(source.header, dict(zip(added, added, strict=True))) if source.columns else b""

    def extended(self, raw: bytes, values: Mapping[str, Any]) -> bytes:
        self._row.seek(0)
        self._row.truncate()
        self._writer.writerow(["", *values.values()])
        more = self._row.getvalue()
        body = raw.removesuffix(b"\n")
        if len(body) < len(raw):
            body = body.removesuffix(b"\r")
        return body + more.encode() + raw[len(body) :]


def _refuse_present(added: Sequence[str], present: Container[str]) -> None:
    for name in added:
        if name in present:
            raise ValueError(f"there is a field {name!r} already, which --mark adds: rename it first")


def _records(
    places: Places, kept: Any, columns: Callable[[Sequence[int]], Mapping[str, Sequence[Any]]]
) -> Iterator[tuple[str, int, bytes, dict[str, Any]]]:
    is_later = False
    for file, numbers, lines, starts, sizes in places.batches(kept):
        table = columns(numbers)
        for i, (line, start, size) in enumerate(zip(lines, starts, sizes, strict=True)):
            raw = file.read_from(start, size)
            if len(raw) < size:
                raise ChangedError(f"{file.name} became shorter while it was read")
            if is_later and start == 0:
                raw = raw.removeprefix(BOM)
            yield file.name, line, raw, {name: values[i] for name, values in table.items()}
            is_later = True
