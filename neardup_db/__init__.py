"""neardup_db: an embedded, persistent near-duplicate index in one SQLite file."""

from __future__ import annotations

from .errors import (
    BusyError,
    ClosedError,
    CorruptIndexError,
    DuplicateKeyError,
    FormatError,
    KeyNotFoundError,
    MismatchError,
    NearDupError,
    ParameterError,
    ReadOnlyError,
)
from .index import Index
from .native import lib, text_of
from .schemes import BinaryCode, BitSampling, BottomK, MinHash, SimHash
from .store.connection import extension_path, load
from .text import TextRules
from .values import AddReport, CheckReport, Cluster, Document, Match, Pair

__version__ = text_of(lib.nd_version())

__all__ = [
    "AddReport",
    "BinaryCode",
    "BitSampling",
    "BottomK",
    "BusyError",
    "CheckReport",
    "ClosedError",
    "Cluster",
    "CorruptIndexError",
    "Document",
    "DuplicateKeyError",
    "FormatError",
    "Index",
    "KeyNotFoundError",
    "Match",
    "MinHash",
    "MismatchError",
    "NearDupError",
    "Pair",
    "ParameterError",
    "ReadOnlyError",
    "SimHash",
    "TextRules",
    "__version__",
    "extension_path",
    "load",
]
