"""What an operation costs where a document meets many: steps of SQLite, and lines of Python, at n and 4 n documents."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from load import lines, steps

from neardup_db import BinaryCode, Index, MinHash, limits

LINEAR = 4**1.2
"""How much more four times the documents may cost: an exponent of 1.2."""


LETTER = "dear customer your order has been shipped today and will arrive within three days thank you for shopping with us"


def near_copies(count: int) -> Index:
    index = Index(":memory:", MinHash())
    index.add_many((number, f"{LETTER} {number}") for number in range(count))
    assert len(index.clusters()[0].keys) == count
    return index


def copies(count: int) -> Index:
    index = Index(":memory:", MinHash())
    index.add_many((number, LETTER) for number in range(count))
    return index


def star(count: int, copies: int = 0) -> Index:
    """Edits that match the text 0 and hardly ever each other; and copies of it."""
    draw = random.Random(3)
    words = [f"w{draw.randrange(10**6)}" for _ in range(200)]
    index = Index(":memory:", MinHash(threshold=0.8, exact=True))
    index.add(0, " ".join(words))
    index.add_many((f"copy {number}", " ".join(words)) for number in range(copies))
    for number in range(1, count):
        wrong = {3 * place + 1 for place in draw.sample(range(66), 6)}
        index.add(number, " ".join(f"x{number}" if place in wrong else word for place, word in enumerate(words)))
    return index


def unmatched(count: int) -> Index:
    """Texts that meet in buckets and do not match."""
    index = Index(":memory:", MinHash(threshold=0.9))
    index.add_many((number, f"{LETTER} {' '.join(f'{number}w{place}' for place in range(4))}") for number in range(count))
    assert not index.clusters()
    return index


OPERATIONS: dict[str, Callable[[Index], object]] = {
    "pairs": lambda index: sum(1 for _ in index.pairs()),
    "query": lambda index: index.query(f"{LETTER} new", limit=10),
    "add": lambda index: index.add("new", f"{LETTER} new"),
    "delete": lambda index: index.delete(0),
}


@pytest.mark.parametrize("make", [copies, near_copies, star, unmatched])
def test_no_operation_grows_with_the_square(make: Callable[[int], Index]) -> None:
    """In a hot bucket, or among equal documents, an operation grows with their number at most; pairs() grows with the pairs."""
    costs: dict[str, list[tuple[int, int]]] = {operation: [] for operation in OPERATIONS}
    for count in 50, 200:
        with make(count) as index:
            for operation, run in OPERATIONS.items():
                made: list[int] = []
                counted = lines(lambda: made.append(steps(index, partial(run, index))))  # noqa: B023
                costs[operation].append((*made, counted))
    for operation, both in costs.items():
        growth = LINEAR * (4 if operation == "pairs" and make in (copies, near_copies) else 1)
        assert all(many < growth * few + 20 for few, many in zip(*both, strict=True)), (operation, both)


def test_check_of_near_copies() -> None:
    """check() compares enough pairs to connect a cluster of near-copies, not all of them."""
    costs = []
    for count in 200, 800:
        with near_copies(count) as index:
            costs.append((steps(index, index.check), lines(lambda: index.check())))
    assert costs[1][0] < LINEAR * costs[0][0] and costs[1][1] < LINEAR * costs[0][1]


def test_check_of_copies_after_a_dismissal() -> None:
    """check() reads the copies of a fingerprint once, not once for each match of it."""
    costs = []
    for count in 50, 200:
        with star(count, copies=count) as index:
            index.add("x", LETTER)
            index.add("y", f"{LETTER} y")
            assert index.dismiss("x", "y")
            costs.append(lines(index.check))
    assert costs[1] < LINEAR * costs[0]


@pytest.mark.parametrize("ask", ["pairs", "explain_match"])
def test_films_of_many_frames(ask: str) -> None:
    """Two keys of many codes are compared in a time that grows with their number, not with its square."""
    draw = random.Random(1)
    costs = []
    for count in 100, 400:
        film = [draw.getrandbits(64) for _ in range(count)]
        with Index(":memory:", BinaryCode(bits=64, max_distance=3)) as index:
            index.add_codes(["a"] * count, film, part=range(count))
            index.add_codes(["b"] * count, [code ^ number % 2 for number, code in enumerate(film, 1)], part=range(count))
            run = {"pairs": lambda: list(index.pairs()), "explain_match": lambda: index.explain_match("a", "b")}[ask]
            costs.append(lines(run))
    assert costs[1] < LINEAR * costs[0]


@pytest.mark.parametrize("row", [{"key": "{}", "metadata": {"page": "x" * 100}}, {"key": "{}" + "x" * 100}], ids=["data", "keys"])
def test_keys_and_metadata_fill_a_batch(monkeypatch: pytest.MonkeyPatch, row: dict[str, Any]) -> None:
    """A load holds no more metadata and keys than text: a batch that is full of either is written."""
    monkeypatch.setattr(limits, "BATCH_SIZE", 2000)
    taken: list[int] = []
    records = ({**row, "key": row["key"].format(number), "text": f"story {number}"} for number in range(100))
    with Index(":memory:", MinHash()) as index:
        index.add_many(records, progress=taken.append)
    assert len(taken) >= 5


def chain(count: int) -> Index:
    """Texts each of which matches the one before and the one behind, and a copy in the middle of 30 others."""
    draw = random.Random(2)
    words = [f"w{draw.randrange(10**6)}" for _ in range(40 + 4 * count)]
    index = Index(":memory:", MinHash(threshold=0.6, exact=True))
    index.add("middle", " ".join(words[:40]))
    for number in range(40):
        edited = words[:40]
        for place in draw.sample(range(12), 3):
            edited[3 * place + 2] = f"x{number}"
        index.add(f"near {number}", " ".join(edited))
    index.add_many((number, " ".join(words[4 * number : 4 * number + 40])) for number in range(1, count))
    return index


def test_a_removal_in_a_long_chain() -> None:
    """To remove a document reads those that may match what it leaves loose, not all of its cluster."""
    costs = []
    for count in 500, 2000:
        with chain(count) as index:
            assert max(len(cluster.keys) for cluster in index.clusters()) > count
            costs.append(steps(index, partial(index.delete, "middle")))
    assert costs[1] < 1.2 * costs[0]


def test_near_codes_are_connected_by_few_pairs() -> None:
    """Codes that are all near each other are connected by some pairs of each, however many tables they meet in."""
    draw = random.Random(3)
    codes = [sum(1 << place for place in draw.sample(range(256), 8)) for _ in range(500)]
    with Index(":memory:", BinaryCode()) as index:
        index.add_codes(range(500), codes)
        assert len(index.clusters()[0].keys) == 500
        listed = index.connection.execute("SELECT count(*) FROM neardup_join('neardup', 1, 500, 0, -1)").fetchone()
    assert listed[0] < 20 * 500
