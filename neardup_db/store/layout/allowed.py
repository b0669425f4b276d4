"""The allowed texts of an index, as new texts are compared with them.

A text that is like an allowed one matches nothing. Its sketch has no value, as that of an empty text, so that queries and writes
treat it alike; what would have been its value is in `aside`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ... import native
from ...schemes.base import Scheme
from ...text import TextRules
from .sketches import Sketch, Sketches


class Allowed:
    """The values of the allowed texts. Never changed, so that threads may share it."""

    TABLE = "allowed"

    MOST = 1_000
    """Of an index: each new text is compared with every one."""

    def __init__(self, scheme: Scheme, values: Sequence[bytes]) -> None:
        self._scheme = scheme.native
        self._values = native.Values.joined(values)
        self.by_evidence = compares_evidence(scheme)
        """Whether texts are compared by their evidence."""

    def covers(self, value: bytes | None, evidence: bytes | None) -> bool:
        """Whether a text is like an allowed one."""
        compared = evidence if self.by_evidence else value
        return value is not None and bool(compared) and native.is_like(self._scheme, compared or b"", self._values)

    def judged(self, sketch: Sketch) -> Sketch:
        """The sketch, set aside if it is like an allowed text."""
        if not self.covers(sketch.value, sketch.evidence):
            return sketch
        return Sketch(None, None, sketch.token_count, sketch.epoch, aside=sketch.value)

    def judged_all(self, sketches: Sketches) -> Sketches:
        """The same of many."""
        evidence = sketches.evidence or [None] * len(sketches.values)
        aside = {
            i: value
            for i, (value, proof) in enumerate(zip(sketches.values, evidence, strict=True))
            if value is not None and self.covers(value, proof)
        }
        if not aside:
            return sketches
        return sketches._replace(values=[None if i in aside else value for i, value in enumerate(sketches.values)], aside=aside)


def is_compared(scheme: Scheme, value: object) -> bool:
    """Whether a stored value can be that of an allowed text."""
    if not isinstance(value, bytes):
        return False
    return native.is_ascending(value) if compares_evidence(scheme) else scheme.is_value(value)


def allowed_values(scheme: Scheme, rules: TextRules, texts: Sequence[str]) -> Sequence[bytes | None]:
    """What texts are compared with, of each allowed text; None or nothing of one without shingles."""
    if compares_evidence(scheme):
        return scheme.evidence(texts, rules) or ()
    return scheme.values(texts, rules).values


def compares_evidence(scheme: Scheme) -> bool:
    """Whether texts of an index are compared by their evidence: stored values do not tell their similarity."""
    return scheme.settings().get("evidence") == "text"
