"""The texts and the schemes of processes.py, what every two texts are to each other, and whether an index says so."""

from __future__ import annotations

import dataclasses
import itertools
import json
import random
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from support import CASES, SETS, WORDS, Case, case_of, clusters_of, components

from neardup_db import BottomK, Index, MinHash, SimHash, TextRules

FAMILIES, VARIANTS = 12, 8


def _text(family: int, variant: int) -> str:
    """Eight words of a family, of which a variant has lost some, or has them otherwise or in capitals."""
    rng = random.Random(1000 * family + variant)
    words = [f"{letter}{family}" for letter in "abcdefgh"]
    for _ in range(variant % 5):
        words[rng.randrange(8)] = f"own{variant}x{family}"
    if variant % 3 == 2:
        words = words[: rng.randrange(5, 8)]
    return " ".join(word.upper() if rng.random() < 0.1 * (variant % 2) else word for word in words)


TEXTS = ["", *(_text(family, variant) for family in range(FAMILIES) for variant in range(VARIANTS))]
"""All texts that there are, so that all that is similar can be computed beforehand. The first has no shingles."""

NUMBERS = {text: number for number, text in enumerate(TEXTS)}


@dataclasses.dataclass(frozen=True)
class State:
    """Scheme and rules that a file may have. Values of states with one `kind` can be compared."""

    case: Case
    kind: str

    @property
    def settings(self) -> str:
        """As an index says them."""
        scheme = self.case.scheme.for_index(self.case.rules)
        return json.dumps({**scheme.settings(), **self.case.rules.settings()}, sort_keys=True)


def _sets(threshold: float, seed: int) -> MinHash:
    return MinHash(threshold=threshold, exact=True, num_perm=64, bands=64, rows=1, seed=seed)


PAIRS_OF_WORDS = TextRules.words(shingle=2)
CASED = TextRules.words(shingle=1, case=None)

STATES = [
    State(case_of(scheme, rules), kind)
    for kind, scheme, rules in (
        ("sets", SETS, WORDS),
        ("sets", _sets(0.5, 2), WORDS),
        ("sets", _sets(0.8, 1), WORDS),
        ("sets of pairs", _sets(0.5, 3), PAIRS_OF_WORDS),
        ("minhash", CASES["minhash"].scheme, WORDS),
        ("bottomk", CASES["bottomk"].scheme, WORDS),
        ("bottomk", CASES["bottomk-estimate"].scheme, WORDS),
        ("bottomk cased", BottomK(k=8, threshold=0.7), CASED),
        ("simhash", CASES["simhash"].scheme, WORDS),
        ("simhash", SimHash(max_distance=4, blocks=6), WORDS),
        ("simhash 128", SimHash(bits=64, max_distance=12, blocks=14), CASED),
        ("bitsampling", CASES["bitsampling"].scheme, WORDS),
    )
]
"""Each finds every pair that meets its rule, so that answers can be counted out."""

NAMES = {state.settings: number for number, state in enumerate(STATES)}


class Verdict(NamedTuple):
    """What two texts are to each other."""

    similarity: float
    distance: int | None


class Verdicts:
    """What every two texts are to each other in every state, computed once by brute force, and kept in a file."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            np.save(path.with_suffix(".new.npy"), _verdicts())
            path.with_suffix(".new.npy").rename(path)
        self._table = np.load(path, mmap_mode="r")

    @cache  # noqa: B019
    def of(self, state: int, a: str, b: str) -> Verdict | None:
        """None where they do not match."""
        similarity, distance = self._table[state, NUMBERS[a], NUMBERS[b]].tolist()
        if np.isnan(similarity):
            return None
        return Verdict(similarity, None if distance < 0 else int(distance))


def _verdicts() -> Any:
    table = np.full((len(STATES), len(TEXTS), len(TEXTS), 2), np.nan)
    for number, state in enumerate(STATES):
        prepared = [state.case.prepare(text) for text in TEXTS]
        for i, j in itertools.combinations_with_replacement(range(len(TEXTS)), 2):
            if prepared[i] is not None and prepared[j] is not None:
                verdict = state.case.compare(prepared[i], prepared[j])
                if verdict is not None:
                    row = verdict[0], -1 if verdict[1] is None else verdict[1]
                    table[number, i, j] = table[number, j, i] = row
    return table


def state_of(index: Index) -> int:
    """The number of the state that an index is in."""
    return NAMES[json.dumps({**index.scheme.settings(), **index.text_rules.settings()}, sort_keys=True)]


def audit(index: Index, verdicts: Verdicts) -> dict[str, str]:
    """Texts by key of an index in a state that nobody changes meanwhile, and of which all answers are true."""
    assert index.check().problems == ()
    keys: list[Any] = list(index)
    texts = {one.key: one.text for one in index.get_many(keys) if one is not None}
    assert len(index) == len(keys) == len(texts)
    state = state_of(index)
    expected = {}
    for a, b in itertools.combinations(keys, 2):
        verdict = verdicts.of(state, texts[a], texts[b])
        if verdict is not None:
            expected[a, b] = verdict
    found = [((one.key_a, one.key_b), Verdict(one.similarity, one.distance)) for one in index.pairs()]
    assert len(found) == len(dict(found)) and same(dict(found), expected), f"pairs() is not brute force in state {state}"
    assert clusters_of(index) == components(expected), f"clusters in state {state}"
    for key in keys:
        if verdicts.of(state, texts[key], texts[key]) is not None:
            assert key in [match.key for match in index.query(texts[key])], f"{key!r} is not found by its own text"
    return texts


def same(found: dict[Any, Verdict], expected: dict[Any, Verdict]) -> bool:
    """Whether these are the same verdicts on the same pairs."""
    return found.keys() == expected.keys() and all(alike(found[one], expected[one]) for one in found)


def alike(a: Verdict | None, b: Verdict | None) -> bool:
    """Whether two verdicts are one, but for the last bit of a similarity."""
    return a is not None and b is not None and abs(a.similarity - b.similarity) < 1e-9 and a.distance == b.distance
