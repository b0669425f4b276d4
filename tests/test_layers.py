"""Each module imports from its own layer or from those below it, and no imports run in a circle."""

from __future__ import annotations

import ast
import functools
import graphlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PACKAGE = Path(__file__).parents[1] / "neardup_db"

LAYERS = (
    ("limits", "errors", "clock", "arrays", "_core", "_python", "located", "system"),
    ("native", "values"),
    ("parameters", "immutable", "settings", "tables", "arrow", "comparing"),
    ("records",),
    ("text",),
    ("schemes",),
    ("compute", "fingerprint_files"),
    ("show",),
    ("store.database",),
    ("store.layout",),
    ("store.query",),
    ("store.clustering",),
    ("store.readers", "store.ingest", "store.transfer"),
    ("store.following",),
    ("store.maintenance",),
    ("querying",),
    ("passage_methods",),
    ("reader",),
    ("adding",),
    ("editing",),
    ("index", "show.report"),
    ("tuning",),
    ("", "demo", "duplicates"),
    ("duckdb_rows",),
    ("frames",),
    ("cli", "datasette", "spark", "aio"),
    ("__main__",),
)
"""From the lowest to the highest. A name stands for a module, or for a package with all that is in it and has no line of its own;
"" is the package itself, which gives out the public names."""

LATE = {
    ("", "tuning"): "only `tune` needs it",
    ("cli.serve", "datasette"): "Datasette is an extra: only `neardup serve` needs it",
    ("values", "show"): "the HTML of a value is made when a notebook asks for it; values know of no page",
}
"""Imports inside functions, with the reason; they may run upwards."""


class Import(NamedTuple):
    """A module and one that it imports; is_late: inside a function."""

    module: str
    imported: str
    is_late: bool


def modules() -> dict[str, Path]:
    """The modules of the package by name, without the package's own; those in C by their stubs."""
    paths = [*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.pyi")]
    parts = {path: path.relative_to(PACKAGE).with_suffix("").parts for path in paths}
    return {".".join(one[:-1] if one[-1] == "__init__" else one): path for path, one in parts.items()}


MODULES = modules()


def statements(parent: ast.AST, inside: bool = False) -> Iterator[tuple[ast.AST, bool]]:
    """Statements below a node, and whether they are in a function."""
    for name in ("body", "orelse", "handlers", "finalbody", "cases"):
        for node in getattr(parent, name, ()):
            yield node, inside
            yield from statements(node, inside or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))


def imports_of(module: str) -> list[Import]:
    """What a module imports of the package, for type checking too."""
    tree = ast.parse(MODULES[module].read_text("utf-8"))
    package = module.split(".") if MODULES[module].stem == "__init__" else module.split(".")[:-1]
    found = []
    for node, inside in statements(tree):
        names: list[str] = []
        if isinstance(node, ast.ImportFrom):
            if node.level:
                base = [*package[: len(package) - node.level + 1], *(node.module or "").split(".")]
            elif (node.module or "").split(".")[0] == PACKAGE.name:
                base = (node.module or "").split(".")[1:]
            else:
                continue
            source = ".".join(part for part in base if part)
            within = [f"{source}.{alias.name}".lstrip(".") for alias in node.names]
            names = [one if one in MODULES else source for one in within]
        elif isinstance(node, ast.Import):
            names = [alias.name.partition(".")[2] for alias in node.names if alias.name.split(".")[0] == PACKAGE.name]
        found += [Import(module, name, inside) for name in names]
    return found


@functools.cache
def imports() -> list[Import]:
    """What all modules import of the package."""
    return [one for module in MODULES for one in imports_of(module)]


def layer(module: str) -> int:
    """The number of a module's layer."""
    name = module
    while True:
        for number, names in enumerate(LAYERS):
            if name in names and (name or not module):
                return number
        assert name, f"neardup_db.{module} is in no layer: say in LAYERS where it belongs"
        name = name.rpartition(".")[0]


def listed(one: Import) -> tuple[str, str]:
    """An import as LATE lists it."""
    return one.module, one.imported.split(".")[0]


def test_no_import_runs_upwards() -> None:
    """A module imports nothing from a layer above its own, but inside a function where the reason is listed."""
    upwards = [one for one in imports() if layer(one.module) < layer(one.imported)]
    assert [f"{one.module} imports {one.imported}" for one in upwards if not (one.is_late and listed(one) in LATE)] == []


def test_no_imports_run_in_a_circle() -> None:
    """No module needs itself, by whichever way, to be imported, or for its types to be checked."""
    graph: dict[str, set[str]] = {module: set() for module in MODULES}
    for one in imports():
        if not one.is_late and one.imported != one.module:
            graph[one.module].add(one.imported)
    assert list(graphlib.TopologicalSorter(graph).static_order())


def test_late_imports_have_a_reason() -> None:
    """A module imports at its top; what it imports inside a function is listed, and nothing else is."""
    assert {listed(one) for one in imports() if one.is_late} == set(LATE)


def test_layers_are_those_of_the_package() -> None:
    """Every name in the list of layers is a module."""
    assert {name for names in LAYERS for name in names} <= set(MODULES)


def test_the_core_is_entered_by_one_door() -> None:
    """Only `native` imports the C core."""
    assert {one.module for one in imports() if one.imported == "_core"} == {"native"}


def test_numpy_is_entered_by_one_door() -> None:
    """Only `arrays` imports numpy: everything else takes it from there, where it waits until it is used."""
    assert [module for module, path in MODULES.items() if "import numpy" in path.read_text("utf-8")] == ["arrays"]
