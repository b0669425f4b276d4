"""Index files for the other platforms, and what is asked of them there."""

from __future__ import annotations

from pathlib import Path

from neardup_db import BinaryCode, BitSampling, BottomK, Index, MinHash, SimHash

TEXT = "the harbour was full of small boats that morning and nobody had told the baker about the new oven in the yard"
TEXTS = [
    TEXT,
    TEXT.replace("yard", "garden"),
    TEXT + " today",
    "Ein scho\u0308ner Gruß aus Zu\u0308rich an alle \U0001f44d\U0001f3fd im Büro, und noch einer an die Nachbarn",
    "EIN SCHÖNER GRUSS AUS ZÜRICH AN ALLE \U0001f44d\U0001f3fd IM BÜRO, UND NOCH EINER AN DIE NACHBARN",
    "我们在北京的一家小餐馆里吃了一顿非常美味的晚饭，然后沿着河边慢慢走回酒店。",
    "two words",
    "",
    *[" ".join(f"word{i * j % 911}" for j in range(1, 60 + i)) for i in range(1, 300)],
]
CODES = [1 << i for i in range(64)] + [(1 << 64) - 1, 0xABCDEF << 20, (0xABCDEF << 20) | 1]

SCHEMES = {
    "minhash": MinHash(threshold=0.7),
    "minhash_text": MinHash(threshold=0.7, exact=True),
    "minhash_packed": MinHash(threshold=0.7, exact=True, slot_bits=32),
    "bottomk": BottomK(k=64, threshold=0.6, containment=True),
    "bitsampling": BitSampling(bits=128, threshold=0.8),
    "simhash": SimHash(max_distance=12, blocks=14),
}


FILES = (*SCHEMES, "codes")


def quoted(text: str) -> str:
    """A text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


def write(folder: Path) -> None:
    """A file of each scheme, with NAME.sql beside it."""
    for name, scheme in SCHEMES.items():
        with Index(folder / f"{name}.db", scheme=scheme, store_text=name == "minhash_text") as index:
            index.add_many({"key": f"text {i}", "text": text} for i, text in enumerate(TEXTS))
        put_questions(folder, name, [quoted(text) for text in TEXTS[:20]])
    with Index(folder / "codes.db", scheme=BinaryCode(bits=64, max_distance=2)) as index:
        index.add_codes([f"code {i}" for i in range(len(CODES))], CODES)
    put_questions(folder, "codes", [f"'{code:016x}'" for code in CODES])


def put_questions(folder: Path, name: str, literals: list[str]) -> None:
    """A question for each text or code, and a copy of the file."""
    asked = [f"SELECT {i}, * FROM neardup_search('neardup', {literal});" for i, literal in enumerate(literals)]
    statements = [*asked, f"VACUUM INTO '{name}.copy';"]
    (folder / f"{name}.sql").write_text("\n".join(statements), encoding="utf-8", newline="\n")
