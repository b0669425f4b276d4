"""Statements of everyday work are planned once."""

from __future__ import annotations

import apsw
import pytest

from neardup_db import BinaryCode, BitSampling, BottomK, Index, MinHash, SimHash
from neardup_db.schemes.base import Scheme

SCHEMES = [MinHash(), MinHash(exact=True), BottomK(), BottomK(measure="estimate"), SimHash(), BitSampling()]
TELLING = [MinHash(exact=True), BottomK(containment=True)]
"""Schemes that tell containment."""


def planned(connection: apsw.Connection) -> list[int]:
    """A list that grows by one with every name that SQLite looks at while it plans a statement."""
    seen: list[int] = []
    connection.authorizer = lambda *details: seen.append(1) or apsw.SQLITE_OK
    return seen


@pytest.mark.parametrize(
    ("scheme", "measure"),
    [*((scheme, None) for scheme in SCHEMES), *((scheme, "containment") for scheme in TELLING)],
    ids=str,
)
def test_queries_are_planned_once(scheme: Scheme, measure: str | None) -> None:
    """On a caller's connection with no setting of ours, queries with other texts, bounds, groups and limits reuse one plan."""
    connection = apsw.Connection(":memory:")
    with Index(connection, scheme) as index:
        for number in range(20):
            index.add(number, f"a story that is told again and again number {number % 3}", group="g" if number % 2 else None)
        seen = planned(connection)
        counts = []
        for number in range(3):
            text = f"a story that is told again and again number {number}"
            index.query(text, measure=measure, threshold=1 - number / 100, limit=number + 1)
            index.query(text, measure=measure, limit=number + 1, any=True)
            index.query(text, measure=measure, group="g")
            index.matches(number, limit=number + 2)
            counts.append(len(seen))
        assert counts[0] > 0
        assert counts[1:] == counts[:1] * 2


@pytest.mark.parametrize("scheme", SCHEMES, ids=repr)
def test_adds_are_planned_once(scheme: Scheme) -> None:
    """On a caller's connection adding a document reuses the plans of the ones before."""
    connection = apsw.Connection(":memory:")
    with Index(connection, scheme) as index:
        seen = planned(connection)
        counts = []
        for number in range(4):
            index.add(2 * number, f"a story that is told again and again number {number}")
            index.add(2 * number + 1, f"a story that is told again and again number {number}", limit=number + 1)
            counts.append(len(seen))
        assert counts[0] > 0
        assert counts[2:] == counts[1:2] * 2


def test_codes_are_planned_once() -> None:
    """So do queries by code."""
    connection = apsw.Connection(":memory:")
    with Index(connection, BinaryCode(bits=64, max_distance=3)) as index:
        index.add_codes(range(50), [number * 0x0101010101010101 % 2**64 for number in range(50)])
        seen = planned(connection)
        counts = []
        for number in range(3):
            index.query_code(number, limit=number + 1)
            counts.append(len(seen))
        assert counts[0] > 0
        assert counts[1:] == counts[:1] * 2
