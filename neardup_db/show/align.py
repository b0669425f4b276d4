"""The alignment of two sequences: a long common subsequence, found in bounded time.

Items that occur once on either side are anchors (Cohen's patience diff). Between anchors the shortest edit script is sought
(Myers, "An O(ND) difference algorithm and its variations", 1986), within a budget of steps.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterator, Sequence

Block = tuple[int, int, int]
"""Start in the first sequence, start in the second, length."""

Region = tuple[int, int, int, int]
"""Begin and end in the first sequence, begin and end in the second."""

SCANS = 40
"""The search for anchors may read both sequences this many times."""

STEPS = 1_500_000
"""Steps of the search for edit scripts, over all gaps: about a second."""

MOST_EDITS = 1500
"""The longest edit script of one gap."""


class Alignment:
    """Matching blocks of two sequences, in order. `complete`: False if the budget ended the search anywhere.

    >>> from neardup_db.show.align import Alignment
    >>> Alignment("abcxyz", "abcyz").blocks
    [(0, 0, 3), (4, 3, 2)]
    """

    def __init__(self, a: Sequence[Hashable], b: Sequence[Hashable]) -> None:
        self._a, self._b = a, b
        self._steps = STEPS
        self.complete = True
        self.blocks: list[Block] = _joined(sorted(self._search()))

    def _search(self) -> Iterator[Block]:
        scans = SCANS * (len(self._a) + len(self._b)) + 1000
        waiting: list[Region] = [(0, len(self._a), 0, len(self._b))]
        while waiting:
            a0, a1, b0, b1 = waiting.pop()
            head, tail = self._ends(a0, a1, b0, b1)
            yield a0, b0, head
            yield a1 - tail, b1 - tail, tail
            gap = a0 + head, a1 - tail, b0 + head, b1 - tail
            scans -= gap[1] - gap[0] + gap[3] - gap[2]
            if gap[0] == gap[1] or gap[2] == gap[3]:
                continue
            if scans < 0:
                self.complete = False
                continue
            anchors = self._anchors(*gap)
            if anchors:
                starts = [(gap[0], gap[2]), *anchors]
                ends = [*anchors, (gap[1], gap[3])]
                waiting += [(i, k, j, m) for (i, j), (k, m) in zip(starts, ends, strict=True)]
            else:
                yield from self._edits(*gap)

    def _ends(self, a0: int, a1: int, b0: int, b1: int) -> tuple[int, int]:
        """Items that are equal at the beginning, and at the end."""
        a, b = self._a, self._b
        most = min(a1 - a0, b1 - b0)
        head = 0
        while head < most and a[a0 + head] == b[b0 + head]:
            head += 1
        tail = 0
        while tail < most - head and a[a1 - tail - 1] == b[b1 - tail - 1]:
            tail += 1
        return head, tail

    def _anchors(self, a0: int, a1: int, b0: int, b1: int) -> list[tuple[int, int]]:
        """Items that occur once on either side: the longest subsequence that has the same order on both."""
        there = _single(self._b, b0, b1)
        pairs = [(i, there[item]) for item, i in _single(self._a, a0, a1).items() if item in there]
        ends: list[int] = []
        last: list[int] = []
        before: list[int] = []
        for place, (_, j) in enumerate(pairs):
            length = bisect_left(ends, j)
            before.append(last[length - 1] if length else -1)
            if length == len(ends):
                ends.append(j)
                last.append(place)
            else:
                ends[length], last[length] = j, place
        chosen = []
        place = last[-1] if last else -1
        while place >= 0:
            chosen.append(pairs[place])
            place = before[place]
        return chosen[::-1]

    def _edits(self, a0: int, a1: int, b0: int, b1: int) -> list[Block]:
        """Blocks of a shortest edit script; none where it would be too long."""
        a, b = self._a[a0:a1], self._b[b0:b1]
        if set(a).isdisjoint(b):
            return []
        n, m = len(a), len(b)
        reach = [0] * (2 * min(n + m, MOST_EDITS) + 3)  # the furthest x of each diagonal k, at k; negative k count from the end
        trail: list[list[int]] = []
        for edits in range(min(n + m, MOST_EDITS) + 1):
            trail.append(reach[: edits + 2] + reach[-edits - 1 :])
            self._steps -= edits + 1
            if self._steps < 0:
                break
            for k in range(-edits, edits + 1, 2):
                x, _ = _step(reach, edits, k)
                while x < n and x - k < m and a[x] == b[x - k]:
                    x += 1
                reach[k] = x
                if x >= n and x - k >= m:
                    return _walk_back(trail, n, m, a0, b0)
        self.complete = False
        return []


def _step(reach: list[int], edits: int, k: int) -> tuple[int, bool]:
    """The start of diagonal k after one more edit, and whether that edit inserts an item of the second sequence (goes down)."""
    if edits == 0:
        return 0, False
    down = k == -edits or (k != edits and reach[k - 1] < reach[k + 1])
    return (reach[k + 1], True) if down else (reach[k - 1] + 1, False)


def _walk_back(trail: list[list[int]], x: int, y: int, a0: int, b0: int) -> list[Block]:
    """The diagonals of the path that ends at (x, y); trail: the furthest points after each number of edits."""
    blocks = []
    for edits in range(len(trail) - 1, -1, -1):
        k = x - y
        start, down = _step(trail[edits], edits, k)
        blocks.append((a0 + start, b0 + start - k, x - start))
        x, y = (start, start - k - 1) if down else (start - 1, start - k)
    return blocks


def _single(items: Sequence[Hashable], begin: int, end: int) -> dict[Hashable, int]:
    """The place of each item that occurs once."""
    places: dict[Hashable, int] = {}
    for place in range(begin, end):
        places[items[place]] = -1 if items[place] in places else place
    return {item: place for item, place in places.items() if place >= 0}


def _joined(blocks: list[Block]) -> list[Block]:
    joined: list[Block] = []
    for i, j, length in blocks:
        if joined and joined[-1][0] + joined[-1][2] == i and joined[-1][1] + joined[-1][2] == j:
            joined[-1] = (joined[-1][0], joined[-1][1], joined[-1][2] + length)
        elif length:
            joined.append((i, j, length))
    return joined
