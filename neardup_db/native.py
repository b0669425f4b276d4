"""The interface to the C core: it passes bytes and buffers, returns bytes and numpy arrays, and raises errors for status codes.

C calls release the interpreter lock. Each thread has its own workspace; compiled rules and schemes are immutable and shared.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import count, pairwise, takewhile
from typing import Any, NamedTuple

from . import _core, _python, limits
from ._core import ffi as ffi
from ._core import lib as lib
from ._python import locate
from .arrays import Array, np, npt
from .errors import CorruptIndexError, ParameterError
from .located import LocatedTexts
from .system import EXTENSION_SUFFIX, require_python_lock

require_python_lock()  # the imports above may have turned on the lock of a free-threaded Python

EXTENSION = os.path.join(os.path.dirname(_core.__file__), f"neardup{EXTENSION_SUFFIX}")
"""The SQLite extension, in the same folder as the core."""


def check(status: int, subject: str = "") -> None:
    """Raises the error for a status code of the C core. subject: the failed step and its value."""
    if status == lib.ND_OK:
        return
    after = f": {subject}" if subject else ""
    if status == lib.ND_ERROR_MEMORY:
        raise MemoryError(f"out of memory{after}")
    if status == lib.ND_ERROR_DAMAGED:
        raise CorruptIndexError(f"a stored value has the wrong length or order{after}; run check(repair=True)")
    if status == lib.ND_ERROR_CAPACITY:
        raise ParameterError(f"too large{after}; split it into smaller parts")
    raise ParameterError(f"a parameter is out of its range{after}")


def text_bytes(text: Any) -> bytes:
    """A text as UTF-8 for the C core, which replaces lone surrogates by U+FFFD."""
    if isinstance(text, str):
        return text.encode("utf-8", "surrogatepass")
    if isinstance(text, bytes):
        return text
    if isinstance(text, (bytearray, memoryview)):
        return bytes(text)
    raise ParameterError(f"text={text!r:.80} is of type {type(text).__name__}: give str, or bytes in UTF-8")


def text_of(string: Any) -> str:
    return str(ffi.string(string).decode("utf-8"))


def pointer(array: Array, c_type: str) -> Any:
    """A C pointer into a contiguous array, which the caller must keep alive."""
    return ffi.from_buffer(c_type, array)


def copied(data: Any, count: int, dtype: npt.DTypeLike) -> Array:
    kind = np.dtype(dtype)
    if not count:
        return np.empty(0, kind)
    return np.frombuffer(ffi.buffer(data, count * kind.itemsize), kind).copy()


# ---- handles ---------------------------------------------------------------------------------------------------------


def owned(handle: Any, free: Any) -> Any:
    if handle == ffi.NULL:
        raise MemoryError("out of memory")
    return ffi.gc(handle, free)


def new(kind: str) -> Any:
    """A new "text", "values", "keys", "pairs" or "set_join" of the C core, released by garbage collection."""
    return owned(getattr(lib, f"nd_{kind}_new")(), getattr(lib, f"nd_{kind}_free"))


def _address(pointer: Any) -> int:
    return int(ffi.cast("uintptr_t", pointer))


class _Thread(threading.local):
    """Buffers of one thread: text workspace, value list, keys, and the last sketch, which points into them."""

    def __init__(self) -> None:
        self.text = new("text")
        self.keys = new("keys")
        self.sketch = ffi.new("nd_sketch *")
        self._new_values()

    def _new_values(self) -> None:
        self.values = new("values")
        self.addresses = _address(self.text), _address(self.values), _address(self.sketch)

    def shrink_buffer(self, size: int) -> None:
        if size > limits.KEPT_BYTES:
            self._new_values()


_mine = _Thread()


def workspace() -> Any:
    """This thread's `nd_text *`. Custom rules may overwrite it, so copy results before calling a user's function."""
    return _mine.text


def rules_new(spec: dict[str, int], joiner: bytes, stopwords: Sequence[bytes]) -> Any:
    """A compiled `nd_rules *`. spec: the integer fields of `nd_rules_spec`."""
    native = ffi.new("nd_rules_spec *", spec)
    words = b"".join(stopwords)
    joiner_data, words_data = ffi.from_buffer("uint8_t[]", joiner), ffi.from_buffer("uint8_t[]", words)
    sizes = ffi.new("size_t[]", [len(word) for word in stopwords] or [0])
    native.joiner, native.joiner_size = joiner_data, len(joiner)
    native.stopwords, native.stopword_sizes, native.stopword_count = words_data, sizes, len(stopwords)
    out = ffi.new("nd_rules **")
    check(lib.nd_rules_new(native, out), "text rules")
    return owned(out[0], lib.nd_rules_free)


def scheme_new(fields: dict[str, Any]) -> Any:
    """A checked `nd_scheme *`. Raises ParameterError with the core's message if the fields are invalid."""
    scheme = ffi.new("nd_scheme *", fields)
    message = ffi.new("char[256]")
    if lib.nd_scheme_check(scheme, message, 256) != lib.ND_OK:
        raise ParameterError(ffi.string(message).decode("utf-8", "replace"))
    return scheme


def trim_memory() -> None:
    """Return freed memory to the system, which after large multi-threaded work later work could not use all of."""
    lib.nd_memory_trim()


# ---- definitions from the core ---------------------------------------------------------------------------------------


def words(setting: str) -> tuple[str, ...]:
    """The allowed words of an index setting, in the order of their numbers in C."""
    words = (lib.nd_setting_word(setting.encode(), number) for number in count())
    return tuple(text_of(word) for word in takewhile(lambda word: word != ffi.NULL, words))


def bounds(scheme: Any, *, containment: bool = False) -> Any:
    """The `nd_bounds *` of a query's arguments: threshold, lowest, max_distance."""
    out = ffi.new("nd_bounds *")
    lib.nd_scheme_bounds(scheme, containment, out)
    return out


def query_of(scheme: Any, *, containment: bool = False) -> str | None:
    """The name of the sql/verify_*.sql file ('bands', ...) that verifies a query; None if stored values are not enough."""
    name = lib.nd_scheme_query(scheme, containment)
    return None if name == ffi.NULL else text_of(name)


# ---- hashes ----------------------------------------------------------------------------------------------------------


def digests_of_hash(name_number: int, seed: int, data: bytes) -> bytes:
    """The digest of `data` by a built-in hash, big-endian."""
    digest = ffi.new("uint8_t[]", lib.ND_DIGEST_MAX)
    check(lib.nd_hash_bytes(name_number, seed, data, len(data), digest), f"hash {name_number}")
    return bytes(ffi.buffer(digest, lib.nd_hash_size(name_number)))


HASHES = words("text.hash")  # the built-in hashes, in the order of their numbers in C (ND_HASH_*)


def signed_hash(value: bytes) -> int:
    """XXH3-64 of bytes, as a signed integer for SQLite."""
    number = int(lib.nd_xxh3_64(value, len(value), 0))
    return number - (1 << 64) if number >> 63 else number


def signed_hashes(values: Sequence[bytes]) -> Array:
    return Values.joined(values).hashes()


# ---- one text --------------------------------------------------------------------------------------------------------


def normalize(rules: Any, text: bytes) -> bytes:
    """The text after normalisation, case folding and removal of ignorable characters, before tokenising."""
    out, size = ffi.new("const uint8_t **"), ffi.new("size_t *")
    check(lib.nd_text_normalize(workspace(), rules, text, len(text), out, size))
    return bytes(ffi.buffer(out[0], size[0])) if size[0] else b""


def tokenize(rules: Any, text: bytes) -> Any:
    work = workspace()
    check(lib.nd_text_tokenize(work, rules, text, len(text)))
    return work


def set_tokens(rules: Any, tokens: Sequence[bytes]) -> Any:
    work = workspace()
    sizes = np.array([len(token) for token in tokens] or [0], dtype=np.uintp)
    check(lib.nd_text_set_tokens(work, rules, b"".join(tokens), pointer(sizes, "size_t[]"), len(tokens)))
    return work


def tokens_of(work: Any) -> list[bytes]:
    return _pieces(lib.nd_text_token_count(work), partial(lib.nd_text_token, work))


def shingles_of(work: Any, rules: Any) -> list[bytes]:
    return _pieces(lib.nd_text_shingle_count(work, rules), partial(lib.nd_text_shingle, work, rules))


def _pieces(count: int, read: Callable[[int, Any, Any], None]) -> list[bytes]:
    out, size = ffi.new("const uint8_t **"), ffi.new("size_t *")
    pieces = []
    for index in range(count):
        read(index, out, size)
        pieces.append(bytes(ffi.buffer(out[0], size[0])) if size[0] else b"")
    return pieces


def hashes_of(work: Any, rules: Any, size: int) -> Array:
    """Shingle hashes: uint64[n]; uint32[n] for size 4, uint8[n, size] for sizes above 8."""
    check(lib.nd_text_hash(work, rules))
    count = lib.nd_text_shingle_count(work, rules)
    if size > 8:
        return copied(lib.nd_text_digests(work), count * size, np.uint8).reshape(count, size)
    hashes = copied(lib.nd_text_hashes(work), count, np.uint64)
    return hashes.astype(np.uint32) if size == 4 else hashes


# ---- values of many texts --------------------------------------------------------------------------------------------


class Values:
    """Concatenated stored values, with the token count of each text.

    data: bytes; ends: the end of each value in data, uint64[n]; tokens: uint64[n]. A text without shingles has a value of size 0.
    """

    __slots__ = ("data", "ends", "tokens")

    def __init__(self, data: bytes, ends: Array, tokens: Array) -> None:
        self.data, self.ends, self.tokens = data, ends, tokens

    @classmethod
    def joined(cls, values: Sequence[bytes | None]) -> Values:
        """The inverse of `split`; token counts are 0."""
        present = [value or b"" for value in values]
        ends = np.cumsum(np.fromiter(map(len, present), np.uint64, len(present)), dtype=np.uint64)
        return cls(b"".join(present), ends, np.zeros(len(present), np.uint64))

    def split(self) -> list[bytes | None]:
        """The values, None for a value of size 0."""
        return [self.data[start:end] or None for start, end in pairwise([0, *self.ends.tolist()])]

    def arguments(self) -> tuple[bytes, Any, int]:
        return self.data, pointer(self.ends, "uint64_t[]"), len(self.ends)

    def hashes(self) -> Array:
        """`signed_hash` of each value, int64[n]; an empty value has the hash of no bytes."""
        hashes = np.empty(len(self.ends), np.uint64)
        lib.nd_hash_values(*self.arguments(), pointer(hashes, "uint64_t[]"))
        return hashes.view(np.int64)

    def sizes(self) -> Array:
        """The size of each value in bytes, int64[n]."""
        return np.diff(self.ends.astype(np.int64), prepend=0)


def _values_array(values: Any) -> Values:
    count = values.count
    ends = copied(values.ends, count, np.uint64)
    size = int(ends[-1]) if count else 0
    data = bytes(ffi.buffer(values.bytes, size)) if size else b""
    return Values(data, ends, copied(values.tokens, count, np.uint64))


def text_batches(texts: list[Any] | LocatedTexts) -> Iterator[tuple[slice, tuple[Any, Any, int]]]:
    """The places of a batch of texts, and the batch for C, valid until the next: (addresses, sizes, count)."""
    held: tuple[Any, Any, Any]
    start = 0
    while start < len(texts):
        if isinstance(texts, LocatedTexts):
            held = texts.located(start, limits.SLICE_TEXTS, limits.SLICE_BYTES)
        else:
            part = texts[start : start + limits.SLICE_TEXTS]  # a list that no other thread changes keeps its texts alive
            held = locate(part, 0, limits.SLICE_BYTES, text_bytes)
        pointers, sizes = _pointers(*held)
        end = start + len(sizes)
        yield slice(start, end), (pointers, sizes, len(sizes))
        start = end


def _pointers(addresses: Any, sizes: Any, owners: Any) -> tuple[Any, Any]:
    return ffi.from_buffer("const uint8_t *[]", addresses), ffi.from_buffer("size_t[]", sizes)


def values_of_texts(scheme: Any, rules: Any, texts: Iterable[str | bytes]) -> Values:
    """The stored values of texts under built-in rules. ASCII `str`, `bytes` and LocatedTexts are not copied."""
    texts = texts if isinstance(texts, (list, LocatedTexts)) else list(texts)
    lib.nd_values_clear(_mine.values)
    for _, piece in text_batches(texts):
        check(lib.nd_scheme_append_texts(scheme, rules, _mine.text, *piece, _mine.values), "fingerprints of texts")
    taken = _values_array(_mine.values)
    _mine.shrink_buffer(len(taken.data))
    return taken


def rows_of_texts(scheme: Any, rules: Any, texts: Iterable[str | bytes], width: int) -> tuple[Array, Array]:
    """Stored values of `width` bytes under built-in rules, uint8[n, width], and which texts have no value, bool[n]; their rows
    are zeros. Collecting `Values` first takes twice as long for short texts."""
    texts = texts if isinstance(texts, (list, LocatedTexts)) else list(texts)
    rows, empty = np.empty((len(texts), width), np.uint8), np.empty(len(texts), np.bool_)
    for places, piece in text_batches(texts):
        out = pointer(rows[places], "uint8_t[]"), pointer(empty[places], "uint8_t[]")
        check(lib.nd_scheme_text_rows(scheme, rules, _mine.text, *piece, _mine.values, width, *out), "fingerprints of texts")
    return rows, empty


def rows_of(values: Values, width: int) -> tuple[Array, Array]:
    empty = values.sizes() == 0
    rows = np.zeros((len(empty), width), np.uint8)
    rows[~empty] = np.frombuffer(values.data, np.uint8).reshape(-1, width)
    return rows, empty


def value_maker(scheme: Any, rules: Any) -> Callable[[str | bytes], tuple[bytes | None, int]]:
    """A function from one text to (stored value, token count). Calls C without cffi, which costs as much as a short text."""
    return partial(_value_of_text, (_SKETCH_TEXT, _address(scheme), _address(rules)), (scheme, rules))


def _value_of_text(addresses: tuple[int, int, int], owners: Any, text: str | bytes) -> tuple[bytes | None, int]:
    mine = _mine
    data = text if isinstance(text, bytes) or text.isascii() else text.encode("utf-8", "surrogatepass")
    held = owners, mine.text, mine.values, mine.sketch  # at exit a running thread loses what only `_mine` holds
    found = _python.value_of_text(*addresses, *mine.addresses, data, held)
    if isinstance(found, int):
        check(found, "fingerprint of a text")
        return None, 0
    value = found[0]
    if value is not None and len(value) > limits.KEPT_BYTES:
        mine.shrink_buffer(len(value))
    return found


_SKETCH_TEXT = _address(ffi.addressof(lib, "nd_scheme_sketch_text"))


class Sketch(NamedTuple):
    """The stored data of one fingerprint. `value`, `value_hash` and `keys` are None for a text without shingles."""

    value: bytes | None
    token_count: int
    value_hash: int | None
    """`signed_hash` of the value."""
    keys: bytes | None
    """The band keys of a banding scheme: int64[bands], little-endian, ascending, padded by repeating the last. `neardup_filing`
    takes them after the group number. None for other plans."""


def sketch_of_text(scheme: Any, rules: Any, text: str | bytes) -> Sketch:
    mine, made = _mine, _mine.sketch
    held = locate([text], 0, limits.SLICE_BYTES, text_bytes)
    pointers, sizes = _pointers(*held)
    status = lib.nd_scheme_sketch_text(scheme, rules, mine.text, pointers[0], sizes[0], mine.values, mine.keys, made)
    check(status, "fingerprint of a text")
    if not made.size:
        return Sketch(None, made.token_count, None, None)
    value = ffi.buffer(made.value, made.size)[:]
    sketch = Sketch(value, made.token_count, made.value_hash, _keys_of(made))
    mine.shrink_buffer(len(value))
    return sketch


def sketch_of_value(scheme: Any, value: bytes, token_count: int = 0) -> Sketch:
    """The sketch of an existing value, such as a code or the value of a text under custom rules."""
    mine, made = _mine, _mine.sketch
    check(lib.nd_scheme_sketch_value(scheme, value, len(value), mine.keys, made), "a fingerprint")
    return Sketch(value, token_count, made.value_hash, _keys_of(made))


def _keys_of(sketch: Any) -> bytes | None:
    return ffi.buffer(sketch.keys, 8 * sketch.key_count)[:] if sketch.key_count else None


def values_of_digests(scheme: Any, texts: Iterable[tuple[Array, int]]) -> Values:
    """The stored values of hashed texts: (digests uint8[n, size] big-endian, token count) each."""
    values = new("values")
    for digests, token_count in texts:
        count, size = digests.shape
        flat = np.ascontiguousarray(digests, dtype=np.uint8).reshape(-1)
        data = pointer(flat, "uint8_t[]")
        check(lib.nd_scheme_append_digests(scheme, data, size, count, token_count, values), f"digests of {size} bytes")
    return _values_array(values)


def is_row(entries: bytes, code_bytes: int) -> bool:
    """Whether the bytes are valid bucket entries for codes of `code_bytes` bytes."""
    return bool(lib.nd_entries_read(entries, len(entries), code_bytes, ffi.new("nd_entries *")) == lib.ND_OK)


def remove_entries(entries: bytes, code_bytes: int, first_id: int, last_id: int) -> bytes:
    """Valid bucket entries without those of fingerprints first_id to last_id; empty if no others remain."""
    found = ffi.new("nd_entries *")
    check(lib.nd_entries_read(entries, len(entries), code_bytes, found), "entries of a row of buckets")
    numbers = [lib.nd_entries_id(found, place) for place in range(found.count)]
    kept = [place for place, number in enumerate(numbers) if not first_id <= number <= last_id]
    if not kept:
        return b""
    ids = ffi.new("int64_t[]", [numbers[place] for place in kept])
    codes = b"".join(bytes(ffi.buffer(found.codes + place * code_bytes, code_bytes)) for place in kept)
    out = ffi.new("uint8_t[]", lib.nd_entries_size(ids, len(kept), code_bytes))
    lib.nd_entries_write(ids, codes, len(kept), code_bytes, out)
    return bytes(ffi.buffer(out))


def band_keys(scheme: Any, values: Values) -> Array:
    """The band keys of each value: int64[n, bands], ascending, padded by repeating the last."""
    out = np.empty((len(values.ends), scheme.bands), np.int64)
    check(lib.nd_scheme_band_keys(scheme, *values.arguments(), new("keys"), pointer(out, "int64_t[]")), "keys of fingerprints")
    return out


def set_numbers(value: bytes) -> Array:
    """The numbers in a packed set, ascending: uint64[n]."""
    numbers = np.empty(lib.nd_set_count(len(value)), np.uint64)
    check(lib.nd_set_read(value, len(value), pointer(numbers, "uint64_t[]")), "a packed set")
    return numbers
