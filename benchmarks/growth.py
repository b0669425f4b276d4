"""Growth with the size of an index: a load, one query, a batch of queries, all clusters, all pairs and one add, in time and in
memory, each with the exponent fitted to it.

    pip install "neardup-db[bench]"
    python benchmarks/growth.py [--texts 10000 100000 1000000] [--exact 10000 100000 1000000] [--codes 10000 100000 1000000]
        [--folder DIR] [--plot FILE.png] [--json FILE] > RESULT.md

Texts are synthetic and short, so that ten million of them fit everywhere: 60 words drawn evenly from 50,000, one text in ten a
copy of the one before with one other word; `MinHash()`, matches recorded, and `MinHash(exact=True)`, matches not recorded, so
that `clusters()` joins the whole index. Codes have 64 bits, one in a hundred a copy of another with a few bits flipped;
`BinaryCode(64, 3)`, matches not recorded. Each step runs in a process of its own, whose peak memory is its own. Every question
is a different one and is asked once; half of them are edits of what is stored, in all parts of the index.
--folder: where the indexes are written; it should be on a disk.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, count, islice
from pathlib import Path
from typing import Any

import numpy as np
from codes import planted
from codes import questions as code_questions
from measure import (
    Clock,
    each,
    exponent,
    in_child,
    machine,
    machine_lines,
    note,
    one_thread,
    peak_memory_mb,
    percentiles,
    table,
)

from neardup_db import BinaryCode, Index, MinHash

WORDS, BLOCK = 60, 4000
VOCABULARY = np.array([f"word{number}" for number in range(50_000)], dtype=object)
ELSEWHERE = 1_000_000
"""The number of the first block whose texts are in no index."""

SINGLE, BATCH, ADDS = 2000, 10_000, 1000
SPREAD = 25
"""Blocks, all over the index, from which the questions that are edits come."""

Row = dict[str, float]
COLUMNS = {
    "load_us": "load, us each",
    "load_cpu_us": "its CPU",
    "query_us": "query, us",
    "query_p99_us": "p99",
    "batch_us": "batch, us each",
    "batch_cpu_us": "its CPU",
    "clusters_us": "clusters, us a document",
    "pairs_us": "pairs, us a document",
    "add_us": "one add, us",
    "add_p99_us": "p99",
}
FITTED = {
    "load_us": "load",
    "load_cpu_us": "load, CPU",
    "query_us": "query",
    "query_p99_us": "query, p99",
    "batch_us": "batch",
    "batch_cpu_us": "batch, CPU",
    "clusters_us": "clusters",
    "pairs_us": "pairs",
    "add_us": "one add",
    "add_p99_us": "one add, p99",
    "bytes": "bytes each",
}
MEMORY = {
    "load_mb": "load", "query_mb": "query", "batch_mb": "batch", "clusters_mb": "clusters", "pairs_mb": "pairs", "add_mb": "add",
}  # fmt: skip


# ---- texts and codes ---------------------------------------------------------------------------------------------------


def block(number: int) -> list[str]:
    """BLOCK texts, the same ones every time."""
    random = np.random.default_rng([1, number])
    words = random.integers(0, len(VOCABULARY), (BLOCK, WORDS))
    copies = words[8::10].copy()
    copies[np.arange(len(copies)), random.integers(0, WORDS, len(copies))] = random.integers(0, len(VOCABULARY), len(copies))
    words[9::10] = copies
    return [" ".join(row) for row in VOCABULARY[words].tolist()]


def documents(size: int) -> Iterator[tuple[int, str]]:
    """Number and text of each document of an index."""
    return islice(enumerate(chain.from_iterable(map(block, count()))), size)


def new_texts(many: int) -> list[str]:
    """Texts that are near none of an index."""
    return list(islice(chain.from_iterable(map(block, count(ELSEWHERE))), many))


def questions(size: int, many: int) -> list[tuple[int, str]]:
    """(number of the document that it is an edit of, or -1; text), in turns."""
    blocks = np.unique(np.linspace(0, size // BLOCK - 1, SPREAD).astype(int)).tolist()
    stored = chain.from_iterable(
        ((BLOCK * number + place, text) for place, text in islice(enumerate(block(number)), -(-many // 2 // len(blocks))))
        for number in blocks
    )
    edits = ((number, text.rpartition(" ")[0] + " edited") for number, text in stored)
    return [one for pair in zip(edits, ((-1, text) for text in new_texts(many // 2)), strict=False) for one in pair]


# ---- the steps -----------------------------------------------------------------------------------------------------------


def _each(name: str, clock: Clock, many: int) -> Row:
    return {f"{name}_us": clock.seconds * 1e6 / many, f"{name}_cpu_us": clock.cpu_seconds * 1e6 / many}


def load_texts(size: int, database: str) -> Row:
    """One `add_many`, which makes the texts too; what making them takes alone; bytes of the file."""
    return _load(size, database, MinHash(expected=size), record_matches=True)


def load_exact(size: int, database: str) -> Row:
    """The same of an exact index, without looking for matches."""
    return _load(size, database, MinHash(exact=True, expected=size), record_matches=False)


def _load(size: int, database: str, scheme: MinHash, *, record_matches: bool) -> Row:
    few = min(size, 100_000)
    with Clock() as making:
        for _ in documents(few):
            pass
    with Index(database, scheme, record_matches=record_matches) as index, Clock() as clock:
        index.add_many(documents(size))
    made = making.seconds * 1e6 / few
    return {**_each("load", clock, size), "making_us": made, "bytes": Path(database).stat().st_size / size}


def load_codes(size: int, database: str) -> Row:
    """One `add_codes`."""
    codes = planted(size, 64, 3, size // 100)
    with Index(database, BinaryCode(64, 3, expected=size), record_matches=False) as index, Clock() as clock:
        index.add_codes(range(size), codes)
    np.save(database + ".npy", code_questions(codes, 3, SINGLE + BATCH + ADDS))
    return {**_each("load", clock, size), "bytes": Path(database).stat().st_size / size}


def query_texts(size: int, database: str) -> Row:
    """Single queries, and the share of the edits whose document was found."""
    asked, found = questions(size, SINGLE), []
    with Index(database) as index:
        index.query("nothing that is stored")  # the first one opens what it needs
        p50, p99 = percentiles(each(lambda i: found.append(index.query(asked[i][1])), len(asked)))
    edits = [number in {match.key for match in matches} for (number, _), matches in zip(asked, found, strict=True) if number >= 0]
    return {"query_us": p50, "query_p99_us": p99, "found": sum(edits) / len(edits)}


def query_codes(size: int, database: str) -> Row:
    """Single queries."""
    asked = asked_codes(database, 0, SINGLE)
    with Index(database) as index:
        index.query_code(0)
        p50, p99 = percentiles(each(lambda i: index.query_code(asked[i]), len(asked)))
    return {"query_us": p50, "query_p99_us": p99}


def batch_texts(size: int, database: str) -> Row:
    """One `query_many`."""
    asked = [text for _, text in questions(size, BATCH)]
    with Index(database) as index, Clock() as clock:
        index.query_many(asked)
    return _each("batch", clock, len(asked))


def batch_codes(size: int, database: str) -> Row:
    """One `query_codes`; not a number where the version has none."""
    asked = asked_codes(database, SINGLE, BATCH)
    with Index(database) as index, Clock() as clock:
        ask: Callable[[list[int]], Any] | None = getattr(index, "query_codes", None)
        if ask is not None:
            ask(asked)
    return _each("batch", clock, len(asked)) if ask is not None else dict.fromkeys(("batch_us", "batch_cpu_us"), float("nan"))


def all_clusters(size: int, database: str) -> Row:
    """One `clusters()`, whose answer is a list of them."""
    with Index(database) as index, Clock() as clock:
        index.clusters()
    return _each("clusters", clock, size)


def all_pairs(size: int, database: str) -> Row:
    """One `pairs()`, counted."""
    with Index(database) as index, Clock() as clock:
        for _ in index.pairs():
            pass
    return _each("pairs", clock, size)


def add_texts(size: int, database: str) -> Row:
    """Single adds, durability "normal"."""
    new = new_texts(ADDS)
    with Index(database, durability="normal") as index:
        p50, p99 = percentiles(each(lambda i: index.add(size + i, new[i]), len(new)))
    return {"add_us": p50, "add_p99_us": p99}


def add_codes(size: int, database: str) -> Row:
    """The same of codes."""
    new = asked_codes(database, SINGLE + BATCH, ADDS)
    with Index(database, durability="normal") as index:
        p50, p99 = percentiles(each(lambda i: index.add_code(size + i, new[i]), len(new)))
    return {"add_us": p50, "add_p99_us": p99}


def asked_codes(database: str, first: int, many: int) -> list[int]:
    """Codes near a stored one and others, in turns; those of one step are not those of another."""
    asked = np.load(database + ".npy")[first : first + many]
    return [int(code) for code in asked.view(">u8")[:, 0]]


Step = Callable[[int, str], Row]
OF_TEXTS = query_texts, batch_texts, all_clusters, all_pairs, add_texts
KINDS: dict[str, tuple[Step, ...]] = {
    "texts of 60 words, MinHash(), matches recorded": (load_texts, *OF_TEXTS),
    "texts of 60 words, MinHash(exact=True), matches not recorded": (load_exact, *OF_TEXTS),
    "64-bit codes within 3 bits, matches not recorded": (
        load_codes, query_codes, batch_codes, all_clusters, all_pairs, add_codes,
    ),
}  # fmt: skip


def measured(step: Step, name: str, size: int, database: str) -> Row:
    """A step and the peak memory of its process."""
    before = peak_memory_mb()
    row = step(size, database)
    peak = float("nan") if any(map(math.isnan, row.values())) else peak_memory_mb()
    return {**row, name: peak, "before_mb": before}


def grow(steps: Sequence[Step], sizes: Sequence[int], folder: Path | None) -> list[Row]:
    """A row of each size; its index is removed before the next."""
    rows = []
    for size in sizes:
        with tempfile.TemporaryDirectory(dir=folder) as own:
            row: Row = {"size": size}
            for name, step in zip(MEMORY, steps, strict=True):
                row |= in_child(measured, step, name, size, str(Path(own) / "index.db"))
                note(f"{step.__name__}, {size:,}: peak {row[name]:.0f} MB")
        rows.append(row)
    return rows


# ---- the report ----------------------------------------------------------------------------------------------------------


def fitted(rows: Sequence[Row], column: str) -> str:
    """The growth of a column, as n^b."""
    if len(rows) < 2 or not all(row[column] > 0 for row in rows):
        return "\N{EN DASH}"
    return f"n^{exponent([row['size'] for row in rows], [row[column] for row in rows]):.2f}"


def _cell(value: float) -> float | str:
    return value if value > 0 else "\N{EN DASH}"


def plot(results: dict[str, list[Row]], file: Path) -> None:
    """Times and peak memory over sizes, both logarithmic; a column of pictures for each kind."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, len(results), figsize=(6 * len(results), 8.5), sharex="col", sharey="row", squeeze=False)
    for place, (name, rows) in enumerate(results.items()):
        sizes = [row["size"] for row in rows]
        times = {
            "load_us": "load, each", "query_us": "query, p50", "query_p99_us": "query, p99", "batch_us": "batch, each",
            "clusters_us": "clusters, each", "pairs_us": "pairs, each", "add_us": "one add, p50",
        }  # fmt: skip
        for axis, columns in ((axes[0][place], times), (axes[1][place], MEMORY)):
            for number, (column, label) in enumerate(columns.items()):
                if rows[0][column] > 0:
                    line = f"C{number}o{':' if 'p99' in column else '-'}"
                    axis.loglog(sizes, [row[column] for row in rows], line, label=f"{label}: {fitted(rows, column)}")
            axis.grid(True, which="major", alpha=0.3)
            axis.legend(fontsize=8)
        axes[0][place].set_title(name, fontsize=10)
        axes[1][place].set_xlabel("documents")
    axes[0][0].set_ylabel("microseconds")
    axes[1][0].set_ylabel("peak memory of the step's process, MB")
    figure.tight_layout()
    figure.savefig(file, dpi=110)


def markdown(results: dict[str, list[Row]], info: dict[str, Any], picture: str) -> str:
    """The report."""
    parts = ["# Growth", machine_lines(info)]
    for name, rows in results.items():
        times = [(int(row["size"]), *(_cell(row[column]) for column in COLUMNS), round(row["bytes"])) for row in rows]
        grown = ", ".join(f"{label} {fitted(rows, column)}" for column, label in FITTED.items())
        memory = [(int(row["size"]), *(_cell(row[column]) for column in MEMORY)) for row in rows]
        parts += [
            f"## {name[0].upper()}{name[1:]}",
            f"{SINGLE:,} single queries, a batch of {BATCH:,}, {ADDS:,} single adds (durability normal), each question once.",
            table(("documents", *COLUMNS.values(), "bytes each"), times),
            f"Growth: {grown}.",
            f"Peak memory of each step's process in MB, of which {rows[0]['before_mb']:.0f} are Python and what is imported:",
            table(("documents", *MEMORY.values()), memory),
            f"Growth: {', '.join(f'{label} {fitted(rows, column)}' for column, label in MEMORY.items())}.",
        ]
        if "found" in rows[0]:
            shares = ", ".join(f"{row['found']:.4f}" for row in rows)
            made = ", ".join(f"{row['making_us']:.1f}" for row in rows)
            parts.append(f"Edits whose document was found: {shares}. Making the texts, which the load does too: {made} us each.")
    if picture:
        parts.append(f"![times and memory over sizes]({picture})")
    return "\n\n".join(parts)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sizes = [10_000, 100_000, 1_000_000]
    parser.add_argument(
        "--texts", type=int, nargs="*", default=sizes, help="sizes, at least 10,000; ten million take 10 GB of disk"
    )
    parser.add_argument("--exact", type=int, nargs="*", default=sizes)
    parser.add_argument("--codes", type=int, nargs="*", default=sizes)
    parser.add_argument("--folder", type=Path)
    folder = Path(__file__).parent / "results"
    parser.add_argument("--plot", type=Path, default=folder / f"{datetime.date.today()}-growth.png")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    one_thread()
    info = machine()
    asked = zip(KINDS.items(), (options.texts, options.exact, options.codes), strict=True)
    results = {name: grow(steps, sizes, options.folder) for (name, steps), sizes in asked if sizes}
    if results:
        plot(results, options.plot)
    print(markdown(results, info, options.plot.name if results else ""))
    if options.json:
        options.json.write_text(json.dumps({"machine": info, "growth": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
