"""check() and repair of the rows of buckets: entries that are missing, foreign, changed or there twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw
import buckets
import pytest
from by_hand import damage

from neardup_db import BinaryCode, BitSampling, CorruptIndexError, Index, SimHash

LACKS = "fingerprints without all their rows in neardup_code_bucket"
EXCESS = "fingerprint ids of rows that no fingerprint has in neardup_code_bucket"
Rows = list[tuple[int, int, list[buckets.Entry]]]


def of(held: Rows, number: int) -> tuple[int, int, list[buckets.Entry]]:
    """The first row with an entry of a fingerprint."""
    return next(row for row in held if any(entry[0] == number for entry in row[2]))


def entry_lost(held: Rows) -> None:
    row = of(held, 2)
    row[2].remove(next(entry for entry in row[2] if entry[0] == 2))


def entry_doubled(held: Rows) -> None:
    row = of(held, 2)
    row[2].append(next(entry for entry in row[2] if entry[0] == 2))


def entry_doubled_in_a_part(held: Rows) -> None:
    number, group, entries = of(held, 2)
    held.append((number + 1, group, [entry for entry in entries if entry[0] == 2]))


def one_lost_and_one_doubled(held: Rows) -> None:
    entry_lost(held)
    row = of(held, 3)
    row[2].append(next(entry for entry in row[2] if entry[0] == 3))


def in_another_bucket(held: Rows) -> None:
    entry = next(entry for entry in of(held, 2)[2] if entry[0] == 2)
    other = of([row for row in held if all(one[0] != 2 for one in row[2])], 3)
    entry_lost(held)
    other[2].append(entry)


def another_code(held: Rows) -> None:
    row = of(held, 2)
    place = next(i for i, entry in enumerate(row[2]) if entry[0] == 2)
    row[2][place] = (2, bytes(b ^ 1 for b in row[2][place][1]))


def another_number(held: Rows) -> None:
    row = of(held, 2)
    place = next(i for i, entry in enumerate(row[2]) if entry[0] == 2)
    row[2][place] = (2**63 + 2, row[2][place][1])


def of_another_group(held: Rows) -> None:
    place = held.index(of(held, 2))
    held[place] = (held[place][0], 77, held[place][2])


def of_an_unknown_table(held: Rows) -> None:
    held.append((4000 << 50, 0, [(2, of(held, 2)[2][0][1])]))


def before_all_tables(held: Rows) -> None:
    held.append((-5, 0, [(2, of(held, 2)[2][0][1])]))


CHANGES = [
    (entry_lost, [LACKS]),
    (entry_doubled, [EXCESS]),
    (entry_doubled_in_a_part, [EXCESS]),
    (one_lost_and_one_doubled, [LACKS, EXCESS]),
    (in_another_bucket, [LACKS, EXCESS]),
    (another_code, [LACKS, EXCESS]),
    (another_number, [LACKS, EXCESS]),
    (of_another_group, [LACKS, EXCESS]),
    (of_an_unknown_table, [EXCESS]),
    (before_all_tables, [EXCESS]),
    (lambda held: held.clear(), [LACKS]),
]
SCHEMES = [SimHash(), BitSampling(bits=64, max_distance=4, chunks=8), BinaryCode(128, 10), BinaryCode(64, 10)]
EACH_WITH_TWO = [(SCHEMES[(number + more) % 4], *change) for number, change in enumerate(CHANGES) for more in (0, 1)]


@pytest.mark.parametrize(("scheme", "change", "problems"), EACH_WITH_TWO, ids=lambda one: getattr(one, "__name__", None))
def test_the_entries_of_buckets(tmp_path: Path, scheme: Any, change: Any, problems: list[str]) -> None:
    """Entries and rows that are missing, foreign, changed or there twice are found and mended."""
    path = tmp_path / "index.db"
    with Index(path, scheme, durability="normal") as index:
        if scheme.takes_text:
            index.add_many(enumerate(["one two three four", "five six seven eight", "nine ten eleven"]))
        else:
            index.add_codes(range(3), [1, 2, 1 << 60])
        assert index.check().ok
        fingerprints = index.stats()["fingerprints"]
        before = index.connection.execute("SELECT * FROM neardup_code_bucket").fetchall()
        held = list(buckets.rows(index.connection))
    change(held)
    connection = apsw.Connection(str(path))
    with connection:
        connection.execute("DELETE FROM neardup_code_bucket")
        packed = [(number, group, buckets.pack(entries)) for number, group, entries in held if entries]
        connection.executemany("INSERT INTO neardup_code_bucket VALUES (?, ?, ?)", packed)
    connection.close()
    with Index(path) as index:
        assert [problem.split(":")[0] for problem in index.check().problems] == problems
        assert index.check(repair=True).ok and index.stats()["fingerprints"] == fingerprints
        assert index.connection.execute("SELECT * FROM neardup_code_bucket").fetchall() == before


UNREADABLE = ["x''", "x'00'", "x'000000000009'", "substr(entries, 1, length(entries) - 1)"]
UNREADABLE += ["CAST(entries || x'00' AS BLOB)", "zeroblob(length(entries))"]
PLANS = [BinaryCode(64, 3), BinaryCode(64, 10), BinaryCode(64, 20)]  # blocks, chunks, scan
IN_TWO_PLANS = [(PLANS[(number + more) % 3], change) for number, change in enumerate(UNREADABLE) for more in (0, 1)]


@pytest.mark.parametrize(("scheme", "change"), IN_TWO_PLANS, ids=str)
def test_rows_of_buckets_that_hold_no_entries(tmp_path: Path, scheme: Any, change: str) -> None:
    """What cannot be read is a problem of check() and an error, with the remedy, of all that meets it; repair mends it."""
    path = tmp_path / "index.db"
    with Index(path, scheme, durability="normal") as index:
        index.add_codes(range(270), [n * 0x9E3779B97F4A7C15 % 2**64 for n in range(270)])
        before = index.connection.execute("SELECT * FROM neardup_code_bucket").fetchall()
        row = index.connection.execute("SELECT min(id) FROM neardup_code_bucket").get
    damage(path, f"UPDATE neardup_code_bucket SET entries = {change} WHERE id = {row}")
    with Index(path) as index:
        assert any("neardup_code_bucket" in problem for problem in index.check().problems)
        asking = [lambda: index.query_code(0), lambda: list(index.pairs())]
        for call in (*asking, lambda: index.add_code("new", 0), lambda: index.delete(0)):
            with pytest.raises(CorruptIndexError, match=r"run check\(repair=True\)"):
                call()
        assert index.check(repair=True).ok
        assert index.connection.execute("SELECT * FROM neardup_code_bucket").fetchall() == before
        assert [one.key for one in index.query_code(0)] == [0]


@pytest.mark.parametrize("scheme", [BinaryCode(64, 3), BinaryCode(64, 10)], ids=["blocks", "chunks"])
def test_a_damaged_code_leaves_its_buckets(tmp_path: Path, scheme: Any) -> None:
    """A document whose stored code is damaged can be deleted: its entries are looked for everywhere, and no other goes."""
    path = tmp_path / "index.db"
    codes = [n % 3 << 60 | n for n in range(40)]
    with Index(path, scheme, durability="normal") as index:
        index.add_codes(range(40), codes)
    damage(path, "UPDATE neardup_fingerprint SET value = zeroblob(8) WHERE id = 18")
    with Index(path) as index:
        assert index.delete(17) and index.check().ok
        with Index(":memory:", scheme) as other:
            other.add_codes([n for n in range(40) if n != 17], codes[:17] + codes[18:])
            held = [sorted(code for *_, one in buckets.rows(i.connection) for _, code in one) for i in (index, other)]
            assert held[0] == held[1]
