"""Results go to pandas, polars and pyarrow as columns, with nothing lost."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow
import pytest
from cases import one_test

from neardup_db import AddReport, CheckReport, Cluster, Document, Index, Match, MinHash, Pair, ParameterError, Stats
from neardup_db.tables import columns

STORY = "the ferry to the northern islands was cancelled on monday because of a storm that closed the harbour for two days"
MATCHES = [Match("a", 1.0), Match("b", 0.9375)]
CODES = [Match(1, 0.98, 1), Match(2, 0.95, 3)]
ROWS = [{"key": 1, "similarity": 0.98, "distance": 1}, {"key": 2, "similarity": 0.95, "distance": 3}]
PAIRS = [Pair(b"\x00", b"\xff", 0.9), Pair(b"a", b"b", 0.8)]
CLUSTERS = [Cluster("a", ("a", "b", "c")), Cluster("x", ("x", "y"))]
DOCUMENT = Document("k", "g", {"n": 1}, "text", 3, 1_700_000_000.5, 1_700_000_001.0, 2, None)
CODE = Document("c", None, None, None, None, 1_700_000_000.0, 1_700_000_000.0, 1, 1_800_000_000.0)


def rows_of(library: str, table: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows that a library has made of columns, as plain Python."""
    if library == "pandas":
        frame = pandas.DataFrame(table)
        return [{name: None if pandas.isna(value) else value for name, value in row.items()} for row in frame.to_dict("records")]
    return polars.DataFrame(table).to_dicts() if library == "polars" else pyarrow.table(table).to_pylist()


@one_test(
    ("results", "expected"),
    [
        (MATCHES, [{"key": "a", "similarity": 1.0, "distance": None}, {"key": "b", "similarity": 0.9375, "distance": None}]),
        (CODES, ROWS),
        ([[CODES[0]], [], CODES], [{"query": 0, **ROWS[0]}, {"query": 2, **ROWS[0]}, {"query": 2, **ROWS[1]}]),
        (PAIRS, [{"key_a": p.key_a, "key_b": p.key_b, "similarity": p.similarity, "distance": None} for p in PAIRS]),
        (
            CLUSTERS,
            [{"cluster": 0, "size": 3, "representative": "a", "key": key} for key in "abc"]
            + [{"cluster": 1, "size": 2, "representative": "x", "key": key} for key in "xy"],
        ),
    ],
    library=["pandas", "polars", "pyarrow"],
)
def test_libraries_take_columns(library: str, results: list[Any], expected: list[dict[str, Any]]) -> None:
    """Every value arrives, in order, under the name of its attribute."""
    assert rows_of(library, columns(iter(results))) == expected


@one_test(library=["pandas", "polars", "pyarrow"])
def test_libraries_take_documents(library: str) -> None:
    """Times are times, what is missing is missing, metadata is JSON; a document that is not there is left out."""
    first, second = rows_of(library, columns([DOCUMENT, None, CODE]))
    assert (first["key"], first["group"], first["metadata"], first["text"]) == ("k", "g", '{"n": 1}', "text")
    assert (second["group"], second["metadata"], second["text"], first["expires_at"]) == (None, None, None, None)
    assert first["token_count"] == 3 and second["token_count"] is None
    assert [row["times_seen"] for row in (first, second)] == [2, 1]
    added = [datetime.fromisoformat(str(row["added_at"])).replace(tzinfo=timezone.utc) for row in (first, second)]
    assert [one.timestamp() for one in added] == [1_700_000_000.5, 1_700_000_000.0]
    assert datetime.fromisoformat(str(second["expires_at"])).replace(tzinfo=timezone.utc).timestamp() == 1_800_000_000.0


def test_columns_have_types_that_need_no_guess() -> None:
    """float64, int64, datetime64[ms]; an empty result has the columns of the kind that is named, or of matches."""
    table = columns([DOCUMENT])
    assert (table["added_at"].dtype, table["times_seen"].dtype) == (np.dtype("datetime64[ms]"), np.dtype(np.int64))
    assert columns(MATCHES)["similarity"].dtype == np.float64 and columns(CLUSTERS)["cluster"].dtype == np.int64
    assert list(columns([])) == ["key", "similarity", "distance"] and columns([])["similarity"].dtype == np.float64
    assert list(columns([], Pair)) == ["key_a", "key_b", "similarity", "distance"]
    assert list(columns([[]])) == ["query", "key", "similarity", "distance"]
    assert list(columns([], Cluster)) == ["cluster", "size", "representative", "key"] and list(columns([], Document))[0] == "key"


@one_test(results=[[1], [MATCHES[0], PAIRS[0]], [AddReport()], [{"key": 1}], [MATCHES, 3]])
def test_other_things_are_refused(results: list[Any]) -> None:
    """With the kinds that are taken."""
    with pytest.raises(ParameterError, match="results of one kind"):
        columns(results)


def test_what_an_index_answers_goes_to_a_table() -> None:
    """All that an index returns is taken as it comes, generators too."""
    with Index(":memory:", MinHash(), store_text=True) as index:
        index.add_many([("a", STORY), ("b", STORY + " again"), ("c", "something else altogether and not like it")])
        assert columns(index.query(STORY))["key"] == ["a", "b"]
        assert columns(index.query_many([STORY, "nothing"]))["query"].tolist() == [0, 0]
        assert columns(index.pairs())["key_b"] == ["b"]
        assert polars.DataFrame(columns(index.clusters())).filter(polars.col("size") == 2)["key"].to_list() == ["a", "b"]
        assert columns(index.get_many(["a", "zzz", "c"]))["key"] == ["a", "c"]


# ---- what is seen ---------------------------------------------------------------------------------------------------------


def test_reprs_are_short_and_evaluate_where_they_are_whole() -> None:
    """Small values can be copied back; of large ones the beginning is shown, and how much there is."""
    assert eval(repr(CLUSTERS[0])) == CLUSTERS[0] and eval(repr(DOCUMENT)) == DOCUMENT
    large = Cluster(0, tuple(range(10_000)))
    assert repr(large) == f"Cluster(representative=0, keys=({', '.join(map(str, range(12)))}, ... 9,988 more))"
    assert len(large.keys) == 10_000
    long = Document("k", None, None, "x" * 10_000, 1, 0.0, 0.0, 1, None)
    assert len(repr(long)) < 500 and "(10,000 characters)" in repr(long) and long.text == "x" * 10_000


def test_stats_are_a_dictionary_that_prints_well() -> None:
    """Line by line, settings with their names, counts with separators; still equal to a plain dictionary."""
    stats = Stats(
        {"documents": 1234567, "share": 0.5, "exact": True, "settings": {"scheme": "minhash", "rows": 1000, "none": None}}
    )
    assert str(stats).split("\n") == [
        "documents        1,234,567",
        "share            0.5",
        "exact            True",
        "settings.scheme  minhash",
        "settings.rows    1000",
        "settings.none    none",
    ]
    assert stats == dict(stats) and stats["documents"] == 1234567
    with Index(":memory:", MinHash()) as index:
        assert isinstance(index.stats(), Stats) and "settings.scheme" in str(index.stats())


def test_a_check_report_prints_its_problems() -> None:
    """What is wrong, then what was done about it."""
    assert str(CheckReport()) == "every invariant holds"
    assert str(CheckReport(("a row lacks",), ("rows",))) == "a row lacks\nrepaired: rows"
