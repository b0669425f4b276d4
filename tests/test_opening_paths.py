"""Which files, folders and names an index can be opened at, and who creates a file at the same time."""

from __future__ import annotations

import errno
import itertools
import multiprocessing
import os
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from cases import one_test
from disks import WatchedDisk
from interpreter import interpreter
from test_opening import TEXT, made

from neardup_db import DiskFullError, FormatError, Index, MinHash, NearDupError, ParameterError
from neardup_db.store.layout import opening
from neardup_db.system import IS_WINDOWS

# ---- a folder that cannot be written -----------------------------------------------------------------------------------


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """A folder that every user may enter."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


def as_reader(folder: Path, code: str) -> str:
    """What `code` prints, run by a user who may not write into the folder; `path` is the file in it."""
    for file in folder.iterdir():
        file.chmod(0o444)
    folder.chmod(0o555)
    program = (
        "import os\n"
        "from neardup_db import *\n"
        "warm = Index(':memory:', MinHash()); warm.add('a', 'b'); warm.query('b'); warm.check()\n"  # all files are read
        "if os.getuid() == 0:\n"
        "    os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        f"path = {str(folder / 'index.db')!r}\n"
        f"TEXT = {TEXT!r}\n"
        "def outcome(call):\n"
        "    try:\n"
        "        return call()\n"
        "    except NearDupError as error:\n"
        "        return f'{type(error).__name__}: {error}'\n" + code
    )
    run = subprocess.run([*interpreter(), "-c", program], capture_output=True, text=True, cwd="/", timeout=60)
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.mark.posix("permissions")
def test_a_folder_that_cannot_be_written_is_read(shared_folder: Path) -> None:
    """Without a log beside it, a file in a read-only folder is read with read_only=True, and writing is a ReadOnlyError."""
    made(shared_folder / "index.db")
    assert sorted(file.name for file in shared_folder.iterdir()) == ["index.db"]
    out = as_reader(
        shared_folder,
        "with Index(path, read_only=True) as index:\n"
        "    print([one.key for one in index.query(TEXT)], index.check().ok)\n"
        "    print(outcome(lambda: index.add('c', TEXT)))\n",
    ).splitlines()
    assert out[0] == "['a'] True"
    assert out[1].startswith("ReadOnlyError: ") and "read_only=True" in out[1]


@pytest.mark.posix("permissions")
def test_a_folder_that_cannot_be_written_says_what_to_do(shared_folder: Path) -> None:
    """Without read_only=True it is a ReadOnlyError that names the remedy; a new file there is a ParameterError."""
    made(shared_folder / "index.db")
    out = as_reader(
        shared_folder,
        "print(outcome(lambda: Index(path).add('c', TEXT)))\nprint(outcome(lambda: Index(path + '2', MinHash())))\n",
    ).splitlines()
    assert out[0].startswith("ReadOnlyError: ") and "read_only=True" in out[0]
    assert out[1].startswith("ParameterError: ") and "index.db2" in out[1] and "permissions" in out[1]


@pytest.mark.posix("links")
@pytest.mark.parametrize("name", ["index.db", "real.db"])
def test_a_log_that_cannot_be_read_is_not_passed_over(shared_folder: Path, name: str) -> None:
    """Where a log waits beside a file in a read-only folder the file is refused, by way of a symbolic link too: no document is
    passed over."""
    with Index(shared_folder / "live.db", MinHash()) as index:
        index.add("a", TEXT)
        index.compact()
        index.add("b", TEXT)
        for suffix in ("", "-wal"):
            shutil.copy(shared_folder / f"live.db{suffix}", shared_folder / f"{name}{suffix}")
    (shared_folder / "live.db").unlink()
    if name != "index.db":
        (shared_folder / "index.db").symlink_to(name)
    out = as_reader(shared_folder, "print(outcome(lambda: list(Index(path, read_only=True))))\n")
    assert out.startswith("ReadOnlyError: ") and name in out and "-wal" in out


# ---- names and paths ---------------------------------------------------------------------------------------------------


def as_main_user(code: str, folder: Path) -> str:
    """What `code` prints, run in another process whose current folder it is."""
    run = subprocess.run([*interpreter(), "-c", code], capture_output=True, text=True, cwd=folder, timeout=60)
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


@pytest.mark.posix("links")
def test_a_link_in_another_folder_sees_what_was_acknowledged(tmp_path: Path) -> None:
    """A link and its file are one index, whichever was opened first, and one that points to nothing creates its file."""
    (tmp_path / "links").mkdir()
    link, real = tmp_path / "links" / "link.db", tmp_path / "real.db"
    link.symlink_to("../real.db")
    with Index(link, MinHash()) as by_link, Index(real) as by_name, Index(link, read_only=True) as reader:
        by_link.add("a", TEXT)
        by_name.add("b", TEXT)
        assert list(by_link) == list(by_name) == list(reader) == ["a", "b"]
        assert sorted(part.name for part in tmp_path.iterdir()) == ["links", "real.db", "real.db-shm", "real.db-wal"]
    assert [part.name for part in (tmp_path / "links").iterdir()] == ["link.db"]


def test_a_relative_path_stays_the_same_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the current folder changes, an open index goes on with its file, and so do the readers that it opens later."""
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    with Index("index.db", MinHash()) as index:
        index.add("a", TEXT)
        monkeypatch.chdir(tmp_path / "other")
        assert index._store.db.open_reader is not None
        index._store.db.open_reader().close()
        index.add("b", TEXT)
        index.backup("copy.db")
    assert [part.name for part in (tmp_path / "other").iterdir()] == ["copy.db"]
    with Index(tmp_path / "index.db") as index:
        assert list(index) == ["a", "b"]


@pytest.mark.posix("colons in names")
@pytest.mark.parametrize("target", ["Path(':memory:')", "'./:memory:'", "b':memory:'", "'file:index.db'", "'file:a?mode=memory'"])
def test_a_name_that_sqlite_takes_for_something_else_is_a_file(tmp_path: Path, target: str) -> None:
    """A Path, bytes, and a text with a folder are files whatever their names; only the text ':memory:' is memory."""
    code = (
        "from pathlib import Path\nfrom neardup_db import Index, MinHash\n"
        f"with Index({target}, MinHash()) as index:\n    index.add('a', 'b')\n    index.backup(Path('copy') / {target!s}"
        ")\n"
        f"print(list(Index({target})), list(Index(Path('copy') / {target})))\n"
    ).replace("Path('copy') / b':memory:'", "Path('copy') / ':memory:'")
    (tmp_path / "copy").mkdir()
    assert as_main_user(code, tmp_path) == "['a'] ['a']"
    assert len([part for part in tmp_path.iterdir() if part.is_file()]) == 1


@pytest.mark.parametrize("checksums", [None, True])
def test_a_name_without_room_for_those_beside_it_is_refused(tmp_path: Path, checksums: bool | None) -> None:
    """SQLite adds `-journal` to the name: 247 bytes of it are possible, one more is a ParameterError, and nothing is left."""
    with Index(tmp_path / ("n" * 247), MinHash(), checksums=checksums) as index:
        index.add("a", TEXT)
        for name in ("n" * 248, "n" * 255, "n" * 256, "é" * (248 if IS_WINDOWS else 124)):
            for call in (
                lambda name=name: Index(tmp_path / name, MinHash(), checksums=checksums),
                lambda name=name: index.backup(tmp_path / name),
            ):
                with pytest.raises(ParameterError, match=r"SQLite allows 247, as it appends suffixes: give a shorter name"):
                    call()
    assert [part.name for part in tmp_path.iterdir()] == ["n" * 247]


def test_a_path_that_sqlite_cannot_open_is_refused(tmp_path: Path) -> None:
    """A path of more than 504 bytes is a ParameterError, and nothing is left."""
    folder = tmp_path
    while len(str(folder)) < 380:
        folder = folder / ("d" * 60)
    folder.mkdir(parents=True)
    longest = folder / ("x" * (504 - len(str(folder)) - 1))
    with Index(longest, MinHash()) as index:
        index.add("a", TEXT)
    for target in (f"{longest}x", "/" + "x/" * 3000 + "index.db"):
        with pytest.raises(ParameterError, match="give a shorter"):
            Index(target, MinHash())
    assert list(folder.iterdir()) == [longest]


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES, errno.EPERM, errno.EMFILE, errno.ENOENT, errno.ENOTDIR])
def test_a_file_that_the_system_refuses_is_a_parameter_error(path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """On a read-only file system, in a folder without permission and the like the error names the path, and nothing is left."""
    with Index(":memory:", MinHash()) as index:
        monkeypatch.setattr("neardup_db.store.database.files.os.open", raising(OSError(code, os.strerror(code))))
        for call in (lambda: Index(path, MinHash()), lambda: index.backup(path)):
            with pytest.raises(ParameterError, match=r"index\.db.*check the path and its permissions"):
                call()
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_file_for_which_there_is_no_room_is_a_full_disk(path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """Where not even an empty file can be made the error is a DiskFullError that names the path, and nothing is left."""
    with Index(":memory:", MinHash()) as index:
        monkeypatch.setattr("neardup_db.store.database.files.os.open", raising(OSError(code, os.strerror(code))))
        for call in (lambda: Index(path, MinHash()), lambda: index.backup(path)):
            with pytest.raises(DiskFullError, match=r"index\.db.*make room"):
                call()
    assert list(path.parent.iterdir()) == []


def raising(error: BaseException) -> Callable[..., Any]:
    """A function that raises."""

    def function(*_: Any, **__: Any) -> Any:
        raise error

    return function


@pytest.mark.posix("links")
def test_a_loop_of_links_is_an_error_of_ours(tmp_path: Path) -> None:
    """A link that points to itself cannot be opened or created, and the message has its path."""
    (tmp_path / "index.db").symlink_to("index.db")
    for more in ({}, {"scheme": MinHash()}, {"read_only": True}):
        with pytest.raises(ParameterError, match=r"index\.db"):
            Index(tmp_path / "index.db", **more)


# ---- who creates at the same time --------------------------------------------------------------------------------------


@one_test(
    ("step", "empty"),
    [
        *((step, False) for step in ("open_file", "_enable_wal", "load", "schema.create_tables", "_open_database")),
        *((step, True) for step in ("open_file", "load", "_open_database")),
    ],
    error=[KeyboardInterrupt(), ParameterError("refused"), OSError(errno.EIO, "Input/output error")],
)
def test_a_creator_that_fails_takes_nothing_from_the_others(
    path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, step: str, empty: bool
) -> None:
    """Whatever one creator was doing when it was interrupted, another one that was half-way through has a good index then."""
    if empty:
        path.touch()
    failing, failed = threading.Event(), threading.Event()
    name = f"neardup_db.store.layout.opening.{step}"
    function = reduce(getattr, step.split("."), opening)

    def wait_or_fail(*given: Any, **more: Any) -> Any:
        done = function(*given, **more)
        if threading.current_thread() is threading.main_thread():
            failing.set()
            assert failed.wait(30)  # the other one is at the same step, and goes on
            if step == "open_file":
                done.close()  # the error holds it, and what is open Windows does not remove
            raise error
        failed.set()
        assert over.wait(30)
        return done

    over = threading.Event()
    answers: list[list[Any]] = []

    def other() -> None:
        assert failing.wait(30)
        with Index(path, MinHash()) as index:
            index.add("a", TEXT)
            answers.append(list(index))

    thread = threading.Thread(target=other)
    thread.start()
    monkeypatch.setattr(name, wait_or_fail)
    with pytest.raises((KeyboardInterrupt, NearDupError)):
        Index(path, MinHash(), timeout=0.0)
    over.set()
    thread.join(60)
    monkeypatch.undo()
    assert answers == [["a"]]
    with Index(path) as index:
        assert list(index) == ["a"] and index.check().ok
    assert [part.name for part in path.parent.iterdir()] == ["index.db"]


@pytest.mark.posix("forks")
def test_creators_that_are_killed_leave_the_others_a_good_index(path: Path) -> None:
    """Of processes that create one file at the same time some are killed: what the others have added is there."""
    start = multiprocessing.get_context("fork").Barrier(6)

    def create(number: int) -> None:
        start.wait()
        if number % 2:
            with WatchedDisk(dying(number)):
                Index(path, MinHash())
            os.kill(os.getpid(), signal.SIGKILL)  # others had made the file: it had too little to write
        else:
            with Index(path, MinHash()) as index:
                index.add(number, f"{TEXT} {number}")

    processes = [multiprocessing.get_context("fork").Process(target=create, args=(number,)) for number in range(6)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, -9, 0, -9, 0, -9]
    with Index(path) as index:
        assert sorted(index) == [0, 2, 4] and index.check().ok


def dying(calls: int) -> Callable[[], None]:
    """A function that kills the process when it has been called so many times."""
    left = itertools.count(calls, -1)

    def look() -> None:
        if next(left) == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    return look


@pytest.mark.posix("names of open files that another file takes")
def test_another_file_under_the_name_is_noticed_while_it_is_opened(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the file is replaced between two steps of opening it, nothing is written to the one that is gone."""
    made(path)
    other = made(path.with_name("other.db"))
    load = opening.load
    monkeypatch.setattr(opening, "load", lambda connection: (os.replace(other, path), load(connection)))
    with pytest.raises(FormatError, match="another file"):
        Index(path)
