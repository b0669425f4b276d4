"""Candidate search: permuted block tables, chunks and bands."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from typing import Any, overload

from .. import native
from ..arrays import np
from ..errors import ParameterError
from ..parameters import check_fraction, check_integer, quoted
from ..schemes import plans
from .arguments import BITS_MAX, bits_of, code_data, is_integer

_NEIGHBOURS_MAX = 10_000_000


@dataclass(frozen=True, slots=True)
class BlockTable:
    """A permuted table for codes of `bits` bits in `blocks` blocks.

    order: all block numbers, most significant position first; block 0 is the least significant block of the original code.
    prefix_bits: bits of the leading blocks, which are equal in all codes of a range.
    """

    bits: int
    blocks: int
    order: tuple[int, ...]
    prefix_bits: int


def block_tables(bits: int, blocks: int, distance: int) -> list[BlockTable]:
    """The C(blocks, blocks - distance) tables in which every two codes within `distance` bits share a prefix at least once.

    The tables are in the order of their leading blocks, from the most significant. bits: 1 or more. distance: below blocks.

    >>> tables = block_tables(64, 6, 3)
    >>> len(tables), tables[0]
    (20, BlockTable(bits=64, blocks=6, order=(5, 4, 3, 2, 1, 0), prefix_bits=32))
    """
    bits = check_integer("bits", bits, 1, BITS_MAX)
    blocks = check_integer("blocks", blocks, 1, min(bits, 64), "blocks of a code")
    distance = check_integer("distance", distance, 0, blocks - 1, f"below blocks={blocks}")
    count = math.comb(blocks, distance)
    if count > 100_000:
        raise ParameterError(f"blocks={blocks} and distance={distance} make {count} tables; take fewer blocks")
    bounds = plans.block_bounds(bits, blocks)
    tables = []
    for leading in combinations(range(blocks - 1, -1, -1), blocks - distance):
        rest = tuple(block for block in range(blocks - 1, -1, -1) if block not in leading)
        prefix_bits = sum(bounds[block + 1] - bounds[block] for block in leading)
        tables.append(BlockTable(bits, blocks, leading + rest, prefix_bits))
    return tables


def permute(code: Any, table: BlockTable) -> Any:
    """A code with its blocks in the table's order, in the type of the argument.

    code: an int, bytes, uint8[size], uint8[n, size], or uint64 (one number or an array) for tables of at most 64 bits.

    >>> hex(permute(0x1234, BlockTable(16, 4, (2, 3, 1, 0), 8)))
    '0x2134'
    """
    if not isinstance(table, BlockTable):
        raise ParameterError(f"table={quoted(table)}: give a BlockTable, as block_tables() makes them")
    if isinstance(code, np.ndarray) and code.dtype == np.uint8 and code.ndim == 2:
        return np.array([permute(row, table) for row in code], np.uint8).reshape(code.shape)
    if isinstance(code, (np.ndarray, np.integer)) and code.dtype == np.uint64:
        if table.bits > 64:
            raise ParameterError(f"uint64 codes have at most 64 bits, the table {table.bits}; use uint8[n, {table.bits // 8}]")
        if table.bits < 64 and bool(np.any(code >> np.uint64(table.bits))):
            raise ParameterError(f"a code is above 2^{table.bits} - 1, the largest of the table's")
        return _permuted(code, table, np.uint64)
    if is_integer(code):
        if not 0 <= code < 1 << table.bits:
            raise ParameterError(f"code={code} is no code of {table.bits} bits")
        return _permuted(int(code), table)
    data = code_data("code", code)
    if 8 * len(data) != table.bits:
        raise ParameterError(f"code has {8 * len(data)} bits, the table {table.bits}")
    moved = _permuted(int.from_bytes(data, "big"), table).to_bytes(len(data), "big")
    if isinstance(code, str):
        return moved.hex()
    return np.frombuffer(moved, np.uint8).copy() if isinstance(code, np.ndarray) else moved


def split_chunks(code: Any, chunks: int, bits: int | None = None) -> list[Any]:
    """The chunks of a code, the most significant first: a list of int, or of str for a str of 0 and 1.

    code: uint8[size], bytes, a str of 0 and 1, or an int with `bits`. Chunks have the bounds of blocks.

    >>> split_chunks("1001101110010011", 4)
    ['1001', '1011', '1001', '0011']
    >>> split_chunks(b"\\x9b\\x93", 4)
    [9, 11, 9, 3]
    """
    number, width = bits_of(code, bits)
    chunks = check_integer("chunks", chunks, 1, width, f"of {width} bits")
    bounds = plans.block_bounds(width, chunks)
    if isinstance(code, str):
        return [code[width - bounds[i] : width - bounds[i - 1]] for i in range(chunks, 0, -1)]
    return [number >> bounds[i - 1] & (1 << bounds[i] - bounds[i - 1]) - 1 for i in range(chunks, 0, -1)]


@overload
def neighbours(chunk: str, bits: int, radius: int) -> list[str]: ...
@overload
def neighbours(chunk: int, bits: int, radius: int) -> list[int]: ...
def neighbours(chunk: str | int, bits: int, radius: int) -> list[str] | list[int]:
    """All values of `bits` bits that differ from chunk in at most `radius` bits, by ascending distance.

    At equal distance the most significant bit is flipped first. chunk: an int, or a str of 0 and 1. bits: 1 to 64.

    >>> neighbours("1011", 4, 1)
    ['1011', '0011', '1111', '1001', '1010']
    """
    bits = check_integer("bits", bits, 1, 64, "of a chunk")
    number, _ = bits_of(chunk, bits)
    radius = check_integer("radius", radius, 0, bits)
    capacity = int(native.lib.nd_neighbour_count(bits, radius))
    if capacity > _NEIGHBOURS_MAX:
        raise ParameterError(f"{capacity} values are within radius={radius} of {bits} bits; take a smaller radius")
    out, count = np.zeros(capacity, np.uint64), native.ffi.new("size_t *")
    native.check(native.lib.nd_neighbours(number, bits, radius, native.pointer(out, "uint64_t[]"), capacity, count))
    values: list[int] = out[: int(count[0])].tolist()
    return [format(value, f"0{bits}b") for value in values] if isinstance(chunk, str) else values


def pick_bands(threshold: float, num_perm: int) -> int:
    """The number of bands that the article "MinHashing and LSH" (part 2) picks for a threshold.

    The recall curve of b bands of n / b rows is steepest near (1 / b)^(b / n). Setting this equal to the threshold gives b *
    ln(b) = n * ln(1 / threshold), rounded up. This guarantees no recall; `choose_bands` does.

    >>> [pick_bands(threshold, 100) for threshold in (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)]
    [23, 18, 14, 10, 6, 4, 2]
    """
    target = check_integer("num_perm", num_perm, 1, BITS_MAX) * -math.log(check_fraction("threshold", threshold))
    bands = 1
    while bands < num_perm and bands * math.log(bands) < target - 1e-9:
        bands += 1
    return bands


def choose_bands(threshold: float, num_perm: int, recall: float) -> tuple[int, int]:
    """The cheapest (bands, rows) that find a pair at the threshold with a probability of at least `recall`.

    The cost weighs the rows that are written and probed against the false candidates expected among a million real texts
    (`neardup_db.schemes.plans.band_cost`). Raises ParameterError if no choice with bands * rows <= num_perm reaches the recall.

    >>> choose_bands(0.8, 128, 0.99)
    (12, 5)
    """
    threshold, recall = check_fraction("threshold", threshold), check_fraction("recall", recall, include_one=False)
    return plans.cheapest_bands(threshold, check_integer("num_perm", num_perm, 1, BITS_MAX), recall, 1_000_000)


def band_buckets(fingerprints: Any, bands: int, rows: int) -> Any:
    """The buckets of MinHash signatures, as in the band table of an index: int32[n, bands].

    fingerprints: uint16 or uint32 [n, num_perm], as from `MinHash.fingerprints`. Two signatures share a bucket if all `rows`
    slots of that band are equal, and by chance once in 2^32. Raises ParameterError if bands * rows exceeds the slots.

    >>> from neardup_db import MinHash
    >>> scheme = MinHash()
    >>> buckets = band_buckets(scheme.fingerprints(["one two three four", "One two three four!"]), scheme.bands, scheme.rows)
    >>> buckets.shape, bool((buckets[0] == buckets[1]).all())
    ((2, 12), True)
    """
    array = np.asarray(fingerprints)
    if array.ndim != 2 or array.dtype not in (np.uint16, np.uint32):
        raise ParameterError(f"fingerprints are {array.dtype}{list(array.shape)}: give uint16 or uint32 [n, num_perm]")
    bands, rows = check_integer("bands", bands, 1, BITS_MAX), check_integer("rows", rows, 1, BITS_MAX)
    if bands * rows > array.shape[1]:
        raise ParameterError(f"bands={bands} of rows={rows} take {bands * rows} slots, but the signatures have {array.shape[1]}")
    size, (count, num_perm) = array.dtype.itemsize, array.shape
    out = np.empty((count, bands), np.int32)
    for signature, buckets in zip(np.ascontiguousarray(array, dtype=f"<u{size}"), out, strict=True):
        data, target = native.pointer(signature, "uint8_t[]"), native.pointer(buckets, "int32_t[]")
        native.check(native.lib.nd_band_buckets(data, num_perm, size, bands, rows, target), f"bands={bands}, rows={rows}")
    return out


def candidate_probability(similarity: Any, bands: int, rows: int) -> Any:
    """1 - (1 - similarity^rows)^bands: the probability that a pair becomes a candidate; an array for an array.

    >>> round(candidate_probability(0.8, bands=16, rows=8), 3)
    0.947
    """
    bands, rows = check_integer("bands", bands, 1, BITS_MAX), check_integer("rows", rows, 1, BITS_MAX)
    values = np.asarray(similarity, dtype=np.float64)
    if not ((values >= 0.0) & (values <= 1.0)).all():
        raise ParameterError(f"similarity={quoted(similarity)}: give a number from 0 to 1")
    found = [plans.band_probability(float(value), bands, rows) for value in values.reshape(-1)]
    return found[0] if values.ndim == 0 else np.array(found).reshape(values.shape)


def _permuted(code: Any, table: BlockTable, number: Any = int) -> Any:
    bounds, at, moved = plans.block_bounds(table.bits, table.blocks), table.bits, code ^ code
    for block in table.order:
        width = bounds[block + 1] - bounds[block]
        at -= width
        moved |= (code >> number(bounds[block]) & number((1 << width) - 1)) << number(at)
    return moved
