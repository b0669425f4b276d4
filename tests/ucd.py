"""Where the files of the Unicode Character Database 15.0.0 are: installed by Debian's unicode-data, or fetched from Debian once.

Fetching needs no rights: the package is unpacked into a folder of its own below the user's cache. NEARDUP_UCD names another
folder.
"""

from __future__ import annotations

import bz2
import os
import subprocess
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

VERSION = "15.0.0"
PACKAGE = f"unicode-data={VERSION}-1"
INSTALLED = Path("/usr/share/unicode")


@cache
def ucd_folder() -> Path:
    """The folder with UnicodeData.txt of the release that the tables come from; the test fails where there is no way to it."""
    given = os.environ.get("NEARDUP_UCD")
    kept = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "neardup_db" / f"ucd-{VERSION}"
    for folder in (Path(given) if given else INSTALLED, kept / "usr/share/unicode"):
        if _has_release(folder):
            return folder
    try:
        _fetch(kept)
    except (OSError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", "") or error
        pytest.fail(
            f"these tests need the Unicode Character Database {VERSION}: apt-get install {PACKAGE}, "
            f"or name a folder with its files in NEARDUP_UCD (fetching Debian's package failed: {said})"
        )
    return kept / "usr/share/unicode"


def _has_release(folder: Path) -> bool:
    blocks = folder / "Blocks.txt"
    return blocks.is_file() and blocks.read_text(encoding="utf-8").startswith(f"# Blocks-{VERSION}.txt")


def _fetch(target: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        for part in ("lists/partial", "cache/archives/partial"):
            Path(name, part).mkdir(parents=True)
        places = ["-q", "-o", f"Dir::State::Lists={name}/lists", "-o", f"Dir::Cache={name}/cache"]
        for command in (["apt-get", *places, "update"], ["apt-get", *places, "download", PACKAGE]):
            subprocess.run(command, cwd=name, check=True, capture_output=True, text=True, timeout=300)
        (package,) = Path(name).glob("*.deb")
        target.mkdir(parents=True, exist_ok=True)
        subprocess.run(["dpkg-deb", "-x", str(package), str(target)], check=True, capture_output=True, text=True)


# ---- its files, read for the tests alone: a mistake of the generator of the tables is not repeated ----


def read_lines(name: str) -> Iterator[list[str]]:
    """Fields of the lines of a file, without comments."""
    path = ucd_folder() / name
    text = bz2.decompress(path.read_bytes()).decode() if path.suffix == ".bz2" else path.read_text(encoding="utf-8")
    for line in text.splitlines():
        fields = [part.strip() for part in line.partition("#")[0].split(";")]
        if fields != [""]:
            yield fields


@cache
def read_property(name: str, column: int = 1) -> dict[int, str]:
    """Code point -> value of a file of ranges. Code points that the file does not name are not in it."""
    values: dict[int, str] = {}
    for fields in read_lines(name):
        ends = [int(end, 16) for end in fields[0].split("..")]
        values.update(dict.fromkeys(range(ends[0], ends[-1] + 1), fields[column]))
    return values


def read_set(name: str, value: str) -> set[int]:
    """Code points that have a value in a file that lists several properties."""
    found: set[int] = set()
    for fields in read_lines(name):
        if fields[1] == value:
            ends = [int(end, 16) for end in fields[0].split("..")]
            found.update(range(ends[0], ends[-1] + 1))
    return found


def to_text(hexadecimal: str) -> str:
    """The text of code points written in hexadecimal."""
    return "".join(chr(int(part, 16)) for part in hexadecimal.split())
