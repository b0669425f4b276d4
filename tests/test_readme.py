"""What the README and the pages of docs/ show is what happens; those that are followed step by step are in test_docs.py."""

from __future__ import annotations

import doctest
import re
from collections import Counter
from pathlib import Path

import pytest

from neardup_db import Index, MinHash

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FOLLOWED = {ROOT / "docs" / "tutorial.md", *(ROOT / "docs" / "how-to").glob("*.md")}
LINKED = [*PAGES, ROOT / "ARCHITECTURE.md", ROOT / "benchmarks" / "README.md"]


LINK = re.compile(r"\]\(([^)\s]+)\)")
HOSTS = {"arrow.apache.org", "datasette.io", "narwhals-dev.github.io"}
"""Whom the pages send their readers to."""


def name_of(page: Path) -> str:
    """A page, by its path."""
    return str(page.relative_to(ROOT))


def without_blocks(page: Path) -> str:
    """The text of a page without its blocks of code."""
    return re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)


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
    text = "\n".join(blocks(page, "python"))
    test = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)
    result = doctest.DocTestRunner().run(test)
    assert result.failed == 0
    assert result.attempted >= text.count(">>> ") > 1


def test_sql_examples() -> None:
    """Every SQL example of the README runs on an index, and finds what was added."""
    statements = [one.strip() for block in blocks(PAGES[0], "sql") for one in block.split(";") if one.strip()]
    with Index(":memory:", MinHash(threshold=0.8)) as index:
        text = "The ferry to the northern islands was cancelled"
        index.add("a", text, metadata={"source": "x"})
        index.add("b", text + "!", metadata={"source": "y"})
        answers = [index.connection.execute(statement).fetchall() for statement in statements]
    assert answers == [[("a", 2)], [("y", "x", 1, 1.0)]]


@pytest.mark.parametrize("page", LINKED, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    """Every relative link of a page names a file that is there and, after #, a heading of it; another one is of a known host."""
    links = LINK.findall(without_blocks(page))
    assert {host for host in re.findall(r"https?://([^/\s:\")>]+)", " ".join(links))} <= HOSTS
    broken = []
    for link in links:
        if not re.match(r"[a-z]+:", link):
            path, _, anchor = link.partition("#")
            target = page.parent / path if path else page
            if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
                broken.append(link)
    assert broken == []


def test_every_decision_is_in_the_index() -> None:
    """docs/decisions/README.md has a line for each note, with its title."""
    folder = ROOT / "docs" / "decisions"
    titles = {note.name: note.read_text("utf-8").splitlines()[0][2:] for note in sorted(folder.glob("[0-9]*.md"))}
    listed = re.findall(r"^- \[\d+\]\((.+?)\) (.+)$", (folder / "README.md").read_text("utf-8"), re.MULTILINE)
    assert dict(listed) == titles and len(listed) == len(titles)
