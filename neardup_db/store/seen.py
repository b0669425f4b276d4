"""Which hashes of values were seen: a table of bits in memory that saves looking most new values up in the file."""

from __future__ import annotations

from typing import Any

import numpy as np

SLOTS = 1 << 25


class SeenHashes:
    """Hashes, each remembered by its lowest bits: what was never added is nearly always known to be new, what was added is never
    taken for new. 32 MB; of 1 million hashes 3 % of the new ones look seen, of 10 million 26 %."""

    def __init__(self) -> None:
        self._slots = np.zeros(SLOTS, np.bool_)

    def add(self, hashes: Any) -> Any:
        """Remember hashes (int64[n]); returns bool[n], whether each may have been there before."""
        places = hashes & (SLOTS - 1)
        seen = self._slots[places]
        self._slots[places] = True
        return seen
