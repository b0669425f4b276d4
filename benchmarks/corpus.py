"""A synthetic corpus with planted near-duplicates, for speed and scale only: made-up words say nothing about real text.

    python benchmarks/corpus.py --documents 100000 --out corpus.jsonl [--median 420] [--seed 1]

Texts have a log-normal number of words (median 420, so about 2.5 KB), drawn from a Zipf distribution over made-up words, with
set phrases in between that unrelated texts share, in sentences; one in seven ends with one of 200 footers. One document in ten is
an edited copy of an earlier one: a share of its words, between 0 and 30 %, was replaced by others. Beside the file stands
`corpus.pairs.npz` with what was planted: every two documents of one origin and the exact Jaccard similarity of their sets of
3-word shingles. Chance and footers may make further pairs, which only brute force finds. The same options give the same bytes.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.int64]

COPIES = 0.1  # share of the documents
EDITS = (0.0, 0.005, 0.01, 0.02, 0.03, 0.04, 0.06, 0.1, 0.2, 0.3)
POOL, ENTER, MOST_COPIES = 20_000, 0.2, 5  # documents that copies are made of, the share that gets there, copies of one
MEDIAN_WORDS, SIGMA, LONGEST = 420, 0.6, 20_000
VOCABULARY, ZIPF = 120_000, 1.05
SENTENCE = 14  # words, on average
PHRASES, PHRASE_WORDS, PHRASED = 20_000, 6, 0.05  # set phrases, words of each, share of the words that belong to one
FOOTERS, FOOTED = 200, 0.15
BLOCK = 4096  # documents made at once
GRID = 22  # bits of the table that turns a random number into a word


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


class Language:
    """Words by number, drawn by their frequency, and written with capitals and full stops.

    A written word is number + VOCABULARY * form; form 1 has a capital, 2 a full stop, 3 both.
    """

    def __init__(self) -> None:
        words = vocabulary(VOCABULARY)
        capitals = [word.capitalize() for word in words]
        self._written = [*words, *capitals, *(word + "." for word in words), *(word + "." for word in capitals)]
        weights = 1 / (np.arange(VOCABULARY) + 2.0) ** ZIPF
        steps = np.cumsum(weights / weights.sum())
        grid = (np.arange(1 << GRID) + 0.5) / (1 << GRID)
        self._table = np.minimum(np.searchsorted(steps, grid), VOCABULARY - 1)

    def draw(self, random: np.random.Generator, count: int) -> Words:
        """`count` words."""
        return np.asarray(self._table[random.integers(0, 1 << GRID, count)], np.int64)

    def text(self, written: Words) -> str:
        """Written words as a text."""
        return " ".join(map(self._written.__getitem__, written.tolist()))

    @staticmethod
    def sentences(random: np.random.Generator, words: Words, ends: Words) -> Words:
        """Words with full stops at random, and where a text ends (`ends`: one past its last word), each followed by a capital."""
        stop = random.random(len(words)) < 1 / SENTENCE
        stop[ends - 1] = True
        capital = np.ones(len(words), bool)
        capital[1:] = stop[:-1]
        return words + VOCABULARY * (capital + 2 * stop)


def shingle_set(written: Words) -> Words:
    """The 3-word shingles of a text of at least three words, as ascending numbers."""
    words = written % VOCABULARY
    return np.unique(words[:-2] << 40 | words[1:-1] << 20 | words[2:])


def jaccard(a: Words, b: Words) -> float:
    """Of two sets as ascending numbers."""
    common = len(np.intersect1d(a, b, assume_unique=True))
    return common / (len(a) + len(b) - common)


@dataclass
class _Source:
    number: int
    written: Words
    family: list[tuple[int, Words]] = field(default_factory=list)  # itself and its copies: number, shingles


class Corpus:
    """`count` documents, the same in every iteration; `pairs` holds (earlier, later, similarity) of the copies planted so far."""

    def __init__(self, count: int, seed: int = 1, median_words: int = MEDIAN_WORDS) -> None:
        self.count = count
        self.pairs: list[tuple[int, int, float]] = []
        self._median = median_words
        self._random = np.random.default_rng([seed, median_words])
        self._language = Language()
        self._phrases = self._language.draw(self._random, PHRASES * PHRASE_WORDS).reshape(PHRASES, PHRASE_WORDS)
        self._footers = [self._footer(length) for length in self._random.integers(15, 120, FOOTERS).tolist()]
        self._pool: list[_Source] = []

    def _footer(self, length: int) -> Words:
        words = self._language.draw(self._random, length)
        return self._language.sentences(self._random, words, np.array([length]))

    def __iter__(self) -> Iterator[tuple[str, str]]:
        for start in range(0, self.count, BLOCK):
            for number, written in enumerate(self._block(min(BLOCK, self.count - start)), start):
                yield f"d{number}", self._language.text(self._copied(number) if written is None else self._kept(number, written))

    def _block(self, count: int) -> Iterator[Words | None]:
        """Written words of new documents; None where a copy is to stand."""
        random = self._random
        lengths = np.clip(random.lognormal(np.log(self._median), SIGMA, count), 3, LONGEST).astype(np.int64)
        ends = np.cumsum(lengths)
        words = self._language.draw(random, int(ends[-1]))
        starts = np.flatnonzero(random.random(len(words)) < PHRASED / PHRASE_WORDS)
        starts = starts[starts <= len(words) - PHRASE_WORDS]
        ranks = (PHRASES * random.random(len(starts)) ** 3).astype(np.int64)  # some are frequent, most are rare
        words[starts[:, None] + np.arange(PHRASE_WORDS)] = self._phrases[ranks]
        written = self._language.sentences(random, words, ends)
        copies, footed = random.random(count) < COPIES, random.random(count) < FOOTED
        footers = (FOOTERS * random.random(count) ** 2).astype(np.int64)
        for i in range(count):
            own = written[ends[i] - lengths[i] : ends[i]]
            yield None if copies[i] and self._pool else np.append(own, self._footers[footers[i]]) if footed[i] else own.copy()

    def _kept(self, number: int, written: Words) -> Words:
        """Perhaps a source of copies from now on."""
        if self._random.random() < ENTER:
            if len(self._pool) < POOL:
                self._pool.append(_Source(number, written))
            else:
                self._pool[self._random.integers(POOL)] = _Source(number, written)
        return written

    def _copied(self, number: int) -> Words:
        """An edited copy of a document of the pool."""
        place = int(self._random.integers(len(self._pool)))
        source = self._pool[place]
        written = source.written.copy()
        changed = self._random.random(len(written)) < EDITS[self._random.integers(len(EDITS))]
        form = written[changed] // VOCABULARY * VOCABULARY
        written[changed] = self._language.draw(self._random, len(form)) + form
        shingles = shingle_set(written)
        if not source.family:
            source.family.append((source.number, shingle_set(source.written)))
        self.pairs += [(other, number, jaccard(its, shingles)) for other, its in source.family]
        source.family.append((number, shingles))
        if len(source.family) > MOST_COPIES:
            self._pool[place] = self._pool[-1]
            self._pool.pop()
        return written


def documents(count: int, seed: int = 1, median_words: int = MEDIAN_WORDS) -> Iterator[tuple[str, str]]:
    """(id, text) of `count` documents."""
    return iter(Corpus(count, seed, median_words))


def write(path: Path, count: int, seed: int = 1, median_words: int = MEDIAN_WORDS) -> None:
    """The corpus as JSON lines, and the planted pairs beside it."""
    made = Corpus(count, seed, median_words)
    with path.open("w", encoding="ascii", buffering=1 << 20) as file:
        for key, text in made:
            file.write(f'{{"id": "{key}", "text": "{text}"}}\n')  # letters, blanks and full stops need no escapes
    earlier, later, similarity = zip(*made.pairs, strict=True) if made.pairs else ((), (), ())
    np.savez(
        pairs_path(path),
        earlier=np.array(earlier, np.int64),
        later=np.array(later, np.int64),
        similarity=np.array(similarity, np.float64),
    )


def pairs_path(path: Path) -> Path:
    """Where the planted pairs of a corpus are."""
    return path.with_suffix(".pairs.npz")


def planted(path: Path, count: int) -> dict[str, npt.NDArray[Any]]:
    """earlier, later: int64[n], numbers of documents; similarity: float64[n]; of pairs among the first `count` documents."""
    with np.load(pairs_path(path)) as held:
        inside = held["later"] < count
        return {name: held[name][inside] for name in ("earlier", "later", "similarity")}


def picked(path: Path, numbers: Iterable[int]) -> dict[int, str]:
    """{number: text} of some documents of the file; the other lines are not parsed."""
    wanted = set(numbers)
    last = max(wanted, default=-1)
    with path.open(encoding="utf-8") as file:
        lines = zip(range(last + 1), file, strict=False)
        return {number: json.loads(line)["text"] for number, line in lines if number in wanted}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--median", type=int, default=MEDIAN_WORDS, help="words of the median document")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    write(options.out, options.documents, options.seed, options.median)


if __name__ == "__main__":
    main()
