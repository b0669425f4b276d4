"""The rooms of the C code: what a file may include and call."""

from __future__ import annotations

import re
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from cases import one_test

CSRC = Path(__file__).parent.parent / "csrc"

ROOMS = ("arrays", "hashes", "kernels", "text", "schemes", "joins")
"""The core. A room uses itself, those before it, and the contract."""

CONTRACT = (
    "core.h",
    "neardup_abi.h",
    "neardup_buckets.h",
    "neardup_join.h",
    "neardup_limits.h",
    "neardup_testing.h",
    "neardup_try.h",
)
"""What the core offers, and what all of it begins with."""

OUTER = {
    "sqlite": (
        "neardup_abi.h",
        "neardup_buckets.h",
        "neardup_export.h",
        "neardup_join.h",
        "neardup_limits.h",
        "neardup_try.h",
        "neardup_values.h",
    ),
    "python": ("neardup_abi.h", "neardup_export.h", "neardup_testing.h", "neardup_values.h"),
}
"""What uses the core from outside, and the headers by which it does."""


def files(*rooms: str) -> list[Path]:
    return sorted(path for room in rooms for path in (CSRC / room).rglob("*.[ch]"))


def code(path: Path) -> str:
    """A file less its comments."""
    return re.sub(r"/\*.*?\*/", " ", path.read_text(), flags=re.DOTALL)


def includes(path: Path) -> list[str]:
    return re.findall(r'^#include [<"]([^>"]+)[>"]', code(path), flags=re.MULTILINE)


def defined(path: Path) -> set[str]:
    """The functions and tables that a file gives to others."""
    functions = re.findall(r"^(?!static)\w[\w *]*?\b(nd_\w+)\([^;{}]*\)\s*\{", code(path), flags=re.MULTILINE)
    tables = re.findall(r"^(?!static|extern)(?:const )\w[\w *]*?\b(nd_\w+)(?:\[.*\])? = ", code(path), flags=re.MULTILINE)
    return {*functions, *tables}


def uses() -> Iterator[tuple[Path, Path, str]]:
    """(file, file that it uses, name) of each name of the core that another file defines."""
    home = {name: path for path in files(*ROOMS) if path.suffix == ".c" for name in defined(path)}
    for path in files(*ROOMS):
        for name in re.findall(r"\bnd_\w+", code(path)) if path.suffix == ".c" else ():
            if home.get(name, path) != path:
                yield path, home[name], name


@one_test(room=ROOMS)
def test_a_file_of_the_core_includes_no_room_above_it(room: str) -> None:
    """A file of the core includes headers of its own room, of rooms below it and of the contract; none of SQLite or Python."""
    below = ROOMS[: ROOMS.index(room) + 1]
    for path in files(room):
        for name in includes(path):
            assert (CSRC / name).exists() == (name in CONTRACT or name.split("/")[0] in below), f"{path.name} includes {name}"
            assert name not in ("Python.h", "sqlite3.h", "sqlite3ext.h")


@pytest.mark.parametrize("room", OUTER)
def test_what_is_around_the_core_knows_only_its_contract(room: str) -> None:
    """SQL and Python include of the core what it offers, and nothing from its rooms."""
    for path in files(room):
        for name in includes(path):
            inside = (CSRC / name).exists()
            assert not inside or name in OUTER[room] or name.split("/")[0] == room, f"{room}/{path.name} includes {name}"


def test_what_is_returned_is_counted() -> None:
    """A module of the stable ABI counts each reference to None, True and False that it returns: the macros of Python's headers
    from 3.12 on do not, and before 3.12 one that is missing ends the process at last."""
    for path in files("python"):
        found = re.findall(r"Py_RETURN_(?:NONE|TRUE|FALSE)|return Py_(?:None|True|False)\b", path.read_text("utf-8"))
        assert found == [], path.name


def test_calls_run_one_way() -> None:
    """No function of the core is called from a room below its own, and no files of the core call each other in a circle."""
    graph: dict[str, set[str]] = {}
    for path, other, name in uses():
        below = ROOMS[: ROOMS.index(path.parent.name) + 1]
        assert other.parent.name in below, f"{path.parent.name}/{path.name} uses {name} of {other.parent.name}/{other.name}"
        graph.setdefault(str(path), set()).add(str(other))
    assert len(graph) > 30
    TopologicalSorter(graph).prepare()
