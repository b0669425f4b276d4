"""Buckets of codes in plain Python: which bucket a code stands in, and what the rows of the candidate table hold."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import xxhash

BUCKET_BITS, PART_BITS = 30, 20
PART_BYTES = 1900

Entry = tuple[int, bytes]
"""A fingerprint's id and its code."""


def bucket(table: int, number: int, width: int, group: int = 0) -> int:
    """The first row id of the bucket of codes that have `number`, of `width` bits, in common."""
    if width > BUCKET_BITS or group != 0:
        number = xxhash.xxh3_64_intdigest(number.to_bytes(8, "little"), group % 2**64) >> 34
    return (table << BUCKET_BITS | number) << PART_BITS


def _pieces(code: int, bits: int, count: int) -> list[str]:
    """The code as strings of bits, piece 0 the least significant."""
    digits = format(code, f"0{bits}b")[::-1]
    return [digits[i * bits // count : (i + 1) * bits // count][::-1] for i in range(count)]


def block_buckets(code: int, bits: int, blocks: int, distance: int, group: int = 0) -> list[int]:
    """The bucket of a code in each block table: tables take every choice of the blocks that are in front."""
    pieces = _pieces(code, bits, blocks)
    found = []
    for table, leading in enumerate(itertools.combinations(reversed(range(blocks)), blocks - distance)):
        prefix = "".join(pieces[i] for i in leading)
        number, width = int(prefix, 2), len(prefix)
        if width > 64:
            masked = int(prefix.ljust(-(-width // 8) * 8, "0"), 2).to_bytes(-(-width // 8), "big")
            number = xxhash.xxh3_64_intdigest(masked)
        found.append(bucket(table, number, width, group))
    return found


def chunk_buckets(code: int, bits: int, chunks: int, distance: int | None = None, group: int = 0) -> list[tuple[int, int]]:
    """(chunk, bucket) under which a code is filed, or with a distance those that a query looks up, ascending."""
    found = []
    for chunk, digits in enumerate(reversed(_pieces(code, bits, chunks))):
        radius, width = 0, len(digits)
        if distance is not None:
            radius = distance // chunks - (chunk > distance % chunks)
        for flips in range(min(radius, width) + 1):
            for places in itertools.combinations(range(width), flips):
                number = int(digits, 2) ^ sum(1 << p for p in places)
                found.append((chunk, bucket(chunk, number, width, group)))
    return sorted(set(found))


def pack(entries: Iterable[Entry]) -> bytes:
    """The bytes of a row: a hash of the rest, the width of ids, the codes, the ids."""
    entries = list(entries)
    width = max((number.bit_length() + 7) // 8 for number, _ in entries) or 1
    numbers = b"".join(number.to_bytes(width, "little") for number, _ in entries)
    return sealed(bytes([width]) + b"".join(code for _, code in entries) + numbers)


def sealed(rest: bytes) -> bytes:
    """Bytes behind their hash."""
    return (xxhash.xxh3_64_intdigest(rest) % 2**32).to_bytes(4, "little") + rest


def unpack(data: bytes, code_bytes: int) -> list[Entry]:
    """What a row holds."""
    assert data == sealed(data[4:])
    width, rest = data[4], data[5:]
    count, left = divmod(len(rest), width + code_bytes)
    assert left == 0 and count > 0 and 1 <= width <= 8
    codes, ids = rest[: count * code_bytes], rest[count * code_bytes :]
    return [
        (int.from_bytes(ids[i * width : (i + 1) * width], "little"), codes[i * code_bytes : (i + 1) * code_bytes])
        for i in range(count)
    ]


def near(entries: Iterable[Entry], code: bytes, distance: int) -> list[tuple[int, int]]:
    """(id, distance) of the entries within so many bits of a code."""
    wanted = int.from_bytes(code, "big")
    apart = ((number, (int.from_bytes(other, "big") ^ wanted).bit_count()) for number, other in entries)
    return [pair for pair in apart if pair[1] <= distance]


def rows(connection: Any, index: str = "neardup") -> Iterator[tuple[int, int, list[Entry]]]:
    """(id, group, entries) of every row of an index's buckets."""
    (bits,) = next(iter(connection.execute(f"SELECT value FROM {index}_setting WHERE name = 'bits'")))
    for number, group, data in connection.execute(f"SELECT id, group_id, entries FROM {index}_code_bucket ORDER BY id"):
        yield number, group, unpack(data, bits // 8)
