"""Which text rules find near-duplicates among short texts, and which find too much.

    python benchmarks/short_texts.py

`short_texts.txt` has posts, product titles, headlines and names, with variants that say the same and variants that do not. Of
every pair of texts of a set the Jaccard similarity of their shingles is computed exactly: the figures are those of the rules and
the threshold alone. Recall: of the pairs that say the same, the share whose similarity reaches the threshold. Precision: of the
pairs that reach it, the share that says the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np

from neardup_db import TextRules, compute

RULES = {
    "words, 3": TextRules.words(),
    "words, 2": TextRules.words(shingle=2),
    "words, 1": TextRules.words(shingle=1),
    "chars, 5": TextRules.chars(),
    "chars, 4": TextRules.chars(shingle=4),
    "chars, 3": TextRules.chars(shingle=3),
}
THRESHOLDS = (0.5, 0.6, 0.7, 0.8)


class Text(NamedTuple):
    """A text, and the number of what it says: equal where two texts say the same."""

    text: str
    says: int


def sets() -> dict[str, list[Text]]:
    """The texts of each set."""
    found: dict[str, list[Text]] = {}
    says = base = 0
    for line in Path(__file__).with_suffix(".txt").read_text("utf-8").splitlines():
        if line.startswith("["):
            texts = found[line[1:-1]] = []
        elif line.startswith("= "):
            texts.append(Text(line[2:], base))
        elif line and not line.startswith("#"):
            says += 1
            if not line.startswith("! "):
                base = says
            texts.append(Text(line.removeprefix("! "), says))
    return found


def measured(texts: list[Text], rules: TextRules) -> Iterator[str]:
    """'recall / precision' in per cent at each threshold."""
    hashes = [np.unique(compute.shingle_hashes(one.text, rules)) for one in texts]
    pairs = list(combinations(range(len(texts)), 2))
    similarity = np.array([compute.jaccard(hashes[a], hashes[b]) for a, b in pairs])
    same = np.array([texts[a].says == texts[b].says for a, b in pairs])
    for threshold in THRESHOLDS:
        found = similarity >= threshold
        right = int((found & same).sum())
        precision = f"{right / found.sum():.0%}" if found.any() else "-"
        yield f"{right / same.sum():.0%} / {precision}"


EXAMPLES = {
    "cancelled -> canceled": ("the last ferry to the islands is {} because of the strong wind", "cancelled", "canceled"),
    "another price": ("new wireless mouse in graphite grey for only {} euros with free shipping", "89", "74"),
}
"""One word of 13 is another one."""


def main() -> None:
    """Print the tables."""
    print("| set | rules | " + " | ".join(f"{threshold}" for threshold in THRESHOLDS) + " |")
    print("|---|---|" + "---|" * len(THRESHOLDS))
    for name, texts in sets().items():
        for rules_name, rules in RULES.items():
            print(f"| {name} | {rules_name} | " + " | ".join(measured(texts, rules)) + " |")
    for name, texts in sets().items():
        words = np.mean([len(compute.shingles(one.text, RULES["words, 1"])) for one in texts])
        pairs = sum(a.says == b.says for a, b in combinations(texts, 2))
        print(f"{name}: {len(texts)} texts of {words:.0f} words, {pairs} pairs that say the same")
    for name, (text, *words) in EXAMPLES.items():
        print(f"{name}: " + ", ".join(f"{rules} {similarity(text, words, RULES[rules]):.2f}" for rules in RULES))


def similarity(text: str, words: list[str], rules: TextRules) -> float:
    """Of a text with one word and with another."""
    a, b = (np.unique(compute.shingle_hashes(text.format(word), rules)) for word in words)
    return compute.jaccard(a, b)



if __name__ == "__main__":
    main()
