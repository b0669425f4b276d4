"""The schemes, and the scheme that a file's settings describe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..settings import choice, stored
from .base import Scheme
from .binarycode import BinaryCode
from .bitsampling import BitSampling
from .bottomk import BottomK
from .minhash import MinHash
from .passages import Passages
from .simhash import SimHash

__all__ = ["SCHEMES", "BinaryCode", "BitSampling", "BottomK", "MinHash", "Passages", "Scheme", "SimHash", "scheme_from_settings"]

_ALL: tuple[type[Scheme], ...] = (SimHash, MinHash, BottomK, BitSampling, BinaryCode, Passages)

SCHEMES: dict[str, type[Scheme]] = {scheme.name: scheme for scheme in _ALL}
"""Schemes by the names that files have for them."""


def scheme_from_settings(settings: Mapping[str, Any]) -> Scheme:
    """The scheme of a file. Raises CorruptIndexError where a setting is missing or out of range.

    >>> scheme_from_settings(BinaryCode(bits=64, max_distance=3).settings())
    BinaryCode(bits=64, max_distance=3)
    """
    return SCHEMES[stored(settings, "scheme", choice(*SCHEMES).from_file)].from_settings(settings)
