"""An embedded, persistent near-duplicate index: one file, transactions, matches and clusters open to SQL.

>>> with Index(":memory:", MinHash(threshold=0.8)) as index:
...     first = index.add("a1", "the quick brown fox jumps over the lazy dog")
...     second = index.add("a2", "The quick brown fox jumps over the lazy dog!")
>>> first, second
([], [Match(key='a1', similarity=1.0, distance=None)])
"""

from __future__ import annotations

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
from .schemes import BinaryCode, BitSampling, BottomK, MinHash, SimHash
from .store.database.open import extension_path, load
from .text import TextRules
from .values import (
    ANY_GROUP,
    AddReport,
    Changes,
    CheckReport,
    Cluster,
    Count,
    Document,
    Explanation,
    Key,
    Match,
    MatchExplanation,
    Pair,
    Skipped,
    Stats,
    SyncReport,
)

__version__: str = text_of(lib.nd_version())

__all__ = [
    "ANY_GROUP", "AddReport", "BinaryCode", "BitSampling", "BottomK", "BusyError", "Changes", "CheckReport", "ClosedError",
    "Cluster", "CorruptIndexError", "Count", "DiskFullError", "Document", "DuplicateKeyError", "Explanation", "FormatError",
    "Index", "Key",
    "KeyNotFoundError", "Match", "MatchExplanation", "MinHash", "MismatchError", "NearDupError", "Pair", "ParameterError",
    "ReadOnlyError", "ShortTextsWarning", "SimHash", "Skipped", "Stats", "SyncReport",
    "TextRules", "__version__", "extension_path", "load",
]  # fmt: skip
