"""The style sheet of the pages, and response headers that allow only this style sheet."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

from ..show.style import CSS

STYLE = CSS + "\n" + Path(__file__).with_suffix(".css").read_text("utf-8")

_STYLE_HASH = base64.b64encode(hashlib.sha256(STYLE.encode("utf-8")).digest()).decode("ascii")

HEADERS = {
    "Content-Security-Policy": (
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; img-src 'self'; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "private, no-cache",
}
"""The browser runs no scripts on these pages, whatever a document contains, and loads nothing for them."""
