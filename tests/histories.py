"""Random histories of an index, played beside a plain dictionary with brute force.

A history is a literal: a plan, where the index lives, and a list of operations, some of which hold further ones (a transaction,
the generator of `add_many`). `make` draws one from a seed, `play` runs it, `shrunk` deletes what a difference does not need, and
`printed` writes what is left as a test can replay it. Times are milliseconds from the present, of a clock that operations move.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path
from pprint import pformat
from typing import Any

from history_model import Difference, History, Operation, configurations, has_parts
from player import play

# ---- drawing ---------------------------------------------------------------------------------------------------------------

_WORD = ("oak", "elm", "ash", "fir", "yew", "box", "bay")
_MORE = ("pine", "lime", "acer", "plum")
_KEYS = ("a", "b", "c", "d", "e", "f", b"a", 1, "1", 2)
_TIMES = (None, None, None, -1000, 1000, 1000, 5000, 50_000)
_SHARES = (None, 1.0, 0.8, 3 / 4, 2 / 3, 0.5, 1 / 3, 0.001)
_MOVES = (500, 1000, 2000, 6000, -500, -1500, -3000, -60_000)


_PARTS = [None, None, "p", "q", 1]


class Maker:
    """Draws a history. without: kinds of operations, and the words "past" (expiry) and "back" (the clock), that are left out."""

    def __init__(self, seed: int | str, plan: str, without: Iterable[str] = ()) -> None:
        self.rng = random.Random(f"{plan} {seed}")
        self.plan = plan
        self.without = set(without)
        self.codes = configurations(plan)[0].codes
        self.theme = self.rng.choices(["family", "chain", "crowd"], [5, 3, 3])[0]
        self.chained = self.theme != "family"
        self.contents = self._chain() if self.chained else self._family()
        self.keys = self.rng.sample(_KEYS, self.rng.randint(4, len(_KEYS))) if not self.chained else [*_KEYS, *range(100, 150)]
        self.groups = self.rng.choice([[None], [None], [None, "g"], [None, None, 7, "g"]])
        if self.theme == "crowd":
            self.groups = [None]
        self.fresh = 300
        self.windows: tuple[float, ...] = ()
        self.staying = self.rng.choice([None, 200_000]) if "past" not in self.without else None
        self.times = _TIMES if self.rng.random() < 0.7 and "past" not in self.without else (None,)

    def history(self) -> History:
        """The whole of it."""
        target = self.rng.choice(["path", "path", "connection", "standard", "mixed", "memory"])
        window = None
        if self.theme != "crowd" and self.rng.random() < 0.3:
            window = self.rng.choice([3, 5, 5] if has_parts(self.plan) else [3, 5, 4.0, 20.0])
            self.windows = (2, 3, 6) if isinstance(window, int) else (1, 5, 20, 40)
            self.without |= {"merge", "back"}  # keys may have left when their turn comes; what has expired leaves for good
        operations = self._operations(self.rng.randint(4, {"family": 18, "chain": 24, "crowd": 8}[self.theme]), 0)
        if self.theme == "crowd":
            operations = self._crowded() + operations
        stored, recorded = not self.codes and self.rng.random() < 0.6, self.rng.random() < 0.85
        return History(self.plan, target, stored, recorded, operations, window)

    def _crowded(self) -> list[Operation]:
        """A crowd, of which one end passes and then comes again, while the rest of it grows."""

        def added(content: Any, expires: int | None) -> Operation:
            self.fresh += 1
            more = {"group": None, "expires": expires, "if_exists": "error"}
            return "add", self._who(None), {"key": self.fresh, "content": content, **more}

        rng = self.rng
        passing = self.contents[: rng.randint(1, 2)]
        first = [one for one in rng.sample(self.contents, len(self.contents)) if rng.random() < 0.8]
        operations = [added(one, 1000 if one in passing and len(self.times) > 1 else self.staying) for one in first]
        operations += [("clock", 0, {"move": 2000}), added(passing[0], self.staying)]
        again = [self._near(one) for one in rng.choices(self.contents[len(passing) :], k=rng.randint(2, 6))]
        return operations + [added(one, self.staying) for one in again] + [("compare", 0, {"part": "all"})]

    def _family(self) -> list[Any]:
        """Some contents, and others near to them."""
        found = [self._content() for _ in range(self.rng.randint(2, 4))]
        for _ in range(self.rng.randint(2, 6)):
            found.append(self._near(self.rng.choice(found)))
        return found

    def _chain(self) -> list[Any]:
        """Each is near to the next one only, so that a document which goes splits a cluster."""
        length, scheme = self.rng.randint(3, 8), configurations(self.plan)[0].scheme
        if self.codes:
            size, step = scheme.bits // 8, max(1, min(scheme.max_distance, scheme.bits // 8))
            numbers = [(1 << min(step * i, scheme.bits)) - 1 for i in range(length)]
            return [number.to_bytes(size, "big") for number in numbers]
        words = self.rng.sample(_WORD + _MORE, length + 3)
        windows = [" ".join(words[i : i + 4]) for i in range(length)]
        return windows + [f"{self.rng.choice(windows[1:])} {self.rng.choice(_WORD)}" for _ in range(self.rng.randint(0, 5))]

    def _content(self) -> Any:
        if self.codes:
            size = configurations(self.plan)[0].scheme.bits // 8
            return self._flipped(self.rng.choice([bytes(size), bytes([255]) * size, bytes(range(size))]))
        return " ".join(self.rng.choice(_WORD) for _ in range(self.rng.choice([0, 1, 2, 3, 4, 5, 6])))

    def _flipped(self, content: bytes) -> bytes:
        code = bytearray(content)
        for _ in range(self.rng.choice([0, 1, 1, 2, 3, 5, 8])):
            bit = self.rng.randrange(min(8 * len(code), 40))
            code[bit // 8] ^= 128 >> bit % 8
        return bytes(code)

    def _near(self, content: Any) -> Any:
        if self.codes:
            return self._flipped(content)
        words = content.split()
        if words and self.rng.random() < 0.5:
            words.pop(self.rng.randrange(len(words)))
        else:
            words.append(self.rng.choice(_WORD))
        return " ".join(words)

    def _operations(self, count: int, depth: int, who: int | None = None, loading: bool = False) -> list[Operation]:
        made: list[Operation] = []
        for _ in range(count):
            made.append(self._operation(depth, who, loading))
            if self.rng.random() < 0.3:
                part = self.rng.choice(["all", "all", "queries", "matches", "pairs", "clusters", "check", "documents"])
                made.append(("compare", self._who(who), {"part": part}))
        return made

    def _who(self, who: int | None) -> int:
        return who if who is not None and self.rng.random() < 0.85 else self.rng.choice([0, 0, 0, 1])

    def _operation(self, depth: int, who: int | None, loading: bool) -> Operation:
        weights = {
            "add": 10, "add_if_new": 3, "add_many": 6, "delete": 4, "update": 2, "expire": 3, "keep_newest": 1, "query": 2,
            "contains": 1, "transaction": 3, "clock": 3, "merge": 3, "dismiss": 5, "follow": 2, "of_group": 1, "delete_group": 1,
            "pairs_with": 1,
        }  # fmt: skip
        if self.windows:
            weights["window"] = 2
        if has_parts(self.plan):
            weights["delete_part"] = 4
        if self.chained:
            weights |= {"add": 16, "add_many": 8, "delete": 2, "clock": 5}
        if self.theme == "crowd":
            weights = {
                "add": 24, "add_if_new": 1, "add_many": 4, "delete": 1, "update": 1, "expire": 1, "query": 1, "clock": 6,
                "transaction": 1, "merge": 2, "dismiss": 4, "follow": 2,
            }  # fmt: skip
        elif not loading:
            weights |= {"sql": 3, "rebuild": 2, "check": 1, "reopen": 2, "pinned": 1}
        if depth >= 3:
            for name in ("transaction", "sql", "pinned"):
                weights.pop(name, None)
        if loading and depth > 1:
            weights.pop("add_many")
        if self.times == (None,):
            for name in ("clock", "update", "expire"):
                weights.pop(name, None)
        if not self.codes:
            weights["allow"] = 2
        for name in self.without:
            weights.pop(name, None)
        name = self.rng.choices(list(weights), list(weights.values()))[0]
        chosen = self._who(who)
        return name, chosen, getattr(self, f"_{name}")(depth, chosen, loading)

    def _record(self) -> dict[str, Any]:
        content, expires = self.rng.choice(self.contents), self.rng.choice(self.times)
        return {"key": self.rng.choice(self.keys), "content": content, "group": self.rng.choice(self.groups), "expires": expires}

    def _add(self, *_: Any) -> dict[str, Any]:
        made = {**self._record(), "if_exists": self.rng.choice(["error", "replace", "replace", "ignore"])}
        return made | {"part": self.rng.choice(_PARTS)} if has_parts(self.plan) else made

    def _add_if_new(self, *_: Any) -> dict[str, Any]:
        return {**self._add(), "touch": self.rng.random() < 0.5}

    def _add_many(self, depth: int, who: int, loading: bool) -> dict[str, Any]:
        rng = self.rng
        records = [(*self._record().values(), None) for _ in range(rng.randint(0, 9))]
        if rng.random() < 0.5:  # keys that differ go in by the way of large batches
            records = [(number + 100 * depth + 1000 * rng.randrange(3), *one[1:]) for number, one in enumerate(records)]
        nested = "inside" not in self.without and rng.random() < 0.35
        arrays = self.codes and not nested and records != [] and rng.random() < 0.4
        if self.codes:
            if not arrays:
                records = [(one[0], one[1], records[0][2], records[0][3], None) for one in records]
            if has_parts(self.plan):
                records = [(*one[:4], rng.choice(_PARTS)) for one in records]
        elif rng.random() < 0.3 and not self.windows:
            records = [(*one[:4], rng.choice([None, "replace", "ignore"])) for one in records]
        inside = {}
        if nested:
            for _ in range(rng.randint(1, 2)):
                inside[rng.randint(0, len(records))] = self._operations(rng.randint(1, 3), depth + 1, who, True)
        reports = {}
        if nested and rng.random() < 0.4:
            reports[rng.randint(1, 3)] = self._operations(rng.randint(1, 2), depth + 1, who, True)
        sure = bool(inside or reports)
        if_exists = ["replace", "replace", "ignore"] if sure else ["error", "replace", "replace", "ignore"]
        may_be_refused = has_parts(self.plan) or len(set(self.groups)) > 1
        return {
            "records": records,
            "inside": inside,
            "reports": reports,
            "if_exists": "replace" if self.windows else rng.choice(if_exists),
            "on_error": rng.choice(["skip"] if sure and may_be_refused else ["raise", "raise", "skip"]),
            "only_new": rng.random() < 0.25 and not has_parts(self.plan),
            "commit_every": rng.choice([None, None, 1, 2, 4]),
            "arrays": arrays,
        }

    def _merge(self, *_: Any) -> dict[str, Any]:
        return {
            "records": [(*self._record().values(), None) for _ in range(self.rng.randint(0, 8))],
            "if_exists": self.rng.choice(["error", "replace", "replace", "ignore"]),
            "commit_every": self.rng.choice([None, None, 1, 2, 4]),
        }

    def _delete(self, *_: Any) -> dict[str, Any]:
        return {"keys": [self.rng.choice(self.keys) for _ in range(self.rng.choice([1, 1, 2, 4]))]}

    def _delete_group(self, *_: Any) -> dict[str, Any]:
        return {"group": self.rng.choice([*self.groups, "none such"])}

    def _delete_part(self, *_: Any) -> dict[str, Any]:
        return {"key": self.rng.choice(self.keys), "part": self.rng.choice(_PARTS)}

    def _of_group(self, *_: Any) -> dict[str, Any]:
        return {"key": self.rng.choice(self.keys), "group": self.rng.choice([*self.groups, "g"])}

    def _window(self, *_: Any) -> dict[str, Any]:
        return {"window": self.rng.choice(self.windows)}

    def _pairs_with(self, *_: Any) -> dict[str, Any]:
        return {"contents": self.rng.choices(self.contents, k=4)}

    def _dismiss(self, *_: Any) -> dict[str, Any]:
        a, b = self.rng.sample([*range(301, self.fresh + 1), *self.keys], 2)
        return {"a": a, "b": None if self.rng.random() < 0.3 else b, "back": self.rng.random() < 0.35}

    def _allow(self, *_: Any) -> dict[str, Any]:
        key = self.rng.choice([None, *self.keys])
        return {"content": self.rng.choice(self.contents), "key": key, "back": self.rng.random() < 0.5}

    def _follow(self, *_: Any) -> dict[str, Any]:
        return {"limit": self.rng.choice([1, 3, 1000])}

    def _update(self, *_: Any) -> dict[str, Any]:
        return {"key": self.rng.choice(self.keys), "expires": self.rng.choice(self.times)}

    def _expire(self, *_: Any) -> dict[str, Any]:
        return {"now": self.rng.choice([None, None, -800, -1500, -5000, 1500, 6000] if "back" not in self.without else [None])}

    def _keep_newest(self, *_: Any) -> dict[str, Any]:
        return {"n": self.rng.choice([0, 2, 3, 5, 8])}

    def _query(self, *_: Any) -> dict[str, Any]:
        return {
            "content": self.rng.choice(self.contents),
            "group": self.rng.choice(self.groups),
            "limit": self.rng.choice([None, None, 0, 1, 2]),
            "share": self.rng.choice(_SHARES),
        }

    def _contains(self, *_: Any) -> dict[str, Any]:
        return {"key": self.rng.choice(self.keys)}

    def _clock(self, *_: Any) -> dict[str, Any]:
        return {"move": self.rng.choice([one for one in _MOVES if one > 0 or "back" not in self.without])}

    def _transaction(self, depth: int, who: int, loading: bool) -> dict[str, Any]:
        operations = self._operations(self.rng.randint(1, 5), depth + 1, who, loading)
        return {"operations": operations, "raises": self.rng.random() < 0.45}

    def _sql(self, depth: int, who: int, loading: bool) -> dict[str, Any]:
        goes_back = self.rng.random() < 0.3 and "rollback" not in self.without
        then = self._operations(self.rng.randint(1, 3), depth + 1, who) if goes_back else []
        operations = self._operations(self.rng.randint(1, 5), depth + 1, who)
        if self.rng.random() < 0.3 and "rebuild" not in self.without:
            operations.append(("rebuild", who, self._rebuild()))
        return {
            "operations": operations,
            "then": then,
            "savepoint": self.rng.random() < 0.5,
            "end": self.rng.choice(["commit", "rollback"] if "rollback" not in self.without else ["commit"]),
        }

    def _pinned(self, depth: int, who: int, loading: bool) -> dict[str, Any]:
        return {"operations": self._operations(self.rng.randint(1, 4), depth + 1, 1 - who)}

    def _rebuild(self, *_: Any) -> dict[str, Any]:
        return {"to": self.rng.choice([0, 0, 1, 2, 3])}

    def _check(self, *_: Any) -> dict[str, Any]:
        return {"repair": self.rng.random() < 0.5}

    def _reopen(self, *_: Any) -> dict[str, Any]:
        return {}


def make(plan: str, seed: int | str, without: Iterable[str] = ()) -> History:
    """The history of a seed."""
    return Maker(seed, plan, without).history()


# ---- shrinking -------------------------------------------------------------------------------------------------------------


def difference(history: History, folder: Path) -> Difference | None:
    """What playing it finds."""
    try:
        play(history, folder)
    except Difference as error:
        return error
    return None


def shrunk(history: History, folder: Path) -> History:
    """The same difference with fewer operations: without all that can be left out, half of them, a quarter, ... at a time."""
    first = difference(history, folder)
    length = len(history.operations)
    while first is not None and length > 0:
        before = history
        for start in reversed(range(0, len(history.operations), length)):  # what comes after the difference goes first
            left = [*history.operations[:start], *history.operations[start + length :]]
            error = difference(history._replace(operations=left), folder)
            if error is not None and error.kind == first.kind:
                history = history._replace(operations=left)
        length = length // 2 if history == before else min(length, len(history.operations))
    return history


def printed(history: History) -> str:
    """As a literal, one operation a line."""
    lines = "".join(f"        {pformat(one, width=150, compact=True, sort_dicts=False)},\n" for one in history.operations)
    head = ", ".join(repr(one) for one in history[:4])
    return f"History(\n    {head},\n    [\n{lines}    ],\n    {history.window!r},\n)"
