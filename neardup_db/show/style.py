"""The style sheet of all pages (every class begins with "nd-"), and the frame of a self-contained page.

Light and dark mode follow the system. Text has a contrast of 4.5 to 1, lines have 3 to 1, and colour is never the only sign.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from .escape import escape

CSS = Path(__file__).with_suffix(".css").read_text(encoding="utf-8")

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


def page(title: str, body: str) -> str:
    """An HTML document without scripts or external files. body: HTML.

    >>> from neardup_db.show.style import page
    >>> "<title>a &lt;b&gt;</title>" in page("a <b>", "<p>text</p>")
    True
    """
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{CSS}</style>\n</head>\n"
        f'<body class="nd-page">\n<main>\n{body}\n</main>\n</body>\n</html>\n'
    )


def fragment(body: str) -> str:
    """HTML with its style, for use in another page, such as a notebook."""
    return f'<div class="nd-page nd-fragment"><style>{CSS}</style>{body}</div>'


def facts(rows: Iterable[tuple[str, str]]) -> str:
    """Names (text) and values (HTML) as a table."""
    cells = "".join(f'<tr><th scope="row">{escape(name)}</th><td>{value}</td></tr>' for name, value in rows)
    return f'<div class="nd-scroll"><table class="nd-table">{cells}</table></div>'


def more_note(left_out: int) -> str:
    return f'<p class="nd-note">and {left_out:,} more</p>' if left_out > 0 else ""
