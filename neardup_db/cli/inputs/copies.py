"""Copies the records of an input that stay, byte for byte."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import IO, Any

from ... import limits
from ..outputs import open_output
from ..screen import Meter
from .files import InputFile, packing_of
from .places import Places
from .records import BOM, ChangedError


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
        copied = output / places.source.below(path)
        copied.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copied)
        meter.advance(size_bytes)


def _copy_runs(places: Places, kept: Any, output: IO[bytes], meter: Meter) -> None:
    source, is_later = places.source, False
    last = source.header
    output.write(last)
    for path, runs in places.runs(kept):
        with source.opened(path) as file:
            if last and not last.endswith(b"\n"):  # a shard may end without the end of its last line
                output.write(b"\n")
            for start, end in runs:
                if is_later and start == 0:
                    start = _copy_head(file, end, output)
                last = _copy_run(file, start, end, output)
                is_later = True
                meter.advance(source.position)
            last = last or file.read_at(end - 1, 1)


def _copy_head(file: InputFile, end: int, output: IO[bytes]) -> int:
    """Copies the first bytes of a file unless they are the mark. Returns how many they are."""
    head = file.read_at(0, min(end, len(BOM)))
    if head != BOM:
        output.write(head)
    return len(head)


def _copy_run(file: InputFile, start: int, end: int, output: IO[bytes]) -> bytes:
    """Copies the bytes from start to end. Returns the last of them, or b"" where they did not come into memory."""
    data = b""
    start += file.copy_to(output, start, end)
    while start < end:
        data = file.read_at(start, min(end - start, limits.COPIED_BYTES))
        if not data:
            raise ChangedError(f"{file.name} became shorter while it was read")
        output.write(data)
        start += len(data)
    return data
