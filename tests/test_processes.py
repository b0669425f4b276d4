"""Many processes write, rebuild and ask one file, and are killed: what was acknowledged is there, and every answer was true.

`pytest --long` takes an hour.
"""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from crash_writer import Writers, started
from history import Done, History
from load import Together, run_threads, run_together
from verdicts import STATES, TEXTS, Verdicts, audit, state_of

from neardup_db import Index, limits

pytestmark = pytest.mark.posix("forks")

CAST = ["write", "write", "write", "rebuild", "rebuild", "read", "read", "look"]
"""Who is at work at once."""

OPERATIONS = {"write": 20, "rebuild": 8, "read": 12, "look": 6}
"""Of a life; in round 0, which a short run plays, half of them."""


@pytest.fixture
def companies() -> Iterator[list[Writers]]:
    """Servers that fork processes, one for each that is at work."""
    with started(len(CAST)) as made:
        yield made


def report(writers: Writers, job: dict[str, Any], kill_at: int) -> tuple[list[Done], str]:
    """What a process did until its end, or until it was killed at its n-th line (0 = never), and how it ended."""
    number = writers.start(job)
    done: dict[int, Done] = {}
    end = "killed"
    for count, line in enumerate(writers.lines(), 1):
        if count == kill_at:
            os.kill(number, signal.SIGKILL)
        try:
            told = json.loads(line)
        except ValueError:
            if line == "end" or line.startswith("failed"):
                end = line
            continue
        if not isinstance(told, dict):
            continue
        if "begun" in told:
            done[told["number"]] = Done(job["name"], told["begun"], told["file"], told["operation"])
        else:
            one = done[told["number"]]
            one.ended, one.answer, one.raised, one.certain = told["ended"], told.get("answer"), told.get("raised"), True
    dead = time.monotonic_ns()
    for one in done.values():
        one.ended = min(one.ended, dead)
    return list(done.values()), end


def play(folder: Path, companies: list[Writers], number: int, held: dict[str, dict[str, str]], states: dict[str, int]) -> History:
    """One round: all at once, each a few lives long; every life but the last may be cut short."""
    rng = random.Random(number)
    path, second = held
    verdicts = Verdicts(folder / "verdicts.npy")
    history = History(verdicts, held, states)
    keys = sorted(held[path])
    lock = threading.Lock()

    def act(place: int) -> Callable[[], None]:
        role = CAST[place]
        rounds = OPERATIONS[role] // (1 if number else 2)
        choose = random.Random(rng.random())

        def lives() -> None:
            for life in range(2):
                mine = keys[place::3] if role == "write" and life == 0 else [] if role == "write" else keys
                inside = role in ("write", "rebuild") and choose.random() < 0.3
                job = {
                    "role": role,
                    "name": f"{role} {number}.{place}.{life}",
                    "path": path,
                    "second": second,
                    "verdicts": str(folder / "verdicts.npy"),
                    "rounds": rounds,
                    "keys": {key: held[path][key] for key in mine},
                    "countdown": choose.choice([50, 500, 2000]) if inside else 0,
                }
                killed = life == 0 and not inside and choose.random() < 0.7
                done, end = report(companies[place], job, choose.randrange(1, 4 * rounds) if killed else 0)
                with lock:
                    history.add(done)
                    if end.startswith("failed") or (end == "killed" and not inside and not killed):
                        history.faults.append(f"{job['name']}: {end} {end[6:] and json.loads(end[6:])}")

        return lives

    run_threads(*(act(place) for place in range(len(CAST))))
    return history


def settle(path: str, history: History) -> tuple[dict[str, str], int]:
    """What is in a file after a round: all that has to be."""
    with Index(path, timeout=60) as index:
        try:
            held = audit(index, history.verdicts)
        except AssertionError as error:
            history.faults.append(f"at the end: {error} {index.check().problems}")
            held = {one.key: one.text for one in index.get_many(list(index)) if one is not None}  # type: ignore[misc]
        if path == history.path:
            history.require_all(held)
        return held, state_of(index)


def test_many_processes_on_one_file(tmp_path: Path, more_rounds: bool, long_run: bool, companies: list[Writers]) -> None:
    """Writers, rebuilders, readers and openers are at work on one file, and are killed at any moment: what was acknowledged is
    there, what was under way is there whole or not at all, and each answer is true of one state of the file at that time."""
    path, second = str(tmp_path / "index.db"), str(tmp_path / "second.db")
    for file, texts in ((path, TEXTS[::2]), (second, TEXTS[::9])):
        with Index(file, STATES[0].case.scheme, text=STATES[0].case.rules, store_text=True) as index:
            index.add_many((f"first {number}", text) for number, text in enumerate(texts))
    held = {file: settle(file, History(Verdicts(tmp_path / "verdicts.npy"), {"": {}, "-": {}}, {}))[0] for file in (path, second)}
    states, operations = {path: 0, second: 0}, 0
    for number in range(1, 300 if long_run else 10) if more_rounds else [0]:
        history = play(tmp_path, companies, number, held, states)
        after = {file: settle(file, history) for file in (path, second)}
        history.judge()
        assert not history.faults, f"round {number}: {len(history.faults)} faults\n" + "\n".join(history.faults[:20])
        held, states = {file: after[file][0] for file in after}, {file: after[file][1] for file in after}
        operations += len(history.done)
    print(f"\n{operations} operations, {len(held[path])} documents")


# ---- processes that are interrupted --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["questions", "writes"])
def test_an_interrupted_process_goes_on(tmp_path: Path, more_rounds: bool, long_run: bool, kind: str) -> None:
    """After many KeyboardInterrupts, anywhere in questions beside a transaction or in calls that write, an index has all
    its readers and holds no lock, cursor or transaction; of each call that writes all has happened, or nothing."""
    path = tmp_path / "index.db"
    with Index(path, STATES[0].case.scheme, text=STATES[0].case.rules, store_text=True) as index:
        index.add_many((f"first {number}", text) for number, text in enumerate(TEXTS[:60]))
    interrupts = 20_000 if long_run else 800 if more_rounds else 70
    code = f"import interrupted\ngo()\nprint(interrupted.interrupted_{kind}({str(path)!r}, {interrupts}, {100 * interrupts}))\n"
    (output,) = Together(code, 1).outputs(600 if not long_run else 6000)
    assert int(output) >= interrupts
    assert [file.name for file in tmp_path.iterdir()] == ["index.db"]


def test_creators_of_one_file_do_not_lose_it(tmp_path: Path, more_rounds: bool, long_run: bool) -> None:
    """Processes create one file at the same time, and one of them is interrupted in it: the others have their index, with all
    that they have added."""
    files = 1000 if long_run else 50 if more_rounds else 5
    code = f"import interrupted\ngo()\ninterrupted.interrupted_creations({str(tmp_path)!r}, number, {files})\n"
    creators = Together(code, 4)
    for turn in range(files):
        for one in creators.running:
            assert one.stdin is not None
            one.stdin.write("\n")
            one.stdin.flush()
        for one in creators.running:
            assert one.stdout is not None and one.stdout.readline() == "done\n", f"file {turn}"
        with Index(tmp_path / f"{turn}.db") as index:
            assert {f"{number} {turn}" for number in (1, 2, 3)} <= set(index) <= {f"{number} {turn}" for number in range(4)}
            assert index.check().problems == ()
    creators.outputs()


# ---- the log -------------------------------------------------------------------------------------------------------------

LOG_PAGES = 400
"""A twentieth of what the limit is."""

LOG_BYTES = 4 * LOG_PAGES * (4096 + 24)
"""What docs/reference/guarantees.md says of the log's length: no more than four times the pages at which a commit moves them."""


def test_three_writers_leave_the_log_as_short_as_one(tmp_path: Path) -> None:
    """While three processes, of either durability, write twice as much as the log may hold, it never is longer than the documents
    say."""
    assert limits.LOG_PAGES == 20 * LOG_PAGES
    path = str(tmp_path / "index.db")
    Index(path, STATES[0].case.scheme).close()
    outputs = run_together(
        f"import os\nfrom neardup_db import limits\nlimits.LOG_PAGES = {LOG_PAGES}\ngo()\nlongest = 0\n"
        f"with Index({path!r}, durability=('normal', 'full')[number % 2], timeout=60) as index:\n"
        "    for turn in range(30):\n"
        "        index.add(f'{number} {turn}', story(f'{number}x{turn}'), metadata=os.urandom(100_000).hex())\n"
        f"        longest = max(longest, os.stat({path + '-wal'!r}).st_size)\n"
        "print(longest)\n",
        3,
    )
    assert os.path.getsize(path) > 2 * LOG_BYTES
    one_commit = 1 << 19
    assert max(map(int, outputs)) <= LOG_BYTES + 3 * one_commit
