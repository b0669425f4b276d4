"""neardup_candidates, from which every query takes its candidates, beside the joins that say the same in SQL."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Any

import apsw
import pytest
from support import CASES, Case

from neardup_db import BinaryCode, BottomK, CorruptIndexError, Index, MinHash, Passages, SimHash, TextRules

KEYS = """SELECT DISTINCT b.fingerprint_id, NULL FROM neardup_probe('neardup', :value) AS p CROSS JOIN neardup_{table} AS b
          WHERE b.{column} = p.low AND b.group_id = :group AND (:crowd IS NULL OR b.crowd = :crowd)"""
CODES = """SELECT DISTINCT n.value ->> 0, n.value ->> 1 FROM neardup_probe('neardup', :value, NULL, :group) AS p
           CROSS JOIN neardup_code_bucket AS b CROSS JOIN json_each(neardup_near(b.entries, :value, :distance)) AS n
           WHERE b.id BETWEEN p.low AND p.high AND b.group_id = :group"""
STREAM = "SELECT fingerprint_id, distance FROM neardup_candidates('neardup', :value, :group, :crowd, :distance)"
COLUMNS = {"minhash_band": "bucket", "bottomk_prefix": "hash", "passage_hash": "hash"}
WORDS = TextRules.words(shingle=1)


def oracle(index: Index) -> str:
    """The join for the candidate table of the index."""
    tables = {name for (name,) in index.connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    found = [table for table in COLUMNS if f"neardup_{table}" in tables]
    return KEYS.format(table=found[0], column=COLUMNS[found[0]]) if found else CODES


def filled(case: Case, source: random.Random) -> Index:
    """An index of near-duplicates, in groups and without."""
    index = Index(":memory:", case.scheme, text=None if case.codes else case.rules, store_text=case.store_text)
    with index.transaction():
        for number in range(60):
            group = source.choice([None, None, "g", "h"])
            if case.codes:
                index.add_code(number, source.choice([0, 1]) << 40 | 1 << source.randrange(case.scheme.bits - 1), group=group)
            else:
                index.add(number, " ".join(source.choices("abcdefgh", k=6)), group=group)
    return index


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_candidates_are_those_of_the_join(case: Case) -> None:
    """Each once, of the group alone, for every scheme and plan and every distance."""
    with filled(case, random.Random(7)) as index:
        db, join = index.connection, oracle(index)
        values = [value for (value,) in db.execute("SELECT value FROM neardup_fingerprint")]
        for value in values[::2]:
            for group in (0, 1, 2, 9):
                for distance in (0, 3, 64):
                    asked = {"value": value, "group": group, "crowd": None, "distance": distance}
                    stream = db.execute(STREAM, asked).fetchall()
                    assert len(stream) == len(set(stream))
                    assert set(stream) == set(db.execute(join, asked))


@pytest.mark.parametrize(
    "scheme", [MinHash(threshold=0.5), BottomK(threshold=0.5), Passages(shortest=8)], ids=["bands", "prefix", "winnow"]
)
def test_candidates_of_one_crowd(scheme: Any) -> None:
    """Rows that another crowd has are left out; NULL leaves none out."""
    with Index(":memory:", scheme, text=WORDS) as index:
        for number in range(40):
            index.add(number, f"a b c d e f g h i j k l m n o p q r s t {number}")
        db, join = index.connection, oracle(index)
        (table,) = (name for name in COLUMNS if name in join)
        db.execute(f"UPDATE neardup_{table} SET crowd = fingerprint_id % 3")
        value = db.execute("SELECT value FROM neardup_fingerprint LIMIT 1").get
        counts = []
        for crowd in (None, 0, 1, 2, 5):
            asked = {"value": value, "group": 0, "crowd": crowd, "distance": None}
            stream = db.execute(STREAM, asked).fetchall()
            assert sorted(stream) == sorted(db.execute(join, asked))
            counts.append(len(stream))
        assert counts[0] == sum(counts[1:]) > counts[1] > counts[4] == 0


def test_two_streams_side_by_side() -> None:
    """Two of one statement, and one that is begun again for each row of another, do not disturb each other."""
    with Index(":memory:", MinHash(threshold=0.5), text=WORDS) as index:
        for number in range(12):
            index.add(number, f"a b c d e f g h i j {number}")
        sql = """SELECT f.id, a.fingerprint_id, b.fingerprint_id FROM neardup_fingerprint AS f
                 CROSS JOIN neardup_candidates('neardup', f.value, 0) AS a
                 CROSS JOIN neardup_candidates('neardup', f.value, 0, {crowd}) AS b"""
        for crowd in ("NULL", "0"):
            found = index.connection.execute(sql.format(crowd=crowd)).fetchall()
            each = dict.fromkeys(row[0] for row in found)
            for number in each:
                pairs = [row[1:] for row in found if row[0] == number]
                sides = {a for a, _ in pairs}
                assert sorted(pairs) == sorted((a, b) for a in sides for b in sides)


@pytest.mark.parametrize("meanwhile", ["texts", "codes", "none"])
def test_another_index_is_asked_before_a_stream_has_ended(meanwhile: str) -> None:
    """A stream goes on as it began, whichever index of the connection is asked between two of its rows."""
    connection = apsw.Connection(":memory:")
    codes = Index(connection, BinaryCode(64, 3), name="codes")
    texts = Index(connection, MinHash(threshold=0.5), name="texts", text=WORDS, attach=True)
    codes.add_codes(range(100), [1 << number % 64 for number in range(100)])
    texts.add_many((number, f"a b c d e f g h i j {number}") for number in range(20))
    stream = "SELECT fingerprint_id, distance FROM neardup_candidates(?, ?, 0, NULL, 3)"
    asked = {name: (name, connection.execute(f"SELECT value FROM {name}_fingerprint LIMIT 1").get) for name in ("codes", "texts")}
    for name, others in ((name, [*asked.values(), ("none", bytes(8))]) for name in asked):
        whole = connection.execute(stream, asked[name]).fetchall()
        cursor = connection.execute(stream, asked[name])
        rows = [next(cursor)]
        with suppress(apsw.SQLError):  # there is no index "none"
            connection.execute(stream, next(one for one in others if one[0] == meanwhile)).fetchall()
        assert [*rows, *cursor] == whole and len(whole) > 10
    both = "SELECT count(*) FROM neardup_candidates('texts', ?, 0) CROSS JOIN neardup_candidates('codes', ?, 0, NULL, 3)"
    assert connection.execute(both, (asked["texts"][1], asked["codes"][1])).get == 20 * 64
    connection.close()


def test_candidates_follow_a_rebuild() -> None:
    """What was prepared for the tables of one scheme is not used for those of another, nor of another index."""
    connection = apsw.Connection(":memory:")
    code, sql = bytes(8), "SELECT fingerprint_id, distance FROM neardup_candidates(?, ?, 0, NULL, 3)"
    codes = Index(connection, BinaryCode(64, 3))
    texts = Index(connection, SimHash(), name="other", text=WORDS, attach=True, store_text=True)
    codes.add_code("a", code)
    texts.add("b", "one two three")
    for distance in (0, None):
        for _ in range(2):
            number, value = connection.execute("SELECT id, value FROM other_fingerprint").get
            assert connection.execute(sql, ("neardup", code)).fetchall() == [(1, 0)]
            assert connection.execute(sql, ("other", value)).fetchall() == [(number, distance)]
        texts.rebuild(MinHash(threshold=0.5))
    connection.close()


@pytest.mark.parametrize("limit", [0, 1, 3, 100])
def test_a_query_that_ends_early(limit: int) -> None:
    """The first matches of all, with a limit and without; the connection goes on after each."""
    with Index(":memory:", BinaryCode(64, 3)) as index:
        index.add_codes(range(20), [1 << number % 3 for number in range(20)])
        everything = index.query_code(0)
        assert len(everything) == 20
        assert index.query_code(0, limit=limit) == everything[:limit]
        assert len(index.query_code(0, limit=limit, any=True)) == min(limit, 20)
        rows = "SELECT key FROM neardup_search('neardup', ?, NULL, ?)"
        assert [key for (key,) in index.connection.execute(rows, (bytes(8), limit))] == [m.key for m in everything[:limit]]


def test_damaged_entries_are_an_error() -> None:
    """A row of a bucket that is not as it was written makes the query fail, as CorruptIndexError in Python."""
    with Index(":memory:", BinaryCode(64, 3)) as index:
        index.add_code("a", 5)
        index.connection.execute("UPDATE neardup_code_bucket SET entries = x'00112233445566778899'")
        with pytest.raises(CorruptIndexError, match="no entries of codes of 8 bytes"):
            index.query_code(5)


def test_what_candidates_refuses() -> None:
    """Arguments of other types, and bytes that are no fingerprint; NULL has no candidates."""
    with Index(":memory:", BinaryCode(64, 3)) as index:
        db = index.connection
        sql = "SELECT * FROM neardup_candidates('neardup', ?, ?, NULL, ?)"
        assert db.execute(sql, (None, 0, 3)).fetchall() == []
        assert db.execute(sql, (bytes(8), None, 3)).fetchall() == []
        wrong = {
            ("a", 0, 3): "a fingerprint must be a blob",
            (bytes(7), 0, 3): "7 bytes that are no fingerprint",
            (bytes(8), "a", 3): "group_id must be an integer",
            (bytes(8), 0, 1.5): "max_distance must be an integer",
        }
        for arguments, said in wrong.items():
            with pytest.raises(apsw.SQLError, match=said):
                db.execute(sql, arguments).fetchall()
        with pytest.raises(apsw.SQLError, match="too few arguments"):
            db.execute("SELECT * FROM neardup_candidates('neardup', x'00')").fetchall()


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_candidates_are_looked_up_by_the_primary_key(case: Case) -> None:
    """No table of candidates is read from end to end."""
    with filled(case, random.Random(8)) as index:
        db, seen = index.connection, []
        value = db.execute("SELECT value FROM neardup_fingerprint LIMIT 1").get
        db.trace_v2(apsw.SQLITE_TRACE_STMT, lambda event: seen.append(event["sql"]))
        db.execute(STREAM, {"value": value, "group": 0, "crowd": None, "distance": 3}).fetchall()
        db.trace_v2(0)
        inner = [sql for sql in seen if any(table in sql for table in ("code_bucket", *COLUMNS))]
        assert inner
        for sql in dict.fromkeys(inner):
            steps = [row[3] for row in db.execute("EXPLAIN QUERY PLAN " + sql, (None,) * sql.count("?"))]
            assert [step for step in steps if "PRIMARY KEY" in step and step.startswith("SEARCH")]
            assert all(step.startswith(("SEARCH", "SCAN p VIRTUAL TABLE")) for step in steps)
