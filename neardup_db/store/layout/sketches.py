"""The forms in which an index stores and compares texts and codes, and the comparison with allowed texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from ... import comparing, native
from ...schemes.base import Scheme


class StoredValue:
    """A stored value, None without shingles, and the token count of its text, if known."""

    __slots__ = ("token_count", "value")

    def __init__(self, value: bytes | None, token_count: int | None) -> None:
        self.value, self.token_count = value, token_count

    def __len__(self) -> int:
        return len(self.value or b"")


class Sketch(NamedTuple):
    """The value and token count of a text. `value` is None for an empty text and an exempt one, whose value is `exempt_value`."""

    value: bytes | None
    token_count: int | None
    epoch: int
    value_hash: int | None = None
    keys: bytes | None = None  # as in `native.Sketch` for sketches to store, else None
    exempt_value: bytes | None = None


plain_sketch: Callable[[tuple[Any, ...]], Sketch] = partial(tuple.__new__, Sketch)
"""A sketch from a tuple of all fields, in a quarter of the time; every query creates one."""


class Sketches(NamedTuple):
    """Sketches of several texts or codes as columns; token_counts: None if none has any."""

    values: Sequence[bytes | None]
    token_counts: Sequence[int | None] | None
    epoch: int
    hashes: Any = None
    keys: Any = None  # as from `Scheme.keys_of`
    exempt_values: Mapping[int, bytes] = {}  # as in `Sketch`, by position

    def sketch_at(self, i: int) -> Sketch:
        count = None if self.token_counts is None else self.token_counts[i]
        return Sketch(self.values[i], count, self.epoch, exempt_value=self.exempt_values.get(i))

    def at_indexes(self, indexes: Sequence[int]) -> Sketches:
        counts = None if self.token_counts is None else [self.token_counts[i] for i in indexes]
        hashes, keys = (None if array is None else array[list(indexes)] for array in (self.hashes, self.keys))
        exempt = self.exempt_values
        exempt_values = {i: exempt[index] for i, index in enumerate(indexes) if index in exempt} if exempt else {}
        return Sketches([self.values[i] for i in indexes], counts, self.epoch, hashes, keys, exempt_values)


class Allowed:
    """The values of the allowed texts. Immutable, so threads may share it.

    A text similar to one of them is exempt from matching. Its sketch has no value, like that of an empty text, so queries and
    writes need no special case; `exempt_value` has the value.
    """

    MOST = 1_000  # the maximum per index: each new text is compared with every allowed one

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
