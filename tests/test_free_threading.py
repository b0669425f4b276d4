"""The package needs Python's lock: a Python that is told to go without it is refused before anything is done."""

from __future__ import annotations

import subprocess
import sys

import pytest

from neardup_db import system

WITHOUT_LOCK = """
import sys
sys._is_gil_enabled = lambda: False
import neardup_db
"""


def test_a_python_without_its_lock_is_refused_with_the_remedy() -> None:
    """The import fails, and says how to start Python so that it does not."""
    done = subprocess.run([sys.executable, "-I", "-c", WITHOUT_LOCK], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "ImportError: neardup_db and apsw need Python's lock (the GIL)" in done.stderr
    assert "PYTHON_GIL=0" in done.stderr and "start it without" in done.stderr


@pytest.mark.parametrize("answer", [None, True])
def test_a_python_with_its_lock_is_taken(monkeypatch: pytest.MonkeyPatch, answer: bool | None) -> None:
    """Before 3.13 Python does not tell; where it tells of a lock, all is well."""
    monkeypatch.delattr(sys, "_is_gil_enabled", raising=False)
    if answer is not None:
        monkeypatch.setattr(sys, "_is_gil_enabled", lambda: answer, raising=False)
    system.require_python_lock()
