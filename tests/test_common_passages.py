"""common_passages: the stretch that half of a sample share may be too short to be a passage."""

from __future__ import annotations

import pytest

from neardup_db import Index, Passages, clock


def test_texts_that_share_less_than_a_passage_with_most_others() -> None:
    """Five texts have the words b c d, two of them a passage around these: which one does not matter, and that no other fails."""
    for number in range(20):
        a, b, c, d, e = (f"{letter}{number}" for letter in "abcde")
        texts = [f"{a} {b} {c} {d} {e}", f"{a} {b} {c} {d} f", f"g {b} {c} {d} {e}", f"h {b} {c} {d} j", f"k {b} {c} {d} l"]
        with Index(":memory:", Passages(shortest=4)) as index:
            index.add_many(enumerate(texts))
            assert {(common.key, common.tokens, common.texts) for common in index.common_passages(2)} <= {(0, 4, 2)}


def test_the_most_frequent_of_all() -> None:
    """A limit leaves out the less frequent, even behind many runs of words that are more frequent and no passages."""
    phrases = [" ".join(f"{letter}{number}" for letter in "abcdefgh") for number in range(60)]
    texts = [f"{number}w {number}x {phrase} {number}y {number}z" for phrase in phrases for number in range(9)]
    texts += [f"{number}x one two three four five six seven eight nine ten eleven twelve {number}y" for number in range(5)]
    with Index(":memory:", Passages(shortest=12)) as index:
        index.add_many(enumerate(texts))
        common = index.common_passages(2)
        assert [(passage.texts, passage.tokens) for passage in common] == [(5, 12)]
        assert index.common_passages(2, limit=1) == common[:1]


def test_each_group_has_its_passages() -> None:
    """Documents match within their group only; so a passage of two groups is listed for each."""
    footer = " ".join(f"word{number}" for number in range(12))
    with Index(":memory:", Passages(shortest=12)) as index:
        for key in range(7):
            index.add(key, f"{key}x {footer} {key}y", group="a" if key < 3 else "b")
        assert [(common.key, common.texts) for common in index.common_passages(2)] == [(3, 4), (0, 3)]


def test_an_expired_document_is_neither_named_nor_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A passage is named by a document that is still there, and counts the texts of such documents."""
    footer = " ".join(f"word{number}" for number in range(12))
    with Index(":memory:", Passages(shortest=12), store_text=True) as index:
        for key in range(5):
            index.add(key, f"{key}x {footer} {key}y", ttl=10 if key in (0, 3) else None)
        index.add("copy", f"0x {footer} 0y")
        assert [(common.key, common.texts) for common in index.common_passages(2)] == [(0, 5)]
        later = clock.now_ms() + 20_000
        monkeypatch.setattr(clock, "now_ms", lambda: later)
        assert [(common.key, common.texts) for common in index.common_passages(2)] == [("copy", 4)]
        assert index.common_passages(5) == []
        for key in (1, 2, 4, "copy"):
            index.delete(key)
        assert index.common_passages(2) == []
