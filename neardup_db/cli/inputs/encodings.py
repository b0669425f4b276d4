"""Encodings of text files: those whose lines can be cut without decoding them, so that their bytes can be copied."""

from __future__ import annotations

import codecs

from .files import InputError

UTF8 = "utf-8"

BOM = codecs.BOM_UTF8
"""The mark that some programs put before the first line of a file."""

_WIDE = {
    "utf-16": {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"},
    "utf-32": {codecs.BOM_UTF32_LE: "utf-32-le", codecs.BOM_UTF32_BE: "utf-32-be"},
}
"""Encodings in which a line ends with more than one byte, by the marks that files begin with."""

_ASCII = bytes(range(128))

_NOT_CUT = ("iso2022", "unicode-escape", "raw-unicode-escape", "idna")
"""Encodings in which ASCII is itself, but a line may depend on the lines before it, or a line end be written as letters."""


def encoding_of(name: str) -> str:
    """Python's name of an encoding. InputError where there is none, or none whose lines end with the bytes of a line end."""
    try:
        found = codecs.lookup(name).name
        if is_wide(found) or (not found.startswith(_NOT_CUT) and _ASCII.decode(found) == _ASCII.decode("ascii")):
            return UTF8 if found == "utf-8-sig" else found
    except UnicodeError:
        pass
    except (LookupError, ValueError) as error:
        raise InputError(f"--encoding {name!r} is not known: name another, for example utf-16, latin-1 or gb18030") from error
    raise InputError(f"--encoding {name!r}: its lines cannot be cut by their bytes; turn the input into UTF-8 first")


def is_wide(encoding: str) -> bool:
    """Whether the encoding is one of UTF-16 or UTF-32."""
    return encoding[:6] in _WIDE


def unit_bytes(encoding: str) -> int:
    """Bytes of a unit of a wide encoding."""
    return int(encoding[4:6]) // 8


def line_end(encoding: str) -> bytes:
    """The bytes of a line feed; of a wide encoding the byte order must be known."""
    return "\n".encode(encoding)


def with_byte_order(encoding: str, head: bytes, file: str) -> tuple[str, bytes]:
    """A wide encoding with its byte order, and the mark, maybe b"", with which a file begins. InputError where none tells the
    order, or the mark another one."""
    marks = _WIDE[encoding[:6]]
    mark = next((mark for mark in marks if head.startswith(mark)), b"")
    told = marks.get(mark)
    if told is None and encoding in _WIDE and head:
        raise InputError(f"{file}: no byte order mark tells its order: give --encoding {encoding}-le or {encoding}-be")
    if told is not None and encoding not in (told, encoding[:6]):
        raise InputError(f"{file}: its mark is that of {told}, not of {encoding}: give --encoding {told}")
    return told or encoding, mark


def refuse_utf16(raw: bytes, file: str) -> None:
    """InputError where invalid UTF-8 is UTF-16 by its mark."""
    if raw[:2] in _WIDE["utf-16"] and b"\0" in raw:
        raise InputError(f"{file}: this is UTF-16: add --encoding utf-16")


def refuse_unmarked_utf16(head: bytes, file: str) -> None:
    """InputError where a file begins as ASCII in UTF-16 does, without a mark: every other byte is zero, and no other one."""
    for first, encoding in enumerate(("utf-16-be", "utf-16-le")):
        zeros, others = head[first::2], head[1 - first :: 2]
        if len(zeros) > 1 and not any(zeros) and all(others):
            raise InputError(f"{file}: this looks like UTF-16 without a byte order mark: add --encoding {encoding}")
