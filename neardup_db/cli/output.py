"""What commands print: JSON for machines, aligned lines for people, messages on standard error.

All text for a terminal goes through this module, also that of `screen.py`. It writes each unprintable character as an escape: the
name of a file, a table or a key from elsewhere may hold characters that move the cursor, reverse the line or answer for the user.
Records and pages that a command copies to standard output are data and pass unchanged.
"""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, TextIO

import click

from ..errors import ParameterError
from ..text import TextRules
from ..values import Match

_ESCAPES = {"\t": "\\t", "\n": "\\n", "\r": "\\r"}


def emit_json(value: Any, *, err: bool = False) -> None:
    """One JSON document on one line of standard output, or of standard error where that is for records. Characters that the
    stream cannot encode are escapes."""
    line = json_line(value)
    try:
        line.encode((sys.stderr if err else sys.stdout).encoding or "utf-8")
    except UnicodeEncodeError:
        line = json.dumps(value, default=str)
    click.echo(line, err=err)


def json_line(value: Any) -> str:
    """A value as JSON on one line, in which only printable characters stand for themselves."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if text.isprintable() else "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)


def emit(line: str = "", keep: str = "\t") -> None:
    """One line of standard output; its tabs, or other characters to keep, stay."""
    click.echo(harmless(line, keep))


def print_note(line: str) -> None:
    """One line of standard error, for messages that are not results."""
    click.echo(f"neardup: {harmless(line)}", err=True)


def prepare_streams() -> None:
    """Makes all streams but a terminal UTF-8 with line feeds, whatever the system's language. A terminal keeps its encoding;
    PYTHONIOENCODING decides first. What an encoding lacks becomes an escape.

    Raises ParameterError if standard output is closed; reading a closed standard input raises it too."""
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8", newline="\n")  # noqa: SIM115 (its descriptor becomes no file's)
    if sys.stdout is None:
        raise ParameterError("standard output is closed: redirect it to a file, or to /dev/null")
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if not isinstance(stream, io.TextIOWrapper):
            continue
        lenient = "replace" if stream is sys.stdin else "backslashreplace"
        if stream.isatty() or "PYTHONIOENCODING" in os.environ:
            stream.reconfigure(errors=lenient if stream.errors in _FAILING else stream.errors)
        elif stream is sys.stdin:
            stream.reconfigure(encoding="utf-8", errors=lenient)
        else:
            stream.reconfigure(encoding="utf-8", errors=lenient, newline="\n")
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.BufferedReader(_ClosedInput()), encoding="utf-8")


_FAILING = ("strict", "surrogateescape", "surrogatepass")
"""Treatments of errors under which a character that the encoding lacks is an exception."""


class _ClosedInput(io.RawIOBase):
    """In place of standard input that is closed."""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self.fileno()

    def fileno(self) -> int:
        raise ParameterError("standard input is closed: redirect it from a file, or from /dev/null")

    def isatty(self) -> bool:
        return self.fileno() < 0


def leave_stdout() -> None:
    """Sends the rest of standard output nowhere: its reader has left."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def fail(message: str, code: int) -> NoReturn:
    """Ends the program with one sentence on standard error."""
    print_note(message)
    sys.exit(code)


def add_afterword(error: BaseException, text: str) -> None:
    """Adds a sentence to the message that the program ends with if this error ends it."""
    before = getattr(error, "neardup_afterword", None)
    error.neardup_afterword = f"{before}; {text}" if before else text  # type: ignore[attr-defined]


def afterword(error: BaseException | None) -> str:
    """The sentences that `add_afterword` added, to follow the one about the error."""
    text = getattr(error, "neardup_afterword", None)
    return f"; {text}" if text else ""


def harmless(text: str, keep: str = "") -> str:
    """The text with an escape for each unprintable character, except for the characters to keep.

    >>> from neardup_db.cli.output import harmless
    >>> print(harmless("red: \x1b[31m, C1: \x9b, right to left: \u202e"))
    red: \\u001b[31m, C1: \\u009b, right to left: \\u202e
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else _escape(c) for c in text)


def _escape(character: str) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # a byte of a name or an argument that is not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    return _ESCAPES.get(character) or (f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")


class GuardedStream:
    """A terminal's stream for code that prints by itself: everything but text is escaped."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Writes text; returns its length."""
        self._stream.write(harmless(text, "\n\t"))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def escaped(value: object) -> str:
    """A value on one line, without characters that move a terminal's cursor; bytes as x'6869'."""
    return f"x'{value.hex()}'" if isinstance(value, bytes) else harmless(str(value))


def plain(value: Any) -> Any:
    """A value as JSON has it: dataclasses as objects, tuples and arrays as lists, bytes as {"hex": "..."}. A match has a part
    where its code has one."""
    if hasattr(value, "__dataclass_fields__"):
        values = {name: plain(getattr(value, name)) for name in value.__dataclass_fields__}
        if isinstance(value, Match) and value.part is None:
            del values["part"]
        return values
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    if isinstance(value, bytes):
        return {"hex": value.hex()}
    return plain(value.tolist()) if hasattr(value, "tolist") else value


def measure(similarity: float, distance: int | None) -> str:
    """Similarity, and the distance in bits where there is one, in columns of equal width."""
    return f"{similarity:.4f}" if distance is None else f"{similarity:.4f}  {distance:4d} bits"


def columns(rows: list[tuple[str, Any]]) -> None:
    """Names and values, the values aligned."""
    width = max((len(name) for name, _ in rows), default=0)
    for name, value in rows:
        emit(f"{name:<{width}}  {escaped(value)}")


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """'1 record', '2,000 records'."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def without_words(rules: TextRules | None) -> str:
    """What the texts have in common that match nothing."""
    fewest = 0 if rules is None else rules.min_tokens
    return f"with fewer than {fewest:,} tokens" if fewest > 1 else "without a word"


def bytes_text(size_bytes: float) -> str:
    """A size in a fitting unit: '12.3 MB'."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(size_bytes) < 1000:
            return f"{size_bytes:.0f} {unit}" if unit == "B" else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1000
    return f"{size_bytes:.1f} TB"


def note_problems(name: str, invalid: int, total: int, problems: Sequence[object]) -> None:
    """Says on standard error how many records of an input were not valid UTF-8 and how many were left out, and names
    the first."""
    if invalid:
        print_note(f"{name}: {counted(invalid, 'line')} with invalid UTF-8, read as U+FFFD; --encoding names another")
    if not total:
        return
    print_note(f"{name}: {counted(total, 'record')} left out")
    for problem in problems[:FIRST_PROBLEMS]:
        print_note(f"  {problem}")
    if len(problems) > FIRST_PROBLEMS:
        print_note(
            f"  ... --json names the first {len(problems):,}" if total > len(problems) else "  ... --json names all of them"
        )


FIRST_PROBLEMS = 5
"""Records left out that are named on standard error."""
