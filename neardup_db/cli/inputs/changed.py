"""Writes records of which some have another text."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..outputs import open_output
from .encodings import BOM
from .files import packing_of
from .places import Places

if TYPE_CHECKING:  # slow to import
    from ..screen import Meter


def write_changed(
    places: Places, kept: Any, changed: Any, change: Callable[[str], str], output: Path, target: Path, meter: Meter
) -> None:
    """Write the records selected by the mask `kept`, bool[n]: JSON lines, or the files of a folder. The text of those selected by
    `changed` is what `change` makes of it; the bytes of all others stay."""
    source = places.source
    if source.format == "folder":
        output.mkdir()
        for record in places.records(kept):
            path = output / source.relative_path(record.path)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(change(record.text).encode() if changed[record.number - 1] else record.raw)
            meter.advance(len(record.raw))
        return
    with open_output(output, packing_of(target)) as file:
        is_later = False
        for opened, numbers, _, starts, sizes in places.batches(kept):
            for number, start, size in zip(numbers, starts, sizes, strict=True):
                raw = opened.read_from(start, size)
                if is_later and start == 0:
                    raw = raw.removeprefix(BOM)
                if changed[number - 1]:
                    raw = _with_text(raw, source.options.text_fields[0], change)
                file.write(raw if raw.endswith(b"\n") else raw + b"\n")  # the last line of a shard may lack its line end
                is_later = True
                meter.advance(source.position)


def _with_text(raw: bytes, field: str, change: Callable[[str], str]) -> bytes:
    record = json.loads(raw.decode("utf-8-sig", "replace"))
    at, name = record, field
    while name not in at:
        outer, _, name = name.partition(".")
        at = at[outer]
    at[name] = change(at[name])
    return json.dumps(record, ensure_ascii=False).encode("utf-8", "surrogatepass")
