"""Transactions, rebuilds, figures, copies and explanations of a whole index, by literal examples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw
import pytest
from support import PAST, SETS, WORDS, keys

from neardup_db import (
    BinaryCode,
    BitSampling,
    BottomK,
    Cluster,
    DuplicateKeyError,
    Index,
    Match,
    MinHash,
    NearDupError,
    ParameterError,
    SimHash,
    TextRules,
)
from neardup_db.limits import CACHE_KIB, CACHE_KIB_MANY
from neardup_db.store.query.documents import Documents

# ---- transactions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("long", [False, True], ids=["short", "long"])
def test_an_add_that_fails_inside_a_transaction(texts: Index, monkeypatch: pytest.MonkeyPatch, long: bool) -> None:
    """Before its first change: the transaction goes on without it. After it: the whole transaction has ended, whoever catches the
    error; but what is so long that SQLite may refuse it has a savepoint."""
    monkeypatch.setattr("neardup_db.limits.LIGHT_MAX", 10 if long else 1000)
    insert = Documents.insert

    def failing(self: Documents, row: tuple[Any, ...]) -> None:
        insert(self, row)
        if row[1] == "b":
            raise ZeroDivisionError

    monkeypatch.setattr(Documents, "insert", failing)
    texts.add("first", "before all of it")

    def add() -> None:
        with texts.transaction():
            texts.add("a", "one two three four")
            with pytest.raises(DuplicateKeyError):
                texts.add("a", "five six seven eight")
            with pytest.raises(ZeroDivisionError):
                texts.add_if_new("b", "quite other words here")
            texts.add("c", "nine ten eleven twelve")

    if long:
        add()
    else:
        with pytest.raises(NearDupError, match="rolled back by an error inside it"):
            add()
    assert list(texts) == (["first", "a", "c"] if long else ["first"]) and texts.check().problems == ()
    with texts.transaction():
        texts.add("d", "thirteen fourteen fifteen sixteen")
    assert list(texts)[-1] == "d"


def test_an_add_in_a_callers_transaction_takes_back_only_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction that was begun by the caller's SQL is not ended by an add that fails in the middle."""
    connection = apsw.Connection(":memory:")
    index = Index(connection, BinaryCode(64, 3))
    monkeypatch.setattr(Documents, "insert", lambda *_: 1 / 0)
    connection.execute("BEGIN; CREATE TABLE own (value); INSERT INTO own VALUES (1)")
    with pytest.raises(ZeroDivisionError):
        index.add_code("a", 1)
    assert connection.in_transaction
    connection.execute("COMMIT")
    assert connection.execute("SELECT value FROM own").get == 1 and len(index) == 0 and index.check().problems == ()


@pytest.mark.parametrize("given", [True, False])
def test_an_index_cannot_be_closed_inside_its_transaction(given: bool) -> None:
    """The message says to leave it first, and the transaction goes on, on a caller's connection as on our own."""
    with Index(apsw.Connection(":memory:") if given else ":memory:", BinaryCode(64, 3)) as index:
        with index.transaction() as same:
            assert same is index
            index.add_code("a", 0)
            with pytest.raises(NearDupError, match="leave the transaction first"):
                index.close()
        assert list(index) == ["a"]


# ---- the whole index ---------------------------------------------------------------------------------------------------

STORIES = [f"story {number} tells of many things that happened in town {number % 7} on a day" for number in range(60)]


@pytest.mark.parametrize(
    "scheme",
    [SimHash(max_distance=12), MinHash(threshold=0.5), SETS, BottomK(threshold=0.6), BitSampling(bits=64, max_distance=20)],
    ids=repr,
)
def test_rebuild_to_another_scheme(tmp_path: Path, scheme: Any) -> None:
    """With stored texts an index becomes what a fresh one with the new scheme and rules would be, and stays it."""
    path = tmp_path / "index.db"
    rules = TextRules.words(shingle=2)
    with (
        Index(path, MinHash(threshold=0.9), store_text=True, durability="normal") as index,
        Index(":memory:", scheme, text=rules) as fresh,
    ):
        index.add_many(enumerate(STORIES))
        index.delete_many([3, 30])
        fresh.add_many((number, story) for number, story in enumerate(STORIES) if number not in (3, 30))
        steps: list[int] = []
        index.rebuild(scheme, rules, progress=steps.append)
        assert steps and steps[-1] == 58
        assert list(index.pairs()) == list(fresh.pairs()) and index.clusters() == fresh.clusters()
        assert index.check().ok and repr(index.scheme).split("(")[0] == repr(scheme).split("(")[0]
    with Index(path, scheme, text=rules) as index:
        assert index.query(STORIES[5])[0].key == 5
        assert index.add("again", STORIES[5])[0] == Match(5, 1.0, 0 if index.scheme.takes_codes else None)
        tables = {row[0] for row in index.connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
        candidates = {"neardup_minhash_band", "neardup_bottomk_prefix", "neardup_code_bucket"}
        assert tables & candidates == ({f"neardup_{index.scheme.table}"} if index.scheme.table else set())


def test_rebuild_without_texts_is_refused() -> None:
    """Where new fingerprints are needed and a text is missing, it says how many, and nothing has changed."""
    with Index(":memory:", MinHash(threshold=0.8)) as index:
        index.add_many(enumerate(STORIES[:5]))
        for scheme, text in (
            (SimHash(), None),
            (None, TextRules(shingle=2)),
            (MinHash(seed=7), None),
            (MinHash(exact=True), None),
        ):
            with pytest.raises(ParameterError, match="5 documents have no stored text.*store_text=True"):
                index.rebuild(scheme, text)
        assert keys(index.query(STORIES[0])) == [0] and index.check().ok
        assert index.scheme == MinHash(threshold=0.8) and index.text_rules == TextRules()
    with Index(":memory:", BinaryCode(64, 3)) as codes:
        codes.add_code("a", 0)
        with pytest.raises(ParameterError):
            codes.rebuild(BinaryCode(128, 5))
        assert keys(codes.query_code(0)) == ["a"]


def test_stats_has_these_figures(codes: Index, texts: Index) -> None:
    """The names are fixed; the counts are literal."""
    texts.add_many(
        [("a", "w x y z"), ("b", "w x y z"), ("c", ""), {"key": "d", "text": "other", "group": "g", "expires_at": PAST}]
    )
    stats = texts.stats()
    counts = {
        "name": "neardup", "documents": 3, "expired": 1, "empty": 1, "fingerprints": 2, "groups": 1, "recorded_matches": 1,
        "clusters": 1, "candidate_table": "neardup_minhash_band", "candidate_rows": 128,
    }  # fmt: skip
    assert {name: stats[name] for name in counts} == counts
    assert set(stats) == {
        *counts, "following", "scheme", "size_bytes", "settings", "isa", "version", "unicode_version", "sqlite_version",
    }  # fmt: skip
    assert stats["size_bytes"] % 4096 == 0 and stats["isa"] in ("scalar", "avx2", "avx512", "neon")
    assert stats["settings"]["threshold"] == 0.5 and stats["settings"]["text.shingle"] == 1
    codes.rebuild(BinaryCode(64, 31))
    assert (codes.stats()["candidate_table"], codes.stats()["candidate_rows"]) == ("neardup_code_bucket", 0)


def test_compact_gives_space_back(tmp_path: Path) -> None:
    """After deletions the file shrinks by what compact() returns; what is left is unharmed."""
    path = tmp_path / "index.db"
    with Index(path, MinHash(), durability="normal") as index:
        index.add_many((number, f"{number} words {number * 3} of {number * 7}") for number in range(2000))
        index.delete_many(range(1900))
        before = path.stat().st_size
        freed = index.compact()
        assert (
            freed > 200_000
            and before - path.stat().st_size >= freed - 4096
            and index.stats()["size_bytes"] == path.stat().st_size
        )
        assert len(index) == 100 and keys(index.add("x", "1950 words 5850 of 13650")) == [1950] and index.check().ok
        with index.transaction(), pytest.raises(NearDupError, match="inside a transaction"):
            index.compact()


def test_a_backup_opens(tmp_path: Path) -> None:
    """A backup is a whole index of its own, of a file or of memory; an existing file is not overwritten."""
    with Index(":memory:", SETS, text=WORDS, store_text=True) as index:
        index.add_many([("a", "w x y z"), ("b", "w x y v")])
        index.backup(tmp_path / "copy.db")
        index.add("c", "later")
        with pytest.raises(ParameterError, match="exists: give the path of a new file"):
            index.backup(str(tmp_path / "copy.db"))
    with Index(tmp_path / "copy.db") as copy:
        assert list(copy) == ["a", "b"] and copy.clusters() == [Cluster("a", ("a", "b"))] and copy.check().ok
        assert keys(copy.add("c", "w x y z")) == ["a", "b"]
        copy.backup(tmp_path / "copy of copy.db")
    with Index(tmp_path / "copy of copy.db", read_only=True) as copy:
        assert list(copy) == ["a", "b", "c"]


def test_explain_says_how_a_query_ran(texts: Index, codes: Index) -> None:
    """Plan, table, tokens, probes, candidates, verified fingerprints, matches, in numbers and in words."""
    texts.add_many(
        [
            ("a", "w x y z"),
            ("b", "W X Y Z"),
            ("c", "w x y v"),
            ("d", "w p q r s t"),
            {"key": "e", "text": "w x y z", "group": "g"},
        ]
    )
    one = texts.explain("w x y z")
    assert (one.scheme, one.table, one.tokens, one.probes, one.verified, one.matches) == (
        "minhash", "neardup_minhash_band", 4, 64, 2, 3,
    )  # fmt: skip
    assert 2 <= one.candidates <= 3 and one.rows >= 64
    assert texts.explain("w x y z", group="g").matches == 1
    assert "64 probes" in str(one) and "3 matches" in str(one)
    with Index(":memory:", SimHash(max_distance=20)) as scanned:
        scanned.add_many(enumerate(STORIES[:5]))
        found = scanned.explain(STORIES[0])
        assert (found.plan, found.table, found.candidates) == ("scan", "neardup_code_bucket", 5)


def test_explain_match_says_why(texts: Index, codes: Index) -> None:
    """Similarity, verdict, where the two met, and with stored texts the shingles that they share and do not."""
    texts.add_many([("a", "w x y z"), ("b", "w x y v"), ("c", "p q r s"), {"key": "d", "text": "w x y z", "group": "g"}])
    one = texts.explain_match("a", "b")
    assert (one.similarity, one.distance, one.is_match, one.jaccard) == (0.6, None, True, 0.6)
    assert (one.shared, one.only_a, one.only_b) == (("w", "x", "y"), ("z",), ("v",)) and len(one.met) >= 1
    one = texts.explain_match("a", "c")
    assert (one.similarity, one.is_match, one.met, one.shared, one.jaccard) == (0.0, False, (), (), 0.0)
    one = texts.explain_match("a", "d")
    assert (one.similarity, one.is_match, one.met) == (1.0, False, ())  # of another group
    codes.add_codes(["a", "b", "c"], [0, 0b111, 0b1111])
    one = codes.explain_match("a", "b")
    assert (one.similarity, one.distance, one.is_match, one.shared, one.jaccard) == (61 / 64, 3, True, None, None)
    assert not codes.explain_match("a", "c").is_match and codes.explain_match("a", "c").distance == 4


def test_many_are_written_with_a_larger_cache(tmp_path: Path) -> None:
    """While `add_many` and `rebuild` run, and not afterwards; a size that the caller has set stays."""
    with Index(tmp_path / "index.db", SETS, text=WORDS, store_text=True) as index:

        def size() -> int:
            found: int = index._store.db.connection.pragma("cache_size")
            return found

        sizes: list[int] = []
        for usual, large in ((-CACHE_KIB, -CACHE_KIB_MANY), (77, 77), (-8000, -8000)):
            index.connection.pragma("cache_size", usual)
            sizes.clear()
            index.add_many((f"{usual} {number}", "some words") for number in (1, 2) if sizes.append(size()) is None)
            index.rebuild(progress=lambda _: sizes.append(size()))
            with pytest.raises(DuplicateKeyError):
                index.add_many([(f"{usual} 1", "again")])
            assert set(sizes) == {large} and size() == usual
