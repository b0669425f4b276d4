"""The pictures of schemes.md."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from drawing import NARROW, Picture, box, chart, circle, cross, curve, dots, grid, legend, line, words
from sample import CHANGED, STORY, Measured, hashes, measured

from neardup_db import BitSampling, BottomK, MinHash, SimHash, TextRules, compute
from neardup_db.compute import block_tables, bottom_k, candidate_probability, hamming_distance, shingle_hashes, shingles
from neardup_db.demo import documents
from neardup_db.schemes.base import Scheme
from neardup_db.schemes.plans import block_bounds
from neardup_db.show import charts
from neardup_db.show.charts import BLUE, ORANGE, Scale
from neardup_db.show.theory import binomial, chances_of

DASHED = 'stroke-dasharray="7 4"'
Ways = Sequence[tuple[str, str, str, Callable[[float], float]]]
"""Name, colour, dashes, and the chance at a similarity."""


def pictures() -> list[Picture]:
    return [
        s_curve(), rows(), exact(), bottomk(), containment(), one_bit(), chunks(), simhash_code(), simhash(), blocks(),
    ]  # fmt: skip


def chances(scheme: Scheme) -> Callable[[float], tuple[float, float]]:
    return chances_of(scheme.for_index(TextRules()).settings())


def returned(scheme: Scheme) -> Callable[[float], float]:
    chance = chances(scheme)
    return lambda similarity: chance(similarity)[1]


# ---- MinHash -------------------------------------------------------------------------------------------------------------


def s_curve() -> Picture:
    """What `neardup curve` prints for MinHash(), drawn."""
    scheme = MinHash(threshold=0.8)
    chance = chances(scheme)
    points = [(step / 200, *chance(step / 200)) for step in range(201)]
    drawn = charts.curve(points, 0.8, scheme.recall)
    return curve("s_curve", f"MinHash(threshold=0.8): candidates and returned pairs. {drawn.sentence}", drawn)


def rows() -> Picture:
    """128 slots cut into bands in four ways."""
    scale = Scale(0.0, 1.0, 1, whole=False)
    parts = grid(scale, (0, 0.2, 0.4, 0.6, 0.8, 1), percent=True)
    for bands, height, colour, extra in ((64, 2, BLUE, ""), (32, 4, ORANGE, DASHED), (16, 8, BLUE, DASHED), (8, 16, ORANGE, "")):
        places = [step / 200 for step in range(201)]
        parts.append(scale.line(list(zip(places, candidate_probability(places, bands, height), strict=True)), colour, extra))
        half = (1 - 0.5 ** (1 / bands)) ** (1 / height)
        parts.append(words(scale.x(half) + 6, scale.y(0.5) + 26, f"{bands}×{height}"))
    text = (
        "Share of pairs that become candidates with 64 bands of 2, 32 of 4, 16 of 8 and 8 of 16 slots: the more rows, the "
        "further right."
    )
    return chart("rows", text, parts, "Jaccard similarity of the pair", "share of pairs")


def exact() -> Picture:
    """Four schemes of one threshold."""
    scale = Scale(0.6, 1.0, 1, whole=False)
    ways: Ways = (
        ("MinHash(exact=True)", BLUE, "", returned(MinHash(exact=True))),
        ("MinHash()", BLUE, DASHED, returned(MinHash())),
        ("BottomK", ORANGE, DASHED, returned(BottomK(threshold=0.8))),
        ("BitSampling", ORANGE, "", returned(BitSampling())),
    )
    parts = grid(scale, (0.6, 0.7, 0.8, 0.9, 1), percent=True)
    for _, colour, extra, chance in ways:
        places = [0.6 + 0.4 * step / 400 for step in range(401)]
        parts.append(scale.line([(place, chance(place)) for place in places], colour, extra))
    parts.append(legend((way[:3] for way in ways), right=210, down=78))
    text = (
        "Share of pairs returned at threshold 0.8: a step with exact=True, a slope on both sides of it with MinHash() and "
        "BottomK, and with BitSampling much below it too."
    )
    return chart("exact", text, parts, "Jaccard similarity of the pair", "share of pairs")


# ---- bottom-k ------------------------------------------------------------------------------------------------------------


Ranks = dict[int, float]
"""Where a hash stands in a drawing: they are drawn in their order, at equal distances."""


def _ranks(*sets: np.ndarray) -> Ranks:
    every = np.unique(np.concatenate(sets)).tolist()
    return {value: 24 + place * (NARROW - 48) / (len(every) - 1) for place, value in enumerate(every)}


def _marks(y: float, at: Ranks, values: np.ndarray, kept: Sequence[int], filed: Sequence[int], common: set[int]) -> list[str]:
    """Hashes on a line: kept ones as circles, filed ones in a ring, those of both texts filled."""
    parts = [line(14, y, NARROW - 14, y)]
    for value in values.tolist():
        x = at[value]
        if value not in kept:
            parts.append(line(x, y - 4, x, y + 4))
            continue
        parts.append(circle(x, y, 5, "hit") if value in common else cross(x, y, 4))
        if value in filed:
            parts.append(circle(x, y, 8.5, "found"))
    return parts


def bottomk() -> Picture:
    """The eight smallest hashes of two texts, and those that are filed."""
    scheme = BottomK(k=8, threshold=0.6)
    sets = [hashes(STORY), hashes(CHANGED)]
    kept = [bottom_k(values, scheme.k).tolist() for values in sets]
    common, either = set(kept[0]) & set(kept[1]), set(kept[0]) | set(kept[1])
    prefix = scheme.k + 1 - next(count for count in range(scheme.k + 1) if count / scheme.k >= scheme.threshold)
    parts, at = [], _ranks(*sets)
    for y, name, values, chosen in ((50, "the story", sets[0], kept[0]), (118, "with one word replaced", sets[1], kept[1])):
        parts.append(words(14, y - 22, f"{name}: {len(values)} hashes", kind="strong"))
        parts += _marks(y, at, values, chosen, chosen[:prefix], common)
    parts += [words(14, 148, "← smaller", kind="small quiet"), words(NARROW - 14, 148, "larger →", "end", "small quiet")]
    parts += [circle(24, 174, 5, "hit"), words(38, 179, "kept, in both"), cross(164, 174, 4), words(178, 179, "kept, in one")]
    parts += [circle(290, 174, 8.5, "found"), words(304, 179, f"filed: {prefix} of {scheme.k}")]
    parts += [line(24, 194, 24, 202), words(38, 203, "other hashes of the text")]
    text = (
        f"The 8 smallest hashes of the story and of the one with a replaced word: {len(common)} are in both, {len(either)} in "
        f"either. The first {prefix} of each are filed."
    )
    return Picture("bottomk", text, parts, 218)


def containment() -> Picture:
    """Which hashes of a short text the fingerprint of a longer one covers."""
    k = 24
    chapter = documents()[0][1]
    short, document = hashes(STORY), hashes(f"{chapter[:110]} {CHANGED} {chapter[110:200]}")
    kept = bottom_k(document, k)
    covered = short[short <= kept[-1]]
    common = set(short.tolist()) & set(kept.tolist())
    assert compute.containment(short, kept, k) == len(common) / len(covered)
    at = _ranks(short, document)
    parts = [box(12, 12, at[int(kept[-1])] - 2, 132, "card", 4)]
    parts.append(words(20, 32, f"the story: {len(short)} hashes", kind="strong"))
    parts += _marks(54, at, short, covered.tolist(), [], common)
    parts += [words(20, 96, f"a text with a quotation: {len(document)} hashes, {k} kept", kind="strong")]
    parts += _marks(120, at, document, kept.tolist(), [], common)
    share = f"{len(common)} / {len(covered)}"
    parts.append(words(14, 164, f"grey: covered by both. {len(covered)} of the story's hashes are in it", kind="small"))
    parts.append(words(14, 182, f"{len(common)} of these are in the other text: estimate {share}", kind="small"))
    text = (
        f"Of the {len(short)} hashes of the story, {len(covered)} lie in the range that the {k} smallest hashes of a longer text "
        f"cover; {len(common)} of these are in it."
    )
    return Picture("containment", text, parts, 196)


# ---- one-bit samples -----------------------------------------------------------------------------------------------------


def one_bit() -> Picture:
    """How many of 256 bits differ, for pairs of four similarities, and the distance that is chosen."""
    scheme = BitSampling()
    top = 0.15
    scale = Scale(0, 128, top, whole=False)
    parts = grid(scale, (0, 32, 64, 96, 128), percent=True)
    for similarity, colour, extra in ((0.9, BLUE, ""), (0.8, ORANGE, ""), (0.6, BLUE, DASHED), (0.2, ORANGE, DASHED)):
        chance = binomial(256, (1 - similarity) / 2)[:129]
        most = int(np.argmax(chance))
        parts.append(scale.line(list(enumerate(chance.tolist())), colour, extra))
        parts.append(words(scale.x(most), scale.y(float(chance[most])) - 5, f"{similarity:g}", "middle"))
    parts.append(scale.upright(scheme.max_distance, f"{scheme.max_distance} bits"))
    text = (
        f"Distribution of the distance at Jaccard similarities 0.9, 0.8, 0.6 and 0.2; 99 % of the pairs at 0.8 differ in "
        f"{scheme.max_distance} bits at most."
    )
    return chart("one_bit", text, parts, "differing bits of 256", "share of pairs")


def chunks() -> Picture:
    """A pair at the limit, cut into the chunks that BitSampling() plans."""
    scheme = BitSampling()
    number, distance = int(scheme.chunks or 0), scheme.max_distance
    texts = dict(documents())
    near = [pair for pair in measured() if pair.jaccard >= 0.7 and _bits_apart(scheme, texts, pair) <= distance]
    pair = max(near, key=lambda pair: _bits_apart(scheme, texts, pair))
    codes = [int.from_bytes(scheme.fingerprint(texts[key]).tobytes(), "big") for key in (pair.key_a, pair.key_b)]
    one, other = (compute.split_chunks(code, number, 256) for code in codes)
    apart = [hamming_distance(a, b) for a, b in zip(one, other, strict=True)]
    wide = distance % number + 1
    radius = [distance // number if chunk < wide else distance // number - 1 for chunk in range(number)]
    parts = [words(20, 26, f"{sum(apart)} of 256 bits differ, in {number} chunks:")]
    columns = 8
    for chunk in range(number):
        x, y = 20 + chunk % columns * 48, 40 + chunk // columns * 66
        found = apart[chunk] <= radius[chunk]
        parts += [box(x, y, 42, 26, "hit" if found else "card"), words(x + 21, y + 18, str(apart[chunk]), "middle")]
        parts.append(words(x + 21, y + 42, f"≤ {radius[chunk]}" if radius[chunk] >= 0 else "not", "middle", "small quiet"))
        if found:
            parts.append(box(x - 3, y - 3, 48, 32, "found"))
    y = 40 + -(-number // columns) * 66
    hits = sum(a <= r for a, r in zip(apart, radius, strict=True))
    parts.append(words(20, y + 10, "number: bits that differ in the chunk", kind="small"))
    parts.append(words(20, y + 28, "≤: radius within which the chunk's table is asked", kind="small"))
    parts.append(words(20, y + 46, f"framed: the {hits} chunks in which the two meet", kind="small"))
    text = (
        f"A pair of one-bit samples with {sum(apart)} differing bits in {number} chunks; in {hits} chunks few enough differ for "
        "the two to meet."
    )
    return Picture("chunks", text, parts, y + 60)


def _bits_apart(scheme: BitSampling, texts: dict[str, str], pair: Measured) -> int:
    return hamming_distance(scheme.fingerprint(texts[pair.key_a]), scheme.fingerprint(texts[pair.key_b]))


# ---- SimHash -------------------------------------------------------------------------------------------------------------


def simhash_code() -> Picture:
    """Twelve bits of a code from the hashes of five shingles."""
    text, shown, left, wide = "the ferry to the northern islands was", 12, 148, 21.5
    rows_of_bits = [[hashed >> 63 - bit & 1 for bit in range(shown)] for hashed in shingle_hashes(text).tolist()]
    parts = []
    for row, (shingle, bits) in enumerate(zip(shingles(text), rows_of_bits, strict=True)):
        y = 30 + row * 24
        parts.append(words(14, y, shingle, kind="small"))
        parts += [words(left + bit * wide, y, "+" if value else "−", "middle", "mono") for bit, value in enumerate(bits)]
    sums = [sum(1 if bits[bit] else -1 for bits in rows_of_bits) for bit in range(shown)]
    code = SimHash().fingerprint(text)
    y = 30 + len(rows_of_bits) * 24
    parts += [line(14, y - 16, NARROW - 14, y - 16), words(14, y + 4, "sum"), words(14, y + 32, "code", kind="strong")]
    for bit, total in enumerate(sums):
        x = left + bit * wide
        value = int(code[bit // 8]) >> 7 - bit % 8 & 1
        assert value == (total > 0)
        parts.append(words(x, y + 4, f"{total}".replace("-", "−"), "middle", "small"))
        parts.append(box(x - 9, y + 16, 18, 22, "hit" if value else "card", 2))
        parts.append(words(x, y + 32, str(value), "middle", "mono"))
    parts.append(words(left + shown * wide - 4, y + 32, "…"))
    described = "Each bit of a SimHash code is the sign of a sum: of +1 or −1 from that bit of every shingle's hash."
    return Picture("simhash_code", described, parts, y + 52)


def simhash() -> Picture:
    """Distance by similarity for the pairs of the sample, beside the theory."""
    scale = Scale(0.3, 1.0, 32, whole=True)
    parts = grid(scale, (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1))
    parts.append(dots(((scale.x(pair.jaccard), scale.y(min(pair.distance, 32))) for pair in measured()), BLUE, 4))
    places = [0.3 + 0.7 * step / 100 for step in range(101)]
    theory = [(place, 64 * float(np.arccos(min(1.0, 2 * place / (1 + place)))) / float(np.pi)) for place in places]
    parts.append(scale.line(theory, ORANGE, ""))
    parts += [line(scale.x(0.3), scale.y(3), scale.x(1.0), scale.y(3), "lost"), words(scale.x(0.31), scale.y(3) - 5, "3 bits")]
    parts.append(words(scale.x(1.0), scale.y(35), "dots: pairs of the sample", "end"))
    parts.append(words(scale.x(1.0), scale.y(31), "line: theory", "end"))
    near = sum(0.9 <= pair.jaccard < 0.95 for pair in measured())
    within = sum(0.9 <= pair.jaccard < 0.95 and pair.distance <= 3 for pair in measured())
    text = f"Differing bits of 64 by Jaccard similarity. Of {near} pairs from 0.9 to 0.95, {within} are within 3 bits."
    return chart("simhash", text, parts, "Jaccard similarity of the pair", "differing bits of 64")


def _wrong_blocks(scheme: SimHash, pair: Measured) -> set[int]:
    """The blocks in which two codes differ, where they are just within the distance."""
    if pair.distance != scheme.max_distance:
        return set()
    texts, bounds = dict(documents()), block_bounds(64, int(scheme.blocks or 0))
    differing = np.unpackbits(scheme.fingerprint(texts[pair.key_a]) ^ scheme.fingerprint(texts[pair.key_b]))
    places = [63 - int(place) for place in np.flatnonzero(differing)]  # bit 0 is the least significant
    return {bisect(bounds, place) - 1 for place in places}


def blocks() -> Picture:
    """The permuted tables of five blocks, and a pair at distance 3."""
    scheme = SimHash(64, blocks=5)
    number, distance = int(scheme.blocks or 0), scheme.max_distance
    wrong = next(wrong for wrong in map(partial(_wrong_blocks, scheme), measured()) if len(wrong) == distance)
    tables = block_tables(64, number, distance)
    wide, left = (NARROW - 130) / number, 20
    parts = []
    for row, table in enumerate(tables):
        y = 44 + row * 26
        leading = table.order[: number - distance]
        for place, block in enumerate(table.order):
            kind = "hit" if place < len(leading) and not wrong & set(leading) else "card"
            x = left + place * wide + (8 if place >= len(leading) else 0)
            parts += [box(x, y, wide - 4, 20, kind, 2), words(x + wide / 2 - 10, y + 15, str(block), "middle", "small")]
            if block in wrong:
                parts.append(cross(x + wide / 2 + 8, y + 10, 4))
        if not wrong & set(leading):
            parts.append(box(left - 4, y - 3, wide * len(leading) + 4, 26, "found"))
            parts.append(words(NARROW - 96, y + 15, "meet here", kind="small"))
    parts.append(words(left, 20, f"{len(tables)} tables; in front, the prefix", kind="small"))
    parts.append(words(left, 35, "that two codes must share", kind="small"))
    y = 44 + len(tables) * 26
    differ = f"a block in which the two codes differ ({distance} bits in all)"
    parts += [cross(left + 6, y + 12, 4), words(left + 18, y + 16, differ, kind="small")]
    text = (
        f"A code of 64 bits in {number} blocks, {len(tables)} tables, each with another choice of {number - distance} blocks in "
        f"front. Two codes that differ in {distance} blocks meet in the table that has the other {number - distance} in front."
    )
    return Picture("blocks", text, parts, y + 30)
