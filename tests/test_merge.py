"""The documents of another index into this one: as if all had been added to one, without a fingerprint made again."""

from __future__ import annotations

import os
import random
import time
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest
from merging import TEXTS, documents
from support import CASES, PAST, SETS, SOON, WORDS, Case, Model, tuples
from test_joins import contents

from neardup_db import CorruptIndexError, DuplicateKeyError, FormatError, Index, MinHash, ParameterError


def put(index: Index, case: Case, key: Any, content: Any, **more: Any) -> None:
    (index.add_code if case.codes else index.add)(key, content, **more)


def require_model(index: Index, model: Model) -> None:
    """Documents, answers, pairs and clusters are those of brute force, and the file is in order."""
    assert list(index) == model.in_order()
    assert {(p.key_a, p.key_b, p.similarity, p.distance) for p in index.pairs()} == model.pairs()
    assert [one.keys for one in index.clusters()] == model.clusters()
    for key, entry in model.entries.items():
        assert tuples(index.matches(key)) == model.matches(entry.content, entry.group, without=key)
    assert index.check().problems == ()


@pytest.mark.parametrize(("cut", "recorded"), [("usual", True), ("small", False)])
@pytest.mark.parametrize("name", CASES)
def test_parts_in_any_order_are_one_index(
    tmp_path: Path, name: str, recorded: bool, cut: str, request: pytest.FixtureRequest
) -> None:
    """Parts with groups, equal copies and expired documents, merged in any order, answer as one index to which all were added."""
    if cut == "small":
        request.getfixturevalue("small_limits")
    case, chance = CASES[name], random.Random(name + cut)
    made = [(number, content, chance.choice([None, None, "g", 7])) for number, content in enumerate(contents(case, 30, 3))]
    options: dict[str, Any] = {"text": case.rules, "store_text": case.store_text}
    parts = []
    for number in range(3):
        part = Index(tmp_path / f"{number}.db", case.scheme, **options, record_matches=bool(number))
        for key, content, group in made[number::3]:
            put(part, case, key, content, group=group, expires_at=PAST if key % 10 == 7 else None)
        parts.append(part)
    chance.shuffle(parts)
    with Index(":memory:", case.scheme, **options, record_matches=recorded) as index:
        model = Model(case)
        for part in parts:
            expected = list(part)
            report = index.merge(part, commit_every=chance.choice([None, 1, 4, 7]))
            for key in expected:
                model.put(key, *made[key][1:])
            assert (report.added, report.total) == (len(expected), len(expected))
            require_model(index, model)
            part.close()


def test_all_that_a_document_has_comes_along(parts: tuple[Index, Index], monkeypatch: pytest.MonkeyPatch) -> None:
    """Value, tokens, group by name, metadata, text, expiry, and the times of the other index, of plain documents too."""
    a, b = parts
    b.add("g", "nine ten", group="g", expires_at=SOON, metadata={"ü": [1, None]})
    time.sleep(0.01)  # times are milliseconds
    b.add_if_new("h", "nine ten", group="g", on_match="touch")
    a.add("elsewhere", "nine ten", group="first")
    time.sleep(0.01)
    mine, theirs = documents(a), documents(b)
    assert a.merge(b).added == 7
    assert documents(a) == mine + theirs
    assert a.get("g").times_seen == 2 and a.get("g") == b.get("g")
    assert a.get("g").added_at < a.get("g").last_seen < time.time() - 0.01
    assert a.check().ok


def test_no_text_is_hashed(parts: tuple[Index, Index], monkeypatch: pytest.MonkeyPatch) -> None:
    """Fingerprints are copied."""
    monkeypatch.setattr(type(parts[0].scheme), "values", lambda *_, **__: pytest.fail("a text was fingerprinted"))
    assert parts[0].merge(parts[1]).added == 6


def test_a_path_is_an_index_too(parts: tuple[Index, Index], tmp_path: Path) -> None:
    """The path of a file, as text, bytes or Path, is the index of the same name in it."""
    expected = documents(parts[1])
    for number, path in enumerate((str(tmp_path / "b.db"), os.fsencode(tmp_path / "b.db"), tmp_path / "b.db")):
        with Index(tmp_path / f"c{number}.db", SETS, text=WORDS, store_text=True) as index:
            assert index.merge(path).added == 6
            assert documents(index) == expected
    told = pytest.raises(FormatError, match=r"b.db.*no index named 'other'. It holds: neardup. Open .*name=")
    with Index(tmp_path / "c.db", SETS, text=WORDS, store_text=True, name="other") as index, told:
        index.merge(tmp_path / "b.db")


@pytest.mark.posix("permissions")
@pytest.mark.parametrize("mode", [0o644, 0o444])
def test_the_file_of_a_path_stays_as_it_is(tmp_path: Path, mode: int) -> None:
    """Nothing is written into it, and nothing is left beside it, or nothing that has a byte to add."""
    path = tmp_path / "other.db"
    with Index(path, MinHash()) as other:
        other.add("a", "one two three")
    path.chmod(mode)
    before = path.read_bytes()
    with Index(":memory:", MinHash()) as index:
        assert index.merge(path).added == 1
    assert path.read_bytes() == before
    left = {found.name: found.stat().st_size for found in tmp_path.iterdir()}
    assert left.get("other.db-wal", 0) == 0 and (mode == 0o444 or set(left) == {"other.db"})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (":memory:", "give another Index, or the path"),
        ("never.db", "holds no index"),
        ("", "is not a path"),
        (".", "is a folder"),
    ],
)
def test_what_is_no_index(given: Any, message: str) -> None:
    """Anything else is refused with what to give, and nothing is made."""
    with Index(":memory:", MinHash()) as index, pytest.raises(ParameterError, match=message):
        index.merge(given)
    assert not Path("never.db").exists()


# ---- keys that are there -------------------------------------------------------------------------------------------------


def test_keys_of_both(parts: tuple[Index, Index]) -> None:
    """ "error" names the key and stores nothing, "ignore" leaves the document as it is, "replace" takes the other's."""
    a, b = parts
    b.add(1, "quite other words")
    before, theirs = documents(a), documents(b)
    with pytest.raises(DuplicateKeyError, match="record 6: key 1 is already in the index"):
        a.merge(b)
    assert documents(a) == before
    report = a.merge(b, if_exists="ignore")
    assert (report.added, report.ignored) == (6, 1)
    assert documents(a) == before + theirs[:6]
    report = a.merge(b, if_exists="replace")
    assert (report.added, report.replaced) == (0, 7)
    assert documents(a) == [before[0], before[2], *theirs]
    assert a.check().ok


def test_a_key_whose_document_has_expired_is_free(parts: tuple[Index, Index]) -> None:
    """What nobody sees stands in nobody's way, here; what has expired there stays there."""
    a, b = parts
    a.add("b0", "old words", expires_at=PAST)
    b.update("b1", expires_at=PAST)
    assert a.merge(b).added == 5
    assert a.get("b0").text == TEXTS[0] and "b1" not in a
    assert a.check().ok


# ---- damage ----------------------------------------------------------------------------------------------------------------

DAMAGE: dict[str, tuple[str, str]] = {
    "value": ("UPDATE neardup_fingerprint SET value = zeroblob(3) WHERE id = 2", "not the one that was written"),
    "hash": ("UPDATE neardup_fingerprint SET value_hash = 7 WHERE id = 2", "not the one that was written"),
    "fingerprint": ("PRAGMA foreign_keys = OFF; DELETE FROM neardup_fingerprint WHERE id = 2", "its fingerprint lacks"),
    "group": ("UPDATE neardup_document SET group_id = 99 WHERE id = 2", "its group has no name"),
    "tokens": ("UPDATE neardup_document SET token_count = -1 WHERE id = 2", "tokens is below 0"),
    "times": ("UPDATE neardup_document SET times_seen = 0 WHERE id = 2", "its number of times is below 1"),
    "added": ("UPDATE neardup_document SET added_at = 9e18 WHERE id = 2", "its time of adding is out of range"),
    "seen": ("UPDATE neardup_document SET last_seen = -9e18 WHERE id = 2", "its time when it was last seen is out of range"),
    "expiry": ("UPDATE neardup_document SET expires_at = 9e18 WHERE id = 2", "its expiry is out of range"),
    "text": ("UPDATE neardup_document SET text = NULL WHERE id = 2", "its text lacks"),
    "metadata": ("PRAGMA ignore_check_constraints = ON; UPDATE neardup_document SET metadata = '{' WHERE id = 2", "is no JSON"),
    "key": ("UPDATE neardup_document SET key = 1.5 WHERE id = 2", "its key is none"),
}


@pytest.mark.parametrize("cut", ["usual", "small"])
@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_of_the_other_is_named_and_not_copied(
    parts: tuple[Index, Index], kind: str, cut: str, request: pytest.FixtureRequest
) -> None:
    """A document that is not as it was written is a CorruptIndexError with its key; nothing is stored."""
    if cut == "small":
        request.getfixturevalue("small_limits")
    a, b = parts
    sql, message = DAMAGE[kind]
    before = documents(a)
    with closing(apsw.Connection(b.connection.filename)) as connection:
        connection.execute(sql)
    with pytest.raises(CorruptIndexError, match=rf"b.db: document 2 \(('b1'|1.5)\) of index 'neardup'.*{message}"):
        a.merge(b)
    assert documents(a) == before and a.check().ok


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM sqlite_sequence",
        f"UPDATE sqlite_sequence SET seq = {2**62} WHERE name = 'neardup_fingerprint'",
        "UPDATE neardup_document SET cluster_id = 4, id = id + 90",
        "DELETE FROM neardup_match",
        "DELETE FROM neardup_minhash_band",
    ],
)
def test_what_is_found_anew_is_not_taken_over(parts: tuple[Index, Index], tmp_path: Path, sql: str) -> None:
    """Whatever the counters, labels, matches and candidate rows of the other say, the new index is sound."""
    with closing(apsw.Connection(parts[1].connection.filename)) as connection:
        connection.execute(sql)
    with Index(tmp_path / "c.db", SETS, text=WORDS, store_text=True) as index:
        assert index.merge(parts[1]).added == 6 and index.check().ok
        assert [one.keys for one in index.clusters()] == [("b0", "b1"), ("b2", "b3")]
        index.add("further", "quite other words")
        assert "further" in index and index.check().ok


def test_a_time_that_no_clock_reaches_is_damage(tmp_path: Path) -> None:
    """With and without a window, to whose length it could not be added."""
    with Index(tmp_path / "other.db", MinHash()) as other:
        other.add("a", "one two three")
        other.connection.execute("UPDATE neardup_document SET added_at = ?", (2**63 - 1,))
        for window in (None, timedelta(days=1)):
            with Index(":memory:", MinHash(), window=window) as index:
                with pytest.raises(CorruptIndexError, match=r"document 1 \('a'\).*its time of adding is out of range"):
                    index.merge(other)
                assert len(index) == 0


def test_a_persons_word_goes_with_the_documents() -> None:
    """A pair that is dismissed there is dismissed here, unless one of its documents is another one here."""
    texts = {key: f"the quick brown fox jumps over the lazy dog {key}" for key in "abcd"}
    with Index(":memory:", MinHash(threshold=0.5)) as index, Index(":memory:", MinHash(threshold=0.5)) as other:
        index.add("d", "a text that is like no other one of these")
        other.add_many(texts.items())
        for pair in ("ab", "cd"):
            assert other.dismiss(*pair)
        index.merge(other, if_exists="ignore")
        assert [set(pair) for pair in index.dismissed()] == [{"a", "b"}]
        assert {frozenset((pair.key_a, pair.key_b)) for pair in index.pairs()} == {frozenset("ac"), frozenset("bc")}
        assert index.check().ok


def test_dismissed_pairs_do_not_hold_back_commits(parts: tuple[Index, Index], tmp_path: Path) -> None:
    """With `commit_every` another connection sees each part of a merge, also where pairs are dismissed."""
    a, b = parts
    b.dismiss("b1", "b2")
    with Index(tmp_path / "a.db") as other:
        seen: list[int] = []
        assert a.merge(b, commit_every=2, progress=lambda done: seen.append(len(other))).added == 6
        assert 5 in seen and len(other) == 9


def test_a_dismissed_pair_of_another_group_is_not_taken_over() -> None:
    """A key that is here in another group is refused, and neither documents nor dismissed pairs are taken over."""
    with Index(":memory:", MinHash()) as other, Index(":memory:", MinHash()) as index:
        for key in "ab":
            other.add(key, "one two three four five", group="g")
        index.add("a", "one two three four five")
        other.dismiss("a", "b")
        with pytest.raises(DuplicateKeyError, match="'a' is already in no group"):
            index.merge(other, if_exists="ignore")
        assert list(index) == ["a"] and list(index.dismissed()) == []
