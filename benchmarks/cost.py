"""What an operation on one document costs where it meets many: CPU seconds at n and 4 n, and the exponent between them.

    python benchmarks/cost.py

1.0 is linear, 2.0 a square."""

from __future__ import annotations

import math
import random
import time
import warnings
from collections.abc import Callable
from typing import Any

from neardup_db import Index, MinHash

Work = Callable[[int], tuple[Index, Callable[[], Any]]]
rng = random.Random(3)
PAGE = [f"w{rng.randrange(10**6)}" for _ in range(200)]
ERROR = "this page does not exist on our server please go back to the start page and try again or write to us"


def typos() -> str:
    """A copy with 6 wrong words: 0.83 like the page, 0.71 like another copy."""
    copy = list(PAGE)
    for place in rng.sample(range(66), 6):
        copy[3 * place + 1] = f"w{rng.randrange(10**6)}"
    return " ".join(copy)


def star(count: int) -> tuple[Index, Callable[[], Any]]:
    index = Index(":memory:", MinHash(threshold=0.8, exact=True))
    index.add("page", " ".join(PAGE))
    index.add_many((number, typos()) for number in range(count))
    return index, lambda: index.delete("page")


def expired_star(count: int) -> tuple[Index, Callable[[], Any]]:
    index, _ = star(count)
    index.connection.execute("UPDATE neardup_document SET expires_at = 1 WHERE key = 'page'")
    return index, index.clusters


def copies(count: int) -> tuple[Index, Callable[[], Any]]:
    index = Index(":memory:", MinHash())
    records = [(number, ERROR) for number in range(count)]
    index.add_many(records)
    rng.shuffle(records)
    return index, lambda: index.add_many(records, if_exists="replace")


def bucket(count: int) -> tuple[Index, Callable[[], Any]]:
    index = Index(":memory:", MinHash())
    index.add_many((number, f"one two three four five {number}") for number in range(count))
    return index, lambda: index.add_many([("x", "one two three four five x")])


OPERATIONS: dict[str, tuple[Work, int]] = {
    "delete the text of a star of edits": (star, 1000),
    "clusters() while that text has expired": (expired_star, 1000),
    "replace equal copies in another order": (copies, 2000),
    "add_many of one record into a bucket that matches nothing": (bucket, 16000),
}


def cpu(work: Work, count: int) -> float:
    index, run = work(count)
    with index:
        start = time.process_time()
        run()
        return time.process_time() - start


def main() -> None:
    warnings.simplefilter("ignore")
    print("| operation | n | at n | at 4 n | exponent |\n|---|---:|---:|---:|---:|")
    for name, (work, count) in OPERATIONS.items():
        few, many = cpu(work, count), cpu(work, 4 * count)
        print(f"| {name} | {count:,} | {few:.2f} s | {many:.2f} s | {math.log(many / few, 4):.2f} |")


if __name__ == "__main__":
    main()
