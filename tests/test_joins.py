"""pairs(), also of two indexes, against brute force."""

from __future__ import annotations

import random
import struct
import tracemalloc
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import apsw
import pytest
from buckets import rows
from support import CASES, PAST, Case, Model

from neardup_db import BinaryCode, BottomK, CorruptIndexError, Index, MinHash, ParameterError, SimHash, TextRules, limits
from neardup_db.store.query import joins

WORDS = "oak elm ash fir yew box bay may ivy rue".split()  # noqa: SIM905


def contents(case: Case, count: int, seed: int) -> list[Any]:
    """Contents of which many are near each other."""
    chance = random.Random(seed)
    if not case.codes:
        return [" ".join(chance.choices(WORDS[:6], k=chance.randrange(7))) for _ in range(count)]
    size = case.scheme.bits // 8
    made = []
    for _ in range(count):
        code = bytearray(random.Random(chance.randrange(3)).randbytes(size))
        for _ in range(chance.randrange(8)):
            bit = chance.randrange(8 * size)
            code[bit // 8] ^= 128 >> bit % 8
        made.append(bytes(code))
    return made


def fill(case: Case, path: Path, seed: int) -> tuple[Index, Model]:
    """An index with groups, equal copies and documents that have expired, and its model."""
    index = Index(path, case.scheme, text=case.rules, store_text=case.store_text, record_matches=False)
    model = Model(case)
    chance = random.Random(seed)
    with index.transaction():
        for number, content in enumerate(contents(case, 40, seed)):
            group = chance.choice([None, None, "g", "h" if seed == 1 else "i"])
            expires_at = PAST if number % 10 == 0 else None
            add = index.add_code if case.codes else index.add
            add(f"{seed}-{number}", content, group=group, expires_at=expires_at)
            if expires_at is None:
                model.put(f"{seed}-{number}", content, group)
    return index, model


@pytest.mark.parametrize("name", CASES)
def test_pairs_of_two_indexes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """pairs_with(other) gives what asking one index for every document of the other would, whatever the size of its pages."""
    case = CASES[name]
    a, mine = fill(case, tmp_path / "a.db", 1)
    b, theirs = fill(case, tmp_path / "b.db", 2)
    expected = {
        (key, other_key, *verdict)
        for other_key, other in theirs.entries.items()
        for key, *verdict in mine.matches(other.content, other.group)
    }
    assert expected
    with a, b:
        for first, most in ((1, 1), (7, 3), (1024, 1 << 20)):
            monkeypatch.setattr(limits, "RANGE_FIRST", first)
            monkeypatch.setattr(limits, "MEMBERS_MOST", most)
            monkeypatch.setattr(limits, "ASKED_BYTES", most)
            assert sorted(map(tuple, ((p.key_a, p.key_b, p.similarity, p.distance) for p in a.pairs_with(b)))) == sorted(expected)
        above = {one for one in expected if one[2] >= 0.95}
        assert {(p.key_a, p.key_b, p.similarity, p.distance) for p in a.pairs_with(b, 0.95)} == above


@pytest.mark.parametrize("name", CASES)
def test_filing_is_the_table(tmp_path: Path, name: str) -> None:
    """neardup_filing gives the keys of each fingerprint, with its group, in the order in which the table holds them."""
    index, _ = fill(CASES[name], tmp_path / "a.db", 1)
    with index:
        db = index.connection
        filed = db.execute("SELECT group_id, table_no, low, fingerprint_id FROM neardup_filing('neardup', 1, 1000)").fetchall()
        keys = db.execute(
            """SELECT f.group_id, k.table_no, k.low, f.id FROM neardup_fingerprint AS f
               CROSS JOIN neardup_keys('neardup', f.value, f.group_id) AS k"""
        ).fetchall()
        by_group = index.scheme.table != "code_bucket"
        assert filed == sorted(keys, key=lambda row: (row[2], row[0] if by_group else 0, row[3]))
        if index.scheme.table == "code_bucket":
            sql = "SELECT low, group_id, fingerprint_id, code, high FROM neardup_filing('neardup', 1, 1000)"
            entries = [(number >> 20 << 20, group, *entry) for number, group, held in rows(db) for entry in held]
            assert sorted(entries) == sorted(row[:4] for row in db.execute(sql))
            assert all(row[4] == row[0] + 2**20 - 1 for row in db.execute(sql))
        assert db.execute("SELECT count(*) FROM neardup_filing('neardup', 5, 4)").get == 0


@pytest.mark.parametrize("exact", [False, True])
def test_ids_far_from_each_other_are_joined(tmp_path: Path, exact: bool) -> None:
    """A join goes on to the next fingerprint that is filed, however far that is: pairs in one part and between two are found."""
    words = [f"word{i}" for i in range(60)]
    texts = [" ".join(words[i:] + words[:i]) for i in range(0, 60, 2)]  # each like all others
    with Index(tmp_path / "a.db", MinHash(threshold=0.5, exact=exact), record_matches=False) as index:
        for part, ids in ((texts[:10], 500_000), (texts[10:20], 1_100_000), (texts[20:], 1_100_000)):
            index.add_many(enumerate(part, len(index)))
            index.connection.execute("UPDATE sqlite_sequence SET seq = ? WHERE name = 'neardup_fingerprint'", (ids,))
        numbers = index.connection.execute("SELECT id FROM neardup_fingerprint").fetchall()
        assert {number // 400_000 for (number,) in numbers} == {0, 1, 2}
        assert [one.keys for one in index.clusters()] == [tuple(range(30))]
        assert {(p.key_a, p.key_b) for p in index.pairs()} == {(a, b) for b in range(30) for a in range(b)}


def test_indexes_that_cannot_be_compared(tmp_path: Path) -> None:
    """Another scheme, or other text rules, are a ParameterError that says what each index has."""
    with Index(":memory:", MinHash()) as a:
        for scheme, rules in ((BottomK(), None), (MinHash(seed=2), None), (MinHash(), TextRules(shingle=5))):
            with Index(":memory:", scheme, text=rules) as b, pytest.raises(ParameterError, match="rebuild"):
                a.pairs_with(b)


def test_pairs_of_an_index_that_is_read_only(tmp_path: Path) -> None:
    """Joining writes nothing into the file."""
    path = tmp_path / "a.db"
    with Index(path, MinHash()) as index:
        index.add("a", "one two three four")
    with Index(path, read_only=True) as a, Index(":memory:", MinHash()) as b:
        b.add("b", "one two three four")
        assert [(pair.key_a, pair.key_b) for pair in a.pairs_with(b)] == [("a", "b")]
        assert list(a.pairs_with(a))[0].key_b == "a"


def test_more_pairs_than_a_range_may_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """1,450 codes of which every two match: a join of all is refused, and the first of their 1,050,525 pairs come once each."""
    monkeypatch.setattr(limits, "PAIRS_WANTED", 5000)
    with Index(":memory:", BinaryCode(bits=64, max_distance=11), record_matches=False) as index:
        index.add_codes(range(1450), range(1450))
        with pytest.raises(apsw.TooBigError, match="ask for fewer"):
            index.connection.execute("SELECT count(*) FROM neardup_join('neardup', 1, 1450, 1, 0)").fetchall()
        first = [(one.key_a, one.key_b) for one in islice(index.pairs(), 2 * limits.PAIRS_WANTED)]
        assert len(set(first)) == len(first) == 2 * limits.PAIRS_WANTED and all(a < b for a, b in first)
        assert len(index.clusters()) == 1


def near(number: int) -> str:
    """A copy with ten words of its own."""
    return f"{COPY} {' '.join(f'own{number}x{i}' for i in range(10))}"


def traced(run: Callable[[], object]) -> tuple[object, float]:
    """What run() returns, and the most megabytes that were held meanwhile."""
    tracemalloc.start()
    try:
        return run(), tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()


COPY = " ".join(f"word{i}" for i in range(300))
SCHEMES = [SimHash(max_distance=20), MinHash(exact=True), BottomK()]
"""One for each kind of join: of codes, of bands, of sets."""


@pytest.mark.parametrize("scheme", SCHEMES)
def test_pairs_of_many_groups_take_no_memory(scheme: Any) -> None:
    """1,000 groups of one equal text each have no pair, and none is held on the way to that: 8 MB in arrays."""
    with Index(":memory:", scheme, record_matches=False) as index:
        index.add_many({"key": i, "text": COPY, "group": i} for i in range(1000))
        found, megabytes = traced(lambda: list(index.pairs()))
    assert found == [] and megabytes < 5


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_first_pairs_of_many_need_little_memory(scheme: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 400 near-copies, 79,800 pairs, some ten thousand are held at most: all would take 11 MB."""
    monkeypatch.setattr(limits, "PAIRS_WANTED", limits.PAIRS_WANTED // 5)
    with Index(":memory:", scheme, record_matches=False) as index:
        index.add_many((i, near(i)) for i in range(400))
        if not index.scheme.is_set:
            monkeypatch.setattr(limits, "RANGE_FIRST", 50)
        pairs = index.pairs()
        first, megabytes = traced(lambda: list(islice(pairs, 10)))
        assert len(first) == 10 and megabytes < 6
        rest, megabytes = traced(lambda: sum(1 for _ in islice(pairs, 5_000)))
        assert rest == 5_000 and megabytes < 6


def test_every_pair_of_many_sets_comes_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """120 near-copies in a group and 120 in another: 14,280 pairs, in pieces, each once and none of two groups."""
    monkeypatch.setattr(limits, "PAIRS_WANTED", limits.PAIRS_WANTED // 25)
    with Index(":memory:", BottomK(), record_matches=False) as index:
        index.add_many({"key": i, "text": near(i), "group": i % 2} for i in range(240))
        found = [(one.key_a, one.key_b) for one in index.pairs()]
        pieces = [len(one.matches) for one in joins.set_blocks(index._readers.own.joins.reading, None, lambda: 0)]
    assert len(found) == len(set(found)) == 2 * (120 * 119 // 2)
    assert all(a < b and (b - a) % 2 == 0 for a, b in found)
    assert len(pieces) > 7 and sum(pieces) > 13_500 and max(pieces) < limits.PAIRS_WANTED + 240


def test_pairs_with_another_index_leave_nothing_behind() -> None:
    """pairs_with(other), read to its end, given up or failed, leaves no table on either connection."""
    texts = [(i, f"{COPY} {i}") for i in range(40)]
    with Index(":memory:", MinHash()) as a, Index(":memory:", MinHash()) as b:
        for index in (a, b):
            index.add_many(texts)
        assert len(list(a.pairs_with(b))) == 1600
        next(iter(a.pairs_with(b)))
        a.connection.execute("UPDATE neardup_fingerprint SET value = x'00' WHERE id = 3")
        with pytest.raises(CorruptIndexError):
            list(a.pairs_with(b))
        for index in (a, b):
            assert index.connection.execute("SELECT name FROM temp.sqlite_schema").fetchall() == []


def test_fingerprints_asked_for_must_be_whole() -> None:
    """neardup_join refuses fingerprints of another index that are cut off, out of order or no fingerprints at all."""
    with Index(":memory:", MinHash()) as index:
        index.add("a", COPY)
        value = index.connection.execute("SELECT value FROM neardup_fingerprint").get
        sql = "SELECT fingerprint_id, other_id, similarity FROM neardup_join('neardup', 1, 9, 2, 0, ?)"

        def asked(number: int, size: int = len(value)) -> bytes:
            return struct.pack("<qqq", number, 0, size) + value

        good = asked(5) + asked(7)
        assert index.connection.execute(sql, (good,)).fetchall() == [(5, 1, 1.0), (7, 1, 1.0)]
        assert index.connection.execute(sql, (b"",)).fetchall() == []
        wrong = [good[:cut] for cut in (1, 23, 24, 25, len(good) // 2 - 1, len(good) - 1)]
        wrong += [asked(7) + asked(7), asked(0), asked(10), asked(5, 0), asked(5, -1), asked(5, 2**63 - 1), asked(5, 8)]
        for one in wrong:
            with pytest.raises(apsw.SQLError, match="neardup_join: "):
                index.connection.execute(sql, (one,)).fetchall()
        for one in (None, "text", 5):
            with pytest.raises(apsw.SQLError, match="asked must be a blob"):
                index.connection.execute(sql, (one,)).fetchall()
