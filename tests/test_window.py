"""An index with a window holds the documents of a time, or so many of the last ones; counts, and questions to all groups."""

from __future__ import annotations

import random
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from support import CASES, SETS, WORDS, keys

from neardup_db import ANY_GROUP, BinaryCode, BottomK, Count, Index, Match, MinHash, MismatchError, ParameterError, clock, limits

HOUR = timedelta(hours=1)
NOW = round(time.time(), 3)
"""As a file has it, to the millisecond."""


class Watch:
    """A clock that stands until it is set; milliseconds."""

    def __init__(self, now: float = NOW) -> None:
        self.now = round(now * 1000)

    def __call__(self) -> int:
        return self.now

    def pass_(self, time: timedelta) -> None:
        """Let time pass."""
        self.now += round(time / timedelta(milliseconds=1))


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    """The clock of the package."""
    made = Watch()
    monkeypatch.setattr(clock, "now_ms", made)
    monkeypatch.setattr("neardup_db.parameters.now_ms", made)
    return made


def stored(index: Index) -> int:
    """Documents in the file, visible or not."""
    count: int = index.connection.execute("SELECT count(*) FROM neardup_document").get
    return count


# ---- in bulk -------------------------------------------------------------------------------------------------------------


def several(source: random.Random, many: int) -> list[tuple[int, str]]:
    """Texts of which many are alike, some equal, some empty."""
    words = ["oak", "elm", "ash", "fir", "yew", "box", "bay", "fig", "nut", "may"]
    return [(number, " ".join(source.sample(words, source.randrange(6)))) for number in range(many)]


def test_a_file_never_holds_much_more_than_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """A load through a small window holds a batch more than it, and no more."""
    monkeypatch.setattr(limits, "BATCH_RECORDS", 10)
    most = 0

    def note(_: int) -> None:
        nonlocal most
        most = max(most, stored(index))

    with Index(":memory:", SETS, text=WORDS, window=25) as index:
        index.add_many(several(random.Random(1), 500), progress=note)
        assert list(index) == list(range(475, 500)) and most <= 25


# ---- what leaves, and when -----------------------------------------------------------------------------------------------


def test_what_is_older_is_invisible_at_once(watch: Watch) -> None:
    """A document is there until its time has come, to the millisecond, in Python and in SQL, before anybody removes it."""
    with Index(":memory:", SETS, text=WORDS, window=HOUR) as index:
        index.add("a", "oak elm")
        index.add("b", "oak elm", expires_at=timedelta(minutes=10))
        index.add("c", "oak elm", expires_at=timedelta(hours=5))
        watch.pass_(timedelta(minutes=10))
        assert list(index) == ["a", "c"]
        watch.pass_(timedelta(minutes=50) - timedelta(milliseconds=1))
        assert list(index) == ["a", "c"] == keys(index.query("oak elm")) and index.get("c").expires_at == NOW + 3600
        watch.pass_(timedelta(milliseconds=1))
        assert list(index) == index.query("oak elm") == [] and stored(index) == 3
        assert index.expire() == 3 and index.check().ok


def test_a_backlog_shrinks_a_little_with_each_document(watch: Watch) -> None:
    """After a pause each add removes a few of what has expired, more than it adds; `expire` does the rest."""
    with Index(":memory:", SETS, text=WORDS, window=HOUR) as index:
        index.add_many((number, f"word{number}") for number in range(100))
        watch.pass_(2 * HOUR)
        for added in range(1, 4):
            index.add(1000 + added, f"new{added}")
            assert stored(index) == 100 - added * (limits.LEFT_PER_ADDED - 1) and len(index) == added
        index.add_many((2000 + number, f"newer{number}") for number in range(10))
        assert stored(index) == 100 - 13 * (limits.LEFT_PER_ADDED - 1) and index.check().ok
        left = stored(index) - 13
        assert index.expire() == left > 0 and stored(index) == len(index) == 13


def test_a_clock_that_is_set_back(watch: Watch) -> None:
    """By the clock that is set back a document is younger than the window, so it is there again unless it was removed."""
    with Index(":memory:", SETS, text=WORDS, window=HOUR) as index:
        index.add("a", "oak elm")
        watch.pass_(2 * HOUR)
        assert list(index) == []
        watch.pass_(-3 * HOUR)
        index.add("b", "fir yew")
        assert list(index) == ["a", "b"]
        watch.pass_(HOUR)
        assert list(index) == ["a"] and index.check().ok


def test_a_window_of_documents_knows_no_clock(watch: Watch) -> None:
    """What has left a window of so many documents is never there again, whatever the clock says."""
    with Index(":memory:", SETS, text=WORDS, window=10) as index:
        index.add_many((number, f"word{number}") for number in range(10))
        index.set_window(3)
        for hours in (0, -20, 400_000):
            watch.pass_(hours * HOUR)
            assert list(index) == [7, 8, 9] and index.check().ok
        assert stored(index) == 10


def test_sql_sees_the_window() -> None:
    """The search in SQL, and the views, have what is in the window, and nothing that waits to be removed."""
    with Index(":memory:", SETS, text=WORDS, window=4) as index:
        index.add_many([(key, "oak elm") for key in "abcd"])
        index.set_window(2)
        run_sql = index.connection.execute
        assert run_sql("SELECT key FROM neardup_search('neardup', 'oak elm')").fetchall() == [("c",), ("d",)]
        assert run_sql("SELECT key FROM neardup_documents ORDER BY key").fetchall() == [("c",), ("d",)]
        assert run_sql("SELECT size FROM neardup_clusters").fetchall() == [(2,), (2,)]
        assert list(index.pairs()) == list(index.pairs(1.0)) and len(list(index.pairs())) == 1 and stored(index) == 4


def test_what_left_comes_back_with_its_transaction() -> None:
    """A transaction that is rolled back takes nothing out of the window."""
    with Index(":memory:", SETS, text=WORDS, window=2) as index:
        index.add_many([("a", "oak elm"), ("b", "oak elm fir")])
        with pytest.raises(ZeroDivisionError), index.transaction():
            index.add_many([("c", "yew"), ("d", "bay")])
            index.set_window(1)
            assert list(index) == ["d"]
            raise ZeroDivisionError
        assert list(index) == ["a", "b"] and index.window == 2 and index.check().ok
        assert [cluster.keys for cluster in index.clusters()] == [("a", "b")]


# ---- the setting ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("window", [None, 1, 10**9, HOUR, timedelta(days=7, milliseconds=1), timedelta.max])
def test_a_window_is_in_the_file(path: Path, tmp_path: Path, window: Any) -> None:
    """The file has the window, through a rebuild, a backup and a compaction; other programs find it there."""
    with Index(path, MinHash(), store_text=True, window=window) as index:
        index.add("a", "oak elm ash fir")
        index.rebuild(BottomK())
        index.compact()
        index.backup(tmp_path / "copy.db")
    for file in (path, tmp_path / "copy.db"):
        with Index(file) as index:
            expected = timedelta(days=999999999, hours=23, minutes=59, seconds=59, milliseconds=999)
            assert index.window == (expected if window == timedelta.max else window)
            assert list(index) == ["a"] and index.check().ok
    with Index(path, window=window) as index:
        assert index.query("oak elm ash fir") == [Match("a", 1.0, None)]


def test_another_window_in_an_open_index(path: Path) -> None:
    """Who has the file open follows a window that another has changed, whether it was opened with the one before or without."""
    with Index(path, MinHash(), window=5) as one, Index(path) as other, Index(path, window=5) as third:
        one.add_many((number, f"word{number}") for number in range(5))
        one.set_window(2)
        assert list(other) == [3, 4] == list(one) and (other.window, one.window) == (2, 2)
        other.add("new", "quite other words")
        assert list(one) == [4, "new"]
        third.add("newer", "words")
        assert third.window == 2 and list(third) == ["new", "newer"]
        third.set_window(HOUR)
        assert one.window == other.window == HOUR
        third.set_window(2)
    with pytest.raises(MismatchError, match=r"window=5, the file has 2, and set_window.* changes that. Leave them out .*s$"):
        Index(path, window=5)
    with Index(path) as one:
        assert one.window == 2 and one.check().ok


@pytest.mark.parametrize("before", [None, 3, HOUR, 3 * HOUR], ids=str)
def test_any_window_after_any_other(watch: Watch, before: Any) -> None:
    """What was in the window before and is in the new one stays; each document keeps the end that it has of its own, also where
    the window before ended it sooner, or at the same time."""
    own = {"c": timedelta(minutes=30), "d": timedelta(hours=2), "e": timedelta(hours=9), "f": HOUR}
    for after in (None, 3, HOUR, 3 * HOUR):
        with Index(":memory:", SETS, text=WORDS, window=before) as index:
            added = {}
            for key in "abcdef":
                index.add(key, f"word {key}", expires_at=own.get(key))
                added[key] = watch.now
                watch.pass_(timedelta(minutes=5))
            index.set_window(after)
            assert index.window == after and index.check().ok
            for _ in range(25):
                for key in "abcdef":
                    ends = [9e99 if key not in own else added[key] + own[key] / timedelta(milliseconds=1)]
                    ends += [added[key] + after / timedelta(milliseconds=1)] if isinstance(after, timedelta) else []
                    ends += [0] if 3 in (before, after) and key in "abc" else []
                    assert (key in index) == (watch.now < min(ends)), (after, key, watch.now)
                watch.pass_(timedelta(minutes=30))
            assert index.check().ok


@pytest.mark.parametrize("way", ["add", "add_many", "update", "touch", "merge", "add_codes"])
def test_an_end_of_its_own_is_not_forgotten(watch: Watch, way: str) -> None:
    """However a document in a window gets a later end of its own, a wider window lets it stay until then, and no longer."""
    scheme = BinaryCode(bits=64, max_distance=3)
    with Index(":memory:", scheme, window=HOUR) as index, Index(":memory:", scheme) as other:
        end = timedelta(hours=2)
        if way == "add":
            index.add_code("a", 1, expires_at=end)
        elif way == "add_many":
            index.add_codes(["a"], [1], expires_at=end)
        elif way == "update":
            index.add_code("a", 1)
            index.update("a", expires_at=end)
        elif way == "touch":
            index.add_code("a", 1)
            index.add_code_if_new("b", 1, on_match="touch", expires_at=end)
        elif way == "merge":
            other.add_code("a", 1, expires_at=end)
            index.merge(other)
        else:
            index.add_codes(["a", "a"], [1, 2], part=[1, 2], expires_at=end)
        assert index.get("a").expires_at * 1000 == watch.now + HOUR / timedelta(milliseconds=1)
        index.set_window(3 * HOUR)
        assert other.merge(index, if_exists="replace").total
        for one in (index, other):
            assert one.get("a").expires_at * 1000 == watch.now + end / timedelta(milliseconds=1)
        index.set_window(HOUR)
        index.update("a", expires_at=None)
        index.set_window(None)
        assert index.get("a").expires_at is None and index.delete("a") and index.check().ok
        assert index.connection.execute("SELECT count(*) FROM neardup_own_end").get == 0


@pytest.mark.parametrize("window", [2, HOUR])
def test_check_finds_what_stays_too_long(path: Path, window: Any) -> None:
    """A document that stays outside of the window is a problem, and repair ends it."""
    with Index(path, SETS, text=WORDS, window=window) as index:
        index.add_many([("a", "oak elm"), ("b", "fir yew")])
        wrong = "id = 90" if window == 2 else "expires_at = expires_at + 1"
        index.connection.execute(f"UPDATE neardup_document SET {wrong} WHERE key = 'b'")
        index.connection.execute("UPDATE sqlite_sequence SET seq = 90 WHERE name = 'neardup_document'")
        assert index.check().problems == (f"documents that stay outside of the window: {1 if window == 2 else 2}",)
        report = index.check(repair=True)
        assert report.ok and "1 documents outside of the window expire as it says" in report.repaired
        assert list(index) == (["b"] if window == 2 else ["a", "b"])


# ---- expiries ------------------------------------------------------------------------------------------------------------


def test_an_expiry_after_a_time(watch: Watch) -> None:
    """expires_at takes a timedelta from now on, wherever it takes a moment."""
    after = watch.now / 1000 + 60
    with Index(":memory:", MinHash()) as index, Index(":memory:", BinaryCode(bits=64)) as codes:
        index.add("a", "oak elm ash", expires_at=timedelta(minutes=1))
        index.add_many([{"key": "b", "text": "fir yew box", "expires_at": timedelta(minutes=1)}])
        index.add("c", "bay fig nut")
        index.update("c", expires_at=timedelta(seconds=60))
        index.add("d", "may oak fig", expires_at=-HOUR)
        codes.add_code("e", 5, expires_at=timedelta(minutes=1))
        codes.add_codes(["f"], [6], expires_at=timedelta(minutes=1))
        assert [index.get(key).expires_at for key in "abc"] == [after] * 3 == [codes.get("e").expires_at, after, after]
        assert "d" not in index and codes.get("f").expires_at == after


# ---- counting ------------------------------------------------------------------------------------------------------------


def test_how_many_and_since_when(watch: Watch) -> None:
    """A count is of what `query` gives, with the times of the earliest and the latest, and how often they were offered."""
    with Index(":memory:", SETS, text=WORDS) as index:
        assert index.count("oak elm") == Count(0, 0, None, None, None) and not index.count("oak elm")
        for key, text in (("a", "oak elm"), ("b", "oak elm fir"), ("c", "yew"), ("d", "oak elm")):
            index.add(key, text, group="g" if key == "d" else None)
            watch.pass_(HOUR)
        index.add_if_new("e", "oak elm", on_match="touch")
        start = NOW
        assert index.count("oak elm") == Count(2, 3, start, start + 3600, start + 4 * 3600)
        assert index.count("oak elm", threshold=1.0).count == 1
        assert index.count("oak elm", group="g") == Count(1, 1, start + 3 * 3600, start + 3 * 3600, start + 3 * 3600)
        assert index.count("oak elm", group=ANY_GROUP).count == 3 and index.count("oak elm", group="none").count == 0
        assert index.count("...") == Count(0, 0, None, None, None)
        assert index.count("elm", measure="containment", threshold=1.0).count == 2
        moment = datetime.fromtimestamp(start + 1, timezone.utc)
        for since in (start + 1, moment, timedelta(hours=4) - timedelta(seconds=1)):
            assert index.count("oak elm", since=since).count == 1
        for since in (start, timedelta(hours=4)):
            assert index.count("oak elm", since=since).count == 2


# ---- across groups -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "codes_a_group"),
    [*((name, 0) for name in CASES), *((name, 10**9) for name, case in CASES.items() if case.scheme.takes_codes)],
    ids=lambda value: {0: "group by group", 10**9: "all codes"}.get(value, value),
)
def test_all_groups(name: str, codes_a_group: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer of all groups is that of each group and of none together, in the order of every answer, however it is found."""
    monkeypatch.setattr(limits, "CODES_A_GROUP", codes_a_group)
    case, source = CASES[name], random.Random(5)
    with Index(":memory:", case.scheme, text=case.rules, store_text=case.store_text) as index:
        add, query = (index.add_code, index.query_code) if case.codes else (index.add, index.query)
        count: Any = index.count_code if case.codes else index.count
        many: Any = index.query_codes if case.codes else index.query_many
        wide = case.scheme.bits // 8 if case.codes else 0
        contents = [
            (source.getrandbits(6) << 3 * source.randrange(4)).to_bytes(wide, "big") if case.codes else text
            for _, text in several(source, 40)
        ]
        groups = [None, "a", b"a", 1, "gone"]
        for number, content in enumerate(contents):
            add(number, content, group=groups[number % 5])
        index.delete_many(range(4, 40, 5))
        order = {key: number for number, key in enumerate(index)}
        for content in contents[:10]:
            each = [match for group in groups for match in query(content, group=group)]
            each.sort(key=lambda match: (-match.similarity, order[match.key]))
            assert query(content, group=ANY_GROUP) == each
            assert query(content, group=ANY_GROUP, limit=2) == each[:2]
            some = query(content, group=ANY_GROUP, limit=2, any=True)
            assert len(some) == len(each[:2]) and set(some) <= set(each)
            assert count(content, group=ANY_GROUP).count == len(each)
        assert many(contents[:30], group=ANY_GROUP) == [query(content, group=ANY_GROUP) for content in contents[:30]]
        for key in list(index)[:10]:
            found = index.matches(key, group=ANY_GROUP)
            assert set(index.matches(key)) <= set(found)
            assert set(keys(found)) == set(keys(query(contents[key], group=ANY_GROUP))) - {key}


def test_what_does_not_go_across_groups() -> None:
    """A document has one group or none, and containment is asked of one group; the messages say so."""
    with Index(":memory:", SETS, text=WORDS) as index:
        index.add("a", "oak elm")
        for wrong in (
            lambda: index.add("b", "oak", group=ANY_GROUP),  # type: ignore[arg-type]
            lambda: index.add_many([{"key": "b", "text": "oak", "group": ANY_GROUP}]),
            lambda: index.explain("oak", group=ANY_GROUP),  # type: ignore[arg-type]
            lambda: index.query("oak", group=ANY_GROUP, measure="containment"),
            lambda: index.matches("a", group="g"),  # type: ignore[arg-type]
        ):
            with pytest.raises(ParameterError, match=r"group=.*(ANY_GROUP|one group)"):
                wrong()
        assert repr(ANY_GROUP) == "ANY_GROUP" and list(index) == ["a"]


def test_a_window_and_a_followed_table_do_not_go_together(tmp_path: Path) -> None:
    """Whichever comes second is refused with the remedy, since documents of rows that stay would be removed."""
    with Index(tmp_path / "a.db", MinHash()) as index:
        index.connection.execute("CREATE TABLE articles (id INTEGER PRIMARY KEY, body TEXT)")
        index.set_window(2)
        with pytest.raises(ParameterError, match=r"set_window\(None\)"):
            index.follow("articles", key="id", text="body")
        index.set_window(None)
        index.follow("articles", key="id", text="body")
        with pytest.raises(ParameterError, match=r"unfollow\(\)"):
            index.set_window(2)
        assert index.window is None and index.check().ok


def test_a_merge_into_a_window_leaves_the_last_documents() -> None:
    """The documents of another index go through the window as added ones do."""
    with Index(":memory:", SETS, text=WORDS, window=3) as index, Index(":memory:", SETS, text=WORDS) as other:
        index.add("a", "oak elm")
        other.add_many((number, f"ash fir {number}") for number in range(5))
        assert index.merge(other).added == 5
        assert list(index) == [2, 3, 4] and index.check().ok


def test_outcomes_name_documents_of_the_window() -> None:
    """The match that a load tells is what `add` answers: never a document that had left the window."""
    texts = [("old", "oak elm ash"), ("x", "yew lime"), ("new", "oak elm ash"), ("q", "oak elm ash fir")]
    told: list[Any] = []
    with Index(":memory:", SETS, text=WORDS, window=2) as index, Index(":memory:", SETS, text=WORDS, window=2) as other:
        one_by_one = [next((match.key for match in other.add(key, text, limit=1)), None) for key, text in texts]
        index.add_many(texts, on_outcome=lambda key, outcome, match: told.append(match and match.key))
    assert told == one_by_one == [None, None, "old", "new"]


def test_what_stays_is_told_by_the_window_of_its_moment() -> None:
    """With if_exists="ignore" a key counts as there only while its document is in the window."""
    with Index(":memory:", SETS, text=WORDS, window=2) as index:
        index.add_many([("a", "oak"), ("b", "elm")])
        report = index.add_many([("c", "ash"), ("d", "fir"), ("a", "yew")], if_exists="ignore")
        assert (list(index), report.added, report.ignored) == (["d", "a"], 3, 0)


def group_names(index: Index) -> list[Any]:
    """The names that the file keeps."""
    return [name for (name,) in index.connection.execute("SELECT name FROM neardup_group ORDER BY id")]


@pytest.mark.parametrize("many", [False, True], ids=["one by one", "add_many"])
@pytest.mark.parametrize("window", [3, HOUR])
def test_the_name_of_a_group_goes_with_its_last_document(window: Any, many: bool, watch: Watch, monkeypatch: Any) -> None:
    """A stream with ever new groups keeps the names of those in the window, and of at most one more; no number comes again."""
    monkeypatch.setattr(limits, "BATCH_RECORDS", 4)
    with Index(":memory:", SETS, text=WORDS, window=window) as index:
        numbers: dict[Any, int] = {}
        for first in range(0, 60, 6):
            records = [{"key": n, "text": f"oak w{n}" if n % 7 else "", "group": f"g{n // 2}"} for n in range(first, first + 6)]
            watch.pass_(HOUR)
            if many:
                index.add_many(records)
            else:
                for record in records:
                    index.add(**record)
            index.expire()
            there = {index.get(key).group for key in index}
            assert there <= set(group_names(index)) and len(group_names(index)) <= len(there) + 1
            for name, number in index.connection.execute("SELECT name, id FROM neardup_group"):
                assert numbers.setdefault(name, number) == number
        assert len(set(numbers.values())) == len(numbers) >= 20 and index.check().ok


def test_names_of_groups_without_a_document(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deleting the last document of a group drops its name, that of the newest group when another comes; a group with documents
    of empty texts keeps it, and so do all where these are too many to look at."""
    with Index(":memory:", SETS, text=WORDS) as index:
        index.add_many({"key": name, "text": text, "group": name} for name, text in (("a", "oak"), ("b", "elm"), ("c", "ash")))
        index.add("empty", "", group="a")
        assert index.delete_many(["a", "b", "c"]) == 3 and group_names(index) == ["a", "c"]
        index.add("d", "fir", group="d")
        index.delete("d")
        assert group_names(index) == ["a", "d"]
        monkeypatch.setattr(limits, "EMPTY_TEXTS", 1)
        index.add("e", "fir", group="e")
        index.add("f", "fir", group="f")
        index.delete("e")
        assert group_names(index) == ["a", "d", "e", "f"]
        monkeypatch.setattr(limits, "EMPTY_TEXTS", 3)
        index.delete("empty")
        assert group_names(index) == ["d", "e", "f"] and index.check().ok
        index.compact()
        assert group_names(index) == ["f"]
