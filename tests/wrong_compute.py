"""Wrong values of the arguments of the functions without an index: rows for `test_wrong_arguments.py`."""

from __future__ import annotations

import math

import numpy as np
from wrong_values import FRACTION, TEXT, choice, given, inside, wrong

from neardup_db import MinHash

ARRAY = wrong("give an array or a list of int", 5, "a")
HASHES = [
    *ARRAY,
    *wrong(r"^hashes has .*: give integers from 0 to 2\^64 - 1", ["a"], [-1], [1 << 64], [True]),
    *wrong("^hashes is .*: give a one-dimensional array of uint64 or uint32", np.array([1.0]), np.array([1], np.int64)),
    *wrong("^hashes must all be bytes of one length", [b"12345678", b"1234"]),
]
ORDER = "is not in ascending order without repeats: give numpy.unique"
SETS_OF_HASHES = wrong("give a list of arrays", 5, "ab") + wrong(rf"^\w+\[1\] {ORDER}", [[1, 2], [3, 3]], [[1], [3, 2]])
SETS_OF_HASHES += wrong(rf"^\w+\[1\] {ORDER}", [np.array([1], np.uint64), np.array([5, 4], np.uint64)])
ONE_SET = [
    *ARRAY,
    *wrong(f"^[ab] {ORDER}", [2, 1], [1, 1]),
    *wrong(r"^[ab] is int64\[1\]: give a one-dimensional array of uint64", np.array([1])),
]
SIZE = wrong("give an integer from 1 to 65536$", 0, 65537, "1")
ANY_CODE = wrong("^(a|b|code) is .*: give an int, bytes, hex digits or uint8", 1.0, np.zeros(8, np.uint16), None)
LIKE_THE_OTHER = [
    *wrong("^[ab](=| is ).*: give (an int, bytes, hex digits or )?uint8", 1.0, np.zeros(8, np.uint16), None),
    *wrong(r"^[ab]=.* has \d+ bits, but codes here have \d+", b"a"),
    *wrong("is no code of 64 bits: give an integer from 0", -1),
    *wrong("give an even number of hex digits", "0g"),
]
SIGNATURES = MinHash().fingerprints(["a b c d", "b c d e"])

COMPUTE_CALLS = {
    "band_buckets": {
        "fingerprints": wrong("^fingerprints are .*: give uint16 or uint32", SIGNATURES[0], SIGNATURES.astype(np.int64), 5),
        "bands": SIZE + wrong("of rows=2 take 130 slots, but the signatures have 128", 65),
        "rows": SIZE,
    },
    "bit_sample": {"signature": ARRAY + wrong("^signature has .* slots; one-bit samples need a multiple of 8", [], [1, 2])},
    "block_tables": {
        "bits": SIZE,
        "blocks": wrong("give an integer from 1 to 64", 0, 65)
        + wrong("and distance=20 make .* tables; take fewer", 40, distance=20),
        "distance": wrong("give an integer from 0 to 3", -1, 4),
    },
    "bottom_k": {"hashes": HASHES, "k": wrong("give an integer from 1 to", 0, 1.5)},
    "candidate_probability": {"similarity": wrong("give a number from 0 to 1", 1.1, -0.1, math.nan), "bands": SIZE, "rows": SIZE},
    "choose_bands": {
        "threshold": FRACTION + wrong(r"^recall=.* at threshold=0\.05 with num_perm=10: .*0\.401263", 0.05, num_perm=10)
    },
    "containment": {
        "a": ONE_SET + wrong("^a has 3 hashes, more than k=2; leave k out for whole sets", [1, 2, 3], k=2),
        "b": ONE_SET + wrong("^b has 3 hashes, more than k=2; leave k out for whole sets", [1, 2, 3], k=2),
        "k": wrong("give an integer from 1 to", 0, 1.5),
    },
    "find_all": {
        "codes": ARRAY
        + wrong("^codes has .*: give integers from 0", [[1, 2]])
        + wrong("^codes is .*: give (uint64|a one-dimensional array)", np.array([1]), np.array([1], np.uint32), np.zeros((2, 2))),
        "max_distance": wrong("give an integer from 0 to 64", -1, 65, True),
        "blocks": wrong("give an integer from 4 to 64", 3, 65),
        "others": ARRAY + wrong("^codes have 64 bits and others 128: pairs are of codes of one size", [bytes(16)]),
    },
    "hamming_distance": {"a": LIKE_THE_OTHER, "b": LIKE_THE_OTHER},
    "hash_bytes": {
        "data": inside("text", TEXT),
        "hash": choice("give 'xxh3_64', 'fnv1a_32', 'fnv1a_64', 'djb2a', 'md5', 'sha1' or 'sha256'"),
        "seed": wrong("give an integer from 0 to 18446744073709551615", -1, 1 << 64)
        + wrong("goes with hash='xxh3_64' only, not 'md5'; leave it out", 1, hash="md5"),
    },
    "jaccard": {"a": ONE_SET, "b": ONE_SET, "threshold": wrong("give a number above 0 and at most 1", 1.5, -0.1, None)},
    "jaccard_pairs": {"fingerprints": SETS_OF_HASHES, "others": given(SETS_OF_HASHES)},
    "minhash": {"hashes": HASHES},
    "neighbours": {
        "chunk": wrong("^9 is no code of 3 bits", 9) + wrong("^the code has 2 bits, not bits=3", "10") + ANY_CODE,
        "bits": wrong("give an integer from 1 to 64", 0, 65),
        "radius": wrong("give an integer from 0 to 3", 4, -1)
        + wrong("^184144458889 values are within radius=10", 10, chunk=0, bits=64),
    },
    "permute": {
        "code": ANY_CODE + wrong("is no code of 64 bits", 1 << 64, -1) + wrong("^code has 40 bits, the table 64", b"short"),
        "table": wrong("give a BlockTable, as block_tables", (1, 0, 3, 2), None),
    },
    "pick_bands": {},
    "simhash": {
        "hashes": HASHES,
        "bits": wrong("give an integer from 8 to 64", 65) + wrong("give a multiple of 8, e.g. 8", 12),
        "weights": wrong("^weights are .*: give 1 integers, one for each hash", [1, 2], [0.5])
        + wrong("^.*the weights add up to more than 63 bits", [2**62] * 2, hashes=[1, 1]),
    },
    "split_chunks": {
        "code": wrong("^a code in a str is written with 0 and 1, not", "012", "")
        + wrong("^say how many bits the code 5 has: bits=64", 5)
        + wrong("^4 is no code of 2 bits", 4, bits=2)
        + wrong("^the code is empty", b""),
        "chunks": wrong("give an integer from 1 to 2", 0, 3),
        "bits": wrong("^the code has 2 bits, not bits=", 16, 0),
    },
}
