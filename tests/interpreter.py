"""Python with the package already imported: `[*interpreter(), "-c", PROGRAM]` starts in a quarter of the time of
`[sys.executable, "-I", "-c", PROGRAM]`.

One process for all tests of a worker has imported the package, and forks a child for each program. The child has the streams,
the folder, the environment and the arguments of the command, and ends as an interpreter does; what Python reads from the
environment when it starts, such as PYTHONIOENCODING, is without effect. Signals to the command do not reach the program.
"""

from __future__ import annotations

import _socket  # without what socket adds and a command would wait for
import marshal
import os
import sys

if __name__ != "__main__":  # what a command does not need, as each of them imports this file
    import atexit
    import subprocess
    import tempfile
    from functools import cache
    from pathlib import Path

    @cache
    def interpreter() -> tuple[str, ...]:
        """The beginning of a command: -c with a program, or a file, and arguments may follow."""
        if sys.platform != "linux":
            return sys.executable, "-I"
        folder = tempfile.TemporaryDirectory()
        door = os.path.join(folder.name, "door")
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)  # so that no stream is taken for one that seeks
        server = subprocess.Popen([sys.executable, "-I", __file__, door], **pipes)
        assert server.stdout is not None and server.stdout.readline() == b"ready\n"
        atexit.register(folder.cleanup)
        atexit.register(server.communicate)
        return sys.executable, "-I", "-S", __file__, door

    def programs(folder: Path) -> Path:
        """A folder for PATH with such a `python` and `neardup`."""
        folder.mkdir()
        for name, begin in {"python": (), "neardup": ("-c", "from neardup_db.cli import main; main()")}.items():
            words = " ".join(f"'{word}'" for word in (*interpreter(), *begin))
            (folder / name).write_text(f'#!/bin/sh\nexec {words} "$@"\n')
            (folder / name).chmod(0o755)
        return folder


def ask(door: str, words: list[str]) -> None:
    """Has the program run, and ends as it does."""
    asked = marshal.dumps((words, dict(os.environ)))
    server = _socket.socket(_socket.AF_UNIX)
    server.connect(door)
    streams = b"".join(stream.to_bytes(4, sys.byteorder) for stream in (0, 1, 2, os.open(".", os.O_RDONLY)))
    server.sendmsg([len(asked).to_bytes(8, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
    server.sendall(asked)
    status = int.from_bytes(server.recv(4), "big", signed=True)
    if status < 0:
        os.kill(os.getpid(), -status)
    sys.exit(status)


def serve(door: str) -> str:
    """Forks for each command, to the end of its input, which is that of the tests. In a child: the text of its program."""
    import asyncio  # noqa: F401
    import gc
    import select
    import signal
    import socket

    import neardup_db.aio
    import neardup_db.cli  # noqa: F401

    gc.collect()
    gc.freeze()  # else each child copies the pages of all objects
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(door)
        listener.listen(64)
        print("ready", flush=True)
        while select.select([listener, 0], [], [])[0] == [listener]:
            command = listener.accept()[0]
            if os.fork() == 0:
                break
            command.close()
        else:
            sys.exit()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    size, (*streams, folder), _, _ = socket.recv_fds(command, 8, 4)
    with command.makefile("rb") as asked:
        words, environment = marshal.loads(asked.read(int.from_bytes(size, "big")))
    if child := os.fork():
        for stream in (*streams, folder):
            os.close(stream)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        command.send(status.to_bytes(4, "big", signed=True))
        os._exit(0)
    command.close()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.fchdir(folder)
    os.close(folder)
    os.environ.clear()
    os.environ.update(environment)
    if words[0] == "-c":
        sys.argv = ["-c", *words[2:]]
        return words[1]
    sys.argv = words
    sys.path.insert(0, os.path.dirname(os.path.abspath(words[0])))
    globals()["__file__"] = words[0]
    with open(words[0], encoding="utf-8") as program:
        return program.read()


if __name__ == "__main__":
    if sys.argv[2:]:
        ask(sys.argv[1], sys.argv[2:])
    else:
        exec(serve(sys.argv[1]), globals())
