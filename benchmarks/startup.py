"""Starting: two versions of the package side by side, in turns, each command in a process of its own.

    python benchmarks/startup.py BEFORE AFTER [--rounds 15] [--folder DIR]

BEFORE and AFTER are the Python programs of two environments, each with one version installed; `neardup` stands beside them.
Prints the medians of wall time and of CPU time (user and system, the steadier figure where others use the machine too) as a
Markdown table, and the machine. "one query": import, open an index of 1,000 texts, ask for one text, close.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from measure import machine, machine_lines, table

TEXT = "a short text about the twelve words that are found in each one, number"
FILL = f"""
import sys, warnings
from neardup_db import Index, MinHash
warnings.simplefilter("ignore")
with Index(sys.argv[1], MinHash()) as index:
    index.add_many((number, f"{TEXT} {{number % 30}} {{number}}") for number in range(1000))
"""
ASK = f"""
import sys
from neardup_db import Index
with Index(sys.argv[1]) as index:
    index.query("{TEXT} 7 7")
"""
MAKE = f"""
import os, sys
from neardup_db import Index, MinHash
path = sys.argv[1] + str(os.getpid())
with Index(path, MinHash()) as index:
    index.add("a", "{TEXT}")
    index.query("{TEXT}")
os.unlink(path)
"""


def commands(index: str) -> dict[str, tuple[str, ...]]:
    """What is timed: a program beside Python, and its arguments."""
    return {
        "python, nothing imported": ("python", "-I", "-c", "pass"),
        "import neardup_db": ("python", "-I", "-c", "import neardup_db"),
        "one query": ("python", "-I", "-c", ASK, index),
        "new file, one add, one query": ("python", "-I", "-c", MAKE, index),
        "neardup --help": ("neardup", "--help"),
        "neardup query": ("neardup", "query", index, f"{TEXT} 7 7"),
        "neardup stats": ("neardup", "stats", index),
        "neardup demo": ("neardup", "demo"),
    }


def run(command: tuple[str, ...], python: str) -> tuple[float, float]:
    """(wall, CPU) milliseconds of a process, from its start to its end."""
    start = time.perf_counter()
    program = subprocess.Popen([str(Path(python).with_name(command[0])), *command[1:]], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(program.pid, 0)
    seconds = time.perf_counter() - start
    program.returncode = os.waitstatus_to_exitcode(status)
    assert program.returncode == 0, command
    return seconds * 1e3, (usage.ru_utime + usage.ru_stime) * 1e3


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        index = str(Path(folder) / "index.db")
        subprocess.run([given.before, "-I", "-c", FILL, index], check=True)
        for name, command in commands(index).items():
            times: dict[str, list[tuple[float, float]]] = {given.before: [], given.after: []}
            for turn in range(given.rounds + 1):
                for python in times:
                    measured = run(command, python)
                    if turn:  # the first one fills caches
                        times[python].append(measured)
            (wall, cpu), (wall_after, cpu_after) = (
                [statistics.median(one) for one in zip(*taken, strict=True)] for taken in times.values()
            )
            rows.append((name, wall, wall_after, f"{wall_after / wall:.2f}", cpu, cpu_after, f"{cpu_after / cpu:.2f}"))
    print(table(("milliseconds", "wall before", "after", "ratio", "CPU before", "after", "ratio"), rows), end="\n\n")
    print(machine_lines(machine()))


if __name__ == "__main__":
    main()
