"""What needs no session of Spark: the rows of components that stay, decided on batches of Arrow, and reasons of failures."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neardup_db import MinHash, NearDupError, TextRules
from neardup_db.schemes.base import values_of
from neardup_db.spark.executors import root_cause
from neardup_db.spark.tasks import decide, stars

SCHEME = MinHash(threshold=0.5, bands=40, rows=1, exact=True)
"""Texts of five words meet in a band nearly always if they match."""

WORDS = TextRules(shingle=1)
Row = tuple[str, int, int, frozenset[str]]


def batches(rows: list[Row], cuts: list[int]) -> Iterator[pa.RecordBatch]:
    """Rows of (label, size, key, words), in batches that end anywhere."""
    texts = [" ".join(sorted(words)) for *_, words in rows]
    values = values_of(SCHEME.native, texts, WORDS).split()
    types = {"label": pa.string(), "size": pa.int64(), "key": pa.int64(), "value": pa.binary()}
    columns = [*zip(*((label, size, key) for label, size, key, _ in rows), strict=True), values]
    whole = pa.RecordBatch.from_arrays([pa.array(c, t) for c, t in zip(columns, types.values(), strict=True)], names=list(types))
    places = [0, *sorted(cut % (len(rows) + 1) for cut in cuts), len(rows)]
    for start, end in zip(places, places[1:], strict=False):
        yield whole.slice(start, end - start)


def decided(rows: list[Row], cuts: list[int]) -> list[tuple[Any, ...]]:
    made = decide(SCHEME, batches(rows, cuts))
    return [tuple(row.values()) for batch in made for row in batch.to_pylist()]


def similarity(a: frozenset[str], b: frozenset[str]) -> float:
    return len(a & b) / len(a | b)


def by_hand(rows: list[Row]) -> list[tuple[Any, ...]]:
    """(key, duplicate_of, similarity): each row beside all that stay before it in its component."""
    answers: list[tuple[Any, ...]] = []
    kept: list[Row] = []
    for row in rows:
        label, _, key, words = row
        best = max((other for other in kept if other[0] == label), key=lambda o: similarity(words, o[3]), default=None)
        if best is not None and similarity(words, best[3]) >= 0.5:
            answers.append((key, best[2], similarity(words, best[3])))
        else:
            kept.append(row)
            answers.append((key, None, 1.0))
    return answers


CHAINS = st.lists(st.lists(st.integers(0, 12), min_size=1, max_size=9), min_size=1, max_size=8)


@settings(max_examples=60, deadline=None)
@given(chains=CHAINS, cuts=st.lists(st.integers(0, 80), max_size=12))
def test_components_are_decided_one_by_one(chains: list[list[int]], cuts: list[int]) -> None:
    """A row goes if it matches a row of its component that stays before it, wherever batches of rows end."""
    rows: list[Row] = []
    for number, starts in enumerate(chains):  # words of a window that moves: its neighbours match, those beyond do not
        for start in starts:
            rows.append((f"c{number}", len(starts), len(rows), frozenset(f"w{start + i}" for i in range(6))))
    assert decided(rows, cuts) == by_hand(rows)


def test_long_chains_in_random_order() -> None:
    """Of a thousand windows over a text some stay that match no other, and each that goes matches one of them."""
    rng = random.Random(4)
    starts = list(range(1000))
    rng.shuffle(starts)
    rows = [("chain", 1000, start, frozenset(f"w{start + i}" for i in range(8))) for start in starts]
    answers = decided(rows, [rng.randrange(1000) for _ in range(30)])
    kept = {key for key, of, _ in answers if of is None}
    assert answers == by_hand(rows)
    assert all(abs(key - of) < 3 for key, of, _ in answers if of is not None)
    assert all(abs(a - b) > 2 for a in kept for b in kept if a != b)


@pytest.mark.parametrize("size", [1, 3])
def test_a_component_in_pieces_is_an_error(size: int) -> None:
    """Where fewer or more rows of a component come than it has, no row of it is decided."""
    rows: list[Row] = [("a", size, 1, frozenset("xy")), ("a", size, 2, frozenset("xz")), ("b", 1, 3, frozenset("uv"))]
    with pytest.raises(NearDupError, match="was split"):
        decided(rows, [])


def test_edges_that_are_lost_are_an_error() -> None:
    """The task that connects few edges has all that were counted, or gives nothing."""
    edges = pa.record_batch({"larger": [2, 3, 3], "smaller": [1, 1, 2]})
    (made,) = stars(3, iter([edges]))
    assert made.to_pydict() == {"larger": [2, 3], "smaller": [1, 1]}
    with pytest.raises(NearDupError, match="differ by 1 from"):
        list(stars(4, iter([edges])))


def test_reasons_of_python_without_its_stack() -> None:
    """Of a report with a stack of calls the last error is told, to its end."""
    report = """
An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "/lib/pyspark/worker.py", line 1, in main
ValueError: of something before
pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker: 3.9, in driver: 3.11.
Please check the environment.
"""
    said = "pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker: 3.9, in driver: 3.11."
    assert root_cause(report) == f"{said} Please check the environment."
    assert root_cause("no stack\nat all") == "no stack at all"
