"""What MkDocs does besides: pages from outside of docs/, links to them, and examples with prompts as such.

Links in the pages are those of the repository, so that they work on a code host too. Of the site, files outside of docs/ are at
project/, by their path.
"""

from __future__ import annotations

import os
import posixpath
import re
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

OUTSIDE = ("README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "benchmarks/README.md")
RESULTS = "benchmarks/results"
PROJECT = "project/"
"""Folder of the site for what is outside of docs/."""

LINK = re.compile(r"(\]\()([^)\s:#]+)((?:#[^)\s]*)?\))")
PROMPTS = re.compile(r"^```python\n(?=>>> )", re.MULTILINE)
SHORT = re.compile(r"(?<!</span>)<code>(?=[^<\n]{1,28}</code>)")
"""The beginning of a name or an option in a sentence, not of a block."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages and pictures from outside."""
    root = os.path.dirname(config.config_file_path)
    results = sorted(os.listdir(os.path.join(root, RESULTS)))
    for path in (*OUTSIDE, *(f"{RESULTS}/{name}" for name in results if name.endswith((".md", ".png", ".svg")))):
        if os.path.exists(os.path.join(root, path)):
            files.append(File.generated(config, PROJECT + path, abs_src_path=os.path.join(root, path)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Turns links between docs/ and what is outside into links of the site."""
    place = page.file.src_uri

    def moved(link: re.Match[str]) -> str:
        target = in_site(posixpath.normpath(posixpath.join(posixpath.dirname(in_repository(place)), link[2])))
        return f"{link[1]}{posixpath.relpath(target, posixpath.dirname(place) or '.')}{link[3]}"

    return PROMPTS.sub("```pycon\n", LINK.sub(moved, markdown))


def on_page_content(html: str, **_: Any) -> str:
    """Keeps names and options in one line: a browser would cut --format behind its hyphens."""
    return SHORT.sub('<code class="short">', html)


def in_repository(path: str) -> str:
    """Where a page of the site is in the repository."""
    return path[len(PROJECT) :] if path.startswith(PROJECT) else f"docs/{path}"


def in_site(path: str) -> str:
    """Where a file of the repository is in the site."""
    return path[len("docs/") :] if path.startswith("docs/") else PROJECT + path
