"""How similar a text stays when some of its words are changed, and which threshold finds it.

    python benchmarks/changed_words.py --data DIR [DIR ...]

Each DIR holds docs.jsonl.gz (`id`, `text`) and clusters.csv.gz (`cluster`, `id`: what is one document). The texts are cut to
their first 50, 200 and 1,000 words; shorter ones are left out of that length. Of each text (300 at most a set) a copy is made
in which a share of the words, at random places, is replaced by words of other texts. Similarity is the exact Jaccard
similarity under the default rules, shingles of three words. `recall` is the share of the copies that reach a threshold.

The second table is the price: of all the texts, cut to 200 words and equal ones once, how many go under each threshold
(direct: a row stays unless it matches a row that stays), and of how many of these the row that stays is another document by
the labels.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from measure import read_jsonl
from planted import direct

from neardup_db import TextRules
from neardup_db.compute import jaccard, jaccard_pairs, shingle_hashes

LENGTHS, SHARES, THRESHOLDS, MOST = (50, 200, 1000), (0.01, 0.02, 0.03, 0.05, 0.10), (0.8, 0.7, 0.6, 0.5), 300


def changed(words: Sequence[str], share: float, others: Sequence[str], rng: random.Random) -> list[str]:
    """A share of the words replaced, one at least."""
    copy = list(words)
    for place in rng.sample(range(len(copy)), max(1, round(share * len(copy)))):
        copy[place] = rng.choice([word for word in rng.sample(others, 3) if word != copy[place]] or [copy[place] + "x"])
    return copy


def hashes(text: str) -> np.ndarray:
    """Its set of shingle hashes."""
    return np.unique(shingle_hashes(text, TextRules()))


def similarities(texts: Sequence[str], length: int, share: float, seed: int = 1) -> list[float]:
    """Of texts cut to a length and their changed copies."""
    rng = random.Random(seed)
    cut = [words[:length] for words in map(str.split, texts) if len(words) >= length]
    cut = rng.sample(cut, min(MOST, len(cut)))
    others = [word for words in cut for word in words[:20]]
    return [jaccard(hashes(" ".join(words)), hashes(" ".join(changed(words, share, others, rng)))) for words in cut]


def prices(texts: dict[str, str], labels: dict[str, str], length: int = 200) -> list[tuple[float, int, int]]:
    """(threshold, rows that go, rows for which another document stays)."""
    cut = {" ".join(text.split()[:length]): key for key, text in sorted(texts.items(), reverse=True)}
    rows = sorted(cut.items(), key=lambda row: row[1])
    random.Random(1).shuffle(rows)
    ids, found = jaccard_pairs([hashes(text) for text, _ in rows], min(THRESHOLDS))
    result = []
    for threshold in THRESHOLDS:
        gone = direct(len(rows), ids[found >= threshold], found[found >= threshold])
        other = sum(labels.get(rows[one.row][1]) != labels.get(rows[one.stays][1]) for one in gone)
        result.append((threshold, len(gone), other))
    return result


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", type=Path, required=True)
    options = parser.parse_args()
    sets = {folder.name: dict(read_jsonl(folder / "docs.jsonl.gz")) for folder in options.data}
    recalls = " | ".join(f"recall at {one}" for one in THRESHOLDS)
    print(f"| words | changed | texts | similarity, median (one in ten below) | {recalls} |")
    print("|---" * (4 + len(THRESHOLDS)) + "|")
    for length in LENGTHS:
        for share in SHARES:
            found = sorted(one for texts in sets.values() for one in similarities(list(texts.values()), length, share))
            recall = " | ".join(f"{sum(one >= threshold for one in found) / len(found):.0%}" for threshold in THRESHOLDS)
            middle, low = found[len(found) // 2], found[len(found) // 10]
            print(f"| {length} | {share:.0%} | {len(found)} | {middle:.2f} ({low:.2f}) | {recall} |")
    print("\n| set | texts | threshold | rows that go | another document stays |\n|---|---|---|---|---|")
    for folder, (name, texts) in zip(options.data, sets.items(), strict=True):
        with gzip.open(folder / "clusters.csv.gz", "rt", encoding="utf-8") as file:
            labels = {row["id"]: row["cluster"] for row in csv.DictReader(file)}
        for threshold, gone, other in prices(texts, labels):
            print(f"| {name} | {len(texts):,} | {threshold} | {gone:,} | {other:,} |")


if __name__ == "__main__":
    main()
