"""Measures text rules on a sample: similarity of its pairs, of edited copies and of unlike texts, and the cost of an index."""

from __future__ import annotations

import random
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from .. import limits
from ..arrays import Array, np
from ..comparing import Deduplicator
from ..compute.comparisons import jaccard_pieces
from ..errors import ShortTextsWarning
from ..index import Index
from ..native import Values, lib, pointer
from ..schemes import MinHash
from ..store.clustering.edges import UnionFind
from ..text import TextRules
from .results import Border, Example, Trial
from .sample import Row

LOWEST = 0.3  # pairs below this similarity are not counted, because nearly all pairs share single words
GRID = tuple(round(0.05 * step, 2) for step in range(7, 20))  # the thresholds: 0.35 to 0.95
WIDTH = 0.05  # the distance from a threshold within which a pair is on its border, and the width of a histogram bar
SHOWN, CONSIDERED = 3, 40  # pairs shown on either side of a threshold, and candidates for them

PRICED, SAMPLES = 0.5, 5
"""The lowest threshold for which removed records are counted unless it is advised, as nearly all may match; and samples shown."""

SHORT_RULES, SHORT_THRESHOLD, SHORT_WORDS = "characters of 3", 0.8, range(5, 50)
"""For texts with a median of so many words, as in ShortTextsWarning and the README (benchmarks/results/2026-11-24-advice.md)."""

EDITED, UNLIKE = 300, 20_000  # edited copies, and pairs of unlike texts
APART = 30  # with at least this many families a sample has unlike texts, whatever the family sizes
EXACT_BYTES = 1024  # the largest text for which exact values are recommended; a signature has 256 bytes
_WHOLE = MinHash(exact=True)  # a scheme that returns complete sets of shingle hashes

_ALIKE = ((TextRules.chars(shingle=5), 0.5), (TextRules.words(shingle=1), 0.6))
"""Texts with at least this similarity under any of the rules are not used as unlike texts."""


class Subject(NamedTuple):
    rows: Sequence[Row]
    copies: Sequence[tuple[int, str]]  # edited texts with the positions of their originals
    unlike: Sequence[tuple[int, int]]
    known: Sequence[tuple[int, int]]  # positions of known near-duplicates, a < b
    words: int  # the median number of words in a text

    @property
    def is_short(self) -> bool:
        """Whether the rules for short texts are recommended."""
        return self.words in SHORT_WORDS and not self.known


def subject(rows: Sequence[Row], known: Sequence[tuple[int, int]], seed: int) -> Subject:
    """The test data of a sample; a seed determines the edited copies and the unlike pairs."""
    rng = random.Random(seed)
    return Subject(rows, _copies(rows, rng), _unlike(rows, rng), known, median_words([row.text for row in rows]))


def _copies(rows: Sequence[Row], rng: random.Random) -> list[tuple[int, str]]:
    places = rng.sample(range(len(rows)), min(EDITED, len(rows)))
    return [(place, edited(rows[place].text, rows[rng.choice(places)].text, rng)) for place in places]


def edited(text: str, other: str, rng: random.Random) -> str:
    """A text with one word in twenty from another text; with below ten words or few spaces one letter in twenty, at least one."""
    words, others = text.split(), other.split()
    gap = " "
    if len(words) < 10 or len(words) * 20 < len(text):
        words, others, gap = list(text), list(other), ""
    for place in rng.sample(range(len(words)), max(1, round(len(words) / 20))):
        new = rng.choice(others)
        words[place] = new if new != words[place] else new + new
    return gap.join(words)


def _unlike(rows: Sequence[Row], rng: random.Random) -> list[tuple[int, int]]:
    """Pairs of texts from different families. Each family is represented by one text, so that large families count once. If most
    texts are in one family, it is a template, and pairs are drawn from all texts."""
    families = UnionFind()
    texts = [row.text for row in rows]
    for rules, threshold in _ALIKE:
        for ids, _ in jaccard_pieces(sets_of(texts, rules), threshold, limits.PAIRS_WANTED):
            found = np.array([families.find(place) for place in range(len(rows))])
            ids = ids[found[ids[:, 0]] != found[ids[:, 1]]]
            _, first = np.unique(found[ids] @ (len(rows), 1), return_index=True)  # one pair connects two families
            for a, b in ids[np.sort(first)].tolist():
                families.union(b, a)
    sizes = Counter(map(families.find, range(len(rows))))
    apart = sorted(sizes)
    if len(apart) < APART and max(sizes.values()) > len(rows) / 2:
        apart = list(range(len(rows)))
    most = len(apart) * (len(apart) - 1) // 2
    if most <= UNLIKE:
        return [(a, b) for i, a in enumerate(apart) for b in apart[i + 1 :]]
    return [(apart[i], apart[j]) for i, j in (rng.sample(range(len(apart)), 2) for _ in range(UNLIKE))]


def sets_of(texts: Sequence[str], rules: TextRules) -> list[Array]:
    """The distinct shingle hashes of each text, ascending: 40 bits each."""
    return _sets(_WHOLE.values(texts, rules).split())


def _sets(stored: Sequence[bytes | None]) -> list[Array]:
    return [np.empty(0, np.uint64) if value is None else _WHOLE.elements(value) for value in stored]


def _similarities(sets: Sequence[Array], pairs: Iterable[tuple[int, int]]) -> list[float]:
    held = [(pointer(one, "uint64_t[]"), len(one)) for one in sets]
    return [lib.nd_jaccard(*held[a], *held[b], 0.0) for a, b in pairs]


def median_words(texts: Sequence[str]) -> int:
    counts = _WHOLE.values(texts, TextRules.words(shingle=1)).tokens.tolist()
    return sorted(counts)[len(counts) // 2]


def trial(name: str, rules: TextRules, on: Subject) -> Trial:
    stored = _WHOLE.values([row.text for row in on.rows], rules).split()
    sets = _sets(stored)
    copies = sets_of([text for _, text in on.copies], rules)
    edits = sorted(_similarities([*sets, *copies], ((place, len(sets) + i) for i, (place, _) in enumerate(on.copies))))
    apart = sorted(_similarities(sets, on.unlike))
    edited_, unlike = _quantile(edits, 0.1), _quantile(apart, 0.999)
    pairs = _Pairs(sets, on)
    threshold = pairs.best_threshold(unlike, edited_) if not on.known else pairs.best_known()
    if threshold is not None and on.is_short and name == SHORT_RULES:
        threshold = SHORT_THRESHOLD
    exact = sum(32 + 4.1 * len(one) for one in sets) <= EXACT_BYTES * len(sets)
    size_bytes, microseconds = _cost(on.rows, rules, threshold or 0.8, exact)
    return Trial(
        rules=rules,
        name=name,
        edited=edited_,
        unlike=unlike,
        histogram=pairs.histogram(),
        borders=tuple(
            _priced(one, stored, pairs.best, on.rows) if one.threshold >= PRICED or one.threshold == threshold else one
            for one in map(pairs.border, GRID)
        ),
        threshold=threshold,
        is_valley=threshold is not None and pairs.is_valley(threshold),
        shingles=int(np.median([len(one) for one in sets])),
        exact=exact,
        size_bytes=size_bytes,
        microseconds=microseconds,
    )


def _priced(border: Border, stored: Sequence[bytes | None], best: Array, rows: Sequence[Row]) -> Border:
    """The border with the records that deduplication at its threshold would remove, as decided by `neardup dedup` for the texts
    with a pair that reaches it: all others are kept and remove none."""
    places = np.flatnonzero(best >= border.threshold)
    values = Values.joined([stored[place] for place in places.tolist()])
    kept, similarities = Deduplicator(MinHash(threshold=border.threshold, exact=True).native).add(values)
    removed = np.flatnonzero(kept >= 0)
    removed = removed[np.argsort(similarities[removed], kind="stable")]
    shown = removed[: max(SAMPLES, int((similarities[removed] < 1).sum()))]  # equal texts need no review
    chosen = shown[np.unique(np.linspace(0, max(0, len(shown) - 1), min(SAMPLES, len(shown))).astype(np.int64))]
    samples = []
    for place in chosen.tolist():
        stays, goes = rows[places[kept[place]]], rows[places[place]]
        samples.append(Example(stays.key, goes.key, float(similarities[place]), stays.text, goes.text))
    largest = 1 + int(np.bincount(kept[removed]).max()) if len(removed) else 1
    return replace(border, removed=len(removed), largest=largest, samples=tuple(samples))


def _quantile(ascending: Sequence[float], share: float) -> float:
    return ascending[min(int(share * len(ascending)), len(ascending) - 1)] if ascending else 0.0


def _cost(rows: Sequence[Row], rules: TextRules, threshold: float, exact: bool) -> tuple[int, float]:
    """(bytes of a text in an index, microseconds to add it), measured in memory."""
    with Index(":memory:", MinHash(threshold=threshold, exact=exact), text=rules) as index:
        empty = index.stats()["size_bytes"]
        begun = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ShortTextsWarning)
            index.add_many((number, row.text) for number, row in enumerate(rows))
        seconds = time.perf_counter() - begun
        return round((index.stats()["size_bytes"] - empty) / len(rows)), seconds / len(rows) * 1e6


class _Pairs:
    """All pairs of a sample with a similarity of at least LOWEST: counts, and the pairs nearest to each threshold."""

    def __init__(self, sets: Sequence[Array], on: Subject) -> None:
        self._on = on
        self._bars = np.zeros(round((1 - LOWEST) / WIDTH), np.int64)
        self._reach = dict.fromkeys(GRID, 0)
        self._close = dict.fromkeys(GRID, 0)  # pairs on the border
        self.best = np.zeros(len(sets))  # the highest similarity of each text
        none = np.empty((0, 2), np.int64), np.empty(0)
        self._above: dict[float, tuple[Any, Any]] = dict.fromkeys(GRID, none)
        self._below = dict(self._above)
        for ids, similarities in jaccard_pieces(sets, LOWEST, limits.PAIRS_WANTED):
            self._count(ids, similarities)
        self._known = np.sort(_similarities(sets, on.known))

    def _count(self, ids: Array, similarities: Array) -> None:
        bars = np.minimum(((similarities - LOWEST) / WIDTH + 1e-9).astype(np.int64), len(self._bars) - 1)
        self._bars += np.bincount(bars, minlength=len(self._bars))
        # Pairs are listed by their first text; of equally similar ones each 97th comes next, so that examples are of many texts.
        spread = np.argsort((np.arange(len(ids)) % 97).astype(np.uint8), kind="stable")
        order = spread[np.argsort(similarities[spread], kind="stable")]
        ascending, best = similarities[order], np.zeros_like(self.best)
        best[ids[order]] = ascending[:, None]  # the last assignment counts
        np.maximum(self.best, best, out=self.best)
        for threshold in GRID:
            low, first, high = np.searchsorted(ascending, (threshold - 2 * WIDTH, threshold, threshold + 2 * WIDTH)).tolist()
            self._reach[threshold] += len(ids) - first
            self._close[threshold] += int((np.abs(ascending[low:high] - threshold) < WIDTH).sum())
            above, below = order[first : first + CONSIDERED], order[max(0, first - CONSIDERED) : first]
            for near, places in ((self._above, np.sort(above)), (self._below, np.sort(below))):
                near[threshold] = _nearest(near[threshold], ids[places], similarities[places], threshold)

    def best_threshold(self, low: float, high: float) -> float | None:
        """The threshold between two similarities with the fewest pairs on the border, the most central in a tie. If none has far
        fewer pairs than the range above it, the highest one."""
        room = high - low
        within = [one for one in GRID if low + room / 4 <= one <= high - room / 8] if room > 0 else []
        if not within:
            return None
        middle = (low + high) / 2
        emptiest = min(within, key=lambda one: (self._close[one], abs(one - middle)))
        return emptiest if self.is_valley(emptiest) else within[-1]

    def is_valley(self, threshold: float) -> bool:
        """Whether the border has at most half of the average number of pairs above it."""
        bars = (1 - threshold) / WIDTH
        return self._close[threshold] <= self._reach[threshold] / bars

    def best_known(self) -> float | None:
        """The threshold with the best harmonic mean of recall and precision, the higher in a tie."""
        return max(GRID, key=lambda one: (self._count_above(one) / (len(self._known) + self._reach[one]), one))

    def _count_above(self, threshold: float) -> int:
        return len(self._known) - int(np.searchsorted(self._known, threshold))

    def histogram(self) -> tuple[tuple[float, float, int], ...]:
        ends = [round(LOWEST + WIDTH * place, 2) for place in range(len(self._bars) + 1)]
        return tuple((ends[place], ends[place + 1], count) for place, count in enumerate(self._bars.tolist()))

    def border(self, threshold: float) -> Border:
        reach, known, found = self._reach[threshold], len(self._known), self._count_above(threshold)
        above, below = self._examples(self._above[threshold]), self._examples(self._below[threshold])
        recall, precision = found / known if known else None, found / reach if known and reach else None
        return Border(threshold, reach, above, below, recall, precision)

    def _examples(self, near: tuple[Any, Any]) -> tuple[Example, ...]:
        """Pairs on one side of a threshold, of different texts if possible."""
        seen: set[int] = set()
        chosen: list[Example] = []
        for (a, b), similarity in zip(near[0].tolist(), near[1].tolist(), strict=True):
            if len(chosen) < SHOWN and seen.isdisjoint((a, b)):
                seen |= {a, b}
                first, second = self._on.rows[a], self._on.rows[b]
                chosen.append(Example(first.key, second.key, similarity, first.text, second.text))
        return tuple(chosen)


def _nearest(near: tuple[Any, Any], ids: Array, similarities: Array, threshold: float) -> tuple[Any, Any]:
    """The pairs nearest to a threshold, nearest first, from the previous pairs and new ones."""
    ids, similarities = np.concatenate((near[0], ids)), np.concatenate((near[1], similarities))
    order = np.argsort(np.abs(similarities - threshold), kind="stable")[:CONSIDERED]
    return ids[order], similarities[order]
