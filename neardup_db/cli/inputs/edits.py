"""Edits of records that are copied: added fields, or another text."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any

from .files import FileError
from .records import RecordSource
from .source import Source

Edit = Callable[[int, bytes], bytes]  # takes a record's number and bytes, returns the bytes to write
AddFields = Callable[[bytes, Mapping[str, Any]], bytes]


def changing(source: Source, changed: Any, change: Callable[[str], str]) -> Edit:
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

    return lambda number, raw: with_text(raw) if changed[number - 1] else raw


def require_fields(source: RecordSource) -> None:
    if source.format not in ("jsonl", "csv", "tsv"):
        raise FileError(f"{source.name}: marks are fields, and these records have none: leave out --mark")


def adding_fields(source: RecordSource, added: Sequence[str]) -> tuple[bytes, AddFields]:
    """The header with the added fields, and a function that adds their values to the bytes of a record. It raises ValueError if a
    JSON object has one of them already."""
    require_fields(source)
    perhaps = re.compile("|".join([*(f'"{name}"' for name in added), r"\\u00[567]"]))  # JSON may escape the letters of a name
    row = io.StringIO()
    writer = csv.writer(row, delimiter=source.delimiter, lineterminator="")

    def add_members(raw: bytes, values: Mapping[str, Any]) -> bytes:
        text = raw.decode("utf-8", "replace")
        if perhaps.search(text):
            refuse_present(json.loads(text.removeprefix("\ufeff")))
        end = raw.rindex(b"}")
        return raw[:end] + f", {json.dumps(values, ensure_ascii=False)[1:-1]}".encode() + raw[end:]

    def add_columns(raw: bytes, values: Mapping[str, Any]) -> bytes:
        row.seek(0)
        row.truncate()
        writer.writerow(["", *values.values()])
        body = raw.removesuffix(b"\n")
        if len(body) < len(raw):
            body = body.removesuffix(b"\r")
        return body + row.getvalue().encode() + raw[len(body) :]

    def refuse_present(present: Container[str]) -> None:
        for name in added:
            if name in present:
                raise ValueError(f"there is a field {name!r} already, which --mark adds: rename it first")

    if source.format == "jsonl":
        return source.header, add_members
    try:
        refuse_present(source.columns)
    except ValueError as error:
        raise FileError(f"{source.name}, line 1: {error}") from error
    return add_columns(source.header, dict(zip(added, added, strict=True))) if source.columns else b"", add_columns
