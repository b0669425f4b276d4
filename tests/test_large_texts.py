"""Texts that are fingerprinted part by part: the value is that of all their hashes at once, and memory does not grow."""

from __future__ import annotations

import subprocess

import numpy as np
import pytest
from interpreter import interpreter
from spawned import PEAK

from neardup_db import BitSampling, BottomK, MinHash, SimHash, TextRules
from neardup_db.compute import bit_sample, bottom_k, minhash, shingle_hashes, simhash
from neardup_db.demo import documents

LARGE = 1 << 19  # bytes from which a text goes part by part

LONGEST = " ".join(text for _, text in documents())[: 2 * LARGE]
ENGLISH = LONGEST[: LARGE + LARGE // 4]
RUSSIAN = " ".join(f"Слово{number % 977} номер {number} — «конец» ё" for number in range(14_000))
CHINESE = "".join(chr(0x4E00 + number * 7919 % 20_000) + "，" * (number % 11 == 0) for number in range(200_000))
ACCENTS = "e\u0301a\u0323\u0307o word ﬁ " * 28_000

RULES = [
    TextRules(),
    TextRules(shingle=1),
    TextRules(shingle=7, stopwords=("the", "and", "номер")),
    TextRules(joiner=""),
    TextRules(strip_accents=True),
    TextRules.chars(),
    TextRules(hash="fnv1a_32"),
    TextRules(hash="md5"),
]


def agree(text: str, rules: TextRules) -> None:
    """The four sketches of the text are those of the array of its hashes, which is never taken in parts."""
    hashes = shingle_hashes(text, rules)
    numbers = hashes if hashes.ndim == 1 else np.ascontiguousarray(hashes[:, :8]).view(">u8").reshape(-1).astype(np.uint64)
    bits = 64 if hashes.dtype != np.uint32 else 32
    assert (SimHash(bits=bits).fingerprint(text, rules) == simhash(hashes, bits)).all()
    assert (MinHash().fingerprint(text, rules) == minhash(numbers.astype(np.uint64), 128)).all()
    assert (BottomK().fingerprint(text, rules) == bottom_k(numbers, 128)).all()
    samples = bit_sample(minhash(numbers.astype(np.uint64), 256, slot_bits=32))
    assert (BitSampling().fingerprint(text, rules) == samples).all()


@pytest.mark.parametrize(
    ("text", "rules"),
    [*((ENGLISH, rules) for rules in RULES), *((text, rules) for text in (RUSSIAN, CHINESE, ACCENTS) for rules in RULES[1::2])],
    ids=lambda value: value[:7] if isinstance(value, str) else str(value),
)
def test_large_texts_have_the_value_of_all_their_hashes(text: str, rules: TextRules) -> None:
    """Whatever the script, the tokens and the hash, the parts together give what the whole gives."""
    agree(text, rules)


@pytest.mark.parametrize("size", [LARGE - 1, LARGE, LARGE + 1, 2 * LARGE])
def test_at_the_size_where_parts_begin(size: int) -> None:
    """Nothing changes between a text just below that size and one just above."""
    agree(LONGEST[:size], TextRules())


@pytest.mark.parametrize(
    "text",
    [
        "a" * 2 * LARGE,
        "a" * LARGE + " b",
        "a b " + "c" * 2 * LARGE + " d e",
        " " * LARGE + "a b" + " " * LARGE,
        "x y " * (LARGE // 3),
    ],
    ids=["one word", "two words", "a long word", "between spaces", "short words"],
)
def test_texts_with_words_longer_than_a_part(text: str) -> None:
    """Words longer than a part, texts of fewer words than a shingle, and of two shingles repeated: as all at once."""
    for rules in (TextRules(), TextRules(shingle=2), TextRules(joiner="--")):
        agree(text, rules)


def test_large_texts_without_words_are_empty() -> None:
    """A large text of no words, or of fewer than a shingle where those are dropped, has no fingerprint."""
    assert SimHash(bits=64).fingerprint(" -- " * LARGE) is None
    assert BottomK().fingerprint("a" * LARGE + " b", TextRules(short="drop")) is None
    words = "abc " * LARGE
    for scheme in (SimHash(bits=64), MinHash(), BottomK()):
        assert scheme.fingerprint(words, TextRules(min_tokens=LARGE + 1)) is None
        assert repr(scheme.fingerprint(words, TextRules(min_tokens=LARGE))) == repr(scheme.fingerprint(words))
    rows, empty = MinHash().fingerprints([" " * LARGE, ENGLISH], return_empty=True)
    assert empty.tolist() == [True, False]
    assert not rows[0].any()


MEMORY = """
import sys
from neardup_db import BottomK, MinHash, SimHash, TextRules
rules = TextRules.chars() if sys.argv[2] == "chars" else TextRules()
scheme = {"minhash": MinHash(), "simhash": SimHash(bits=64), "bottomk": BottomK()}[sys.argv[1]]
text = "Sphinx of black quartz, judge my vow; pack my box with five dozen jugs. " * 200_000
scheme.fingerprint(text[:1000], rules)
before = peak()
scheme.fingerprint(text, rules)
print((peak() - before) >> 20)
"""


@pytest.mark.parametrize(("scheme", "tokens"), [("minhash", "words"), ("simhash", "chars"), ("bottomk", "words")])
def test_fifteen_megabytes_take_little_memory(scheme: str, tokens: str) -> None:
    """The fingerprint of a text of 15 MB takes less than 5 MB beside the text itself."""
    run = subprocess.run([*interpreter(), "-c", PEAK + MEMORY, scheme, tokens], capture_output=True, text=True, check=True)
    assert int(run.stdout) < 5
