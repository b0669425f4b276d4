"""The result of `tune` for each set of text rules, as frozen values."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..text import TextRules
from ..values import Key

_BARS = " ▁▂▃▄▅▆▇█"


@dataclass(frozen=True, slots=True)
class Example:
    """Two texts of the sample, and their Jaccard similarity under the rules of the trial."""

    key_a: Key
    key_b: Key
    similarity: float
    text_a: str
    text_b: str


@dataclass(frozen=True, slots=True)
class Border:
    """A threshold, the number of pairs in the sample that reach it, and the pairs just above and just below it, nearest first.

    recall: the share of known pairs that reach the threshold; precision: the share of pairs reaching it that are known, None if
    no pair does. Both are None without known pairs. removed: the number of records that deduplication at this threshold would
    remove, in sample order; each matches a kept record. largest: the records of the largest cluster, the kept record and those
    removed for it; 1 if none is removed. samples: removed records (`key_b`, `text_b`) beside the kept record (`key_a`, `text_a`),
    the least similar first. Below 0.5, removed and largest are None and samples is empty, unless the threshold is advised.
    """

    threshold: float
    pairs: int
    above: tuple[Example, ...]
    below: tuple[Example, ...]
    recall: float | None = None
    precision: float | None = None
    removed: int | None = None
    largest: int | None = None
    samples: tuple[Example, ...] = ()


@dataclass(frozen=True, slots=True)
class Trial:
    """The measurements of one set of text rules.

    edited: the similarity kept by nine in ten copies with one word in twenty changed, at least one. unlike: the similarity that
    999 in 1,000 pairs of unlike texts stay below. histogram: consecutive (from, to, pairs) by similarity, from the lowest
    counted. threshold: the best threshold between `unlike` and `edited`, None without room between them; 0.8 for shingles of 3
    characters and texts of 5 to 49 words; with a truth, the threshold that agrees with it best. is_valley: whether few pairs are
    near the threshold. shingles: the median number of distinct shingles in a text. exact: whether exact values are small enough
    to recommend. size_bytes, microseconds: the measured size of a text in an index of the sample, and the time to add it.
    """

    rules: TextRules
    name: str
    edited: float
    unlike: float
    histogram: tuple[tuple[float, float, int], ...]
    borders: tuple[Border, ...]
    threshold: float | None
    is_valley: bool
    shingles: int
    exact: bool
    size_bytes: int
    microseconds: float

    @property
    def apart(self) -> float:
        """How well the rules separate edited copies from unlike texts: the distance of the two, times the copies' similarity."""
        return max(0.0, self.edited - self.unlike) * self.edited

    @property
    def worth(self) -> float:
        """`apart`, or with a truth the harmonic mean of recall and precision at the threshold."""
        border = self.border
        if border is None or border.recall is None:
            return self.apart
        both = border.recall + (border.precision or 0.0)
        return 2 * border.recall * (border.precision or 0.0) / both if both else 0.0

    @property
    def bars(self) -> str:
        """The histogram as a line of bars, on a logarithmic scale."""
        most = max((count for _, _, count in self.histogram), default=0)
        return "".join(_BARS[math.ceil(math.log1p(n) / math.log1p(most) * 8) if n else 0] for _, _, n in self.histogram)

    @property
    def border(self) -> Border | None:
        return next((border for border in self.borders if border.threshold == self.threshold), None)
