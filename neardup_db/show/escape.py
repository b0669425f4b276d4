"""Escapes text for HTML, so that it is shown and never run."""

from __future__ import annotations

import html
import re

_UNSHOWABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def escape(value: object) -> str:
    """A value as HTML text or quoted attribute content. Characters that HTML does not allow become U+FFFD; bytes become x'6869'.

    >>> from neardup_db.show.escape import escape
    >>> escape('<script>"1 & 2"</script>')
    '&lt;script&gt;&quot;1 &amp; 2&quot;&lt;/script&gt;'
    """
    return _UNSHOWABLE.sub("\ufffd", html.escape(plain_text(value)))


def plain_text(value: object) -> str:
    """A key or another value as text; bytes as x'6869'."""
    return f"x'{value.hex()}'" if isinstance(value, bytes) else str(value)


def shortened(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def label_html(value: object, most: int = 200) -> str:
    return escape(shortened(plain_text(value), most))
