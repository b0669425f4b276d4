"""Every call to the disk fails once: the right error comes out, nothing is half done, the index goes on or says that it cannot.

Two calls of each operation fail: the first, the last, one between or a sync, by turns. With `pytest --more` every sync,
truncation and opening fails, in each way, and some of the reads and writes; with `--long` all.
"""

from __future__ import annotations

import functools
import re
import resource
import shutil
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from threading import Thread
from typing import Any

import apsw
import pytest
from disks import DISK_FULL, IO_ERROR, FailingDisk, copy_files
from failing_writes import KEYS, MANY, TEXTS, WRITES, Write
from support import FAR, SETS, SOON, WORDS

from neardup_db import BinaryCode, CorruptIndexError, DiskFullError, Index, NearDupError, limits

State = tuple[Any, ...]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Small indexes of texts, of codes, and one that is damaged."""
    folder = tmp_path_factory.mktemp("faults")
    with Index(folder / "texts.db", SETS, text=WORDS, store_text=True) as index:
        for key, text in zip(KEYS, TEXTS, strict=True):
            index.add(key, text, metadata={"of": key}, expires_at=SOON if key == "e" else None)
        index.connection.execute("CREATE TABLE articles (id TEXT PRIMARY KEY, body TEXT, n UNIQUE)")
        rows = zip([*KEYS, "f"], [*TEXTS, TEXTS[0]], range(6), strict=True)
        index.connection.executemany("INSERT INTO articles VALUES (?, ?, ?)", rows)
        index.backup(folder / "damaged.db")
    with Index(folder / "damaged.db") as index:
        index.connection.execute("DELETE FROM neardup_minhash_band WHERE fingerprint_id = 1")
        index.connection.execute("UPDATE neardup_document SET cluster_id = 1")
    with Index(folder / "codes.db", BinaryCode(bits=64, max_distance=3)) as index:
        for key, code in zip(KEYS, (0, 1, 3, FAR, FAR + 1), strict=True):
            index.add_code(key, code)
    return {path.stem: path for path in folder.iterdir()}


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[FailingDisk]:
    """A disk that can fail; `add_many` makes small batches, writes them in the background, and takes them for large ones."""
    monkeypatch.setattr(limits, "BATCH_RECORDS", 12)
    monkeypatch.setattr(limits, "WORTH_THREADS", 1)
    monkeypatch.setattr(limits, "SEEN_FROM", 15)
    with FailingDisk() as failing:
        yield failing


def contents(index: Index) -> State:
    """What the index holds, and whether every invariant holds; the keys first."""
    sql = "SELECT key, text, metadata, expires_at, times_seen, length(fingerprint_id) FROM neardup_document ORDER BY id"
    with index.transaction():
        rows = index.connection.execute(sql).fetchall()
    report = index.check()
    return [row[0] for row in rows], rows, report.ok, repr(index.scheme), index.clusters() if report.ok else None


def contents_of(path: Path) -> State:
    """The same, of a file that is opened for it."""
    with Index(path) as index:
        return contents(index)


def opened(path: Path, small: bool) -> Index:
    """The index, with a cache that holds next to nothing where it is to be small."""
    index = Index(path)
    if small:
        index.connection.execute("PRAGMA cache_size = 1; PRAGMA cache_spill = 1")
    return index


def expected(write: Write, path: Path, folder: Path, small: bool, disk: FailingDisk) -> tuple[list[State], list[str]]:
    """The states that the operation goes through, found where nothing fails; and the calls that it makes."""
    copy = copy_files(path, folder)
    states = [contents_of(copy)]
    with opened(copy, small) as index:
        disk.arm(IO_ERROR, 0, False)
        write.run(index)
        disk.disarm()
        states.append(contents(index))
    assert states[0][0] == list(KEYS) and states[0][2] is not write.damaged
    assert states[-1][0] == list(write.keys) and states[-1][2]
    return states, disk.calls


def chosen(calls: list[str], turn: int, more_rounds: bool, long_run: bool) -> list[int]:
    """Numbers, from 1, of the calls that are to fail: all of them, or the syncs, the ends and some of the others; in a short run
    one of six, by turns."""
    total = len(calls)
    syncs = [n for n, call in enumerate(calls, 1) if call == "sync"]
    some = sorted({1, min(2, total), (total + 1) // 2, total, *syncs[:1], *syncs[-1:]})
    if not (more_rounds or long_run):
        return [some[turn % len(some)]]
    step = max(12, total // 20)
    rare = ("sync", "truncate", "open")
    return [n for n, call in enumerate(calls, 1) if long_run or call in rare or n % step == 2 or n in some or n == total - 1]


MODES = [(errors, *mode) for mode in ((False, False), (True, False), (False, True)) for errors in (IO_ERROR, DISK_FULL)]
"""Which calls fail, whether all later ones do too, and whether the cache is small."""


@pytest.mark.parametrize("write", WRITES, ids=[write.name for write in WRITES])
def test_an_operation_that_fails_has_done_nothing_or_says_that_it_is_not_known(
    write: Write, files: dict[str, Path], tmp_path: Path, more_rounds: bool, long_run: bool, disk: FailingDisk
) -> None:
    """After any failing call to the disk the file is as before the operation, for others and after a crash too, and the same
    object does it when asked again; or the object says that the outcome is not known, and then it is all or nothing. With a
    small cache pages are written before the commit, which they end. A short run has two of six modes for each, by turns."""
    path = files["codes" if write.codes else "damaged" if write.damaged else "texts"]
    without = functools.cache(lambda small: expected(write, path, tmp_path / f"without {small}", small, disk))
    number = WRITES.index(write)
    for mode in range(6) if more_rounds else (2 * number % 6, 2 * number % 6 + 1):
        errors, lasting, small = MODES[mode]
        states, calls = without(small)
        numbers = chosen([call for call in calls if call in errors], mode + number // 3, more_rounds, long_run)
        assert numbers
        for n in numbers:
            fail_once(write, n, errors, lasting, small, copy_files(path, tmp_path / str(n)), states, disk)
            shutil.rmtree(tmp_path / str(n))


def fail_once(
    write: Write, n: int, errors: Any, lasting: bool, small: bool, path: Path, states: list[State], disk: FailingDisk
) -> None:
    """One operation, its n-th call failing."""
    before, after = states[0], states[-1]
    between = [list(keys) for keys in write.steps]
    raised = None
    index = opened(path, small)
    disk.arm(errors, n, lasting)
    try:
        write.run(index)
    except NearDupError as error:
        raised = error
    assert disk.disarm()
    crashed = contents_of(copy_files(path, path.parent / "crashed"))
    if raised is None:
        assert contents(index) == crashed == after
    elif "open it again" in str(raised):
        for call in (index.check, lambda: index.add("z", "z"), lambda: len(index), index.compact):
            with pytest.raises(NearDupError, match="open it again"):
                call()
        assert crashed in (before, after) or crashed[0] in between
        index.close()
        assert contents_of(path) in (before, after) or contents_of(path)[0] in between
        return
    else:
        assert (
            isinstance(raised, DiskFullError) and re.search(r"\.db.*disk is full.*make room", str(raised))
        ) or errors is IO_ERROR
        seen = contents(index)
        assert seen == before or seen[0] in between
        assert crashed == seen
        write.run(index)
        assert contents(index) == after
    index.close()
    assert contents_of(path) == after


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "lasting"])
@pytest.mark.parametrize("errors", [IO_ERROR, DISK_FULL], ids=["io-error", "disk-full"])
def test_an_index_that_could_not_be_made_is_not_there(
    errors: dict[str, int], lasting: bool, tmp_path: Path, disk: FailingDisk, more_rounds: bool
) -> None:
    """Whatever fails while an index is created, afterwards it is not there, or complete; a full disk leaves nothing. A short run
    makes every seventh call fail, others where the failure lasts."""
    for n in count(1 + 3 * lasting, 1 if more_rounds else 7):
        path = tmp_path / f"{n}.db"
        disk.arm(errors, n, lasting)
        try:
            index = Index(path, SETS, text=WORDS)
        except NearDupError as error:
            assert disk.disarm() and path.name in str(error)
            assert isinstance(error, DiskFullError) is (errors is DISK_FULL)
            assert list(tmp_path.glob(".neardup*")) == []
            if path.exists():
                assert errors is IO_ERROR
                Index(path).close()
        else:
            if not disk.disarm():
                break
            index.close()
        with Index(path, SETS, text=WORDS) as index:
            index.add("a", "one two")
            assert index.check().ok
    index.close()
    assert n > (10 if errors is IO_ERROR else 5)


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "lasting"])
def test_opening_and_closing_on_a_failing_disk_change_nothing(
    lasting: bool, files: dict[str, Path], tmp_path: Path, disk: FailingDisk
) -> None:
    """Opening gives an error of ours; closing closes, and what the log holds stays."""
    before = contents_of(files["texts"])
    for n in count(1):
        path = copy_files(files["texts"], tmp_path / str(n))
        disk.arm(IO_ERROR, n, lasting)
        try:
            index = Index(path)
        except NearDupError:
            assert disk.disarm()
        else:
            if not disk.disarm():
                break
            index.close()
        assert contents_of(path) == before
    index.close()
    assert n > 3
    for n in count(1):
        path = copy_files(files["texts"], tmp_path / f"closed {n}")
        index = Index(path)
        index.delete("a")
        disk.arm(IO_ERROR, n, lasting)
        index.close()
        failed = disk.disarm()
        with pytest.raises(NearDupError, match="closed"):
            len(index)
        assert contents_of(path)[0] == ["b", "c", "d", "e"]
        if not failed:
            break
    assert n > 3


def test_queries_on_a_failing_disk_answer_right_or_not_at_all(files: dict[str, Path], tmp_path: Path, disk: FailingDisk) -> None:
    """A read that fails is an error of ours, never a shorter answer; the same object answers when the disk does again."""
    path = copy_files(files["texts"], tmp_path / "index")
    asked = 0
    for ask in (
        lambda index: [match.key for match in index.query("one two three")],
        lambda index: [match.key for many in index.query_many(["one two three"] * 2) for match in many],
        lambda index: [match.key for many in index.query_many(["one two three"] * 60) for match in many],
        lambda index: [match.key for match in index.matches("a")],
        lambda index: index.get("a").metadata,
        lambda index: list(index),
        lambda index: list(index.pairs()),
        lambda index: index.clusters(),
        lambda index: index.stats()["documents"],
    ):
        with Index(path) as index:
            right: Any = ask(index)
        for n in count(1):
            with Index(path) as index:
                disk.arm(IO_ERROR, n, False)
                try:
                    assert ask(index) == right
                except NearDupError:
                    assert disk.failed
                if not disk.disarm():
                    break
                assert ask(index) == right
        asked += n - 1
    assert asked > 20


# ---- transactions that SQLite has ended by itself ----------------------------------------------------------------------------


def test_what_follows_a_lost_transaction_is_not_stored_alone(files: dict[str, Path], tmp_path: Path, disk: FailingDisk) -> None:
    """An error inside a transaction can end all of it: who catches it and goes on stores nothing of the rest, and is told."""
    path = copy_files(files["texts"], tmp_path / "index")
    before = contents_of(path)
    with Index(path) as index:
        index.connection.execute("PRAGMA cache_size = 1; PRAGMA cache_spill = 1")  # pages go into the log before the commit
        lost = 0
        with pytest.raises(NearDupError, match="rolled back by an error inside it"), index.transaction():
            index.delete("a")
            disk.arm(DISK_FULL, 1, False)
            with pytest.raises(DiskFullError, match=r"index.*disk is full"):
                index.add_many(MANY)
            assert disk.disarm() == 1
            assert not index.connection.in_transaction
            for call in (lambda: index.add("x", "one two"), lambda: index.query("one"), lambda: index.add_many(MANY[:2])):
                with pytest.raises(NearDupError, match="rolled back by an error inside it"):
                    call()
                lost += 1
        assert lost == 3
        assert contents(index) == before


def test_a_stream_that_goes_on_after_a_lost_transaction_ends(files: dict[str, Path], tmp_path: Path, disk: FailingDisk) -> None:
    """Records come from a generator which asks the index itself and survives its error: the error comes out, nothing hangs."""
    path = copy_files(files["texts"], tmp_path / "index")
    before = contents_of(path)
    index = Index(path)  # closed where nothing hangs: closing would wait for the thread
    index.connection.execute("PRAGMA cache_size = 1; PRAGMA cache_spill = 1")
    caught: list[BaseException] = []
    raised: list[BaseException] = []

    def stream() -> Iterator[tuple[str, str]]:
        disk.arm(DISK_FULL, 1, True)
        for record in MANY * 30:
            yield record
            try:
                len(index)
            except NearDupError as error:
                caught.append(error)

    def add() -> None:
        try:
            index.add_many(stream(), if_exists="ignore")
        except NearDupError as error:
            raised.append(error)

    thread = Thread(target=add, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    assert caught and disk.disarm() and "disk is full" in str(raised[0])
    assert contents(index) == before
    index.close()


def test_a_commit_that_fails_on_a_caller_s_connection_is_not_known_either(
    files: dict[str, Path], tmp_path: Path, disk: FailingDisk
) -> None:
    """The object says so; another one on a new connection goes on."""
    path = copy_files(files["texts"], tmp_path / "index")
    connection = apsw.Connection(str(path))
    index = Index(connection)
    disk.arm({"sync": apsw.SQLITE_IOERR_FSYNC}, 1, False)
    with pytest.raises(NearDupError, match="open it again"):
        index.delete("a")
    assert disk.disarm() == 1
    with pytest.raises(NearDupError, match="open it again"):
        index.delete("a")
    index.close()
    connection.close()
    assert contents_of(path)[0] in (["a", "b", "c", "d", "e"], ["b", "c", "d", "e"])


def test_an_error_of_the_operating_system_itself(files: dict[str, Path], tmp_path: Path) -> None:
    """The same without a made-up disk: the system lets the log grow only to the middle of a page."""
    path = copy_files(files["texts"], tmp_path / "index")
    index = Index(path)
    index.add("f", "one two three")
    size = path.with_name(path.name + "-wal").stat().st_size
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 6000, usual[1]))
    try:
        with pytest.raises(NearDupError, match="open it again"):
            index.add("g", "one two three")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
    with pytest.raises(NearDupError, match="open it again"):
        list(index)
    index.close()
    assert contents_of(path)[0] == list("abcdef")


def test_what_an_error_of_a_damaged_file_advises_is_possible(files: dict[str, Path], tmp_path: Path) -> None:
    """The error of a file that cannot be opened names it, and sends nobody to calls that need it open."""
    path = copy_files(files["texts"], tmp_path / "index")
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(CorruptIndexError, match=r"texts\.db: .*restore a backup; of an index that is open check\(\)"):
        Index(path)
