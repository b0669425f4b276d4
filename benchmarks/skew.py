"""A fifth of the messages are edits of twenty templates: adding, queries, clusters, expiry, beside the same without templates.

    python benchmarks/skew.py [--messages 1000000] [--check 20000] [--folder DIR] [--json FILE] > RESULT.md

Messages have about 30 made-up words. An edit is a template with one to three words replaced, each number as often; so most are
below a similarity of 0.8 with their template, and the report says how many. Each template is a message too. The control has as
many messages of the same lengths, all of random words. Every second message expires. --check: messages of the runs in which
clusters are compared with a union-find over all pairs, found without the index: for BottomK by brute force over the sets of
shingles (a message has fewer than 128), for MinHash from its signatures and bands by numpy.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from corpus import VOCABULARY, Language, jaccard, shingle_set
from exact import components, exact_pairs, shingle_sets
from measure import (
    Clock,
    each,
    folder_bytes,
    in_child,
    machine,
    machine_lines,
    note,
    one_thread,
    peak_memory_mb,
    percentiles,
    read_jsonl,
    table,
    timed,
)

from neardup_db import BottomK, Index, MinHash
from neardup_db.compute import shingles
from neardup_db.schemes.base import Scheme

TEMPLATES, EDITED = 20, 0.2
WORDS, SPREAD, FEWEST, MOST = 30, 6, 8, 60
THRESHOLD = 0.8
EXPIRES = 4_000_000_000  # Unix seconds; every second message
QUERIES, HOT_QUERIES, ADDED = 1000, 300, 2000
LIMIT = 10
CHECKED: dict[str, Scheme] = {"MinHash()": MinHash(threshold=THRESHOLD), "BottomK()": BottomK(threshold=THRESHOLD)}

Clusters = set[frozenset[int]]


# ---- messages ----------------------------------------------------------------------------------------------------------


class Messages:
    """`count` messages as (words, template or -1); the same lengths with templates and without (`skewed`)."""

    def __init__(self, count: int, skewed: bool, seed: int = 1) -> None:
        self.count, self.skewed = count, skewed
        self.language = Language()
        fixed = np.random.default_rng(0)
        self.templates = [self.language.draw(fixed, length) for length in self._lengths(fixed, TEMPLATES).tolist()]
        self._random = np.random.default_rng(seed)

    @staticmethod
    def _lengths(random: np.random.Generator, count: int) -> npt.NDArray[np.int64]:
        return np.clip(random.normal(WORDS, SPREAD, count), FEWEST, MOST).astype(np.int64)

    def __iter__(self) -> Iterator[tuple[npt.NDArray[np.int64], int]]:
        random = self._random
        unedited = set(range(TEMPLATES))
        chosen = np.where(random.random(self.count) < EDITED, random.integers(0, TEMPLATES, self.count), -1)
        lengths = self._lengths(random, self.count)
        for template, length in zip(chosen.tolist(), lengths.tolist(), strict=True):
            if template < 0:
                yield self.language.draw(random, length), -1
            elif not self.skewed:
                yield self.language.draw(random, len(self.templates[template])), -1
            elif template in unedited:
                unedited.remove(template)
                yield self.templates[template], template
            else:
                yield self._edit(self.templates[template]), template

    def _edit(self, template: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        words = template.copy()
        places = self._random.choice(len(words), self._random.integers(1, 4), replace=False)
        words[places] = self._random.integers(0, VOCABULARY, len(places))
        return words


def write(path: Path, count: int, skewed: bool) -> None:
    """The messages as JSON lines."""
    made = Messages(count, skewed)
    with path.open("w", encoding="ascii") as file:
        for number, (words, _) in enumerate(made):
            file.write(f'{{"id": "{number}", "text": "{made.language.text(words)}"}}\n')


def new_messages(count: int, hot: bool) -> list[str]:
    """Messages that are not among the written ones: edits of templates, or of random words."""
    made = Messages(10 * count, True, seed=2)
    return [made.language.text(words) for words, template in made if (template >= 0) == hot][:count]


def similarities() -> dict[str, list[float]]:
    """Shares of edits by similarity with their template, and of pairs of edits of one template with each other."""
    made = Messages(20_000, True)
    edits = [(shingle_set(words), template) for words, template in made if template >= 0]
    own = [shingle_set(template) for template in made.templates]
    families: dict[int, list[npt.NDArray[np.int64]]] = {}
    for its, template in edits:
        families.setdefault(template, []).append(its)
    two = [jaccard(a, b) for family in families.values() for a, b in zip(family, family[1:], strict=False)]
    return {"with the template": shares([jaccard(its, own[template]) for its, template in edits]), "with each other": shares(two)}


BINS = (0.0, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0001)


def shares(values: Sequence[float]) -> list[float]:
    """Of the values, in each of BINS."""
    return [float(result) for result in np.histogram(values, BINS)[0] / len(values)]


# ---- speed -------------------------------------------------------------------------------------------------------------


def records(path: str) -> Iterator[dict[str, Any]]:
    """The messages, every second with an end."""
    for number, (_, text) in enumerate(read_jsonl(Path(path))):
        yield {"key": number, "text": text, "expires_at": EXPIRES if number % 2 else None}


def run(path: str, count: int, skewed: bool, folder: str) -> dict[str, Any]:
    """One kind of messages: add, ask, cluster, add one by one, expire, cluster again."""
    row: dict[str, Any] = {"skewed": skewed, "messages": count}
    database = Path(folder) / "index.db"
    with Index(database, MinHash(threshold=THRESHOLD, expected=count), durability="normal") as index:
        with Clock() as clock:
            report = index.add_many(records(path))
        row |= {"seconds": clock.seconds, "cpu_seconds": clock.cpu_seconds, "per_s": report.added / clock.seconds}
        row |= {"matched": report.matched, "add_peak_mb": peak_memory_mb(), "file_bytes": folder_bytes(folder)}
        row["query_us"] = ask(index)
        row |= clusters_of(index, "clusters")
        row["one_by_one"] = one_by_one(index, count, skewed)
        before = len(index)
        with Clock() as clock:
            expired = index.expire(now=EXPIRES + 1)
        row |= {"expired": expired, "expired_per_s": expired / clock.seconds, "left": before - expired}
        row |= clusters_of(index, "clusters_after")
        row["peak_mb"] = peak_memory_mb()
    return row


def ask(index: Index) -> dict[str, tuple[float, float]]:
    """p50 and p99 in microseconds."""
    results = {}
    for name, texts in (("edits", new_messages(HOT_QUERIES, True)), ("others", new_messages(QUERIES, False))):
        for any_of_them in (False, True):
            label = f"{name}, limit={LIMIT}" + (", any=True" if any_of_them else "")
            results[label] = timed(lambda i, t=texts, a=any_of_them: index.query(t[i], limit=LIMIT, any=a), len(texts))  # type: ignore[misc]
    return results


def clusters_of(index: Index, name: str) -> dict[str, Any]:
    """How long `clusters` takes, how many there are, the largest."""
    with Clock() as clock:
        found = index.clusters()
    return {name: len(found), f"{name}_seconds": clock.seconds, f"{name}_largest": len(found[0]) if found else 0}


def one_by_one(index: Index, count: int, skewed: bool) -> dict[str, Any]:
    """More messages of the same kind, added one by one."""
    made = Messages(ADDED, skewed, seed=3)
    new = [(made.language.text(words), template) for words, template in made]
    with Clock() as clock:
        times = each(lambda i: index.add(count + i, new[i][0]), len(new))
    split = {
        name: percentiles([time for time, (_, template) in zip(times, new, strict=True) if (template >= 0) == hot])
        for name, hot in (("edits", True), ("others", False))
        if skewed or not hot
    }
    return {"per_s": len(new) / clock.seconds, "cpu_seconds": clock.cpu_seconds, "us": split}


# ---- clusters, exactly ------------------------------------------------------------------------------------------------


def check(path: str, name: str, record_matches: bool) -> dict[str, Any]:
    """Are the clusters those of all pairs, before and after half of the messages expired?"""
    texts = [text for _, text in read_jsonl(Path(path))]
    with Index(":memory:", CHECKED[name], record_matches=record_matches) as index:
        pairs = all_pairs(index.scheme, texts)
        index.add_many(records(path))
        before = clusters_in(index)
        listed = None if record_matches else {(int(pair.key_a), int(pair.key_b)) for pair in index.pairs()}
        index.expire(now=EXPIRES + 1)
        after = clusters_in(index)
    survivors = [(i, j) for i, j in pairs if i % 2 == 0 and j % 2 == 0]
    return {
        "scheme": name,
        "record_matches": record_matches,
        "messages": len(texts),
        "pairs": len(pairs),
        "pairs_equal": None if listed is None else listed == pairs,
        "clusters": len(before),
        "largest": max(map(len, before), default=0),
        "equal": before == true_clusters(len(texts), pairs),
        "clusters_after": len(after),
        "equal_after": after == true_clusters(len(texts), survivors),
    }


def clusters_in(index: Index) -> Clusters:
    """The keys of each cluster."""
    return {frozenset(int(key) for key in cluster.keys) for cluster in index.clusters()}


def true_clusters(count: int, pairs: Iterable[tuple[int, int]]) -> Clusters:
    """Connected components with at least two members."""
    return {frozenset(members) for members in components(count, pairs)}


def all_pairs(scheme: Scheme, texts: Sequence[str]) -> set[tuple[int, int]]:
    """The pairs that the scheme promises, found without the index."""
    if isinstance(scheme, MinHash):
        return band_pairs(scheme, texts)
    return set(exact_pairs(shingle_sets(texts, shingles), THRESHOLD))


def band_pairs(scheme: MinHash, texts: Sequence[str]) -> set[tuple[int, int]]:
    """The pairs that share all slots of a band and at least the threshold of all slots."""
    signatures = scheme.fingerprints(texts)
    count, candidates = len(texts), [np.empty(0, np.int64)]
    for band in range(scheme.bands or 0):
        slots = signatures[:, band * (scheme.rows or 0) : (band + 1) * (scheme.rows or 0)]
        _, bucket = np.unique(slots, axis=0, return_inverse=True)
        order = np.argsort(bucket.ravel(), kind="stable")
        for members in np.split(order, np.flatnonzero(np.diff(bucket.ravel()[order])) + 1):
            if len(members) > 1:
                i, j = np.triu_indices(len(members), 1)
                candidates.append(members[i] * count + members[j])
    both = np.unique(np.concatenate(candidates))
    found = set()
    for part in np.array_split(both, len(both) // 100_000 + 1):
        i, j = part // count, part % count
        same = (signatures[i] == signatures[j]).sum(axis=1) / signatures.shape[1] >= THRESHOLD
        found |= set(zip(i[same].tolist(), j[same].tolist(), strict=True))
    return found


# ---- all of it ---------------------------------------------------------------------------------------------------------


def markdown(results: dict[str, Any]) -> str:
    """The report."""
    runs, names = results["runs"], ("20 templates", "control")
    facts: list[tuple[str, list[Any]]] = [
        ("add_many, messages/s", [round(result["per_s"]) for result in runs]),
        ("add_many, CPU s", [result["cpu_seconds"] for result in runs]),
        ("peak MB while adding", [round(result["add_peak_mb"]) for result in runs]),
        ("bytes a message in the file", [round(result["file_bytes"] / result["messages"]) for result in runs]),
        ("matched", [result["matched"] for result in runs]),
        (f"one by one ({ADDED}), messages/s", [round(result["one_by_one"]["per_s"]) for result in runs]),
    ]
    for kind in ("edits", "others"):
        facts.append((f"one by one, {kind}: p50 / p99 us", [both(result["one_by_one"]["us"].get(kind)) for result in runs]))
    for label in runs[0]["query_us"]:
        facts.append((f"query of new {label}: p50 / p99 us", [both(result["query_us"][label]) for result in runs]))
    for label, name in (("clusters", "clusters"), ("clusters after expiry", "clusters_after")):
        facts.append((f"{label}: number / largest", [f"{result[name]:,} / {result[name + '_largest']:,}" for result in runs]))
        facts.append((f"{label}: seconds", [result[f"{name}_seconds"] for result in runs]))
    facts.append(("expired", [result["expired"] for result in runs]))
    facts.append(("expired/s", [round(result["expired_per_s"]) for result in runs]))
    facts.append(("peak MB of everything", [round(result["peak_mb"]) for result in runs]))
    labels = [f"{low} to {min(high, 1.0)}" for low, high in zip(BINS, BINS[1:], strict=False)]
    tables = [[label, *(row[i] for row in results["similarities"].values())] for i, label in enumerate(labels)]
    checked = [tuple(chr(8211) if value is None else value for value in row.values()) for row in results["checks"]]
    header = ("scheme", "matches recorded", "messages", "pairs", "`pairs` equal", "clusters", "largest", "equal")
    rate = runs[1]["per_s"] / runs[0]["per_s"]
    return "\n\n".join(
        (
            "# Skew",
            machine_lines(results["machine"]),
            f"{runs[0]['messages']:,} messages of about {WORDS} words, {EDITED:.0%} of them edits of {TEMPLATES} templates, in a "
            "file, MinHash(threshold=0.8), matches recorded, durability normal.",
            table(("", *names), [(label, *values) for label, values in facts]),
            f"The control is added {rate:.2f} times as fast.",
            "## How similar the edits are\n\nShares, of 20,000 messages' edits.",
            table(("Jaccard similarity", *results["similarities"]), tables),
            "## Clusters against a union-find over all pairs",
            table((*header, "after expiry", "equal"), checked),
        )
    )


def both(times: tuple[float, float] | None) -> str:
    """p50 / p99."""
    return chr(8211) if times is None else f"{times[0]:,.0f} / {times[1]:,.0f}"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--check", type=int, default=20_000)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    one_thread()
    results: dict[str, Any] = {"machine": machine(), "similarities": in_child(similarities), "checks": [], "runs": []}
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path = Path(folder) / "check.jsonl"
        in_child(write, path, options.check, True)
        for name in CHECKED:
            for record_matches in (True, False):
                results["checks"].append(in_child(check, str(path), name, record_matches))
                note(f"clusters of {name}: {results['checks'][-1]}")
    for skewed in (True, False):
        with tempfile.TemporaryDirectory(dir=options.folder) as folder, tempfile.TemporaryDirectory(dir=options.folder) as own:
            path = Path(folder) / "messages.jsonl"
            in_child(write, path, options.messages, skewed)
            results["runs"].append(in_child(run, str(path), options.messages, skewed, own))
            note(f"skewed={skewed}: {results['runs'][-1]['per_s']:.0f} messages/s")
    print(markdown(results))
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
