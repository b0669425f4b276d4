"""Spark against the index: the same fingerprints, buckets and clusters, however the work is cut; and what must fail."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import sys
import venv
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from spark_frames import BY_WORD, SCHEME, by_hand, chained, clusters_in, clusters_of, edited, frame, indexed, synthetic
from support import components as components_of

from neardup_db import (
    DuplicateKeyError,
    Index,
    MinHash,
    MismatchError,
    NearDupError,
    ParameterError,
    TextRules,
    __version__,
    demo,
    limits,
)
from neardup_db.spark import components as connected
from neardup_db.spark import deduplicate, near_duplicates, tables
from neardup_db.spark.components import components
from neardup_db.spark.meeting import preference
from neardup_db.spark.tables import Tables
from neardup_db.spark.tasks import sketch

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::FutureWarning")]

LOOSE = MinHash(threshold=0.7, bands=30, rows=2)
"""Bands in which texts meet by the hundred that do not match."""

OPTIONS = {
    "spark.sql.shuffle.partitions": "3",
    "spark.ui.enabled": "false",
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.ui.showConsoleProgress": "false",
}
"""A Spark of two workers that loses no time on small tables."""


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session, for all tests: it takes longer to begin than a test takes."""
    from pyspark.sql import SparkSession

    folder, before = tmp_path_factory.mktemp("spark"), Path.cwd()
    builder = SparkSession.builder.master("local[2]").config("spark.local.dir", str(folder))
    for name, value in OPTIONS.items():
        builder = builder.config(name, value)
    os.chdir(folder)  # Python's workers begin here, and import what is installed, not what lies about
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYSPARK_PYTHON", sys.executable)  # they are python3 of the PATH else
            session = builder.getOrCreate()
    finally:
        os.chdir(before)
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


# ---- the same as the index -------------------------------------------------------------------------------------------------


def test_real_texts_have_the_fingerprints_buckets_and_clusters_of_the_index(spark: Any, tmp_path: Path) -> None:
    """Values and band rows are the index's to the bit, the clusters are its clusters, and an index imports what was saved."""
    records = demo.documents()
    folder = f"file:{tmp_path}/day"
    rows = near_duplicates(frame(spark, records, "string"), "id", "body", SCHEME, save=folder).collect()
    assert len(rows) == len(records)
    with indexed(records) as index, Index(":memory:", SCHEME.with_exact(True)) as other:
        assert clusters_of(rows) == clusters_in(index)
        sql = "SELECT d.key, f.value FROM neardup_document d JOIN neardup_fingerprint f ON f.id = d.fingerprint_id"
        stored = spark.read.parquet(f"{folder}/fingerprints").collect()
        assert {row.key: bytes(row.value) for row in stored} == dict(index.connection.execute(sql))
        sql = "SELECT d.key, b.bucket FROM neardup_document d JOIN neardup_minhash_band b USING (fingerprint_id)"
        assert sorted((row.key, bucket) for row in stored for bucket in row.buckets) == sorted(index.connection.execute(sql))
        assert other.import_fingerprints(tmp_path / "day" / "fingerprints").added == len(records)
        assert clusters_in(other) == clusters_in(index)
        for row in rows:
            if row.cluster is not None and row.key != row.representative:
                texts = dict(records)
                explained = index.explain_match(
                    row.key, row.representative, text_a=texts[row.key], text_b=texts[row.representative]
                )
                assert row.similarity == pytest.approx(explained.jaccard, abs=1e-12)


def test_output_does_not_depend_on_how_the_work_is_cut(spark: Any) -> None:
    """Partitions of the input, of shuffles, adaptive plans and other limits change nothing, not a label, not a similarity."""
    texts = synthetic(600)
    df = frame(spark, enumerate(texts))
    answers = []
    for adaptive, shuffles, partitions in (("false", "5", 7), ("true", "1", 3)):
        spark.conf.set("spark.sql.adaptive.enabled", adaptive)
        spark.conf.set("spark.sql.shuffle.partitions", shuffles)
        try:
            answers.append(
                sorted(near_duplicates(df.repartition(partitions), "id", "body", SCHEME).collect(), key=lambda row: row.key)
            )
        finally:
            spark.conf.set("spark.sql.adaptive.enabled", "true")
            spark.conf.set("spark.sql.shuffle.partitions", OPTIONS["spark.sql.shuffle.partitions"])
    assert answers[0] == answers[1]
    with indexed(enumerate(texts)) as index:
        assert clusters_of(answers[0]) == clusters_in(index)


def test_a_template_of_a_thousand_edits(spark: Any) -> None:
    """A bucket that a thousand share is cut, and still connected as the index connects it; so are edits that meet and do not
    match."""
    rng = random.Random(3)
    base = [f"w{i}" for i in range(50)]
    texts = [edited(base, rng, rng.choice((0, 1, 2, 3))) for _ in range(1000)] + [edited(base, rng, 9) for _ in range(150)]
    rng.shuffle(texts)
    rows = near_duplicates(frame(spark, enumerate(texts)), "id", "body", LOOSE).collect()
    with indexed(enumerate(texts), LOOSE) as index:
        assert clusters_of(rows) == clusters_in(index)


def test_parts_of_a_cut_bucket_that_slices_have_not_connected(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """With slices of three documents and blocks of two, what meets in a bucket is compared all the same; here by signatures."""
    monkeypatch.setattr(limits, "SPARK_EDGES", 10)
    monkeypatch.setattr(limits, "SPARK_GROUP", 3)
    monkeypatch.setattr(limits, "SPARK_BLOCK", 2)
    texts, rules = synthetic(60, 5, words=12), TextRules(shingle=1)
    scheme = MinHash(threshold=0.5, bands=3, rows=1)  # matches of a cut bucket meet in few others
    rows = near_duplicates(frame(spark, enumerate(texts)), "id", "body", scheme, rules, exact=False).collect()
    with Index(":memory:", scheme.with_exact(False), text=rules) as index:
        index.add_many(enumerate(texts))
        assert clusters_of(rows) == clusters_in(index)


# ---- rows that have nothing to compare ---------------------------------------------------------------------------------------


def test_nulls_short_and_equal_texts(spark: Any) -> None:
    """Rows without a text, or without a word, are alone; short texts share no signature; equal ones are one cluster."""
    texts = [None, None, "", "  ", "!!", "a", "b", "a b", "c d", "x y z w", "x y z w"]
    records = list(enumerate(texts, 1))
    rows = near_duplicates(frame(spark, records), "id", "body").collect()
    assert len(rows) == len(records)
    assert clusters_of(rows) == {(10, 11)}
    for rules, stay in ((TextRules(short="drop", shingle=5), set()), (TextRules(min_tokens=3), {10, 11})):
        batch = pa.RecordBatch.from_pydict({"key": [key for key, _ in records], "text": texts})
        (made,) = sketch(MinHash(exact=True), rules, iter([batch]))
        assert {row["key"] for row in made.to_pylist() if row["digest"] is not None and row["buckets"]} == stay


def test_frames_without_rows_or_pairs(spark: Any) -> None:
    """A frame without rows gives one without rows; rows without a text, and a single row, stay."""
    assert near_duplicates(frame(spark, []), "id", "body").collect() == []
    rows = [(1, None), (2, "a b c")]
    assert sorted(map(tuple, deduplicate(frame(spark, rows), "id", "body").collect())) == rows


def test_connected_deduplicate_keeps_one_of_each_cluster_and_all_columns(spark: Any) -> None:
    """The row that stays is the first, the last or the longest, of the earliest day."""
    words = [f"w{i}" for i in range(40)]
    texts = {"a": words, "b": [*words, "more", "words"], "c": words[:-1], "z": ["something", "else"]}
    rows = [*((key, " ".join(text), len(key)) for key, text in texts.items()), ("n", None, 1)]
    df = spark.createDataFrame(rows, "id string, body string, n int")
    kept = deduplicate(df, "id", "body", keep="longest", connected=True)
    assert kept.schema == df.schema
    assert sorted(row.id for row in kept.collect()) == ["b", "n", "z"]
    members = spark.createDataFrame(
        [(1, "b", 4), (0, "c", 5), (0, "d", 7), (0, "e", 7), (0, "f", 3), (1, "z", 9)], "day long, key string, token_count long"
    )
    chosen = members.agg(*(preference(keep).chosen for keep in ("first", "last", "longest"))).first()
    assert tuple(chosen) == ("c", "f", "d")


# ---- a row goes only if it matches one that stays ----------------------------------------------------------------------------


def test_a_row_goes_only_if_it_matches_a_row_that_stays(spark: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In chains the rows stay that stay in an index to which they are added in the order of preference, where batches of three
    rows end within components; duplicates/ names a row that stays and matches."""
    monkeypatch.setattr(limits, "SPARK_BATCH_ROWS", 3)
    texts = dict(enumerate(chained(300, 11)))
    order = sorted(texts, key=lambda key: (-len(texts[key].split()), key))
    df = frame(spark, texts.items())
    found = deduplicate(df, "id", "body", SCHEME, BY_WORD, keep="longest", save=f"file:{tmp_path}/day").collect()
    kept = {row.id for row in found}
    with Index(":memory:", SCHEME.with_exact(True), text=BY_WORD) as index:
        index.add_many(((key, texts[key]) for key in order), only_new=True)
        assert kept == set(index) == by_hand(texts, order, SCHEME)
    rows = spark.read.parquet(f"file:{tmp_path}/day/duplicates").collect()
    assert {row.key for row in rows if row.duplicate_of is not None} == set(texts) - kept
    sets = {key: set(text.split()) for key, text in texts.items()}
    for row in rows:
        other = row.key if row.duplicate_of is None else row.duplicate_of
        assert other in kept
        assert row.similarity == len(sets[row.key] & sets[other]) / len(sets[row.key] | sets[other]) >= SCHEME.threshold


def test_keys_that_are_none(spark: Any) -> None:
    """A null key, a repeated key, and columns that are not there or of another type, are refused by name."""
    from pyspark import errors

    with pytest.raises(ParameterError, match="1 rows have no key"):
        near_duplicates(frame(spark, [(1, "a"), (None, "b")]), "id", "body")
    with pytest.raises(DuplicateKeyError, match=r"1 \(2 times\)"):
        near_duplicates(frame(spark, [(1, "a"), (1, "b"), (2, "c")]), "id", "body")
    df = frame(spark, [(1, "a")])
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"key": 7, "text": "body"}, "7 is no column"),
        ({"key": "id", "text": "id"}, "column of bigint"),
        ({"key": "id", "text": "body", "keep": "any"}, "keep"),
        ({"key": "id", "text": "body", "scheme": MinHash(exact=False)}, "exact=True, but the scheme"),
        ({"key": "id", "text": "body", "rules": TextRules(tokens=lambda text: text.split())}, "has no name"),
    ]
    for arguments, message in wrong:
        with pytest.raises(ParameterError, match=message):
            near_duplicates(df, **arguments)
    with pytest.raises(ParameterError, match="column of double"):
        near_duplicates(spark.createDataFrame([(1.0, "a")], "id double, body string"), "id", "body")
    with pytest.raises(errors.AnalysisException, match="`no`"):
        near_duplicates(df, "no", "body")


def test_columns_of_any_name(spark: Any) -> None:
    """Backticks, dots, and names that the package uses itself are names as others; a name of several columns is refused, unless
    it is neither that of the key nor that of the text. Keys made from content keep one of equal rows, and all without a text."""
    from pyspark import errors

    text = " ".join(f"w{i}" for i in range(40))
    rows = [(1, text, 5, 7), (2, text, 5, 7), (3, f"{text} more", 5, 7), (4, "d e f", 5, 7), (5, None, 5, 7), (6, None, 5, 7)]
    first = min(rows[0], rows[2], key=lambda row: hashlib.sha256(str(row[1]).encode()).digest())
    for names, keyed, stays in (
        (["i`d", "bo.dy", "__neardup_key", "__neardup_key"], True, rows[0]),
        (["a.b`", "`", "__neardup_place", "n"], False, first),
    ):
        df = spark.createDataFrame(rows, "a long, b string, c long, d long").toDF(*names)
        kept = deduplicate(df, names[0] if keyed else None, names[1])
        assert kept.columns == names
        assert sorted(map(tuple, kept.collect())) == [stays, *rows[3:]]
    df = spark.createDataFrame(rows, "id long, body string, n long, m long")
    for names, key in (("id body n ID", "id"), ("id body body n", "id"), ("id body n n", None)):
        with pytest.raises(errors.AnalysisException, match="AMBIGUOUS_REFERENCE"):
            deduplicate(df.toDF(*names.split()), key, "body")


def test_keys_of_a_collation_are_compared_by_their_bytes(spark: Any) -> None:
    """Keys that a collation takes for equal are different keys, as in an index, and the rows keep their collations."""
    rows = [("a", "one two three"), ("A", "one two three"), ("b", "four five six")]
    collated = "id COLLATE UTF8_LCASE AS id", "body COLLATE UNICODE_CI AS body"
    df = spark.createDataFrame(rows, "id string, body string").selectExpr(*collated)
    kept = deduplicate(df, "id", "body")
    assert kept.schema == df.schema
    assert sorted(row.id for row in kept.collect()) == ["A", "b"]


def test_days_that_cannot_be_read(spark: Any, tmp_path: Path) -> None:
    """A folder that is missing, empty, damaged or of another program is named, with the remedy."""
    df = frame(spark, [(1, "a b c")])
    for name in ("empty", "damaged", "foreign"):
        (tmp_path / name / "fingerprints").mkdir(parents=True)
    (tmp_path / "damaged" / "fingerprints" / "part-0.parquet").write_text("nothing of Parquet")
    df.write.mode("append").parquet(f"file:{tmp_path}/foreign/fingerprints")
    for name in ("missing", "empty", "damaged", "foreign"):
        folder = f"file:{tmp_path}/{name}"
        with pytest.raises(ParameterError, match="give a folder that save= of an earlier day wrote") as caught:
            near_duplicates(df, "id", "body", earlier=[folder])
        assert f"earlier={folder!r}: {folder}/fingerprints" in str(caught.value)
        assert "\n" not in str(caught.value)


def test_arguments_of_another_kind(spark: Any, tmp_path: Path) -> None:
    """What is no folder, no frame, and a frame that never ends, are refused with the remedy."""
    df = frame(spark, [(1, "a b c")])
    stream = spark.readStream.format("rate").load().selectExpr("value AS id", "CAST(value AS string) AS body")
    for run in (deduplicate, near_duplicates):
        for asked, arguments, message in (
            (df, {"earlier": [tmp_path]}, "earlier=.*give a list of folders, each a str"),
            (df, {"earlier": str(tmp_path)}, "earlier=.*give a list of folders, each a str"),
            (df, {"save": tmp_path}, "save=.*give a folder as a str"),
            (df, {"work_dir": tmp_path}, "work_dir=.*give a folder as a str"),
            ([(1, "a")], {}, "give a DataFrame of Spark"),
            (stream, {}, "foreachBatch"),
        ):
            with pytest.raises(ParameterError, match=message):
                run(asked, "id", "body", **arguments)  # type: ignore[operator]


# ---- executors that lack what they need --------------------------------------------------------------------------------------


@pytest.fixture
def bare_python(tmp_path: Path) -> Path:
    """A Python without any package."""
    folder = tmp_path / "bare"
    venv.create(folder, symlinks=True)
    return folder / "bin" / "python"


def refused(spark: Any, monkeypatch: pytest.MonkeyPatch, python: Path) -> str:
    """The error of a run whose executors have another Python; nothing was written."""
    folder = python.parent / "tables"
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(python))
    with pytest.raises(ParameterError) as caught:
        near_duplicates(frame(spark, [(1, "a")]), "id", "body", work_dir=f"file:{folder}")
    assert not folder.exists()
    return str(caught.value)


def test_executors_that_lack_a_package_are_refused(spark: Any, monkeypatch: pytest.MonkeyPatch, bare_python: Path) -> None:
    """The error names the Python of the executors, what it has not or has in another version, and two remedies."""
    message = refused(spark, monkeypatch, bare_python)
    assert f"{bare_python} (" in message
    assert "cannot import neardup_db (ModuleNotFoundError: No module named 'neardup_db')" in message
    assert f"pip install 'neardup-db[spark]=={__version__}'" in message and "PYSPARK_PYTHON" in message
    (packages,) = (bare_python.parent.parent / "lib").glob("python3.*/site-packages")
    package = packages / "neardup_db.py"
    package.write_text("__version__ = '0.0.10'")  # of another length: Python may have compiled the file in the same second
    assert f"has neardup_db 0.0.10, the driver {__version__}" in refused(spark, monkeypatch, bare_python)
    package.write_text(f"__version__ = {__version__!r}")
    assert "cannot import pyarrow" in refused(spark, monkeypatch, bare_python)


def test_executors_without_a_python_are_refused(spark: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What Spark says of a Python that cannot start is said before any work, with the remedy."""
    message = refused(spark, monkeypatch, tmp_path / "bin" / "no-such-python")
    assert "no-such-python" in message and "PYSPARK_PYTHON" in message


# ---- day after day -----------------------------------------------------------------------------------------------------------


def test_a_new_day_joins_the_days_before(spark: Any, tmp_path: Path) -> None:
    """Three days, saved by either function, give the clusters of all at once, with representatives of the earliest day;
    and the rows that an index keeps to which they are added in turn: a new row stays though it matches a row that went."""
    records = list(enumerate(chained(300, 12)))
    parts = [records[100:200], records[200:], records[:100]]
    folders = [f"file:{tmp_path}/day{i}" for i in range(3)]

    def run(function: Any, day: int, keep: str, **saved: str) -> list[Any]:
        df = frame(spark, parts[day])
        return list(function(df, "id", "body", SCHEME, BY_WORD, keep=keep, earlier=folders[:day], **saved).collect())

    assert len(run(near_duplicates, 0, "last", save=folders[0])) == 100
    kept = [set[Any](), {row.id for row in run(deduplicate, 1, "last", save=folders[1])}]
    kept.append({row.id for row in run(deduplicate, 2, "last")})
    with Index(":memory:", SCHEME.with_exact(True), text=BY_WORD) as index:
        for day, part in enumerate(parts):
            before = set(index)
            index.add_many(sorted(part, reverse=True), only_new=True)
            assert day == 0 or kept[day] == set(index) - before
    with indexed(records, rules=BY_WORD) as index:
        expected = {key: cluster for cluster in clusters_in(index) for key in cluster}
    last = {row.key: row for row in run(near_duplicates, 2, "first")}
    day_of = {key: day for day, part in enumerate(parts) for key, _ in part}
    assert sorted(last) == list(range(100))
    for key, row in last.items():
        cluster = expected.get(key)
        assert row.cluster == (None if cluster is None else min(cluster))
        if cluster is not None:
            assert row.representative == min(cluster, key=lambda other: (day_of[other], other))
    with pytest.raises(ParameterError, match="exists: give save="):
        run(near_duplicates, 0, "first", save=folders[0])
    for row, scheme, kind, error, message in (
        (parts[0][0], SCHEME, "long", DuplicateKeyError, "keys are repeated: 100 "),
        ((9000, "a"), MinHash(threshold=0.5), "long", MismatchError, "instead of"),
        (("k", "a"), SCHEME, "string", ParameterError, "one type"),
    ):
        with pytest.raises(error, match=message):
            near_duplicates(frame(spark, [row], kind), "id", "body", scheme, BY_WORD, earlier=folders[:1])


def test_an_index_and_spark_read_each_other(spark: Any, tmp_path: Path) -> None:
    """What an index exports is a day before, when its matches, none, stand beside it."""
    text = " ".join(f"w{i}" for i in range(30))
    day = tmp_path / "day"
    (day / "fingerprints").mkdir(parents=True)
    with indexed([("old", text)]) as index:
        index.export_fingerprints(day / "fingerprints" / "part.parquet")
    spark.createDataFrame([], "key_a string, key_b string, similarity double").write.parquet(f"file:{day}/matches")
    rows = near_duplicates(frame(spark, [("new", text)], "string"), "id", "body", SCHEME, earlier=[f"file:{day}"]).collect()
    assert [(row.key, row.cluster, row.representative, row.similarity) for row in rows] == [("new", "new", "old", 1.0)]


# ---- components -----------------------------------------------------------------------------------------------------------


def tables_of(spark: Any, folder: Path) -> Tables:
    return Tables(spark, f"file:{folder}")


def labels_by_union(edges: Iterable[tuple[int, int]]) -> dict[int, int]:
    """The smallest member of the component of each vertex that has an edge to another one."""
    return {vertex: min(part) for part in components_of(edges) for vertex in part}


@pytest.mark.parametrize("few", [0, 1 << 20])
def test_components_are_those_of_union_and_find(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: int) -> None:
    """Random graphs, side by side in one: each vertex hangs on the smallest of its component, and no other edge is left, whether
    all executors make the rounds or one task."""
    rng = random.Random(few)
    edges = [(100 * graph + rng.randrange(15), 100 * graph + rng.randrange(15)) for graph in range(40) for _ in range(graph % 26)]
    edges += [(9000 + i, 9001 + i) for i in range(20)] + [(9500, 9500 + i) for i in range(40)]  # a path, a star
    monkeypatch.setattr(limits, "SPARK_EDGES", few)
    found = components(tables_of(spark, tmp_path), spark.createDataFrame(edges, "a long, b long"), "random", 100)
    expected = {vertex: label for vertex, label in labels_by_union(edges).items() if vertex != label}
    assert sorted((row.larger, row.smaller) for row in found.collect()) == sorted(expected.items())


def test_strings_of_few_edges_are_ordered_as_spark_does(spark: Any, tmp_path: Path) -> None:
    """The smallest key is the one whose bytes are, of any letters."""
    keys = ["a", "Z", "\u00e9", "\U0001f600", "\uff5e"]
    pairs = spark.createDataFrame([(key, "\uff5e") for key in keys], "a string, b string")
    found = components(tables_of(spark, tmp_path), pairs, "letters", 100)
    assert sorted((row.larger, row.smaller) for row in found.collect()) == sorted((key, "Z") for key in keys if key != "Z")


def test_a_cap_that_is_reached_is_an_error(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path takes more rounds than one: no half-made clusters come back."""
    monkeypatch.setattr(limits, "SPARK_EDGES", 0)
    path = spark.createDataFrame([(i, i + 1) for i in range(64)], "a long, b long")
    with pytest.raises(NearDupError, match="after 1 rounds"):
        components(tables_of(spark, tmp_path), path, "path", 1)


def test_a_table_that_lost_a_file_is_an_error(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is gone when a step is read again, or between two rounds, ends the run."""
    monkeypatch.setattr(limits, "SPARK_EDGES", 0)
    path = spark.createDataFrame([(i, i + 1) for i in range(64)], "a long, b long")

    def lose(folder: str) -> None:
        parts = sorted(Path(folder.removeprefix("file:")).glob("part-*"), key=os.path.getsize)
        parts[-1].unlink()

    read, shape_of = tables.read_parquet, connected.shape_of

    def lossy(session: Any, folder: str, schema: Any) -> Any:
        lose(folder)
        return read(session, folder, schema)

    with monkeypatch.context() as patch:
        patch.setattr(tables, "read_parquet", lossy)
        with pytest.raises(NearDupError, match="rows were written"):
            components(tables_of(spark, tmp_path), path, "path", 100)

    def forgetful(edges: Any) -> Any:
        found = shape_of(edges)
        lose(os.path.dirname(edges.inputFiles()[0]).replace("file://", "file:"))
        return found

    spark.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    try:
        with monkeypatch.context() as patch:
            patch.setattr(connected, "shape_of", forgetful)
            with pytest.raises(Exception, match="(?i)not exist|vertices|FILE_NOT_EXIST"):
                components(tables_of(spark, tmp_path), path, "path", 100)
    finally:
        spark.conf.unset("spark.sql.files.ignoreMissingFiles")
    shutil.rmtree(tmp_path, ignore_errors=True)
