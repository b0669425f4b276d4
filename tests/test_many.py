"""query_many and query_codes: many questions as a join, beside one statement each and beside brute force."""

from __future__ import annotations

import random
import threading
from pathlib import Path
from typing import Any

import apsw
import numpy as np
import pandas
import pytest
from history_model import PLANS, configurations
from support import CASES, PAST, Case, Model, keys
from test_joins import contents, fill

from neardup_db import BinaryCode, Index, MinHash, ParameterError, TextRules, limits
from neardup_db.store.layout.sketcher import Sketcher
from neardup_db.tables import columns

ALL = CASES | {name: configurations(name)[0] for name in PLANS}
"""Every scheme with every plan."""

ALONE = 1 << 40
"""More questions than any test asks: each has a statement of its own."""


def ask_many(index: Index, asked: Any, **how: Any) -> list[list[tuple[Any, ...]]]:
    """The answers to many questions, texts or codes."""
    found = index.query_many(asked, **how) if index.scheme.takes_text else index.query_codes(asked, **how)
    return [[(match.key, match.similarity, match.distance) for match in matches] for matches in found]


def options_of(case: Case) -> list[dict[str, Any]]:
    """Arguments of a question that the index can answer."""
    found: list[dict[str, Any]] = [{}, {"limit": 0}, {"limit": 1}, {"limit": 3}, {"group": "g"}, {"group": "none has it"}]
    found += [{"any": True}, {"any": True, "limit": 1}, {"group": "g", "limit": 1, "threshold": 0.97}, {"threshold": 0.96}]
    if case.scheme.takes_codes:
        found += [{"max_distance": 0}, {"max_distance": case.scheme.max_distance - 1, "limit": 2}]
    if case.contains is not None:
        found += [{"measure": "containment", "threshold": 0.5}, {"measure": "containment", "limit": 1}]
    return found


def filled(name: str, path: Path) -> tuple[Index, Model, list[Any]]:
    """An index, its model, and questions: contents, repeated ones, and empty texts."""
    index, model = fill(ALL[name], path, 1)
    return index, model, contents(ALL[name], 45, 1) + contents(ALL[name], 15, 3)


@pytest.mark.parametrize("name", ALL)
def test_many_questions_together_are_each_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """With all options, many questions are answered alike by a join and by a statement each, and as brute force says."""
    index, model, asked = filled(name, tmp_path / "a.db")
    with index:
        for how in options_of(ALL[name]):
            monkeypatch.setattr(limits, "JOINED_FROM", 1)
            together = ask_many(index, asked[::3], **how)
            monkeypatch.setattr(limits, "JOINED_FROM", ALONE)
            assert together == ask_many(index, asked[::3], **how), how
        expected = [model.matches(content) for content in asked]
        assert any(expected) and ask_many(index, asked) == expected
        monkeypatch.setattr(limits, "JOINED_FROM", 1)
        assert ask_many(index, asked) == expected
        assert ask_many(index, asked, limit=2) == [matches[:2] for matches in expected]


@pytest.mark.parametrize("name", ["minhash", "binarycode", "bottomk"])
def test_more_than_is_held_at_once(tmp_path: Path, name: str) -> None:
    """Questions whose join is too large are asked in smaller parts; here by a connection that takes few bytes at once."""
    index, model, asked = filled(name, tmp_path / "a.db")
    index.close()
    connection = apsw.Connection(str(tmp_path / "a.db"))
    with Index(connection) as index:
        expected = [model.matches(content) for content in asked]
        connection.limit(apsw.SQLITE_LIMIT_LENGTH, 4000)
        assert ask_many(index, asked) == expected
        with connection:
            assert ask_many(index, asked) == expected
    with Index(tmp_path / "a.db", read_only=True) as index:
        assert ask_many(index, asked) == expected


def test_equal_copies_are_cut_at_the_limit() -> None:
    """Of a thousand equal documents an answer has the earliest visible ones, and of several fingerprints the best."""
    with Index(":memory:", BinaryCode(64, 3), record_matches=False) as index:
        index.add_codes(["gone", "near"], [0, 1], expires_at=PAST)
        index.add_codes(range(1000), np.zeros(1000, np.uint64))
        index.add_codes(range(1000, 1010), np.ones(10, np.uint64))
        found = index.query_codes([1] * 60, limit=12)
        assert keys(found[0]) == [*range(1000, 1010), 0, 1] and found == [found[0]] * 60


def test_codes_are_taken_as_add_codes_takes_them() -> None:
    """A list of bytes, ints and hex digits, an iterator, uint64[n] and uint8[n, 8] are the same questions."""
    numbers = np.array([3, 1 << 63, 0, 7], np.uint64)
    asked = [int(number) for number in numbers]
    with Index(":memory:", BinaryCode(64, 3)) as index:
        index.add_codes(list("abcd"), numbers)
        expected = [index.query_code(code) for code in asked]
        rows = numbers.astype(">u8").view(np.uint8).reshape(-1, 8)
        mixed = [asked[0].to_bytes(8, "big"), f"{asked[1]:016x}", asked[2], rows[3]]
        for codes in (asked, iter(asked), numbers, numbers[::1], rows, mixed, list(numbers), tuple(asked)):
            assert index.query_codes(codes) == expected
        assert index.query_codes([]) == index.query_codes(np.zeros(0, np.uint64)) == []
        assert columns(index.query_codes(numbers))["query"].tolist() == columns(expected)["query"].tolist()


def test_records_that_are_none_are_refused_on_one_line() -> None:
    """A path is told what add_many takes; a value whose repr has lines, such as a Series, is told on one."""
    frame = pandas.DataFrame({"id": ["a"], "body": ["some text"]})
    with Index(":memory:", MinHash()) as index:
        with pytest.raises(ParameterError, match=r"^records='posts.parquet' is of type str: give pairs \(key, text\), mappings"):
            index.add_many("posts.parquet")  # type: ignore[arg-type]
        with pytest.raises(ParameterError, match="^record 0: text=id a body some text Name: 0, .* is of type Series: give str"):
            index.add_many(frame.iterrows())  # type: ignore[arg-type]


def test_an_index_of_texts_takes_no_codes() -> None:
    """query_codes of MinHash names what to use; wrong bounds are refused however many questions there are."""
    with Index(":memory:", MinHash()) as index:
        for codes in ([], [1], np.zeros(0, np.uint64)):
            with pytest.raises(ParameterError, match="takes texts, not codes"):
                index.query_codes(codes)
        for count in (1, 100):
            with pytest.raises(ParameterError, match=r"threshold=0\.5"):
                index.query_many(["some text"] * count, threshold=0.5)


def test_an_error_of_the_second_thread_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a text cannot be fingerprinted in the second thread, the caller gets the error, and the index answers again."""
    texts = [f"one two three {number}" for number in range(1000)]
    made = Sketcher.texts

    def fails(self: Sketcher, some: Any, **how: Any) -> Any:
        if threading.current_thread() is not threading.main_thread():
            raise MemoryError("out of memory")
        return made(self, some, **how)

    with Index(":memory:", MinHash()) as index:
        index.add_many(enumerate(texts))
        monkeypatch.setattr(limits, "ASKED_MOST", 100)
        monkeypatch.setattr(limits, "ASKED_PART", 10)
        with monkeypatch.context() as patch:
            patch.setattr(Sketcher, "texts", fails)
            with pytest.raises(MemoryError):
                index.query_many(texts)
        assert [number in keys(found) for number, found in enumerate(index.query_many(texts))] == [True] * 1000


_CALLED_IN: set[int] = set()


def split(text: str) -> list[str]:
    """The words of a text, and which thread asked for them."""
    _CALLED_IN.add(threading.get_ident())
    return text.split()


def test_rules_of_the_callers_own_stay_in_its_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tokenizer of the caller's is called in the caller's thread only."""
    _CALLED_IN.clear()
    monkeypatch.setattr(limits, "ASKED_PART", 10)
    texts = [f"one two three {random.Random(number).random()}" for number in range(1500)]
    with Index(":memory:", MinHash(), text=TextRules(tokens=split)) as index:
        index.add("a", texts[7])
        assert keys(index.query_many(texts)[7]) == ["a"]
    assert {threading.get_ident()} == _CALLED_IN


def test_one_state_for_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What another connection adds, or rebuilds, between two pieces is not seen by the later ones."""
    made = Sketcher.codes
    with Index(tmp_path / "a.db", BinaryCode(64, 3)) as index, Index(tmp_path / "a.db") as other:
        index.add_code("a", 0)

        def meanwhile(self: Sketcher, codes: Any, first: int, end: int) -> Any:
            if len(other) == 1:
                other.add_code("b", 1)
                other.rebuild()
            return made(self, codes, first, end)

        monkeypatch.setattr(limits, "ASKED_MOST", 60)
        with monkeypatch.context() as patch:
            patch.setattr(Sketcher, "codes", meanwhile)
            assert [keys(found) for found in index.query_codes([7] * 200)] == [["a"]] * 200
        assert [keys(found) for found in index.query_codes([1] * 200)] == [["b", "a"]] * 200
