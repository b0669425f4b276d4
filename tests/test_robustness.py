"""Interruptions, races and damage: nothing is lost, nothing is left behind, and the right error comes out."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

import neardup_db.store.opening as opening
from neardup_db import (
    BinaryCode,
    BottomK,
    BusyError,
    CorruptIndexError,
    Index,
    MinHash,
    MismatchError,
    NearDupError,
    ParameterError,
    SimHash,
    TextRules,
)

# ---- creating a file -------------------------------------------------------------------------------------------------


def test_a_file_that_another_process_filled_meanwhile_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two create the same file with different parameters: the second is refused, and the first's index stays."""
    path = tmp_path / "index.db"
    load = opening.load

    def other_was_faster(connection: Any) -> None:
        monkeypatch.setattr(opening, "load", load)
        with Index(path, MinHash(threshold=0.8)) as other:
            other.add("a", "one two three")
        load(connection)

    monkeypatch.setattr(opening, "load", other_was_faster)
    with pytest.raises(MismatchError):
        Index(path, MinHash(threshold=0.5))
    with Index(path) as index:
        assert list(index) == ["a"]


def test_nothing_is_left_of_a_file_that_could_not_be_made(tmp_path: Path) -> None:
    """A failure after the file was created removes it again."""
    rules = TextRules(tokens=lambda text: text.split())
    with pytest.raises(ParameterError):
        Index(tmp_path / "index.db", MinHash(), text=rules)
    assert list(tmp_path.iterdir()) == []
