"""Build one index with several processes: each adds a part of the files, then the parts are merged.

    python parallel_build.py posts.db posts-0.jsonl posts-1.jsonl posts-2.jsonl posts-3.jsonl

Each line has "id" and "text". The index is that of one process that adds file after file, and it appears whole. This pays where
reading and fingerprinting a text takes long, as with a tokenizer in Python (figures: docs/how-to/merging.md). Without arguments
the script shows itself on the bundled sample.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from neardup_db import Index, MinHash, TextRules, demo

SCHEME, RULES = MinHash(threshold=0.8), TextRules.words(shingle=3)
"""A tokenizer of your own belongs into a module that all processes import: here it would have another name in each."""


def lines(files: Sequence[Path]) -> Iterator[tuple[str, str]]:
    """(id, text) of every line."""
    for path in files:
        with path.open("rb") as file:
            for line in file:
                post = json.loads(line)
                yield post["id"], post["text"]


def build_part(path: Path, files: Sequence[Path], first: bool) -> Path:
    """An index of some files. Only the first part, into which the others go, looks for matches: these are found by the merge."""
    with Index(path, SCHEME, text=RULES, record_matches=first, durability="normal") as index:
        index.add_many(lines(files))
    return path


def build(path: Path, files: Sequence[Path], processes: int) -> None:
    """Make the index of all files at a path where there is none."""
    share = -(-len(files) // processes)
    runs = [files[start : start + share] for start in range(0, len(files), share)]  # in order: the first documents stay the first
    with tempfile.TemporaryDirectory(dir=path.absolute().parent) as folder:
        paths = [Path(folder, f"{number}.db") for number in range(len(runs))]
        with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
            first, *others = pool.map(build_part, paths, runs, [number == 0 for number in range(len(runs))])
        with Index(first) as index:
            for part in others:
                index.merge(part)
        os.link(first, path)  # fails where there is something already


def show() -> None:
    """Four files of the sample, by two processes."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, f"{number}.jsonl") for number in range(4)]
        posts = [json.dumps({"id": key, "text": text}) + "\n" for key, text in demo.documents()]
        for number, file in enumerate(files):
            file.write_text("".join(posts[number::4]), "utf-8")
        build(Path(folder, "posts.db"), files, 2)
        with Index(Path(folder, "posts.db")) as index:
            print(json.dumps({"documents": len(index), "clusters": len(index.clusters())}))


if __name__ == "__main__":
    if len(sys.argv) > 2:
        build(Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]], os.cpu_count() or 1)
    else:
        show()
