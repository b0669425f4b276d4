"""A person's word: dismissed pairs in matches, pairs, clusters, explanations, copies of the file and repairs."""

from __future__ import annotations

import itertools
import json
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest
from by_hand import damage
from cases import one_test
from click.testing import CliRunner
from commands import outcome as run
from interpreter import interpreter
from support import PAST, SETS, WORDS
from support import cluster_keys as clusters

from neardup_db import BinaryCode, Index, KeyNotFoundError, Match, MinHash
from neardup_db.cli import main
from neardup_db.store.clustering.dismissing import adopt

STORY = "the ferry to the northern islands was cancelled on monday"


def pairs(index: Index) -> set[tuple[Any, Any]]:
    """The keys of each pair."""
    return {(one.key_a, one.key_b) for one in index.pairs()}


@pytest.fixture(params=[True, False], ids=["recorded", "unrecorded"])
def triple(request: pytest.FixtureRequest) -> Iterator[Index]:
    """Three documents that match each other, two of them equal copies; another that matches none."""
    with Index(":memory:", SETS, text=WORDS, record_matches=request.param) as index:
        index.add_many([("a", "oak elm ash"), ("b", "oak elm ash fir"), ("c", "oak elm ash"), ("far", "something else")])
        yield index


@pytest.mark.parametrize("method", ["dismiss", "undismiss"])
def test_wrong_keys_are_named(triple: Index, method: str) -> None:
    """An unknown key is a KeyNotFoundError, and nothing is written."""
    with pytest.raises(KeyNotFoundError, match="'x'"):
        getattr(triple, method)("a", "x")
    assert list(triple.dismissed()) == []
    names = {row[0] for row in triple.connection.execute("SELECT name FROM sqlite_schema")}
    assert "neardup_dismissed" not in names


# ---- one document with all that it matches -----------------------------------------------------------------------------


def test_an_expired_document_does_not_keep_a_document_in_its_cluster(triple: Index) -> None:
    """The pairs with expired documents are dismissed too, so that the number of the cluster changes at once, and not counted."""
    triple.update("c", expires_at=PAST)
    assert triple.dismiss("b") == 1
    if triple.stats()["settings"]["record_matches"]:
        assert triple.connection.execute("SELECT cluster_id FROM neardup_document WHERE key = 'b'").fetchall() == [(None,)]
    assert clusters(triple) == [] and list(triple.dismissed()) == [("a", "b")] and triple.check().ok
    assert triple.undismiss("b") == 1 and clusters(triple) == [("a", "b")]


def test_the_command_takes_one_document_out(path: Path) -> None:
    """`neardup dismiss INDEX KEY` says how many pairs it dismissed, and its exit code whether there were any."""
    run = CliRunner().invoke
    told = [run(main, [command, str(path), "c", *more]) for command in ("dismiss", "undismiss") for more in ([], [], ["--json"])]
    assert [one.output for one in told[:2]] == ["c: 3 pairs dismissed\n", "c: 0 pairs dismissed\n"]
    assert [one.output for one in told[3:5]] == ["c: 3 pairs no longer dismissed\n", "c: 0 pairs no longer dismissed\n"]
    assert [one.exit_code for one in told] == [0, 1, 1, 0, 1, 1] and json.loads(told[2].output) == {"key_a": "c", "changed": 0}
    assert run(main, ["dismiss", str(path), "a", "b", "c"]).exit_code == 2


# ---- why two are still in one cluster --------------------------------------------------------------------------------


def test_an_explanation_names_what_still_connects_a_pair(triple: Index) -> None:
    """The two are no match, and the document between them is named; without one, nothing is."""
    assert triple.explain_match("a", "b").dismissed is False
    triple.dismiss("a", "b")
    found = triple.explain_match("a", "b")
    assert (found.dismissed, found.is_match, found.connected_by, found.similarity) == (True, False, ("c",), 0.75)
    assert "in one cluster all the same, through c" in found.html() and "it was dismissed" in found.html()
    triple.dismiss("c", "b")
    assert triple.explain_match("b", "a").connected_by is None
    assert "all the same" not in triple.explain_match("a", "b").html()


def test_an_explanation_names_the_shortest_way_in_order() -> None:
    """In a ring the way round is named from the first key to the second."""
    with Index(":memory:", SETS, text=WORDS) as index:
        words = [f"w{n}" for n in range(12)]
        for n in range(6):  # each has four words, two of them the next one's; the last meets the first
            index.add(n, " ".join(words[(2 * n + i) % 12] for i in range(4)))
        assert index.clusters() == []
        index.rebuild(MinHash(threshold=0.3, exact=True, num_perm=64, bands=64, rows=1))
        assert pairs(index) == {(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (0, 5)}
        index.dismiss(0, 1)
        assert index.explain_match(0, 1).connected_by == (5, 4, 3, 2)
        assert index.explain_match(1, 0).connected_by == (2, 3, 4, 5)
        index.dismiss(3, 4)
        assert index.explain_match(0, 1).connected_by is None and clusters(index) == [(0, 4, 5), (1, 2, 3)]
        assert index.check().ok


# ---- what survives ---------------------------------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with three copies of a text, of which two are dismissed, and one like them, dismissed with the first."""
    path = tmp_path / "index.db"
    with Index(path, MinHash(threshold=0.5), store_text=True, durability="normal") as index:
        index.add_many([("a", STORY), ("b", STORY), ("c", STORY), ("d", STORY + " and tuesday")])
        index.dismiss("a", "b")
        index.dismiss("a", "d")
    return path


LEFT = {("a", "c"), ("b", "c"), ("b", "d"), ("c", "d")}


@one_test(change=["nothing", "scheme", "text", "matches", "compact", "repair"])
def test_a_word_survives_what_makes_tables_anew(path: Path, change: str) -> None:
    """Rebuilds of every kind, a compaction and a repair keep the dismissed pairs, and what follows from them."""
    with Index(path) as index:
        if change == "scheme":
            index.rebuild(MinHash(threshold=0.4, num_perm=64))
        elif change == "text":
            from neardup_db import TextRules

            index.rebuild(text=TextRules.words(shingle=1))
        elif change == "matches":
            index.rebuild(record_matches=False)
            assert pairs(index) == LEFT and clusters(index) == [("a", "b", "c", "d")] and index.check().ok
            index.rebuild(record_matches=True)
        elif change == "compact":
            index.compact()
        elif change == "repair":
            index.connection.execute("DELETE FROM neardup_match")
            assert index.check(repair=True).ok
        else:
            index.rebuild()
    with Index(path) as index:
        assert pairs(index) == LEFT and index.check().ok
        index.delete("c")
        assert clusters(index) == [("b", "d")] and index.check().ok


def test_many_words_at_once() -> None:
    """Pairs that are taken over from another index are dismissed together, those that are known are not counted."""
    with Index(":memory:", SETS, text=WORDS) as index, Index(":memory:", SETS, text=WORDS) as other:
        for one in (index, other):
            one.add_many((n, "oak elm ash") for n in range(6))
        for a, b in itertools.combinations(range(5), 2):
            other.dismiss(a, b)
        index.dismiss(0, 1)
        reader = index._readers.own
        with index._store.writing():
            found = {key: reader.documents.require(key, 0) for key in range(6)}
            assert adopt(reader.clusters, ((found[a], found[b]) for a, b in other.dismissed()), 0) == 9
        assert clusters(index) == [tuple(range(6))] and pairs(index) == {(n, 5) for n in range(5)}
        assert index.check().ok


# ---- numbers of clusters -----------------------------------------------------------------------------------------------


def numbers(index: Index) -> dict[Any, int | None]:
    """The number of each document's cluster."""
    return dict(index.connection.execute("SELECT key, cluster_id FROM neardup_document").fetchall())


def test_the_largest_part_keeps_the_number() -> None:
    """Whichever part the removed edges touch, and however often, the largest one keeps the number of the cluster."""
    with Index(":memory:", BinaryCode(bits=64, max_distance=1)) as index:
        for n in range(9):  # a chain: each is one bit from the next
            index.add_code(n, (1 << n) - 1)
        number = numbers(index)[0]
        index.dismiss(2, 3)
        after = numbers(index)
        assert {after[n] for n in range(3, 9)} == {number} and {after[n] for n in range(3)}.isdisjoint({number, None})
        index.delete(7)
        after = numbers(index)
        assert {after[n] for n in range(3, 7)} == {number} and after[8] is None
    with Index(":memory:", BinaryCode(bits=64, max_distance=2)) as index:
        bits = [{0, 1}, {0, 1, 4, 5}, {0, 1, 4, 5, 6, 7}, {4, 5, 6, 7}, {4, 5, 6, 7, 2, 3}, {4, 5, 2, 3}, {2, 3}]
        for n, chosen in enumerate(bits):  # a chain whose ends are both like the middle, so that it is walked from two sides
            index.add_code(f"long{n}", sum(1 << bit for bit in chosen))
        for n in range(5):  # a shorter one, which is walked from one side and so takes longer
            index.add_code(f"short{n}", ((1 << 2 * n + 2) - 1) << 20)
        assert clusters(index) == [tuple(f"long{n}" for n in range(7)), tuple(f"short{n}" for n in range(5))]
        number = numbers(index)["long0"]
        index.add_code("middle", 0)
        assert set(numbers(index).values()) == {number}
        index.delete("middle")
        after = numbers(index)
        assert {after[f"long{n}"] for n in range(7)} == {number} != {after[f"short{n}"] for n in range(5)} and index.check().ok


def test_the_larger_number_stays_where_clusters_join() -> None:
    """A pair that is undismissed, and a document that is like two clusters, give the smaller one the number of the larger."""
    with Index(":memory:", BinaryCode(bits=64, max_distance=1)) as index:
        for n in range(9):
            index.add_code(n, (1 << n) - 1)
        index.dismiss(2, 3)
        number = numbers(index)[8]
        index.undismiss(2, 3)
        assert set(numbers(index).values()) == {number}
        index.delete(3)
        assert numbers(index)[8] == number != numbers(index)[0]
        index.add_code("again", (1 << 3) - 1)
        assert set(numbers(index).values()) == {number} and index.check().ok


def test_undismissing_a_pair_runs_as_many_statements_in_a_large_cluster() -> None:
    """The matches of the document that were not dismissed cost no statement of their own."""
    statements = []
    for size in 10, 100:
        ran: list[str] = []

        def trace(cursor: Any, sql: str, values: Any, ran: list[str] = ran) -> bool:
            ran.append(sql)
            return True

        with Index(":memory:", MinHash(threshold=0.5)) as index:
            index.add_many((key, f"{STORY} number{key}") for key in range(size))
            index.dismiss(3, 4)
            index.connection.exec_trace = trace
            assert index.undismiss(3, 4) == 1
            index.connection.exec_trace = None
        statements.append(len(ran))
    assert statements[0] == statements[1] > 0


def test_a_document_that_was_set_apart_does_not_take_an_old_number() -> None:
    """A cluster is called by the id of a document that was new; that document may have left it when it joins another one."""
    with Index(":memory:", BinaryCode(bits=64, max_distance=1)) as index:
        for key, code in (("x", 0b101), ("a", 0b000), ("c", 0b011), ("b", 0b001), ("d", 0b010)):
            index.add_code(key, code)
        for key in "xac":
            index.dismiss("b", key)
        assert clusters(index) == [("a", "c", "d")] and numbers(index)["a"] == 4  # the id of b
        index.undismiss("b", "x")
        assert clusters(index) == [("a", "c", "d"), ("x", "b")] and index.check().ok


# ---- damage ------------------------------------------------------------------------------------------------------------


@one_test(
    ("sql", "problem"),
    [
        ("INSERT INTO neardup_dismissed VALUES (99, 1, 0)", "dismissed pairs that are not two documents: 99-1"),
        ("INSERT INTO neardup_dismissed VALUES (1, 3, 0)", "dismissed pairs that are not two documents: 1-3"),
        (
            "UPDATE neardup_document SET fingerprint_id = (SELECT fingerprint_id FROM neardup_document WHERE id = 1)"
            " WHERE id = 3",
            "dismissed documents that share their fingerprint: 1",
        ),
        ("INSERT INTO neardup_match VALUES (2, 1, 1.0, NULL, 0)", "dismissed pairs that are recorded as matches: 2-1"),
        ("DROP INDEX neardup_dismissed_other", "tables, indexes or views that are missing or changed: neardup_dismissed_other"),
        ("UPDATE neardup_document SET cluster_id = NULL WHERE id = 1", "documents that match one of another cluster: 1"),
        ("DELETE FROM neardup_dismissed", "documents that match one of another cluster: 1"),
    ],
)
def test_check_names_damage_and_repair_mends_it(path: Path, sql: str, problem: str) -> None:
    """Every invariant of dismissed pairs has its message, and a repair keeps what people said."""
    with Index(path) as index:
        if sql.startswith("DELETE"):
            index.dismiss("a", "c")
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA foreign_keys = OFF")
    if sql.startswith("UPDATE neardup_document"):
        connection.execute("DELETE FROM neardup_match WHERE document_id = 1 OR other_id = 1")
    connection.execute(sql)
    connection.close()
    with Index(path) as index:
        assert problem in index.check().problems
        report = index.check(repair=True)
        assert report.ok, report
        if not sql.startswith("DELETE"):
            assert list(index.dismissed()) == [("a", "b"), ("a", "d")] and pairs(index) == LEFT


def test_a_table_of_dismissed_pairs_that_was_dropped(path: Path) -> None:
    """Its pairs are no longer dismissed: check() names the matches, and a repair records them."""
    damage(path, "DROP TABLE neardup_dismissed")
    with Index(path) as index:
        assert list(index.dismissed()) == [] and not index.check().ok
        assert index.check(repair=True).ok and index.dismiss("a", "b")


# ---- command line --------------------------------------------------------------------------------------------------------


def test_the_commands(path: Path) -> None:
    """dismiss and undismiss say what they did, by exit codes too, and list the pairs."""
    assert run("dismiss", path, "b", "c") == (0, "b and c: dismissed\n")
    assert run("dismiss", path, "b", "c") == (1, "b and c: were dismissed already\n")
    assert run("dismiss", path, "--list") == (0, "a\tb\nb\tc\na\td\n")
    assert run("undismiss", path, "c", "b") == (0, "c and b: no longer dismissed\n")
    assert run("undismiss", path, "c", "b", "--json") == (1, '{"key_a": "c", "key_b": "b", "changed": false}\n')
    code, out = run("explain", path, "a", "b")
    assert code == 0 and "it was dismissed" in out and "through c" in out
    assert json.loads(run("explain", path, "a", "b", "--json")[1])["connected_by"] == ["c"]
    assert run("dismiss", path)[0] == 2 and run("dismiss", path, "b", "c", "--list")[0] == 2
    with Index(path) as index:
        assert index.matches("b") == [Match("c", 1.0), *index.matches("b")[1:]]


# ---- docs/examples/review.py ---------------------------------------------------------------------------------------------

EXAMPLE = Path(__file__).resolve().parents[1] / "docs" / "examples" / "review.py"


def example(*arguments: Any, answers: str = "") -> list[str]:
    """The last lines of what the example prints."""
    words = [*interpreter(), str(EXAMPLE), *map(str, arguments)]
    done = subprocess.run(words, input=answers, capture_output=True, text=True, check=True)
    return [line.removeprefix("duplicates (d), not (n), end (anything else): ") for line in done.stdout.splitlines()]


def test_the_example_shows_itself() -> None:
    """One pair is confirmed and two are dismissed; the other database follows."""
    assert example() == [
        "6 rows to begin with",
        "{'duplicates': 1, 'not': 2}",
        "1 row changed",
        "[('north', 1), ('north again', 1), ('south', 0)]",
    ]


def test_the_example_asks_nothing_twice(path: Path, tmp_path: Path) -> None:
    """A review goes on where it was ended, and after a rebuild the other database is what the index is."""
    own = tmp_path / "review.db"
    assert example(path, own, answers="d\nn\nx\n")[-2:] == ["{'duplicates': 1, 'not': 1}", "8 changes followed"]
    with Index(path) as index:
        left = len(LEFT) - 2
        index.rebuild()
        truth = numbers(index)
        assert len(list(index.dismissed())) == 3
    assert example(path, own, answers="d\n" * 9)[-2] == f"{{'duplicates': {left}, 'not': 0}}"
    connection = sqlite3.connect(own)
    assert dict(connection.execute("SELECT key, cluster FROM mirror").fetchall()) == truth
    assert connection.execute("SELECT count(*) FROM confirmed").fetchone() == (left + 1,)
    connection.close()
