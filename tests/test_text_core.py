"""Text to tokens to shingle hashes in the C core, against an independent reading of the rules in plain Python."""

from __future__ import annotations

import functools
import hashlib
from typing import Any

import pytest
import unicodedata2
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st
from text_oracle import (
    CHARS,
    DROP,
    FOLD,
    KEEP,
    KEEP_CASE,
    LOWER,
    NFC,
    NFKC,
    NONE,
    SHORT_DROP,
    SPACE,
    WHOLE,
    WORDS,
    XXH3,
    Rules,
    oracle_tokens,
    processed,
    shingles_of,
)

from neardup_db.native import ffi, lib

# ---- the C core -----------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=8)
def new_rules(rules: Rules) -> Any:
    """The nd_rules of the C core, freed with the last reference; AssertionError with the status where it is refused."""
    spec = ffi.new("nd_rules_spec *")
    names = "normalize", "fold", "tokens", "nonword", "short_text", "strip_accents", "hash", "shingle", "hash_seed", "min_tokens"
    for name in names:
        setattr(spec, name, getattr(rules, name))
    joiner = ffi.new("uint8_t[]", rules.joiner or b"\0")
    words = ffi.new("uint8_t[]", b"".join(rules.stopwords) or b"\0")
    sizes = ffi.new("size_t[]", [len(word) for word in rules.stopwords] or [0])
    spec.joiner, spec.joiner_size = joiner, len(rules.joiner)
    spec.stopwords, spec.stopword_sizes, spec.stopword_count = words, sizes, len(rules.stopwords)
    out = ffi.new("nd_rules **")
    status = lib.nd_rules_new(spec, out)
    assert status == lib.ND_OK, status
    return ffi.gc(out[0], lib.nd_rules_free)


class Core:
    """One workspace, used for everything: what a run leaves behind must not change the next."""

    def __init__(self) -> None:
        self.work = ffi.gc(lib.nd_text_new(), lib.nd_text_free)
        self.bytes = ffi.new("const uint8_t **")
        self.size = ffi.new("size_t *")

    def slice(self) -> bytes:
        return bytes(ffi.buffer(self.bytes[0], self.size[0])) if self.size[0] else b""

    def normalize(self, rules: Rules, text: bytes) -> bytes:
        assert lib.nd_text_normalize(self.work, new_rules(rules), text, len(text), self.bytes, self.size) == lib.ND_OK
        return self.slice()

    def tokenize(self, rules: Rules, text: bytes) -> list[bytes]:
        assert lib.nd_text_tokenize(self.work, new_rules(rules), text, len(text)) == lib.ND_OK
        return self.tokens()

    def tokens(self) -> list[bytes]:
        found = []
        for index in range(lib.nd_text_token_count(self.work)):
            lib.nd_text_token(self.work, index, self.bytes, self.size)
            found.append(self.slice())
        return found

    def shingles(self, rules: Rules, text: bytes, step: int = 1) -> list[bytes]:
        assert lib.nd_text_tokenize(self.work, new_rules(rules), text, len(text)) == lib.ND_OK
        return self.shingles_held(rules, step)

    def shingles_held(self, rules: Rules, step: int = 1) -> list[bytes]:
        native, found = new_rules(rules), []
        for index in range(0, lib.nd_text_shingle_count(self.work, native), step):
            lib.nd_text_shingle(self.work, native, index, self.bytes, self.size)
            found.append(self.slice())
        return found

    def hashes(self, rules: Rules, text: bytes) -> list[int]:
        native = new_rules(rules)
        assert lib.nd_text_to_hashes(self.work, native, text, len(text)) == lib.ND_OK
        return list(lib.nd_text_hashes(self.work)[0 : lib.nd_text_shingle_count(self.work, native)])


CORE = Core()


def words(text: str, **options: Any) -> list[str]:
    """Tokens of a text by the rule for words."""
    return [token.decode() for token in CORE.tokenize(Rules(**options), text.encode("utf-8", "surrogatepass"))]


def chars(text: str, **options: Any) -> list[str]:
    """Tokens of a text by the rule for characters."""
    return words(text, tokens=CHARS, **options)


# ---- random texts and rules against the oracle ----------------------------------------------------------------------

INTERESTING = (
    "aAbzZ019 \t\n\r.,-'_\0\x1f\x7féÉßẞİıſKÅfiﬁǅΣςσΐᾳжЖйЙ\u00a0\u00ad\u0301\u0308\u0327\u0345\u034f\u200b\u200c\u200d\ufe0f\u2028"
    "中文々〇〆、。「」ひらカﾀﾞﾟー゛ゞ゙한글각각ㅏㅎᅟไทยำก็ໂຫຳខ្មែរမြန်မားါကဲ漢"
    "नमस्तेक्षिনো\u0bcaع\u0600\u06dd\u0d4eּשׁ\u0f73👍🏽👨👩🇩🇪🇫©™ℹ☂①½²Ⅷ\ufdfa\ufdfb\u2126\u1e9b\ufb2c"
    "\ufffd\ufffe\U000e0001\U000e0067𝐀𝟗𐐀𞤀𠀀\U0010ffff\u1100\u1161\u11a8\ud7b0\u3164\uffa0\u115f\U00011099\U000110ba\u20e3"
)
mixed_text = st.lists(
    st.one_of(
        st.sampled_from(INTERESTING),
        st.characters(),
        st.text(alphabet="abcXYZ 1,", min_size=1, max_size=60),
        st.text(alphabet=INTERESTING, max_size=8),
    ),
    max_size=40,
).map(lambda parts: "".join(parts).encode("utf-8", "surrogatepass"))
broken_text = st.lists(
    st.one_of(
        st.binary(max_size=6),
        st.sampled_from(
            [b"\xed\xa0\x80", b"\xed\xbf", b"\xed\xa0a", b"\xf0\x90\x80", b"\xe4\xb8", b"\xf4\x90\x80\x80", b"\xc0\x80"]
        ),
        st.sampled_from(INTERESTING).map(lambda c: c.encode()),
        st.text(alphabet="abc ", min_size=30, max_size=40).map(str.encode),
    ),
    max_size=20,
).map(b"".join)
any_rules = st.builds(
    Rules,
    normalize=st.sampled_from([NONE, NFC, NFKC]),
    fold=st.sampled_from([KEEP_CASE, LOWER, FOLD]),
    tokens=st.sampled_from([WORDS, CHARS]),
    nonword=st.sampled_from([SPACE, KEEP, DROP]),
    short_text=st.sampled_from([WHOLE, SHORT_DROP]),
    strip_accents=st.integers(0, 1),
    shingle=st.sampled_from([1, 2, 3, 5, 40]),
    min_tokens=st.sampled_from([0, 0, 1, 2, 4, 30]),
    joiner=st.sampled_from([b"", b" ", b"\0", b"--joiner longer than most--"]),
    stopwords=st.lists(st.sampled_from([b"a", b"A", "É".encode(), b" ", "的".encode(), b"abc", b""]), max_size=3).map(tuple),
)


def test_text_of_any_script_gives_the_oracles_tokens(more_rounds: bool) -> None:
    """Whatever the rules and the script, processed text, tokens and shingles are those of the plain reading."""
    settings(max_examples=200 if more_rounds else 60)(given(any_rules, mixed_text)(assert_as_the_oracle))()


def assert_as_the_oracle(rules: Rules, text: bytes) -> None:
    assert CORE.normalize(rules, text).decode() == processed(rules, text)
    tokens = oracle_tokens(rules, text)
    assert CORE.tokenize(rules, text) == tokens
    assert CORE.shingles_held(rules) == shingles_of(rules, tokens)


def test_bytes_that_are_no_utf8_give_the_oracles_tokens(more_rounds: bool) -> None:
    """Invalid UTF-8 is read as Python's "replace" does, but an encoded surrogate is one U+FFFD."""
    settings(max_examples=140 if more_rounds else 40)(given(any_rules, broken_text)(assert_as_the_oracle))()


@given(any_rules, st.text(alphabet="abcXYZ019 .,\r\n\t\0_-'", max_size=300))
def test_ascii_is_as_if_it_were_not(rules: Rules, text: str) -> None:
    """The loops over ASCII bytes give what the way through code points gives: soft hyphens, which are dropped, force that way."""
    plain = CORE.tokenize(rules, text.encode())
    assert plain == oracle_tokens(rules, text.encode())
    hyphenated = "\u00ad".join(text[i : i + 7] for i in range(0, len(text), 7))
    assert CORE.tokenize(rules, hyphenated.encode()) == plain


@pytest.mark.parametrize("rules", [Rules(), Rules(normalize=NFC, fold=LOWER), Rules(normalize=NONE, fold=KEEP_CASE)])
def test_code_points_alone_and_between_letters(rules: Rules) -> None:
    """Each code point (but for the bulk of Han and Tangut) has the case, form and place that the database gives it."""
    assigned = [*range(0xD800), *range(0xE000, 0xE100), *range(0xF900, 0x20100), *range(0xE0000, 0xE0200), 0x10FFFF]
    for first in range(0, len(assigned), 0x400 if rules == Rules() else 0x1000):
        block = [chr(c) for c in assigned[first : first + 0x400] if not 0x3500 <= c < 0x4D00 and not 0x17100 <= c < 0x18700]
        text = "".join(f"a{c}b {c}, " for c in block).encode()
        assert CORE.tokenize(rules, text) == oracle_tokens(rules, text), block[0]


# ---- spans ----------------------------------------------------------------------------------------------------------


def test_long_texts_are_cut_where_nothing_crosses() -> None:
    """A text of several spans of 64 KB has the tokens of its whole, wherever the cuts fall."""
    units = ["e\u0301", "가", "ᄀ\u1161\u11a8", "中", "ไทย", "ж й ", "x\u0300\u0316", "🇩🇪", "a\u0308 \u0301", "ſ\u0307"]
    for number, unit in enumerate(units):
        for tokens in (WORDS, CHARS):
            rules = Rules(tokens=tokens, nonword=DROP, shingle=50, joiner=b"|")
            text = ("a" * ((number + tokens) % 2) + unit * (70_000 // len(unit.encode()))).encode()
            assert CORE.shingles(rules, text, 50) == shingles_of(rules, oracle_tokens(rules, text), 50), (unit, tokens)


def test_a_mark_behind_a_long_run_of_ascii() -> None:
    """The last ASCII letter before a combining mark is composed with it, whatever the length of the run before."""
    for size in (31, 32, 33, 47, 48, 49, 63, 64, 65, 65535, 65536, 65537, 65538, 131072):
        assert words("x" * (size - 1) + "e\u0301" + "y" * 40) == ["x" * (size - 1) + "é" + "y" * 40], size
        assert words("é" + "x" * size + "é") == ["é" + "x" * size + "é"], size


def test_bounded_cost() -> None:
    """One letter, tens of thousands of marks, no spaces and the ligature that expands 18 times are only long."""
    count = 30_000
    assert words("A" * count) == ["a" * count]
    assert chars("Ab" * (count // 2)) == ["a", "b"] * (count // 2)
    marks = "e" + "\u0301\u0316" * (count // 2)
    assert words(marks) == ["é" + "\u0316" * (count // 2) + "\u0301" * (count // 2 - 1)]
    assert words("\u0301" * count) == []
    assert words("中" * count) == ["中"] * count
    ligature = unicodedata2.normalize("NFKC", "\ufdfa")
    assert len(words("\ufdfa" * 10_000)) == 10_000 * 3 + 1
    assert words("\ufdfa") == ligature.split(" ")
    assert words("\u200b" * count) == []
    assert len(words(" \u0301" * count)) == 0


# ---- literal cases --------------------------------------------------------------------------------------------------


SCRIPTS = [
    ("", []),
    (" \t\n.,!", []),
    ("Two words", ["two", "words"]),
    ("don't stop_it", ["don", "t", "stop", "it"]),
    ("x1 2nd 3.14", ["x1", "2nd", "3", "14"]),
    ("我们 Python3编程。", ["我", "们", "python3", "编", "程"]),
    ("ひらがなとカタカナ、人々", ["ひ", "ら", "が", "な", "と", "カ", "タ", "カ", "ナ", "人", "々"]),
    ("ภาษาไทย", ["ภ", "า", "ษ", "า", "ไ", "ท", "ย"]),
    ("ที่นี่", ["ที่", "นี่"]),
    ("မြန်မာ", ["မြ", "န်", "မ", "ာ"]),
    ("السلام عليكم، مَرْحَبًا", ["السلام", "عليكم", "مَرْحَبًا"]),
    ("नमस्ते दुनिया।", ["नमस्ते", "दुनिया"]),
    ("한국어 문장", ["한국어", "문장"]),
    ("good👍🏽 job", ["good", "👍🏽", "job"]),
    ("👨\u200d👩\u200d👧", ["👨", "👩", "👧"]),
    ("🇩🇪🇫🇷🇯", ["🇩🇪", "🇫🇷", "🇯"]),
    ("❤\ufe0f!", ["❤"]),
    ("1\ufe0f\u20e3", ["1\u20e3"]),
    ("co\u00adop zero\u200bwidth", ["coop", "zerowidth"]),
    ("Straße STRASSE ſ ﬁn", ["strasse", "strasse", "s", "fin"]),
    ("ΣΊΣΥΦΟΣ", ["σίσυφοσ"]),
    ("Ｆｕｌｌ　ｗｉｄｔｈ", ["full", "width"]),
    ("a\0b", ["a", "b"]),
    ("a\ufffdb", ["a", "b"]),
    ("\u0301a \u0301", ["a"]),
]


def test_words() -> None:
    """The default rules on many scripts: words where there are spaces, graphemes where there are none, emoji alone."""
    for text, expected in SCRIPTS:
        assert words(text) == expected, text


def test_chars_and_what_becomes_of_other_characters() -> None:
    """Characters between words become one space, vanish or stay; ends are trimmed unless they stay."""
    assert chars("  Ab,\n -c! ") == ["a", "b", " ", "c"]
    assert chars("  Ab,\n -c! ", nonword=DROP) == ["a", "b", "c"]
    assert chars(" Ab,\r\n-", nonword=KEEP) == [" ", "a", "b", ",", "\r\n", "-"]
    assert chars("...") == []
    assert chars("...", nonword=KEEP) == [".", ".", "."]
    assert chars("é👍🏽 각") == ["é", "👍🏽", " ", "각"]
    assert chars("🇩 🇪") == ["🇩", " ", "🇪"]
    assert chars("🇩 🇪", nonword=DROP) == ["🇩🇪"]
    assert chars("A\x80" + "b" * 40, nonword=DROP) == ["a"] + ["b"] * 40


def test_stop_words() -> None:
    """Stop words go through the same processing as the text and are dropped before shingling."""
    stop = (b"THE", "É".encode(), "e\u0301".encode(), b"of", b"", "的".encode())
    text = "The end of the été: É 的 story OF it"
    assert words(text, stopwords=stop) == ["end", "été", "story", "it"]
    rules = Rules(stopwords=stop, shingle=2, joiner=b" ")
    assert CORE.shingles(rules, text.encode()) == ["end été".encode(), "été story".encode(), b"story it"]
    many = tuple(f"word{i}".encode() for i in range(10_000))
    assert words("word9999 word10000 Word0 word20000", stopwords=many) == ["word10000", "word20000"]
    assert chars("abcab", stopwords=(b"a",)) == ["b", "c", "b"]
    assert words("the of", stopwords=stop) == []


# ---- shingles and their hashes --------------------------------------------------------------------------------------


def test_every_hash_of_shingles() -> None:
    """The hash of a shingle is that of its bytes: 8 bytes big-endian, or all 4, and the whole digest where it is wider."""
    text = "Ein Text, fünf Wörter lang.".encode()
    columns = []
    for shingle in ("ein text", "text fünf", "fünf wörter", "wörter lang"):
        data = shingle.encode()
        fnv32, fnv64, djb = 2166136261, 14695981039346656037, 5381
        for byte in data:
            fnv32 = (fnv32 ^ byte) * 16777619 % 2**32
            fnv64 = (fnv64 ^ byte) * 1099511628211 % 2**64
            djb = djb * 33 % 2**32 ^ byte
        small = [fnv32.to_bytes(4, "big"), fnv64.to_bytes(8, "big"), djb.to_bytes(4, "big")]
        wide = [hashlib.new(name, data).digest() for name in ("md5", "sha1", "sha256")]
        columns.append([xxhash.xxh3_64_digest(data, 12345), *small, *wide])
    for number, digests in enumerate(zip(*columns, strict=True)):
        rules = Rules(hash=number, shingle=2, joiner=b" ", hash_seed=12345 if number == XXH3 else 0)
        assert CORE.hashes(rules, text) == [int.from_bytes(digest[:8], "big") for digest in digests], number
        held = lib.nd_text_digests(CORE.work)
        if len(digests[0]) > 8:
            assert bytes(ffi.buffer(held, len(b"".join(digests)))) == b"".join(digests), number
        else:
            assert held == ffi.NULL, number
        assert lib.nd_text_shingle_count(CORE.work, new_rules(rules)) == 4


def test_hashes_of_shingles_of_every_length_class() -> None:
    """Shingles from a few bytes to several kilobytes have the hashes of the xxhash package."""
    tokens = [str(n**3) for n in range(1200)]
    text = " ".join(tokens).encode()
    for size in (1, 2, 7, 60, 1000):
        expected = [xxhash.xxh3_64_intdigest("|".join(tokens[i : i + size]).encode()) for i in range(1200 - size + 1)]
        assert CORE.hashes(Rules(shingle=size, joiner=b"|"), text) == expected, size


def test_tokens_of_the_caller() -> None:
    """Tokens from outside are taken as they are, empty ones and any bytes included; stop words do not touch them."""
    rules = Rules(shingle=2, joiner=b"-", stopwords=(b"b",))
    native = new_rules(rules)
    for tokens in ([], [b"A"], [b"A", b"b", b"", b"\xff\x00", b"Z z"], [b""]):
        sizes = ffi.new("size_t[]", [len(token) for token in tokens] or [0])
        assert lib.nd_text_set_tokens(CORE.work, native, b"".join(tokens), sizes, len(tokens)) == lib.ND_OK
        assert CORE.tokens() == tokens
        expected = [b"-".join(tokens[i : i + 2]) for i in range(len(tokens) - 1)] or ([b"-".join(tokens)] if tokens else [])
        assert CORE.shingles_held(rules) == expected
        assert lib.nd_text_hash(CORE.work, native) == lib.ND_OK
        hashes = list(lib.nd_text_hashes(CORE.work)[0 : len(expected)])
        assert hashes == [xxhash.xxh3_64_intdigest(shingle) for shingle in expected]


def test_tokens_of_more_than_four_gigabytes_are_refused() -> None:
    """Offsets have 32 bits: a total beyond that is an error that names the reason, before anything is read."""
    sizes = ffi.new("size_t[]", [2**32])
    assert lib.nd_text_set_tokens(CORE.work, new_rules(Rules()), b"", sizes, 1) == lib.ND_ERROR_CAPACITY
    assert lib.nd_text_token_count(CORE.work) == 0
