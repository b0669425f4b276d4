"""A question to an index."""

from __future__ import annotations

from typing import Final

from ...parameters import Measure
from ...schemes.codes import Code
from ...values import AnyGroup, Key
from ..layout.sketches import Sketch
from ..layout.state import Store


class Question:
    """A text or a code, and which documents answer it: made once, never changed. (Half the cost of a NamedTuple, and each query
    makes one.) Its arguments were checked, but for the two bounds, which the scheme of the file checks.

    any: whether any `limit` matches do, not only the best."""

    __slots__ = ("any", "code", "group", "limit", "max_distance", "measure", "text", "threshold")

    def __init__(
        self,
        text: str | bytes | None = None,
        code: Code | None = None,
        threshold: float | None = None,
        max_distance: int | None = None,
        measure: Measure | None = None,
        limit: int | None = None,
        any: bool = False,
        group: Key | AnyGroup | None = None,
    ) -> None:
        self.text: Final = text
        self.code: Final = code
        self.threshold: Final = threshold
        self.max_distance: Final = max_distance
        self.measure: Final = measure
        self.limit: Final = limit
        self.any: Final = any
        self.group: Final = group

    def sketch(self, store: Store) -> Sketch:
        """The text, or else the code, as the index compares it."""
        if self.text is None:
            return store.sketch_code(self.code)
        return store.sketch_text(self.text)


USUAL = Question()
"""All documents that the rule of the index accepts."""
