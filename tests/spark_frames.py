"""Texts for the tests of Spark, in frames and in an index, and what is expected of them."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from neardup_db import Index, MinHash, TextRules

SCHEME = MinHash(threshold=0.7)
BY_WORD = TextRules(shingle=1)


def frame(spark: Any, records: Iterable[tuple[Any, Any]], key: str = "long") -> Any:
    return spark.createDataFrame(list(records), f"id {key}, body string")


def edited(words: list[str], rng: random.Random, count: int) -> str:
    text = list(words)
    for place in rng.sample(range(len(text)), count):
        text[place] = f"e{rng.randrange(10**9)}"
    return " ".join(text)


def synthetic(count: int, seed: int = 1, words: int = 60) -> list[str]:
    """Texts of which many are edits of each other, nearer and further than the threshold, and some are equal."""
    rng = random.Random(seed)
    texts: list[str] = []
    while len(texts) < count:
        base = [f"w{rng.randrange(5000)}" for _ in range(words)]
        texts.append(" ".join(base))
        texts += [edited(base, rng, rng.randrange(0, 8)) for _ in range(rng.choice((0, 0, 1, 4)))]
    rng.shuffle(texts)
    return texts[:count]


def clusters_of(rows: Iterable[Any]) -> set[tuple[Any, ...]]:
    """The clusters of what came back, each by its keys; each has its smallest key as label, and what is alone has none."""
    found: dict[Any, list[Any]] = {}
    for row in rows:
        assert (row.cluster is None) == (row.representative is None) == (row.similarity is None)
        if row.cluster is not None:
            found.setdefault(row.cluster, []).append(row.key)
    assert all(min(keys) == label for label, keys in found.items())
    return {tuple(sorted(keys)) for keys in found.values()}


def indexed(records: Iterable[tuple[Any, Any]], scheme: MinHash = SCHEME, rules: TextRules | None = None) -> Index:
    index = Index(":memory:", scheme.with_exact(True), text=rules)
    index.add_many((key, text) for key, text in records if text is not None)
    return index


def clusters_in(index: Index) -> set[tuple[Any, ...]]:
    return {tuple(sorted(cluster.keys)) for cluster in index.clusters()}  # type: ignore[type-var]


def chained(count: int, seed: int) -> list[str]:
    """Texts in chains: each is an edit of the one before, so that the ends of a chain have little in common. Some are equal, and
    some say a word several times."""
    rng = random.Random(seed)
    texts: list[str] = []
    while len(texts) < count:
        words = [f"w{rng.randrange(10**6)}" for _ in range(30)]
        for _ in range(rng.choice((1, 2, 3, 12, 40))):
            words = edited(words, rng, rng.randrange(3)).split()
            texts.append(" ".join(words + words[: rng.randrange(4)]))
    rng.shuffle(texts)
    return texts[:count]


def by_hand(texts: dict[int, str], order: list[int], scheme: MinHash) -> set[int]:
    """The first independent set of the graph of all matching pairs of an index, in an order."""
    with indexed(texts.items(), scheme, BY_WORD) as index:
        pairs = [(pair.key_a, pair.key_b) for pair in index.pairs()]
    neighbours: dict[Any, set[Any]] = {key: set() for key in texts}
    for a, b in pairs:
        neighbours[a].add(b)
        neighbours[b].add(a)
    kept: set[int] = set()
    for key in order:
        if not neighbours[key] & kept:
            kept.add(key)
    return kept
