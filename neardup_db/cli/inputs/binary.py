"""Detects files that are not text, such as pictures, archives and programs, by their first bytes."""

from __future__ import annotations

HEAD_BYTES = 4096
"""The number of bytes read for detection."""

_PICTURES = {
    b"\x89PNG\r\n\x1a\n": "PNG", b"\xff\xd8\xff": "JPEG", b"GIF87a": "GIF", b"GIF89a": "GIF", b"II*\0": "TIFF", b"MM\0*": "TIFF",
}  # fmt: skip

_OTHERS = {
    b"%PDF-": "a PDF document",
    b"PK\x03\x04": "a ZIP archive (as .docx, .xlsx and .epub are)",
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": "an Office document",
    b"SQLite format 3\0": "an SQLite database",
    b"\x7fELF": "a program",
}

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
    """The same for formats with a signature that no text begins with in any encoding."""
    if picture := _picture(head):
        return f"this is a {picture} picture, not text: compare pictures by their codes, as docs/how-to/pictures.md shows"
    kind = next((kind for signature, kind in _OTHERS.items() if head.startswith(signature)), None)
    return kind and f"this is {kind}, not text: extract its text first"


def _picture(head: bytes) -> str | None:
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "WebP"
    if head[:2] == b"BM" and head[6:10] == b"\0\0\0\0":
        return "BMP"
    if head[4:8] == b"ftyp" and head[8:12] in (b"heic", b"heix", b"mif1", b"avif"):
        return "AVIF" if head[8:12] == b"avif" else "HEIF"
    return next((kind for signature, kind in _PICTURES.items() if head.startswith(signature)), None)
