"""The window of an index: documents stay for a time, or only the newest ones stay."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, NamedTuple

from ...parameters import WindowSize, check_window
from ...settings import integer, stored

_MS = timedelta(milliseconds=1)
_DURATION, _DOCUMENTS = "window_ms", "window_documents"


class Window(NamedTuple):
    """A time window, a count window, or neither.

    duration_ms: how long a document stays. documents: how many of the last added documents stay; removed ones count, too.
    """

    duration_ms: int | None = None
    documents: int | None = None

    @classmethod
    def from_argument(cls, given: Any) -> Window:
        size = check_window(given)
        return cls(size // _MS, None) if isinstance(size, timedelta) else cls(None, size)

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Window:
        check = integer(1, 2**63 - 1).from_file
        return cls(*(stored(settings, name, check) if name in settings else None for name in (_DURATION, _DOCUMENTS)))

    def settings(self) -> dict[str, int | None]:
        return {_DURATION: self.duration_ms, _DOCUMENTS: self.documents}

    @property
    def argument(self) -> WindowSize | None:
        return self.documents if self.duration_ms is None else self.duration_ms * _MS

    @property
    def is_unlimited(self) -> bool:
        return self.duration_ms is None and self.documents is None

    def __str__(self) -> str:
        return repr(self.argument)

    def expiry(self, explicit: int | None, added_at: int) -> int | None:
        """The explicit expiry, or the end of the time window if earlier. A count window deletes documents instead."""
        if self.duration_ms is None:
            return explicit
        end = added_at + self.duration_ms
        return end if explicit is None else min(explicit, end)
