"""Other libraries at the same job: texts in a list, pairs of near-duplicates (Jaccard of 3-word shingles >= 0.8) out.

Each library has its fastest way in for this job, one thread, and bands that find at least 99 % of the pairs at 0.8. Pairs from
the bands are verified with the signatures, since a shared band alone says little. allpairs.py measures them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

THRESHOLD = 0.8
BANDS, ROWS = 21, 6  # of the libraries that need bands x rows signatures: P(found | 0.8) = 0.998
PERMUTATIONS = BANDS * ROWS
CHUNK = 1000  # texts handed over at once where a library takes many

Pairs = list[tuple[int, int]]
_WORD = re.compile(r"[^\W_]+")


def shingle_set(text: str) -> set[str]:
    """3-word shingles by the quickest plain Python, for libraries without a tokenizer."""
    words = _WORD.findall(text.casefold())
    return set(map(" ".join, zip(words, words[1:], words[2:], strict=False))) if len(words) > 2 else {" ".join(words)}


def chunks(texts: Sequence[str]) -> Iterator[tuple[int, Sequence[str]]]:
    """(number of the first, texts) of parts of a list."""
    for start in range(0, len(texts), CHUNK):
        yield start, texts[start : start + CHUNK]


# ---- the libraries -----------------------------------------------------------------------------------------------------


def datasketch_pairs(texts: Sequence[str]) -> Pairs:
    """datasketch: permutations made once, a fast hash in place of SHA-1, query before insert, slots compared."""
    import numpy as np
    import xxhash
    from datasketch import MinHash, MinHashLSH

    lsh = MinHashLSH(num_perm=PERMUTATIONS, params=(BANDS, ROWS))
    slots: list[Any] = []
    pairs: Pairs = []
    shingles = ([shingle.encode() for shingle in shingle_set(text)] for text in texts)
    made = MinHash.generator(shingles, num_perm=PERMUTATIONS, hashfunc=xxhash.xxh32_intdigest)
    for number, sketch in enumerate(made):
        for other in lsh.query(sketch):
            if np.count_nonzero(slots[other] == sketch.hashvalues) >= THRESHOLD * PERMUTATIONS:
                pairs.append((other, number))
        lsh.insert(number, sketch, check_duplication=False)
        slots.append(sketch.hashvalues)
    return pairs


def rensa_pairs(texts: Sequence[str]) -> Pairs:
    """rensa: sketches of many texts at once, query before insert, sketches compared."""
    from rensa import RMinHash, RMinHashLSH

    lsh = RMinHashLSH(THRESHOLD, PERMUTATIONS, BANDS)
    kept: list[Any] = []
    pairs: Pairs = []
    for start, part in chunks(texts):
        sketches = RMinHash.from_token_sets([shingle_set(text) for text in part], PERMUTATIONS, 42)
        for number, sketch in enumerate(sketches, start):
            pairs += [(other, number) for other in lsh.query(sketch) if kept[other].jaccard(sketch) >= THRESHOLD]
            lsh.insert(number, sketch)
            kept.append(sketch)
    return pairs


def gaoya_pairs(texts: Sequence[str]) -> Pairs:
    """gaoya: its own tokenizer and verification, everything inserted at once, then a query for every text."""
    from gaoya.minhash import MinHashStringIndex

    index = MinHashStringIndex(32, THRESHOLD, BANDS, ROWS, None, "word", True, (3, 3), "smallvec")
    pairs: Pairs = []
    for start, part in chunks(texts):
        index.par_bulk_insert_docs(list(range(start, start + len(part))), list(part))
    for start, part in chunks(texts):
        for number, found in enumerate(index.par_bulk_query(list(part)), start):
            pairs += [(other, number) for other in found if other < number]
    return pairs


def fastsketch_pairs(texts: Sequence[str]) -> Pairs:
    """FastSketchLSH: sketches of many texts at once (of 128 slots: it wants a power of two), the bands taken from the first 126
    as of the others, everything inserted, then everything asked for, all slots compared."""
    import numpy as np
    from FastSketchLSH import LSH, FastSimilaritySketch

    sketcher = FastSimilaritySketch(size=128, seed=42)
    made = [sketcher.batch([list(shingle_set(text)) for text in part], num_threads=1) for _, part in chunks(texts)]
    slots = np.concatenate([np.asarray(part, np.uint64) for part in made])
    lsh = LSH(num_perm=PERMUTATIONS, num_bands=BANDS, num_threads=1)
    filed = np.ascontiguousarray(slots[:, :PERMUTATIONS])
    lsh.insert(filed)
    pairs: Pairs = []
    for start, part in chunks(texts):
        flat, ends = lsh.query(filed[start : start + len(part)], format="csr")
        later = np.repeat(np.arange(start, start + len(part)), np.diff(ends.astype(np.int64)))
        earlier = flat.astype(np.int64)
        near = earlier < later
        earlier, later = earlier[near], later[near]
        near = np.count_nonzero(slots[earlier] == slots[later], axis=1) >= THRESHOLD * 128
        pairs += zip(earlier[near].tolist(), later[near].tolist(), strict=True)
    return pairs


JOBS: dict[str, Callable[[Sequence[str]], Pairs]] = {
    "gaoya": gaoya_pairs,
    "rensa": rensa_pairs,
    "FastSketchLSH": fastsketch_pairs,
    "datasketch": datasketch_pairs,
}
