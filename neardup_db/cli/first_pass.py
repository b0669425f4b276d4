"""The first pass of `neardup dedup` and `decontaminate` over their input, and what both tell of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from .. import limits
from ..located import LocatedTexts
from .inputs.lines import Problem
from .inputs.table_passes import Passes
from .progress import Meter


@dataclass(slots=True)
class RunCounts:
    """Counts and speed of a run. Bytes are of the decompressed records; MB are 10^6 bytes."""

    records: int = 0
    skipped: int = 0
    invalid_utf8: int = 0
    input_bytes: int = 0
    problems: list[Problem] = field(default_factory=list)
    seconds: float = 0.0
    mb_per_second: float = 0.0

    def read(self, passes: Passes, work: Callable[[list[str] | LocatedTexts], Any], stop: Callable[[], object]) -> list[Any]:
        """The results of `work` for the texts of each piece. A second thread computes them while the next piece is read. stop: is
        called after an error, before that thread is waited for."""
        source = passes.source
        results: list[Any] = []
        waiting: deque[Future[Any]] = deque()
        with Meter("Compare", source.size_bytes) as meter, ThreadPoolExecutor(1) as thread:
            try:
                for piece in passes.pieces():
                    waiting.append(thread.submit(work, piece.texts))
                    self.records += len(piece.texts)
                    self.input_bytes += piece.size_bytes
                    meter.advance(source.position, len(piece.texts))
                    if len(waiting) > limits.PIECES_WAITING:
                        results.append(waiting.popleft().result())
                results += [future.result() for future in waiting]
            except BaseException:
                stop()
                raise
        self.skipped, self.problems, self.invalid_utf8 = source.skipped, source.problems, source.replaced
        return results

    def set_time(self, seconds: float) -> None:
        self.seconds = seconds
        self.mb_per_second = self.input_bytes / 1e6 / max(seconds, 1e-9)
