"""The pictures of thresholds.md."""

from __future__ import annotations

import math

from drawing import Picture, chart, dots, grid, legend
from sample import hashes, measured

from neardup_db import TextRules
from neardup_db.compute import jaccard
from neardup_db.demo import documents
from neardup_db.show.charts import BLUE, ORANGE, Scale

DASHED = 'stroke-dasharray="7 4"'
LENGTHS = (6, 8, 10, 13, 16, 20, 25, 30, 40, 50, 60, 70, 80, 90, 100)
"""Words of the texts in which one word is changed."""


def pictures() -> list[Picture]:
    return [changed_word(), estimate()]


def after_a_change(text_words: list[str], rules: TextRules) -> float:
    """Similarity of a text and the same with the word in its middle replaced."""
    middle = len(text_words) // 2
    changed = [*text_words[:middle], "zebra", *text_words[middle + 1 :]]
    return jaccard(hashes(" ".join(text_words), rules), hashes(" ".join(changed), rules))


def changed_word() -> Picture:
    """The mean of the first words of the sample's chapters, beside the formula."""
    scale = Scale(0, 100, 1, whole=False)
    parts = grid(scale, (0, 20, 40, 60, 80, 100))
    beginnings = [text.split()[: max(LENGTHS)] for _, text in documents()[::11]]
    ways = (
        ("words of 1", BLUE, DASHED, TextRules.words(shingle=1), 1),
        ("words of 3", BLUE, "", TextRules.words(shingle=3), 3),
        ("words of 5", ORANGE, "", TextRules.words(shingle=5), 5),
        ("characters of 3", ORANGE, DASHED, TextRules.chars(shingle=3), 0),
    )
    for _, colour, extra, rules, size in ways:
        means = []
        for length in LENGTHS:
            values = [after_a_change(start[:length], rules) for start in beginnings]
            means.append((length, sum(values) / len(values)))
        parts.append(dots(((scale.x(length), scale.y(value)) for length, value in means), colour, 7))
        if size:
            points = [(n, max(0.0, (n - 2 * size + 1) / (n + 1))) for n in range(2 * size, 101)]
            parts.append(scale.line(points, colour, extra))
        else:
            parts.append(scale.line(means, colour, extra))
    parts.append(legend((way[:3] for way in ways), right=240, down=80))
    text = (
        "Similarity of a text and its copy with one word in the middle changed, by the words of the text: the fewer words, and "
        "the longer the shingles, the lower."
    )
    return chart("changed_word", text, parts, "words in the text", "similarity")


def deviation(similarity: float) -> float:
    """Of the share of 128 slots that are equal."""
    return math.sqrt(similarity * (1 - similarity) / 128)


def estimate() -> Picture:
    """Share of equal slots by true similarity, with two standard deviations of the theory."""
    scale = Scale(0.3, 1.0, 1, whole=False)
    parts = grid(scale, (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1))
    parts.append(dots(((scale.x(pair.jaccard), scale.y(pair.equal_slots)) for pair in measured()), BLUE, 4))
    places = [0.3 + 0.7 * step / 100 for step in range(101)]
    for deviations in (-2, 2):
        points = [(place, min(1.0, place + deviations * deviation(place))) for place in places]
        parts.append(scale.line(points, ORANGE, DASHED))
    parts.append(scale.upright(0.8, "threshold 0.8"))
    parts.append(scale.level(0.8, "0.8"))
    parts.append(legend([("two standard deviations", ORANGE, DASHED)], right=60, down=138))
    inside = sum(abs(pair.equal_slots - pair.jaccard) <= 2 * deviation(pair.jaccard) for pair in measured()) / len(measured())
    text = (
        f"Share of equal slots by true similarity for {len(measured())} pairs; {inside:.0%} are within two standard deviations."
    )
    return chart("estimate", text, parts, "Jaccard similarity of the pair", "share of equal slots")
