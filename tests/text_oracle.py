"""An independent reading of the rules for texts in plain Python, to compare the C core with.

It reads the properties it needs from the files of the Unicode Character Database (Debian's package unicode-data) and takes
normal forms from `unicodedata2`; it works on whole texts, in the order in which the rules are stated.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

import unicodedata2
from ucd import read_lines, read_property, read_set, to_text

NONE, NFC, NFKC = 0, 1, 2
KEEP_CASE, LOWER, FOLD = 0, 1, 2
WORDS, CHARS = 0, 1
SPACE, KEEP, DROP = 0, 1, 2
WHOLE, SHORT_DROP = 0, 1
XXH3, FNV32, FNV64, DJB2A, MD5, SHA1, SHA256 = range(7)


@dataclass(frozen=True)
class Rules:
    """Text rules as the tests write them; the fields are those of nd_rules_spec."""

    normalize: int = NFKC
    fold: int = FOLD
    tokens: int = WORDS
    nonword: int = SPACE
    short_text: int = WHOLE
    strip_accents: int = 0
    hash: int = XXH3
    shingle: int = 1
    hash_seed: int = 0
    min_tokens: int = 0
    joiner: bytes = b""
    stopwords: tuple[bytes, ...] = ()


UNSPACED = {"Hani", "Hira", "Kana", "Thai", "Laoo", "Khmr", "Mymr"}
UNSPACED_SCRIPTS = {"Han", "Hiragana", "Katakana", "Thai", "Lao", "Khmer", "Myanmar"}


@dataclass(frozen=True)
class Database:
    """What the rules ask about a character."""

    unspaced: frozenset[int]
    pictograph: frozenset[int]
    ignorable: frozenset[int]
    breaks: dict[int, str]
    lower: dict[int, str]
    fold: dict[int, str]


@cache
def database() -> Database:
    """The database, read once."""
    extended = read_property("ScriptExtensions.txt")
    scripts = {c for c, script in read_property("Scripts.txt").items() if script in UNSPACED_SCRIPTS and c not in extended}
    unspaced = scripts | {c for c, value in extended.items() if UNSPACED & set(value.split())}
    breaks = read_property("auxiliary/GraphemeBreakProperty.txt")
    pictograph = read_set("emoji/emoji-data.txt", "Extended_Pictographic")
    pictograph |= {c for c, value in breaks.items() if value == "Regional_Indicator"}
    ignorable = read_set("DerivedCoreProperties.txt", "Default_Ignorable_Code_Point")
    lower = {int(row[0], 16): to_text(row[13]) for row in read_lines("UnicodeData.txt") if row[13]}
    lower |= {int(row[0], 16): to_text(row[1]) for row in read_lines("SpecialCasing.txt") if not row[4]}
    fold = {int(row[0], 16): to_text(row[2]) for row in read_lines("CaseFolding.txt") if row[1] in "CF"}
    return Database(frozenset(unspaced), frozenset(pictograph), frozenset(ignorable), breaks, lower, fold)


SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]")


def decode(text: bytes) -> str:
    """UTF-8 with U+FFFD for what is wrong: Python's, but one for an encoded surrogate."""
    at, parts = 0, []
    while at < len(text):
        found = SURROGATE.search(text, at)
        end = found.start() if found else len(text)
        parts.append(text[at:end].decode("utf-8", "replace"))
        parts.append("\ufffd" if found else "")
        at = found.end() if found else len(text)
    return "".join(parts)


def normal_form(form: int, text: str) -> str:
    return text if form == NONE else unicodedata2.normalize("NFC" if form == NFC else "NFKC", text)


def is_accent(character: str) -> bool:
    ccc: int = unicodedata2.combining(character)
    return bool(unicodedata2.category(character) == "Mn" and (10 <= ccc <= 36 or ccc >= 200))


def processed(rules: Rules, text: bytes) -> str:
    """The text before it is cut into tokens."""
    result = normal_form(rules.normalize, decode(text))
    if rules.fold:
        mapping = database().fold if rules.fold == FOLD else database().lower
        result = normal_form(rules.normalize, "".join(mapping.get(ord(c), c) for c in result))
    if rules.strip_accents:
        kept = "".join(c for c in unicodedata2.normalize("NFD", result) if not is_accent(c))
        result = unicodedata2.normalize("NFC", kept)
    return "".join(c for c in result if ord(c) not in database().ignorable)


HANGUL = {"L": {"L", "V", "LV", "LVT"}, "LV": {"V", "T"}, "V": {"V", "T"}, "LVT": {"T"}, "T": {"T"}}


def grapheme_end(text: str, start: int) -> int:
    """End of the extended grapheme cluster at start (UAX #29; there is no ZWJ in processed text)."""
    breaks, regional = database().breaks, 0
    for at in range(start + 1, len(text)):
        before, after = breaks.get(ord(text[at - 1]), "Other"), breaks.get(ord(text[at]), "Other")
        regional = regional + 1 if before == "Regional_Indicator" else 0
        if before == "CR" and after == "LF":
            continue
        if before in ("CR", "LF", "Control") or after in ("CR", "LF", "Control"):
            return at
        if after in HANGUL.get(before, ()) or after in ("Extend", "ZWJ", "SpacingMark") or before == "Prepend":
            continue
        if before == after == "Regional_Indicator" and regional % 2 == 1:
            continue
        return at
    return len(text)


def word_spans(text: str) -> list[tuple[int, int]]:
    """Start and end of each token of the rule for words."""
    data, spans, at, after_unspaced = database(), [], 0, False
    while at < len(text):
        kind = unicodedata2.category(text[at])[0]
        unspaced = ord(text[at]) in data.unspaced and (kind in "LN" or (kind == "M" and after_unspaced))
        end = at + 1
        if unspaced or ord(text[at]) in data.pictograph:
            end = grapheme_end(text, at)
            spans.append((at, end))
        elif kind in "LN":
            while end < len(text) and is_in_word(text[end]):
                end += 1
            spans.append((at, end))
        at, after_unspaced = end, unspaced
    return spans


def is_in_word(character: str) -> bool:
    data, kind = database(), unicodedata2.category(character)[0]
    if ord(character) in data.pictograph:
        return False
    return kind == "M" or (kind in "LN" and ord(character) not in data.unspaced)


def graphemes(text: str) -> list[str]:
    found, at = [], 0
    while at < len(text):
        end = grapheme_end(text, at)
        found.append(text[at:end])
        at = end
    return found


def oracle_tokens(rules: Rules, text: bytes) -> list[bytes]:
    result = processed(rules, text)
    spans = word_spans(result)
    if rules.tokens == WORDS:
        tokens = [result[start:end] for start, end in spans]
    elif rules.nonword == KEEP:
        tokens = graphemes(result)
    else:
        pieces: list[str] = []
        before = 0
        for start, end in spans:
            gap = " " if rules.nonword == SPACE and pieces and start > before else ""
            pieces.append(gap + result[start:end])
            before = end
        tokens = graphemes("".join(pieces))
    stop = {processed(rules, word) for word in rules.stopwords}
    return [token.encode() for token in tokens if token not in stop]


def oracle_shingles(rules: Rules, text: bytes) -> list[bytes]:
    return shingles_of(rules, oracle_tokens(rules, text))


def shingles_of(rules: Rules, tokens: list[bytes], every: int = 1) -> list[bytes]:
    """Each so many-th one."""
    k = rules.shingle
    if len(tokens) < rules.min_tokens:
        return []
    if len(tokens) < k:
        return [rules.joiner.join(tokens)] if tokens and rules.short_text == WHOLE else []
    return [rules.joiner.join(tokens[i : i + k]) for i in range(0, len(tokens) - k + 1, every)]
