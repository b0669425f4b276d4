"""What the README shows is what happens."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

from neardup_db import Index, MinHash

README = Path(__file__).resolve().parents[1] / "README.md"


def blocks(language: str) -> list[str]:
    """Code blocks of a language."""
    return re.findall(rf"```{language}\n(.*?)```", README.read_text("utf-8"), re.DOTALL)


def test_python_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every Python example gives what stands below it."""
    monkeypatch.chdir(tmp_path)
    text = "\n".join(blocks("python"))
    test = doctest.DocTestParser().get_doctest(text, {}, "README.md", str(README), 0)
    result = doctest.DocTestRunner().run(test)
    assert result.failed == 0
    assert result.attempted > 10


def test_sql_examples() -> None:
    """Every SQL example runs on an index, and the search finds what was added."""
    statements = [one.strip() for block in blocks("sql") for one in block.split(";") if one.strip()]
    with Index(":memory:", MinHash(threshold=0.8)) as index:
        text = "The ferry to the northern islands was cancelled"
        index.add("a", text, metadata={"source": "x"})
        index.add("b", text + "!", metadata={"source": "y"})
        answers = [index.connection.execute(statement).fetchall() for statement in statements]
    assert answers == [[("a", 2)], [("y", "x", 1, 1.0)], [("a", 1.0), ("b", 1.0)], [(1.0,)]]
