"""Interruptions, races and damage: nothing is lost, nothing is left behind, and the right error comes out."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest
from cases import one_test
from load import run_threads
from standard import MODULE

import neardup_db.store.layout.opening as opening
from neardup_db import BinaryCode, BottomK, CorruptIndexError, Index, MinHash, MismatchError, SimHash

# ---- creating a file -------------------------------------------------------------------------------------------------


def test_a_file_that_another_process_filled_meanwhile_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two create the same file with different parameters: the second is refused, and the first's index stays."""
    path = tmp_path / "index.db"
    load = opening.load

    def other_was_faster(connection: Any) -> None:
        monkeypatch.setattr(opening, "load", load)
        with Index(path, MinHash(threshold=0.8)) as other:
            other.add("a", "one two three")
        load(connection)

    monkeypatch.setattr(opening, "load", other_was_faster)
    with pytest.raises(MismatchError):
        Index(path, MinHash(threshold=0.5))
    with Index(path) as index:
        assert list(index) == ["a"]


# ---- rebuilds ----------------------------------------------------------------------------------------------------------


CALLS: dict[str, Callable[[Index], Any]] = {
    "sketch": lambda index: index.add("b", "one two three four"),
    "value_maker": lambda index: index.query("one two three four"),
}
"""Calls, by the method of the scheme that ends the making of their fingerprints."""


@pytest.mark.parametrize("method", CALLS)
def test_a_fingerprint_made_while_another_thread_rebuilds_is_made_again(monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    """A rebuild between the reading of a text and its use leaves, and asks with, no fingerprint of the old scheme."""
    made = getattr(MinHash, method)
    rebuilt: list[bool] = []

    with Index(":memory:", MinHash(num_perm=32, threshold=0.5), store_text=True) as index:
        index.add("a", "one two three four")

        def first(self: MinHash, *arguments: Any, **options: Any) -> Any:
            result = made(self, *arguments, **options)
            if not rebuilt:
                rebuilt.append(True)
                run_threads(partial(index.rebuild, MinHash(num_perm=32, threshold=0.5, seed=9)))
            return result

        monkeypatch.setattr(MinHash, method, first)
        CALLS[method](index)
        assert rebuilt and "a" in [match.key for match in index.query("one two three four")]
        assert index.check().ok


# ---- interruptions -------------------------------------------------------------------------------------------------------


@pytest.mark.posix("signals")
def test_ctrl_c_while_waiting_for_another_writer_leaves_no_transaction(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """The signal arrives while BEGIN waits and is raised once it has got the lock: the lock is given back."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it in what it runs in the background
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    path = tmp_path / "index.db"
    with Index(path, MinHash()) as index:
        other = apsw.Connection(str(path))
        other.execute("BEGIN IMMEDIATE")

        def interrupt_then_let_go() -> None:
            time.sleep(0.2)
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.2)
            other.execute("ROLLBACK")

        thread = threading.Thread(target=interrupt_then_let_go)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            index.add("a", "one two three")
        thread.join()
        assert not index.connection.in_transaction
        index.add("b", "one two three")
        assert other.execute("SELECT key FROM neardup_document").fetchall() == [("b",)]
        other.close()


# ---- streams -------------------------------------------------------------------------------------------------------------


def test_a_full_transaction_is_committed_before_the_next_record_is_asked_for(tmp_path: Path) -> None:
    """With commit_every a slow stream does not keep the database locked, and others see every full transaction."""
    path = tmp_path / "index.db"
    with Index(path, MinHash()) as index, Index(path, timeout=0) as other:
        seen: list[int] = []

        def stream() -> Iterator[tuple[str, str]]:
            for number in range(5):
                if number % 2 == 0:
                    seen.append(len(other))
                    other.add(f"other {number}", "text of another writer")
                yield f"key {number}", f"text number {number}"

        assert index.add_many(stream(), commit_every=2).added == 5
        assert seen == [0, 3, 6]
        assert len(other) == 8


# ---- damage --------------------------------------------------------------------------------------------------------------

DAMAGE = [
    "UPDATE neardup_fingerprint SET value = x'00ff' WHERE id = 1",
    "UPDATE neardup_fingerprint SET value_hash = value_hash + 1 WHERE id = 1",
    "DELETE FROM neardup_fingerprint WHERE id = 1",
    "UPDATE neardup_fingerprint SET group_id = 5 WHERE id = 1",
    "INSERT INTO neardup_fingerprint SELECT 99, group_id, value, value_hash, 0 FROM neardup_fingerprint WHERE id = 1; "
    "UPDATE neardup_document SET fingerprint_id = 99 WHERE key = 'b'",
]


@one_test(damage=DAMAGE, scheme=[MinHash(), MinHash(exact=True), SimHash(), BottomK()])
def test_damaged_fingerprints_are_reported_and_made_again_from_stored_texts(scheme: Any, damage: str) -> None:
    """check() names the damage and never fails over it; with the texts at hand repair brings everything back."""
    connection = apsw.Connection(":memory:")
    connection.execute("PRAGMA foreign_keys = ON")
    with Index(connection, scheme, store_text=True) as index:
        index.add("a", "one two three four five")
        index.add("b", "one two three four five")
        index.add("c", "six seven eight nine ten")
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute(damage)
        connection.execute("PRAGMA foreign_keys = ON")
        assert index.check().problems
        report = index.check(repair=True)
        assert report.ok and report.repaired
        assert [match.key for match in index.query("one two three four five")] == ["a", "b"]
        assert [cluster.keys for cluster in index.clusters()] == [("a", "b")]


SCHEMES = [MinHash(), BottomK(), SimHash()]


@one_test(scheme=SCHEMES)
def test_a_document_with_a_damaged_fingerprint_can_be_deleted(scheme: Any) -> None:
    """It goes from its cluster without a repair, and leaves nothing of it."""
    with Index(":memory:", scheme) as index:
        text = " ".join(f"word{number}" for number in range(60))
        index.add_many([("a", text), ("b", text + " or another"), ("c", text + " with an end"), ("d", "four five six")])
        assert index.clusters()[0].keys == ("a", "b", "c")
        index.connection.execute("UPDATE neardup_fingerprint SET value = zeroblob(length(value)) WHERE id = 1")
        with pytest.raises(CorruptIndexError, match="check"):
            index.matches("a")
        assert index.delete("a") and index.check().ok
        assert [one.keys for one in index.clusters()] == [("b", "c")]
        assert index.delete_many(["b", "c", "d"]) == 3 and index.stats()["candidate_rows"] == 0


@one_test(scheme=SCHEMES)
def test_a_window_evicts_a_document_with_a_damaged_fingerprint(scheme: Any) -> None:
    """An add does not fail because an old document is damaged."""
    with Index(":memory:", scheme, window=2) as index:
        index.add_many([("a", "one two three"), ("b", "four five six")])
        index.connection.execute("UPDATE neardup_fingerprint SET value = zeroblob(length(value)) WHERE id = 1")
        assert index.add("c", "seven eight nine") == []
        index.add("d", "ten eleven twelve")
        assert list(index) == ["c", "d"] and index.check().ok


# ---- an application's own connection ---------------------------------------------------------------------------------------


@one_test(scheme=[MinHash(), SimHash(), BottomK(), BinaryCode(bits=256, max_distance=20)])
def test_enforced_foreign_keys_do_not_hinder(scheme: Any) -> None:
    """With PRAGMA foreign_keys everything works, and no table is read from end to end for a removed fingerprint."""
    connection = apsw.Connection(":memory:")
    connection.execute("PRAGMA foreign_keys = ON")
    index = Index(connection, scheme)
    add = index.add_code if isinstance(scheme, BinaryCode) else index.add
    for number in range(3):
        add(number, bytes([number] * 32) if isinstance(scheme, BinaryCode) else f"text number {number}")
    connection.execute("DELETE FROM neardup_document WHERE key = 0")
    assert index.check(repair=True).ok
    assert index.delete(1)
    index.rebuild()
    assert index.check().ok
    names = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name GLOB 'neardup_*_*'"
    for (table,) in connection.execute(names).fetchall():
        assert not connection.execute(f"PRAGMA foreign_key_list({table})").fetchall(), table


class Dictionaries(apsw.Cursor):
    """Rows as an application may want them."""

    def fetchall(self) -> Any:
        return [dict(enumerate(row)) for row in super().fetchall()]

    def fetchone(self) -> Any:
        return {"row": super().fetchone()}


@one_test(own=[True, False], setting=["cursor_factory", "convert_jsonb", "row_trace"])
def test_what_an_application_sets_for_its_cursors_reaches_none_of_ours(tmp_path: Path, setting: str, own: bool) -> None:
    """With any cursor, conversion or trace: the same keys, answers and settings, and a repair that finds nothing to do."""
    values: dict[str, Any] = {
        "cursor_factory": Dictionaries,
        "convert_jsonb": lambda cursor, number, value: "converted",
        "row_trace": lambda cursor, row: tuple("traced" for _ in row),
    }
    path = tmp_path / "index.db"
    index = Index(path if own else apsw.Connection(str(path)), BinaryCode(bits=64, max_distance=3))
    setattr(index.connection, setting, values[setting])
    jsonb = b"\x7aseventy"  # a text of seven bytes, as JSONB has it
    assert index.add_code(jsonb, int.from_bytes(jsonb, "big")) == []
    assert [match.key for match in index.add_code("b", int.from_bytes(jsonb, "big") ^ 1)] == [jsonb]
    index.add_codes([1, 2], [0x2B13312B13312B13, 0x2B13312B13312B12])
    assert list(index) == [jsonb, "b", 1, 2] and len(index.clusters()) == 2
    assert index.check(repair=True).problems == () and index.get(jsonb).key == jsonb
    assert index.delete("b") and index.update(1, metadata={"n": 1}) is None
    index.rebuild()
    assert [pair.key_b for pair in index.pairs()] == [2]
    assert getattr(index.connection, setting) is values[setting]


def test_counts_of_changes_as_rows_lose_no_document() -> None:
    """With PRAGMA count_changes, where INSERT returns a row, loads and all other calls do the same as without."""
    for connection in (apsw.Connection(":memory:"), MODULE.connect(":memory:", isolation_level=None)):
        connection.execute("PRAGMA count_changes = 1").fetchall()
        index = Index(connection, MinHash(), store_text=True)
        index.add("a", "one two three")
        index.add_many((number, f"four five six {number}") for number in range(20))
        index.add_many([("b", "one two three"), (3, "seven eight nine")], if_exists="replace")
        assert len(index) == 22 and index.delete_many(range(10, 20)) == 10 and index.expire() == 0
        index.rebuild()
        assert index.check(repair=True).problems == () and len(index) == 12
        assert index.clusters()[0].keys == ("a", "b") and not connection.in_transaction


# ---- calls ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("writable", [True, False])
def test_what_is_sorted_goes_into_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writable: bool) -> None:
    """Or, where no folder for them can be written, into memory."""
    monkeypatch.setattr(os, "access", lambda *_: writable)
    with Index(tmp_path / "index.db", BinaryCode(64, 3)) as index:
        assert index.connection.execute("PRAGMA temp_store").get == (1 if writable else 2)
        index.add_codes(range(1000), range(1000))
        index.compact()
        assert index.check().ok


def test_the_caller_s_own_errors_leave_a_transaction_as_they_are() -> None:
    """A statement of the application that fails inside transaction() raises what it raises outside of it."""
    connection = apsw.Connection(":memory:")
    connection.execute("CREATE TABLE own (id INTEGER PRIMARY KEY); INSERT INTO own VALUES (1)")
    index = Index(connection, MinHash())
    with pytest.raises(apsw.ConstraintError), index.transaction(), index.transaction():
        index.add("a", "one two three")
        connection.execute("INSERT INTO own VALUES (1)")
    assert len(index) == 0 and not connection.in_transaction


def test_damaged_letters_are_a_damaged_index(tmp_path: Path) -> None:
    """Text in the file that is no Unicode is an error of this package, with the remedy."""
    connection = apsw.Connection(":memory:")
    with Index(connection, MinHash()) as index:
        index.add("a", "one two three")
        connection.execute("UPDATE neardup_document SET key = CAST(x'61ff' AS TEXT)")
        with pytest.raises(CorruptIndexError, match="backup"):
            list(index)
        connection.execute("UPDATE neardup_setting SET name = CAST(x'61ff' AS TEXT) WHERE name = 'text.short'")
    with pytest.raises(CorruptIndexError, match="backup"):
        Index(connection)


def test_a_listing_of_damaged_pages_comes_to_an_end(tmp_path: Path) -> None:
    """Ids out of order in the table's tree, which SQLite does not notice while reading, do not keep a listing going for ever."""
    path = tmp_path / "index.db"
    with Index(path, MinHash()) as index:
        for number in range(3):
            index.add(f"key {number}", f"text number {number}")
        sql = "SELECT rootpage FROM sqlite_schema WHERE name = 'neardup_document'"
        page, size = index.connection.execute(sql).get, index.connection.execute("PRAGMA page_size").get
    data = bytearray(path.read_bytes())
    start = (page - 1) * size
    assert data[start] == 13 and data[start + 3 : start + 5] == b"\0\3"  # a leaf with three rows
    cell = start + int.from_bytes(data[start + 12 : start + 14], "big")  # the last row: its size, then its id
    assert data[cell + 1] == 3
    data[cell + 1] = 0
    path.write_bytes(data)
    with Index(path) as index:
        with pytest.raises(CorruptIndexError, match="backup"):
            list(index)
        assert any("integrity" in problem for problem in index.check().problems)
