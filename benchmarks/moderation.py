"""A moderator's hour on 20,000 chat messages: clicks to be rid of false clusters, harmless messages held back, spam found.

python benchmarks/moderation.py [--seed 1]; an older package without dismiss(key) and allow runs it too, and shows what it lacks.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator

from neardup_db import Index, MinHash, TextRules

SHORT = [
    *("lol", "thanks!", "ok", "haha", "good morning", "gg", "same here", "brb", "👍", "😂😂", "hi all", "nice one"),
    "see you tomorrow",
]
TEMPLATES = [
    "Thanks for your message, we will reply within 24 hours. Your support team",
    "This is an automated reminder: please read the rules of this channel before you post",
    "Your ticket was received and has the number {}. We will come back to you soon",
    "{} has joined the channel. Say hello and have a look at the pinned messages",
]
CAMPAIGNS = [
    "Cheap watches, only today! Order number {} now at www.example.com/{} and save half of the price",
    "I made {} dollars last week from home, ask me how, write to me at {} right now",
    "Free followers for your page, no password needed, visit example.net/{} and enter the code {}",
]
FIRST, SECOND = ("ka", "lo", "mi", "ter", "sun", "bre", "vel", "dor"), ("na", "ri", "tok", "sel", "man", "ve", "lin", "gat")
WORDS = [a + b for a in FIRST for b in SECOND]
HOLD = 3
"""A message that is like so many earlier ones is held back."""


def messages(count: int, rng: random.Random) -> Iterator[tuple[str, str]]:
    """(kind, text): 25 % short ones, 10 % templates, 5 % spam with edits, the rest said once."""
    for _ in range(count):
        kind = rng.choices(("short", "template", "spam", "talk"), (25, 10, 5, 60))[0]
        if kind == "short":
            text = rng.choice(SHORT) + rng.choice(["", "", "!", " :)"])
        elif kind == "template":
            text = rng.choice(TEMPLATES).format(rng.choice(WORDS) + str(rng.randrange(10_000)))
        elif kind == "spam":
            text = rng.choice(CAMPAIGNS).format(rng.randrange(1000), rng.choice(WORDS))
            if rng.random() < 0.5:
                words = text.split()
                words[rng.randrange(len(words))] = rng.choice(WORDS)
                text = " ".join(words)
        else:
            text = " ".join(rng.choices(WORDS, k=rng.randint(4, 25)))
        yield kind, text


def stream(index: Index, sent: list[tuple[str, str]]) -> dict[str, list[int]]:
    """Of each kind how many were sent and how many were held back."""
    counts: dict[str, list[int]] = {}
    with index.transaction():
        for number, (kind, text) in enumerate(sent):
            found = index.query(text, limit=HOLD, any=True)
            index.add(number, text)
            count = counts.setdefault(kind, [0, 0])
            count[0] += 1
            count[1] += len(found) >= HOLD
    return counts


def show(title: str, counts: dict[str, list[int]], seconds: float) -> None:
    harmless = sum(counts[kind][1] for kind in ("short", "template", "talk"))
    total = sum(counts[kind][0] for kind in ("short", "template", "talk"))
    kinds = ", ".join(f"{kind} {held:,} of {sent:,}" for kind, (sent, held) in counts.items())
    print(f"{title}: harmless held back {harmless:,} of {total:,} ({harmless / total:.1%}), {kinds}; {seconds:.1f} s CPU")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=20_000)
    options = parser.parse_args()
    sent = list(messages(options.count, random.Random(options.seed)))
    can_allow = hasattr(Index, "allow")
    rules = {"as it is": TextRules.chars(shingle=3)}
    try:
        rules["min_tokens=12"] = TextRules.chars(shingle=3, min_tokens=12)  # type: ignore[call-arg]
    except TypeError:
        print("no TextRules(min_tokens=) in this version")
    for name, text in rules.items():
        with Index(":memory:", MinHash(threshold=0.6), text=text) as index:
            start = time.process_time()
            show(name, stream(index, sent), time.process_time() - start)
            cluster = max((one for one in index.clusters() if sent[one.keys[0]][0] == "template"), key=lambda one: len(one.keys))
            matched = len(index.matches(cluster.keys[0]))
            start = time.process_time()
            if can_allow:
                pairs = index.dismiss(cluster.keys[0])
                took = time.process_time() - start
                print(f"  out of a cluster of {len(cluster.keys):,}: 1 click, {pairs:,} pairs, {took:.3f} s CPU")
                index.undismiss(cluster.keys[0])
            else:
                print(f"  out of a cluster of {len(cluster.keys):,}: {matched:,} clicks, one a pair")
        if can_allow:
            with Index(":memory:", MinHash(threshold=0.6), text=text) as index:
                start, clicks = time.process_time(), 0
                for template in TEMPLATES:
                    clicks += 1
                    index.allow(template.format("somebody"))
                if name == "as it is":
                    for one in SHORT:
                        clicks += 1
                        index.allow(one)
                show(f"{name}, {clicks} texts allowed", stream(index, sent), time.process_time() - start)


if __name__ == "__main__":
    main()
