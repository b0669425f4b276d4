"""Allowed texts: what is like one matches nothing, in every way in and out, until it is withdrawn."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest
from commands import outcome as run
from load import run_threads
from support import CASES, SETS, WORDS, keys
from support import cluster_keys as clusters

from neardup_db import ANY_GROUP, BinaryCode, Index, KeyNotFoundError, MinHash, ParameterError, ReadOnlyError, TextRules
from neardup_db.store.layout.sketches import Allowed

REPLY, LIKE, OTHER = "oak elm ash fir", "oak elm ash fir yew", "something else entirely here"
TEXTS = {name: case for name, case in CASES.items() if not case.codes}


def found_by_sql(index: Index, text: str) -> list[Any]:
    """What `neardup_search` finds."""
    return [row[0] for row in index.connection.execute("SELECT key FROM neardup_search(?, ?)", (index.name, text))]


@pytest.fixture(params=TEXTS)
def index(request: pytest.FixtureRequest) -> Iterator[Index]:
    """Two equal texts, two others that are equal, and an empty one, in each scheme."""
    case = TEXTS[request.param]
    with Index(":memory:", case.scheme, text=case.rules, store_text=case.store_text) as index:
        index.add_many([("a", REPLY), ("b", REPLY), ("c", OTHER), ("d", OTHER), ("empty", "")])
        yield index


def test_stored_documents_like_an_allowed_text_match_nothing(index: Index) -> None:
    """They are in no matches, pairs, clusters, answers of queries or SQL; the others are as before."""
    assert index.allow(REPLY) == 2 and index.allow(REPLY) == 0
    assert index.matches("a") == [] and clusters(index) == [("c", "d")]
    assert [(one.key_a, one.key_b) for one in index.pairs()] == [("c", "d")]
    assert index.query(REPLY) == [] and index.query_many([REPLY, OTHER])[0] == [] and index.count(REPLY).count == 0
    assert found_by_sql(index, REPLY) == [] and sorted(found_by_sql(index, OTHER)) == ["c", "d"]
    assert keys(index.query(OTHER)) == ["c", "d"] and index.query(REPLY, group=ANY_GROUP) == []
    assert len(index) == 5 and index.stats()["allowed"] == 2 and index.stats()["empty"] == 1 and index.check().ok
    assert index.explain_match("a", "b").allowed and not index.explain_match("a", "b").is_match
    assert index.explain_match("a", "b").similarity == 1.0 and not index.explain_match("c", "d").allowed


def test_a_withdrawn_text_is_matched_as_if_it_had_never_been_allowed(index: Index) -> None:
    """Documents of before and of the time between match each other, their changes are told, and the file is in order."""
    index.allow(REPLY)
    index.add_many([("e", REPLY), ("f", REPLY)])
    token = index.changes().token
    assert index.disallow(REPLY) == 1 and index.disallow(REPLY) == 0
    assert clusters(index) == [("a", "b", "e", "f"), ("c", "d")] and keys(index.query(REPLY)) == ["a", "b", "e", "f"]
    assert {key for key, _ in index.changes(token).clusters} == {"a", "b", "e", "f"}
    assert found_by_sql(index, REPLY) == ["a", "b", "e", "f"] and index.allowed() == [] and index.check().ok


def test_a_document_like_two_allowed_texts_needs_both_withdrawn() -> None:
    """Withdrawing one leaves it set aside by the other; a text withdraws each one that it is like."""
    with Index(":memory:", SETS, text=WORDS) as index:
        index.add_many([("a", LIKE), ("b", LIKE)])
        assert [index.allow(REPLY), index.allow(LIKE)] == [2, 0]
        first, second = index.allowed()
        assert (first.id, second.id) == (1, 2) and index.disallow(id=1) == 1 and index.clusters() == []
        assert index.disallow(id=1) == 0 and index.disallow(id=2) == 1 and clusters(index) == [("a", "b")]
        index.allow(REPLY)
        assert index.allowed()[0].id == 3, "a number is never given again"
        index.allow(LIKE)
        assert index.disallow(REPLY) == 2 and clusters(index) == [("a", "b")] and index.check().ok


@pytest.mark.parametrize("store_text", [False, True])
def test_rebuilding_keeps_what_is_allowed_or_refuses(store_text: bool) -> None:
    """Another threshold decides anew what is like; new fingerprints need the text, and else nothing changes."""
    with Index(":memory:", MinHash(threshold=0.9), store_text=store_text) as index:
        index.add_many([("a", "one two three four five six"), ("b", "one two three four five seven")])
        assert index.allow("one two three four five six") == 1
        index.rebuild(MinHash(threshold=0.4))
        assert index.stats()["allowed"] == 2 and index.check().ok
        if store_text:
            index.rebuild(text=TextRules.chars(shingle=3))
            assert index.add("c", "one two three four five six") == [] and index.check().ok
        else:
            index.keep_newest(0)
            with pytest.raises(ParameterError, match="1 allowed texts have no stored text: disallow"):
                index.rebuild(text=TextRules.chars(shingle=3))
            assert index.add("c", "one two three four five six") == [] and len(index.allowed()) == 1


def test_merging_compares_with_what_is_allowed_here() -> None:
    """Documents set aside elsewhere come with their fingerprints; what is allowed there is not allowed here."""
    with Index(":memory:", SETS, text=WORDS) as index, Index(":memory:", SETS, text=WORDS) as other:
        other.add_many([("a", REPLY), ("b", REPLY), ("c", OTHER), ("d", OTHER)])
        other.allow(REPLY)
        index.allow(OTHER)
        assert index.merge(other).matched == 1
        assert clusters(index) == [("a", "b")] and index.check().ok


def test_other_objects_and_threads_see_it_at_once(tmp_path: Path) -> None:
    """An index that is open already compares with a text that was just allowed, and no more when it is withdrawn."""
    path = tmp_path / "index.db"
    with Index(path, SETS, text=WORDS) as one, Index(path) as other:
        one.add("a", REPLY)
        assert keys(other.query(REPLY)) == ["a"]
        run_threads(partial(one.allow, REPLY))
        assert other.query(REPLY) == [] and other.add("b", REPLY) == []
        one.disallow(REPLY)
        assert keys(other.query(REPLY)) == ["a", "b"] and keys(other.add("c", REPLY)) == ["a", "b"]
        with Index(path, read_only=True) as reader, pytest.raises(ReadOnlyError):
            reader.allow(REPLY)


def test_wrong_calls_are_refused_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Codes, an unknown key, too many."""
    with Index(":memory:", SETS, text=WORDS) as index:
        with pytest.raises(KeyNotFoundError):
            index.allow(key="a")
        assert index.disallow(REPLY) == 0 and index.disallow(id=1) == 0
        monkeypatch.setattr(Allowed, "MOST", 1)
        index.allow(REPLY)
        with pytest.raises(ParameterError, match="1 texts are allowed"):
            index.allow(OTHER)
    with Index(":memory:", BinaryCode(bits=64)) as index:
        index.add_code("a", 1)
        with pytest.raises(ParameterError, match="takes codes"):
            index.allow(key="a")


def test_check_finds_and_repairs_damage(index: Index) -> None:
    """A value that was changed, a document without its text, a fingerprint that should be set aside."""
    index.allow(REPLY)
    run = index.connection.execute
    run("UPDATE neardup_allowed_document SET value = zeroblob(8) WHERE document_id = 1")
    assert any("set aside" in problem for problem in index.check().problems)
    repaired = index.check(repair=True)
    assert index.check().ok and clusters(index) == [("c", "d")]
    lost = any("lost their fingerprint" in problem for problem in repaired.problems)
    assert lost != bool(index.stats()["settings"]["store_text"])
    run("DELETE FROM neardup_allowed")
    run("UPDATE neardup_setting SET value = value + 1 WHERE name IN ('generation', 'allowed')")
    assert index.check().problems != ()
    index.check(repair=True)
    assert index.check().ok and index.stats()["allowed"] == 0


def test_the_commands(tmp_path: Path) -> None:
    """`allow` and `disallow` say what they did, and the exit codes whether there was anything."""
    path = tmp_path / "index.db"
    with Index(path, SETS, text=WORDS, store_text=True) as index:
        index.add_many([("a", REPLY), ("b", REPLY)])
    assert run("allow", path, "--list") == (1, "")
    assert run("allow", path, REPLY, "--note", "reply") == (0, "allowed: 2 stored documents now match nothing\n")
    assert run("allow", path, "--key", "a", "--json") == (0, '{"documents": 0}\n')
    code, out = run("allow", path, "--list", "--json")
    assert code == 0 and json.loads(out)["text"] == REPLY and json.loads(out)["note"] == "reply"
    assert run("allow", path, "--list")[1].split("\t")[2:] == ["reply", f"{REPLY}\n"]
    assert "an allowed text" in run("explain", path, "a", "b")[1]
    assert run("disallow", path, "--id", 1) == (0, "1 allowed text withdrawn\n") and run("disallow", path, REPLY)[0] == 1
    assert run("allow", path)[0] == 2 and run("disallow", path, REPLY, "--id", 1)[0] == 2 and run("allow", path, "")[0] == 2


def test_foreign_keys_of_the_applications() -> None:
    """On a connection where SQLite enforces them, a document that is set aside can be deleted."""
    with closing(apsw.Connection(":memory:")) as connection, Index(connection, MinHash()) as index:
        connection.execute("PRAGMA foreign_keys = ON")
        index.add("a", "the quick brown fox jumps over the lazy dog")
        index.allow("the quick brown fox jumps over the lazy dog")
        assert index.delete("a") and len(index) == 0 and index.check().ok


@pytest.mark.parametrize("counter", [2**63 - 1, -5, "'many'"])
def test_a_damaged_counter_of_allowed_texts(counter: Any) -> None:
    """check() names it, and a repair leaves room for the next text."""
    with Index(":memory:", MinHash()) as index:
        index.allow("the quick brown fox jumps over the lazy dog")
        index.connection.execute(f"UPDATE sqlite_sequence SET seq = {counter} WHERE name = 'neardup_allowed'")
        assert index.check().problems[0].startswith("highest ids that are not numbers of the right size: neardup_allowed")
        assert index.check(repair=True).ok
        index.allow("a text that is like no other one of these")
        assert len(list(index.allowed())) == 2 and index.check().ok
