"""The settings that the caller of `Index(...)` requires."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import Any

from ...errors import MismatchError
from ...schemes import scheme_from_settings
from ...schemes.base import Scheme
from ...text import TextRules
from .window import Window

MAX_REMEMBERED = 64
"""The number of rebuilds, by this process or others, that are remembered."""


@dataclass(frozen=True, slots=True)
class Choices:
    """The arguments at opening, or the changes of a rebuild. None accepts the file's value."""

    scheme: Scheme | None = None
    rules: TextRules | None = None
    store_text: bool | None = None
    record_matches: bool | None = None
    checksums: bool | None = None
    window: Window | None = None

    def match(self, name: str, settings: dict[str, Any]) -> tuple[Scheme, TextRules]:
        """The scheme and rules of the file. Raises MismatchError if its settings differ. name: the index."""
        scheme = scheme_from_settings(settings)
        rules = TextRules.from_settings(settings, self.rules)
        problems: list[str] = []
        permanent: list[str] = []
        """Problems that a rebuild cannot solve."""
        if self.scheme is not None:
            problems += self.scheme.mismatches(scheme)
        if self.rules is not None:
            problems += self.rules.mismatches(rules)
        for flag, given in (("store_text", self.store_text), ("record_matches", self.record_matches)):
            if given is not None and bool(given) != bool(settings[flag]):
                problems.append(f"{flag}={given}, the file has {bool(settings[flag])}")
        window = Window.from_settings(settings)
        if self.window is not None and self.window != window:
            permanent.append(f"window={self.window}, the file has {window}, and set_window(), not rebuild(), changes that")
        if self.checksums is not None and self.checksums != bool(settings.get("checksums")):
            permanent.append(
                f"checksums={self.checksums}, the file has {not self.checksums}, and that only a new file can change: "
                "add the records to a new index"
            )
        if problems or permanent:
            raise MismatchError(
                f"index {name!r} was made with other parameters: {'; '.join([*problems, *permanent])}. "
                f"Leave them out to use the file's{', or change the file with rebuild()' if problems else ''}"
            )
        return scheme, rules


@dataclass(slots=True)
class Shared:
    choices: tuple[Choices, ...]
    """The choices that must match, latest first; a rebuild through this index changes them. Earlier ones are kept, because a
    connection may still see the file before the rebuild, or after its rollback."""
    _epochs: dict[tuple[Any, ...], int] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=count)

    def epoch(self, settings: tuple[Any, ...]) -> int:
        """A number for settings, equal for equal settings on all connections."""
        if len(self._epochs) >= MAX_REMEMBERED and settings not in self._epochs:
            self._epochs.clear()  # numbers are not reused: older sketches are computed again
        return self._epochs.setdefault(settings, next(self._numbers))

    def bind(self, changes: dict[str, Any]) -> Callable[[], None]:
        """Require the latest choices with these changes from now on. Returns a function that undoes this."""
        previous = self.choices
        choices = replace(previous[0], **changes)
        self.choices = (choices, *(earlier for earlier in previous if earlier != choices))[:MAX_REMEMBERED]
        return partial(setattr, self, "choices", previous)

    def match(self, name: str, settings: dict[str, Any]) -> tuple[Scheme, TextRules]:
        latest, *earlier = self.choices
        try:
            return latest.match(name, settings)
        except MismatchError:
            for choices in earlier:
                with suppress(MismatchError):
                    return choices.match(name, settings)
            raise
