"""Fingerprints out of an index and into another one, as Parquet."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from neardup_db import (
    BinaryCode,
    BottomK,
    FormatError,
    Index,
    MinHash,
    MismatchError,
    ParameterError,
    Passages,
    SimHash,
    TextRules,
    fingerprint_files,
)
from neardup_db.cli import main
from neardup_db.store.transfer.importing import FingerprintFiles

RULES = TextRules(shingle=1)
TEXTS = ["a b c d e", "a b c d f", "a b c d e", "", "x y z", "x y z w", "q r s t u v"]

SCHEMES = {
    "packed": MinHash(threshold=0.5, exact=True),
    "signatures": MinHash(threshold=0.5),
    "bottom-k": BottomK(threshold=0.5),
    "simhash": SimHash(max_distance=3),
    "passages": Passages(shortest=3),
}


def rows(index: Index, sql: str) -> list[Any]:
    return index.connection.execute(sql).fetchall()


@pytest.mark.parametrize("limits", ["usual", "small"])
@pytest.mark.parametrize("name", SCHEMES)
def test_what_is_exported_is_imported_to_the_bit(name: str, limits: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Fingerprints, rows of the candidate table, tokens, groups and clusters are those of the index that was exported."""
    if limits == "small":
        request.getfixturevalue("small_limits")
    path = tmp_path / "all.parquet"
    with Index(":memory:", SCHEMES[name], text=RULES) as index, Index(":memory:", SCHEMES[name], text=RULES) as other:
        index.add_many({"key": i, "text": text, "group": "g" if i > 5 else None} for i, text in enumerate(TEXTS))
        assert index.export_fingerprints(path) == len(TEXTS)
        assert other.import_fingerprints(path).added == len(TEXTS)
        assert other.clusters() == index.clusters()
        assert other.check().ok
        table = f"neardup_{index.scheme.table}"
        names = [name for name, *_ in rows(index, f"SELECT name FROM pragma_table_info('{table}')") if name != "crowd"]
        for sql in ("SELECT id, group_id, value, value_hash FROM neardup_fingerprint", f"SELECT {', '.join(names)} FROM {table}"):
            assert sorted(rows(other, sql)) == sorted(rows(index, sql))
        documents = "SELECT key, group_id, fingerprint_id, token_count FROM neardup_document ORDER BY id"
        assert rows(other, documents) == rows(index, documents)
        assert other.query("a b c d e") == index.query("a b c d e")


def test_the_columns_of_a_file(tmp_path: Path) -> None:
    """Buckets are those that the band table has, a text without shingles has null, and the schema is what Spark reads too."""
    path = str(tmp_path / "all.parquet")
    with Index(":memory:", MinHash(threshold=0.5, exact=True), text=RULES) as index:
        index.add_many((f"k{i}", text) for i, text in enumerate(TEXTS))
        index.export_fingerprints(path)
        table = pq.read_table(path)
        assert table.column_names == ["key", "value", "token_count", "buckets", "digest"]
        found = table.to_pydict()
        values = dict(
            rows(
                index, "SELECT d.key, f.value FROM neardup_document d LEFT JOIN neardup_fingerprint f ON f.id = d.fingerprint_id"
            )
        )
        assert dict(zip(found["key"], found["value"], strict=True)) == values
        sql = "SELECT b.bucket FROM neardup_document d JOIN neardup_minhash_band b USING (fingerprint_id) WHERE d.key = ?"
        for key, buckets in zip(found["key"], found["buckets"], strict=True):
            stored = {bucket for (bucket,) in index.connection.execute(sql, (key,))}
            assert (None if buckets is None else set(buckets)) == (stored if values[key] is not None else set())
        assert found["digest"][0] == found["digest"][2] != found["digest"][1]
        spark = json.loads(table.schema.metadata[b"org.apache.spark.sql.parquet.row.metadata"])
        assert [field["name"] for field in spark["fields"]] == table.column_names


KINDS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "table": pa.table,
    "batch": pa.RecordBatch.from_pydict,
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "views": lambda columns: pa.table({name: pa.array(column).cast(pa.string_view()) for name, column in columns.items()}),
    "dictionaries": lambda columns: pa.table({name: pa.array(column).dictionary_encode() for name, column in columns.items()}),
}


@pytest.mark.parametrize("name", SCHEMES)
def test_fingerprints_of_a_table_are_those_that_an_index_exports(name: str, tmp_path: Path) -> None:
    """The table made without an index is the exported one, column by column and in its settings."""
    with Index(":memory:", SCHEMES[name], text=RULES) as index:
        index.add_many({"key": i, "text": text, "group": "g" if i > 5 else None} for i, text in enumerate(TEXTS))
        index.export_fingerprints(tmp_path / "all.parquet")
    groups = ["g" if i > 5 else None for i in range(len(TEXTS))]
    texts = pa.table({"no": range(len(TEXTS)), "body": TEXTS, "lang": pa.array(groups, pa.string())})
    made = fingerprint_files.fingerprint_table(texts, "no", "body", SCHEMES[name], RULES, group="lang")
    exported = pq.read_table(tmp_path / "all.parquet")
    assert made.equals(exported)
    assert made.schema.metadata == exported.schema.metadata
    made = made.replace_schema_metadata(None)
    assert made.cast(fingerprint_files.fingerprint_schema(SCHEMES[name], RULES, key="int64", group="string")).equals(exported)


@pytest.mark.parametrize("kind", KINDS)
def test_fingerprints_of_every_kind_of_table_are_imported(kind: str, tmp_path: Path) -> None:
    """Tables of pyarrow, pandas and polars, in any layout of strings, give the documents that `add` makes; a null text is one
    without a fingerprint."""
    table = KINDS[kind]({"id": ["a", "b", "c"], "body": ["a b c d e", None, "a b c d e f"]})
    pq.write_table(fingerprint_files.fingerprint_table(table, "id", "body", SCHEMES["packed"], RULES), tmp_path / "part.parquet")
    with Index(":memory:", SCHEMES["packed"], text=RULES) as index:
        assert index.import_fingerprints(tmp_path).added == 3
        assert [match.key for match in index.query("a b c d e")] == ["a", "c"]
        assert rows(index, "SELECT key, token_count FROM neardup_document WHERE fingerprint_id IS NULL") == [("b", None)]


@pytest.mark.parametrize(
    ("table", "scheme", "message"),
    [
        ({"id": ["a", None], "body": ["x", "y"]}, MinHash(), "key='id': row 1 is null"),
        ({"key": ["a"], "body": ["x"]}, MinHash(), "key='id' is no column of table, which has 'key', 'body'"),
        ({"id": ["a"], "text": ["x"]}, MinHash(), "text='body' is no column of table"),
        ({"id": ["a"], "body": [1]}, MinHash(), "text='body' is a column of int64"),
        ({"id": [1.5], "body": ["x"]}, MinHash(), "key='id' is a column of double"),
        ({"id": np.array([2**63], np.uint64), "body": ["x"]}, MinHash(), "integers of 64 bits with a sign"),
        ({"id": ["a"], "body": ["x"]}, BinaryCode(), "give one that takes texts"),
    ],
)
def test_tables_without_fingerprints_are_refused(table: dict[str, Any], scheme: Any, message: str) -> None:
    """A wrong key, column or scheme is an error that names it."""
    with pytest.raises(ParameterError, match=message):
        fingerprint_files.fingerprint_table(pa.table(table), "id", "body", scheme)


@pytest.mark.parametrize("empty", [pa.table({"id": [], "body": []}), pd.DataFrame({"id": [], "body": []}, dtype=object)])
def test_a_table_without_rows_has_no_fingerprints(empty: Any, tmp_path: Path) -> None:
    """A part of a larger table may be empty, and does not know the types of its columns then: its file is read too."""
    pq.write_table(fingerprint_files.fingerprint_table(empty, "id", "body", MinHash(), RULES), tmp_path / "part.parquet")
    with Index(":memory:", MinHash(), text=RULES) as index:
        assert index.import_fingerprints(tmp_path).added == 0


def test_what_is_no_table_has_no_fingerprints() -> None:
    """A list of texts is refused with what to give."""
    with pytest.raises(ParameterError, match="give a table of Arrow"):
        fingerprint_files.fingerprint_table(5, "id", "body", MinHash())


def test_other_settings_are_refused_before_anything_is_stored(tmp_path: Path) -> None:
    """Text rules, the scheme and parameters that decide a fingerprint have to be the same; bands and threshold need not."""
    path = tmp_path / "all.parquet"
    with Index(":memory:", MinHash(threshold=0.8), text=RULES) as index:
        index.add("a", "one two three")
        index.export_fingerprints(path)
    refused = {
        "shingle=1 instead of 3": (MinHash(), None),
        "num_perm=256": (MinHash(num_perm=256), RULES),
        "seed=7": (MinHash(seed=7), RULES),
        "BottomK": (BottomK(), RULES),
        "exact=True": (MinHash(exact=True), RULES),
    }
    for message, (scheme, rules) in refused.items():
        with Index(":memory:", scheme, text=rules) as other:
            with pytest.raises(MismatchError, match=message):
                other.import_fingerprints(path)
            assert len(other) == 0
    with Index(":memory:", MinHash(threshold=0.6, bands=20, rows=4), text=RULES) as other:
        assert other.import_fingerprints([path]).added == 1
        assert other.query("one two three")


def test_files_that_are_none_of_ours(tmp_path: Path) -> None:
    """Other Parquet, other files, empty folders and damaged values are refused by name."""
    with Index(":memory:", MinHash(), text=RULES) as index:
        plain, folder = tmp_path / "plain.parquet", tmp_path / "folder"
        folder.mkdir()
        pq.write_table(pa.table({"key": ["a"], "value": [b"1"]}), plain)
        text = tmp_path / "text.parquet"
        text.write_text("no Parquet")
        for path, error in ((plain, FormatError), (text, FormatError), (folder, ParameterError)):
            with pytest.raises(error):
                index.import_fingerprints(path)
        with pytest.raises(ParameterError, match="none' is no file: give the path"):
            index.import_fingerprints(tmp_path / "none")
        with pytest.raises(ParameterError, match="give the path"):
            index.import_fingerprints([])
        schema = fingerprint_files.schema("string", None, fingerprint_files.settings_of(index.scheme, index.text_rules))
        empty: dict[str, Any] = {"token_count": [1, 1], "buckets": [[], []], "digest": [b"", b""]}
        damaged = pa.Table.from_pydict({"key": ["a", "b"], "value": [np.zeros(128, "<u2").tobytes(), b"short"], **empty}, schema)
        pq.write_table(damaged, folder / "part-0.parquet")
        with pytest.raises(ParameterError, match="record 1: 5 bytes are no fingerprint"):
            index.import_fingerprints(folder)
        assert len(index) == 0
        (problem,) = index.import_fingerprints(folder, on_error="skip").problems
        assert (problem.record, problem.key) == (1, "b")
        report = index.import_fingerprints(folder, on_error="skip", if_exists="ignore")
        assert (report.ignored, report.skipped) == (1, 1)
        newer = schema.with_metadata(
            {key: value.replace(b'\\"format\\": 1', b'\\"format\\": 2') for key, value in schema.metadata.items()}
        )
        pq.write_table(damaged.cast(newer), folder / "part-0.parquet")
        with pytest.raises(FormatError, match="format 2"):
            index.import_fingerprints(folder)


def test_the_command_line_imports_and_exports(tmp_path: Path) -> None:
    """`neardup import` makes an index with the settings of the files; `neardup export` writes what it takes."""
    first, second, out = tmp_path / "first.db", tmp_path / "second.db", tmp_path / "all.parquet"
    with Index(first, MinHash(threshold=0.5, exact=True), text=RULES) as index:
        index.add_many((f"k{i}", text) for i, text in enumerate(TEXTS))
        clusters = index.clusters()
    run = CliRunner().invoke
    assert run(main, ["export", str(first), str(out), "--json"], standalone_mode=False).output == '{"exported": 7}\n'
    assert "7 documents added" in run(main, ["import", str(second), str(out)], standalone_mode=False).output
    with Index(second) as index:
        assert index.clusters() == clusters
        assert index.text_rules == RULES
    again = run(main, ["import", str(second), str(out), "--if-exists", "ignore", "--json"], standalone_mode=False)
    assert json.loads(again.output)["ignored"] == 7
    with Index(tmp_path / "other.db", MinHash()):
        pass
    assert isinstance(run(main, ["import", str(tmp_path / "other.db"), str(out)], standalone_mode=False).exception, MismatchError)


def test_what_cannot_be_exported(tmp_path: Path) -> None:
    """Keys of two types, a file that exists, an import into an index that stores texts: refused, and nothing is left behind."""
    path = tmp_path / "all.parquet"
    with Index(":memory:", MinHash(), text=RULES) as index:
        index.add("a", "one two")
        index.add(1, "one two")
        with pytest.raises(ParameterError, match="one type"):
            index.export_fingerprints(path)
        index.delete("a")
        index.export_fingerprints(path)
        with pytest.raises(ParameterError, match="exists"):
            index.export_fingerprints(path)
    with Index(":memory:", MinHash(), text=RULES, store_text=True) as index:
        with pytest.raises(ParameterError, match="stores its texts"):
            index.import_fingerprints(path)
        assert len(index) == 0
    assert [one.name for one in tmp_path.iterdir()] == ["all.parquet"]


def test_codes_travel_too(tmp_path: Path) -> None:
    """Codes of the application are fingerprints as others are."""
    path = tmp_path / "codes.parquet"
    with (
        Index(":memory:", BinaryCode(bits=64, max_distance=3)) as index,
        Index(":memory:", BinaryCode(bits=64, max_distance=3)) as other,
    ):
        index.add_codes([b"a", b"b"], [5, 7])
        index.export_fingerprints(path)
        other.import_fingerprints(path)
        assert other.query_code(5) == index.query_code(5)


def test_a_first_import_that_fails_leaves_no_file(tmp_path: Path) -> None:
    """Where there was no index there is none."""
    path = tmp_path / "some.parquet"
    with Index(":memory:", MinHash(), text=RULES) as index:
        index.add("a", "one two three")
        index.export_fingerprints(path)
    arguments = ["import", str(tmp_path / "new.db"), str(path), str(path)]
    assert CliRunner().invoke(main, arguments).exit_code == 2
    assert [left.name for left in tmp_path.iterdir()] == ["some.parquet"]


def test_a_rebuild_in_between_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fingerprints of other text rules are refused inside the transaction too."""
    path = tmp_path / "some.parquet"
    with Index(":memory:", MinHash(), text=RULES) as index:
        index.add("a", "one two three")
        index.export_fingerprints(path)
    records = FingerprintFiles.records
    Index(tmp_path / "new.db", MinHash(), text=RULES).close()
    with Index(tmp_path / "new.db") as index, Index(tmp_path / "new.db") as other:

        def rebuilt(files: FingerprintFiles) -> Any:
            other.rebuild(text=TextRules.chars())
            return records(files)

        monkeypatch.setattr(FingerprintFiles, "records", rebuilt)
        with pytest.raises(MismatchError):
            index.import_fingerprints(path)
        assert len(index) == 0


def test_a_damaged_file_is_a_format_error(tmp_path: Path) -> None:
    """Also where the damage is met while rows are read; nothing is stored."""
    path = tmp_path / "some.parquet"
    with Index(":memory:", MinHash(), text=RULES) as index:
        index.add_many((number, f"one two three {number}") for number in range(500))
        index.export_fingerprints(path)
        data = bytearray(path.read_bytes())
        data[200:3000] = bytes(2800)
        path.write_bytes(data)
    with Index(":memory:", MinHash(), text=RULES) as index:
        with pytest.raises(FormatError, match="some.parquet"):
            index.import_fingerprints(path)
        assert len(index) == 0


def test_no_damaged_fingerprint_comes_in(tmp_path: Path, more_rounds: bool) -> None:
    """One bit of the data of any column that is read is another: the file is refused, and nothing is stored; nor are fewer
    documents than the file says it has."""
    path = tmp_path / "some.parquet"
    with Index(":memory:", MinHash(num_perm=16, bands=4, rows=4), text=RULES) as index:
        index.add_many({"key": f"k{number}", "text": f"one {number % 7} {number}", "group": number % 3} for number in range(60))
        index.export_fingerprints(path)
        whole = path.read_bytes()
        metadata = pq.ParquetFile(path).metadata.row_group(0)
        columns = {metadata.column(i).path_in_schema: metadata.column(i) for i in range(metadata.num_columns)}
        other = Index(":memory:", index.scheme, text=RULES)
        for name in ("key", "value", "token_count", "group"):
            start = columns[name].dictionary_page_offset or columns[name].data_page_offset
            for at in range(start, start + columns[name].total_compressed_size, 5 if more_rounds else 13):
                path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :])
                try:
                    other.import_fingerprints(path)
                    assert rows(other, DOCUMENTS) == rows(index, DOCUMENTS), at
                    other.delete_many([*other])
                except FormatError:
                    assert len(other) == 0


DOCUMENTS = """SELECT key, value, token_count, name FROM neardup_document AS d LEFT JOIN neardup_fingerprint AS f
ON f.id = fingerprint_id LEFT JOIN neardup_group AS g ON g.id = d.group_id ORDER BY d.id"""


def test_columns_and_settings_that_no_writer_of_ours_makes(tmp_path: Path) -> None:
    """Two columns of one name, strings that are no Unicode, settings nested without end, paths that are none."""
    path = tmp_path / "some.parquet"
    with Index(":memory:", MinHash(), text=RULES) as index:
        index.add_many((str(number), f"one two three {number}") for number in range(5))
        index.export_fingerprints(path)
        table = pq.read_table(path)
        names = table.column_names
        twice = [pa.table([*table.columns, table[name]], names=[*names, name]) for name in ("key", "value", "token_count")]
        bytes_of = table["key"].cast(pa.binary()).combine_chunks().buffers()
        strange = pa.StringArray.from_buffers(5, bytes_of[1], pa.py_buffer(b"\xff\xfe\xfd\xfc\xfb"))
        wrong = [one.replace_schema_metadata(table.schema.metadata) for one in twice]
        wrong.append(table.set_column(0, table.schema.field("key"), strange))
        name = b"org.apache.spark.sql.parquet.row.metadata"
        value = {"name": "value", "metadata": {fingerprint_files.SETTINGS: "[" * 100_000}}
        wrong += [table.replace_schema_metadata({name: text}) for text in (b"[" * 100_000, json.dumps({"fields": [value]}))]
        for one in wrong:
            pq.write_table(one, path)
            with Index(":memory:", MinHash(), text=RULES) as other:
                with pytest.raises(FormatError, match="some.parquet"):
                    other.import_fingerprints(path)
                assert len(other) == 0
        with pytest.raises(ParameterError, match="paths has 5"):
            index.import_fingerprints([5])


def test_expired_documents_decide_no_type(tmp_path: Path) -> None:
    """The keys of visible documents are of one type, whatever was there before."""
    with Index(":memory:", MinHash(), text=RULES) as index:
        index.add(7, "one two three", expires_at=1_000_000_000.5, group=5)
        index.add("s", "four five six")
        assert index.export_fingerprints(tmp_path / "some.parquet") == 1
