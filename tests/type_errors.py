"""Calls that a type checker refuses, and calls that it does not.

`.ci/run` checks this file with `mypy --strict`: where a wrong call passes, its `type: ignore` is unused, and that is an error.
Nothing here is run.
"""

from __future__ import annotations

import os
from datetime import datetime, timezone
from pathlib import Path

import apsw
import numpy as np
import polars

from neardup_db import BinaryCode, BitSampling, BottomK, Index, Match, MinHash, Pair, SimHash, TextRules, compute, tune
from neardup_db.aio import AsyncIndex
from neardup_db.schemes.base import Scheme
from neardup_db.tables import columns


def right(index: Index, folder: os.PathLike[bytes], codes: Index) -> list[Pair]:
    """All of this passes."""
    Index("a.db", MinHash(threshold=0.8), text=TextRules.chars(), durability="normal")
    Index(Path("a.db"), SimHash(), text=TextRules(normalize=None, case="lower", tokens=str.split, hash="md5"), timeout=1)
    Index(apsw.Connection(":memory:"), BottomK(containment=True))
    Index(folder, BitSampling(seed="random", family="java32"))
    index.add("a", b"text", metadata={"a": 1}, group=5, expires_at=datetime.now(timezone.utc), if_exists="replace")
    index.add_if_new(1, "text", expires_at=5.5, on_match="touch")
    index.add_many([("a", "text"), ("b", "text")], if_exists="ignore", on_error="skip")
    index.add_many(({"key": number, "text": "text"} for number in range(5)), progress=print)
    index.add_many(polars.DataFrame({"id": [1], "body": ["text"]}), key="id", text="body", group="id", metadata=["id"])
    index.add_many([("a", "text")], on_outcome=lambda key, outcome, match: print(key, outcome == "added", match))
    tune(["text", ("a", b"text")], truth=[("a", 1)]).html()
    index.query_many(polars.Series(["text"]))
    index.query("text", measure="containment", threshold=0.9, limit=5, any=True)
    codes.add_code("a", np.uint64(5))
    codes.add_codes(range(2), np.zeros((2, 8), np.uint8))
    codes.add_codes(["a", "a"], [1, 2], part=["left", None])
    codes.query_code("00ff00ff00ff00ff", max_distance=2)
    return [*index.pairs(), *index.pairs(0.9), *index.pairs(measure="containment"), *index.pairs_with(codes, threshold=0.9)]


async def right_with_tasks(folder: os.PathLike[bytes]) -> list[Pair]:
    """So does this."""
    async with AsyncIndex(folder, MinHash(), readers=2, on_late_result=print) as index:
        await index.add("a", b"text", group=5, if_exists="replace")
        await index.add_many([("a", "text")], progress=print)
        found: list[Match] = await index.query("text", threshold=0.9)
        async with index.transaction() as same:
            scheme: Scheme = await same.scheme
            rows: int = await same.run(len)
        print(found, scheme, rows, [key async for key in index])
        return [pair async for pair in index.pairs(0.9)]


async def wrong_with_tasks(index: AsyncIndex) -> None:
    """And none of this."""
    AsyncIndex(apsw.Connection(":memory:"))  # type: ignore[arg-type]
    AsyncIndex("a.db", durability="fast")  # type: ignore[arg-type]
    await index.add(1.5, "text")  # type: ignore[arg-type]
    await index.add_many("ab")  # type: ignore[arg-type]
    await index.query("text", measure="overlap")  # type: ignore[arg-type]
    print((await index.query("text")).key)  # type: ignore[attr-defined]
    index.query("text")[0]  # type: ignore[index]
    len(index)  # type: ignore[arg-type]


def wrong(index: Index, codes: Index) -> None:
    """None of this passes."""
    Index(3, MinHash())  # type: ignore[arg-type]
    Index("a.db", "minhash")  # type: ignore[arg-type]
    Index("a.db", durability="fast")  # type: ignore[arg-type]
    Index("a.db", text="words")  # type: ignore[arg-type]
    Index("a.db", memory=True)  # type: ignore[call-arg]
    TextRules(normalize="nfc")  # type: ignore[arg-type]
    TextRules(case="upper")  # type: ignore[arg-type]
    TextRules(tokens="letters")  # type: ignore[arg-type]
    TextRules(nonword="cut")  # type: ignore[arg-type]
    TextRules(short="pad")  # type: ignore[arg-type]
    TextRules(hash="crc32")  # type: ignore[arg-type]
    TextRules(hash_seed="drawn")  # type: ignore[arg-type]
    TextRules(min_tokens="3")  # type: ignore[arg-type]
    MinHash(threshold="0.8")  # type: ignore[arg-type]
    MinHash(slot_bits=8)  # type: ignore[arg-type]
    MinHash(family="java")  # type: ignore[arg-type]
    BottomK(measure="jaccard")  # type: ignore[arg-type]
    BinaryCode(bits="64")  # type: ignore[arg-type]
    compute.hash_bytes("text", "crc32")  # type: ignore[arg-type]
    index.add(1.5, "text")  # type: ignore[arg-type]
    index.add("a", None)  # type: ignore[arg-type]
    index.add("a", "text", if_exists="update")  # type: ignore[arg-type]
    index.add("a", "text", expires_at="tomorrow")  # type: ignore[arg-type]
    index.add_if_new("a", "text", on_match="delete")  # type: ignore[arg-type]
    index.add_many("ab")  # type: ignore[arg-type]
    index.add_many(["text"])  # type: ignore[list-item]
    index.add_many([("a", "text")], on_error="ignore")  # type: ignore[arg-type]
    index.add_many([("a", "text")], on_outcome=lambda key: key)  # type: ignore[arg-type, misc]
    tune([5])  # type: ignore[list-item]
    index.query(5)  # type: ignore[arg-type]
    index.query("text", measure="containmnt")  # type: ignore[arg-type]
    index.query("text", threshold="high")  # type: ignore[arg-type]
    index.query("text", 0.9)  # type: ignore[call-arg]
    index.pairs(codes)  # type: ignore[arg-type]
    index.pairs(measure="jaccard")  # type: ignore[arg-type]
    index.pairs_with(0.9)  # type: ignore[arg-type]
    index.merge(0.9)  # type: ignore[arg-type]
    index.merge("other.db", if_exists="skip")  # type: ignore[arg-type]
    index.expire("now")  # type: ignore[arg-type]
    index.rebuild("minhash")  # type: ignore[arg-type]
    codes.add_code("a", None)  # type: ignore[arg-type]
    codes.query_code(0.5)  # type: ignore[arg-type]
    columns(index.pairs(), Index)  # type: ignore[arg-type]
    index.scheme = MinHash()  # type: ignore[misc]
