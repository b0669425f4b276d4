"""The bundled sample and `neardup demo`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from neardup_db import Index
from neardup_db.cli import main
from neardup_db.cli.difference import changes
from neardup_db.demo import SAMPLE, documents


def test_the_sample_is_what_its_description_says() -> None:
    """363 documents of 33 chapters, each with a text of its own, in less than 400 kB, with source and licence beside it."""
    sample = documents()
    assert len(sample) == len({key for key, _ in sample}) == len({text for _, text in sample}) == 363
    assert len({key.rpartition(" (")[0] for key, _ in sample}) == 33
    assert len(SAMPLE.read_bytes()) < 400_000
    described = (SAMPLE.parent / "README.md").read_text(encoding="utf-8")
    assert "public domain" in described and "scrollmapper/bible_databases" in described


def test_the_demo_tells_its_story(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every step is there, within 80 columns, and no file is left."""
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["demo"])
    assert result.exit_code == 0 and not list(tmp_path.iterdir())
    for title in ("1  Add", "2  47 clusters", "3  The words that differ", "4  Ask", "5  Delete", "Next"):
        assert title in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_the_demo_gives_figures() -> None:
    """--json has the documents, the clusters, the answer and the cluster before and after the deletion."""
    told = json.loads(CliRunner().invoke(main, ["demo", "--json"]).stdout)
    assert told["documents"] == 363 and len(told["clusters"]) == 47
    assert [match["key"] for match in told["query"]["matches"]] == ["Jude 1 (KJVPCE)", "Jude 1 (UKJV)"]
    deleted = told["deleted"]
    assert sorted(key for part in deleted["after"] for key in part) == sorted(set(deleted["before"]) - {deleted["key"]})


def test_the_demo_can_be_kept(tmp_path: Path) -> None:
    """--keep leaves an index without the deleted document, and never writes over an existing file."""
    runner = CliRunner()
    assert runner.invoke(main, ["demo", "--keep", str(tmp_path / "new")]).exit_code == 0
    with Index(tmp_path / "new" / "demo.db") as index:
        assert len(index) == 362
    again = runner.invoke(main, ["demo", "--keep", str(tmp_path / "new")])
    assert again.exit_code == 2 and "exists already" in again.stderr


def test_changes_are_words_with_their_surroundings() -> None:
    """Replaced, added and removed words stand between common ones; case and punctuation are no difference."""
    assert changes("one two three four", "one 2 three four", 9, around=1) == ["one [-two-] {+2+} three"]
    assert changes("one two", "one two three", 9, around=2) == ["one two {+three+}"]
    assert changes("one two", "two", 9, around=2) == ["[-one-] two"]
    assert changes("a x b x c x d", "a y b y c y d", 2) == ["a [-x-] {+y+} b", "b [-x-] {+y+} c", "and 1 more"]
    assert changes("The LORD, said", "the Lord said", 9) == changes("", "", 9) == []
