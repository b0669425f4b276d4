"""Copies the records of an input that stay, byte for byte."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from ... import limits
from ..outputs import open_output
from .encodings import BOM, UTF8, line_end
from .files import InputFile, packing_of
from .places import Places
from .records import ChangedError

if TYPE_CHECKING:  # what it draws with is slow to import
    from ..screen import Meter


def copy_records(places: Places, kept: Any, output: Path, target: Path, meter: Meter) -> None:
    """Writes the records that bool[n] chooses: files of a folder into the folder `output`, others one after another into the file
    `output`, packed as the name of `target` says."""
    places.source.start_again()
    if places.source.format == "folder":
        _copy_files(places, kept, output, meter)
    else:
        with open_output(output, packing_of(target)) as file:
            _copy_runs(places, kept, file, meter)


def _copy_files(places: Places, kept: Any, output: Path, meter: Meter) -> None:
    output.mkdir()
    for path, ((_, size_bytes),) in places.runs(kept):  # a file is one record
        copied = output / places.source.relative_path(path)
        copied.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copied)
        meter.advance(size_bytes)


def _copy_runs(places: Places, kept: Any, output: IO[bytes], meter: Meter) -> None:
    source, is_later = places.source, False
    newline = line_end(source.encoding)
    last = source.header if source.format in ("csv", "tsv") else b""
    output.write(source.header)
    for path, runs in places.runs(kept):
        with source.opened(path) as file:
            if last and not last.endswith(newline):  # a shard may end without the end of its last line
                output.write(newline)
            for start, end in runs:
                last = _copy_run(file, start, end, output, drop_mark=is_later and start == 0 and source.encoding == UTF8)
                is_later = True
                meter.advance(source.position)
            last = last or file.read_from(max(end - len(newline), 0), len(newline))


def _copy_run(file: InputFile, start: int, end: int, output: IO[bytes], drop_mark: bool) -> bytes:
    """Copies the bytes from start to end, but no mark at the head if `drop_mark`. Returns the last of them, or b"" where not all
    came into memory."""
    tail = b""
    if drop_mark:
        tail = file.read_from(start, min(end, len(BOM)))
        output.write(tail.removeprefix(BOM))
        start += len(tail)
    copied = file.copy_to(output, start, end)
    start += copied
    while start < end:
        data = file.read_from(start, min(end - start, limits.COPIED_BYTES))
        if not data:
            raise ChangedError(f"{file.name} became shorter while it was read")
        output.write(data)
        start += len(data)
        tail = (tail + data[-_LONGEST_LINE_END:])[-_LONGEST_LINE_END:]
    return b"" if copied else tail


_LONGEST_LINE_END = len(line_end("utf-32-le"))
