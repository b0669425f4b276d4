"""An application that knows nothing of this package: Python's sqlite3, in a process of its own, since two SQLite libraries of one
process must not open one file.

`python application.py FILE`: reads [SQL, values] as JSON, one a line, and prints the rows, or the error, as JSON.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any


class Application:
    """Runs SQL in its process. `kill` ends it in the middle of whatever it does."""

    def __init__(self, path: Path) -> None:
        command = [sys.executable, __file__, str(path)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

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
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps([sql, list(map(_to_json, values))]) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()
        self._reap()

    def close(self) -> None:
        """The application ends."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self._reap()

    def _reap(self) -> None:
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            with contextlib.suppress(BrokenPipeError):
                stream.close()


def _to_json(value: Any) -> Any:
    return {"hex": value.hex()} if isinstance(value, bytes) else value


def _from_json(value: Any) -> Any:
    return bytes.fromhex(value["hex"]) if isinstance(value, dict) else value


def main(path: str) -> None:
    """Answer one statement after another. Several without values may be one text."""
    connection = sqlite3.connect(path, isolation_level=None, timeout=30)
    for line in sys.stdin:
        sql, values = json.loads(line)
        rows: list[Any] = []
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
    main(sys.argv[1])
