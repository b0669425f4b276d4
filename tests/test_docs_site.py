"""The documentation as a site (`pip install '.[docs]'`): run with -m site."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Literal
from urllib.parse import unquote, urlsplit

import pytest
from playwright.sync_api import Browser, sync_playwright

import neardup_db

ROOT = Path(__file__).resolve().parents[1]
WIDE, NARROW = (1280, 900), (390, 844)

pytestmark = pytest.mark.site


class Page(HTMLParser):
    """The anchors of a page, the places it leads to, and what it loads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag == "link" and "canonical" not in given.get("rel", ""):
            self.loaded.append(given.get("href", ""))
        elif "src" in given:
            self.loaded.append(given["src"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built without a warning and without the network."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    nowhere = {name: "http://127.0.0.1:9" for name in ("http_proxy", "https_proxy", "all_proxy")}
    done = subprocess.run(command, cwd=ROOT, env=os.environ | nowhere, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    """Every page of the site."""
    return {path: Page(path) for path in sorted(site.rglob("*.html"))}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium, which reaches nothing but files."""
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        yield started
        started.close()


def test_links_lead_to_pages_and_anchors(site: Path, pages: dict[Path, Page]) -> None:
    """Every link of every page leads to a file of the site and, after #, to something of that name in it."""
    broken = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or path.name == "404.html":
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            wrong_anchor = parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors
            if not target.exists() or wrong_anchor:
                broken.append((str(path.relative_to(site)), link))
    assert broken == []


def test_pages_load_nothing_from_elsewhere(pages: dict[Path, Page]) -> None:
    """No script, font, style or picture comes from another place than the site."""
    assert {loaded for page in pages.values() for loaded in page.loaded if urlsplit(loaded).netloc} == set()


def test_all_that_is_public_is_in_the_reference(pages: dict[Path, Page]) -> None:
    """What `neardup_db` exports, and each public method of Index and AsyncIndex, has a place in the API pages."""
    anchors = {anchor for path, page in pages.items() if "api" in path.parts for anchor in page.anchors}
    left_out = {"ANY_GROUP", "Key", "__version__"}
    names = {anchor.rpartition(".")[2] for anchor in anchors}
    assert set(neardup_db.__all__) - left_out - names == set()
    methods = {name for name in dir(neardup_db.Index) if not name.startswith("_") and getattr(neardup_db.Index, name).__doc__}
    assert {f"neardup_db.Index.{name}" for name in methods} - anchors == set()
    assert {f"neardup_db.aio.AsyncIndex.{name}" for name in methods - {"connection", "scheme"}} - anchors == set()


def test_the_search_has_every_section(site: Path, pages: dict[Path, Page]) -> None:
    """Guides, methods, commands and SQL functions can be searched for."""
    places = {entry["location"] for entry in json.loads((site / "search" / "search_index.json").read_text("utf-8"))["docs"]}
    wanted = {"how-to/pictures.html", "reference/cli.html#neardup-watch", "reference/api/index.html#neardup_db.Index.add_many"}
    assert wanted <= places
    assert len(places) > len(pages)


def test_search_works_in_pages_opened_as_files(site: Path, browser: Browser) -> None:
    """Somebody types a word into the search field of a page that was opened from the disk, and finds pages."""
    page = browser.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto((site / "tutorial.html").as_uri())
    page.focus("input.md-search__input")
    page.wait_for_function("document.querySelector('.md-search-result__meta').innerText.startsWith('Type')")
    page.type("input.md-search__input", "containment")
    page.wait_for_selector(".md-search-result__item a", state="attached")
    found = page.locator(".md-search-result__item a").evaluate_all("links => links.map(link => link.pathname)")
    assert str(site / "how-to" / "containment.html") in found
    assert {url for url in asked if not url.startswith("file:")} == set()
    page.close()


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_no_page_is_wider_than_the_screen(site: Path, pages: dict[Path, Page], browser: Browser, size: tuple[int, int]) -> None:
    """Tables, code and pictures are scrolled in a frame of their own, on a telephone too."""
    page = browser.new_page(viewport={"width": size[0], "height": size[1]})
    too_wide = []
    for path in pages:
        if not {"decisions", "results"} & set(path.parts):
            page.goto(path.as_uri(), wait_until="domcontentloaded")
            if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                too_wide.append(str(path.relative_to(site)))
    page.close()
    assert too_wide == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_ground(site: Path, browser: Browser, scheme: Literal["light", "dark"]) -> None:
    """Text, code and links have a contrast of 4.5 to 1, large headings of 3 to 1."""
    context = browser.new_context(color_scheme=scheme)
    page = context.new_page()
    faint = set()
    for name in ("tutorial", "reference/api/index", "reference/sql", "how-to/web-service", "how-to/choosing_rules"):
        page.goto((site / f"{name}.html").as_uri())
        faint |= set(page.evaluate(FAINT))
    context.close()
    assert sorted(faint) == []


FAINT = """() => {
  const parsed = (colour) => { const c = colour.match(/[\\d.]+/g).map(Number); return c.length < 4 ? [...c, 1] : c; };
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3]));
  const linear = (v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const light = (c) => { const [r, g, b] = c.map((v) => linear(v / 255)); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const behind = (element) => { const layers = [];
    for (let e = element; e; e = e.parentElement) layers.unshift(parsed(getComputedStyle(e).backgroundColor));
    return layers.reduce((below, top) => over(top, below), [255, 255, 255]); };
  const found = new Set();
  for (const element of document.querySelectorAll(".md-content article *")) {
    const text = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    const style = getComputedStyle(element);
    if (!text || style.visibility === "hidden" || element.closest("svg, .headerlink, button, .md-source-file")) continue;
    const ground = behind(element);
    const [a, b] = [light(over(parsed(style.color), ground)), light(ground)].sort((x, y) => y - x);
    const contrast = (a + 0.05) / (b + 0.05);
    const large = parseFloat(style.fontSize) >= 24;
    if (contrast < (large ? 3 : 4.5)) found.add(`${element.tagName} .${element.className} ${contrast.toFixed(1)}`);
  }
  return [...found];
}"""
"""Elements with text whose colour is too near to that of the ground."""


def test_pages_are_in_the_navigation(site: Path) -> None:
    """Every page of docs/ but single decisions is in mkdocs.yml, so that each has a place in the menu."""
    menu = (ROOT / "mkdocs.yml").read_text("utf-8")
    docs = ROOT / "docs"
    left_out = [str(page.relative_to(docs)) for page in docs.rglob("*.md") if page.parent.name not in ("decisions", "examples")]
    assert [page for page in left_out if f": {page}" not in menu and f"- {page}" not in menu] == []


def test_examples_can_be_opened(site: Path) -> None:
    """The programs of docs/examples are part of the site."""
    names = {path.name for path in (ROOT / "docs" / "examples").glob("*.py")}
    assert names - {path.name for path in (site / "examples").iterdir()} == set()
