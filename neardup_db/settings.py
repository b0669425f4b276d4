"""The settings of a file, checked as they are read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .errors import CorruptIndexError


class StoredSettings:
    """Settings of a file. Each read raises CorruptIndexError for a missing setting or a wrong type."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.settings = settings

    def value(self, name: str) -> Any:
        """The value of a setting, possibly None. The setting must exist."""
        if name not in self.settings:
            raise CorruptIndexError(f"the setting {name!r} is missing from the file; restore the file from a backup")
        return self.settings[name]

    def integer(self, name: str, low: int = 0, high: int = (1 << 63) - 1) -> int:
        value = self.value(name)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self.invalid_setting(name, f"an integer from {low} to {high}")
        return value

    def fraction(self, name: str) -> float:
        value = self.value(name)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 1:
            raise self.invalid_setting(name, "a number above 0 and at most 1")
        return float(value)

    def text(self, name: str, options: Iterable[str] | None = None) -> str:
        """A string; with options, one of these."""
        value = self.value(name)
        allowed = None if options is None else list(options)
        if not isinstance(value, str):
            raise self.invalid_setting(name, "text" if allowed is None else "one of " + ", ".join(map(repr, allowed)))
        if allowed is not None and value not in allowed:
            raise self.unknown(name, allowed)
        return value

    def invalid_setting(self, name: str, expected: str) -> CorruptIndexError:
        return CorruptIndexError(
            f"the setting {name!r} of the file is {self.settings.get(name)!r}, but must be {expected}; "
            "restore the file from a backup"
        )

    def unknown(self, name: str, known: Iterable[str]) -> CorruptIndexError:
        """The error for a word that only a newer package may know."""
        return CorruptIndexError(
            f"the setting {name!r} of the file is {self.settings.get(name)!r}, and this neardup-db knows "
            f"{', '.join(map(repr, known))}: install a newer neardup-db, or restore the file from a backup"
        )
