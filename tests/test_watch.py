"""`neardup watch`: what is new in a stream goes on at once, and what was passed on is stored."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from interpreter import interpreter

from neardup_db import BinaryCode, Index, MinHash
from neardup_db.cli import main
from neardup_db.cli.watch import Arrivals

ENDING = ("SIGTERM", "SIGINT", "SIGHUP")
HEARS = f"import signal; [signal.signal(getattr(signal, one), signal.SIG_DFL) for one in {ENDING} if hasattr(signal, one)]"
"""What a shell in the background has its programs ignore is heard again."""

FOX = "the quick brown fox jumps over the lazy dog and runs away into the dark wood"
NEAR = FOX + " again"
OTHER = "an entirely different sentence about databases and their transactions"
PATIENCE_S = 120
"""Seconds after which a stream that gives nothing is taken for one that waits."""
TELLS = f"import faulthandler; faulthandler.dump_traceback_later({PATIENCE_S - 10})"
"""What a program that is about to be ended as one that waits is doing, on its standard error."""
COMMAND = ["-c", f"{TELLS}; {HEARS}; from neardup_db.cli import main; main()", "watch"]


class Stream:
    """The program, with its standard input and output as pipes."""

    def __init__(self, folder: Path, *arguments: object, python: Sequence[str]) -> None:
        environment = {**os.environ, "TMPDIR": str(folder), "SQLITE_TMPDIR": str(folder)}
        self.program = subprocess.Popen(
            [*python, *COMMAND, *map(str, arguments)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            cwd=folder, env=environment, bufsize=0,
        )  # fmt: skip
        self.arrived = b""

    def write(self, text: str | bytes) -> None:
        """Write to the program."""
        assert self.program.stdin is not None
        self.program.stdin.write(text.encode() if isinstance(text, str) else text)

    def line(self, stream: Any = None) -> str:
        """The next line that it writes; fails where none comes."""
        stream = stream or self.program.stdout
        line, timer = b"", threading.Timer(PATIENCE_S, self.program.kill)
        timer.daemon = True
        timer.start()
        while not line.endswith(b"\n"):
            more = os.read(stream.fileno(), 1)
            assert more, f"the end comes after {line!r}: {self.program.stderr.read()!r}"
            line += more
        timer.cancel()
        return line.decode()

    def end(self) -> tuple[str, str, int]:
        """The end of its input; the rest of what it writes, on both streams, and its exit code."""
        out, err = self.program.communicate(timeout=PATIENCE_S)
        return out.decode(), err.decode(), self.program.returncode


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Any]:
    """Starts the command; what is left of it is killed."""
    made: list[Stream] = []

    def start(*arguments: object, python: Sequence[str] = ()) -> Stream:
        made.append(Stream(tmp_path, *arguments, python=python or interpreter()))
        return made[-1]

    yield start
    for stream in made:
        stream.program.kill()
        stream.program.communicate()


def watched(folder: Path, text: str | bytes, *arguments: object) -> tuple[str, str, int]:
    """What the command makes of a whole input."""
    stream = Stream(folder, *arguments, python=interpreter())
    out, err = stream.program.communicate(text.encode() if isinstance(text, str) else text, timeout=PATIENCE_S)
    return out.decode(), err.decode(), stream.program.returncode


def test_each_line_goes_on_at_once(started: Any, tmp_path: Path) -> None:
    """A new line comes out while the input is open and nothing follows it; a near-duplicate does not; nothing stays behind."""
    stream = started("--window", "24h")
    for text in (FOX, OTHER):
        stream.write(f"{text}\n{NEAR}\n")
        assert stream.line() == f"{text}\n"
    stream.write(b"half a line of some words")
    out, err, code = stream.end()
    assert (out, code) == ("half a line of some words\n", 0)
    assert err.startswith("neardup: 5 records in ") and err.endswith(" s: 3 new, 2 near-duplicates\n")
    assert list(tmp_path.iterdir()) == []


def test_json_lines_go_on_byte_for_byte(tmp_path: Path) -> None:
    """A first line with a brace makes it JSON lines; spaces and the order of fields stay, and a line without an end gets one."""
    lines = [f'{{"id":"a",  "text": "{FOX}", "x": [1,2]}}\r\n', f'{{"text":"{NEAR}"}}\n', f'{{"text":"{OTHER}","id":7}}']
    assert watched(tmp_path, "".join(lines), "--window", "10")[0] == lines[0] + lines[2] + "\n"


def test_a_header_goes_on(tmp_path: Path) -> None:
    """The header of CSV comes once, before the first record, and alone where there is none."""
    for rows in ("", f"a,{FOX}\nb,{NEAR}\n"):
        out, _, _ = watched(tmp_path, f"id,text\n{rows}", "--window", "1h", "--format", "csv")
        assert out == "id,text\n" + rows.split("b,")[0]


def test_the_index_is_there_for_the_next_run(tmp_path: Path) -> None:
    """Another run knows what the run before passed on, and needs no --window; records without an id have keys of their own."""
    first = watched(tmp_path, f"{FOX}\n{OTHER}\n", "seen.db", "--window", "5")
    again = watched(tmp_path, f"{NEAR}\nsome new words that nobody has said\n{OTHER}\n", "seen.db", "--source", "b")
    assert (first[0], again[0]) == (f"{FOX}\n{OTHER}\n", "some new words that nobody has said\n")
    with Index(tmp_path / "seen.db") as index:
        second, third = map(str, list(index)[1:])
        assert index.window == 5 and len(index) == 3 and re.fullmatch(r"b \S+:2", third) and second.endswith(":2")
        assert [index.get(key).times_seen for key in index] == [2, 2, 1] and index.check().ok


def test_a_window_of_the_last_records(tmp_path: Path) -> None:
    """What has fallen out of the window is new again."""
    texts = [f"text number{n} speaks of thing{n} in its own words" for n in range(4)]
    told = [*texts[:3], texts[0], texts[3], texts[0], texts[1]]
    out, err, _ = watched(tmp_path, "".join(f"{text}\n" for text in told), "--window", "3", "--json")
    assert out.split("\n")[:-1] == [*texts[:3], texts[3], texts[0], texts[1]]
    assert {name: json.loads(err)[name] for name in ("records", "passed_on", "duplicates")} == {
        "records": 7, "passed_on": 6, "duplicates": 1,
    }  # fmt: skip


def test_wrong_lines_are_reported_and_left_out(started: Any) -> None:
    """A line that is no record is named at once, with its number and the reason, and the stream goes on."""
    stream = started("--window", "1d", "--format", "jsonl", "--max-record-mb", "0.001", "--json")
    for wrong, reason in (
        (b"no json\n", "not JSON"),
        (b'{"id": 5}\n', "no field 'text'"),
        (b'{"text": 5}\n', "must be text"),
        (b'{"text": "' + b"x" * 5000 + b'"}\n', "longer than 1,000 bytes"),
    ):
        stream.write(wrong)
        line = stream.line(stream.program.stderr)
        assert line.startswith("neardup: standard input, line ") and reason in line and line.endswith("; skipped\n")
    stream.write(f'\n{{"text": "{FOX}"}}\n')
    assert json.loads(stream.line())["text"] == FOX
    out, err, code = stream.end()
    summary = json.loads(err)
    assert (out, code, summary["skipped"], summary["passed_on"], summary["records"]) == ("", 0, 4, 1, 1)
    assert [problem["line"] for problem in summary["problems"]] == [1, 2, 3, 4]


def test_a_record_with_a_known_id(tmp_path: Path) -> None:
    """A record whose id is in the window is a duplicate, whatever its text."""
    lines = [json.dumps({"id": "a", "text": text}) for text in (FOX, OTHER)]
    out, err, _ = watched(tmp_path, "\n".join(lines), "--window", "1h", "--mark")
    first, second = map(json.loads, out.split("\n")[:-1])
    assert (first["duplicate_of"], second["duplicate_of"], second["similarity"]) == (None, "a", None)
    assert "1 new, 0 near-duplicates, 1 of a known id" in err


def test_marked_records(tmp_path: Path) -> None:
    """--mark passes all records on, each with the id of what it is like and the similarity, or with null."""
    table = f'id,text\r\na,"{FOX}"\r\nb,"{NEAR}"\r\nc,{OTHER}\r\n'
    out, _, _ = watched(tmp_path, table, "--window", "1h", "--mark", "--format", "csv")
    rows = out.split("\r\n")
    assert rows[0] == "id,text,duplicate_of,similarity" and rows[1] == f'a,"{FOX}",,' and rows[3] == f"c,{OTHER},,"
    assert rows[2].startswith(f'b,"{NEAR}",a,0.9')
    taken = json.dumps({"text": FOX, "similarity": 1})
    out, err, _ = watched(tmp_path, f"{taken}\n", "--window", "1h", "--mark")
    assert out == "" and "there is a field 'similarity' already" in err
    out, err, code = watched(tmp_path, f"{FOX}\n", "--window", "1h", "--mark")
    assert (out, code) == ("", 2) and "leave out --mark" in err


@pytest.mark.posix("signals")
@pytest.mark.parametrize("name", ENDING)
def test_a_signal_ends_it_in_order(started: Any, tmp_path: Path, name: str) -> None:
    """After a signal the complete lines that have arrived go on, the summary is told, and all that was passed on is stored."""
    stream = started("seen.db", "--window", "1h", python=[sys.executable])
    stream.write(f"{FOX}\n")
    assert stream.line() == f"{FOX}\n"
    stream.write(b"the beginning of a line")
    stream.program.send_signal(getattr(signal, name))
    out, err, code = stream.end()
    assert (out, code) == ("", 0) and ": 1 new, 0 near-duplicates\n" in err
    with Index(tmp_path / "seen.db") as index:
        assert len(index.query(FOX)) == 1 and index.check().ok


def test_a_signal_after_the_end_of_the_input_counts() -> None:
    """The beginning of a line is left out even if the end of the input has arrived before the signal."""
    reading, writing = os.pipe()
    os.write(writing, b"whole\nthe beginning of a line")
    os.close(writing)
    with closing(Arrivals(reading, lambda: None)) as arrivals:
        assert arrivals.readline(100) == b"whole\n"
        arrivals.stop()
        assert arrivals.readline(100) == b""
    for thread in threading.enumerate():
        if thread.name == "neardup-standard-input":
            thread.join()  # else it may read from the next pipe with this number
    os.close(reading)


def test_what_was_passed_on_is_stored_whatever_happens(started: Any, tmp_path: Path) -> None:
    """A program that is killed has stored every record that it passed on, and the next run goes on after it."""
    stream = started("seen.db", "--window", "100000", python=[sys.executable])
    passed = []
    for number in range(60):
        stream.write(f"record{number} holds word{number} and thing{number} of its own\n" * 2)
        passed.append(stream.line())
    stream.program.kill()
    stream.end()
    assert len(set(passed)) == 60
    with Index(tmp_path / "seen.db") as index:
        assert len(index) >= 60 and all(index.query(text) for text in passed) and index.check().ok
    assert watched(tmp_path, "".join(passed), "seen.db")[0] == ""


def test_many_lines_at_once(tmp_path: Path) -> None:
    """What arrives together is stored together, and the answer is that of one after the other."""
    texts = [f"text{n % 700} of some{n % 700} words{n % 700} which nobody has{n % 700}" for n in range(1000)]
    out, _, _ = watched(tmp_path, "".join(f"{text}\n" for text in texts), "seen.db", "--window", "1h")
    assert out == "".join(f"{text}\n" for text in texts[:700])
    with Index(tmp_path / "seen.db") as index:
        assert len(index) == 700 and sum(index.get(key).times_seen for key in index) == 1000


def test_a_reader_that_leaves_ends_it(started: Any, tmp_path: Path) -> None:
    """When nobody reads its output, the command ends without an error, and the index is sound."""
    stream = started("seen.db", "--window", "1h")
    stream.write(f"{FOX}\n")
    assert stream.line() == f"{FOX}\n"
    stream.program.stdout.close()
    stream.program.stdout = None
    stream.write(f"{OTHER}\n")
    assert stream.program.wait(PATIENCE_S) == 0
    with Index(tmp_path / "seen.db") as index:
        assert FOX and len(index) == 2 and index.check().ok


def test_what_it_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be is one sentence with the remedy, exit code 2, and no new file."""
    Index(tmp_path / "old.db", MinHash(), window=7).close()
    Index(tmp_path / "codes.db", BinaryCode(bits=64), window=7).close()
    monkeypatch.chdir(tmp_path)
    refusals: list[tuple[list[str], str]] = [
        ([], "A new index needs --window"),
        (["new.db"], "A new index needs --window"),
        (["--window", "soon"], "--window 'soon': write a time, as 24h or 7d, or a number of documents"),
        (["--window", "0"], "--window 0: give an integer from 1"),
        (["old.db", "--window", "2h"], "--window 2h, the file has 7, and neardup window changes that. Leave them out"),
        (["old.db", "--window", "0s"], "--window 0s: give a time of at least 0.001s, or a number of documents"),
        (["codes.db"], "the index is one of codes: watch one of texts"),
        (["old.db", "--threshold", "0.5"], "--threshold 0.5"),
    ]
    for arguments, named in refusals:
        told = CliRunner().invoke(main, ["watch", *arguments], input=FOX)
        assert (told.stdout, told.exit_code) == ("", 2) and told.stderr.startswith("neardup: ") and told.stderr.count("\n") == 1
        assert named in told.stderr and not (tmp_path / "new.db").exists(), told.stderr
