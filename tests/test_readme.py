"""What the README and the pages of docs/ show is what happens."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

from neardup_db import Index, MinHash

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINKED = [*PAGES, ROOT / "ARCHITECTURE.md", ROOT / "benchmarks" / "README.md"]


def blocks(page: Path, language: str) -> list[str]:
    """Code blocks of a language."""
    return re.findall(rf"```{language}\n(.*?)```", page.read_text("utf-8"), re.DOTALL)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=lambda page: page.name)
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


@pytest.mark.parametrize("page", LINKED, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    """Every relative link of a page names a file that is there."""
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text("utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_every_decision_is_in_the_index() -> None:
    """docs/decisions/README.md has a line for each note, with its title."""
    folder = ROOT / "docs" / "decisions"
    titles = {note.name: note.read_text("utf-8").splitlines()[0][2:] for note in sorted(folder.glob("[0-9]*.md"))}
    listed = re.findall(r"^- \[\d+\]\((.+?)\) (.+)$", (folder / "README.md").read_text("utf-8"), re.MULTILINE)
    assert dict(listed) == titles and len(listed) == len(titles)
