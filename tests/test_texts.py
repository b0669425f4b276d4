"""Texts of every kind, through an index and through fingerprints: each has a defined behaviour."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from neardup_db import BitSampling, BottomK, Index, Match, MinHash, MismatchError, SimHash, TextRules
from neardup_db.compute import shingles

SCHEMES: list[Any] = [SimHash(), MinHash(), MinHash(exact=True), BottomK(), BitSampling()]
SCHEME_NAMES = ["simhash", "minhash", "minhash-exact", "bottomk", "bitsampling"]
each_scheme = pytest.mark.parametrize("scheme", SCHEMES, ids=SCHEME_NAMES)
IN_TURN = [*SCHEMES] * 4
"""What a text means does not depend on the scheme: fingerprints are made by each, an index by the next of them."""
WORD = TextRules.words(shingle=1)
REPLACEMENT = "\ufffd"


def equal_alone(scheme: Any, a: str | bytes, b: str | bytes, rules: TextRules | None = None) -> bool:
    """Whether two texts have equal fingerprints."""
    first, second = scheme.fingerprint(a, rules), scheme.fingerprint(b, rules)
    assert first is not None and second is not None
    return bool(np.array_equal(first, second))


def same(scheme: Any, a: str | bytes, b: str | bytes, rules: TextRules | None = None) -> bool:
    """Whether two texts have equal fingerprints, alone and in an index."""
    equal = equal_alone(scheme, a, b, rules)
    with Index(":memory:", scheme, text=rules) as index:
        index.add("a", a)
        found = index.query(b)
        stored = index.connection.execute("SELECT count(*) FROM neardup_fingerprint").get
        index.add("b", b)
        assert stored == 1
        assert (index.connection.execute("SELECT count(*) FROM neardup_fingerprint").get == 1) == equal
    if equal:
        assert [(one.key, one.similarity) for one in found] == [("a", 1.0)]
    return equal


# ---- empty texts -------------------------------------------------------------------------------------------------------


EMPTY: list[str | bytes] = [
    "",
    b"",
    " ",
    "\t\r\n \u00a0\u2003\u3000",
    "...!?",
    "\u00ad\u200b\u200d\ufeff",
    "\ufffd",
    "\0",
    "\ud800",
]
EMPTY += [b"\xff\xfe", "\u0301"]


@pytest.mark.parametrize(("scheme", "text"), [*zip(IN_TURN, EMPTY, strict=False)], ids=ascii)
def test_a_text_without_words_is_empty(scheme: Any, text: str | bytes) -> None:
    """Nothing but white space, punctuation, ignorable or invalid characters: stored, no fingerprint, matches nothing."""
    assert shingles(text) == []
    for one in SCHEMES:
        assert one.fingerprint(text) is None
        assert one.similarity(one.fingerprint(text), one.fingerprint(text)) == 0.0
        assert one.similarity(one.fingerprint("one two three"), None) == 0.0
    with Index(":memory:", scheme) as index:
        assert index.add("full", "one two three four") == []
        assert index.add("empty", text) == []
        assert index.add("empty too", text) == []
        assert index.add_if_new("empty three", text) == []
        assert index.query(text) == [] and index.matches("empty") == [] and index.query(text, limit=1, any=True) == []
        assert list(index) == ["full", "empty", "empty too", "empty three"]
        assert index.get("empty").token_count == 0
        assert list(index.pairs()) == [] and index.clusters() == []
        assert [one.keys for one in index.clusters(min_size=1)] == [(key,) for key in index]
        assert index.explain(text).matches == 0
        assert index.explain_match("empty", "empty too").similarity == 0.0
        assert not index.explain_match("empty", "empty too").is_match
        assert index.stats()["empty"] == 3
        assert index.check().ok
        assert index.delete("empty") and index.delete_many(["empty too", "empty three"]) == 2
        assert index.connection.execute("SELECT count(*) FROM neardup_fingerprint").get == 1


# ---- short texts -------------------------------------------------------------------------------------------------------


@each_scheme
def test_fewer_words_than_a_shingle_are_one_shingle(scheme: Any) -> None:
    """With short="whole" one or two words are one shingle: found as themselves, not as a part of something longer."""
    with Index(":memory:", scheme) as index:
        for text in ("word", "two words"):
            assert shingles(text) == [text]
            index.add(text, text)
            assert [one.key for one in index.query(text.upper() + "!")] == [text]
            assert index.query(text + " and three more words") == []
            assert index.query("others") == []
            assert index.get(text).token_count == len(text.split())


@each_scheme
def test_fewer_words_than_a_shingle_may_be_dropped(scheme: Any) -> None:
    """With short="drop" one or two words are an empty text; their tokens are counted all the same."""
    rules = TextRules(short="drop")
    with Index(":memory:", scheme, text=rules) as index:
        for text in ("word", "two words"):
            assert shingles(text, rules) == []
            assert scheme.fingerprint(text, rules) is None
            index.add(text, text)
            assert index.query(text) == []
            assert index.get(text).token_count == len(text.split())
        index.add("exactly", "just three words")
        assert [one.key for one in index.query("Just three words.")] == ["exactly"]


@each_scheme
def test_texts_below_min_tokens_match_nothing(scheme: Any) -> None:
    """With min_tokens=4 equal texts of three words are stored and match nothing; a text of four words matches as without it."""
    rules = TextRules(min_tokens=4)
    with Index(":memory:", scheme, text=rules) as index:
        assert index.add_many([{"key": i, "text": "Thanks, my friend!"} for i in range(3)]).matched == 0
        assert index.add("one", "thanks my friend") == []
        assert index.query("thanks my friend") == [] and index.clusters() == []
        assert (index.stats()["documents"], index.stats()["empty"], index.get("one").token_count) == (4, 4, 3)
        assert index.add("four", "thanks my dear friend") == []
        assert [one.key for one in index.query("Thanks, my dear friend.")] == ["four"]
        assert index.check().ok
    assert scheme.fingerprint("thanks my friend", rules) is None
    assert repr(scheme.fingerprint("thanks my dear friend", rules)) == repr(scheme.fingerprint("thanks my dear friend"))


def test_min_tokens_belong_to_the_file(tmp_path: Path) -> None:
    """The file keeps min_tokens, refuses another one, and a rebuild changes it."""
    path = tmp_path / "i.db"
    with Index(path, MinHash(), text=TextRules(min_tokens=2), store_text=True) as index:
        index.add_many([{"key": i, "text": "lol"} for i in range(2)])
    with pytest.raises(MismatchError, match="min_tokens=3, the file has 2"):
        Index(path, text=TextRules(min_tokens=3))
    with Index(path) as index:
        assert index.text_rules == TextRules(min_tokens=2) and list(index.pairs()) == []
        index.rebuild(text=TextRules())
        assert [(one.key_a, one.key_b) for one in index.pairs()] == [(0, 1)]


# ---- long texts --------------------------------------------------------------------------------------------------------


WORDS_OF_LARGE = [f"w{number * 7919 % 100_003}" for number in range(250_000)]


@each_scheme
def test_a_large_text(scheme: Any) -> None:
    """A text of 1.5 MB is added, found again with a few words changed, and not confused with another one."""
    text, words = " ".join(WORDS_OF_LARGE), [*WORDS_OF_LARGE]
    assert len(text) > 1_400_000
    for place in range(1000, 250_000, 60_000):
        words[place] = "changed"
    with Index(":memory:", scheme, store_text=True) as index:
        index.add("long", text)
        assert [one.key for one in index.query(" ".join(words))] == ["long"]
        assert index.query(text.replace("w", "x")) == []
        assert index.get("long").token_count == 250_000
        assert index.get("long").text == text


@each_scheme
def test_one_word_of_five_megabytes(scheme: Any) -> None:
    """A text without any gap is one token, however long."""
    with Index(":memory:", scheme) as index:
        index.add("long", "x" * 5_000_000)
        assert index.get("long").token_count == 1
        assert [one.key for one in index.query("X" * 5_000_000)] == ["long"]
        assert index.query("x" * 4_999_999) == []


@each_scheme
def test_the_same_word_again_and_again(scheme: Any) -> None:
    """Ten thousand times the same word is one shingle."""
    text = "spam " * 10_000
    assert set(shingles(text)) == {"spam spam spam"}
    with Index(":memory:", scheme) as index:
        index.add("spam", text)
        assert [one.similarity for one in index.query("spam spam spam spam")] == [1.0]


# ---- what is no valid Unicode ------------------------------------------------------------------------------------------


@each_scheme
def test_lone_surrogates(scheme: Any) -> None:
    """Half of a surrogate pair is U+FFFD, a gap between words; the text is accepted and stored with U+FFFD."""
    broken, mended = "one\ud800two three \udfff four", "one\ufffdtwo three \ufffd four"
    assert shingles(broken, WORD) == ["one", "two", "three", "four"]
    assert same(scheme, broken, mended) and same(scheme, broken, "one two three four")
    with Index(":memory:", scheme, store_text=True) as index:
        index.add("a", broken)
        assert index.get("a").text == mended
        assert index.explain_match("a", "a").similarity == 1.0


INVALID = [
    # bytes, and how many U+FFFD they are
    (b"one\xfftwo three four", 1),
    (b"one\xc3\x28two three four", 1),  # the second byte stands for itself
    (b"one\xe2\x82two three four", 1),  # a truncated character is one
    (b"one\xed\xa0\x80two three four", 1),  # an encoded surrogate is one
    (b"one\xc0\x80two three four", 2),  # an overlong form is one for each byte
    (b"one\xf5\x80\x80\x80two three four", 4),  # beyond U+10FFFF
]


@pytest.mark.parametrize(("scheme", "case"), [*zip(IN_TURN, INVALID, strict=False)], ids=repr)
def test_invalid_utf8(scheme: Any, case: tuple[bytes, int]) -> None:
    """Invalid bytes are U+FFFD, gaps between words, whatever is stored too; no text is refused."""
    data, means = case
    assert shingles(data, WORD) == ["one", "two", "three", "four"]
    assert same(scheme, data, "one two three four") and all(equal_alone(one, data, "one two three four") for one in SCHEMES)
    with Index(":memory:", scheme, store_text=True) as index:
        index.add("a", data)
        text = index.get("a").text
        assert text is not None and text.count(REPLACEMENT) == means
        assert same(scheme, data, text)


@each_scheme
def test_nul(scheme: Any) -> None:
    """NUL ends nothing: what follows counts, and it is a gap between words."""
    assert shingles("one\0two three", WORD) == ["one", "two", "three"]
    assert same(scheme, "one\0two three\0", "one two three")
    assert not same(scheme, "one two three\0four five six", "one two three")
    with Index(":memory:", scheme, store_text=True) as index:
        index.add("a\0b", "one\0two\0three")
        assert index.get("a\0b").text == "one\0two\0three"
        assert [one.key for one in index.query("one two three")] == ["a\0b"]
        assert "a" not in index


# ---- scripts -----------------------------------------------------------------------------------------------------------

CHINESE = "我们在北京的一家小餐馆里吃了一顿非常美味的晚饭,然后沿着河边慢慢走回酒店。"
JAPANESE = "昨日は友達と一緒に新しいラーメン屋へ行きましたが、とても混んでいました。"
THAI = "เมื่อวานนี้ฉันไปตลาดกับแม่และซื้อผลไม้หลายอย่างกลับมาที่บ้าน"
ARABIC = "ذهبنا أمس إلى السوق القديم واشترينا بعض الفواكه والخضروات الطازجة للعشاء"
HINDI = "कल हम पुराने बाज़ार गए और रात के खाने के लिए कुछ ताज़े फल और सब्ज़ियाँ खरीदीं"
EMOJI = "👍🏽 great 👨‍👩‍👧‍👦 family 🇩🇪 trip ❤️ 🎉🎉🎉 see you"

SCRIPTS = {
    # name: a text, a word or character of it to change and its replacement
    "chinese": (CHINESE, "小", "大"),
    "japanese": (JAPANESE, "昨", "今"),
    "thai": (THAI, "แม่", "พ่อ"),
    "arabic": (ARABIC, "أمس", "اليوم"),
    "hindi": (HINDI, "कल", "आज"),
    "emoji": (EMOJI, "trip", "tour"),
}


@each_scheme
def test_texts_of_a_script(scheme: Any) -> None:
    """In every script a text finds itself, and no other text."""
    with Index(":memory:", scheme) as index:
        for name, (text, *_) in SCRIPTS.items():
            assert index.add(name, text) == []
        for name, (text, *_) in SCRIPTS.items():
            assert [(one.key, one.similarity) for one in index.query(text)] == [(name, 1.0)]
        assert index.clusters() == []


def test_near_duplicates_of_a_script() -> None:
    """With one word or character changed a text is still found, and its similarity is that of the sets of shingles."""
    for name in SCRIPTS:
        text, old, new = SCRIPTS[name]
        changed = text.replace(old, new, 1)
        a, b = set(shingles(text, WORD)), set(shingles(changed, WORD))
        with Index(":memory:", MinHash(threshold=0.5, exact=True), text=WORD) as index:
            index.add("a", text)
            assert index.query(changed) == [Match("a", len(a & b) / len(a | b), None)]
            assert 0.5 < len(a & b) / len(a | b) < 1.0


# ---- forms of the same text --------------------------------------------------------------------------------------------

NFC, NO_FORM, CASED = TextRules(normalize="NFC"), TextRules(normalize=None), TextRules(case=None)
FORMS: dict[str, tuple[str, str | bytes, list[TextRules | None], list[TextRules]]] = {
    # two texts, rules by which they are one, rules by which they are not
    "latin": ("Zürich Ångström naïve café", "Zu\u0308rich A\u030angstro\u0308m nai\u0308ve cafe\u0301", [None, NFC], [NO_FORM]),
    "hangul": ("한국어 텍스트 예시", "\u1112\u1161\u11ab\u1100\u116e\u11a8\u110b\u1165 텍스트 예시", [None, NFC], []),
    "vietnamese": ("một tiếng Việt", "mo\u0323\u0302t tie\u0302\u0301ng Vie\u0323\u0302t", [None, NFC], []),
    "devanagari": ("क़लम और ख़त", "\u0958लम और \u0959त", [None, NFC], []),
    "singletons": ("10 \u212b and \u2126", "10 \u00c5 and \u03a9", [None, NFC], []),
    "full width": (
        "\uff34\uff48\uff45\u3000\uff51\uff55\uff49\uff43\uff4b \ufb01ne \u2460 \u33a5", "the quick fine 1 m3", [None], [NFC],
    ),
    "sharp s": ("STRASSE und MASSE", "straße und maße", [None], [CASED]),
    "greek": ("ΟΔΥΣΣΕΥΣ ΚΑΙ ΠΗΝΕΛΟΠΗ", "οδυσσευς και πηνελοπη", [None], [CASED]),
    "capitals": ("DIYARBAKIR IS A CITY", "diyarbakir is a city", [None], [CASED]),
    "cyrillic": ("ПРИВЕТ ВСЕМ ЛЮДЯМ", "привет всем людям", [None], [CASED]),
    "invisible": ("\ufeffco\u00adop\u200beration be\u2060tween na\ufe0ftions", "cooperation between nations", [None], []),
    "punctuation": ("one,two\n\n--three\u2003\u00abfour\u00bb\tfive!", "One two three four five", [None], []),
    "accents": ("crème brûlée à la façon", "creme brulee a la facon", [TextRules(strip_accents=True)], [TextRules()]),
    "bytes": ("naïve café ☕ society", "naïve café ☕ society".encode(), [None], []),
}  # fmt: skip


@pytest.mark.parametrize(("scheme", "name"), [*zip(IN_TURN, FORMS, strict=False)], ids=str)
def test_forms_of_one_text(scheme: Any, name: str) -> None:
    """Composed or not, wide or not, in either case, however it is spaced: one text has one fingerprint, unless the rules say
    otherwise."""
    a, b, equal, apart = FORMS[name]
    assert all(same(scheme, a, b, rules) for rules in equal) and not any(same(scheme, a, b, rules) for rules in apart)
    for one in SCHEMES:
        assert all(equal_alone(one, a, b, rules) for rules in equal) and not any(equal_alone(one, a, b, rules) for rules in apart)
