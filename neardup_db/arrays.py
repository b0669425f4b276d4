"""Lazy access to numpy: importing it takes as long as the rest of the package, and single adds and queries need no array."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any


def later(name: str) -> Any:
    """A module that imports each attribute from the named one at its first use and caches it."""
    module: Any = ModuleType(name)

    def take(attribute: str) -> Any:
        if attribute.startswith("__"):  # doctest looks for __wrapped__, without Spark as well
            raise AttributeError(f"module {name} has no attribute {attribute}")
        return module.__dict__.setdefault(attribute, getattr(import_module(name), attribute))

    module.__getattr__ = take
    return module


if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[Any]
    Bits = npt.NDArray[np.bool_]
    Bytes = npt.NDArray[np.uint8]
    Number = np.integer[Any]
else:
    Array = Bits = Bytes = Number = Any
    np, npt = later("numpy"), later("numpy.typing")

__all__ = ["Array", "Bits", "Bytes", "Number", "later", "np", "npt"]
