"""A web service that takes in articles and says at once which are new. Any number of worker processes share one file.

    pip install neardup-db fastapi uvicorn
    ARTICLES=articles.db uvicorn fastapi_service:app --workers 4
    curl -X POST localhost:8000/articles -H 'content-type: application/json' -d '{"key": "a1", "text": "the article"}'

Of near-duplicates that arrive at the same time, at whichever worker, exactly one is new: `add_if_new` looks and stores in one
transaction of the file.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Any

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel

from neardup_db import BusyError, DuplicateKeyError, KeyNotFoundError, MinHash
from neardup_db.aio import AsyncIndex

index = AsyncIndex(os.environ.get("ARTICLES", "articles.db"), MinHash(threshold=0.8), store_text=True)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Opens the file in each worker, and closes it after the last request."""
    async with index:
        yield


app = FastAPI(lifespan=lifespan)


class Article(BaseModel):
    """What comes in."""

    key: str
    text: str
    source: str | None = None


@app.exception_handler(BusyError)
async def busy(request: Request, error: BusyError) -> Response:
    """Nothing was done: the client may try again."""
    return JSONResponse({"detail": str(error)}, 503, {"Retry-After": "1"})


@app.post("/articles", status_code=201)
async def take(article: Article, response: Response) -> dict[str, Any]:
    """Stores an article that is new (201); else says what it is like, and stores nothing (200)."""
    try:
        found = await index.add_if_new(article.key, article.text, metadata={"source": article.source})
    except DuplicateKeyError as error:
        raise HTTPException(409, str(error)) from error
    if found:
        response.status_code = 200
    return {"new": not found, "like": [asdict(match) for match in found]}


@app.post("/load")
async def load(request: Request) -> dict[str, int]:
    """Stores lines of JSON as they arrive, all of them or, where the client goes away, none."""

    async def articles() -> AsyncIterator[dict[str, Any]]:
        rest = b""
        async for part in request.stream():
            *lines, rest = (rest + part).split(b"\n")
            for line in lines:
                yield json.loads(line)
        if rest:
            yield json.loads(rest)

    report = await index.add_many(articles(), only_new=True, if_exists="ignore")
    return {"new": report.added, "ignored": report.ignored, "like others": report.matched}


@app.get("/similar")
async def similar(text: str, limit: int = 10) -> list[dict[str, Any]]:
    """Articles that are like a text."""
    return [asdict(match) for match in await index.query(text, limit=limit)]


@app.get("/articles/{key}")
async def article(key: str) -> dict[str, Any]:
    """An article, and what is like it."""
    try:
        document = await index.get(key)
        return {"key": key, "text": document.text, "like": [match.key for match in await index.matches(key)]}
    except KeyNotFoundError as error:
        raise HTTPException(404, str(error)) from error


@app.delete("/articles/{key}", status_code=204)
async def forget(key: str) -> None:
    """Removes an article."""
    if not await index.delete(key):
        raise HTTPException(404, f"no article {key!r}")


@app.put("/articles/{key}")
async def rename(key: str, to: str) -> dict[str, str]:
    """Gives an article another key: several calls, all of them or none."""
    try:
        async with index.transaction():
            old = await index.get(key)
            await index.delete(key)
            await index.add(to, old.text, metadata=old.metadata)
    except KeyNotFoundError as error:
        raise HTTPException(404, str(error)) from error
    except DuplicateKeyError as error:
        raise HTTPException(409, str(error)) from error
    return {"key": to}


@app.get("/pairs")
async def pairs() -> StreamingResponse:
    """All pairs of near-duplicates, as lines of JSON, while they are found."""
    return StreamingResponse((json.dumps(asdict(pair)) + "\n" async for pair in index.pairs()), media_type="application/jsonl")


@app.get("/health")
async def health() -> dict[str, int]:
    """How many articles there are, and which worker says so."""
    return {"articles": await index.length(), "worker": os.getpid()}
