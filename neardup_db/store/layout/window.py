"""The window of an index: for how long a document stays, or among how many of the last ones."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, NamedTuple

from ...parameters import WindowSize, check_window
from ...settings import StoredSettings

_MS = timedelta(milliseconds=1)
_DURATION, _DOCUMENTS = "window_ms", "window_documents"


class Window(NamedTuple):
    """One of the two is set, or neither: then every document stays.

    duration_ms: a document stays so long after it was added; documents: the last so many that were added stay, and those that
    were removed since count as well."""

    duration_ms: int | None = None
    documents: int | None = None

    @classmethod
    def from_argument(cls, given: Any) -> Window:
        """The window that a caller gives; None = none."""
        size = check_window(given)
        return cls(size // _MS, None) if isinstance(size, timedelta) else cls(None, size)

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Window:
        """That of a file; a file without one has no setting for it."""
        stored = StoredSettings(settings)
        return cls(*(stored.integer(name, 1) if name in settings else None for name in (_DURATION, _DOCUMENTS)))

    def settings(self) -> dict[str, int | None]:
        """All settings of a window; None = the file has none."""
        return {_DURATION: self.duration_ms, _DOCUMENTS: self.documents}

    @property
    def argument(self) -> WindowSize | None:
        """As a caller gives it."""
        return self.documents if self.duration_ms is None else self.duration_ms * _MS

    @property
    def is_unlimited(self) -> bool:
        """Whether every document stays."""
        return self.duration_ms is None and self.documents is None

    def __str__(self) -> str:
        return repr(self.argument)

    def expiry(self, own: int | None, added_at: int) -> int | None:
        """When a document expires, in milliseconds: at the time of its own, or when it leaves the window. One that leaves by
        number is removed then."""
        if self.duration_ms is None:
            return own
        end = added_at + self.duration_ms
        return end if own is None else min(own, end)
