"""What comes in is data: any key, text, path or record has a defined behaviour, bounded time and bounded memory."""

from __future__ import annotations

import gzip
import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import apsw
import numpy as np
import pytest
import xxhash
import zstandard
from click.testing import CliRunner
from interpreter import interpreter
from spawned import PEAK
from test_kernels import splitmix64

from neardup_db import BottomK, Index, MinHash, ParameterError, SimHash, TextRules
from neardup_db.cli import main

TEXT = "the harbour was full of small boats that morning and nobody had told the baker"


# ---- keys, groups, metadata ----------------------------------------------------------------------------------------------

NASTY: list[Any] = [
    "", "'", '"', "''; DROP TABLE neardup_document; --", "\0", "a\0b", "%s", "{index}", "?1", ":now", "[a]", "`", "\\", "\ufeff",
    "\U0010ffff", "e\u0301", "\u202egpj.exe", "\x1b[2J", "<script>alert(1)</script>", "x" * 10_000_000,
    b"", b"\0", b"'", b"\xff\xfe", b"\x01" * 1_000_000, 0, -1, 2**63 - 1, -(2**63),
]  # fmt: skip


@pytest.mark.parametrize("at_once", [False, True], ids=["one by one", "in a batch"])
def test_keys_and_groups_of_any_kind(at_once: bool) -> None:
    """Quotes, NULs, SQL, ten megabytes: a key or a group is found again by itself and by nothing else."""
    with Index(":memory:", MinHash()) as index:
        if at_once:
            index.add_many({"key": key, "text": TEXT, "group": key} for key in NASTY)
        else:
            for key in NASTY:
                index.add(key, TEXT, group=key)
        assert list(index) == NASTY and len(index) == len(NASTY)
        for key in NASTY:
            assert key in index and index.get(key).group == key
            assert [one.key for one in index.query(TEXT, group=key)] == [key]
            assert index.matches(key) == []
        assert index.query(TEXT) == [] and index.clusters() == [] and list(index.pairs()) == []
        assert index.check().ok
        assert index.delete_many(NASTY) == len(NASTY) and len(index) == 0
        assert index.check().ok


METADATA: list[Any] = [
    "'", "\0", "a\0b\ud800", "x" * 10_000_000, {"'; --": ["\0", {"": None}]}, list(range(100_000)), 10**4000, "[" * 5000,
    {"a": [1, 2.5, None, True, "ü\u2028"]}, [], 0, False, {},
]  # fmt: skip


def test_metadata_of_any_kind() -> None:
    """What JSON can hold comes back as it was."""
    with Index(":memory:", MinHash()) as index:
        for key, metadata in enumerate(METADATA):
            index.add(key, f"{TEXT} {key}", metadata=metadata)
            assert index.get(key).metadata == metadata, repr(metadata)[:20]
        assert index.check().ok


def nested(depth: int) -> Any:
    """[[[...]]]"""
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


def test_metadata_deeper_than_can_be_read_back_is_refused() -> None:
    """500 levels are stored, 100,000 refused; so are 1,001, which SQLite would not read, where Python's limit lets them pass."""
    limit = sys.getrecursionlimit()
    with Index(":memory:", MinHash()) as index:
        index.add("a", TEXT, metadata=nested(500))
        assert index.get("a").metadata == nested(500)
        with pytest.raises(ParameterError, match="metadata"):
            index.add("b", TEXT, metadata=nested(100_000))
        try:
            sys.setrecursionlimit(5000)
            index.add("c", TEXT, metadata=[nested(999), "[" * 2000])
            with pytest.raises(ParameterError, match=r"nested 1,001 levels deep: SQLite reads at most 1,000"):
                index.add("b", TEXT, metadata=nested(1001))
        finally:
            sys.setrecursionlimit(limit)
        assert list(index) == ["a", "c"] and index.check().ok


def test_what_is_too_long_for_sqlite_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key, group, text or metadata above SQLite's limit (here a small one) is a ParameterError, and nothing of it stays."""
    with Index(":memory:", MinHash(), store_text=True) as index:
        index.connection.limit(apsw.SQLITE_LIMIT_LENGTH, 10_000)
        long = "x" * 20_000
        for key, text, more in (
            (long, "one two three", {}),
            ("b", long, {}),
            ("b", "one two three", {"metadata": long}),
            ("b", "one two three", {"group": long}),
        ):
            with pytest.raises(ParameterError, match="give a shorter one"):
                index.add(key, text, **more)
            with pytest.raises(ParameterError, match="give a shorter one"):
                index.add_many([{"key": key, "text": text, **more}])
        assert len(index) == 0 and index.check().ok


# ---- names and paths -----------------------------------------------------------------------------------------------------


PATHS = [
    "a b", "a'b", 'a"b', "a;DROP TABLE x;--", "a?mode=memory", "file:a.db?mode=memory&cache=shared", "a#b", "a%00b", "a%2fb",
    "a\nb", " ", "-", "~", "$HOME", "|ls", "ünï😀", ":memory: ", "a" * 200,
]  # fmt: skip


def test_a_path_is_a_path_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever stands in a path names that one file: not a URI, not a statement, not a command; in a backup's too."""
    for number, name in enumerate(PATHS):
        folder = tmp_path / str(number)
        folder.mkdir()
        monkeypatch.chdir(folder)
        for path in (name, folder / name):
            with Index(path, MinHash()) as index:
                index.add(str(path), TEXT)
                if path == name:
                    index.backup(name + ".copy")
        with Index(name + ".copy") as copy:
            assert list(copy) == [name]
        assert sorted(os.listdir(folder)) == [name, name + ".copy"]
        with Index(name, read_only=True) as index:
            assert list(index) == [name, str(folder / name)]
        assert {one.removesuffix("-wal").removesuffix("-shm") for one in os.listdir(folder)} == {name, name + ".copy"}


def test_paths_that_sqlite_cannot_be_given(tmp_path: Path) -> None:
    """A NUL, or bytes that are no UTF-8: refused with the remedy, and nothing is made."""
    with pytest.raises(ParameterError, match="is not a path"):
        Index(tmp_path / "a\0b", MinHash())
    for path in (os.fsencode(tmp_path) + b"/caf\xe9.db", str(tmp_path) + "/caf\udce9.db"):
        with pytest.raises(ParameterError, match="not UTF-8.*rename"):
            Index(path, MinHash())
    with Index(":memory:", MinHash()) as index, pytest.raises(ParameterError, match="not UTF-8.*rename"):
        index.backup(str(tmp_path) + "/caf\udce9.db")
    assert list(tmp_path.iterdir()) == []


# ---- texts ---------------------------------------------------------------------------------------------------------------

TEXTS = """
import signal, sys
from neardup_db import MinHash, TextRules
size = int(sys.argv[1])
KINDS = {
    "one letter": "a", "spaces": " ", "NULs": "\\0", "combining marks": "\\u0301", "marks out of order": "\\u0301\\u0316",
    "marks of many classes": "\\u0301\\u0316\\u0345\\u0327\\u093c\\u3099", "joined emoji": "\\U0001f469\\u200d",
    "flags": "\\U0001f1e9", "Hangul letters": "\\u1100\\u1161", "one character for eighteen": "\\ufdfa",
    "characters that prepend": "\\u0600", "viramas": "\\u0915\\u094d", "lone surrogates": "\\ud800", "two words": "a b ",
    "sharp s": "\\u00df", "invalid bytes": b"\\xff", "halves of characters": b"\\xf0\\x9f",
}
RULES = [TextRules(), TextRules.chars(), TextRules(strip_accents=True), TextRules(normalize=None, case=None)]
def repeated(one):
    return one * (size // len(one if isinstance(one, bytes) else one.encode("utf-8", "surrogatepass")))
texts = {name: repeated(one) for name, one in KINDS.items()}
texts["a million tokens"] = " ".join(map(str, range(size // 7)))
MinHash().fingerprint("a b c")
for name, text in texts.items():
    for rules in RULES:
        before = peak()
        signal.alarm(600)
        MinHash().fingerprint(text, rules)
        signal.alarm(0)
        print(name, rules, peak() - before, sep="|", flush=True)
"""


def test_texts_that_are_made_to_cost_much(long_run: bool) -> None:
    """Of one letter, a million different tokens, marks without end, characters that become eighteen: a fingerprint takes at most
    8 bytes of memory for each byte of the text. Texts of 100 MB in the long run, of 1 MB in CI."""
    size = 100_000_000 if long_run else 1_000_000
    done = subprocess.run([*interpreter(), "-c", PEAK + TEXTS, str(size)], capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout[-200:]} {done.stderr[-2000:]}"
    lines = [line.split("|") for line in done.stdout.splitlines()]
    assert len(lines) == 18 * 4
    assert [line for line in lines if int(line[2]) > 8 * size + 10_000_000] == []


# ---- floods --------------------------------------------------------------------------------------------------------------


def winners(seed: int, slots: int, words: list[str]) -> list[str]:
    """For each of the first slots the word with the least hash: whoever has it in a text decides that slot."""
    hashes = [xxhash.xxh3_64_intdigest(word.encode()) for word in words]
    for _ in range(2):
        hashes = [(h ^ h >> 32) * 0x9E3779B97F4A7C15 % 2**64 for h in hashes]
    x = np.array([h >> 32 for h in hashes], np.uint64)
    chosen = []
    for number in splitmix64(seed, slots):
        a, b = np.uint64(number % 2**32 | 1), np.uint64(number >> 32)
        chosen.append(words[int(np.argmin((a * x + b) % np.uint64(2**32)))])
    return chosen


def flood(scheme: MinHash, rules: TextRules) -> int:
    """Candidates of one more text, after 500 crafted for the public seed with its first band in common and little else."""
    source = random.Random(5)
    words = [f"w{number}" for number in range(20_000)]
    bait = winners(1, 5, words)
    texts = [" ".join(bait + source.sample(words, 40)) for _ in range(501)]
    with Index(":memory:", scheme, text=rules) as index:
        index.add_many(enumerate(texts[1:]))
        assert index.query(texts[0]) == []
        return index.explain(texts[0]).candidates


def test_a_flood_for_the_public_seed_meets_and_for_a_secret_one_does_not() -> None:
    """Who knows the seed can write texts that all meet in one bucket, without being alike; with seed="random" or
    hash_seed="random" nobody knows it."""
    words = TextRules(shingle=1)
    assert flood(MinHash(bands=12, rows=5), words) == 500
    assert flood(MinHash(bands=12, rows=5, seed="random"), words) < 25
    assert flood(MinHash(bands=12, rows=5), TextRules(shingle=1, hash_seed="random")) < 25


@pytest.mark.parametrize(
    ("scheme", "text"),
    [
        (lambda: MinHash(seed="random"), lambda: TextRules()),
        (lambda: MinHash(seed="random", exact=True), lambda: TextRules(hash_seed="random")),
        (lambda: SimHash(), lambda: TextRules(hash_seed="random")),
        (lambda: BottomK(), lambda: TextRules.chars(hash_seed="random")),
    ],
    ids=["minhash", "both", "simhash", "bottomk"],
)
def test_secret_seeds_are_the_files_own(tmp_path: Path, scheme: Any, text: Any) -> None:
    """A random seed is drawn for each index and kept in its file: another index has others, so other fingerprints; to open it
    the seed need not be named, and "random" goes with whatever is stored."""
    values = []
    for name in ("one.db", "two.db"):
        with Index(tmp_path / name, scheme(), text=text()) as index:
            index.add("a", TEXT)
            values.append(index.connection.execute("SELECT value FROM neardup_fingerprint").get)
            assert index.connection.execute("SELECT key FROM neardup_search('neardup', ?)", (TEXT,)).get == "a"
        for again in ({}, {"scheme": scheme()}, {"scheme": scheme(), "text": text()}):
            with Index(tmp_path / name, **again) as index:
                assert [one.key for one in index.query(TEXT)] == ["a"]
    assert values[0] != values[1]


# ---- the command line ----------------------------------------------------------------------------------------------------

MEASURED = """
import json, sys
from neardup_db.cli import main
before = peak()
for words in json.loads(sys.argv[1]):
    try:
        main(words)
    except SystemExit as end:
        print(f"ended {end.code}", file=sys.stderr)
print(peak() - before, file=sys.stderr)
"""


def measured(*commands: tuple[object, ...]) -> list[tuple[int, str]]:
    """Exit code and messages of commands, one after another in a process that takes at most 50 MB more than it begins with."""
    words = json.dumps([[str(word) for word in command] for command in commands])
    done = subprocess.run([*interpreter(), "-c", PEAK + MEASURED, words], capture_output=True, text=True)
    *told, taken = re.split(r"ended (\d+)\n", done.stderr)
    assert int(taken) < 50_000_000, done.stderr
    return [(int(code), messages) for messages, code in zip(told[::2], told[1::2], strict=True)]


def run(*arguments: object) -> tuple[int, str]:
    """Exit code and messages of the command line."""
    result = CliRunner().invoke(main, [*map(str, arguments)])
    return result.exit_code, result.stderr


GOOD = b'{"id": "a", "text": "the first text of them all"}\n'
LAST = b'{"id": "z", "text": "the last text of them all, which is another"}\n'


def bomb(path: Path, head: bytes, filling: bytes, size: int, tail: bytes) -> Path:
    """A packed file that is small and becomes large: head, so many bytes of filling, tail."""
    pack = gzip.compress if path.suffix == ".gz" else zstandard.compress
    piece = filling * (1_000_000 // len(filling))
    path.write_bytes(pack(head) + pack(piece) * (size // len(piece)) + pack(tail))
    return path


BROKEN = {
    # head, filling, tail, how the file is called, and the line of the record that is too long
    "gzip": (GOOD + b'{"id": "b", "text": "', b"x", b'"}\n' + LAST, "in.jsonl.gz", 2),
    "zstd": (GOOD + b'{"id": "b", "text": "', b"x", b'"}\n' + LAST, "in.jsonl.zst", 2),
    "brackets": (GOOD, b"[", b"\n" + LAST, "in.jsonl.gz", 2),
    "CSV field": (b"id,text\na,the first text\nb,", b"x", b"\nz,the last text of all\n", "in.csv.gz", 3),
    "CSV quote": (b'id,text\na,the first text\nb,"', b"x" * 999 + b"\n", b'"\nz,the last text of all\n', "in.csv.gz", 3),
    "CSV commas": (b"id,text\na,the first text\n", b",", b"\nz,the last text of all\n", "in.csv.gz", 3),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_bomb_is_a_line_too_long(tmp_path: Path, name: str, long_run: bool) -> None:
    """A record of 1 GB (60 MB in CI) in a small packed file: the message names its line and the limit, within 50 MB of memory;
    by default nothing goes on and the exit code is 2, with --on-error skip what can be read is."""
    head, filling, tail, file, line = BROKEN[name]
    source = bomb(tmp_path / file, head, filling, 1_000_000_000 if long_run else 60_000_000, tail)
    assert source.stat().st_size < 10_000_000
    index, output = tmp_path / "index.db", tmp_path / f"out{Path(file.removesuffix('.gz').removesuffix('.zst')).suffix}"
    add = ("add", index, source, "--max-record-mb", 2)
    dedup = [("dedup", source, "-o", output, "--max-record-mb", 2)] if name in ("gzip", "CSV field") else []
    refused, *others, skipped = measured(add, *dedup, (*add, "--on-error", "skip", "--if-exists", "ignore"))
    message = f"{file}, line {line}: longer than 2,000,000 bytes; raise the limit with --max-record-mb"
    assert all(code == 2 and message in told for code, told in (refused, *others)), (refused, others)
    assert not list(tmp_path.glob("out*"))
    assert skipped[0] == 0 and "skipped" in skipped[1] and f"line {line}: longer than" in skipped[1], skipped
    with Index(index) as made:
        assert list(made)[0] == "a" and (list(made)[-1] == "z" or name == "CSV quote")


def test_a_zstd_frame_that_asks_for_a_huge_window_is_refused(tmp_path: Path) -> None:
    """What a frame's head says it needs is not taken on trust."""
    parameters = zstandard.ZstdCompressionParameters(window_log=30, enable_ldm=True)
    source = tmp_path / "in.jsonl.zst"
    with zstandard.ZstdCompressor(compression_params=parameters).stream_writer(open(source, "wb")) as file:
        file.write(GOOD)
    [(code, told)] = measured(("add", tmp_path / "index.db", source))
    assert code == 2 and "in.jsonl.zst: it was packed with a window of more than 128 MB (zstd --long)" in told, told


def test_a_zst_file_that_is_cut_short_is_an_error(tmp_path: Path) -> None:
    """Wherever a frame ends early, also between two blocks or after a whole frame, no record of the file counts."""
    packed = zstandard.ZstdCompressor(write_checksum=False).compress(GOOD * 1_000)
    index, source = tmp_path / "index.db", tmp_path / "in.jsonl.zst"
    for whole, part in ((b"", packed[:12]), (b"", packed[: len(packed) // 2]), (b"", packed[:-1]), (packed, packed[:20])):
        source.write_bytes(whole + part)
        code, told = run("add", index, source, "--if-exists", "ignore", "--one-transaction")
        assert code == 2 and "in.jsonl.zst: the packed data ends early" in told and not index.exists(), told
        code, told = run("dedup", source, "-o", tmp_path / "out.jsonl")
        assert code == 2 and "in.jsonl.zst: the packed data ends early" in told and not (tmp_path / "out.jsonl").exists(), told


def test_all_frames_of_a_zst_file_are_read(tmp_path: Path) -> None:
    """Frames one after another, empty ones and those that zstd says to skip give the same records as one frame."""
    lines = [json.dumps({"id": str(n), "text": f"text number {n}"}).encode() + b"\n" for n in range(9)]
    skipped = bytes.fromhex("502a4d18") + (3).to_bytes(4, "little") + b"abc"
    pieces = [zstandard.compress(b"".join(lines[:4])), skipped, zstandard.compress(b""), zstandard.compress(b"".join(lines[4:]))]
    (tmp_path / "in.jsonl.zst").write_bytes(b"".join(pieces))
    code, told = run("add", tmp_path / "index.db", tmp_path / "in.jsonl.zst")
    with Index(tmp_path / "index.db") as made:
        assert code == 0 and list(made) == [str(n) for n in range(9)], told


LINES = {
    "half an object": b'{"id": "b", "text": "x',
    "a list": b'["b"]',
    "a number of a million digits": b'{"id": "b", "text": "x", "n": ' + b"9" * 1_000_000 + b"}",
    "100,000 brackets": b"[" * 100_000,
    "no text": b'{"id": "b"}',
    "text that is none": b'{"id": "b", "text": {"a": 1}}',
    "a key that is none": b'{"id": [], "text": "x"}',
    "NULs": b"\0" * 1000,
}


def test_a_broken_line_is_named_and_left_out_where_told(tmp_path: Path) -> None:
    """Exit code 2 with file and line; with --on-error skip the lines around it are added, and a note says what was left out."""
    source, path = tmp_path / "in.jsonl", tmp_path / "index.db"
    for name, line in LINES.items():
        source.write_bytes(GOOD + line + b"\n" + LAST)
        code, told = run("add", path, source)
        assert code == 2 and "in.jsonl, line 2: " in told and len(told) < 500, f"{name}: {told}"
        code, told = run("add", path, source, "--on-error", "skip", "--if-exists", "ignore")
        assert code == 0 and "1 record skipped" in told and "line 2: " in told, f"{name}: {told}"
        with Index(path) as index:
            assert list(index) == ["a", "z"], name
        path.unlink()


def test_bytes_that_are_no_text_are_read_all_the_same(tmp_path: Path) -> None:
    """Invalid UTF-8, NULs and lone surrogates in records: U+FFFD where a file cannot hold them, and a note."""
    source = tmp_path / "in.jsonl"
    source.write_bytes(b'{"id": "a\\u0000\\ud800", "text": "caf\xe9 \\ud83d \\u0000"}\n')
    code, told = run("add", tmp_path / "index.db", source, "--store-text")
    assert code == 0 and "1 line with invalid UTF-8" in told
    with Index(tmp_path / "index.db") as index:
        assert list(index) == ["a\0\ufffd"]
        assert index.get("a\0\ufffd").text == "caf\ufffd \ufffd \0"
        assert json.loads(json.dumps(list(index))) == list(index) and index.check().ok


# ---- numbers -------------------------------------------------------------------------------------------------------------


def test_numbers_of_numpy_are_numbers(codes: Index) -> None:
    """A whole number of numpy's is taken as one, everywhere, and what a failed call changed is not half of it."""
    three = np.int64(3)
    for number in range(5):
        codes.add_code(number, number, limit=three)
    with codes.transaction():
        codes.add_code("before", 7)
        assert len(codes.add_code("before", 7, if_exists="replace", limit=three)) == 3
        assert len(codes.query_code(0, limit=three)) == len(codes.matches(0, limit=three)) == 3
    assert "before" in codes and len(codes.clusters(min_size=three)) == 1
    assert codes.keep_newest(three) == 3 and len(codes) == 3
