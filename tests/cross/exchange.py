"""Index files that go from one system to another: `python exchange.py write|read|change FOLDER`.

write: an index of each scheme, and in NAME.jsonl the answers to the same questions. read: the answers once more, which are to be
the same bytes. change: some documents come and others go, on whichever system, and the answers are new. Uses only the package.
"""

from __future__ import annotations

import hashlib
import json
import random
import sys
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from neardup_db import BinaryCode, BitSampling, BottomK, Index, MinHash, SimHash, TextRules

TIME = datetime(2500, 1, 1, tzinfo=timezone.utc)

WORDS = """harbour Größe STRASSE naïve ﬁne İstanbul 数据库 データ 데이터 न्यूज़ عربي עברית 👍🏽 e\u0301tude ǅ ß ſ 1½ ²x x_y don't
co-op \u200bzero mother-in-law 中文没有空格的句子 ภาษาไทย"""


def texts() -> dict[str, str]:
    """Texts of every kind: Unicode, none, long, alone surrogates, near-copies."""
    rng, words_of = random.Random(7), WORDS.split()
    made = {"empty": "", "two words": "two words", "surrogate": "a \ud800 b c d e f g", "lines": "a\r\nb\nc\rd e f"}
    made["nul"] = "a\0b c d e f"
    for family in range(30):
        words = [rng.choice(words_of) + str(rng.randrange(60)) for _ in range(20 + family)]
        for variant in range(3):
            words = [*words]
            words[rng.randrange(len(words))] = f"other{variant}"
            made[f"Schlüssel {family} {variant}"] = " ".join(words)
    made["long"] = " ".join(f"{rng.choice(words_of)}{rng.randrange(10**6)}" for _ in range(60_000))
    return made


SCHEMES: dict[str, tuple[Any, TextRules]] = {
    "minhash": (MinHash(threshold=0.6), TextRules()),
    "exact": (MinHash(threshold=0.6, exact=True), TextRules.words(shingle=2)),
    "java": (MinHash(threshold=0.6, family="java32", slot_bits=32), TextRules.chars(shingle=5)),
    "bottomk": (BottomK(k=64, threshold=0.5, containment=True), TextRules()),
    "bitsampling": (BitSampling(bits=128, threshold=0.7), TextRules.words(shingle=2)),
    "simhash": (SimHash(max_distance=6), TextRules.words(shingle=1)),
    "codes": (BinaryCode(bits=256, max_distance=31), TextRules()),
}


def code(text: str) -> bytes:
    """A code for a text, near to that of its near-copies."""
    return hashlib.sha256(text[:40].encode("utf-8", "surrogatepass")).digest()


def answers(index: Index, asked: dict[str, str]) -> Iterator[dict[str, Any]]:
    """All that an index says, in an order of its own."""
    takes_text = index.scheme.takes_text
    yield {"scheme": index.scheme.settings(), "rules": index.text_rules.settings(), "documents": len(index)}
    yield {"problems": index.check().problems}
    for key, text in asked.items():
        if takes_text:
            value = index.scheme.fingerprint(text, index.text_rules)
            told: Any = hashlib.sha256(repr(value.tolist() if hasattr(value, "tolist") else value).encode()).hexdigest()
            found = index.query(text)
        else:
            told, found = code(text).hex(), index.query_code(code(text))
        matches = sorted((str(match.key), repr(match.similarity), match.distance) for match in found)
        (document,) = index.get_many([key])
        stored = None if document is None else [document.text, document.group, repr(document.metadata), document.expires_at]
        yield {"key": key, "fingerprint": told, "matches": matches, "document": stored}
    yield {"pairs": sorted((str(pair.key_a), str(pair.key_b), repr(pair.similarity)) for pair in index.pairs())}
    yield {"clusters": sorted(sorted(map(str, cluster.keys)) for cluster in index.clusters())}


def put(index: Index, key: str, text: str) -> None:
    """A document with all that it can have."""
    more = {"metadata": {"größe": len(text)}, "expires_at": TIME}
    if index.scheme.takes_text:
        index.add(key, text, **more)
    else:
        index.add_code(key, code(text), **more)


def main() -> None:
    """Do what the arguments say."""
    action, folder = sys.argv[1], Path(sys.argv[2])
    asked = texts()
    for name, (scheme, rules) in SCHEMES.items():
        path = folder / f"Index {name} ä数.db"
        given: dict[str, Any] = {"scheme": scheme, "text": rules, **CHOICES.get(name, {})} if action == "write" else {}
        with Index(path, **given) as index:
            if action == "write":
                with index.transaction():
                    for key, text in asked.items():
                        put(index, key, text)
            elif action == "change":
                gone = [key for number, key in enumerate(asked) if number % 3 == 0]
                index.delete_many(gone)
                for key in gone[::2]:
                    put(index, key, f"{asked[key]} and more")
                index.rebuild()
            lines = [json.dumps(line, ensure_ascii=True, sort_keys=True) for line in answers(index, asked)]
        (folder / f"{name}.jsonl").write_bytes("".join(line + "\n" for line in lines).encode())
    print(f"{action}: {len(SCHEMES)} files by {sys.platform}")


CHOICES: dict[str, dict[str, Any]] = {
    "minhash": {"store_text": True},
    "bottomk": {"checksums": True},
    "exact": {"store_text": True},
    "codes": {"record_matches": False},
}

if __name__ == "__main__":
    main()
