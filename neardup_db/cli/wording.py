"""What an error advises, in the words of the command line: the package speaks to Python, its users here have options."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

import apsw

from ..errors import NearDupError
from .files import InputError

_PHRASES = (
    ("give if_exists='replace' or 'ignore'", "add --if-exists replace or --if-exists ignore"),
    ("to read it, open it with read_only=True; to write, without, in a folder that you may write to", "check the permissions of "
     "the file and of its folder"),
    ("the index was opened with read_only=True: open it without, to write", "the index is open for reading only"),
    ("open it once without read_only, to migrate it", "run a command on it once where file and folder can be written"),
    ("read_only=True cannot create it", "reading cannot create it"),
    (", or attach=True to put an index into it beside its tables", ""),
    ("Give attach=True to create one in it", "Give another --name, or another path"),
    ("Give name=, or a scheme to create one", "Give its --name, or make one with neardup add"),
    ("give a scheme, e.g. MinHash(threshold=0.8), to create it", "make one with neardup add"),
    ("try again, or give a larger timeout", "try again"),
    ("try again, or give Index a larger timeout", "try again"),
    ("try again, give Index a larger timeout, or let that thread come out before it waits for this one", "try again"),
    ("go on with the same object", "run the command again"),
    ("check() names", "neardup check names"),
    ("run check(repair=True)", "run neardup check --repair"),
    ("change the file with rebuild()", "change the file with neardup rebuild"),
    ("or rebuild() it so", "or make it so by neardup rebuild"),
    ("rebuild()", "neardup rebuild"),
    ("the file has False", "the file is otherwise"),
    ("the file has True", "the file is otherwise"),
)  # fmt: skip
"""Advice that a command gives in another way."""

_SCHEMES = {
    "MinHash": "minhash",
    "SimHash": "simhash",
    "BottomK": "bottomk",
    "BitSampling": "bitsampling",
    "BinaryCode": "binarycode",
}

_OPTIONS = (
    "threshold|max_distance|num_perm|bits|k|recall|exact|containment|tokens|shingle|normalize|case|strip_accents|store_text|"
    "record_matches|group|if_exists|on_error|only_new|commit_every|measure|limit|name"
)
"""Arguments of Python that are options here, of the same name."""

_BARE = "max_distance|num_perm|strip_accents|store_text|record_matches|if_exists|on_error|only_new|commit_every"
"""Those that no sentence has as a word."""

_CALL = re.compile(rf"(?:rebuild\()?\b({'|'.join(_SCHEMES)})\(([^()]*)\)\)?")
_ARGUMENT = re.compile(rf"(?<![\w'\"])'(?:[^'\\]|\\.)*'(?!\w)|\b({_OPTIONS})=('[^']*'|[^\s,;:)]+)|(?<!--)\b({_BARE})\b")


def worded(message: str) -> str:
    """A message of the package with the options of commands in the place of Python's arguments.

    >>> from neardup_db.cli.wording import worded
    >>> worded("threshold=0.5 is below 0.8: make the index with MinHash(threshold=0.5, exact=True)")
    '--threshold 0.5 is below 0.8: make the index with --scheme minhash --threshold 0.5 --exact'
    """
    for said, better in _PHRASES:
        message = message.replace(said, better)
    return _ARGUMENT.sub(_option, _CALL.sub(_scheme, message))


@contextlib.contextmanager
def in_options() -> Iterator[None]:
    """Errors of the block, of arguments that were made of options, speak of the options."""
    try:
        yield
    except NearDupError as error:
        error.args = (worded(str(error)),)
        raise


def _scheme(found: re.Match[str]) -> str:
    parts = [f"--scheme {_SCHEMES[found[1]]}", *filter(None, found[2].split(", "))]
    return ("neardup rebuild " if found[0].startswith("rebuild") else "") + " ".join(parts)


def _option(found: re.Match[str]) -> str:
    if found[3] is not None:
        return "--" + found[3].replace("_", "-")
    if found[1] is None:  # a text in quotation marks, as a key, is as it is
        return found[0]
    name, value = found[1].replace("_", "-"), found[2].strip("'")
    if value in ("True", "1") and name in _FLAGS:
        return f"--{name}"
    return f"--no-{name}" if value in ("False", "0") and name in _FLAGS else f"--{name} {value}"


_FLAGS = ("exact", "containment", "strip-accents", "store-text", "record-matches", "only-new")


@contextlib.contextmanager
def about(path: Path) -> Iterator[None]:
    """Errors of the block name the file, and advise in the words of commands; those of an input name that already."""
    try:
        yield
    except InputError:
        raise
    except NearDupError as error:
        error.args = (_named(path, worded(str(error))),)
        raise
    except apsw.Error as error:
        raise NearDupError(_named(path, str(error))) from error


def _named(path: Path, message: str) -> str:
    return message if str(path) in message else f"{path}: {message}"
