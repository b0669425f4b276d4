"""`neardup dedup` and `neardup add` of Parquet and Arrow IPC: columns stay as they are, and rows as of other formats."""

from __future__ import annotations

import decimal
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import Result
from commands import run
from test_dedup import texts

from neardup_db import Index, MinHash
from neardup_db.cli.inputs.files import FileError, Inputs, NamedFile
from neardup_db.cli.inputs.source import Marks, ReadOptions
from neardup_db.cli.inputs.tables import TableSource

FORMATS = {"parquet": ".parquet", "file": ".arrow", "stream": ".arrows"}
"""The formats of tables, by the end of a file's name."""

ONE, NEARLY = "the quick brown fox jumps over the lazy dog at noon", "the quick brown fox jumps over the lazy dog at noon today"
OTHER, THIRD = "a text about something else that has words enough", "one more text that is like none of the others here"


def dedup(*arguments: object, data: bytes | None = None) -> Result:
    result = run("dedup", *arguments, stdin=data)
    assert result.exit_code == 0, result.output
    return result


def refused(*arguments: object, data: bytes | None = None) -> str:
    result = run("dedup", *arguments, stdin=data)
    assert result.exit_code == 2
    return " ".join(result.output.split())


def write(path: Path, table: pa.Table, rows: int = 3, **options: Any) -> Path:
    """Writes a table by the end of the name, `rows` in a row group or batch."""
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=rows, **options)
        return path
    new = pa.ipc.new_stream if path.suffix == ".arrows" else pa.ipc.new_file
    with new(str(path), table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        for batch in table.to_batches(max_chunksize=rows):
            writer.write_batch(batch)
    return path


def read(path: Path | bytes) -> pa.Table:
    """A table whose schema has all its metadata."""
    data = path if isinstance(path, bytes) else path.read_bytes()
    if data.startswith(b"PAR1"):
        file = pq.ParquetFile(pa.BufferReader(data))  # at once it would not read dictionaries inside of lists
        batches = [batch for i in range(file.num_row_groups) for batch in file.iter_batches(1 << 20, row_groups=[i])]
        return pa.Table.from_batches(batches, file.schema_arrow)
    return (pa.ipc.open_file if data.startswith(b"ARROW1") else pa.ipc.open_stream)(data).read_all()


def stories(made: Sequence[str | None]) -> pa.Table:
    return pa.table({"id": [f"k{i}" for i in range(len(made))], "text": pa.array(made, pa.string()), "n": range(len(made))})


def source(*paths: Path, **options: Any) -> TableSource:
    kind = "parquet" if paths[0].suffix == ".parquet" else "arrow"
    files = [NamedFile(path, str(path), Path(path.name), path, path.name) for path in paths]
    return TableSource(Inputs(str(paths[0]), kind, files), ReadOptions(**{"other_fields": (), "typed_ids": True, **options}))


def shown(column: pa.ChunkedArray) -> list[str]:
    """The values, so that nan is nan and -0.0 is not 0.0."""
    column.validate(full=True)
    return [repr(value) for value in column]


def assert_rows(new: pa.Table, old: pa.Table, kept: Sequence[bool]) -> None:
    """The kept rows of a table are the other one, and the schemas are the same to the metadata of a field."""
    assert new.schema.equals(old.schema, check_metadata=True)
    for one, other in zip(new.columns, old.columns, strict=True):
        assert shown(one) == [value for value, stays in zip(shown(other), kept, strict=True) if stays]


# ---- every type of column ----------------------------------------------------------------------------------------------------

KEPT = [True, False, True, True, True, False]
INSIDE = [[1, None], [], None, [2], [3], [4]]
COLUMNS = [
    pa.array([0.0, -0.0, float("nan"), None, 1.5, 2.5], pa.float32()),
    pa.array([decimal.Decimal("1.50"), None, *map(decimal.Decimal, "2345")], pa.decimal128(30, 2)),
    pa.array([1, 2, None, 4, 5, 6], pa.timestamp("ns", "Europe/Paris")),
    pa.array([b"\xff", b"", None, b"a", b"b", b"c"], pa.large_binary()),
    *(
        pa.array(["a", "long enough to be outside of a view", None, "", "b", "c"], kind)
        for kind in (pa.string(), pa.string_view())
    ),
    pa.array(["a", "b", None, "a", "b", "c"]).dictionary_encode(),
    *(pa.array(INSIDE, kind) for kind in (pa.list_(pa.int8()), pa.large_list(pa.int64()))),
    pa.array([{"a": [1], "b": "x"}, None, {"a": None, "b": "y"}, *[{"a": [], "b": None}] * 3]),
    pa.array([[("k", 1)], None, [], *[[("l", None)]] * 3], pa.map_(pa.string(), pa.int32())),
    pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes(16), None, *[b"x" * 16] * 4], pa.binary(16))),
    pa.nulls(6),
]
"""A column of each kind of type."""


@pytest.mark.parametrize("name", FORMATS)
def test_columns_of_every_type_stay_as_they_are(tmp_path: Path, name: str) -> None:
    """The rows that stay have the values, types, metadata and nullability of the input."""
    fields = [pa.field("text", pa.string()), pa.field("id", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "7"})]
    fields += [pa.field(f"c{i}", column.type, metadata={"of": "c\u00e9"}) for i, column in enumerate(COLUMNS)]
    made = [pa.array([ONE, ONE, None, OTHER, "!!!", ONE]), pa.array(range(6)), *COLUMNS]
    table = pa.Table.from_arrays(made, schema=pa.schema(fields, metadata={"who": "me", "pandas": "{}"}))
    for rows in (1, 4, 6):
        path, out = write(tmp_path / f"in{FORMATS[name]}", table, rows), tmp_path / f"out{FORMATS[name]}"
        dedup(path, "-o", out, "--force")
        assert_rows(read(out), read(path), KEPT)


@pytest.mark.parametrize("name", ["file", "stream"])
def test_columns_that_pyarrow_cannot_choose_from_are_named(tmp_path: Path, name: str) -> None:
    """A column whose rows pyarrow does not filter is an error with the remedy, and nothing is written."""
    views = pa.array([["a"], ["b"], ["c"]], pa.list_(pa.string_view()))
    path, out = write(tmp_path / f"in{FORMATS[name]}", pa.table({"text": [ONE, ONE, OTHER], "c": views})), tmp_path / "out"
    assert "cast the column, or leave it out" in refused(path, "-o", out) and not out.exists()


# ---- the rows ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("cut", "keep"), [("usual", "first"), ("tiny", "longest")])
@pytest.mark.parametrize("name", FORMATS)
def test_the_same_rows_stay_as_of_json_lines(
    tmp_path: Path, name: str, cut: str, keep: str, request: pytest.FixtureRequest
) -> None:
    """Rows, pairs, clusters and counts are those of the same records as JSON lines, in one file or several, and cut anywhere."""
    if cut == "tiny":
        request.getfixturevalue("small_limits")
    made = texts(40)
    lines = tmp_path / "in.jsonl"
    lines.write_text("".join(json.dumps({"id": f"k{i}", "text": text}) + "\n" for i, text in enumerate(made)), "utf-8")
    table, end = stories(made), FORMATS[name]
    one, shards = write(tmp_path / f"in{end}", table, 7), tmp_path / "shards"
    shards.mkdir()
    for i, (start, count) in enumerate([(0, 15), (15, 0), (15, 25)]):
        write(shards / f"{i}{end}", table.slice(start, count), 7)
    told = {}
    for path, ending in ((lines, ".jsonl"), (one, end), (shards, end)):
        out, pairs, clusters = (tmp_path / f"{path.name}-{what}" for what in (f"out{ending}", "pairs.jsonl", "clusters.jsonl"))
        summary = json.loads(dedup(path, "-o", out, "--pairs", pairs, "--clusters", clusters, "--keep", keep, "--json").stdout)
        rows = [json.loads(line) for line in out.read_text("utf-8").splitlines()] if path == lines else read(out).to_pylist()
        named = [[json.loads(line) for line in file.read_text().splitlines()] for file in (pairs, clusters)]
        if path == shards:  # the numbers of rows are those in their file
            named = [[{k: v for k, v in row.items() if "line" not in k} for row in each] for each in named]
        counts = {name: summary[name] for name in ("records", "kept", "duplicates", "empty", "clusters", "largest_cluster")}
        told[path] = [row["id"] for row in rows], [row["text"] for row in rows], named, counts
    assert told[one] == told[lines] and len(told[lines][0]) < 40
    assert (*told[shards][:2], told[shards][3]) == (*told[lines][:2], told[lines][3])
    for one_by_one, whole in zip(told[shards][2], told[lines][2], strict=True):
        assert one_by_one == [{k: v for k, v in row.items() if "line" not in k} for row in whole]


@pytest.mark.parametrize("name", FORMATS)
def test_texts_of_every_kind_are_read(tmp_path: Path, name: str) -> None:
    """Texts are strings of every kind, and dictionaries of them; a null is a record without a word."""
    strings, out = pa.array([ONE, None, ONE, OTHER, ""]), tmp_path / f"out{FORMATS[name]}"
    for kind in (pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string()), pa.json_()):
        storage = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
        column = strings.dictionary_encode().cast(kind) if pa.types.is_dictionary(kind) else strings.cast(storage)
        column = pa.ExtensionArray.from_storage(kind, column) if storage != kind else column
        path = write(tmp_path / f"in{FORMATS[name]}", pa.table({"text": column}))
        summary = json.loads(dedup(path, "-o", out, "--json", "--force").stdout)
        assert (summary["kept"], summary["empty"], summary["duplicates"]) == (4, 2, 1), kind
        assert_rows(read(out), read(path), [True, True, False, True, True])
    dedup(path, "-o", out, "--drop-empty", "--force")
    assert_rows(read(out), read(path), [True, False, False, True, False])


@pytest.mark.parametrize("name", FORMATS)
def test_texts_inside_of_structs_and_in_several_columns(tmp_path: Path, name: str) -> None:
    """`doc.body` is a member of a struct, null where the struct is; a column of that name comes first; several are joined."""
    doc = pa.struct([("body", pa.string()), ("n", pa.int8())])
    docs = pa.array([{"body": ONE, "n": 1}, None, {"body": ONE, "n": 2}, {"body": None, "n": 3}], doc)
    plain = pa.array([ONE, OTHER, OTHER, "x"])
    path = write(tmp_path / f"in{FORMATS[name]}", pa.table({"n": [1, 2, 3, 4], "doc": docs, "a.b": plain}), 2)

    def read_texts(*fields: str) -> list[str]:
        return [record.text for record in source(path, text_fields=fields)]

    assert read_texts("doc.body") == [ONE, "", ONE, ""]
    assert read_texts("a.b") == [ONE, OTHER, OTHER, "x"]
    assert read_texts("doc.body", "a.b") == [f"{ONE}\n{ONE}", f"\n{OTHER}", f"{ONE}\n{OTHER}", "\nx"]
    both = write(tmp_path / f"both{FORMATS[name]}", pa.table({"doc": docs, "doc.body": plain}), 2)
    assert [record.text for record in source(both, text_fields=("doc.body",))] == [ONE, OTHER, OTHER, "x"]
    out = tmp_path / f"out{FORMATS[name]}"
    dedup(path, "-o", out, "--text-field", "doc.body")
    assert_rows(read(out), read(path), [True, True, False, True])


@pytest.mark.parametrize("name", FORMATS)
def test_text_that_is_no_utf8_is_read_and_copied(tmp_path: Path, name: str) -> None:
    """Bytes that are no UTF-8 are compared as U+FFFD, counted, and written as they were."""
    strings = pa.StringArray.from_buffers(2, *pa.array([f"{ONE} ".encode() + b"\xff", OTHER.encode()]).buffers()[1:])
    path, out = write(tmp_path / f"in{FORMATS[name]}", pa.table({"text": strings})), tmp_path / f"out{FORMATS[name]}"
    assert json.loads(dedup(path, "-o", out, "--json").stdout)["invalid_utf8"] == 1
    assert read(out).column("text").cast(pa.binary()).to_pylist() == [f"{ONE} ".encode() + b"\xff", OTHER.encode()]
    assert [record.text for record in source(path)] == [f"{ONE} \ufffd", OTHER]


# ---- the files ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", ["none", "snappy", "zstd"])
def test_parquet_keeps_its_schema_and_codec(tmp_path: Path, codec: str) -> None:
    """Schema with its metadata and the codec of the largest column stay; the rest is as pyarrow writes it."""
    table = stories([f"{i} {text}" for i, text in enumerate(texts(50))])
    path, out = tmp_path / "in.parquet", tmp_path / "out.parquet"
    pq.write_table(table, path, 20, compression={"text": codec, "id": "gzip"})
    assert 0 < json.loads(dedup(path, "-o", out, "--json").stdout)["duplicates"] < 50
    new = pq.ParquetFile(out).metadata
    codecs = {new.row_group(0).column(i).compression for i in range(new.num_columns)}
    assert codecs == {"UNCOMPRESSED" if codec == "none" else codec.upper()}
    assert read(out).schema.equals(read(path).schema, check_metadata=True)
    assert read(out).equals(read(path).filter(pa.array([row in read(out)["n"].to_pylist() for row in range(50)])))


@pytest.mark.parametrize("codec", [None, "lz4", "zstd"])
@pytest.mark.parametrize("name", ["file", "stream"])
def test_arrow_stays_a_file_or_a_stream(tmp_path: Path, name: str, codec: str | None) -> None:
    """Batches stay, without those of which no row stays, and so do the dictionaries of a column."""
    table = stories([ONE, ONE, ONE, ONE, OTHER, THIRD, ONE])
    table = table.append_column("tag", pa.array(["a", "b", "a", "c", "a", None, "d"]).dictionary_encode())
    path, out = tmp_path / f"in{FORMATS[name]}", tmp_path / "out.feather"
    write(path, table, 2, compression=codec)
    dedup(path, "-o", out)
    new = read(out)
    assert [len(batch) for batch in new.to_batches()] == [1, 2] and out.read_bytes().startswith(b"ARROW1") == (name == "file")
    assert_rows(new, table, [True, False, False, False, True, True, False])


@pytest.mark.parametrize("name", FORMATS)
def test_dictionaries_of_several_files(tmp_path: Path, name: str) -> None:
    """Shards with other dictionaries go into one file, unless its format has one dictionary a column."""
    shards, out = tmp_path / "shards", tmp_path / f"out{FORMATS[name]}"
    shards.mkdir()
    kind = pa.dictionary(pa.int8(), pa.string())
    whole = []
    for i, words in enumerate((["a", "b", None], ["c", "a", "d"], ["b", "d", "a"])):
        made = [f"{text} {i} {i}" for text in (ONE, OTHER, THIRD)]
        whole.append(pa.table({"text": made, "tag": pa.array(words, kind)}))
        write(shards / f"{i}{FORMATS[name]}", whole[-1], 2)
    if name == "file":
        assert "cannot be written (Dictionary replacement detected" in refused(shards, "-o", out, "--threshold", "0.95")
        return
    dedup(shards, "-o", out, "--threshold", "0.95")
    assert read(out).to_pylist() == [row for table in whole for row in table.to_pylist()]
    assert read(out).schema.field("tag").type == kind


@pytest.mark.parametrize("name", FORMATS)
def test_tables_come_from_a_pipe(tmp_path: Path, name: str) -> None:
    """- reads standard input, with --format; a table on standard output is refused, since a part of it could look whole."""
    path = write(tmp_path / f"in{FORMATS[name]}", stories([ONE, NEARLY, OTHER]))
    dedup("-", "--format", "parquet" if name == "parquet" else "arrow", "-o", tmp_path / "out", data=path.read_bytes())
    assert_rows(read(tmp_path / "out"), read(path), [True, False, True])
    assert "name an output file" in refused(path, "-o", "-")


@pytest.mark.parametrize("name", FORMATS)
def test_tables_without_rows(tmp_path: Path, name: str) -> None:
    """A table without rows gives one with the same schema; a file without bytes, or without columns, is an error."""
    path, out = write(tmp_path / f"in{FORMATS[name]}", stories([]).cast(stories(["a"]).schema)), tmp_path / f"out{FORMATS[name]}"
    dedup(path, "-o", out)
    assert read(out).schema.equals(read(path).schema) and len(read(out)) == 0
    path.write_bytes(b"")
    assert "the file is empty" in refused(path, "-o", out, "--force")
    write(path, pa.table({}))
    assert "no column 'text'; it has no column" in refused(path, "-o", out, "--force")


# ---- ids -----------------------------------------------------------------------------------------------------------------------

IDS = [
    (pa.array([7, 8, 9]), [7, 8, 9]),
    (pa.array([7, 8, 2**64 - 1], pa.uint64()), [7, 8, 2**64 - 1]),
    (pa.array(["7", "b", None]), ["7", "b", "in:3"]),
    (pa.array(["7", "b", "7"]).dictionary_encode(), ["7", "b", "7"]),
    (pa.array([b"\x01", b"\x02", b"\x03"]), ["in:1", "in:2", "in:3"]),
    (pa.array([0.5, 1.5, None]), ["in:1", "in:2", "in:3"]),
]


@pytest.mark.parametrize("name", FORMATS)
def test_ids_of_every_type_have_a_name(tmp_path: Path, name: str) -> None:
    """--clusters names a row by its integer or string, else by file and row."""
    out, clusters = tmp_path / f"out{FORMATS[name]}", tmp_path / "clusters.jsonl"
    for ids, names in IDS:
        path = write(tmp_path / f"in{FORMATS[name]}", pa.table({"id": ids, "text": [ONE] * 3}), 2)
        dedup(path, "-o", out, "--clusters", clusters, "--force")
        rows = [json.loads(line) for line in clusters.read_text().splitlines()]
        expected = [f"{path.name}{name[2:]}" if str(name).startswith("in:") else name for name in names]
        assert [row["id"] for row in rows] == expected, ids.type
        assert [row["line"] for row in rows] == [1, 2, 3]


@pytest.mark.parametrize("cut", ["usual", "tiny"])
@pytest.mark.parametrize("name", FORMATS)
def test_marks_are_more_columns(tmp_path: Path, name: str, cut: str, request: pytest.FixtureRequest) -> None:
    """All rows are written, with the number of the cluster and the id of the row that stays, an integer of the id's own type or
    text, and with the key that another index has."""
    if cut == "tiny":
        request.getfixturevalue("small_limits")
    for kind in (pa.uint8(), pa.int64(), pa.string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())):
        values = [*range(6)] if pa.types.is_integer(kind) else [*"abcdef"]
        ids = pa.array(values).dictionary_encode().cast(kind) if pa.types.is_dictionary(kind) else pa.array(values, kind)
        table = pa.table({"id": ids, "text": [ONE] * 6})
        shards = [write(tmp_path / f"{i}{FORMATS[name]}", table.slice(3 * i, 3), 2) for i in range(2)]
        opened = source(*shards)
        assert sum(len(piece.texts) for piece in opened.pieces()) == 6
        clusters, stays, similarities = *np.array([[1, 0, 1, 2, 2, 1], [0, 0, 1, 5, 0, 1]]), np.array([1, 1, 0.5, 0.75, 1, 1])
        marks = Marks(clusters, stays, similarities, lambda numbers, names=values: [names[n - 1] for n in numbers])
        marks = replace(marks, against=lambda numbers: [f"old {n}" if n % 2 else None for n in numbers])
        out = tmp_path / f"out{FORMATS[name]}"
        opened.write(np.ones(6, bool), out, out, marks)
        new = read(out)
        assert_rows(new.select([0, 1]), table, [True] * 6)
        assert new["cluster"].to_pylist() == [1, None, 1, 2, 2, 1] and new["cluster"].type == pa.int64()
        assert new["duplicate_of"].to_pylist() == [None, None, values[0], values[4], None, values[0]]
        assert new["similarity"].to_pylist() == [None, None, 0.5, 0.75, None, 1.0] and new["similarity"].type == pa.float64()
        assert new["duplicate_of"].type == (kind if pa.types.is_integer(kind) else pa.string())
        assert new["against"].to_pylist() == ["old 1", None, "old 3", None, "old 5", None]


def test_marks_of_rows_without_an_id(tmp_path: Path) -> None:
    """Where there is no id a row is named as everywhere; where one is missing that a column of numbers would have to name, it
    is an error."""
    rows, out = {"text": [ONE] * 3}, tmp_path / "out.parquet"
    marks = Marks(np.array([1, 1, 1]), np.array([0, 1, 1]), np.ones(3), lambda numbers: [f"row {n}" for n in numbers])

    def marked(**columns: Any) -> pa.Table:
        passes = source(write(tmp_path / "in.parquet", pa.table({**rows, **columns}), 2))
        passes.write(np.ones(3, bool), out, out, marks)
        return read(out)

    assert marked()["duplicate_of"].to_pylist() == [None, "row 1", "row 1"]
    with pytest.raises(FileError, match="the row row 1 is kept in place of others and has no id"):
        marked(id=[None, 2, 3])


@pytest.mark.parametrize("name", FORMATS)
def test_marks_and_rules_of_the_command(tmp_path: Path, name: str) -> None:
    """`dedup --mark --keep by:COLUMN --against` of a table: all rows and three columns; one that is missing, or there already,
    is an error before the work."""
    times = pa.array([1, 3, None, 2, 5], pa.timestamp("us"))
    table = pa.table({"id": [10, 11, 12, 13, 14], "text": [ONE, NEARLY, ONE, OTHER, THIRD], "at": times})
    path, out = write(tmp_path / f"in{FORMATS[name]}", table, 2), tmp_path / f"out{FORMATS[name]}"
    with Index(tmp_path / "old.db", MinHash()) as index:
        index.add("known", OTHER)
    dedup(path, "-o", out, "--mark", "--keep", "by:at", "--against", tmp_path / "old.db")
    new = read(out)
    assert_rows(new.select([0, 1, 2]), read(path), [True] * 5)
    assert new["cluster"].to_pylist() == [1, 1, 1, None, None] and new["duplicate_of"].to_pylist() == [11, None, 11, None, None]
    assert new["duplicate_of"].type == pa.int64()
    assert [bool(key) for key in new["against"].to_pylist()] == [False, False, False, True, False]
    dedup(path, "-o", out, "--keep", "by:at", "--force")
    assert read(out)["id"].to_pylist() == [11, 13, 14]
    assert "no column 'score'; it has 'id' (int64)" in refused(path, "-o", out, "--keep", "by:score", "--force")
    write(path, table.append_column("cluster", times))
    assert "'cluster' already" in refused(path, "-o", out, "--mark", "--force")
    assert "not for tables" in refused(path, "-o", out, "--encoding", "latin-1", "--force")


@pytest.mark.parametrize("name", FORMATS)
def test_add_takes_keys_and_metadata(tmp_path: Path, name: str) -> None:
    """`neardup add` files rows under their ids, as text or as integers, with the other columns as metadata."""
    times = pa.array([1, 2], pa.timestamp("s"))
    table = pa.table({"id": [1, 2], "text": [ONE, OTHER], "tags": [["a"], None], "at": times, "n": [0.5, None]})
    path, index = write(tmp_path / f"in{FORMATS[name]}", table), tmp_path / "a.db"
    told = run("add", index, path, "--metadata")
    assert told.exit_code == 2 and "the column 'at' is timestamp" in told.output
    write(path, table.drop_columns("at"))
    assert run("add", index, path, "--metadata").exit_code == 0
    assert run("add", tmp_path / "int.db", write(path, table), "--key-type", "int").exit_code == 0
    assert run("add", tmp_path / "none.db", write(path, table.drop_columns("id"))).exit_code == 0
    with Index(index) as one, Index(tmp_path / "int.db") as two, Index(tmp_path / "none.db") as three:
        assert [one.get(key).metadata for key in ("1", "2")] == [{"tags": ["a"], "n": 0.5}, {"tags": None, "n": None}]
        assert (list(two), list(three)) == ([1, 2], [f"{path.name}:1", f"{path.name}:2"])


def test_ids_that_are_no_keys(tmp_path: Path) -> None:
    """`neardup add` names the column, its type and the row; --on-error skip leaves such rows out."""
    index, path = tmp_path / "a.db", tmp_path / "in.parquet"
    write(path, pa.table({"id": [0.5, 1], "text": [ONE, OTHER]}))
    assert "the column 'id' is double, not strings or integers" in run("add", index, path).output
    write(path, pa.table({"id": ["7", "x", None], "text": [ONE, OTHER, THIRD]}))
    assert "in.parquet, row 2: the column 'id' is 'x', not an integer" in run("add", index, path, "--key-type", "int").output
    told = json.loads(run("add", index, path, "--key-type", "int", "--on-error", "skip", "--json").stdout)
    assert (told["added"], told["skipped"], [problem["line"] for problem in told["problems"]]) == (1, 2, [2, 3])


@pytest.mark.parametrize("cut", ["usual", "tiny"])
@pytest.mark.parametrize("name", FORMATS)
def test_rows_that_cannot_be_used_are_left_out(tmp_path: Path, name: str, cut: str, request: pytest.FixtureRequest) -> None:
    """Rows without the id that was asked for, or with a text too long, are errors; --on-error skip leaves them out of all."""
    if cut == "tiny":
        request.getfixturevalue("small_limits")
    made = [OTHER, ONE * 3000, ONE, THIRD, ONE, ONE, OTHER]
    table = pa.table({"key": ["a", "b", None, None, "e", "f", "g"], "text": made, "n": range(7)})
    path, out = write(tmp_path / f"in{FORMATS[name]}", table), tmp_path / f"out{FORMATS[name]}"
    arguments = [path, "-o", out, "--id-field", "key", "--max-record-mb", "0.1", "--clusters", tmp_path / "c.jsonl", "--force"]
    assert "row 2: its text is longer than 100,000 bytes" in refused(*arguments)
    told = json.loads(dedup(*arguments, "--on-error", "skip", "--json").stdout)
    assert (told["records"], told["skipped"], told["kept"], told["duplicates"]) == (4, 3, 2, 2)
    assert read(out)["n"].to_pylist() == [0, 4]
    ids = [json.loads(line)["id"] for line in (tmp_path / "c.jsonl").read_text().splitlines()]
    assert ids == ["a", "g", "e", "f"]


@pytest.mark.parametrize("name", FORMATS)
def test_fields_that_are_asked_for_can_be_compared(tmp_path: Path, name: str) -> None:
    """Records have the columns that are asked for, members of structs too; times and decimals as numbers."""
    times, days = pa.array([5, None], pa.timestamp("ns", "UTC")), pa.array([7, 8], pa.date32())
    score, doc = pa.array([decimal.Decimal("1.25"), None], pa.decimal128(5, 2)), [{"n": 3}, None]
    path = tmp_path / f"in{FORMATS[name]}"
    write(path, pa.table({"text": [ONE, OTHER], "at": times, "day": days, "score": score, "doc": doc, "s": ["x", "y"]}))
    asked = ("at", "day", "score", "doc.n", "s")
    rows = [(5, 7, 1.25, 3, "x"), (None, 8, None, None, "y")]
    assert [record.fields for record in source(path, other_fields=asked)] == [dict(zip(asked, row, strict=True)) for row in rows]
    with pytest.raises(FileError, match="no column 'x'; it has 'text'"):
        list(source(path, other_fields=("x",)))
