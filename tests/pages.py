"""A small index to look at, and a server of it."""

from __future__ import annotations

import asyncio
import functools
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from neardup_db import Index, MinHash

TEXT = "the ferry to the northern islands was cancelled on monday because of a storm that closed the harbour for two whole days"
NEAR = TEXT.replace("northern", "southern").replace("storm", "strike")
SCRIPT = f"<script>alert('run')</script><img src=x onerror=alert(2)> {TEXT}"
OTHER = "an entirely different note about bread, and about the baker who sells it on the second floor of an old mill"
LOW = MinHash(threshold=0.4, exact=True)


def make(path: Path, **options: Any) -> Path:
    """A small index: a cluster of three, one of them with markup in all that is shown, and a document apart."""
    with Index(path, options.pop("scheme", LOW), store_text=options.pop("store_text", True), **options) as index:
        index.add("first", TEXT)
        index.add("near", NEAR, metadata={"source": "<b>wire</b>"})
        index.add("<script>alert('key')</script>", SCRIPT)
        index.add("apart", OTHER)
    return path


class Html(HTMLParser):
    """What a browser has of a page: elements and attributes, texts by the name of their element, and the sides of differences."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.found: dict[str, list[str]] = {}
        self.sides: list[str] = []
        self._within: list[tuple[str, bool]] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag != "meta":
            is_side = ("class", "nd-side") in attrs
            self._within.append((tag, is_side))
            if is_side:
                self.sides.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self._within.pop()[0] == tag, "elements are closed in order"

    def handle_data(self, data: str) -> None:
        if self._within:
            self.found.setdefault(self._within[-1][0], []).append(data)
        if any(is_side for _, is_side in self._within):
            self.sides[-1] += data


ELEMENTS = {
    "html", "head", "meta", "title", "style", "body", "main", "h1", "h2", "p", "div", "span", "strong",
    "table", "tr", "th", "td", "ul", "li", "details", "summary", "del", "ins",
}  # fmt: skip
"""What pages are made of."""

PROGRAM = [sys.executable, "-c", "from neardup_db.cli import main; main()", "serve"]


@contextmanager
def served(path: Path, *options: str) -> Iterator[tuple[str, Any]]:
    """The address that a server prints, and its process; it is ended by Ctrl-C."""
    command = [*PROGRAM, str(path), "--port", "0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=path.parent) as server:
        try:
            assert server.stdout is not None
            address = server.stdout.readline().strip()
            assert address, server.communicate()
            yield address, server
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(20)


@functools.cache
def templates() -> Any:
    """Datasette's templates, compiled once for all tests."""
    from jinja2 import BytecodeCache

    held: dict[str, bytes] = {}

    class Compiled(BytecodeCache):
        def load_bytecode(self, bucket: Any) -> None:
            if bucket.key in held:
                bucket.bytecode_from_string(held[bucket.key])

        def dump_bytecode(self, bucket: Any) -> None:
            held[bucket.key] = bucket.bytecode_to_string()

    return Compiled()


def get(path: Path | list[Path], *addresses: str, metadata: Any = None, **sent: Any) -> Any:
    """The responses of a Datasette with these files: of one address, or a list of them. sent: as the client's `post` takes it."""
    files = [path] if isinstance(path, Path) else path

    from datasette.app import Datasette  # here, as the report's tests do without it

    async def ask() -> list[Any]:
        datasette = Datasette([str(one) for one in files], metadata=metadata)
        datasette.jinja_env.bytecode_cache = templates()
        client = datasette.client
        found = [await (client.post(address, **sent) if sent else client.get(address)) for address in addresses]
        for db in datasette.databases.values():
            db.close()
        return found

    found = asyncio.run(ask())
    return found[0] if len(addresses) == 1 else found


PAGE = "/-/neardup/articles/neardup"
"""Where Datasette has the pages of that index, in articles.db."""
