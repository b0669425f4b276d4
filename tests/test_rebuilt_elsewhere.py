"""An open index follows what others do to the file: a rebuild under other parameters, one after another that was rolled back."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import apsw
import numpy as np
import pytest
from support import WORDS, jaccard

from neardup_db import (
    BinaryCode,
    BitSampling,
    BottomK,
    Index,
    KeyNotFoundError,
    MinHash,
    MismatchError,
    NearDupError,
    ParameterError,
    SimHash,
    TextRules,
    limits,
)
from neardup_db.store.layout import definitions

TEXTS = {
    "nine of ten": "alpha bravo charlie delta echo foxtrot golf hotel india juliett",
    "nine": "alpha bravo charlie delta echo foxtrot golf hotel india",
    "two of four": "kilo lima mike november",
    "the other two": "kilo lima mike oscar",
    "Capitals": "Papa Quebec",
    "small letters": "papa quebec",
}

PAIRS = [("nine of ten", "nine", 0.9), ("two of four", "the other two", 0.6), ("Capitals", "small letters", 1.0)]
"""Single words, case folded: true Jaccard similarities of at least 0.5."""


def sets(seed: int = 1, threshold: float = 0.5) -> MinHash:
    """True Jaccard similarity; each seed files a text under other keys."""
    return MinHash(threshold=threshold, exact=True, num_perm=64, bands=64, rows=1, seed=seed)


def answer(pairs: Any) -> list[tuple[Any, Any, float]]:
    """Pairs, the best as the last."""
    return sorted(((one.key_a, one.key_b, one.similarity) for one in pairs), key=lambda one: PAIRS_ORDER.index(one[:2]))


PAIRS_ORDER = [one[:2] for one in PAIRS]


@cache
def index_of(*records: tuple[Any, str]) -> bytes:
    """The file of an index of such documents."""
    with TemporaryDirectory() as folder:
        with Index(f"{folder}/index.db", sets(), text=WORDS, store_text=True) as index:
            index.add_many(records)
        return Path(f"{folder}/index.db").read_bytes()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """An index of the texts."""
    (tmp_path / "index.db").write_bytes(index_of(*TEXTS.items()))
    return tmp_path / "index.db"


def rebuild_elsewhere(path: Path, *arguments: Any, **named: Any) -> None:
    """By an index of its own, opened and closed."""
    with Index(path) as other:
        other.rebuild(*arguments, **named)


# ---- a rebuild that was rolled back, and then another one ----------------------------------------------------------------


@pytest.mark.parametrize(("given", "end"), [(True, "ROLLBACK"), (False, "ROLLBACK TO before")], ids=["connection", "path"])
@pytest.mark.parametrize("rebuilt", [sets(2), SimHash(max_distance=12, blocks=14)], ids=["another seed", "another scheme"])
def test_an_index_whose_rebuild_the_caller_took_back_follows_the_next_one(
    path: Path, end: str, rebuilt: Any, given: bool
) -> None:
    """After a rebuild that the caller's ROLLBACK took back, and one by another index, the first one answers by the latter, and
    all that it adds is found by everybody."""
    with Index(apsw.Connection(str(path)) if given else path) as index:
        connection = index.connection
        connection.execute("BEGIN IMMEDIATE; SAVEPOINT before")
        index.rebuild(rebuilt)
        connection.execute(end)
        if connection.in_transaction:
            connection.execute("COMMIT")
        rebuild_elsewhere(path, sets(3))
        assert [match.key for match in index.query(TEXTS["nine"])] == ["nine", "nine of ten"]
        assert answer(index.pairs()) == PAIRS
        assert [match.key for match in index.add("again", TEXTS["nine"])] == ["nine", "nine of ten"]
        assert index.check().problems == ()
    connection.close()
    with Index(path, sets(3)) as other:
        assert [match.key for match in other.query(TEXTS["nine"])] == ["nine", "again", "nine of ten"]
        assert other.check().problems == ()


# ---- a rebuild in the middle of a question -------------------------------------------------------------------------------


def in_the_middle(index: Index, monkeypatch: pytest.MonkeyPatch, work: Callable[[], Any], after: bool) -> list[int]:
    """Do some work once, before or after a question's last statement; returns the rows of each statement, as they come."""
    search, asked = index._readers.own.search, []
    ask = search.match_rows

    def interrupted(*arguments: Any, **named: Any) -> Any:
        if not asked and not after:
            work()
        rows = ask(*arguments, **named)
        if not asked and after:
            work()
        asked.append(len(rows))
        return rows

    monkeypatch.setattr(search, "match_rows", interrupted)
    return asked


@pytest.fixture
def steps(tmp_path: Path) -> Iterator[tuple[Index, Index]]:
    """Codes at 0, 1 and 3 bits from 0, opened twice."""
    with Index(tmp_path / "codes.db", BinaryCode(64, 3)) as index:
        index.add_codes(["a", "b", "c"], [0, 1, 7])
    with Index(tmp_path / "codes.db") as index, Index(tmp_path / "codes.db") as other:
        yield index, other


@pytest.mark.parametrize(("of_key", "rows"), [(False, [3, 2]), (True, [2, 1])], ids=["query", "matches"])
def test_a_question_is_asked_again(
    steps: tuple[Index, Index], monkeypatch: pytest.MonkeyPatch, of_key: bool, rows: list[int]
) -> None:
    """Where another connection rebuilds between a question's statement and its end, the question is asked again."""
    index, other = steps
    asked = in_the_middle(index, monkeypatch, lambda: other.rebuild(BinaryCode(64, 1)), True)
    found = index.matches("a") if of_key else index.query_code(0)
    assert [match.key for match in found] == ["b"] if of_key else ["a", "b"]
    assert asked == rows


def test_matches_of_a_key_see_one_state(steps: tuple[Index, Index], monkeypatch: pytest.MonkeyPatch) -> None:
    """What another connection deletes after the document was found, the document itself too, is still in the answer."""
    index, other = steps
    in_the_middle(index, monkeypatch, lambda: other.delete_many(["a", "b"]), False)
    assert [match.key for match in index.matches("a")] == ["b", "c"]
    assert index.matches("c") == [] and not index.connection.in_transaction
    with pytest.raises(KeyNotFoundError):
        index.matches("a")


@pytest.mark.parametrize(
    ("error", "times"),
    [(apsw.InterruptError("interrupted"), 1), (apsw.BusyError("database is locked"), 1), (apsw.SQLError("no such table"), 2)],
)
def test_what_is_interrupted_is_not_asked_again(
    steps: tuple[Index, Index], monkeypatch: pytest.MonkeyPatch, error: apsw.Error, times: int
) -> None:
    """A question that is interrupted, or that meets a lock, fails at once; one that fails over its SQL is asked again."""
    index, _ = steps
    asked: list[apsw.Error] = []

    def fail(*_: Any, **__: Any) -> Any:
        asked.append(error)
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(index._readers.own.search, "match_rows", fail)
        with pytest.raises(NearDupError, match=str(error)):
            index.query_code(0)
    assert len(asked) == times and len(index.query_code(0)) == 3


# ---- inside one transaction ----------------------------------------------------------------------------------------------


def fox(number: int) -> str:
    """A text, unlike those of other numbers."""
    return " ".join(f"{word}{number}" for word in ("the", "quick", "brown", "fox"))


def found_of(index: Index, numbers: range) -> list[bool]:
    """Whether each text is found."""
    return [[match.key for match in index.query(fox(number))] == [number] for number in numbers]


@pytest.mark.parametrize("savepoint", [False, True], ids=["", "savepoint"])
def test_adds_of_a_transaction_follow_a_rebuild_in_it(path: Path, savepoint: bool) -> None:
    """What one transaction adds before and after another index of the same connection has rebuilt is found."""
    with Index(path) as index, Index(index.connection) as other:
        with index.transaction():
            assert [index.add(number, fox(number)) for number in range(3)] == [[], [], []]
            if savepoint:
                index.connection.execute("SAVEPOINT theirs")
            other.rebuild(sets(7))
            assert [index.add_if_new(number, fox(number)) for number in range(3, 6)] == [[], [], []]
        assert index.scheme.seed == sets(7).seed
        assert found_of(index, range(6)) == [True] * 6
        assert index.check().ok


@pytest.mark.parametrize("rebuilds", ["index", "other"])
def test_adds_of_a_transaction_follow_a_rebuild_that_a_savepoint_took_back(path: Path, rebuilds: str) -> None:
    """Where the caller's savepoint takes a rebuild back, which changes no row by SQLite's count, the next ones are filed as
    before."""
    with Index(path) as index, Index(index.connection) as other:
        with index.transaction():
            index.add(0, fox(0))
            index.add(1, fox(1))
            index.connection.execute("SAVEPOINT theirs")
            (index if rebuilds == "index" else other).rebuild(sets(7))
            index.add(2, fox(2))
            index.add(3, fox(3))
            index.connection.execute("ROLLBACK TO theirs")
            index.add(4, fox(4))
            index.add(5, fox(5))
        assert index.scheme.seed == sets().seed
        assert found_of(index, range(6)) == [True, True, False, False, True, True]
        assert index.check().ok


def test_an_add_that_fails_after_changes_ends_its_transaction(path: Path) -> None:
    """A second add of a transaction, which fails when its fingerprint is stored already, leaves nothing of the transaction."""
    with Index(path) as index:
        before = list(index)
        index.connection.execute(
            "CREATE TEMP TRIGGER refuses BEFORE INSERT ON main.neardup_document WHEN new.key = 'b' "
            "BEGIN SELECT raise(ABORT, 'no b'); END"
        )
        with pytest.raises(NearDupError, match="rolled back"), index.transaction():
            index.add("a", fox(1))
            index.add("again", fox(3))
            with pytest.raises(NearDupError, match="no b"):
                index.add("b", fox(2))
            index.add("c", fox(4))
        assert list(index) == before
        assert index.check().ok


# ---- pairs() after a rebuild elsewhere -----------------------------------------------------------------------------------

SCHEMES: dict[str, Any] = {
    "sets": sets(),
    "another seed": sets(2),
    "estimated sets": MinHash(threshold=0.5, num_perm=64, bands=64, rows=1),
    "bottom-k": BottomK(k=64, threshold=0.5),
    "codes": SimHash(max_distance=30, blocks=32),
    "samples": BitSampling(bits=64, max_distance=3),
}


@pytest.mark.parametrize(("before", "after"), [*pairwise([*SCHEMES, "sets", "codes", "sets", "bottom-k", "another seed"])])
def test_pairs_are_those_of_the_scheme_that_the_file_has(path: Path, before: str, after: str) -> None:
    """pairs() of an index that slept through another one's rebuild gives what a freshly opened index gives."""
    rebuild_elsewhere(path, SCHEMES[before])
    with Index(path) as index:
        assert len(index) == 6
        rebuild_elsewhere(path, SCHEMES[after])
        found = list(index.pairs())
        with Index(path) as fresh:
            assert found == list(fresh.pairs())
        if after in ("sets", "another seed", "bottom-k"):
            assert answer(found) == PAIRS


def test_a_threshold_is_compared_with_the_scheme_that_the_file_has(path: Path) -> None:
    """Which thresholds pairs() takes follows from the file, whether a rebuild elsewhere has lowered or raised the bound."""
    rebuild_elsewhere(path, sets(threshold=0.8))
    with Index(path) as index:
        rebuild_elsewhere(path, sets(threshold=0.5))
        assert answer(index.pairs(0.6)) == PAIRS
        rebuild_elsewhere(path, sets(threshold=0.8))
        with pytest.raises(ParameterError, match=r"threshold=0.6 is below .*0\.8"):
            index.pairs(0.6)


# ---- pairs_with(other) ---------------------------------------------------------------------------------------------------


@pytest.fixture
def second(tmp_path: Path) -> Path:
    """Another index, of one of the texts."""
    (tmp_path / "second.db").write_bytes(index_of(("copy", TEXTS["nine"])))
    return tmp_path / "second.db"


OTHERS: dict[str, tuple[Any, Any]] = {
    "another seed": (MinHash(threshold=0.5, num_perm=64, bands=64, rows=1, seed=2), None),
    "another scheme": (BottomK(k=64, threshold=0.5), None),
    "other rules": (None, TextRules.words(shingle=1, case=None)),
}


@pytest.mark.parametrize("which", ["this", "the other"])
@pytest.mark.parametrize("name", OTHERS)
def test_pairs_with_what_cannot_be_compared_any_more(path: Path, second: Path, name: str, which: str) -> None:
    """pairs_with(other) raises ParameterError at the call when either file was rebuilt elsewhere so that no value compares."""
    plain = MinHash(threshold=0.5, num_perm=64, bands=64, rows=1)
    rebuild_elsewhere(path, plain)
    rebuild_elsewhere(second, plain)
    with Index(path) as index, Index(second) as other:
        assert sorted(one.key_a for one in index.pairs_with(other)) == ["nine", "nine of ten"]
        rebuild_elsewhere(path if which == "this" else second, *OTHERS[name])
        with pytest.raises(ParameterError, match="cannot be compared"):
            index.pairs_with(other)


def test_pairs_with_another_index_that_was_rebuilt_alike(path: Path, second: Path) -> None:
    """pairs_with(other) gives all pairs under the new parameters when both files were rebuilt elsewhere to the same ones."""
    with Index(path) as index, Index(second) as other:
        for file in (path, second):
            rebuild_elsewhere(file, sets(7, threshold=0.6), TextRules.words(shingle=1, case=None))
        assert sorted((one.key_a, one.key_b, one.similarity) for one in index.pairs_with(other)) == [
            ("nine", "copy", 1.0),
            ("nine of ten", "copy", 0.9),
        ]


# ---- generators that are held across a rebuild ---------------------------------------------------------------------------

MANY = 80
"""Documents: more than pairs() reads at once."""


def many_text(number: int) -> str:
    """Texts number 2 i and 2 i + 1 have three of five words in common, others none."""
    return f"one{number // 2} two{number // 2} three{number // 2} own{number}"


@pytest.fixture
def many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An index of which every way of reading all pairs takes several pieces."""
    for name in ("SET_BLOCK", "RANGE_FIRST", "RANGE_MOST", "LISTED_PAGE"):
        monkeypatch.setattr(limits, name, 20)
    (tmp_path / "many.db").write_bytes(index_of(*((number, many_text(number)) for number in range(MANY))))
    return tmp_path / "many.db"


def until_rebuilt(pairs: Iterator[Any], first: Any) -> list[Any]:
    """The pairs that a generator gives before it says that the index was rebuilt, each with its true similarity."""
    given = [first]
    with pytest.raises(MismatchError, match="rebuilt"):
        for one in pairs:
            given.append(one)
    for one in given:
        words = set(many_text(one.key_a).split()), set(many_text(one.key_b).split())
        assert one.similarity == pytest.approx(jaccard(*words), abs=1e-12)
    return given


HELD: dict[str, tuple[Any, Any, Any]] = {
    "codes": (sets(), SimHash(max_distance=20, blocks=22), None),
    "another seed": (sets(), sets(2), None),
    "threshold": (sets(), sets(threshold=0.9), None),
    "rules": (sets(), None, TextRules.chars(shingle=3)),
    "sets to bottom-k": (sets(), BottomK(k=64, threshold=0.5), None),
    "bottom-k to sets": (BottomK(k=64, threshold=0.5), sets(), None),
    "bottom-k to codes": (BottomK(k=64, threshold=0.5), SimHash(max_distance=20, blocks=22), None),
    "bottom-k to rules": (BottomK(k=64, threshold=0.5), None, TextRules.chars(shingle=3)),
    "bottom-k to threshold": (BottomK(k=64, threshold=0.5), BottomK(k=64, threshold=0.9), None),
}


@pytest.mark.parametrize("where", ["elsewhere", "here"])
@pytest.mark.parametrize("name", HELD)
def test_a_generator_of_pairs_says_that_the_index_was_rebuilt(many: Path, name: str, where: str) -> None:
    """A pairs() generator that was begun before a rebuild gives pairs of the scheme that it began with, and at its next piece
    raises MismatchError that says so; never a pair with figures of another scheme."""
    before, scheme, rules = HELD[name]
    rebuild_elsewhere(many, before)
    with Index(many) as index:
        pairs = index.pairs()
        first = next(pairs)
        if where == "here":
            index.rebuild(scheme, rules)
        else:
            rebuild_elsewhere(many, scheme, rules)
        given = until_rebuilt(pairs, first)
        assert all(one.key_a + 1 == one.key_b for one in given) and len(given) < MANY // 2


@pytest.mark.parametrize("which", ["this", "the other"])
def test_a_generator_of_pairs_with_another_index_says_that_one_was_rebuilt(many: Path, tmp_path: Path, which: str) -> None:
    """So does a generator of pairs_with(other), whichever of the two files was rebuilt."""
    second = tmp_path / "second.db"
    second.write_bytes(many.read_bytes())
    with Index(second) as other, Index(many) as index:
        pairs = index.pairs_with(other)
        first = next(pairs)
        rebuild_elsewhere(many if which == "this" else second, sets(threshold=0.9), TextRules.chars(shingle=3))
        until_rebuilt(pairs, first)


def test_keys_are_listed_across_a_rebuild(many: Path) -> None:
    """Iteration over keys that was begun before a rebuild elsewhere goes on, and gives each key once."""
    with Index(many) as index:
        keys = iter(index)
        given = [next(keys) for _ in range(10)]
        rebuild_elsewhere(many, SimHash(max_distance=3), TextRules.chars())
        assert given + list(keys) == list(range(MANY))


# ---- codes of another width ----------------------------------------------------------------------------------------------

WAYS: dict[str, Callable[[Index], Any]] = {
    "add_code": lambda index: index.add_code("a", bytes(8)),
    "add_codes of bytes": lambda index: index.add_codes(["a"], [bytes(8)]),
    "add_codes of rows": lambda index: index.add_codes(["a", "b"], np.zeros((2, 8), np.uint8)),
    "add_code_if_new": lambda index: index.add_code_if_new("a", bytes(8)),
    "query_code": lambda index: index.query_code(bytes(8)),
    "nearest": lambda index: index.nearest(bytes(8), 1),
    "nearest_code": lambda index: index.nearest_code(bytes(8), 1),
    "query_codes": lambda index: index.query_codes([bytes(8)]),
    "query_codes of rows": lambda index: index.query_codes(np.zeros((100, 8), np.uint8)),
}


def test_codes_of_the_width_that_the_index_had(tmp_path: Path) -> None:
    """Codes of 8 bytes, for an index that another one has rebuilt to 128 bits, are refused with both widths, and nothing is said
    of damage, for there is none."""
    for name, call in WAYS.items():
        path = tmp_path / f"{name}.db"
        Index(path, BinaryCode(64, 3)).close()
        with Index(path) as index:
            assert len(index) == 0
            rebuild_elsewhere(path, BinaryCode(128, 3))
            with pytest.raises(ParameterError) as raised:
                call(index)
            told = str(raised.value)
            assert re.search("64 bits|8 bytes", told) and "128" in told and "damage" not in told, name
            index.add_code("c", bytes(16))
            assert list(index) == ["c"] and index.check().problems == (), name


def test_codes_of_the_width_that_the_index_has_got(tmp_path: Path) -> None:
    """Codes of the width that another index's rebuild has given the file are taken, in every form."""
    path = tmp_path / "index.db"
    Index(path, BinaryCode(64, 3)).close()
    with Index(path) as index:
        rebuild_elsewhere(path, BinaryCode(128, 3))
        assert index.add_codes(["a", "b"], np.eye(2, 16, dtype=np.uint8)).added == 2
        assert [match.key for match in index.query_code(bytes(16))] == ["a", "b"]
        rebuild_elsewhere(path, BinaryCode(128, 2))
        assert [[match.key for match in found] for found in index.query_codes(np.zeros((99, 16), np.uint8))] == [["a", "b"]] * 99
        assert index.add_codes(["c"], [bytes(16)]).added == 1
        rebuild_elsewhere(path, BinaryCode(128, 20))
        assert [len(one) for one in index.clusters()] == [3] and index.check().problems == ()


# ---- opening, and rebuilding after others --------------------------------------------------------------------------------


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("after", ["bottom-k", "codes", "sets"])
@pytest.mark.parametrize("step", ["require_data", "require_tables"])
def test_a_file_that_is_rebuilt_while_it_is_opened(
    path: Path, monkeypatch: pytest.MonkeyPatch, step: str, after: str, read_only: bool
) -> None:
    """An index can be opened at any moment of another one's rebuild: it opens, with the one scheme or the other, and answers by
    what the file has."""
    looked_at = getattr(definitions, step)

    def after_a_rebuild(*arguments: Any) -> None:
        monkeypatch.setattr(definitions, step, looked_at)
        rebuild_elsewhere(path, SCHEMES[after])
        looked_at(*arguments)

    monkeypatch.setattr(definitions, step, after_a_rebuild)
    with Index(path, read_only=read_only) as index:
        assert getattr(definitions, step) is looked_at
        assert "nine" in [match.key for match in index.query(TEXTS["nine"])]
        assert ("Capitals", "small letters") in [(one.key_a, one.key_b) for one in index.pairs()]
        assert index.scheme.settings() == SCHEMES[after].for_index(WORDS).settings()
