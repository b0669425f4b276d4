"""An index that is used for ever: memory, files and the file itself do not grow beyond what is stored."""

from __future__ import annotations

import gc
import os
import random
import subprocess
import time
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from interpreter import interpreter
from load import run_threads, story
from spawned import PEAK

from neardup_db import BinaryCode, Index, KeyNotFoundError, MinHash
from neardup_db.limits import READERS_MAX

KEPT = 500
"""Documents that the mixed load leaves."""


def resident_bytes() -> int:
    """Memory of this process that is in use."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def open_files(folder: Path) -> list[str]:
    """Files of a folder that this process has open."""
    names = []
    for number in os.listdir("/proc/self/fd"):
        try:
            name = os.readlink(f"/proc/self/fd/{number}")
        except FileNotFoundError:  # the listing itself
            continue
        if name.startswith(str(folder)):
            names.append(Path(name).name)
    return names


def size_bytes(path: Path) -> int:
    """Of the file and its log."""
    log = path.with_name(path.name + "-wal")
    return path.stat().st_size + (log.stat().st_size if log.exists() else 0)


def life(index: Index, seed: int) -> Iterator[int]:
    """A mixed load without end; yields the operations so far, each time when the index holds KEPT documents and is compact."""
    choose = random.Random(seed)
    done = counter = 0
    newest: list[int] = []
    while True:
        batch = []
        for _ in range(KEPT):
            counter += 1
            text = story(counter if choose.random() < 0.8 else choose.choice(newest or [counter]))
            expires_at = time.time() + choose.choice((-1, 3600)) if choose.random() < 0.2 else None
            batch.append({"key": counter, "text": text, "group": f"day {counter // 240}", "expires_at": expires_at})
        newest = [record["key"] for record in batch]
        index.add_many(batch, commit_every=130)
        for _ in range(KEPT // 10):
            counter += 1
            one = choose.choice(newest)
            index.add(counter, story(one), metadata={"like": one}, if_exists="replace")
            index.add_if_new(-counter, story(one) + "?")
            index.query(story(choose.choice(newest)), limit=choose.choice((None, 3)))
            index.delete(choose.choice(newest))
            with pytest.raises(KeyNotFoundError):
                index.get("never there")
            if choose.random() < 0.2:
                index.update(counter, expires_at=time.time() + 3600)
        run_threads(*(partial(index.query, story(choose.choice(newest))) for _ in range(4)))
        index.expire()
        index.keep_newest(KEPT)
        done += KEPT + KEPT // 10 * 6
        index.compact()
        yield done


def test_a_long_mixed_load(tmp_path: Path, long_run: bool) -> None:
    """Adding, asking, replacing, deleting, expiring and compacting for long leaves memory, file, open files and names of groups
    where they were soon after the beginning."""
    path, seconds = tmp_path / "index.db", 600 if long_run else 0
    curve: list[tuple[int, int, int, int]] = []
    with Index(path, MinHash(threshold=0.8), store_text=True, durability="normal") as index:
        deadline = time.monotonic() + seconds
        for done in life(index, 1):
            stats = index.stats()
            assert KEPT // 2 < stats["documents"] <= KEPT and stats["groups"] <= 8
            curve.append((done, resident_bytes(), size_bytes(path), len(open_files(tmp_path))))
            if len(curve) >= 9 and time.monotonic() >= deadline:
                break
        assert index.check().problems == ()
    for done, memory, size, count in curve[:: max(1, len(curve) // 12)]:
        print(f"{done:>9} operations: {memory >> 10} KB of memory, {size >> 10} KB in the file, {count} open files")
    begin, end = curve[2 : len(curve) // 3 + 2], curve[-len(curve) // 3 :]
    assert max(one[1] for one in end) <= max(one[1] for one in begin) + (2 << 20)
    assert max(one[2] for one in end) <= 1.2 * max(one[2] for one in begin)
    assert max(one[3] for one in curve) <= 3 * (1 + READERS_MAX)  # three a connection; readers come when threads meet
    assert open_files(tmp_path) == [] and [file.name for file in tmp_path.iterdir()] == ["index.db"]


def test_queries_leave_nothing(tmp_path: Path, long_run: bool) -> None:
    """Memory does not grow with the number of questions, whatever their options are."""
    calls = 5_000_000 if long_run else 1_000
    with Index(tmp_path / "index.db", BinaryCode(64, 3), durability="normal") as index:
        index.add_codes(range(2000), [number << 20 for number in range(2000)])

        def ask(count: int) -> None:
            for number in range(count):
                index.query_code(number << 20, limit=number % 50 + 1, group=number if number % 7 == 0 else None)

        ask(700)
        before, statements = resident_bytes(), len(index._store._statements)
        ask(calls)
        assert resident_bytes() <= before + (700 << 10)
        assert len(index._store._statements) == statements
        print(f"{calls} questions: memory {(resident_bytes() - before) >> 10:+} KB")


def test_opened_and_closed_many_times(tmp_path: Path) -> None:
    """Opening, asking in threads and closing leaves no open file and no memory."""
    path = tmp_path / "index.db"

    def use() -> None:
        with Index(path, MinHash(), durability="normal") as index:
            run_threads(*[partial(index.query, story(1))] * 3)
            with index.transaction():
                run_threads(*[partial(len, index)] * 3)

    grown = []
    for _ in range(4):
        before = resident_bytes()
        for _ in range(10):
            use()
            assert open_files(tmp_path) == []
        grown.append(resident_bytes() - before)
    assert min(grown) <= 64 << 10, grown  # what is kept of one, all keep


def test_a_forgotten_index_says_so(tmp_path: Path) -> None:
    """An index that is dropped without close() warns, and its files, those of its readers too, are closed."""

    def forget() -> None:  # the warning holds the index until it is dropped itself
        index = Index(tmp_path / "index.db", MinHash())
        with index.transaction():
            run_threads(*[partial(len, index)] * 3)
        assert open_files(tmp_path).count("index.db") > 1
        with pytest.warns(ResourceWarning, match="unclosed <neardup_db.Index '.*' MinHash"):
            del index
            gc.collect()

    forget()
    gc.collect()
    assert open_files(tmp_path) == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with Index(tmp_path / "index.db"):
            pass
        gc.collect()


COMPACTING = """
import os, sys
from neardup_db import BinaryCode, Index
with Index(sys.argv[1], BinaryCode(64, 3), record_matches=False) as index:
    index.add_codes(range(1500), range(1500))
    index.connection.execute("UPDATE neardup_document SET metadata = json_quote(hex(randomblob(16000)))")
    before = peak()
    index.compact()
    print(os.path.getsize(sys.argv[1]) >> 20, peak() - before >> 20)
"""


def test_compacting_takes_little_memory(tmp_path: Path) -> None:
    """compact() of a file of 45 MB takes less than 30 MB, its pages in SQLite's cache among them."""
    path = str(tmp_path / "index.db")
    run = subprocess.run([*interpreter(), "-c", PEAK + COMPACTING, path], capture_output=True, text=True, check=True)
    size, taken = map(int, run.stdout.split())
    assert size >= 45
    assert taken < 30
