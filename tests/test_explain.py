"""Why two documents match: told in Python, on the terminal and as a page, the same each time, and nothing in a text is run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cases import one_test
from commands import told as run
from pages import ELEMENTS, Html

from neardup_db import BinaryCode, BitSampling, BottomK, Index, MinHash, ParameterError, SimHash

FERRY = "The ferry to the northern islands was cancelled on Monday because of a storm that closed the harbour for two days."
OTHER = FERRY.replace("Monday", "Tuesday").replace("two", "three")
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(1)>\x1b[2J\x00"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a.db"
    with Index(path, MinHash(threshold=0.5), store_text=True) as index:
        index.add("a1", FERRY)
        index.add("a2", OTHER)
        index.add("far", "something else entirely that has nothing to do with it")
        index.add("a1", FERRY, if_exists="ignore")
    return path


@one_test(
    ("scheme", "table"),
    [
        (MinHash(threshold=0.5), "neardup_minhash_band"),
        (MinHash(threshold=0.5, exact=True), "neardup_minhash_band"),
        (BottomK(), "neardup_bottomk_prefix"),
        (SimHash(max_distance=3), "neardup_code_bucket"),
        (BitSampling(), "neardup_code_bucket"),
        (BinaryCode(bits=64, max_distance=3), "neardup_code_bucket"),
    ],
)
def test_every_scheme_says_where_two_documents_met(scheme: Any, table: str) -> None:
    """The table is named, the rows that both have are in it, and they are among those that a query looks up."""
    with Index(":memory:", scheme) as index:
        for key in "ab":
            _ = index.add(key, FERRY) if scheme.takes_text else index.add_code(key, 7)
        found = index.explain_match("a", "b")
        assert found.is_match and found.table == table and 0 < len(found.met) <= found.probes
        assert index.connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] >= len(found.met)
        assert repr(scheme).split("(")[0] in found.scheme
        html = found.html()
        assert f"in {len(found.met):,} of {found.probes:,} places of {table}" in html


def test_texts_can_be_given_where_none_are_stored(tmp_path: Path) -> None:
    """Given texts are compared as stored ones would be; a text of another document is refused by its fingerprint."""
    with Index(":memory:", MinHash(threshold=0.5)) as index, Index(":memory:", MinHash(threshold=0.5), store_text=True) as stored:
        for one in (index, stored):
            one.add("a", FERRY)
            one.add("b", OTHER)
        assert index.explain_match("a", "b").jaccard is None
        given = index.explain_match("a", "b", text_a=FERRY, text_b=OTHER.encode())
        assert given == stored.explain_match("a", "b")
        assert given.jaccard == pytest.approx(14 / 24) and given.only_a is not None and "two days" in " ".join(given.only_a)
        with pytest.raises(ParameterError, match=r"text_b is not the text of 'b'"):
            index.explain_match("a", "b", text_a=FERRY, text_b=FERRY)


def test_the_page_marks_the_words_and_runs_nothing(tmp_path: Path) -> None:
    """Only our elements are there; what differs stands in <del> and <ins>; scripts in texts and keys are text."""
    with Index(tmp_path / "a.db", MinHash(threshold=0.3), store_text=True) as index:
        index.add(f"one {HOSTILE}", f"{FERRY} {HOSTILE}")
        index.add(b"\x00<two>", f"{OTHER} {HOSTILE}")
        found = index.explain_match(f"one {HOSTILE}", b"\x00<two>")
    for html in (found.html(), found._repr_html_()):
        page = Html(html)
        assert page.tags <= ELEMENTS and not any(name.startswith("on") for name in page.attributes)
        assert {"Monday", "two"} <= set(page.found["del"]) and {"Tuesday", "three"} <= set(page.found["ins"])
        assert "cancelled on monday" in page.found["del"] and "cancelled on tuesday" in page.found["ins"]
        assert "<script>alert(1)</script>" in "".join(page.found["div"]) and "x'003c74776f3e'" in page.found["div"]
    assert "default-src 'none'" in found.html() and found.html().startswith("<!doctype html>")


def test_long_lists_are_cut_and_counted(tmp_path: Path) -> None:
    """A page about two large documents names the first shingles and rows, and how many there are."""
    with Index(":memory:", BottomK(k=128), store_text=True) as index:
        words = [f"word{i}" for i in range(600)]
        index.add("a", " ".join(words))
        index.add("b", " ".join(words[300:]))
        html = index.explain_match("a", "b").html()
    assert html.count("<li") < 3 * 200 + 60 and "and 100 more" in html


def test_explain_on_the_terminal(path: Path) -> None:
    """Two keys give verdict, similarity, where they met, the words that differ and the shingles; one text gives its query."""
    code, told, _ = run("explain", path, "a1", "a2")
    assert code == 0
    for expected in ("a1 and a2    a match", "true Jaccard  0.5", "[-Monday-]", "{+Tuesday+}", "  cancelled on monday\n"):
        assert expected in told
    assert "no match" in run("explain", path, "a1", "far")[1]
    assert json.loads(run("explain", path, "a1", "a2", "--json")[1])["only_b"][0] == "cancelled on tuesday"
    assert "probes " in run("explain", path, FERRY)[1]
    assert json.loads(run("explain", path, "-", "--json", stdin=FERRY)[1])["matches"] == 2


def test_explain_writes_a_page(path: Path, tmp_path: Path) -> None:
    """--html writes the page that Python gives, and never over the index."""
    page = tmp_path / "why.html"
    code, told, noted = run("explain", path, "a1", "a2", "--html", page)
    assert (code, told) == (0, "") and str(page) in noted
    with Index(path) as index:
        assert page.read_text("utf-8") == index.explain_match("a1", "a2").html()
    before = path.read_bytes()
    code, _, noted = run("explain", path, "a1", "a2", "--html", path)
    assert code == 2 and "a.db is the input" in noted and path.read_bytes() == before


def test_explain_takes_texts_from_files(tmp_path: Path) -> None:
    """--text-a and --text-b stand in for texts that are not stored."""
    with Index(tmp_path / "a.db", MinHash(threshold=0.5)) as index:
        index.add("a", FERRY)
        index.add("b", OTHER)
    (tmp_path / "a.txt").write_text(FERRY)
    (tmp_path / "b.txt").write_text(OTHER)
    texts = ("--text-a", tmp_path / "a.txt", "--text-b", tmp_path / "b.txt")
    assert "[-Monday-]" in run("explain", tmp_path / "a.db", "a", "b", *texts)[1]
    assert "Monday" not in run("explain", tmp_path / "a.db", "a", "b")[1]
    code, _, noted = run("explain", tmp_path / "a.db", "b", "a", *texts)
    assert code == 2 and "text_a is not the text of 'b'" in noted


@one_test(
    ("arguments", "reason"),
    [
        ([], "Missing argument"),
        (["a", "b", "c"], "in quotation marks"),
        (["a", "b", "--threshold", "0.9"], "not with two KEYs"),
        (["text", "--html", "x.html"], "not with TEXT"),
        (["a1", "nope"], "no document has the key 'nope'"),
    ],
)
def test_explain_refuses_what_makes_no_sense(path: Path, arguments: list[str], reason: str) -> None:
    """With a sentence, and exit code 2."""
    code, told, noted = run("explain", path, *arguments)
    assert (code, told) == (2, "") and reason in noted and noted.count("\n") == 1
