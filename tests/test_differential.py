"""Whatever happens to an index, in whatever order, it says what a plain dictionary with brute force says.

The histories are drawn by `histories.py` from seeds, and played with tiny limits, so that a handful of documents comes to every
place where work is cut. A failure prints the shortest history that it could find, as a literal for REGRESSIONS.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
from histories import difference, make, printed, shrunk
from history_model import CLOCK, PLANS, Counts, Difference, History, Operation
from player import play

pytestmark = pytest.mark.usefixtures("clock")
with_small_limits = pytest.mark.usefixtures("small_limits")

SEEDS, SEEDS_MORE, SEEDS_LONG = 2, 60, 40_000
"""Histories of each plan; with the limits that users have, half as many others."""


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time is moved by histories only."""
    CLOCK.patch(monkeypatch.setattr)


def report(history: History, error: Difference, folder: Path) -> str:
    """A difference with the shortest history that has it."""
    least = shrunk(history, folder)
    return f"{error}\n\nThe shortest history:\n\n{printed(least)}\n\n{difference(least, folder)}"


@pytest.mark.parametrize("cut", ["small", "usual"])
@pytest.mark.parametrize("plan", PLANS)
def test_random_histories(
    plan: str, cut: str, tmp_path: Path, more_rounds: bool, long_run: bool, request: pytest.FixtureRequest
) -> None:
    """Documents, queries, matches, pairs, clusters and check() are those of brute force after every random history."""
    if cut == "small":
        request.getfixturevalue("small_limits")
    seeds = SEEDS_LONG if long_run else SEEDS_MORE if more_rounds else SEEDS
    counts, first = Counts(), 0 if cut == "small" else seeds
    seeds = seeds if cut == "small" else seeds // 2
    for seed in range(first, first + seeds):
        history = make(plan, seed)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ResourceWarning)
                play(history, tmp_path, counts)
        except Difference as error:
            pytest.fail(f"{plan}, seed {seed}, after {counts}:\n{report(history, error, tmp_path)}", pytrace=False)
    print(f"{plan}: {counts}")
    assert counts.comparisons > 15 * seeds


def test_histories_come_to_every_operation(tmp_path: Path) -> None:
    """The seeds that are played have every kind of operation, also inside `add_many` and in transactions that are rolled back."""
    drawn = [make(plan, seed) for plan in PLANS for seed in range(SEEDS_MORE // 3)]
    kinds = {name for history in drawn for name, _, _ in history.operations}
    assert kinds == {
        "add", "add_if_new", "add_many", "allow", "check", "clock", "compare", "contains", "delete", "delete_group",
        "delete_part", "dismiss", "expire", "follow", "keep_newest", "merge", "of_group", "pairs_with", "pinned", "query",
        "rebuild", "reopen", "sql", "transaction", "update", "window",
    }  # fmt: skip
    assert {history.target for history in drawn} == {"path", "connection", "standard", "mixed", "memory"}
    assert {type(history.window) for history in drawn} == {type(None), int, float}
    assert sum(bool(arguments.get("inside")) for one in drawn for _, _, arguments in one.operations) > SEEDS
    assert sum(bool(arguments.get("raises")) for one in drawn for _, _, arguments in one.operations) > SEEDS


@with_small_limits
def test_a_difference_is_found_shrunk_and_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An index that forgets to delete is told from the model, by a history of an addition and a deletion."""
    monkeypatch.setattr("neardup_db.Index.delete_many", lambda self, keys: sum(key in self for key in dict.fromkeys(keys)))
    names = "add_many add_if_new merge transaction sql rebuild past pinned reopen of_group delete_group"
    histories = (make("binarycode-64-blocks", seed, names.split()) for seed in range(50))
    failing = next(one for one in histories if difference(one, tmp_path) is not None)
    least = shrunk(failing, tmp_path)
    assert {name for name, _, _ in least.operations} == {"add", "delete"} and len(least.operations) <= 3
    assert eval(printed(least), {"History": History}) == least


def _add(key: Any, content: Any, expires: int | None = None, who: int = 0) -> Operation:
    return "add", who, {"key": key, "content": content, "group": None, "expires": expires, "if_exists": "replace"}


def _add_many(records: list[Any], inside: Any = None, reports: Any = None, **options: Any) -> Operation:
    arguments = {"if_exists": "replace", "on_error": "raise", "only_new": False, "commit_every": None, **options}
    nested = {"inside": inside or {}, "reports": reports or {}}
    return "add_many", 0, {"records": [(*one, None) for one in records], **nested, **arguments}


def _sql(*operations: Operation, savepoint: bool = False) -> Operation:
    return "sql", 0, {"operations": list(operations), "then": [], "savepoint": savepoint, "end": "rollback"}


_LOOK: Operation = ("compare", 0, {"part": "all"})

REGRESSIONS: dict[str, History] = {
    "the generator asks": History(
        "bottomk-estimate", "memory", False, True,
        [_add_many([(1, "box pine plum ash", None, None), (2, "box pine plum ash", None, None)], {2: [_LOOK]})],
    ),
    "the generator asks for clusters": History(
        "minhash-exact", "memory", False, True,
        [_add_many([(0, "fir ash", None, None), (1001, "ash", None, None)], {2: [("compare", 0, {"part": "clusters"})]})],
    ),
    "the generator adds": History(
        "bottomk-containment", "memory", False, True,
        [_add_many([(n, "oak bay elm yew", None, None) for n in range(4)], {4: [_add("e", "elm bay")]})],
    ),
    "the generator keeps the newest": History(
        "simhash-chunks", "memory", False, True,
        [_add_many([(n, "oak bay fir box", None, None) for n in range(9)], {9: [("keep_newest", 0, {"n": 5})]}, commit_every=2)],
    ),
    "the generator adds many": History(
        "simhash-scan", "memory", False, True,
        [_add_many([(1000, "fir elm yew", None, None)], {1: [_add_many([("d", "", None, None)])]})],
    ),
    "progress looks": History(
        "binarycode-64-blocks", "memory", False, True,
        [_add_many([(n, b"\0\0\0\x80\xc0\0\0\0", None, None) for n in (1, 2)], reports={2: [_LOOK]}, commit_every=1)],
    ),
    "progress checks": History(
        "bitsampling-scan", "path", False, True,
        [
            _add_many(
                [(100, "elm", None, None), (101, "fir bay box", None, None), (102, "fir", None, None), (103, "elm", None, None)],
                reports={1: [("compare", 0, {"part": "check"})]},
            )
        ],
    ),
    "a crowd that passed and comes again": History(
        "bottomk-containment", "memory", False, True,
        [
            _add(301, "bay box oak pine", 1000), _add(302, "box oak pine ash", 1000), _add(303, "oak pine ash lime"),
            ("clock", 0, {"move": 2000}), _add(304, "bay box oak pine"), _add(305, "oak pine ash"), _add(306, "oak pine ash"),
        ],
    ),
    "a crowd whose first member passed": History(
        "minhash-exact", "memory", False, True,
        [
            _add("a", "oak elm ash fir", 1000), _add("b", "elm ash fir yew", 1000), _add("c", "ash fir yew box", 200_000),
            _add("d", "yew box bay pine", 200_000), _add("e", "fir yew box bay", 200_000), ("clock", 0, {"move": 2000}),
            _add("y", "oak elm ash fir", 200_000), _add("g", "fir yew box bay acer", 200_000),
            _add("h", "fir yew box bay plum", 200_000),
        ],
    ),
    "a crowd of which one document is left": History(
        "minhash", "memory", False, True,
        [_add_many([(1, "a b c", None, None), (2, "a c", None, None)]), _add(3, "a b"), ("delete", 0, {"keys": [1, 2]})],
    ),
    "the first crowd is rolled back": History(
        "bottomk", "memory", False, True,
        [
            _add("d", "fir elm ash"), _sql(_add_many([(100, "box fir elm ash", None, None)])),
            _add_many([(2100, "box fir elm ash", None, None)]),
        ],
    ),
    "the first crowd is rolled back by another Index object": History(
        "bottomk-estimate", "memory", False, True,
        [
            ("transaction", 0, {
                "operations": [_add(1, "ash elm"), _add(2, "ash elm oak"), _add(3, "ash elm", who=1)], "raises": True,
            }),
            ("add_many", 1, _add_many([(2000, "box ash elm bay", None, None), (2, "ash box elm", None, None)])[2]),
        ],
    ),
    "a rebuild with another threshold is rolled back": History(
        "bottomk", "memory", False, True,
        [_add(1, "oak elm ash"), _sql(("rebuild", 0, {"to": 1})), _add(2, "oak elm ash fir yew")],
    ),
    "another one rebuilds after a crowd was rolled back": History(
        "bottomk", "memory", True, True,
        [
            _add(110, "elm oak pine fir"),
            ("sql", 1, {
                "operations": [
                    ("add_many", 1, _add_many([(1, "oak pine fir lime", None, None)])[2]), _add("b", "yew elm oak pine", who=1),
                ],
                "then": [], "savepoint": False, "end": "rollback",
            }),
            ("rebuild", 0, {"to": 2}),
            ("add_if_new", 1, {
                "key": 111, "content": "yew elm oak pine", "group": None, "expires": None, "if_exists": "replace", "touch": False,
            }),
        ],
    ),
    "a rebuild to another scheme with a document that has expired": History(
        "bottomk-containment", "memory", True, True,
        [_add_many([("c", "bay yew oak elm bay", None, -1000)]), ("rebuild", 0, {"to": 3})],
    ),
    "a rebuild with other text rules is rolled back": History(
        "simhash-blocks", "memory", True, True, [_sql(("rebuild", 0, {"to": 2}))]
    ),
    "a rebuild with another scheme is rolled back to a savepoint": History(
        "minhash", "path", True, True, [_add(1, "oak elm"), _sql(("rebuild", 0, {"to": 3}), savepoint=True), _add(2, "oak elm")]
    ),
    "the clock goes back behind an end": History(
        "minhash", "memory", False, True,
        [
            _add_many([(112, "pine plum box yew", None, None), (140, "pine plum box yew oak", None, -1000)]),
            ("clock", 0, {"move": -1500}),
        ],
    ),
    "the clock goes back to a copy that had passed": History(
        "simhash-blocks", "memory", False, True,
        [
            _add(304, "acer yew lime box", 1000), ("clock", 0, {"move": 2000}), _add(305, "acer yew lime box", 200_000),
            ("clock", 0, {"move": -3000}), _LOOK,
        ],
    ),
}  # fmt: skip
"""By what they do. Each once told the index, or one with a fault put in, from brute force."""


@with_small_limits
@pytest.mark.parametrize("name", REGRESSIONS)
def test_regressions(name: str, tmp_path: Path) -> None:
    """A history that once told the index from brute force does so no more."""
    found = difference(REGRESSIONS[name], tmp_path)
    assert found is None, str(found)
