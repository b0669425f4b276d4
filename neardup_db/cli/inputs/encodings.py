"""Converts input in other encodings to UTF-8 copies, which the commands read."""

from __future__ import annotations

import codecs
from pathlib import Path

from .files import InputError, InputFile, NamedFile

UTF8 = "utf-8"

BOM = codecs.BOM_UTF8
"""The byte order mark at the start of some files."""

_CONVERTED_BYTES = 1 << 18
"""The conversion chunk size in bytes."""

_HEAD_BYTES = 64
"""The number of bytes inspected to recognise UTF-16 without a byte order mark."""


def encoding_of(name: str) -> str:
    try:
        "a".encode(name)
        found = codecs.lookup(name).name
    except (LookupError, ValueError) as error:
        raise InputError(f"--encoding {name!r} is not known: name another, for example utf-16, latin-1 or gb18030") from error
    return UTF8 if found == "utf-8-sig" else found


class Converter:
    def __init__(self, encoding: str, name: str) -> None:
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._encoding, self._name = encoding, name

    def convert(self, data: bytes) -> bytes:
        """b"" ends the input. Raises InputError for invalid bytes."""
        try:
            return self._decoder.decode(data, final=not data).encode()
        except UnicodeError as error:
            raise InputError(f"{self._name}: not valid {self._encoding} ({error}): name another --encoding") from error


def converted(file: NamedFile, encoding: str, path: Path) -> NamedFile:
    """The copy has the original name."""
    converter = Converter(encoding, file.name)
    with InputFile(file.path, file.name, file.packing) as source, open(path, "wb") as output:
        while data := source.read(_CONVERTED_BYTES):
            output.write(converter.convert(data))
        output.write(converter.convert(b""))
    return file._replace(path=path, packing=None)


def refuse_utf16(head: bytes, file: str) -> None:
    """Refuses a file that starts with a UTF-16 byte order mark, or with ASCII in UTF-16, where every other byte is zero."""
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) and b"\0" in head:
        raise InputError(f"{file}: this is UTF-16: add --encoding utf-16")
    head = head[:_HEAD_BYTES]
    for first, encoding in enumerate(("utf-16-be", "utf-16-le")):
        zeros, others = head[first::2], head[1 - first :: 2]
        if len(zeros) > 1 and not any(zeros) and all(others):
            raise InputError(f"{file}: this looks like UTF-16 without a byte order mark: add --encoding {encoding}")
