"""Questions, documents, pairs and clusters of an index, by literal examples."""

from __future__ import annotations

import itertools
import time
import warnings
from datetime import datetime, timezone
from pathlib import Path

import apsw
import pytest
from cases import one_test
from support import FAR, LATER, SOON, keys, split

from neardup_db import (
    AddReport,
    BinaryCode,
    BottomK,
    Cluster,
    Index,
    KeyNotFoundError,
    Match,
    MinHash,
    Pair,
    ShortTextsWarning,
    TextRules,
)

# ---- query -------------------------------------------------------------------------------------------------------------


def test_query_with_stricter_bounds(codes: Index, texts: Index) -> None:
    """threshold and max_distance may be stricter than the index's."""
    codes.add_codes([1, 2, 3], [0b1, 0b11, 0b111])
    assert keys(codes.query_code(0, max_distance=2)) == [1, 2]
    assert keys(codes.query_code(0, max_distance=0)) == []
    assert keys(codes.query_code(0, threshold=63 / 64)) == [1]
    assert keys(codes.query_code(0, threshold=61 / 64)) == [1, 2, 3]
    texts.add_many([("a", "w x y z"), ("b", "w x y v")])
    assert keys(texts.query("w x y z", threshold=0.6)) == ["a", "b"]
    assert keys(texts.query("w x y z", threshold=0.61)) == ["a"]


def test_query_many_is_query_for_each(texts: Index) -> None:
    """One list for each text, with the same options."""
    texts.add_many([("a", "w x y z"), ("b", "w x y v"), {"key": "g", "text": "w x y z", "group": "g"}])
    asked = ["w x y z", "", "nothing like it", b"w x y v"]
    assert texts.query_many(asked) == [texts.query(one) for one in asked]
    assert texts.query_many(iter(asked), limit=1, threshold=0.6) == [texts.query(one, limit=1, threshold=0.6) for one in asked]
    assert [keys(one) for one in texts.query_many(asked, group="g")] == [["g"], [], [], ["g"]]
    assert texts.query_many([]) == []


def test_matches_is_query_by_the_stored_fingerprint(codes: Index) -> None:
    """Without the document itself, within its group, earlier and later ones alike."""
    codes.add_codes(["a", "b", "c"], [0, 1, 0])
    codes.add_code("other group", 0, group="g")
    assert codes.matches("a") == [Match("c", 1.0, 0), Match("b", 63 / 64, 1)]
    assert codes.matches("b", limit=1) == [Match("a", 63 / 64, 1)]
    assert codes.matches("b", threshold=1.0) == []
    assert codes.matches("other group") == []
    with pytest.raises(KeyNotFoundError, match="'z'"):
        codes.matches("z")


# ---- documents ---------------------------------------------------------------------------------------------------------


def test_get_gives_the_document(texts: Index, codes: Index) -> None:
    """All that is known about a document; times are seconds."""
    before = time.time()
    texts.add("a", "Some words, here", metadata={"n": [1]}, group="g", expires_at=4102444800)
    one = texts.get("a")
    assert (one.key, one.group, one.metadata, one.text, one.token_count) == ("a", "g", {"n": [1]}, "Some words, here", 3)
    assert (one.times_seen, one.expires_at) == (1, 4102444800.0)
    assert before - 0.01 <= one.added_at <= time.time() and one.last_seen == one.added_at
    codes.add_code("a", 0)
    one = codes.get("a")
    assert (one.group, one.metadata, one.text, one.token_count, one.expires_at) == (None, None, None, None, None)


def test_a_missing_key_is_a_key_error(texts: Index) -> None:
    """KeyNotFoundError is a KeyError and names the key in plain words."""
    for call in (
        lambda: texts.get("nope"),
        lambda: texts.update("nope", metadata=1),
        lambda: texts.explain_match("nope", "nope"),
    ):
        with pytest.raises(KeyError) as caught:
            call()
        assert isinstance(caught.value, KeyNotFoundError)
        assert str(caught.value) == "no document has the key 'nope'"


def test_get_many_in_the_order_of_the_keys(texts: Index) -> None:
    """None stands for a key that is not there."""
    texts.add_many([("a", "one"), ("b", "two")])
    found = texts.get_many(iter(["b", "nope", "a", "b"]))
    assert [one and one.key for one in found] == ["b", None, "a", "b"]
    assert found[0] == texts.get("b") and texts.get_many([]) == []


def test_update_changes_what_is_named(texts: Index) -> None:
    """metadata and expires_at, each alone; None clears; the rest stays."""
    texts.add("a", "one two", metadata=1, expires_at=SOON)
    texts.update("a", metadata={"x": 2})
    assert texts.get("a").metadata == {"x": 2} and texts.get("a").expires_at == round(SOON, 3)
    texts.update("a", expires_at=None)
    assert texts.get("a").expires_at is None
    texts.update("a", metadata=None, expires_at=LATER)
    assert texts.get("a").metadata is None and texts.get("a").expires_at == round(LATER, 3)
    assert texts.get("a").text == "one two" and texts.get("a").times_seen == 1


def test_an_index_is_a_collection_of_keys(codes: Index) -> None:
    """in, len, iteration in the order of insertion; an empty index is true all the same."""
    assert codes and len(codes) == 0 and list(codes) == []
    codes.add_codes(range(1200), [0] * 1200)
    assert len(codes) == 1200 and list(codes) == list(range(1200))
    assert 5 in codes and "5" not in codes and 1200 not in codes


def test_iteration_while_documents_come_and_go(codes: Index) -> None:
    """A listing neither repeats nor breaks where documents are added and removed meanwhile."""
    codes.add_codes(range(1200), [0] * 1200)
    seen = []
    for key in codes:
        seen.append(key)
        if key == 10:
            codes.delete_many(range(600, 700))
            codes.add_code("new", 0)
    assert seen == [*range(600), *range(700, 1200), "new"]


def test_ids_are_never_used_twice(codes: Index) -> None:
    """A document added after a deletion is the newest."""
    codes.add_codes(["a", "b"], [0, 0])
    codes.delete("b")
    codes.add_code("c", 0)
    assert codes.connection.execute("SELECT id FROM neardup_document ORDER BY id").fetchall() == [(1,), (3,)]


def test_expire_removes_what_has_had_its_time(codes: Index) -> None:
    """expire(now) removes up to and including the moment, given in either form, and counts."""
    codes.add_codes(["a"], [0], expires_at=4102444800)
    codes.add_codes(["b", "c"], [0, 0], expires_at=4102444801)
    codes.add_code("d", 0)
    assert codes.expire() == 0 and codes.expire(4102444799.999) == 0
    assert codes.expire(datetime(2100, 1, 1, tzinfo=timezone.utc)) == 1
    assert codes.expire(4102444801) == 2
    assert list(codes) == ["d"] and codes.check().ok


# ---- pairs and clusters ------------------------------------------------------------------------------------------------


def test_pairs_are_complete_and_the_earlier_comes_first(codes: Index) -> None:
    """Every pair once, with similarity and distance; a threshold leaves the nearer ones."""
    codes.add_codes(["z", "y", "x"], [0, 1, 0b1111])
    assert list(codes.pairs()) == [Pair("z", "y", 63 / 64, 1), Pair("y", "x", 61 / 64, 3)]
    assert list(codes.pairs(threshold=62 / 64)) == [Pair("z", "y", 63 / 64, 1)]


def test_pairs_are_lazy(codes: Index) -> None:
    """Pairs come as they are asked for, not all at once: what is added before the end is still seen."""
    codes.add_codes(range(1500), [number // 2 * 0x9E3779B97F4A7C15 % 2**64 for number in range(1500)])
    iterator = codes.pairs()
    assert len(list(itertools.islice(iterator, 3))) == 3
    codes.add_codes(["p", "q"], [2**64 - 1, 2**64 - 1])
    assert list(iterator)[-1] == Pair("p", "q", 1.0, 0)


def test_clusters_are_connected_components(codes: Index) -> None:
    """a~b~c is one cluster though a and c are none; largest first, then by the earliest; representative = earliest."""
    codes.add_codes(["p", "a", "b", "c", "q", "r", "s"], [FAR, 0b111, 0, 0b111000, FAR, FAR << 8, FAR << 8])
    assert codes.clusters() == [Cluster("a", ("a", "b", "c")), Cluster("p", ("p", "q")), Cluster("r", ("r", "s"))]
    assert codes.clusters(min_size=3) == [Cluster("a", ("a", "b", "c"))]
    assert len(codes.clusters(min_size=1)) == 3 and len(codes.clusters()[0]) == 3
    assert codes.delete("b")
    assert codes.clusters() == [Cluster("p", ("p", "q")), Cluster("r", ("r", "s"))]
    assert [len(one) for one in codes.clusters(1)] == [2, 2, 1, 1]
    codes.add_code("b", 0)
    assert codes.clusters()[0] == Cluster("a", ("a", "c", "b"))


def test_ten_thousand_equal_copies(texts: Index) -> None:
    """Ten thousand copies of one message are one fingerprint and one cluster, and adding and deleting one more is quick."""
    message = "buy cheap pills now at this address"
    assert texts.add_many((number, message) for number in range(10_000)) == AddReport(added=10_000, matched=9_999)
    assert texts.stats()["fingerprints"] == 1 and texts.stats()["candidate_rows"] == 64
    for number in range(50):
        assert keys(texts.add(f"one more {number}", message)) == list(range(number, number + 10))
        assert texts.delete(number)
        texts.add(number, message)
    assert texts.clusters()[0].representative == 50 and len(texts.clusters()[0]) == 10_050
    assert keys(texts.query(message, limit=2)) == [50, 51]
    assert keys(texts.add_if_new("not stored", message, limit=2)) == [50, 51]
    assert texts.delete_many(range(5000)) == 5000
    assert [len(one) for one in texts.clusters()] == [5050]
    assert texts.check().ok


# ---- what it says of itself, and of texts too short --------------------------------------------------------------------


def test_repr_names_the_file_the_scheme_and_whether_it_is_closed(tmp_path: Path) -> None:
    """A path as it was given, ':memory:' or a connection; another name than the usual one; the threshold, though not given."""
    with Index(":memory:", MinHash()) as index:
        assert repr(index) == "<neardup_db.Index ':memory:' MinHash(threshold=0.8, bands=12, rows=5)>"
    assert repr(index) == "<neardup_db.Index ':memory:' MinHash(threshold=0.8, bands=12, rows=5), closed>"
    path = tmp_path / "a.db"
    with Index(path, BinaryCode(bits=64, max_distance=3), name="other") as index:
        assert repr(index) == f"<neardup_db.Index {str(path)!r} name='other' BinaryCode(bits=64, max_distance=3)>"
    with Index(apsw.Connection(":memory:"), BottomK()) as index:
        assert repr(index) == "<neardup_db.Index connection to ':memory:' BottomK(threshold=0.5)>"
    assert repr(MinHash()) == "MinHash(threshold=0.8, bands=12, rows=5)"


LONG = " ".join(f"word{n}" for n in range(20))


def test_a_load_of_short_texts_warns_once_and_says_what_to_do() -> None:
    """Most of 20 texts or more have fewer than 20 words: the warning stands at the call, names the share and the remedy, and does
    not come again."""
    with Index(":memory:", MinHash()) as index:
        with pytest.warns(ShortTextsWarning, match=r"55% of 20 texts have fewer than 20.*TextRules\.chars\(shingle=3\)") as told:
            index.add_many([(n, f"only five words, number {n}" if n < 11 else LONG) for n in range(20)])
        assert [one.filename for one in told] == [__file__]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            index.add_many([(-n, "three short words") for n in range(1, 30)])


@one_test(
    ("rules", "texts"),
    [
        (None, ["five words are not many"] * 19),
        (None, ["five words are not many"] * 20 + [LONG] * 20),
        (None, [""] * 30 + ["five words are not many"] * 10),
        (TextRules.chars(), ["five words are not many"] * 30),
        (TextRules(shingle=2), ["five words are not many"] * 30),
        (TextRules(tokens=split), ["five words are not many"] * 30),
    ],
)
def test_other_loads_do_not_warn(rules: TextRules | None, texts: list[str]) -> None:
    """Too few texts, half of them short, empty ones, and rules that suit short texts or are the caller's own."""
    with Index(":memory:", MinHash(), text=rules) as index, warnings.catch_warnings():
        warnings.simplefilter("error")
        index.add_many(enumerate(texts))
