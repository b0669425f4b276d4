"""Copies the kept records of an input, byte for byte."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from ... import limits
from ..outputs import open_output
from .encodings import BOM
from .files import InputFile, packing_of
from .places import Places
from .source import ChangedError

if TYPE_CHECKING:  # slow to import
    from ..screen import Meter


def copy_records(places: Places, kept: Any, output: Path, target: Path, meter: Meter) -> None:
    """Files of a folder go into the folder `output`, other records into the file, compressed as the suffix of `target` says."""
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
    last = source.header
    output.write(source.header)
    for path, runs in places.runs(kept):
        with source.opened(path) as file:
            if last and not last.endswith(b"\n"):  # the last line of a shard may lack its line end
                output.write(b"\n")
            for start, end in runs:
                last = _copy_run(file, start, end, output, drop_mark=is_later and start == 0)
                is_later = True
                meter.advance(source.position)


def _copy_run(file: InputFile, start: int, end: int, output: IO[bytes], drop_mark: bool) -> bytes:
    """Returns the last byte."""
    last = b""
    while start < end:
        data = file.read_from(start, min(end - start, limits.COPIED_BYTES))
        if not data:
            raise ChangedError(f"{file.name} became shorter while it was read")
        start += len(data)
        last = data[-1:]
        output.write(data.removeprefix(BOM) if drop_mark else data)
        drop_mark = False
    return last
