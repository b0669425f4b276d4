"""Edits of records that are copied: added fields, or another text."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any

from .files import InputError
from .records import RecordSource

Edit = Callable[[Sequence[int]], Callable[[int, bytes], bytes]]
"""Takes the record numbers of a batch, and returns a function from a position in the batch and a record's bytes to the bytes to
write. That function raises ValueError for a record that it refuses."""


def changing(source: RecordSource, changed: Any, change: Callable[[str], str]) -> Edit:
    """The text of the records selected by the mask `changed` becomes what `change` makes of it: JSON lines, or files of a folder.
    Other bytes stay."""

    def with_text(raw: bytes) -> bytes:
        text = raw.decode("utf-8-sig", "replace")
        if source.format == "folder":
            return change(text).encode()
        record = json.loads(text)
        at, name = record, source.options.text_fields[0]
        while name not in at:
            outer, _, name = name.partition(".")
            at = at[outer]
        at[name] = change(at[name])
        line = json.dumps(record, ensure_ascii=False).encode("utf-8", "surrogatepass")
        return line + b"\n" * raw.endswith(b"\n")

    return lambda numbers: lambda i, raw: with_text(raw) if changed[numbers[i] - 1] else raw


def marking(fields: JsonFields | RowFields, columns: Callable[[Sequence[int]], Mapping[str, Sequence[Any]]]) -> Edit:
    """Records get the fields that `columns` returns for their numbers."""

    def edit(numbers: Sequence[int]) -> Callable[[int, bytes], bytes]:
        table = columns(numbers)
        return lambda i, raw: fields.extended(raw, {name: values[i] for name, values in table.items()})

    return edit


def require_fields(source: RecordSource) -> None:
    if source.format not in ("jsonl", "csv", "tsv"):
        raise InputError(f"{source.name}: marks are fields, and these records have none: leave out --mark")


def fields_of(source: RecordSource, added: Sequence[str]) -> JsonFields | RowFields:
    require_fields(source)
    return (JsonFields if source.format == "jsonl" else RowFields)(source, added)


class JsonFields:
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


class RowFields:
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
