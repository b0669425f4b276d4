"""Passages: sequences of tokens, found by winnowing (Schleimer, Wilkerson and Aiken 2003) and compared token by token."""

from __future__ import annotations

from typing import Any, ClassVar

from .. import native
from ..arrays import np
from ..errors import ParameterError
from ..immutable import checked
from ..parameters import check_fraction
from ..settings import Parameter, choice, integer
from ..text import TextRules
from .base import ThresholdScheme, fingerprint_array

_SHORTEST_MIN: int = native.lib.ND_SHORTEST_MIN
_SHORTEST_MAX: int = native.lib.ND_SHORTEST_MAX

_USUAL_RUN = 8
"""Tokens in a hashed run. Two texts rarely share eight words by chance; longer runs leave shorter windows, which select more."""


class Passages(ThresholdScheme):
    """Match texts that share a passage: a run of at least `shortest` consecutive tokens. No such pair is missed, none is false.

    shortest: 3 to 1,000 tokens, which are the words or characters of the index's `TextRules`; their `shingle` is not used. A
    text with fewer tokens matches nothing. threshold: the least share of the shorter text's tokens that lie in common passages,
    above 0 to 1; None: one passage is enough. expected: the planned number of documents.

    `Match.similarity` is that share, of two texts of equal length the larger one; with `measure="containment"` it is the share of
    the text asked for. `Index.passages` returns the passages themselves.

    Tokens are compared by 32 bits of their hashes, so two different runs of t tokens are equal with a probability of 2^-32t.
    `fingerprint` returns these hashes in the order of the text, uint32[tokens].

    >>> scheme = Passages(shortest=3)
    >>> a, b = scheme.fingerprint("one two three four"), scheme.fingerprint("zero one two three five six")
    >>> len(a), scheme.similarity(a, b)
    (4, 0.75)
    """

    name: ClassVar[str] = "passages"
    table: ClassVar[str] = "passage_hash"
    query_names: ClassVar[tuple[str, ...]] = ("shortest",)
    keys_at_once = 1024
    always_shown: ClassVar[tuple[str, ...]] = ("shortest",)
    same_values: ClassVar[tuple[str, ...]] = ("shortest",)

    item_size = 4
    plan = choice("winnow")
    shortest = integer(_SHORTEST_MIN, _SHORTEST_MAX, "tokens in the shortest passage")
    threshold: Parameter[float | None] = Parameter(  # type: ignore[assignment]
        lambda name, value: None if value is None else check_fraction(name, value),
        from_file=lambda name, value: None if value == 0 else check_fraction(name, value),
        to_file=lambda name, value: value or 0.0,
    )
    k = integer(1, _SHORTEST_MAX)

    @checked
    def __init__(self, shortest: int = 25, threshold: float | None = None, expected: int = 1_000_000) -> None:
        self._set(k=min(shortest - shortest // 4, max(_USUAL_RUN, shortest // 4)), plan="winnow")
        self.native  # noqa: B018 (checks the rest)

    def rules_for(self, rules: TextRules) -> TextRules:
        """Shingles of one token."""
        return rules._cached("of_tokens", lambda: rules.changed(shingle=1))

    def filing_bytes_of(self, count: int, size: int) -> float:
        """A window selects two runs in as many as it has, and one more."""
        rows = size / 4 * 2 / (self.shortest - self.k + 2)
        return 24 * count + 16 * rows

    def decoded(self, value: bytes, rules: TextRules) -> Any:
        return np.frombuffer(value, "<u4")

    def encoded(self, name: str, fingerprint: Any) -> bytes:
        array = fingerprint_array(name, fingerprint)
        if array.ndim != 1 or array.dtype != np.uint32 or array.size < self.shortest:
            raise ParameterError(
                f"{name} is {array.dtype}{list(array.shape)}: give uint32[n] of at least shortest={self.shortest} token hashes"
            )
        return array.astype("<u4").tobytes()
