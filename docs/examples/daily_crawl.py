"""Keep what is new in each day's crawl; what came in the last 30 days, or is nearly the same, is dropped.

    python daily_crawl.py crawl.db 2026-11-23.jsonl

The name of the file is the day; each line has "url" and "text". The new lines go to 2026-11-23.unique.jsonl, byte for byte, and
2026-11-23.refused.jsonl says which were refused, and because of which stored page. A day can be run again, after a crash at any
moment too: the new lines and the counts come out the same, and the same lines are refused, perhaps for another of the pages that
they are like. Without arguments the script shows itself on three days.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from itertools import islice
from pathlib import Path
from typing import IO, Any

from neardup_db import Index, MinHash, demo

DAYS_KEPT = 30


def lines(path: Path) -> Iterator[tuple[bytes, str, str, dict[str, Any]]]:
    """(line, url, text, mark) of each line. The mark is stored with the document: it tells later which line it came from."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            page = json.loads(line)
            yield line, page["url"], page["text"], {"day": path.stem, "line": number}


@contextmanager
def whole(path: Path) -> Iterator[IO[bytes]]:
    """A file that appears at the path when it is complete and on the disk."""
    part = path.with_suffix(".part")
    with part.open("wb") as out:
        yield out
        out.flush()
        os.fsync(out.fileno())
    os.replace(part, path)


def keep_new(index_path: str, path: Path) -> dict[str, Any]:
    """Store a day and write its new lines; returns the counts."""
    last = datetime.fromisoformat(path.stem).replace(tzinfo=timezone.utc) + timedelta(days=DAYS_KEPT)
    if last.timestamp() <= time.time():
        sys.exit(f"{path}: this day is more than {DAYS_KEPT} days ago, so all of it would expire at once")
    with Index(index_path, MinHash(threshold=0.8)) as index:
        with whole(path.with_suffix(".refused.jsonl")) as refused:

            def note(url: Any, outcome: str, match: Any) -> None:
                if outcome == "duplicate":
                    told = {"url": url, "like": match.key, "similarity": round(match.similarity, 4)}
                    refused.write(json.dumps(told).encode() + b"\n")

            records = ({"key": url, "text": text, "metadata": mark, "expires_at": last} for _, url, text, mark in lines(path))
            # one transaction: the whole day or nothing; `note` is called after its commit
            index.add_many(records, only_new=True, if_exists="ignore", on_outcome=note)
        counts = write_new(index, path, path.with_suffix(".unique.jsonl"))
        return {"day": path.stem, **counts, "expired": index.expire()}


def write_new(index: Index, path: Path, unique: Path) -> dict[str, int]:
    """Write the lines that the index holds."""
    counts = {"read": 0, "new": 0, "same_url": 0, "near_duplicates": 0}
    rest = lines(path)
    with whole(unique) as out:
        while some := list(islice(rest, 1000)):
            documents = index.get_many(url for _, url, _, _ in some)
            for (line, _, _, mark), document in zip(some, documents, strict=True):
                counts["read"] += 1
                if document is None:
                    counts["near_duplicates"] += 1
                elif document.metadata != mark:
                    counts["same_url"] += 1
                else:
                    counts["new"] += 1
                    out.write(line)
    return counts


def show() -> None:
    """Three days of the bundled sample, the last of them twice."""
    with tempfile.TemporaryDirectory() as folder:
        pages = [json.dumps({"url": key, "text": text}) + "\n" for key, text in demo.documents()]
        days = []
        for ago in (2, 1, 0):
            days.append(Path(folder, f"{datetime.now(timezone.utc).date() - timedelta(days=ago)}.jsonl"))
            days[-1].write_text("".join(pages[2 - ago :: 3]), "utf-8")
        for path in (*days, days[-1]):
            print(json.dumps(keep_new(f"{folder}/crawl.db", path)))


if __name__ == "__main__":
    if len(sys.argv) == 3:
        print(json.dumps(keep_new(sys.argv[1], Path(sys.argv[2]))))
    else:
        show()
