"""Commands of the command line, run in the tests' own process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from neardup_db import Index
from neardup_db.cli import main

FOX = "the quick brown fox jumps over the lazy dog and runs away into the dark wood"
RECORDS = [
    {"id": "a", "text": FOX, "lang": "en"},
    {"id": "b", "text": FOX + " again"},
    {"id": "c", "text": "an entirely different sentence about databases and their transactions"},
    {"id": "d", "text": ""},
]


def run(*arguments: object, stdin: str | bytes | None = None) -> Result:
    """What a command did."""
    return CliRunner().invoke(main, [str(argument) for argument in arguments], input=stdin, prog_name="neardup")


def dedup(*arguments: object, stdin: str | None = None) -> Result:
    """What `neardup dedup` did."""
    return run("dedup", *arguments, stdin=stdin)


def outcome(*arguments: object) -> tuple[int, str]:
    """Exit code and standard output of a command."""
    result = run(*arguments)
    return result.exit_code, result.stdout


def told(*arguments: object, stdin: str | None = None) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a command."""
    result = run(*arguments, stdin=stdin)
    return result.exit_code, result.stdout, result.stderr


def good(*arguments: object, stdin: str | bytes | None = None) -> str:
    """Standard output of a command that must succeed."""
    result = run(*arguments, stdin=stdin)
    assert (result.exit_code, result.stderr) == (0, ""), result.output
    return str(result.stdout)


def printed(*arguments: object, stdin: str | bytes | None = None) -> str:
    """Standard output of a command that must succeed, and says on standard error what it did."""
    result = run(*arguments, stdin=stdin)
    assert result.exit_code == 0, result.output
    return str(result.stdout)


def refused(*arguments: object, stdin: str | bytes | None = None) -> str:
    """The one sentence on standard error of a command that must fail."""
    result = run(*arguments, stdin=stdin)
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith("neardup: ") and result.stderr.count("\n") == 1
    assert result.stdout == ""
    return str(result.stderr)


def keys_of(path: Path) -> list[Any]:
    """The keys of an index, in order."""
    with Index(path) as made:
        return list(made)


def lines(path: Path, records: list[dict[str, Any]]) -> Path:
    """A file of JSON lines."""
    path.write_text("".join(json.dumps(record) + "\n" for record in records), newline="\n")
    return path
