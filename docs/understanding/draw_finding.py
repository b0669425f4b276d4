"""The pictures of finding.md: from a text to its matches, and bands that meet."""

from __future__ import annotations

import numpy as np
from drawing import NARROW, Picture, box, cross, down, words
from sample import CHANGED, COPY, STORY

from neardup_db import Index, MinHash
from neardup_db.compute import band_buckets, shingle_hashes, shingles

SCHEME = MinHash(threshold=0.8)


def pictures() -> list[Picture]:
    return [pipeline(), bands()]


def pipeline() -> Picture:
    """Every step of one query, with its real values."""
    signature = SCHEME.fingerprint(COPY)
    buckets = band_buckets(signature.reshape(1, -1), SCHEME.bands, SCHEME.rows)[0]
    with Index(":memory:", SCHEME) as index:
        index.add("a1", STORY)
        explained, matches = index.explain(COPY), index.query(COPY)
    assert explained.candidates == len(matches) == 1
    equal = round(matches[0].similarity * SCHEME.num_perm)
    steps = [
        ("text", f"“{COPY[:32]}…"),
        ("tokens", f"{' · '.join(COPY.lower().split()[:5])} · …"),
        ("shingles", f"{' | '.join(shingles(COPY)[:2])} | …"),
        ("hashes", f"{' '.join(f'{hashed >> 40:06x}…' for hashed in shingle_hashes(COPY)[:4].tolist())} …"),
        ("fingerprint", f"{' '.join(map(str, signature[:4]))} … 128 slots"),
        ("buckets", f"{' '.join(str(bucket) for bucket in buckets[:2])} … {len(buckets)}"),
        ("candidates", f"a1, which shares {buckets_shared(STORY, COPY)} of {SCHEME.bands} buckets"),
        ("verification", f"{equal} of 128 slots equal: {matches[0].similarity:.2f} ≥ 0.8"),
        ("cluster", "a1 and the new document"),
    ]
    parts, y = [], 12.0
    for place, (name, content) in enumerate(steps):
        if place == 6:
            parts.append(words(NARROW / 2, y + 8, "until here the text alone; from here on the index", "middle", "small quiet"))
            y += 20
        parts += [box(12, y, NARROW - 24, 34), words(22, y + 22, name, kind="strong")]
        parts.append(words(126, y + 22, content, kind="small" if place in (0, 1, 2, 6, 7, 8) else "mono small"))
        y += 34
        if place + 1 < len(steps):
            parts.append(down(NARROW / 2, y + 1))
            y += 18
    text = (
        "A text becomes tokens, shingles, hashes, a fingerprint and buckets; the index gives candidates, verifies them and joins "
        "clusters."
    )
    return Picture("pipeline", text, parts, y + 12)


def buckets_shared(a: str, b: str) -> int:
    """How many bands of two texts have one bucket."""
    one, other = band_buckets(SCHEME.fingerprints([a, b]), SCHEME.bands, SCHEME.rows)
    return int(np.count_nonzero(one == other))


def bands() -> Picture:
    """Equal slots of the story's signature and of two others, band by band."""
    parts: list[str] = []
    y = 26.0
    for name, text in (("with two words more", COPY), ("with one word replaced", CHANGED)):
        parts += _grid(y, name, text)
        y += 168
    parts += [box(24, y - 12, 14, 14, "hit"), words(44, y, "slot equal in both"), cross(206, y - 5, 5)]
    parts.append(words(218, y, "differs"))
    text = (
        f"Of the 12 bands of 5 slots, {buckets_shared(STORY, COPY)} are equal in the story and its longer copy, and "
        f"{buckets_shared(STORY, CHANGED)} in the story and the one with a replaced word."
    )
    return Picture("bands", text, parts, y + 14)


def _grid(y: float, name: str, text: str) -> list[str]:
    slots, others = SCHEME.fingerprints([STORY, text])
    equal = (slots == others)[: SCHEME.bands * SCHEME.rows].reshape(SCHEME.bands, SCHEME.rows)
    share = float(np.mean(slots == others))
    parts = [words(24, y, name, kind="strong"), words(NARROW - 24, y, f"{share:.2f} of 128 slots equal", "end")]
    for band in range(SCHEME.bands):
        x = 24 + band * 31.5
        for row in range(SCHEME.rows):
            top = y + 12 + row * 20
            parts.append(box(x, top, 24, 16, "hit" if equal[band, row] else "card", 2))
            if not equal[band, row]:
                parts.append(cross(x + 12, top + 8, 5))
        if equal[band].all():
            parts.append(f'<rect class="found" x="{x - 3:.1f}" y="{y + 8:.1f}" width="30" height="104" rx="4"/>')
    meeting = int(equal.all(axis=1).sum())
    parts.append(words(24, y + 131, f"{meeting} of {SCHEME.bands} bands meet (framed)", kind="small"))
    return parts
