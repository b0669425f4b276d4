"""Where the UTF-8 of texts stands in memory, and the way back."""

from collections.abc import Callable
from typing import Any

def locate(
    texts: list[Any], start: int, most_bytes: int, encode: Callable[[Any], bytes], /
) -> tuple[bytes, bytes, list[bytes]]: ...
def listed(addresses: bytes, sizes: bytes, as_bytes: bool, /) -> list[str | bytes]: ...
