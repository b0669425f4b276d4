"""Long lists of numbers, kept in a temporary file."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from ...arrays import np


class Numbers:
    """An append-only list of uint64 in an unnamed file in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 (closed with the list)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def extend(self, numbers: Any) -> None:
        """numbers: uint64[n], n > 0."""
        self._file.seek(8 * self._count)
        self._file.write(memoryview(numbers).cast("B"))
        self._count += len(numbers)

    def numbers_between(self, first: int, end: int) -> Any:
        self._file.seek(8 * first)
        return np.frombuffer(self._file.read(8 * (end - first)), np.uint64)

    def close(self) -> None:
        self._file.close()
