"""How many records `neardup dedup` removes from real short texts, and how many of these are unlike the record that stays.

    python benchmarks/direct.py FOLDER BEFORE AFTER --packages FILE --wordnet DIR [--threshold 0.6]

BEFORE and AFTER are the Python programs of two environments, each with one version installed. The texts are one-line package
descriptions, the output of `apt-cache dumpavail`, and the glosses in /usr/share/wordnet of Debian's `wordnet-base`. Rules:
`chars(shingle=3)`. AFTER runs with `--connected` too. Unlike: below the threshold by the true Jaccard similarity of the two.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import time
from pathlib import Path

import numpy as np
from planted import packages

from neardup_db import TextRules, compute


def texts(options: argparse.Namespace) -> list[str]:
    """Equal ones once."""
    lines = [*packages(options.packages)]
    for part in ("noun", "verb", "adj", "adv"):
        rows = (options.wordnet / f"data.{part}").read_text("utf-8", "replace").splitlines()
        lines += [row.split(" | ", 1)[1].strip() for row in rows if " | " in row]
    return [*dict.fromkeys(lines)]


def unlike(records: list[str], output: Path, threshold: float) -> tuple[int, int, int]:
    """(records that go, those below the threshold to the one that stays, records of the largest cluster)."""
    rules, gone, far, sizes = TextRules.chars(shingle=3), 0, 0, dict[int, int]()
    with output.open("rb") as file:
        for line in file:
            row = json.loads(line)
            kept = row.get("duplicate_of")
            if kept is None:
                continue
            gone += 1
            sizes[kept] = sizes.get(kept, 1) + 1
            a, b = (np.unique(compute.shingle_hashes(records[number], rules)) for number in (row["id"], kept))
            far += compute.jaccard(a, b) < threshold
    return gone, far, max(sizes.values(), default=0)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--packages", type=Path, required=True)
    parser.add_argument("--wordnet", type=Path, required=True)
    parser.add_argument("--threshold", type=float, default=0.6)
    options = parser.parse_args()
    records, source = texts(options), options.folder / "direct.jsonl"
    source.write_text("".join(json.dumps({"id": number, "text": text}) + "\n" for number, text in enumerate(records)), "utf-8")
    print("| | records | go | unlike the one that stays | largest cluster | CPU, s |\n|---|---:|---:|---:|---:|---:|")
    for name, python, more in (
        ("the version before", options.before, []),
        ("`neardup dedup`", options.after, []),
        ("`neardup dedup --connected`", options.after, ["--connected"]),
    ):
        output = options.folder / "direct.out.jsonl"
        rules = ["--id-field", "id", "--tokens", "chars", "--shingle", "3", "--threshold", str(options.threshold)]
        command = [python, "-m", "neardup_db", "dedup", source, "-o", output, "--force", "--mark", *rules, *more]
        before = os.times()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=options.folder)
        after = os.times()
        seconds = after.children_user + after.children_system - before.children_user - before.children_system
        gone, far, largest = unlike(records, output, options.threshold)
        print(f"| {name} | {len(records):,} | {gone:,} | {far:,} | {largest:,} | {seconds:.1f} |")
    print(time.strftime("%Y-%m-%d"))


if __name__ == "__main__":
    main()
