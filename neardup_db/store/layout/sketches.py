"""The forms in which an index stores and compares texts and codes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple


class StoredValue:
    """A stored value, None without shingles, and the token count of its text, if known."""

    __slots__ = ("token_count", "value")

    def __init__(self, value: bytes | None, token_count: int | None) -> None:
        self.value, self.token_count = value, token_count

    def __len__(self) -> int:
        return len(self.value or b"")


class Sketch(NamedTuple):
    """The value and token count of a text. `value` is None for an empty text, and for an exempt one, whose value is
    `exempt_value`."""

    value: bytes | None
    token_count: int | None
    epoch: int
    value_hash: int | None = None
    keys: bytes | None = None
    """As in `native.Sketch` for sketches to store, else None."""
    exempt_value: bytes | None = None


plain_sketch: Callable[[tuple[Any, ...]], Sketch] = partial(tuple.__new__, Sketch)
"""A sketch from a tuple of all fields, in a quarter of the time; every query creates one."""


class Sketches(NamedTuple):
    """Sketches of several texts or codes as columns; token_counts: None if none has any."""

    values: Sequence[bytes | None]
    token_counts: Sequence[int | None] | None
    epoch: int
    hashes: Any = None
    keys: Any = None
    """As from `Scheme.keys_of`."""
    exempt_values: Mapping[int, bytes] = {}
    """As in `Sketch`, by position."""

    def sketch_at(self, i: int) -> Sketch:
        count = None if self.token_counts is None else self.token_counts[i]
        return Sketch(self.values[i], count, self.epoch, exempt_value=self.exempt_values.get(i))

    def at_indexes(self, indexes: Sequence[int]) -> Sketches:
        counts = None if self.token_counts is None else [self.token_counts[i] for i in indexes]
        hashes, keys = (None if array is None else array[list(indexes)] for array in (self.hashes, self.keys))
        exempt = self.exempt_values
        exempt_values = {i: exempt[index] for i, index in enumerate(indexes) if index in exempt} if exempt else {}
        return Sketches([self.values[i] for i in indexes], counts, self.epoch, hashes, keys, exempt_values)
