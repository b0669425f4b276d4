"""Near-duplicate search without an index: shingles, fingerprints, comparisons, candidates and all pairs.

Hash arrays are uint64[n], uint32[n] for 32-bit hashes, or uint8[n, size] for longer digests, big-endian. Lists of int, or bytes
for digests, are accepted too. Wrong types and values raise ParameterError.
"""

from __future__ import annotations

from .candidates import (
    BlockTable,
    band_buckets,
    block_tables,
    candidate_probability,
    choose_bands,
    neighbours,
    permute,
    pick_bands,
    split_chunks,
)
from .comparisons import containment, find_all, hamming_distance, jaccard, jaccard_pairs
from .fingerprints import bit_sample, bottom_k, hash_bytes, minhash, shingle_hashes, shingles, simhash

__all__ = [
    "BlockTable", "band_buckets", "bit_sample", "block_tables", "bottom_k", "candidate_probability", "choose_bands",
    "containment", "find_all", "hamming_distance", "hash_bytes", "jaccard", "jaccard_pairs", "minhash", "neighbours", "permute",
    "pick_bands", "shingle_hashes", "shingles", "simhash", "split_chunks",
]  # fmt: skip
