"""The command line: every command, its exit codes, its JSON, its errors."""

from __future__ import annotations

import ast
import gzip
import io
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

import neardup_db
from neardup_db import AddReport, BitSampling, BottomK, Index, MinHash, SimHash, Skipped, TextRules
from neardup_db.cli import main
from neardup_db.cli.app import load
from neardup_db.cli.output import GuardedStream
from neardup_db.cli.wording import in_command_terms
from neardup_db.show.theory import binomial, chances_of
from neardup_db.store.database.open import remove_unused

ROOT = Path(__file__).parent.parent
FOX = "the quick brown fox jumps over the lazy dog and runs away into the dark wood"
RECORDS = [
    {"id": "a", "text": FOX, "lang": "en"},
    {"id": "b", "text": FOX + " again"},
    {"id": "c", "text": "an entirely different sentence about databases and their transactions"},
    {"id": "d", "text": ""},
]


def run(*arguments: object, stdin: str | bytes | None = None) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments], input=stdin)


def good(*arguments: object, stdin: str | bytes | None = None) -> str:
    """Standard output of a command that must succeed."""
    result = run(*arguments, stdin=stdin)
    assert (result.exit_code, result.stderr) == (0, ""), result.output
    return str(result.stdout)


def refused(*arguments: object, stdin: str | bytes | None = None) -> str:
    """The one sentence on standard error of a command that must fail."""
    result = run(*arguments, stdin=stdin)
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith("neardup: ") and result.stderr.count("\n") == 1
    assert result.stdout == ""
    return str(result.stderr)


def keys_of(path: Path) -> list[Any]:
    """The keys of an index, in order."""
    with Index(path) as made:
        return list(made)


def lines(path: Path, records: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), newline="\n")
    return path


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return lines(tmp_path / "in.jsonl", RECORDS)


@pytest.fixture
def index(tmp_path: Path, source: Path) -> Path:
    path = tmp_path / "index.db"
    good("add", path, source, "--exact", "--store-text", "--metadata")
    return path


# ---- the program ---------------------------------------------------------------------------------------------------------


PROGRAM = [sys.executable, "-c", "from neardup_db.cli import main; main()"]


def test_the_program_runs_as_a_process(tmp_path: Path) -> None:
    """The installed entry point ends with exit code 2 and one sentence, not a traceback, where there is no index."""
    failed = subprocess.run([*PROGRAM, "stats", "nowhere.db"], capture_output=True, text=True, check=False, cwd=tmp_path)
    told = "neardup: nowhere.db: no such file; create an index with: neardup add nowhere.db RECORDS\n"
    assert (failed.returncode, failed.stdout, failed.stderr) == (2, "", told)
    assert good("--version").startswith("neardup 0.")


def test_a_reader_that_leaves_is_no_error(tmp_path: Path) -> None:
    """`neardup ... | head` ends with exit code 0 and says nothing."""
    source = lines(tmp_path / "in.jsonl", [{"text": f"{number} " * 2000} for number in range(200)])
    command = [*PROGRAM, "dedup", str(source), "-o", "-"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path) as program:
        assert program.stdout is not None and program.stderr is not None
        assert program.stdout.read(10) == b'{"text": "'
        program.stdout.close()
        assert program.stderr.read() == b""
    assert program.returncode == 0
    assert list(tmp_path.iterdir()) == [source]
    assert left_by_its_reader(tmp_path, "demo") == (0, "")


def test_a_demo_that_nobody_reads_is_kept(tmp_path: Path) -> None:
    """`neardup demo --keep DIR | head` leaves the whole index."""
    assert left_by_its_reader(tmp_path, "demo", "--keep", ".") == (0, "")
    with Index(tmp_path / "demo.db") as index:
        assert len(index) == 362 and index.check().problems == ()


def left_by_its_reader(folder: Path, *arguments: object) -> tuple[int, str]:
    """Exit code and standard error of a command, of whose standard output only the first bytes are read."""
    command = [*PROGRAM, *map(str, arguments)]
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
    made = [{"id": f"{name}{number}", "text": " ".join(f"w{number // 2}-{word}" for word in range(20))} for number in range(1000)]
    lines(tmp_path / "in.jsonl", made)
    for folder in ("all", "left"):
        (tmp_path / folder).mkdir()
    outputs = {"-o": "o.jsonl", "--pairs": "p.csv", "--clusters": "c.jsonl"}
    arguments = [word for option, name in outputs.items() if option != printed for word in (option, name)]
    good("dedup", tmp_path / "in.jsonl", *[f"{tmp_path}/all/{word}" if "." in word else word for word in arguments], printed,
         tmp_path / "all" / "printed.jsonl")  # fmt: skip
    code, told = left_by_its_reader(tmp_path / "left", "dedup", "../in.jsonl", *arguments, printed, "-")
    assert code == 0 and "1,000 records: 500 kept" in told and "rror" not in told
    for option, name in outputs.items():
        if option != printed:
            written, expected = (tmp_path / folder / name for folder in ("left", "all"))
            assert written.read_bytes() == expected.read_bytes()


def test_without_a_command_the_help_is_printed() -> None:
    """`neardup` alone is no error."""
    assert good() == good("--help")


@pytest.mark.parametrize("command", ["", *main.commands])
def test_every_help_stands_in_the_documentation(command: str) -> None:
    """docs/reference/cli.md holds each --help as the program prints it, but for white space; each command has an example."""
    arguments = [command, "--help"] if command else ["--help"]
    printed = CliRunner().invoke(main, arguments, prog_name="neardup", terminal_width=80).stdout
    written = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    assert " ".join(printed.split()) in " ".join(written.split())
    assert f"  neardup {command}" in printed


@pytest.mark.parametrize("name", main.commands)
def test_help_says_of_each_command_what_the_command_says(name: str) -> None:
    """`neardup --help` imports no command, and has the first sentence of each one's own help."""
    assert main.commands[name].get_short_help_str(1000) == load(name).get_short_help_str(1000)


def test_the_list_of_commands_has_whole_sentences() -> None:
    """No sentence is cut off on a terminal of 80 columns."""
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


@pytest.mark.parametrize(
    ("command", "remedy"),
    [
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
    ],
)  # fmt: skip
@pytest.mark.usefixtures("index")
def test_errors_advise_in_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, remedy: str) -> None:
    """An error names the value or the file and a remedy of the command line, no argument of Python; no new file is left."""
    monkeypatch.chdir(tmp_path)
    with sqlite3.connect("foreign.db") as connection:
        connection.execute("CREATE TABLE t (x)")
        connection.execute("CREATE TABLE u (x INTEGER PRIMARY KEY)")
    connection.close()
    Path("empty.db").touch()
    Path("folder").mkdir()
    before = sorted(tmp_path.iterdir())
    told = refused(*command.split())
    assert remedy in told and not re.search(r"\w=|\w\(\)|True|None", told), told
    assert re.search(r"(index|foreign|empty|nowhere|o)\.\w+'?:? |in\.jsonl|folder'|--(threshold|expires-in|scheme) ", told), told
    assert sorted(tmp_path.iterdir()) == before


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


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("key 'k=5' is wrong", "key 'k=5' is wrong"),
        ("the index's threshold=0.8 is above", "the index's --threshold 0.8 is above"),
        ("store_text=True, the file has False", "--store-text, the file is otherwise"),
        ("num_perm must be at least 1, not 0", "--num-perm must be at least 1, not 0"),
        ("damaged: run check(repair=True), or restore a backup", "damaged: run neardup check --repair, or restore a backup"),
        ("make it with MinHash(exact=True) or BottomK(containment=True)", "make it with --scheme minhash --exact or --scheme "
         "bottomk --containment"),
    ],
)  # fmt: skip
def test_arguments_become_options(message: str, said: str) -> None:
    """Only arguments are changed, not text in quotation marks."""
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


@pytest.mark.parametrize("value", ["nan", "inf", "1e300", "-1"])
def test_a_number_out_of_range_is_one_sentence(tmp_path: Path, source: Path, value: str) -> None:
    """An option for a number refuses what is none, or too large, by name; nothing is written."""
    for command in ("dedup", "add", "curve"):
        for option in load(command).params:
            if isinstance(option.type, click.FloatRange):
                places = {"dedup": (source, "-o", tmp_path / "o.jsonl"), "add": (tmp_path / "i.db", source), "curve": ()}
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


# ---- add -----------------------------------------------------------------------------------------------------------------


def test_add_creates_an_index_and_tells_what_it_did(tmp_path: Path, source: Path) -> None:
    """Four records, of which one has a near-duplicate before it."""
    told = json.loads(good("add", tmp_path / "i.db", source, "--json"))
    assert [told[name] for name in ("records", "added", "matched", "skipped")] == [4, 4, 1, 0]
    assert keys_of(tmp_path / "i.db") == ["a", "b", "c", "d"]


def test_add_again_follows_if_exists(index: Path, source: Path) -> None:
    """A second run replaces or ignores the documents if it is told to."""
    assert json.loads(good("add", index, source, "--if-exists", "ignore", "--json"))["ignored"] == 4
    assert json.loads(good("add", index, source, "--if-exists", "replace", "--json"))["replaced"] == 4


def test_add_keeps_metadata_texts_groups_and_expiry(tmp_path: Path, source: Path, index: Path) -> None:
    """The other fields are metadata; options store text, group and expiry."""
    with Index(index) as made:
        assert made.get("a").metadata == {"lang": "en"} and made.get("a").text == FOX
    other = tmp_path / "other.db"
    good("add", other, source, "--group", "g", "--expires-in", "2h", "--key-type", "text")
    with Index(other) as made:
        document = made.get("a")
        assert (document.group, document.metadata, document.text) == ("g", None, None)
        assert document.expires_at is not None and 7190 < document.expires_at - document.added_at < 7210


def test_add_only_new_leaves_near_duplicates_out(tmp_path: Path, source: Path) -> None:
    """--only-new is add_if_new for every record in turn."""
    good("add", tmp_path / "i.db", source, "--only-new")
    assert keys_of(tmp_path / "i.db") == ["a", "c", "d"]


def test_add_takes_parameters_of_every_scheme(tmp_path: Path, source: Path) -> None:
    """Scheme and text rules of the command line are those of the file."""
    for scheme, options, found in (
        ("minhash", ("--threshold", 0.7, "--num-perm", 64), {"threshold": 0.7, "num_perm": 64}),
        ("simhash", ("--max-distance", 7), {"max_distance": 7}),
        ("bottomk", ("--k", 64, "--threshold", 0.6), {"k": 64, "threshold": 0.6}),
        ("bottomk", ("--containment",), {"containment": 1}),
        ("bitsampling", ("--bits", 128), {"bits": 128}),
    ):
        path = tmp_path / f"{scheme}{options[0]}.db"
        good("add", path, source, "--scheme", scheme, *options, "--tokens", "chars", "--shingle", 4, "--case", "none")
        with Index(path) as made:
            settings = made.scheme.settings()
            assert settings["scheme"] == scheme and found.items() <= settings.items()
            assert made.text_rules == TextRules.chars(shingle=4, case=None)


def test_containment_is_asked_for_with_a_measure(tmp_path: Path) -> None:
    """--measure finds the longer document, of a text and of a key; an index that cannot tell and a wrong mixture are errors."""
    words = "one two three four five six seven eight nine ten eleven twelve"
    records = [{"id": "long", "text": words}, {"id": "part", "text": "three four five six"}, {"id": "else", "text": "a b c d"}]
    source = lines(tmp_path / "in.jsonl", records)
    path, plain, codes = tmp_path / "i.db", tmp_path / "plain.db", tmp_path / "codes.db"
    good("add", path, source, "--scheme", "bottomk", "--containment")
    good("add", plain, source, "--scheme", "bottomk")
    good("add", codes, lines(tmp_path / "c.jsonl", [{"id": "a", "text": "00" * 32}]), "--scheme", "binarycode")
    assert good("query", path, "Two three four, five!", "--measure", "containment").split() == ["1.0000", "long"]
    asked = ("query", path, "two three four five six", "--measure", "containment", "--threshold", 0.6, "--json")
    told = json.loads(good(*asked))["matches"]
    assert [(match["key"], match["similarity"]) for match in told] == [("long", 1.0), ("part", 2 / 3)]
    assert good("query", path, "--key", "part", "--measure", "containment").split() == ["1.0000", "long"]
    assert "prefix_containment" in good("explain", path, "three four five six", "--measure", "containment", "--threshold", 1)
    told = refused("query", plain, "two three four five", "--measure", "containment")
    assert "--scheme bottomk --containment, or neardup rebuild --scheme bottomk --k 128 --threshold 0.5 --containment" in told
    assert "requires texts" in refused("query", codes, "00" * 32, "--measure", "containment")
    assert "not with two KEYs" in refused("explain", path, "long", "part", "--measure", "containment")


def test_codes_come_in_as_hexadecimal(tmp_path: Path) -> None:
    """--scheme binarycode reads the text field as a code and answers queries with codes; a wrong one is named by its line."""
    records = [{"id": 1, "text": "00" * 8}, {"id": 2, "text": "00" * 7 + "01"}, {"id": 3, "text": "ff" * 8}]
    source = lines(tmp_path / "in.jsonl", records)
    path = tmp_path / "i.db"
    good("add", path, source, "--scheme", "binarycode", "--bits", 64, "--max-distance", 3, "--key-type", "int")
    told = json.loads(good("query", path, "00" * 7 + "03", "--json"))
    assert [(match["key"], match["distance"]) for match in told["matches"]] == [(2, 1), (1, 2)]
    wrong = refused("add", path, lines(source, [{"id": 4, "text": "00"}]), "--key-type", "int")
    assert "in.jsonl, line 1: " in wrong and "record 0" not in wrong
    assert "require an index of texts" in refused("add", path, source, "--group", "g", "--key-type", "int")


def test_add_reads_standard_input(tmp_path: Path, source: Path) -> None:
    """- is standard input, packed or not, and needs a format."""
    packed = gzip.compress(source.read_bytes())
    assert "add --format" in refused("add", tmp_path / "i.db", "-", stdin=packed)
    assert "4 added" in good("add", tmp_path / "i.db", "-", "--format", "jsonl", stdin=packed)


def test_files_without_ids_do_not_collide(tmp_path: Path) -> None:
    """Keys are file and line, so two files go into one index; the same file again is an error that says so, and goes on."""
    for name in ("a", "b"):
        lines(tmp_path / f"{name}.jsonl", [{"text": f"{name} {word}"} for word in ("one", "two")])
    path = tmp_path / "i.db"
    good("add", path, tmp_path / "a.jsonl")
    good("add", path, tmp_path / "b.jsonl")
    good("add", path, tmp_path / "b.jsonl", "--source", "other")
    good("add", path, "-", "--format", "jsonl", stdin='{"text": "x"}')
    assert keys_of(path) == ["a.jsonl:1", "a.jsonl:2", "b.jsonl:1", "b.jsonl:2", "other:1", "other:2", "stdin:1"]
    told = refused("add", path, tmp_path / "a.jsonl")
    assert "'a.jsonl:1' is already in the index" in told and "--source NAME" in told
    with open(tmp_path / "a.jsonl", "a") as file:
        file.write('{"text": "a three"}\n')
    assert json.loads(good("add", path, tmp_path / "a.jsonl", "--if-exists", "ignore", "--json"))["added"] == 1


def test_a_folder_of_shards_is_read_record_by_record(tmp_path: Path) -> None:
    """Shards are read in the order of their paths; dedup puts their records into one file; a mixture names the remedy."""
    folder = tmp_path / "shards"
    (folder / "b").mkdir(parents=True)
    (folder / "a.jsonl").write_bytes(b'\xef\xbb\xbf{"text": "one"}\n{"text": "%s"}' % FOX.encode())
    (folder / "b" / "0.jsonl.gz").write_bytes(gzip.compress(b'\xef\xbb\xbf{"text": "two"}\n{"text": "%s!"}\n' % FOX.encode()))
    good("add", tmp_path / "i.db", folder)
    assert keys_of(tmp_path / "i.db") == ["a.jsonl:1", "a.jsonl:2", "b/0.jsonl.gz:1", "b/0.jsonl.gz:2"]
    assert "must end in .jsonl" in refused("dedup", folder, "-o", tmp_path / "out")
    assert "one is inside the other" in refused("dedup", folder, "-o", folder / "out.jsonl")
    good("dedup", folder, "-o", tmp_path / "out.jsonl")
    expected = b'\xef\xbb\xbf{"text": "one"}\n{"text": "%s"}\n{"text": "two"}\n' % FOX.encode()
    assert (tmp_path / "out.jsonl").read_bytes() == expected
    assert run("dedup", folder, "-o", "-").stdout_bytes == expected
    (folder / "README").write_text("a text")
    told = refused("add", tmp_path / "j.db", folder)
    assert "README and a.jsonl" in told and "--glob '*.jsonl'" in told and "--format" in told
    assert "4 added" in good("add", tmp_path / "j.db", folder, "--glob", "*.jsonl*")
    assert "README, line 1: not JSON" in refused("add", tmp_path / "k.db", folder, "--format", "jsonl")


def test_shards_of_csv_have_one_header(tmp_path: Path) -> None:
    """dedup writes the header once; shards with other columns do not go into one file, but into an index."""
    folder = tmp_path / "shards"
    folder.mkdir()
    (folder / "a.csv").write_text("id,text\n1,one")
    (folder / "b.csv").write_text("id,text\n2,two\n")
    good("dedup", folder, "-o", tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text() == "id,text\n1,one\n2,two\n"
    (folder / "c.csv").write_text("text,id\nthree,3\n")
    assert "c.csv, line 1: the columns are 'text', 'id'" in refused("dedup", folder, "-o", tmp_path / "out.csv", "--force")
    assert "3 added" in good("add", tmp_path / "i.db", folder)


@pytest.mark.parametrize("every", [1, 7, 8, 11])
def test_transactions_hold_as_many_records_as_told(tmp_path: Path, every: int) -> None:
    """With --commit-every N each transaction adds N records; after an error the command says where it stands.
    With --one-transaction nothing is added."""
    count = 3 * every + 1
    source = lines(tmp_path / "in.jsonl", [{"id": str(i), "text": f"text number {i}"} for i in range(count)])
    with open(source, "a") as file:
        file.write("broken\n")
    path = tmp_path / "i.db"
    told = refused("add", path, source, "--commit-every", every, "--no-record-matches")
    done = count // every * every
    assert len(keys_of(path)) == done
    assert f"{done:,} records are committed, and the same command with --if-exists ignore goes on" in told
    told = refused("add", path, source, "--commit-every", every, "--if-exists", "ignore", "--on-error", "raise")
    assert "the same command again goes on" in told
    assert "nothing was added" in refused("add", tmp_path / "all.db", source, "--commit-every", every, "--one-transaction")
    assert not (tmp_path / "all.db").exists()


@pytest.mark.parametrize("bad", ['{"id": "a"}', '{"id": "a", "text": 3}', "no JSON"])
def test_a_first_add_that_fails_leaves_no_file(tmp_path: Path, bad: str) -> None:
    """Where there was nothing there is nothing; an index that was there stays, with what was committed."""
    bad_lines = tmp_path / "bad.jsonl"
    bad_lines.write_text(bad + "\n")
    refused("add", tmp_path / "new.db", bad_lines)
    refused("add", tmp_path / "new.db", bad_lines, "--scheme", "binarycode", "--group", "g")
    assert [path.name for path in tmp_path.iterdir()] == ["bad.jsonl"]
    Index(tmp_path / "old.db", MinHash()).close()
    refused("add", tmp_path / "old.db", bad_lines)
    with Index(tmp_path / "old.db") as index:
        assert len(index) == 0
    bad_lines.write_text('{"id": "good", "text": "one two three"}\n' + bad + "\n")
    refused("add", tmp_path / "some.db", bad_lines, "--commit-every", 1)
    assert keys_of(tmp_path / "some.db") == ["good"]


def test_a_new_index_that_another_connection_has_open_stays(tmp_path: Path, source: Path) -> None:
    """A first add that fails does not take the file away from those who opened it meanwhile."""
    path = tmp_path / "shared.db"
    with Index(path, MinHash()) as index:
        remove_unused(str(path))
        index.add("a", FOX)
    remove_unused(str(path))
    assert keys_of(path) == ["a"]
    with Index(path) as index:
        index.delete("a")
    remove_unused(str(path))
    assert path.exists()


def test_an_interrupted_add_says_how_to_go_on(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in the third transaction leaves the records of two, and the message says so; with --one-transaction none."""
    calls: list[int] = []
    real = Index.add_many

    def add_many(index: Index, records: Any, **options: Any) -> AddReport:
        calls.append(len(records))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(index, records, **options)

    monkeypatch.setattr(Index, "add_many", add_many)
    result = run("add", tmp_path / "i.db", source, "--commit-every", 1)
    assert result.exit_code == 130
    going_on = "2 records are committed, and the same command with --if-exists ignore goes on"
    assert result.stderr.strip() == f"neardup: interrupted; {going_on}"
    assert keys_of(tmp_path / "i.db") == ["a", "b"]
    calls.clear()
    result = run("add", tmp_path / "j.db", source, "--commit-every", 1, "--one-transaction")
    assert result.stderr.strip() == "neardup: interrupted; nothing was added"


def test_records_left_out_are_named(tmp_path: Path) -> None:
    """Each with its line and the reason: the first few on standard error, 100 in JSON, and all in the count."""
    source = tmp_path / "in.jsonl"
    source.write_text('{"id": "a", "text": "one"}\n' + "broken\n" * 120 + '{"id": "b"}\n')
    result = run("add", tmp_path / "i.db", source, "--on-error", "skip", "--json")
    told = json.loads(result.stdout)
    assert (told["records"], told["added"], told["skipped"], len(told["problems"])) == (122, 1, 121, 100)
    assert told["problems"][0]["line"] == 2 and told["problems"][0]["reason"].startswith("not JSON")
    assert "121 records skipped" in result.stderr and result.stderr.count(", line ") == 5
    assert "1 added, 121 skipped" in run("add", tmp_path / "j.db", source, "--on-error", "skip").stdout
    removed = run("dedup", source, "-o", tmp_path / "o.jsonl", "--on-error", "skip")
    assert "121 skipped" in removed.stdout and "line 2: not JSON" in removed.stderr


def test_what_the_index_skips_is_named_by_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record that the index left out is named by the line that it stands in, in the words of commands."""
    source = tmp_path / "in.jsonl"
    source.write_text("".join(f'{{"id": "{i}", "text": "x"}}\n\n' for i in range(10)))

    def skipping(index: Index, records: list[Any], **options: Any) -> AddReport:
        reason = "key is already in the index: delete it first, or give if_exists='replace' or 'ignore'"
        return AddReport(added=len(records) - 1, skipped=1, problems=(Skipped(1, records[1]["key"], reason),))

    monkeypatch.setattr(Index, "add_many", skipping)
    told = json.loads(run("add", tmp_path / "i.db", source, "--on-error", "skip", "--commit-every", 8, "--json").stdout)
    assert [(problem["line"], problem["key"]) for problem in told["problems"]] == [(3, "1"), (2 * 9 + 1, "9")]
    assert "--if-exists replace" in told["problems"][0]["reason"] and told["skipped"] == 2


def test_an_id_that_stands_twice_is_named(tmp_path: Path) -> None:
    """The second of two records with one id is an error that names its line; skipped, it is counted."""
    source = lines(tmp_path / "in.jsonl", [{"id": "a", "text": "x"}, {"id": "b", "text": "y"}, {"id": "a", "text": "z"}])
    assert "line 3: key 'a' is already in the index" in refused("add", tmp_path / "i.db", source)
    assert "2 added, 1 skipped" in run("add", tmp_path / "i.db", source, "--on-error", "skip").stdout


def test_texts_below_min_tokens_are_told(tmp_path: Path) -> None:
    """--min-tokens leaves short texts without matches; add, query and dedup say so with the number."""
    records = [{"id": i, "text": text} for i, text in enumerate(["lol", "lol", "a b c", "a b c", "..."])]
    source, path, out = lines(tmp_path / "in.jsonl", records), tmp_path / "i.db", tmp_path / "out.jsonl"
    added = good("add", path, source, "--min-tokens", "3")
    assert "1 with a near-duplicate" in added and "3 documents with fewer than 3 tokens: they match nothing" in added
    result = run("query", path, "lol")
    assert (result.exit_code, result.stdout) == (1, "") and "one with fewer than 3 tokens" in result.stderr
    assert "3 records with fewer than 3 tokens kept" in good("dedup", source, "-o", out, "--min-tokens", "3")
    assert [json.loads(line)["id"] for line in out.read_text().splitlines()] == [0, 1, 2, 4]
    assert "3 empty dropped" in good("dedup", source, "-o", out, "--min-tokens", "3", "--drop-empty", "--force")
    assert [json.loads(line)["id"] for line in out.read_text().splitlines()] == [2]


def test_texts_without_a_word_are_told(tmp_path: Path) -> None:
    """They match nothing: the summary of add counts them, and a query for one says why it finds nothing."""
    source = lines(tmp_path / "in.jsonl", [{"id": 1, "text": "!!!"}, {"id": 2, "text": "!!!"}, {"id": 3, "text": "a word"}])
    path = tmp_path / "i.db"
    assert "2 documents without a word" in good("add", path, source)
    more = lines(tmp_path / "more.jsonl", [{"id": 4, "text": ""}])
    assert json.loads(good("add", path, more, "--json"))["without_words"] == 1
    result = run("query", path, "!!!")
    assert (result.exit_code, result.stdout) == (1, "") and "one without a word, so nothing matches it" in result.stderr
    assert run("query", path, "no such words").stderr == ""


@pytest.mark.posix("named pipes")
@pytest.mark.parametrize("command", ["add", "dedup"])
def test_a_pipe_is_an_input(tmp_path: Path, source: Path, command: str) -> None:
    """An input that cannot be read twice is copied first, packed or not: a FIFO, or <(...) of a shell."""
    pipe = tmp_path / "pipe.jsonl"
    os.mkfifo(pipe)
    threading.Thread(target=pipe.write_bytes, args=(gzip.compress(source.read_bytes()),)).start()
    if command == "dedup":
        assert "4 records: 3 kept" in good("dedup", pipe, "-o", tmp_path / "out.jsonl")
    else:
        assert "4 added" in good("add", tmp_path / "i.db", pipe)


# ---- asking ----------------------------------------------------------------------------------------------------------------


def test_query_prints_matches_best_first(index: Path, tmp_path: Path) -> None:
    """Similarity and key, from an argument, standard input, a file or a stored document; without a match exit code 1."""
    for options, output in ((), ""), (("--json",), '{"matches": []}\n'):
        result = run("query", index, "nothing like that", *options)
        assert (result.exit_code, result.output) == (1, output)
    assert good("query", index, FOX) == "1.0000  a\n0.9333  b\n"
    assert good("query", index, "-", stdin=FOX) == good("query", index, FOX)
    (tmp_path / "new.txt").write_text(FOX)
    assert good("query", index, "--file", tmp_path / "new.txt", "--limit", 1) == "1.0000  a\n"
    assert good("query", index, "--key", "a") == "0.9333  b\n"
    assert json.loads(good("query", index, FOX, "--threshold", "0.95", "--json")) == {
        "matches": [{"key": "a", "similarity": 1.0, "distance": None}]
    }


def test_pairs_are_lines_of_four_columns(index: Path) -> None:
    """The earlier key stands first; with a bound above all pairs the exit code is 1."""
    assert good("pairs", index) == "0.9333\t\ta\tb\n"
    told = json.loads(good("pairs", index, "--json"))
    assert told == {"key_a": "a", "key_b": "b", "similarity": pytest.approx(14 / 15), "distance": None}
    assert run("pairs", index, "--threshold", 0.99).exit_code == 1


def test_clusters_name_their_members(index: Path) -> None:
    """The earliest document first, the others below it; nothing of size 3 here."""
    assert good("clusters", index) == "     2  a\n        b\n"
    assert "... and 1 more" in good("clusters", index, "--members", 1)
    assert json.loads(good("clusters", index, "--json")) == {"size": 2, "representative": "a", "keys": ["a", "b"]}
    assert run("clusters", index, "--min-size", 3).exit_code == 1


def test_stats_count_documents(index: Path) -> None:
    """The figures are those of Index.stats, as a table and as JSON."""
    told = json.loads(good("stats", index, "--json"))
    assert (told["documents"], told["empty"], told["settings"]["scheme"]) == (4, 1, "minhash")
    assert "documents " in good("stats", index)


# ---- changing --------------------------------------------------------------------------------------------------------------


def test_delete_tells_what_was_not_there(index: Path, tmp_path: Path) -> None:
    """Exit code 0 where something was deleted, 1 where nothing was."""
    result = run("delete", index, "a", "zz")
    assert (result.exit_code, result.stdout) == (0, "1 document deleted\n") and "no document has the key zz" in result.stderr
    (tmp_path / "keys.txt").write_text("b\nc\n")
    assert json.loads(good("delete", index, "--file", tmp_path / "keys.txt", "--json")) == {"deleted": 2, "missing": []}
    assert run("delete", index, "zz").exit_code == 1
    assert "at least one KEY" in refused("delete", index)


def test_the_window_of_an_index(index: Path) -> None:
    """It is told, changed to a time or a number, and taken away; what is no window is refused."""
    documents = json.loads(good("window", index, "--json"))["there"]
    assert good("window", index) == f"all documents stay; {documents} documents are there\n"
    for size, told in (("24h", "for 24h"), ("90m", "for 90m"), ("2w", "for 14d"), ("9000.5s", "for 9000.5s")):
        assert good("window", index, size).startswith(f"documents stay {told}; ")
    assert json.loads(good("window", index, "1d", "--json")) == {"seconds": 86400.0, "documents": None, "there": documents}
    assert good("window", index, "1") == "the last document stays; 1 document is there\n"
    assert json.loads(good("window", index, "--json")) == {"seconds": None, "documents": 1, "there": 1}
    assert good("window", index, "none") == "all documents stay; 1 document is there\n"
    for wrong in ("soon", "-3h", "0", "0s"):
        refused = run("window", index, "--", wrong)
        assert refused.exit_code == 2 and "0" in refused.stderr and "timedelta" not in refused.stderr


def test_expire_removes_what_is_over(tmp_path: Path, source: Path, index: Path) -> None:
    """Nothing to do is exit code 1; --keep-newest removes the older documents."""
    assert run("expire", index).exit_code == 1
    assert json.loads(good("expire", index, "--keep-newest", 1, "--json")) == {"expired": 0, "older": 3}
    assert keys_of(index) == ["d"]


def test_rebuild_changes_what_an_error_says_it_can(index: Path, tmp_path: Path) -> None:
    """Where add refuses other settings than the file's, neardup rebuild changes them, as the error advises; the scheme too."""
    assert "4 documents" in good("rebuild", index, "--scheme", "simhash", "--max-distance", 5, "--compact")
    more = lines(tmp_path / "more.jsonl", [{"id": "new", "text": "quite other words than before"}])
    assert "change the file with neardup rebuild" in refused("add", index, more, "--no-record-matches")
    good("rebuild", index, "--no-record-matches", "--no-store-text")
    good("add", index, more, "--no-record-matches")
    with Index(index, record_matches=False, store_text=False) as made:
        assert made.get("new").text is None and len(made) == 5 and made.check().ok and isinstance(made.scheme, SimHash)
    assert "5 documents have no stored text" in refused("rebuild", index, "--store-text")
    good("rebuild", index, "--record-matches")


def test_rebuild_keeps_what_no_option_says(tmp_path: Path, source: Path) -> None:
    """Scheme and text rules are those of the index but for what is given; tables chosen by it are chosen again."""
    path = tmp_path / "i.db"
    good("add", path, source, "--exact", "--store-text", "--num-perm", 256, "--tokens", "chars", "--strip-accents")
    rules = TextRules.chars(strip_accents=True)

    def rebuilt(*options: object) -> tuple[Any, TextRules]:
        good("rebuild", path, *options)
        with Index(path) as made:
            assert made.check().ok and len(made) == 4
            return made.scheme, made.text_rules

    def exact(threshold: float, **more: Any) -> Any:
        return MinHash(threshold=threshold, num_perm=256, exact=True, **more).for_index(rules)

    assert rebuilt("--threshold", 0.7) == (exact(0.7), rules)
    assert rebuilt("--shingle", 4, "--case", "none") == (exact(0.7), rules.changed(shingle=4, case=None))
    assert rebuilt("--tokens", "words")[1] == TextRules.words(strip_accents=True, case=None)
    assert rebuilt("--no-strip-accents")[1] == TextRules.words(case=None)
    assert "cannot be used with --scheme minhash" in refused("rebuild", path, "--max-distance", 3)
    with Index(path) as made:
        made.rebuild(MinHash(threshold=0.6, bands=16, rows=2, recall=0.9, seed=7))
    seven = {"recall": 0.9, "seed": 7, "exact": True}
    assert rebuilt("--exact")[0] == MinHash(threshold=0.6, bands=16, rows=2, **seven).for_index(rules)
    assert rebuilt("--threshold", 0.8)[0] == MinHash(threshold=0.8, **seven).for_index(rules)
    assert rebuilt("--scheme", "simhash", "--max-distance", 5)[0].max_distance == 5
    assert rebuilt("--bits", 32)[0] == SimHash(bits=32, max_distance=5)
    assert rebuilt("--scheme", "bitsampling")[0] == BitSampling()
    assert rebuilt("--threshold", 0.9)[0] == BitSampling(threshold=0.9)
    assert rebuilt("--max-distance", 20)[0] == BitSampling(threshold=0.9, max_distance=20)
    assert rebuilt("--scheme", "bottomk", "--containment")[0] == BottomK(containment=True)
    assert rebuilt("--k", 64)[0] == BottomK(k=64, containment=True)


def test_check_finds_damage_and_repairs_it(index: Path) -> None:
    """An index in order gives 0, a damaged one 1 and a line for each problem, a repaired one 0."""
    assert good("check", index) == "in order\n"
    good("sql", index, "--write", "DELETE FROM neardup_minhash_band")
    damaged = run("check", index, "--json")
    told = json.loads(damaged.stdout)
    assert damaged.exit_code == 1 and not told["ok"] and told["problems"]
    assert good("check", index, "--repair").endswith("in order\n")
    assert good("check", index) == "in order\n"


# ---- sql -------------------------------------------------------------------------------------------------------------------


def test_sql_runs_statements_with_the_functions_loaded(index: Path) -> None:
    """Rows as tab-separated lines under their names, or as JSON with blobs in hexadecimal."""
    assert good("sql", index, "SELECT key, metadata FROM neardup_documents WHERE key < 'c'") == (
        'key\tmetadata\na\t{"lang": "en"}\nb\t\n'
    )
    search = f"SELECT key FROM neardup_search('neardup', '{FOX}', 0.8, 10)"
    assert [json.loads(line)["key"] for line in good("sql", index, "--json", search).splitlines()] == ["a", "b"]
    assert json.loads(good("sql", index, "--json", "SELECT x'00ff' AS a, 1 AS a")) == {"a": {"hex": "00ff"}, "a:1": 1}


def test_sql_without_a_statement_is_a_shell(index: Path) -> None:
    """Statements come from standard input."""
    assert good("sql", index, stdin="SELECT count(*) FROM neardup_documents;\n").strip() == "4"


def test_sql_only_writes_when_told(index: Path) -> None:
    """Without --write the file is read-only, and the message names the option."""
    assert "add --write" in refused("sql", index, "DELETE FROM neardup_match")
    good("sql", index, "--write", "DELETE FROM neardup_match")
    assert "syntax error" in refused("sql", index, "SELEC 1")


@pytest.mark.parametrize(
    "statement",
    [
        "PRAGMA query_only = 0; DELETE FROM neardup_match",
        "PRAGMA journal_mode = DELETE",
        "PRAGMA user_version = 7",
        "PRAGMA writable_schema = 1",
        "PRAGMA optimize",
        "VACUUM",
        "VACUUM INTO '{folder}/copy.db'",
        "ATTACH '{folder}/other.db' AS other",
        "CREATE TABLE other (x)",
        "CREATE TEMP TABLE other (x)",
        "DROP TABLE neardup_match",
        "REINDEX",
    ],
)
def test_sql_without_write_changes_no_file(index: Path, statement: str) -> None:
    """A statement that changes a file, or makes one, is refused with the remedy, in the shell too, and every byte stays."""
    before, names = index.read_bytes(), sorted(index.parent.iterdir())
    statement = statement.format(folder=index.parent)
    assert "add --write" in refused("sql", index, statement)
    assert re.search("not authorized|authorization denied|readonly", run("sql", index, stdin=f"{statement};\n").stderr)
    assert index.read_bytes() == before and sorted(index.parent.iterdir()) == names


def test_sql_without_write_answers_questions(index: Path) -> None:
    """Pragmas that only report, table functions and recursive queries need no --write."""
    for statement, last in (
        ("PRAGMA journal_mode", "wal"),
        ("SELECT count(*) FROM pragma_table_info('neardup_match')", "5"),
        ("PRAGMA integrity_check", "ok"),
        ("WITH RECURSIVE c (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 9) SELECT max(x) FROM c", "9"),
        ("BEGIN; SELECT 3; COMMIT", "3"),
    ):
        assert good("sql", index, statement).split()[-1] == last


def test_outputs_whose_names_promise_what_is_not_written(index: Path, source: Path) -> None:
    """A packing or a format that a command does not write is refused by its name, and no file named - is made."""
    folder = index.parent
    for arguments, reason in (
        (("backup", index, "-"), "name a file"),
        (("export", index, "-"), "name a file"),
        (("export", index, "-o", folder / "e.csv"), "-o FILE is JSON lines"),
        (("export", index, "-o", folder / "e.tsv.gz"), "-o FILE is JSON lines"),
        (("export", index, "-o", folder / "e.jsonl.bz2"), "name it .gz or .zst"),
        (("dedup", source, "-o", folder / "o.jsonl.xz"), "name it .gz or .zst"),
    ):
        names = sorted(folder.iterdir())
        assert reason in refused(*arguments)
        assert sorted(folder.iterdir()) == names and not Path("-").exists()


def test_reading_leaves_one_file(index: Path) -> None:
    """After any command the index is a single file again."""
    for arguments in (("stats", index), ("query", index, FOX), ("sql", index, "SELECT 1"), ("pairs", index)):
        good(*arguments)
        assert [path.name for path in index.parent.glob("index.db*")] == ["index.db"]


# ---- curve -----------------------------------------------------------------------------------------------------------------


def test_curves_follow_the_formulas() -> None:
    """Bands: 1 - (1 - s^rows)^bands; codes: the binomial distribution of bits; exact=True returns nothing below the threshold."""
    settings = {"scheme": "minhash", "num_perm": 128, "bands": 9, "rows": 4, "threshold": 0.8, "exact": 1}
    for similarity in (0.5, 0.8, 0.9):
        expected = 1 - (1 - similarity**4) ** 9
        returned = expected if similarity >= 0.8 else 0.0
        assert chances_of(settings)(similarity) == (pytest.approx(expected), pytest.approx(returned))
    sampled = chances_of({"scheme": "bitsampling", "bits": 256, "max_distance": 37, "plan": "scan"})
    assert sampled(0.8) == (1.0, pytest.approx(0.99, abs=0.002))
    simhash = chances_of({"scheme": "simhash", "bits": 64, "max_distance": 3, "plan": "blocks", "blocks": 4})
    assert [round(simhash(similarity)[1], 2) for similarity in (0.8, 0.9, 1.0)] == [0.01, 0.09, 1.0]
    assert binomial(4, 0.5).tolist() == pytest.approx([1 / 16, 4 / 16, 6 / 16, 4 / 16, 1 / 16])


def test_curve_prints_a_plot_and_json(index: Path) -> None:
    """A line a similarity, of an index or of parameters; one of both is needed."""
    told = [json.loads(line) for line in good("curve", index, "--from", 0.8, "--step", 0.1, "--json").splitlines()]
    assert [point["jaccard"] for point in told] == [0.8, 0.9, 1.0]
    assert told[0]["returned"] >= 0.99
    assert good("curve", "--scheme", "bottomk", "--from", 0.9).count("\n") == 5
    assert "Give either INDEX" in refused("curve")
    assert "binarycode" in refused("curve", "--scheme", "binarycode")
