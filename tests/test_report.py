"""A report is one file that holds what the index holds, for every scheme; its charts are files of their own too."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from pages import ELEMENTS, Html
from test_cli import run
from test_explain import HOSTILE

from neardup_db import BinaryCode, BitSampling, BottomK, Index, MinHash, SimHash
from neardup_db.show.report import report_page

STORY = "the ferry to the northern islands was cancelled on monday because of a storm that closed the harbour for two days"
CHARTS = {"figure", "figcaption", "svg", "desc", "line", "rect", "text", "polyline", "thead", "tbody"}
SVG = "{http://www.w3.org/2000/svg}"
REPORT = ELEMENTS | CHARTS | {"dl", "dt", "dd"}


def filled(path: Path, scheme: Any, **options: Any) -> Path:
    """A cluster of twelve, one of two, one document alone."""
    with Index(path, scheme, **options) as index:
        for i in range(12):
            index.add(f"ferry-{i:02}", f"{STORY} {'again' * (i % 2)}", metadata={"source": f"<b>{i}</b>"})
        for i in range(2):
            index.add(f"pair-{i}", " ".join(f"pair{j}" for j in range(30)))
        index.add("alone", " ".join(f"alone{j}" for j in range(30)))
    return path


@pytest.mark.parametrize("recorded", [True, False])
def test_the_report_shows_figures_charts_and_clusters(tmp_path: Path, recorded: bool) -> None:
    """Clusters with their size and first members, differences marked, and the same whether the index keeps clusters or not."""
    path = filled(tmp_path / "a.db", MinHash(threshold=0.8), store_text=True, record_matches=recorded)
    result = run("report", path, "-o", tmp_path / "r.html", "--members", 4)
    assert (result.exit_code, result.stdout) == (0, ""), result.output
    html = (tmp_path / "r.html").read_text("utf-8")
    found = Html(html)
    assert found.tags <= REPORT
    assert dict(zip(found.found["dt"], found.found["dd"], strict=True)) == {
        "Documents": "15",
        "Duplicates": "12",
        "Share of duplicates": "80.0%",
        "Clusters": "2",
        "Recorded matches": found.found["dd"][4],
    }
    assert (found.found["dd"][4] == "not kept") != recorded
    assert re.findall(r"nd-badge\">(\d+) documents</span> <span class=\"nd-key\" dir=\"auto\">([^<]*)", html) == [
        ("12", "ferry-00"),
        ("2", "pair-0"),
    ]
    assert "and 8 more" in html and "ferry-03" in html and "ferry-04" not in html
    assert found.found["ins"] == ["again", "again"] and "del" not in found.found
    assert html.count("<svg") == (4 if recorded else 2)
    assert html.count("&lt;b&gt;") == 4 and "alone" not in re.sub("standalone", "", html)


def test_nothing_in_a_document_is_run(tmp_path: Path) -> None:
    """Keys, groups, metadata, texts and the title with markup are shown as text, in a page whose policy forbids scripts."""
    with Index(tmp_path / "a.db", MinHash(), name="x", store_text=True) as index:
        for i in range(3):
            index.add(f"{i} {HOSTILE}", f"{STORY} {HOSTILE}", metadata={HOSTILE: HOSTILE}, group=HOSTILE)
        html = report_page(index, HOSTILE)
    found = Html(html)
    assert found.tags <= REPORT and not any(name.startswith("on") for name in found.attributes)
    assert html.count("&lt;script&gt;") >= 9 and "default-src 'none'" in html
    assert "http" not in html.replace("http://www.w3.org/2000/svg", "").replace("http-equiv", "")
    html.encode("utf-8")


@pytest.mark.parametrize("scheme", [MinHash(exact=True), BottomK(), SimHash(), BitSampling(), BinaryCode(bits=64)])
def test_every_scheme_has_a_report_and_charts_as_files(tmp_path: Path, scheme: Any) -> None:
    """Full or empty; each SVG file has its title and caption in it and its own size, and a chart without numbers has none."""
    path = tmp_path / "a.db"
    with Index(path, scheme):
        pass
    assert run("report", path, "-o", tmp_path / "empty.html").exit_code == 0
    assert "There is no cluster." in (tmp_path / "empty.html").read_text("utf-8")
    with Index(path) as index:
        for key in range(5):
            _ = index.add(key, STORY) if scheme.takes_text else index.add_code(key, 7)
    result = run("report", path, "-o", tmp_path / "full.html", "--svg", tmp_path / "new" / "svg")
    assert result.exit_code == 0, result.output
    assert "5 documents" in (tmp_path / "full.html").read_text("utf-8")
    files = sorted((tmp_path / "new" / "svg").iterdir())
    expected = {"similarity.svg", "sizes.svg", "timeline.svg"} | ({"curve.svg"} if scheme.takes_text else set())
    assert {file.name for file in files} == expected
    for file in files:
        svg = ElementTree.fromstring(file.read_bytes())
        shown = [element.text for element in svg.iter(f"{SVG}text")]
        assert svg.tag == f"{SVG}svg" and svg.findtext(f"{SVG}title") in shown
        assert " ".join(map(str, shown)).endswith(str(svg.findtext(f"{SVG}desc")))
        assert [svg.attrib["width"], svg.attrib["height"]] == svg.attrib["viewBox"].split()[2:]
        assert str(file) in result.stderr


@pytest.mark.posix("links")
def test_the_report_never_overwrites_its_index(tmp_path: Path) -> None:
    """-o with the index's own path, by whatever name, is refused."""
    path = filled(tmp_path / "a.db", MinHash())
    before = path.read_bytes()
    (tmp_path / "link.html").symlink_to(path)
    for target in (path, tmp_path / "link.html"):
        result = run("report", path, "-o", target)
        assert result.exit_code == 2 and "is the input" in result.stderr
    assert path.read_bytes() == before
    assert "Give -o FILE" in run("report", path).stderr


def test_a_page_replaces_nothing_that_is_not_said(tmp_path: Path) -> None:
    """What stands under the name of a page or a chart stays, and is named with the remedy, before anything is written."""
    path = filled(tmp_path / "a.db", MinHash())
    index_files = {file.name for file in tmp_path.iterdir()}
    page, charts = tmp_path / "page.html", tmp_path / "charts"
    commands = [("report", path, "-o", page), ("explain", path, 1, 2, "--key-type", "int", "--html", page)]
    page.write_text("mine", "utf-8")
    for command in commands:
        result = run(*command)
        assert result.exit_code == 2 and "page.html exists already" in result.stderr and "--force" in result.stderr, result.output
        assert page.read_text("utf-8") == "mine"
    assert run(*commands[0], "--force").exit_code == 0 and page.read_text("utf-8").endswith("</html>\n")
    assert run("report", path, "--svg", charts).exit_code == 0
    (page.unlink(), next(charts.iterdir()).write_text("mine", "utf-8"))
    result = run("report", path, "-o", page, "--svg", charts)
    assert result.exit_code == 2 and "exists already" in result.stderr and not page.exists()
    assert run("report", path, "-o", page, "--svg", charts, "--force").exit_code == 0 and page.exists()
    assert {file.name for file in tmp_path.iterdir()} == index_files | {"page.html", "charts"}


def test_members_that_only_others_join_are_told_so(tmp_path: Path) -> None:
    """A member that is no match of the earliest document has no similarity to it."""
    words = [f"w{i}" for i in range(40)]
    with Index(tmp_path / "a.db", MinHash(threshold=0.8, exact=True), store_text=True) as index:
        for key, start in (("first", 0), ("bridge", 3), ("last", 6)):
            index.add(key, " ".join(words[start : start + 32]))
        assert [match.key for match in index.matches("first")] == ["bridge"]
        html = report_page(index, "x")
    assert re.search(r"bridge</span> <span class=\"nd-badge\">0\.\d{4}<", html)
    assert re.search(r"last</span> <span class=\"nd-badge\">joined through others<", html)


def test_long_texts_keep_the_report_small(tmp_path: Path) -> None:
    """Texts of megabytes, keys and metadata of kilobytes are cut: the report stays under 200 KB."""
    with Index(tmp_path / "a.db", SimHash(), store_text=True) as index:
        for i in range(3):
            index.add(str(i) * 5000, "some words that stand there " * 100_000 + str(i), metadata={"x": "y" * 50_000})
        html = report_page(index, "x")
    assert len(html) < 200_000 and "3 documents" in html
