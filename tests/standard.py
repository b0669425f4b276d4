"""Connections of Python's own sqlite3, or, where that can load no extensions, of pysqlite3; and a Python whose sqlite3 can.

As a program, for such a Python: python standard.py TEST... runs tests with it.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import sysconfig
from functools import cache
from pathlib import Path
from typing import Any

MODULE: Any = sqlite3
if not hasattr(sqlite3.Connection, "enable_load_extension"):
    import pysqlite3

    MODULE = pysqlite3


def connect(path: Path | str = ":memory:", **options: Any) -> Any:
    """A connection as an application opens it."""
    return MODULE.connect(path, **options)


def in_wal(path: Path | str, **options: Any) -> Any:
    """The same, with a write-ahead log."""
    connection = connect(path, **options)
    assert connection.execute("PRAGMA journal_mode = WAL").fetchone() == ("wal",)
    return connection


@cache
def capable_python() -> str | None:
    """A Python of this version whose sqlite3 can load extensions: this one, or the system's."""
    capable = "import sqlite3, sys; sys.exit(0 if hasattr(sqlite3.Connection, 'enable_load_extension') else 1)"
    for python in (sys.executable, "/usr/bin/python3"):
        version = f"import sys; assert sys.version_info[:2] == {sys.version_info[:2]}; "
        if os.path.exists(python) and subprocess.run([python, "-c", version + capable], capture_output=True).returncode == 0:
            return python
    return None


def run_elsewhere(*arguments: str) -> subprocess.CompletedProcess[str] | None:
    """The standard library's own Python runs a program with the packages of this one; None where this one can, or none can."""
    python = capable_python()
    if python is None or MODULE is sqlite3:
        return None
    paths = os.pathsep.join([sysconfig.get_path("platlib"), sysconfig.get_path("purelib")])
    env = {**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run([python, *arguments], capture_output=True, text=True, env=env, cwd="/", check=False)
