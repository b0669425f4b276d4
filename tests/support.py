"""A plain model of an index, for comparison: a dictionary and brute force."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from neardup_db import BinaryCode, BitSampling, BottomK, MinHash, SimHash, TextRules
from neardup_db.compute import shingles

Verdict = tuple[float, "int | None"]
Compare = Callable[[Any, Any], "Verdict | None"]


def sqlite_shell() -> str:
    """Path of SQLite's own shell. Where it is not installed the test is skipped; `.ci/run` does not start without it."""
    found = shutil.which("sqlite3")
    return found or pytest.skip("SQLite's shell is not installed (Debian: apt-get install sqlite3)")


def keys(matches: Any) -> list[Any]:
    """Keys of matches, in their order."""
    return [one.key for one in matches]


def hamming(a: Any, b: Any) -> int:
    """Differing bits of two uint8 arrays, one by one."""
    return sum(bin(int(x) ^ int(y)).count("1") for x, y in zip(a, b, strict=True))


def jaccard(a: set[Any], b: set[Any]) -> float:
    """The textbook's."""
    union = len(a | b)
    return len(a & b) / union if union else 0.0


def estimate(a: set[int], b: set[int], k: int) -> float:
    """Common ones among the k smallest of the union, over their number."""
    smallest = sorted(a | b)[:k]
    return sum(one in a and one in b for one in smallest) / len(smallest)


def containment(a: set[Any], b: set[Any]) -> float:
    """How much of a is in b."""
    return len(a & b) / len(a) if a else 0.0


def containment_estimate(a: set[int], b: set[int], k: int) -> float | None:
    """The same of the k smallest of two sets, among what both cover (fewer than k cover everything); None if that is nothing."""
    last = min([max(one) for one in (a, b) if len(one) == k], default=2**64)
    covered = {one for one in a if one <= last}
    return containment(covered, b) if covered else None


@dataclass(frozen=True)
class Case:
    """A scheme with its rules, how to make what the model compares, and the comparison (None = no match).

    contains: how much of the first is in the second, None if that is not known; a scheme without it refuses to be asked."""

    name: str
    scheme: Any
    rules: TextRules
    prepare: Callable[[Any], Any]
    compare: Compare
    codes: bool = False
    store_text: bool = False
    contains: Callable[[Any, Any], float | None] | None = None


WORDS = TextRules.words(shingle=1)
"""Single words, so that short texts have many degrees of similarity."""

SETS = MinHash(threshold=0.5, exact=True, num_perm=64, bands=64, rows=1)
"""True Jaccard similarity, and every equal slot makes a candidate: small sets of words whose answers can be counted out."""

FAR = 0xFFFF << 40
"""A code far from the small numbers."""

PAST, SOON, LATER = time.time() - 100_000, time.time() + 100_000, time.time() + 200_000
"""Unix seconds."""


def _within(bits: int, radius: int, slope: float = 1.0) -> Compare:
    def compare(a: Any, b: Any) -> Verdict | None:
        distance = hamming(a, b)
        return (max(0.0, 1.0 - slope * distance / bits), distance) if distance <= radius else None

    return compare


def _at_least(threshold: float, similarity: Callable[[Any, Any], float]) -> Compare:
    def compare(a: Any, b: Any) -> Verdict | None:
        value = similarity(a, b)
        return (value, None) if value >= threshold else None

    return compare


def _exact_contains(a: Any, b: Any) -> float:
    return containment(a[0], b[0])


def _text_case(name: str, scheme: Any, compare: Compare, **more: Any) -> Case:
    def prepare(text: str) -> Any:
        return scheme.fingerprint(text, WORDS)

    return Case(name, scheme, WORDS, more.pop("prepare", prepare), compare, **more)


def _share(a: Any, b: Any) -> float:
    return int(np.sum(a == b)) / len(a)


def _exact_prepare(scheme: Any) -> Callable[[str], Any]:
    def prepare(text: str) -> Any:
        signature = scheme.fingerprint(text, WORDS)
        return None if signature is None else (set(shingles(text, WORDS)), signature)

    return prepare


def _exact_compare(threshold: float) -> Compare:
    def compare(a: Any, b: Any) -> Verdict | None:
        value = jaccard(a[0], b[0])
        return (value, None) if value >= threshold and (a[1] == b[1]).any() else None

    return compare


def _sets(similarity: Callable[[set[int], set[int]], Any]) -> Callable[[Any, Any], Any]:
    return lambda a, b: similarity(set(a.tolist()), set(b.tolist()))


def cases() -> list[Case]:
    """Every scheme and plan, small enough for brute force."""
    one_row = {"num_perm": 24, "bands": 24, "rows": 1}  # every equal slot makes a candidate: nothing is missed
    exact = MinHash(threshold=0.5, exact=True, **one_row)
    proven = {"prepare": _exact_prepare(exact), "contains": _exact_contains}
    identity = {"prepare": lambda code: np.frombuffer(code, np.uint8), "codes": True}
    return [
        _text_case("simhash", SimHash(max_distance=12, blocks=14), _within(64, 12)),
        _text_case("minhash", MinHash(threshold=0.5, **one_row), _at_least(0.5, _share)),
        _text_case("minhash-exact", exact, _exact_compare(0.5), **proven),
        _text_case("minhash-exact-text", exact, _exact_compare(0.5), store_text=True, **proven),
        _text_case("bottomk", BottomK(k=6, threshold=0.5), _at_least(0.5, _sets(jaccard))),
        _text_case(
            "bottomk-estimate",
            BottomK(k=6, threshold=0.6, measure="estimate"),
            _at_least(0.6, _sets(lambda a, b: estimate(a, b, 6))),
        ),
        _text_case(
            "bottomk-containment",
            BottomK(k=4, threshold=0.6, containment=True),
            _at_least(0.6, _sets(jaccard)),
            contains=_sets(lambda a, b: containment_estimate(a, b, 4)),
        ),
        _text_case("bitsampling", BitSampling(bits=64, max_distance=17, chunks=8), _within(64, 17, 2.0)),
        Case("binarycode", BinaryCode(bits=64, max_distance=5), TextRules(), compare=_within(64, 5), **identity),
        Case("binarycode-wide", BinaryCode(bits=256, max_distance=20), TextRules(), compare=_within(256, 20), **identity),
    ]


CASES = {case.name: case for case in cases()}


@dataclass
class Entry:
    """A document of the model."""

    number: int
    content: Any
    prepared: Any
    group: Any
    expires_at: float | None


class Model:
    """What an index promises, in the plainest way."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.entries: dict[Any, Entry] = {}
        self.counter = 0

    def put(self, key: Any, content: Any, group: Any = None, expires_at: float | None = None) -> None:
        """Store as the newest document."""
        self.entries.pop(key, None)
        self.counter += 1
        self.entries[key] = Entry(self.counter, content, self.case.prepare(content), group, expires_at)

    def matches(self, content: Any, group: Any = None, without: Any = None) -> list[tuple[Any, float, int | None]]:
        """(key, similarity, distance), best first, ties in the order of insertion."""
        prepared = self.case.prepare(content)
        found = []
        for key, entry in self.entries.items():
            if prepared is None or entry.prepared is None or entry.group != group or (without is not None and key == without):
                continue
            verdict = self.case.compare(prepared, entry.prepared)
            if verdict is not None:
                found.append((entry.number, key, *verdict))
        found.sort(key=lambda one: (-one[2], one[0]))
        return [one[1:] for one in found]

    def containing(self, content: Any, threshold: float, group: Any = None, without: Any = None) -> list[tuple[Any, float, None]]:
        """(key, containment, None) of what contains so much of it, in the order of `matches`."""
        prepared, contains = self.case.prepare(content), self.case.contains
        assert contains is not None
        found = []
        for key, entry in self.entries.items():
            if prepared is None or entry.prepared is None or entry.group != group or (without is not None and key == without):
                continue
            share = contains(prepared, entry.prepared)
            if share is not None and share >= threshold:
                found.append((-share, entry.number, key))
        return [(key, -share, None) for share, _, key in sorted(found, key=lambda one: one[:2])]

    def in_order(self) -> list[Any]:
        """Keys in the order of insertion."""
        return sorted(self.entries, key=lambda key: self.entries[key].number)

    def pairs(self) -> set[tuple[Any, Any, float, int | None]]:
        """All pairs, the earlier key first."""
        keys = self.in_order()
        found = set()
        for i, a in enumerate(keys):
            for b in keys[i + 1 :]:
                x, y = self.entries[a], self.entries[b]
                if x.group == y.group and x.prepared is not None and y.prepared is not None:
                    verdict = self.case.compare(x.prepared, y.prepared)
                    if verdict is not None:
                        found.add((a, b, *verdict))
        return found

    def clusters(self) -> list[tuple[Any, ...]]:
        """Connected components of two or more, largest first, ties by the earliest."""
        component = {key: {key} for key in self.entries}
        for a, b, *_ in self.pairs():
            if component[a] is not component[b]:
                joined = component[a] | component[b]
                for key in joined:
                    component[key] = joined
        keys = self.in_order()
        found = {id(one): tuple(key for key in keys if key in one) for one in component.values() if len(one) > 1}
        return sorted(found.values(), key=lambda one: (-len(one), self.entries[one[0]].number))
