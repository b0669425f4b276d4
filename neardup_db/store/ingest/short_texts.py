"""Detects loads whose texts are too short for their text rules."""

from __future__ import annotations

from collections.abc import Sequence

from ...arrays import np
from ...schemes import Scheme
from ...text import TextRules

SHORT = 20  # below this number of tokens one changed word changes most shingles of three words
TOO_FEW = 20  # loads with fewer texts give no warning, because they are not representative


class TokenCounts:
    """Counts the short texts of a load, except texts below `min_tokens`, which match nothing."""

    def __init__(self, scheme: Scheme | None = None) -> None:
        self.texts = self.short = 0
        self.shortest: int | None = getattr(scheme, "shortest", None)  # tokens of the shortest passage, in an index of passages

    def count_batch(self, token_counts: Sequence[int | None] | None, rules: TextRules) -> None:
        if token_counts is not None and (self.shortest or (rules.tokens == "words" and rules.shingle >= 3)):
            counts = np.array(token_counts, np.float64)  # None becomes NaN, which compares False
            counts[counts < rules.min_tokens] = 0
            self.texts += int(np.count_nonzero(counts))
            self.short += int(np.count_nonzero((counts > 0) & (counts < (self.shortest or SHORT))))

    def warning(self, shingle: int) -> str | None:
        if self.texts < TOO_FEW or 2 * self.short <= self.texts:
            return None
        if self.shortest is not None:
            return (
                f"{self.short / self.texts:.0%} of {self.texts:,} texts have fewer than shortest={self.shortest} tokens, so they "
                "share no passage: make the index with a shorter Passages(shortest=...), or silence this with "
                "warnings.simplefilter('ignore', neardup_db.ShortTextsWarning)"
            )
        return (
            f"{self.short / self.texts:.0%} of {self.texts:,} texts have fewer than {SHORT} words, and shingles of {shingle} "
            "words miss most near-duplicates of such texts: take TextRules.chars(shingle=3) and a threshold of 0.8, or "
            "silence this with warnings.simplefilter('ignore', neardup_db.ShortTextsWarning)"
        )
