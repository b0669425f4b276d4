"""What `tune` found under each text rules: frozen values."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..text import TextRules
from ..values import Key

_BARS = " ▁▂▃▄▅▆▇█"


@dataclass(frozen=True, slots=True)
class Example:
    """Two texts of the sample, and their Jaccard similarity under the rules that the example is of."""

    key_a: Key
    key_b: Key
    similarity: float
    text_a: str
    text_b: str


@dataclass(frozen=True, slots=True)
class Border:
    """A threshold, how many pairs of the sample reach it, and those just above and just below it, the nearest first.

    recall: share of the known pairs that reach it; precision: share of the pairs that reach it that are known, None where no pair
    does. Both are None where no pair is known. removed: records of the sample that deduplication at this threshold would remove,
    in the order of the sample: each matches a record that stays. largest: records of the largest cluster, the record that stays
    and all that are removed for it; 1 where no record is removed. samples: records that would be removed (`key_b`, `text_b`)
    beside the record that stays (`key_a`, `text_a`), from the least similar to the most similar. removed and largest are None,
    and samples is empty, below 0.5, unless the advice is for that threshold.
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
    """What the sample says of text rules.

    edited: the similarity that nine in ten copies keep in which one word in twenty was changed, one at least. unlike: the
    similarity that 999 in 1,000 pairs of unlike texts stay below. histogram: pairs by similarity, (from, to, pairs) side by
    side, from the lowest similarity that is looked at. threshold: what fits these texts best, between `unlike` and `edited`,
    None where these do not leave room; for characters of 3 and texts of 5 to 49 words 0.8; with a truth, what agrees with it
    best. is_valley: whether few pairs are near the threshold. shingles: different ones of a text, the median. exact: whether
    exact values are small enough to advise them. size_bytes, microseconds: of a text in an index of the sample, and to add
    it, measured.
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
        """How well the rules tell edited copies from unlike texts: how far the copies are above these, times what they keep."""
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
        """That of the threshold."""
        return next((border for border in self.borders if border.threshold == self.threshold), None)
