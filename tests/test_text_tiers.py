"""Text on every tier of kernels, and by every way through it, against the plain reading of the rules in text_oracle.

Long runs of ASCII, of letters of two bytes and of three each have a loop of their own; what is tested here is that nothing shows
where one hands over to the next. Joiners of one byte and no stop words: the case that has these loops.
"""

from __future__ import annotations

import gc
import itertools
import random
import sys
from collections.abc import Callable, Iterable

import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st
from test_text_core import CORE, chars, words
from text_oracle import Rules, oracle_tokens, shingles_of

from neardup_db import MinHash, SimHash
from neardup_db._python import locate

RUNS = [
    "The quick, brown FOX jumps over 13 lazy dogs -- and (again) over the other twelve. ",
    "Съешь ещё этих мягких французских булок, да выпей чаю. ",
    "Ξεσκεπάζω τὴν ψυχοφθόρα βδελυγμία· ",
    "Ça été très élevé à Noël où ça gît, straße groß. ",
    "人人生而自由，在尊严和权利上一律平等。他们赋有理性和良心。",
    "すべての人間は、生まれながらにして自由であり、カタカナも。",
    "모든 인간은 태어날 때부터 자유로우며 ",
    "सभी मनुष्यों को गौरव और अधिकारों के मामले में ",
    "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกัน",
    "ﻪﻴﻓ كل النَّاسِ أحرارًا ",
    "כָּל בְּנֵי הָאָדָם נוֹלְדוּ ",
    "“it’s” — he said… ",
    "Ко\u0301шка и\u0306 е\u0308жик нашли\u0301 сыр в доме \u0301 ",
    "Ca\u0327 e\u0301te\u0301 tre\u0300s No\u0308el ou\u0300 ",
    "e\u0301 o\u0308 a\u0323\u0307 \u1100\u1161\u11a8 ",
    "ﬁ ½ ß İ ŉ ǰ Å K ſ ª ² \u00a0 Ⱥ ⱥ ",
    "👩\u200d🚀 🇩🇪🇫🇷 👍🏽 © ",
    "so\u00adft\u200b hy\ufeffphen ",
    "ＦｕｌｌＷｉｄｔｈ　１２３！",
    "\u0345\u0301 \u0e33 \u102c \u0d4e ",
    "\ufffd\u0000\r\n\t",
    "a b c d e f g h i j k l m n o p q r s t u v w x y z ",
    "a",
    " ",
]  # fmt: skip


def rules_of(**options: object) -> Rules:
    return Rules(joiner=b" ", shingle=3, **options)  # type: ignore[arg-type]


Tiers = Callable[[], Iterable[str]]


def agree(rules: Rules, data: bytes, tiers: Tiers = lambda: ["usual"]) -> None:
    """Tokens and shingles, and in every tier what the hashes of shingles tell apart."""
    tokens = oracle_tokens(rules, data)
    shingles = shingles_of(rules, tokens)
    hashes = [xxhash.xxh3_64_intdigest(shingle) for shingle in shingles]
    for tier in tiers():
        assert CORE.hashes(rules, data) == hashes, tier
    assert CORE.tokens() == tokens
    assert CORE.shingles_held(rules) == shingles


@pytest.mark.parametrize("options", [{}, {"normalize": 1}, {"normalize": 0}, {"fold": 0}, {"fold": 1}, {"strip_accents": 1}])
def test_every_pair_of_scripts_meets_without_a_seam(tiers: Tiers, options: dict[str, int]) -> None:
    """Each kind of text before and after each other kind, short and long, gives the shingles and hashes of the plain rules. Rules
    that are not the usual ones are tried with a third of the pairs."""
    rules = rules_of(**options)
    for number, (first, second) in enumerate(itertools.product(RUNS, repeat=2)):
        if not options or number % 3 == 0:
            agree(rules, (first * (1 + 70 // len(first)) + second * 2 + first).encode(), tiers)


def test_every_length_around_the_blocks(tiers: Tiers) -> None:
    """A text cut at every byte around blocks of 16, 32 and 64, in the middle of code points too, gives what the plain rules
    give."""
    rules = rules_of()
    for run in RUNS[:8]:
        data = (run * 5).encode()
        for size in (*range(36), *range(60, 70), *range(124, 132), *range(188, 196)):
            agree(rules, data[:size], tiers)


def test_every_start_around_the_blocks(tiers: Tiers) -> None:
    """So does one that begins at any byte, at any alignment."""
    rules = rules_of()
    for run in (RUNS[0], RUNS[1], RUNS[4]):
        data = (run * 4).encode()
        for start in range(70):
            agree(rules, data[start:], tiers)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(RUNS), st.integers(1, 40), st.integers(0, 3)), max_size=8), st.sampled_from([0, 1, 2]))
def test_mixtures(parts: list[tuple[str, int, int]], normalize: int) -> None:
    """Any mixture, cut anywhere, gives what the plain rules give."""
    data = b"".join((run * 3).encode()[skip : skip + size * 3] for run, size, skip in parts)
    agree(rules_of(normalize=normalize), data)


def test_other_joiners_and_stop_words_take_the_same_words() -> None:
    """No joiner, one of three bytes, one of twenty, and stop words: the tokens of the fast loops, joined or dropped."""
    text = "".join(RUNS)
    plain = words(text, joiner=b" ")
    for joiner in (b"", b"x", b" - ", b"-" * 20):
        assert words(text, joiner=joiner) == plain
    dropped = [token for token in plain if token not in ("the", "да")]
    assert words(text, joiner=b" ", stopwords=(b"the", "да".encode())) == dropped


def test_characters_of_long_runs() -> None:
    """Characters as tokens take the way over single code points, and are those of the plain rules."""
    rules = Rules(tokens=1)
    for run in RUNS:
        data = (run * 9).encode()
        assert chars(run * 9) == [token.decode() for token in oracle_tokens(rules, data)]


# ---- texts of Python ---------------------------------------------------------------------------------------------------


class Named(str):
    """A str of a class of its own: its text does not stand where that of a plain str does."""


def test_texts_of_every_kind_give_the_same_fingerprint() -> None:
    """A text is the same as str, as bytes, as bytearray, as memoryview and as a subclass of str, ASCII or not."""
    scheme = SimHash(bits=64)
    for text in RUNS:
        data = text.encode()
        forms = [text, data, bytearray(data), memoryview(data), Named(text)]
        rows = scheme.fingerprints(forms)
        assert (rows == rows[0]).all()
        assert bytes(scheme.fingerprint(text) if scheme.fingerprint(text) is not None else bytes(8)) == bytes(rows[0])


def test_characters_of_all_lengths_are_encoded_as_by_python() -> None:
    """A str of characters of one to four bytes, in any order and number, is read as the UTF-8 that Python makes of it."""
    draw = random.Random(1)
    characters = "aé\x7f\x80я\u07ff\u0800中\ud800\udfff\uffff\U00010000😀\U0010ffff"
    texts = ["".join(draw.choices(draw.sample(characters, draw.randint(1, 4)), k=draw.randint(0, 60))) for _ in range(20_000)]
    texts = [text for text in texts if not text.isascii()]
    texts.append("é" * 300_000)
    _, _, owners = locate(texts, 0, 1 << 40, lambda text: text.encode("utf-8", "surrogatepass"))
    assert owners == [text.encode("utf-8", "surrogatepass") for text in texts]


EDGES = [*range(0x2200), *range(0x2FE0, 0x3120), 0x3400, 0x4DBF, *range(0x4DC0, 0x4E10), *range(0x9FF0, 0xA010), 0xABFF, 0xAC00]
EDGES += [*range(0xD770, 0xD800), *range(0xFF00, 0xFFFF)]


def test_code_points_around_those_with_tables(tiers: Tiers) -> None:
    """What has a table, and what stands around that, gives the tokens of the plain rules in a run of any script."""
    rules = rules_of()
    for first in range(0, len(EDGES), 64):
        some = [chr(code_point) for code_point in EDGES[first : first + 64]]
        data = "".join(f"{one}étage {one}а{one}中文{one}ка{one}\u094dम{one} " for one in some).encode()
        agree(rules, data, tiers)


def test_slices_of_many_and_of_large_texts() -> None:
    """More texts than go to C in one call, and larger ones, come back in their order."""
    scheme = MinHash(num_perm=16)
    texts = [f"text number {number} of many" for number in range(9000)]
    rows = scheme.fingerprints(texts)
    some = [0, 4095, 4096, 8191, 8192, 8999]
    assert (rows[some] == scheme.fingerprints([texts[i] for i in some])).all()
    large = [" ".join(f"{number}x{i}" for i in range(150_000)) for number in range(3)]
    rows = scheme.fingerprints(large)
    assert all((row == scheme.fingerprint(text)).all() for row, text in zip(rows, large, strict=True))


def test_reading_a_text_leaves_no_copy_in_it() -> None:
    """The UTF-8 of a text that is not ASCII is not kept inside the str, and no reference to a text stays."""
    text = "привет мир это текст " * 1000
    size, references = sys.getsizeof(text), sys.getrefcount(text)
    SimHash(bits=64).fingerprints([text, text])
    gc.collect()
    assert sys.getsizeof(text) == size
    assert sys.getrefcount(text) == references
