"""Several threads and several processes with one index: nothing is lost, nothing is admitted twice."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from neardup_db import Index, MinHash, NearDupError, SimHash

STORIES = [f"story number{n} tells what happened to person{n} and family{n} in town{n} on day{n}" for n in range(60)]


@pytest.mark.parametrize("where", ["memory", "file"])
def test_four_threads_add(tmp_path: Path, where: str) -> None:
    """An index shared by threads loses no document, and all of them answer while others write."""
    errors: list[BaseException] = []
    answers: list[int] = []

    def work(index: Index, number: int) -> None:
        try:
            for i in range(40):
                index.add(f"{number}-{i}", STORIES[i])
                answers.append(len(index.query(STORIES[i])))
                with index.transaction():
                    index.add(f"{number}-{i} twice", STORIES[i])
                    index.delete(f"{number}-{i} twice")
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    target: Any = ":memory:" if where == "memory" else tmp_path / "index.db"
    with Index(target, MinHash(threshold=0.8), durability="normal") as index:
        threads = [threading.Thread(target=work, args=(index, number)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        assert len(answers) == 160 and min(answers) >= 1
        assert sorted(map(str, index)) == sorted(f"{number}-{i}" for number in range(4) for i in range(40))
        assert [len(one) for one in index.clusters()] == [4] * 40
        assert index.check().ok


def test_threads_admit_each_story_once() -> None:
    """add_if_new from several threads stores each story exactly once."""
    admitted: list[int] = []

    def work(index: Index, number: int) -> None:
        for i in range(len(STORIES)):
            if not index.add_if_new(f"{number}-{i}", STORIES[i]):
                admitted.append(i)

    with Index(":memory:", MinHash(threshold=0.8)) as index:
        threads = [threading.Thread(target=work, args=(index, number)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(admitted) == list(range(len(STORIES)))
        assert len(index) == len(STORIES)


def run_together(code: str, count: int) -> list[str]:
    """What processes print that begin as nearly at once as can be; `number` is theirs, `go()` waits for the others."""
    program = (
        "import sys\nfrom neardup_db import *\nnumber = int(sys.argv[1])\n"
        "def go():\n    print('ready', flush=True)\n    sys.stdin.readline()\n"
    )
    running = [
        subprocess.Popen(
            [sys.executable, "-c", program + code, str(number)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/"
        )
        for number in range(count)
    ]
    for process in running:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
    for process in running:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    outputs = [process.communicate(timeout=120)[0] for process in running]
    assert [process.returncode for process in running] == [0] * count
    return outputs


def test_processes_admit_each_story_once(tmp_path: Path) -> None:
    """add_if_new of the same stories in three processes at once: each is stored exactly once, in one of them."""
    path = tmp_path / "index.db"
    Index(path, MinHash(threshold=0.8)).close()
    outputs = run_together(
        f"stories = {STORIES!r}\n"
        f"with Index({str(path)!r}, durability='normal', timeout=60) as index:\n"
        "    go()\n"
        "    order = range(60) if number != 1 else reversed(range(60))\n"
        "    print(*[i for i in order if not index.add_if_new(f'{number}-{i}', stories[i])])\n",
        3,
    )
    admitted = sorted(int(word) for output in outputs for word in output.split())
    assert admitted == list(range(60))
    with Index(path) as index:
        assert len(index) == 60 and index.clusters() == [] and index.check().ok


def test_processes_create_one_index(tmp_path: Path) -> None:
    """Processes that create the same file at once get one index, with everything that each of them added."""
    for attempt in range(3):
        path = tmp_path / f"{attempt}.db"
        outputs = run_together(
            "go()\n"
            f"with Index({str(path)!r}, SimHash(), durability='normal', timeout=60) as index:\n"
            "    index.add(number, 'one two three four')\n"
            "print('done')\n",
            4,
        )
        assert outputs == ["done\n"] * 4
        with Index(path) as index:
            assert sorted(int(key) for key in index) == [0, 1, 2, 3]
            assert [len(one) for one in index.clusters()] == [4] and index.check().ok


def test_a_reader_sees_whole_transactions(tmp_path: Path) -> None:
    """While one process writes stories two by two, another never sees half of a pair."""
    path = tmp_path / "index.db"
    Index(path, MinHash(threshold=0.8)).close()
    outputs = run_together(
        f"stories = {STORIES!r}\n"
        f"with Index({str(path)!r}, durability='normal', timeout=60) as index:\n"
        "    go()\n"
        "    if number == 0:\n"
        "        for i in range(0, 60, 2):\n"
        "            with index.transaction():\n"
        "                index.add(i, stories[i]); index.add(i + 1, stories[i + 1])\n"
        "        print('written')\n"
        "    else:\n"
        "        seen = [len(index)]\n"
        "        while seen[-1] < 60:\n"
        "            seen.append(len(index))\n"
        "        print(all(n % 2 == 0 for n in seen) and seen == sorted(seen))\n",
        2,
    )
    assert outputs == ["written\n", "True\n"]


def test_a_transaction_keeps_other_threads_out() -> None:
    """Another thread's write waits for the end of transaction(), and is not part of it when that is rolled back."""
    started, added = threading.Event(), threading.Event()

    def other(index: Index) -> None:
        started.set()
        index.add("other", STORIES[1])
        added.set()

    with Index(":memory:", SimHash()) as index:
        thread = threading.Thread(target=other, args=(index,))
        with pytest.raises(NearDupError), index.transaction():
            index.add("mine", STORIES[0])
            thread.start()
            started.wait()
            assert not added.wait(0.05)
            raise NearDupError
        thread.join()
        assert added.is_set() and list(index) == ["other"]
