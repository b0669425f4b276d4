"""Writes selected records of a text source: unchanged, with added fields, or with another text."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ... import limits
from ...arrays import np
from ..outputs import open_output
from .encodings import BOM
from .files import InputError, packing_of
from .places import Places
from .records import RecordSource
from .source import ChangedError

if TYPE_CHECKING:  # slow to import
    from ..screen import Meter

Edit = Callable[[Sequence[int]], Callable[[int, bytes], bytes]]
"""Takes the record numbers of a batch, and returns a function from a position in the batch and a record's bytes to the bytes to
write. That function raises ValueError for a record that it refuses."""


def write_records(
    places: Places, kept: Any, output: Path, target: Path, meter: Meter, edit: Edit | None = None, header: bytes | None = None
) -> None:
    """Write the records selected by the mask `kept`, bool[n]: files of a folder into the folder `output`, other records into the
    file, compressed as the suffix of `target` says. Without `edit` their bytes stay; without `header` that of the source."""
    if places.source.format == "folder":
        _write_files(places, kept, output, meter, edit)
        return
    last = places.source.header if header is None else header
    is_later, before = False, None
    with open_output(output, packing_of(target)) as file:
        file.write(last)
        for opened, numbers, found in places.batches(kept):
            change = None if edit is None else edit(numbers)
            for i, (line, start, size) in enumerate(_runs(found) if change is None else found.tolist()):
                raw = opened.read_from(start, size)
                if len(raw) < size:
                    raise ChangedError(f"{opened.name} became shorter while it was read")
                if is_later and start == 0:
                    raw = raw.removeprefix(BOM)
                if opened is not before and last and not last.endswith(b"\n"):  # the last line of a shard may lack its line end
                    file.write(b"\n")
                try:
                    last = raw if change is None else change(i, raw)
                except ValueError as error:
                    raise InputError(f"{opened.name}, line {line}: {error}") from error
                file.write(last)
                is_later, before = True, opened
                meter.advance(places.source.position)


def _runs(places: Any) -> Iterator[tuple[int, int, int]]:
    """Adjacent records as one, in pieces of at most `limits.COPIED_BYTES`."""
    lines, starts, ends = places[:, 0], places[:, 1], places[:, 1] + places[:, 2]
    cuts = np.flatnonzero(starts[1:] != ends[:-1])
    heads, tails = np.append(0, cuts + 1), np.append(cuts, len(places) - 1)
    for line, start, end in zip(lines[heads].tolist(), starts[heads].tolist(), ends[tails].tolist(), strict=True):
        for at in range(start, end, limits.COPIED_BYTES):
            yield line, at, min(end - at, limits.COPIED_BYTES)


def _write_files(places: Places, kept: Any, output: Path, meter: Meter, edit: Edit | None) -> None:
    """A file is one record."""
    source = places.source
    output.mkdir()
    for path, first, _ in places.files(kept):
        copied = output / source.relative_path(path)
        copied.parent.mkdir(parents=True, exist_ok=True)
        if edit is None:
            shutil.copyfile(path, copied)
        else:
            with source.opened(path) as file, open_output(copied, packing_of(copied)) as new:
                new.write(edit([first + 1])(0, file.read(source.options.max_bytes)))
        meter.advance(path.stat().st_size)


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
