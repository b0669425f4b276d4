"""Which records can have a near-duplicate at all: those that are in a bucket of the band table with another one.

Of a record nothing is kept but its bucket of each band, 4 bytes each, so that most texts never come into an index.
"""

from __future__ import annotations

from array import array
from itertools import pairwise
from typing import Any

from .. import limits, native
from ..arrays import np
from ..schemes import MinHash
from ..schemes.base import native_scheme
from ..store.writing.short_texts import TokenCounts
from ..text import TextRules


class Buckets:
    """The buckets of texts under the bands of a scheme. `wordless` holds the places of those without a word, from 0 on."""

    def __init__(self, scheme: MinHash, rules: TextRules) -> None:
        self.token_counts = TokenCounts()
        self.wordless: list[int] = []
        self._rules = rules
        self._bands = scheme.bands
        self._keys = array("i")
        # The buckets are those of the signature, of which the bands use the first slots, whether it is stored or not.
        self._native = native_scheme({**scheme.settings(), "num_perm": scheme.bands * scheme.rows, "evidence": "none"})

    def add(self, texts: list[str]) -> None:
        """Takes further texts; most of the time without the interpreter's lock."""
        values = native.values_of_texts(self._native, self._rules.native, texts)
        first = len(self._keys) // self._bands
        self.wordless += (first + np.flatnonzero(values.tokens == 0)).tolist()
        self.token_counts.take(values.tokens.tolist(), self._rules)
        self._keys.frombytes(native.band_keys(self._native, values).astype(np.int32).tobytes())

    def shared(self) -> Any:
        """Of each text whether it has a bucket in common with another one: bool[n]."""
        keys = np.frombuffer(self._keys, np.uint32)
        shared = np.zeros(len(keys) // self._bands, bool)
        parts = 1 + len(keys) // limits.SORTED_KEYS
        bounds = [(part << 32) // parts for part in range(parts + 1)]
        for low, high in pairwise(bounds):
            places = np.flatnonzero((keys >= np.uint32(low)) & (keys <= np.uint32(high - 1)))
            held = np.sort(keys[places].astype(np.uint64) << np.uint64(32) | (places // self._bands).astype(np.uint64))
            met = np.flatnonzero((held[1:] ^ held[:-1]) >> np.uint64(32) == 0)
            for place in (met, met + 1):
                shared[held[place] & np.uint64(0xFFFFFFFF)] = True
        shared[self.wordless] = False
        return shared
