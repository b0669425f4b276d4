"""`nearest`: the most similar documents, beyond the bound of the index, beside brute force."""

from __future__ import annotations

import random
from typing import Any

import apsw
import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from support import CASES, FAR, PAST, SOON, WORDS, Case, Model, keys, tuples

from neardup_db import ANY_GROUP, BinaryCode, BitSampling, BottomK, CorruptIndexError, Index, MinHash, SimHash

ORDERED = [name for name, case in CASES.items() if case.order is not None]
WORD = st.sampled_from(["oak", "elm", "ash", "fir", "yew", "box", "bay", "may"])


@st.composite
def contents(draw: st.DrawFn, case: Case) -> Any:
    """Texts of few words, or codes of all distances: a few bits of one, or many, of a few bases."""
    if not case.codes:
        return " ".join(draw(st.lists(WORD, max_size=6)))
    size = case.scheme.bits // 8
    base = draw(st.sampled_from([0, 2 ** (8 * size) - 1, 0x0F0F << 8]))
    flipped = sum(1 << bit for bit in draw(st.sets(st.integers(0, 8 * size - 1), max_size=2 * size)))
    return (base ^ flipped).to_bytes(size, "big")


@pytest.mark.parametrize("name", ORDERED)
def test_the_nearest_are_those_of_brute_force(name: str, more_rounds: bool) -> None:
    """With groups, equal copies, documents that expired, were deleted or replaced: the n most alike, ties by insertion."""
    run = given(case=st.just(CASES[name]), data=st.data())(assert_as_brute_force)
    settings(max_examples=14 if more_rounds else 4, deadline=None)(run)()


def assert_as_brute_force(case: Case, data: st.DataObject) -> None:
    model, groups = Model(case), st.sampled_from([None, None, "g"])
    with Index(":memory:", case.scheme, text=case.rules, store_text=case.store_text) as index:
        add = index.add_code if case.codes else index.add
        some = data.draw(st.lists(contents(case), min_size=1, max_size=6))
        for _ in range(data.draw(st.integers(0, 25))):
            key, group = data.draw(st.integers(0, 20)), data.draw(groups)
            content = data.draw(st.sampled_from(some) | contents(case))
            what = data.draw(st.sampled_from(["add", "add", "add", "expired", "delete"]))
            if what == "delete" or model.refuses(key, group, "replace"):
                index.delete(key)
                model.entries.pop(key, None)
            if what != "delete":
                add(key, content, group=group, if_exists="replace", expires_at=PAST if what == "expired" else SOON)
            if what == "add":
                model.put(key, content, group)
            else:
                model.entries.pop(key, None)
        nearest = index.nearest_code if case.codes else index.nearest
        for _ in range(4):
            asked, group, n = data.draw(st.sampled_from(some) | contents(case)), data.draw(groups), data.draw(st.integers(0, 30))
            assert tuples(nearest(asked, n, group=group)) == model.nearest(asked, n, group)
            every = [match for name in (None, "g") for match in model.nearest(asked, n, name)]
            every.sort(key=lambda one: (-one[1] if one[2] is None else one[2], model.entries[one[0]].number))
            assert tuples(nearest(asked, n, group=ANY_GROUP)) == every[:n]


PLANNED = {"blocks": BinaryCode(64, 5), "chunks": BinaryCode(256, 20), "scan": BinaryCode(256, 60), "equal": BinaryCode(64, 0)}


@pytest.mark.parametrize("plan", PLANNED)
def test_many_codes(plan: str) -> None:
    """Among many codes in all plans, some of them in families, the nearest are found near and far."""
    scheme = PLANNED[plan]
    assert scheme.plan == plan or plan == "equal"
    rng, bits = random.Random(5), scheme.bits or 0
    bases = [rng.getrandbits(bits) for _ in range(20)]
    codes = [rng.choice(bases) ^ (1 << rng.randrange(bits)) ^ (1 << rng.randrange(bits)) for _ in range(600)]
    codes += [rng.getrandbits(bits) for _ in range(600)]
    with Index(":memory:", scheme, record_matches=False) as index:
        index.add_codes(range(len(codes)), codes)
        for asked in (codes[0], codes[-1], bases[3], rng.getrandbits(bits), 0):
            best = sorted(((code ^ asked).bit_count(), place) for place, code in enumerate(codes))
            for n in (1, 10, 100, 1200, 2000):
                assert [(one.distance, one.key) for one in index.nearest(asked, n)] == best[:n]


def test_distances_at_which_the_similarity_is_nothing() -> None:
    """One-bit samples that differ in half their bits or more have similarity 0.0, and are in the order of their distances."""
    with Index(":memory:", BitSampling(bits=64, max_distance=40, chunks=8), text=WORDS) as index:
        index.add_codes(["50", "33", "36", "64"], [(1 << bits) - 1 for bits in (50, 33, 36, 64)])
        found = index.nearest_code(0, 3)
        assert [(one.key, one.similarity, one.distance) for one in found] == [("33", 0.0, 33), ("36", 0.0, 36), ("50", 0.0, 50)]


def test_sets_that_the_bands_miss() -> None:
    """An exact index of MinHash has its nearest by the true similarity, where its bands find others or none."""
    with Index(":memory:", MinHash(exact=True, num_perm=8, bands=1, rows=8, threshold=0.9, recall=0.3), text=WORDS) as index:
        index.add("half", "one two three four five six")
        index.add("more", "one two three four five")
        index.add("nothing", "seven eight")
        index.add("all", "one two three four")
        found = index.nearest("one two three four", 3)
        assert tuples(found) == [("all", 1.0, None), ("more", 0.8, None), ("half", 4 / 6, None)]
        assert keys(index.nearest("one two three four", 10)) == ["all", "more", "half"]


# ---- texts and codes -----------------------------------------------------------------------------------------------------------


def test_a_text_or_a_code() -> None:
    """Where texts are taken str and bytes are texts and all else is a code; else they are codes. `nearest_code` takes codes."""
    with Index(":memory:", SimHash(max_distance=3), text=WORDS) as index:
        index.add("a", "0f")
        index.add_code("b", 0x0F)
        code = index.get("a").code
        assert keys(index.nearest("0f", 1)) == keys(index.nearest(b"0f", 1)) == keys(index.nearest_code(code, 1)) == ["a"]
        assert keys(index.nearest(0x0F, 1)) == keys(index.nearest_code("000000000000000f", 1)) == ["b"]
    with Index(":memory:", BinaryCode(bits=64, max_distance=3)) as index:
        index.add_code("b", 0x0F)
        asked: list[Any] = ["000000000000000f", bytes(7) + b"\x0f", 0x0F]
        for ask in (index.nearest, index.nearest_code):
            assert [keys(ask(one, 1)) for one in asked] == [["b"]] * 3


def test_nothing_is_nearest() -> None:
    """An empty text, an unknown group and an empty index have no nearest documents; a set with nothing in common is none."""
    with Index(":memory:", BottomK(threshold=0.5), text=WORDS) as index:
        assert index.nearest("one", 5) == []
        index.add("a", "one two")
        assert index.nearest("!!!", 5) == index.nearest("one", 5, group="g") == index.nearest("three", 5) == []
        assert index.nearest("one", 0) == []
        assert keys(index.nearest("one three four five", 5)) == ["a"]


def test_a_very_large_number() -> None:
    """More documents than any index has may be asked for."""
    with Index(":memory:", BinaryCode(bits=64, max_distance=3)) as index:
        index.add_codes(range(5), [FAR] * 5)
        assert len(index.nearest(0, 2**63 - 1)) == 5


@pytest.mark.parametrize("asked", [0, 1 << 40])
def test_damaged_rows_are_an_error(asked: int) -> None:
    """Entries in which bits have flipped are not compared with anything."""
    with Index(":memory:", BinaryCode(bits=64, max_distance=0)) as index:
        index.add_codes(range(3), [1, 2, 3])
        index.connection.execute("UPDATE neardup_code_bucket SET entries = zeroblob(length(entries))")
        with pytest.raises(CorruptIndexError, match="damaged"):
            index.nearest(asked, 3)


# ---- in SQL --------------------------------------------------------------------------------------------------------------------

ASK = "SELECT fingerprint_id, distance FROM neardup_nearest('neardup', ?, ?, ?)"


@pytest.mark.parametrize("scheme", [BinaryCode(64, 3), BinaryCode(64, 12), BinaryCode(64, 12, expected=10)], ids=str)
def test_the_smallest_distance_that_holds_as_many(scheme: BinaryCode) -> None:
    """neardup_nearest gives the fingerprints within the smallest distance that holds so many of them, all ties included."""
    rng = random.Random(3)
    codes = [rng.getrandbits(64) if rng.random() < 0.5 else 1 << rng.randrange(64) for _ in range(2000)]
    with Index(":memory:", scheme, record_matches=False) as index:
        index.add_codes(range(2000), codes)
        ids = dict(index.connection.execute("SELECT id, value FROM neardup_fingerprint").fetchall())
        for asked in (0, rng.getrandbits(64)):
            distances = {number: (int.from_bytes(value, "big") ^ asked).bit_count() for number, value in ids.items()}
            for count in (0, 1, 3, 63, 64, 65, 100, 1900, 3000):
                within = sorted(distances.values())[:count]
                expected = {one for one in distances.items() if within and one[1] <= within[-1]}
                found = index.connection.execute(ASK, (asked.to_bytes(8, "big"), 0, count)).fetchall()
                assert set(found) == expected and len(found) == len(expected)


def test_what_neardup_nearest_refuses() -> None:
    """A code of another width, an index of sets and numbers out of range are errors; NULL has no rows, as the group
    it stands for all."""
    with Index(":memory:", BinaryCode(64, 3)) as index, Index(index.connection, BottomK(), name="texts") as _:
        index.add_code("a", 0)
        index.add_code("b", 1, group="g")
        for arguments in ((None, 0, 1), (bytes(8), 0, None)):
            assert index.connection.execute(ASK, arguments).fetchall() == []
        assert index.connection.execute(ASK, (bytes(8), None, 2)).fetchall() == [(1, 0), (2, 1)]
        for arguments, message in (
            ((bytes(7), 0, 1), "a code of 64 bits must have 8 bytes, not 7"),
            (("0" * 8, 0, 1), "a fingerprint must be a blob, not text"),
            ((bytes(8), "0", 1), "group_id must be an integer"),
            ((bytes(8), 0, -1), "count must be 0 to"),
        ):
            with pytest.raises(apsw.SQLError, match=f"neardup_nearest: {message}"):
                index.connection.execute(ASK, arguments).fetchall()
        with pytest.raises(apsw.SQLError, match='index "texts" holds sets, not codes'):
            index.connection.execute(ASK.replace("'neardup'", "'texts'"), (bytes(8), 0, 1)).fetchall()
