"""A person looks at the near-duplicates of an index, and another database follows what comes of it.

    python review.py articles.db review.db

articles.db is an index that stores texts. Its pairs are shown one by one, those nearest to the threshold first: `d` says that the
two are duplicates, `n` that they are not, and anything else ends the review. What was said is not asked again. review.db is the
application's own database, by Python's sqlite3: it has the pairs that were confirmed, and a table of the index's keys with the
numbers of their clusters, which follows what has changed. Without arguments the script shows itself.
"""

from __future__ import annotations

import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from neardup_db import Index, MinHash, MismatchError, Pair

TABLES = """
CREATE TABLE IF NOT EXISTS confirmed (key_a ANY NOT NULL, key_b ANY NOT NULL, PRIMARY KEY (key_a, key_b));
CREATE TABLE IF NOT EXISTS mirror (key ANY PRIMARY KEY, cluster INTEGER);
CREATE TABLE IF NOT EXISTS follows (token TEXT NOT NULL);
"""

MOST = 1000
"""Pairs that are looked at together: those nearest to the threshold of so many come first."""


def open_pairs(index: Index, own: sqlite3.Connection) -> Iterator[Pair]:
    """The pairs of which nobody has said anything; dismissed ones are none any more."""
    known = set(own.execute("SELECT key_a, key_b FROM confirmed"))
    pairs = (pair for pair in index.pairs() if (pair.key_a, pair.key_b) not in known)
    while some := [pair for _, pair in zip(range(MOST), pairs, strict=False)]:
        yield from sorted(some, key=lambda pair: pair.similarity)


def review(index: Index, own: sqlite3.Connection, ask: Callable[[str, str, float], str]) -> dict[str, int]:
    """Ask about each open pair until the answer is neither `d` nor `n`; returns how often each was said."""
    counts = {"duplicates": 0, "not": 0}
    for pair in open_pairs(index, own):
        texts = [document.text if document else None for document in index.get_many([pair.key_a, pair.key_b])]
        if None in texts:  # deleted meanwhile
            continue
        answer = ask(str(texts[0]), str(texts[1]), pair.similarity)
        if answer == "d":
            with own:
                own.execute("INSERT OR IGNORE INTO confirmed VALUES (?, ?)", (pair.key_a, pair.key_b))
            counts["duplicates"] += 1
        elif answer == "n":
            index.dismiss(pair.key_a, pair.key_b)
            counts["not"] += 1
        else:
            break
    return counts


def follow(index: Index, own: sqlite3.Connection) -> int:
    """Bring `mirror` up to date; returns how many rows changed. Each page is applied with its token in one transaction, so that
    a crash leaves a state from which the next call goes on."""
    changed = 0
    row = own.execute("SELECT token FROM follows").fetchone()
    token = row and row[0]
    while True:
        try:
            page = index.changes(token)
        except MismatchError:  # the index was rebuilt, or too much has happened since
            token = None
            with own:
                own.execute("DELETE FROM mirror")
                own.execute("DELETE FROM follows")
            continue
        with own:
            own.executemany("DELETE FROM mirror WHERE key = ?", ((key,) for key in page.removed))
            own.executemany("INSERT OR REPLACE INTO mirror (key) VALUES (?)", ((key,) for key in page.added))
            own.executemany("UPDATE mirror SET cluster = ? WHERE key = ?", ((number, key) for key, number in page.clusters))
            own.execute("DELETE FROM follows")
            own.execute("INSERT INTO follows VALUES (?)", (page.token,))
        changed += len(page.removed) + len(page.added) + len(page.clusters)
        token = page.token
        if not page.more:
            return changed


def at_terminal(text_a: str, text_b: str, similarity: float) -> str:
    """Show a pair and read the answer."""
    print(f"\n{similarity:.2f}\n  {text_a}\n  {text_b}")
    try:
        return input("duplicates (d), not (n), end (anything else): ").strip()
    except EOFError:
        return ""


def show() -> None:
    """A review of three reports: two are the same story, one only looks like it."""
    report = "The weekly report of the harbour of {} says that {} ships came in, and that the weather was fair on all seven days"
    with tempfile.TemporaryDirectory() as folder:
        own = sqlite3.connect(Path(folder, "review.db"))
        own.executescript(TABLES)
        with Index(Path(folder, "articles.db"), MinHash(threshold=0.5), store_text=True) as index:
            index.add("north", report.format("Northby", "twelve"))
            index.add("north again", report.format("Northby", "twelve") + "!")
            index.add("south", report.format("Southby", "thirty"))
            print(follow(index, own), "rows to begin with")
            print(review(index, own, lambda a, b, _: "d" if ("Northby" in a) == ("Northby" in b) else "n"))
            print(follow(index, own), "row changed")
            print(own.execute("SELECT key, cluster IS NOT NULL FROM mirror ORDER BY key").fetchall())
        own.close()


def main() -> None:
    """Review an index at the terminal."""
    own = sqlite3.connect(sys.argv[2])
    own.executescript(TABLES)
    with Index(sys.argv[1]) as index:
        print(review(index, own, at_terminal))
        print(follow(index, own), "changes followed")
    own.close()


if __name__ == "__main__":
    if len(sys.argv) == 3:
        main()
    else:
        show()
