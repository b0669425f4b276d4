"""`changes`: another system follows the index by tokens."""

from __future__ import annotations

import itertools
import json
import random
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from by_hand import damage
from cases import one_test
from commands import outcome as run
from load import run_threads
from support import SETS, WORDS
from test_dismiss import numbers

from neardup_db import BinaryCode, Changes, CorruptIndexError, Index, MinHash, MismatchError, ReadOnlyError, limits


class Follower:
    """Another system: the keys of an index with the numbers of their clusters."""

    def __init__(self) -> None:
        self.token: str | None = None
        self.numbers: dict[Any, int | None] = {}
        self.again = 0

    def apply(self, page: Changes) -> None:
        """What a page says, in its order."""
        for key in page.removed:
            self.numbers.pop(key, None)
        self.numbers |= dict.fromkeys(page.added)
        self.numbers |= dict(page.clusters)
        self.token = page.token

    def follow(self, index: Index, limit: int = 1000) -> int:
        """All pages; returns how many."""
        for pages in itertools.count(1):
            try:
                page = index.changes(self.token, limit=limit)
            except MismatchError:
                self.token, self.numbers, self.again = None, {}, self.again + 1
                continue
            assert len(page.removed) + len(page.added) <= limit and len(page.clusters) <= limit
            self.apply(page)
            if not page.more:
                return pages
        raise AssertionError


@pytest.fixture
def chain() -> Any:
    """Codes of which each is one bit from the next: 0 to 5."""
    with Index(":memory:", BinaryCode(bits=64, max_distance=1)) as index:
        index.add_codes(range(6), [(1 << n) - 1 for n in range(6)])
        yield index


def test_all_is_told_from_the_beginning(chain: Index) -> None:
    """Without a token every document is told as added, in pages of the asked size, with the number of its cluster."""
    first = chain.changes(limit=4)
    assert (first.added, first.removed, first.more, bool(first)) == ((0, 1, 2, 3), (), True, True)
    rest = chain.changes(first.token, limit=4)
    assert (rest.added, rest.more) == ((4, 5), False)
    assert dict(first.clusters + rest.clusters) == numbers(chain)
    nothing = chain.changes(rest.token)
    assert (bool(nothing), nothing.token) == (False, rest.token)


def test_every_kind_of_change_is_told(chain: Index) -> None:
    """Added, removed, replaced, joined and split documents, each once."""
    token = chain.changes().token
    number = numbers(chain)[0]
    chain.add_code("new", 3 << 40)
    page = chain.changes(token)
    assert (page.added, page.removed, page.clusters) == (("new",), (), ())
    chain.add_code("like new", 3 << 40)
    page = chain.changes(page.token)
    label = numbers(chain)["new"]
    assert (page.added, sorted(page.clusters)) == (("like new",), [("like new", label), ("new", label)])
    chain.delete(1)
    page = chain.changes(page.token)
    assert (page.removed, page.added, page.clusters) == ((1,), (), ((0, None),)) and numbers(chain)[2] == number
    chain.add_code(5, 3 << 50, if_exists="replace")
    page = chain.changes(page.token)
    assert (page.removed, page.added, page.clusters) == ((5,), (5,), ())
    chain.dismiss(3, 4)
    page = chain.changes(page.token)
    assert (page.removed, page.added, page.clusters) == ((), (), ((4, None),))
    chain.add_codes(["x", "y"], [3 << 44, 7 << 44])
    assert set(chain.changes(page.token).added) == {"x", "y"}
    chain.update("x", metadata=1)
    token = chain.changes(page.token).token
    assert not chain.changes(token)


def test_a_joined_cluster_is_told_by_the_documents_of_the_smaller_one() -> None:
    """A document that is like two clusters gives the smaller one another number; nothing is told of the larger one."""
    with Index(":memory:", BinaryCode(bits=64, max_distance=1)) as index:
        index.add_codes(["a1", "a2", "a3"], [0b000, 0b001, 0b011])
        index.add_codes(["b1", "b2"], [0b11 << 8, 0b111 << 8])
        token, number = index.changes().token, numbers(index)["a1"]
        index.add_codes(["m1", "m2"], [0b1 << 8, 0b1 << 40])
        page = index.changes(token)
        assert page.added == ("m1", "m2")
        assert sorted(page.clusters) == [("b1", number), ("b2", number), ("m1", number), ("m2", number)]


def test_what_came_and_went_is_not_told(chain: Index) -> None:
    """A document that was added and removed between two calls is told in neither way, one that moved twice is told once."""
    token = chain.changes().token
    chain.add_code("a", 1)
    chain.delete("a")
    for _ in range(3):
        chain.dismiss(4, 5)
        chain.undismiss(4, 5)
    page = chain.changes(token)
    assert (page.added, page.removed) == ((), ()) and len(page.clusters) == 1


def test_an_old_token_may_be_used_again(chain: Index) -> None:
    """A follower that lost its latest token applies the changes once more, and has the same in the end."""
    follower = Follower()
    follower.follow(chain)
    token = follower.token
    for step in (lambda: chain.delete(2), lambda: chain.add_code(2, 3), lambda: chain.delete_many([0, 5])):
        step()
        follower.token = token
        follower.follow(chain, 1)
        assert follower.numbers == numbers(chain)


@pytest.mark.parametrize("limit", [1, 2, 7])
def test_following_while_others_write(limit: int) -> None:
    """Pages may be of different states: whatever is written between them, in the end the follower has what the index has."""
    rng = random.Random(limit)
    with Index(":memory:", SETS, text=WORDS) as index:
        followers = [Follower() for _ in range(3)]
        words = ["oak", "elm", "ash", "fir", "yew", "box"]
        for _ in range(300):
            key, text = rng.randrange(40), " ".join(rng.sample(words, 3))
            what = rng.random()
            if what < 0.5:
                index.add(key, text, if_exists="replace")
            elif what < 0.7:
                index.delete(key)
            elif what < 0.8:
                index.add_many([(rng.randrange(40), " ".join(rng.sample(words, 3))) for _ in range(4)], if_exists="replace")
            elif len(index) > 1:
                (index.undismiss if what > 0.95 else index.dismiss)(*rng.sample(list(index), 2))
            follower = rng.choice(followers)
            follower.apply(index.changes(follower.token, limit=limit))
        for follower in followers:
            follower.follow(index, limit)
            assert follower.numbers == numbers(index) and follower.again == 0
        assert index.check().ok


def test_following_while_threads_write(path: Path) -> None:
    """Followers on threads and by another object see whole transactions, and none is missed."""
    with Index(path, SETS, text=WORDS, durability="normal") as index, Index(path, durability="normal") as other:
        done, followers = threading.Event(), [Follower(), Follower()]

        def write(number: int) -> None:
            rng = random.Random(number)
            for n in range(60):
                with index.transaction():
                    index.add(n + 1000 * number, f"oak elm w{rng.randrange(5)}")
                    index.add(f"{number} {n}", f"oak elm w{rng.randrange(5)}")
                if rng.random() < 0.4:
                    index.delete(f"{number} {n}")

        def write_all() -> None:
            try:
                run_threads(*(partial(write, number) for number in range(2)))
            finally:
                done.set()

        def follow(source: Index, follower: Follower) -> None:
            while not done.is_set():
                follower.follow(source, 50)

        run_threads(write_all, partial(follow, index, followers[0]), partial(follow, other, followers[1]))
        for follower in followers:
            follower.follow(index)
            assert follower.numbers == numbers(index) and follower.again == 0


def test_a_token_outlives_the_process(path: Path) -> None:
    """Another process goes on where the first one stopped."""
    with Index(path, SETS, text=WORDS) as index:
        index.add_many([("a", "oak elm"), ("b", "oak elm")])
        token = index.changes().token
    script = f"""from neardup_db import Index
with Index({str(path)!r}) as index:
    index.delete("a")
    index.add("c", "ash fir")
    print(index.changes({token!r}))"""
    found = subprocess.run([sys.executable, "-I", "-c", script], capture_output=True, text=True, check=True).stdout
    assert "removed=('a',), added=('c',), clusters=(('b', None),)" in found


# ---- tokens that are not known -----------------------------------------------------------------------------------------


@one_test(why=["rebuilt", "repaired", "forgotten", "forgotten and begun", "another index", "restored"])
def test_a_history_that_is_lost_says_to_begin_again(path: Path, tmp_path: Path, why: str) -> None:
    """After what numbers clusters anew or ends the log a token is an error, and a new beginning tells everything."""
    with Index(path, SETS, text=WORDS) as index:
        index.add_many([("a", "oak elm"), ("b", "oak elm")])
        token = index.changes().token
        if why == "rebuilt":
            index.rebuild()
        elif why == "repaired":
            index.connection.execute("DELETE FROM neardup_match")
            assert index.check(repair=True).ok
        elif why.startswith("forgotten"):
            assert (index.forget_changes(), index.forget_changes()) == (True, False)
            index.delete("b")
            if why.endswith("begun"):
                assert index.changes().added == ("a",)
        elif why == "restored":
            index.backup(tmp_path / "copy.db")
            index.delete("b")
            token = index.changes(token).token
    with Index(tmp_path / "copy.db" if why in ("another index", "restored") else path, SETS, text=WORDS) as index:
        with pytest.raises(MismatchError, match="Begin again: changes"):
            index.changes(token)
        follower = Follower()
        follower.follow(index)
        assert follower.numbers == numbers(index) and index.check().ok


def test_a_history_too_long_to_be_kept(chain: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the latest changes are kept, so that the file does not grow; an older token is an error, a newer one is not."""
    monkeypatch.setattr(limits, "CHANGES_KEPT", 10)
    old = chain.changes().token
    for n in range(100, 130):
        chain.add_code(n, n << 32)
        chain.delete(n)
        if n == 125:
            new = chain.changes(limit=10**6).token
    assert chain.connection.execute("SELECT count(*) <= 10 FROM neardup_change").fetchall() == [(1,)]
    with pytest.raises(MismatchError, match="only the latest 10 changes are kept"):
        chain.changes(old)
    assert chain.changes(new).removed == () and chain.check().ok


def test_a_first_call_needs_writing(path: Path) -> None:
    """Reading only, changes are told where they are noted."""
    with Index(path, SETS, text=WORDS) as index:
        index.add("a", "oak elm")
    with Index(path, read_only=True) as index, pytest.raises(ReadOnlyError):
        index.changes()
    with Index(path) as index:
        token = index.changes().token
    with Index(path, read_only=True) as index:
        assert index.changes().added == ("a",) and not index.changes(token)


def test_a_beginning_that_is_taken_back(path: Path) -> None:
    """A first call in a transaction that fails leaves nothing, and its token is not known."""
    with Index(path, SETS, text=WORDS) as index:
        with pytest.raises(ZeroDivisionError), index.transaction():
            token = index.changes().token
            raise ZeroDivisionError
        with pytest.raises(MismatchError):
            index.changes(token)
        index.add("a", "oak")
        assert index.changes().added == ("a",) and index.check().ok


def test_an_index_that_nobody_follows_notes_nothing(chain: Index) -> None:
    """There is no table, and no setting."""
    chain.delete(0)
    names = {row[0] for row in chain.connection.execute("SELECT name FROM sqlite_schema UNION SELECT name FROM neardup_setting")}
    assert not {name for name in names if "change" in name}


@one_test(
    ("sql", "problem"),
    [
        ("INSERT INTO neardup_change VALUES (99, 77, NULL)", "noted as removed: 99"),
        ("INSERT INTO neardup_change VALUES (99, 1, 'a')", "noted as removed: 99"),
        ("UPDATE neardup_setting SET value = 'x' WHERE name = 'change_log'", "no such numbers: change_log 'x'"),
        ("UPDATE neardup_setting SET value = -4 WHERE name = 'change_log'", "no such numbers: change_log -4"),
        ("DELETE FROM neardup_setting WHERE name = 'change_log'", "missing or no such numbers: change_log NULL"),
        ("UPDATE neardup_setting SET value = -1 WHERE name = 'changes_trimmed'", "no such numbers: changes_trimmed -1"),
        ("UPDATE neardup_setting SET value = 9 WHERE name = 'changes_trimmed'", "no such numbers: changes_trimmed 9"),
        ("DELETE FROM neardup_setting WHERE name = 'changes_trimmed'", "missing or no such numbers: changes_trimmed NULL"),
    ],
)
def test_check_names_damage_and_repair_begins_again(path: Path, sql: str, problem: str) -> None:
    """A log that does not agree with the documents is named; the repaired index has an empty one."""
    with Index(path, SETS, text=WORDS) as index:
        index.add_many([("a", "oak elm"), ("b", "oak elm")])
        token = index.changes().token
    damage(path, sql)
    with Index(path) as index:
        assert any(problem in one for one in index.check().problems)
        if problem.endswith(("NULL", "x'", "4", "1")) and "noted" not in problem:
            with pytest.raises(CorruptIndexError, match=f"the setting {problem.split()[-2]} .*check.repair=True"):
                index.changes(token)
        assert index.check(repair=True).ok
        assert index.changes().added == ("a", "b")


def test_a_log_that_was_dropped(path: Path) -> None:
    """Its tokens are not known any more, and the next call begins another log."""
    with Index(path, SETS, text=WORDS) as index:
        index.add_many([("a", "oak elm"), ("b", "oak elm")])
        token = index.changes().token
        index.connection.execute("DROP TABLE neardup_change")
    with Index(path) as index:
        with pytest.raises(MismatchError, match="Begin again"):
            index.changes(token)
        assert index.changes().added == ("a", "b") and index.delete("a") and index.check().ok


# ---- command line --------------------------------------------------------------------------------------------------------


def test_the_command(path: Path) -> None:
    """It prints all pages, and the token last."""
    with Index(path, SETS, text=WORDS) as index:
        index.add_many([("a", "oak elm"), ("b", "oak elm"), ("c", "ash")])
    code, out = run("changes", path)
    *lines, last = out.splitlines()
    assert code == 0 and lines == ["added\ta", "added\tb", "added\tc", "cluster\ta\t2", "cluster\tb\t2"]
    token = last.removeprefix("token\t")
    assert run("changes", path, "--since", token) == (1, f"token\t{token}\n")
    run("delete", path, "b")
    code, out = run("changes", path, "--since", token, "--json")
    told = [json.loads(line) for line in out.splitlines()]
    assert code == 0 and told[:-1] == [{"change": "removed", "key": "b"}, {"change": "cluster", "key": "a", "cluster": None}]
    assert set(told[-1]) == {"change", "token"}
    assert run("changes", path, "--forget", "--since", token)[0] == 2
    assert (run("changes", path, "--forget")[0], run("changes", path, "--forget")[0]) == (0, 1)
    assert run("changes", path, "--since", token)[0] == 2


def test_a_token_from_after_a_backup_is_later_than_the_file(tmp_path: Path) -> None:
    """A token whose documents the file never had is a MismatchError, also where no number of a change tells it."""
    with Index(tmp_path / "a.db", MinHash()) as index:
        index.changes()
        index.add("a", "one two three four five")
        index.backup(tmp_path / "copy.db")
        index.add("b", "quite another text than that one")
        token = index.changes().token
        assert index.changes(token, limit=2**63 - 1).added == ()
    with Index(tmp_path / "copy.db") as copy, pytest.raises(MismatchError, match="later state"):
        copy.changes(token)
