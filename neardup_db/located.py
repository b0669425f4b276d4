"""UTF-8 texts in memory that the C core reads in place, without a Python object for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, overload

from ._texts import listed
from .arrays import Array, np


class LocatedTexts(Sequence[str | bytes]):
    """A sequence of texts given by addresses and sizes in bytes, uintp[n] each. `owners` keep the memory alive.

    Its items are str, or bytes if a text is not UTF-8."""

    __slots__ = ("_parts",)

    def __init__(self, addresses: Array, sizes: Array, owners: Sequence[Any] = ()) -> None:
        self._parts: list[tuple[Array, Array, Sequence[Any]]] = [(addresses, sizes, owners)]

    def __iadd__(self, others: LocatedTexts) -> LocatedTexts:
        self._parts += others._parts
        return self

    def parts(self, most: int) -> Iterator[LocatedTexts]:
        """Slices of at most `most` texts. None crosses the border of two joined sequences."""
        for addresses, sizes, owners in self._parts:
            for start in range(0, len(sizes), most):
                yield LocatedTexts(addresses[start : start + most], sizes[start : start + most], owners)

    @property
    def _contiguous(self) -> tuple[Array, Array, Sequence[Any]]:
        if len(self._parts) > 1:
            addresses, sizes = (np.concatenate(arrays) for arrays in list(zip(*self._parts, strict=True))[:2])
            self._parts = [(addresses, sizes, [owner for part in self._parts for owner in part[2]])]
        return self._parts[0]

    @property
    def sizes(self) -> Array:
        return self._contiguous[1]

    def __len__(self) -> int:
        return sum(len(part[0]) for part in self._parts)

    @overload
    def __getitem__(self, place: int) -> str | bytes: ...

    @overload
    def __getitem__(self, place: slice) -> LocatedTexts: ...

    def __getitem__(self, place: int | slice) -> str | bytes | LocatedTexts:
        return self.at_indexes(place) if isinstance(place, slice) else self.at_indexes([place]).to_list()[0]

    def at_indexes(self, places: Any) -> LocatedTexts:
        addresses, sizes, owners = self._contiguous
        return LocatedTexts(addresses[places], sizes[places], owners)

    def __iter__(self) -> Iterator[str | bytes]:
        return iter(self.to_list())

    def to_list(self, *, as_bytes: bool = False) -> list[str | bytes]:
        addresses, sizes, _ = self._contiguous
        return listed(addresses.tobytes(), sizes.tobytes(), as_bytes)

    def located(self, start: int, most_bytes: int) -> tuple[Array, Array, Sequence[Any]]:
        """Addresses, sizes and owners of the texts from `start` to the one that brings the total to most_bytes."""
        addresses, sizes, owners = self._contiguous
        end = start + fitting(sizes[start:], most_bytes)
        return addresses[start:end], sizes[start:end], owners


def fitting(sizes: Array, most_bytes: int) -> int:
    """The number of sizes up to the one that brings the sum to most_bytes."""
    if int(sizes.sum()) < most_bytes:
        return len(sizes)
    return min(len(sizes), int(np.searchsorted(np.cumsum(sizes), max(most_bytes, 1))) + 1)
