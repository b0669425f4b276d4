"""What is marked as different between two texts is exactly what differs, and nothing of them is ever run."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pages import Html

from neardup_db.show import difference
from neardup_db.show.difference import Part, difference_html, differences

TEXTS = st.text(st.sampled_from("ab .!\n한中ไทé́\U0001f600<&\"'"), max_size=40)


def kinds(a: str, b: str, words: bool = False) -> list[tuple[str, str, str]]:
    return [(part.kind, part.a, part.b) for part in differences(a, b, words=words)]


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("", "", []),
        ("same text", "same text", [("equal", "same text", "same text")]),
        ("", "new", [("insert", "", "new")]),
        ("one two three", "one three", [("equal", "one ", "one "), ("delete", "two ", ""), ("equal", "three", "three")]),
        ("one\ntwo", "one two", [("equal", "one\ntwo", "one two")]),
        ("我爱北京", "我爱东京", [("equal", "我爱", "我爱"), ("replace", "北", "东"), ("equal", "京", "京")]),
        ("हिन्दी में", "हिन्दी मे", [("equal", "हिन्दी ", "हिन्दी "), ("replace", "में", "मे")]),
        ("the end", "the end!", [("equal", "the end", "the end"), ("insert", "", "!")]),
    ],
)
def test_words_that_differ_are_told_one_by_one(a: str, b: str, expected: list[tuple[str, str, str]]) -> None:
    """Words, graphemes of scripts without spaces, and punctuation are compared; spaces and line breaks are not."""
    assert kinds(a, b) == expected


def test_words_alone_are_compared_when_asked() -> None:
    """With words=True case and punctuation make no difference, and both texts are kept as they are."""
    assert kinds("«The LORD», said", "the Lord said", words=True) == [("equal", "«The LORD», said", "the Lord said")]
    assert kinds("a (b) c", "a (d) c", words=True) == [("equal", "a ", "a "), ("replace", "(b) ", "(d) "), ("equal", "c", "c")]


@given(TEXTS, TEXTS, st.booleans())
def test_the_parts_are_the_two_texts(a: str, b: str, words: bool) -> None:
    """Nothing of a text is lost or doubled; neighbours are of different kinds; no part is empty on the side it speaks of."""
    compared = differences(a, b, words=words)
    assert "".join(part.a for part in compared) == a and "".join(part.b for part in compared) == b
    for part in compared:
        assert {"equal": part.a and part.b, "replace": part.a and part.b, "delete": part.a and not part.b}.get(
            part.kind, part.b and not part.a
        ) or (part.kind == "equal" and not (part.a + part.b).strip())
        if part.kind == "equal" and not words:
            assert part.a.split() == part.b.split() or "".join(part.a.split()) == "".join(part.b.split())
    assert compared.is_equal or a != b


def test_html_marks_exactly_the_differing_words() -> None:
    """<del> in the first text, <ins> in the second, and both texts whole."""
    a, b = "The ferry was cancelled on Monday because of a storm.", "The ferry was cancelled on Tuesday because of a heavy storm."
    found = Html(difference_html(a, b))
    assert (found.found["del"], found.found["ins"]) == (["Monday"], ["Tuesday", "heavy"])
    assert found.sides == [a, b]


HOSTILE = '<script>alert(1)</script> <img src=x onerror=alert(2)> </div></pre> "\' onload="x &amp; \x00\x1b[31m \ud800 --> ]]>'


def test_markup_in_texts_and_labels_is_shown_not_run() -> None:
    """No element comes from a text or a label; what HTML cannot hold becomes U+FFFD."""
    html = difference_html(HOSTILE, HOSTILE + " more", label_a=HOSTILE, label_b=b"\x00<b>")
    found = Html(html)
    assert found.tags <= {"div", "ins", "del", "p"}
    assert found.sides[0] == HOSTILE.replace("\x00", "\ufffd").replace("\x1b", "\ufffd").replace("\ud800", "\ufffd")
    html.encode("utf-8")


@given(TEXTS, TEXTS)
def test_html_of_any_texts_is_well_formed(a: str, b: str) -> None:
    """What a browser shows on each side is the text of that side."""
    found = Html(difference_html(a, b))
    if found.sides:
        assert "".join(found.sides[0::2]) == a and "".join(found.sides[1::2]) == b
    else:
        assert not a and not b


def test_long_equal_stretches_are_left_out_of_the_html_and_said() -> None:
    """A page about two long texts stays short, and says what it leaves out."""
    body = " ".join(f"word{i}" for i in range(20_000))
    html = difference_html(f"first {body} end", f"second {body} last")
    found = Html(html).found
    assert (found["del"], found["ins"]) == (["first", "end"], ["second", "last"])
    assert len(html) < 4_000 and re.search(r"\[… 18[0-9],\d\d\d equal characters …\] word", html)
    many = difference_html(" ".join(f"a{i} x{i}" for i in range(500)), " ".join(f"b{i} x{i}" for i in range(500)))
    assert many.count("<del>") == 200 and "first 200 of 500 differences" in many


# ---- texts that are too much ----------------------------------------------------------------------------------------------


def test_one_word_is_found_in_a_text_of_any_length() -> None:
    """What is equal at both ends is never cut into words: 5 MB with one change are still compared word by word."""
    a = "some words that stand there " * 175_000
    b = a[:2_000_012] + " another " + a[2_000_012:]
    compared = differences(a, b)
    assert not compared.coarse and sum(len(part.b) for part in compared if part.kind != "equal") < 50


def test_large_texts_are_compared_by_sentences_and_their_words() -> None:
    """Above the limit of words two changes far apart are still exact, and the text between them equal."""
    sentences = [f"Sentence number {i} is told here with some words." for i in range(20_000)]
    other = list(sentences)
    other[10], other[-10] = other[10].replace("told", "shown"), other[-10].replace("some", "many")
    a, b = " ".join(sentences), " ".join(other)
    assert len(a) + len(b) > difference.WORD_LIMIT
    compared = differences(a, b)
    assert not compared.coarse
    assert [part for part in compared if part.kind != "equal"] == [
        Part("replace", "told ", "shown "),
        Part("replace", "some ", "many "),
    ]


def test_texts_beyond_all_limits_are_one_difference_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is too long or too unlike is marked as a whole, and the HTML says that it is coarse."""
    monkeypatch.setattr(difference, "SENTENCE_LIMIT", 400_000)
    draw = random.Random(1)
    a, b = ("".join(draw.choices("ab ", k=250_000)) for _ in range(2))
    assert differences(a, b).coarse and "larger pieces are marked" in difference_html(a, b)
    assert len(difference_html(a, b)) < 20_000
    a, b = (" ".join(draw.choices("ab", k=50_000)) for _ in range(2))
    compared = differences(a, b)
    assert compared.coarse and "".join(part.a for part in compared) == a
    assert differences("a" * 300_000, "a" * 300_001).coarse
