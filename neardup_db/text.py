"""Text rules, which turn a text into shingles and shingles into hashes. Built-in rules run in C, callables in Python."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

from . import native
from .arrays import np, npt
from .errors import MismatchError, ParameterError
from .immutable import Immutable, callable_name, checked, restore
from .parameters import check_callable, check_choice, check_many, quoted
from .settings import Parameter, choice, flag, integer, invalid, seed, stored

_WORDS = {name: native.words(f"text.{name}") for name in ("normalize", "case", "tokens", "nonword", "short", "hash")}
"""The words of each setting, in the order of their numbers in C."""

_CALLABLE = "callable:"
_SURROGATE = re.compile("[\ud800-\udfff]")

Normalize = Literal["NFC", "NFKC"]
Case = Literal["lower", "fold"]
Tokens = Literal["words", "chars"]
Nonword = Literal["space", "keep", "drop"]
Short = Literal["whole", "drop"]
HashName = Literal["xxh3_64", "fnv1a_32", "fnv1a_64", "djb2a", "md5", "sha1", "sha256"]
Tokenizer = Callable[[str], Iterable[str]]
TokenFilter = Callable[[str], bool]
ShingleHash = Callable[[bytes], bytes]


def _word_or_none(name: str) -> Parameter[Any]:
    """A word, or None, which a file has as "none"."""
    words = _WORDS[name]
    options = (None, *words[1:])
    return Parameter(
        choice(*options).from_file,
        from_file=lambda name, value: options[words.index(check_choice(name, value, words))],
        to_file=lambda name, value: value or "none",
    )


def _name_or_callable(name: str) -> Parameter[Any]:
    def check(name: str, value: Any) -> Any:
        return value if callable(value) else check_choice(name, value, words, "a callable")

    words = _WORDS[name]
    return Parameter(check, from_file=lambda name, value: _check_stored_name(name, value, words), to_file=_stored_name)


def _check_stored_name(name: str, value: Any, words: Sequence[str] = ()) -> Any:
    if value is None and not words or isinstance(value, str) and value.startswith(_CALLABLE):
        return value
    return check_choice(name, value, words, "the name of a callable")


def _stored_name(name: str, value: Any) -> str | None:
    if not callable(value):
        return value
    if (path := callable_name(value)) is None:
        raise ParameterError(
            f"{name}={value!r} has no name by which a file could remember it; use a function defined at the top level of a module"
        )
    return _CALLABLE + path


def _callable_of(given: TextRules | None, name: str, wanted: str) -> Any:
    """The callable of `given` that has the stored name."""
    offered = None if given is None else getattr(given, name)
    if callable(offered) and callable_name(offered) == wanted:
        return offered
    has = "none was given" if given is None or offered is None or name not in given.given else f"{offered!r} was given"
    raise MismatchError(
        f"the index was made with {name}={wanted}, but {has}; open it with text=TextRules({name}=...) "
        f"where ... is the function {wanted}"
    )


def _text_or_none(name: str, value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise ParameterError(f"{name}={quoted(value)}: give a str, or None")
    if value is not None and _SURROGATE.search(value):
        raise ParameterError(f"{name}={quoted(value)} has a lone surrogate, which a file cannot hold: leave it out")
    return value


def _words(name: str, words: Any) -> tuple[str, ...]:
    listed = list(check_many(name, words, "give a list of words (str)"))
    for word in listed:
        if not isinstance(word, str):
            raise ParameterError(f"{name} has {quoted(word)}: give a list of words (str)")
        _text_or_none(name, word)
    return tuple(sorted(set(listed)))


def _stored_words(name: str, value: Any) -> tuple[str, ...]:
    try:
        return _words(name, json.loads(value))
    except (TypeError, ValueError) as error:
        raise ParameterError(f"{name}={quoted(value)}: give a JSON array of words") from error


class TextRules(Immutable):
    """The rules that cut texts into shingles and hash them. Immutable; equal rules give equal fingerprints on every machine.

    A text is normalised, case-folded, normalised again, stripped of default-ignorable code points (soft hyphens, zero-width
    spaces) and cut into tokens. Each run of `shingle` consecutive tokens is a shingle, and each shingle is hashed.

    normalize: "NFC", "NFKC" or None. case: "fold" (full case folding), "lower" or None. tokens: "words" (words, one token for
    each grapheme of scripts written without spaces, one for each emoji), "chars" (graphemes), or a callable from the normalised
    text to its tokens (str). shingle: tokens in a shingle, 1 to 1000. joiner: the separator of tokens in a shingle, None for a
    space (nothing for "chars"). nonword: how "chars" treats a run of non-word characters: as one "space" with the ends trimmed,
    "keep" or "drop". short: a text with fewer tokens is one shingle ("whole") or none ("drop"). stopwords: tokens to drop, which
    are normalised and folded too. filter: a callable; tokens for which it is false are dropped. strip_accents: drop accents.
    hash: "xxh3_64", "fnv1a_32", "fnv1a_64", "djb2a", "md5", "sha1", "sha256", or a callable from bytes to a fixed number of
    bytes, at least four. hash_seed: 0 to 2^63 - 1, for "xxh3_64" only; "random" draws one. min_tokens: 0 to 1,000,000; a text
    with fewer tokens, after stopwords and filter, has no shingles and matches nothing.

    In texts below about 50 words one changed word changes too many shingles of three words: use `TextRules.chars(shingle=3)` for
    short texts. Raises ParameterError for an invalid value.

    >>> TextRules(shingle=5)
    TextRules(shingle=5)
    >>> TextRules(shingle=5) == TextRules.words(shingle=5)
    True
    """

    normalize: Parameter[Normalize | None] = _word_or_none("normalize")
    case: Parameter[Case | None] = _word_or_none("case")
    tokens: Parameter[Tokens | Tokenizer] = _name_or_callable("tokens")
    shingle = integer(1, 1000, "consecutive tokens in a shingle")
    joiner = Parameter(_text_or_none)
    nonword: Parameter[Nonword] = choice(*_WORDS["nonword"])
    short: Parameter[Short] = choice(*_WORDS["short"])
    stopwords = Parameter(_words, from_file=_stored_words, to_file=lambda name, value: json.dumps(list(value)))
    filter: Parameter[TokenFilter | None] = Parameter(check_callable, from_file=_check_stored_name, to_file=_stored_name)
    strip_accents = flag()
    hash: Parameter[HashName | ShingleHash] = _name_or_callable("hash")
    hash_seed = seed()
    min_tokens = integer(0, 1_000_000, "tokens of the shortest text that can match")

    @checked
    def __init__(
        self,
        normalize: Normalize | None = "NFKC",
        case: Case | None = "fold",
        tokens: Tokens | Tokenizer = "words",
        shingle: int = 3,
        joiner: str | None = None,
        nonword: Nonword = "space",
        short: Short = "whole",
        stopwords: Iterable[str] = (),
        filter: TokenFilter | None = None,
        strip_accents: bool = False,
        hash: HashName | ShingleHash = "xxh3_64",
        hash_seed: int | Literal["random"] = 0,
        min_tokens: int = 0,
    ) -> None:
        if self.hash_seed and self.hash != "xxh3_64":
            raise ParameterError(f"hash_seed={self.hash_seed} goes with hash='xxh3_64' only, not {hash!r}: leave it out")

    # ---- presets -----------------------------------------------------------------------------------------------------

    @classmethod
    def words(cls, **changes: Any) -> TextRules:
        """Rules for prose of 50 words or more: shingles of three words. `changes` are parameters of `TextRules`.

        >>> TextRules.words(stopwords=["the"]).shingle
        3
        """
        return cls(**{"tokens": "words", "shingle": 3, **changes})

    @classmethod
    def chars(cls, **changes: Any) -> TextRules:
        """Rules for short texts, names, typing errors and mixed languages: shingles of five graphemes.

        "Mining of Massive Datasets" (section 3.2.2) advises five for e-mails. Below about 50 words use `shingle=3` and a
        threshold of 0.6. `changes` are parameters of `TextRules`.

        >>> TextRules.chars().shingle
        5
        """
        return cls(**{"tokens": "chars", "shingle": 5, **changes})

    # ---- for the layers above ----------------------------------------------------------------------------------------

    @cached_property
    def native(self) -> Any:
        """The compiled `nd_rules *` of the built-in rules."""
        values = self._state()
        numbers = {name: 0 if callable(values[name]) else _WORDS[name].index(values[name] or "none") for name in _WORDS}
        spec = {
            **{name: numbers[name] for name in ("normalize", "tokens", "nonword", "hash")},
            **{name: int(values[name]) for name in ("shingle", "strip_accents", "hash_seed", "min_tokens")},
            "fold": numbers["case"],
            "short_text": numbers["short"],
        }
        joiner = self.joiner if self.joiner is not None else "" if self.tokens == "chars" else " "
        return native.rules_new(spec, native.text_bytes(joiner), [native.text_bytes(word) for word in self.stopwords])

    @property
    def custom(self) -> bool:
        """True if tokens, filter or hash is a callable. Texts then go through Python, and SQL cannot hash them."""
        return callable(self.tokens) or self.filter is not None or callable(self.hash)

    @cached_property
    def hash_size(self) -> int:
        if callable(self.hash):
            return len(_digest(self.hash, b"shingle"))
        return int(native.lib.nd_hash_size(native.HASHES.index(self.hash)))

    def run(self, text: str | bytes) -> Any:
        """Cut a text into tokens and return the thread's workspace that holds them."""
        data = native.text_bytes(text)
        if not callable(self.tokens) and self.filter is None:
            return native.tokenize(self.native, data)
        if callable(self.tokens):
            tokens = self._own_tokens(self.tokens, data)
        else:
            tokens = native.tokens_of(native.tokenize(self.native, data))
        if self.filter is not None:
            keep = self.filter
            tokens = [token for token in tokens if keep(token.decode("utf-8"))]
        return native.set_tokens(self.native, tokens)

    def shingles(self, text: str | bytes) -> list[str]:
        return [shingle.decode("utf-8", "replace") for shingle in native.shingles_of(self.run(text), self.native)]

    def digests(self, text: str | bytes) -> tuple[npt.NDArray[np.uint8], int]:
        """(digests, token count) of a text; digests are uint8[shingles, hash_size], big-endian."""
        work = self.run(text)
        token_count = int(native.lib.nd_text_token_count(work))
        if callable(self.hash):
            shingles = native.shingles_of(work, self.native)  # before the callable, which may use the workspace, is called
            size, function = self.hash_size, self.hash
            digests = [_digest(function, shingle, size) for shingle in shingles]
            return np.frombuffer(b"".join(digests), np.uint8).reshape(len(digests), size), token_count
        hashes = native.hashes_of(work, self.native, self.hash_size)
        if hashes.ndim == 2:
            return hashes, token_count
        return hashes.astype(hashes.dtype.newbyteorder(">")).view(np.uint8).reshape(len(hashes), self.hash_size), token_count

    # ---- the file ----------------------------------------------------------------------------------------------------

    def settings(self) -> dict[str, Any]:
        """These rules as rows of the setting table. Raises ParameterError for a callable without an importable name."""
        return {"text." + name: one.to_file(name, getattr(self, name)) for name, one in self._parameters.items()}

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any], given: TextRules | None = None) -> TextRules:
        """The rules of a file; callables that it names are taken from `given`, else MismatchError."""
        state = {name: stored(settings, "text." + name, one.from_file) for name, one in cls._parameters.items()}
        for name in ("tokens", "filter", "hash"):
            if isinstance(state[name], str) and state[name].startswith(_CALLABLE):
                state[name] = _callable_of(given, name, state[name][len(_CALLABLE) :])
        if state["hash_seed"] and state["hash"] != "xxh3_64":
            raise invalid(settings, "text.hash_seed")
        return restore(cls, state)

    # ---- private -----------------------------------------------------------------------------------------------------

    def _own_tokens(self, tokenizer: Tokenizer, data: bytes) -> list[bytes]:
        """Tokens of the caller's tokenizer without stop words (built-in tokenizers drop them in C)."""
        text = native.normalize(self.native, data).decode("utf-8")
        tokens = []
        for token in tokenizer(text):
            if not isinstance(token, str):
                raise ParameterError(f"the tokenizer {tokenizer!r} gave {token!r}: let it give an iterable of str")
            tokens.append(_SURROGATE.sub("\ufffd", token).encode("utf-8"))
        dropped = self._normalized_stopwords
        return [token for token in tokens if token not in dropped] if dropped else tokens

    @cached_property
    def _normalized_stopwords(self) -> frozenset[bytes]:
        return frozenset(native.normalize(self.native, native.text_bytes(word)) for word in self.stopwords)


def _digest(function: Any, data: bytes, size: int | None = None) -> bytes:
    digest = function(data)
    if not isinstance(digest, bytes) or len(digest) < 4:
        raise ParameterError(f"the hash {function!r} gave {digest!r}: let it give at least 4 bytes (type bytes)")
    if size is not None and len(digest) != size:
        raise ParameterError(f"the hash {function!r} gave {len(digest)} bytes after {size}: let it always give as many")
    return digest
