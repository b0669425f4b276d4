"""A process that mangles copies of index files and uses them: python -I tests/hostile.py FOLDER FIRST COUNT FILE ...

Number n of a file is mangled in the same way every time. Each is printed before it is used; the process ends with a traceback
where anything but an error of the package comes out, or memory beyond MEMORY_BYTES is asked for, and by a signal where SQLite
or the C core crash, or where one copy takes longer than SECONDS.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import apsw

from neardup_db import Index, MinHash, NearDupError, load

SECONDS = 60
MEMORY_BYTES = 1 << 30

TEXTS = ["the harbour was full of small boats that morning", "a text that is quite new to all of them", "two words", ""]
KEYS: list[Any] = ["first", "copy", "near", "code0", 42, b"\x00bytes"]
VALUES: list[Any] = [
    None, 0, 1, -1, 7, 2**31, 2**63 - 1, -(2**63), 0.5, float("inf"), "", "text", "1", "[", '["the"]', "minhash", "\0",
    "x" * 10_000, b"", b"\0", b"\xff" * 8, bytes(256), bytes(range(256)), bytes(100_000),
]  # fmt: skip


# ---- mangling ----------------------------------------------------------------------------------------------------------


def mangled(data: bytes, source: random.Random) -> bytes:
    """The bytes of a file, some of them changed: bits, bytes, runs, whole pages, or the end of it."""
    changed = bytearray(data)
    kind = source.randrange(10)
    if kind < 4:
        for _ in range(source.choice((1, 1, 2, 5))):
            changed[source.randrange(len(changed))] ^= 1 << source.randrange(8)
    elif kind < 6:
        for _ in range(source.choice((1, 3, 20))):
            changed[source.randrange(len(changed))] = source.choice((0, 1, 127, 128, 255, source.randrange(256)))
    elif kind == 6:  # the head of a page, where its structure is
        place = 4096 * source.randrange(len(changed) // 4096) + source.randrange(16)
        changed[place] = source.randrange(256)
    elif kind == 7:
        start, size = source.randrange(len(changed)), source.randrange(1, 200)
        changed[start : start + size] = bytes([source.choice((0, 255))]) * len(changed[start : start + size])
    elif kind == 8:
        here, there = (4096 * source.randrange(len(changed) // 4096) for _ in range(2))
        changed[here : here + 4096] = changed[there : there + 4096]
    else:
        del changed[source.randrange(len(changed)) :]
    return bytes(changed)


def spoil(path: Path, source: random.Random) -> None:
    """Put values of any type where the tables forbid them: STRICT and CHECK bind who writes, not who reads."""
    plain = "UPDATE sqlite_schema SET sql = replace(replace(replace(sql, ' STRICT, ', ' '), ') STRICT', ')'), 'NOT NULL', '')"
    kept = _schema(path, plain + " WHERE type = 'table'")
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA ignore_check_constraints = ON")
    names = [row[1] for row in kept if row[0] == "table" and not row[1].startswith("sqlite_")]
    for _ in range(source.choice((1, 1, 3))):
        table = source.choice(names)
        column = source.choice([row[1] for row in connection.execute(f"PRAGMA table_info({table})")])
        value = source.choice(VALUES)
        place = source.randrange(20)
        term = "CAST(x'61ff' AS TEXT)" if source.random() < 0.1 else "?1"
        one = f"SELECT {column} FROM {table} LIMIT 1 OFFSET ?2"
        sql = f"UPDATE OR IGNORE {table} SET {column} = coalesce({term}, ?1) WHERE {column} IN ({one})"
        with contextlib.suppress(apsw.Error):
            connection.execute(sql, (value, place))
    connection.close()
    restore = apsw.Connection(str(path))
    restore.execute("PRAGMA writable_schema = ON")
    restore.executemany("UPDATE sqlite_schema SET sql = ?3 WHERE type = ?1 AND name = ?2", kept)
    restore.close()


def _schema(path: Path, change: str) -> list[tuple[Any, ...]]:
    connection = apsw.Connection(str(path))
    kept = connection.execute("SELECT type, name, sql FROM sqlite_schema").fetchall()
    connection.execute("PRAGMA writable_schema = ON")
    connection.execute(change)
    connection.close()
    return kept


# ---- using ---------------------------------------------------------------------------------------------------------------


def calls(index: Index, source: random.Random) -> Iterator[Callable[[], Any]]:
    """Everything that can be asked of an index and done with it."""
    codes = not index.scheme.takes_text
    contents: list[Any] = [0, 1 << 200, b"\xff" * 32] if codes else TEXTS
    ask = index.query_code if codes else index.query
    add = index.add_code if codes else index.add
    for content in contents:
        yield partial(ask, content)
        yield partial(ask, content, limit=2, any=True)
        yield partial(ask, content, group="other")
        yield partial(index.nearest, content, 5)
    if not codes:
        yield lambda: ask(TEXTS[0], measure="containment")
        yield lambda: index.explain(TEXTS[0])
    for key in KEYS:
        yield partial(index.get, key)
        yield partial(index.matches, key)
        yield partial(index.explain_match, key, "near")
    yield lambda: list(index)
    yield lambda: len(index)
    yield lambda: list(index.pairs())
    yield lambda: index.clusters()
    yield lambda: index.stats()
    yield lambda: index.check()
    yield partial(_merge, index)
    for sql in (
        "SELECT * FROM neardup_documents",
        "SELECT * FROM neardup_matches",
        "SELECT * FROM neardup_clusters",
        "SELECT * FROM neardup_search('neardup', 'the harbour was full of small boats', 0.5, 10)",
        "SELECT neardup_similarity('neardup', a.value, b.value) FROM neardup_fingerprint AS a, neardup_fingerprint AS b",
        "SELECT count(*) FROM neardup_filing('neardup', 0, 1000)",
        "SELECT count(*) FROM neardup_buckets('neardup', 0, 1000, 0)",
        "SELECT count(*) FROM neardup_buckets('neardup', 0, 1000, 1)",
        "SELECT count(*) FROM neardup_code_bucket AS b, neardup_entries(b.entries, 8) AS e",
        "SELECT count(*) FROM neardup_join('neardup', 0, 1000, 0, 0)",
        "SELECT count(*) FROM neardup_fingerprint AS f, neardup_nearest('neardup', f.value, f.group_id, 2)",
    ):
        yield partial(_sql, index, sql)
    changes = [
        lambda: add("new", contents[0]),
        lambda: add("first", contents[1], if_exists="replace"),
        lambda: index.add_if_new("newer", contents[1]) if not codes else None,
        lambda: index.add_many([(f"many {n}", text) for n, text in enumerate(TEXTS)]) if not codes else None,
        lambda: index.add_code_if_new("newest", contents[1]) if codes else None,
        lambda: index.update("first", metadata={"a": 1}),
        lambda: index.delete_many(KEYS),
        lambda: index.expire(5_000_000_000),
        lambda: index.keep_newest(3),
        lambda: index.rebuild(),
        lambda: index.compact(),
        lambda: index.check(repair=True),
    ]
    yield from source.sample(changes, 4)


def _merge(index: Index) -> None:
    """All of it into a new index."""
    with Index(":memory:", index.scheme, text=index.text_rules, store_text=index._store.store_text) as new:
        new.merge(index)
        new.check()


def _sql(index: Index, sql: str) -> None:
    with contextlib.suppress(apsw.Error, UnicodeDecodeError):
        index.connection.execute(sql).fetchall()


def use(path: Path, source: random.Random) -> None:
    """Open the file and do everything; errors of the package are what is to come out."""
    try:
        with Index(path, durability="normal", read_only=source.random() < 0.1) as index:
            for call in calls(index, source):
                try:
                    call()
                except NearDupError as error:
                    _not_memory(error)
    except NearDupError as error:
        _not_memory(error)


def _not_memory(error: BaseException) -> None:
    if isinstance(error.__cause__, (MemoryError, apsw.NoMemError)):
        raise AssertionError("memory without bounds") from error


def main() -> None:
    """Each number of each file in its turn."""
    folder, first, count = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    files = [Path(name) for name in sys.argv[4:]]
    with Index(":memory:", MinHash()) as index:  # what is loaded and allocated once
        index.add("a", TEXTS[0])
    load(apsw.Connection(":memory:"))
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY_BYTES, size + MEMORY_BYTES))
    for file, number in itertools.product(files, range(first, first + count)):
        print(file.stem, number, flush=True)
        source = random.Random(f"{file.name} {number}")
        path = folder / f"{number}.db"
        if source.random() < 0.3:
            path.write_bytes(file.read_bytes())
            spoil(path, source)
        else:
            path.write_bytes(mangled(file.read_bytes(), source))
        signal.alarm(SECONDS)
        use(path, source)
        signal.alarm(0)
        for left in folder.glob(f"{number}.db*"):
            left.unlink()


if __name__ == "__main__":
    main()
