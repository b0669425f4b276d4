"""The command line: every command, its exit codes, its JSON, its errors."""

from __future__ import annotations

import ast
import io
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from commands import FOX, good, lines, refused, run
from interpreter import interpreter

import neardup_db
from neardup_db import Index
from neardup_db.cli import main
from neardup_db.cli.app import load
from neardup_db.cli.output import GuardedStream
from neardup_db.cli.wording import in_command_terms

ROOT = Path(__file__).parent.parent


# ---- the program ---------------------------------------------------------------------------------------------------------


PROGRAM = [sys.executable, "-c", "from neardup_db.cli import main; main()"]


def test_the_program_runs_as_a_process(tmp_path: Path) -> None:
    """The installed entry point ends with exit code 2 and one sentence, not a traceback, where there is no index."""
    failed = subprocess.run(
        [*interpreter(), *PROGRAM[1:], "stats", "nowhere.db"], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    told = "neardup: nowhere.db: no such file; create an index with: neardup add nowhere.db RECORDS\n"
    assert (failed.returncode, failed.stdout, failed.stderr) == (2, "", told)
    assert good("--version").startswith("neardup 0.")


def test_a_reader_that_leaves_is_no_error(tmp_path: Path) -> None:
    """`neardup ... | head` ends with exit code 0 and says nothing."""
    source = lines(tmp_path / "in.jsonl", [{"text": f"{number} " * 2000} for number in range(200)])
    assert left_by_its_reader(tmp_path, "dedup", source, "-o", "-") == (0, "")
    assert list(tmp_path.iterdir()) == [source]
    assert left_by_its_reader(tmp_path, "demo") == (0, "")


def test_a_demo_that_nobody_reads_is_kept(tmp_path: Path) -> None:
    """`neardup demo --keep DIR | head` leaves the whole index."""
    assert left_by_its_reader(tmp_path, "demo", "--keep", ".") == (0, "")
    with Index(tmp_path / "demo.db") as index:
        assert len(index) == 362 and index.check().problems == ()


def left_by_its_reader(folder: Path, *arguments: object) -> tuple[int, str]:
    """Exit code and standard error of a command, of whose standard output only the first bytes are read."""
    command = [*interpreter(), *PROGRAM[1:], *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder) as program:
        assert program.stdout is not None and program.stderr is not None
        assert program.stdout.read(1)
        program.stdout.close()
        told = program.stderr.read().decode()
    return program.returncode, told


@pytest.mark.parametrize("printed", ["-o", "--pairs", "--clusters"])
def test_other_outputs_are_written_where_a_reader_leaves(tmp_path: Path, printed: str) -> None:
    """`neardup dedup ... | head` writes its other outputs, as it does without `head`."""
    name = "more than a pipe holds " * 5
    made = [{"id": f"{name}{number}", "text": " ".join(f"w{number // 2}-{word}" for word in range(20))} for number in range(600)]
    lines(tmp_path / "in.jsonl", made)
    for folder in ("all", "left"):
        (tmp_path / folder).mkdir()
    outputs = {"-o": "o.jsonl", "--pairs": "p.csv", "--clusters": "c.jsonl"}
    arguments = [word for option, name in outputs.items() if option != printed for word in (option, name)]
    good("dedup", tmp_path / "in.jsonl", *[f"{tmp_path}/all/{word}" if "." in word else word for word in arguments], printed,
         tmp_path / "all" / "printed.jsonl")  # fmt: skip
    code, told = left_by_its_reader(tmp_path / "left", "dedup", "../in.jsonl", *arguments, printed, "-")
    assert code == 0 and "600 records: 300 kept" in told and "rror" not in told
    for option, name in outputs.items():
        if option != printed:
            written, expected = (tmp_path / folder / name for folder in ("left", "all"))
            assert written.read_bytes() == expected.read_bytes()


def test_every_help_stands_in_the_documentation() -> None:
    """docs/reference/cli.md holds each --help as the program prints it, but for white space; each command has an example."""
    written = " ".join((ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8").split())
    for command in ("", *main.commands):
        arguments = [command, "--help"] if command else ["--help"]
        printed = CliRunner().invoke(main, arguments, prog_name="neardup", terminal_width=80).stdout
        assert " ".join(printed.split()) in written, command
        assert f"  neardup {command}" in printed, command


def test_the_list_of_commands_has_whole_sentences() -> None:
    """No sentence is cut off on a terminal of 80 columns; `neardup` alone prints it, and is no error."""
    assert good() == good("--help")
    assert "..." not in good("--help").partition("Commands:")[2]


def test_bad_usage_is_one_sentence(index: Path) -> None:
    """Unknown commands and options, missing arguments and two sources at once are named, with where to look."""
    assert "No such command 'qery'. Did you mean 'query'? See: " in refused("qery")
    assert "query --help" in refused("query", "--nope", "x")
    assert "Missing argument 'INDEX'" in refused("query")
    assert "Give one of TEXT, --file, --key and --from" in refused("query", index, "text", "--key", "a")


# ---- what a terminal sees ------------------------------------------------------------------------------------------------

WILD = "red\x1b[31m \x9b2J \u202eevil\u2066 \r\x07"
"""Sequences of a terminal, as C0 and as C1, and characters that turn the line round."""


def is_harmless(text: str) -> bool:
    """Whether nothing in a text moves the cursor, rings or turns a line round."""
    return all(line.isprintable() for line in text.replace("\t", " ").split("\n"))


@pytest.mark.posix("control characters in names")
def test_names_of_a_strangers_file_reach_the_terminal_as_escapes(tmp_path: Path) -> None:
    """A file, a folder or a table whose name holds control characters is named in errors without them."""
    path = tmp_path / f"{WILD}.db"
    with sqlite3.connect(path) as connection:
        connection.execute(f'CREATE TABLE "{WILD}" (x)')
    connection.close()
    wrong = lines(tmp_path / f"{WILD}.jsonl", [{"id": 1}])
    (tmp_path / WILD).mkdir()
    for name in ("a", "b.jsonl"):
        (tmp_path / WILD / f"{WILD}{name}").write_text("{}")
    for arguments in (
        ("stats", path),
        ("sql", path, f'SELECT "{WILD}" FROM "{WILD}2"'),
        ("serve", path),
        ("add", tmp_path / "i.db", wrong),
        ("dedup", wrong, "-o", tmp_path / "o.jsonl"),
        ("dedup", tmp_path / WILD, "-o", tmp_path / "out"),
    ):
        told = run(*arguments).output
        assert is_harmless(told) and "\\u001b[31m" in told, told
    result = run("add", tmp_path / "i.db", wrong, "--on-error", "skip")
    assert result.exit_code == 0 and is_harmless(result.output) and "\\u001b[31m" in result.stderr


def test_json_holds_no_control_characters_and_the_same_values(tmp_path: Path) -> None:
    """Unprintable characters are escaped, and decode to themselves: C1 and bidi controls, and characters beyond 16 bits."""
    key = f"{WILD}\U000e0041 \u00e9\u65e5"
    source = lines(tmp_path / "in.jsonl", [{"id": key, "text": FOX}, {"id": "b", "text": FOX}])
    good("add", tmp_path / "i.db", source)
    pairs = tmp_path / "pairs.jsonl"
    good("dedup", source, "-o", tmp_path / "o.jsonl", "--pairs", pairs)
    for told in (good("pairs", tmp_path / "i.db", "--json"), pairs.read_text(encoding="utf-8")):
        assert told.rstrip("\n").isprintable() and "\u00e9\u65e5" in told
        assert key in json.loads(told).values()
    assert is_harmless(good("pairs", tmp_path / "i.db")) and "\\u001b[31m" in good("query", tmp_path / "i.db", FOX)


def test_what_other_code_prints_is_harmless_too() -> None:
    """A shell that prints by itself has its unprintable characters escaped."""
    guarded = io.StringIO()
    GuardedStream(guarded).write("\x1b[1mbold\x1b[0m \x1b[2J \x9b\n")  # type: ignore[arg-type]
    assert guarded.getvalue() == "\\u001b[1mbold\\u001b[0m \\u001b[2J \\u009b\n"


def test_records_on_standard_output_are_data(tmp_path: Path) -> None:
    """dedup -o - copies bytes, whatever they are."""
    data = '{"text": "\x9b2J \u202e words"}\n'.encode()
    (tmp_path / "in.jsonl").write_bytes(data)
    assert run("dedup", tmp_path / "in.jsonl", "-o", "-").stdout_bytes == data


def test_dedup_of_a_stream_runs_in_a_read_only_folder(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the current folder cannot be written, temporary files go to the system's folder for them."""
    used = []
    temporary_directory = tempfile.TemporaryDirectory

    def noted(**options: Any) -> Any:
        used.append(Path(options["dir"]))
        return temporary_directory(**options)

    monkeypatch.setattr(tempfile, "TemporaryDirectory", noted)
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != Path.cwd())
    assert run("dedup", source, "-o", "-").exit_code == 0
    assert used == [Path(tempfile.gettempdir())]


REMEDIES = [
    ("add index.db in.jsonl", "--if-exists ignore"),
    ("add index.db in.jsonl --threshold 0.5", "to use the file's, or change the file with neardup rebuild"),
    ("add foreign.db in.jsonl", "give another path"),
    ("add new.db in.jsonl --scheme simhash --threshold 0.8", "--scheme simhash, which has --max-distance, --bits"),
    ("add new.db in.jsonl --threshold 5", "--threshold 5.0: give a number above 0 and at most 1"),
    ("add new.db in.jsonl --expires-in=3", "--expires-in '3' is not a duration; write a number and s, m,"),
    ("add new.db in.jsonl --expires-in=3y", "30d"),
    ("add new.db in.jsonl --expires-in=-3d", "30d"),
    ("stats nowhere.db", "neardup add"),
    ("stats foreign.db", "give another path"),
    ("stats empty.db", "neardup add"),
    ("stats in.jsonl", "give the path of an index"),
    ("stats folder", "is a folder: give the path of a file"),
    ("stats index.db --name other", "--name"),
    ("query index.db words --threshold 0.5", "--threshold 0.5 is below 0.8, the one"),
    ("query index.db words --max-distance 3", "use --threshold"),
    ("query index.db --key zz", "no document has the key 'zz'"),
    ("query index.db --key a --key-type int", "key 'a' is not an integer, as --key-type int says"),
    ("changes index.db --since x", "--since 'x': give the token of an earlier neardup changes, or leave --since out"),
    ("follow foreign.db nothing", "TABLE 'nothing': the database that holds the index has no table 'nothing'"),
    ("follow foreign.db t --key x", "--key 'x': this column of 't' is not the PRIMARY KEY"),
    ("follow foreign.db u --key x --text y", "--text 'y': 'u' has no such column"),
    ("follow foreign.db u --key x --text x --where y>0", "--where 'y>0': SQLite does not take it"),
    ("unfollow nowhere.db", "neardup add"),
    ("sync index.db", "follows no table: run neardup follow first"),
    ("window index.db 0", "SIZE 0: give an integer from 1"),
    ("watch index.db --window 2h", "--window 2h, the file keeps all, and neardup window changes that"),
    ("dismiss index.db a a", "the second KEY 'a' is the first KEY too: give the keys"),
    ("dedup in.jsonl -o o.jsonl --pairs o.jsonl", "o.jsonl is given for two outputs; name a file for each"),
    ("dedup nowhere.jsonl -o o.jsonl", "nowhere.jsonl: no such file"),
]  # fmt: skip
"""Commands with an error, and what it advises."""


@pytest.mark.usefixtures("index")
def test_errors_advise_in_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error names the value or the file and a remedy of the command line, no argument of Python; no new file is left."""
    monkeypatch.chdir(tmp_path)
    with sqlite3.connect("foreign.db") as connection:
        connection.execute("CREATE TABLE t (x)")
        connection.execute("CREATE TABLE u (x INTEGER PRIMARY KEY)")
    connection.close()
    Path("empty.db").touch()
    Path("folder").mkdir()
    before = sorted(tmp_path.iterdir())
    named = re.compile(r"(index|foreign|empty|nowhere|o)\.\w+'?:? |in\.jsonl|folder'|--(threshold|expires-in|scheme) ")
    for command, remedy in REMEDIES:
        told = refused(*command.split())
        assert remedy in told and not re.search(r"\w=|\w\(\)|True|None", told), told
        assert named.search(told) and sorted(tmp_path.iterdir()) == before, told


def test_no_message_of_the_package_keeps_advice_for_python() -> None:
    """Every text of the package that names an argument of Index, or a method, is put into the words of commands."""
    advice = re.compile(
        r"\b(read_only|attach|if_exists|store_text|record_matches|name)=|\b(check|rebuild|MinHash|BottomK)\("
        "|same object|larger timeout"
    )
    root = Path(neardup_db.__file__).parent
    looked_at = 0
    for path in sorted([*root.glob("*.py"), *root.glob("store/**/*.py"), *root.glob("schemes/*.py")]):
        for message in messages(path.read_text(encoding="utf-8")):
            if advice.search(message):
                looked_at += 1
                assert not advice.search(in_command_terms(message)), f"{path.name}: {message}"
    assert looked_at > 10


def messages(code: str) -> Iterator[str]:
    """The texts of a module from which errors are made: those in a `raise`, or in a returned error."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Raise) or (isinstance(node, ast.Return) and "Error(" in ast.unparse(node)):
            parts = list(ast.walk(node))
            joined = [part.values for part in parts if isinstance(part, ast.JoinedStr)]
            for text in joined:
                yield "".join(str(value.value) if isinstance(value, ast.Constant) else "X" for value in text)
            inside = [value for text in joined for value in text]
            yield from (str(part.value) for part in parts if isinstance(part, ast.Constant) and part not in inside)


def test_arguments_become_options() -> None:
    """Only arguments are changed, not text in quotation marks."""
    for message, said in (
        ("key 'k=5' is wrong", "key 'k=5' is wrong"),
        ("the index's threshold=0.8 is above", "the index's --threshold 0.8 is above"),
        ("store_text=True, the file has False", "--store-text, the file is otherwise"),
        ("num_perm must be at least 1, not 0", "--num-perm must be at least 1, not 0"),
        ("damaged: run check(repair=True), or restore a backup", "damaged: run neardup check --repair, or restore a backup"),
        ("make it with MinHash(exact=True) or BottomK(containment=True)", "make it with --scheme minhash --exact or --scheme "
         "bottomk --containment"),
    ):  # fmt: skip
        assert in_command_terms(message) == said


def test_an_option_given_twice_is_an_error(tmp_path: Path, source: Path) -> None:
    """Of any command: where one value is taken, the second one is not taken in silence."""
    assert "--id-field is given 2 times" in refused("add", "i.db", source, "--id-field", "a", "--id-field", "b")
    assert "--exact/--estimate is given 2 times" in refused("add", "i.db", source, "--exact", "--estimate")
    for command in map(load, main.commands):
        for option in command.params:
            takes_one = isinstance(option, click.Option) and not option.is_flag and not option.multiple
            if takes_one and option.opts[0].startswith("--"):
                assert f"{option.opts[0]} is given 3 times" in refused(str(command.name), *[f"{option.opts[0]}=1"] * 3)
    good("add", tmp_path / "i.db", source, "--metadata", "--metadata")


def test_a_number_out_of_range_is_one_sentence(tmp_path: Path, source: Path) -> None:
    """An option for a number refuses what is none, or too large, by name; nothing is written."""
    places = {"dedup": (source, "-o", tmp_path / "o.jsonl"), "add": (tmp_path / "i.db", source), "curve": ()}
    for command in places:
        for option in load(command).params:
            for value in ("nan", "inf", "1e300", "-1") if isinstance(option.type, click.FloatRange) else ():
                told = refused(command, *places[command], f"{option.opts[0]}={value}")
                assert f"{option.opts[0]}': {float(value)} is not" in told, told
    assert list(tmp_path.iterdir()) == [source]


# ---- the end of a program ------------------------------------------------------------------------------------------------


@pytest.mark.posix("signals")
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_signal_leaves_nothing_behind(tmp_path: Path, name: str) -> None:
    """After SIGTERM or SIGHUP no temporary file is left, the old output stands, and the exit code tells the signal."""
    source, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    os.mkfifo(source)
    out.write_text("old")
    command = [*PROGRAM, "dedup", str(source), "-o", str(out), "--force"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, cwd=tmp_path) as program, open(source, "wb", 0) as pipe:
        assert program.stderr is not None
        pipe.write(b'{"text": "x"}\n')  # it reads, so its folder is there
        assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".neardup-")]
        program.send_signal(signal.Signals[name])
        with suppress(subprocess.TimeoutExpired):
            program.wait(2)
        pipe.close()  # a signal just before a read is heard only after it
        told = program.stderr.read().decode()
    assert (program.returncode, told) == (128 + signal.Signals[name], f"neardup: ended by {name}\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.jsonl", "out.jsonl"] and out.read_text() == "old"


@pytest.mark.posix("signals")
def test_a_hangup_that_is_ignored_stays_so(tmp_path: Path) -> None:
    """Under nohup a command goes on."""
    source = tmp_path / "in.jsonl"
    os.mkfifo(source)
    ignoring = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN); " + PROGRAM[-1]
    command = [*PROGRAM[:-1], ignoring, "dedup", str(source), "-o", "out.jsonl"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=tmp_path) as program:
        with open(source, "wb") as pipe:
            program.send_signal(signal.SIGHUP)
            pipe.write(b'{"text": "x"}\n')
        program.communicate()
    assert program.returncode == 0 and (tmp_path / "out.jsonl").read_bytes() == b'{"text": "x"}\n'
