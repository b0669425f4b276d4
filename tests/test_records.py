"""Reading records: formats, packings, broken input, limits."""

from __future__ import annotations

import contextlib
import errno
import gzip
import json
import os
from pathlib import Path

import pytest
from cases import one_test

from neardup_db.cli.inputs.files import FileError
from neardup_db.cli.inputs.opening import open_source
from neardup_db.cli.inputs.source import ReadOptions, RecordError, Source
from neardup_db.cli.outputs import replacing
from neardup_db.cli.watch import Arrivals, StreamSource
from neardup_db.errors import ParameterError


def write(path: Path, data: bytes | str) -> Path:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def opened(path: Path, **options: object) -> Source:
    return open_source([path], ReadOptions(**options), path)  # type: ignore[arg-type]


def read(path: Path, **options: object) -> list[tuple[object, str]]:
    return [(record.key, record.text) for record in opened(path, **options)]


JSONL = '{"id": "a", "text": "one"}\n{"id": "b", "text": "two", "lang": "en"}\n'


def test_a_folder_gives_its_files(tmp_path: Path) -> None:
    """The key of a file is its path below the folder; hidden files are left out and the order is that of the paths."""
    (tmp_path / "in" / "b").mkdir(parents=True)
    write(tmp_path / "in" / "b" / "1.txt", "one")
    write(tmp_path / "in" / "a.md", "two")
    write(tmp_path / "in" / ".hidden", "three")
    assert read(tmp_path / "in") == [("a.md", "two"), ("b/1.txt", "one")]
    assert read(tmp_path / "in", glob="*.txt") == [("b/1.txt", "one")]
    assert read(tmp_path / "in", glob="b/*") == [("b/1.txt", "one")]


def test_records_without_an_id_are_called_by_file_and_line(tmp_path: Path) -> None:
    """Where there is no id or key, the key is the file's name, or the one given, and the line; integer keys are not made up."""
    path = write(tmp_path / "in.jsonl", '{"text": "one"}\n\n{"key": "k", "text": "two"}\n{"text": "three"}\n')
    assert [key for key, _ in read(path)] == ["in.jsonl:1", "k", "in.jsonl:4"]
    assert [key for key, _ in read(path, source_name="2025/in")] == ["2025/in:1", "k", "2025/in:4"]
    rows = write(tmp_path / "in.csv", 'text\n"one\ntwo"\nthree\n')
    assert [key for key, _ in read(rows)] == ["in.csv:2", "in.csv:4"]
    path = write(tmp_path / "in2.jsonl", '{"id": 17, "text": "two"}\n{"id": "18", "text": "x"}\n{"text": "one"}\n')
    assert [key for key, _ in read(path)] == ["17", "18", "in2.jsonl:3"]
    with pytest.raises(RecordError, match="line 3: no id, as --key-type int needs; name its field with --id-field"):
        read(path, integer_keys=True)
    assert [key for key, _ in read(path, integer_keys=True, on_error="skip")] == [17, 18]


@one_test(
    ("line", "message"),
    [
        ('{"id": "b", "text": ', "not JSON"),
        ('["b"]', "a list"),
        ('{"id": "b"}', "no field 'text'"),
        ('{"id": "b", "text": 5}', "a number"),
        ('{"id": [1], "text": "x"}', "field 'id' must be text or an integer"),
        ('{"id": true, "text": "x"}', "true or false"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_a_broken_line_is_named(tmp_path: Path, line: str, message: str) -> None:
    """The error names the file and the line; skipping leaves just that record out and counts it."""
    path = write(tmp_path / "in.jsonl", f'{{"id": "a", "text": "one"}}\n{line}\n{{"id": "c", "text": "three"}}\n')
    with pytest.raises(RecordError, match=r"in\.jsonl, line 2: ") as caught:
        read(path)
    assert message in str(caught.value)
    source = opened(path, on_error="skip")
    assert [record.key for record in source] == ["a", "c"]
    assert source.skipped == 1 and [problem.line for problem in source.problems] == [2]


def test_a_line_beyond_the_limit_is_an_error_and_not_memory(tmp_path: Path) -> None:
    """A line of exactly the limit passes, one byte more does not; the lines after it are read."""
    line = '{"text": "' + "x" * 50 + '"}\n'
    path = write(tmp_path / "in.jsonl", line + '{"text": "y"}\n')
    assert len(read(path, max_bytes=len(line))) == 2
    with pytest.raises(RecordError, match="line 1: longer than"):
        read(path, max_bytes=len(line) - 1)
    assert read(path, max_bytes=len(line) - 1, on_error="skip") == [("in.jsonl:2", "y")]


def test_csv_rows_of_another_width_are_errors(tmp_path: Path) -> None:
    """A row with too few or too many columns is named by its line; empty lines are none."""
    path = write(tmp_path / "in.csv", "id,text\na,one\n\nb\nc,three\n")
    with pytest.raises(RecordError, match="line 4: 1 columns, the header has 2"):
        read(path)
    assert [key for key, _ in read(path, on_error="skip")] == ["a", "c"]


@one_test(
    ("name", "data", "message"),
    [
        ("in.jsonl.gz", b"not packed at all", "not gzip data"),
        ("in.jsonl.gz", gzip.compress(b'{"text": "x"}\n' * 1000, mtime=0)[:-20], "ends early"),
        ("in.jsonl.zst", b"not packed at all", "not zstd data"),
        ("in.what", b"", "add --format"),
    ],
)
def test_files_that_are_not_what_they_seem(tmp_path: Path, name: str, data: bytes, message: str) -> None:
    """Damaged packing and unknown names are errors that say so, never skipped."""
    with pytest.raises(FileError, match=message):
        read(write(tmp_path / name, data), on_error="skip")


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES])
def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the folder and the remedy, and not the file that an output is before it has its name."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number), str(tmp_path / ".neardup-x"))

    monkeypatch.setattr("tempfile.mkdtemp", refuse)
    told = "nothing can be written there .*: name an output in another folder"
    with pytest.raises(ParameterError, match=told) as raised, replacing(tmp_path / "out.jsonl"):
        pass
    assert str(raised.value).startswith(f"{tmp_path}: ") and ".neardup" not in str(raised.value)


def test_an_output_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    """A block that fails leaves the old file and nothing else."""
    path = write(tmp_path / "out.jsonl", "old")
    with pytest.raises(RuntimeError), replacing(path) as paths:
        paths[path].write_text("half")
        raise RuntimeError
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]
    with replacing(path) as paths:
        paths[path].write_text(json.dumps("new"))
    assert path.read_text() == '"new"' and list(tmp_path.iterdir()) == [path]


def test_a_folder_that_is_replaced_is_never_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the end comes between moving the old folder away and the new one there, the old one is put back."""
    folder = tmp_path / "out"
    folder.mkdir()
    write(folder / "kept", "old")

    def ended(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", ended)
    with pytest.raises(KeyboardInterrupt), replacing(folder) as paths:
        paths[folder].mkdir()
    assert (folder / "kept").read_text() == "old" and list(tmp_path.iterdir()) == [folder]


@pytest.mark.posix("pipes whose descriptors can be waited for")
@pytest.mark.parametrize("format_", ["jsonl", "lines"])
def test_a_mark_that_arrives_alone_is_not_the_whole_stream(format_: str) -> None:
    """What comes after a byte order mark on a line of its own is read, however late it comes."""
    reading, writing = os.pipe()
    os.write(writing, b"\xef\xbb\xbf\n")
    later = [b'{"id": "a", "text": "one two three"}\n']

    def send() -> None:
        if later:
            os.write(writing, later.pop())
            os.close(writing)

    with contextlib.closing(Arrivals(reading, send)) as arrivals:
        source = StreamSource(arrivals, ReadOptions(format=format_), "stdin")
        assert "one two three" in [*source][-1].text
    os.close(reading)
