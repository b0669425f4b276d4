"""Suggests text rules and a threshold by trials on a sample of the texts."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any

from ..errors import ParameterError
from ..parameters import check_callable, check_integer, check_key, check_many, check_seed, check_text, quoted, storable
from ..text import TextRules
from ..values import Key
from .advice import advised
from .measure import subject, trial
from .page import Tuning
from .results import Border, Example, Trial
from .sample import Sample

__all__ = ["RULES", "Border", "Example", "Trial", "Tuning", "tune"]

RULES = {
    **{f"words of {size}": TextRules.words(shingle=size) for size in (1, 2, 3)},
    **{f"characters of {size}": TextRules.chars(shingle=size) for size in (3, 4, 5, 6, 7)},
}
"""The text rules of the trials, by name."""


def tune(
    texts: Iterable[str | bytes | tuple[Key, str | bytes]],
    *,
    truth: Iterable[tuple[Key, Key]] | None = None,
    sample: int = 5000,
    seed: int = 1,
    progress: Callable[[int], Any] | None = None,
) -> Tuning:
    """Try text rules on a sample: how well, at which threshold and cost they separate near-duplicates from unlike texts.

    texts: an iterable of texts, with the keys 0, 1, 2, ..., or of (key, text). truth: pairs of keys of near-duplicates; all other
    pairs count as different, and the result has recall and precision. sample: the maximum number of texts to compare, at least 2,
    and fewer if they are long. The sample keeps similar texts together; texts of the truth, chosen at random, have priority for
    up to half of it. Memory is bounded by the sample and the truth. seed: equal texts and seeds give equal samples. progress:
    called now and then with the number of texts read.

    The trials use shingles of 1 to 3 words and of 3 to 7 characters. Similarities are exact Jaccard similarities of the shingles,
    as in `MinHash(exact=True)`. For texts of 5 to 49 words (the median) the advice is 3 characters at 0.8, which was measured on
    real short texts. `html()` shows pairs for you to judge, and `Trial.border` the number of records that deduplication would
    remove, with samples. Raises ParameterError.

    >>> import neardup_db
    >>> from neardup_db import demo
    >>> tuning = neardup_db.tune(demo.documents(), sample=200)
    >>> tuning.sample, tuning.best.name
    (200, 'words of 3')
    """
    return tuned(texts, truth, sample, seed, progress)


def tuned(
    texts: Iterable[Any],
    truth: Iterable[tuple[Key, Key]] | None,
    size: int,
    seed: int,
    progress: Callable[[int], Any] | None = None,
    tried: Callable[[str], Any] = lambda name: None,
) -> Tuning:
    """`tune`, which also calls `tried` with the name of each finished trial."""
    size, seed = check_integer("sample", size, 2), check_seed("seed", seed)
    check_callable("progress", progress)
    pairs = None if truth is None else _pairs_of(truth)
    sample = Sample(size, seed, _chosen_keys(pairs or [], size // 2, seed))
    for number, item in enumerate(check_many("texts", texts)):
        try:
            key, text = _keyed(number, item)
            sample.add(check_key(key), storable(check_text(text)))
        except ParameterError as error:
            raise ParameterError(f"text {number}: {error}") from error
        if progress is not None and (number + 1) % 1000 == 0:
            progress(number + 1)
    rows = sample.rows()
    if len(rows) < 2:
        raise ParameterError(f"{len(rows)} texts with a word: give two or more, and rather some thousands")
    places = {row.key: place for place, row in enumerate(rows)}
    known = {
        (min(places[a], places[b]), max(places[a], places[b]))
        for a, b in pairs or ()
        if a in places and b in places and places[a] != places[b]
    }
    if pairs is not None and not known:
        raise ParameterError(f"truth: none of {len(pairs)} pairs is among the texts: give pairs of their keys")
    on = subject(rows, sorted(known), seed)
    trials = []
    for name, rules in RULES.items():
        trials.append(trial(name, rules, on))
        tried(name)
    best, advice = advised(trials, on)
    return Tuning(sample.count, sample.empty, len(rows), on.words, len(known), tuple(trials), best, advice)


def _keyed(number: int, item: Any) -> tuple[Key, str | bytes]:
    if isinstance(item, (tuple, list)):
        if len(item) != 2:
            raise ParameterError(f"{quoted(item)}: give a text, or a pair (key, text)")
        return item[0], item[1]
    return number, item


def _pairs_of(truth: Iterable[tuple[Key, Key]]) -> list[tuple[Key, Key]]:
    pairs = []
    for pair in check_many("truth", truth, "give pairs of keys"):
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise ParameterError(f"truth has {quoted(pair)}: give pairs of keys")
        pairs.append((check_key(pair[0]), check_key(pair[1])))
    return pairs


def _chosen_keys(pairs: list[tuple[Key, Key]], most: int, seed: int) -> dict[Key, int]:
    """The keys of randomly chosen pairs, with ranks below 0 that keep each pair together."""
    chosen = random.Random(seed).sample(pairs, min(len(pairs), max(1, most // 2)))
    ranks: dict[Key, int] = {}
    for number, pair in enumerate(chosen):
        for key in pair:
            ranks.setdefault(key, number - len(chosen))
    return ranks
