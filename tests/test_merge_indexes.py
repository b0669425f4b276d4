"""Which indexes can be merged: of one file, of other settings, in transactions, while others write."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest
from cases import one_test
from load import asked_meanwhile, in_another_thread, run_threads
from merging import TEXTS, documents
from support import SETS, WORDS, split

from neardup_db import BusyError, ClosedError, Index, MinHash, MismatchError, ParameterError, SimHash, TextRules, limits
from neardup_db.store.ingest.segment import Segment
from neardup_db.store.ingest.stored import Stored


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
    with Index(":memory:", SETS, text=WORDS, window=timedelta(hours=1)) as index, Index(":memory:", SETS, text=WORDS) as other:
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
        b.add_many((number, f"some words {number // 2}") for number in range(100))
        assert a.merge(b).matched == 50
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
            assert asked_meanwhile(lambda: b.delete("b5")) == [True]
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


@one_test(
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


def _another(text: str) -> list[str]:
    return text.split()


def test_rules_with_functions(tmp_path: Path) -> None:
    """A file whose rules work by a function of the caller's is merged by path into an index with the same one, and no other."""
    rules, others = TextRules(tokens=split, shingle=1), TextRules(tokens=_another, shingle=1)
    with Index(tmp_path / "a.db", MinHash(), text=rules) as index:
        index.add("a", "one two three")
    with Index(":memory:", MinHash(), text=rules) as index:
        assert index.merge(tmp_path / "a.db").added == 1
    for different in (others, None):
        with Index(":memory:", MinHash(), text=different) as index, pytest.raises(MismatchError, match="support:split"):
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
    with Index(tmp_path / "a.db") as a, Index(tmp_path / "a.db") as again, Index(":memory:", MinHash(), **options) as b:
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
