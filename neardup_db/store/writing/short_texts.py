"""Detects loads whose texts are too short for their text rules."""

from __future__ import annotations

from collections.abc import Sequence

from ...arrays import np
from ...text import TextRules

SHORT = 20
"""Below this number of tokens one changed word changes most shingles of three words."""

TOO_FEW = 20
"""Loads with fewer texts give no warning, because they are not representative."""


class TokenCounts:
    """Counts the short texts of a load, except texts below `min_tokens`, which match nothing."""

    def __init__(self) -> None:
        self.texts = self.short = 0

    def count_batch(self, token_counts: Sequence[int | None] | None, rules: TextRules) -> None:
        """Count the texts of a batch if shingles have three or more words."""
        if token_counts is not None and rules.tokens == "words" and rules.shingle >= 3:
            counts = np.array(token_counts, np.float64)  # None becomes NaN, which compares False
            counts[counts < rules.min_tokens] = 0
            self.texts += int(np.count_nonzero(counts))
            self.short += int(np.count_nonzero((counts > 0) & (counts < SHORT)))

    def warning(self, shingle: int) -> str | None:
        """The warning if most texts are short."""
        if self.texts < TOO_FEW or 2 * self.short <= self.texts:
            return None
        return (
            f"{self.short / self.texts:.0%} of {self.texts:,} texts have fewer than {SHORT} words, and shingles of {shingle} "
            "words miss most near-duplicates of such texts: take TextRules.chars(shingle=3) and a threshold of 0.8, or "
            "silence this with warnings.simplefilter('ignore', neardup_db.ShortTextsWarning)"
        )
