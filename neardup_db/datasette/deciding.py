"""Actions of page buttons: `neardup dismiss`, `undismiss`, `allow` and `disallow`, each run as a separate program, because this
process has opened the file through Datasette's SQLite, and must not open it through two SQLite libraries."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from urllib.parse import urlsplit

from ..errors import NearDupError, ParameterError
from ..values import Key

COMMANDS = {
    "dismiss": ("dismiss", 2, ""),
    "undismiss": ("undismiss", 2, ""),
    "apart": ("dismiss", 1, ""),
    "back": ("undismiss", 1, ""),
    "allow": ("allow", 1, "--key"),
    "disallow": ("disallow", 1, "--key"),
    "withdraw": ("disallow", 0, "--id"),
}
"""By button: the command, the number of its keys, and the option that takes a key or number; without an option they follow the
path."""

_PROGRAM = "import sys; sys.path[:] = {path!r}; from neardup_db.cli import main; main()"
"""The program inherits this process's import path."""


async def decide(say: str, path: str, index: str, keys: Sequence[Key]) -> None:
    """Run a button's command. Raises ParameterError for keys that a command line cannot express, NearDupError if the command
    fails."""
    command, _, option = COMMANDS[say]
    kinds = {type(key) for key in keys}
    if len(kinds) > 1 or bytes in kinds or any("\0" in str(key) for key in keys):
        raise ParameterError(f"the keys {', '.join(map(repr, keys))} are not all text or all numbers: use Index.{command}")
    options = ["--name", index, "--json", "--key-type", "int" if int in kinds else "text"]
    given = [f"{option}={key!s}" for key in keys] if option else []
    program = _PROGRAM.format(path=[folder for folder in sys.path if folder])
    words = [sys.executable, "-I", "-c", program, command, *options, *given, "--", path, *([] if option else map(str, keys))]
    pipe = asyncio.subprocess.PIPE
    try:
        process = await asyncio.create_subprocess_exec(*words, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe)
    except OSError as error:
        raise NearDupError(f"{command} cannot be run ({error.strerror}): run neardup {command} in a terminal") from error
    told, problem = await process.communicate()
    if process.returncode not in (0, 1) or not told.startswith(b"{"):  # 1: unchanged, or another program's error
        lines = problem.decode("utf-8", "replace").strip().splitlines()
        raise NearDupError(lines[-1] if lines else f"{command} ended with {process.returncode}: run it in a terminal")


def is_own_page(headers: dict[str, str]) -> bool:
    """Whether the browser's headers say that a page of the same site submitted a form, because other sites could submit forms to
    a local server."""
    host, origin = headers.get("host"), headers.get("origin")
    return host is not None and origin is not None and urlsplit(origin).netloc == host
