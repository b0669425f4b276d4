"""The settings that the caller of `Index(...)` requires."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...errors import MismatchError
from ...parameters import check_flag, check_kind
from ...schemes.base import Scheme
from ...text import TextRules
from .window import Window


@dataclass(frozen=True, slots=True)
class Choices:
    """The arguments at opening, or the changes of a rebuild. None accepts the file's value."""

    scheme: Scheme | None = None
    rules: TextRules | None = None
    store_text: bool | None = None
    record_matches: bool | None = None
    checksums: bool | None = None
    window: Window | None = None

    @classmethod
    def checked(cls, scheme: Any, text: Any, *, window: Any = None, **flags: Any) -> Choices:
        """The arguments of a caller. Raises ParameterError for one of another kind."""
        check_kind("scheme", scheme, Scheme, "one of SimHash(), MinHash(), BottomK(), BitSampling(), BinaryCode(), Passages()")
        check_kind("text", text, TextRules, "a TextRules, e.g. TextRules.words(shingle=3)")
        checked = {name: None if value is None else check_flag(name, value) for name, value in flags.items()}
        return cls(scheme, text, **checked, window=None if window is None else Window.from_argument(window))

    def require(self, name: str, settings: dict[str, Any], scheme: Scheme, rules: TextRules) -> None:
        """Raise MismatchError if the file has other settings. name: the index. scheme, rules: those of the settings."""
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
