"""Many questions at once: query_many, query_codes and pairs_with, beside a statement each and faiss MultiHash in one call.

    pip install "neardup-db[bench]"
    python benchmarks/batch.py FOLDER [--documents 10000 100000 1000000] [--questions 100000] [--before PYTHON] [--rounds 3]

Documents and questions are those of `corpus.py`, codes those of `codes.py`: 64 bits, distance 3, half the questions near a stored
code. Each question is asked once. Files and questions are made in FOLDER where they are not there yet. Each way runs in a process
of its own, one after the other in turns, and the middle round counts; --before: the interpreter of another installed version,
whose query_many (of 5,000 texts) and query_code (of 20,000 codes) run in the same turns. Seconds of CPU are those of all threads.
"""

from __future__ import annotations

import argparse
import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from measure import Clock, machine, machine_lines, note, peak_memory_mb, table

BITS, DISTANCE = 64, 3
FEW_TEXTS, FEW_CODES = 5_000, 20_000
SETTINGS = ((2, 20, 1), (2, 24, 1), (2, 28, 1))
"""Of faiss MultiHash: hashes, bits of each, bits that may differ; the best ones for 10,000 to 1 million codes."""

# ---- what is asked -----------------------------------------------------------------------------------------------------


def make(folder: Path, documents: int, questions: int) -> None:
    """The files of one size."""
    from codes import planted
    from codes import questions as code_questions
    from corpus import documents as texts

    from neardup_db import BinaryCode, Index, MinHash

    if not (folder / f"texts{documents}.pickle").exists():
        note(f"making {documents:,} documents")
        made = texts(documents + questions)
        with Index(folder / f"texts{documents}.db", MinHash(), record_matches=False) as index:
            index.add_many(islice(made, documents))
        asked = [text for _, text in made]
        with Index(folder / f"asked_texts{documents}.db", MinHash(), record_matches=False) as index:
            index.add_many(enumerate(asked))
        (folder / f"texts{documents}.pickle").write_bytes(pickle.dumps(asked))
    if not (folder / f"codes{documents}.npy").exists():
        codes = planted(documents, BITS, DISTANCE, documents // 100)
        asked_codes = code_questions(codes, DISTANCE, questions)
        for name, some in ((f"codes{documents}.db", codes), (f"asked_codes{documents}.db", asked_codes)):
            with Index(folder / name, BinaryCode(BITS, DISTANCE), record_matches=False) as index:
                index.add_codes(range(len(some)), some)
        np.save(folder / f"codes{documents}.npy", codes)
        np.save(folder / f"asked_codes{documents}.npy", asked_codes)


def _texts(folder: Path, size: str, count: int | None) -> tuple[int, Callable[[], Any]]:
    from neardup_db import Index

    index = Index(folder / f"texts{size}.db", read_only=True)
    asked = pickle.loads((folder / f"texts{size}.pickle").read_bytes())[:count]
    index.query_many(asked[:10])
    return len(asked), lambda: index.query_many(asked)


def _codes(folder: Path, size: str) -> tuple[int, Callable[[], Any]]:
    from neardup_db import Index

    index = Index(folder / f"codes{size}.db", read_only=True)
    asked = np.load(folder / f"asked_codes{size}.npy")
    index.query_codes(asked[:10])
    return len(asked), lambda: index.query_codes(asked)


def _each_code(folder: Path, size: str) -> tuple[int, Callable[[], Any]]:
    from neardup_db import Index

    index = Index(folder / f"codes{size}.db", read_only=True)
    asked = [int.from_bytes(code.tobytes(), "big") for code in np.load(folder / f"asked_codes{size}.npy")[:FEW_CODES]]
    index.query_code(asked[0])
    return len(asked), lambda: [index.query_code(code) for code in asked]


def _pairs(folder: Path, kind: str, size: str) -> tuple[int, Callable[[], Any]]:
    from neardup_db import Index

    index, other = (Index(folder / f"{begin}{kind}{size}.db", read_only=True) for begin in ("", "asked_"))
    return len(other), lambda: [None for _ in index.pairs_with(other)]


def _faiss(folder: Path, size: str, setting: tuple[int, int, int]) -> tuple[int, Callable[[], Any]]:
    import faiss

    faiss.omp_set_num_threads(1)
    hashes, width, flips = setting
    index = faiss.IndexBinaryMultiHash(BITS, hashes, width)
    index.nflip = flips
    index.add(np.load(folder / f"codes{size}.npy"))
    asked = np.load(folder / f"asked_codes{size}.npy")
    return len(asked), lambda: index.range_search(asked, DISTANCE + 1)


WAYS: dict[str, Callable[[Path, str], tuple[int, Callable[[], Any]]]] = {
    "query_many": lambda folder, size: _texts(folder, size, None),
    "query_many, before": lambda folder, size: _texts(folder, size, FEW_TEXTS),
    "pairs_with of texts": lambda folder, size: _pairs(folder, "texts", size),
    "pairs_with of texts, before": lambda folder, size: _pairs(folder, "texts", size),
    "query_codes": _codes,
    "query_code, before": _each_code,
    "pairs_with of codes": lambda folder, size: _pairs(folder, "codes", size),
    "pairs_with of codes, before": lambda folder, size: _pairs(folder, "codes", size),
    **{
        f"faiss MultiHash {hashes} x {width}, flips {flips}": lambda folder, size, setting=(hashes, width, flips): _faiss(
            folder, size, setting
        )
        for hashes, width, flips in SETTINGS
    },
}

# ---- measuring ---------------------------------------------------------------------------------------------------------


def ask(folder: Path, size: str, way: str) -> dict[str, Any]:
    """One way, in this process."""
    count, run = WAYS[way](folder, size)
    before = peak_memory_mb()
    with Clock() as clock:
        run()
    return {"count": count, "seconds": clock.seconds, "cpu": clock.cpu_seconds, "mb": peak_memory_mb() - before}


def asked(folder: Path, size: int, way: str, interpreter: str) -> dict[str, Any]:
    """The same in a process of its own."""
    command = [interpreter, __file__, str(folder), "--ask", str(size), way]
    found: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


def measured(folder: Path, size: int, rounds: int, before: str | None) -> list[list[Any]]:
    """A row for each way."""
    ways = [way for way in WAYS if before or not way.endswith(", before")]
    found: dict[str, list[dict[str, Any]]] = {way: [] for way in ways}
    for _ in range(rounds):
        for way in ways:
            result = asked(folder, size, way, before if before and way.endswith(", before") else sys.executable)
            note(f"{size:,}: {way}: {result['count'] / result['seconds']:,.0f} a second")
            found[way].append(result)
    rows = []
    for way, results in found.items():
        middle = sorted(results, key=lambda result: float(result["seconds"]))[len(results) // 2]
        count = middle["count"]
        rows.append([size, way, count, count / middle["seconds"], 1e6 * middle["cpu"] / count, middle["mb"]])
    return rows


def main() -> None:
    """Write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--documents", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--questions", type=int, default=100_000)
    parser.add_argument("--before", help="interpreter of an environment with another version")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ask", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.ask:
        print(json.dumps(ask(arguments.folder, *arguments.ask)))
        return
    rows = []
    for size in arguments.documents:
        make(arguments.folder, size, arguments.questions)
        rows += measured(arguments.folder, size, arguments.rounds, arguments.before)
    print(f"# Many questions at once\n\n{machine_lines(machine())}\n")
    header = ("documents or codes", "way", "questions", "a second", "µs of CPU each", "MB more at the peak")
    print(table(header, rows))


if __name__ == "__main__":
    main()
