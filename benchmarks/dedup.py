"""`neardup dedup` of two installed versions, beside gaoya in memory and a bare pass of JSON.

    python benchmarks/dedup.py FOLDER BEFORE AFTER [--documents 100000 1000000] [--jobs before after gaoya json] [--rounds 1]
        [--median 420] [--reckon DOCUMENTS] [--chains]

BEFORE and AFTER are the Python programs of two environments, each with one version installed; AFTER also has gaoya. The corpora
(`corpus.py`, 2.5 KB a document) are made in FOLDER unless they are there; a million documents need 8 GB of disk. Every job runs
in a process of its own, in turns, and its whole time counts, the start of Python included. Only gaoya's reading of the file is
left out. gaoya holds all texts and is slow, so it runs up to --gaoya-most documents. Prints the medians as a Markdown table. The
version before keeps one record of each component, as --connected does: the program ends with an error if these two wrote other
bytes. --chains: texts put together of phrases, compared at 0.6, which chains connect. --reckon: time and memory for so many
documents, from the growth over the sizes.
"""

from __future__ import annotations

import argparse
import filecmp
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

JOBS = {
    "before": "`neardup dedup`, the version before",
    "after": "`neardup dedup`",
    "connected": "`neardup dedup --connected`",
    "gaoya": "gaoya in memory, texts in a list, estimating; pairs only",
    "json": "`json.loads` of every line",
}
COLUMNS = {
    "seconds": "seconds", "mb_s": "MB/s", "cpu": "CPU, s", "system": "of it system, s", "written": "written, MB",
    "pages": "pages written", "memory": "peak memory, MB",
}  # fmt: skip
"""What a job reports, and the head of its column."""


def reviews(path: Path, count: int) -> None:
    """Writes short texts of a few phrases, which chains of near-duplicates connect."""
    from random import Random

    chance = Random(5)
    things = ["cable", "charger", "lamp", "kettle", "bag", "mouse", "case", "blender", "tent", "backpack", "pan", "drill"]
    people = ["son", "daughter", "wife", "husband", "office", "kitchen", "car", "mother", "friend", "dog"]
    begins = ["I bought this {} for my {}", "We have used the {} for our {}", "This {} was a gift for my {}"]
    tells = ["it works great so far", "it looks like the picture", "it does what it should do", "it broke after two weeks of use"]
    ends = ["Would buy again", "I would recommend it to anyone", "Not sure if I would buy it again", "Great value for the money"]
    ends += ["Five stars from me", "Shipping was fast and easy", "The color is nice too", "My only complaint is the size"]
    with path.open("w") as file:
        for number in range(count):
            begin = chance.choice(begins).format(chance.choice(things), chance.choice(people))
            text = ". ".join([f"{begin} and {chance.choice(tells)}", *chance.sample(ends, chance.randint(2, 5))])
            file.write(json.dumps({"id": number, "text": text}) + "\n")


def work(name: str, source: Path, output: Path) -> float:
    """One job in this process; returns the seconds before it began that do not count."""
    if name in ("before", "after", "connected"):
        from neardup_db.cli import main

        more = [*(["--connected"] if name == "connected" else []), *(["--threshold", "0.6"] if "chains" in source.name else [])]
        main(["dedup", str(source), "-o", str(output), "--force", *more], standalone_mode=False)
        return 0.0
    started = time.perf_counter()
    with source.open("rb") as file:
        if name == "json":
            for line in file:
                json.loads(line)
            return 0.0
        texts = [json.loads(line)["text"] for line in file]
    read = time.perf_counter() - started
    from peers import gaoya_pairs

    gaoya_pairs(texts)
    return read


def job(name: str, source: str, output: str, report: str) -> None:
    """`work`, and what it took, as JSON in a file."""
    left_out = work(name, Path(source), Path(output))
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    counted = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    times = os.times()
    Path(report).write_text(
        json.dumps(
            {
                "left_out": left_out,
                "cpu": times.user + times.system,
                "system": times.system,
                "written": int(counted["write_bytes"]) / 1e6,
                "pages": int(counted["write_bytes"]) // 4096,
                "memory": int(status["VmHWM"].split()[0]) * 1024 / 1e6,
            }
        )
    )


def measured(python: str, name: str, source: Path) -> dict[str, float]:
    """One run of a job in a process of its own."""
    from measure import note

    output, report = source.with_suffix(f".{name}.jsonl"), source.with_suffix(".report")
    output.unlink(missing_ok=True)
    os.sync()  # the pages that an earlier job left are not this one's to write
    started = time.perf_counter()
    subprocess.run([python, __file__, "job", name, source, output, report], check=True, stdout=subprocess.DEVNULL)
    seconds = time.perf_counter() - started
    told: dict[str, float] = json.loads(report.read_text())
    report.unlink()
    seconds -= told.pop("left_out")
    note(f"{source.name} {name}: {seconds:.1f} s")
    return {"seconds": seconds, "mb_s": source.stat().st_size / 1e6 / seconds, **told}


def require_equal(*outputs: Path) -> None:
    """Ends the program if two outputs differ, else removes them: those of a million documents take 5 GB."""
    if not filecmp.cmp(*outputs, shallow=False):
        sys.exit(f"{outputs[0]} and {outputs[1]} differ")
    for output in outputs:
        output.unlink()


def medians(options: argparse.Namespace, count: int) -> dict[str, dict[str, float]]:
    """Of each job the median of each column."""
    from corpus import write

    source = options.folder / (f"chains-{count}.jsonl" if options.chains else f"dedup-{count}-{options.median}.jsonl")
    if not source.exists() and options.chains:
        reviews(source, count)
    elif not source.exists():
        write(source, count, median_words=options.median)
    jobs = [name for name in options.jobs if name != "gaoya" or count <= options.gaoya_most]
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in jobs}
    for _ in range(options.rounds):
        for name in jobs:
            runs[name].append(measured(options.before if name == "before" else options.after, name, source))
        if {"before", "connected"} <= runs.keys():
            require_equal(*(source.with_suffix(f".{name}.jsonl") for name in ("before", "connected")))
    return {name: {column: statistics.median(run[column] for run in taken) for column in COLUMNS} for name, taken in runs.items()}


def reckoned(made: dict[int, dict[str, dict[str, float]]], name: str, count: int) -> str:
    """The figures of a job for more documents than were measured: time by its growth from the fewest to the most, memory by that
    of one more document between the last two, since a part of it is the same for all."""
    from measure import exponent

    told, sizes = [], sorted(made)
    for column, unit in (("seconds", "s"), ("cpu", "s of CPU")):
        values = [made[size][name][column] for size in sizes]
        grown = exponent(sizes, values)
        told.append(f"{values[-1] * (count / sizes[-1]) ** grown:,.0f} {unit} (n^{grown:.2f})")
    (fewer, less), (most, last) = ((size, made[size][name]["memory"]) for size in sizes[-2:])
    each = (last - less) / (most - fewer)
    told.append(f"{last + each * (count - most):,.0f} MB ({each * 1e6:,.0f} bytes a document)")
    return f"Reckoned for {count:,} documents, {JOBS[name]}: {', '.join(told)}."


def main() -> None:
    """The command line."""
    from measure import machine, machine_lines, table

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("before", help="a Python program")
    parser.add_argument("after", help="another one")
    parser.add_argument("--documents", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--jobs", choices=list(JOBS), nargs="+", default=list(JOBS))
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--median", type=int, default=420, help="words of a document")
    parser.add_argument("--chains", action="store_true", help="texts that chains connect")
    parser.add_argument("--reckon", type=int, metavar="DOCUMENTS")
    parser.add_argument("--gaoya-most", type=int, default=100_000, help="documents up to which gaoya runs")
    options = parser.parse_args()
    if options.reckon and len(options.documents) < 2:
        parser.error("--reckon needs two sizes or more: give them with --documents")
    info = machine()
    made = {count: medians(options, count) for count in options.documents}
    rows = [[f"{count:,}", JOBS[name], *of.values()] for count, jobs in made.items() for name, of in jobs.items()]
    print(f"# Files without near-duplicates\n\n{machine_lines(info)}\n")
    print(table(["documents", "", *COLUMNS.values()], rows))
    if options.reckon:
        in_all = [name for name in options.jobs if all(name in jobs for jobs in made.values())]
        print("", *(reckoned(made, name, options.reckon) for name in in_all), sep="\n")
    if {"before", "connected"} <= set(options.jobs):
        print("\nThe version before and --connected wrote the same bytes in every round.")


if __name__ == "__main__":
    job(*sys.argv[2:]) if sys.argv[1:2] == ["job"] else main()
