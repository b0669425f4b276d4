"""A plain model of an index, for comparison: a dictionary and brute force."""

from __future__ import annotations

import functools
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from neardup_db import BinaryCode, BitSampling, BottomK, DuplicateKeyError, Index, MinHash, Passages, SimHash, TextRules
from neardup_db.compute import shingles

Verdict = tuple[float, "int | None"]


def sqlite_shell() -> str:
    """Path of SQLite's own shell. Where it is not installed the test is skipped; `.ci/run` does not start without it."""
    import pytest  # here, as the processes that tests start need none of it

    found = shutil.which("sqlite3")
    return found or pytest.skip("SQLite's shell is not installed (Debian: apt-get install sqlite3)")


def keys(matches: Any) -> list[Any]:
    """Keys of matches, in their order."""
    return [one.key for one in matches]


def tuples(matches: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Matches as the model gives them."""
    return [(one.key, one.similarity, one.distance) for one in matches]


def split(text: str) -> list[str]:
    """A tokenizer of an application's own."""
    return text.split()


def components(pairs: Iterable[tuple[Any, Any]]) -> set[frozenset[Any]]:
    """The connected components of a graph, those of two nodes or more."""
    part: dict[Any, set[Any]] = {}
    for a, b in pairs:
        small, large = sorted((part.setdefault(a, {a}), part.setdefault(b, {b})), key=len)
        if small is not large:
            large |= small
            part.update(dict.fromkeys(small, large))
    return {frozenset(one) for one in {id(one): one for one in part.values()}.values() if len(one) > 1}


def cluster_keys(index: Index) -> list[tuple[Any, ...]]:
    """The keys of each cluster, in their order."""
    return [one.keys for one in index.clusters()]


def clusters_of(index: Index) -> set[frozenset[Any]]:
    """The clusters as sets of keys."""
    return {frozenset(one.keys) for one in index.clusters()}


def shared(sets: Sequence[Iterable[Any]]) -> Counter[tuple[int, int]]:
    """How many members each two of some sets have in common, of those that have any."""
    holders: dict[Any, list[int]] = {}
    for number, members in enumerate(sets):
        for member in members:
            holders.setdefault(member, []).append(number)
    return Counter(pair for numbers in holders.values() for pair in combinations(numbers, 2))


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


def duplicates_in(order: Sequence[int], similarity: Callable[[int, int], float | None]) -> dict[int, tuple[int, float]]:
    """Where each number that matches one that stays goes: of those that go (the most similar that stays, how similar it is); the
    first in the order of several. similarity: None where two do not match."""
    kept: list[int] = []
    gone: dict[int, tuple[int, float]] = {}
    for number in order:
        near = [(similar, -place) for place, one in enumerate(kept) if (similar := similarity(one, number)) is not None]
        if near:
            most, place = max(near)
            gone[number] = (kept[-place], most)
        else:
            kept.append(number)
    return gone


@dataclass(frozen=True)
class Case:
    """A scheme with its rules, how to make what the model compares, and the comparison (None = no match).

    contains: how much of the first is in the second, None if that is not known; a scheme without it refuses to be asked. order:
    how alike two are, beyond every threshold; a scheme without it has no nearest documents."""

    name: str
    scheme: Any
    rules: TextRules
    prepare: Callable[[Any], Any]
    compare: Callable[[Any, Any], Verdict | None]
    codes: bool = False
    store_text: bool = False
    contains: Callable[[Any, Any], float | None] | None = None
    order: Callable[[Any, Any], Verdict] | None = None


WORDS = TextRules.words(shingle=1)
"""Single words, so that short texts have many degrees of similarity."""

SETS = MinHash(threshold=0.5, exact=True, num_perm=64, bands=64, rows=1)
"""True Jaccard similarity, and every equal slot makes a candidate: small sets of words whose answers can be counted out."""

FAR = 0xFFFF << 40
"""A code far from the small numbers."""

PAST, SOON, LATER = time.time() - 100_000, time.time() + 100_000, time.time() + 200_000
"""Unix seconds."""


def covered(a: Sequence[Any], b: Sequence[Any], shortest: int) -> int:
    """How many tokens of a lie in runs of so many that b has."""
    windows = {tuple(b[i : i + shortest]) for i in range(len(b) - shortest + 1)}
    places = [i for i in range(len(a) - shortest + 1) if tuple(a[i : i + shortest]) in windows]
    return len({i + j for i in places for j in range(shortest)})


def passage_share(a: Sequence[Any], b: Sequence[Any], shortest: int) -> float:
    """The share of the shorter one that lies in common passages; the larger share of two of equal length."""
    shares = [covered(x, y, shortest) / len(x) for x, y in ((a, b), (b, a)) if len(x) <= len(y)]
    return max(shares)


def measured(scheme: Any, a: Any, b: Any) -> Verdict:
    """How a scheme measures two prepared contents."""
    if isinstance(a, int):
        distance, bits = (a ^ b).bit_count(), scheme.bits or 64  # a SimHash that says nothing is as wide as the hash
        return max(0.0, 1.0 - (2.0 if scheme.name == "bitsampling" else 1.0) * distance / bits), distance
    if scheme.name == "passages":
        return passage_share(a, b, scheme.shortest), None
    if scheme.name == "bottomk":
        return (jaccard(a, b) if scheme.measure == "fingerprint" else estimate(a, b, scheme.k)), None
    return (jaccard(a[0], b[0]) if scheme.exact else int(np.sum(a == b)) / len(a)), None


def verdict(scheme: Any, a: Any, b: Any) -> Verdict | None:
    """What a scheme's own rule says of two prepared contents. MinHash finds pairs with an equal slot: one row a band."""
    alike, distance = measured(scheme, a, b)
    if distance is not None:
        return (alike, distance) if distance <= scheme.max_distance else None
    if scheme.name == "passages":
        return (alike, None) if alike > 0 and alike >= (scheme.threshold or 0) else None
    meets = scheme.name == "bottomk" or not scheme.exact or bool((a[1] == b[1]).any())
    return (alike, None) if meets and alike >= scheme.threshold else None


def case_of(scheme: Any, rules: TextRules = WORDS, name: str = "", codes: bool = False, store_text: bool = False) -> Case:
    """A case for a scheme. codes: it is given codes, not texts."""
    codes = codes or not scheme.takes_text

    @functools.cache
    def prepare(content: Any) -> Any:
        sketch = content if codes else scheme.fingerprint(content, rules)
        if sketch is None:
            return None
        if scheme.takes_codes:
            return int.from_bytes(bytes(sketch), "big")
        if scheme.name == "passages":
            return list(shingles(content, rules.changed(shingle=1)))
        if scheme.name == "bottomk":
            return set(sketch.tolist())
        return (set(shingles(content, rules)), sketch) if scheme.exact else sketch

    def contains(a: Any, b: Any) -> float | None:
        if scheme.name == "passages":
            return covered(a, b, scheme.shortest) / len(a)
        return containment_estimate(a, b, scheme.k) if scheme.name == "bottomk" else containment(a[0], b[0])

    tells = scheme.containment if scheme.name == "bottomk" else scheme.name == "passages" or getattr(scheme, "exact", False)
    compare = functools.partial(verdict, scheme)
    order = None if scheme.name == "minhash" and not scheme.exact else functools.partial(measured, scheme)
    return Case(name or repr(scheme), scheme, rules, prepare, compare, codes, store_text, contains if tells else None, order)


def case_of_parts(scheme: Any) -> Case:
    """A case for codes of which a document may have several: its content is then a tuple of pairs (part, code)."""
    plain = case_of(scheme)

    def prepare(content: Any) -> Any:
        return tuple(plain.prepare(code) for code in parts_of(content).values())

    def compare(a: Any, b: Any) -> Verdict | None:
        found = [verdict for x in a for y in b if (verdict := plain.compare(x, y)) is not None]
        return max(found, default=None)

    def order(a: Any, b: Any) -> Verdict:
        return min((measured(scheme, x, y) for x in a for y in b), key=lambda verdict: verdict[1] or 0)

    return Case(f"{scheme!r}, parts", scheme, WORDS, prepare, compare, True, order=order)


def parts_of(content: Any) -> dict[Any, Any]:
    """The codes of a document of the model by part."""
    return dict(content) if isinstance(content, tuple) else {None: content}


ONE_ROW = {"num_perm": 24, "bands": 24, "rows": 1}
"""Every equal slot makes a candidate: nothing is missed."""

CASES = {
    "simhash": case_of(SimHash(max_distance=12, blocks=14)),
    "minhash": case_of(MinHash(threshold=0.5, **ONE_ROW)),
    "minhash-exact": case_of(MinHash(threshold=0.5, exact=True, **ONE_ROW)),
    "minhash-exact-text": case_of(MinHash(threshold=0.5, exact=True, **ONE_ROW), store_text=True),
    "bottomk": case_of(BottomK(k=6, threshold=0.5)),
    "bottomk-estimate": case_of(BottomK(k=6, threshold=0.6, measure="estimate")),
    "bottomk-containment": case_of(BottomK(k=4, threshold=0.6, containment=True)),
    "bitsampling": case_of(BitSampling(bits=64, max_distance=17, chunks=8)),
    "passages": case_of(Passages(shortest=3)),
    "passages-threshold": case_of(Passages(shortest=3, threshold=0.6)),
    "binarycode": case_of(BinaryCode(bits=64, max_distance=5)),
    "binarycode-wide": case_of(BinaryCode(bits=256, max_distance=20)),
}
"""Every scheme and plan, small enough for brute force."""


@dataclass
class Entry:
    """A document of the model."""

    number: int
    content: Any
    prepared: Any
    group: Any
    expires_at: float | None


def _is_same(a: Any, b: Any) -> bool:
    """Whether two contents are compared by the same."""
    a, b = (one[0] if isinstance(one, tuple) else one for one in (a, b))
    return np.array_equal(a, b) if isinstance(a, np.ndarray) else bool(a == b)


class Model:
    """What an index promises, in the plainest way."""

    def __init__(self, case: Case, window: int | None = None) -> None:
        self.case = case
        self.window = window
        self.entries: dict[Any, Entry] = {}
        self.counter = 0
        self.dismissed: set[frozenset[int]] = set()
        """Pairs of the numbers of entries: one that is replaced has another number."""
        self.allowed: list[tuple[Any, Any]] = []
        """Contents, with what they are compared by."""

    def _pair(self, a: Any, b: Any) -> frozenset[int]:
        return frozenset((self.entries[a].number, self.entries[b].number))

    def dismiss(self, a: Any, b: Any) -> bool:
        """Two documents are no duplicates; False if that was known."""
        known = self._pair(a, b) in self.dismissed
        self.dismissed.add(self._pair(a, b))
        return not known

    def undismiss(self, a: Any, b: Any) -> bool:
        """Takes it back; False if it was not known."""
        known = self._pair(a, b) in self.dismissed
        self.dismissed.discard(self._pair(a, b))
        return known

    def dismiss_all(self, a: Any) -> int:
        """A document is no duplicate of any; how many pairs that makes."""
        pairs = {self._pair(a, match[0]) for match in self.matches_of(a)}
        self.dismissed |= pairs
        return len(pairs)

    def undismiss_all(self, a: Any) -> int:
        """Takes back all that was said of a document; how many pairs there were."""
        numbers = {entry.number for entry in self.entries.values()}
        pairs = {pair for pair in self.dismissed if self.entries[a].number in pair and pair <= numbers}
        self.dismissed -= pairs
        return len(pairs)

    def prepare(self, content: Any) -> Any:
        """A content as it is compared; None of one that is like an allowed one."""
        prepared = self.case.prepare(content)
        if prepared is None or any(self.case.compare(prepared, one) is not None for _, one in self.allowed):
            return None
        return prepared

    def allow(self, content: Any) -> int | None:
        """Let contents like this one match nothing; how many entries that changes. None where it has nothing to compare."""
        prepared, before = self.case.prepare(content), self._compared()
        if prepared is None:
            return None
        if not any(_is_same(prepared, one) for _, one in self.allowed):
            self.allowed = [*self.allowed, (content, prepared)]
        self._prepare_again()
        return before - self._compared()

    def disallow(self, content: Any) -> int:
        """Withdraw what a content is like; how many there were."""
        prepared, before = self.case.prepare(content), len(self.allowed)
        if prepared is not None:
            self.allowed = [one for one in self.allowed if self.case.compare(prepared, one[1]) is None]
            self._prepare_again()
        return before - len(self.allowed)

    def _compared(self) -> int:
        return sum(entry.prepared is not None for entry in self.entries.values())

    def _prepare_again(self) -> None:
        self.entries = {key: replace(entry, prepared=self.prepare(entry.content)) for key, entry in self.entries.items()}

    def dismissed_keys(self) -> set[frozenset[Any]]:
        """The dismissed pairs by key."""
        keys = {entry.number: key for key, entry in self.entries.items()}
        return {frozenset(keys[number] for number in pair) for pair in self.dismissed if pair <= set(keys)}

    def put(self, key: Any, content: Any, group: Any = None, expires_at: float | None = None) -> None:
        """Store as the newest document."""
        self.entries.pop(key, None)
        self.counter += 1
        self.entries[key] = Entry(self.counter, content, self.prepare(content), group, expires_at)
        self.let_leave()

    def refuses(self, key: Any, group: Any, if_exists: str) -> bool:
        """Whether the document that has a key is an error for another one: always if it is of another group."""
        entry = self.entries.get(key)
        return entry is not None and (if_exists == "error" or entry.group != group)

    def has(self, key: Any, group: Any) -> bool:
        """Whether a group has the key."""
        entry = self.entries.get(key)
        return entry is not None and entry.group == group

    def fate(self, key: Any, part: Any, group: Any, if_exists: str) -> Any:
        """What becomes of a code that is one of several: an error, or the word of a report."""
        entry = self.entries.get(key)
        if entry is None:
            return "added"
        there = part in parts_of(entry.content)
        if entry.group != group or there and if_exists == "error":
            return DuplicateKeyError
        return "ignored" if there and if_exists == "ignore" else "replaced" if there else "added"

    def delete_group(self, group: Any) -> int:
        """Forget all documents of a group; how many there were."""
        gone = [key for key, entry in self.entries.items() if entry.group == group]
        for key in gone:
            del self.entries[key]
        return len(gone)

    def delete_part(self, key: Any, part: Any) -> bool:
        """Take one code of a document out, and the document with its last one; False if there is none."""
        entry = self.entries.get(key)
        left = {} if entry is None else parts_of(entry.content)
        if entry is None or part not in left:
            return False
        del left[part]
        if left:
            content = left[None] if list(left) == [None] else tuple(left.items())
            self.entries[key] = replace(entry, content=content, prepared=self.prepare(content))
        else:
            del self.entries[key]
        return True

    def put_code(self, key: Any, part: Any, code: Any, group: Any = None, expires_at: float | None = None) -> None:
        """Store a code that is one of several; only the first one of a key makes it the newest document."""
        entry = self.entries.get(key)
        if entry is None or (part is None and not isinstance(entry.content, tuple)):
            self.put(key, code if part is None else ((part, code),), group, expires_at)
        else:
            content = tuple({**parts_of(entry.content), part: code}.items())
            expiry = entry.expires_at if expires_at is None else expires_at
            self.entries[key] = replace(entry, content=content, prepared=self.prepare(content), expires_at=expiry)

    def skip(self) -> None:
        """What was stored as the newest document is there no more, or nobody sees it."""
        self.counter += 1
        self.let_leave()

    def let_leave(self) -> None:
        """Forget what is not among the last documents of the window."""
        if self.window is not None:
            self.entries = {key: entry for key, entry in self.entries.items() if entry.number > self.counter - self.window}

    def _others(self, content: Any, group: Any, without: Any) -> Iterator[tuple[Any, Entry, Any]]:
        """Documents that a content may be compared with, and the content as it is compared."""
        prepared = self.prepare(content)
        for key, entry in self.entries.items():
            both = prepared is not None and entry.prepared is not None
            if both and entry.group == group and (without is None or key != without):
                yield key, entry, prepared

    def matches(self, content: Any, group: Any = None, without: Any = None) -> list[tuple[Any, float, int | None]]:
        """(key, similarity, distance), best first, ties in the order of insertion."""
        found = []
        for key, entry, prepared in self._others(content, group, without):
            verdict = self.case.compare(prepared, entry.prepared)
            if verdict is not None:
                found.append((entry.number, key, *verdict))
        found.sort(key=lambda one: (-one[2], one[0]))
        return [one[1:] for one in found]

    def matches_of(self, key: Any, threshold: float | None = None) -> list[tuple[Any, ...]]:
        """`matches` of a stored document, or with a threshold `containing`, without dismissed ones."""
        content, group = self.entries[key].content, self.entries[key].group
        if threshold is None:
            found: list[tuple[Any, ...]] = self.matches(content, group, without=key)
        else:
            found = [*self.containing(content, threshold, group, without=key)]
        return [one for one in found if self._pair(key, one[0]) not in self.dismissed]

    def containing(self, content: Any, threshold: float, group: Any = None, without: Any = None) -> list[tuple[Any, float, None]]:
        """(key, containment, None) of what contains so much of it, in the order of `matches`."""
        assert self.case.contains is not None
        found = []
        for key, entry, prepared in self._others(content, group, without):
            share = self.case.contains(prepared, entry.prepared)
            if share is not None and share >= threshold:
                found.append((-share, entry.number, key))
        return [(key, -share, None) for share, _, key in sorted(found, key=lambda one: one[:2])]

    def nearest(self, content: Any, n: int, group: Any = None) -> list[tuple[Any, float, int | None]]:
        """(key, similarity, distance) of the n most alike, ties in the order of insertion; of sets those that share something."""
        assert self.case.order is not None
        found = []
        for key, entry, prepared in self._others(content, group, None):
            similarity, distance = self.case.order(prepared, entry.prepared)
            if distance is not None or similarity > 0.0:
                found.append((-similarity if distance is None else distance, entry.number, key, similarity, distance))
        return [one[2:] for one in sorted(found, key=lambda one: one[:2])[:n]]

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
                compared = x.group == y.group and x.prepared is not None and y.prepared is not None
                if compared and self._pair(a, b) not in self.dismissed:
                    verdict = self.case.compare(x.prepared, y.prepared)
                    if verdict is not None:
                        found.add((a, b, *verdict))
        return found

    def clusters(self) -> list[tuple[Any, ...]]:
        """Connected components of two or more, largest first, ties by the earliest."""
        keys = self.in_order()
        found = [tuple(key for key in keys if key in one) for one in components((a, b) for a, b, *_ in self.pairs())]
        return sorted(found, key=lambda one: (-len(one), self.entries[one[0]].number))
