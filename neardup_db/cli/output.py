"""Command output: JSON for programs, aligned lines for users, messages on standard error.

All terminal output but progress bars passes through this module, which escapes unprintable characters: in foreign
names and keys they could move the cursor, reverse a line or answer for the user. Copied records and pages are not changed.
"""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn, TextIO

import click

from ..errors import ParameterError
from ..schemes import Scheme
from ..text import TextRules
from ..values import Match

_ESCAPES = {"\t": "\\t", "\n": "\\n", "\r": "\\r"}


def emit_json(value: Any, *, err: bool = False) -> None:
    """Write one JSON line to standard output, or to standard error if that is reserved for records."""
    line = json_line(value)
    try:
        line.encode((sys.stderr if err else sys.stdout).encoding or "utf-8")
    except UnicodeEncodeError:
        line = json.dumps(value, default=str)
    click.echo(line, err=err)


def json_line(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if text.isprintable() else "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)


def emit(line: str = "", keep: str = "\t") -> None:
    click.echo(escape_unprintable(line, keep))


def print_note(line: str) -> None:
    click.echo(f"neardup: {escape_unprintable(line)}", err=True)


def prepare_streams() -> None:
    """Switch all streams except terminals to UTF-8 with line feeds, independent of the locale; PYTHONIOENCODING has priority.
    Characters that an encoding lacks are escaped.

    Raises ParameterError if standard output is closed, and when a closed standard input is read.
    """
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
        sys.stdin = _ClosedInput()


_FAILING = ("strict", "surrogateescape", "surrogatepass")
"""Error handlers that raise an exception for a character that the encoding lacks."""


class _ClosedInput:
    def __getattr__(self, name: str) -> Any:
        raise ParameterError("standard input is closed: redirect it from a file, or from /dev/null")


def leave_stdout() -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def fail(message: str, code: int) -> NoReturn:
    print_note(message)
    sys.exit(code)


def add_afterword(error: BaseException, text: str) -> None:
    before = getattr(error, "neardup_afterword", None)
    error.neardup_afterword = f"{before}; {text}" if before else text  # type: ignore[attr-defined]


def afterword(error: BaseException | None) -> str:
    text = getattr(error, "neardup_afterword", None)
    return f"; {text}" if text else ""


def escape_unprintable(text: str, keep: str = "") -> str:
    """The text with unprintable characters escaped, except the characters in `keep`.

    >>> from neardup_db.cli.output import escape_unprintable
    >>> print(escape_unprintable("red: \x1b[31m, C1: \x9b, right to left: \u202e"))
    red: \\u001b[31m, C1: \\u009b, right to left: \\u202e
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else _escape(c) for c in text)


def _escape(character: str) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # an undecodable byte of a name or an argument
        return f"\\x{code - 0xDC00:02x}"
    return _ESCAPES.get(character) or (f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")


class GuardedStream:
    """Wraps a terminal's stream for code that prints by itself: unprintable characters are escaped."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(escape_unprintable(text, "\n\t"))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def escaped(value: object) -> str:
    return f"x'{value.hex()}'" if isinstance(value, bytes) else escape_unprintable(str(value))


def as_json_value(value: Any) -> Any:
    """A value for JSON: dataclasses as objects, tuples and arrays as lists, bytes as {"hex": "..."}. A match has a part if its
    code is named."""
    if hasattr(value, "__dataclass_fields__"):
        values = {name: as_json_value(getattr(value, name)) for name in value.__dataclass_fields__}
        if isinstance(value, Match) and value.part is None:
            del values["part"]
        return values
    if isinstance(value, Mapping):
        return {str(name): as_json_value(item) for name, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [as_json_value(item) for item in value]
    if isinstance(value, bytes):
        return {"hex": value.hex()}
    return as_json_value(value.tolist()) if hasattr(value, "tolist") else value


def aligned(rows: Iterable[tuple[str, Any]]) -> list[str]:
    shown = list(rows)
    width = max((len(name) for name, _ in shown), default=0)
    return [f"{name:<{width}}  {escaped(value)}" for name, value in shown]


def count_text(count: int, noun: str, plural: str | None = None) -> str:
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def without_words(rules: TextRules | None, scheme: Scheme | None = None) -> str:
    fewest = max(0 if rules is None else rules.min_tokens, getattr(scheme, "shortest", 0))
    return f"with fewer than {fewest:,} tokens" if fewest > 1 else "without a word"


def bytes_text(size_bytes: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if abs(size_bytes) < 1000:
            return f"{size_bytes:.0f} {unit}" if unit == "B" else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1000
    return f"{size_bytes:.1f} TB"


def note_problems(name: str, invalid: int, total: int, problems: Sequence[object]) -> None:
    if invalid:
        print_note(f"{name}: {count_text(invalid, 'line')} with invalid UTF-8, read as U+FFFD; --encoding names another")
    if not total:
        return
    print_note(f"{name}: {count_text(total, 'record')} skipped")
    for problem in problems[:FIRST_PROBLEMS]:
        print_note(f"  {problem}")
    if len(problems) > FIRST_PROBLEMS:
        print_note(
            f"  ... --json names the first {len(problems):,}" if total > len(problems) else "  ... --json names all of them"
        )


FIRST_PROBLEMS = 5  # the number of skipped records listed on standard error
