"""docs/understanding/: its pictures are what its scripts draw, and its commands print what stands there."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner
from interpreter import interpreter

from neardup_db import TextRules
from neardup_db.cli import main
from neardup_db.demo import documents
from neardup_db.show.difference import differences

PAGES = Path(__file__).resolve().parents[1] / "docs" / "understanding"
PICTURES = sorted(PAGES.glob("*.svg"))
TEXTS = {page.name: page.read_text("utf-8") for page in sorted(PAGES.glob("*.md"))}
README = (PAGES.parents[1] / "README.md").read_text("utf-8")
SVG = "{http://www.w3.org/2000/svg}"
DRAWN = {SVG + name for name in ("svg", "title", "style", "rect", "text", "path", "circle", "line", "polyline", "g")}
PAIRS = re.findall(
    r"\*\*(.+)\*\*: (\d+) places in (\d+)\swords, one in (\d+)\.[^`]*`(.+?)`\sand\s`(.+?)`\)\.\n\n((?:> .*\n)+)",
    TEXTS["thresholds.md"],
)
"""Similarity, places that differ, words, their quotient, two keys, and how the texts begin."""
COMMANDS = re.findall(r"```text\n\$ neardup (.*)\n((?:.*\n)*?)```", "".join(TEXTS.values()))


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("drawn")
    subprocess.run([*interpreter(), str(PAGES / "draw.py"), str(folder)], check=True, cwd=folder)
    return folder


def test_pictures_are_those_that_the_script_draws(drawn: Path) -> None:
    """Every number in a picture is what the package computes today."""
    now = {picture.name: picture.read_text("utf-8") for picture in drawn.iterdir()}
    stored = {picture.name: picture.read_text("utf-8") for picture in PICTURES}
    assert sorted(stored) == sorted(now)
    assert [name for name in now if now[name] != stored[name]] == [], "run docs/understanding/draw.py"


def test_the_readme_repeats_the_table_of_changed_words() -> None:
    """Its rows are the columns that the page on thresholds computes: the median, and what the default MinHash finds."""
    printed = [line.replace("%", "").split() for line in re.findall(r"^\d+% 0\.\d.*", TEXTS["thresholds.md"], re.MULTILINE)]
    rows = re.findall(r"^\| .*?\|( .*)\|$", README[README.index("| words changed") :], re.MULTILINE)
    shown = [[cell.strip(" %") for cell in row.split("|")] for row in rows[:4]]
    assert len(printed) == 5 and shown == [list(column) for column in zip(*printed, strict=True)][:4]


def test_every_picture_is_shown_with_a_text_in_its_place() -> None:
    """No picture is left over, none is missing, and each has a description on its page."""
    shown = dict((name, text) for page in TEXTS.values() for text, name in re.findall(r"!\[(.*?)\]\((\w+\.svg)\)", page))
    assert sorted(shown) == [picture.name for picture in PICTURES]
    assert all(len(text) > 20 for text in shown.values())


def test_a_picture_stands_for_itself() -> None:
    """It has a title, a background, both colour schemes and a width for small screens, and loads nothing; every text and every
    box begins and ends inside."""
    for picture in PICTURES:
        root = ElementTree.fromstring(picture.read_text("utf-8"))
        assert (root.findtext(f"{SVG}title") or "").strip()
        assert "prefers-color-scheme: dark" in (root.findtext(f"{SVG}style") or "")
        assert root.findall(f"{SVG}rect")[0].get("class") == "paper"
        width, height = float(root.get("width", 0)), float(root.get("height", 0))
        assert 300 <= width <= 480 and root.get("viewBox") == f"0 0 {width:g} {height:g}"
        names = {element.tag for element in root.iter()}
        assert names <= DRAWN
        assert not re.search(r"url\(|@import|href", picture.read_text("utf-8"))
        for box in root.iter(f"{SVG}rect"):
            x, y = float(box.get("x", 0)), float(box.get("y", 0))
            assert x >= 0 and y >= 0 and x + float(box.get("width", 0)) <= width and y + float(box.get("height", 0)) <= height
        for group in (root, *root.iter(f"{SVG}g")):
            moved = [float(number) for number in re.findall(r"-?[\d.]+", group.get("transform", "0 0"))]
            for text in group.findall(f"{SVG}text"):
                letters = len(text.text or "") * (6.4 if "small" in text.get("class", "") else 8.0)
                x, y = float(text.get("x", 0)) + moved[0], float(text.get("y", 0)) + moved[1]
                begin = x - letters * {"start": 0, "middle": 0.5, "end": 1}[text.get("text-anchor", "start")]
                assert begin >= 0 and begin + letters <= width and 8 <= y <= height, (picture, text.text)


@pytest.mark.parametrize("arguments, output", COMMANDS, ids=lambda value: value[:20])
def test_commands_print_what_is_shown(arguments: str, output: str) -> None:
    """A command of these pages prints what stands below it."""
    assert CliRunner().invoke(main, shlex.split(arguments)).output == output


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair[0])
def test_pairs_are_those_of_the_sample(pair: tuple[str, ...]) -> None:
    """Similarity, counts and differences of each pair that is shown are those of its texts."""
    similarity, places, number, quotient, key_a, key_b, quoted = pair
    texts = dict(documents())
    set_a, set_b = (set(TextRules().shingles(texts[key])) for key in (key_a, key_b))
    assert f"{len(set_a & set_b) / len(set_a | set_b):.2f}" == similarity
    parts = differences(texts[key_a], texts[key_b], words=True).parts
    sides = [(part.kind, part.a.strip(), part.b.strip()) for part in parts]
    marked = [a if kind == "equal" else f"[{a or '–'} / **{b or '–'}**]" for kind, a, b in sides]
    assert " ".join(marked).startswith(re.sub(r"\s*> ", " ", quoted).strip().removesuffix(" …"))
    assert sum(kind != "equal" for kind, _, _ in sides) == int(places)
    assert len(texts[key_a].split()) == int(number) and round(int(number) / int(places)) == int(quotient)


MEASURED = re.findall(r"\[result\]\(([^)]+)\)[^|#]*?:\n\n((?:\|.*\n)+)", TEXTS["comparison.md"])
"""A file of results, and the table below the sentence that names it."""


@pytest.mark.parametrize("file, table", MEASURED, ids=[Path(file).stem for file, _ in MEASURED])
def test_tables_have_the_figures_of_their_results(file: str, table: str) -> None:
    """Every figure of a measured table is in the file that the page names for it, rounded."""
    numbers = re.compile(r"(?<![\w.])(?:\d{1,3}(?:,\d{3})+|\d*)(?:\.\d+|(?<=\d))(?![\w.]*\d)")
    known = [float(number.replace(",", "")) for number in numbers.findall((PAGES / file).read_text("utf-8"))]
    for row in table.splitlines()[2:]:
        for figure in numbers.findall(row.split("|", 2)[2]):
            value, digits = float(figure.replace(",", "")), len(figure.partition(".")[2])
            assert any(abs(value - number) <= 0.5000001 / 10**digits for number in known), (row, figure)


def test_the_patterns_find_what_they_are_for() -> None:
    """Pairs of four tenths, measured tables and commands."""
    assert [pair[0] for pair in PAIRS] == ["0.90", "0.80", "0.70", "0.60"] and len(MEASURED) == 3
    assert len(COMMANDS) == sum(page.count("$ neardup") for page in TEXTS.values()) > 0
