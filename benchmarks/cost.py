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

from neardup_db import BinaryCode, BottomK, Index, MinHash

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


def pairs_of_star(count: int) -> tuple[Index, Callable[[], Any]]:
    index, _ = star(count)
    return index, lambda: sum(1 for _ in index.pairs())


def load_of_star(count: int) -> tuple[Index, Callable[[], Any]]:
    index = Index(":memory:", MinHash(threshold=0.8, exact=True))
    records = [("page", " ".join(PAGE)), *((number, typos()) for number in range(count))]
    return index, lambda: index.add_many(records)


def near_copies(count: int) -> tuple[Index, Callable[[], Any]]:
    index = Index(":memory:", MinHash())
    index.add_many((number, f"{ERROR} {number}") for number in range(count))
    return index, index.check


def chain(count: int) -> tuple[Index, Callable[[], Any]]:
    """Texts each of which matches the one before and the one behind."""
    index = Index(":memory:", MinHash(threshold=0.6, exact=True))
    words = [f"w{rng.randrange(10**6)}" for _ in range(4 * count + 40)]
    index.add_many((number, " ".join(words[4 * number : 4 * number + 40])) for number in range(count))
    return index, lambda: index.delete(count // 2)


def estimates(count: int) -> tuple[Index, Callable[[], Any]]:
    """Edits that match nothing: a third of the words is changed."""
    index = Index(":memory:", BottomK(measure="estimate"))
    words = [f"w{rng.randrange(200_000)}" for _ in range(500)]
    records = []
    for number in range(count):
        copy = list(words)
        for place in rng.sample(range(500), 150):
            copy[place] = f"w{rng.randrange(200_000)}"
        records.append((number, " ".join(copy)))
    return index, lambda: index.add_many(records)


def near_codes(count: int) -> tuple[Index, Callable[[], Any]]:
    """Codes that are all near each other, as blank pictures are."""
    index = Index(":memory:", BinaryCode())
    codes = []
    for _ in range(count):
        code = 0
        for place in rng.sample(range(256), 8):
            code |= 1 << place
        codes.append(code)
    return index, lambda: index.add_codes(range(count), codes)


def films(count: int) -> Index:
    """Two keys of so many codes each, of which every second one has a match."""
    index = Index(":memory:", BinaryCode(bits=64, max_distance=3))
    film = [rng.getrandbits(64) for _ in range(count)]
    index.add_codes(["a"] * count, film, part=range(count))
    other = [code ^ 1 if number % 2 else rng.getrandbits(64) for number, code in enumerate(film)]
    index.add_codes(["b"] * count, other, part=range(count))
    return index


def pairs_of_films(count: int) -> tuple[Index, Callable[[], Any]]:
    index = films(count)
    return index, lambda: list(index.pairs())


def explained_films(count: int) -> tuple[Index, Callable[[], Any]]:
    index = films(count)
    return index, lambda: index.explain_match("a", "b")


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
    "pairs() of that star": (pairs_of_star, 1000),
    "add_many of that star": (load_of_star, 1000),
    "clusters() while that text has expired": (expired_star, 1000),
    "replace equal copies in another order": (copies, 2000),
    "delete in the middle of a chain": (chain, 1000),
    "check() of near-copies": (near_copies, 4000),
    "add_codes of codes that are all near each other": (near_codes, 2000),
    "add_many of edits that match nothing, BottomK(measure='estimate')": (estimates, 1000),
    "pairs() of two keys of n codes": (pairs_of_films, 4000),
    "explain_match() of the two": (explained_films, 4000),
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
