"""What the bytes of an input are: UTF-8, another encoding, which is converted to UTF-8 copies, or no text."""

from __future__ import annotations

import codecs
from pathlib import Path

from .files import FileError, InputFile, NamedFile

UTF8 = "utf-8"

BOM = codecs.BOM_UTF8

_CONVERTED_BYTES = 1 << 18

_HEAD_BYTES = 64  # the number of bytes inspected to recognise UTF-16 without a byte order mark


def encoding_of(name: str) -> str:
    try:
        "a".encode(name)
        found = codecs.lookup(name).name
    except (LookupError, ValueError) as error:
        raise FileError(f"--encoding {name!r} is not known: name another, for example utf-16, latin-1 or gb18030") from error
    return UTF8 if found == "utf-8-sig" else found


class Converter:
    def __init__(self, encoding: str, name: str) -> None:
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._encoding, self._name = encoding, name

    def convert(self, data: bytes) -> bytes:
        """b"" ends the input. Raises FileError for invalid bytes."""
        try:
            return self._decoder.decode(data, final=not data).encode()
        except UnicodeError as error:
            raise FileError(f"{self._name}: not valid {self._encoding} ({error}): name another --encoding") from error


def converted(file: NamedFile, encoding: str, path: Path) -> NamedFile:
    """The copy has the original name."""
    converter = Converter(encoding, file.name)
    with InputFile(file.path, file.name) as source, open(path, "wb") as output:
        while data := source.read(_CONVERTED_BYTES):
            output.write(converter.convert(data))
        output.write(converter.convert(b""))
    return file._replace(path=path)


def refuse_utf16(head: bytes, file: str) -> None:
    """Refuses a file that starts with a UTF-16 byte order mark, or with ASCII in UTF-16, where every other byte is zero."""
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) and b"\0" in head:
        raise FileError(f"{file}: this is UTF-16: add --encoding utf-16")
    head = head[:_HEAD_BYTES]
    for first, encoding in enumerate(("utf-16-be", "utf-16-le")):
        zeros, others = head[first::2], head[1 - first :: 2]
        if len(zeros) > 1 and not any(zeros) and all(others):
            raise FileError(f"{file}: this looks like UTF-16 without a byte order mark: add --encoding {encoding}")


HEAD_BYTES = 4096  # the number of bytes read for detection

_KINDS = (
    ("PNG", 0, b"\x89PNG\r\n\x1a\n"), ("JPEG", 0, b"\xff\xd8\xff"), ("GIF", 0, b"GIF87a"), ("GIF", 0, b"GIF89a"),
    ("TIFF", 0, b"II*\0"), ("TIFF", 0, b"MM\0*"), ("WebP", 8, b"WEBPVP8"), ("BMP", 6, b"\0\0\0\0\x36\0\0\0"),
    ("AVIF", 4, b"ftypavif"), ("HEIF", 4, b"ftyphei"), ("HEIF", 4, b"ftypmif1"),
    ("a PDF document", 0, b"%PDF-"), ("a ZIP archive (as .docx, .xlsx and .epub are)", 0, b"PK\x03\x04"),
    ("an Office document", 0, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"), ("an SQLite database", 0, b"SQLite format 3\0"),
    ("a program", 0, b"\x7fELF"),
)  # fmt: skip
"""Formats by the bytes at an offset; one word names a kind of picture."""

_CONTROLS = bytes([*range(0x08), *range(0x0E, 0x1B), *range(0x1C, 0x20), 0x7F])
"""Control characters that text files do not use: all except backspace, tab, line ends, form feed and escape."""

_FEW = 8  # the number of control characters accepted in any text

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
    kind = next((kind for kind, offset, signature in _KINDS if head.startswith(signature, offset)), None)
    if kind is None or " " in kind:
        return kind and f"this is {kind}, not text: extract its text first"
    return f"this is a {kind} picture, not text: compare pictures by their codes, as docs/how-to/pictures.md shows"
