"""Lazy access to numpy: importing it takes as long as importing the rest of the package, and single adds and queries need no
array."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[Any]
    Bits = npt.NDArray[np.bool_]
    Bytes = npt.NDArray[np.uint8]
    Number = np.integer[Any]
else:
    Array = Bits = Bytes = Number = Any

    def _later(name):
        """A module that imports each attribute from another one at its first use and caches it."""
        module = ModuleType(name)

        def take(attribute):
            return module.__dict__.setdefault(attribute, getattr(import_module(name), attribute))

        module.__getattr__ = take
        return module

    np, npt = _later("numpy"), _later("numpy.typing")

__all__ = ["Array", "Bits", "Bytes", "Number", "np", "npt"]
