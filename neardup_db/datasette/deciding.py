"""A person's word on a page: `neardup dismiss` and `undismiss`, run as a program of their own.

This process has the file open through Datasette's SQLite, and one process never opens a file through two. So the command, which
writes through the package's SQLite, is another process.
"""

from __future__ import annotations

import asyncio
import sys
from urllib.parse import urlsplit

from ..errors import NearDupError, ParameterError
from ..values import Key

COMMANDS = ("dismiss", "undismiss")

_PROGRAM = "from neardup_db.cli import main; main()"


async def decide(command: str, path: str, index: str, keys: tuple[Key, Key]) -> None:
    """Run the command on two keys of an index. ParameterError for keys that a command line cannot take, NearDupError where the
    command fails."""
    kinds = {type(key) for key in keys}
    if len(kinds) > 1 or bytes in kinds or any("\0" in str(key) for key in keys):
        raise ParameterError(f"the keys {keys[0]!r} and {keys[1]!r} are not both text or both numbers: use Index.{command}")
    options = ["--name", index, "--key-type", "int" if int in kinds else "text", "--json"]
    words = [sys.executable, "-I", "-c", _PROGRAM, command, *options, "--", path, *map(str, keys)]
    pipe = asyncio.subprocess.PIPE
    try:
        process = await asyncio.create_subprocess_exec(*words, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe)
    except OSError as error:
        raise NearDupError(f"{command} cannot be run ({error.strerror}): call it in Python") from error
    _, problem = await process.communicate()
    if process.returncode not in (0, 1):  # 1: it was so already
        raise NearDupError(problem.decode("utf-8", "replace").strip() or f"{command} ended with {process.returncode}")


def is_own_page(headers: dict[str, str]) -> bool:
    """Whether a form was sent by a page of the same site, by what browsers say of every form: a page of another site could send
    one to a server on this machine."""
    host, origin = headers.get("host"), headers.get("origin")
    return host is not None and origin is not None and urlsplit(origin).netloc == host
