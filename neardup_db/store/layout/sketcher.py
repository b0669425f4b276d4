"""Computes sketches of texts, codes and stored values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...errors import ParameterError
from ...native import Values
from ...schemes.base import Scheme
from ...schemes.codes import CodeRows
from ...text import TextRules
from .sketches import Allowed, Sketch, Sketches, StoredValue, plain_sketch


@dataclass(slots=True)
class Sketcher:
    """The scheme, text rules and allowed texts of one epoch. Any thread may use it at any time, without a transaction: after a
    rebuild the store has another one, and these sketches have an outdated epoch."""

    epoch: int
    scheme: Scheme
    rules: TextRules
    allowed: Allowed | None  # None without allowed texts
    _value_of: Callable[[str | bytes], tuple[bytes | None, int]] | None = field(default=None, init=False, compare=False)
    """Computes a text's value; created by the first query."""

    def texts(self, texts: Sequence[str | bytes], *, to_file: bool = False) -> Sketches:
        """Sketches of texts; to_file: with hashes and keys for storing many."""
        values = self.scheme.values(texts, self.rules)
        more = (values.hashes(), self.scheme.keys_of(values)) if to_file else ()
        return self._exempt_all(Sketches(values.split(), values.tokens.tolist(), self.epoch, *more))

    def text(self, text: str | bytes) -> Sketch:
        value_of = self._value_of
        if value_of is None:
            value_of = self._value_of = self.scheme.value_maker(self.rules)
        value, token_count = value_of(text)
        sketch = plain_sketch((value, token_count, self.epoch, None, None, None))
        return sketch if self.allowed is None else self.allowed.exempt(sketch)

    def text_to_store(self, text: str | bytes) -> Sketch:
        """The sketch of one text to add, with the hash and keys of its value."""
        sketched = self.scheme.sketch(text, self.rules)
        sketch = Sketch(sketched.value, sketched.token_count, self.epoch, sketched.value_hash, sketched.keys)
        return sketch if self.allowed is None else self.allowed.exempt(sketch)

    def code(self, code: Any) -> Sketch:
        sketch = plain_sketch((self.scheme.code_value(code), None, self.epoch, None, None, None))
        return sketch if self.allowed is None else self.allowed.exempt(sketch)

    def codes(self, rows: Sequence[Any], first: int, end: int) -> Sketches:
        """Sketches of codes first to end - 1 of a `code_rows` result."""
        codes = rows[first:end]
        if isinstance(rows, CodeRows):
            return self.code_values(codes)
        try:
            values = [self.scheme.code_value(code) for code in codes]
        except ParameterError:  # again, with the position in the message
            values = [self.scheme.code_value(code, f"codes[{place}]") for place, code in enumerate(codes, first)]
        return self.code_values(values)

    def code_values(self, values: Sequence[bytes]) -> Sketches:
        return self._exempt_all(Sketches(values, None, self.epoch))

    def stored_values(self, values: Sequence[StoredValue]) -> Sketches:
        """Sketches of checked values, with hashes and keys for storing many."""
        joined = Values.joined([one.value for one in values])
        counts = [one.token_count for one in values]
        keys = self.scheme.keys_of(joined)
        return self._exempt_all(Sketches([one.value for one in values], counts, self.epoch, joined.hashes(), keys))

    def _exempt_all(self, sketches: Sketches) -> Sketches:
        return sketches if self.allowed is None else self.allowed.exempt_all(sketches)
