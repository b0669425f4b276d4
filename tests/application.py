"""An application that knows nothing of this package: Python's sqlite3, in a process of its own, since two SQLite libraries of one
process must not open one file.

`python application.py`: reads [SQL, values] as JSON, one a line, and prints the rows, or the error, as JSON. A line that is a
text or null closes the file that is open, and opens that one.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar


class Application:
    """Runs SQL in its process. `kill` ends it in the middle of whatever it does; one that has closed its file is the next's."""

    _idle: ClassVar[list[subprocess.Popen[str]]] = []

    def __init__(self, path: Path) -> None:
        if not self._idle:
            command = [sys.executable, __file__]
            self._idle.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        self.process = self._idle.pop()
        self._say(str(path))

    def run(self, sql: str, *values: Any) -> list[list[Any]]:
        """The rows of a statement. AssertionError where it fails."""
        rows, error = self.tell(sql, values)
        assert error is None, f"{sql}: {error}"
        return rows

    def fails(self, sql: str, *values: Any) -> str:
        """The error of a statement."""
        rows, error = self.tell(sql, values)
        assert error is not None, rows
        return error

    def tell(self, sql: str, values: tuple[Any, ...]) -> Any:
        """(rows, error) of a statement, one of them empty."""
        return self._say([sql, list(map(_to_json, values))])

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()
        reap(self.process)

    def close(self) -> None:
        """The application ends."""
        self._say(None)
        self._idle.append(self.process)

    def _say(self, line: Any) -> Any:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(line) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    @classmethod
    def end_all(cls) -> None:
        """The processes that have no file end."""
        while cls._idle:
            process = cls._idle.pop()
            assert process.stdin is not None
            process.stdin.close()
            reap(process)


def reap(process: subprocess.Popen[str]) -> None:
    """Wait for the end of a process that is about to end."""
    process.wait()
    for stream in (process.stdin, process.stdout):
        assert stream is not None
        with contextlib.suppress(BrokenPipeError):
            stream.close()


atexit.register(Application.end_all)


def _to_json(value: Any) -> Any:
    return {"hex": value.hex()} if isinstance(value, bytes) else value


def _from_json(value: Any) -> Any:
    return bytes.fromhex(value["hex"]) if isinstance(value, dict) else value


def main() -> None:
    """Answer one statement after another. Several without values may be one text."""
    connection = sqlite3.connect(":memory:")
    for line in sys.stdin:
        told = json.loads(line)
        rows: list[Any] = []
        if not isinstance(told, list):
            connection.close()
            connection = sqlite3.connect(told or ":memory:", isolation_level=None, timeout=30)
            os.write(1, b"null\n")
            continue
        sql, values = told
        error = None
        try:
            if values or sql.lstrip().upper().startswith(("SELECT", "PRAGMA", "INSERT", "UPDATE", "DELETE", "REPLACE")):
                rows = [list(map(_to_json, row)) for row in connection.execute(sql, list(map(_from_json, values)))]
            else:
                for statement in sql.split(";\n"):
                    connection.execute(statement)
        except sqlite3.Error as raised:
            error = str(raised)
        os.write(1, (json.dumps([rows, error]) + "\n").encode())


if __name__ == "__main__":
    main()
