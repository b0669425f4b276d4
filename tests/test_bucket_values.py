"""Values that meet in buckets, connected in memory, against brute force and union-find."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neardup_db import CorruptIndexError, MinHash, ParameterError, TextRules, comparing
from neardup_db.comparing import connections
from neardup_db.native import Values
from neardup_db.schemes.base import values_of

WORDS = TextRules(shingle=1)
SIGNATURES = MinHash(num_perm=12, threshold=0.75, bands=6, rows=2)
PACKED = MinHash(num_perm=12, threshold=0.5, bands=6, rows=2, exact=True)


def parts_of(count: int, edges: Any) -> list[int]:
    """The smallest number of each number's component."""
    label = list(range(count))
    changed = True
    while changed:
        changed = False
        for a, b in edges:
            low = min(label[a], label[b])
            changed |= label[a] != low or label[b] != low
            label[a] = label[b] = low
    return label


@st.composite
def meetings(draw: st.DrawFn) -> tuple[list[str], list[tuple[int, int]], int, list[int]]:
    """(texts, rows of buckets and numbers, first, known)."""
    texts = draw(st.lists(st.lists(st.sampled_from("abcdefg"), min_size=1, max_size=6).map(" ".join), min_size=1, max_size=60))
    number = st.integers(0, len(texts) - 1)
    rows = draw(st.lists(st.tuples(st.integers(-2, 2), number), max_size=60))
    if draw(st.booleans()):  # a bucket that many share
        rows += [(7, i) for i in range(len(texts))]
    known = [draw(st.one_of(st.just(i), st.integers(0, i))) if draw(st.booleans()) else i for i in range(len(texts))]
    return texts, sorted(rows), draw(st.integers(0, len(texts))), known


def connected(scheme: MinHash, values: Values, rows: list[tuple[int, int]], first: int, known: list[int]) -> Any:
    buckets, items = (np.array([row[i] for row in rows], np.int64) for i in (0, 1))
    return connections(scheme.native, values, first, buckets, items, np.array(known, np.int64))


@pytest.mark.parametrize("scheme", [SIGNATURES, PACKED], ids=["signatures", "packed"])
@settings(max_examples=30)
@given(drawn=meetings())
def test_what_is_connected_equals_brute_force(scheme: MinHash, drawn: tuple[Any, Any, int, list[int]]) -> None:
    """The pairs connect what all matching pairs of a bucket connect, are such pairs, and none of them is needless."""
    texts, rows, first, known = drawn
    values = values_of(scheme.native, texts, WORDS)
    split = values.split()
    met = {(a, b) for x, a in rows for y, b in rows if x == y and a < b and b >= first}
    matching = {
        (a, b): similarity
        for a, b in met
        if (similarity := comparing.similarity(scheme.native, split[a] or b"", split[b] or b"")[0]) >= scheme.threshold
    }
    pairs, similarities = connected(scheme, values, rows, first, known)
    found = [tuple(pair) for pair in pairs.tolist()]
    assert all(matching[pair] == similarity for pair, similarity in zip(found, similarities.tolist(), strict=True))
    given_pairs = list(enumerate(known))
    assert parts_of(len(texts), [*given_pairs, *found]) == parts_of(len(texts), [*given_pairs, *matching])
    before, after = (len(set(parts_of(len(texts), edges))) for edges in (given_pairs, [*given_pairs, *found]))
    assert len(found) == before - after


def test_a_bucket_of_equal_values_is_connected_in_one_line() -> None:
    """Thousands of equal values in one bucket give a pair less than they are, in time that a square of them would not take."""
    values = values_of(PACKED.native, ["a b c d"] * 20_000, WORDS)
    rows = [(0, i) for i in range(20_000)]
    pairs, _ = connected(PACKED, values, rows, 0, list(range(20_000)))
    assert len(pairs) == 19_999


def test_wrong_tables_and_damaged_values_are_errors() -> None:
    """Numbers out of range, buckets that do not ascend and bytes that are no value raise; nothing is read outside its bounds."""
    values = values_of(PACKED.native, ["a b c d", "a b c d"], WORDS)
    for rows, known in (([(0, 2)], [0, 1]), ([(1, 0), (0, 1)], [0, 1]), ([(0, 0)], [0, 2]), ([(0, -1)], [0, 1])):
        with pytest.raises(ParameterError):
            connected(PACKED, values, rows, 0, known)
    longer, empty = values.ends + np.array([0, 8], np.uint64), values.ends - values.ends[0]
    for data, ends in ((values.data[:-1] + b"\xff" * 9, longer), (values.data, empty)):
        with pytest.raises(CorruptIndexError):
            connected(PACKED, Values(data, ends, values.tokens), [(0, 0), (0, 1)], 0, [0, 1])
    assert len(connected(SIGNATURES, Values(b"", np.zeros(0, np.uint64), np.zeros(0, np.uint64)), [], 0, [])[0]) == 0


def test_all_rows_of_pages_meet() -> None:
    """Every pair of similar values in every bucket is connected, whichever order of numbers they have."""
    texts = [f"a b c d x{i // 2}" for i in range(40)]
    values = values_of(PACKED.native, texts, WORDS)
    for order in itertools.islice(itertools.permutations(range(40)), 3):
        pairs, _ = connected(PACKED, values, sorted((0, i) for i in order), 0, list(range(40)))
        assert len(pairs) == 39
