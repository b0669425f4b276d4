"""What a listing holds is passed by when Python looks through all objects for garbage, which stops every thread."""

from __future__ import annotations

import gc
import random

from neardup_db import BinaryCode, Index


def containers() -> int:
    """How many objects a full collection looks through."""
    gc.collect()
    return len(gc.get_objects())


def test_a_listing_of_pairs_holds_few_objects_that_are_looked_through() -> None:
    """In the middle of pairs() over thousands of documents there are not many more containers than before."""
    choice = random.Random(1)
    codes = [choice.getrandbits(64) for _ in range(5000)]
    codes[-20:] = codes[:20]
    with Index(":memory:", BinaryCode(bits=64, max_distance=3)) as index:
        index.add_codes(range(len(codes)), codes)
        expected = list(index.pairs())
        pairs = index.pairs()
        before = containers()
        next(pairs)
        assert containers() - before < 500
        assert sorted((pair.key_a, pair.key_b) for pair in expected) == [(n, 4980 + n) for n in range(20)]
