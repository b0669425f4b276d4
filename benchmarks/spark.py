"""The same documents through an index and through Spark on one machine: seconds, memory, bytes, shuffles and spill.

    python benchmarks/spark.py [--documents 1000000] [--master 'local[2]'] [--memory 6g] [--partitions 16] [--median 420]
        [--edited 15] [--cases plain equal template chain] [--runs index clusters deduplicate] [--folder FOLDER] > RESULT.md

Four inputs: documents of corpus.py alone; with 5 % of them texts that are there already; and with these and a tenth that are
edits of one template (100,000 of a million), each of fewer than --edited words of 400. With 15 all match the template. With 30
half match nothing, and what meets in a bucket without matching is compared pair by pair, by the index and by Spark. In the
fourth a fifth more are one chain, of which each text has one word of 400 changed in the text before.

Three runs: clusters of an index, `near_duplicates`, and `deduplicate` by the distinct rows that stay.

All are read from the same Parquet files. Clusters of both are compared. Every measurement runs in a process of its own; the
figures of Spark are of its Java, its Python workers and the driver together, shuffles and spill from its event log.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import os
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import corpus
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from measure import folder_bytes, in_child, machine, machine_lines, note, table

from neardup_db import Index, MinHash

CASES = {"plain": (0.0, 0.0, 0.0), "equal": (0.05, 0.0, 0.0), "template": (0.05, 0.1, 0.0), "chain": (0.05, 0.1, 0.2)}
"""Shares of equal texts, of edits of a template, and of a chain of edits."""

RUNS = ("index", "clusters", "deduplicate")

FILES, ROWS = 16, 5000
TEMPLATE_WORDS = 400
SCHEME = MinHash(threshold=0.8, exact=True)


@dataclass
class Run:
    """Sizes in bytes; memory: the largest resident size of all processes together."""

    case: str
    what: str
    seconds: float
    cpu_seconds: float
    memory: float
    stored: int
    shuffled: int
    spilled: int
    clusters: int
    clustered: int
    digest: str


# ---- the input -------------------------------------------------------------------------------------------------------------


def documents(count: int, case: str, median: int, edited: int) -> Iterator[tuple[int, str]]:
    """(key, text) of all documents of a case, in an order that keeps equal ones apart."""
    equal, edits, links = (int(count * share) for share in CASES[case])
    random = np.random.default_rng(1)
    places = random.permutation(count)
    alone = _with_equal(count - equal - edits - links, equal, median)
    texts = itertools.chain(alone, _edits(edits, edited, random), _chain(links))
    return zip(places.tolist(), texts, strict=True)


def _with_equal(count: int, equal: int, median: int) -> Iterator[str]:
    every = max(1, count // equal) if equal else 0
    left = equal
    for number, (_, text) in enumerate(corpus.documents(count, median_words=median)):
        yield text
        if left and number % every == 0:
            left -= 1
            yield text
    yield from itertools.repeat(text, left)


def _edits(count: int, edited: int, random: np.random.Generator) -> Iterator[str]:
    template = [f"word{i}" for i in range(TEMPLATE_WORDS)]
    for number in range(count):
        text = list(template)
        for place in random.integers(0, TEMPLATE_WORDS, random.integers(0, edited)):
            text[place] = f"edit{number}x{place}"
        yield " ".join(text)


def _chain(count: int) -> Iterator[str]:
    text = [f"link{i}" for i in range(TEMPLATE_WORDS)]
    for number in range(count):
        text[number % TEMPLATE_WORDS] = f"changed{number}"
        yield " ".join(text)


def write(folder: Path, count: int, case: str, median: int, edited: int) -> int:
    """The input as Parquet files; returns the bytes of its texts."""
    folder.mkdir(parents=True)
    size, writers = 0, []
    schema = pa.schema([("id", pa.int64()), ("body", pa.string())])
    try:
        writers = [pq.ParquetWriter(folder / f"part-{i:02}.parquet", schema, compression="zstd") for i in range(FILES)]
        rows = documents(count, case, median, edited)
        for turn in itertools.count():
            part = list(itertools.islice(rows, ROWS))
            if not part:
                return size
            size += sum(len(text) for _, text in part)
            writers[turn % FILES].write_table(
                pa.Table.from_arrays([pa.array(column) for column in zip(*part, strict=True)], schema=schema)
            )
    finally:
        for writer in writers:
            writer.close()


# ---- what a run takes ------------------------------------------------------------------------------------------------------


class Watch:
    """Resident bytes and CPU seconds of this process and all below it, looked at five times a second."""

    def __init__(self) -> None:
        self.memory = 0
        self._cpu: dict[int, float] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Watch:
        self._start = time.perf_counter()
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()
        self.seconds = time.perf_counter() - self._start
        self.cpu_seconds = sum(self._cpu.values())

    def _look(self) -> None:
        page, tick = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_CLK_TCK")
        while True:
            memory = 0
            for pid in _tree(os.getpid()):
                try:
                    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                except OSError:
                    continue
                self._cpu[pid] = (int(fields[11]) + int(fields[12])) / tick
                memory += int(fields[21]) * page
            self.memory = max(self.memory, memory)
            if self._over.wait(0.2):
                return


def _tree(root: int) -> Iterable[int]:
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents.setdefault(int(fields[1]), []).append(int(entry.name))
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        yield pid
        waiting += parents.get(pid, [])


def digest(clusters: Iterable[list[int]]) -> tuple[int, int, str]:
    """(clusters, documents in them, a digest of which are together)."""
    ordered = sorted(sorted(keys) for keys in clusters)
    return len(ordered), sum(map(len, ordered)), hashlib.sha256(json.dumps(ordered).encode()).hexdigest()[:12]


# ---- the runs ----------------------------------------------------------------------------------------------------------------


def records(folder: Path) -> Iterator[tuple[int, str]]:
    for path in sorted(folder.glob("*.parquet")):
        for batch in pq.ParquetFile(path).iter_batches(ROWS):
            yield from zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True)


def run_index(case: str, given: str, work: str) -> Run:
    path = Path(work) / "index.db"
    with Watch() as watch, Index(path, SCHEME) as index:
        index.add_many(records(Path(given)))
        found = [list(cluster.keys) for cluster in index.clusters()]
    figures = digest(found)  # type: ignore[arg-type]
    return Run(case, "index", watch.seconds, watch.cpu_seconds, watch.memory, path.stat().st_size, 0, 0, *figures)


def run_spark(case: str, given: str, work: str, options: dict[str, str], what: str) -> Run:
    from pyspark.sql import SparkSession

    from neardup_db.spark import deduplicate, near_duplicates

    log, save = Path(work) / "events", Path(work) / "save"
    log.mkdir()
    with Watch() as watch:
        builder = SparkSession.builder.config("spark.eventLog.enabled", "true").config("spark.eventLog.dir", f"file:{log}")
        for name, value in {**options, "spark.local.dir": work, "spark.eventLog.compress": "false"}.items():
            builder = builder.config(name, value)
        spark = builder.getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        df = spark.read.parquet(f"file:{given}")
        if what == "deduplicate":
            stay = deduplicate(df, "id", "body", SCHEME, save=f"file:{save}")
            lists = [[row[0]] for row in stay.select("id").toLocalIterator()]
        else:
            found = near_duplicates(df, "id", "body", SCHEME, save=f"file:{save}")
            together = found.where("cluster IS NOT NULL").groupBy("cluster").agg({"key": "collect_list"})
            lists = [row[1] for row in together.toLocalIterator()]
        spark.stop()
    shuffled, spilled = events(log)
    figures, what = digest(lists), f"Spark, {what}"
    return Run(case, what, watch.seconds, watch.cpu_seconds, watch.memory, folder_bytes(save), shuffled, spilled, *figures)


def events(folder: Path) -> tuple[int, int]:
    """(bytes written to shuffles, bytes spilled to the disk) of all tasks."""
    shuffled = spilled = 0
    for path in folder.rglob("*"):
        if path.is_file() and not path.name.startswith("."):
            with path.open(encoding="utf-8") as lines:
                for line in lines:
                    if '"SparkListenerTaskEnd"' in line:
                        metrics = json.loads(line).get("Task Metrics") or {}
                        shuffled += (metrics.get("Shuffle Write Metrics") or {}).get("Shuffle Bytes Written", 0)
                        spilled += metrics.get("Disk Bytes Spilled", 0)
    return shuffled, spilled


# ---- the report --------------------------------------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--memory", default="6g", help="of Java")
    parser.add_argument("--partitions", default="16", help="of shuffles")
    parser.add_argument("--median", type=int, default=corpus.MEDIAN_WORDS, help="words of a text")
    parser.add_argument("--edited", type=int, default=15, help="words of the template are changed, fewer than this many")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--runs", nargs="+", choices=RUNS, default=list(RUNS))
    parser.add_argument("--folder", help="for inputs and outputs; a temporary one unless given")
    options = parser.parse_args()
    settings = {
        "spark.master": options.master,
        "spark.driver.memory": options.memory,
        "spark.sql.shuffle.partitions": options.partitions,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    info = machine()
    runs: list[Run] = []
    sizes: dict[str, int] = {}
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="neardup-spark-bench-") as folder:
        for case in options.cases:
            given = Path(folder) / case
            sizes[case] = write(given, options.documents, case, options.median, options.edited)
            note(f"{case}: {sizes[case] / 1e6:,.0f} MB of text")
            for what in options.runs:
                run, extra = (run_index, ()) if what == "index" else (run_spark, (settings, what))
                with tempfile.TemporaryDirectory(dir=folder) as work:
                    runs.append(in_child(run, case, str(given), work, *extra))
                    note(str(runs[-1]))
    header = [
        "input", "", "seconds", "CPU s", "peak memory, MB", "stored, bytes a document", "shuffled, bytes a document",
        "spilled, MB", "clusters, or rows that stay", "documents in them",
    ]  # fmt: skip
    rows = [
        [
            run.case, run.what, run.seconds, run.cpu_seconds, run.memory / 1e6, run.stored / options.documents,
            run.shuffled / options.documents, run.spilled / 1e6, run.clusters, run.clustered,
        ]
        for run in runs
    ]  # fmt: skip
    print("# An index and Spark on the same documents\n")
    print(machine_lines(info))
    listed = ", ".join(f"{case} {size / 1e6:,.0f} MB" for case, size in sizes.items())
    print(
        f"\n{options.documents:,} documents, {listed}; {SCHEME!r}. "
        f"Edits of the template: fewer than {options.edited} words. "
        f"Spark {options.master}, {options.memory} of Java, {options.partitions} partitions of shuffles.\n"
    )
    print(table(header, rows))
    for case in options.cases:
        digests = {run.digest for run in runs if run.case == case and "deduplicate" not in run.what}
        verdict = "the same" if len(digests) == 1 else "DIFFERENT"
        if digests:
            print(f"\n{case}: the clusters of both are {verdict} ({', '.join(sorted(digests))}).")


if __name__ == "__main__":
    main()
