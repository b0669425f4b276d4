"""Writes the outputs in docs/reference/sql.md: blocks of SQL and examples of functions, as SQLite's own shell answers them.

Run it after a change of the page, of the demo or of a function. The shell (Debian: sqlite3) and the installed commands are used.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import neardup_db

PAGE = Path(__file__).parent / "reference" / "sql.md"
COMMANDS = re.compile(r"<!-- made by -->\n```sh\n(.*?)```", re.DOTALL)
QUERY = re.compile(r"```sql\n(?P<sql>.*?)```\n\n```text\n(?P<output>.*?)```", re.DOTALL)
FUNCTION = re.compile(
    r"^\| `(?P<name>neardup_\w+)\((?P<arguments>[^`]*)\)` \| (?P<kind>\w+) \| .+ "
    r"\| `(?P<sql>SELECT [^`]+)` \| `(?P<output>[^`]*)` \|$",
    re.MULTILINE,
)


def make(folder: Path, page: str, programs: Path = Path(sys.executable).parent) -> Path:
    """The index that the page asks, made in a folder by the commands that stand there, with a folder's `neardup`."""
    found = COMMANDS.search(page)
    assert found is not None, "the page says how its index is made"
    path = os.pathsep.join([str(programs), os.environ["PATH"]])
    environment = os.environ | {"PATH": path}
    subprocess.run(["bash", "-euc", found[1]], cwd=folder, env=environment, check=True, capture_output=True)
    return folder / "demo.db"


def ask(path: Path, sql: str, mode: Sequence[str]) -> str:
    """What the shell prints, without the spaces at the ends of lines."""
    load = f".load '{neardup_db.extension_path()}'"
    command = ["sqlite3", "-init", "/dev/null", "-readonly", "-bail", "-cmd", load, *mode, str(path)]
    done = subprocess.run(command, input=sql, capture_output=True, text=True, encoding="utf-8")
    if done.stderr:
        raise ValueError(f"{sql}\n{done.stderr}")
    return "".join(line.rstrip() + "\n" for line in done.stdout.splitlines())


def written(page: str, path: Path) -> str:
    """The page with every output as it is now."""

    def answer(*mode: str) -> Callable[[re.Match[str]], str]:
        def replace(found: re.Match[str]) -> str:
            output = ask(path, found["sql"].rstrip().rstrip(";") + ";", mode)
            if not mode:
                output = output.rstrip("\n").replace("\n", ", ")
            start, end = (place - found.start() for place in found.span("output"))
            return found[0][:start] + output + found[0][end:]

        return replace

    return FUNCTION.sub(answer(), QUERY.sub(answer("-column", "-header"), page))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        text = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(written(text, make(Path(folder), text)), encoding="utf-8")
