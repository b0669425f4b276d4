"""`add_many` of mappings whose fields are named, and arguments that Python programs often have instead of the right ones."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from typing import Any

import pandas
import pyarrow
import pytest
from cases import one_test

from neardup_db import ANY_GROUP, Index, MinHash, ParameterError
from neardup_db.aio import AsyncIndex

ROWS: list[dict[str, Any]] = [
    {"id": 1, "body": "the quick brown fox jumps", "tenant": "t", "source": "wire", "n": 2, "text": "not this", "expires_at": 1},
    {"id": 2, "body": "the lazy dog sleeps all day", "tenant": None, "source": None, "n": 3, "text": None, "expires_at": None},
]
NAMES: dict[str, Any] = {"key": "id", "text": "body", "group": "tenant", "metadata": ["source", "n"]}


@pytest.fixture
def index() -> Iterator[Index]:
    """With its texts."""
    with Index(":memory:", MinHash(threshold=0.5), store_text=True) as made:
        yield made


def contents(index: Index) -> list[tuple[Any, ...]]:
    """What is stored of each document."""
    found = [index.get(key) for key in index]
    return [(one.key, one.text, one.group, one.metadata, one.expires_at) for one in found]


STORED = [
    (1, "the quick brown fox jumps", "t", {"source": "wire", "n": 2}, None),
    (2, "the lazy dog sleeps all day", None, {"source": None, "n": 3}, None),
]


@pytest.mark.parametrize("records", [ROWS, iter(ROWS), pyarrow.Table.from_pylist(ROWS)], ids=["list", "iterator", "table"])
def test_named_fields_of_mappings_are_read_as_columns(index: Index, records: Any) -> None:
    """The named fields are stored and the others ignored, whatever they are called, from mappings as from a table."""
    assert index.add_many(records, **NAMES).added == 2
    assert contents(index) == STORED
    assert [match.key for match in index.query(ROWS[0]["body"], group=ANY_GROUP)] == [1]


def test_the_coroutine_names_fields_too() -> None:
    """AsyncIndex.add_many takes the same names, for mappings that arrive one by one as well."""

    async def arriving() -> Any:
        for row in ROWS:
            yield row

    async def main() -> list[int]:
        counts = []
        for records in (ROWS, arriving()):
            async with AsyncIndex(":memory:", MinHash(threshold=0.5)) as index:
                counts.append((await index.add_many(records, **NAMES)).added)
        return counts

    assert asyncio.run(main()) == [2, 2]


@one_test(
    ("records", "names", "told"),
    [
        (ROWS, {"key": "uid", "text": "body"}, r"record 0: key='uid' is no field of the record, which has \['id', 'body',"),
        (ROWS, {"key": "id", "text": "content"}, "record 0: text='content' is no field"),
        ([*ROWS, {"id": 3}], {"key": "id", "text": "body"}, r"record 2: text='body' is no field of .* has \['id'\]"),
        (ROWS, NAMES | {"group": "team"}, "record 0: group='team' is no field"),
        (ROWS, NAMES | {"metadata": ["source", "url"]}, "record 0: metadata='url' is no field"),
        (ROWS, NAMES | {"metadata": "source"}, "metadata='source': give a list of the names"),
        (ROWS, {"key": "id"}, "key='id', text=None: .* as in add_many"),
        (ROWS, {"metadata": ["source"]}, "key=None, text=None: .* as in add_many"),
        (ROWS, {"key": 0, "text": "body"}, "key=0: give the name of a field"),
        (ROWS, {"key": "id", "text": "body", "metadata": [[]]}, r"metadata=\[\]: give the name of a field"),
        ([(1, "a b c")], {"key": "id", "text": "body"}, r"record 0: record=\(1, .* is of type tuple: .* leave them out for"),
        (ROWS, {}, "record 0: record has the unknown field 'id': give .*, or name the fields, as in add_many"),
        ([{"id": None, "body": "a b c"}], {"key": "id", "text": "body"}, "record 0: key=None is of type NoneType"),
    ],
)
def test_names_that_do_not_fit_are_refused(index: Index, records: Any, names: dict[str, Any], told: str) -> None:
    """A field that is missing is named with the fields of the record; names without mappings say so. Nothing is stored."""
    with pytest.raises(ParameterError, match=f"^{told}"):
        index.add_many(records, **names)
    assert len(index) == 0


def test_a_record_without_a_named_field_can_be_skipped(index: Index) -> None:
    """on_error="skip" leaves out such a record, and reports it with its key where it has one."""
    records = [{"id": "a"}, *ROWS, {"body": "no key at all"}, ("b", "a pair of texts")]
    outcomes: list[tuple[Any, str]] = []
    report = index.add_many(
        records, key="id", text="body", on_error="skip", on_outcome=lambda key, outcome, match: outcomes.append((key, outcome))
    )
    assert (report.added, report.skipped) == (2, 3)
    assert [(one.record, one.key) for one in report.problems] == [(0, "a"), (3, None), (4, "b")]
    assert outcomes == [("a", "skipped"), (1, "added"), (2, "added"), (None, "skipped"), ("b", "skipped")]


def test_pandas_without_pyarrow_is_told_what_to_install(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where pyarrow is missing, a frame of pandas as records or questions is refused with two remedies."""
    frame = pandas.DataFrame({"id": [1], "body": ["the quick brown fox jumps"]})
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for call in (lambda: index.add_many(frame, key="id", text="body"), lambda: index.query_many(frame, text="body")):
        with pytest.raises(ParameterError, match=r"pandas.DataFrame, which needs pyarrow .*'neardup-db\[arrow\]'.*zip\(df"):
            call()
    assert index.add_many(zip(frame["id"], frame["body"], strict=True)).added == 1
