"""Buckets that very many near-copies share: the outcome is that of brute force, whatever stands apart in the table."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from support import CASES, PAST, SETS, Model
from support import WORDS as SINGLE_WORDS

from neardup_db import Index, limits
from neardup_db.store.layout.candidates import KeyTable

WORDS = """oak elm ash fir yew box bay may ivy rue nut fig pea rye oat hop tea hay reed moss fern weed root leaf twig""".split()  # noqa: SIM905


def families(count: int, edits: int, singles: int) -> list[tuple[str, str]]:
    """(key, text) of edits of a few templates, some so far from them that they match only each other, and of others, shuffled."""
    chance = random.Random(7)
    made = []
    for family in range(count):
        template = [chance.choice(WORDS) + str(family) for _ in range(14)]
        for edit in range(edits):
            words = list(template)
            for _ in range(chance.randrange(5)):
                words[chance.randrange(14)] = chance.choice(WORDS)
            made.append((f"f{family}-{edit}", " ".join(words)))
    made += [(f"s{i}", " ".join(chance.choices(WORDS, k=9))) for i in range(singles)]
    chance.shuffle(made)
    return made


def agree(index: Index, model: Model) -> None:
    """Clusters, pairs and invariants."""
    assert [one.keys for one in index.clusters()] == model.clusters()
    assert {(one.key_a, one.key_b, one.similarity, one.distance) for one in index.pairs()} == model.pairs()
    report = index.check()
    assert report.ok, report.problems


@pytest.mark.parametrize(
    "name", ["minhash", "minhash-exact-text", "bottomk", "simhash", "passages", "minhash in one", "simhash in one"]
)
def test_large_batches_of_near_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Adding in two batches of one or many segments and one by one, deleting and expiring leave the clusters of brute force."""
    monkeypatch.setattr(limits, "CROWD", 10)
    if not name.endswith(" in one"):
        monkeypatch.setattr(limits, "BATCH_RECORDS", 10)
        monkeypatch.setattr(limits, "FILING_BYTES", 1)
    case = CASES[name.removesuffix(" in one")]
    model = Model(case)
    texts = families(2, 25, 10)
    with Index(tmp_path / "index.db", case.scheme, text=case.rules, store_text=case.store_text) as index:
        for part in (texts[:35], texts[35:55]):
            expected = 0
            for key, text in part:
                expected += bool(model.matches(text))
                model.put(key, text)
            assert index.add_many(part).matched == expected
            agree(index, model)
        for key, text in texts[55:]:
            found = model.matches(text)
            model.put(key, text)
            got = [(one.key, one.similarity, one.distance) for one in index.add(key, text)]
            assert set(got) <= set(found) and len(got) == min(10, len(found))
        agree(index, model)
        gone = [key for key, _ in texts[::2]]
        assert index.delete_many(gone) == len(gone)
        for key in gone:
            del model.entries[key]
        agree(index, model)
        index.rebuild()
        agree(index, model)


def test_rows_of_a_large_cluster_stand_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster of so many fingerprints has one crowd in the file, a small one and single documents none."""
    monkeypatch.setattr(limits, "CROWD", 20)
    case = CASES["minhash"]
    with Index(tmp_path / "index.db", case.scheme, text=case.rules) as index:
        index.add_many(families(1, 60, 5))
        labels = index.connection.execute(
            """SELECT d.cluster_id, f.crowd, count(*) FROM neardup_document AS d
               JOIN neardup_fingerprint AS f ON f.id = d.fingerprint_id
               GROUP BY 1, 2 ORDER BY 3 DESC"""
        ).fetchall()
        assert labels[0][0] == labels[0][1] and labels[0][2] > 20
        assert all(crowd == 0 for _, crowd, count in labels if count == 1)


def test_a_load_moves_rows_to_large_clusters_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many segments a load has, it writes the rows of large clusters once, or as often as they reach a limit."""
    monkeypatch.setattr(limits, "CROWD", 20)
    monkeypatch.setattr(limits, "BATCH_RECORDS", 10)
    monkeypatch.setattr(limits, "FILING_BYTES", 1)
    moves: list[int] = []
    move_rows = KeyTable.move_rows
    monkeypatch.setattr(KeyTable, "move_rows", lambda table, crowds: (moves.append(len(crowds)), move_rows(table, crowds)))
    for most, expected in (1000, 1), (15, 3):
        monkeypatch.setattr(limits, "CROWD_MOVES", most)
        moves.clear()
        with Index(":memory:", SETS, text=SINGLE_WORDS) as index:
            index.add_many((number, f"{numbered('c', 0, 20)} u{number}") for number in range(60))
            assert len(moves) == expected and sum(moves) == 60
            assert index.connection.execute("SELECT count(DISTINCT crowd) FROM neardup_fingerprint").get == 1
            assert index.check().problems == ()


def numbered(letter: str, first: int, last: int) -> str:
    """So many words that nothing else has."""
    return " ".join(f"{letter}{i}" for i in range(first, last))


def test_an_add_searches_a_crowd_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where nothing of the crowd matches, or all that does has expired."""
    monkeypatch.setattr(limits, "CROWD", 3)
    near, other = numbered("c", 0, 20), numbered("d", 0, 12)
    with Index(":memory:", SETS, text=SINGLE_WORDS) as index:
        index.add_many((i, f"{near} u{i}") for i in range(8))
        searches = {"none": f"{other} c0 c1 c2 c3 c4", "some": f"{near} u9", "expired": f"{near} u10"}
        for key, text in searches.items():
            if key == "expired":
                for other_key in [*range(8), "some"]:
                    index.update(other_key, expires_at=PAST)
            run: list[str] = []
            index.connection.exec_trace = lambda cursor, sql, values, run=run: run.append(sql) or True
            found = index.add(key, text)
            index.connection.exec_trace = None
            assert bool(found) == (key == "some")
            assert sum("neardup_candidates('neardup', :fingerprint, +:group_id, :crowd)" in sql for sql in run) == 1
