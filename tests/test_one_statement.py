"""A query runs without a transaction around it: it still sees one state, with settings that belong to that state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw
import pytest

from neardup_db import BinaryCode, BusyError, CorruptIndexError, Index, KeyNotFoundError, MinHash, NearDupError

TEXT = "the quick brown fox jumps over the lazy dog and runs away"
NEAR = [("a", 0), ("b", 1), ("c", 3)]
"""Keys, and how far their codes are from 0."""


def filled(target: Any, distance: int = 3) -> Index:
    """Codes of 64 bits at 0, 1 and 3 bits from 0."""
    index = Index(target, BinaryCode(64, distance), attach=True)
    for key, bits in NEAR:
        index.add_code(key, (1 << bits) - 1)
    return index


def found(index: Index) -> list[str]:
    """Keys of what is near 0."""
    return [str(match.key) for match in index.query_code(0)]


def rebuilt_meanwhile(index: Index, other: Index, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let another connection rebuild after the first statement of a question; returns the rows of each, as they come."""
    ask, asked = index._readers.own.search.match_rows, []

    def interrupted(*arguments: Any, **named: Any) -> Any:
        rows = ask(*arguments, **named)
        if not asked:
            other.rebuild(BinaryCode(64, 1))
        asked.append(len(rows))
        return rows

    monkeypatch.setattr(index._readers.own.search, "match_rows", interrupted)
    return asked


def test_a_rebuild_while_a_query_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where another connection rebuilds between a query's statement and its end, the query is asked again."""
    filled(tmp_path / "a.db").close()
    with Index(tmp_path / "a.db") as index, Index(tmp_path / "a.db") as other:
        asked = rebuilt_meanwhile(index, other, monkeypatch)
        assert found(index) == ["a", "b"]
        assert asked == [3, 2]
        assert found(index) == ["a", "b"]
        assert asked == [3, 2, 2]


def test_two_indexes_of_one_connection() -> None:
    """A rebuild by another Index on the same connection is followed, and so are settings changed by SQL."""
    connection = apsw.Connection(":memory:")
    filled(connection)
    index, other = Index(connection), Index(connection)
    assert found(index) == found(other) == ["a", "b", "c"]
    other.rebuild(BinaryCode(64, 1))
    assert found(index) == ["a", "b"]
    connection.execute("UPDATE neardup_setting SET value = 0 WHERE name = 'max_distance'")
    connection.execute("UPDATE neardup_setting SET value = value + 1 WHERE name = 'generation'")
    assert found(index) == ["a"]


def test_what_is_interrupted_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A query that is interrupted, or that meets a lock, fails at once; one that fails over its SQL is asked again."""
    index = filled(":memory:")
    ask, asked = index._readers.own.search.match_rows, []
    errors: list[Exception] = []

    def counted(*arguments: Any, **named: Any) -> Any:
        asked.append(named)
        if errors:
            raise errors[0]
        return ask(*arguments, **named)

    monkeypatch.setattr(index._readers.own.search, "match_rows", counted)
    index.connection.set_progress_handler(lambda: True, 1)
    with pytest.raises(NearDupError, match="interrupted"):
        index.query_code(0)
    assert len(asked) == 1
    index.connection.set_progress_handler(None)
    errors.append(apsw.BusyError("database is locked"))
    with pytest.raises(BusyError, match="locked"):
        index.query_code(0)
    assert len(asked) == 2
    errors[0] = apsw.SQLError("no such table")
    with pytest.raises(NearDupError, match="no such table"):
        index.query_code(0)
    assert len(asked) == 4
    errors.clear()
    assert found(index) == ["a", "b", "c"]


# ---- matches of a key: two statements, one of which is held while the other runs ---------------------------------------------


def test_matches_of_a_key_see_one_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What another connection deletes after the document was found, the document itself too, is still in the answer."""
    with filled(tmp_path / "a.db") as index, Index(tmp_path / "a.db") as other:
        ask = index._readers.own.search.match_rows

        def interrupted(*arguments: Any, **named: Any) -> Any:
            other.delete_many(["a", "b"])
            return ask(*arguments, **named)

        monkeypatch.setattr(index._readers.own.search, "match_rows", interrupted)
        assert [match.key for match in index.matches("a")] == ["b", "c"]
        monkeypatch.undo()
        assert index.matches("c") == []
        assert not index.connection.in_transaction
        with pytest.raises(KeyNotFoundError):
            index.matches("a")


def test_matches_of_a_key_follow_a_rebuild(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where another connection rebuilds in the middle, and the settings are not known to be those of the state that was seen, it
    is asked again."""
    filled(tmp_path / "a.db").close()
    with Index(tmp_path / "a.db") as index, Index(tmp_path / "a.db") as other:
        asked = rebuilt_meanwhile(index, other, monkeypatch)
        assert [match.key for match in index.matches("a")] == ["b"]
        assert asked == [2, 1]


def test_matches_of_a_key_are_two_statements(tmp_path: Path) -> None:
    """Neither BEGIN nor COMMIT nor a look at the settings, where nothing was written since."""
    with Index(tmp_path / "a.db", MinHash()) as index:
        index.add("a", TEXT)
        index.matches("a")
        seen: list[str] = []
        index.connection.exec_trace = lambda cursor, sql, bindings: seen.append(sql) or True  # type: ignore[func-returns-value]
        index.matches("a")
        assert len(seen) == 2 and all(sql.startswith("SELECT") for sql in seen)
        index.connection.exec_trace = None


def test_matches_of_a_damaged_fingerprint_are_an_error_and_leave_nothing_open(tmp_path: Path) -> None:
    """The statement that is held is closed with the error: the index can write at once."""
    with filled(tmp_path / "a.db") as index:
        index.connection.execute("UPDATE neardup_fingerprint SET value_hash = value_hash + 1 WHERE id = 1")
        for _ in range(2):
            with pytest.raises(CorruptIndexError):
                index.matches("a")
        index.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        assert (tmp_path / "a.db-wal").stat().st_size == 0
