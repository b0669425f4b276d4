"""How commands open what they read: the sources of the command line, and the passes over them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from . import records
from .files import InputError
from .passes import Passes, TextPasses
from .records import ReadOptions, RecordSource
from .source import Source


def open_source(sources: Sequence[Path], options: ReadOptions, folder: Path) -> RecordSource:
    """The input that a path names. Standard input (-) and other streams are first copied into `folder`."""
    if len(sources) > 1:
        raise InputError(f"{sources[1]}: give one input")
    return records.open_source(sources[0], options, folder)


def passes_of(source: Source, folder: Path) -> Passes:
    """The passes over a source."""
    assert isinstance(source, RecordSource)
    return TextPasses(source, folder)
