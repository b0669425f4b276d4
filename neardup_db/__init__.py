"""An embedded, persistent near-duplicate index: one file, transactions, matches and clusters open to SQL.

>>> with Index(":memory:", MinHash(threshold=0.8)) as index:
...     first = index.add("a1", "the quick brown fox jumps over the lazy dog")
...     second = index.add("a2", "The quick brown fox jumps over the lazy dog!")
>>> first, second
([], [Match(key='a1', similarity=1.0, distance=None)])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

try:
    from ._python import locate as _compiled  # noqa: F401 (any name of a compiled module)
except ModuleNotFoundError:
    from .system import refuse_sources

    refuse_sources(__path__[0])
    raise

from .errors import (
    BusyError,
    ClosedError,
    CorruptIndexError,
    DiskFullError,
    DuplicateKeyError,
    FormatError,
    KeyNotFoundError,
    MismatchError,
    NearDupError,
    ParameterError,
    ReadOnlyError,
    ShortTextsWarning,
)
from .index import Index
from .native import lib, text_of
from .schemes import BinaryCode, BitSampling, BottomK, MinHash, Passages, SimHash
from .store.database.open import extension_path, load
from .text import TextRules
from .values import (
    ANY_GROUP,
    AddReport,
    AllowedText,
    Changes,
    CheckReport,
    Cluster,
    CommonPassage,
    Count,
    Document,
    Explanation,
    Key,
    Match,
    MatchExplanation,
    Pair,
    Passage,
    Skipped,
    Stats,
    SyncReport,
)

if TYPE_CHECKING:
    from .tuning import Tuning, tune

__version__: str = text_of(lib.nd_version())

__all__ = [
    "ANY_GROUP", "AddReport", "AllowedText", "BinaryCode", "BitSampling", "BottomK", "BusyError", "Changes", "CheckReport",
    "ClosedError", "Cluster", "CommonPassage", "CorruptIndexError", "Count", "DiskFullError", "Document", "DuplicateKeyError",
    "Explanation", "FormatError", "Index", "Key", "KeyNotFoundError", "Match", "MatchExplanation", "MinHash", "MismatchError",
    "NearDupError", "Pair", "ParameterError", "Passage", "Passages", "ReadOnlyError", "ShortTextsWarning", "SimHash", "Skipped",
    "Stats", "SyncReport", "TextRules", "Tuning", "__version__", "extension_path", "load", "tune",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import `Tuning` and `tune` on demand: few programs need them, and they take a tenth of the import time."""
    if name not in ("Tuning", "tune"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import tuning

    return getattr(tuning, name)
