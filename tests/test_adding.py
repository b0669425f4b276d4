"""Everything that puts documents into an index, by literal examples."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases import one_test
from support import LATER, PAST, SETS, SOON, WORDS, keys, split

from neardup_db import (
    AddReport,
    BinaryCode,
    BitSampling,
    BottomK,
    CorruptIndexError,
    DiskFullError,
    DuplicateKeyError,
    Index,
    KeyNotFoundError,
    Match,
    MinHash,
    ParameterError,
    SimHash,
    TextRules,
)

# ---- add ---------------------------------------------------------------------------------------------------------------


def test_add_returns_at_most_ten_unless_told(codes: Index) -> None:
    """limit is 10, may be 0, and cuts the answer, not what is recorded."""
    for number in range(15):
        codes.add_code(number, 0)
    assert keys(codes.add_code("x", 0)) == list(range(10))
    assert keys(codes.add_code("y", 0, limit=3)) == [0, 1, 2]
    assert codes.add_code("z", 0, limit=0) == []
    assert len(codes.add_code("w", 0, limit=100)) == 18
    assert [len(one) for one in codes.clusters()] == [19]


def test_few_edges_are_recorded(codes: Index) -> None:
    """Of many matches in one cluster four are recorded, and one in each other cluster that is touched."""
    for number in range(10):
        assert len(codes.add_code(number, 1 << number)) == number
    assert codes.stats()["recorded_matches"] == 0 + 1 + 2 + 3 + 6 * 4
    many = BinaryCode(64, 3)
    with Index(":memory:", many) as batch:
        batch.add_codes(range(10), [1 << number for number in range(10)])
        assert batch.stats()["recorded_matches"] == 30
    with Index(":memory:", many) as apart:
        apart.add_codes(range(6), [0b111 << 6 * number for number in range(6)])
        assert apart.stats()["recorded_matches"] == 0
        assert len(apart.add_code("between", 0)) == 6
        assert apart.stats()["recorded_matches"] == 6 and [len(one) for one in apart.clusters()] == [7]


def test_keys_are_text_bytes_or_numbers(codes: Index) -> None:
    """1, '1' and b'1' are three keys; numbers have 64 bits; numpy's count; any text will do."""
    names: list[Any] = [1, "1", b"1", -(2**63), 2**63 - 1, "", b"", "a\0b", "ü", "u\u0308", np.int64(7)]
    for name in names:
        codes.add_code(name, 0)
    assert list(codes) == names and [type(one) for one in codes] == [type(one) for one in [*names[:-1], 7]]
    for name in names:
        assert name in codes and codes.get(name).key == name


@one_test(
    ("expires_at", "seconds"),
    [
        (datetime(2100, 1, 1, tzinfo=timezone.utc), 4102444800.0),
        (datetime(2100, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))), 4102444800.0),
        (4102444800, 4102444800.0),
        (4102444800.25, 4102444800.25),
        (None, None),
    ],
)
def test_an_expiry_is_an_aware_datetime_or_seconds(texts: Index, expires_at: Any, seconds: float | None) -> None:
    """All forms of one moment are the same."""
    texts.add("a", "x", expires_at=expires_at)
    assert texts.get("a").expires_at == seconds
    texts.update("a", expires_at=None)
    texts.update("a", expires_at=expires_at)
    assert texts.get("a").expires_at == seconds
    texts.delete("a")


def test_an_expired_document_is_not_there(codes: Index) -> None:
    """From expires_at on no call finds its key, which is free."""
    codes.add_codes(["old", "new"], [0, 0], expires_at=PAST)
    for call in (lambda: codes.get("old"), lambda: codes.matches("old"), lambda: codes.update("old", metadata=1)):
        with pytest.raises(KeyNotFoundError):
            call()
    assert codes.get_many(["old"]) == [None] and not codes.delete("old")
    codes.add_code("new", 1, expires_at=LATER)
    assert codes.get("new").code == (1).to_bytes(8, "big")


def test_a_batch_counts_what_a_crowd_matches_by_the_documents_before_it() -> None:
    """In a cluster of hundreds, add_many counts a document as matched where any earlier one matches, also if the fingerprint that
    connects it is one that only expired documents had, and a later record of the batch has again."""
    near = "a b c d e f g h i j k l m n o p q r s t"
    with Index(":memory:", SETS, text=WORDS) as index:
        index.add_many((i, f"{near} u{i}") for i in range(300))
        index.update(299, expires_at=PAST)
        assert index.add_many([("new", f"{near} v"), ("again", f"{near} u299")]) == AddReport(added=2, matched=2)
        for key in [*range(299), "new", "again"]:
            index.update(key, expires_at=PAST)
        assert index.add_many([("first", f"{near} v"), ("second", f"{near} u7")]) == AddReport(added=2, matched=1)
        assert index.check().ok


def test_an_expired_copy_in_a_load_is_no_match(texts: Index) -> None:
    """A record with the text of an earlier one of the load that has expired does not count as matched."""
    records = [{"key": "old", "text": "w x y z", "expires_at": PAST}, {"key": "new", "text": "w x y z"}]
    assert texts.add_many(records) == AddReport(added=2, matched=0)


@one_test(rules=[TextRules(), TextRules(tokens=split)], scheme=[MinHash(), MinHash(exact=True), BottomK(), SimHash()])
def test_single_texts_are_stored_as_those_of_a_batch(scheme: Any, rules: TextRules) -> None:
    """Texts added alone, in groups, copies and an empty one, leave the fingerprints of a batch, and check() finds all rows."""
    texts = [f"the story of boat {number % 5} in the harbour" for number in range(12)] + ["", "..."]
    records = [{"key": i, "text": text, "group": (None, "g", 7)[i % 3]} for i, text in enumerate(texts)]
    stored: list[Any] = []
    for batch in (False, True):
        with Index(":memory:", scheme, text=rules) as index:
            if batch:
                index.add_many(records)
            else:
                for record in records:
                    index.add(**record)
            assert index.check().ok
            values = index.connection.execute("SELECT group_id, value, value_hash FROM neardup_fingerprint ORDER BY 1, 2")
            stored.append(values.fetchall())
    assert stored[0] == stored[1] != []


@pytest.mark.parametrize("table", ["document", "fingerprint"])
def test_ids_that_are_used_up_are_an_error(table: str) -> None:
    """Where the next id would be above all that the file may have, add raises an error, and nothing is stored. Of the last id
    there is SQLite says that the database is full."""
    with Index(":memory:", MinHash()) as index:
        index.add(1, "one two three four")
        for seq, error in ((2**62, CorruptIndexError), (2**63 - 1, (CorruptIndexError, DiskFullError))):
            index.connection.execute("UPDATE sqlite_sequence SET seq = ? WHERE name = ?", (seq, f"neardup_{table}"))
            with pytest.raises(error, match=f"the highest id of the table of {table}s|database or disk is full"):
                index.add(2, "five six seven eight nine")
            assert list(index) == [1]


# ---- add_if_new --------------------------------------------------------------------------------------------------------


def test_touch_counts_the_best_match_as_seen_again(texts: Index) -> None:
    """on_match="touch" sets last_seen, times_seen and, where given, the expiry of the best match, and of no other."""
    texts.add("good", "w x y z", expires_at=SOON)
    texts.add("best", "w x y z v")
    before = texts.get_many(["good", "best"])
    assert all(one is not None and one.times_seen == 1 and one.last_seen == one.added_at for one in before)
    time.sleep(0.005)
    assert keys(texts.add_if_new("c", "w x y z v", on_match="touch")) == ["best", "good"]
    best = texts.get("best")
    assert (best.times_seen, best.expires_at) == (2, None) and best.last_seen > best.added_at
    assert texts.get("good") == before[0]
    assert texts.add_if_new("c", "w x y z v", on_match="touch", expires_at=4102444800)
    assert (texts.get("best").times_seen, texts.get("best").expires_at) == (3, 4102444800.0)
    assert texts.add_if_new("c", "w x y z v")
    assert texts.get("best").times_seen == 3


# ---- add_many, add_codes -----------------------------------------------------------------------------------------------


def test_add_many_reports_what_became_of_the_records(texts: Index) -> None:
    """Pairs and mappings, with if_exists of their own; every record is counted once."""
    texts.add("old", "w x y z")
    report = texts.add_many(
        [
            ("a", "w x y v"),
            {"key": "b", "text": "quite other words", "metadata": {"n": 1}, "group": "g", "expires_at": SOON},
            {"key": "old", "text": "nobody reads this", "if_exists": "ignore"},
            {"key": "a", "text": "new words for a", "if_exists": "replace"},
            ["c", b"w x y z"],
        ]
    )
    assert report == AddReport(added=3, replaced=1, ignored=1, skipped=0, matched=2)
    assert report.total == 4
    assert list(texts) == ["old", "b", "a", "c"]
    assert texts.get("b").metadata == {"n": 1} and texts.get("b").group == "g"
    assert texts.get("old").text == "w x y z"
    assert texts.add_many([]) == AddReport()
    assert texts.check().ok


def test_add_many_takes_any_iterable(texts: Index) -> None:
    """A generator, a dict's items, a zip."""
    assert texts.add_many((number, f"text {number} x{number}") for number in range(3)).added == 3
    assert texts.add_many({"a": "one thing", "b": "another matter"}.items()).added == 2
    assert texts.add_many(zip(["c"], ["third place"], strict=True)).added == 1
    assert len(texts) == 6


@one_test(
    ("record", "says"),
    [
        ("ab", "give a pair"),
        (("a",), "give a pair"),
        (("a", "b", "c"), "give a pair"),
        (None, "give a pair"),
        (5, "give a pair"),
        ({"text": "x"}, "no 'key'"),
        ({"key": "a"}, "no 'text'"),
        ({"key": "a", "code": 5}, "a 'code' and no 'text': give codes to add_codes"),
        ({"key": "a", "text": "x", "txt": 1}, "unknown field 'txt'"),
        ({"key": None, "text": "x"}, "key=None"),
        ({"key": "a", "text": None}, "text=None"),
        ({"key": "a", "text": "x", "group": 1.5}, "group=1.5"),
        ({"key": "a", "text": "x", "metadata": {1, 2}}, "metadata"),
        ({"key": "a", "text": "x", "expires_at": "soon"}, "expires_at='soon'"),
        ({"key": "a", "text": "x", "if_exists": "maybe"}, "if_exists='maybe'"),
    ],
)
def test_every_fault_of_a_record(texts: Index, record: Any, says: str) -> None:
    """What is wrong with a record is said with its value; on_error="skip" leaves just that record out."""
    with pytest.raises(ParameterError, match="record 1: ") as caught:
        texts.add_many([("first", "x"), record])
    assert says in str(caught.value)
    assert texts.add_many([("first", "x"), record, ("last", "y")], on_error="skip") == AddReport(added=2, skipped=1)
    assert list(texts) == ["first", "last"]
    texts.delete_many(["first", "last"])


@pytest.mark.parametrize("limits", ["usual", "small"])
def test_the_first_records_that_were_left_out_are_named(texts: Index, limits: str, request: pytest.FixtureRequest) -> None:
    """In their order, though wrong records are met as they are read and keys that exist only as they are written."""
    if limits == "small":
        request.getfixturevalue("small_limits")
    records: list[Any] = [("a", "x"), *((None, "wrong") if number % 3 else ("a", "again") for number in range(400))]
    report = texts.add_many(records, on_error="skip")
    assert (report.added, report.skipped) == (1, 400)
    assert [problem.record for problem in report.problems] == list(range(1, 101))
    assert [problem.key for problem in report.problems[:4]] == ["a", None, None, "a"]
    assert texts.get("a").text == "x"


def test_commit_every_keeps_what_was_committed(texts: Index) -> None:
    """An error of the iterator undoes the transaction that is open, and no other."""

    def records() -> Iterator[Any]:
        yield from ((number, f"text {number}") for number in range(7))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        texts.add_many(records(), commit_every=3)
    assert list(texts) == list(range(6)) and texts.check().ok


@pytest.mark.parametrize("commit_every", [None, 1, 1000, 8192, 100_000])
def test_progress_counts_the_records(codes: Index, commit_every: int | None) -> None:
    """progress is called with the number of records taken, rising to all of them, once a batch at most."""
    seen: list[int] = []
    count = 3 if commit_every == 1 else 10_000
    codes.add_codes(range(count), [1 << number % 50 for number in range(count)], commit_every=commit_every, progress=seen.append)
    assert seen == sorted(set(seen)) and seen[-1] == count
    assert len(seen) <= {1: 3, None: 2, 1000: 10, 8192: 2, 100_000: 2}[commit_every]


def test_progress_counts_a_skipped_record_once(codes: Index) -> None:
    """Records that are skipped while they are written count once, like those that are skipped while they are read."""
    codes.add_code(1, 0)
    seen: list[int] = []
    keys = [None, 1, 1, *range(2, 50)]
    report = codes.add_codes(
        keys, [0] * len(keys), if_exists="error", on_error="skip", commit_every=len(keys) - 1, progress=seen.append
    )
    assert (report.skipped, seen[-1]) == (3, len(keys))


@pytest.mark.parametrize("scheme", [SimHash(), BitSampling()], ids=repr)
def test_texts_and_codes_meet_where_a_scheme_has_both(scheme: Any) -> None:
    """The fingerprint of a text is a code that add_code and query_code take."""
    with Index(":memory:", scheme) as index:
        index.add("text", "one two three four five")
        code = index.scheme.fingerprint("one two three four five")
        assert index.query_code(code) == [Match("text", 1.0, 0)]
        assert index.add_code("code", code) == [Match("text", 1.0, 0)]
        assert keys(index.query("one two three four five")) == ["text", "code"]


class Name(str):
    """A text of the caller's own type."""


@one_test(
    ("keys", "stored"),
    [
        (["a\0b", "a", "\0"], ["a\0b", "a", "\0"]),
        ([b"", b"a\0b", ""], [b"", b"a\0b", ""]),
        ([Name("n"), np.str_("m"), np.bytes_(b"z")], ["n", "m", b"z"]),
        ([np.int64(5), 2**63 - 1, -(2**63)], [5, 2**63 - 1, -(2**63)]),
    ],
    record_matches=[True, False],
)
def test_unusual_keys_in_a_batch(keys: list[Any], stored: list[Any], record_matches: bool) -> None:
    """Keys with NUL, empty ones, ones of derived types: a batch stores them as they are, and refuses them when they are there."""
    with Index(":memory:", MinHash(), record_matches=record_matches) as index:
        index.add_many([(key, f"one two three {number}") for number, key in enumerate(keys)])
        assert list(index) == stored and [type(key) for key in index] == [type(key) for key in stored]
        for key in keys:
            with pytest.raises(DuplicateKeyError):
                index.add_many([(key, "another text")])


def test_records_that_read_the_index_they_go_into(tmp_path: Path) -> None:
    """A generator sees in the index, through its methods or its connection, every record that it has yielded."""
    with Index(tmp_path / "index.db", MinHash()) as index:
        seen = []

        def records() -> Iterator[tuple[int, str]]:
            for number in range(20_000):
                if number % 8192 == 100:
                    seen.append((len(index), index.connection.execute("SELECT count(*) FROM neardup_document").get))
                yield number, f"story {number} of {number + 1}"

        index.add_many(records())
        assert seen == [(100, 100), (8292, 8292), (16484, 16484)]
