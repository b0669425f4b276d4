"""TextRules: parameters, what the caller gave, the file's settings, callables."""

from __future__ import annotations

import hashlib
import json
import pickle

import pytest
import xxhash

from neardup_db import ParameterError, TextRules, compute


def by_comma(text):
    return [part.strip() for part in text.split(",")]


def by_semicolon(text):
    return text.split(";")


def is_long(token):
    return len(token) > 3


def sha512(data):
    return hashlib.sha512(data).digest()


# ---- parameters --------------------------------------------------------------------------------------------------------


def test_signature():
    """The parameters, their order and their defaults are the documented ones."""
    rules = TextRules("NFKC", "fold", "words", 3, None, "space", "whole", (), None, False, "xxh3_64", 0)
    assert rules == TextRules()
    assert len(rules.given) == 12


def test_frozen_hashable_equal():
    """Rules cannot be changed, are equal by their parameters and can be keys."""
    rules = TextRules(shingle=4, stopwords=["b", "a", "b"])
    with pytest.raises(AttributeError):
        rules.shingle = 5
    same = TextRules(shingle=4, stopwords=("a", "b"))
    assert rules == same and hash(rules) == hash(same) and rules != TextRules()
    assert rules != "rules"


def test_repr_can_be_evaluated():
    """repr gives source code that makes equal rules."""
    for rules in (TextRules(), TextRules.chars(nonword="drop"), TextRules(normalize=None, joiner="", stopwords=["x"])):
        assert eval(repr(rules)) == rules
    assert repr(TextRules(tokens=by_comma)) == "TextRules(tokens=by_comma)"


def test_pickle():
    """Rules survive pickling, for worker processes; what was given too."""
    rules = TextRules.chars(shingle=4)
    rules.shingles("compiled before")
    copy = pickle.loads(pickle.dumps(rules))
    assert copy == rules and dict(copy.given) == dict(rules.given)
    assert copy.shingles("abcde") == ["abcd", "bcde"]


# ---- shingles and hashes -----------------------------------------------------------------------------------------------


def test_words():
    """Three words a shingle, folded, punctuation between them gone; two words are one shingle, none is none."""
    rules = TextRules()
    assert rules.shingles("Straße, STRASSE -- x\u00ady z") == ["strasse strasse xy", "strasse xy z"]
    assert rules.shingles("two words") == ["two words"]
    assert rules.shingles("?!") == rules.shingles("") == []
    assert TextRules(short="drop").shingles("two words") == []


def test_min_tokens():
    """A text of fewer tokens than min_tokens, counted after stop words and filter, has no shingles; others keep theirs."""
    words = TextRules(shingle=2, min_tokens=3, stopwords=["the"])
    assert words.shingles("thanks!") == words.shingles("the cat, the mat") == []
    assert words.shingles("the cat, the mat, the hat") == ["cat mat", "mat hat"]
    assert TextRules(shingle=3, min_tokens=2).shingles("two words") == ["two words"]
    chars = TextRules.chars(shingle=2, min_tokens=4)
    assert (chars.shingles("lol"), chars.shingles("lolo")) == ([], ["lo", "ol", "lo"])
    assert chars.shingles("👍🏽👍🏽👍🏽") == []  # graphemes of two code points
    filtered = TextRules(filter=is_long, shingle=1, min_tokens=2)
    assert (filtered.shingles("a quick one"), filtered.shingles("a quick brown")) == ([], ["quick", "brown"])
    own = TextRules(tokens=by_comma, hash=sha512, shingle=1, min_tokens=2)
    assert (own.shingles("a, b"), len(compute.shingle_hashes("a", own))) == (["a", "b"], 0)


def test_hashes_are_recomputable():
    """A shingle's hash is that of its UTF-8 bytes: XXH3-64 with the seed, or the named digest."""
    text = "ein zwei drei vier"
    expected = [xxhash.xxh3_64_intdigest(shingle, 7) for shingle in (b"ein zwei drei", b"zwei drei vier")]
    assert compute.shingle_hashes(text, TextRules(hash_seed=7)).tolist() == expected
    sha1 = compute.shingle_hashes(text, TextRules(hash="sha1"))
    assert [row.tobytes() for row in sha1] == [hashlib.sha1(s).digest() for s in (b"ein zwei drei", b"zwei drei vier")]


# ---- callables ---------------------------------------------------------------------------------------------------------


def test_tokenizer():
    """A tokenizer gets the normalised, folded text; stop words and filter come after it."""
    seen = []

    def spy(text):
        seen.append(text)
        return by_comma(text)

    rules = TextRules(tokens=spy, shingle=2, stopwords=["New York"], filter=is_long)
    assert rules.custom
    assert rules.shingles("Ｐａｒｉｓ, NEW YORK, ab, Lon\u00addon, Rome") == ["paris london", "london rome"]
    assert seen == ["paris, new york, ab, london, rome"]


def test_tokenizer_surrogate():
    """A lone surrogate in a tokenizer's token becomes U+FFFD."""
    assert TextRules(tokens=lambda text: ["a\ud800"], shingle=1).shingles("x") == ["a\ufffd"]


def test_filter_on_built_in_tokens():
    """A filter keeps the built-in tokens for which it is true; none left is an empty text."""
    rules = TextRules(filter=is_long, shingle=2)
    assert rules.shingles("The quick and the brown fox JUMPED") == ["quick brown", "brown jumped"]
    assert rules.shingles("a b c") == []


def test_reentrant_callable():
    """A callable may fingerprint other texts itself without disturbing the text that it is called for."""
    inner = TextRules(shingle=1)

    def keep(token):
        return len(inner.shingles(token * 2)) == 1

    def digest(data):
        inner.shingles("some other text")
        return hashlib.md5(data).digest()

    rules = TextRules(filter=keep, hash=digest, shingle=2)
    assert rules.shingles("one two three") == ["one two", "two three"]
    hashes = compute.shingle_hashes("one two three", rules)
    assert [row.tobytes() for row in hashes] == [hashlib.md5(s).digest() for s in (b"one two", b"two three")]


def test_hash_callable():
    """A hash callable gives digests of its own width; four and eight bytes become numbers."""
    rules = TextRules(hash=sha512, shingle=1)
    assert rules.hash_size == 64 and compute.shingle_hashes("a b", rules).shape == (2, 64)
    four = TextRules(hash=lambda data: data[:1] * 4, shingle=1)
    assert compute.shingle_hashes("a b", four).tolist() == [0x61616161, 0x62626262]


def test_wrong_hash_callable():
    """A hash callable that gives too little, no bytes or another width is a ParameterError."""
    for bad in [lambda data: b"abc", lambda data: "abcd", lambda data: b"abcd" + data]:
        with pytest.raises(ParameterError, match="bytes"):
            compute.shingle_hashes("one two", TextRules(hash=bad, shingle=1))


def test_wrong_tokenizer():
    """A tokenizer must give str."""
    with pytest.raises(ParameterError, match="iterable of str"):
        TextRules(tokens=lambda text: [1]).shingles("x")


# ---- the file ----------------------------------------------------------------------------------------------------------


def test_settings_rows():
    """The rows of the setting table have these names and values."""
    assert TextRules().settings() == {
        "text.normalize": "NFKC", "text.case": "fold", "text.tokens": "words", "text.shingle": 3, "text.joiner": None,
        "text.nonword": "space", "text.short": "whole", "text.stopwords": "[]", "text.filter": None,
        "text.strip_accents": 0, "text.hash": "xxh3_64", "text.hash_seed": 0, "text.min_tokens": 0,
    }  # fmt: skip
    changed = TextRules.chars(normalize=None, case=None, joiner="|", stopwords=["z", "é"], strip_accents=True).settings()
    assert (changed["text.normalize"], changed["text.case"], changed["text.tokens"]) == ("none", "none", "chars")
    assert (changed["text.joiner"], changed["text.strip_accents"]) == ("|", 1)
    assert json.loads(changed["text.stopwords"]) == ["z", "é"]


def test_settings_round_trip():
    """Rules come back from their settings, with nothing given."""
    for rules in [
        TextRules(),
        TextRules.chars(nonword="keep", normalize=None),
        TextRules("NFC", "lower", "words", 5, "", "drop", "drop", ["und", "y"], None, True, "sha256", 0),
        TextRules(hash_seed=(1 << 63) - 1, case=None),
        TextRules.chars(min_tokens=1_000_000),
    ]:
        back = TextRules.from_settings(rules.settings())
        assert back == rules and dict(back.given) == {}, rules


def test_nameless_callable():
    """A lambda works for fingerprints but cannot be stored, and the message says what to use."""
    rules = TextRules(filter=lambda token: True)
    assert rules.shingles("one two three") == ["one two three"]
    with pytest.raises(ParameterError, match="top level of a module"):
        rules.settings()
