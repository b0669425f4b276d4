"""Make the index files of tests/data for the version of the installed package: python tests/make_files.py

To be run once for each release, in the folder of its version; a file that was committed and released is never made again.
Everything in the files is fixed, times included.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from neardup_db import BinaryCode, BitSampling, BottomK, Index, MinHash, Passages, SimHash, TextRules, __version__

DATA = Path(__file__).parent / "data"
CREATED = 1_700_000_000_000
EXPIRES = 4_102_444_800
"""2100-01-01."""

BASE = "the harbour was full of small boats that morning and nobody had told the baker about the new oven in the yard"
TEXTS: list[dict[str, Any]] = [
    {"key": "first", "text": BASE, "metadata": {"source": "a", "tags": ["x", "ü"]}},
    {"key": "copy", "text": BASE.upper() + "!", "expires_at": EXPIRES},
    {"key": "near", "text": BASE.replace("yard", "garden")},
    {"key": "nearer", "text": BASE + " today"},
    {"key": b"\x00bytes", "text": BASE, "group": "other"},
    {"key": 42, "text": BASE.replace("small", "large"), "group": 7},
    {"key": "empty", "text": "..."},
    {"key": "short", "text": "two words"},
    {"key": "中文", "text": "我们在北京的一家小餐馆里吃了一顿非常美味的晚饭，然后沿着河边慢慢走回酒店。"},
    {"key": "nfd", "text": "Ein scho\u0308ner Gruß aus Zu\u0308rich an alle 👍🏽 im Büro"},
    {"key": "nfc", "text": "EIN SCHÖNER GRUSS AUS ZÜRICH AN ALLE 👍🏽 IM BÜRO"},
    {"key": -1, "text": "an old story of quite another kind, told once and then forgotten for ever"},
]

CODES: list[int] = [0, (1 << 31) - 1, (1 << 32) - 1, 1 << 255, (1 << 255) | 1, 0xABCDEF << 100, int("10" * 128, 2), 0]

FILES: dict[str, dict[str, Any]] = {
    "simhash": {"scheme": SimHash(max_distance=12, blocks=14), "text": TextRules.words(shingle=1, stopwords=["the", "of"])},
    "minhash": {"scheme": MinHash(threshold=0.7, seed=20), "store_text": True},
    "minhash-exact": {"scheme": MinHash(threshold=0.7, exact=True, slot_bits=32)},
    "minhash-exact-text": {"scheme": MinHash(threshold=0.7, exact=True), "store_text": True},
    "bottomk": {"scheme": BottomK(k=64, threshold=0.6), "text": TextRules.chars(), "record_matches": False},
    "bitsampling": {"scheme": BitSampling(bits=128, threshold=0.8), "store_text": True},
    "binarycode": {"scheme": BinaryCode(bits=256, max_distance=31)},
    "passages": {"scheme": Passages(shortest=6, threshold=0.3), "store_text": True},
}


def made_by_features(index: Index) -> None:
    """A window, groups, expiry, a pair that a person dismissed, and changes for another system."""
    for record in TEXTS[:6]:
        index.add(**record)
    index.connection.execute("CREATE TABLE follower(token TEXT)")
    index.connection.execute("INSERT INTO follower VALUES (?)", (index.changes().token,))
    for record in TEXTS[6:]:
        index.add(**record)
    index.dismiss("first", "nearer")
    index.delete("nfd")


def made_by_containment(index: Index) -> None:
    """All hashes filed, so that questions may ask what contains a text; every page has a checksum."""
    for record in TEXTS:
        index.add(**record)


def made_by_following(index: Index) -> None:
    """A table of the application whose rows are the documents, with one change that is not taken over yet."""
    run = index.connection.execute
    run("CREATE TABLE article(id INTEGER PRIMARY KEY, body TEXT)")
    for number, record in enumerate(TEXTS):
        run("INSERT INTO article VALUES (?, ?)", (number, record["text"]))
    index.follow("article")
    index.sync()
    run("UPDATE article SET body = 'quite another text, which nobody has read' WHERE id = 0")


def made_by_parts(index: Index) -> None:
    """Keys that have several codes."""
    for number, code in enumerate(CODES):
        index.add_code("odd" if number % 2 else "even", code, part=number)
    index.add_code("alone", CODES[3])


FEATURES: dict[str, tuple[dict[str, Any], Callable[[Index], None]]] = {
    "features": ({"scheme": MinHash(threshold=0.7), "window": 1000}, made_by_features),
    "containment": ({"scheme": BottomK(k=64, threshold=0.6, containment=True), "checksums": True}, made_by_containment),
    "parts": ({"scheme": BinaryCode(bits=256, max_distance=31)}, made_by_parts),
    "followed": ({"scheme": MinHash(threshold=0.7, seed=3), "name": "news"}, made_by_following),
}
"""What a file may have beside a scheme: how it is created and what is done with it."""


def made_by_texts(index: Index) -> None:
    """The texts, or the codes, one by one."""
    if index.scheme.takes_text:
        for record in TEXTS:
            index.add(**record)
        index.add("gone", BASE)
        index.delete("gone")
    else:
        for number, code in enumerate(CODES):
            index.add_code(f"code{number}", code, group="g" if number == 7 else None)


def make(path: Path, arguments: dict[str, Any], fill: Callable[[Index], None]) -> None:
    """One file."""
    with Index(path, durability="normal", **arguments) as index:
        fill(index)
        name, run = index.name, index.connection.execute
        run(f"UPDATE {name}_document SET added_at = {CREATED} + id, last_seen = {CREATED} + id")
        run(f"UPDATE {name}_match SET found_at = {CREATED} + document_id")
        run(f"UPDATE {name}_setting SET value = {CREATED} WHERE name = 'created_at'")
        report = index.check()
        assert report.ok, report.problems
        index.compact()


def main() -> int:
    """Make what is missing of the present version."""
    folder = DATA / __version__
    folder.mkdir(parents=True, exist_ok=True)
    schemes = {name: (arguments, made_by_texts) for name, arguments in FILES.items()}
    for name, (arguments, fill) in (schemes | FEATURES).items():
        path = folder / f"{name}.db"
        if path.exists():
            print(f"{path} is there")
            continue
        make(path, arguments, fill)
        print(f"{path}: {path.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
