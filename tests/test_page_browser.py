"""Promise: a person with a browser, a keyboard alone or a phone finds near-duplicates and sees what differs; no script ever runs.

Drives Chromium: run with `-m browser`. Pictures of the pages are kept in pytest's folder of the test.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pages import served

from neardup_db import Index, MinHash

pytestmark = pytest.mark.browser

STORY = (
    "The ferry to the northern islands was cancelled on Monday because of a storm that closed the harbour for two days. "
    "The company said that tickets stay valid until the end of the month, and that a second ship has been chartered. "
    "On the islands the bakery ran out of bread on the second morning, and neighbours shared what they had in the village hall."
)
CHANGED = STORY.replace("northern", "southern").replace("bakery", "grocery").replace("two days", "three days")
SCRIPT = (
    f"{STORY} <script>window.ran = true; alert('run')</script><img src=x onerror=\"window.ran = true; alert('run')\">"
    '<svg onload="window.ran = true"></svg></textarea></style><style>body { display: none }</style>'
)
OPTIONS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The page of an index with planted near-duplicates, and some hundred other documents."""
    path = tmp_path_factory.mktemp("served") / "articles.db"
    with Index(path, MinHash(threshold=0.5, exact=True), store_text=True) as index, index.transaction():
        index.add("wire", STORY, metadata={"source": "wire"})
        index.add("copy", CHANGED)
        index.add("<script>alert('key')</script>", SCRIPT, metadata={"<b>": "</div><script>alert(3)</script>"})
        for number in range(150):
            words = " ".join(f"w{number % 75}x{place}" for place in range(30))
            index.add(f"filler {number}", f"{words} and number {number}")
    with served(path) as (found, _):
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.fail("these tests drive Chromium, which is not installed: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=program, args=list(OPTIONS))
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser: Any, request: pytest.FixtureRequest) -> Iterator[Any]:
    """A page, with the options of the test; a dialog, a script error, and a refused or foreign request fail the test."""
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **getattr(request, "param", {})})
    one = context.new_page()
    wrong: list[str] = []

    def dialog(box: Any) -> None:
        wrong.append(f"a dialog: {box.message}")
        box.dismiss()

    one.on("dialog", dialog)
    one.on("pageerror", lambda error: wrong.append(f"a script failed: {error}"))
    one.on("console", lambda said: wrong.append(said.text) if said.type in ("error", "warning") else None)
    one.on("request", lambda asked: None if "127.0.0.1" in asked.url else wrong.append(f"fetched {asked.url}"))
    yield one
    assert wrong == []
    assert one.evaluate("window.ran") is None
    context.close()


PHONE = pytest.param({"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}, id="phone")
LIGHT, DARK = pytest.param({}, id="light"), pytest.param({"color_scheme": "dark"}, id="dark")


def text_of(found: Any) -> list[str]:
    return [one.strip() for one in found.all_inner_texts()]


def test_search_finds_the_planted_near_duplicate(page: Any, address: str, tmp_path: Path) -> None:
    """A text typed into the box finds its near-duplicates, best first, with the differing words marked."""
    page.goto(address)
    page.get_by_label("Text", exact=True).fill(CHANGED)
    page.get_by_role("button", name="Find near-duplicates").click()
    assert page.get_by_role("heading", level=2).inner_text() == "3 near-duplicates, best first"
    assert page.title().startswith("3 found: ")
    entries = page.get_by_role("article")
    assert text_of(entries.locator("h3 .nd-key"))[:2] == ["copy", "wire"]
    assert entries.nth(0).locator("del, ins").count() == 0
    assert text_of(entries.nth(1).locator("del")) == ["southern", "three", "grocery"]
    assert text_of(entries.nth(1).locator("ins")) == ["northern", "two", "bakery"]
    page.screenshot(path=tmp_path / "search.png", full_page=True)
    entries.nth(1).get_by_role("link").click()
    assert "beside=1" in page.url


def test_the_cluster_page_marks_exactly_the_differing_words(page: Any, address: str) -> None:
    """From the list of clusters to one of them: the changed words are struck through and underlined, and no others."""
    page.goto(address)
    page.get_by_role("link", name="wire").click()
    assert page.get_by_role("heading", level=1).inner_text() == "Cluster 2: 3 documents"
    copy = page.get_by_role("article").nth(0)
    assert text_of(copy.locator("del")) == ["northern", "two", "bakery"]
    assert text_of(copy.locator("ins")) == ["southern", "three", "grocery"]
    decorations = [copy.locator(mark).first.evaluate("e => getComputedStyle(e).textDecorationLine") for mark in ("del", "ins")]
    assert decorations == ["line-through", "underline"]


def test_markup_in_documents_stays_text(page: Any, address: str) -> None:
    """Script, image, style and end tags of a document, its key, metadata and of a question are read on the page, as written."""
    page.goto(f"{address}/clusters/2?beside=3")
    assert page.get_by_role("heading", name="<script>alert('key')</script>").first.is_visible()
    shown = page.locator(".nd-text").inner_text()
    assert shown == SCRIPT
    assert page.locator("script, img, main style, main svg").count() == 0
    page.goto(f"{address}/search")
    page.get_by_label("Text", exact=True).fill(SCRIPT)
    page.get_by_role("button").click()
    assert page.get_by_label("Text", exact=True).input_value() == SCRIPT
    assert page.locator("script, img, main style, main svg").count() == 0
    assert page.locator("body").evaluate("e => getComputedStyle(e).display") != "none"


def test_charts_are_drawn(page: Any, address: str) -> None:
    """Four charts with a name and a description each, wide enough to read, with bars or lines in them, and their numbers."""
    page.goto(address)
    charts = page.locator("figure svg[role=img]")
    assert charts.count() == 4
    for number in range(4):
        box = charts.nth(number).bounding_box()
        assert box["width"] > 300
        assert box["height"] > 150
        assert charts.nth(number).locator("rect, polyline").count() > 0
        assert charts.nth(number).locator("> title").text_content()
        assert charts.nth(number).locator("> desc").text_content()
    page.locator("figure summary").first.click()
    assert page.locator("figure").first.get_by_role("table").is_visible()


def test_keyboard_alone(page: Any, address: str) -> None:
    """Tab reaches skip link, navigation, box and button in this order, each with a visible outline; Enter and Space act."""
    page.goto(address)
    reached = []
    for _ in range(8):
        page.keyboard.press("Tab")
        found = page.evaluate(
            "() => { const e = document.activeElement, s = getComputedStyle(e), b = e.getBoundingClientRect();"
            " return [(e.id || e.textContent.trim()).slice(0, 24), s.outlineStyle, parseFloat(s.outlineWidth), b.left >= 0] }"
        )
        reached.append(found[0])
        assert found[1] != "none", found
        assert found[2] >= 1, found
        assert found[3], "what has the focus can be seen"
    assert reached[:4] == ["Skip to the content", "Datasette", "Near-duplicates", "text"]
    assert reached[4:7] == ["threshold", "limit", "measure"]
    page.get_by_label("Text", exact=True).focus()
    page.keyboard.insert_text(STORY)
    for _ in range(4):
        page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.tagName") == "BUTTON"
    page.keyboard.press("Enter")
    page.wait_for_url("**/search*")
    assert page.get_by_role("heading", level=2).inner_text() == "3 near-duplicates, best first"
    assert page.title().startswith("3 found: ")


def test_landmarks_and_labels(page: Any, address: str) -> None:
    """One main, one navigation by name, a heading of level 1, a title, a language; every field has a label."""
    for place in (address.partition("/articles")[0], address, f"{address}/clusters/2", f"{address}/search"):
        page.goto(place)
        assert page.get_by_role("main").count() == 1
        assert page.get_by_role("navigation", name="Where you are").count() == 1
        assert page.get_by_role("heading", level=1).count() == 1
        assert page.title()
        assert page.locator("html").get_attribute("lang") == "en"
        fields = page.locator("input:not([type=hidden]), textarea, select")
        unnamed = [fields.nth(i).evaluate("e => e.labels.length") for i in range(fields.count())]
        assert all(unnamed)


CONTRASTS = """() => {
  const rgb = text => (text.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255).map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = e => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor);
    if (c.length === 3 || c[3] > 0) return c } return [255, 255, 255] };
  const found = [];
  for (const e of document.querySelectorAll('body *')) {
    if (![...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()) || !e.checkVisibility()) continue;
    if (e.closest('svg, .nd-skip, .nd-unseen')) continue;
    const [a, b] = [light(rgb(getComputedStyle(e).color)), light(behind(e))].sort((x, y) => y - x);
    found.push([(a + 0.05) / (b + 0.05), e.textContent.trim().slice(0, 30), e.tagName]);
  }
  for (const e of document.querySelectorAll('[placeholder]')) {
    const [a, b] = [light(rgb(getComputedStyle(e, '::placeholder').color)), light(behind(e))].sort((x, y) => y - x);
    found.push([(a + 0.05) / (b + 0.05), e.placeholder, 'placeholder']);
  }
  return found.sort((x, y) => x[0] - y[0]);
}"""


@pytest.mark.parametrize("page", [LIGHT, DARK], indirect=True)
def test_contrast(page: Any, address: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """All text has a contrast of at least 4.5 to 1, in light and dark; the system's wish for dark pages is followed."""
    dark = "dark" in request.node.name
    for name, place in (("index", address), ("cluster", f"{address}/clusters/2"), ("search", f"{address}/search")):
        page.goto(place)
        found = page.evaluate(CONTRASTS)
        assert len(found) > 5
        assert found[0][0] >= 4.5, found[:5]
        background = page.locator("body").evaluate("e => getComputedStyle(e).backgroundColor")
        assert (sum(map(int, background.removeprefix("rgb(").removesuffix(")").split(","))) < 150) == dark
        page.screenshot(path=tmp_path / f"{name}.png", full_page=True)


@pytest.mark.parametrize("page", [PHONE], indirect=True)
def test_on_a_phone(page: Any, address: str, tmp_path: Path) -> None:
    """390 pixels: nothing is wider than the screen, texts stand below each other, what is touched is large enough."""
    for name, place in (("index", address), ("cluster", f"{address}/clusters/2"), ("search", f"{address}/search")):
        page.goto(place)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, name
        page.screenshot(path=tmp_path / f"phone-{name}.png", full_page=True)
    assert page.get_by_role("button").bounding_box()["height"] >= 44
    page.goto(f"{address}/clusters/2")
    left, right = (page.locator(".nd-row:not(.nd-heads) .nd-side").nth(number).bounding_box() for number in (0, 1))
    assert right["y"] >= left["y"] + left["height"] - 1


def test_a_problem_page(browser: Any, address: str) -> None:
    """An unknown cluster: a page that says so, with the way back."""
    context = browser.new_context()
    page = context.new_page()
    answer = page.goto(f"{address}/clusters/999")
    assert answer is not None
    assert answer.status == 404
    assert "no cluster 999" in page.get_by_role("alert").inner_text()
    page.get_by_role("main").get_by_role("link").click()
    assert page.url == address
    context.close()
