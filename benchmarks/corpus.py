"""A synthetic corpus with planted near-duplicates, for speed and scale only: made-up words say nothing about real text.

    python benchmarks/corpus.py --documents 100000 --out corpus.jsonl

Texts have a log-normal number of words (median 420, so about 2.5 KB), drawn from a Zipf distribution over made-up words, in
sentences. One document in ten is an edited copy of an earlier one: a share of its words, between 0 and 30 %, was replaced by
others. The same options give the same bytes.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

EDITS = (0.0, 0.005, 0.01, 0.02, 0.03, 0.04, 0.06, 0.1, 0.2, 0.3)
POOL = 5000  # earlier documents that copies are made of
MEDIAN_WORDS, SIGMA, LONGEST = 420, 0.6, 20_000
VOCABULARY, ZIPF = 120_000, 1.05
SENTENCE = 14  # words, on average


def vocabulary(size: int) -> list[str]:
    """Made-up words, the first ones shortest."""
    syllables = [a + b for a in ("b", "d", "f", "g", "k", "l", "m", "n", "p", "r", "s", "t", "v", "st", "tr") for b in "aeiou"]
    words: list[str] = []
    for count in itertools.count(1):
        for parts in itertools.product(syllables, repeat=count):
            words.append("".join(parts))
            if len(words) == size:
                return words
    raise AssertionError


def documents(count: int, seed: int = 1) -> Iterator[tuple[str, str]]:
    """(id, text) of `count` documents."""
    random = np.random.default_rng(seed)
    words = vocabulary(VOCABULARY)
    weights = 1 / (np.arange(VOCABULARY) + 2.0) ** ZIPF
    steps = np.cumsum(weights / weights.sum())
    pool: list[np.ndarray] = []
    for number in range(count):
        if pool and random.random() < 0.1:
            body = pool[random.integers(len(pool))].copy()
            changed = random.random(len(body)) < EDITS[random.integers(len(EDITS))]
            body[changed] = _draw(random, steps, int(changed.sum()))
        else:
            length = int(min(LONGEST, max(3, random.lognormal(np.log(MEDIAN_WORDS), SIGMA))))
            body = _draw(random, steps, length)
            pool.append(body)
            if len(pool) > POOL:
                pool[random.integers(POOL)] = pool.pop()
        yield f"d{number}", _text(random, [words[i] for i in body.tolist()])


def _draw(random: np.random.Generator, steps: np.ndarray, count: int) -> np.ndarray:
    return np.minimum(np.searchsorted(steps, random.random(count)), len(steps) - 1)


def _text(random: np.random.Generator, words: list[str]) -> str:
    sentences = []
    start = 0
    for length in random.poisson(SENTENCE, len(words) // 4 + 1).tolist():
        if start >= len(words):
            break
        sentences.append(" ".join(words[start : start + length + 1]).capitalize() + ".")
        start += length + 1
    return " ".join(sentences)


def write(path: Path, count: int, seed: int = 1) -> None:
    """The corpus as JSON lines."""
    with path.open("w", encoding="utf-8") as file:
        for key, text in documents(count, seed):
            file.write(json.dumps({"id": key, "text": text}) + "\n")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    write(options.out, options.documents, options.seed)


if __name__ == "__main__":
    main()
