"""Detects files that are not text, such as pictures, archives and programs, by their first bytes."""

from __future__ import annotations

HEAD_BYTES = 4096
"""The number of bytes read for detection."""

_PICTURES = (
    ("PNG", 0, b"\x89PNG\r\n\x1a\n"), ("JPEG", 0, b"\xff\xd8\xff"), ("GIF", 0, b"GIF87a"), ("GIF", 0, b"GIF89a"),
    ("TIFF", 0, b"II*\0"), ("TIFF", 0, b"MM\0*"), ("WebP", 8, b"WEBPVP8"), ("BMP", 6, b"\0\0\0\0\x36\0\0\0"),
    ("AVIF", 4, b"ftypavif"), ("HEIF", 4, b"ftyphei"), ("HEIF", 4, b"ftypmif1"),
)  # fmt: skip
_OTHERS = (
    ("a PDF document", 0, b"%PDF-"),
    ("a ZIP archive (as .docx, .xlsx and .epub are)", 0, b"PK\x03\x04"),
    ("an Office document", 0, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"),
    ("an SQLite database", 0, b"SQLite format 3\0"),
    ("a program", 0, b"\x7fELF"),
)
"""Formats by the bytes at an offset."""

_CONTROLS = bytes([*range(0x08), *range(0x0E, 0x1B), *range(0x1C, 0x20), 0x7F])
"""Control characters that text files do not use: all except backspace, tab, line ends, form feed and escape."""

_FEW = 8
"""The number of control characters accepted in any text."""

_SHARE = 16
"""A file is binary if more than one byte in this many is a control character. In random or packed data it is one in ten."""


def why_not_text(head: bytes) -> str | None:
    """Why the first HEAD_BYTES are not text in any encoding that contains ASCII, and the remedy; None for text."""
    if found := known_kind(head):
        return found
    controls = len(head) - len(head.translate(None, _CONTROLS))
    if controls <= max(_FEW, len(head) // _SHARE):
        return None
    what = f"this is not text ({controls:,} of its first {len(head):,} bytes are control characters)"
    return f"{what}: extract its text first, or convert it to UTF-8"


def known_kind(head: bytes) -> str | None:
    """The same for formats with a signature that no text has in any encoding."""
    for kind, offset, signature in _PICTURES:
        if head.startswith(signature, offset):
            return f"this is a {kind} picture, not text: compare pictures by their codes, as docs/how-to/pictures.md shows"
    for kind, offset, signature in _OTHERS:
        if head.startswith(signature, offset):
            return f"this is {kind}, not text: extract its text first"
    return None
