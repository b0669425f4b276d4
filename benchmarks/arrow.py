"""Texts that stand in Arrow's memory: `fingerprints(array)` beside the C core alone, `add_many(table)` beside a list of tuples.

    python benchmarks/arrow.py [--texts 200000] [--rounds 15] [--loads 3] > RESULT.md

Texts are random words, cut to 30, 300 and 3,000 bytes, the fewer the longer they are. Everything takes turns, in another order
each round; ratios are medians of the ratios of the rounds.

Fingerprints run in one thread, by its CPU time, after a round that does not count. "core" is one call of the C function that
fingerprints texts by address and size, `nd_scheme_append_texts`: the addresses are known, and the values overwrite those of the
round before. "core, new memory" is `nd_scheme_text_rows`, which also has to put them into an array that was not there before, as
whoever keeps them must.

Loads run each in a process of its own, into a file, with the data in memory. "listed" also makes the tuples of the table. Texts
with accents have an é for each e: Python keeps such a text in another form than UTF-8. "core" is the share of that CPU time that
the core alone takes for the fingerprints; most of the rest is SQLite.

The steps of Python (lines and calls) of some rows and of more tell what is done for each row. They are those of all of the work:
over a connection of the caller's own a load has no other threads.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import numpy as np
import polars
import pyarrow
from measure import Clock, in_child, machine, machine_lines, note, table

from neardup_db import BitSampling, BottomK, Index, MinHash, SimHash, TextRules
from neardup_db.arrow import texts_of
from neardup_db.native import ffi, lib

SIZES = {30: 1, 300: 4, 3000: 40}
"""Bytes of a text, and the part of --texts that there are of it."""


def made(size: int, count: int, accents: bool = False) -> list[str]:
    """Texts of so many bytes."""
    chance = random.Random(size)
    words = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(2, 9))) for _ in range(20_000)]
    texts = [" ".join(chance.choices(words, k=size // 4))[:size] for _ in range(count)]
    return [text.replace("e", "é") for text in texts] if accents else texts


def chunked(array: pyarrow.Array, rows: int) -> pyarrow.ChunkedArray:
    return pyarrow.chunked_array([array[start : start + rows] for start in range(0, len(array), rows)])


LAYOUTS: dict[str, Callable[[pyarrow.Array], Any]] = {
    "string": lambda array: array,
    "large_string": lambda array: array.cast(pyarrow.large_string()),
    "string_view": lambda array: array.cast(pyarrow.string_view()),
    "dictionary": lambda array: array.dictionary_encode(),
    "slice of string": lambda array: array[7:-7],
    "chunks of 10,000": lambda array: chunked(array, 10_000),
    "chunks of 1,000": lambda array: chunked(array, 1_000),
    "list of str": lambda array: array.to_pylist(),
}

# ---- fingerprints ------------------------------------------------------------------------------------------------------


class Core:
    """The C core alone, over texts whose places are known."""

    def __init__(self, scheme: Any, array: Any) -> None:
        rules = TextRules()
        self._scheme, self._rules, self._held = scheme.for_index(rules), rules, array
        array = pyarrow.array(array) if isinstance(array, list) else array
        self._texts = texts_of("texts", array, None, "")[:]
        addresses, sizes, self._owners = self._texts.located(0, len(self._texts), 1 << 62)
        self._count = len(sizes)
        self._given = ffi.from_buffer("const uint8_t *[]", addresses), ffi.from_buffer("size_t[]", sizes)
        self._work, self._values = lib.nd_text_new(), lib.nd_values_new()

    def appended(self) -> None:
        lib.nd_values_clear(self._values)
        scheme, rules = self._scheme.fingerprint_native, self._rules.native
        assert lib.nd_scheme_append_texts(scheme, rules, self._work, *self._given, self._count, self._values) == lib.ND_OK

    def rows(self) -> Any:
        scheme, width = self._scheme.fingerprint_native, self._scheme.value_size
        rows, empty = np.empty((self._count, width), np.uint8), np.empty(self._count, np.bool_)
        out = width, ffi.from_buffer("uint8_t[]", rows), ffi.from_buffer("uint8_t[]", empty)
        assert lib.nd_scheme_text_rows(scheme, self._rules.native, self._work, *self._given, self._count, self._values, *out) == 0
        return rows

    def close(self) -> None:
        lib.nd_text_free(self._work)
        lib.nd_values_free(self._values)


def fingerprints(size: int, count: int, rounds: int) -> list[tuple[Any, ...]]:
    """Rows of the table of fingerprints, of texts of one size."""
    base, rows = pyarrow.array(made(size, count)), []
    for scheme in (MinHash(), SimHash(), BitSampling(), BottomK()):
        for layout, of in LAYOUTS.items():
            array = of(base)
            core = Core(scheme, array)
            runs: list[Callable[[], Any]] = [core.appended, lambda scheme=scheme, array=array: scheme.fingerprints(array)]
            if not isinstance(scheme, BottomK):
                runs.append(core.rows)
            order = list(range(len(runs)))
            times: list[list[float]] = []
            for _ in range(rounds + 1):
                random.shuffle(order)
                spent = [0.0] * len(runs)
                for place in order:
                    start = time.thread_time()
                    runs[place]()
                    spent[place] = time.thread_time() - start
                times.append(spent)
            del times[0]
            core.close()
            alone, ours = (statistics.median(spent[i] for spent in times) / len(array) * 1e9 for i in (0, 1))
            ratios = [statistics.median(spent[i] / spent[1] for spent in times) for i in (0, 2) if i < len(runs)]
            rows.append((size, type(scheme).__name__, layout, alone, ours, *ratios, *["\N{EN DASH}"] * (2 - len(ratios))))
            note(f"{rows[-1]}")
    return rows


def steps(run: Callable[[], Any]) -> int:
    """Calls and lines of Python in this thread."""
    counted = 0

    def traced(frame: Any, event: str, argument: Any) -> Any:
        nonlocal counted
        counted += 1
        return traced

    sys.settrace(traced)
    try:
        run()
    finally:
        sys.settrace(None)
    return counted


def steps_of_rows() -> list[tuple[Any, ...]]:
    """Steps of Python for 1,400 rows and for 4,000, by what is done and by layout."""

    def load(array: Any) -> Any:
        data = pyarrow.table({"id": np.arange(len(array)), "body": array})
        with Index(apsw.Connection(":memory:"), MinHash(), record_matches=False) as index:
            return steps(lambda: index.add_many(data, key="id", text="body"))

    scheme = MinHash()

    rows = []
    for layout, of in LAYOUTS.items():
        if layout.startswith(("chunks", "list")):  # more rows are more chunks
            continue
        few, many = (of(pyarrow.array(made(30, count))) for count in (1_400, 4_000))
        counts = []
        for array in (few, many):
            scheme.fingerprints(array)
            counts += [steps(lambda array=array: scheme.fingerprints(array)), load(array)]
        rows.append((layout, counts[0], counts[2], counts[1], counts[3]))
    return rows


# ---- loads -------------------------------------------------------------------------------------------------------------


def recast(kind: pyarrow.DataType) -> Callable[[pyarrow.Table], Any]:
    return lambda data: data.set_column(1, "body", data["body"].cast(kind))


FORMS: dict[str, Callable[[pyarrow.Table], Any]] = {
    "list of tuples": lambda data: list(zip(data["id"].to_pylist(), data["body"].to_pylist(), strict=True)),
    "table": lambda data: data,
    "table, large_string": recast(pyarrow.large_string()),
    "table, string_view": recast(pyarrow.string_view()),
    "table, dictionary": lambda data: data.set_column(1, "body", data["body"].dictionary_encode()),
    "polars": polars.from_arrow,
    "reader of 1,000 rows": lambda data: data.to_reader(1000),
    "table, listed": lambda data: data,
}
LISTED = "table, listed"
STORED: dict[str, dict[str, Any]] = {"nothing": {}, "texts": {"store_text": True}}


def fill(size: int, count: int, accents: bool, form: str, stored: str, metadata: bool) -> tuple[float, float, int, float]:
    """Seconds and CPU seconds of add_many, how many documents matched, and the CPU seconds of the core for the fingerprints."""
    texts = made(size, count, accents)
    keys = [f"key {number}" for number in range(count)]
    lengths = list(map(len, texts))
    core = Core(MinHash(), pyarrow.array(texts))
    core.appended()
    start = time.thread_time()
    core.appended()
    alone = time.thread_time() - start
    core.close()
    data = FORMS[form](pyarrow.table({"id": pyarrow.array(keys), "body": pyarrow.array(texts), "length": pyarrow.array(lengths)}))
    del texts, core
    named: dict[str, Any] = {"key": "id", "text": "body", "metadata": ["length"] if metadata else None}
    with tempfile.TemporaryDirectory() as at, Index(Path(at) / "a.db", MinHash(), **STORED[stored]) as index, Clock() as clock:
        if form == LISTED:
            data = list(zip(data["id"].to_pylist(), data["body"].to_pylist(), strict=True))
        if metadata and isinstance(data, list):
            data = [{"key": row[0], "text": row[1], "metadata": {"length": n}} for row, n in zip(data, lengths, strict=True)]
        report = index.add_many(data, **(named if not isinstance(data, list) else {}))
    return clock.seconds, clock.cpu_seconds, report.matched, alone


LIST = "list of tuples"
CASES = [
    *((size, False, form, "nothing", False) for size in SIZES for form in FORMS),
    *((300, True, form, "nothing", False) for form in (LIST, "table")),
    *((300, False, form, "texts", False) for form in (LIST, "table")),
    *((300, False, form, "nothing", True) for form in (LIST, "table")),
]


def loads(texts: int, rounds: int) -> list[tuple[Any, ...]]:
    """Rows of the table of loads."""
    runs: dict[Any, list[tuple[float, float, int, float]]] = {case: [] for case in CASES}
    for _ in range(rounds):
        for case in random.sample(CASES, len(CASES)):
            size, accents, form, stored, metadata = case
            runs[case].append(in_child(fill, size, texts // SIZES[size], accents, form, stored, metadata))
            note(f"{case}: {runs[case][-1][0]:.2f} s, CPU {runs[case][-1][1]:.2f} s")
    rows = []
    for case, each in runs.items():
        size, accents, form, stored, metadata = case
        count = texts // SIZES[size]
        lists = runs[size, accents, LIST, stored, metadata]
        ratios = [statistics.median(a[i] / b[i] for a, b in zip(lists, each, strict=True)) for i in (0, 1)]
        wall, cpu, alone = (statistics.median(run[i] for run in each) / count * 1e6 for i in (0, 1, 3))
        marks = ["yes" if accents else "no", stored, "yes" if metadata else "no"]
        rows.append((size, form, *marks, wall, cpu, *ratios, f"{alone / cpu:.0%}", each[0][2]))
    return rows


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=200_000, help="of 30 bytes")
    parser.add_argument("--rounds", type=int, default=15, help="of the fingerprints")
    parser.add_argument("--loads", type=int, default=3, help="rounds of the loads")
    options = parser.parse_args()
    info = machine()
    print("# Arrow\n\n" + machine_lines(info) + "\n")
    print("## Fingerprints\n\nNanoseconds a text; speed in parts of the core's.\n")
    header = ("bytes", "scheme", "layout", "core", "fingerprints(array)", "of the core's speed", "of the core's, new memory")
    rows = (fingerprints(size, options.texts // part, options.rounds) for size, part in SIZES.items())
    print(table(header, [row for some in rows for row in some]))
    print("\n## Steps of Python\n")
    print(table(("layout", "fingerprints, 1,400 rows", "4,000 rows", "add_many, 1,400 rows", "4,000 rows"), steps_of_rows()))
    print("\n## Loads\n\nMicroseconds a text; speed in parts of that of the list of tuples.\n")
    header = "bytes", "data", "accents", "stored", "metadata", "wall", "CPU", "speed, wall", "speed, CPU", "core", "matched"
    print(table(header, loads(options.texts, options.loads)))


if __name__ == "__main__":
    main()
