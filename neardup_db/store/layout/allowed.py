"""Compares new texts with the allowed ones.

A text similar to an allowed one is exempt from matching. Its sketch has no value, like that of an empty text, so queries and
writes need no special case; `exempt_value` has the value.
"""

from __future__ import annotations

from collections.abc import Sequence

from ... import comparing, native
from ...schemes.base import Scheme
from .sketches import Sketch, Sketches


class Allowed:
    """The values of the allowed texts. Immutable, so threads may share it."""

    TABLE = "allowed"

    MOST = 1_000
    """The maximum per index: each new text is compared with every allowed one."""

    def __init__(self, scheme: Scheme, values: Sequence[bytes]) -> None:
        self._scheme = scheme.native
        self._values = native.Values.joined(values)

    def covers(self, value: bytes | None) -> bool:
        return value is not None and comparing.matches_any(self._scheme, value, self._values)

    def exempt(self, sketch: Sketch) -> Sketch:
        if not self.covers(sketch.value):
            return sketch
        return Sketch(None, sketch.token_count, sketch.epoch, exempt_value=sketch.value)

    def exempt_all(self, sketches: Sketches) -> Sketches:
        exempt_values = {i: value for i, value in enumerate(sketches.values) if value is not None and self.covers(value)}
        if not exempt_values:
            return sketches
        values = [None if i in exempt_values else value for i, value in enumerate(sketches.values)]
        return sketches._replace(values=values, exempt_values=exempt_values)


def is_comparable(scheme: Scheme, value: object) -> bool:
    return isinstance(value, bytes) and scheme.is_value(value)
