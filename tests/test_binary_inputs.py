"""Pictures and other binary files, which commands refuse to read as texts."""

from __future__ import annotations

import gzip
import io
import random
import tarfile
import zipfile
from pathlib import Path

import pytest
from commands import good, keys_of, refused, run

from neardup_db import Index, MinHash

TEXT = "the quick brown fox jumps over the lazy dog near the river bank"
PICTURE = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + random.Random(2).randbytes(10_000)
RANDOM = random.Random(1).randbytes(100_000)


def archive() -> bytes:
    """A ZIP archive, as an office document is."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as file:
        file.writestr("word/document.xml", TEXT)
    return data.getvalue()


def tar() -> bytes:
    """An archive without a signature at its beginning."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as file:
        file.addfile(tarfile.TarInfo("empty.txt"))
    return data.getvalue()


PICTURES = {
    "PNG": PICTURE,
    "JPEG": bytes.fromhex("ffd8ffe000104a46494600010100000100010000ffdb0043"),
    "GIF": b"GIF89a" + bytes.fromhex("0100010080000000000000ffffff21f9"),
    "WebP": b"RIFF" + bytes.fromhex("24000000") + b"WEBPVP8 ",
    "BMP": b"BM" + bytes.fromhex("8a000000 00000000 36000000 28000000"),
    "TIFF": b"II*\0" + bytes.fromhex("080000000e00"),
    "AVIF": bytes.fromhex("00000020") + b"ftypavif",
}
OTHERS = {
    "a PDF document": b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj\n<< /Type /Catalog >>\n",
    "a ZIP archive": archive(),
    "an SQLite database": b"SQLite format 3\0" + bytes.fromhex("1000010100402020"),
    "a program": b"\x7fELF" + bytes.fromhex("020101"),
    "not text": RANDOM,
    "not text (": tar(),
}


def folder(path: Path, files: dict[str, bytes]) -> Path:
    """A new folder with files."""
    path.mkdir()
    for name, data in files.items():
        (path / name).write_bytes(data)
    return path


@pytest.mark.parametrize(("command", "packed"), [("add", False), ("dedup", True)])
@pytest.mark.parametrize("kind", PICTURES)
def test_pictures_are_refused_with_the_page_that_helps(tmp_path: Path, kind: str, command: str, packed: bool) -> None:
    """Each kind of picture in a folder, packed too, is named, and the error names the page on pictures; nothing is written."""
    data = gzip.compress(PICTURES[kind]) if packed else PICTURES[kind]
    source = folder(tmp_path / "album", {"a.txt": TEXT.encode(), "b": data})
    arguments = (tmp_path / "new", source) if command == "add" else (source, "-o", tmp_path / "new")
    told = refused(command, *arguments)
    assert f"b: this is a {kind} picture, not text" in told and "docs/how-to/pictures.md" in told and "--glob" in told
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("kind", OTHERS)
def test_other_binary_files_are_refused(tmp_path: Path, kind: str) -> None:
    """Documents of other programs, archives, databases, programs and what is no text by its bytes: in a folder, as lines, from
    standard input and as a question."""
    path = folder(tmp_path / "files", {"a.txt": OTHERS[kind]}) / "a.txt"
    with Index(tmp_path / "i.db", MinHash()):
        pass
    for arguments in (
        ("add", tmp_path / "i.db", path.parent),
        ("add", tmp_path / "i.db", path),
        ("dedup", path, "-o", tmp_path / "out.txt", "--encoding", "latin-1"),
        ("query", tmp_path / "i.db", "--file", path),
        ("query", tmp_path / "i.db", "--from", path),
        ("tune", path),
    ):
        assert f"a.txt: this is {kind}" in refused(*arguments), arguments
    assert f"this is {kind}" in refused("add", tmp_path / "i.db", "-", "--format", "lines", stdin=OTHERS[kind])
    assert f"standard input: this is {kind}" in refused("query", tmp_path / "i.db", "-", stdin=OTHERS[kind])
    assert keys_of(tmp_path / "i.db") == []


@pytest.mark.parametrize("format_", ["jsonl", "csv"])
def test_a_picture_is_no_file_of_records(tmp_path: Path, format_: str) -> None:
    """A file that begins as a picture is refused as one, also where records with fields are expected."""
    (tmp_path / "a.png").write_bytes(PICTURE)
    told = refused("dedup", tmp_path / "a.png", "-o", tmp_path / f"out.{format_}", "--format", format_)
    assert "a.png: this is a PNG picture" in told and "--glob" not in told


def test_binary_files_of_a_folder_can_be_skipped(tmp_path: Path) -> None:
    """--on-error skip leaves out each binary file and reports it; --glob does not read it."""
    source = folder(tmp_path / "files", {"a.txt": TEXT.encode(), "b.png": PICTURE, "c": RANDOM})
    result = run("add", tmp_path / "i.db", source, "--on-error", "skip")
    assert result.exit_code == 0 and keys_of(tmp_path / "i.db") == ["a.txt"]
    assert "b.png: this is a PNG picture" in result.stderr and "c: this is not text" in result.stderr
    good("dedup", source, "-o", tmp_path / "out", "--glob", "*.txt")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["a.txt"]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("mark", ["\ufeff", ""], ids=["marked", "unmarked"])
def test_utf16_in_a_folder_names_the_encoding(tmp_path: Path, encoding: str, mark: str) -> None:
    """A text in UTF-16 is refused with the option that reads it."""
    source = folder(tmp_path / "files", {"a.txt": (mark + TEXT).encode(encoding)})
    name = "utf-16" if mark else encoding
    assert f"add --encoding {name}" in refused("add", tmp_path / "i.db", source)
    good("add", tmp_path / "i.db", source, "--encoding", name)
    assert keys_of(tmp_path / "i.db") == ["a.txt"]


def test_texts_with_a_few_odd_bytes_are_texts(tmp_path: Path) -> None:
    """A few control characters, other encodings, escapes of terminals and words that begin like a signature are read."""
    texts = {
        "nul": b"a\0b\0c " + TEXT.encode(),
        "controls": b"\0\1\2\3\4\5\6\7",
        "many": (TEXT.encode() + b"\x1e") * 200,
        "latin": (TEXT + " \xe9\xe8\xfc").encode("latin-1") * 50,
        "cyrillic": "съешь же ещё этих мягких французских булок".encode("koi8-r") * 50,
        "terminal": b"\x1b[1mbold\x1b[0m\x08\x0c " * 500,
        "bitmap": b"BM stands for bitmap in this text",
        "riff": b"RIFF is a container: WEBP",
        "gif": b"GIF is a format",
        "empty": b"",
    }
    source = folder(tmp_path / "files", texts)
    run("add", tmp_path / "i.db", source)
    assert keys_of(tmp_path / "i.db") == sorted(texts)
