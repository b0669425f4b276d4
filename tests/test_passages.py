"""Passages: the runs of tokens that texts share, against plain Python; their places, SQL, boilerplate, hostile texts."""

from __future__ import annotations

import random
import warnings
from collections.abc import Sequence
from pathlib import Path

import apsw
import numpy as np
import pytest
from load import steps
from support import covered, passage_share, split

from neardup_db import (
    CommonPassage,
    CorruptIndexError,
    Index,
    KeyNotFoundError,
    MinHash,
    ParameterError,
    Passage,
    Passages,
    ShortTextsWarning,
    TextRules,
    load,
)
from neardup_db.compute import shingle_hashes
from neardup_db.native import ffi, lib, text_bytes, tokenize, tokens_of, workspace

PAIRS, PAIRS_MORE = 400, 10_000
FOX = "They say that the quick brown fox jumps over the lazy dog."
TOKENS = TextRules(shingle=1)

# ---- the reference ---------------------------------------------------------------------------------------------------------


def runs_of(a: Sequence[int], b: Sequence[int], shortest: int) -> list[tuple[int, int, int]]:
    """(start, other start, tokens) of each run of a that b has and that cannot be longer, where b has it first; longest first."""
    lengths, places, behind = [0] * len(a), [0] * len(a), [0] * (len(b) + 1)
    for i in reversed(range(len(a))):
        here = [behind[j + 1] + 1 if a[i] == b[j] else 0 for j in range(len(b))] + [0]
        lengths[i] = max(here)
        places[i], behind = here.index(lengths[i]), here
    found = [
        (i, places[i], length)
        for i, length in enumerate(lengths)
        if length >= shortest and (i == 0 or lengths[i - 1] != length + 1)
    ]
    return sorted(found, key=lambda run: (-run[2], run[0]))


def pair(draw: random.Random) -> tuple[list[int], list[int]]:
    """Two texts over a small or large alphabet, periodic ones among them, with planted, overlapping and repeated runs."""
    letters = draw.choice([1, 2, 3, 5, 20, 1000])

    def text() -> list[int]:
        size = draw.randint(0, 120)
        if draw.random() < 0.3:
            period = [draw.randrange(letters) for _ in range(draw.randint(1, 7))]
            made = (period * (size // len(period) + 1))[:size]
            if made and draw.random() < 0.5:
                made[draw.randrange(size)] = draw.randrange(letters)
            return made
        return [draw.randrange(letters) for _ in range(size)]

    a, b = text(), text()
    for _ in range(draw.randint(0, 4)):
        source, target = draw.choice([(a, b), (b, a), (a, a), (b, b)])
        if source:
            start, place = draw.randrange(len(source)), draw.randint(0, len(target))
            target[place:place] = source[start : start + draw.randint(1, 70)]
    return a, b


def value_of(tokens: Sequence[int]) -> bytes:
    return np.array(tokens, "<u4").tobytes()


def found_by_core(a: Sequence[int], b: Sequence[int], shortest: int) -> tuple[list[tuple[int, int, int]], int, int]:
    """The runs, and how many tokens of each lie in them."""
    values = [ffi.from_buffer("uint8_t[]", value_of(one)) for one in (a, b)]
    passages, own, others = lib.nd_passages_new(), ffi.new("uint64_t *"), ffi.new("uint64_t *")
    out, count = ffi.new("nd_passage **"), ffi.new("size_t *")
    try:
        assert lib.nd_passages_begin(passages, values[0], len(values[0]), shortest) == lib.ND_OK
        assert lib.nd_passages_compare(passages, values[1], len(values[1]), own, others) == lib.ND_OK
        assert lib.nd_passages_find(passages, values[1], len(values[1]), out, count) == lib.ND_OK
        return [(run.start, run.other_start, run.tokens) for run in out[0][0 : count[0]]], own[0], others[0]
    finally:
        lib.nd_passages_free(passages)


def keys_of(scheme: Passages, tokens: Sequence[int]) -> set[int]:
    keys, value = lib.nd_keys_new(), ffi.from_buffer("uint8_t[]", value_of(tokens))
    try:
        assert lib.nd_scheme_file_keys(scheme.native, 0, value, len(value), keys) == lib.ND_OK
        return {keys.rows[i].low for i in range(keys.count)}
    finally:
        lib.nd_keys_free(keys)


def winnowed(scheme: Passages, tokens: Sequence[int]) -> set[int]:
    """The keys by the formula of docs/reference/format.md."""
    most, hashes = 2**64 - 1, []
    for start in range(len(tokens) - scheme.k + 1):
        total = 0
        for token in tokens[start : start + scheme.k]:
            total = (total * 0xD6E8FEB86659FD93 + token * 0x9E3779B97F4A7C15) & most
        for _ in range(2):
            total = ((total ^ total >> 32) * 0xD6E8FEB86659FD93) & most
        hashes.append(total ^ total >> 32)
    window = scheme.shortest - scheme.k + 1
    chosen = [min(hashes[i : i + window]) for i in range(len(hashes) - window + 1)]
    return {(hash - 2**64 if hash >> 63 else hash) >> 16 for hash in chosen}


def test_random_pairs_are_those_of_the_reference(request: pytest.FixtureRequest) -> None:
    """Passages, their places, the tokens in them; and two texts with a passage always share a row of the candidate table."""
    draw, met = random.Random(30), 0
    for _ in range(PAIRS_MORE if request.config.getoption("--more") else PAIRS):
        (a, b), shortest = pair(draw), draw.randint(3, 60) if draw.random() < 0.4 else draw.randint(3, 12)
        runs = runs_of(a, b, shortest)
        assert found_by_core(a, b, shortest) == (sorted(runs), covered(a, b, shortest), covered(b, a, shortest)), (a, b, shortest)
        if runs:
            met += 1
            scheme = Passages(shortest=shortest)
            assert keys_of(scheme, a) & keys_of(scheme, b), (a, b, shortest)
            assert scheme.similarity(np.array(a, np.uint32), np.array(b, np.uint32)) == passage_share(a, b, shortest)
    assert met > PAIRS / 4


def test_rows_are_those_of_the_formula() -> None:
    """The selected hashes are what the file format says, for every length of a passage."""
    draw = random.Random(31)
    for shortest in (*range(3, 61), 100, 1000):
        scheme = Passages(shortest=shortest)
        for letters in (1, 2, 50):
            tokens = [draw.randrange(letters) for _ in range(shortest + draw.randint(0, 80))]
            assert keys_of(scheme, tokens) == winnowed(scheme, tokens)


def test_published_rows() -> None:
    """Rows of one text, as a file has them: they never change."""
    text = "the quick brown fox jumps over the lazy dog"
    value = Passages(shortest=4).fingerprint(text)
    assert value.tolist() == [int(hash) & 0xFFFFFFFF for hash in shingle_hashes(text, TOKENS)]
    assert sorted(keys_of(Passages(shortest=4), value.tolist())) == PUBLISHED


PUBLISHED = [-64020864335465, 54185857985375, 82016075981968, 83723269055867, 123265323608763]

# ---- places in texts -------------------------------------------------------------------------------------------------------

PIECES = [
    *("a", "B", "é", "e\u0301", "ß", "ﬁ", "½", ".", "-", "\n", "日", "本", "ก", "\u0e33", "😀", "\U0001f468\u200d\U0001f469"),
    *("\u200b", "\u00ad", "İ", "the", "and", "\u0301", "한", "\u1112", "\u1161", "\u11ab", "Ⅷ", "1", "ʼ", "'", "ﷺ"),
    *("\U0001f1e9", "\U0001f1ea", "က"),
]
RULES = [
    TextRules(),
    TextRules(stopwords=["the", "a", "and"]),
    TextRules.chars(),
    TextRules.chars(nonword="keep"),
    TextRules.chars(nonword="drop"),
    TextRules(strip_accents=True),
    TextRules(normalize=None, case=None),
    TextRules(normalize="NFC", case="lower", joiner="--"),
    TextRules.chars(strip_accents=True, stopwords=["a"]),
]


def located(rules: TextRules, data: bytes) -> tuple[list[bytes], list[tuple[int, int]]]:
    expected = tokens_of(tokenize(rules.native, data))
    starts, ends, count = ffi.new("uint64_t[]", len(expected) + 1), ffi.new("uint64_t[]", len(expected) + 1), ffi.new("size_t *")
    status = lib.nd_text_locate(
        workspace(), rules.native, ffi.from_buffer("uint8_t[]", data), len(data), starts, ends, len(expected), count
    )
    assert (status, count[0]) == (lib.ND_OK, len(expected))
    assert tokens_of(workspace()) == expected
    return expected, list(zip(starts[0 : count[0]], ends[0 : count[0]], strict=True))


def test_tokens_stand_where_they_are_said_to() -> None:
    """The bytes of a place make the token, under all rules, of composed, folded, dropped and joined characters too."""
    draw = random.Random(32)
    for _ in range(3000):
        rules = draw.choice(RULES)
        data = "".join(draw.choice([*PIECES, " "]) for _ in range(draw.randint(0, 14))).encode()
        tokens, places = located(rules, data)
        for token, (start, end) in zip(tokens, places, strict=True):
            assert 0 <= start < end <= len(data)
            piece = data[start:end]
            assert token == b" " or token in tokens_of(tokenize(rules.native, piece)), (data, rules, token, piece)
        assert [start for start, _ in places] == sorted(start for start, _ in places)


# ---- the index -------------------------------------------------------------------------------------------------------------


def test_passages_of_a_text() -> None:
    """Longest first, with places in both texts; of one document, of long passages, and the first few only."""
    with Index(":memory:", Passages(shortest=4), store_text=True) as index:
        index.add("fox", FOX)
        index.add("dog", "Der Fuchs: the quick brown fox; jumps over the lazy dog")
        text = "Look, THE QUICK, brown fox jumps! And over the lazy dog, too."
        found = index.passages(text)
        assert [(one.key, text[one.start : one.end], one.tokens) for one in found] == [
            ("fox", "THE QUICK, brown fox jumps", 5),
            ("dog", "THE QUICK, brown fox jumps", 5),
            ("fox", "over the lazy dog", 4),
            ("dog", "over the lazy dog", 4),
        ]
        assert [FOX[one.other_start : one.other_end] for one in found if one.key == "fox"] == [
            "the quick brown fox jumps",
            "over the lazy dog",
        ]
        assert index.passages(text, "dog", shortest=5) == [found[1]] and index.passages(text, limit=1) == found[:1]
        assert index.passages("nothing of the kind is in any of these") == [] == index.passages("the quick brown")
        assert index.passages_of("fox", "dog")[0] == Passage("dog", 14, 57, 11, 55, 9)


def test_places_are_tokens_without_texts() -> None:
    """An index that stores no texts gives the places in a document in tokens, and those in the text in characters."""
    with Index(":memory:", Passages(shortest=3)) as index:
        index.add("fox", FOX)
        index.add("x", "and a quick brown fox")
        assert index.passages("»Quick — brown fox«") == [Passage("fox", 1, 18, 4, 7, 3), Passage("x", 1, 18, 2, 5, 3)]
        assert index.passages_of("x", "fox") == [Passage("fox", 2, 5, 4, 7, 3)]


def test_measures() -> None:
    """The similarity is the share of the shorter text from both sides, containment that of the text asked for."""
    long, short = "a b c d e f g h i j k l", "x c d e y"
    with Index(":memory:", Passages(shortest=3)) as index:
        index.add("long", long)
        index.add("short", short)
        assert [(one.key, one.similarity) for one in index.query(short)] == [("short", 1.0), ("long", 0.6)]
        assert [(one.key, one.similarity) for one in index.query(long)] == [("long", 1.0), ("short", 0.6)]
        assert [one.similarity for one in index.query(long, measure="containment", threshold=0.2)] == [1.0, 0.25]
        assert [one.key for one in index.query(short, threshold=0.7)] == ["short"]
        assert [(one.key_a, one.key_b, one.similarity) for one in index.pairs()] == [("long", "short", 0.6)]
        assert [one.key for one in index.nearest("c d e", 5)] == ["long", "short"]
    with Index(":memory:", Passages(shortest=3, threshold=0.7)) as index:
        assert not index.add("long", long) and not index.add("short", short)
        with pytest.raises(ParameterError, match=r"threshold=0\.5 is below 0\.7"):
            index.query(short, threshold=0.5)


def test_shingles_are_not_used() -> None:
    """Rules with any shingle find the same, and what a rebuild makes of the file has the shingle that was given."""
    for shingle in (1, 3, 5):
        with Index(":memory:", Passages(shortest=4), text=TextRules(shingle=shingle), store_text=True) as index:
            index.add("fox", FOX)
            assert [one.key for one in index.query("quick brown fox jumps")] == ["fox"]
            index.rebuild(MinHash(exact=True))
            assert index.text_rules.shingle == shingle and index.check().ok
            index.rebuild(Passages(shortest=3))
            assert index.passages("the lazy dog")[0].tokens == 3 and index.check().ok


def test_common_passages() -> None:
    """What at least so many texts share, the most frequent first; copies of a text count once, and the stretch ends where half of
    them end."""
    footer, licence = "all rights reserved by the shop of Anna", "this text may be copied freely by anyone at all"
    texts = [f"offer {i} " + " ".join(f"w{i}x{j}" for j in range(20)) for i in range(30)]
    with Index(":memory:", Passages(shortest=5), store_text=True) as index:
        for number, text in enumerate(texts):
            ending = f" {footer}." if number < 20 else f" {licence}" if number < 26 else ""
            index.add(number, text + ending)
            index.add(f"copy {number}", text + ending)
        assert index.common_passages(at_least=5) == [
            CommonPassage(0, len(texts[0]) + 1, len(texts[0]) + 1 + len(footer), 8, 20, footer),
            CommonPassage(20, len(texts[20]) + 1, len(texts[20]) + 1 + len(licence), 10, 6, licence),
        ]
        assert [one.texts for one in index.common_passages(at_least=7)] == [20]
        assert [one.texts for one in index.common_passages(at_least=2, limit=1)] == [20]
        assert index.common_passages(at_least=21) == []


def test_boilerplate_does_not_make_an_add_cost_all_who_share_it() -> None:
    """Adds of texts with a footer that hundreds share read a few of these, not all: the steps of SQLite stay the same."""
    footer = " ".join(f"licence{i}" for i in range(40))
    with Index(":memory:", Passages(shortest=10)) as index:
        texts = [(number, " ".join(f"v{number}w{i}" for i in range(20)) + " " + footer) for number in range(1600)]
        taken = []
        index.add_many(texts[:400])
        for first in (400, 800, 1200):
            taken.append(steps(index, lambda first=first: [index.add(*one) for one in texts[first : first + 20]]))  # type: ignore[misc]
            index.add_many(texts[first + 20 : first + 400])
        assert max(taken) < 1.5 * min(taken)
        assert len(index.query(footer, limit=3, any=True)) == 3 and len(index.clusters()) == 1


# ---- hostile texts -----------------------------------------------------------------------------------------------------------

MANY = 100_000


@pytest.mark.parametrize(
    ("a", "b", "passages"),
    [
        (["a"] * MANY, ["a"] * (MANY // 2), MANY // 2 + 1),
        (["a", "b", "c"] * (MANY // 3), ["b", "c", "a"] * (MANY // 6), None),
        ([f"t{i}" for i in range(MANY)], [f"t{i}" for i in range(MANY)], 1),
        ([f"t{i}" for i in range(MANY)], [f"t{i}" if i != MANY // 2 else "x" for i in range(MANY)], 2),
        ([f"t{i % 700}" for i in range(MANY)], [f"t{i % 699}" for i in range(MANY)], None),
    ],
    ids=["one token", "periodic", "equal", "one differs", "periods that drift"],
)
def test_long_texts_that_repeat_cost_a_step_a_token(a: list[str], b: list[str], passages: int | None) -> None:
    """Texts of a hundred thousand tokens that repeat, or are equal, are added, found and compared: a square would take hours."""
    with Index(":memory:", Passages(shortest=25), store_text=True) as index:
        index.add("a", " ".join(a))
        assert [one.key for one in index.add("b", " ".join(b))] == ["a"]
        found = index.passages_of("a", "b")
        assert passages is None or len(found) == passages
        assert found[0].tokens >= 25 and all(x.tokens >= y.tokens for x, y in zip(found, found[1:], strict=False))
        assert index.check().ok


def test_texts_without_a_passage() -> None:
    """Empty texts and those shorter than a passage match nothing, not even themselves; a load of them warns."""
    with Index(":memory:", Passages(shortest=5)) as index:
        for key, text in enumerate(["", "   ", "one two three four", "one two three four"]):
            assert index.add(key, text) == [] == index.query(text) == index.passages(text)
        assert index.stats()["empty"] == 4 and index.clusters() == [] and index.check().ok
        with pytest.warns(ShortTextsWarning, match=r"100% of 30 texts have fewer than shortest=5 tokens.*Passages\("):
            index.add_many((f"x{i}", "one two") for i in range(30))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            index.add_many((f"y{i}", "one two three four five") for i in range(30))


# ---- SQL -------------------------------------------------------------------------------------------------------------------


def test_sql_answers_as_python_does(tmp_path: Path) -> None:
    """neardup_passages gives the rows of passages(), neardup_search those of query(); groups are told apart."""
    path = tmp_path / "a.db"
    with Index(path, Passages(shortest=4), store_text=True) as index:
        index.add("fox", FOX)
        index.add("other", FOX.upper(), group="g")
        expected = index.passages("a quick brown fox jumps over it")
        in_group = index.passages("a quick brown fox jumps over it", group="g")
    connection = apsw.Connection(str(path))
    load(connection)
    sql = "SELECT key, start, \"end\", other_start, other_end, tokens FROM neardup_passages('neardup', ?, NULL, NULL, NULL, ?)"
    assert [Passage(*row) for row in connection.execute(sql, ("a quick brown fox jumps over it", None))] == expected
    assert [Passage(*row) for row in connection.execute(sql, ("a quick brown fox jumps over it", "g"))] == in_group
    assert connection.execute("SELECT key FROM neardup_search('neardup', 'quick brown fox jumps')").fetchall() == [("fox",)]
    share = "SELECT neardup_passage_share(a.value, b.value, 4) FROM neardup_fingerprint a, neardup_fingerprint b"
    assert connection.execute(share).fetchall() == [(1.0,)] * 4
    connection.close()


WRONG = [
    ("SELECT * FROM neardup_passages('other', 'a')", "does not file passages: make it with Passages"),
    ("SELECT * FROM neardup_passages('neardup', 'a', NULL, NULL, NULL, NULL, NULL, NULL, 3)", "shortest must be"),
    ("SELECT * FROM neardup_passages('neardup', NULL, NULL, NULL, NULL, NULL, NULL, 5)", "a fingerprint must be a blob"),
    ("SELECT * FROM neardup_passages('neardup', 'a', 2)", "threshold must be at most 1"),
    ("SELECT neardup_passage_share(x'00', x'00000000', 4)", "does not hold token hashes"),
    ("SELECT neardup_passage_share(1, x'00000000', 4)", "argument 1 must be a blob"),
    ("SELECT neardup_passage_share(x'00000000', 'a', 4)", "argument 2 must be a blob"),
    ("SELECT neardup_passage_share(x'00000000', x'00000000', 2)", "shortest must be"),
]


def test_wrong_sql() -> None:
    """An error names the value, or the remedy."""
    connection = apsw.Connection(":memory:")
    with Index(connection, Passages(shortest=4)), Index(connection, MinHash(), name="other"):
        for sql, told in WRONG:
            with pytest.raises(apsw.SQLError, match=told):
                connection.execute(sql).fetchall()
        for null in ("NULL, x'00000000', 4", "x'00000000', NULL, 4", "x'00000000', x'00000000', NULL"):
            assert connection.execute(f"SELECT neardup_passage_containment({null})").fetchall() == [(None,)]


# ---- errors ----------------------------------------------------------------------------------------------------------------


def test_wrong_questions() -> None:
    """Tokenizers of one's own, unknown keys and passages too short for the index are refused with the remedy."""
    with Index(":memory:", Passages(shortest=3), text=TextRules(tokens=split)) as index:
        index.add("fox", FOX)
        assert [one.key for one in index.query("x the quick brown y")] == ["fox"]
        with pytest.raises(ParameterError, match="built-in text rules"):
            index.passages("a")
    with Index(":memory:", Passages(shortest=5)) as index:
        index.add("fox", FOX)
        with pytest.raises(KeyNotFoundError):
            index.passages(FOX, "dog")
        with pytest.raises(ParameterError, match=r"shortest=4.*Passages\(shortest=\.\.\.\)"):
            index.passages_of("fox", "fox", shortest=4)


def test_a_damaged_value_is_named() -> None:
    """A value with a wrong length, or bits that flipped, is an error, and check() finds it."""
    for damage in ("value = substr(value, 1, 30)", "value = zeroblob(length(value))"):
        with Index(":memory:", Passages(shortest=5)) as index:
            index.add("fox", FOX)
            index.connection.execute(f"UPDATE neardup_fingerprint SET {damage}")
            with pytest.raises(CorruptIndexError, match="damaged"):
                index.query(FOX)
            assert not index.check().ok


def test_texts_as_bytes_and_with_lone_surrogates() -> None:
    """Places count characters of the text as it was given."""
    with Index(":memory:", Passages(shortest=3), store_text=True) as index:
        index.add("a", "ä one two three")
        assert index.passages("\ud800 é one two three")[0][1:5] == (4, 17, 2, 15)
        assert index.passages(text_bytes("é one two three"))[0][1:3] == (2, 15)


# ---- loads -----------------------------------------------------------------------------------------------------------------


def test_a_phrase_that_all_share_and_that_is_no_passage_connects_nothing() -> None:
    """Texts with one footer that is shorter than a passage stay apart in a load; those with a longer one are one cluster."""
    footer = " ".join(f"footer{word}" for word in range(18))
    longer = " ".join(f"longer{word}" for word in range(12))

    def text(number: int) -> str:
        own = " ".join(f"w{number}x{word}" for word in range(60))
        return f"{own} {longer} {footer}" if number % 100 == 7 else f"{own} {footer}"

    with Index(":memory:", Passages()) as index:
        index.add_many((number, text(number)) for number in range(1000))
        assert [cluster.keys for cluster in index.clusters()] == [tuple(range(7, 1000, 100))]


@pytest.mark.parametrize("threshold", [None, 0.2])
@pytest.mark.parametrize("loads", [1, 3])
def test_texts_that_share_almost_a_passage_match_by_the_word_before_it(threshold: float | None, loads: int) -> None:
    """Of a phrase one word shorter than a passage, those texts are a cluster that have the same word before it, in any load."""
    phrase = " ".join(f"phrase{word}" for word in range(24))
    records = [
        (number, f"{' '.join(f'w{number}x{word}' for word in range(60))} word{number % 37} {phrase}") for number in range(150)
    ]
    with Index(":memory:", Passages(threshold=threshold)) as index:
        for load in range(loads):
            index.add_many(records[load::loads])
        assert sorted(sorted(cluster.keys) for cluster in index.clusters()) == [list(range(word, 150, 37)) for word in range(37)]
        assert index.check().problems == ()
