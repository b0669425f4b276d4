"""Which of many records stay, in memory, against the pairs of an index."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import duplicates_in

from neardup_db import BinaryCode, BitSampling, BottomK, CorruptIndexError, Index, MinHash, Passages, SimHash, TextRules
from neardup_db.comparing import Deduplicator
from neardup_db.native import Values
from neardup_db.schemes.base import values_of

WORDS = TextRules(shingle=1)
SCHEMES = {
    "signatures": MinHash(num_perm=16, threshold=0.5, bands=4, rows=2),
    "packed": MinHash(num_perm=16, threshold=0.5, bands=4, rows=2, exact=True),
    "simhash": SimHash(bits=64, max_distance=14),
    "bottom-k": BottomK(k=8, threshold=0.5),
    "estimate": BottomK(k=4, threshold=0.5, measure="estimate"),
    "bits": BitSampling(bits=64, threshold=0.6),
    "passages": Passages(shortest=3),
}

texts = st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=6).map(" ".join), min_size=1, max_size=40)


def first_independent(count: int, pairs: dict[tuple[int, int], float]) -> tuple[list[int], list[float]]:
    """Of each number the one that stays and is most similar to it, -1 where it stays itself; and how similar they are."""
    gone = duplicates_in(range(count), lambda a, b: pairs.get((a, b)))
    both = [gone.get(number, (-1, 1.0)) for number in range(count)]
    return [kept for kept, _ in both], [similarity for _, similarity in both]


def pairs_of(scheme: Any, texts: list[str], groups: list[int] | None = None) -> dict[tuple[int, int], float]:
    with Index(":memory:", scheme, text=WORDS, record_matches=False) as index:
        index.add_many(
            {"key": i, "text": text, "group": None if groups is None else str(groups[i])} for i, text in enumerate(texts)
        )
        return {(pair.key_a, pair.key_b): pair.similarity for pair in index.pairs()}


def decided(scheme: Any, values: Values, step: int, groups: list[int] | None = None) -> tuple[list[int], list[float]]:
    deduplicator, split = Deduplicator(scheme.native), values.split()
    out: tuple[list[int], list[float]] = ([], [])
    for first in range(0, len(split), step):
        part = slice(first, first + step)
        some = None if groups is None else np.array(groups[part], np.int64)
        for all_, found in zip(out, deduplicator.add(Values.joined(split[part]), some), strict=True):
            all_ += found.tolist()
    return out


@pytest.mark.parametrize("name", SCHEMES)
def test_what_stays_is_the_first_independent_set(name: str, more_rounds: bool) -> None:
    """A record stays unless it is a pair of an index with an earlier one of its group that stays; the most similar is named."""
    run = given(scheme=st.just(SCHEMES[name]), texts=texts, step=st.integers(1, 50), data=st.data())(assert_first_independent)
    settings(max_examples=32 if more_rounds else 8)(run)()


def assert_first_independent(scheme: Any, texts: list[str], step: int, data: st.DataObject) -> None:
    count = len(texts)
    groups = data.draw(st.none() | st.lists(st.integers(1, 3), min_size=count, max_size=count))
    expected = first_independent(count, pairs_of(scheme, texts, groups))
    assert decided(scheme, values_of(scheme.native, texts, WORDS), step, groups) == expected


def test_many_records_that_stay_in_one_bucket() -> None:
    """Hundreds of records that share buckets and do not match are decided as a few are."""
    random = np.random.default_rng(7)
    template = [f"w{i}" for i in range(12)]
    drawn = [[*random.choice(template, 8, replace=False), *(f"x{random.integers(60)}" for _ in range(5))] for _ in range(700)]
    texts = [" ".join(words) for words in drawn]
    scheme = MinHash(num_perm=32, threshold=0.6, bands=16, rows=2, exact=True)
    expected = first_independent(len(texts), pairs_of(scheme, texts))
    assert 300 < expected[0].count(-1) < 690
    assert decided(scheme, values_of(scheme.native, texts, WORDS), 700) == expected


def test_codes_of_the_application() -> None:
    """Codes go by their distance, in a few large tables as in the scan of all."""
    random = np.random.default_rng(3)
    base = random.integers(0, 256, (15, 8), np.uint8)
    codes = base[random.integers(0, 15, 1000)] ^ (1 << random.integers(0, 8, (1000, 8))) * (random.random((1000, 8)) < 0.3)
    scheme = BinaryCode(bits=64, max_distance=4)
    values = [code.astype(np.uint8).tobytes() for code in codes]
    with Index(":memory:", scheme, record_matches=False) as index:
        index.add_codes(list(range(1000)), codes.astype(np.uint8))
        pairs = {(pair.key_a, pair.key_b): pair.similarity for pair in index.pairs()}
    assert decided(scheme, Values.joined(values), 170) == first_independent(1000, pairs)


def test_what_is_no_value_is_refused() -> None:
    """Bytes that are none of the scheme's values are an error."""
    with pytest.raises(CorruptIndexError):
        Deduplicator(SCHEMES["signatures"].native).add(Values.joined([b"12345"]))
