"""What the SQL functions ask of an index's settings, when they read them again, and what they leave open."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import apsw
import buckets
import pytest
import xxhash
from by_hand import TEXT_RULES, open_database, refused, sql_file

SETTINGS: dict[str, Any] = {
    "schema_version": 2, "algorithm_version": 1, "generation": 1, "created_at": 1, "scheme": "binarycode", "plan": "blocks",
    "bits": 16, "max_distance": 1, "blocks": 2,
}  # fmt: skip
TEXT_SETTINGS: dict[str, Any] = SETTINGS | {"scheme": "simhash", "plan": "scan", "bits": 64, "max_distance": 3} | TEXT_RULES
CODES = {"a": b"\x00\x00", "b": b"\x00\x01", "c": b"\xff\xff"}


def create(db: apsw.Connection, index: str = "x", settings: dict[str, Any] = SETTINGS) -> None:
    db.execute(sql_file("migrations", "0002_index", index))
    db.execute(sql_file("migrations", "0002_code_bucket", index))
    db.executemany(f"INSERT INTO {index}_setting VALUES (?, ?)", settings.items())
    for key, code in CODES.items():
        value_hash = struct.unpack("<q", struct.pack("<Q", xxhash.xxh3_64_intdigest(code)))[0]
        db.execute(f"INSERT INTO {index}_fingerprint (group_id, value, value_hash) VALUES (0, ?, ?)", (code, value_hash))
        db.execute(
            f"INSERT INTO {index}_document (key, group_id, fingerprint_id, added_at, last_seen, times_seen)"
            " VALUES (?, 0, last_insert_rowid(), 0, 0, 1)",
            (key,),
        )
    if settings["scheme"] == "binarycode":
        file_codes(db, index)


def file_codes(db: apsw.Connection, index: str) -> None:
    keys = sql_file("sql", "keys_code_bucket", index)
    db.execute(f"INSERT INTO {index}_code_bucket {keys}", {"first_id": 1, "last_id": 9, "filed": 1})


def change(db: apsw.Connection, name: str, value: Any) -> None:
    db.execute("UPDATE x_setting SET value = ? WHERE name = ?", (value, name))
    db.execute("UPDATE x_setting SET value = value + 1 WHERE name = 'generation'")


def found(db: apsw.Connection, code: str, index: str = "x") -> list[str]:
    return [key for (key,) in db.execute("SELECT key FROM neardup_search(?, ?)", (index, code))]


EVERY_READER = [
    "SELECT * FROM neardup_probe(?1, x'0000')",
    "SELECT * FROM neardup_keys(?1, x'0000')",
    "SELECT * FROM neardup_search(?1, '0000')",
    "SELECT neardup_similarity(?1, x'0000', x'0000')",
    "SELECT neardup_similarity(?1, 'a', 'b')",
    "SELECT * FROM neardup_filing(?1, 1, 9)",
    "SELECT * FROM neardup_buckets(?1, 1, 9, 1)",
    "SELECT * FROM neardup_join(?1, 1, 9, 1, 0)",
    "SELECT * FROM neardup_nearest(?1, x'0000', 0, 1)",
]


def test_no_index_of_that_name(db: apsw.Connection) -> None:
    """An unknown name and a name that no index can have are errors; the second never reaches SQL."""
    create(db)
    for name in ["none", "", "1x", "_x", "x y", "x'", 'x"', "x;--", "x" * 41, "\u00e9", "x\0"]:
        expected = 'no index named "none"' if name == "none" else "NUL" if "\0" in name else "is no name of an index"
        assert [expected in refused(db, sql, name) for sql in EVERY_READER] == [True] * len(EVERY_READER), name


def test_the_name_of_an_index_is_text(db: apsw.Connection) -> None:
    """Other types are an error."""
    create(db)
    for name in [None, 1, 1.5, b"x"]:
        assert ["must be text" in refused(db, sql, name) for sql in EVERY_READER] == [True] * len(EVERY_READER), name


@pytest.mark.parametrize("name", ["text.tokens", "text.filter", "text.hash"])
def test_rules_in_python_are_named(db: apsw.Connection, name: str) -> None:
    """SQL cannot call Python's functions: the error says which one, and where to ask instead."""
    create(db, settings=TEXT_SETTINGS)
    change(db, name, "callable:shop.rules:split")
    for sql in ("SELECT * FROM neardup_search('x', 'a b c')", "SELECT neardup_similarity('x', 'a b c', 'a b')"):
        message = refused(db, sql)
        assert name in message and "shop.rules:split" in message and "Python" in message


def test_damaged_fingerprints_are_refused(db: apsw.Connection) -> None:
    """A value of the wrong length is an error of probe and keys, and a damaged row of buckets one of the search that meets it."""
    create(db)
    for table in ("neardup_probe", "neardup_keys"):
        assert 'no fingerprint of index "x"' in refused(db, f"SELECT * FROM {table}('x', x'000000')")
        assert "blob" in refused(db, f"SELECT * FROM {table}('x', '00')")
    db.execute("UPDATE x_code_bucket SET entries = x'00'")
    assert "no entries of codes of 2 bytes" in refused(db, "SELECT * FROM neardup_search('x', '0000')")


def test_search_arguments_are_checked(db: apsw.Connection) -> None:
    """Types and ranges of threshold and max_results; index and text are required."""
    create(db)
    numbers = ["'x', '0000', '1'", "'x', '0000', 0.5", "'x', '0000', 1.5", "'x', '0000', -1"]
    for arguments in [*numbers, "'x', '0000', 1, 'a'", "'x', '0000', 1, -1", "'x'"]:
        assert "neardup_search" in refused(db, f"SELECT * FROM neardup_search({arguments})"), arguments


# ---- when settings are read again --------------------------------------------------------------------------------------------


def test_a_new_generation_is_seen_at_once(db: apsw.Connection) -> None:
    """Settings are kept between queries, and read again when the generation says so."""
    create(db)
    assert found(db, "0000") == ["a", "b"]
    db.execute("UPDATE x_setting SET value = 0 WHERE name = 'max_distance'")
    assert found(db, "0000") == ["a", "b"]
    db.execute("UPDATE x_setting SET value = 2 WHERE name = 'generation'")
    assert found(db, "0000") == ["a"]
    db.execute("BEGIN; UPDATE x_setting SET value = 3 WHERE name = 'generation'")
    db.execute("UPDATE x_setting SET value = 1 WHERE name = 'max_distance'")
    assert found(db, "0000") == ["a", "b"]
    db.execute("ROLLBACK")
    assert found(db, "0000") == ["a"]


def test_an_index_made_again_is_seen_at_once(db: apsw.Connection) -> None:
    """Dropped and created under the same name, with the same generation and time of creation."""
    create(db)
    assert found(db, "0000") == ["a", "b"]
    assert len(db.execute("SELECT * FROM neardup_keys('x', x'0000')").fetchall()) == 2
    drop(db)
    for sql in EVERY_READER:
        assert 'no index named "x"' in refused(db, sql, "x")
    create(db, settings=SETTINGS | {"max_distance": 2, "blocks": 3})
    assert len(db.execute("SELECT * FROM neardup_keys('x', x'0000')").fetchall()) == 3
    db.execute("UPDATE x_document SET fingerprint_id = 1")
    assert found(db, "0003") == ["a", "b", "c"]


def drop(db: apsw.Connection) -> None:
    for kind in ("view", "table"):
        for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = ? AND name GLOB 'x_*'", (kind,)).fetchall():
            db.execute(f"DROP {kind} {name}")


def test_another_connection_s_change_is_seen(tmp_path: Path) -> None:
    """A rebuild by another process changes the next answer."""
    first, second = open_database(str(tmp_path / "f.db")), open_database(str(tmp_path / "f.db"))
    create(first)
    assert found(first, "0000") == found(second, "0000") == ["a", "b"]
    change(first, "max_distance", 0)
    assert found(second, "0000") == ["a"]
    drop(first)
    assert 'no index named "x"' in refused(second, EVERY_READER[0], "x")
    first.close()
    second.close()


def disturbed(db: apsw.Connection, sql: str, act: Callable[[], bool | None]) -> Iterator[Any]:
    """The answers of a statement in which `act` is called at its first step, then at its second one, until it has no more."""
    for moment in count():
        steps = iter([*[bool] * moment, act])
        db.set_progress_handler(partial(lambda left: bool(next(left, bool)()), steps), 1)
        try:
            answer: Any = db.execute(sql).fetchall()
        except apsw.Error as error:
            answer = str(error)
        db.set_progress_handler(None)
        yield answer
        if next(steps, None) is not None:
            return


def test_settings_are_those_of_one_moment(tmp_path: Path) -> None:
    """Another process rebuilds the index, whichever setting is read just then: all settings are from before it, or from after."""
    reader, writer = open_database(str(tmp_path / "f.db")), open_database(str(tmp_path / "f.db"))
    writer.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF")
    create(writer)

    def rebuild(distance: int = 1) -> None:
        with writer:
            change(writer, "max_distance", distance)
            change(writer, "blocks", distance + 1)

    rebuild(2)
    for answer in disturbed(reader, "SELECT neardup_similarity('x', x'0000', x'0001')", rebuild):
        assert answer == [(1 - 1 / 16,)]
        rebuild(2)
    reader.close()
    writer.close()


def test_an_interrupt_at_any_step_ends_a_join(db: apsw.Connection) -> None:
    """Also where the settings are read, or how the index is to be read; the error says so."""
    create(db)
    create(db, "y")
    answers = []
    for answer in disturbed(db, "SELECT fingerprint_id FROM neardup_join('x', 1, 9, 1, 0)", lambda: True):
        answers.append(answer)
        assert db.execute("SELECT count(*) FROM neardup_join('y', 1, 9, 1, 0)").get == 1  # so the settings are read again
    assert answers[-1] == [(1,)] and set(map(str, answers[:-1])) == {"interrupted", "neardup_join: interrupted"}


def test_two_indexes_in_one_statement(db: apsw.Connection) -> None:
    """Each part of a query sees its own index's settings."""
    create(db)
    create(db, "y", SETTINGS | {"max_distance": 2, "blocks": 4})
    sql = "SELECT count(*) FROM (VALUES ('x'), ('y'), ('x')) AS i, neardup_keys(i.column1, x'0000') AS k GROUP BY i.column1"
    assert db.execute(sql).fetchall() == [(4,), (6,)]
    sql = "SELECT a.key, b.key FROM neardup_search('x', '0000') AS a, neardup_search('y', '0003') AS b"
    assert db.execute(sql).fetchall() == [("a", "b"), ("a", "a"), ("b", "b"), ("b", "a")]


def test_nothing_stays_open(tmp_path: Path) -> None:
    """Between queries, and after errors, tables can be dropped, the file vacuumed and the connection closed."""
    db = open_database(str(tmp_path / "f.db"))
    create(db)
    create(db, "y", TEXT_SETTINGS)
    for index in ("x", "x", "y", "y", "z", "x", "x"):
        for sql in EVERY_READER:
            try:
                db.execute(sql, (index,)).fetchall()
            except apsw.SQLError:
                continue
    assert db.get_autocommit()
    db.execute("VACUUM")
    with db:
        drop(db)
    db.execute("PRAGMA journal_mode = DELETE")
    db.close()


def test_a_search_half_read_does_not_block(db: apsw.Connection) -> None:
    """All rows were collected before the first came, so documents may be deleted while they are read."""
    create(db)
    keys = []
    for (key,) in db.execute("SELECT key FROM neardup_search('x', '0000')"):
        db.execute("DELETE FROM x_document WHERE key = ?", (key,))
        keys.append(key)
    assert keys == ["a", "b"]
    assert found(db, "0000") == []


def test_searches_within_searches(db: apsw.Connection) -> None:
    """A search for each row of a search, of the same index and of another, by one kept query each."""
    create(db)
    create(db, "y", SETTINGS | {"max_distance": 2, "blocks": 4})
    inner = "SELECT a.key, b.key FROM neardup_search('x', '0000') AS a, neardup_search('x', '000' || (a.key = 'b')) AS b"
    assert db.execute(inner).fetchall() == [("a", "a"), ("a", "b"), ("b", "b"), ("b", "a")]
    sql = "SELECT i.column1, s.key FROM (VALUES ('x'), ('y'), ('x')) AS i, neardup_search(i.column1, '0003') AS s"
    assert db.execute(sql).fetchall() == [("x", "b"), ("y", "b"), ("y", "a"), ("x", "b")]


# ---- groups --------------------------------------------------------------------------------------------------------------------


def test_a_search_stays_in_its_group(db: apsw.Connection) -> None:
    """The sixth argument names the group, whatever its type; NULL is none, an unknown one has no documents."""
    create(db)
    db.execute("INSERT INTO x_group VALUES (1, 'g'), (2, x'67'), (3, 7)")
    value_hash = struct.unpack("<q", struct.pack("<Q", xxhash.xxh3_64_intdigest(b"\0\0")))[0]
    for number, key in enumerate("abc", 1):
        change = "UPDATE x_fingerprint SET group_id = ?, value = x'0000', value_hash = ? WHERE id = ?"
        db.execute(change, (number, value_hash, number))
        db.execute("UPDATE x_document SET group_id = ? WHERE key = ?", (number, key))
    db.execute("DELETE FROM x_code_bucket")
    file_codes(db, "x")
    sql = "SELECT key FROM neardup_search('x', '0000', NULL, NULL, NULL, ?)"
    answers = {group: [key for (key,) in db.execute(sql, (group,))] for group in ("g", b"g", 7, None, "7", "none", "")}
    assert answers == {"g": ["a"], b"g": ["b"], 7: ["c"], None: [], "7": [], "none": [], "": []}
    assert "a group is" in refused(db, sql, 1.5)
    assert "hexadecimal" in refused(db, "SELECT * FROM neardup_search('x', 'zz', NULL, NULL, NULL, 'none')")


# ---- calls ------------------------------------------------------------------------------------------------------------------


def test_calls_joined_by_or(db: apsw.Connection) -> None:
    """Every row of each call, and what two calls have in common once."""
    first, second = (buckets.pack([(number, bytes(8)) for number in numbers]) for numbers in ((1, 2), (3, 4, 5)))
    calls = "(entries = ?1 AND code_bytes = ?3) OR (entries = ?2 AND code_bytes = ?4)"
    sql = f"SELECT fingerprint_id FROM neardup_entries WHERE {calls}"
    assert "MULTI-INDEX OR" in str(db.execute("EXPLAIN QUERY PLAN " + sql, (first, second, 8, 8)).fetchall())
    assert sorted(db.execute(sql, (first, second, 8, 8)).fetchall()) == [(1,), (2,), (3,), (4,), (5,)]
    assert sorted(db.execute(sql, (first, first, 8, 8)).fetchall()) == [(1,), (2,)]
    assert sorted(db.execute(sql, (first, None, 8, 8)).fetchall()) == [(1,), (2,)]
