"""`pairs(measure="containment")`: each document with every one that contains it."""

from __future__ import annotations

import random
from itertools import permutations
from typing import Any

import pytest
from support import LATER, PAST, WORDS, containment, containment_estimate
from test_containment import hashes

from neardup_db import BottomK, Index, MinHash, Pair

INDEXES: dict[str, tuple[Any, bool]] = {
    "exact": (MinHash(exact=True, threshold=0.9), False),
    "text": (MinHash(exact=True, threshold=0.9), True),
    "bottomk": (BottomK(k=8, threshold=0.9, containment=True), False),
}
"""Indexes that tell what a text contains; in the last one by an estimate."""


def filled(index: Index, count: int, seed: int) -> dict[int, tuple[Any, set[str]]]:
    """Random sets of words in two groups, with copies, an empty one and expired ones: those that are visible."""
    source = random.Random(seed)
    words = [f"w{number}" for number in range(40)]
    stored: dict[int, tuple[Any, set[str]]] = {}
    for number in range(count):
        chosen = source.sample(words, source.choice([0, 1, 2, 5, 20, 35]))
        if stored and source.random() < 0.2:
            chosen = sorted(source.choice(list(stored.values()))[1])
        group, expired = source.choice([None, "g"]), source.random() < 0.1
        index.add(number, " ".join(chosen), group=group, expires_at=PAST if expired else LATER)
        if not expired:
            stored[number] = group, set(chosen)
    return stored


@pytest.mark.parametrize("limits", ["usual", "small"])
@pytest.mark.parametrize("name", INDEXES)
def test_they_are_those_of_brute_force(name: str, limits: str, request: pytest.FixtureRequest) -> None:
    """At every threshold each ordered pair of a group whose share meets it is there once, and nothing else."""
    if limits == "small":
        request.getfixturevalue("small_limits")
    scheme, store_text = INDEXES[name]
    found = 0
    with Index(":memory:", scheme, text=WORDS, store_text=store_text) as index:
        stored = filled(index, 60, seed=3)
        shares = {}
        for (a, (group, words)), (b, (other_group, others)) in permutations(stored.items(), 2):
            share: float | None = containment(words, others)
            if name == "bottomk" and words:
                share = containment_estimate(set(hashes(words)[:8]), set(hashes(others)[:8]), 8)
            if group == other_group and share is not None:
                shares[a, b] = share
        for threshold in (1.0, 0.8, 0.5, 1e-9):
            expected = [(a, b, share) for (a, b), share in shares.items() if share >= threshold]
            listed = [(p.key_a, p.key_b, p.similarity) for p in index.pairs(threshold, measure="containment")]
            assert sorted(listed) == sorted(expected)
            found += len(expected)
    assert found > 300


@pytest.mark.parametrize("name", INDEXES)
def test_the_contained_document_comes_first(name: str) -> None:
    """key_a is in key_b, whichever is the earlier one; two equal ones are two pairs; 0.8 is the threshold unless given."""
    scheme, store_text = INDEXES[name]
    with Index(":memory:", scheme, text=WORDS, store_text=store_text) as index:
        index.add("long", "ash bay box elm fig fir")
        index.add("short", "ash bay")
        index.add("copy", "bay ash")
        index.add("part", "ash bay yew rue")
        pairs = {(pair.key_a, pair.key_b) for pair in index.pairs(measure="containment")}
        both = {("short", "copy"), ("copy", "short")}
        assert pairs == both | {(a, b) for a in ("short", "copy") for b in ("long", "part")}
        assert list(index.pairs()) == list(index.pairs(measure=None)) == [Pair("short", "copy", 1.0)]


def test_pairs_come_while_others_write(tmp_path: Any) -> None:
    """The listing is lazy: what is added behind it is still met, what is deleted ahead of it is not."""
    with Index(tmp_path / "a.db", MinHash(exact=True), text=WORDS) as index:
        for number in range(5):
            index.add(number, f"ash bay w{number}")
        listed = index.pairs(0.6, measure="containment")
        assert next(listed).key_a == 0
        index.delete(3)
        index.add(9, "ash bay w9")
        rest = [(pair.key_a, pair.key_b) for pair in listed if pair.key_a != 0]
        assert {a for a, _ in rest} == {1, 2, 4, 9} and all(3 not in pair for pair in rest)


def test_an_empty_index_has_none() -> None:
    """No document, one, or only empty ones: no pair."""
    with Index(":memory:", MinHash(exact=True)) as index:
        assert list(index.pairs(measure="containment")) == []
        index.add("a", "some words are here")
        index.add("b", "!!!")
        assert list(index.pairs(0.1, measure="containment")) == []
