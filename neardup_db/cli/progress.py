"""Progress bars. A separate module, so that commands without one do not import rich."""

from __future__ import annotations

import time

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn


class Meter:
    """Silent if standard error is not a terminal; `advance` is cheap enough for every record."""

    def __init__(self, title: str, total_bytes: int, has_rates: bool = True) -> None:
        self._has_rates = has_rates
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

    def __enter__(self) -> Meter:
        if not self._progress.disable:
            self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        if not self._progress.disable:  # rich 13 prints an empty line even if it drew nothing
            self._progress.stop()

    def advance(self, position_bytes: int, records: int = 1, duplicates: int | None = None) -> None:
        self.records += records
        now = time.monotonic()
        if now - self._drawn < 0.1:
            return
        self._drawn = now
        seconds = max(now - self._started, 1e-9)
        rates = f"{position_bytes / 1e6 / seconds:.1f} MB/s {self.records / seconds:,.0f} docs/s"
        if duplicates is not None:
            rates += f" {duplicates:,} dup."
        self._progress.update(self._task, completed=position_bytes, rates=rates if self._has_rates else "")
