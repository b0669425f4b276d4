"""The package asks nothing of a system that Windows or macOS does not have, and of the language of a system nothing at all."""

from __future__ import annotations

import ast
import errno
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import apsw
import click
import numpy as np
import pytest

from neardup_db import Cluster, Index, Match, MinHash, system
from neardup_db.cli import main as command
from neardup_db.cli.watch import Arrivals
from neardup_db.clock import utc
from neardup_db.native import EXTENSION
from neardup_db.parameters import check_path
from neardup_db.store.database import open as opening
from neardup_db.store.database.files import new_file
from neardup_db.store.database.open import remove_unused
from neardup_db.tables import columns

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "neardup_db"

MODULES = "crypt curses fcntl grp msvcrt nis posix pty pwd readline resource spwd syslog termios tty winreg winsound _winapi"
"""That Windows, or every other system, lacks."""

CALLS = {
    "os": """
    chown chroot confstr copy_file_range ctermid environb eventfd eventfd_read eventfd_write fchdir fchmod fchown
    fdatasync fork forkpty fpathconf fstatvfs fwalk getegid getenvb geteuid getgid getgrouplist getgroups getloadavg
    getpgid getpgrp getpriority getrandom getresgid getresuid getsid getuid getxattr initgroups killpg lchflags lchmod
    lchown listxattr lockf login_tty major makedev memfd_create minor mkfifo mknod nice openpty pathconf pidfd_open pipe2
    plock posix_fadvise posix_fallocate posix_spawn posix_spawnp pread preadv pwrite pwritev readv register_at_fork
    removexattr sched_getaffinity sched_getparam sched_getscheduler sched_setaffinity sched_setscheduler sched_yield
    sendfile set_blocking setegid seteuid setgid setgroups setns setpgid setpgrp setpriority setregid setresgid setresuid
    setreuid setsid setuid setxattr spawnlp spawnlpe spawnvp spawnvpe splice startfile statvfs sync sysconf tcgetpgrp
    tcsetpgrp ttyname uname unshare wait wait3 wait4 waitid writev O_ASYNC O_CLOEXEC O_DIRECT O_DIRECTORY O_DSYNC
    O_NOATIME O_NOCTTY O_NOFOLLOW O_NONBLOCK O_PATH O_SYNC O_TMPFILE O_BINARY O_TEMPORARY WNOHANG WEXITSTATUS WIFEXITED
    WIFSIGNALED WTERMSIG SEEK_DATA SEEK_HOLE
    """,
    "signal": """
    SIGALRM SIGBUS SIGCHLD SIGCONT SIGHUP SIGIO SIGKILL SIGPIPE SIGPROF SIGQUIT SIGSTOP SIGTSTP SIGTTIN SIGTTOU SIGURG
    SIGUSR1 SIGUSR2 SIGWINCH SIGXCPU SIGXFSZ SIGBREAK CTRL_C_EVENT SIG_BLOCK SIG_SETMASK SIG_UNBLOCK alarm getitimer pause
    pthread_kill pthread_sigmask setitimer siginterrupt sigpending sigtimedwait sigwait sigwaitinfo
    """,
    "select": "devpoll epoll kevent kqueue poll PIPE_BUF select",
    "time": "clock_getres clock_gettime clock_gettime_ns clock_settime pthread_getcpuclockid tzset",
    "socket": "AF_UNIX CMSG_LEN SO_REUSEPORT fromfd sethostname socketpair",
    "sys": "getdlopenflags getwindowsversion platform setdlopenflags winver",
    "mmap": "MAP_ANONYMOUS MAP_POPULATE MAP_PRIVATE MAP_SHARED PROT_READ PROT_WRITE",
    "asyncio": "open_unix_connection start_unix_server",
    "shutil": "chown",
}
"""That Windows or macOS lacks, or that tells which system this is. Sources: "Availability" in Python's documentation, and what
these modules lack in Python 3.12 for Windows."""

METHODS = "add_signal_handler chown is_mount lchmod owner"
"""Of pathlib and asyncio."""

PARSED = cache(ast.parse)


def modules(words: str) -> dict[str, ast.Module]:
    """The modules of the package by name, as far as one of the words is in them."""
    texts = {".".join(path.relative_to(PACKAGE).with_suffix("").parts): path.read_text("utf-8") for path in PACKAGE.rglob("*.py")}
    return {name: PARSED(text) for name, text in texts.items() if re.search(rf"\b({words})\b", text)}


def asked(tree: ast.Module) -> Iterator[str]:
    """What a module asks of Python's library, as 'os.fork', and the modules that it imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield f"{node.value.id}.{node.attr}" if isinstance(node.value, ast.Name) else f".{node.attr}"
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_only_one_module_asks_for_what_a_system_lacks() -> None:
    """No module but `system` asks for a module, a call or a constant that Windows or macOS lacks, or which system it runs on."""
    lacking = {f"{module}.{name}" for module, names in CALLS.items() for name in names.split()}
    lacking |= {"os.name", "platform", *MODULES.split(), *(f".{name}" for name in METHODS.split())}
    trees = modules("|".join({*CALLS, *MODULES.split(), *METHODS.split(), "platform"}))
    found = {(name, one) for name, tree in trees.items() for one in asked(tree) if one in lacking}
    assert {name for name, _ in found} == {"system"}, found


TEXTS = {"read_text": {"encoding"}, "write_text": {"encoding", "newline"}, "TextIOWrapper": {"encoding"}}
"""Calls that decode or encode, with the arguments that each must have."""


def needed(call: ast.Call) -> set[str]:
    """The arguments that a call must have so that it does the same on every system."""
    if isinstance(call.func, ast.Attribute):
        return TEXTS.get(call.func.attr, set())
    if getattr(call.func, "id", "") != "open":
        return set()
    modes = [*call.args[1:2], *(one.value for one in call.keywords if one.arg == "mode")]
    mode = str(modes[0].value) if modes and isinstance(modes[0], ast.Constant) else "r"
    return set() if "b" in mode else {"encoding", "newline"} if set("wax") & set(mode) else {"encoding"}


def test_every_text_file_has_an_encoding_and_line_feeds() -> None:
    """No file is opened as text without its encoding, and none is written as text with the line ends of the system."""
    trees = modules("|".join(["open", *TEXTS]))
    calls = [(name, node) for name, tree in trees.items() for node in ast.walk(tree) if isinstance(node, ast.Call)]
    assert any(needed(call) for _, call in calls)
    assert [(name, call.lineno) for name, call in calls if not needed(call) <= {one.arg for one in call.keywords}] == []


def run(folder: Path, *command: object, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """A Python program in a folder, in a language that is named here."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "LC_", "LANG"))}
    program = [sys.executable, *map(str, command)]
    return subprocess.run(program, capture_output=True, cwd=folder, env={**kept, **environment}, timeout=300)


def test_all_works_without_what_windows_lacks(tmp_path: Path) -> None:
    """Creating, asking, deleting, rebuilding, a backup and commands work in a Python without the calls, signals and modules that
    Windows lacks."""
    done = run(tmp_path, TESTS / "without_posix.py", tmp_path)
    assert done.returncode == 0, done.stderr.decode()
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "matches": ["key 0", "key 3", "key 6"], "clusters": 3, "pairs": 7, "check": [], "copied": 8, "long name": True,
        "add": 0, "dedup": 0, "unique": 3,
        "left": ["added.db", "copy.db", "copy.db-shm", "copy.db-wal", "index.db", "records.jsonl", "unique.jsonl"],
    }  # fmt: skip


LANGUAGES = {"C": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, "UTF-8": {"LC_ALL": "C.UTF-8"}}

COMMAND = """
import contextlib, json, sys, warnings
warnings.filterwarnings("error", category=EncodingWarning, module=r"neardup_db\\b")
from neardup_db.cli import main
for arguments in json.loads(sys.argv[1]):
    with contextlib.suppress(SystemExit):
        main(arguments)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
        stream.buffer.write(b"\\0")
"""


def commands(folder: Path, language: str) -> list[tuple[bytes, bytes]]:
    """What some commands print in a language of the system; the folder has no letters but ASCII in its name."""
    records = folder / "records.jsonl"
    texts = ("Größe und Maß im Überblick — 数据库", "Größe und Maß im Überblick — 数据库!", "etwas ganz anderes")
    lines = [json.dumps({"id": f"schlüssel {number}", "text": text}, ensure_ascii=False) for number, text in enumerate(texts)]
    records.write_text("\n".join(lines) + "\n", "utf-8")
    (folder / "keys.txt").write_text("schlüssel 0\nschlüssel 2\n", "utf-8")
    asked = [
        ["add", "index.db", "records.jsonl", "--json", "--store-text"],
        ["query", "index.db", "--file", "records.jsonl"],
        ["clusters", "index.db"],
        ["get", "index.db", "--file", "keys.txt"],
        ["query", "index.db", "--key", "schlüssel 9" if language != "C" else "no such key"],
    ]
    done = run(folder, "-X", "warn_default_encoding", "-c", COMMAND, json.dumps(asked), **LANGUAGES[language])
    return list(zip(done.stdout.split(b"\0"), done.stderr.split(b"\0"), strict=True))


def test_the_language_of_the_system_does_not_matter(tmp_path: Path) -> None:
    """Where the system's encoding is ASCII, commands write the same bytes as where it is UTF-8, and read the same files."""
    told = {}
    for language in LANGUAGES:
        (tmp_path / language).mkdir()
        told[language] = commands(tmp_path / language, language)
    for plain, rich in zip(told["C"][1:4], told["UTF-8"][1:4], strict=True):
        assert _without_times(plain) == _without_times(rich)
    assert [bool(output) for output, _ in told["C"]] == [True, False, True, True, False, False]
    assert b"no document has the key" in told["C"][4][1] and "schlüssel 0".encode() in told["C"][2][0]


def _without_times(told: tuple[bytes, ...]) -> list[bytes]:
    return [re.sub(rb"\d[\d:,. -]*", b"0", stream) for stream in told]


def test_the_command_runs_as_a_module(tmp_path: Path) -> None:
    """`python -m neardup_db` is the command, by its own name, where the folder of commands is not on the PATH."""
    done = run(tmp_path, "-m", "neardup_db", "query", "--nope")
    assert done.returncode == 2 and done.stderr.startswith(b"neardup: ") and b"neardup query --help" in done.stderr


def test_arguments_stay_as_they_are_on_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing expands %path%, ~ or * in the arguments before a command has them: they may be in a text, or in SQL."""
    given: dict[str, object] = {}
    monkeypatch.setattr(click.Group, "main", lambda self, *arguments, **named: given.update(named))
    with pytest.raises(SystemExit):
        command(["sql", "index.db", "SELECT '%path%'"])
    assert given["windows_expand_args"] is False


@pytest.mark.parametrize("durability", ["full", "normal"])
def test_a_commit_passes_the_cache_of_a_disk_of_macos(durability: Any, tmp_path: Path) -> None:
    """With durability="full" each commit is asked to pass the disk's own cache, which macOS does not do by itself; a checkpoint
    always is."""
    with Index(tmp_path / "index.db", MinHash(), durability=durability) as index:
        asked = [index.connection.pragma(name) for name in ("fullfsync", "checkpoint_fullfsync")]
    assert asked == [durability == "full", 1]


def test_columns_are_64_bits_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers in columns are int64, also where numpy's own integers have 32 bits, as before numpy 2 on Windows."""
    arange = np.arange
    monkeypatch.setattr(np, "arange", lambda *given, dtype=np.int32: arange(*given, dtype=dtype))
    assert columns([[Match("a", 1.0)], [Match("b", 1.0)]])["query"].dtype == np.int64
    assert columns([Cluster("a", ("a", "b"))])["cluster"].dtype == np.int64


# ---- the twins -----------------------------------------------------------------------------------------------------------


def test_a_thread_tells_why_it_cannot_read() -> None:
    """A descriptor that cannot be read raises in the reader, not in the thread that reads for it."""
    _, writing = os.pipe()
    with closing(Arrivals(writing, list)) as arrivals, pytest.raises(OSError, match="Bad file"):
        arrivals.readline(99)
    os.close(writing)


@pytest.mark.posix("pipes that do not block, before Python 3.12")
def test_a_thread_reads_little_ahead() -> None:
    """Where nobody asks for more, a thread that reads leaves the rest in the pipe, whose writer waits."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with closing(Arrivals(reading, list)) as arrivals:
        written, deadline = 0, time.monotonic() + 30
        while written < 100 << 20 and time.monotonic() < deadline:
            try:
                written += os.write(writing, bytes(1 << 16))
            except BlockingIOError:
                break
        assert written < 100 << 20
        os.close(writing)
        assert len(arrivals.readline(200 << 20)) == written
    os.close(reading)


def test_a_stream_ends_by_a_signal() -> None:
    """`stop`, as a signal calls it, ends a stream after the lines that were read."""
    reading, writing = os.pipe()
    waits = []
    with closing(Arrivals(reading, lambda: waits.append(True))) as arrivals:
        os.write(writing, b"one\ntwo\nhalf")
        assert [arrivals.readline(99), arrivals.readline(99)] == [b"one\n", b"two\n"]
        arrivals.stop()
        assert arrivals.readline(99) == b""
        os.close(writing)


@pytest.mark.parametrize("removes", sorted({system.REMOVES_OPEN_FILES, False}))
@pytest.mark.parametrize("documents", [0, 1])
def test_only_an_unused_file_is_removed(removes: bool, documents: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file without a document goes and one with a document stays; where no open file can be removed, both stay."""
    monkeypatch.setattr(system, "REMOVES_OPEN_FILES", removes)
    path = tmp_path / "index.db"
    with Index(path, MinHash()) as index:
        for number in range(documents):
            index.add(number, "some words")
    remove_unused(str(path))
    assert [one.name for one in tmp_path.iterdir()] == ["index.db"] * (documents or not removes)


def test_copies_of_ended_processes_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Old copies of the extension go, where a process cannot remove its own; young ones and other folders stay."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(system, "REMOVES_OPEN_FILES", False)
    names = ("neardup_db-extension-old", "neardup_db-extension-young", "neardup_old", "neardup_db-extension-full")
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / Path(EXTENSION).name).write_bytes(b"")
    (tmp_path / "neardup_db-extension-full" / "of somebody else").write_bytes(b"")
    for name in (names[0], *names[2:]):
        os.utime(tmp_path / name, (1, 1))
    copy = Path(opening._copy_for.__wrapped__("a test"))
    assert copy.read_bytes() == Path(EXTENSION).read_bytes()
    assert {one.name for one in tmp_path.iterdir()} == {*names[1:], copy.parent.name}


def test_a_long_path_in_any_script_works(tmp_path: Path) -> None:
    """An index may be at a path of more than 260 characters that are not those of the system's code page, also with its copy."""
    folder = Path(system.reachable(str(tmp_path / ("数据" + "x" * 90) / ("ä" * 80) / ("y" * 60))))
    folder.mkdir(parents=True)
    with Index(folder / "index.db", MinHash(), checksums=True) as index:
        index.add("a", "some words")
        index.backup(folder / "copy.db")
    with Index(folder / "copy.db", read_only=True) as index:
        assert [match.key for match in index.query("some words")] == ["a"]
    for path in folder.iterdir():
        path.unlink()


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("C:\\short.db", "C:\\short.db"),
        ("C:\\" + "x" * 230, "\\\\?\\C:\\" + "x" * 230),
        ("\\\\server\\share\\" + "x" * 230, "\\\\?\\UNC\\server\\share\\" + "x" * 230),
        ("\\\\?\\C:\\" + "x" * 230, "\\\\?\\C:\\" + "x" * 230),
    ],
)
def test_long_paths_of_windows_get_their_prefix(path: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond what every program of Windows takes, a path says that it is whole; no other system's path is touched."""
    monkeypatch.setattr(system, "IS_WINDOWS", False)
    assert system.reachable(path) == path
    monkeypatch.setattr(system, "IS_WINDOWS", True)
    assert system.reachable(path) == expected


def test_a_disk_that_does_not_tell_what_a_name_stands_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Windows cannot follow a path to its end, an index is opened by the path as it was given."""

    def refused(*given: Any, **more: Any) -> str:
        raise OSError(errno.EINVAL, "Incorrect function")

    monkeypatch.setattr(os.path, "realpath", refused)
    monkeypatch.chdir(tmp_path)
    with Index("index.db", MinHash()) as index:
        assert index.add("a", "some words") == []
    assert (tmp_path / "index.db").exists()


def test_a_file_that_windows_does_not_remove_hides_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is made is left where another program has it open, and Ctrl-C meanwhile stays Ctrl-C."""

    def refused(path: str) -> None:
        raise PermissionError(errno.EACCES, "in use", path)

    monkeypatch.setattr(system, "REMOVES_OPEN_FILES", False)
    monkeypatch.setattr(os, "unlink", refused)
    with pytest.raises(KeyboardInterrupt), new_file(str(tmp_path / "index.db"), 0o644):
        raise KeyboardInterrupt
    assert [one.name.startswith(".neardup-") for one in tmp_path.iterdir()] == [True]


def test_a_name_is_measured_as_the_system_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name has 255 bytes less what SQLite adds; on Windows units of UTF-16 count, however long the name is in UTF-8."""
    check_path(str(tmp_path / ("é" * 123)))
    with pytest.raises(ValueError, match="name has 248 bytes"):
        check_path(str(tmp_path / ("é" * (248 if system.IS_WINDOWS else 124))))
    monkeypatch.delattr(os, "pathconf", raising=False)
    assert system.length_of_name(str(tmp_path), "\N{GRINNING FACE}é" * 50) == (150, 255)


def test_moments_that_windows_refuses() -> None:
    """Times before 1970 and beyond the year 3000 are told on every system."""
    assert utc(-86400.5).isoformat() == "1969-12-30T23:59:59.500000+00:00"
    assert utc(40_000_000_000).year == 3237
    with pytest.raises(OverflowError):
        utc(timedelta.max.total_seconds())


def test_a_reader_that_left_is_known_by_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken pipe is a reader that left; on Windows an invalid argument is one too, unless the error names a file."""
    errors = BrokenPipeError(32, "Broken pipe"), OSError(22, "Invalid argument"), OSError(22, "Invalid argument", "a?b")
    monkeypatch.setattr(system, "IS_WINDOWS", False)
    assert [system.is_reader_gone(one) for one in errors] == [True, False, False]
    monkeypatch.setattr(system, "IS_WINDOWS", True)
    assert [system.is_reader_gone(one) for one in errors] == [True, True, False]


def test_the_extension_loads_by_its_path() -> None:
    """The path of the extension is that of the system's kind of library, which SQLite loads."""
    assert Path(EXTENSION).suffix == {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")
    connection = apsw.Connection(":memory:")
    connection.enable_load_extension(True)
    connection.load_extension(EXTENSION, "sqlite3_neardup_init")
    assert connection.execute("SELECT neardup_hamming(1, 2)").get == 2
    connection.close()
