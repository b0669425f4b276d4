"""docs/examples/fastapi_service.py under a real server with several workers: `-m examples`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from neardup_db import Index

EXAMPLES = Path(__file__).resolve().parents[1] / "docs" / "examples"
PATIENCE = 120

pytestmark = pytest.mark.examples


def story(number: Any) -> str:
    """A text that is like no other one's."""
    return " ".join(f"word{number}x{i}" for i in range(60))


class Server:
    """uvicorn with two workers, which share a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        command = [sys.executable, "-m", "uvicorn", "fastapi_service:app", "--workers", "2", "--port", "0"]
        env = {**os.environ, "ARTICLES": str(path)}
        self.log = path.with_suffix(".log")
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, cwd=EXAMPLES, env=env, stdout=log, stderr=log)
        self.url = asyncio.run(asyncio.wait_for(self._started(), PATIENCE))

    async def _started(self) -> str:
        while self.log.read_text().count("startup complete") < 2:
            assert self.process.poll() is None, self.log.read_text()
            await asyncio.sleep(0.05)
        (url,) = re.findall(r"running on (http://[\d.]+:\d+)", self.log.read_text())
        return url

    def stop(self) -> None:
        """SIGTERM, and all that is running ends in order."""
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(PATIENCE)
        finally:
            self.process.kill()
        assert self.log.read_text().count("shutdown complete") == 2, self.log.read_text()
        assert "Traceback" not in self.log.read_text()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """The service, and its file."""
    made = Server(tmp_path / "articles.db")
    try:
        yield made
    finally:
        made.process.kill()
        made.process.wait()
        print(made.log.read_text()[-5000:])


def client(server: Server) -> Any:
    """Of httpx, with a connection for each request that is under way."""
    import httpx

    return httpx.AsyncClient(base_url=server.url, timeout=PATIENCE, limits=httpx.Limits(max_connections=200))


def test_hundreds_of_requests_at_once(server: Server) -> None:
    """Of 120 stories, each offered five times at once to two workers, each is new exactly once; questions, removals and requests
    whose clients go away run beside, and the file holds what was acknowledged."""

    async def offer(web: Any, number: int, copy: int) -> int:
        answer = await web.post("/articles", json={"key": f"{number}-{copy}", "text": story(number)})
        assert answer.status_code in (200, 201), answer.text
        if answer.status_code == 200:
            assert [match["key"].partition("-")[0] for match in answer.json()["like"]] == [str(number)]
        return answer.status_code

    async def leave(web: Any, number: int) -> None:
        import httpx

        with contextlib.suppress(httpx.TimeoutException):
            await web.post("/articles", json={"key": f"left-{number}", "text": story(f"left{number}")}, timeout=0.02)

    async def ask(web: Any, number: int) -> int:
        answer = await web.get("/similar", params={"text": story(number)})
        assert answer.status_code == 200
        return len(answer.json())

    async def main() -> set[str]:
        async with client(server) as web:
            offers = [(number, copy) for copy in range(5) for number in range(120)]
            answers = await asyncio.gather(
                *(offer(web, *each) for each in offers),
                *(ask(web, number) for number in range(100)),
                *(leave(web, number) for number in range(50)),
            )
            codes = dict(zip(offers, answers, strict=False))
            stored = {f"{number}-{copy}" for (number, copy), code in codes.items() if code == 201}
            assert sorted(int(key.partition("-")[0]) for key in stored) == list(range(120))
            assert await asyncio.gather(*(ask(web, number) for number in range(120))) == [1] * 120
            gone = sorted(stored)[::3]
            removed = await asyncio.gather(*(web.delete(f"/articles/{key}") for key in gone for _ in range(2)))
            assert sorted(answer.status_code for answer in removed) == [204] * len(gone) + [404] * len(gone)
            workers = {(await web.get("/health", headers={"connection": "close"})).json()["worker"] for _ in range(60)}
            assert len(workers) == 2
            return stored - set(gone)

    stored = asyncio.run(asyncio.wait_for(main(), PATIENCE))
    server.stop()
    with Index(server.path) as index:
        assert {key for key in index if not str(key).startswith("left")} == stored
        assert index.check().ok


def test_every_route(server: Server) -> None:
    """Loading, renaming, listing pairs, what is missing and what is there already."""

    async def main() -> None:
        async with client(server) as web:
            lines = "".join(json.dumps({"key": f"k{number}", "text": story(number // 2)}) + "\n" for number in range(20))
            assert (await web.post("/load", content=lines)).json() == {"new": 10, "ignored": 0, "like others": 10}
            assert (await web.post("/load", content=lines.rstrip())).json() == {"new": 0, "ignored": 10, "like others": 10}
            assert (await web.post("/articles", json={"key": "k0", "text": story("other")})).status_code == 409
            assert (await web.put("/articles/k0", params={"to": "new"})).json() == {"key": "new"}
            assert (await web.put("/articles/k0", params={"to": "x"})).status_code == 404
            assert (await web.put("/articles/k2", params={"to": "new"})).status_code == 409
            assert (await web.get("/articles/new")).json() == {"key": "new", "text": story(0), "like": []}
            assert (await web.get("/articles/k0")).status_code == 404
            assert (await web.get("/pairs")).text == ""

    asyncio.run(asyncio.wait_for(main(), PATIENCE))
    server.stop()
    with Index(server.path) as index:
        index.add("pair", story(2))
        assert len(list(index.pairs())) == 1 and index.check().ok
