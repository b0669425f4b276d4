"""What starting loads: a module that most programs never need is imported by what needs it."""

from __future__ import annotations

import inspect
import os
import shutil
import subprocess
import sys
import typing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from interpreter import interpreter

import neardup_db
from neardup_db import arrays, compute

ROOT = Path(__file__).resolve().parents[1]
IMPORT = "import neardup_db"
ONE_TEXT = """
from neardup_db import Index, MinHash
with Index(":memory:", MinHash()) as index:
    index.add("a", "some text here")
    index.query("some text here", threshold=0.9, limit=1)
"""
HELP = "from neardup_db.cli import main; main(['--help'], standalone_mode=False)"
QUERY = "import neardup_db.cli.look"
NEVER = ("asyncio", "hashlib", "importlib.resources", "numpy", "rich", "sqlite3", "tempfile")


STAGES = [
    (IMPORT, (*NEVER, "neardup_db.tuning", "click", "pathlib", "subprocess", "urllib.parse")),
    (ONE_TEXT, (*NEVER, "click", "pathlib", "subprocess", "urllib.parse")),
    (HELP, (*NEVER, "csv", "neardup_db.cli.add", "neardup_db.cli.look", "neardup_db.cli.inputs.records")),
    (QUERY, ("asyncio", "neardup_db.cli.progress", "rich")),
]  # what is done one after another in a process, and what has not been loaded after it


def test_starting_loads_little() -> None:
    """Importing the package, one text, `neardup --help` and `neardup query` each leave out what is slow to import."""
    shows = "print('loaded', *sorted({*sys.modules} - before))"
    program = "\n".join(["import sys; before = {*sys.modules}", *(f"{code}\n{shows}" for code, _ in STAGES)])
    told = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True).stdout
    stages = [line.split() for line in told.splitlines() if line.startswith("loaded ")]
    for loaded, (code, late) in zip(stages, STAGES, strict=True):
        assert "neardup_db" in loaded and [name for name in loaded if name in late] == [], code


@pytest.mark.parametrize("program", [["-c", IMPORT], ["-c", QUERY], ["-m", "neardup_db"]], ids=["import", "module", "command"])
def test_uncompiled_sources_say_how_to_import_the_package(program: list[str]) -> None:
    """At the top of a checkout Python finds the sources first; the error's last line says how to import the installed package."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    command = [sys.executable, "-S", "-B", *program]  # without the site-packages, where an editable install redirects the import
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    told = done.stderr.splitlines()[-1]
    assert done.returncode == 1 and told.startswith("ImportError: "), done.stderr
    assert "not compiled" in told and "from another folder" in told and "pip install --no-build-isolation --no-deps -e ." in told


def test_a_missing_module_elsewhere_is_named(tmp_path: Path) -> None:
    """Outside a checkout the error of a missing or broken module in C stays as Python raises it."""
    shutil.copytree(ROOT / "neardup_db", tmp_path / "neardup_db", ignore=shutil.ignore_patterns("__pycache__"))
    done = subprocess.run([sys.executable, "-S", "-c", IMPORT], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1 and "No module named 'neardup_db._python'" in done.stderr.splitlines()[-1]


def test_threads_may_need_the_first_array_together() -> None:
    """All threads that use numpy first, at the same moment, get the same right answer."""
    code = """
import sys, threading
from neardup_db import compute
assert "numpy" not in sys.modules
sys.setswitchinterval(1e-6)
together, found = threading.Barrier(8), []
def work():
    together.wait()
    found.append(compute.bottom_k([3, 1, 2], 2).tolist())
threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(found == [[1, 2]] * 8)
"""
    assert subprocess.run([*interpreter(), "-c", code], capture_output=True, text=True, check=True).stdout == "True\n"


def test_the_names_of_numpy_are_its_own() -> None:
    """A name that comes late is numpy's; a name that numpy lacks is an AttributeError."""
    assert arrays.np.ndarray is np.ndarray and arrays.np.uint64 is np.uint64
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = arrays.np.no_such_name  # type: ignore[attr-defined]


def functions() -> list[Any]:
    """The public functions and methods."""
    owners = [compute, *(value for value in vars(neardup_db).values() if inspect.isclass(value))]
    public = [getattr(owner, name) for owner in owners for name in dir(owner) if not name.startswith("_")]
    return [value for value in public if inspect.isfunction(value)]


def test_annotations_can_be_evaluated() -> None:
    """`typing.get_type_hints`, on which frameworks rely, knows every name in the annotations of what is public."""
    assert len(functions()) > 50
    for function in functions():
        typing.get_type_hints(function)
