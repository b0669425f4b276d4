"""Schemes whose fingerprint is a bit code, compared by Hamming distance."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Protocol

from .. import native
from ..arrays import Array, Bits, Bytes, Number, np
from ..errors import ParameterError
from ..parameters import check_integer, quoted
from ..settings import Parameter, choice, integer
from ..text import TextRules
from . import plans
from .base import Scheme, Self, native_scheme


class HashedImage(Protocol):
    """An `imagehash.ImageHash`: bits in an array."""

    hash: Array


Code = bytes | bytearray | int | str | Number | Bytes | Bits | HashedImage
"""The forms of a code that callers may pass (see `BinaryCode`)."""

BITS_MAX: int = native.lib.ND_BITS_MAX


_PLANNED_BY = ("bits", "threshold", "recall", "max_distance", "expected")  # what decides the blocks or chunks of a code


def width(name: str, value: Any) -> int:
    """Check the bits of a code: a multiple of 8 from 8 to 4096."""
    bits = check_integer(name, value, 8, BITS_MAX, "a multiple of 8")
    if bits % 8:
        raise ParameterError(f"{name}={bits}: give a multiple of 8, e.g. {bits + 8 - bits % 8}")
    return bits


def _parts(most: int) -> Parameter[Any]:
    """A number of blocks or chunks; a file has none for another plan."""
    check = integer(1, most, chosen_by=_PLANNED_BY).checked
    return Parameter(check, from_file=check, chosen_for=(None,), chosen_by=_PLANNED_BY)


class CodeScheme(Scheme):
    """A scheme whose fingerprint is a code. Two codes match if at most max_distance bits differ."""

    takes_codes: ClassVar[bool] = True
    table: ClassVar[str] = "code_bucket"
    plan = choice("scan", "blocks", "chunks")
    bits: Parameter[int | None] = Parameter(width, chosen_for=(None,))
    max_distance = integer(0, BITS_MAX)
    blocks: Parameter[int | None] = _parts(native.lib.ND_BLOCKS_MAX)
    chunks: Parameter[int | None] = _parts(native.lib.ND_CHUNKS_MAX)

    same_values: ClassVar[tuple[str, ...]] = ("bits",)

    @classmethod
    def from_settings(cls: type[Self], settings: Mapping[str, Any]) -> Self:
        return super().from_settings({"blocks": None, "chunks": None, **settings})

    @cached_property
    def native(self) -> Any:
        self._width()
        return native_scheme(self.settings())

    @property
    def filing_bytes(self) -> int:
        # of a scan all are one bucket, whose entries are held together: `nd_filed`, id and code of each, and room to grow
        one_bucket = 80 + self._width() // 8 if self.plan == "scan" else 0
        return super().filing_bytes + self._width() // 8 + one_bucket

    def query_parameters(self) -> dict[str, Any]:
        return {"bits": self.bits, "slope": native.lib.nd_scheme_slope(self.native)}

    # ---- values ------------------------------------------------------------------------------------------------------

    def code_value(self, code: Any, name: str = "code") -> bytes:
        bits = self._width()
        return code if type(code) is bytes and 8 * len(code) == bits else code_bytes(code, bits, name)

    def code_rows(self, codes: Iterable[Any]) -> Iterable[Any]:
        return array_rows(codes, self._width()) if isinstance(codes, np.ndarray) else codes

    def decoded(self, value: bytes, rules: TextRules) -> Any:
        return np.frombuffer(value, np.uint8).copy()

    @property
    def value_size(self) -> int:
        return self._width() // 8

    def encoded(self, name: str, fingerprint: Any) -> bytes:
        return code_bytes(fingerprint, self._width(), name)

    def _width(self) -> int:
        if self.bits is None:
            raise ParameterError(f"{type(self).__name__}(bits=None) takes its bits from the hash of the text rules; give bits")
        return self.bits


class CodeRows(Sequence[bytes]):
    """The rows of an array as stored values, which become Python objects on demand."""

    def __init__(self, codes: Array, size: int) -> None:
        self._rows = np.ascontiguousarray(codes).view(f"V{size}").reshape(-1)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, place: Any) -> Any:
        return self._rows[place].tolist()

    def __iter__(self) -> Iterator[bytes]:
        for start in range(0, len(self), 4096):
            yield from self[start : start + 4096]


def array_rows(codes: Array, bits: int) -> Iterable[Any]:
    """The codes of an array: stored values at once, or single codes if each number or text needs a check."""
    kind, size, width = codes.dtype.kind, bits // 8, 8 * codes.dtype.itemsize
    if kind == "b" and codes.ndim > 1 and codes.size == len(codes) * bits:
        return CodeRows(np.packbits(codes.reshape(len(codes), bits), axis=1), size)
    if codes.dtype == np.uint8 and codes.ndim == 2 and codes.shape[1] == size:
        return CodeRows(codes, size)
    if kind in "iu" and codes.ndim == 1 and width == bits:
        return CodeRows(codes.astype(f">{kind}{size}"), size)
    if kind == "S" and codes.ndim == 1 and width == bits:  # as single ones they lose zeros at the end
        return CodeRows(codes, size)
    if codes.ndim == 1 and (not codes.size or kind in "OU" or (kind in "iu" and width > 8)):
        return codes
    given = f"codes is {codes.dtype}{list(codes.shape)}"
    if kind == "b" or codes.dtype == np.uint8:
        each = codes.size // max(1, len(codes)) * (1 if kind == "b" else 8)
        given += f", {each} bits each, but codes here have {bits}"
    numbers = f", or uint{bits}[n] or int{bits}[n]" if bits in (8, 16, 32, 64) else ""
    raise ParameterError(f"{given}: give uint8[n, {size}], or bool[n, {bits}]{numbers}")


def plan_state(plan: plans.Plan) -> dict[str, Any]:
    """The attributes plan, blocks and chunks of a plan."""
    return {"plan": plan.kind, "blocks": None, "chunks": None} | ({plan.kind: plan.parts} if plan.parts else {})


def distance_of(value: Any, bits: int) -> int:
    """Check a distance between codes of so many bits."""
    return check_integer("max_distance", value, 0, bits - 1, f"of {bits} bits")


def code_bytes(code: Any, bits: int, name: str = "code") -> bytes:
    """A code as bytes, most significant bit first.

    code: uint8[bits // 8], a boolean array of so many bits in any shape or an object with such a `hash`, bytes, an int from 0 to
    2^bits - 1, a numpy integer (signed only if as wide as the code), or hex digits.
    """
    size = bits // 8
    if type(code) is int and 0 <= code < 1 << bits:  # most are
        return code.to_bytes(size, "big")
    if isinstance(code, (bytes, bytearray)):
        data = bytes(code)
    elif isinstance(code, str):
        data = hex_bytes(code, name)
    elif isinstance(code, np.ndarray):
        data = _array_bytes(code, bits, name)
    elif isinstance(code, (int, np.integer)) and not isinstance(code, bool):
        return _number_bytes(code, bits, name)
    elif isinstance(getattr(code, "hash", None), np.ndarray):
        data = _array_bytes(code.hash, bits, f"{name}.hash")
    else:
        kind = type(code).__name__
        remedy = f"give uint8[{size}], bool[{bits}], bytes, an int, hex digits or an imagehash.ImageHash"
        raise ParameterError(f"{name}={quoted(code)} is of type {kind}: {remedy}")
    if len(data) != size:
        given = f"{name}={quoted(code)} has {8 * len(data)} bits"
        raise ParameterError(f"{given}, but codes here have {bits}: give {size} bytes, or {2 * size} hex digits")
    return data


def _array_bytes(code: Array, bits: int, name: str) -> bytes:
    if code.dtype == np.bool_:
        if code.size != bits:
            given = f"{name} is bool{list(code.shape)}, {code.size} bits"
            raise ParameterError(f"{given}, but codes here have {bits}: give bool[{bits}], in any shape")
        return np.packbits(code, axis=None).tobytes()
    if code.dtype != np.uint8 or code.ndim != 1:
        how = "of one number give its item()" if code.ndim == 0 else f"give uint8[{bits // 8}] or bool[{bits}]"
        raise ParameterError(f"{name} is {code.dtype}{list(code.shape)}: {how}")
    return code.tobytes()


def _number_bytes(code: Any, bits: int, name: str) -> bytes:
    is_signed = isinstance(code, np.signedinteger) and 8 * code.itemsize == bits
    if not is_signed and not 0 <= int(code) < 1 << bits:
        signed = f", or a negative one as numpy.int{bits}" if bits in (8, 16, 32, 64) else ""
        raise ParameterError(f"{name}={code} is no code of {bits} bits: give an integer from 0 to 2^{bits} - 1{signed}")
    return int(code).to_bytes(bits // 8, "big", signed=is_signed)


def hex_bytes(code: str, name: str) -> bytes:
    digits = code[2:] if code[:2] in ("0x", "0X") else code
    try:
        if digits and not digits.isalnum():
            raise ValueError("not only hex digits")
        return bytes.fromhex(digits)
    except ValueError as error:
        raise ParameterError(f"{name}={quoted(code)}: give an even number of hex digits") from error
