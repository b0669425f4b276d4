"""The specification of a query."""

from __future__ import annotations

from typing import Final

from ...parameters import Measure
from ...schemes.codes import Code
from ...values import AnyGroup, Key
from ..layout.sketches import Sketch
from ..layout.state import Store


class QuerySpec:
    """The text or code of a query and its options. Immutable; half the cost of a NamedTuple, because every query creates one.

    The caller checks the arguments, except the bounds, which depend on the scheme. any: accept any `limit` matches instead of
    the best.
    """

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
        if self.text is None:
            return store.sketcher.code(self.code)
        return store.sketcher.text(self.text)


DEFAULT_QUERY = QuerySpec()
"""Every document that matches by the threshold of the index."""
