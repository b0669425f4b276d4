"""Questions to an index on a connection of sqlite3 or pysqlite3; as a program, for a Python whose sqlite3 can load extensions.

python foreign.py FILE INDEX: reads questions as JSON from standard input, one a line, and prints the answers as JSON.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import sysconfig
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from neardup_db.datasette.foreign import ForeignDatabase, load_functions, open_reader

CAPABLE = "import sqlite3, sys; sys.exit(0 if hasattr(sqlite3.Connection, 'enable_load_extension') else 1)"


def answers(module: Any, path: Path, name: str, questions: list[dict[str, Any]]) -> list[Any]:
    """The answer to each question, through sqlite3 or pysqlite3: [[key, similarity, distance], ...]."""
    connection = module.connect(f"file:{path}?mode=ro", uri=True)
    connection.row_factory = module.Row  # as Datasette has it
    try:
        assert load_functions(connection) is None
        reader = open_reader(ForeignDatabase(connection), name)
        found = []
        for question in questions:
            options = dict(question)
            ask, subject = (reader.query_code, "code") if "code" in options else (reader.query, "text")
            matches = ask(options.pop(subject), **options)
            found.append([[one.key, one.similarity, one.distance] for one in matches])
        return found
    finally:
        connection.close()


@cache
def capable_python() -> str | None:
    """A Python of this version whose sqlite3 can load extensions: this one, or the system's."""
    for python in (sys.executable, "/usr/bin/python3"):
        version = f"import sys; assert sys.version_info[:2] == {sys.version_info[:2]}; "
        if os.path.exists(python) and subprocess.run([python, "-c", version + CAPABLE], capture_output=True).returncode == 0:
            return python
    return None


def answers_elsewhere(path: Path, name: str, questions: list[dict[str, Any]]) -> list[Any]:
    """`answers` through sqlite3, in another process where this Python's sqlite3 cannot load extensions."""
    if hasattr(sqlite3.Connection, "enable_load_extension"):
        return answers(sqlite3, path, name, questions)
    python = capable_python()
    if python is None:
        pytest.skip(f"neither this Python's sqlite3 nor that of a system's Python {sys.version_info[:2]} loads extensions")
    paths = os.pathsep.join([sysconfig.get_path("platlib"), sysconfig.get_path("purelib")])
    run = subprocess.run(
        [python, __file__, str(path), name],
        input="\n".join(map(json.dumps, questions)),
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return list(json.loads(run.stdout))


if __name__ == "__main__":
    print(json.dumps(answers(sqlite3, Path(sys.argv[1]), sys.argv[2], list(map(json.loads, sys.stdin)))))
