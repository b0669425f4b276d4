"""Draws docs/report.png: the report that the tutorial ends with, as Chromium shows it. Run it after a change of the report."""

import tempfile
from pathlib import Path

from click.testing import CliRunner
from playwright.sync_api import sync_playwright

from neardup_db import Index, MinHash, demo
from neardup_db.cli import main

PICTURE = Path(__file__).parents[1] / "report.png"

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        with Index(f"{folder}/chapters.db", MinHash(threshold=0.65, exact=True), store_text=True) as index:
            index.add_many(demo.documents())
        page = Path(folder, "report.html")
        CliRunner().invoke(main, ["report", f"{folder}/chapters.db", "-o", str(page)], catch_exceptions=False)
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        shown = browser.new_page(viewport={"width": 1000, "height": 1400})
        shown.goto(page.as_uri())
        shown.screenshot(path=PICTURE)
        browser.close()
