"""Data frames less their near-duplicates, or with marks: what comes in goes out, and brute force chooses the same rows."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from typing import Any

import duckdb
import narwhals as nw
import pandas
import polars
import polars.testing
import pyarrow as pa
import pytest
from support import SETS, WORDS, components, duplicates_in

from neardup_db import BinaryCode, BitSampling, Index, MinHash, ParameterError, ShortTextsWarning, TextRules
from neardup_db.frames import clusters_frame, drop_near_duplicates, mark_near_duplicates, pairs_frame

STORY = "the ferry to the northern islands was cancelled on monday because of a storm that closed the harbour for two days"
BODIES = ["a dog", STORY, None, STORY.upper() + "!", "a cat", STORY + " and nights", "", "a dog?", None, ""]
IDS = list("abcdefghij")
PLACES = [1, 2, 3, 4, 5, 6, 7, 8, 9, 0]
FRAME = polars.DataFrame({"id": IDS, "body": BODIES, "place": PLACES})

KINDS: dict[str, Callable[[], Any]] = {
    "polars": lambda: FRAME,
    "lazy": lambda: FRAME.lazy(),
    "categories": lambda: FRAME.with_columns(polars.col("body").cast(polars.Categorical)),
    "pyarrow": lambda: FRAME.to_arrow(),
    "dictionary": lambda: FRAME.to_arrow().set_column(1, "body", pa.array(BODIES).dictionary_encode()),
    "chunks": lambda: pa.concat_tables([FRAME.to_arrow()[:3], FRAME.to_arrow()[3:]]),
    "pandas": lambda: FRAME.to_pandas(),
    "pandas of objects": lambda: pandas.DataFrame({"id": IDS, "body": pandas.Series(BODIES, dtype=object), "place": PLACES}),
    "pandas of Arrow": lambda: FRAME.to_pandas(use_pyarrow_extension_array=True),
    "pandas with names": lambda: FRAME.to_pandas().set_index(pandas.Index([7, 7, 3, 2, 1, 0, 9, 9, 9, 5], name="n")),
    "pandas with any labels": lambda: FRAME.to_pandas().set_index(pandas.Index([1, "x", None, 2.5, *IDS[4:]], dtype=object)),
    "narwhals": lambda: nw.from_native(FRAME.to_pandas()),
    "duckdb": lambda: duckdb.connect(config={"threads": 2}).from_arrow(FRAME.to_arrow()),
}


def rows(frame: Any) -> list[tuple[Any, ...]]:
    """The rows of any data frame, null as None."""
    opened: Any = nw.from_native(frame, pass_through=False)
    collected = opened.collect() if isinstance(opened, nw.LazyFrame) else opened
    if collected.implementation.is_pandas():
        native = collected.to_native().astype(object)
        return list(native.where(native.notna(), None).itertuples(index=False, name=None))
    return list(collected.iter_rows())


# ---- dropping ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_what_comes_in_goes_out(kind: str) -> None:
    """The frame has its type, its columns with their types and its order; nulls and texts without a word stay."""
    given = KINDS[kind]()
    made = drop_near_duplicates(given, "body")
    assert type(made) is type(given)
    assert [row[0] for row in rows(made)] == ["a", "b", "c", "e", "g", "i", "j"]
    if isinstance(given, pandas.DataFrame):
        pandas.testing.assert_frame_equal(made, given.iloc[[0, 1, 2, 4, 6, 8, 9]])
    elif isinstance(given, pa.Table):
        assert made.equals(given.take([0, 1, 2, 4, 6, 8, 9]))
    elif isinstance(given, polars.DataFrame):
        polars.testing.assert_frame_equal(made, given[[0, 1, 2, 4, 6, 8, 9]])


def test_a_relation_has_its_types_and_its_connection() -> None:
    """What Arrow has no type for is again what it was, and the relation can be joined with others of its connection."""
    connection = duckdb.connect()
    kinds = """n HUGEINT, "a ""b" VARCHAR, u UUID, e ENUM('x', 'y'), s STRUCT(a INTEGER, b VARCHAR[])"""
    connection.execute(f"CREATE TABLE t ({kinds})")
    connection.execute("INSERT INTO t SELECT i, 'a b c d', uuid(), 'y', {a: 1, b: ['z']} FROM range(3) AS r(i)")
    given = connection.table("t")
    made = drop_near_duplicates(given, 'a "b')
    assert (made.columns, made.types) == (given.columns, given.types)
    assert made.fetchall() == given.fetchall()[:1]
    assert made.join(given.set_alias("g"), "n").aggregate("count(*)").fetchall() == [(1,)]
    marked = mark_near_duplicates(given, 'a "b')
    assert marked.types[:5] == given.types
    assert [row[5:] for row in marked.fetchall()] == [(0, None, None), (0, 0, 1.0), (0, 0, 1.0)]
    assert connection.execute("SHOW TABLES").fetchall() == [("t",)]


def test_values_of_a_relation_stay_duckdbs() -> None:
    """What Arrow changes is as it was, also beside names like those of the rows that are added."""
    connection = duckdb.connect()
    connection.execute("""CREATE TABLE t ("Row_0" VARCHAR, b BIT, z TIMETZ, i INTERVAL, v VARCHAR)""")
    connection.execute("""INSERT INTO t VALUES ('a b c', '0101', '12:00:00+02', INTERVAL 14 MONTH, 'x'),
        ('a b c', '1', '12:00:00-05:30', NULL, 'y'), ('d e f', '000', '23:59:59+15:59', INTERVAL 1 MICROSECOND, NULL)""")
    given = connection.table("t")
    wanted = given.fetchall()
    made = drop_near_duplicates(given, "Row_0")
    assert (made.columns, made.types, made.fetchall()) == (given.columns, given.types, [wanted[0], wanted[2]])
    marked = mark_near_duplicates(given, "Row_0", key="v")
    assert marked.columns == [*given.columns, "cluster", "duplicate_of", "similarity"]
    assert marked.fetchall() == [(*wanted[0], 0, None, None), (*wanted[1], 0, "x", 1.0), (*wanted[2], None, None, None)]
    assert pairs_frame(given, "Row_0", key="v").fetchall() == [("x", "y", 1.0, None)]
    assert clusters_frame(given, "Row_0", key="v").types == ["BIGINT", "BIGINT", "VARCHAR", "VARCHAR"]


def test_a_relation_is_found_by_no_name() -> None:
    """Tables and variables of any name, and a database that is locked, change nothing; nothing is created."""
    connection = duckdb.connect()
    connection.execute("CREATE TABLE neardup_db_rows AS SELECT * FROM (VALUES (1, 'a b c'), (2, 'a b c')) AS v(id, body)")
    connection.execute("CREATE TABLE neardup_db_like AS SELECT 9 AS id, 'x y z' AS body")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET python_enable_replacements = false")
    connection.execute("SET lock_configuration = true")
    given = connection.table("neardup_db_rows")
    assert drop_near_duplicates(given, "body").fetchall() == [(1, "a b c")]
    assert mark_near_duplicates(given, "body").fetchall() == [(1, "a b c", 0, None, None), (2, "a b c", 0, 0, 1.0)]
    assert pairs_frame(given, "body").fetchall() == [(0, 1, 1.0, None)]
    assert connection.execute("SHOW TABLES").fetchall() == [("neardup_db_like",), ("neardup_db_rows",)]
    assert connection.table("neardup_db_like").fetchall() == [(9, "x y z")]


def test_a_relation_that_gives_other_rows_is_an_error() -> None:
    """What comes back is a query: where the texts are not those that were compared, it says so instead of choosing rows."""
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT i AS id, 'word' || i || ' a b c' AS body FROM range(40) AS r(i)")
    made = drop_near_duplicates(connection.table("t"), "body")
    assert len(made.fetchall()) == 40
    for change in ("INSERT INTO t VALUES (41, 'one more')", "UPDATE t SET body = body || '!' WHERE id < 20"):
        connection.execute(f"BEGIN; {change}")
        with pytest.raises(duckdb.Error, match=r"the relation returned other rows, or another order, .* relation.create"):
            made.fetchall()
        connection.execute("ROLLBACK")
    assert len(made.fetchall()) == 40


CHOICES: list[tuple[dict[str, Any], str]] = [
    ({"keep": "last"}, "cefghij"), ({"keep": "longest"}, "cefghij"), ({"order_by": ["place", "id"]}, "abcegij"),
    ({"order_by": "place", "keep": "last"}, "cefghij"), ({"threshold": 0.99}, "abcefgij"), ({"threshold": 0.1}, "abcegij"),
    ({"scheme": BitSampling(threshold=0.7), "rules": TextRules.chars()}, "abcegij"),
]  # fmt: skip


@pytest.mark.parametrize("kind", ["polars", "pandas", "pyarrow", "duckdb"])
def test_which_row_is_kept(kind: str) -> None:
    """The first or the last, in the order of the rows or of columns, or the longest; thresholds and schemes of one library do."""
    for options, kept in CHOICES if kind == "polars" else CHOICES[:4]:
        assert "".join(row[0] for row in rows(drop_near_duplicates(KINDS[kind](), "body", **options))) == kept, options


def test_nulls_in_the_order_are_behind() -> None:
    """A row whose place is null is kept only where none of its cluster has one. A column twice in the order is once."""
    ordered = drop_near_duplicates(FRAME, "body", order_by=["place", "id", "place"])
    assert rows(ordered) == rows(drop_near_duplicates(FRAME, "body", order_by=["place", "id"]))
    frame = polars.DataFrame({"body": ["a b"] * 3 + ["c d"] * 2, "at": [None, 2, 1, None, None], "n": range(5)})
    assert drop_near_duplicates(frame, "body", order_by="at")["n"].to_list() == [2, 3]
    assert drop_near_duplicates(frame, "body", order_by="at", keep="last")["n"].to_list() == [1, 4]
    assert drop_near_duplicates(frame.reverse(), "body", order_by=["at", "n"], keep="longest")["n"].to_list() == [3, 2]


def test_against_an_index_or_a_frame() -> None:
    """Rows that are near-duplicates of anything in the other one go, all of them; it stays as it is."""
    other = pandas.DataFrame({"body": ["a dog", None, "something else"]})
    for kind in ("polars", "pandas", "duckdb"):
        assert "".join(row[0] for row in rows(drop_near_duplicates(KINDS[kind](), "body", against=other))) == "bcegij"
    with Index(":memory:", MinHash(threshold=0.5, exact=True)) as index:
        index.add("x", STORY)
        assert drop_near_duplicates(FRAME, "body", against=index)["id"].to_list() == list("aceg" + "ij")
        assert drop_near_duplicates(FRAME, "body", 0.99, against=index)["id"].to_list() == list("acefgij")
        assert len(index) == 1
        with pytest.raises(ParameterError, match=r"threshold=0.4 is below 0.5"):
            drop_near_duplicates(FRAME, "body", 0.4, against=index)


def test_a_dropped_row_stands_for_nothing() -> None:
    """A row that is like a dropped one only, and not like what that was dropped for, is kept."""
    frame = polars.DataFrame({"body": ["b c d e", "c d e f"]})
    options: dict[str, Any] = {"scheme": SETS, "rules": WORDS}
    assert len(drop_near_duplicates(frame, "body", **options)) == 1
    other = polars.DataFrame({"body": ["a b c d"]})
    assert drop_near_duplicates(frame, "body", against=other, **options)["body"].to_list() == ["c d e f"]


# ---- marking -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_marks(kind: str) -> None:
    """Three columns say the cluster, the row that stands for this one and how similar they are; the others are as they were.
    With key= the row that stands for another one is named by its value there, with its type."""
    given = KINDS[kind]()
    made = mark_near_duplicates(given, "body")
    assert type(made) is type(given)
    assert [row[:3] for row in rows(made)] == rows(given)
    marks = [row[3:] for row in rows(made)]
    assert [mark[:2] for mark in marks] == [
        (0, None), (1, None), (None, None), (1, 1), (None, None), (1, 1), (None, None), (0, 0), (None, None), (None, None),
    ]  # fmt: skip
    similarities = [mark[2] for mark in marks if mark[2] is not None]
    assert similarities == [1.0, 19 / 21, 1.0]
    if isinstance(given, pandas.DataFrame):
        assert (made["cluster"].dtype, made["duplicate_of"].dtype) == ("Int64", "Int64")
        assert made.index.equals(given.index) and list(made.columns) == [*given.columns, "cluster", "duplicate_of", "similarity"]
    made = mark_near_duplicates(KINDS[kind](), "body", keep="last", key="id")
    assert [row[4] for row in rows(made)] == ["h", "f", None, "f", None, None, None, None, None, None]
    made = mark_near_duplicates(KINDS[kind](), "body", key="place")
    assert [row[4] for row in rows(made)] == [None, None, None, 2, None, 2, None, 1, None, None]


def test_an_index_is_asked_in_every_group() -> None:
    """against: a row that is like a document of any group of the index is dropped."""
    frame = polars.DataFrame({"body": ["a b", "c d", "e f"]})
    with Index(":memory:", SETS, text=WORDS) as index:
        index.add_many([{"key": 1, "text": "a b"}, {"key": 2, "text": "c d", "group": "g"}])
        made = drop_near_duplicates(frame, "body", against=index, scheme=SETS, rules=WORDS)
    assert made["body"].to_list() == ["e f"]


@pytest.mark.parametrize("kind", ["polars", "pandas", "pyarrow", "duckdb"])
def test_rows_match_within_their_group(kind: str) -> None:
    """Rows are compared with rows of equal values in the column, nulls with nulls; so are the pairs and the clusters."""
    table = pa.table({"id": [*range(7)], "body": ["a b"] * 7, "at": [1.5, 2.5, 1.5, None, None, 2.5, 3.5]})
    frame: Any = {
        "polars": lambda: polars.from_arrow(table), "pandas": table.to_pandas, "pyarrow": lambda: table,
        "duckdb": lambda: duckdb.connect(config={"threads": 2}).from_arrow(table),
    }[kind]()  # fmt: skip
    options: dict[str, Any] = {"scheme": SETS, "rules": WORDS, "group": "at"}
    assert [row[0] for row in rows(drop_near_duplicates(frame, "body", **options))] == [0, 1, 3, 6]
    assert [row[4] for row in rows(mark_near_duplicates(frame, "body", **options))] == [None, None, 0, None, 3, 1, None]
    assert [row[:2] for row in rows(pairs_frame(frame, "body", **options))] == [(0, 2), (1, 5), (3, 4)]
    assert sorted(row[3] for row in rows(clusters_frame(frame, "body", **options))) == [0, 1, 2, 3, 4, 5]


def similar(a: str | None, b: str | None) -> float:
    """The share of words in common."""
    sets = [set((text or "").split()) for text in (a, b)]
    return len(sets[0] & sets[1]) / len(sets[0] | sets[1]) if sets[0] and sets[1] else 0.0


CASES: list[tuple[Any, bool, bool]] = [
    ("first", False, True), ("first", True, False), ("last", False, False), ("last", True, True),
    ("longest", False, True), ("longest", True, False),
]  # fmt: skip
"""Which row is kept, whether there is an order, and whether all connected rows go: every two of them together."""


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_brute_force(kind: str) -> None:
    """Which rows are kept, the clusters, and the pairs are those of brute force."""
    rng, count = random.Random(kind), 20
    for keep, ordered, connected in CASES:
        texts = [None if rng.random() < 0.1 else " ".join(rng.choices("abcdefgh", k=rng.randrange(5))) for _ in range(count)]
        places = [rng.randrange(4) for _ in range(count)]
        frame: Any = polars.DataFrame({"n": range(count), "t": texts, "p": places})
        frame = frame.to_pandas() if kind == "pandas" else frame.to_arrow() if kind == "pyarrow" else frame
        pairs = [(i, j, similar(texts[i], texts[j])) for j in range(count) for i in range(j)]
        pairs = [pair for pair in pairs if pair[2] >= 0.5]
        parts = components((i, j) for i, j, _ in pairs)
        assert len(pairs) > 3
        ranks = [(-len(texts[row] or "") * (keep == "longest"), places[row] * ordered, row) for row in range(count)]
        order = sorted(range(count), key=ranks.__getitem__, reverse=keep == "last")
        likeness = {frozenset(pair[:2]): pair[2] for pair in pairs}
        gone = duplicates_in(order, lambda a, b, known=likeness: known.get(frozenset((a, b))))
        if connected:
            first = {row: min(part, key=order.index) for part in parts for row in part}
            gone = {row: (kept, similar(texts[row], texts[kept])) for row, kept in first.items() if row != kept}
        options: dict[str, Any] = {"scheme": SETS, "rules": WORDS}
        choice = {"keep": keep, "order_by": "p" if ordered else None, "connected": connected, **options}
        assert [row[0] for row in rows(drop_near_duplicates(frame, "t", **choice))] == [n for n in range(count) if n not in gone]
        marks = rows(mark_near_duplicates(frame, "t", **choice))
        assert [row[4:] for row in marks] == [gone.get(row, (None, None)) for row in range(count)]
        stars = sorted(sorted([one, *(row for row in gone if gone[row][0] == one)]) for one in {one for one, _ in gone.values()})
        cluster_of = {row: number for number, star in enumerate(stars) for row in star}
        assert [row[3] for row in marks] == [cluster_of.get(row) for row in range(count)]
    assert sorted(row[:3] for row in rows(pairs_frame(frame, "t", **options))) == sorted(pairs)
    listed = rows(clusters_frame(frame, "t", **options))
    found = [sorted(row[3] for row in listed if row[0] == number) for number in {row[0] for row in listed}]
    assert sorted(found) == sorted(map(sorted, parts))


# ---- pairs and clusters ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_pairs_and_clusters_of_a_frame(kind: str) -> None:
    """They have the frame's type, and name rows by number or by a column."""
    given = KINDS[kind]()
    pairs, clusters = pairs_frame(given, "body", key="id"), clusters_frame(given, "body")
    assert type(pairs) is type(clusters) is type(given)
    assert sorted(row[:2] for row in rows(pairs)) == [("a", "h"), ("b", "d"), ("b", "f"), ("d", "f")]
    assert {row[3] for row in rows(pairs)} == {None}
    assert rows(clusters) == [(0, 3, 1, 1), (0, 3, 1, 3), (0, 3, 1, 5), (1, 2, 0, 0), (1, 2, 0, 7)]
    if kind in ("polars", "pandas", "duckdb"):
        told = pairs_frame(given, "body", 0.99, backend="pyarrow")
        assert isinstance(told, pa.Table) and len(told) == 2


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
def test_pairs_and_clusters_of_an_index(backend: Any) -> None:
    """An index gives its own, with null for a distance that there is not; an empty one gives the columns."""
    with Index(":memory:", SETS, text=WORDS) as index:
        assert rows(pairs_frame(index, backend=backend)) == rows(clusters_frame(index, backend=backend)) == []
        index.add_many([("a", "w x y z"), ("b", "w x y v"), ("c", "w x y z v")])
        assert rows(pairs_frame(index, backend=backend)) == [("a", "b", 0.6, None), ("a", "c", 0.8, None), ("b", "c", 0.8, None)]
        assert rows(pairs_frame(index, threshold=0.7, backend=backend))[0] == ("a", "c", 0.8, None)
        assert rows(clusters_frame(index, backend=backend)) == [(0, 3, "a", key) for key in "abc"]
        assert rows(clusters_frame(index, backend=backend, min_size=4)) == []
    with Index(":memory:", BinaryCode(bits=64, max_distance=3)) as codes:
        codes.add_codes([1, 2], [0, 1])
        assert rows(pairs_frame(codes, backend=backend)) == [(1, 2, 1 - 1 / 64, 1)]


def test_keys_of_several_types() -> None:
    """pandas holds them; other libraries cannot, and say so."""
    with Index(":memory:", SETS, text=WORDS) as index:
        index.add_many([(1, "a b"), ("1", "a b")])
        assert rows(pairs_frame(index)) == [(1, "1", 1.0, None)]
        with pytest.raises(ParameterError, match="the keys are int and str, .* backend='pandas'"):
            clusters_frame(index, backend="polars")


@pytest.mark.parametrize("kind", ["polars", "lazy", "pyarrow", "pandas", "duckdb"])
def test_no_rows(kind: str) -> None:
    """A frame without rows has no near-duplicates, and one of nulls neither."""
    given: Any = KINDS[kind]()
    empty = given.filter("id = 'none'") if kind == "duckdb" else given[:0] if kind != "lazy" else given.limit(0)
    assert rows(drop_near_duplicates(empty, "body", against=given)) == rows(mark_near_duplicates(empty, "body")) == []
    assert rows(pairs_frame(empty, "body")) == rows(clusters_frame(empty, "body")) == []
    nulls = pa.table({"body": pa.nulls(3), "n": [1, 2, 3]})
    assert drop_near_duplicates(nulls, "body").equals(nulls)


@pytest.mark.parametrize("kind", ["polars", "pyarrow", "pandas"])
def test_keys_of_any_type_come_back(kind: str) -> None:
    """Numbers of 64 bits without a sign, also where a row has none; a column of nulls alone."""
    for first in (0, 2**63):
        table = pa.table({"n": pa.array(range(first, first + 10), pa.uint64()), "none": pa.nulls(10), "body": BODIES})
        given: Any = {"polars": polars.from_arrow, "pyarrow": lambda table: table, "pandas": pa.Table.to_pandas}[kind](table)
        assert rows(pairs_frame(given, "body", key="n"))[0][:2] == (first, first + 7)
        marked = [row[-2] for row in rows(mark_near_duplicates(given, "body", key="n"))]
        assert marked == [None, None, None, first + 1, None, first + 1, None, first, None, None]
    assert rows(pairs_frame(given, "body", key="none"))[0][:2] == (None, None)
    assert [row[-2] for row in rows(mark_near_duplicates(given, "body", key="none"))] == [None] * 10


# ---- what is refused -----------------------------------------------------------------------------------------------------


def test_short_texts_are_told_what_to_give() -> None:
    """The warning about short texts names rules and threshold, which are arguments here too; with these there is none."""
    frame = polars.DataFrame({"body": [f"number {n} of some short titles" for n in range(30)]})
    with pytest.warns(ShortTextsWarning, match=r"such texts: take TextRules\.chars\(shingle=3\) and a threshold of 0\.8,"):
        drop_near_duplicates(frame, "body")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        drop_near_duplicates(frame, "body", 0.6, rules=TextRules.chars(shingle=3))


def test_what_is_refused_of_an_index() -> None:
    """An index has its own texts, keys and rule."""
    with Index(":memory:", SETS, text=WORDS) as index:
        for options in ({"text": "body"}, {"key": "id"}, {"scheme": SETS}, {"rules": WORDS}):
            with pytest.raises(ParameterError, match="is for a data frame, and source is an index: leave"):
                pairs_frame(index, **options)
        with pytest.raises(ParameterError, match="the clusters of its own threshold"):
            clusters_frame(index, threshold=0.9)
