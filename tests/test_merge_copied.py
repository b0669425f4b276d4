"""An index that never had a document takes another one over as its tables stand: what comes of it is as if all had been added."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import apsw
import pytest
from disks import DISK_FULL, IO_ERROR, FailingDisk
from load import in_another_thread
from support import CASES, SETS, WORDS, Model
from test_interrupts import interrupted_at
from test_joins import contents
from test_merge import DAMAGE, TEXTS, documents, put, require_model

from neardup_db import BottomK, CorruptIndexError, DuplicateKeyError, Index, MinHash, NearDupError, SimHash
from neardup_db.store.exchange import merging
from neardup_db.store.writing.segment import Segment

OPTIONS: dict[str, Any] = {"text": WORDS, "store_text": True}


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows where documents are merged one by one."""
    calls: list[int] = []
    add = Segment.add
    monkeypatch.setattr(Segment, "add", lambda self, batch, *rest: (calls.append(len(batch)), add(self, batch, *rest))[1])
    return calls


@pytest.fixture
def other(tmp_path: Path) -> Any:
    """Sets of words in a file, with their texts."""
    with Index(tmp_path / "other.db", SETS, **OPTIONS) as index:
        index.add_many({"key": f"b{number}", "text": text, "metadata": {"of": number}} for number, text in enumerate(TEXTS))
        yield index


def attached(index: Index) -> set[str]:
    """The databases that the connection of an index has, less the temporary one."""
    return {name for _, name, _ in index.connection.execute("PRAGMA database_list")} - {"temp"}


@pytest.mark.parametrize("cut", ["usual", "small"])
@pytest.mark.parametrize("name", CASES)
def test_a_history_is_taken_over(
    tmp_path: Path, name: str, cut: str, added: list[int], monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """After adds, replacements and deletions of documents with groups and equal copies: answers, pairs, clusters and report are
    those of a merge document by document, later documents find what is there, and nothing is given a second time."""
    if cut == "small":
        request.getfixturevalue("small_limits")
    case, chance = CASES[name], random.Random(name + cut)
    made, options = contents(case, 60, 3), {"text": case.rules, "store_text": case.store_text}
    model = Model(case)
    with Index(tmp_path / "other.db", case.scheme, **options) as other:
        for key, content in enumerate(made[:50]):
            group = chance.choice([None, None, "g", 7])
            put(other, case, key, content, group=group)
            model.put(key, content, group)
        for key in chance.sample(range(50), 15):
            other.delete(key)
            del model.entries[key]
        with Index(tmp_path / "one.db", case.scheme, **options) as one, Index(":memory:", case.scheme, **options) as two:
            added.clear()
            told = one.merge(other)
            assert added == [] and told.added == len(model.entries)
            monkeypatch.setattr(merging, "copy_whole", lambda *_: None)
            assert two.merge(other) == told and added != []
            require_model(one, model)
            assert documents(one) == documents(two) == documents(other)
            for key, content in enumerate(made[50:], 50):
                put(one, case, key, content)
                model.put(key, content, None)
            require_model(one, model)
            assert attached(one) == {"main"}


@pytest.mark.parametrize("recorded", [True, False], ids=["recorded", "unrecorded"])
def test_times_of_matches_and_settings(tmp_path: Path, recorded: bool, added: list[int]) -> None:
    """The copy has a generation of its own, and whoever has the file open sees the documents and the crowds."""
    with (
        Index(tmp_path / "other.db", SETS, text=WORDS, record_matches=recorded) as other,
        Index(tmp_path / "a.db", SETS, text=WORDS, record_matches=recorded) as a,
        Index(tmp_path / "a.db") as again,
    ):
        other.add_many((number, f"the same words again {number % 300}") for number in range(600))
        added.clear()
        assert len(again) == 0
        assert a.merge(other, commit_every=100).added == 600 and added == []
        assert len(again) == 600 and again.clusters() == other.clusters()
        again.add("later", "the same words again 17")
        assert a.clusters()[0].keys[-1] == "later" and a.check().ok
        generations = {index.connection.execute("SELECT value FROM neardup_setting WHERE name = 'generation'").get
                       for index in (a, other)}  # fmt: skip
        assert len(generations) == 2


def _expires(index: Index) -> None:
    index.add("gone", "some words")
    index.connection.execute("UPDATE neardup_document SET expires_at = 1 WHERE key = 'gone'")


NOT_COPIED: dict[str, tuple[dict[str, Any], Callable[[Index], Any], Callable[[Index], Any]]] = {
    "something has expired": ({}, _expires, len),
    "this one had a document": ({}, len, lambda index: (index.add("x", "y"), index.delete("x"))),
    "other tables": ({}, lambda index: index.dismiss("b0", "b1"), len),
    "changes are noted": ({}, len, lambda index: index.changes()),
    "another threshold": ({"scheme": MinHash(threshold=0.3, exact=True, num_perm=64, bands=64, rows=1)}, len, len),
    "another window": ({"window": timedelta(days=1)}, len, len),
    "no matches": ({"record_matches": False}, len, len),
    "page checksums": ({"checksums": True}, len, len),
}


@pytest.mark.parametrize("why", NOT_COPIED)
def test_what_is_merged_one_by_one(tmp_path: Path, other: Index, why: str, added: list[int]) -> None:
    """Where one of the two does not allow a copy, the documents come all the same, and by its own settings."""
    options, change, begin = NOT_COPIED[why]
    change(other)
    with Index(tmp_path / "a.db", **{"scheme": SETS, **OPTIONS, **options}) as index:
        begin(index)
        added.clear()
        assert index.merge(other).added == 6 and sum(added) == 6
        assert set(index) == {f"b{number}" for number in range(6)} and index.check().ok


def test_inside_a_transaction_documents_come_one_by_one(tmp_path: Path, other: Index, added: list[int]) -> None:
    """What a transaction takes back is gone, and what the other's own transaction has stored comes along."""
    with Index(tmp_path / "a.db", SETS, **OPTIONS) as index:
        with pytest.raises(ZeroDivisionError), index.transaction():
            assert index.merge(other).added == 6
            raise ZeroDivisionError
        assert len(index) == 0
        with other.transaction():
            other.add("mine", "quite other words")
            assert index.merge(other).added == 7
        assert index.check().ok


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_named_and_nothing_is_taken_over(tmp_path: Path, other: Index, kind: str) -> None:
    """A document that is not as it was written is a CorruptIndexError with its key, and the new index stays empty."""
    sql, message = DAMAGE[kind]
    with closing(apsw.Connection(other.connection.filename)) as connection:
        connection.execute(sql)
    with Index(tmp_path / "a.db", SETS, **OPTIONS) as index:
        with pytest.raises(CorruptIndexError, match=rf"other.db: document 2 \(('b1'|1.5)\) of index 'neardup'.*{message}"):
            index.merge(other)
        assert len(index) == 0 and index.check().ok


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM sqlite_sequence",
        "UPDATE sqlite_sequence SET seq = NULL",
        "UPDATE sqlite_sequence SET seq = 'x' WHERE name = 'neardup_document'",
        f"UPDATE sqlite_sequence SET seq = {2**62} WHERE name = 'neardup_fingerprint'",
        "UPDATE sqlite_sequence SET seq = 1 WHERE name = 'neardup_document'",
        "UPDATE neardup_document SET id = -1 WHERE id = 6",
    ],
)
def test_damaged_counters_are_not_taken_over(tmp_path: Path, other: Index, sql: str) -> None:
    """Whatever the counters of ids in the other say, the new index is sound and takes further documents."""
    with closing(apsw.Connection(other.connection.filename)) as connection:
        connection.execute(sql)
    with Index(tmp_path / "a.db", SETS, **OPTIONS) as index:
        report = index.merge(other)
        assert report.added == len(index) >= 5 and index.check().ok
        index.add("further", "quite other words")
        assert "further" in index and index.check().ok


UNFIT: dict[str, str] = {
    "label of nobody else": "UPDATE neardup_document SET cluster_id = id WHERE id = 5",
    "labels gone": "UPDATE neardup_document SET cluster_id = NULL",
    "label never given": "UPDATE neardup_document SET cluster_id = 99 WHERE cluster_id = 4",
    "one label for two clusters": "UPDATE neardup_document SET cluster_id = 4 WHERE cluster_id IS NOT NULL",
    "matches gone": "DELETE FROM neardup_match",
    "match with nobody": "INSERT INTO neardup_match VALUES (99, 1, 1.0, NULL, 0)",
    "match with itself": "INSERT INTO neardup_match VALUES (2, 2, 1.0, NULL, 0)",
    "match across clusters": "INSERT INTO neardup_match VALUES (4, 1, 1.0, NULL, 0)",
    "rows gone": "DELETE FROM neardup_minhash_band",
    "row gone": "DELETE FROM neardup_minhash_band WHERE bucket = (SELECT min(bucket) FROM neardup_minhash_band)",
    "row too many": "INSERT INTO neardup_minhash_band VALUES (12345, 0, 0, 77)",
    "crowd of one": "UPDATE neardup_fingerprint SET crowd = 1 WHERE id = 1",
    "fingerprint of nobody": "INSERT INTO neardup_fingerprint SELECT 9, 5, value, value_hash, 0 FROM neardup_fingerprint "
    "WHERE id = 1; UPDATE sqlite_sequence SET seq = 9 WHERE name = 'neardup_fingerprint'",
    "fingerprint twice": "INSERT INTO neardup_fingerprint SELECT 9, group_id, value, value_hash, 0 FROM neardup_fingerprint "
    "WHERE id = 3; UPDATE neardup_document SET fingerprint_id = 9 WHERE id = 4; "
    "UPDATE sqlite_sequence SET seq = 9 WHERE name = 'neardup_fingerprint'",
    "fingerprint of another group": "UPDATE neardup_fingerprint SET group_id = 2 WHERE id = 1",
}
"""What somebody did to `other`, whose documents 1 and 2 are alike, and 3 and 4 the same."""

UNFIT_ROWS: dict[str, str] = {
    "rows gone": "DELETE FROM neardup_code_bucket",
    "row gone": "DELETE FROM neardup_code_bucket WHERE id = (SELECT min(id) FROM neardup_code_bucket)",
    "row of other bytes": "UPDATE neardup_code_bucket SET entries = zeroblob(length(entries)) "
    "WHERE id = (SELECT min(id) FROM neardup_code_bucket)",
    "hash gone": "DELETE FROM neardup_bottomk_prefix WHERE hash = (SELECT max(hash) FROM neardup_bottomk_prefix)",
    "row of no bytes": "UPDATE neardup_code_bucket SET entries = x'' WHERE id = (SELECT min(id) FROM neardup_code_bucket)",
}


def require_healed(path: Path, added: list[int], scheme: Any, options: dict[str, Any]) -> None:
    """The documents of a file come one by one, and are one sound index."""
    with Index(path) as other:
        assert not other.check().ok
        keys = list(other)
        added.clear()
        with Index(path.with_name("a.db"), scheme, **options) as index:
            assert index.merge(other).added == sum(added) == len(keys)
            assert index.check().problems == () and list(index) == keys


@pytest.mark.parametrize("kind", UNFIT)
def test_what_does_not_fit_together_is_made_again(tmp_path: Path, other: Index, added: list[int], kind: str) -> None:
    """Labels, matches, fingerprints and rows that contradict each other are not taken over: the new index finds its own."""
    other.close()
    with closing(apsw.Connection(str(tmp_path / "other.db"))) as connection:
        connection.execute(UNFIT[kind])
    require_healed(tmp_path / "other.db", added, SETS, OPTIONS)
    with Index(tmp_path / "a.db") as index:
        assert [one.keys for one in index.clusters()] == [("b0", "b1"), ("b2", "b3")]


@pytest.mark.parametrize("kind", UNFIT_ROWS)
def test_rows_that_lack_are_made_again(tmp_path: Path, added: list[int], kind: str) -> None:
    """A candidate table that lacks rows, or has damaged ones, is not taken over."""
    scheme = BottomK() if "bottomk" in UNFIT_ROWS[kind] else SimHash()
    with Index(tmp_path / "other.db", scheme) as other:
        other.add_many((number, f"some words of number {number} that are not the same") for number in range(40))
    with closing(apsw.Connection(str(tmp_path / "other.db"))) as connection:
        connection.execute(UNFIT_ROWS[kind])
    require_healed(tmp_path / "other.db", added, scheme, {})


def test_a_progress_that_fails_takes_all_back(tmp_path: Path, other: Index) -> None:
    """Nothing is stored, the other's file is let go, and the next merge succeeds; `progress` sees all documents."""
    with Index(tmp_path / "a.db", SETS, **OPTIONS) as index:
        with pytest.raises(ZeroDivisionError):
            index.merge(other, progress=lambda done: done // 0)
        assert len(index) == 0 and attached(index) == {"main"}
        seen: list[tuple[int, int]] = []
        index.merge(other, progress=lambda done: seen.append((done, len(index))))
        assert seen == [(6, 6)] and index.check().ok


def test_nobody_waits_for_a_copy(tmp_path: Path, other: Index) -> None:
    """Writers of the other go on before its end and after; what they store is not in the copy."""
    before = documents(other)
    with Index(tmp_path / "a.db", SETS, timeout=0.2, **OPTIONS) as index:
        with in_another_thread(other.transaction()):
            assert index.merge(other, progress=lambda done: None).added == 6
        assert documents(index) == before
    with Index(tmp_path / "b.db", SETS, **OPTIONS) as index:
        index.merge(tmp_path / "other.db", progress=lambda done: other.add("meanwhile", "quite other words"))
        assert documents(index) == before and "meanwhile" in other


def test_what_had_the_highest_ids_is_gone(tmp_path: Path, added: list[int]) -> None:
    """Labels and ids of documents that were deleted from the other are not given again."""
    with Index(tmp_path / "other.db", SETS, text=WORDS) as other, Index(tmp_path / "a.db", SETS, text=WORDS) as index:
        other.add_many((number, "the same words") for number in range(3))
        other.delete(2)
        added.clear()
        assert index.merge(other).matched == 1 and added == []
        label = index.connection.execute("SELECT DISTINCT cluster_id FROM neardup_document").get
        index.add_many((key, "a second set of words") for key in "xy")
        labels = {row[0] for row in index.connection.execute("SELECT cluster_id FROM neardup_document")}
        assert len(labels) == 2 and label in labels and index.check().ok


def test_only_a_window_of_time_that_a_clock_can_reach(tmp_path: Path) -> None:
    """A time of adding to which the length of a window cannot be added is damage, whichever way the document comes."""
    with Index(tmp_path / "other.db", MinHash()) as other:
        other.add("a", "one two three")
        other.connection.execute("UPDATE neardup_document SET added_at = ?", (2**63 - 1,))
        for options in ({}, {"window": timedelta(days=1)}):
            with Index(":memory:", MinHash(), **options) as index:
                with pytest.raises(CorruptIndexError, match=r"document 1 \('a'\).*its time of adding is out of range"):
                    index.merge(other)
                assert len(index) == 0


def test_a_dismissed_pair_of_another_group_is_not_taken_over(tmp_path: Path) -> None:
    """A key that is here in another group is refused, and neither documents nor dismissed pairs are taken over."""
    with Index(tmp_path / "other.db", MinHash()) as other, Index(":memory:", MinHash()) as index:
        for key in "ab":
            other.add(key, "one two three four five", group="g")
        index.add("a", "one two three four five")
        other.dismiss("a", "b")
        with pytest.raises(DuplicateKeyError, match="'a' is already in no group"):
            index.merge(other, if_exists="ignore")
        assert list(index) == ["a"] and list(index.dismissed()) == []


def test_windows_of_the_same_length(tmp_path: Path, added: list[int]) -> None:
    """What was in the window there is in it here, and later documents push it out as they would there."""
    for number, window in enumerate((3, timedelta(days=1))):
        with (
            Index(tmp_path / f"other{number}.db", SETS, text=WORDS, window=window) as other,
            Index(tmp_path / f"a{number}.db", SETS, text=WORDS, window=window) as index,
        ):
            for key in range(5):
                other.add(key, f"some words {key}")
            added.clear()
            index.merge(other)
            assert added == [] and documents(index) == documents(other)
            for one in (index, other):
                one.add("new", "quite other words")
            assert list(index) == list(other) and index.check().ok


def test_wherever_a_copy_is_interrupted(tmp_path: Path, other: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    """All documents are there or none, others may write, and the same object takes the rest over."""
    moment, more = 0, True
    while more:
        moment += 83
        with Index(tmp_path / f"{moment}.db", SETS, timeout=0.1, **OPTIONS) as index:
            more = interrupted_at(moment, partial(index.merge, other))
            assert len(index) in ((0, 6) if more else (6,)), f"half of it at moment {moment}"
            assert not index.connection.in_transaction and index.check().ok
            with Index(tmp_path / f"{moment}.db") as again:
                again.add("x", "own words")
            other.add("y", "own words", if_exists="replace")
            index.merge(other, if_exists="ignore")
            assert len(index) == 8 and index.check().ok
            other.delete("y")
    assert moment > 100


@pytest.mark.parametrize("errors", [IO_ERROR, DISK_FULL], ids=["io-error", "disk-full"])
def test_a_copy_on_a_disk_that_fails(tmp_path: Path, other: Index, errors: dict[str, int]) -> None:
    """Whichever call fails, all documents are there or none, or the object says that this is not known."""
    source = other.connection.filename
    other.close()
    with FailingDisk() as disk:
        for n in count(1, 2):
            path = tmp_path / f"{n}.db"
            index = Index(path, SETS, **OPTIONS)
            disk.arm(errors, n, False)
            raised = None
            try:
                index.merge(source)
            except NearDupError as error:
                raised = error
            failed = disk.disarm()
            index.close()
            with Index(path) as index:
                assert len(index) == 6 if raised is None else len(index) in (0, 6)
                assert index.check().ok
            if not failed:
                break
    assert raised is None and n > 10
