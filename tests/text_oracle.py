"""An independent reading of the rules for texts in plain Python, to compare the C core with.

It reads the properties it needs from the files of the Unicode Character Database (Debian's package unicode-data) and takes
normal forms from `unicodedata2`; it works on whole texts, in the order in which the rules are stated.
"""

from __future__ import annotations

import re
from collections.abc import Callable
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


@cache
def unspaced() -> set[int]:
    """Code points of scripts without spaces."""
    extended = read_property("ScriptExtensions.txt")
    scripts = {c for c, script in read_property("Scripts.txt").items() if script in UNSPACED_SCRIPTS and c not in extended}
    return scripts | {c for c, value in extended.items() if UNSPACED & set(value.split())}


@cache
def pictographs() -> set[int]:
    return read_set("emoji/emoji-data.txt", "Extended_Pictographic") | read_set("PropList.txt", "Regional_Indicator")


@cache
def ignorables() -> dict[int, None]:
    """For str.translate, which leaves them out."""
    return dict.fromkeys(read_set("DerivedCoreProperties.txt", "Default_Ignorable_Code_Point"))


@cache
def case_mapping(fold: int) -> dict[int, str | None]:
    """For str.translate."""
    if fold == FOLD:
        return {int(row[0], 16): to_text(row[2]) for row in read_lines("CaseFolding.txt") if row[1] in "CF"}
    lower = {int(row[0], 16): to_text(row[13]) for row in read_lines("UnicodeData.txt") if row[13]}
    return lower | {int(row[0], 16): to_text(row[1]) for row in read_lines("SpecialCasing.txt") if not row[4]}


@cache
def break_letters() -> dict[int, str]:
    """A letter for the class of every code point that is not Other: the alphabet of CLUSTER."""
    letters = dict.fromkeys(read_set("emoji/emoji-data.txt", "Extended_Pictographic"), "x")
    names = {"CR": "r", "LF": "n", "Control": "c", "Extend": "e", "ZWJ": "z", "Regional_Indicator": "R", "Prepend": "p"}
    names |= {"SpacingMark": "s", "L": "L", "V": "V", "T": "T", "LV": "v", "LVT": "t"}
    return letters | {code: names[value] for code, value in read_property("auxiliary/GraphemeBreakProperty.txt").items()}


# The regular expression of UAX #29, table 1c, over these letters.
CLUSTER = re.compile("rn|[rnc]|p*(?:L*(?:V+|vV*|t)T*|L+|T+|RR|x(?:e*zx)*|[^rnc])[ezs]*")


class Letters(dict[int, str]):
    """For str.translate: a letter for each code point, found when it first comes."""

    def __init__(self, letter: Callable[[int], str]) -> None:
        self.letter = letter

    def __missing__(self, code: int) -> str:
        return self.setdefault(code, self.letter(code))


BREAKS = Letters(lambda code: break_letters().get(code, "o"))


def word_letter(code: int) -> str:
    """What a code point is to the rule for words: u and m of a script without spaces, p a pictograph, w and M of a word."""
    kind = unicodedata2.category(chr(code))[0]
    if code in unspaced() and kind in "LNM":
        return "m" if kind == "M" else "u"
    if code in pictographs():
        return "p"
    return {"L": "w", "N": "w", "M": "M"}.get(kind, " ")


WORD_LETTERS = Letters(word_letter)
WORD = re.compile("w[wMm]*|[ump]")
ACCENTS = Letters(lambda code: "" if is_accent(chr(code)) else chr(code))

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
        result = normal_form(rules.normalize, result.translate(case_mapping(rules.fold)))
    if rules.strip_accents:
        result = unicodedata2.normalize("NFC", unicodedata2.normalize("NFD", result).translate(ACCENTS))
    return result.translate(ignorables())


def word_spans(text: str) -> list[tuple[int, int]]:
    """Start and end of each token of the rule for words; there is no ZWJ in processed text."""
    letters, breaks = text.translate(WORD_LETTERS), text.translate(BREAKS)
    spans, at, after_unspaced = [], 0, False
    while found := WORD.search(letters, at):
        start, end = found.span()
        letter, follows = letters[start], after_unspaced and start == at
        after_unspaced = letter == "u" or (letter == "m" and follows)
        if after_unspaced or letter == "p":
            end = CLUSTER.match(breaks, start).end()  # type: ignore[union-attr]
        if after_unspaced or letter != "m":
            spans.append((start, end))
        at = end
    return spans


def graphemes(text: str) -> list[str]:
    return [text[slice(*found.span())] for found in CLUSTER.finditer(text.translate(BREAKS))]


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


def shingles_of(rules: Rules, tokens: list[bytes], every: int = 1) -> list[bytes]:
    """Each so many-th one."""
    k = rules.shingle
    if len(tokens) < rules.min_tokens:
        return []
    if len(tokens) < k:
        return [rules.joiner.join(tokens)] if tokens and rules.short_text == WHOLE else []
    return [rules.joiner.join(tokens[i : i + k]) for i in range(0, len(tokens) - k + 1, every)]
