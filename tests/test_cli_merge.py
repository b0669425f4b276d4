"""The commands merge, get, export -o, backup and compact."""

from __future__ import annotations

import gzip
import json
import os
import stat
from pathlib import Path

import pytest
import zstandard
from commands import FOX, RECORDS, good, keys_of, lines, refused, run
from support import PAST, SOON

from neardup_db import BinaryCode, Index, MinHash, TextRules


@pytest.fixture
def parts(tmp_path: Path) -> list[Path]:
    """Two indexes with two records each, and their texts."""
    for name, records in (("one", RECORDS[::2]), ("two", RECORDS[1::2])):
        source = lines(tmp_path / f"{name}.jsonl", records)
        good("add", tmp_path / f"{name}.db", source, "--exact", "--store-text", "--metadata")
        source.unlink()
    return [tmp_path / "one.db", tmp_path / "two.db"]


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


# ---- merge ---------------------------------------------------------------------------------------------------------------


def test_merge_makes_an_index_of_parts(parts: list[Path], tmp_path: Path) -> None:
    """A new INTO has the settings of the first FROM, all documents, and the clusters of the whole; FROM stay as they are."""
    before = [path.read_bytes() for path in parts]
    told = good("merge", tmp_path / "all.db", *parts)
    assert told.startswith("4 documents added, 0 replaced, 0 ignored; 1 with a near-duplicate among the earlier ones; ")
    with Index(tmp_path / "all.db") as index:
        assert list(index) == ["a", "c", "b", "d"]
        assert [one.keys for one in index.clusters()] == [("a", "b")]
        assert index.get("a").text == FOX and index.get("a").metadata == {"lang": "en"}
        assert index.check().ok
    assert [path.read_bytes() for path in parts] == before
    assert files(tmp_path) == {"one.db", "two.db", "all.db"}


def test_merge_into_an_index_that_is_there(parts: list[Path]) -> None:
    """Keys of both are an error that names the file, and nothing of any FROM is stored; --if-exists says otherwise."""
    one, two = parts
    with Index(two) as index:
        index.add("a", "another text altogether")
    third = one.with_name("third.db")
    good("merge", third, one)
    message = refused("merge", one, third, two)
    assert message.startswith(f"neardup: {one}: {third}: record 0: key 'a' is already in the index: ")
    assert message.endswith("add --if-exists replace or --if-exists ignore\n")
    assert keys_of(one) == ["a", "c"]
    told = json.loads(good("merge", one, two, third, "--if-exists", "ignore", "--json"))
    assert [told[name] for name in ("added", "replaced", "ignored", "skipped", "matched")] == [2, 0, 3, 0, 1]
    told = json.loads(good("merge", one, two, "--if-exists", "replace", "--commit-every", "1", "--json"))
    assert [told[name] for name in ("added", "replaced", "ignored")] == [0, 3, 0]
    with Index(one) as index:
        assert index.get("a").text == "another text altogether"


def test_merge_says_what_is_wrong(parts: list[Path], tmp_path: Path) -> None:
    """A FROM that is missing, of other settings, or INTO itself is one sentence with the file; no INTO is left behind."""
    one, two = parts
    new = tmp_path / "new.db"
    assert f"{tmp_path / 'none.db'}: no such file" in refused("merge", new, one, tmp_path / "none.db")
    with Index(tmp_path / "other.db", MinHash(), text=TextRules(shingle=5)) as index:
        index.add("x", FOX)
    message = refused("merge", new, one, tmp_path / "other.db")
    assert "other.db" in message and "--no-store-text" in message
    with Index(tmp_path / "exact.db", MinHash(exact=True), text=TextRules(shingle=5), store_text=True) as index:
        index.add("x", FOX)
    assert "--shingle 5 instead of 3" in refused("merge", new, one, tmp_path / "exact.db")
    assert "FROM is INTO itself: name another index" in refused("merge", one, one)
    assert not new.exists()
    (tmp_path / "text.db").write_text("no index")
    assert str(tmp_path / "text.db") in refused("merge", new, tmp_path / "text.db")
    assert "Missing argument" in refused("merge", new)


def test_a_new_index_is_there_whole_or_not_at_all(parts: list[Path], tmp_path: Path) -> None:
    """Where a later FROM fails, no INTO and nothing else is left; it has no window, whatever the first FROM has."""
    with Index(parts[0]) as index:
        index.set_window(2)
    good("merge", tmp_path / "third.db", parts[1])
    before = files(tmp_path)
    assert "record 0: key 'b' is already in the index" in refused("merge", tmp_path / "all.db", *parts, tmp_path / "third.db")
    assert "none" in refused("merge", tmp_path / "none" / "all.db", *parts)
    assert files(tmp_path) == before
    good("merge", tmp_path / "all.db", *parts)
    with Index(tmp_path / "all.db") as index:
        assert index.window is None and len(index) == 4 and index.check().ok


def test_merge_without_matches(parts: list[Path], tmp_path: Path) -> None:
    """A new INTO need not record matches; clusters finds them."""
    good("merge", tmp_path / "all.db", *parts, "--no-record-matches")
    assert json.loads(good("stats", tmp_path / "all.db", "--json"))["documents"] == 4
    assert json.loads(good("clusters", tmp_path / "all.db", "--json"))["keys"] == ["a", "b"]
    with Index(tmp_path / "all.db") as index:
        assert index.connection.execute("SELECT count(*) FROM neardup_match").get == 0


# ---- get and export --------------------------------------------------------------------------------------------------------


def test_get_prints_documents(parts: list[Path]) -> None:
    """One object a line for each KEY, in their order; a missing one is a note, and exit code 1 where all are missing."""
    with Index(parts[0]) as index:
        index.add("g", "some words", group=7, expires_at=SOON)
        index.add("gone", "some words", expires_at=PAST)
        known = index.get("g")
    result = run("get", parts[0], "g", "none", "a")
    assert result.exit_code == 0 and result.stderr == "neardup: no document has the key none\n"
    first, second = map(json.loads, result.stdout.splitlines())
    assert first == {
        "key": "g", "group": 7, "metadata": None, "text": "some words", "token_count": 2, "added_at": known.added_at,
        "last_seen": known.last_seen, "times_seen": 1, "expires_at": known.expires_at, "cluster": None,
    }  # fmt: skip
    assert second["metadata"] == {"lang": "en"} and second["text"] == FOX
    result = run("get", parts[0], "gone", "none", "--json")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "Give at least one KEY, or --file" in refused("get", parts[0])
    assert json.loads(good("get", parts[0], "--file", "-", stdin="a\n"))["key"] == "a"


@pytest.mark.parametrize("name", ["all.jsonl", "all.jsonl.gz", "all.jsonl.zst", "all"])
def test_export_writes_documents_that_add_reads(parts: list[Path], tmp_path: Path, name: str) -> None:
    """Each line is what `get` prints; an index of these lines has the same keys, texts and clusters."""
    good("merge", tmp_path / "all.db", *parts)
    assert good("export", tmp_path / "all.db", "-o", tmp_path / name) == "4 documents exported\n"
    opened = gzip.open if name.endswith("gz") else zstandard.open if name.endswith("zst") else open
    with opened(tmp_path / name, "rb") as file:
        text = file.read()
    assert text.decode() == good("get", tmp_path / "all.db", "a", "c", "b", "d")
    more = [] if name != "all" else ["--format", "jsonl"]
    good("add", tmp_path / "again.db", tmp_path / name, "--exact", "--store-text", "--metadata", *more)
    with Index(tmp_path / "all.db") as index, Index(tmp_path / "again.db") as again:
        assert list(again) == list(index) and again.clusters() == index.clusters()
        assert again.get("a").text == FOX and again.get("a").metadata["metadata"] == {"lang": "en"}


def test_export_of_codes_and_of_keys_of_bytes(tmp_path: Path) -> None:
    """Codes come in hexadecimal, and `add --text-field code` reads them; bytes are {"hex": ...} as elsewhere."""
    with Index(tmp_path / "codes.db", BinaryCode(64, 3)) as index:
        index.add_codes([1, b"\x01\xff"], [5, 7], group="g")
    written = [json.loads(line) for line in good("export", tmp_path / "codes.db", "-o", "-").splitlines()]
    assert [(row["key"], row["code"], row["group"]) for row in written] == [
        (1, "0000000000000005", "g"), ({"hex": "01ff"}, "0000000000000007", "g"),
    ]  # fmt: skip
    assert written[0]["cluster"] == written[1]["cluster"] is not None and "text" not in written[0]
    lines(tmp_path / "codes.jsonl", written[:1])
    how = ("--scheme", "binarycode", "--bits", 64, "--max-distance", 3, "--text-field", "code", "--key-type", "int")
    good("add", tmp_path / "again.db", tmp_path / "codes.jsonl", *how)
    with Index(tmp_path / "again.db") as index:
        assert [match.key for match in index.query_code(5)] == [1]


@pytest.mark.posix("permissions")
def test_export_keeps_what_it_replaces(parts: list[Path], tmp_path: Path) -> None:
    """A file is replaced with --force only, and keeps its mode and the link to it; the index and its log never are."""
    out, link = tmp_path / "out.jsonl", tmp_path / "link.jsonl"
    out.write_text("old")
    out.chmod(0o640)
    link.symlink_to(out)
    assert "add --force" in refused("export", parts[0], "-o", link)
    assert out.read_text() == "old"
    good("export", parts[0], "-o", link, "--force")
    assert link.is_symlink() and stat.S_IMODE(out.stat().st_mode) == 0o640 and len(out.read_text().splitlines()) == 2
    assert "is the input" in refused("export", parts[0], "-o", parts[0], "--force")
    assert "is a folder" in refused("export", parts[0], "-o", tmp_path, "--force")
    assert "does not exist" in refused("export", parts[0], "-o", tmp_path / "none" / "x.jsonl")
    good("export", parts[0], "-o", os.devnull)


def test_export_is_one_thing_or_the_other(parts: list[Path], tmp_path: Path) -> None:
    """Fingerprints go to OUT, documents to -o; neither, both, and a name that says otherwise are refused."""
    assert "Give either OUT" in refused("export", parts[0])
    assert "Give either OUT" in refused("export", parts[0], tmp_path / "x.parquet", "-o", tmp_path / "x.jsonl")
    assert "OUT without -o is fingerprints" in refused("export", parts[0], "-o", tmp_path / "x.parquet")
    assert "--force requires -o" in refused("export", parts[0], tmp_path / "x.parquet", "--force")
    assert "both write to standard output" in refused("export", parts[0], "-o", "-", "--json")
    assert json.loads(good("export", parts[0], "-o", tmp_path / "x.jsonl", "--json")) == {"exported": 2}
    assert files(tmp_path) == {"one.db", "two.db", "x.jsonl"}


def test_an_export_that_fails_leaves_the_old_file(parts: list[Path], tmp_path: Path) -> None:
    """Damaged metadata is an error that names the document; the file that was there is as it was."""
    out = tmp_path / "out.jsonl"
    out.write_text("old")
    with Index(parts[0]) as index:
        index.connection.execute("PRAGMA ignore_check_constraints = ON; UPDATE neardup_document SET metadata = '{'")
    assert "the metadata of the document a is damaged" in refused("export", parts[0], "-o", out, "--force")
    assert out.read_text() == "old" and files(tmp_path) == {"one.db", "two.db", "out.jsonl"}


# ---- backup and compact ------------------------------------------------------------------------------------------------------


@pytest.mark.posix("permissions")
def test_backup_copies_a_live_index(parts: list[Path], tmp_path: Path) -> None:
    """The copy is whole, has the mode of the original, and what the log holds."""
    parts[0].chmod(0o600)
    copy = tmp_path / "copy.db"
    with Index(parts[0]) as index:
        index.add("new", "some words")
        told = json.loads(good("backup", parts[0], copy, "--json"))
    assert told == {"bytes": copy.stat().st_size} and stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert keys_of(copy) == ["a", "c", "new"]
    assert "exists already" in refused("backup", parts[0], copy)
    assert good("backup", parts[1], copy, "--force").endswith(" bytes written\n")
    assert keys_of(copy) == ["b", "d"] and stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert files(tmp_path) == {"one.db", "two.db", "copy.db"}


@pytest.mark.posix("links")
def test_a_backup_replaces_no_file_with_a_log(parts: list[Path], tmp_path: Path) -> None:
    """An index that is open, whose log would be taken for the copy's, is not replaced; nor are the input, its log, a device."""
    with Index(parts[1]) as index:
        index.add("new", "some words")
        assert "is in use" in refused("backup", parts[0], parts[1], "--force")
        (tmp_path / "link.db").symlink_to(parts[1])
        assert "is in use" in refused("backup", parts[0], tmp_path / "link.db", "--force")
        assert "is the input" in refused("backup", parts[1], f"{parts[1]}-wal", "--force")
        assert index.check().ok
    assert "is the input" in refused("backup", parts[0], parts[0], "--force")
    assert "name a file" in refused("backup", parts[0], os.devnull)
    assert "no such file" in refused("backup", tmp_path / "none.db", tmp_path / "copy.db")
    assert files(tmp_path) == {"one.db", "two.db", "link.db"}


def test_compact_gives_space_back(tmp_path: Path) -> None:
    """The file is smaller by what is told."""
    path = tmp_path / "index.db"
    with Index(path, MinHash(), text=TextRules(shingle=1)) as index:
        index.add_many((number, f"some words {number}") for number in range(2000))
        index.keep_newest(10)
    size = path.stat().st_size
    told = json.loads(good("compact", path, "--json"))
    assert told["freed_bytes"] == size - path.stat().st_size > 100_000 and told["bytes"] == path.stat().st_size
    assert good("compact", path).startswith("0 bytes given back; the file has ")
    assert "no such file" in refused("compact", tmp_path / "none.db")


@pytest.mark.posix("permissions")
def test_an_index_that_is_read_only_is_got_exported_and_backed_up(parts: list[Path], tmp_path: Path) -> None:
    """Commands that only read need no right to write to the file."""
    parts[0].chmod(0o400)
    assert json.loads(good("get", parts[0], "a"))["key"] == "a"
    assert good("export", parts[0], "-o", tmp_path / "x.jsonl") == "2 documents exported\n"
    good("backup", parts[0], tmp_path / "copy.db")
    assert keys_of(tmp_path / "copy.db") == ["a", "c"]
