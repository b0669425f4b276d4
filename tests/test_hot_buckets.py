"""Buckets in which hundreds meet and few match: edits of one template, with the usual limits, against brute force."""

from __future__ import annotations

import random
from functools import cache

import numpy as np
import pytest
from support import clusters_of, components

from neardup_db import BottomK, Index, MinHash, compute
from neardup_db.schemes.base import Scheme

COUNT = 520
SCHEMES: dict[str, Scheme] = {  # whose tables miss nothing at their thresholds
    "sets": MinHash(threshold=0.8, exact=True, bands=64, rows=2),
    "signatures": MinHash(threshold=0.8, bands=64, rows=2),
    "bottomk": BottomK(k=64, threshold=0.8),
}


@cache
def edits() -> list[str]:
    """Texts of 26 to 34 words: a template of which some words are replaced, and some at its end are left out or added."""
    draw = random.Random(7)
    words = [f"word{i}" for i in range(3000)]
    template = draw.sample(words, 30)
    texts = []
    for _ in range(COUNT):
        edited = template + draw.sample(words, 4)
        for _ in range(draw.randrange(1, 6)):
            edited[draw.randrange(30)] = draw.choice(words)
        texts.append(" ".join(edited[: draw.randrange(26, 35)]))
    texts[7] = " ".join(template[:6])  # too short to match any other one
    return texts


@cache
def expected(kind: str) -> dict[tuple[int, int], float]:
    """All pairs that match, with their similarities."""
    if kind == "signatures":
        slots = SCHEMES[kind].fingerprints(edits())
        equal = np.stack([(slots == row).sum(axis=1) for row in slots])
        first, second = np.nonzero(np.triu(equal / 128 >= 0.8, 1))
        return {(a, b): equal[a, b] / 128 for a, b in zip(first.tolist(), second.tolist(), strict=True)}
    sets = SCHEMES[kind].fingerprints(edits()) if kind == "bottomk" else [compute.shingle_hashes(text) for text in edits()]
    ids, similarities = compute.jaccard_pairs([np.unique(hashes) for hashes in sets], 0.8)
    return {(a, b): s for (a, b), s in zip(ids.tolist(), similarities.tolist(), strict=True)}


@pytest.mark.parametrize("kind", SCHEMES)
def test_pairs_of_a_hot_bucket(kind: str) -> None:
    """pairs() lists exactly the pairs of brute force, though most of a hundred thousand that meet do not match."""
    assert 100 < len(expected(kind)) < COUNT * COUNT // 20
    with Index(":memory:", SCHEMES[kind], record_matches=False) as index:
        index.add_many(enumerate(edits()))
        found = {(pair.key_a, pair.key_b): pair.similarity for pair in index.pairs()}
        assert found == expected(kind)
        assert clusters_of(index) == components(expected(kind))


@pytest.mark.parametrize("kind", SCHEMES)
def test_clusters_of_a_hot_bucket_that_fills_in_parts(kind: str) -> None:
    """Clusters are those of all pairs, whether texts come in one load or in three, and when some of the first are gone."""
    with Index(":memory:", SCHEMES[kind]) as index:
        texts = list(enumerate(edits()))
        for part in (texts[:150], texts[150:300]):
            index.add_many(part)
        assert index.delete_many(range(0, 150, 3)) == 50
        index.add_many(texts[300:])
        left = set(range(COUNT)) - set(range(0, 150, 3))
        assert clusters_of(index) == components(pair for pair in expected(kind) if left.issuperset(pair))
        assert index.check().ok


@pytest.mark.parametrize("kind", SCHEMES)
def test_pairs_with_a_hot_bucket_of_another_index(kind: str) -> None:
    """pairs_with() lists exactly the pairs of brute force between the two halves."""
    half = COUNT // 2
    texts = list(enumerate(edits()))
    with Index(":memory:", SCHEMES[kind]) as index, Index(":memory:", SCHEMES[kind]) as other:
        index.add_many(texts[:half])
        other.add_many(texts[half:])
        found = {(pair.key_a, pair.key_b) for pair in index.pairs_with(other)}
    assert found == {(a, b) for a, b in expected(kind) if a < half <= b}
