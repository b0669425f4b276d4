"""The tutorial and the how-to pages of docs/: every block is run in the order of the page, as a reader would type it. Then the
commands of pages that are read, not followed: each is run, or stands in a table with the reason why not.

A page is followed in an empty folder. A block of shell is typed into one shell; a block of `text` right after it is what it
prints, where `...` stands for anything. A block with a title is a file of that name; a block of shell with the title "another
terminal" runs beside the others to the end of the page. Python with prompts is a doctest. The installation, a block that begins
with a virtual environment, is not run: the tests are installed.
"""

from __future__ import annotations

import doctest
import inspect
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from interpreter import programs
from support import sqlite_shell

import neardup_db
from neardup_db import BinaryCode, BitSampling, BottomK, Index, MinHash, SimHash, compute
from neardup_db.cli import main

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = [DOCS / "tutorial.md", *sorted((DOCS / "how-to").glob("*.md"))]

NEEDS = {"web-service.md": "examples", "pictures.md": "examples", "spark.md": "spark"}
"""Pages that need what the tests do not install, by the mark of such tests."""

BLOCK = re.compile(r'^```(?P<language>\w*)(?: title="(?P<title>[^"]+)")?\n(?P<text>.*?)^```$', re.MULTILINE | re.DOTALL)
TERMINAL = "another terminal"
PORT = "8000"
"""Of what a page starts; the tests take a free one in its place."""

CHECKER = doctest.OutputChecker()
LOOSE = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@dataclass
class Block:
    """A block of a page; `shown` is what stands below a block of shell."""

    language: str
    title: str | None
    text: str
    line: int
    shown: str | None = None

    @property
    def installs(self) -> bool:
        return self.text.startswith("python3 -m venv")


def blocks(page: Path) -> list[Block]:
    """The blocks of a page, in their order."""
    text, found, end = page.read_text("utf-8"), list[Block](), 0
    for match in BLOCK.finditer(text):
        last = found[-1] if found else None
        if match["language"] == "text" and last is not None and last.language == "sh" and not text[end : match.start()].strip():
            last.shown = match["text"]
        else:
            line = text.count("\n", 0, match.start()) + 2
            found.append(Block(match["language"], match["title"], match["text"], line))
        end = match.end()
    return found


@contextmanager
def chdir(folder: Path) -> Iterator[None]:
    """In another folder; Python 3.11 has it as contextlib.chdir."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def plain_commands(text: str) -> list[tuple[list[str], str | None]] | None:
    """The arguments of each command, and the file that its output goes to; None unless all are of neardup, without more of a
    shell's language than quotation marks, comments and >."""
    text = re.sub(r"\\\n|(^|\s)# .*$", " ", text, flags=re.MULTILINE)
    if "$" in text or "`" in text:
        return None
    lexer = shlex.shlex(text, posix=True, punctuation_chars="\n;|&<>()")
    lexer.commenters, lexer.whitespace, lexer.whitespace_split = "", " \t", True
    commands: list[tuple[list[str], str | None]] = []
    for is_end, words in groupby(lexer, lambda word: word.strip("\n") == ""):
        command = [] if is_end else list(words)
        to = command.pop() if command[-2:-1] == [">"] else None
        command = command[:-1] if to is not None else command
        if not is_end:
            if command[0] != "neardup" or any(set(word) <= set("\n;|&<>()") for word in command) or to == "/dev/null":
                return None
            commands.append((command[1:], to))
    return commands


class Reader:
    """Somebody who follows a page: a shell, what runs beside it, and a Python prompt."""

    def __init__(self, page: Path, folder: Path) -> None:
        self.page, self.folder = page, folder
        self.python: dict[str, Any] = {}
        self.beside: list[subprocess.Popen[bytes]] = []
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        self.env = os.environ | {"PATH": path, "PYTHONUNBUFFERED": "1", "COLUMNS": "80", "LC_ALL": "C.UTF-8", "HOME": str(folder)}
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = str(free.getsockname()[1])
        self.state = folder.parent / f"{folder.name}.state"
        self.state.write_text("")
        self.programs = programs(folder.parent / f"{folder.name}.programs")

    def follow(self, block: Block) -> None:
        """Do what a block says."""
        text = block.text.replace(PORT, self.port)
        if block.installs:
            return
        if block.title == TERMINAL:
            self._start(text)
        elif block.title:
            (self.folder / block.title).write_text(text, "utf-8")
        elif block.language == "sh":
            self._type(block, text)
        elif block.language == "python":
            self._prompt(block, text)

    def _type(self, block: Block, text: str) -> None:
        """Variables and the working folder of the shell are those that the block before left. Commands of neardup alone are run
        in this process, which has them imported."""
        if (plain := plain_commands(text)) is not None:
            printed = "".join(self._run(block, *command) for command in plain)
        else:
            printed = self._shell(block, text)
        if block.shown is not None:
            shown = block.shown.replace(PORT, self.port)
            if not CHECKER.check_output(shown, printed, LOOSE):
                pytest.fail(f"{self.page.name}, line {block.line} prints\n{printed}\nand not\n{shown}", pytrace=False)

    def _run(self, block: Block, words: list[str], to: str | None) -> str:
        with chdir(self.folder):
            done = CliRunner(env=self.env).invoke(main, words, prog_name="neardup")
        assert done.exit_code == 0, f"{self.page.name}, line {block.line}: exit code {done.exit_code}\n{words}\n{done.output}"
        if to is None:
            return done.stdout
        (self.folder / to).write_text(done.stdout, "utf-8")
        return ""

    def _shell(self, block: Block, text: str) -> str:
        keep = f"declare -p | grep -v '^declare -[a-zA-Z-]*r' > {shlex.quote(str(self.state))}"
        script = f"source {shlex.quote(str(self.state))} 2>/dev/null\nset -eu\n{text}\nset +eu\n{keep}"
        env = self.env | {"PATH": f"{self.programs}{os.pathsep}{self.env['PATH']}"}
        done = subprocess.run(["bash", "-c", script], cwd=self.folder, env=env, capture_output=True, text=True, timeout=1800)
        where = f"{self.page.name}, line {block.line}"
        assert done.returncode == 0, f"{where}: exit code {done.returncode}\n{text}\n{done.stdout}{done.stderr}"
        return done.stdout

    def _start(self, text: str) -> None:
        """Something that goes on; it is waited for until it listens."""
        command = ["bash", "-c", f"exec {text.strip()}"]
        log = (self.folder.parent / f"{self.folder.name}.log").open("wb")
        process = subprocess.Popen(command, cwd=self.folder, env=self.env, stdout=log, stderr=log, start_new_session=True)
        self.beside.append(process)
        for _ in range(600):
            with socket.socket() as asked:
                if asked.connect_ex(("127.0.0.1", int(self.port))) == 0:
                    return
            assert process.poll() is None, Path(log.name).read_text()
            time.sleep(0.1)
        pytest.fail(f"{text} does not listen at port {self.port}")

    def _prompt(self, block: Block, text: str) -> None:
        test = doctest.DocTestParser().get_doctest(text, self.python, self.page.name, str(self.page), block.line)
        assert test.examples, f"{self.page.name}, line {block.line}: Python without a prompt, and not a file"
        with chdir(self.folder):
            runner = doctest.DocTestRunner()
            assert runner.run(test, clear_globs=False).failed == 0
        self.python = test.globs

    def leave(self) -> None:
        """Ends what runs beside."""
        for process in self.beside:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(timeout=30)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty one."""
    empty = tmp_path / "work"
    empty.mkdir()
    return empty


def marked(page: Path) -> Any:
    """A page, with a mark if it needs more."""
    marks = [getattr(pytest.mark, NEEDS[page.name])] if page.name in NEEDS else []
    return pytest.param(page, id=page.stem, marks=marks)


@pytest.mark.parametrize("page", [marked(page) for page in PAGES])
def test_a_page_can_be_followed(page: Path, folder: Path) -> None:
    """Every command of a page succeeds, and prints what stands below it."""
    reader = Reader(page, folder)
    try:
        for block in blocks(page):
            reader.follow(block)
    finally:
        reader.leave()


def test_every_block_is_of_a_kind_that_is_run() -> None:
    """Shell and what it prints, Python with prompts, and files whose names stand in the sentence before."""
    for page, block in [(path, block) for path in PAGES for block in blocks(path)]:
        where = f"{page.name}, line {block.line}"
        assert block.title or block.language in {"sh", "python"}, where
        if block.title and block.title != TERMINAL:
            before = "\n".join(page.read_text("utf-8").splitlines()[: block.line - 2])[-300:]
            assert f"`{block.title}`" in before, f"{where}: the sentence before does not name {block.title}"


def commands(page: Path) -> list[str]:
    """The shell of a page, a block each."""
    return [block.text for block in blocks(page) if block.language == "sh"]


def typed(page: Path, script: str, folder: Path, **stand_ins: str) -> str:
    """What a script prints in a folder. A stand-in is a shell script in the place of a program that is not ours."""
    reader = Reader(page, folder)
    for name, text in stand_ins.items():
        (reader.programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (reader.programs / name).chmod(0o755)
    env = reader.env | {"PATH": f"{reader.programs}{os.pathsep}{reader.env['PATH']}"}
    shell = ["bash", "-euo", "pipefail", "-c", script]
    done = subprocess.run(shell, cwd=folder, env=env, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
    return done.stdout


def test_the_pipes_of_streams(folder: Path) -> None:
    """Each new line goes on to a file, or to a program with a mark. Three lines stand in for a growing file and for a queue."""
    page = DOCS / "reference" / "streams.md"
    texts = ["the ferry was cancelled on Monday", "The ferry was cancelled on Monday!", "bread and milk were dearer in March"]
    (folder / "posts.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), "utf-8")
    [script] = commands(page)
    printed = typed(page, script, folder, tail="cat posts.jsonl", kafkacat="cat posts.jsonl", moderate="cat")
    passed_on = (folder / "unique.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line)["text"] for line in passed_on] == [texts[0], texts[2]]
    assert [bool(json.loads(line)["duplicate_of"]) for line in printed.splitlines()] == [False, True, False]
    with Index(folder / "seen.db") as index:
        assert len(index) == 2


def test_the_shell_loads_the_extension_from_a_folder_with_a_space(folder: Path) -> None:
    """The commands of the page on SQL quote the path of the extension."""
    sqlite_shell()
    page = DOCS / "how-to" / "sql-and-datasette.md"
    [script] = [script for script in commands(page) if ".load " in script]
    extension = folder / "an environment" / Path(neardup_db.extension_path()).name
    extension.parent.mkdir()
    shutil.copy(neardup_db.extension_path(), extension)
    with Index(folder / "demo.db", MinHash()) as index:
        index.add("a", "some text")
    assert typed(page, script, folder, python=f"echo {shlex.quote(str(extension))}") == "1|1\n"


SUBMIT, EXCHANGE = commands(DOCS / "reference" / "spark.md")


def test_fingerprints_of_days_become_an_index(folder: Path) -> None:
    """An index imports the fingerprints of two days, and exports them as one file."""
    for day in ("monday", "tuesday"):
        with Index(folder / f"{day}.db", MinHash()) as index:
            index.add(day, f"the ferry was cancelled on {day} because of a storm")
            (folder / day / "fingerprints").mkdir(parents=True)
            index.export_fingerprints(folder / day / "fingerprints" / "part-0.parquet")
    typed(DOCS / "reference" / "spark.md", EXCHANGE, folder)
    with Index(folder / "all.db", MinHash()) as index:
        index.import_fingerprints([folder / "crawl.parquet"])
        assert sorted(map(str, index)) == ["monday", "tuesday"]


JOB = """
import sys
from pyspark.sql import SparkSession

def python_of(_):
    import neardup_db
    return sys.executable

session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
print("executors run", session.sparkContext.parallelize([0], 1).map(python_of).collect())
"""


@pytest.mark.spark
def test_a_job_is_submitted(folder: Path) -> None:
    """Executors run the Python that is named, and find the package there. What is installed is not installed again."""
    (folder / "job.py").write_text(JOB, "utf-8")
    install, *rest = SUBMIT.splitlines()
    assert install.startswith("pip install ")
    script = "\n".join(rest).replace("/opt/venv/bin/python", sys.executable)
    assert f"executors run ['{sys.executable}']" in typed(DOCS / "reference" / "spark.md", script, folder)


CONTRIBUTING = ROOT / "CONTRIBUTING.md"
NOT_HERE = {
    "git clone REPOSITORY neardup_db && cd neardup_db": ".ci/run makes a clone and does all in it",
    "python3 -m venv ../venv && . ../venv/bin/activate": "the environment of the tests",
    "pip install '.[dev]'": ".ci/run does it in an environment of its own",
    "pip install --no-deps --force-reinstall .": "would change the package under the other tests",
    "pip install 'meson-python>=0.17' 'meson>=1.3' ninja 'cffi>=2.1'": ".ci/run does it in an environment that is edited in",
    "pip install --no-build-isolation --no-deps -e .": "the same",
    "pytest": "the run that this test is a part of",
    "pytest tests/test_index.py": "a part of the same run",
    "ruff check neardup_db tests benchmarks csrc && mypy": "a step of .ci/run",
    "find csrc -name '*.[ch]' | xargs clang-format --dry-run": "a step of .ci/run",
    "pytest --doctest-modules --pyargs neardup_db": "a step of .ci/run",
    "python tests/mutants.py ../mutants": "takes an hour",
    ".ci/run": "runs this test",
}
"""Commands of CONTRIBUTING.md that no test runs, with the reason."""


def test_commands_for_contributors() -> None:
    """Each has a reason why it is not run, but for the one that chooses tests, which finds some."""
    text = CONTRIBUTING.read_text("utf-8")
    listed = [line for block in commands(CONTRIBUTING) for line in block.splitlines()]
    listed += [command.replace("\\|", "|") for command in re.findall(r"^\| `(.+?)` \|", text, re.MULTILINE)]
    [run] = [command for command in listed if command not in NOT_HERE]
    assert sorted([*NOT_HERE, run]) == sorted(listed)
    *begin, file, option, word = shlex.split(run)
    assert begin == ["pytest", "-n", "0"] and option == "-k"
    assert re.search(rf"^def test_\w*{word}", (ROOT / file).read_text("utf-8"), re.MULTILINE), run


def test_files_that_contributors_are_sent_to_are_there() -> None:
    """A path, of a command or between ticks, that begins with a folder of the checkout is in the checkout. Nothing beside the
    checkout is looked for: `../venv` is for contributors to make."""
    words = " ".join([*commands(CONTRIBUTING), *re.findall(r"`([^`\n]+)`", CONTRIBUTING.read_text("utf-8"))]).split()
    folders = {path.name for path in ROOT.iterdir() if path.is_dir()}
    paths = [word for word in words if word.partition("/")[0] in folders and "/" in word]
    assert len(paths) > 3
    assert [path for path in paths if not any(ROOT.glob(path))] == []


PROPERTIES = {name for name in dir(Index) if isinstance(inspect.getattr_static(Index, name), property)}
FUNCTIONS = {name for name in dir(compute) if not name.startswith("_") and inspect.isfunction(getattr(compute, name))}


def test_every_public_method_and_function_has_an_example() -> None:
    """The docstring of each method of Index, and of each function, ends with something to try, which runs as a doctest."""
    public = {name: getattr(Index, name) for name in dir(Index) if not name.startswith("_") and name not in PROPERTIES}
    public |= {name: getattr(compute, name) for name in FUNCTIONS}
    public |= {name: getattr(neardup_db, name) for name in ("Index", "TextRules", "tune", "load", "extension_path")}
    public |= {scheme.__name__: scheme for scheme in (BinaryCode, BitSampling, BottomK, MinHash, SimHash)}
    assert sorted(name for name, one in public.items() if ">>> " not in (one.__doc__ or "")) == []
    assert len(public) > 60
