"""What became of each record: `add_many(on_outcome=)` and `neardup add --outcomes`."""

from __future__ import annotations

import errno
import gzip
import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pyarrow
import pytest
from commands import FOX, good, refused, run
from support import SETS, WORDS

from neardup_db import BottomK, Index, Match, MinHash, NearDupError, ParameterError, limits
from neardup_db.cli import outputs

Told = tuple[Any, str, Any]


class Notes(list[Told]):
    """A list that notes what it is told."""

    def __call__(self, key: Any, outcome: str, match: Any) -> None:
        self.append((key, outcome, match))


# ---- which outcomes ----------------------------------------------------------------------------------------------------


def test_each_outcome(texts: Index) -> None:
    """Every record is told once, in order, with what it matched or what is wrong with it."""
    texts.add("old", "w x y z")
    told = Notes()
    texts.add_many(
        [
            ("a", "w x y v"),
            ("b", 5),  # type: ignore[list-item]
            {"key": "old", "text": "nobody reads this", "if_exists": "ignore"},
            ("old", "again"),
            {"key": "a", "text": "w x y z v", "if_exists": "replace"},
            None,  # type: ignore[list-item]
            ("c", "something else"),
            {"text": "no key"},
        ],
        on_error="skip",
        on_outcome=told,
    )
    assert told[0] == ("a", "added", Match("old", 0.6))
    assert told[2] == ("old", "ignored", None)
    assert told[4] == ("a", "replaced", Match("old", 0.8))
    assert told[6] == ("c", "added", None)
    wrong = [match for _, outcome, match in told if outcome == "skipped"]
    assert [(one.record, one.key) for one in wrong] == [(1, "b"), (3, "old"), (5, None), (7, None)]
    assert [place for place, one in enumerate(told) if one[1] == "skipped"] == [1, 3, 5, 7]
    assert wrong[0].reason.startswith("text=5") and "already in the index" in wrong[1].reason


def test_rows_of_a_table(texts: Index) -> None:
    """A row with a null is skipped, with its key where it has one; with and without groups."""
    table = pyarrow.table({"id": ["a", None, "c", "d"], "body": ["w x", "w x", None, "w x"], "g": ["m", "m", "m", "n"]})
    told = Notes()
    texts.add_many(table, key="id", text="body", on_error="skip", on_outcome=told)
    expected = [("a", "added"), (None, "skipped"), ("c", "skipped"), ("d", "added")]
    assert [one[:2] for one in told] == expected and told[3][2] == Match("a", 1.0)
    told.clear()
    with Index(":memory:", SETS, text=WORDS) as index:
        index.add_many(table, key="id", text="body", group="g", on_error="skip", on_outcome=told)
    assert [one[:2] for one in told] == expected and told[3][2] is None


def test_imported_fingerprints_have_outcomes_too(tmp_path: Path) -> None:
    """`import_fingerprints` tells of its rows as `add_many` of its records."""
    with Index(":memory:", MinHash()) as index:
        index.add_many([("a", FOX), ("b", FOX + " again")])
        index.export_fingerprints(tmp_path / "part.parquet")
    told = Notes()
    with Index(":memory:", MinHash()) as other:
        other.add("a", FOX)
        other.import_fingerprints(tmp_path, if_exists="ignore", on_outcome=told)
    assert told[0] == ("a", "ignored", None) and told[1][:2] == ("b", "added") and told[1][2].key == "a"


def test_without_recorded_matches_nothing_is_looked_for() -> None:
    """A stored record has no match then; only_new still has one for each that it refuses."""
    with Index(":memory:", MinHash(), record_matches=False) as index:
        told = Notes()
        index.add_many([("a", FOX), ("b", FOX)], on_outcome=told)
        assert told == [("a", "added", None), ("b", "added", None)]
        index.add_many([("c", FOX)], only_new=True, on_outcome=told)
        assert told[2] == ("c", "duplicate", Match("a", 1.0))


def test_empty_loads_tell_nothing(texts: Index) -> None:
    """No record, no call; only wrong ones, a call for each."""
    told = Notes()
    texts.add_many([], on_outcome=told)
    assert told == []
    texts.add_many([(1.5, "x"), ("a", None)], on_error="skip", on_outcome=told)  # type: ignore[list-item]
    assert [one[:2] for one in told] == [(None, "skipped"), ("a", "skipped")]


# ---- when they are told ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("every", [None, 1, 4, 100])
def test_each_is_told_after_its_commit(tmp_path: Path, every: int | None) -> None:
    """Another connection sees the record when its outcome is told, and those of its transaction are told together."""
    path = tmp_path / "a.db"
    sizes: list[int] = []
    with Index(path, SETS, text=WORDS) as index, Index(path, read_only=True) as other:

        def told(key: Any, outcome: str, match: Any) -> None:
            assert key in other and outcome == "added"
            sizes.append(len(other))

        index.add_many(((number, f"text {number}") for number in range(10)), commit_every=every, on_outcome=told)
    whole = every or 10
    assert sizes == [min(10, number // whole * whole + whole) for number in range(10)]


def test_what_is_rolled_back_is_not_told(tmp_path: Path) -> None:
    """An error leaves the outcomes of the transactions before it."""
    told = Notes()
    with Index(tmp_path / "a.db", SETS, text=WORDS) as index:
        with pytest.raises(ParameterError, match="record 5"):
            index.add_many([*((n, f"text {n}") for n in range(5)), (5, None)], commit_every=2, on_outcome=told)  # type: ignore[list-item]
        assert [key for key, _, _ in told] == [0, 1, 2, 3] == list(index)
        told.clear()
        with pytest.raises(ParameterError):
            index.add_many([("a", "x"), ("b", None)], on_outcome=told)  # type: ignore[list-item]
    assert told == []


def test_a_commit_that_fails_tells_nothing(tmp_path: Path) -> None:
    """The outcomes of a transaction that was refused at its very end are never told."""
    told = Notes()
    with Index(tmp_path / "a.db", SETS, text=WORDS) as index:
        index.connection.set_commit_hook(lambda: True)
        with pytest.raises((NearDupError, apsw.Error)):
            index.add_many([("a", "w x"), ("b", "y z")], on_outcome=told)
        index.connection.set_commit_hook(None)
        assert told == [] and len(index) == 0
        index.add_many([("a", "w x")], on_outcome=told)
        assert told == [("a", "added", None)]


def test_inside_a_transaction_of_the_callers(texts: Index) -> None:
    """They are told at the end of each part, before the commit, and a rollback makes them void."""
    told = Notes()
    with pytest.raises(KeyError), texts.transaction():
        texts.add_many([("a", "w x"), ("b", "w x"), ("c", "y")], commit_every=2, on_outcome=told)
        assert told == [("a", "added", None), ("b", "added", Match("a", 1.0)), ("c", "added", None)]
        assert len(texts) == 3
        raise KeyError
    assert len(texts) == 0 and texts.check().ok


@pytest.mark.parametrize("every", [None, 2])
def test_the_function_may_use_the_index(texts: Index, every: int | None) -> None:
    """It sees the whole transaction that it is told of, and what it writes stands before the next record. It may rebuild too."""
    told: list[Any] = []

    def keep(key: Any, outcome: str, match: Any) -> None:
        told.append((key, outcome, match and match.key, len(texts)))
        if key == 1:
            texts.add_many([("inner", "p q r")], on_outcome=lambda *inner: told.append(inner))
            texts.rebuild(record_matches=True)

    texts.add_many([(0, "a b c"), (1, "d e f"), (2, "p q r"), (3, "g")], commit_every=every, on_outcome=keep)
    seen = 2 if every else 4
    inner, match = (None, "inner") if every else (Match(2, 1.0), None)
    assert told[:3] == [(0, "added", None, seen), (1, "added", None, seen), ("inner", "added", inner)]
    assert told[3:] == [(2, "added", match, 5), (3, "added", None, 5)]
    assert texts.check().ok


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_what_the_function_raises_comes_out(tmp_path: Path, error: type[BaseException]) -> None:
    """What was committed stays, no further record is taken, and the index goes on."""
    told: list[Any] = []

    def once(key: Any, outcome: str, match: Any) -> None:
        told.append(key)
        if key == 2:
            raise error

    with Index(tmp_path / "a.db", SETS, text=WORDS) as index:
        with pytest.raises(error):
            index.add_many(((n, f"text {n}") for n in range(9)), commit_every=3, on_outcome=once)
        assert told == [0, 1, 2] and list(index) == [0, 1, 2]
        assert index.add_many([(3, "text 3")]).added == 1 and index.check().ok


def test_a_large_load_is_told_in_its_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrong records, met while other threads write the ones before, stand where they came."""
    monkeypatch.setattr(limits, "BATCH_RECORDS", limits.WORTH_THREADS)
    count = 5 * limits.BATCH_RECORDS + 100

    def records() -> Iterator[Any]:
        for number in range(count):
            words = [f"{letter}{number // 2}" for letter in "abcdefgh"]  # which only the text beside it has
            yield number, None if number % 1000 == 7 else " ".join([*words, f"i{number}"])

    told = Notes()
    with Index(tmp_path / "a.db", BottomK(k=16), text=WORDS) as index:
        report = index.add_many(records(), on_error="skip", on_outcome=told)
    assert [key for key, _, _ in told] == list(range(count))
    assert [key for key, outcome, _ in told if outcome == "skipped"] == list(range(7, count, 1000))
    assert sum(isinstance(match, Match) for _, _, match in told) == report.matched > 0


# ---- the command -------------------------------------------------------------------------------------------------------


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def records_file(folder: Path, *records: Any, name: str = "posts.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(one if isinstance(one, str) else json.dumps(one) + "\n" for one in records), "utf-8")
    return path


def test_the_file_of_outcomes(tmp_path: Path) -> None:
    """A line for each record, those that cannot be read too, in their order, with file and line."""
    posts = records_file(
        tmp_path, {"id": "a", "text": FOX}, "{\n", {"id": "b", "text": FOX + " again"}, {"id": "a", "text": "x"}, {"id": "c"}
    )
    out = tmp_path / "out.jsonl"
    good_json = run("add", tmp_path / "a.db", posts, "--only-new", "--on-error", "skip", "--outcomes", out, "--json")
    assert good_json.exit_code == 0
    told = lines_of(out)
    assert list(told[0]) == ["key", "outcome", "match", "similarity", "distance", "reason", "file", "line"]
    assert [(one["key"], one["outcome"], one["match"], one["line"]) for one in told] == [
        ("a", "added", None, 1),
        (None, "skipped", None, 2),
        ("b", "duplicate", "a", 3),
        ("a", "skipped", None, 4),
        (None, "skipped", None, 5),
    ]
    assert told[2]["similarity"] > 0.8 and {one["file"] for one in told} == {str(posts)}
    assert told[1]["reason"].startswith("not JSON") and "--if-exists" in told[3]["reason"] and "'text'" in told[4]["reason"]
    assert told[0]["reason"] is None


@pytest.mark.parametrize("more", [(), ("--commit-every", "2"), ("--one-transaction",)])
def test_outcomes_of_many_transactions_packed(tmp_path: Path, more: tuple[str, ...], small_limits: None) -> None:
    """However the load is cut, every record has its line, in order; .gz packs the file."""
    posts = records_file(tmp_path, *({"id": str(n), "text": f"text number {n} x{n} y{n}"} for n in range(20)))
    out = tmp_path / "out.jsonl.gz"
    good("add", tmp_path / "a.db", posts, "--outcomes", out, *more)
    told = [json.loads(line) for line in gzip.decompress(out.read_bytes()).splitlines()]
    assert [(one["key"], one["line"], one["outcome"]) for one in told] == [(str(n), n + 1, "added") for n in range(20)]


def test_after_an_error_the_committed_records_are_told(tmp_path: Path) -> None:
    """The file has exactly the records that the index has, and the message names it; if none is committed there is no file."""
    posts = records_file(tmp_path, *({"id": str(n), "text": f"text number {n}"} for n in range(5)), "{\n")
    out = tmp_path / "out.jsonl"
    said = refused("add", tmp_path / "a.db", posts, "--commit-every", 2, "--outcomes", out)
    assert "4 records are committed" in said and f"their outcomes are in {out}" in said
    with Index(tmp_path / "a.db") as index:
        assert [one["key"] for one in lines_of(out)] == list(index) == ["0", "1", "2", "3"]
    for more in ((), ("--one-transaction", "--commit-every", 2)):
        out.unlink(missing_ok=True)
        assert "nothing was added" in refused("add", tmp_path / f"b{len(more)}.db", posts, *more, "--outcomes", out)
        assert not out.exists()


def test_outcomes_that_cannot_be_written_are_not_promised(tmp_path: Path) -> None:
    """Where the disk is full for the outcomes, the message says that none are in the file, and there is no file."""
    posts = records_file(tmp_path, *({"id": str(n), "text": f"text number {n}"} for n in range(5)))
    out, written = tmp_path / "out.jsonl", 0

    class Full(io.BytesIO):
        def write(self, data: Any) -> int:
            nonlocal written
            written += 1
            if written > 1:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return super().write(data)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(outputs, "open_output", lambda path, packing: Full())
        said = refused("add", tmp_path / "a.db", posts, "--commit-every", 2, "--outcomes", out)
    assert "no room is left" in said and f"no outcomes are in {out}" in said and "their outcomes are in" not in said
    assert "4 records are committed" in said and not out.exists()


def test_where_outcomes_cannot_go(tmp_path: Path) -> None:
    """An existing file, an input, the index, standard output and another format are refused, and nothing is added."""
    posts = records_file(tmp_path, {"id": "a", "text": FOX})
    index, out = tmp_path / "a.db", records_file(tmp_path, "old", name="old.jsonl")
    assert "exists already" in refused("add", index, posts, "--outcomes", out)
    assert "is the input" in refused("add", index, posts, "--outcomes", posts, "--force")
    assert "is the index" in refused("add", index, posts, "--outcomes", index)
    assert "name a file" in refused("add", index, posts, "--outcomes", "-")
    assert "JSON lines" in refused("add", index, posts, "--outcomes", tmp_path / "out.csv")
    assert "does not exist" in refused("add", index, posts, "--outcomes", tmp_path / "no" / "out.jsonl")
    assert not index.exists()
    good("add", index, posts, "--outcomes", out, "--force")
    assert [one["key"] for one in lines_of(out)] == ["a"]


def test_rows_of_a_table_are_told_by_their_row(tmp_path: Path) -> None:
    """Of Parquet the line is the number of the row."""
    import pyarrow.parquet

    table = pyarrow.table({"id": ["a", None, "c"], "text": [FOX, FOX, FOX]})
    pyarrow.parquet.write_table(table, tmp_path / "posts.parquet")
    out = tmp_path / "out.jsonl"
    done = run("add", tmp_path / "a.db", tmp_path / "posts.parquet", "--id-field", "id", "--on-error", "skip", "--outcomes", out)
    assert done.exit_code == 0
    told = sorted(lines_of(out), key=lambda one: one["line"])
    outcomes = [(one["line"], one["key"], one["outcome"]) for one in told]
    assert outcomes == [(1, "a", "added"), (2, None, "skipped"), (3, "c", "added")]
