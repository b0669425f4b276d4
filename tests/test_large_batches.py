"""Large batches: values are remembered in memory, and the index over their hashes is set aside until the end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from neardup_db import BinaryCode, Index, limits
from neardup_db.errors import DuplicateKeyError
from neardup_db.store.ingest.batch_writer import IngestOptions
from neardup_db.store.ingest.segment import distinct
from neardup_db.store.layout.sketches import Sketches

SCHEME = BinaryCode(bits=64, max_distance=3)
COUNT = 200


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of ten records, of which the second one is large already."""
    monkeypatch.setattr(limits, "BATCH_RECORDS", 10)
    monkeypatch.setattr(limits, "SEEN_FROM", 20)


def records(seed: int, first: int = 0, count: int = COUNT) -> list[dict[str, Any]]:
    """Codes of which many are equal, within a batch, between batches and between groups."""
    random = Random(seed)
    return [
        {"key": first + i, "code": random.randrange(count // 2) << 20, "group": random.choice([None, "g", "h"])}
        for i in range(count)
    ]


def index_sql(index: Index) -> Any:
    """How the index over the hashes of values is declared; asked in the midst of a load, which it does not settle."""
    return index._store.db.connection.execute("SELECT sql FROM sqlite_schema WHERE name = 'neardup_fingerprint_value'").get


def stored(index: Index) -> set[tuple[Any, ...]]:
    """Every document with its value, and its cluster as the set of its members."""
    rows = index.connection.execute(
        """SELECT d.key, f.group_id, f.value FROM neardup_document AS d
           JOIN neardup_fingerprint AS f ON f.id = d.fingerprint_id"""
    )
    clusters = {key: tuple(sorted(cluster.keys)) for cluster in index.clusters(1) for key in cluster.keys}
    return {(*row, clusters[row[0]]) for row in rows}


def load(index: Index, rows: Any, **options: Any) -> Any:
    """add_many for codes that say more than one for all."""
    return index._load(rows, IngestOptions("code", "error", **options))


def test_the_index_is_set_aside(tmp_path: Path) -> None:
    """While a load is on, and only once its batches are many; the caller's own query at that moment keeps it where it is."""
    seen: list[Any] = []
    with Index(tmp_path / "a.db", SCHEME) as index:

        def watched() -> Iterator[Any]:
            for i, one in enumerate(records(1)):
                if i in (15, 150):
                    seen.append(index_sql(index))
                yield one

        load(index, watched())
        assert seen[0] is not None
        assert seen[1] is None
    with Index(tmp_path / "b.db", SCHEME) as index:
        load(index, records(1))
        cursor = index.connection.execute("SELECT id FROM neardup_fingerprint")
        cursor.fetchone()
        load(index, records(2, COUNT))
        assert index_sql(index) is not None
        assert index.check().ok


def test_the_index_is_back_before_it_takes_much_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From so many fingerprints on a load goes on with the index, and values stay stored once."""
    monkeypatch.setattr(limits, "ASIDE_MAX", 100)
    there: list[bool] = []
    with Index(tmp_path / "a.db", SCHEME) as index, Index(":memory:", SCHEME) as single:

        def watched() -> Iterator[Any]:
            for i, one in enumerate(records(1)):
                if i in (55, 180):
                    there.append(index_sql(index) is not None)
                yield one

        load(index, watched())
        with single.transaction():
            for one in records(1):
                single.add_code(**one)
        assert there == [False, True]
        assert stored(index) == stored(single)
        assert index.check().ok


@pytest.mark.parametrize("only_new", [False, True])
def test_a_failed_load_leaves_the_index_in_place(tmp_path: Path, only_new: bool) -> None:
    """After a record with a key that is there already nothing of the load is stored, and the index over hashes is there."""
    with Index(tmp_path / "a.db", SCHEME) as index:
        load(index, records(1))
        before, declared = stored(index), index_sql(index)
        with pytest.raises(DuplicateKeyError):
            load(index, [*records(2, COUNT), {"key": 0, "code": 5}], only_new=only_new)
        assert (stored(index), index_sql(index)) == (before, declared)
        assert index.check().ok
        load(index, records(2, COUNT))
        assert index.check().ok


def test_records_that_go_one_by_one_in_a_load(tmp_path: Path) -> None:
    """Keys that exist are replaced between large runs of new ones."""
    with Index(tmp_path / "a.db", SCHEME) as index, Index(":memory:", SCHEME) as single:
        rows = records(1)
        for i, one in enumerate(records(2)):
            key = one["key"] % 7 + 100 * (i % 2)
            rows.append({**one, "key": key, "group": rows[key]["group"], "if_exists": "replace"})
        rows += records(3, 2 * COUNT)
        load(index, rows)
        with single.transaction():
            for one in rows:
                single.add_code(**one)
        assert stored(index) == stored(single)
        assert index.check().ok


@pytest.mark.parametrize("modulus", [2**40, 3, 1])
def test_equal_values_of_a_batch_are_told_from_those_of_equal_hash(modulus: int) -> None:
    """Each value is there once, in the order of the first ones, and every sketch points at its own: even where hashes collide."""
    random = Random(4)
    values = [random.choice([None, *(bytes([i]) * 20 for i in range(30))]) for _ in range(200)]
    hashes = np.array([-1 if value is None else value[0] % modulus for value in values], np.int64)
    keys = np.array([[-1 if value is None else value[0]] for value in values], np.int64)
    different, of_different, keys_of, which = distinct(Sketches(values, None, 1, hashes, keys))
    assert different == list(dict.fromkeys(value for value in values if value is not None))
    assert [None if i < 0 else different[i] for i in which] == values
    assert of_different.tolist() == [value[0] % modulus for value in different]
    assert keys_of[:, 0].tolist() == [value[0] for value in different]
