"""Keys, names and numbers that are far larger than anybody means: an error shows what it needs of them, and nothing is lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cases import one_test
from commands import run

from neardup_db import Index, MinHash, NearDupError, SimHash

TEXT = "the quick brown fox jumps over the lazy dog near the river bank"
HUGE = 10**5000
LONG = "k" * 10**6

CALLS: dict[str, Callable[[Index], Any]] = {
    "get": lambda index: index.get(LONG),
    "matches": lambda index: index.matches(LONG.encode()),
    "a second time": lambda index: [index.add(LONG, TEXT) for _ in range(2)],
    "half a pair": lambda index: index.add(LONG + "\ud800", TEXT),
    "half a pair in a group": lambda index: index.add("a", TEXT, group="\ud800" + LONG),
    "key": lambda index: index.add(HUGE, TEXT),
    "key of many": lambda index: index.add_many([(HUGE, TEXT)]),
    "group": lambda index: index.query(TEXT, group=-HUGE),
    "limit": lambda index: index.query(TEXT, limit=HUGE),
    "threshold": lambda index: index.query(TEXT, threshold=HUGE),
    "expires_at": lambda index: index.add("a", TEXT, expires_at=HUGE),
    "window": lambda index: Index(":memory:", MinHash(), window=HUGE),
    "scheme": lambda index: SimHash(max_distance=HUGE),
    "text": lambda index: index.add("a", HUGE),  # type: ignore[arg-type]
}


@one_test(name=CALLS)
def test_an_error_is_short(name: str) -> None:
    """Whatever was given: our own error, which one can read, and the index goes on."""
    with Index(":memory:", MinHash()) as index:
        with pytest.raises(NearDupError) as raised:
            CALLS[name](index)
        assert 10 < len(str(raised.value)) < 800 and index.check().ok
        if "half" in name:
            assert str(raised.value).startswith(("key='kkk", "group='\\ud800kkk")) and "..." in str(raised.value)


def test_a_key_that_one_can_read_is_whole() -> None:
    """A key as long as an address on the web is shown to its end."""
    key = "https://example.org/" + "a" * 400
    with Index(":memory:", MinHash()) as index, pytest.raises(KeyError, match=f"no document has the key '{key}'"):
        index.get(key)


def test_a_long_key_is_a_key() -> None:
    """A key of a megabyte names its document as any other one does, in a bulk load too."""
    with Index(":memory:", MinHash()) as index:
        index.add(LONG, TEXT)
        index.add_many([(LONG.encode(), TEXT), (LONG + "!", TEXT)])
        assert [match.key for match in index.matches(LONG)] == [LONG.encode(), LONG + "!"]
        assert index.delete(LONG) and list(index) == [LONG.encode(), LONG + "!"] and index.check().ok


def test_a_number_of_too_many_digits_in_a_file(tmp_path: Path) -> None:
    """The error speaks of the file, and not of a setting of Python's."""
    path = tmp_path / "in.jsonl"
    path.write_text(f'{{"id": {"1" * 5000}, "text": "{TEXT}"}}\n', "utf-8")
    done = run("add", tmp_path / "a.db", path)
    assert done.exit_code == 2 and "line 1: contains a number with thousands of digits: write it as text" in done.stderr


def test_half_of_a_surrogate_pair_in_an_id_is_told(tmp_path: Path) -> None:
    """An id that JSON can write and UTF-8 cannot is read as invalid bytes are, which is said."""
    path = tmp_path / "in.jsonl"
    path.write_text(f'{{"id": "a\\ud800", "text": "{TEXT}"}}\n{{"id": "\u00e4", "text": "other words"}}\n', "utf-8")
    done = run("add", tmp_path / "a.db", path)
    assert done.exit_code == 0 and "in.jsonl: 1 line with invalid UTF-8, read as U+FFFD" in done.stderr
    with Index(tmp_path / "a.db") as index:
        assert list(index) == ["a\ufffd", "\u00e4"]


def test_no_megabyte_of_key_on_the_terminal(tmp_path: Path) -> None:
    """A record whose key is there already is named by the beginning of the key."""
    path = tmp_path / "in.jsonl"
    path.write_text(f'{{"id": "{LONG}", "text": "{TEXT}"}}\n' * 2, "utf-8")
    done = run("add", tmp_path / "a.db", path)
    assert done.exit_code == 2 and "line 2: key 'kkk" in done.stderr and len(done.stderr) < 1000
