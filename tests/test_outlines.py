"""Outlines of signatures, by which a query passes by most candidates of a crowded bucket: the answers are those without them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import apsw
import numpy as np
import pytest

from neardup_db import Index, MinHash, TextRules
from neardup_db.native import ffi, lib
from neardup_db.store.query.search import DEFAULT_QUERY

SCHEME = MinHash(threshold=0.7, bands=16, rows=2)
RULES = TextRules.words(shingle=1)


def edits(count: int, seed: int, family: str = "w") -> list[str]:
    """Texts of 40 words with a third of them from one template at least: they share buckets, and few match."""
    chance = random.Random(seed)
    kept = (14, 22, 30, 36)
    return [
        " ".join([f"{family}{i}" for i in chance.sample(range(40), chance.choice(kept))] + [f"x{seed}-{n}-{i}" for i in range(8)])
        for n in range(count)
    ]


def answers(index: Index, text: str) -> tuple[list[tuple[object, ...]], list[tuple[object, ...]]]:
    """The matches of a text as the index finds them, and as its SQL does without outlines."""
    own, store = index._readers.own, index._store
    with store.reading():
        sketch = store.sketcher.text_to_store(text)
        parameters = own.search.parameters(sketch, 0, 0, DEFAULT_QUERY) | {"limit": -1, "except_id": 0}
        sql = store.query("matches", "bands").sql
        plain = sql.replace("neardup_may_match(:fingerprint, c.fingerprint_id, :slot_bits, :threshold, :outlined) AND ", "")
        plain = plain.replace("AND neardup_met(f.id, f.value, :slot_bits, :outlined, :settled)", "")
        assert "may_match" in sql and "may_match" not in plain and "neardup_met" not in plain
        return store.db.rows(sql, parameters), store.db.rows(plain, parameters)


def agree(index: Index, texts: list[str]) -> int:
    """All answers are those without outlines; how many matches there were."""
    found = 0
    for text in texts:
        with_outlines, without = answers(index, text)
        assert with_outlines == without
        found += len(without)
    return found


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    """Edits of two templates, in a file."""
    with Index(tmp_path / "index.db", SCHEME, text=RULES) as index:
        index.add_many(enumerate(edits(150, 1) + edits(50, 2, "v")))
        yield index


def test_answers_are_those_without_outlines(index: Index) -> None:
    """Queries find the same whether the outlines are new, known, or those of other queries, and while documents come and go."""
    asked = edits(20, 3) + edits(6, 4, "v")
    assert agree(index, asked) > 20
    assert agree(index, asked) > 20
    for key, text in enumerate(edits(40, 5), 1000):
        index.add(key, text)
    assert index.delete_many(range(0, 150, 3)) == 50
    assert agree(index, asked) > 20
    assert index.check().ok


@pytest.mark.parametrize("undo", ["transaction", "savepoint", "beside another connection"])
def test_ids_that_were_taken_back_are_used_again(index: Index, tmp_path: Path, undo: str) -> None:
    """What was added and taken back is not remembered, here or by another connection: its ids go to other texts."""
    with suppress(ZeroDivisionError), index.transaction():
        index.connection.execute("SAVEPOINT mine")
        for key, text in enumerate(edits(80, 7, "z"), 1000):
            index.add(key, text)
        agree(index, edits(20, 9, "z"))
        if undo == "savepoint":
            index.connection.execute("ROLLBACK TO mine")
        else:
            raise ZeroDivisionError
    with Index(tmp_path / "index.db") as other:
        (other if "beside" in undo else index).add_many(enumerate(edits(80, 8), 1000))
        assert agree(index, edits(20, 6)) > 10 and agree(other, edits(20, 6)) > 10


def test_a_rebuild_makes_other_values(index: Index, tmp_path: Path) -> None:
    """After a rebuild, here or elsewhere, nothing that was remembered counts; nor after one that was taken back."""
    with Index(tmp_path / "texts.db", SCHEME, text=RULES, store_text=True) as kept:
        kept.add_many(enumerate(edits(120, 1)))
        with Index(tmp_path / "texts.db") as other:
            assert agree(kept, edits(10, 3)) > 5
            other.rebuild(MinHash(threshold=0.7, bands=16, rows=2, seed=5))
            assert agree(kept, edits(10, 3)) > 5
            with pytest.raises(ZeroDivisionError), kept.transaction():
                kept.rebuild(MinHash(threshold=0.7, bands=16, rows=2, seed=9))
                agree(kept, edits(10, 3))
                raise ZeroDivisionError
            assert agree(kept, edits(10, 3)) > 5


def test_a_file_that_was_restored_by_the_backup_api(index: Index, tmp_path: Path) -> None:
    """Another connection puts an older state into the open file: ids that come again are other fingerprints'."""
    copy, other = apsw.Connection(str(tmp_path / "copy.db")), apsw.Connection(str(tmp_path / "index.db"))
    with copy.backup("main", other, "main") as backup:
        backup.step()
    index.add_many(enumerate(edits(150, 7), 1000))
    assert agree(index, edits(25, 7)) > 30
    with other.backup("main", copy, "main") as backup:
        backup.step()
    index.add_many(enumerate(edits(150, 8), 1000))
    assert agree(index, edits(25, 8)) > 30
    copy.close()
    other.close()


@pytest.mark.parametrize("kind", ["caller's file", "our memory"])
def test_a_database_that_was_deserialized(tmp_path: Path, kind: str) -> None:
    """The caller puts an older state into the open database, which is in memory then: ids that come again are others'."""
    connection = None if kind == "our memory" else apsw.Connection(str(tmp_path / "own.db"))
    with Index(connection or ":memory:", SCHEME, text=RULES) as index:
        index.add_many(enumerate(edits(150, 1)))
        before = index.connection.serialize("main")
        index.add_many(enumerate(edits(100, 2), 1000))
        assert agree(index, edits(30, 7) + edits(30, 2)) > 30
        index.connection.deserialize("main", before)
        index.add_many(enumerate(edits(100, 3), 5000))
        assert agree(index, edits(30, 3)) > 30


def test_two_indexes_of_one_file(index: Index, tmp_path: Path) -> None:
    """Outlines belong to one index: those of another one in the same file have the same ids."""
    with Index(index.connection, SCHEME, text=RULES, name="second") as second:
        second.add_many(enumerate(edits(150, 20)))
        for text in edits(10, 3):
            assert agree(index, [text]) + agree(second, [text]) >= 0
        assert agree(index, edits(20, 3)) > 5


@pytest.mark.parametrize(("slots", "slot_bits"), [(1, 16), (31, 32), (32, 16), (33, 16), (128, 16), (200, 32)])
def test_outlines_never_tell_a_match_apart(slots: int, slot_bits: int) -> None:
    """A signature that an outline refuses has too few equal slots by the verdict itself, at every threshold."""
    chance = np.random.default_rng(slots)
    kind = np.uint16 if slot_bits == 16 else np.uint32
    asked = chance.integers(0, 5, slots).astype(kind)
    outlines = ffi.gc(lib.nd_outlines_new(), lib.nd_outlines_free)
    lib.nd_outlines_begin(outlines, 7, slots, slot_bits // 8)
    outline = ffi.new("uint64_t[]", lib.nd_outline_words(slots))
    lib.nd_outline_draw(ffi.from_buffer("uint8_t[]", asked), slots, slot_bits // 8, outline)
    told = 0
    for number in range(1, 2001):
        other = np.where(chance.random(slots) < chance.random(), asked, chance.integers(0, 60000, slots)).astype(kind)
        threshold = float(chance.choice([0.5, 0.7, 0.8, 0.9, chance.random(), int((other == asked).sum()) / slots or 0.1]))
        lib.nd_outlines_keep(outlines, number, ffi.from_buffer("uint8_t[]", other))
        apart = lib.nd_outlines_tell_apart(outlines, number, outline, lib.nd_slots_spared(slots, threshold))
        told += apart
        assert not (apart and int((other == asked).sum()) / slots >= threshold)
    assert told > 500


def test_sql_of_others_cannot_put_an_outline_in_place(index: Index) -> None:
    """What a statement of a stranger says that a fingerprint's value is does not change what neardup_search finds."""
    asked = edits(1, 3)[0]
    db = index.connection
    search = "SELECT key FROM neardup_search('neardup', ?)"
    before = db.execute(search, (asked,)).fetchall()
    assert before
    forged = """SELECT count(neardup_may_match(zeroblob(256), f.id, 16, 0.7, s.value)
                    + neardup_met(f.id, zeroblob(256), 16, s.value, 0))
                FROM neardup_fingerprint AS f, neardup_setting AS s WHERE s.name = 'generation'"""
    assert db.execute(forged).fetchone() == (200,)
    assert db.execute(search, (asked,)).fetchall() == before
