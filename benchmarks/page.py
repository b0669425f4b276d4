"""How long the pages in Datasette take over a large file: the index's page, its largest cluster and a search.

    python benchmarks/page.py FILE [--documents 1000000] [--scheme minhash|simhash|bottomk|codes]

Makes FILE if it is not there: short texts of 12 words, every tenth a near-copy of one of 1,000 stories, with the texts stored; or
codes of 256 bits. Prints seconds of the first and of the fastest of five requests, answered in this process.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from datasette.app import Datasette

from neardup_db import BinaryCode, BottomK, Index, MinHash, SimHash

SCHEMES = {"minhash": MinHash(), "simhash": SimHash(), "bottomk": BottomK(threshold=0.8), "codes": BinaryCode(256, 31)}
STORIES = 1000


def texts(count: int) -> Iterator[tuple[str, str]]:
    """(key, text) of `count` documents."""
    pick = random.Random(1)
    words = [f"word{number}" for number in range(20_000)]
    stories = [pick.choices(words, k=30) for _ in range(STORIES)]
    for number in range(count):
        if number % 10:
            yield f"k{number}", " ".join(pick.choices(words, k=12))
        else:  # the stories differ in how often they are copied
            story = stories[int(STORIES * pick.random() ** 2)]
            yield f"k{number}", " ".join([*story, pick.choice(words)])


def codes(count: int) -> np.ndarray[Any, Any]:
    """uint8[count, 32]: random ones, every tenth near one of a thousand."""
    pick = np.random.default_rng(1)
    made = pick.integers(0, 256, (count, 32), np.uint8)
    made[::10] = made[(STORIES * pick.random(len(made[::10])) ** 2).astype(np.int64)]
    made[::10, 0] ^= pick.integers(0, 256, len(made[::10]), np.uint8)
    return made


def make(path: Path, scheme: str, count: int) -> None:
    """The file."""
    start = time.perf_counter()
    with Index(path, SCHEMES[scheme], store_text=scheme != "codes") as index:
        if scheme == "codes":
            index.add_codes([f"k{number}" for number in range(count)], codes(count), commit_every=100_000)
        else:
            index.add_many(texts(count), commit_every=100_000)
    print(f"made {path} in {time.perf_counter() - start:.0f} s, {path.stat().st_size >> 20} MiB")


async def measure(path: Path, scheme: str) -> None:
    """Times of the pages, and the figures that they show."""
    datasette = Datasette([str(path)])
    page = f"/-/neardup/{path.stem}/neardup"
    text = codes(1000)[0].tobytes().hex() if scheme == "codes" else next(texts(1))[1]

    async def ask(name: str, address: str, sent: Any = None) -> str:
        taken = []
        for _ in range(6):
            start = time.perf_counter()
            client = datasette.client
            answer = await (client.get(address) if sent is None else client.post(address, data=sent))
            taken.append(time.perf_counter() - start)
            assert answer.status_code == 200, answer.text
        print(f"{name:20s} first {taken[0]:.3f} s, fastest {min(taken[1:]):.3f} s, {len(answer.text) >> 10} KiB")
        return str(answer.text)

    html = await ask("index", page)
    print(dict(re.findall("<dt>(.*?)</dt><dd>(.*?)</dd>", html)))
    largest = re.findall(rf'"({page}/clusters/-?\d+)">', html)
    if largest:
        size = re.findall("<h1>(.*?)</h1>", await ask("largest cluster", largest[0]))
        print(size)
    found = await ask("search", f"{page}/search", {"text": text})
    print(re.findall(r"(\d+ near-duplicates)", found))


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--scheme", choices=list(SCHEMES), default="minhash")
    given = parser.parse_args()
    if not given.file.exists():
        make(given.file, given.scheme, given.documents)
    asyncio.run(measure(given.file, given.scheme))


if __name__ == "__main__":
    main()
