"""Terminal sessions with hostile streams, arguments and inputs: none ends in a trace, each says what is wrong and what to do."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from interpreter import interpreter

from neardup_db import Index, MinHash
from neardup_db.cli import main

FOX = "the quick brown fox jumps over the lazy dog and runs away into the dark wood"
STYLED = "red\x1b[31m\u202e"
"""A key that chooses a colour and turns the line round."""

BIG = "99999999999999999999"
BYTE = "caf\udce9"
"""An argument of bytes that are not UTF-8, as Python has it."""


def table(folder: Path, name: str, ids: Any) -> None:
    texts = ["one two three four five", "one two three four five!", FOX][: len(ids)]
    rows = pa.table({"id": ids, "text": texts})
    with pa.OSFile(str(folder / name), "wb") as file, pa.ipc.new_file(file, rows.schema) as writer:
        writer.write(rows)


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with inputs and an index."""
    made = tmp_path_factory.mktemp("given")
    records = [{"id": "a", "text": FOX}, {"id": "b", "text": FOX + " again"}]
    written = {
        "r.jsonl": "".join(json.dumps(record) + "\n" for record in records).encode(),
        "lone.jsonl": json.dumps({"id": "s", "text": FOX, "note": "half \ud800"}).encode() + b"\n",
        "big.jsonl": b'{"id": %s, "text": "one two three"}\n' % BIG.encode(),
        "digits.jsonl": b'{"id": "n", "text": "one two three", "n": %s}\n' % (b"9" * 5000),
        "deep.jsonl": b'{"id": "n", "text": "one two three", "n": %s}\n' % (b"[" * 100_000),
        "bom.jsonl": b"\xef\xbb\xbf",
        "bom.csv": b"\xef\xbb\xbf\r\n",
        "keys.txt": b"a\ncaf\xe9\n",
        "picture": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
        "noise": bytes(range(256)) * 40,
        "empty_ids.csv": f"id,text\n,{FOX}\n,{FOX} again\n".encode(),
    }
    for name, content in written.items():
        (made / name).write_bytes(content)
    table(made, "intervals.arrow", pa.array([(1, 2, 3), (4, 5, 6)], pa.month_day_nano_interval()))
    table(made, "zones.arrow", pa.array([1, 2], pa.timestamp("us", tz="Nowhere/Land")))
    table(made, "lists.arrow", pa.array([[1], [2]]))
    with Index(made / "i.db", MinHash(threshold=0.5, exact=True), store_text=True) as index:
        index.add_many([("a", FOX), (STYLED, FOX), ("\u00e9", FOX)])
    return made


@pytest.fixture
def folder(given: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, which is the current folder."""
    monkeypatch.chdir(tmp_path)
    return shutil.copytree(given, tmp_path, dirs_exist_ok=True)


# ---- arguments and inputs --------------------------------------------------------------------------------------------------

NOT_UTF8 = r"'caf\xe9' is not UTF-8: convert it"
IS_EMPTY = "is empty: give the name of a file"

SESSIONS: list[tuple[str, str, int, str]] = [
    # arguments that are not UTF-8: names of files may be, others are refused
    (f"get i.db {BYTE}", "", 2, f"KEY {NOT_UTF8}"),
    (f"get i.db a --group {BYTE}", "", 2, f"--group {NOT_UTF8}"),
    (f"query i.db {BYTE}", "", 2, f"TEXT {NOT_UTF8}"),
    (f"pairs i.db --group {BYTE}", "", 2, f"--group {NOT_UTF8}"),
    (f"explain i.db a {BYTE}", "", 2, f"TEXT {NOT_UTF8}"),
    (f"dismiss i.db a {BYTE}", "", 2, f"KEY {NOT_UTF8}"),
    (f"sql i.db {BYTE}", "", 2, f"STATEMENT {NOT_UTF8}"),
    (f"serve i.db --host {BYTE}", "", 2, f"--host {NOT_UTF8}"),
    (f"get {BYTE}.db a", "", 2, r"caf\xe9.db: no such file"),
    (f"backup i.db {BYTE}.db", "", 2, r"the path 'caf\udce9.db' is not UTF-8, which SQLite requires: rename the file"),
    ("get i.db --file keys.txt", "", 2, "which is not UTF-8: convert it with iconv"),
    # numbers beyond 64 bits
    (f"get i.db {BIG} --key-type int", "", 2, f"{BIG} does not fit 64 bits: give a smaller number"),
    (f"delete i.db {BIG} --key-type int", "", 2, "does not fit 64 bits"),
    (f"pairs i.db --limit {BIG}", "", 2, f"'--limit': {BIG} is not in the range"),
    (f"clusters i.db --limit {BIG}", "", 2, f"'--limit': {BIG} is not in the range"),
    (f"clusters i.db --members {BIG}", "", 2, f"'--members': {BIG} is not in the range"),
    (f"add n.db r.jsonl --commit-every {BIG}", "", 2, f"'--commit-every': {BIG} is not in the range"),
    (f"window i.db {BIG}", "", 2, "give an integer from 1 to 2^63 - 1"),
    ("add n.db big.jsonl", "", 0, "1 added"),
    ("add n.db big.jsonl --key-type int", "", 2, "outside the 64-bit integers; use --key-type text"),
    ("add n.db digits.jsonl", "", 2, "digits.jsonl, line 1: contains a number with thousands of digits: write it as text"),
    # empty arguments, as of variables that are not set
    ("add  r.jsonl", "", 2, f"INDEX {IS_EMPTY}"),
    ("add n.db ", "", 2, f"IN {IS_EMPTY}"),
    ("dedup r.jsonl -o ", "", 2, f"--output {IS_EMPTY}"),
    ("backup i.db ", "", 2, f"FILE {IS_EMPTY}"),
    ("merge n.db ", "", 2, f"FROM {IS_EMPTY}"),
    ("serve i.db --host ", "", 2, "--host is empty: give a value, or leave it out"),
    ("add n.db r.jsonl --id-field ", "", 2, "--id-field is empty"),
    ("get i.db ", "", 1, "no document has the key ''"),
    # texts that are not what they seem
    ("sql i.db SELECT;CAST(x'ff';AS;TEXT)", "", 2, r"(b'\xff'): ask for hex(value), or CAST(value AS BLOB)"),
    ("add n.db lone.jsonl --metadata", "", 0, "1 added"),
    ("dedup lone.jsonl -o o.jsonl --mark", "", 0, "1 without a mark"),
    ("add n.db deep.jsonl", "", 2, "deep.jsonl, line 1: not JSON"),
    ("add n.db bom.jsonl", "", 0, "0 records"),
    ("dedup bom.csv empty_ids.csv -o o.csv", "", 0, "1 kept"),
    ("dedup r.jsonl bom.jsonl -o o.jsonl", "", 0, "1 kept"),
    ("watch --window 9 --format jsonl", "picture", 2, "standard input: this is a PNG picture, not text"),
    ("watch --window 9", "noise", 2, "standard input: this is not text"),
    ("watch --window 9 --format parquet", "r.jsonl", 2, "parquet cannot be read as a stream"),
    ("watch --window 9", "r.jsonl", 0, "2 records"),
    # ids that have no text
    ("add n.db intervals.arrow", "", 2, "the column 'id' is month_day_nano_interval, not strings or integers"),
    ("dedup intervals.arrow -o o.arrow --pairs p.jsonl --json", "", 0, '"kept": 1'),
    ("dedup zones.arrow -o o.arrow --mark --json", "", 0, '"kept": 1'),
    ("dedup lists.arrow -o o.arrow --id-field id", "", 2, "the column 'id' is list<item: int64>, not strings or integers"),
]  # fmt: skip
"""A command, whose words stand between single spaces (; is a space within one), the file that is its standard input, its exit
code and what it says."""


def test_a_session_ends_in_a_sentence(given: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The exit code, and one sentence that names the value and the remedy."""
    for number, (command, stdin, code, sentence) in enumerate(SESSIONS):
        words = [word.replace(";", " ") for word in command.split(" ")]
        monkeypatch.chdir(shutil.copytree(given, tmp_path / str(number)))
        if stdin:  # whose descriptor is read
            with open(stdin, "rb") as file:
                done = subprocess.run([*interpreter(), *PROGRAM[1:], *words], stdin=file, capture_output=True, text=True)
            output, exit_code = done.stdout + done.stderr, done.returncode
        else:
            result = CliRunner().invoke(main, words)
            output, exit_code = result.output, result.exit_code
        assert (exit_code, sentence in output) == (code, True), f"{ascii(command)}\n{output}"
        assert "Traceback" not in output and "unexpected" not in output, ascii(command)
        if code == 2:
            assert output.startswith("neardup: ") and output.count("\n") == 1, ascii(command)


# ---- streams ---------------------------------------------------------------------------------------------------------------

PROGRAM = [sys.executable, "-c", "from neardup_db.cli import main; main()"]

STDIN = "standard input is closed: redirect it from a file"
STDOUT = "standard output is closed: redirect it to a file"
FULL = "standard output: no room is left: make room on its disk, or redirect it to another one"

STREAMS: list[tuple[str, int, str]] = [
    ("neardup stats i.db >&-", 2, STDOUT),
    ("neardup pairs nosuch.db >&- 2>&-", 2, ""),
    ("neardup pairs i.db >/dev/full", 2, FULL),
    ("neardup tune r.jsonl --html /dev/full", 2, "/dev/full: no room is left: make room on its disk, or name an output on"),
    ("neardup dedup r.jsonl -o /dev/full", 2, "/dev/full: no room is left"),
    ("neardup stats i.db 2>/dev/full", 0, "documents"),
    ("mkdir x; cd x; rmdir ../x; neardup stats ../i.db", 2, "the current folder is gone: change into another one"),
    ("neardup dedup /proc/self/mem -o - --format lines", 2, "/proc/self/mem: Input/output error"),
    ("neardup dedup r.jsonl -o - | true", 0, ""),
    ("neardup clusters i.db", 0, r"red\u001b[31m\u202e"),
    ("PYTHONIOENCODING=ascii:surrogateescape neardup get i.db \u00e9", 0, r'"key": "\u00e9"'),
    ("PYTHONIOENCODING=latin-1 neardup sql i.db 'SELECT char(1089)'", 0, r"\u0441"),
]
"""A line of a shell, the exit code and what it says."""


@pytest.mark.posix("redirections of a shell")
@pytest.mark.parametrize(("line", "code", "sentence"), STREAMS, ids=[ascii(row[0]) for row in STREAMS])
def test_a_closed_or_full_stream_is_named(folder: Path, line: str, code: int, sentence: str) -> None:
    """Whatever becomes of the streams, and whichever encoding they have, the program ends with a sentence, and no key chooses a
    colour."""
    at_start = ("&-", ">/dev/full", "PYTHONIOENCODING")  # what Python looks at as it starts
    python = PROGRAM[:1] if any(what in line for what in at_start) else interpreter()
    program = " ".join(f"'{word}'" for word in (*python, *PROGRAM[1:]))
    script = f'set -o pipefail; neardup() {{ {program} "$@"; }}; {line}'
    done = subprocess.run(["bash", "-c", script], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    told = (done.stdout + done.stderr).decode("utf-8", "replace")
    assert (done.returncode, sentence in told) == (code, True), told
    assert "Traceback" not in told and "Exception ignored" not in told and "\x1b" not in told


EACH = """
import sys
from neardup_db.cli import main
for command in sys.argv[1:]:
    try:
        main(command.split())
    except SystemExit as ended:
        print("ended with", ended.code, flush=True)
"""
"""Runs several commands in one process."""


@pytest.mark.posix("redirections of a shell")
def test_a_closed_input_is_named_where_it_is_needed(folder: Path) -> None:
    """Each command that reads it ends with a sentence; others do not miss it."""
    commands = ["add n.db - --format jsonl", "get i.db --file -", "watch --window 9", "stats i.db"]
    script = ["bash", "-c", 'exec "$@" <&-', "-", sys.executable, "-c", EACH, *commands]
    done = subprocess.run(script, capture_output=True, text=True, check=True)
    assert [line for line in done.stdout.splitlines() if "ended" in line] == ["ended with 2"] * 3 + ["ended with 0"]
    assert done.stderr.count(STDIN) == 3 == done.stderr.count("\n") and "documents" in done.stdout


def test_an_encoding_that_lacks_letters_hides_nothing(folder: Path) -> None:
    """A key that the encoding of standard output lacks is an escape, in JSON one of JSON's; records are read whatever it is."""
    commands = ["clusters i.db", "add n.db - --format lines", "get i.db \u00e9"]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    with open("r.jsonl", "rb") as file:
        done = subprocess.run([*PROGRAM[:2], EACH, *commands], env=environment, stdin=file, capture_output=True, check=True)
    *told, key, ended = done.stdout.decode("utf-8").splitlines()
    assert json.loads(key)["key"] == "\u00e9" and [ended, *told].count("ended with 0") == 3
    assert r"red\u001b[31m\u202e" in (output := "".join(told)) and "2 added" in output


def test_an_error_that_nobody_thought_of_is_one_sentence(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It names the error, has exit code 2, and says how to see more."""

    def stats(*_: object) -> None:
        raise KeyError("nobody's")

    monkeypatch.setattr(Index, "stats", stats)
    result = CliRunner().invoke(main, ["stats", "i.db"])
    assert result.exit_code == 2 and result.stderr.count("\n") == 1
    assert 'unexpected KeyError: "nobody\'s"; please report it' in result.stderr and "PYTHONDEVMODE=1" in result.stderr


def test_marks_name_rows_without_an_id_by_their_line(folder: Path) -> None:
    """In CSV an empty id is none: who stays in the place of another row is named by file and line."""
    assert CliRunner().invoke(main, ["dedup", "empty_ids.csv", "-o", "o.csv", "--mark"]).exit_code == 0
    marked = (folder / "o.csv").read_text().splitlines()
    assert [line.split(",")[3] for line in marked[1:]] == ["", "empty_ids.csv:2"]


@pytest.mark.parametrize("kind", ["csv", "arrow"])
def test_keep_compares_decimals_exactly(folder: Path, kind: str) -> None:
    """Of two that are one number as floats the larger stays."""
    values = ["1234567890123456789.1", "1234567890123456789.3", "1234567890123456789.2"]
    texts = [FOX, FOX + " again", FOX + " and again"]
    if kind == "csv":
        (folder / "d.csv").write_text("id,text,n\n" + "".join(f"{i},{texts[i]},{values[i]}\n" for i in range(3)))
    else:
        rows = pa.table({"id": ["0", "1", "2"], "text": texts, "n": pa.array(map(Decimal, values), pa.decimal128(20, 1))})
        with pa.OSFile("d.arrow", "wb") as file, pa.ipc.new_file(file, rows.schema) as writer:
            writer.write(rows)
    for keep, first in (("by:n", "1"), ("by:-n", "0")):
        assert CliRunner().invoke(main, ["dedup", f"d.{kind}", "-o", f"o.{kind}", "--force", "--keep", keep]).exit_code == 0
        kept = (
            pa.ipc.open_file("o.arrow").read_all()["id"].to_pylist()
            if kind == "arrow"
            else [line.split(",")[0] for line in (folder / "o.csv").read_text().splitlines()[1:]]
        )
        assert kept == [first]
