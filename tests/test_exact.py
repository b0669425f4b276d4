"""What the exact schemes return is what brute force returns, always; what MinHash misses is what its curve says."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from itertools import combinations
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import xxhash
from hypothesis import HealthCheck, given, settings
from packed import packed
from support import WORDS, Case, Model, case_of, estimate, jaccard, tuples
from test_scheme_core import keys

from neardup_db import BinaryCode, BitSampling, BottomK, Index, MinHash, SimHash, TextRules
from neardup_db.compute import choose_bands, minhash, shingle_hashes

MANY = settings(deadline=None, suppress_health_check=list(HealthCheck))
MD5 = TextRules.words(hash="md5")


def assert_as_brute_force(case: Case, contents: list[Any], questions: list[Any]) -> None:
    """add, add_many, query (whole, limited, any), pairs, matches and clusters, beside the model."""
    model = Model(case)
    half = len(contents) // 2
    with Index(":memory:", case.scheme, text=case.rules) as index:
        records = [{"key": key, "code" if case.codes else "text": content} for key, content in enumerate(contents)]
        for record in records[:half]:
            key, content = record["key"], contents[record["key"]]
            add = index.add_code if case.codes else index.add
            assert tuples(add(key, content)) == model.matches(content)[:10]
            model.put(key, content)
        if case.codes:
            index.add_codes(range(half, len(contents)), contents[half:])
        else:
            index.add_many(records[half:])
        for key in range(half, len(contents)):
            model.put(key, contents[key])
        query = index.query_code if case.codes else index.query
        for question in [*contents, *questions]:
            expected = model.matches(question)
            assert tuples(query(question)) == expected
            assert tuples(query(question, limit=2)) == expected[:2]
            some = tuples(query(question, limit=2, any=True))
            assert len(some) == min(2, len(expected)) and set(some) <= set(expected)
        for key, content in enumerate(contents):
            assert tuples(index.matches(key)) == model.matches(content, without=key)
        listed = [(p.key_a, p.key_b, p.similarity, p.distance) for p in index.pairs()]
        assert len(listed) == len(set(listed)) and set(listed) == model.pairs()
        assert [one.keys for one in index.clusters()] == model.clusters()


# ---- codes of bits -----------------------------------------------------------------------------------------------------


PLANS: list[tuple[str, int, Case]] = [
    # the plan that the scheme must have, how many parts its code is cut into, the case
    ("blocks", 1, case_of(SimHash(bits=64, max_distance=0), codes=True)),
    ("blocks", 2, case_of(SimHash(bits=64, max_distance=1, blocks=2), codes=True)),
    ("blocks", 4, case_of(SimHash(bits=64, max_distance=3, blocks=4), codes=True)),
    ("blocks", 5, case_of(SimHash(bits=64, max_distance=3, blocks=5), codes=True)),
    ("blocks", 7, case_of(SimHash(bits=64, max_distance=3, blocks=7), codes=True)),
    ("blocks", 10, case_of(SimHash(bits=64, max_distance=7, blocks=10), codes=True)),
    ("blocks", 3, case_of(SimHash(bits=32, max_distance=2, blocks=3), codes=True)),
    ("blocks", 6, case_of(SimHash(bits=128, max_distance=4, blocks=6), MD5, codes=True)),
    ("blocks", 8, case_of(SimHash(bits=72, max_distance=7, blocks=8), MD5, codes=True)),
    ("scan", 8, case_of(SimHash(bits=64, max_distance=20), codes=True)),
    ("blocks", 4, case_of(BinaryCode(bits=64, max_distance=3, expected=10_000_000))),
    ("chunks", 5, case_of(BinaryCode(bits=64, max_distance=10))),
    ("scan", 8, case_of(BinaryCode(bits=64, max_distance=31))),
    ("chunks", 8, case_of(BinaryCode(bits=128, max_distance=10))),
    ("blocks", 12, case_of(BinaryCode(bits=128, max_distance=10, expected=10_000_000))),
    ("chunks", 1, case_of(BinaryCode(bits=8, max_distance=1))),
    ("scan", 8, case_of(BinaryCode(bits=256, max_distance=100))),
    ("blocks", 21, case_of(BinaryCode(bits=1024, max_distance=20))),
    ("chunks", 4, case_of(BitSampling(bits=64, max_distance=4, chunks=4), codes=True)),
    ("chunks", 5, case_of(BitSampling(bits=64, max_distance=9, chunks=5), codes=True)),
    ("chunks", 8, case_of(BitSampling(bits=64, max_distance=7, chunks=8), codes=True)),
    ("chunks", 8, case_of(BitSampling(bits=64, max_distance=5, chunks=8), codes=True)),
    ("chunks", 7, case_of(BitSampling(bits=128, max_distance=20, chunks=7), codes=True)),
    ("chunks", 13, case_of(BitSampling(bits=256, threshold=0.8, recall=0.99, chunks=13), codes=True)),
    ("scan", 8, case_of(BitSampling(bits=64, threshold=0.5), codes=True)),
]
PLAN_NAMES = [f"{case.name}-{plan}" for plan, _, case in PLANS]


def flipped(draw: st.DrawFn, code: int, bits: int, parts: int, radius: int) -> int:
    """A code near another one, in one of the ways that an index may get wrong."""
    way = draw(st.sampled_from(["same", "at", "beyond", "few", "one part", "each part", "ends", "any"]))
    bounds = [i * bits // parts for i in range(parts + 1)]
    if way == "same":
        places: list[int] = []
    elif way == "one part":
        part = draw(st.integers(0, parts - 1))
        inside = list(range(bounds[part], bounds[part + 1]))
        count = min(len(inside), draw(st.integers(max(0, radius - 1), radius + 1)))
        places = draw(st.permutations(inside))[:count]
    elif way == "each part":  # as evenly as can be: each part holds as few flips as a pigeonhole allows
        count = draw(st.integers(max(0, radius - 1), radius + 1))
        first = draw(st.integers(0, parts - 1))
        places = []
        for number in range(count):
            part = (first + number) % parts
            offset = number // parts
            if offset < bounds[part + 1] - bounds[part]:
                places.append(bounds[part] + offset if draw(st.booleans()) else bounds[part + 1] - 1 - offset)
    elif way == "ends":
        places = draw(st.lists(st.sampled_from([0, 1, bits - 2, bits - 1, *bounds[1:-1]]), unique=True, max_size=radius + 1))
    else:
        count = {"at": radius, "beyond": radius + 1, "few": min(2, radius), "any": bits // 2}[way]
        places = draw(st.randoms(use_true_random=False)).sample(range(bits), min(count, bits))
    for place in set(places):
        code ^= 1 << place
    return code


@st.composite
def code_collections(draw: st.DrawFn, bits: int, parts: int, radius: int) -> tuple[list[bytes], list[bytes]]:
    """Codes to store, and codes to ask for: families around a few bases."""
    base = st.sampled_from([0, (1 << bits) - 1, int("10" * (bits // 2), 2)]) | st.integers(0, (1 << bits) - 1)
    codes = [draw(base)]
    for _ in range(draw(st.integers(0, 11))):
        source = draw(st.integers(0, len(codes)))
        codes.append(draw(base) if source == len(codes) else flipped(draw, codes[source], bits, parts, radius))
    questions = [flipped(draw, codes[draw(st.integers(0, len(codes) - 1))], bits, parts, radius) for _ in range(2)]
    return tuple([code.to_bytes(bits // 8, "big") for code in group] for group in (codes, questions))  # type: ignore[return-value]


@pytest.mark.parametrize(("plan", "parts", "case"), PLANS, ids=PLAN_NAMES)
def test_codes_by_their_tables(plan: str, parts: int, case: Case, more_rounds: bool) -> None:
    """Every plan's tables find exactly the codes within the distance, in crowded and adversarial collections."""
    assert case.scheme.plan == plan
    assert (case.scheme.blocks or case.scheme.chunks or 8) == parts

    @settings(MANY, max_examples=45 if more_rounds else 2)
    @given(code_collections(case.scheme.bits, parts, case.scheme.max_distance))
    def run(drawn: tuple[list[bytes], list[bytes]]) -> None:
        assert_as_brute_force(case, *drawn)

    run()


@pytest.mark.parametrize(("plan", "parts", "case"), PLANS, ids=PLAN_NAMES)
def test_all_places_of_one_bit(plan: str, parts: int, case: Case) -> None:
    """A code with any one bit flipped is found where the distance allows one, and is not where it allows none."""
    bits, radius = case.scheme.bits, case.scheme.max_distance
    step = max(1, bits // 128)
    codes = [(1 << place).to_bytes(bits // 8, "big") for place in range(0, bits, step)]
    with Index(":memory:", case.scheme, text=case.rules, record_matches=False) as index:
        index.add_codes(range(len(codes)), codes)
        found = index.query_code(0)
        assert [one.key for one in found] == (list(range(len(codes))) if radius else [])
        assert {one.distance for one in found} == ({1} if radius else set())
        assert {one.key for one in index.query_code(codes[3])} == (set(range(len(codes))) if radius >= 2 else {3})


# ---- bottom-k ----------------------------------------------------------------------------------------------------------

POOL = sorted((f"w{number}" for number in range(600)), key=lambda word: xxhash.xxh3_64_intdigest(word.encode()))
"""Words by their hashes: with these, sets with any overlap at any end of the order can be written as texts."""
THRESHOLDS = {0.55: (11, 20), 0.6: (3, 5), 0.7: (7, 10), 0.8: (4, 5), 0.9: (9, 10)}


def smallest(text: str, k: int) -> set[int] | None:
    """A bottom-k fingerprint by the xxhash package and Python's sort."""
    return set(sorted({xxhash.xxh3_64_intdigest(word.encode()) for word in text.split()})[:k]) or None


def bottom_case(k: int, threshold: float, measure: str) -> Case:
    """Sets compared by the textbook."""

    def compare(a: set[int], b: set[int]) -> tuple[float, None] | None:
        value = jaccard(a, b) if measure == "fingerprint" else estimate(a, b, k)
        return (value, None) if value >= threshold else None

    scheme = BottomK(k=k, threshold=threshold, measure=measure)
    return Case(repr(scheme), scheme, WORDS, lambda text: smallest(text, k), compare)


def text_of(draw: st.DrawFn, ranks: Iterable[int]) -> str:
    """Words of these ranks, in an order that says nothing."""
    words = [POOL[rank] for rank in ranks]
    draw(st.randoms(use_true_random=False)).shuffle(words)
    return " ".join(words)


@st.composite
def related_sets(draw: st.DrawFn, threshold: float) -> list[str]:
    """Pairs of sets whose Jaccard similarity is exactly the threshold, or one hash less; the common ones anywhere."""
    common, union = THRESHOLDS[threshold]
    times = draw(st.integers(1, 40 // union + 1))
    common, union = common * times, union * times
    if draw(st.booleans()):  # one short of it
        common, union = common - 1, union + 1
    only_a = draw(st.integers(0, union - common))
    ranks = {
        "first": lambda: list(range(union)),
        "last": lambda: list(range(union))[::-1],
        "mixed": lambda: draw(st.permutations(range(union))),
    }[draw(st.sampled_from(["first", "last", "mixed"]))]()
    shift = draw(st.integers(0, 3)) * 100
    shared, rest = ranks[:common], ranks[common:]
    a, b = [*shared, *rest[:only_a]], [*shared, *rest[only_a:]]
    return [text_of(draw, [rank + shift for rank in one]) for one in (a, b)]


@st.composite
def set_collections(draw: st.DrawFn, threshold: float) -> list[str]:
    """Texts of all lengths from none to forty words, some exactly at the threshold, some equal, some a part of another."""
    texts = ["", *draw(related_sets(threshold)), *draw(related_sets(threshold))]
    for _ in range(draw(st.integers(0, 6))):
        ranks = draw(st.sets(st.integers(0, 24), max_size=18))
        texts.append(text_of(draw, sorted(ranks)))
        if ranks and draw(st.booleans()):
            texts.append(text_of(draw, sorted(ranks)[draw(st.integers(0, 3)) :]))
    return texts


@pytest.mark.parametrize("measure", ["fingerprint", "estimate"])
@pytest.mark.parametrize("threshold", THRESHOLDS)
def test_bottom_k(threshold: float, measure: str, more_rounds: bool) -> None:
    """Bottom-k finds exactly the fingerprints at or above the threshold, whatever their lengths and where they overlap."""

    @settings(MANY, max_examples=90 if more_rounds else 3)
    @given(st.sampled_from([1, 4, 16, 128]), set_collections(threshold))
    def run(k: int, texts: list[str]) -> None:
        assert_as_brute_force(bottom_case(k, threshold, measure), texts, [])

    run()


@pytest.mark.parametrize("measure", ["fingerprint", "estimate"])
@pytest.mark.parametrize("threshold", THRESHOLDS)
def test_bottom_k_exactly_at_the_threshold(threshold: float, measure: str) -> None:
    """Of two sets every division of a union that meets the threshold to the last bit is found, and none with one common less."""
    numerator, denominator = THRESHOLDS[threshold]
    for times in (1, 2, 3, 5):
        common, union = numerator * times, denominator * times
        words = POOL[:union]
        rest, shared = words[: union - common], words[union - common :]  # the common ones are the largest
        with Index(":memory:", BottomK(k=union + 1, threshold=threshold, measure=measure), text=WORDS) as index:
            index.add_many({"key": n, "text": " ".join([*shared, *rest[:n]]), "group": n} for n in range(len(rest) + 1))
            for n in range(len(rest) + 1):
                assert [one.similarity for one in index.query(" ".join([*shared, *rest[n:]]), group=n)] == [threshold]
                assert index.query(" ".join([*shared[1:], *rest[n:], POOL[599]]), group=n) == []


# ---- MinHash -----------------------------------------------------------------------------------------------------------


def pair_of_sets(rng: np.random.Generator, common: int, union: int) -> tuple[np.ndarray, np.ndarray]:
    """Two random sets of hashes with exactly so much in common."""
    values = rng.integers(0, 1 << 64, union, dtype=np.uint64)
    middle = common + (union - common) // 2
    return values[:middle], np.concatenate([values[:common], values[middle:]])


def curve(similarity: float, bands: int, rows: int) -> float:
    return 1.0 - (1.0 - similarity**rows) ** bands


@pytest.mark.parametrize("percent", [50, 60, 70, 80, 90, 95])
def test_candidates_follow_the_curve(percent: int) -> None:
    """Pairs of similarity J share a bucket in 1-(1-J^r)^b of all cases, within the binomial error."""
    bands, rows = choose_bands(0.8, 128, 0.99)
    rng = np.random.default_rng(percent)
    met = total = 0
    for seed in range(1, 5):
        scheme = MinHash(threshold=0.8, recall=0.99, seed=seed)
        assert (scheme.bands, scheme.rows) == (bands, rows)
        for _ in range(250):
            a, b = (
                {*keys(scheme.native, minhash(hashes, 128, seed).astype("<u2").tobytes(), False)}
                for hashes in pair_of_sets(rng, percent, 100)
            )
            met += bool(a & b)
            total += 1
    expected = curve(percent / 100, bands, rows)
    assert binomial_tail(total, total - met, 1 - expected) > P_45_SIGMA
    assert binomial_tail(total, met, expected) > P_45_SIGMA


P_45_SIGMA = 3.4e-6
"""What a normal variable has beyond 4.5 standard deviations."""


def binomial_tail(total: int, least: int, probability: float) -> float:
    """P(Binomial(total, probability) >= least): near 0 and 1, where the normal approximation says nothing, too."""
    log = [math.lgamma(total + 1) - math.lgamma(k + 1) - math.lgamma(total - k + 1) for k in range(least, total + 1)]
    p, q = math.log(probability), math.log1p(-probability)
    return math.fsum(math.exp(one + k * p + (total - k) * q) for k, one in enumerate(log, least))


def word_pair(rng: random.Random, number: int, common: int, union: int) -> tuple[str, str]:
    """Two texts of words of their own with exactly so much in common."""
    words = [f"p{number}x{rng.getrandbits(48):x}n{i}" for i in range(union)]
    middle = common + (union - common) // 2
    return " ".join(words[:middle]), " ".join([*words[:common], *words[middle:]])


@pytest.mark.parametrize("threshold", [0.5, 0.6, 0.7, 0.8, 0.9])
def test_recall_at_the_threshold(threshold: float) -> None:
    """With exact=True pairs exactly at the threshold are found with the promised probability, and none that is below it."""
    rng = random.Random(int(threshold * 100))
    count, common = 600, round(threshold * 40)
    with Index(":memory:", MinHash(threshold=threshold, exact=True), text=WORDS, record_matches=False) as index:
        at = [word_pair(rng, number, common, 40) for number in range(count)]
        below = [word_pair(rng, count + number, common - 1, 40) for number in range(100)]
        index.add_many((number, a) for number, (a, _) in enumerate([*at, *below]))
        found = 0
        for number, (_, b) in enumerate(at):
            answer = tuples(index.query(b))
            assert answer in ([], [(number, threshold, None)])
            found += bool(answer)
        assert all(index.query(b) == [] for _, b in below)
    assert found / count >= 0.99 - 4.5 * math.sqrt(0.99 * 0.01 / count)


def band_sets(texts: list[str], scheme: MinHash) -> list[set[tuple[int, bytes]]]:
    """The bands of each text's signature: what makes two texts candidates."""
    made = []
    for signature in scheme.fingerprints(texts, WORDS):
        rows = np.asarray(signature)[: scheme.bands * scheme.rows].reshape(scheme.bands, scheme.rows)
        made.append({(number, row.tobytes()) for number, row in enumerate(rows)})
    return made


def crowd(seed: int) -> list[str]:
    """Texts with many degrees of similarity to each other."""
    rng = random.Random(seed)
    texts = []
    for family in range(12):
        words = [f"f{family}w{number}" for number in range(40)]
        for member in range(12):
            changed = {number: f"f{family}m{member}w{number}" for number in rng.sample(range(40), rng.randrange(12))}
            texts.append(" ".join(changed.get(number, word) for number, word in enumerate(words)))
    return texts


FEW_CANDIDATES = {"bands": 6, "rows": 9}
"""So that many pairs above the threshold are no candidates, and must not be returned."""


@pytest.mark.parametrize("threshold", [0.5, 0.7, 0.8])
@pytest.mark.parametrize("kind", ["slots", "exact", "exact with texts"])
def test_minhash_returns_candidates_at_or_above_the_threshold(kind: str, threshold: float) -> None:
    """The answer is every candidate whose share of equal slots, with exact=True whose true Jaccard similarity, is at or above the
    threshold, and no other."""
    texts = crowd(int(threshold * 10))
    bands: dict[str, int] = FEW_CANDIDATES if (kind == "exact") == (threshold == 0.7) else {}
    scheme = MinHash(threshold=threshold, exact=kind != "slots", **bands)
    buckets, slots, sets = band_sets(texts, scheme), scheme.fingerprints(texts, WORDS), [set(text.split()) for text in texts]

    def similarity(a: int, b: int) -> float:
        return jaccard(sets[a], sets[b]) if scheme.exact else int((slots[a] == slots[b]).sum()) / 128

    pairs = [(a, b, similarity(a, b)) for a, b in combinations(range(len(texts)), 2) if buckets[a] & buckets[b]]
    expected = {pair for pair in pairs if pair[2] >= threshold}
    with Index(":memory:", scheme, text=WORDS, store_text=kind == "exact with texts") as index:
        index.add_many(enumerate(texts))
        assert {(one.key_a, one.key_b, one.similarity) for one in index.pairs()} == expected
        assert all(index.query(text)[0].similarity == 1.0 for text in texts)
    assert len(expected) > 50


# ---- stored values ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["affine32", "java32"])
@pytest.mark.parametrize("name", ["xxh3_64", "fnv1a_32"])
def test_the_value_of_an_exact_index_is_the_sorted_hashes(name: Any, family: Any) -> None:
    """However many there are, whatever their first bits, and with every shingle twice, packed."""
    rules = TextRules.words(shingle=1, hash=name)
    for count in (1, 63, 64, 65, 500, 4096, 4097):
        words = [f"w{i}" for i in range(count)]
        expected = np.unique(shingle_hashes(" ".join(words), rules).astype("<u8"))
        value = MinHash(exact=True, family=family).for_index(rules).values([" ".join(words + words)], rules).split()[0]
        assert value == packed(expected.tolist()), count
