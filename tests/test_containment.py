"""Queries for what a document contains: the share of a text's shingles that are in it."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
import xxhash
from support import WORDS, containment, containment_estimate, split

from neardup_db import BottomK, Index, Match, MinHash, ParameterError, TextRules

NAMES = ["ash", "bay", "box", "elm", "fig", "fir", "gum", "haw", "ivy", "oak", "rue", "sal", "tea", "yew"]
WHOLE = {
    "hashes": (MinHash(exact=True, threshold=0.9), False),
    "text": (MinHash(exact=True, threshold=0.9), True),
    "bottomk": (BottomK(k=64, threshold=0.9, containment=True), False),
}
"""Indexes in which the containment of short texts is exact, with a threshold of their own that is above those asked for."""


@pytest.fixture(params=WHOLE)
def index(request: Any) -> Any:
    """An index of single words."""
    scheme, store_text = WHOLE[request.param]
    with Index(":memory:", scheme, text=WORDS, store_text=store_text) as made:
        yield made


def contained(index: Index, text: str, threshold: float | None = None, **more: Any) -> list[tuple[Any, float]]:
    """(key, similarity) of a query for containment."""
    return [(one.key, one.similarity) for one in index.query(text, measure="containment", threshold=threshold, **more)]


def hashes(words: Any) -> list[int]:
    """The hashes of single words, ascending."""
    return sorted({xxhash.xxh3_64_intdigest(word.encode()) for word in words})


# ---- what comes back ----------------------------------------------------------------------------------------------------


def test_a_threshold_exactly_met_is_met(index: Index) -> None:
    """With i of a text's n words a document is found at i / n, and not at the next number above it."""
    for common in range(13):
        index.add(common, " ".join([*NAMES[:common], "tea", "yew"]))
    for size in range(1, 13):
        text = " ".join(NAMES[:size])
        found = [(i, min(i, size) / size) for i in (*range(size, 13), *range(size - 1, 0, -1))]
        for common in range(1, size + 1):
            share = common / size
            assert contained(index, text, share) == [one for one in found if one[1] >= share], (size, common)
            if common < size:
                assert contained(index, text, math.nextafter(share, 2)) == [one for one in found if one[1] > share]


def test_other_measures_are_as_before(index: Index) -> None:
    """Without a measure the same index answers by its own rule."""
    index.add("long", " ".join(NAMES))
    index.add("short", "ash bay")
    assert index.query("ash bay") == [Match("short", 1.0, None)]
    assert index.query("ash bay", measure=None, threshold=0.95) == [Match("short", 1.0, None)]
    with pytest.raises(ParameterError, match=r"threshold=0\.5 is below 0\.9"):
        index.query("ash bay", threshold=0.5)


def test_whole_digests_are_compared_by_their_first_bytes() -> None:
    """A hash of the caller's and tokens of the caller's do as well, with hashes kept."""
    rules = TextRules(shingle=1, tokens=split, hash="sha256")
    with Index(":memory:", MinHash(exact=True), text=rules, store_text=True) as index:
        index.add("a", "one two three")
        assert contained(index, "three two four", 0.6) == [("a", 2 / 3)]


# ---- against brute force --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 2, 3, 8, 31, 100])
def test_bottom_k_gives_exactly_what_its_estimate_says(k: int) -> None:
    """Of random sets of 1 to 80 words, at every threshold, those come back whose estimate meets it, and nothing else."""
    source = random.Random(k)
    words = [f"w{number}" for number in range(120)]
    found = 0
    with Index(":memory:", BottomK(k=k, containment=True), text=WORDS) as index:
        stored: dict[int, set[int]] = {}
        with index.transaction():
            for number in range(120):
                chosen = source.sample(words, source.choice([1, 2, k, k + 1, 20, 80, 110]))
                index.add(number, " ".join(chosen))
                stored[number] = set(hashes(chosen)[:k])
        for _ in range(25):
            chosen = source.sample(words, source.choice([1, 2, 3, k, 30, 80]))
            asked = set(hashes(chosen)[:k])
            scored = [(n, containment_estimate(asked, other, k)) for n, other in stored.items()]
            for threshold in (1.0, 0.9, 0.8, 2 / 3, 0.5, 1 / 7, 1e-9):
                expected = [(n, share) for n, share in scored if share is not None and share >= threshold]
                answer = contained(index, " ".join(chosen), threshold)
                assert answer == sorted(expected, key=lambda one: (-one[1], one[0]))
                found += len(answer)
    assert found > 400


@pytest.mark.parametrize("store_text", [False, True])
def test_exact_indexes_give_exactly_the_containment(store_text: bool) -> None:
    """Of random sets of words, at every threshold, those come back that contain as much; with groups and copies."""
    source = random.Random(5)
    words = [f"w{number}" for number in range(60)]
    with Index(":memory:", MinHash(exact=True), text=WORDS, store_text=store_text) as index:
        stored = {}
        with index.transaction():
            for number in range(100):
                chosen = source.sample(words, source.choice([1, 2, 20, 50]))
                index.add(number, " ".join(chosen), group="g" if number % 4 == 0 else None)
                stored[number] = set(chosen)
        for _ in range(20):
            chosen = source.sample(words, source.choice([1, 3, 20, 59]))
            for threshold in (1.0, 0.8, 2 / 3, 0.5, 1 / 7, 1e-9):
                for group in (None, "g"):
                    shares = [(n, containment(set(chosen), o)) for n, o in stored.items() if (n % 4 == 0) == (group == "g")]
                    expected = sorted([one for one in shares if one[1] >= threshold], key=lambda one: (-one[1], one[0]))
                    assert contained(index, " ".join(chosen), threshold, group=group) == expected


# ---- what is filed --------------------------------------------------------------------------------------------------------


def test_all_hashes_are_filed_and_the_first_ones_probed() -> None:
    """With containment a fingerprint has k rows, else those of its prefix; what is alike is looked up by the prefix in both."""
    text = " ".join(NAMES)
    for wanted, rows in ((True, 8), (False, 2)):
        scheme = BottomK(k=8, threshold=0.8, containment=wanted)  # 7 of 8 are the least share: 2 hashes
        with Index(":memory:", scheme, text=WORDS) as index:
            index.add("a", text)
            filed = [row[0] % 2**64 for row in index.connection.execute("SELECT hash FROM neardup_bottomk_prefix")]
            assert sorted(filed) == hashes(NAMES)[:rows]
            value = b"".join(number.to_bytes(8, "little") for number in hashes(NAMES)[:8])
            probed = "SELECT low FROM neardup_probe('neardup', ?)"
            assert sorted(row[0] % 2**64 for row in index.connection.execute(probed, (value,))) == hashes(NAMES)[:2]
            if wanted:
                for share, count in ((1.0, 1), (7 / 8, 2), (0.5, 5), (0.49, 5), (1 / 8, 8), (0.001, 8)):
                    asked = index.connection.execute("SELECT low FROM neardup_probe('neardup', ?, ?)", (value, share))
                    assert sorted(row[0] % 2**64 for row in asked) == hashes(NAMES)[:count]
            assert index.check().problems == ()


def test_rebuilding_files_what_is_missing_without_texts() -> None:
    """BottomK(containment=True) is made of the stored fingerprints, and unmade; answers of the other rule stay."""
    with Index(":memory:", BottomK(k=8, threshold=0.6), text=WORDS) as index:
        index.add("long", " ".join(NAMES))
        index.add("short", " ".join(NAMES[:6]))
        before = index.query(" ".join(NAMES[:7]))
        with pytest.raises(ParameterError, match=r"rebuild\(BottomK\(k=8, threshold=0.6, containment=True\)\)"):
            index.query("ash", measure="containment")
        index.rebuild(BottomK(k=8, threshold=0.6, containment=True))
        assert index.scheme.containment is True and index.check().problems == ()
        asked, known = set(hashes(NAMES[:6])), set(hashes(NAMES)[:8])
        share = containment_estimate(asked, known, 8)
        assert share is not None
        assert sorted(contained(index, " ".join(NAMES[:6]), 0.1)) == [("long", share), ("short", 1.0)]
        assert index.query(" ".join(NAMES[:7])) == before
        index.rebuild(BottomK(k=8, threshold=0.6))
        assert index.query(" ".join(NAMES[:7])) == before and index.check().problems == ()
        with pytest.raises(ParameterError, match="containment=True"):
            index.query("ash", measure="containment")


# ---- explained, and in SQL ------------------------------------------------------------------------------------------------


def test_explain_tells_the_plan() -> None:
    """Exact indexes look at every fingerprint of the group; bottom-k probes hashes and meets those that have one of them."""
    for name, plan, probes, candidates in (("hashes", "scan_packed_containment", 0, 3), ("bottomk", "prefix_containment", 2, 2)):
        scheme, store_text = WHOLE[name]
        with Index(":memory:", scheme, text=WORDS, store_text=store_text) as index:
            index.add("both", "ash bay elm")
            index.add("copy", "elm bay ash")
            index.add("one", "ash fir gum")
            index.add("none", "haw ivy")
            index.add("other", "ash bay", group="g")
            told = index.explain("ash bay", measure="containment", threshold=0.5)
            assert (told.plan, told.probes, told.candidates, told.verified, told.matches) == (plan, probes, candidates, 2, 3)
            assert told.table == ("neardup_bottomk_prefix" if name == "bottomk" else "neardup_fingerprint")
            assert index.explain("ash bay", measure="containment").verified == 1
            assert index.explain("ash bay elm").verified == 1
            assert index.explain("", measure="containment").matches == 0


def test_sql_asks_for_containment_too(index: Index) -> None:
    """neardup_search with the measure gives the rows of index.query, 0.8 and no limit unless given."""
    for number in range(1, 6):
        index.add(number, " ".join(NAMES[:number]))
    text = " ".join(NAMES[:5])

    def search(*arguments: Any) -> list[tuple[Any, ...]]:
        marks = ", ".join("?" * len(arguments))
        sql = f"SELECT key, similarity FROM neardup_search('neardup', {marks})"
        return index.connection.execute(sql, arguments).fetchall()

    assert search(text, None, None, "containment") == contained(index, text) == [(5, 1.0), (4, 0.8)]
    assert search(text, 0.3, 3, "containment") == contained(index, text, 0.3, limit=3) == [(5, 1.0), (4, 0.8), (3, 0.6)]
    assert search("", None, None, "containment") == []
    assert search(text, None, None, None) == [(5, 1.0)]
    for arguments, words in (
        ((text, None, None, "jaccard"), "measure must be 'containment'"),
        ((text, None, None, 1), "measure must be 'containment'"),
        ((text, 0, None, "containment"), "threshold must be above 0"),
        ((text, 1.5, None, "containment"), "threshold must be at most 1"),
    ):
        with pytest.raises(Exception, match=words):
            search(*arguments)


def test_sql_refuses_what_the_index_cannot_tell() -> None:
    """The error names what to rebuild the index as; a probe for containment needs a share."""
    with Index(":memory:", BottomK(k=4), text=WORDS) as index:
        run = index.connection.execute
        with pytest.raises(Exception, match=r"rebuild it as MinHash\(exact=True\) or BottomK\(containment=True\)"):
            run("SELECT * FROM neardup_search('neardup', 'ash', NULL, NULL, 'containment')").fetchall()
        with pytest.raises(Exception, match=r"does not file all hashes: rebuild it as BottomK\(containment=True\)"):
            run("SELECT * FROM neardup_probe('neardup', x'0000000000000001', 0.5)").fetchall()
    with Index(":memory:", BottomK(k=4, containment=True), text=WORDS) as index:
        run = index.connection.execute
        for share, words in ((0, "above 0"), (1.5, "at most 1"), ("x", "must be a number, not text")):
            with pytest.raises(Exception, match=words):
                run("SELECT * FROM neardup_probe('neardup', x'0000000000000001', ?)", (share,)).fetchall()
        with pytest.raises(Exception, match="wrong length or order"):
            run("SELECT * FROM neardup_probe('neardup', x'00', 0.5)").fetchall()
        assert run("SELECT * FROM neardup_probe('neardup', NULL, 0.5)").fetchall() == []
