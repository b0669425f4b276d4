"""The only door to the C core: bytes and buffers in, bytes and numpy arrays out, status to exception.

Every call into C releases the interpreter lock. Workspaces belong to one thread at a time, so each thread has its own; compiled
rules and schemes are immutable and shared.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import count, takewhile
from typing import Any, NamedTuple

from . import _core, _questions, limits
from ._core import ffi as ffi
from ._core import lib as lib
from ._texts import locate
from .arrays import Array, np, npt
from .errors import CorruptIndexError, ParameterError
from .located import LocatedTexts
from .system import EXTENSION_SUFFIX, require_python_lock

require_python_lock()  # now that modules are loaded with which a free-threaded Python turns it on

EXTENSION = os.path.join(os.path.dirname(_core.__file__), f"neardup{EXTENSION_SUFFIX}")
"""The SQLite extension, which stands beside the core."""


def check(status: int, subject: str = "") -> None:
    """Raises the error that a status of the C core stands for; `subject` names the step that failed, and its value."""
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
    """A text as the UTF-8 that the C core reads; lone surrogates pass and become U+FFFD there."""
    if isinstance(text, str):
        return text.encode("utf-8", "surrogatepass")
    if isinstance(text, bytes):
        return text
    if isinstance(text, (bytearray, memoryview)):
        return bytes(text)
    raise ParameterError(f"text={text!r:.80} is of type {type(text).__name__}: give str, or bytes in UTF-8")


def text_of(string: Any) -> str:
    """A C string as str."""
    return str(ffi.string(string).decode("utf-8"))


def pointer(array: Array, c_type: str) -> Any:
    """A C pointer into an array, which must be contiguous and stay alive as long as the pointer is used."""
    return ffi.from_buffer(c_type, array)


def copied(data: Any, count: int, dtype: npt.DTypeLike) -> Array:
    """count elements behind a C pointer as an array of its own."""
    kind = np.dtype(dtype)
    if not count:
        return np.empty(0, kind)
    return np.frombuffer(ffi.buffer(data, count * kind.itemsize), kind).copy()


# ---- handles ---------------------------------------------------------------------------------------------------------


def _owned(handle: Any, free: Any) -> Any:
    if handle == ffi.NULL:
        raise MemoryError("out of memory")
    return ffi.gc(handle, free)


def _address(pointer: Any) -> int:
    return int(ffi.cast("uintptr_t", pointer))


class _Thread(threading.local):
    """What one thread keeps: a text workspace, a list of values, keys, and the last sketch, which points into these."""

    def __init__(self) -> None:
        self.text = _owned(lib.nd_text_new(), lib.nd_text_free)
        self.values = _owned(lib.nd_values_new(), lib.nd_values_free)
        self.keys = _owned(lib.nd_keys_new(), lib.nd_keys_free)
        self.sketch = ffi.new("nd_sketch *")
        self.addresses = self._addresses()

    def shrink_buffer(self, size: int) -> None:
        """Free the list of values where it has grown to a size that is not worth keeping."""
        if size > limits.KEPT_BYTES:
            self.values = _owned(lib.nd_values_new(), lib.nd_values_free)
            self.addresses = self._addresses()

    def _addresses(self) -> tuple[int, int, int]:
        return _address(self.text), _address(self.values), _address(self.sketch)


_thread: _Thread | None = None
_thread_lock = threading.Lock()


def _mine() -> _Thread:
    global _thread
    if _thread is None:
        with _thread_lock:
            if _thread is None:
                _thread = _Thread()
    return _thread


def workspace() -> Any:
    """This thread's `nd_text *`. Callers' functions may use it too: read what is needed before one of those is called."""
    return _mine().text


def rules_new(spec: dict[str, int], joiner: bytes, stopwords: Sequence[bytes]) -> Any:
    """A compiled `nd_rules *`; spec has the integer fields of nd_rules_spec."""
    native = ffi.new("nd_rules_spec *", spec)
    words = b"".join(stopwords)
    joiner_data, words_data = ffi.from_buffer("uint8_t[]", joiner), ffi.from_buffer("uint8_t[]", words)
    sizes = ffi.new("size_t[]", [len(word) for word in stopwords] or [0])
    native.joiner, native.joiner_size = joiner_data, len(joiner)
    native.stopwords, native.stopword_sizes, native.stopword_count = words_data, sizes, len(stopwords)
    out = ffi.new("nd_rules **")
    check(lib.nd_rules_new(native, out), "text rules")
    return _owned(out[0], lib.nd_rules_free)


def scheme_new(fields: dict[str, Any]) -> Any:
    """A checked `nd_scheme *`; ParameterError with the core's own sentence where the fields are no scheme."""
    scheme = ffi.new("nd_scheme *", fields)
    message = ffi.new("char[256]")
    if lib.nd_scheme_check(scheme, message, 256) != lib.ND_OK:
        raise ParameterError(ffi.string(message).decode("utf-8", "replace"))
    return scheme


def trim_memory() -> None:
    """Give freed memory back to the system. After large work in several threads much of it stays, and the next work cannot use
    all of it."""
    lib.nd_memory_trim()


# ---- decisions of the core -------------------------------------------------------------------------------------------


def words(setting: str) -> tuple[str, ...]:
    """The words that a setting of a file may be; a word's place is its number in C."""
    words = (lib.nd_setting_word(setting.encode(), number) for number in count())
    return tuple(text_of(word) for word in takewhile(lambda word: word != ffi.NULL, words))


class Bounds(NamedTuple):
    """The limits of a query's arguments: `nd_bounds`."""

    threshold: float
    lowest: float
    max_distance: int


def bounds(scheme: Any, *, containment: bool = False) -> Bounds:
    """The thresholds and the distance of a query for similar texts, or for texts that contain another."""
    out = ffi.new("nd_bounds *")
    lib.nd_scheme_bounds(scheme, containment, out)
    return Bounds(out.threshold, out.lowest, out.max_distance)


def query_of(scheme: Any, *, containment: bool = False) -> str | None:
    """Which sql/verify_*.sql answers such a query ('bands', ...); None where stored values do not tell it."""
    name = lib.nd_scheme_query(scheme, containment)
    return None if name == ffi.NULL else text_of(name)


# ---- hashes ----------------------------------------------------------------------------------------------------------


def digests_of_hash(name_number: int, seed: int, data: bytes) -> bytes:
    """The digest of data by a built-in hash, big-endian."""
    digest = ffi.new("uint8_t[]", lib.ND_DIGEST_MAX)
    check(lib.nd_hash_bytes(name_number, seed, ffi.from_buffer("uint8_t[]", data), len(data), digest), f"hash {name_number}")
    return bytes(ffi.buffer(digest, lib.nd_hash_size(name_number)))


HASHES = words("text.hash")
"""The built-in hashes; a name's place is its number in C (ND_HASH_*)."""


def hash_size(number: int) -> int:
    """Bytes of a built-in hash's digest."""
    return int(lib.nd_hash_size(number))


def signed_hash(value: bytes) -> int:
    """XXH3-64 of bytes as a signed number, as SQLite holds it."""
    number = int(lib.nd_xxh3_64(ffi.from_buffer("uint8_t[]", value), len(value), 0))
    return number - (1 << 64) if number >> 63 else number


def signed_hashes(values: Sequence[bytes]) -> Array:
    """`signed_hash` of each value, int64[n]."""
    ends = np.cumsum(np.fromiter(map(len, values), np.uint64, len(values)), dtype=np.uint64)
    return _hashes(b"".join(values), ends)


def _hashes(data: bytes, ends: Array) -> Array:
    hashes = np.empty(len(ends), np.uint64)
    at, ends_at = ffi.from_buffer("uint8_t[]", data), pointer(ends, "uint64_t[]")
    lib.nd_hash_values(at, ends_at, len(ends), pointer(hashes, "uint64_t[]"))
    return hashes.view(np.int64)


# ---- one text --------------------------------------------------------------------------------------------------------


def normalize(rules: Any, text: bytes) -> bytes:
    """Text normalised and folded, ignorables dropped, before tokenising."""
    out, size = ffi.new("const uint8_t **"), ffi.new("size_t *")
    check(lib.nd_text_normalize(workspace(), rules, ffi.from_buffer("uint8_t[]", text), len(text), out, size))
    return bytes(ffi.buffer(out[0], size[0])) if size[0] else b""


def tokenize(rules: Any, text: bytes) -> Any:
    """Runs the built-in tokenizer; the workspace that holds the tokens."""
    work = workspace()
    check(lib.nd_text_tokenize(work, rules, ffi.from_buffer("uint8_t[]", text), len(text)))
    return work


def set_tokens(rules: Any, tokens: Sequence[bytes]) -> Any:
    """Puts tokens of the caller's own into the workspace."""
    work = workspace()
    sizes = np.array([len(token) for token in tokens] or [0], dtype=np.uintp)
    data = b"".join(tokens)
    status = lib.nd_text_set_tokens(work, rules, ffi.from_buffer("uint8_t[]", data), pointer(sizes, "size_t[]"), len(tokens))
    check(status)
    return work


def tokens_of(work: Any) -> list[bytes]:
    """The tokens that the workspace holds."""
    out, size = ffi.new("const uint8_t **"), ffi.new("size_t *")
    tokens = []
    for index in range(lib.nd_text_token_count(work)):
        lib.nd_text_token(work, index, out, size)
        tokens.append(bytes(ffi.buffer(out[0], size[0])))
    return tokens


def shingles_of(work: Any, rules: Any) -> list[bytes]:
    """The shingles of the tokens that the workspace holds."""
    out, size = ffi.new("const uint8_t **"), ffi.new("size_t *")
    shingles = []
    for index in range(lib.nd_text_shingle_count(work, rules)):
        lib.nd_text_shingle(work, rules, index, out, size)
        shingles.append(bytes(ffi.buffer(out[0], size[0])) if size[0] else b"")
    return shingles


def hashes_of(work: Any, rules: Any, size: int) -> Array:
    """The shingles' hashes: uint64[n], uint32[n] where size is 4, uint8[n, size] where it is above 8."""
    check(lib.nd_text_hash(work, rules))
    count = lib.nd_text_shingle_count(work, rules)
    if size > 8:
        return copied(lib.nd_text_digests(work), count * size, np.uint8).reshape(count, size)
    hashes = copied(lib.nd_text_hashes(work), count, np.uint64)
    return hashes.astype(np.uint32) if size == 4 else hashes


# ---- values of many texts --------------------------------------------------------------------------------------------


class Values:
    """Stored values of texts one after another: `data`, where each ends, and the tokens of each text.

    data: bytes; ends: uint64[n]; tokens: uint64[n]. A text without shingles has a value of size 0.
    """

    __slots__ = ("data", "ends", "tokens")

    def __init__(self, data: bytes, ends: Array, tokens: Array) -> None:
        self.data, self.ends, self.tokens = data, ends, tokens

    @classmethod
    def joined(cls, values: Sequence[bytes | None]) -> Values:
        """What `split` takes apart; nothing is known of tokens."""
        present = [value or b"" for value in values]
        ends = np.cumsum(np.fromiter(map(len, present), np.uint64, len(present)), dtype=np.uint64)
        return cls(b"".join(present), ends, np.zeros(len(present), np.uint64))

    def split(self) -> list[bytes | None]:
        """The values, None for one of size 0."""
        data, start, out = self.data, 0, []
        for end in self.ends.tolist():
            out.append(data[start:end] if end > start else None)
            start = end
        return out

    def hashes(self) -> Array:
        """`signed_hash` of each value, int64[n]; of one of size 0 that of nothing."""
        return _hashes(self.data, self.ends)

    def sizes(self) -> Array:
        """Bytes of each value, int64[n]."""
        return np.diff(self.ends.astype(np.int64), prepend=0)


def _values_array(values: Any) -> Values:
    count = lib.nd_values_count(values)
    ends = copied(lib.nd_values_ends(values), count, np.uint64)
    size = int(ends[-1]) if count else 0
    data = bytes(ffi.buffer(lib.nd_values_bytes(values), size)) if size else b""
    return Values(data, ends, copied(lib.nd_values_tokens(values), count, np.uint64))


def _located(texts: list[Any] | LocatedTexts, start: int) -> tuple[Any, Any, Any]:
    """C arrays with the addresses and sizes of some texts from `start` on, and what keeps these alive beside the texts."""
    addresses: Any
    sizes: Any
    if isinstance(texts, LocatedTexts):
        addresses, sizes, owners = texts.located(start, limits.SLICE_BYTES)
    else:
        addresses, sizes, owners = locate(texts, start, limits.SLICE_BYTES, text_bytes)
    return ffi.from_buffer("const uint8_t *[]", addresses), ffi.from_buffer("size_t[]", sizes), owners


def _parts(texts: list[Any] | LocatedTexts) -> Iterator[list[Any] | LocatedTexts]:
    most = limits.SLICE_TEXTS
    if isinstance(texts, LocatedTexts):
        return texts.parts(most)
    # lists of our own keep the texts alive, whatever other threads do
    return (texts[first : first + most] for first in range(0, len(texts), most))


def _pieces(texts: list[Any] | LocatedTexts) -> Iterator[tuple[Any, Any, int]]:
    """Texts as C takes them, some after others: their addresses, their sizes, and how many they are."""
    for part in _parts(texts):
        start = 0
        while start < len(part):
            pointers, sizes, _owners = _located(part, start)
            yield pointers, sizes, len(sizes)
            start += len(sizes)


def values_of_texts(scheme: Any, rules: Any, texts: Iterable[str | bytes]) -> Values:
    """The stored values of texts under built-in rules. ASCII `str`, `bytes` and LocatedTexts are read where they stand."""
    texts = texts if isinstance(texts, (list, LocatedTexts)) else list(texts)
    mine = _mine()
    lib.nd_values_clear(mine.values)
    for piece in _pieces(texts):
        check(lib.nd_scheme_append_texts(scheme, rules, mine.text, *piece, mine.values), "fingerprints of texts")
    taken = _values_array(mine.values)
    mine.shrink_buffer(len(taken.data))
    return taken


def rows_of_texts(scheme: Any, rules: Any, texts: Iterable[str | bytes], width: int) -> tuple[Array, Array]:
    """The values of texts, of `width` bytes each, under built-in rules: uint8[n, width]; and which have none, bool[n]: their rows
    are zeros. To collect all values and copy them afterwards takes as long again as fingerprinting short texts."""
    texts = texts if isinstance(texts, (list, LocatedTexts)) else list(texts)
    rows, empty = np.empty((len(texts), width), np.uint8), np.empty(len(texts), np.bool_)
    mine, start = _mine(), 0
    for pointers, sizes, some in _pieces(texts):
        out = pointer(rows[start : start + some], "uint8_t[]"), pointer(empty[start : start + some], "uint8_t[]")
        status = lib.nd_scheme_text_rows(scheme, rules, mine.text, pointers, sizes, some, mine.values, width, *out)
        check(status, "fingerprints of texts")
        start += some
    return rows, empty


def rows_of(values: Values, width: int) -> tuple[Array, Array]:
    """The same of values that were made already."""
    empty = values.sizes() == 0
    rows = np.zeros((len(empty), width), np.uint8)
    rows[~empty] = np.frombuffer(values.data, np.uint8).reshape(-1, width)
    return rows, empty


def value_maker(scheme: Any, rules: Any) -> Callable[[str | bytes], tuple[bytes | None, int]]:
    """A function that gives (stored value, tokens) of one text under built-in rules: what a question needs, in one call of C
    without cffi, which would take as long as a short text."""
    return partial(_value_of_text, (_SKETCH_TEXT, _address(scheme), _address(rules)), (scheme, rules))


def _value_of_text(addresses: tuple[int, int, int], owners: Any, text: str | bytes) -> tuple[bytes | None, int]:
    mine = _thread or _mine()
    data = text if isinstance(text, bytes) or text.isascii() else text.encode("utf-8", "surrogatepass")
    held = owners, mine.text, mine.values, mine.sketch  # a thread that runs while Python ends loses what only `mine` holds
    found = _questions.value_of_text(*addresses, *mine.addresses, data, held)
    if isinstance(found, int):
        check(found, "fingerprint of a text")
        return None, 0
    value = found[0]
    if value is not None and len(value) > limits.KEPT_BYTES:
        mine.shrink_buffer(len(value))
    return found


_SKETCH_TEXT = _address(ffi.addressof(lib, "nd_scheme_sketch_text"))


def value_of_text(scheme: Any, rules: Any, text: str | bytes) -> tuple[bytes | None, int]:
    """(stored value, tokens) of one text under built-in rules."""
    return value_maker(scheme, rules)(text)


class Sketch(NamedTuple):
    """All that an index stores of one fingerprint; `value`, `value_hash` and `keys` are None for a text without shingles."""

    value: bytes | None
    token_count: int
    value_hash: int | None
    """`signed_hash` of the value."""
    keys: bytes | None
    """Of a plan of bands the file keys: int64[bands], little-endian, ascending, the last repeated where there are fewer. Behind
    the number of the group they are what `neardup_filing` takes. None for other plans."""


def _sketch_text(scheme: Any, rules: Any, text: str | bytes, mine: _Thread, keys: Any) -> Any:
    """The thread's sketch, made of a text in one call, without hash and keys where `keys` is NULL."""
    pointers, sizes, _owners = _located([text], 0)
    status = lib.nd_scheme_sketch_text(scheme, rules, mine.text, pointers[0], sizes[0], mine.values, keys, mine.sketch)
    check(status, "fingerprint of a text")
    return mine.sketch


def sketch_of_text(scheme: Any, rules: Any, text: str | bytes) -> Sketch:
    """One text under built-in rules: its value with the hash and the keys of it, in one call."""
    mine = _mine()
    made = _sketch_text(scheme, rules, text, mine, mine.keys)
    if not made.size:
        return Sketch(None, made.token_count, None, None)
    value = ffi.buffer(made.value, made.size)[:]
    sketch = Sketch(value, made.token_count, made.value_hash, _keys_of(made))
    mine.shrink_buffer(len(value))
    return sketch


def sketch_of_value(scheme: Any, value: bytes, token_count: int = 0) -> Sketch:
    """The same of a value that was made already: a code, or that of a text under rules of the caller's own."""
    mine = _mine()
    made = mine.sketch
    check(lib.nd_scheme_sketch_value(scheme, ffi.from_buffer("uint8_t[]", value), len(value), mine.keys, made), "a fingerprint")
    return Sketch(value, token_count, made.value_hash, _keys_of(made))


def _keys_of(sketch: Any) -> bytes | None:
    return ffi.buffer(sketch.keys, 8 * sketch.key_count)[:] if sketch.key_count else None


def values_of_digests(scheme: Any, texts: Iterable[tuple[Array, int]]) -> Values:
    """The stored values of texts that were hashed already: (digests uint8[n, size] big-endian, tokens) of each."""
    values = _owned(lib.nd_values_new(), lib.nd_values_free)
    for digests, token_count in texts:
        count, size = digests.shape
        flat = np.ascontiguousarray(digests, dtype=np.uint8).reshape(-1)
        data = pointer(flat, "uint8_t[]")
        check(lib.nd_scheme_append_digests(scheme, data, size, count, token_count, values), f"digests of {size} bytes")
    return _values_array(values)


def similarity(scheme: Any, a: bytes, b: bytes) -> tuple[float, int]:
    """(similarity, distance) of two stored values; distance -1 where the scheme has none."""
    result, distance = ffi.new("double *"), ffi.new("int64_t *")
    data_a, data_b = ffi.from_buffer("uint8_t[]", a), ffi.from_buffer("uint8_t[]", b)
    check(lib.nd_scheme_similarity(scheme, data_a, len(a), data_b, len(b), result, distance), "comparing fingerprints")
    return float(result[0]), int(distance[0])


def matches_any(scheme: Any, value: bytes, others: Values) -> bool:
    """True if a stored value is similar to one of others by the scheme's rule."""
    like = ffi.new("int *")
    data, ends = ffi.from_buffer("uint8_t[]", others.data), pointer(others.ends, "uint64_t[]")
    given = ffi.from_buffer("uint8_t[]", value)
    check(lib.nd_scheme_is_like(scheme, given, len(value), data, ends, len(others.ends), like), "comparing with allowed texts")
    return bool(like[0])


def is_value(scheme: Any, value: bytes) -> bool:
    """True if bytes can be a stored value of the scheme."""
    return bool(lib.nd_scheme_value_check(scheme, ffi.from_buffer("uint8_t[]", value), len(value)) == lib.ND_OK)


def are_values(scheme: Any, values: Values) -> bool:
    """True if all of these can be stored values of the scheme."""
    check, good, at = lib.nd_scheme_value_check, lib.ND_OK, ffi.from_buffer("uint8_t[]", values.data)
    ends = values.ends.tolist()
    return all(check(scheme, at + start, end - start) == good for start, end in zip([0, *ends], ends, strict=False))


def is_row(entries: bytes, code_bytes: int) -> bool:
    """True if bytes are entries of codes of so many bytes, as they were written."""
    data = ffi.from_buffer("uint8_t[]", entries)
    return bool(lib.nd_entries_read(data, len(entries), code_bytes, ffi.new("nd_entries *")) == lib.ND_OK)


def remove_entries(entries: bytes, code_bytes: int, fingerprint_id: int) -> bytes:
    """A row of buckets less the entries of a fingerprint; empty where it holds no other."""
    found = ffi.new("nd_entries *")
    data = ffi.from_buffer("uint8_t[]", entries)
    check(lib.nd_entries_read(data, len(entries), code_bytes, found), "entries of a row of buckets")
    numbers = [lib.nd_entries_id(found, place) for place in range(found.count)]
    kept = [place for place, number in enumerate(numbers) if number != fingerprint_id]
    if not kept:
        return b""
    ids = ffi.new("int64_t[]", [numbers[place] for place in kept])
    codes = b"".join(bytes(ffi.buffer(found.codes + place * code_bytes, code_bytes)) for place in kept)
    out = ffi.new("uint8_t[]", lib.nd_entries_size(ids, len(kept), code_bytes))
    lib.nd_entries_write(ids, codes, len(kept), code_bytes, out)
    return bytes(ffi.buffer(out))


def band_keys(scheme: Any, values: Values) -> Array:
    """The file keys of values of a plan of bands: int64[n, bands], ascending; a value that has fewer repeats the last."""
    out = np.empty((len(values.ends), scheme.bands), np.int64)
    keys = _owned(lib.nd_keys_new(), lib.nd_keys_free)
    data, ends = ffi.from_buffer("uint8_t[]", values.data), pointer(values.ends, "uint64_t[]")
    check(lib.nd_scheme_band_keys(scheme, data, ends, len(out), keys, pointer(out, "int64_t[]")), "keys of fingerprints")
    return out


def text_buckets(scheme: Any, rules: Any, texts: list[Any] | LocatedTexts) -> tuple[Array, Array]:
    """The buckets of texts in a plan of bands, int32[n, bands] as `band_keys` has them, and their tokens, uint64[n].

    Nearly all of it is one call into C: a thread that needs the interpreter's lock again and again waits each time."""
    mine, start = _mine(), 0
    buckets, tokens = np.empty((len(texts), scheme.bands), np.int32), np.empty(len(texts), np.uint64)
    while start < len(texts):
        pointers, sizes, _owners = _located(texts, start)
        end = start + len(sizes)
        out = pointer(buckets[start:end], "int32_t[]"), pointer(tokens[start:end], "uint64_t[]")
        counts = pointers, sizes, len(sizes), mine.values, mine.keys
        check(lib.nd_scheme_text_buckets(scheme, rules, mine.text, *counts, *out), "buckets of texts")
        start = end
    return buckets, tokens


def band_buckets(signatures: Array, bands: int, rows: int) -> Array:
    """The bucket of each band of signatures (uint16 or uint32 [n, num_perm], little-endian): int32[n, bands]."""
    count, num_perm = signatures.shape
    out = np.empty((count, bands), np.int32)
    size = signatures.dtype.itemsize
    for signature, buckets in zip(signatures, out, strict=True):
        data, target = pointer(signature, "uint8_t[]"), pointer(buckets, "int32_t[]")
        check(lib.nd_band_buckets(data, num_perm, size, bands, rows, target), f"bands={bands}, rows={rows}")
    return out


def connections(scheme: Any, values: Values, first: int, buckets: Array, items: Array, known: Array) -> tuple[Array, Array]:
    """Matching pairs that connect what matches among values of a plan of bands that meet in buckets: int64[m, 2], float64[m].

    buckets, items: int64[n], row i says that a value stands in a bucket; buckets ascend. Values before `first` are not compared
    with each other. known: int64 of each value, one that it is connected with already, perhaps itself."""
    handle = _owned(lib.nd_pairs_new(), lib.nd_pairs_free)
    data, ends = ffi.from_buffer("uint8_t[]", values.data), pointer(values.ends, "uint64_t[]")
    rows = pointer(buckets, "int64_t[]"), pointer(items, "int64_t[]"), len(buckets)
    connected = pointer(known, "int64_t[]")
    check(lib.nd_scheme_connect(scheme, data, ends, len(values.ends), first, *rows, connected, handle), "values that meet")
    found = lib.nd_pairs_count(handle)
    ids = copied(lib.nd_pairs_ids(handle), 2 * found, np.int64).reshape(found, 2)
    return ids, copied(lib.nd_pairs_similarities(handle), found, np.float64)


class Deduplicator:
    """Decides of records, in the order of preference, which stay: one is a duplicate if it matches an earlier one that stays.

    What matches are pairs of the scheme's candidate table, verified. Records that stay are kept in memory, duplicates are not."""

    def __init__(self, scheme: Any) -> None:
        out = ffi.new("nd_deduplicator **")
        check(lib.nd_deduplicator_new(scheme, out), "a scheme whose evidence is a text")
        self._handle = _owned(out[0], lib.nd_deduplicator_free)

    def add(self, values: Values, groups: Array | None = None) -> tuple[Array, Array]:
        """The next records: of each the number of the record that stays and is most similar to it, the earliest of several,
        int64[n], and the similarity to that one, float64[n]. -1 and 1.0 where the record itself stays. Records are numbered from
        0 on, in the order in which they were added by all calls. groups: int64[n]; records match within their group."""
        count, ends = len(values.ends), values.ends
        kept, similarities = np.empty(count, np.int64), np.empty(count, np.float64)
        starts = np.concatenate([np.zeros(1, np.uint64), ends])
        data = ffi.from_buffer("uint8_t[]", values.data)
        for first in range(0, count, limits.DEDUPLICATED_STEP):  # an interrupt is seen between two of them
            part = slice(first, first + limits.DEDUPLICATED_STEP)
            start = int(starts[first])
            own_ends = ends[part] - np.uint64(start)
            own_groups = ffi.NULL if groups is None else pointer(groups[part], "int64_t[]")
            out = pointer(kept[part], "int64_t[]"), pointer(similarities[part], "double[]")
            placed = data + start, pointer(own_ends, "uint64_t[]"), len(own_ends)
            check(lib.nd_deduplicator_add(self._handle, *placed, own_groups, *out), "fingerprints of records")
        return kept, similarities


# ---- without an index --------------------------------------------------------------------------------------------------


def hamming(a: bytes, b: bytes) -> int:
    """Bits in which two byte strings of one length differ."""
    return int(lib.nd_hamming(a, b, len(a)))


def minhash(hashes: Array, num_perm: int, seed: int, family: str, slot_bits: int) -> Array:
    """Signature of at least one hash (uint64[n]): uint16[num_perm], or uint32[num_perm] where slot_bits is 32."""
    number = words("family").index(family)
    a, b, slots = (np.zeros(num_perm, np.uint32) for _ in range(3))
    a_data, b_data, out = pointer(a, "uint32_t[]"), pointer(b, "uint32_t[]"), pointer(slots, "uint32_t[]")
    check(lib.nd_minhash_coefficients(number, seed, num_perm, a_data, b_data), f"family {family}, num_perm={num_perm}")
    check(lib.nd_minhash(number, a_data, b_data, num_perm, pointer(hashes, "uint64_t[]"), len(hashes), out), "minhash")
    return slots if slot_bits == 32 else (slots & np.uint32(0xFFFF)).astype(np.uint16)


NO_SPLIT = 2**64 - 1
"""The split of a join within one collection."""


def pairs(run: Any) -> Array:
    """The pairs that run(nd_pairs *) lists: int64[m, 2]."""
    handle = _owned(lib.nd_pairs_new(), lib.nd_pairs_free)
    check(run(handle), "all pairs")
    return copied(lib.nd_pairs_ids(handle), 2 * lib.nd_pairs_count(handle), np.int64).reshape(-1, 2)


def set_numbers(value: bytes) -> Array:
    """The numbers in a packed set, ascending: uint64[n]."""
    numbers = np.empty(lib.nd_set_count(len(value)), np.uint64)
    check(lib.nd_set_read(value, len(value), pointer(numbers, "uint64_t[]")), "a packed set")
    return numbers


def set_pairs(values: Array, ends: Array, split: int | None, threshold: float, most: int) -> Iterator[tuple[Array, Array]]:
    """The pairs of similar arrays, with a split only those across it, in pieces of about `most` pairs."""
    count = len(ends)
    values = values if len(values) else np.zeros(1, np.uint64)
    ends = ends if count else np.zeros(1, np.uint64)
    data = pointer(values, "uint64_t[]"), pointer(ends, "uint64_t[]"), count
    join = _owned(lib.nd_set_join_new(), lib.nd_set_join_free)
    handle = _owned(lib.nd_pairs_new(), lib.nd_pairs_free)
    check(lib.nd_set_join_begin(join, *data, NO_SPLIT if split is None else split, threshold), "all pairs")
    while (status := lib.nd_set_join_next(join, most, handle)) != lib.ND_DONE:
        check(status, "all pairs")
        found = lib.nd_pairs_count(handle)
        ids = copied(lib.nd_pairs_ids(handle), 2 * found, np.int64).reshape(found, 2)
        yield ids, copied(lib.nd_pairs_similarities(handle), found, np.float64)
