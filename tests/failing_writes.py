"""Every operation that writes, for the tests of disks that fail: how it is run, and which documents there are afterwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import apsw
import pyarrow
from disks import REAL
from support import SETS, SOON, WORDS

from neardup_db import Index, MinHash, NearDupError

TEXTS = ["one two three", "one two three four", "five six seven", "five six seven", "eight nine ten"]
KEYS = "abcde"
MANY = [(f"m{number}", f"many words {number} of {number // 3}") for number in range(40)]
TABLE = pyarrow.table({"key": [key for key, _ in MANY], "text": [text for _, text in MANY]})
ALL_MANY = [*KEYS, *(key for key, _ in MANY)]
OTHER = MinHash(threshold=0.5, exact=True, num_perm=32, bands=32, rows=1)


@dataclass(frozen=True)
class Write:
    """A public operation, and the keys of the documents after it, in their order; after each of its transactions, if several."""

    name: str
    run: Callable[[Index], Any]
    keys: Any
    steps: tuple[Any, ...] = ()
    codes: bool = False
    damaged: bool = False


def several(index: Index) -> None:
    """A transaction of the caller's, with one inside."""
    with index.transaction():
        index.add("f", "one two three")
        with index.transaction():
            index.delete("c")
        index.add("g", "two three four", if_exists="replace")


def again(records: Any) -> Callable[[Index], Any]:
    """Many in several transactions: whoever calls it again adds what is not there yet."""
    return lambda index: index.add_many(records, commit_every=16, if_exists="ignore")


def backup(index: Index) -> None:
    """A copy, looked at where it could be written, on a disk that works; one that could not be is not there."""
    path = Path(index.connection.filename).with_name("copy.db")
    try:
        index.backup(path)
    except NearDupError:
        assert not list(path.parent.glob("copy.db*"))
        raise
    copy = apsw.Connection(str(path), vfs=REAL)
    assert copy.execute("SELECT key FROM neardup_document ORDER BY id").fetchall() == [(key,) for key in KEYS]
    assert copy.execute("PRAGMA integrity_check").get == "ok"
    copy.close()
    path.unlink()


def import_codes(index: Index, **options: Any) -> None:
    """Fingerprints out of another index."""
    with TemporaryDirectory() as folder, Index(":memory:", index.scheme) as other:
        other.add_codes(range(40), range(40))
        other.export_fingerprints(f"{folder}/codes.parquet")
        index.import_fingerprints(folder, **options)


def merge_codes(index: Index, **options: Any) -> None:
    """The documents of an index in memory, whose disk cannot fail."""
    with Index(":memory:", index.scheme) as other:
        other.add_codes(range(40), range(40))
        index.merge(other, **options)


MERGED = TemporaryDirectory()
with Index(f"{MERGED.name}/merged.db", SETS, text=WORDS, store_text=True) as _index:
    _index.add("x", "one two three")
    _index.add("y", "quite other words")


def merge_file(index: Index) -> None:
    """Those of a file, which can fail too."""
    index.merge(f"{MERGED.name}/merged.db")


def sync_table(index: Index) -> None:
    """A table that has a row for each document and one more, followed and taken over."""
    with index.transaction():
        index.follow("articles")
        index.sync()


def in_a_window(index: Index) -> None:
    """An add with which documents leave."""
    with index.transaction():
        index.set_window(3)
        index.add("f", "one two three")


IN_STEPS: dict[str, Any] = {"commit_every": 16, "if_exists": "ignore"}
STEPS = [*KEYS, *range(16)], [*KEYS, *range(32)]

WRITES = [
    Write("add", lambda index: index.add("f", "one two three"), "abcdef"),
    Write("add-replace", lambda index: index.add("a", "five six", if_exists="replace"), "bcdea"),
    Write("add-if-new", lambda index: index.add_if_new("f", "quite new words"), "abcdef"),
    Write("touch", lambda index: index.add_if_new("f", "one two three", on_match="touch", expires_at=SOON), KEYS),
    Write("update", lambda index: index.update("b", metadata={"x": 1}, expires_at=SOON), KEYS),
    Write("delete", lambda index: index.delete("a"), "bcde"),
    Write("delete-many", lambda index: index.delete_many(list("abd")), "ce"),
    Write("delete-group", lambda index: index.delete_group(None), ""),
    Write("expire", lambda index: index.expire(SOON + 1), "abcd"),
    Write("keep-newest", lambda index: index.keep_newest(2), "de"),
    Write("dismiss", lambda index: index.dismiss("d", "c"), KEYS),
    Write("changes", lambda index: index.changes(), KEYS),
    Write("window", lambda index: index.set_window(2), KEYS),
    Write("through-window", in_a_window, "def"),
    Write("transaction", several, ["a", "b", "d", "e", "f", "g"]),
    Write("add-many", lambda index: index.add_many(MANY), ALL_MANY),
    Write("add-many-commits", again(MANY), ALL_MANY, (ALL_MANY[:21], ALL_MANY[:37])),
    Write("add-many-new", lambda index: index.add_many([*MANY[:1], ("n", MANY[0][1])], only_new=True), [*KEYS, "m0"]),
    Write("add-table", lambda index: index.add_many(TABLE, key="key", text="text"), ALL_MANY),
    Write("import", import_codes, [*KEYS, *range(40)], codes=True),
    Write("import-commits", partial(import_codes, **IN_STEPS), [*KEYS, *range(40)], STEPS, codes=True),
    Write("merge", merge_codes, [*KEYS, *range(40)], codes=True),
    Write("merge-file", merge_file, [*KEYS, "x", "y"]),
    Write("merge-commits", partial(merge_codes, **IN_STEPS), [*KEYS, *range(40)], STEPS, codes=True),
    Write("add-code", lambda index: index.add_code("f", 6), "abcdef", codes=True),
    Write("add-codes", lambda index: index.add_codes(range(40), range(40)), [*KEYS, *range(40)], codes=True),
    Write("rebuild", lambda index: index.rebuild(), KEYS),
    Write("rebuild-scheme", lambda index: index.rebuild(OTHER), KEYS),
    Write("repair", lambda index: index.check(repair=True), KEYS, damaged=True),
    Write("sync", sync_table, "abcdef"),
    Write("compact", lambda index: index.compact(), KEYS),
    Write("backup", backup, KEYS),
]
