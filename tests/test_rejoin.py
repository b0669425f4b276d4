"""A cluster that a removal or an expiry splits: its parts are found by one join, and as a query for each document finds them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from load import steps
from support import clusters_of, components

from neardup_db import BottomK, Index, MinHash, SimHash, limits

SCHEMES = {
    "signatures": (MinHash(threshold=0.5), {}),
    "packed": (MinHash(threshold=0.5, exact=True), {}),
    "texts": (MinHash(threshold=0.5, exact=True), {"store_text": True}),
    "sketches": (BottomK(threshold=0.5), {}),
    "estimates": (BottomK(threshold=0.5, measure="estimate"), {}),
    "codes": (SimHash(max_distance=12), {}),
}
each_scheme = pytest.mark.parametrize("name", SCHEMES)


@pytest.fixture
def joined_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A join instead of the first queries."""
    monkeypatch.setattr(limits, "JOINED_FROM", 1)


def edits(rng: random.Random, words: list[str], count: int, changed: int) -> Iterator[str]:
    """Copies of a text with so many words changed, so that a copy matches the text and not another copy."""
    for _ in range(count):
        copy = list(words)
        for place in rng.sample(range(len(words)), changed):
            copy[place] = f"x{rng.randrange(10**6)}"
        yield " ".join(copy)


@each_scheme
@pytest.mark.usefixtures("joined_at_once")
def test_what_removals_leave_of_clusters_is_what_matches(name: str, more_rounds: bool) -> None:
    """After every removal the clusters are the connected components of the pairs that are not dismissed."""
    scheme, more = SCHEMES[name]
    for seed, dismissed in [*enumerate((0, 0, 0, 0, 5, 10, 20))][:: 1 if more_rounds else 5]:
        rng = random.Random(seed)
        with Index(":memory:", scheme, **more) as index:
            keys = []
            for _ in range(3):
                words = [f"w{rng.randrange(10**6)}" for _ in range(40)]
                for text in [" ".join(words), *edits(rng, words, 12, 4), *edits(rng, words, 4, 1), " ".join(words)]:
                    keys.append(len(keys))
                    index.add(keys[-1], text)
            for pair in rng.sample(list(index.pairs()), dismissed):
                index.dismiss(pair.key_a, pair.key_b)
            rng.shuffle(keys)
            while len(keys) > 5:
                removed = [keys.pop() for _ in range(rng.randrange(1, 4))]
                index.delete_many(removed)
                assert clusters_of(index) == components((pair.key_a, pair.key_b) for pair in index.pairs())
            assert index.check().problems == ()


@each_scheme
@pytest.mark.usefixtures("joined_at_once")
def test_what_expiry_leaves_of_clusters_is_what_matches(name: str) -> None:
    """While expired documents wait to be removed, the visible ones are listed in the clusters that they are without them."""
    scheme, more = SCHEMES[name]
    rng = random.Random(7)
    words = [f"w{rng.randrange(10**6)}" for _ in range(40)]
    with Index(":memory:", scheme, **more) as index:
        index.add("text", " ".join(words))
        for number, text in enumerate([*edits(rng, words, 20, 4), *edits(rng, words, 5, 1)]):
            index.add(number, text)
        index.connection.execute("UPDATE neardup_document SET expires_at = 1 WHERE key IN ('text', 21, 22)")
        assert clusters_of(index) == components((pair.key_a, pair.key_b) for pair in index.pairs())


def star(scheme: Any, count: int) -> Index:
    """An index of a text and of copies that match it and not each other."""
    rng = random.Random(3)
    words = [f"w{rng.randrange(10**6)}" for _ in range(100)]
    index = Index(":memory:", scheme)
    index.add("text", " ".join(words))
    index.add_many(enumerate(edits(rng, words, count, 4)))
    return index


@pytest.mark.parametrize("name", ["signatures", "packed", "sketches", "estimates"])
def test_removing_the_middle_of_a_star_does_not_cost_its_square(name: str) -> None:
    """2.5 times the copies around a removed text take SQLite so many times the steps, also in an index with dismissed pairs."""
    scheme = SCHEMES[name][0].changed(threshold=0.8)
    counts: list[list[int]] = []
    for count in (100, 250):
        with star(scheme, count) as index:
            counts.append([])
            for _ in range(2):
                with suppress(ZeroDivisionError), index.transaction():
                    counts[-1].append(steps(index, lambda index=index: index.delete("text")))
                    raise ZeroDivisionError
                index.dismiss("text", 3)
    assert all(many < 3.5 * few for few, many in zip(*counts, strict=True)), counts


@pytest.mark.parametrize("scheme", [MinHash(), SimHash(), BottomK()], ids=["minhash", "simhash", "bottomk"])
def test_replacing_equal_copies_does_not_cost_their_square(scheme: Any) -> None:
    """Four times the equal copies, replaced in another order, take SQLite four times the steps, and stay one cluster."""
    counts = []
    for count in (100, 400):
        with Index(":memory:", scheme) as index:
            records = [(number, "this page does not exist on our server please try again") for number in range(count)]
            index.add_many(records)
            random.Random(1).shuffle(records)
            counts.append(steps(index, lambda index=index, records=records: index.add_many(records, if_exists="replace")))
            assert len(index.clusters()[0].keys) == count and index.check().problems == ()
    assert counts[1] < 7 * counts[0]


def test_joining_two_clusters_costs_the_smaller_one() -> None:
    """Joining a small older cluster with a younger one takes about the same steps if that is four times as large."""
    counts = []
    for count in (2000, 8000):
        with Index(":memory:", MinHash(threshold=0.3, recall=0.9999)) as index:
            index.add_many((f"small {number}", "one two three four five six seven eight nine ten") for number in range(1200))
            index.add_many((number, "alpha beta gamma delta epsilon zeta eta theta iota kappa") for number in range(count))
            both = "one two three four five six seven eight nine ten alpha beta gamma delta epsilon zeta eta theta iota kappa"
            counts.append(steps(index, lambda index=index, both=both: index.add("both", both)))
            assert [len(one.keys) for one in index.clusters()] == [count + 1201]
    assert counts[1] < 2 * counts[0]
