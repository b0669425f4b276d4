"""Parquet and Arrow files that cannot be read, and the memory that reading takes."""

from __future__ import annotations

import base64
import json
import subprocess
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe
import pytest
from interpreter import interpreter
from test_dedup import texts
from test_table_files import FORMATS, ONE, OTHER, dedup, read, refused, source, stories, write

from neardup_db import limits
from neardup_db.cli.inputs.source import ChangedError

# ---- errors --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FORMATS)
def test_columns_that_cannot_be_read(tmp_path: Path, name: str) -> None:
    """A column that is missing, twice there or no text is an error that lists the columns with their types."""
    path, out = tmp_path / f"in{FORMATS[name]}", tmp_path / f"out{FORMATS[name]}"
    write(path, pa.table({"id": [1], "body": [ONE], "doc": [{"n": 1}]}))
    assert "no column 'text'; it has 'id' (int64), 'body' (string), 'doc' (struct<n: int64>)" in refused(path, "-o", out)
    assert "the column 'id' is int64, not strings" in refused(path, "-o", out, "--text-field", "id")
    assert "the column 'doc.n' is int64" in refused(path, "-o", out, "--text-field", "doc.n")
    assert "no column 'doc.x'" in refused(path, "-o", out, "--text-field", "doc.x")
    assert "the column 'doc' is struct" in refused(path, "-o", out, "--text-field", "body", "--id-field", "doc")
    write(path, pa.Table.from_arrays([pa.array([ONE])] * 2, ["text", "text"]))
    assert "2 columns are called 'text'" in refused(path, "-o", out)
    assert not out.exists()


@pytest.mark.parametrize("name", FORMATS)
def test_files_of_different_schemas_are_refused(tmp_path: Path, name: str) -> None:
    """The error names the column that differs, and both files."""
    end = FORMATS[name]
    first, out = write(tmp_path / f"1{end}", stories([ONE])), tmp_path / f"out{end}"
    others = {
        "differ in the column 'n' (int32)": stories([ONE]).set_column(2, "n", pa.array([1], pa.int32())),
        "differ in the column 'n' (int64)": stories([ONE]).drop_columns("n"),
        "differ in the column 'more' (int64)": stories([ONE]).append_column("more", pa.array([1])),
        "differ in the column 'n' (int64, not null)": stories([ONE]).cast(
            pa.schema([("id", pa.string()), ("text", pa.string()), pa.field("n", pa.int64(), nullable=False)])
        ),
    }
    for said, table in others.items():
        told = refused(first, write(tmp_path / f"2{end}", table), "-o", out)
        assert said in told and str(first) in told and f"2{end}" in told
    assert "differ in the order" in refused(first, write(tmp_path / f"2{end}", stories([ONE]).select([1, 0, 2])), "-o", out)
    metadata = stories([OTHER]).replace_schema_metadata({"other": "metadata"})
    dedup(first, write(tmp_path / f"2{end}", metadata), "-o", out)
    assert len(read(out)) == 2 and read(out).schema.equals(read(first).schema, check_metadata=True)


def damaged(path: Path, rows: int = 300) -> bytes:
    return write(path, stories([f"{ONE} {i}" for i in range(rows)]), 100).read_bytes()


@pytest.mark.parametrize("name", FORMATS)
def test_damaged_files_are_errors(tmp_path: Path, name: str) -> None:
    """A file that ends early, or whose bytes are of something else, is an error with its name, and nothing is written."""
    path, out = tmp_path / f"in{FORMATS[name]}", tmp_path / f"out{FORMATS[name]}"
    whole = damaged(path)
    other = (b"id,text\n1,one\n" * 9, b"FEA1" + whole[4:], b"\x1f\x8b" + whole[2:])
    for spoilt in (whole[: len(whole) // 2], whole[:20], *other):
        path.write_bytes(spoilt)
        assert f"{path.name}" in refused(path, "-o", out) and not out.exists()


@pytest.mark.parametrize("name", FORMATS)
def test_any_damaged_byte_is_an_error_or_harmless(tmp_path: Path, name: str, more_rounds: bool, long_run: bool) -> None:
    """Whatever single byte is wrong: an error that names the file, or rows out, but never a crash of the process."""
    path = tmp_path / f"in{FORMATS[name]}"
    damaged(path, 9)
    program = """
from pathlib import Path
from click.testing import CliRunner
from neardup_db.cli import main
path, out = map(Path, sys.argv[1:3])
whole = path.read_bytes()
for i in range(0, len(whole), int(sys.argv[3])):
    path.write_bytes(whole[:i] + bytes([whole[i] ^ (1 << i % 8)]) + whole[i + 1 :])
    told = CliRunner().invoke(main, ["dedup", str(path), "-o", str(out), "--force"])
    assert told.exit_code == 0 or (told.exit_code == 2 and path.name in told.output), (i, told.output, told.exception)
print("done")
"""
    step = "1" if long_run else "7" if more_rounds else "47"
    command = [*interpreter(), "-c", program, path, tmp_path / f"out{FORMATS[name]}", step]
    told = subprocess.run(command, capture_output=True, text=True)
    assert told.stdout == "done\n", told.stderr[-2000:]


class Keys(pe.KmsClient):
    """Keys that are no secret."""

    def __init__(self) -> None:
        super().__init__()

    def wrap_key(self, key_bytes: bytes, master_key_identifier: str) -> bytes:
        return base64.b64encode(key_bytes)


@pytest.mark.parametrize("readable_footer", [False, True])
def test_encrypted_parquet_is_refused(tmp_path: Path, readable_footer: bool) -> None:
    """An encrypted file, or column of one, is an error that says so."""
    config = pe.EncryptionConfiguration(footer_key="f", column_keys={"k": ["text"]}, plaintext_footer=readable_footer)
    properties = pe.CryptoFactory(lambda _: Keys()).file_encryption_properties(pe.KmsConnectionConfig(), config)
    path = write(tmp_path / "in.parquet", stories([ONE]), encryption_properties=properties)
    assert "is encrypted" in refused(path, "-o", tmp_path / "out.parquet")


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("how", ["replaced", "shorter", "removed"])
def test_a_file_that_changes_is_an_error(tmp_path: Path, name: str, how: str) -> None:
    """A file that is not as it was when it was read first is an error that says so, in every pass."""
    path, out = write(tmp_path / f"in{FORMATS[name]}", stories(texts(40)), 10), tmp_path / f"out{FORMATS[name]}"
    for step in range(3):
        write(path, stories(texts(40)), 10)
        opened = source(path)
        if step:
            assert sum(len(piece.texts) for piece in opened.pieces()) == 40
        if how == "removed":
            path.unlink()
        else:
            other = write(tmp_path / f"other{FORMATS[name]}", stories([ONE]))
            path.write_bytes(path.read_bytes()[:-20] if how == "shorter" else other.read_bytes())
        with pytest.raises(ChangedError):
            if step == 2:
                opened.write(np.ones(40, bool), out, out)
            else:
                list(opened.pieces() if not step else opened.chosen(np.ones(40, bool)))
        with pytest.raises(ChangedError):
            opened.require_unchanged()


def test_names_of_outputs_fit(tmp_path: Path) -> None:
    """Tables are not packed, their output is of their format, and pairs are no table."""
    path = write(tmp_path / "in.parquet", stories([ONE]))
    assert "a table is compressed inside" in refused(path, "-o", tmp_path / "out.parquet.gz")
    assert "its name must end in .parquet" in refused(path, "-o", tmp_path / "out.jsonl")
    assert "written as JSON lines" in refused(path, "-o", tmp_path / "out.parquet", "--pairs", tmp_path / "pairs.parquet")
    (tmp_path / "in.jsonl").write_text("{}")
    assert "must end in .jsonl" in refused(tmp_path / "in.jsonl", "-o", tmp_path / "out.arrow")


def test_without_pyarrow_there_is_a_remedy(tmp_path: Path) -> None:
    """Where pyarrow is not installed, tables are an error with the command that installs it; other formats need none of it."""
    path = write(tmp_path / "in.parquet", stories([ONE]))
    (tmp_path / "in.jsonl").write_text(json.dumps({"text": ONE}))
    program = """
sys.modules["pyarrow"] = None
from neardup_db.cli import main
for name in ("in.jsonl", "in.parquet"):
    try:
        main(["dedup", name, "-o", f"out-{name}"])
    except SystemExit as ended:
        print(ended.code)
"""
    told = subprocess.run([*interpreter(), "-c", program], capture_output=True, text=True, cwd=path.parent)
    assert "pip install 'neardup-db[arrow]'" in " ".join(told.stderr.split()) and told.stdout.splitlines()[-2:] == ["0", "2"]


# ---- bounds --------------------------------------------------------------------------------------------------------------------


def test_a_large_row_group_is_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a row group no more is in memory than some pieces, and a large one is written as several."""
    monkeypatch.setattr(limits, "PIECE_BYTES", 1 << 16)
    monkeypatch.setattr(limits, "GROUP_BYTES", 1 << 20)
    path, out = tmp_path / "in.parquet", tmp_path / "out.parquet"
    table = pa.table({"text": [f"{i} " * 100 for i in range(20_000)]})  # 10 MB
    write(path, table, 20_000, use_dictionary=False, compression="none", data_page_size=1 << 14)
    passes, least = source(path), pa.total_allocated_bytes()
    most = 0
    for piece in passes.pieces():
        assert piece.size_bytes <= 1 << 17
        most = max(most, pa.total_allocated_bytes() - least)
    assert most < 3 << 20
    passes.write(np.ones(20_000, bool), out, out)
    metadata = pq.ParquetFile(out).metadata
    assert metadata.num_row_groups > 5 and read(out).equals(table)


@pytest.mark.parametrize("name", FORMATS)
def test_no_object_for_each_row(tmp_path: Path, name: str) -> None:
    """The first pass and the last one make no Python objects for the rows."""
    path, out = write(tmp_path / f"in{FORMATS[name]}", stories([f"{i} words" for i in range(50_000)]), 10_000), tmp_path / "out"
    passes = source(path)
    tracemalloc.start()
    rows = sum(len(piece.texts) for piece in passes.pieces())
    passes.write(np.arange(rows) % 2 == 0, out, out)
    assert rows == 50_000 and tracemalloc.get_traced_memory()[1] < 3 << 20  # 60 bytes a row
    tracemalloc.stop()
