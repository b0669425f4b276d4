"""The packed value of an exact index, in plain Python."""

from __future__ import annotations

from collections.abc import Iterable

from test_fingerprint import fold


def packed(hashes: Iterable[int]) -> bytes:
    """The value of shingle hashes in any order."""
    numbers = sorted({fold(fold(h)) >> 24 for h in hashes})
    bits = sum(1 << i + (number >> 32) for i, number in enumerate(numbers))
    lows = b"".join((number & 0xFFFFFFFF).to_bytes(4, "little") for number in numbers)
    return lows + bits.to_bytes((len(numbers) + 262) // 8, "little")


def unpacked(hashes: Iterable[int]) -> bytes:
    """What is compared of it: 64 bits of each, ascending."""
    numbers = sorted({fold(fold(h)) >> 24 << 24 for h in hashes})
    return b"".join(number.to_bytes(8, "little") for number in numbers)
