"""SimHash (Charikar 2002): a bit code of each text, looked up in permuted block tables (Manku, Jain, Das Sarma 2007)."""

from __future__ import annotations

from typing import Any, ClassVar

from ..errors import ParameterError
from ..immutable import checked
from ..text import TextRules
from . import plans
from .codes import CodeScheme, distance_of, plan_state, width

_DEFAULT_BITS = 64


class SimHash(CodeScheme):
    """Match texts whose SimHash codes differ in at most `max_distance` bits. The index finds every such pair.

    bits: the code length, a multiple of 8 up to the width of the shingle hash; None for the full width (64 by default).
    max_distance: the bits that may differ, 0 to bits - 1. blocks: the code is cut into this many blocks, and each choice of
    blocks - max_distance of them is a table; None for the number that suits `expected` documents. If block tables are not the
    cheapest plan, the index uses chunk tables or a scan.

    `fingerprint` returns uint8[bits // 8], most significant bit first. similarity = 1 - distance / bits. Three bits of 64 mean
    nearly equal texts: a quarter of the pairs of Jaccard similarity 0.9 to 0.95 are that close. Use MinHash if texts differ more.

    >>> scheme = SimHash(max_distance=3)
    >>> code = scheme.fingerprint("the cat sat on the mat")
    >>> code.dtype, code.shape
    (dtype('uint8'), (8,))
    >>> scheme.similarity(code, scheme.fingerprint("The cat sat on the mat!"))
    1.0
    """

    name: ClassVar[str] = "simhash"

    @checked
    def __init__(
        self, bits: int | None = None, max_distance: int = 3, blocks: int | None = None, expected: int = 1_000_000
    ) -> None:
        distance_of(self.max_distance, 4096 if bits is None else bits)
        if self.blocks is not None and self.blocks <= self.max_distance:
            raise ParameterError(f"blocks={blocks}: give more than max_distance={max_distance}, e.g. {max_distance + 2}")
        self._set(plan="blocks", chunks=None)
        if bits is not None:
            self._resolve()

    def _resolve(self) -> None:
        """Choose the plan, once bits are known."""
        bits = self._width()
        if self.blocks is None:
            self._set(**plan_state(plans.hamming_plan(bits, self.max_distance, self.expected)))
        elif self.blocks > bits:
            raise ParameterError(f"blocks={self.blocks}: give at most the bits of the code, {bits}")
        self.native  # noqa: B018 (checks the rest)

    def for_index(self, rules: TextRules) -> SimHash:
        hash_bits = 8 * rules.hash_size
        if self.bits is not None:
            if self.bits > hash_bits:
                how = "use hash='md5' (128 bits), 'sha1' (160) or 'sha256' (256), or fewer bits"
                raise ParameterError(f"bits={self.bits} is more than the {hash_bits} bits of hash={rules.hash!r}; {how}")
            return self
        return self._cached(f"resolved_{hash_bits}", lambda: self._with_bits(hash_bits))

    def similarity(self, a: Any, b: Any) -> float:
        if self.bits is None and a is not None and b is not None:
            return self._with_bits(8 * _size(a)).similarity(a, b)
        return super().similarity(a, b)

    def _with_bits(self, bits: int) -> SimHash:
        distance_of(self.max_distance, width("bits", bits))
        made = self._copy(bits=bits)
        made._resolve()
        return made


def _size(code: Any) -> int:
    return len(code) if hasattr(code, "__len__") and not isinstance(code, str) else _DEFAULT_BITS // 8
