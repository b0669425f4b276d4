"""The main jobs of the package in a Python that lacks what Windows lacks: `python without_posix.py FOLDER`.

What Windows does otherwise, rather than not at all, is done by its twin in `neardup_db.system` too.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

MODULES = {"fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty"}
CALLS = """
chown copy_file_range fchmod fdatasync fork forkpty getegid geteuid getgid getloadavg getpgid getuid killpg lchown
lockf memfd_create mkfifo nice pathconf pipe2 posix_fallocate pread preadv pwrite pwritev register_at_fork sched_getaffinity
sendfile set_blocking statvfs sysconf uname
"""
SIGNALS = "SIGALRM SIGCHLD SIGHUP SIGKILL SIGPIPE SIGQUIT SIGUSR1 alarm pause pthread_kill pthread_sigmask setitimer"


class Missing:
    """Finds none of the modules."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """As sys.meta_path wants it."""
        if name in MODULES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def main() -> None:
    """Do the jobs; prints what came of them as JSON."""
    import apsw.ext  # noqa: F401
    import click  # noqa: F401
    import numpy  # noqa: F401
    import rich.progress  # noqa: F401

    for name in MODULES:
        sys.modules.pop(name, None)
    sys.meta_path.insert(0, Missing())  # type: ignore[arg-type]
    for module, names in ((os, CALLS), (signal, SIGNALS)):
        for name in names.split():
            if hasattr(module, name):
                delattr(module, name)

    from neardup_db import system

    system.REMOVES_OPEN_FILES = False

    from neardup_db import Index, MinHash, ParameterError
    from neardup_db.cli import main as command

    folder = Path(sys.argv[1])
    texts = {f"key {number}": f"one of the words that stand here, {number % 3} and {number % 3} and more" for number in range(9)}
    with Index(folder / "index.db", MinHash(threshold=0.7), store_text=True) as index:
        index.add_many(texts.items())
        index.delete("key 8")
        told = {
            "matches": sorted(str(match.key) for match in index.query(texts["key 0"])),
            "clusters": len(index.clusters()),
            "pairs": sum(1 for _ in index.pairs()),
            "check": index.check().problems,
        }
        index.rebuild()
        index.backup(folder / "copy.db")
    with Index(folder / "copy.db", read_only=True) as index:
        told["copied"] = len(index)
    try:
        Index(folder / ("n" * 400), MinHash())
    except ParameterError as error:
        told["long name"] = "give a shorter name" in str(error)

    records = folder / "records.jsonl"
    records.write_bytes(b"".join(json.dumps({"id": key, "text": text}).encode() + b"\n" for key, text in texts.items()))
    for arguments in (["add", "added.db", "records.jsonl"], ["dedup", "records.jsonl", "-o", "unique.jsonl", "--json"]):
        told[arguments[0]] = run(command, folder, arguments)
    told["unique"] = len((folder / "unique.jsonl").read_text("utf-8").splitlines())
    told["left"] = sorted(path.name for path in folder.iterdir())
    print(json.dumps(told))


def run(command: object, folder: Path, arguments: list[str]) -> int:
    """A command in a folder; its exit code."""
    before = Path.cwd()
    os.chdir(folder)
    stdout, sys.stdout = sys.stdout, sys.stderr
    try:
        command(arguments)  # type: ignore[operator]
    except SystemExit as end:
        return int(end.code or 0)
    finally:
        sys.stdout = stdout
        os.chdir(before)
    return 0


if __name__ == "__main__":
    main()
