"""Long lists of numbers, kept in memory only at their end."""

from __future__ import annotations

import tempfile
from array import array
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

from ... import limits
from ...arrays import np


class Numbers:
    """An append-only list of uint64. Above `limits.NUMBERS_HELD` numbers, it moves to a temporary file in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held = array("Q")
        self._stored = 0
        self._file: IO[bytes] | None = None

    def __len__(self) -> int:
        return self._stored + len(self._held)

    def extend(self, numbers: Iterable[int]) -> None:
        self._held.extend(numbers)
        if len(self._held) >= limits.NUMBERS_HELD:
            self._store(self._held)
            self._held = array("Q")

    def extend_by_array(self, numbers: Any) -> None:
        self._store(self._held)
        self._held = array("Q")
        self._store(numbers)

    def numbers_between(self, first: int, end: int) -> Any:
        held = self._held[max(first - self._stored, 0) : max(end - self._stored, 0)]
        if first >= self._stored or self._file is None:
            return np.frombuffer(held, np.uint64)
        self._file.seek(8 * first)
        stored = np.frombuffer(self._file.read(8 * (min(end, self._stored) - first)), np.uint64)
        return np.append(stored, np.frombuffer(held, np.uint64)) if len(held) else stored

    def _store(self, numbers: Any) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115 (closed with the list)
        self._file.seek(8 * self._stored)
        self._file.write(memoryview(numbers).cast("B") if len(numbers) else b"")
        self._stored += len(numbers)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
