"""Codes from the application: perceptual hashes (PDQ, pHash) or any other locality-sensitive bit code."""

from __future__ import annotations

from typing import ClassVar

from ..errors import ParameterError
from ..immutable import checked
from ..text import TextRules
from . import plans
from .codes import CodeScheme, distance_of, plan_state

_NO_TEXT = "BinaryCode has no fingerprint of texts: compute the code yourself and use add_code and query_code, or another scheme"


class BinaryCode(CodeScheme):
    """Match codes of the application that differ in at most `max_distance` bits. The index finds every such pair.

    bits: the code length, a multiple of 8. max_distance: the bits that may differ. expected: the planned number of codes, which
    decides between block tables, chunk tables and a scan. similarity = 1 - distance / bits.

    A code is uint8[bits // 8], bool[bits] in any shape, bytes, an int, hex digits, an `imagehash.ImageHash`, or a 64-bit uint64
    or int64. The most significant bit of a number is the most significant bit of the first byte, and the first boolean.

    >>> scheme = BinaryCode(bits=64, max_distance=7)
    >>> scheme.similarity(0x0123456789ABCDEF, "0123456789abcdee")
    0.984375
    """

    name: ClassVar[str] = "binarycode"
    takes_text: ClassVar[bool] = False

    @checked
    def __init__(self, bits: int = 256, max_distance: int = 31, expected: int = 1_000_000) -> None:
        distance = distance_of(self.max_distance, bits)
        self._set(**plan_state(plans.hamming_plan(bits, distance, self.expected)))
        self.native  # noqa: B018 (checks the rest)

    def rules_for(self, rules: TextRules) -> TextRules:
        raise ParameterError(_NO_TEXT)
