"""Which text rules and thresholds deduplicate real short texts: recall of planted copies, and how many rows go that should stay.

    python benchmarks/planted.py --hutto DIR --packages FILE --wordnet DIR --bible FILE [--rows FOLDER]

None of the texts comes with this repository:

- `--hutto`: tweets and sentences of reviews and editorials (Hutto and Gilbert 2014), the unpacked
  `additional_resources/hutto_ICWSM_2014.tar.gz` of `pip download --no-deps --no-binary :all: vaderSentiment`
- `--packages`: one-line package descriptions, the output of `apt-cache dumpavail`
- `--wordnet`: glosses, `/usr/share/wordnet` of Debian's `wordnet-base`
- `--bible`: sentences, JSON lines of `text` (gzip) with chapters of one translation or more

Texts of 5 to 40 words are taken, equal ones once, up to 10,000 a set in random order. Of 500 a copy is planted behind all of
them, edited once or twice as people and programs do (`EDITS`). Deduplication is direct: in this order a row stays unless it
matches a row that stays. Similarities are exact, so the machine does not matter.

Recall: share of the planted copies that match their original. Unlike: share of the rows that go for which the row that stays
is another message. `--rows FOLDER` writes a sample of up to 100 rows that go under each setting, in random order, planted
copies aside; `planted_judged.tsv` has one reader's verdict on each (the hashes of both texts, 1 for the same message, 0 for
another). Where not all of the sample were judged the share is of the judged ones.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import hashlib
import html
import json
import random
import re
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from neardup_db import TextRules
from neardup_db.compute import jaccard_pairs, shingle_hashes

RULES = {
    **{f"words({size})": TextRules.words(shingle=size) for size in (3, 2, 1)},
    **{f"chars({size})": TextRules.chars(shingle=size) for size in (5, 4, 3)},
}
THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9)
MOST, COPIES, JUDGED = 10_000, 500, 100
VERDICTS = Path(__file__).with_name("planted_judged.tsv")


# ---- the texts ---------------------------------------------------------------------------------------------------------


def hutto(folder: Path, name: str) -> Iterator[str]:
    """Snippets of one source."""
    for line in (folder / f"{name}_GroundTruth.txt").read_text("utf-8", "replace").splitlines():
        yield html.unescape(line.split("\t", 2)[2])


def packages(path: Path) -> Iterator[str]:
    """What Debian packages are, in a line each."""
    for line in path.read_text("utf-8", "replace").splitlines():
        if line.startswith("Description: "):
            yield line.removeprefix("Description: ")


def glosses(folder: Path) -> Iterator[str]:
    """Definitions of nouns, without their examples."""
    for line in (folder / "data.noun").read_text("utf-8", "replace").splitlines():
        if " | " in line:
            yield line.split(" | ", 1)[1].split('; "')[0].strip()


def sentences(path: Path) -> Iterator[str]:
    """Sentences of one translation of the Bible, the one whose keys begin with YLT."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for record in map(json.loads, file):
            if record["id"].startswith("YLT:"):
                yield from re.split(r"(?<=[.?!;]) ", record["text"])


def taken(texts: Iterator[str]) -> list[str]:
    """Different texts of 5 to 40 words in random order."""
    fit = sorted({text for text in map(str.strip, texts) if 5 <= len(text.split()) <= 40})
    different = list({" ".join(re.findall(r"\w+", text.casefold())): text for text in fit}.values())
    random.Random(1).shuffle(different)
    return different[:MOST]


# ---- planted copies ----------------------------------------------------------------------------------------------------

SWAPS = {
    "is": "was", "was": "is", "are": "were", "the": "this", "a": "the", "and": "&", "to": "2", "for": "4", "you": "u", "your":
    "ur", "not": "never", "very": "really", "really": "very", "great": "good", "good": "great", "big": "large", "large":
    "big", "small": "little", "said": "says", "has": "have", "have": "had", "will": "shall", "can": "could", "all": "every",
    "in": "at", "on": "upon", "of": "from", "with": "using", "this": "that", "that": "which", "who": "that", "it": "this",
    "be": "become", "but": "yet", "or": "and", "i": "we", "my": "our", "file": "files", "tool": "utility", "library":
    "libraries", "program": "application", "support": "supports", "movie": "film", "film": "movie", "best": "finest",
}


def _typo(text: str, rng: random.Random) -> str:
    place = rng.choice([match.start() for match in re.finditer(r"(?<=\w)\w(?=\w)", text)] or [0])
    before, letter, after = text[:place], text[place : place + 1], text[place + 1 :]
    return before + rng.choice(("", 2 * letter, "e")) + after


def _word(text: str, rng: random.Random) -> str:
    words = text.split()
    known = [place for place, word in enumerate(words) if word.casefold() in SWAPS]
    place = rng.choice(known or range(len(words)))
    words[place] = SWAPS.get(words[place].casefold(), words[place] + "s")
    return " ".join(words)


def _left_out(text: str, rng: random.Random) -> str:
    words = text.split()
    short = [place for place, word in enumerate(words) if len(word) < 5]
    del words[rng.choice(short or range(len(words)))]
    return " ".join(words)


def _put_in(text: str, rng: random.Random) -> str:
    words = text.split()
    words.insert(rng.randrange(len(words)), rng.choice(("just", "really", "also", "now", "so", "then")))
    return " ".join(words)


def _swapped(text: str, rng: random.Random) -> str:
    words = text.split()
    place = rng.randrange(len(words) - 1)
    words[place : place + 2] = words[place + 1], words[place]
    return " ".join(words)


HASHTAGS = ("fail", "win", "news", "nowreading", "followback", "truth")

EDITS = {
    "a typing error": _typo,
    "a word replaced by another": _word,
    "a short word left out": _left_out,
    "a word put in": _put_in,
    "two words swapped": _swapped,
    "a hashtag at the end": lambda text, rng: f"{text} #{rng.choice(HASHTAGS)}",
    "a link at the end": lambda text, rng: f"{text} https://t.co/{''.join(rng.choices('abcdefghXYZ0123456789', k=8))}",
    "forwarded": lambda text, rng: f"RT @{rng.choice(('maria', 'jon_s', 'thenews', 'k8', 'debby77'))}: {text}",
    "an emoji": lambda text, rng: f"{text} {rng.choice('😂🔥👍😭🙏')}",
    "other case": lambda text, rng: rng.choice((text.upper(), text.lower(), text.title())),
    "other punctuation": lambda text, rng: re.sub(r"[^\w\s]", "", text).strip() + rng.choice(("", "!!!", "...", ".")),
    "cut off at the end": lambda text, rng: " ".join(text.split()[:-1]) + "…",
}


def edited(text: str, rng: random.Random) -> str:
    """A copy with one edit, or with two."""
    for edit in rng.sample(list(EDITS.values()), rng.choice((1, 1, 1, 2, 2))):
        text = edit(text, rng)
    return text


# ---- what goes ---------------------------------------------------------------------------------------------------------


class Gone(NamedTuple):
    """A row that goes, the row that stays for it, and their similarity."""

    row: int
    stays: int
    similarity: float


def direct(count: int, ids: np.ndarray, similarities: np.ndarray) -> list[Gone]:
    """In order, a row goes if it matches a row that stays: the most similar one is named."""
    earlier: dict[int, list[tuple[float, int]]] = {}
    for (a, b), similarity in zip(ids.tolist(), similarities.tolist(), strict=True):
        earlier.setdefault(max(a, b), []).append((similarity, -min(a, b)))
    gone: dict[int, Gone] = {}
    for row in sorted(earlier):
        staying = [pair for pair in earlier[row] if -pair[1] not in gone]
        if staying:
            similarity, stays = max(staying)
            gone[row] = Gone(row, -stays, similarity)
    return list(gone.values())


class Set(NamedTuple):
    """Texts, of which the last are copies; `originals` has the row of each copy's original."""

    name: str
    texts: list[str]
    originals: list[int]

    @property
    def first_copy(self) -> int:
        return len(self.texts) - len(self.originals)


def planted(name: str, texts: list[str]) -> Set:
    """A set with its copies."""
    rng = random.Random(2)
    originals = rng.sample(range(len(texts)), min(COPIES, len(texts)))
    return Set(name, [*texts, *(edited(texts[row], rng) for row in originals)], originals)


def name_of(text: str) -> str:
    """A text in the file of verdicts."""
    return hashlib.sha1(text.encode("utf-8", "replace")).hexdigest()[:10]


def verdicts() -> dict[tuple[str, str], bool]:
    """Of pairs that were read."""
    if not VERDICTS.exists():
        return {}
    with open(VERDICTS, encoding="ascii") as file:
        return {(row[0], row[1]): row[2] == "1" for row in csv.reader(file, delimiter="\t")}


def results(one: Set, folder: Path | None) -> Iterator[tuple[str, ...]]:
    """A row of the table for each setting."""
    known = verdicts()
    pool: dict[tuple[int, int], set[str]] = {}
    for rules_name, rules in RULES.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sets = [np.unique(shingle_hashes(text, rules)) for text in one.texts]
        ids, similarities = jaccard_pairs(sets, min(THRESHOLDS))
        for threshold in THRESHOLDS:
            reach = similarities >= threshold
            pairs = {(min(pair), max(pair)) for pair in ids[reach].tolist() for pair in [tuple(pair)]}
            gone = direct(len(one.texts), ids[reach], similarities[reach])
            copies = {one.first_copy + number: row for number, row in enumerate(one.originals)}
            found = sum((row, copy) in pairs for copy, row in copies.items())
            natural = [(row, stays) for row, stays, _ in gone if copies.get(row) != stays and row < one.first_copy]
            natural.sort(key=lambda pair: name_of(one.texts[pair[0]]))
            sample = natural[:JUDGED]
            for pair in sample:
                pool.setdefault(pair, set()).add(f"{rules_name} {threshold}")
            said = [known.get((name_of(one.texts[a]), name_of(one.texts[b]))) for a, b in sample]
            wrong, judged = said.count(False), len(said) - said.count(None)
            unlike = wrong / judged * len(natural) if judged else 0.0
            yield (
                one.name, rules_name, str(threshold), f"{found / len(copies):.0%}", str(len(gone)), str(len(natural)),
                f"{wrong} of {judged}", f"{unlike / len(gone):.1%}" if gone else "-",
            )  # fmt: skip
    if folder is not None:
        with open(folder / f"{one.name.replace(' ', '_')}.tsv", "w", encoding="utf-8") as file:
            for (row, stays), settings in sorted(pool.items(), key=lambda item: name_of(one.texts[item[0][0]])):
                print(one.texts[stays], one.texts[row], len(settings), ", ".join(sorted(settings)), sep="\t", file=file)


def sets_of(options: argparse.Namespace) -> Iterator[tuple[str, Iterator[str]]]:
    """The sets whose sources were given."""
    if options.hutto:
        for name, file in (("tweets", "tweets"), ("reviews", "amazonReviewSnippets"), ("editorials", "nytEditorialSnippets")):
            yield name, hutto(options.hutto, file)
    if options.packages:
        yield "packages", packages(options.packages)
    if options.wordnet:
        yield "glosses", glosses(options.wordnet)
    if options.bible:
        yield "sentences", sentences(options.bible)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("hutto", "packages", "wordnet", "bible", "rows"):
        parser.add_argument(f"--{name}", type=Path)
    options = parser.parse_args(arguments)
    heads = "set|rules|threshold|copies found|rows that go|of the set's own|unlike, judged|unlike, of all that go"
    print(f"| {heads.replace('|', ' | ')} |", "|---" * (heads.count("|") + 1) + "|", sep="\n")
    notes = []
    for name, texts in sets_of(options):
        one = planted(name, taken(texts))
        words = sorted(len(text.split()) for text in one.texts)
        for row in results(one, options.rows):
            print("| " + " | ".join(row) + " |", flush=True)
        notes.append(f"{name}: {one.first_copy:,} texts of {words[len(words) // 2]} words (the median)")
    print("", *notes, sep="\n")


if __name__ == "__main__":
    main()
