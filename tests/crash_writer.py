"""Writers to be killed. A server forks one for each JSON job, a line of its standard input; `Writers` gives them. `python
crash_writer.py IN:OUT...` forks a server for each two descriptors.

A writer says "ready PID", then the number of each operation as soon as it has returned, and then "end"; the process says "dead"
when the writer is. Everything is imported once, so that hundreds of writers can be killed in a minute.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import IO, Any

from disks import Disk, DiskFile
from support import WORDS

from neardup_db import Index, MinHash, limits

Operation = list[Any]
"""A name, and its arguments as `apply` takes them."""


class DeadlyDisk(Disk):
    """Kills the process at its n-th write, sync or truncation, in the middle of a write; 0 = never."""

    def __init__(self, countdown: int) -> None:
        super().__init__("deadly")
        self.countdown = countdown

    def before(self, call: str, file: DiskFile | None, *arguments: Any) -> None:
        """Count, and die."""
        if call in ("write", "sync", "truncate"):
            self.countdown -= 1
            if self.countdown == 0:
                if call == "write" and file is not None:
                    file.write_half(*arguments)
                os.kill(os.getpid(), signal.SIGKILL)


def apply(index: Index, operation: Operation) -> None:
    """Do to an index what `effects` in processes.py does to a dictionary."""
    name, *arguments = operation
    if name == "add":
        key, text, expires_at = arguments
        index.add(key, text, expires_at=expires_at, if_exists="replace")
    elif name == "if-new":
        index.add_if_new(*arguments)
    elif name == "many":
        index.add_many(arguments[0], commit_every=arguments[1])
    elif name == "transaction":
        with index.transaction():
            for one in arguments[0]:
                apply(index, one)
    elif name == "sql":  # of an application, on the same connection
        index.connection.execute(arguments[0]).fetchall()
    elif name == "rebuild":
        index.rebuild(MinHash(threshold=0.5, exact=True, num_perm=64, bands=64, rows=1, seed=arguments[0]))
    else:
        getattr(index, name)(*arguments)


def say(line: Any) -> None:
    """One line, at once and whole."""
    os.write(1, f"{line}\n".encode())


def work(job: dict[str, Any]) -> None:
    """A writer's life."""
    say(f"ready {os.getpid()}")
    if job.get("short"):  # the log is moved often
        limits.LOG_PAGES = 30
    with DeadlyDisk(job["countdown"]), Index(job["path"], **({} if job.get("short") else {"text": WORDS})) as index:
        if job.get("small"):  # the log goes into the file often, and pages into the log before the commit
            index.connection.execute("PRAGMA cache_size = 10; PRAGMA cache_spill = 1; PRAGMA wal_autocheckpoint = 30")
        for number, operation in enumerate(job["operations"]):
            apply(index, operation)
            say(number)
    say("end")


class Writers:
    """The server that forks writers, and the killing of them."""

    def __init__(self, jobs: IO[str], told: IO[str]) -> None:
        self.jobs, self.told = jobs, told
        self.killed = 0
        self.acknowledged = 0
        """Operations of the writer at work, for whoever looks from another thread."""

    def start(self, job: dict[str, Any]) -> int:
        """Let a writer begin its job; its process's number."""
        self.jobs.write(json.dumps(job) + "\n")
        self.jobs.flush()
        word, _, rest = self.told.readline().partition(" ")
        assert word == "ready", rest
        return int(rest)

    def lines(self) -> Iterator[str]:
        """What it says, until it is dead. The last one, where it was killed, may be part of a line."""
        while not (line := self.told.readline().strip()).endswith("dead"):
            assert line, "the server that forks writers has ended"
            yield line
        if line != "dead":
            yield line.removesuffix("dead")

    def run(self, job: dict[str, Any], kill_after: float | None) -> int:
        """Let a writer do its job, and kill it so many seconds after it has begun. Returns how many operations it has done."""
        number = self.start(job)
        if kill_after is not None:
            time.sleep(kill_after)
            os.kill(number, signal.SIGKILL)
        lines: list[str] = []
        self.acknowledged = 0
        for line in self.lines():
            assert not line.startswith("failed"), line
            lines.append(line)
            self.acknowledged = len(lines)
        finished = lines[-1:] == ["end"]
        self.killed += not finished
        return len(lines) - finished


@contextmanager
def started(count: int) -> Iterator[list[Writers]]:
    """So many servers, forked by one process, which has imported all."""
    pipes = [(*os.pipe(), *os.pipe()) for _ in range(count)]
    theirs = [number for jobs, _, _, told in pipes for number in (jobs, told)]
    command = [sys.executable, __file__, *(f"{jobs}:{told}" for jobs, _, _, told in pipes)]
    with subprocess.Popen(command, pass_fds=theirs), ExitStack() as opened:
        for number in theirs:
            os.close(number)
        ours = [(os.fdopen(jobs, "w"), os.fdopen(told)) for _, jobs, told, _ in pipes]
        yield [Writers(*map(opened.enter_context, both)) for both in ours]


def serve() -> None:
    """Fork a writer for each line. Its batches are small."""
    limits.BATCH_RECORDS, limits.WORTH_THREADS, limits.SEEN_FROM = 25, 1, 30
    child = 0
    for line in sys.stdin:
        if child:
            os.waitpid(child, 0)  # only now: a number that may still be killed is nobody else's
        child = os.fork()
        if child == 0:
            try:
                job = json.loads(line)
                (sys.modules["processes"].live if "role" in job else work)(job)
            except BaseException:
                say(f"failed {json.dumps(traceback.format_exc())}")
            finally:
                os._exit(0)
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        say("dead")


def main() -> None:
    """Fork the servers, and wait for their end."""
    import processes  # noqa: F401, which imports this one

    given = [[int(number) for number in one.split(":")] for one in sys.argv[1:]]
    servers = []
    for both in given:
        servers.append(os.fork())
        if servers[-1] == 0:
            for place, number in enumerate(both):
                os.dup2(number, place)
            os.closerange(3, 1 + max(map(max, given)))
            serve()
            os._exit(0)
    os.closerange(3, 1 + max(map(max, given)))
    for server in servers:
        os.waitpid(server, 0)


if __name__ == "__main__":
    main()
