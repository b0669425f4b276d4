"""`neardup dedup`: which texts come into its index, reading records again, inputs that change meanwhile."""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import json
import os
import random
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard
from commands import dedup as run

from neardup_db import Index, MinHash, TextRules, limits
from neardup_db.cli.comparing import Buckets
from neardup_db.cli.inputs import passes
from neardup_db.cli.inputs.opening import open_source
from neardup_db.cli.inputs.passes import Numbers
from neardup_db.cli.inputs.source import ReadOptions
from neardup_db.store.database.open import open_scratch
from neardup_db.system import IS_WINDOWS

BOM = b"\xef\xbb\xbf"


def texts(count: int, seed: int = 1) -> list[str]:
    """Texts of which half are edits of earlier ones, some are empty, equal, short, or not English."""
    chance = random.Random(seed)
    words = [f"w{number}" for number in range(500)] + ["\u00e9t\u00e9", "\u4e2d\u6587", 'a "quote"', "two\nlines"]
    made: list[str] = ["", "!!!", "one", "two words"]
    while len(made) < count:
        text = chance.choices(words, k=chance.randint(5, 60))
        if chance.random() < 0.5:
            text = made[chance.randrange(len(made))].split(" ")
            for _ in range(chance.randint(0, 3)):
                text[chance.randrange(len(text))] = chance.choice(words)
        made.append(" ".join(text))
    return made


def json_lines(made: list[str], first: int = 0) -> bytes:
    return b"".join(json.dumps({"id": f"k{i}", "text": text}).encode() + b"\n" for i, text in enumerate(made, first))


def csv_rows(made: list[str], first: int = 0) -> bytes:
    file = io.StringIO()
    csv.writer(file).writerows([["id", "text"], *([f"k{i}", text] for i, text in enumerate(made, first))])
    return file.getvalue().encode()


def a_folder(path: Path, made: list[str]) -> Path:
    for i, text in enumerate(made):
        file = path / ("sub" if i % 2 else ".") / f"{i:04}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode())
    return path


def shards(path: Path, rows: Callable[[list[str], int], bytes], ending: str, made: list[str]) -> Path:
    """Three files, each with a mark at its head and without the end of its last line; one is packed."""
    path.mkdir()
    third = len(made) // 3
    for i in range(3):
        data = BOM + rows(made[i * third : (i + 1) * third], i * third).rstrip(b"\r\n")
        (path / f"{i}{ending}{'.gz' if i == 1 else ''}").write_bytes(gzip.compress(data) if i == 1 else data)
    return path


def a_file(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


INPUTS: dict[str, Callable[[Path, list[str]], Path]] = {
    ".jsonl": lambda path, made: a_file(path / "in.jsonl", BOM + b"\n".join(json_lines(made).split(b"\n")[:-1])),
    ".jsonl.gz": lambda path, made: a_file(path / "in.jsonl.gz", gzip.compress(json_lines(made))),
    ".jsonl.zst": lambda path, made: a_file(path / "in.jsonl.zst", zstandard.ZstdCompressor().compress(json_lines(made))),
    ".csv": lambda path, made: a_file(path / "in.csv", csv_rows(made)),
    "shards.jsonl": lambda path, made: shards(path / "in", json_lines, ".jsonl", made),
    "shards.csv": lambda path, made: shards(path / "in", csv_rows, ".csv", made),
    "": lambda path, made: a_folder(path / "in", made),
}
"""Every kind of input, by the end of its output's name."""

CUTS = [("usual", ".jsonl"), *(("tiny", kind) for kind in INPUTS)]  # every kind with work that is cut, and one without


def held(path: Path) -> dict[str, bytes]:
    """The bytes of an output, or of the files in it."""
    files = sorted(path.rglob("*.txt")) if path.is_dir() else [path]
    return {str(file.relative_to(path)): file.read_bytes() for file in files}


# ---- the texts that come into the index --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("cut", "threshold"), [("usual", 0.8), ("tiny", 0.2), ("tiny", 0.8), ("tiny", 1.0)])
def test_texts_that_share_a_bucket_are_those_of_an_exact_index(
    tmp_path: Path, threshold: float, cut: str, request: pytest.FixtureRequest
) -> None:
    """`Buckets` names the texts that stand in a bucket of the candidate table with another one, and no others."""
    if cut == "tiny":
        request.getfixturevalue("small_limits")
    made, scheme = texts(120), MinHash(threshold=threshold, exact=True)
    buckets = Buckets(scheme, TextRules(), tmp_path)
    for first in range(0, len(made), 50):
        buckets.add(made[first : first + 50])
    sql = """SELECT d.key FROM neardup_document d JOIN neardup_minhash_band b USING (fingerprint_id) WHERE (
                 SELECT count(*) FROM neardup_document o JOIN neardup_minhash_band p USING (fingerprint_id)
                 WHERE p.bucket = b.bucket) > 1"""
    with Index(":memory:", scheme) as index:
        index.add_many(enumerate(made))
        expected = {key for (key,) in index.connection.execute(sql)}
        wordless = {key for (key,) in index.connection.execute("SELECT key FROM neardup_document WHERE token_count = 0")}
    assert set(np.flatnonzero(buckets.shared()).tolist()) == expected and set(buckets.wordless) == wordless


@pytest.mark.parametrize(("cut", "kind"), CUTS)
def test_a_part_of_the_texts_gives_the_pairs_of_all(tmp_path: Path, kind: str, cut: str, request: pytest.FixtureRequest) -> None:
    """The pairs of every kind of input are those of an index of all records, wherever work is cut."""
    if cut == "tiny":
        request.getfixturevalue("small_limits")
    made = texts(60)
    output = tmp_path / ("out" + kind.removeprefix("shards"))
    told = run(INPUTS[kind](tmp_path, made), "-o", output, "--pairs", tmp_path / "p.csv", "--json")
    assert told.exit_code == 0, told.output
    with open(tmp_path / "p.csv", newline="") as file:
        found = {(row["id_a"], row["id_b"], float(row["similarity"])) for row in csv.DictReader(file)}
    names = [f"k{i}" if kind else f"{'sub/' if i % 2 else ''}{i:04}.txt" for i in range(60)]
    order = range(60) if kind else sorted(range(60), key=lambda i: i % 2)
    with Index(":memory:", MinHash(threshold=0.8, exact=True)) as index:
        index.add_many((i, made[i]) for i in order)
        expected = {(names[pair.key_a], names[pair.key_b], pair.similarity) for pair in index.pairs()}
    assert found == expected and len(found) > 5


def test_a_long_list_of_numbers_is_read_in_parts(tmp_path: Path) -> None:
    """Any part of the list comes back; its file has no name."""
    numbers, expected = Numbers(tmp_path), list(range(2**64 - 20, 2**64))
    numbers.extend(array("Q", expected[:2]))
    assert len(numbers) == 2 and numbers.numbers_between(0, 2).tolist() == expected[:2]
    numbers.extend(np.array(expected[2:14], np.uint64))
    assert len(numbers) == 14 and (IS_WINDOWS or not list(tmp_path.iterdir()))  # Windows removes the file when it is closed
    for first, end in itertools.combinations_with_replacement(range(15), 2):
        assert numbers.numbers_between(first, end).tolist() == expected[first:end]
    numbers.close()
    assert not list(tmp_path.iterdir())


def test_only_texts_that_share_a_bucket_come_into_the_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a hundred different texts and one copy the index has two."""
    made = [" ".join(random.Random(seed).choices("abcdefghijklmnopqrstuvwxyz", k=80)) for seed in range(100)]
    source = a_file(tmp_path / "in.jsonl", json_lines([*made, made[7]]))
    sizes, duplicates = [], Index._duplicates
    monkeypatch.setattr(Index, "_duplicates", lambda index, keys: sizes.append(len(index)) or duplicates(index, keys))
    assert run(source, "-o", tmp_path / "out.jsonl").exit_code == 0
    assert sizes == [2] and (tmp_path / "out.jsonl").read_bytes() == json_lines(made)


def test_an_error_of_the_second_thread_ends_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What goes wrong there is told like any other error, and nothing is written."""

    def out_of_memory(*arguments: object) -> None:
        raise MemoryError("out of memory: fingerprints of texts")

    monkeypatch.setattr(Buckets, "add", out_of_memory)
    result = run(a_file(tmp_path / "in.jsonl", json_lines(texts(20))), "-o", tmp_path / "out.jsonl")
    assert result.exit_code != 0 and sorted(path.name for path in tmp_path.iterdir()) == ["in.jsonl"]


def test_a_scratch_index_takes_a_transaction_back(tmp_path: Path) -> None:
    """Without a journal in a file, and without waiting for the disk, a transaction that fails leaves what was there before."""
    connection = open_scratch(str(tmp_path / "scratch.db"))
    modes = [connection.pragma(name) for name in ("journal_mode", "synchronous", "locking_mode")]
    assert modes == ["memory", 0, "exclusive"]
    with Index(connection, MinHash(exact=True), record_matches=False) as index:
        index.add("a", "the quick brown fox jumps over the lazy dog")

        def broken() -> Any:
            yield from enumerate(texts(300))
            raise RuntimeError

        with pytest.raises(RuntimeError):
            index.add_many(broken())
        assert list(index) == ["a"] and index.check().ok
    connection.close()
    assert [path.name for path in tmp_path.iterdir()] == ["scratch.db"]


# ---- reading again -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("cut", "kind"), CUTS)
def test_records_are_read_again_as_they_were(tmp_path: Path, kind: str, cut: str, request: pytest.FixtureRequest) -> None:
    """Any choice of records comes again with key, text, bytes, number and line; the others are not parsed."""
    source = open_source([INPUTS[kind](tmp_path, texts(40))], ReadOptions(one_header=True), tmp_path)
    if cut == "tiny":
        request.getfixturevalue("small_limits")
    records = list(source)
    assert [text for piece in source.pieces() for text in piece.texts] == [record.text for record in records]
    for chosen in ([True] * 40, [False] * 40, [bool(i % 3) for i in range(40)], [i == 39 for i in range(40)]):
        wanted = np.array(chosen[: len(records)])
        assert list(source.chosen(wanted)) == [record for record, take in zip(records, wanted, strict=True) if take]


# ---- inputs that change ------------------------------------------------------------------------------------------------------


def append(path: Path) -> None:
    with open(path, "ab") as file:
        file.write(b'{"text": "one more"}\n')


def touch(path: Path) -> None:
    os.utime(path, ns=(1, 1))


def spoil(path: Path) -> None:
    """Other bytes, of which neither size nor time tell."""
    before = path.stat()
    path.write_bytes(b"x" * before.st_size)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


CHANGES = [(kind, "shared", change) for kind, change in itertools.product([".jsonl", "shards.jsonl"], [append, spoil])]
CHANGES += [(kind, "shared", change) for kind, change in ((".csv", touch), (".csv", spoil), ("", touch))]
CHANGES += [(kind, "_duplicates", touch if "json" in kind else append) for kind in (".jsonl", ".csv", "shards.jsonl", "")]
"""Every kind of input with every moment and every change; bytes that are only copied, not parsed again, are not looked at."""


@pytest.mark.parametrize(("kind", "moment", "change"), CHANGES)
def test_an_input_that_changes_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, moment: str, change: Callable[[Path], None]
) -> None:
    """Whatever changes between two passes, one sentence says so, and the old output stands."""
    source = INPUTS[kind](tmp_path, texts(30))
    changed = source if source.is_file() else sorted(path for path in source.rglob("*") if path.is_file())[0]
    place = Buckets if moment == "shared" else Index
    real = getattr(place, moment)

    def meanwhile(*arguments: Any) -> Any:
        change(changed)
        return real(*arguments)

    monkeypatch.setattr(place, moment, meanwhile)
    output = tmp_path / ("old" + kind.removeprefix("shards"))
    if kind:
        output.write_text("old")
    result = run(source, "-o", output, "--force")
    assert result.exit_code == 2 and "changed" in result.stderr and "nothing was written" in result.stderr
    assert result.stderr.count("\n") == 1
    assert output.read_text() == "old" if kind else not output.exists()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".neardup")]


def test_an_error_after_writing_to_a_stream_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was written to standard output cannot be taken back, so the message does not say that nothing was written."""
    source = a_file(tmp_path / "in.jsonl", json_lines(texts(60)))
    real = passes.TextSource.write

    def then_change(*arguments: Any, **options: Any) -> None:
        real(*arguments, **options)
        append(source)

    monkeypatch.setattr(passes.TextSource, "write", then_change)
    result = run(source, "-o", "-")
    assert result.exit_code == 2 and "standard output may have a part of the output" in result.stderr
    assert "nothing was written" not in result.stderr and result.stderr.count("\n") == 1
    monkeypatch.undo()
    real_duplicates = Index._duplicates
    monkeypatch.setattr(Index, "_duplicates", lambda *arguments: append(source) or real_duplicates(*arguments))
    assert "standard output may have" in run(source, "-o", "-").stderr


def test_pieces_of_texts_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No more texts wait for their buckets than the limits say."""
    monkeypatch.setattr(limits, "SKETCHED_RECORDS", 10)
    seen = []
    real = Buckets.add

    def counted(buckets: Buckets, piece: list[str]) -> None:
        seen.append(len(piece))
        real(buckets, piece)

    monkeypatch.setattr(Buckets, "add", counted)
    assert run(a_file(tmp_path / "in.jsonl", json_lines(texts(95))), "-o", tmp_path / "out.jsonl").exit_code == 0
    assert seen == [10] * 9 + [5]
