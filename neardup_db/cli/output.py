"""What commands print: JSON for machines, aligned lines for people, progress on standard error."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from ..values import Key, Match

_ESCAPES = {"\t": "\\t", "\n": "\\n", "\r": "\\r"}


def emit_json(value: Any) -> None:
    """One JSON document on one line of standard output."""
    click.echo(json.dumps(value, ensure_ascii=False, default=str))


def emit(line: str = "") -> None:
    """One line of standard output."""
    click.echo(line)


def note(line: str) -> None:
    """One line of standard error, for what is no result."""
    click.echo(f"neardup: {line}", err=True)


def json_key(key: Key | None) -> Any:
    """A key as JSON: bytes as {"hex": "..."}."""
    return {"hex": key.hex()} if isinstance(key, bytes) else key


def shown(value: object) -> str:
    """A value on one line, with nothing in it that moves the cursor of a terminal; bytes as x'6869'."""
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    text = str(value)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _ESCAPES.get(c, f"\\u{ord(c):04x}") for c in text)


def plain(value: Any) -> Any:
    """A value made of what JSON knows: dataclasses and tuples opened, keys of bytes as hexadecimal, arrays as lists."""
    if hasattr(value, "__dataclass_fields__"):
        return {name: plain(getattr(value, name)) for name in value.__dataclass_fields__}
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    if isinstance(value, bytes):
        return json_key(value)
    return plain(value.tolist()) if hasattr(value, "tolist") else value


def match_json(match: Match) -> dict[str, Any]:
    """A match as JSON; `distance` is null where the scheme has none."""
    return {"key": json_key(match.key), "similarity": match.similarity, "distance": match.distance}


def measure(similarity: float, distance: int | None) -> str:
    """Similarity, and the distance in bits where there is one, in columns of equal width."""
    return f"{similarity:.4f}" if distance is None else f"{similarity:.4f}  {distance:4d} bits"


def columns(rows: list[tuple[str, Any]]) -> None:
    """Names and values, the values aligned."""
    width = max((len(name) for name, _ in rows), default=0)
    for name, value in rows:
        emit(f"{name:<{width}}  {shown(value)}")


def counted(count: int, one: str, many: str | None = None) -> str:
    """'1 record', '2,000 records'."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def bytes_text(size_bytes: float) -> str:
    """A size in the unit that suits it: '12.3 MB'."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(size_bytes) < 1000:
            return f"{size_bytes:.0f} {unit}" if unit == "B" else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1000
    return f"{size_bytes:.1f} TB"


class Meter:
    """A progress bar on standard error with rates; silent where that is no terminal.

    `advance` is cheap enough to be called for every record.
    """

    def __init__(self, title: str, total_bytes: int) -> None:
        console = Console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description:<8}"),
            BarColumn(bar_width=14),
            TaskProgressColumn(),
            TextColumn("{task.fields[rates]}"),
            TimeRemainingColumn(compact=True),
            console=console,
            disable=not console.is_terminal,
            transient=True,
        )
        self._task = self._progress.add_task(title, total=max(total_bytes, 1), rates="")
        self._started = self._drawn = time.monotonic()
        self.records = 0
        self.record_bytes = 0

    def __enter__(self) -> Meter:
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._progress.stop()

    def advance(self, position_bytes: int, records: int = 1, duplicates: int | None = None) -> None:
        """So many more records were handled, and the input was read up to `position_bytes`."""
        self.records += records
        now = time.monotonic()
        if now - self._drawn < 0.1:
            return
        self._drawn = now
        seconds = max(now - self._started, 1e-9)
        rates = f"{position_bytes / 1e6 / seconds:.1f} MB/s {self.records / seconds:,.0f} docs/s"
        if duplicates is not None:
            rates += f" {duplicates:,} dup."
        self._progress.update(self._task, completed=position_bytes, rates=rates)
