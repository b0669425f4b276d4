"""Files as other programs leave them: packed under any name, in UTF-16 without a mark, with notes of Spark's beside them."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from pathlib import Path

import pytest
from commands import run

from neardup_db import Index
from neardup_db.cli.inputs.encodings import refuse_utf16
from neardup_db.cli.inputs.files import FileError

TEXT = "the quick brown fox jumps over the lazy dog near the river bank"
LINES = "".join(json.dumps({"id": key, "text": f"{TEXT} {key}"}) + "\n" for key in "ab")
CSV = f'id,text\na,"{TEXT}"\n'


def keys(path: Path) -> list[object]:
    with Index(path) as index:
        return list(index)


def test_packed_data_under_another_name(tmp_path: Path) -> None:
    """What is packed by gzip or zstd is told by its first bytes, and dedup writes by the name of its output."""
    zstandard = pytest.importorskip("zstandard")
    for name, pack in (("gzip", gzip.compress), ("zstd", zstandard.compress)):
        source = tmp_path / f"{name}.jsonl"
        source.write_bytes(pack(LINES.encode()))
        assert run("add", tmp_path / f"{name}.db", source).exit_code == 0
        assert keys(tmp_path / f"{name}.db") == ["a", "b"]
        done = run("dedup", source, "-o", tmp_path / "out.jsonl", "--threshold", "1")
        assert done.exit_code == 0 and (tmp_path / "out.jsonl").read_text("utf-8") == LINES
        (tmp_path / "out.jsonl").unlink()


@pytest.mark.parametrize("name", ["in.jsonl", "in.jsonl.bz2", "in.csv"])
def test_packings_that_are_not_read_are_named(tmp_path: Path, name: str) -> None:
    """bzip2 and xz are an error that names them, whatever the file is called, from standard input too."""
    for packing, pack in (("bzip2", bz2.compress), ("xz", lzma.compress)):
        (tmp_path / name).write_bytes(pack(LINES.encode()))
        done = run("add", tmp_path / "a.db", tmp_path / name, "--format", "jsonl")
        assert done.exit_code == 2 and f"{name}: this is {packing} data, which is not supported" in done.stderr
        done = run("add", tmp_path / "a.db", "-", "--format", "jsonl", stdin=pack(LINES.encode()))
        assert done.exit_code == 2 and f"this is {packing} data" in done.stderr
    (tmp_path / "text.txt").write_text("BZh is how such files begin", "utf-8")
    assert run("add", tmp_path / "b.db", tmp_path / "text.txt").exit_code == 0


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("name", ["in.jsonl", "in.csv", "in.jsonl.gz"])
def test_utf16_without_a_mark(tmp_path: Path, name: str, encoding: str) -> None:
    """The error says which --encoding reads the file, and with it the file is read."""
    source = tmp_path / name
    data = (CSV if "csv" in name else LINES).encode(encoding)
    source.write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    done = run("add", tmp_path / "a.db", source)
    remedy = f"UTF-16 without a byte order mark: add --encoding {encoding}"
    assert done.exit_code == 2 and f"{name}: this looks like {remedy}" in done.stderr
    assert run("add", tmp_path / "a.db", source, "--encoding", encoding).exit_code == 0
    assert keys(tmp_path / "a.db")[0] == "a"


def test_what_is_no_utf16() -> None:
    """Short files, zeros, UTF-32 and UTF-8 with zeros in it are not taken for UTF-16."""
    for head in (b"", b"a", b"a\0", b"\0" * 64, "ab".encode("utf-32-le"), b"a\0b\0c", b"{}\n"):
        try:
            refuse_utf16(head, "x")
        except FileError:
            assert head == b"a\0b\0c"
    with pytest.raises(FileError, match="utf-16-be"):
        refuse_utf16("{}".encode("utf-16-be"), "x")


def test_notes_beside_the_parts_of_a_folder(tmp_path: Path) -> None:
    """Files and folders that Spark, Hive and Delta write beside their data are no data; a file that is called like one is."""
    folder = tmp_path / "parts"
    for name in ("_SUCCESS", "_metadata", ".part-0.jsonl.crc", "_committed_17", "_temporary/0/x.jsonl", "_delta_log/0.json"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("no records", "utf-8")
    (folder / "day=2026-01-01").mkdir()
    (folder / "day=2026-01-01" / "part-0.jsonl").write_text(LINES, "utf-8")
    (folder / "_more.jsonl").write_text('{"id": "c", "text": "quite other words"}\n', "utf-8")
    assert run("add", tmp_path / "a.db", folder).exit_code == 0
    assert set(keys(tmp_path / "a.db")) == {"a", "b", "c"}
    done = run("add", tmp_path / "b.db", folder, "--glob", "_S*", "--format", "lines")
    assert done.exit_code == 0 and len(keys(tmp_path / "b.db")) == 1
