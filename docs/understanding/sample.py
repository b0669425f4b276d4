"""Pairs of the bundled sample of real text: how similar they are, and how the schemes measure them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from neardup_db import MinHash, SimHash, TextRules
from neardup_db.compute import hamming_distance, jaccard_pairs, shingle_hashes
from neardup_db.demo import documents

STORY = "The ferry to the northern islands was cancelled on Monday because of a storm that closed the harbour for two days"
COPY = STORY.upper() + " and nights!"
CHANGED = STORY.replace("Monday", "Tuesday")
"""The running example of the pages: a story, the same with two words more, and with one word in the middle replaced."""

LEAST = 0.3
"""Pairs that are less similar are not looked at."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Two documents: Jaccard similarity of their shingles, share of equal slots of MinHash(), differing bits of SimHash()."""

    key_a: str
    key_b: str
    jaccard: float
    equal_slots: float
    distance: int


def hashes(text: str, rules: TextRules | None = None) -> np.ndarray:
    """The set of a text's shingle hashes, ascending."""
    return np.unique(shingle_hashes(text, rules))


@cache
def measured() -> list[Measured]:
    """All pairs of the sample from LEAST on, which brute force finds."""
    keys, texts = zip(*documents(), strict=True)
    slots, codes = MinHash().fingerprints(list(texts)), SimHash().fingerprints(list(texts))
    ids, similarities = jaccard_pairs([hashes(text) for text in texts], LEAST)
    return [
        Measured(keys[i], keys[j], float(similarity), float(np.mean(slots[i] == slots[j])), hamming_distance(codes[i], codes[j]))
        for (i, j), similarity in zip(ids.tolist(), similarities, strict=True)
    ]
