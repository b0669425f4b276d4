"""Texts and codes as an index stores and compares them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple


class StoredValue:
    """The stored value of a document whose text is not at hand, None for one without shingles, and the tokens of that text."""

    __slots__ = ("token_count", "value")

    def __init__(self, value: bytes | None, token_count: int | None) -> None:
        self.value, self.token_count = value, token_count

    def __len__(self) -> int:
        return len(self.value or b"")


class Sketch(NamedTuple):
    """A text as the index sees it: stored value and tokens. `value` None = an empty text, or one like an allowed text, whose
    value is in `aside`."""

    value: bytes | None
    token_count: int | None
    epoch: int
    value_hash: int | None = None
    keys: bytes | None = None
    """As in `native.Sketch`, where the sketch is made to be stored; else None."""
    aside: bytes | None = None


plain_sketch: Callable[[tuple[Any, ...]], Sketch] = partial(tuple.__new__, Sketch)
"""A sketch of all its fields, in a quarter of the time: every question makes one."""


class Sketches(NamedTuple):
    """Sketches of several texts, or codes, as columns; `token_counts` None = None for each."""

    values: Sequence[bytes | None]
    token_counts: Sequence[int | None] | None
    epoch: int
    hashes: Any = None
    keys: Any = None
    """As in `TextValues`."""
    aside: Mapping[int, bytes] = {}
    """As of `Sketch`, by place."""

    def sketch_at(self, i: int) -> Sketch:
        count = None if self.token_counts is None else self.token_counts[i]
        return Sketch(self.values[i], count, self.epoch, aside=self.aside.get(i))

    def at_indexes(self, places: Sequence[int]) -> Sketches:
        counts = None if self.token_counts is None else [self.token_counts[i] for i in places]
        hashes, keys = (None if array is None else array[list(places)] for array in (self.hashes, self.keys))
        aside = {i: self.aside[place] for i, place in enumerate(places) if place in self.aside} if self.aside else {}
        return Sketches([self.values[i] for i in places], counts, self.epoch, hashes, keys, aside)
