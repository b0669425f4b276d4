"""What the README and the pages of docs/ show is what happens; those that are followed step by step are in test_docs.py."""

from __future__ import annotations

import doctest
import functools
import gzip
import json
import re
import shlex
import sys
from collections import Counter
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from click.testing import CliRunner
from standard import MODULE

from neardup_db import Index, MinHash
from neardup_db.cli import main

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FOLLOWED = {ROOT / "docs" / "tutorial.md", *(ROOT / "docs" / "how-to").glob("*.md")}
LINKED = sorted({*PAGES, *ROOT.glob("*.md"), *(ROOT / "benchmarks").rglob("*.md")})


LINK = re.compile(r"\]\(([^)\s]+)\)")
HOST = re.compile(r"https?://([^/\s:\"')>`]+)")
HOSTS = {"127.0.0.1", "arrow.apache.org", "datasette.io", "example.com", "keepachangelog.com", "pyinstaller.org", "semver.org"}
"""All that the pages name with an address."""


def name_of(page: Path) -> str:
    """A page, by its path."""
    return str(page.relative_to(ROOT))


def without_blocks(page: Path) -> str:
    """The text of a page without its blocks of code."""
    return re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)


@functools.cache
def anchors(page: Path) -> set[str]:
    """What stands after # in links to the headings of a page, as code hosts and the site make it."""
    found: Counter[str] = Counter()
    names = set()
    for heading in re.findall(r"^#+ (.+)$", without_blocks(page), re.MULTILINE):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
        names.add(name if not found[name] else f"{name}-{found[name]}")
        found[name] += 1
    return names


def blocks(page: Path, language: str) -> list[str]:
    """Code blocks of a language."""
    return re.findall(rf"```{language}\n(.*?)```", page.read_text("utf-8"), re.DOTALL)


@pytest.mark.parametrize("page", [page for page in PAGES if page not in FOLLOWED and blocks(page, "python")], ids=name_of)
def test_python_examples(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every Python example of a page gives what stands below it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "pysqlite3", MODULE)  # the newest Pythons have no wheel of it, and a sqlite3 that will do
    text = "\n".join(blocks(page, "python"))
    test = doctest.DocTestParser().get_doctest(text, {"__name__": "__main__"}, page.name, str(page), 0)
    result = doctest.DocTestRunner().run(test)
    assert result.failed == 0
    assert result.attempted >= text.count(">>> ") > 1


def test_sql_examples() -> None:
    """Every SQL example of the README runs on an index, and finds what was added."""
    statements = [one.strip() for block in blocks(PAGES[0], "sql") for one in block.split(";") if one.strip()]
    with Index(":memory:", MinHash(threshold=0.8)) as index:
        text = "The ferry to the northern islands was cancelled"
        index.add("a", text)
        index.add("b", text + "!")
        answers = [index.connection.execute(statement).fetchall() for statement in statements]
    assert answers == [[("a", 2)], [("b", "a", 1.0)]]


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, r"text(?=\n\$ )")], ids=name_of)
def test_commands_print_what_stands_below_them(page: Path, tmp_path: Path) -> None:
    """A block that begins with a prompt of the shell has the output of its command."""
    for block in blocks(page, r"text(?=\n\$ )"):
        command, _, shown = block[2:].partition("\n")
        printed = CliRunner().invoke(main, shlex.split(command)[1:], terminal_width=80).stdout
        assert doctest.OutputChecker().check_output(shown, printed, doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE), printed


def test_shell_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command of the README's shell examples does what it is for, on files of those names."""
    monkeypatch.chdir(tmp_path)
    texts = ("the ferry", "some text", "The ferry")
    posts = [{"id": f"p{number}", "text": f"{text} of the islands"} for number, text in enumerate(texts)]
    lines = "".join(json.dumps(post) + "\n" for post in posts)
    Path("posts.jsonl").write_text(lines, "utf-8")
    Path("posts.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    Path("shards").mkdir()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(posts), "shards/0.parquet")
    long = "one two three four five six seven eight nine ten eleven twelve thirteen"
    for name, text in {"train": [f"so {long} fourteen", "another text"], "test": [long]}.items():
        Path(f"{name}.jsonl").write_text("".join(json.dumps({"text": one}) + "\n" for one in text), "utf-8")
    with Index("crawl.db", MinHash()) as index:
        index.add("old", posts[0]["text"])
    commands = [line.split(" #")[0] for line in blocks(PAGES[0], "sh")[1].splitlines()]
    results = [CliRunner().invoke(main, shlex.split(command)[1:]) for command in commands]
    assert [result.exit_code for result in results] == [0, 0, 0, 0, 1]
    assert [json.loads(line)["id"] for line in Path("unique.jsonl").read_text("utf-8").splitlines()] == ["p0", "p1"]
    assert json.loads(Path("clean.jsonl").read_text("utf-8")) == {"text": "another text"}
    assert pyarrow.parquet.read_table("new.parquet")["id"].to_pylist() == ["p1"]


def test_links_lead_somewhere() -> None:
    """Relative links of a page name a file that is there and, after #, a heading of it; other addresses are of known hosts."""
    broken = []
    for page in LINKED:
        broken += [(page, host) for host in set(HOST.findall(page.read_text("utf-8"))) - HOSTS]
        for link in LINK.findall(without_blocks(page)):
            if not re.match(r"[a-z]+:", link):
                path, _, anchor = link.partition("#")
                target = page.parent / path if path else page
                if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
                    broken.append((page, link))
    assert broken == []


def test_lists_are_lists_everywhere() -> None:
    """Code hosts and the site see the same lists: one begins after an empty line, and what belongs to an item has four spaces."""
    item = re.compile(r"([-*]|\d+\.) ")
    wrong = []
    for page in LINKED:
        before = ""
        for line in without_blocks(page).splitlines():
            runs_on = item.match(line) and before and not item.match(before) and not before.startswith(" ")
            if runs_on or (not before and re.match(r" {1,3}\S", line)):
                wrong.append((page, line))
            before = line
    assert wrong == []


def test_tables_are_whole() -> None:
    """Every run of rows has a heading and as many cells in each row, so that no row falls out of its table."""
    wrong = []
    for page in LINKED:
        lines = ["", *without_blocks(page).splitlines(), ""]
        for number, line in enumerate(lines):
            if line.startswith("|"):
                above, below = lines[number - 1], lines[number + 1]
                cells, under = (len(re.findall(r"(?<!\\)\|", row)) for row in (line, below))
                begins = not above.startswith("|")
                if (begins and not re.fullmatch(r"\|[-:| ]+\|", below)) or (below.startswith("|") and cells != under):
                    wrong.append((page, line))
    assert wrong == []


def test_every_decision_is_in_the_index() -> None:
    """docs/decisions/README.md has a line for each note, with its title."""
    folder = ROOT / "docs" / "decisions"
    titles = {note.name: note.read_text("utf-8").splitlines()[0][2:] for note in sorted(folder.glob("[0-9]*.md"))}
    listed = re.findall(r"^- \[\d+\]\((.+?)\) (.+)$", (folder / "README.md").read_text("utf-8"), re.MULTILINE)
    assert dict(listed) == titles and len(listed) == len(titles)
