"""The allowed texts of an index, as new texts are compared with them.

A text that is like an allowed one matches nothing. Its sketch has no value, as that of an empty text, so that queries and writes
treat it alike; what would have been its value is in `aside`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ... import native
from ...schemes.base import Scheme
from .sketches import Sketch, Sketches


class Allowed:
    """The values of the allowed texts. Never changed, so that threads may share it."""

    TABLE = "allowed"

    MOST = 1_000
    """Of an index: each new text is compared with every one."""

    def __init__(self, scheme: Scheme, values: Sequence[bytes]) -> None:
        self._scheme = scheme.native
        self._values = native.Values.joined(values)

    def covers(self, value: bytes | None) -> bool:
        """Whether the text with a stored value is like an allowed one."""
        return value is not None and native.matches_any(self._scheme, value, self._values)

    def judged(self, sketch: Sketch) -> Sketch:
        """The sketch, set aside if it is like an allowed text."""
        if not self.covers(sketch.value):
            return sketch
        return Sketch(None, sketch.token_count, sketch.epoch, aside=sketch.value)

    def judged_all(self, sketches: Sketches) -> Sketches:
        """The same of many."""
        aside = {i: value for i, value in enumerate(sketches.values) if value is not None and self.covers(value)}
        if not aside:
            return sketches
        return sketches._replace(values=[None if i in aside else value for i, value in enumerate(sketches.values)], aside=aside)


def is_compared(scheme: Scheme, value: object) -> bool:
    """Whether a stored value can be that of an allowed text."""
    return isinstance(value, bytes) and scheme.is_value(value)
