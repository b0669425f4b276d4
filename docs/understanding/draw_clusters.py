"""The pictures of clusters.md."""

from __future__ import annotations

import math
from itertools import combinations

from drawing import NARROW, Picture, box, circle, line, words
from sample import hashes, measured

from neardup_db import Index, MinHash
from neardup_db.compute import jaccard
from neardup_db.demo import documents


def pictures() -> list[Picture]:
    return [cluster(), chain()]


def cluster() -> Picture:
    """The largest cluster of the sample: which of its documents match, and which do not."""
    texts = dict(documents())
    with Index(":memory:", MinHash(threshold=0.8, exact=True)) as index:
        index.add_many(texts.items())
        keys = [str(key) for key in index.clusters()[0].keys]
    known = {frozenset((pair.key_a, pair.key_b)): pair.jaccard for pair in measured()}
    middle_x, middle_y, far = NARROW / 2, 158.0, 108.0
    places = {}
    for place, key in enumerate(keys):
        angle = 2 * math.pi * place / len(keys) - math.pi / 2
        places[key] = (middle_x + far * 1.15 * math.cos(angle), middle_y + far * math.sin(angle))
    parts, below = [], []
    for a, b in combinations(keys, 2):
        similarity = known.get(frozenset((a, b)), 0.0)
        parts.append(line(*places[a], *places[b], "found" if similarity >= 0.8 else "lost"))
        x, y = ((places[a][side] + places[b][side]) / 2 for side in (0, 1))
        parts.append(box(x - 21, y - 10, 42, 18, "paper", 3))
        parts.append(words(x, y + 4, f"{similarity:.3f}", "middle", "small"))
        below.append(similarity < 0.8)
    for place, (key, (x, y)) in enumerate(places.items()):
        name = key.rpartition("(")[2].rstrip(")")
        parts += [box(x - 46, y - 14, 92, 28, "card", 14), words(x, y + 5, name, "middle", "" if place else "strong")]
    y = middle_y + far + 44
    text = (
        f"The translations of {keys[0]} in one cluster: {len(below) - sum(below)} pairs match, {sum(below)} do "
        "not, all are connected."
    )
    parts += meaning(y)
    return Picture("cluster", text, parts, y + 20)


def meaning(y: float) -> list[str]:
    """What the two kinds of lines are."""
    match = [line(20, y, 50, y, "found"), words(58, y + 5, "a match: 0.8 or more")]
    return [*match, line(232, y, 262, y, "lost"), words(270, y + 5, "less")]


STEPS = ("a", "b", "c", "d")


def step_texts() -> list[str]:
    """Four versions of a text of 50 words, each with one word more replaced than the one before."""
    start = [f"word{number}" for number in range(50)]
    versions = []
    for step in range(len(STEPS)):
        version = list(start)
        for change in range(step):
            version[10 + 12 * change] = f"new{change}"
        versions.append(" ".join(version))
    return versions


def chain() -> Picture:
    """A chain of versions: neighbours match, the ends do not."""
    sets = [hashes(text) for text in step_texts()]
    parts, y, step = [], 118.0, (NARROW - 100) / (len(STEPS) - 1)
    xs = [50 + step * place for place in range(len(STEPS))]
    for a, b in combinations(range(len(STEPS)), 2):
        similarity = jaccard(sets[a], sets[b])
        kind = "found" if similarity >= 0.8 else "lost"
        x = (xs[a] + xs[b]) / 2
        if b == a + 1:
            parts.append(line(xs[a], y, xs[b], y, kind))
            at = y
        else:
            high = 64 if b - a == 3 else 38
            up = -1 if (b - a == 3 or a == 0) else 1
            parts.append(f'<path class="{kind}" d="M{xs[a]:.1f} {y:.1f}Q{x:.1f} {y + up * 2 * high:.1f} {xs[b]:.1f} {y:.1f}"/>')
            at = y + up * high
        parts += [box(x - 17, at - 10, 34, 18, "paper", 3), words(x, at + 4, f"{similarity:.2f}", "middle", "small")]
    for place, (x, name) in enumerate(zip(xs, STEPS, strict=True)):
        parts += [circle(x, y, 18, "card"), words(x, y + 5, name, "middle", "" if place else "strong")]
    parts += meaning(196)
    ends = jaccard(sets[0], sets[-1])
    text = f"Versions a, b, c, d: each matches the next, a and d have a similarity of {ends:.2f} only, and all are one cluster."
    return Picture("chain", text, parts, 216)
