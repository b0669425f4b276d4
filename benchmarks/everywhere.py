"""The same clusters from every way in: the index, data frames of four libraries, `neardup dedup` on three formats, and Spark.

    pip install "neardup-db[bench,frames,arrow,spark]" pandas polars duckdb
    python benchmarks/everywhere.py FILE.jsonl[.gz] ... [--synthetic 200000] [--without spark] > RESULT.md

Each FILE has `id` and `text`, one JSON object a line. --synthetic: a corpus with planted near-duplicates too (`corpus.py`).
Prints for each way its clusters, the documents in them and its seconds; ends with an error if two ways differ in one cluster.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from measure import machine, machine_lines, note, read_jsonl, table

THRESHOLD = 0.8

Clusters = frozenset[frozenset[int]]
"""Of each cluster the places of its documents."""


def of_labels(labels: Iterable[tuple[int, Any]]) -> Clusters:
    """Clusters by (place, label); None is the label of a document that is alone."""
    members: dict[Any, set[int]] = defaultdict(set)
    for place, label in labels:
        if label is not None:
            members[label].add(place)
    return frozenset(map(frozenset, members.values()))


def by_index(texts: list[str], folder: Path) -> Clusters:
    from neardup_db import Index, MinHash

    with Index(folder / "index.db", MinHash(threshold=THRESHOLD, exact=True)) as index:
        index.add_many(enumerate(texts))
        return frozenset(frozenset(map(int, cluster.keys)) for cluster in index.clusters())


def by_frame(library: str) -> Callable[[list[str], Path], Clusters]:
    def run(texts: list[str], folder: Path) -> Clusters:
        import duckdb
        import pandas
        import polars
        import pyarrow

        from neardup_db.frames import mark_near_duplicates

        columns = {"body": texts}
        arrow = pyarrow.table(columns)
        frame = {
            "pandas": lambda: pandas.DataFrame(columns), "polars": lambda: polars.DataFrame(columns), "pyarrow": lambda: arrow,
            "DuckDB": lambda: duckdb.from_arrow(arrow),
        }[library]()  # fmt: skip
        marked = mark_near_duplicates(frame, "body", THRESHOLD)
        taken = {
            "pandas": lambda: marked["cluster"].astype(object).where(marked["cluster"].notna(), None).tolist(),
            "polars": lambda: marked["cluster"].to_list(),
            "pyarrow": lambda: marked["cluster"].to_pylist(),
            "DuckDB": lambda: [row[0] for row in marked.select("cluster").fetchall()],
        }
        return of_labels(enumerate(taken[library]()))

    return run


def by_dedup(kind: str) -> Callable[[list[str], Path], Clusters]:
    def run(texts: list[str], folder: Path) -> Clusters:
        from neardup_db.cli import main

        source, clusters = folder / f"in.{kind}", folder / f"{kind}.clusters.jsonl"
        if kind == "jsonl":
            with source.open("w") as file:
                file.writelines(json.dumps({"id": i, "text": text}) + "\n" for i, text in enumerate(texts))
        else:
            import pyarrow
            import pyarrow.feather
            import pyarrow.parquet

            rows = pyarrow.table({"id": range(len(texts)), "text": texts})
            (pyarrow.parquet.write_table if kind == "parquet" else pyarrow.feather.write_feather)(rows, source)
        output = folder / f"out.{kind}"
        arguments = ["dedup", source, "-o", output, "--clusters", clusters, "--threshold", THRESHOLD]
        with contextlib.redirect_stdout(sys.stderr):
            main([str(argument) for argument in arguments], standalone_mode=False)
        rows = map(json.loads, clusters.read_text().splitlines())
        return of_labels((int(row["id"]), row["cluster"]) for row in rows)

    return run


def by_spark(texts: list[str], folder: Path) -> Clusters:
    from pyspark.sql import SparkSession

    from neardup_db import MinHash
    from neardup_db.spark import near_duplicates

    builder = SparkSession.builder.master("local[2]").config("spark.pyspark.python", sys.executable)
    options = {"driver.memory": "4g", "ui.enabled": "false", "ui.showConsoleProgress": "false", "local.dir": str(folder)}
    for option, value in options.items():
        builder = builder.config(f"spark.{option}", value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        import pyarrow
        import pyarrow.parquet

        source = folder / "spark.parquet"
        pyarrow.parquet.write_table(pyarrow.table({"id": range(len(texts)), "text": texts}), source)
        found = near_duplicates(spark.read.parquet(str(source)), "id", "text", MinHash(threshold=THRESHOLD))
        return of_labels((row.key, row.cluster) for row in found.select("key", "cluster").collect())
    finally:
        spark.stop()


WAYS: dict[str, Callable[[list[str], Path], Clusters]] = {
    "index": by_index,
    **{f"frames, {name}": by_frame(name) for name in ("pandas", "polars", "pyarrow", "DuckDB")},
    **{f"dedup, {kind}": by_dedup(kind) for kind in ("jsonl", "parquet", "arrow")},
    "spark": by_spark,
}


def compared(name: str, texts: list[str], ways: Iterable[str]) -> list[tuple[Any, ...]]:
    """A row for each way. Ends the program where one differs from the first."""
    rows, first = [], None
    for way in ways:
        with tempfile.TemporaryDirectory() as folder:
            started = time.perf_counter()
            clusters = WAYS[way](texts, Path(folder))
            seconds = time.perf_counter() - started
        first = clusters if first is None else first
        if clusters != first:
            sys.exit(f"{name}: {way} has {len(clusters - first):,} clusters of its own, and lacks {len(first - clusters):,}")
        rows.append((name, f"{len(texts):,}", way, f"{len(clusters):,}", f"{sum(map(len, clusters)):,}", seconds))
        note(f"{name}, {way}: {seconds:.1f} s")
    return rows


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="*")
    parser.add_argument("--synthetic", type=int, default=200_000)
    parser.add_argument("--without", choices=list(WAYS), nargs="*", default=[])
    options = parser.parse_args()
    ways = [way for way in WAYS if way not in options.without]
    rows: list[tuple[Any, ...]] = []
    for path in options.files:
        rows += compared(path.parent.name, [text for _, text in read_jsonl(path)], ways)
    if options.synthetic:
        from corpus import write

        with tempfile.TemporaryDirectory() as folder:
            made = Path(folder) / "synthetic.jsonl"
            write(made, options.synthetic)
            rows += compared("synthetic", [text for _, text in read_jsonl(made)], ways)
    print(f"# The same clusters everywhere\n\n{machine_lines(machine())}\n")
    print(table(("documents", "count", "way", "clusters", "in clusters", "seconds, inputs made"), rows))
    print("\nEvery way gave the same clusters, document by document.")


if __name__ == "__main__":
    main()
