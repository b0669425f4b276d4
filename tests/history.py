"""What was so at which time, from the reports of processes.py; and whether each answer was true then."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from crash_writer import Operation
from processes import effects
from support import components
from verdicts import STATES, Verdict, Verdicts, alike

NEVER = 1 << 63
"""A time after all others."""


@dataclass
class Done:
    """An operation of a process. `ended` of one that was killed in it is when the process was dead."""

    process: str
    begun: int
    file: str
    operation: Operation
    ended: int = NEVER
    certain: bool = False
    answer: Any = None
    raised: list[str] | None = None

    def __str__(self) -> str:
        return f"{self.process}: {str(self.operation)[:200]} -> {self.raised or str(self.answer)[:300]}"


@dataclass
class Change:
    """What a text, or a state, became between two times; perhaps, if not `certain`."""

    begun: int
    ended: int
    value: Any
    certain: bool


@dataclass
class Line:
    """What one thing was, one change after the other, of which those of several processes may overlap."""

    changes: list[Change] = field(default_factory=list)

    def values(self, begun: int, ended: int) -> list[Any]:
        """All that it may have been in a time."""
        sure = max((one.begun for one in self.changes if one.certain and one.ended < begun), default=-1)
        return [one.value for one in self.changes if one.begun <= ended and one.ended >= sure]

    def changed(self, begun: int, ended: int) -> bool:
        """Whether something of it may have changed in a time."""
        return any(one.begun <= ended and one.ended >= begun for one in self.changes)

    def settled(self, begun: int, ended: int) -> bool:
        """Whether it is certain, and stayed as it was in a time."""
        return not self.changed(begun, ended) and all(one.certain for one in self.changes)


class History:
    """All that is known of two files in one round, and what is wrong with it."""

    def __init__(self, verdicts: Verdicts, held: dict[str, dict[str, str]], states: dict[str, int]) -> None:
        self.verdicts = verdicts
        self.done: list[Done] = []
        self.faults: list[str] = []
        self.texts = {file: {key: Line([Change(0, 0, text, True)]) for key, text in held[file].items()} for file in held}
        self.states = {file: Line([Change(0, 0, state, True)]) for file, state in states.items()}
        self.path, self.second = held

    def add(self, done: list[Done]) -> None:
        """The report of a process that is dead."""
        self.done += done
        for one in done:
            if one.operation[0] == "rebuild" and one.raised is None:
                self.states[one.file].changes.append(Change(one.begun, one.ended, one.operation[1], one.certain))
            for step in effects(one.operation, one.answer) if one.raised is None else ():
                for key, text in step.items():
                    line = self.texts[one.file].setdefault(key, Line([Change(0, 0, None, True)]))
                    line.changes.append(Change(one.begun, one.ended, text, one.certain))

    # ---- what was so -------------------------------------------------------------------------------------------------

    def settled(self, file: str, one: Done) -> dict[str, str]:
        """Documents that were there all the time."""
        found = {}
        for key, line in self.texts[file].items():
            if line.settled(one.begun, one.ended):
                (text,) = set(line.values(one.begun, one.ended))
                if text is not None:
                    found[key] = text
        return found

    def possible(self, file: str, key: str, one: Done) -> list[str]:
        """The texts that a key may have had."""
        line = self.texts[file].get(key)
        return [] if line is None else [text for text in line.values(one.begun, one.ended) if text is not None]

    # ---- the end of a round ------------------------------------------------------------------------------------------

    def require_all(self, held: dict[str, str]) -> None:
        """What is there now is what was acknowledged, and of what was under way all or nothing of each transaction."""
        for key, line in self.texts[self.path].items():
            if held.get(key) not in line.values(NEVER - 2, NEVER - 1):
                self.faults.append(f"{key!r} is {held.get(key)!r}, and may be {line.values(NEVER - 2, NEVER - 1)}")
        for key in held.keys() - self.texts[self.path].keys():
            if "by hand" not in key:
                self.faults.append(f"{key!r} is there, and nobody has added it")
        for one in self.done:
            if not one.certain:
                steps = effects(one.operation, None)
                whole = [all(held.get(key) == text for key, text in step.items()) for step in steps]
                none = [all(held.get(key) != text for key, text in step.items() if text is not None) for step in steps]
                if not all(a or b for a, b in zip(whole, none, strict=True)) and one.operation[0] == "many":
                    self.faults.append(f"half of a transaction is there: {one}")
                if whole != sorted(whole, reverse=True):
                    self.faults.append(f"a later transaction without an earlier one: {one}")

    # ---- answers -----------------------------------------------------------------------------------------------------

    def judge(self) -> None:
        """All answers that were given; errors first, from which wrong answers may come."""
        for one in sorted(self.done, key=lambda one: one.raised is None):
            if one.certain:
                problem = self._problem(one)
                if problem:
                    states = self.states[one.file].values(one.begun, one.ended)
                    self.faults.append(f"{problem}; states {states}: {one}")

    def _problem(self, one: Done) -> str | None:
        name = one.operation[1] if one.operation[0] == "held" else one.operation[0]
        if one.raised is not None:
            return self._problem_of_error(one, name)
        if name == "len":
            least = len(self.settled(one.file, one))
            most = sum(bool(self.possible(one.file, key, one)) for key in self.texts[one.file]) + self._by_hand(one)
            return None if least <= one.answer <= most else f"not from {least} to {most}"
        if name == "iter":
            return self._problem_of_keys(one)
        if name == "get":
            settled = self.settled(one.file, one)
            for key, text in zip(one.operation[1], one.answer, strict=True):
                if text not in (self.possible(one.file, key, one) if text is not None else [None]):
                    return f"{key!r} was never {text!r} then"
                if text is None and key in settled:
                    return f"{key!r} was there"
            return None
        if name == "if-new":
            return self._under_one_state(one, lambda state: self._matches(one, state, one.operation[2], one.answer, 10, own=True))
        if name == "query":
            text, limit = one.operation[1:]
            return self._under_one_state(one, lambda state: self._matches(one, state, text, one.answer, limit))
        if name == "query_many":
            asked = list(zip(one.operation[1], one.answer, strict=True))

            def problem(state: int) -> str | None:
                return next(filter(None, (self._matches(one, state, text, found, None) for text, found in asked)), None)

            return self._under_one_state(one, problem)
        if name == "pairs":
            return self._under_one_state(one, lambda state: self._pairs(one, state, True))
        if name == "pairs with":
            return self._pairs_with(one, True)
        if name == "clusters":
            return self._under_one_state(one, lambda state: self._clusters(one, state))
        return None

    def _by_hand(self, one: Done) -> int:
        """Documents that rebuilders add and take away again."""
        return sum("by hand" in str(key) for key in self.texts[one.file])

    def _rebuilt(self, one: Done, *files: str) -> bool:
        return any(self.states[file].changed(one.begun, one.ended) for file in files or [one.file])

    def _problem_of_error(self, one: Done, name: str) -> str | None:
        kind, message = one.raised  # type: ignore[misc]
        if name in ("pairs", "pairs with") and kind == "MismatchError" and "rebuilt" in message:
            files = [self.path, self.second] if name == "pairs with" else [self.path]
            if not self._rebuilt(one, *files):
                return "nothing was rebuilt"
            if one.answer is None:
                return None
            if name == "pairs":
                return self._under_one_state(one, lambda state: self._pairs(one, state, False))
            return self._pairs_with(one, False)
        if name == "pairs with" and kind == "ParameterError" and "cannot be compared" in message:
            return "they could be compared" if all(a == b for a, b in self._kinds(one)) else None
        return "an error that nobody should see"

    def _under_one_state(self, one: Done, problem: Any) -> str | None:
        problems = []
        for state in dict.fromkeys(self.states[one.file].values(one.begun, one.ended)):
            problems.append(problem(state))
            if problems[-1] is None:
                return None
        return "; ".join(map(str, problems))

    def _matches(self, one: Done, state: int, text: str, found: Any, limit: int | None, own: bool = False) -> str | None:
        """own: by an operation that itself adds the text."""
        keys = [key for key, _, _ in found]
        if len(set(keys)) < len(keys) or [-row[1] for row in found] != sorted(-row[1] for row in found):
            return "twice, or in another order"
        for key, similarity, distance in found:
            verdict = Verdict(similarity, distance)
            if not any(alike(self.verdicts.of(state, text, its), verdict) for its in self.possible(one.file, key, one)):
                return f"state {state}: {key!r} is no such match"
        if limit is None or (len(found) < limit and not own):
            for key, its in self.settled(one.file, one).items():
                if key not in keys and self.verdicts.of(state, text, its) is not None:
                    return f"state {state}: {key!r} is not found"
        return None

    def _problem_of_keys(self, one: Done) -> str | None:
        counted: dict[str, int] = {}
        for key in one.answer:
            counted[key] = counted.get(key, 0) + 1
            if not self.possible(one.file, key, one) and "by hand" not in key:
                return f"{key!r} was not there"
        for key in self.settled(one.file, one):
            if counted.get(key) != 1:
                return f"{key!r} comes {counted.get(key, 0)} times"
        return None

    def _pairs(self, one: Done, state: int, complete: bool) -> str | None:
        found = [((a, b), Verdict(similarity, distance)) for a, b, similarity, distance in one.answer]
        for (a, b), verdict in found:
            if not self._may_match(state, verdict, self.possible(one.file, a, one), self.possible(one.file, b, one)):
                return f"state {state}: {a!r} and {b!r} are no such pair, {verdict}"
        settled = self.settled(one.file, one)
        return self._lacking(state, [pair for pair, _ in found], itertools.combinations(settled.items(), 2), complete)

    def _may_match(self, state: int, verdict: Verdict, of_a: Iterable[str], of_b: Iterable[str]) -> bool:
        return any(alike(self.verdicts.of(state, x, y), verdict) for x in of_a for y in of_b)

    def _lacking(self, state: int, pairs: list[Any], settled: Iterable[Any], complete: bool) -> str | None:
        counted: dict[frozenset[str], int] = {}
        for pair in pairs:
            counted[frozenset(pair)] = counted.get(frozenset(pair), 0) + 1
        for (a, x), (b, y) in settled:
            count = counted.get(frozenset((a, b)), 0)
            if count > 1 or (complete and not count and self.verdicts.of(state, x, y) is not None):
                return f"state {state}: {a!r} and {b!r} come {count} times"
        return None

    def _kinds(self, one: Done) -> Iterator[tuple[str, str]]:
        for mine in self.states[self.path].values(one.begun, one.ended):
            for theirs in self.states[self.second].values(one.begun, one.ended):
                yield STATES[mine].kind, STATES[theirs].kind

    def _pairs_with(self, one: Done, complete: bool) -> str | None:
        if all(a != b for a, b in self._kinds(one)):
            return "they cannot be compared" if complete or one.answer else None

        def problem(state: int) -> str | None:
            for a, b, similarity, distance in one.answer:
                mine, theirs = self.possible(self.path, a, one), self.possible(self.second, b, one)
                if not self._may_match(state, Verdict(similarity, distance), mine, theirs):
                    return f"state {state}: {a!r} and {b!r} are no such pair"
            both = itertools.product(self.settled(self.path, one).items(), self.settled(self.second, one).items())
            return self._lacking(state, [row[:2] for row in one.answer], both, complete)

        return self._under_one_state(one, problem)

    def _clusters(self, one: Done, state: int) -> str | None:
        of = {key: number for number, keys in enumerate(one.answer) for key in keys}
        if len(of) < sum(map(len, one.answer)):
            return "a key in two clusters"
        for keys in one.answer:
            texts = {key: self.possible(one.file, key, one) for key in keys}
            edges = {
                (a, b)
                for a, b in itertools.combinations(keys, 2)
                if any(self.verdicts.of(state, x, y) is not None for x in texts[a] for y in texts[b])
            }
            if components(edges) != {frozenset(keys)}:
                return f"state {state}: nothing connects {keys}"
        for (a, x), (b, y) in itertools.combinations(self.settled(one.file, one).items(), 2):
            if of.get(a, -1) != of.get(b, -2) and self.verdicts.of(state, x, y) is not None:
                return f"state {state}: {a!r} and {b!r} are in no cluster together"
        return None
