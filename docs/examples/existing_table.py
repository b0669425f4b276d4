"""Near-duplicates in a table that an application has had for years, without changing the application.

    python existing_table.py app.db articles --key id --text body

The application writes to its table as it always did, from any language. This script may run beside it as often as one likes: it
takes over what has changed and prints the clusters with the application's own columns. Without arguments it shows itself: the
application is then a program of its own, with Python's sqlite3.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from neardup_db import Index, MinHash, demo

AT_ONCE = 2000
"""Rows in a transaction: the application never waits long."""


def take_over(path: str, table: str, key: str, text: str) -> str:
    """Follow the table, which does nothing where it is followed already, and take over what has changed."""
    with Index(path, MinHash(threshold=0.8), attach=True) as index:
        index.follow(table, key=key, text=text)
        report = index.sync(commit_every=AT_ONCE)
    for problem in report.problems:
        print(f"row {problem.key!r} is left out: {problem.reason}", file=sys.stderr)
    return f"{report.added} added, {report.replaced} replaced, {report.deleted} deleted"


def clusters(path: str, table: str, key: str) -> list[tuple[int, list[tuple[object, ...]]]]:
    """The largest clusters, each with its rows as the application has them."""
    names = [name.replace('"', '""') for name in (table, key)]
    sql = f"""SELECT c.cluster, c.size, a.* FROM neardup_clusters AS c JOIN "{names[0]}" AS a ON a."{names[1]}" = c.member
              ORDER BY c.size DESC, c.cluster, a."{names[1]}" """
    found: dict[int, list[tuple[object, ...]]] = {}
    with Index(path, read_only=True) as index:
        for cluster, _, *row in index.connection.execute(sql):
            found.setdefault(cluster, []).append(tuple(row))
    return [(len(rows), rows) for rows in found.values()]


APPLICATION = """
import json, sqlite3, sys
database = sqlite3.connect(sys.argv[1])
with database:
    for statement, rows in json.load(sys.stdin):
        database.executemany(statement, rows)
"""


def application(path: str, *writes: tuple[str, list[list[object]]]) -> None:
    """What somebody else's program does: it knows nothing of an index."""
    import json

    subprocess.run([sys.executable, "-c", APPLICATION, path], input=json.dumps(writes), text=True, check=True)


def show() -> None:
    """The bundled sample as somebody's table, before and after some writes."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "app.db"))
        rows: list[list[object]] = [[key, text] for key, text in demo.documents()]
        application(path, ("CREATE TABLE articles (id TEXT PRIMARY KEY, body TEXT, views INTEGER DEFAULT 0)", [[]]))
        application(path, ("INSERT INTO articles (id, body) VALUES (?, ?)", rows))
        print(take_over(path, "articles", "id", "body"))
        before = len(clusters(path, "articles", "id"))
        gone: list[list[object]] = [[row[0]] for row in rows[::2]]
        application(path, ("UPDATE articles SET views = views + 1", [[]]), ("DELETE FROM articles WHERE id = ?", gone))
        print(take_over(path, "articles", "id", "body"))
        print(before, "clusters, then", len(clusters(path, "articles", "id")))


if __name__ == "__main__":
    if len(sys.argv) == 1:
        show()
    else:
        parser = argparse.ArgumentParser()
        parser.add_argument("path")
        parser.add_argument("table")
        parser.add_argument("--key", default="id")
        parser.add_argument("--text", default="body")
        given = parser.parse_args()
        print(take_over(given.path, given.table, given.key, given.text))
        for size, members in clusters(given.path, given.table, given.key):
            print(size, *members, sep="\n  ")
