"""Rewrites messages of the package for the command line: options instead of Python arguments."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import apsw

from ..errors import NearDupError
from .inputs.files import FileError

_PHRASES = (
    ("give if_exists='replace' or 'ignore'", "add --if-exists replace or --if-exists ignore"),
    ("to read it, open it with read_only=True; to write, without, in a folder that you may write to", "check the permissions of "
     "the file and of its folder"),
    ("the index was opened with read_only=True: open it without, to write", "the index is open for reading only"),
    ("read_only=True cannot create it", "reading cannot create it"),
    (", or attach=True to put an index into it beside its tables", ""),
    ("Give attach=True to create one in it", "Give another --name, or another path"),
    ("Give name=, or a scheme to create one", "Give its --name, or make one with neardup add"),
    ("give a scheme, e.g. MinHash(threshold=0.8), to create it", "make one with neardup add"),
    ("take TextRules.chars(shingle=3) and a threshold of 0.8, or silence this with "
     "warnings.simplefilter('ignore', neardup_db.ShortTextsWarning)", "give --tokens chars --shingle 3 --threshold 0.8"),
    ("try again, or give a larger timeout", "try again"),
    ("try again, give Index a larger timeout, or let that thread come out before it waits for this one", "try again"),
    ("go on with the same object", "run the command again"),
    ("has no distance; use threshold", "has no distance; use --threshold"),
    ("group=ANY_GROUP does", "--all-groups does"),
    ("file is not a database", "file is not a database: give the path of an index"),
    ("give a timedelta, or a number of seconds, of at least a millisecond", "give a time of at least 0.001s"),
    ("give a timedelta of at least a millisecond", "give a time of at least 0.001s"),
    ("(documents, or a timedelta)", "(documents), or a time, as 24h"),
    ("and set_window(), not rebuild(), changes that", "and neardup window changes that"),
    ("the file has None, and", "the file keeps all, and"),
    ("call follow(table, key=..., text=...) first", "run neardup follow first"),
    ("give the token of an earlier call of changes(), or leave since= out", "give the token of an earlier neardup changes, or "
     "leave --since out"),
    ("other is this index itself: give another one", "FROM is INTO itself: name another index"),
    ("the file has False", "the file is otherwise"),
    ("the file has True", "the file is otherwise"),
)  # fmt: skip
"""Message parts with their own wording on the command line."""

_FLAGS = ("exact", "containment", "strip_accents", "store_text", "record_matches", "only_new", "repair")
"""Arguments that are flags on the command line."""

_OPTIONS = (
    *_FLAGS, "threshold", "max_distance", "num_perm", "bits", "k", "recall", "tokens", "shingle", "min_tokens", "normalize",
    "case", "group", "if_exists", "on_error", "commit_every", "measure", "limit", "name", "window", "shortest",
)  # fmt: skip
"""Arguments that have an option of the same name."""

_NAME = "|".join(_OPTIONS)
_PLAIN_NAME = "|".join(name for name in _OPTIONS if "_" in name)  # without an underscore they are also ordinary words
_PART = re.compile(r"(\w+)=(-?\d+)")
_SCHEME = re.compile(r"\b(MinHash|SimHash|BottomK|BitSampling|BinaryCode|Passages)\(([^()]*)\)")
_COMMAND = re.compile(r"\b(rebuild|check|follow|sync|unfollow)\(([^()]*)\)")
_NO_WINDOW = re.compile(r"\bset_window\(None\)")
_TIME = re.compile(r"\bdatetime\.timedelta\(((?:\w+=-?\d+(?:, )?)*)0?\)")
_QUOTED = r"(?<![\w'\"])'(?:[^'\\]|\\.)*'(?!\w)"
_ARGUMENT = re.compile(rf"{_QUOTED}|\b({_NAME})=('[^']*'|[^\s,;:)]+)|(?<!--)\b({_PLAIN_NAME})\b")


def in_command_terms(message: str) -> str:
    """A package message with command options instead of Python arguments.

    >>> from neardup_db.cli.wording import in_command_terms
    >>> in_command_terms("threshold=0.5 is below 0.8: make the index with MinHash(threshold=0.5, exact=True)")
    '--threshold 0.5 is below 0.8: make the index with --scheme minhash --threshold 0.5 --exact'
    """
    for phrase, better in _PHRASES:
        message = message.replace(phrase, better)
    message = _SCHEME.sub(lambda call: f"--scheme {call[1].lower()} {call[2].replace(', ', ' ')}".rstrip(), message)
    message = _NO_WINDOW.sub("neardup window none", message)
    message = _TIME.sub(lambda time: duration_text(timedelta(**{name: int(n) for name, n in _PART.findall(time[1])})), message)
    message = _COMMAND.sub(lambda call: f"neardup {call[1]} {call[2]}".rstrip(), message)
    return _ARGUMENT.sub(_option, message)


def duration_text(time: timedelta) -> str:
    """A duration in the form that options accept, as 24h, 90s or 7d."""
    seconds = time.total_seconds()
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds and seconds % length == 0 and (unit != "d" or seconds > length):
            return f"{seconds / length:.15g}{unit}"
    return f"{seconds:.15g}s"


def _option(argument: re.Match[str]) -> str:
    """Quoted text, such as a key, is unchanged."""
    name, value, plain_name = argument.groups()
    if name is None:
        return argument[0] if plain_name is None else dashed(plain_name)
    if name in _FLAGS and value in ("True", "1"):
        return dashed(name)
    if name in _FLAGS and value in ("False", "0"):
        return dashed(f"no_{name}")
    return f"{dashed(name)} {value.strip(chr(39))}"


def dashed(name: str) -> str:
    return "--" + name.replace("_", "-")


@contextlib.contextmanager
def told_as(path: Path | None = None, **names: str) -> Iterator[None]:
    """Errors of the package come out in command terms, and name the file. names: parameters that the command calls otherwise."""
    try:
        yield
    except FileError:
        raise
    except (NearDupError, apsw.Error) as error:
        message = _renamed(str(error), names) if names else str(error)
        if isinstance(error, NearDupError):
            message = in_command_terms(message)
        if path is not None and str(path) not in message:
            message = f"{path}: {message}"
        if not isinstance(error, NearDupError):
            raise NearDupError(message) from error
        error.args = (message,)
        raise


def _renamed(message: str, names: dict[str, str]) -> str:
    plain = "|".join(name for name in names if "_" in name) or "(?!)"  # without an underscore they are also ordinary words
    argument = re.compile(rf"{_QUOTED}|\b({'|'.join(names)})=(?=\S)|\b({plain})\b")

    def named(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        return found[0] if name is None else names[name] + " " * (found[1] is not None)

    return argument.sub(named, message)
