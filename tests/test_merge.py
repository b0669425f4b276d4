"""The documents of another index into this one: as if all had been added to one, without a fingerprint made again."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest
from load import in_another_thread, run_threads
from support import CASES, FAR, PAST, SETS, SOON, WORDS, Case, Model
from test_joins import contents

from neardup_db import (
    BinaryCode,
    BusyError,
    ClosedError,
    CorruptIndexError,
    DuplicateKeyError,
    FormatError,
    Index,
    MinHash,
    MismatchError,
    NearDupError,
    ParameterError,
    SimHash,
    TextRules,
    limits,
)
from neardup_db.store.ingest.segment import Segment
from neardup_db.store.ingest.stored import Stored

TEXTS = ["one two three", "one two three four", "five six seven", "five six seven", "eight nine ten", ""]


def put(index: Index, case: Case, key: Any, content: Any, **more: Any) -> None:
    (index.add_code if case.codes else index.add)(key, content, **more)


def tuples(matches: Any) -> list[tuple[Any, ...]]:
    return [(one.key, one.similarity, one.distance) for one in matches]


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
    made = [(number, content, chance.choice([None, None, "g", 7])) for number, content in enumerate(contents(case, 45, 3))]
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


def documents(index: Index, without_found: bool = False) -> list[Any]:
    """All that is stored of documents, less their numbers, in their order."""
    sql = """SELECT d.key, g.name, f.value, d.token_count, d.added_at, d.last_seen, d.times_seen, d.expires_at, d.metadata, d.text
             FROM neardup_document d LEFT JOIN neardup_group g ON g.id = d.group_id
             LEFT JOIN neardup_fingerprint f ON f.id = d.fingerprint_id ORDER BY d.id"""
    return index.connection.execute(sql).fetchall()


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[tuple[Index, Index]]:
    """Two files of sets of words with their texts: three documents in one, others in the other."""
    options: dict[str, Any] = {"text": WORDS, "store_text": True}
    with Index(tmp_path / "a.db", SETS, **options) as a, Index(tmp_path / "b.db", SETS, **options) as b:
        a.add_many(enumerate(TEXTS[:3]))
        b.add_many({"key": f"b{number}", "text": text, "metadata": {"of": number}} for number, text in enumerate(TEXTS))
        yield a, b


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


# ---- which indexes ---------------------------------------------------------------------------------------------------------


@pytest.mark.posix("links")
def test_an_index_is_not_merged_into_itself(tmp_path: Path) -> None:
    """By whatever name, object or connection it comes, it is refused, and nothing changes."""
    path = tmp_path / "a.db"
    with Index(path, MinHash()) as index, Index(path) as again:
        index.add("a", "one two three")
        (tmp_path / "link.db").symlink_to(path)
        with closing(apsw.Connection(str(path))) as connection, Index(connection) as third:
            for other in (index, again, third, path, tmp_path / "link.db"):
                for mine in (index, third):
                    with pytest.raises(ParameterError, match="other is this index itself"):
                        mine.merge(other)
        os.link(path, tmp_path / "hard.db")
        with pytest.raises(ParameterError, match="other is this index itself"):
            index.merge(tmp_path / "hard.db")
        assert list(index) == ["a"]
    with Index(":memory:", MinHash()) as index, pytest.raises(ParameterError, match="itself"):
        index.merge(index)


def test_two_indexes_of_one_file(tmp_path: Path) -> None:
    """By two connections, or by one, one goes into the other; by one connection all of it in one transaction."""
    path = tmp_path / "a.db"
    with Index(path, MinHash(), text=WORDS) as a, Index(path, MinHash(), text=WORDS, name="two") as b:
        b.add_many(enumerate(TEXTS))
        assert a.merge(b, commit_every=2).added == 6
        assert a.clusters() == b.clusters() and a.check().ok and b.check().ok
    for target in (str(path), ":memory:"):
        with (
            closing(apsw.Connection(target)) as connection,
            Index(connection, MinHash(), text=WORDS, name="mine") as a,
            Index(connection, MinHash(), text=WORDS, name="two") as b,
        ):
            b.add_many(enumerate(TEXTS), if_exists="replace")
            with pytest.raises(ParameterError, match="commit_every=2: both indexes are on one connection"):
                a.merge(b, commit_every=2)
            assert a.merge(b).added == 6
            assert not connection.in_transaction
            assert a.clusters() == b.clusters() and a.check().ok and b.check().ok


def test_an_index_of_another_name(tmp_path: Path) -> None:
    """The documents of the Index that was given come, not those of one in its file that has the name of this one."""
    with (
        Index(tmp_path / "b.db", MinHash(), text=WORDS) as of_this_name,
        Index(tmp_path / "b.db", MinHash(), text=WORDS, name="two") as other,
        Index(tmp_path / "a.db", MinHash(), text=WORDS) as index,
    ):
        of_this_name.add_many((f"wrong {number}", text) for number, text in enumerate(TEXTS))
        other.add_many(enumerate(TEXTS))
        assert index.merge(other).added == 6
        assert list(index) == list(range(6)) and index.clusters() == other.clusters() and index.check().ok


@pytest.mark.parametrize("if_exists", ["error", "ignore", "replace"])
def test_what_is_too_old_for_a_window_stays_behind(if_exists: Any) -> None:
    """As what has expired does: it is no document here, and does not take the place of one that is."""
    with (
        Index(":memory:", SETS, text=WORDS, window=timedelta(hours=1)) as index,
        Index(":memory:", SETS, text=WORDS) as other,
    ):
        other.add_many([("a", "five six"), ("b", "eight nine"), ("c", "one two")])
        other.connection.execute("UPDATE neardup_document SET added_at = added_at - 3600000 WHERE key <> 'c'")
        index.add("a", "one two three")
        report = index.merge(other, if_exists=if_exists)
        assert (report.added, report.total) == (1, 1) and list(index) == ["a", "c"]
        assert index.get("a").token_count == 3 and index.check().ok


def test_an_index_on_the_connection_of_another(small_limits: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where one index has the connection of the other, no thread writes while it is read."""
    writing: list[int] = []
    add, page = Segment.add, Stored._page

    def added(segment: Segment, *rest: Any) -> None:
        writing.append(1)
        add(segment, *rest)
        writing.pop()

    def read(stored: Stored, after: int) -> Any:
        assert writing == []
        found = page(stored, after)
        assert writing == []
        return found

    monkeypatch.setattr(Segment, "add", added)
    monkeypatch.setattr(Stored, "_page", read)
    with Index(":memory:", MinHash(), text=WORDS) as a, Index(a.connection, MinHash(), text=WORDS, name="two") as b:
        b.add_many((number, f"some words {number // 2}") for number in range(300))
        assert a.merge(b).matched == 150
        assert a.clusters() == b.clusters() and a.check().ok


def test_in_a_transaction_of_the_callers(parts: tuple[Index, Index]) -> None:
    """A merge belongs to the transaction around it; what the other's open transaction has stored comes along in its thread."""
    a, b = parts
    before = documents(a)
    with pytest.raises(ZeroDivisionError), a.transaction():
        assert a.merge(b, commit_every=2).added == 6
        assert len(a) == 9
        raise ZeroDivisionError
    assert documents(a) == before
    with pytest.raises(ZeroDivisionError), b.transaction():
        b.add("not yet", "nine ten eleven")
        assert a.merge(b, if_exists="ignore").added == 7
        raise ZeroDivisionError
    assert "not yet" in a and "not yet" not in b
    with closing(apsw.Connection(":memory:")) as connection, Index(connection, SETS, text=WORDS, store_text=True) as index:
        connection.execute("BEGIN; CREATE TABLE own (x)")
        index.merge(a)
        assert connection.in_transaction and len(index) == 10
        connection.execute("ROLLBACK; BEGIN")
        assert len(index) == 0
        index.merge(b)
        connection.execute("COMMIT")
        assert len(index) == 6 and index.check().ok
        assert a.merge(index, if_exists="ignore").ignored == 6


def test_inside_the_records_of_a_load(parts: tuple[Index, Index]) -> None:
    """A merge inside the records of `add_many` of another index takes its records in hand along."""
    a, b = parts
    a.merge(b)

    def theirs() -> Iterator[tuple[str, str]]:
        yield "in hand", "other words"
        assert a.merge(b, if_exists="ignore").added == 1
        yield "later", "other words"

    b.add_many(theirs())
    assert "in hand" in a and "later" not in a and a.check().ok


def test_one_state_of_the_other(parts: tuple[Index, Index], small_limits: None) -> None:
    """What is stored there meanwhile, by this thread or another, by this object or another, is not merged, and nobody waits."""
    a, b = parts
    wrote: list[int] = []

    def write(done: int) -> None:
        if not wrote:
            b.add("meanwhile", "some words")
            thread = threading.Thread(target=lambda: b.delete("b5"))
            thread.start()
            thread.join(20)
            assert not thread.is_alive()
        wrote.append(done)

    expected = documents(b)
    assert a.merge(b, commit_every=2, progress=write).added == 6
    assert documents(a)[3:] == expected
    assert "b5" not in b and "meanwhile" in b and wrote[-1] == 6 and len(wrote) > 1


def test_nobody_waits_for_a_transaction_of_the_other(parts: tuple[Index, Index]) -> None:
    """While another thread is inside a transaction of the other index, its last committed state is merged."""
    a, b = parts
    with in_another_thread(b.transaction()):
        assert a.merge(b).added == 6
    assert a.check().ok


def test_two_threads_merge_into_each_other(parts: tuple[Index, Index]) -> None:
    """Each has all documents afterwards."""
    a, b = parts
    run_threads(lambda: a.merge(b, if_exists="ignore"), lambda: b.merge(a, if_exists="ignore"))
    a.merge(b, if_exists="ignore")
    b.merge(a, if_exists="ignore")
    assert set(a) == set(b) == {0, 1, 2, *(f"b{number}" for number in range(6))}
    assert a.check().ok and b.check().ok


@pytest.mark.parametrize(
    ("scheme", "rules", "options", "message"),
    [
        (MinHash(), TextRules(shingle=5), {}, "shingle=5 instead of 3"),
        (MinHash(num_perm=64), None, {}, "num_perm=64"),
        (MinHash(seed=7), None, {}, "seed=7"),
        (SimHash(), None, {}, "SimHash"),
        (MinHash(exact=True), None, {}, "exact=True"),
    ],
)
def test_other_settings_are_refused(tmp_path: Path, scheme: Any, rules: Any, options: Any, message: str) -> None:
    """What differs is named with the file, nothing is stored; bands, threshold and recorded matches may differ."""
    with Index(tmp_path / "other.db", scheme, text=rules, **options) as other:
        other.add("b", "one two three four")
    with Index(":memory:", MinHash()) as index:
        with pytest.raises(MismatchError, match=rf"(?s)other.db.*{message}"):
            index.merge(tmp_path / "other.db")
        assert len(index) == 0
    with Index(tmp_path / "loose.db", MinHash(threshold=0.5), record_matches=False) as other:
        other.add_many([("b", "one two three four"), ("c", "one two three four five")])
        with Index(":memory:", MinHash(threshold=0.3)) as index:
            assert index.merge(other).matched == 1
            assert [one.keys for one in index.clusters()] == [("b", "c")]


def test_exact_indexes_with_and_without_texts(tmp_path: Path) -> None:
    """One without texts takes the fingerprints of one with texts; the other way it is refused, with the remedy."""
    scheme = MinHash(exact=True)
    with Index(":memory:", scheme, store_text=True) as texts, Index(":memory:", scheme) as hashes:
        texts.add("a", "one two three four")
        hashes.add("b", "one two three four")
        with pytest.raises(MismatchError, match=r"this index stores texts, and the other index has none.*rebuild\("):
            texts.merge(hashes)
        assert hashes.merge(texts).matched == 1


def test_texts_go_where_both_store_them() -> None:
    """An index that stores none gets none; one that stores them takes no document without."""
    with Index(":memory:", MinHash(), store_text=True) as texts, Index(":memory:", MinHash()) as none:
        texts.add("a", "one two three")
        none.add("b", "one two three")
        assert none.merge(texts).matched == 1 and none.get("a").text is None
        with pytest.raises(MismatchError, match="this index stores texts"):
            texts.merge(none, if_exists="ignore")
        assert list(texts) == ["a"] and texts.check().ok and none.check().ok


def _hash(text: str) -> list[str]:
    return text.split()


def _another(text: str) -> list[str]:
    return text.split()


def test_rules_with_functions(tmp_path: Path) -> None:
    """A file whose rules work by a function of the caller's is merged by path into an index with the same one, and no other."""
    rules, others = TextRules(tokens=_hash, shingle=1), TextRules(tokens=_another, shingle=1)
    with Index(tmp_path / "a.db", MinHash(), text=rules) as index:
        index.add("a", "one two three")
    with Index(":memory:", MinHash(), text=rules) as index:
        assert index.merge(tmp_path / "a.db").added == 1
    for different in (others, None):
        with Index(":memory:", MinHash(), text=different) as index, pytest.raises(MismatchError, match="_hash"):
            index.merge(tmp_path / "a.db")


@pytest.mark.parametrize("changes", [{"scheme": MinHash(threshold=0.4)}, {"text": TextRules.chars()}, {"store_text": False}])
def test_a_rebuild_in_between_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]) -> None:
    """Between two transactions of a merge another connection may rebuild the index: if nothing fits any more, what was committed
    stays and the rest is refused."""
    monkeypatch.setattr(limits, "BATCH_RECORDS", 2)
    rows = Stored.rows

    def rebuilt(stored: Stored) -> Iterator[Any]:
        for number, part in enumerate(rows(stored)):
            if number == 1:
                again.rebuild(**changes)
            yield part

    monkeypatch.setattr(Stored, "rows", rebuilt)
    options: dict[str, Any] = {"text": WORDS, "store_text": True}
    Index(tmp_path / "a.db", MinHash(), **options).close()
    with (
        Index(tmp_path / "a.db") as a,
        Index(tmp_path / "a.db") as again,
        Index(":memory:", MinHash(), **options) as b,
    ):
        b.add_many(enumerate(TEXTS))
        if "text" not in changes:
            assert a.merge(b, commit_every=2).added == 6
            assert [len(one.keys) for one in again.clusters()] == ([2, 2] if "scheme" in changes else [2])
        else:
            with pytest.raises(MismatchError):
                a.merge(b, commit_every=2)
            assert len(again) == 2
        assert again.check().ok


def test_a_window_that_changes_in_between_is_noticed(
    parts: tuple[Index, Index], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two transactions of a merge: the rest is refused, since other documents may be too old now."""
    a, b = parts
    monkeypatch.setattr(limits, "BATCH_RECORDS", 2)
    rows = Stored.rows

    def changed(stored: Stored) -> Iterator[Any]:
        for number, part in enumerate(rows(stored)):
            if number == 1:
                again.set_window(timedelta(days=1))
            yield part

    with Index(tmp_path / "a.db") as again, monkeypatch.context() as patch:
        patch.setattr(Stored, "rows", changed)
        with pytest.raises(MismatchError, match="given another window while.*call merge again"):
            a.merge(b, commit_every=2)
    assert len(a) == 5 and a.merge(b, if_exists="ignore").added == 4 and a.check().ok


def test_read_only_and_closed(parts: tuple[Index, Index], tmp_path: Path) -> None:
    """The other may be open to read only; a closed one is a ClosedError; two that write into each other end."""
    a, b = parts
    with Index(tmp_path / "b.db", read_only=True) as reading:
        assert a.merge(reading).added == 6
    b.close()
    with pytest.raises(ClosedError):
        a.merge(b)
    assert a.check().ok


def test_a_writer_that_waits_is_told(parts: tuple[Index, Index], tmp_path: Path) -> None:
    """Where another connection writes to this file all the time, the merge is a BusyError, and nothing happened."""
    a, b = parts
    with Index(tmp_path / "a.db", timeout=0.1) as waiting, a.transaction():
        a.add("x", "some words")
        with pytest.raises(BusyError):
            waiting.merge(b)
    assert len(a) == 4


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


def test_codes_and_their_clusters() -> None:
    """Codes come along, and matches between the two are found both ways."""
    with Index(":memory:", BinaryCode(64, 3)) as a, Index(":memory:", BinaryCode(64, 3)) as b:
        a.add_codes([b"a", 1], [0, FAR])
        b.add_codes(["b", "c"], [1, FAR + 1])
        assert a.merge(b).matched == 2
        assert [one.keys for one in a.clusters()] == [(b"a", "b"), (1, "c")]
        with pytest.raises(NearDupError):
            a.merge(b)


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
