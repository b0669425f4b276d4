"""UTF-8 texts in memory that the C core reads in place, without a Python object for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, overload

from ._python import listed
from .arrays import Array, np


class LocatedTexts(Sequence[str | bytes]):
    """Texts (str, or bytes if not UTF-8) by addresses and sizes in bytes, uintp[n] each. `owners` keep the memory alive."""

    __slots__ = ("_addresses", "_owners", "sizes")

    def __init__(self, addresses: Array, sizes: Array, owners: Sequence[Any] = ()) -> None:
        self._addresses, self.sizes, self._owners = addresses, sizes, owners

    @classmethod
    def joined(cls, parts: Sequence[LocatedTexts]) -> LocatedTexts:
        none = np.empty(0, np.uintp)
        addresses, sizes = ([getattr(part, name) for part in parts] for name in ("_addresses", "sizes"))
        owners = [owner for part in parts for owner in part._owners]
        return cls(np.concatenate([none, *addresses]), np.concatenate([none, *sizes]), owners)

    def __iadd__(self, others: LocatedTexts) -> LocatedTexts:
        return LocatedTexts.joined([self, others])

    def __len__(self) -> int:
        return len(self.sizes)

    @overload
    def __getitem__(self, place: int) -> str | bytes: ...

    @overload
    def __getitem__(self, place: slice) -> LocatedTexts: ...

    def __getitem__(self, place: int | slice) -> str | bytes | LocatedTexts:
        return self.at_indexes(place) if isinstance(place, slice) else self.at_indexes([place]).to_list()[0]

    def at_indexes(self, places: Any) -> LocatedTexts:
        return LocatedTexts(self._addresses[places], self.sizes[places], self._owners)

    def __iter__(self) -> Iterator[str | bytes]:
        return iter(self.to_list())

    def to_list(self, *, as_bytes: bool = False) -> list[str | bytes]:
        return listed(self._addresses.tobytes(), self.sizes.tobytes(), as_bytes)

    def located(self, start: int, most: int, most_bytes: int) -> tuple[Array, Array, Sequence[Any]]:
        """Addresses, sizes and owners of at most `most` texts from `start`, to the one that brings the total to most_bytes."""
        end = start + fitting(self.sizes[start : start + most], most_bytes)
        return self._addresses[start:end], self.sizes[start:end], self._owners


def fitting(sizes: Array, most_bytes: int) -> int:
    """The number of sizes up to the one that brings the sum to most_bytes."""
    if int(sizes.sum()) < most_bytes:
        return len(sizes)
    return min(len(sizes), int(np.searchsorted(np.cumsum(sizes), max(most_bytes, 1))) + 1)
