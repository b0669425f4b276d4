"""The specification of a query."""

from __future__ import annotations

from dataclasses import dataclass

from ...parameters import Measure
from ...schemes.codes import Code
from ...values import AnyGroup, Key
from ..layout.sketches import Sketch
from ..layout.state import Store


@dataclass(slots=True, eq=False)
class QuerySpec:
    """The text or code of a query and its options. Never changed; not frozen, because every query creates one.

    The caller checks the arguments, except the bounds, which depend on the scheme. any: accept any `limit` matches instead of
    the best.
    """

    text: str | bytes | None = None
    code: Code | None = None
    threshold: float | None = None
    max_distance: int | None = None
    measure: Measure | None = None
    limit: int | None = None
    any: bool = False
    group: Key | AnyGroup | None = None

    def sketch(self, store: Store) -> Sketch:
        if self.text is None:
            return store.sketcher.code(self.code)
        return store.sketcher.text(self.text)


DEFAULT_QUERY = QuerySpec()
"""Every document that matches by the threshold of the index."""
