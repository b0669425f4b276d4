"""Outputs published in the source articles, reproduced to the bit with the settings that each article used."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import numpy as np
import pytest
from cases import one_test

from neardup_db import SimHash, TextRules, compute

FACTS = json.loads((Path(__file__).parent / "vectors" / "reference.json").read_text("utf-8"))
EXLSH, BLOCKS, ONE_BIT = FACTS["simhash_any_width"], FACTS["simhash_blocks"], FACTS["one_bit_minhash"]
BANDS, BOTTOM_K, CURVE = FACTS["minhash_bands"], FACTS["bottom_k"], FACTS["band_curve"]


def exlsh(**changes):
    """ExLSH: NFC, lower case, words with nothing between them, no shingle for too few tokens."""
    return TextRules(**{"normalize": "NFC", "case": "lower", "joiner": "", "short": "drop", "hash": "md5", **changes})


@one_test(case=EXLSH["cases"])
def test_exlsh_code(case):
    """Each SimHash that ExLSH publishes, of 128, 160 or 256 bits, comes out bit for bit."""
    rules = exlsh(tokens=case["tokens"], shingle=case["shingle"], hash=case["hash"])
    code = SimHash().fingerprint(case["text"], rules)
    assert base64.b64encode(code.tobytes()).decode() == case["base64"]
    hashes = compute.shingle_hashes(case["text"], rules)
    assert np.array_equal(compute.simhash(hashes, bits=8 * hashes.shape[1]), code)


def test_exlsh_bag_of_words():
    """With shingles of one word the order of the words does not matter."""
    rules = exlsh(shingle=1)
    assert np.array_equal(SimHash().fingerprint("foo bar baz", rules), SimHash().fingerprint("foo baz bar", rules))


def test_exlsh_repetition():
    """A text repeated 100 times and 200 times has the same SimHash."""
    hundred, two_hundred = ("foo bar baz " * count for count in (100, 200))
    assert np.array_equal(SimHash().fingerprint(hundred, exlsh()), SimHash().fingerprint(two_hundred, exlsh()))


def test_block_bounds():
    """Six blocks of 64 bits have the published bounds, A the most significant."""
    [table] = compute.block_tables(64, 6, 0)
    code_of_block = {}
    for place, name in enumerate("ABCDEF"):
        low, high = BLOCKS["blocks_of_64_bits_m6"][name]
        code_of_block[name] = ((1 << high + 1) - 1) ^ ((1 << low) - 1)
        assert compute.split_chunks(code_of_block[name], 6, bits=64)[place] == (1 << high - low + 1) - 1
    assert table.order == (5, 4, 3, 2, 1, 0)


def test_block_table_of_the_readme_pair():
    """Of the 20 tables of 6 blocks for 3 bits exactly "A C F B D E" has the published pair under one prefix."""
    corpus, mask = int(BLOCKS["corpus_fingerprint"], 2), int(BLOCKS["difference_mask"], 2)
    assert [bit for bit in range(63, -1, -1) if mask >> bit & 1] == BLOCKS["mask_bits"]
    query = corpus ^ mask
    tables = compute.block_tables(64, 6, 3)
    assert len(tables) == 20
    matching = []
    for table in tables:
        a, b = compute.permute(corpus, table), compute.permute(query, table)
        if a >> 64 - table.prefix_bits == b >> 64 - table.prefix_bits:
            matching.append(" ".join("FEDCBA"[block] for block in table.order))
    assert matching == [BLOCKS["table_that_matches"]]
    assert compute.find_all(np.array([corpus, query], np.uint64), 3, blocks=6).tolist() == [[0, 1]]


def test_one_bit_jaccard():
    """The two sentences share 7 of 11 words, by our word rule as by the article's token lists."""
    rules = TextRules(shingle=1)
    assert compute.shingles(ONE_BIT["text_a"], rules) == ONE_BIT["tokens_a"]
    assert compute.shingles(ONE_BIT["text_b"], rules) == ONE_BIT["tokens_b"]
    a, b = (np.unique(compute.shingle_hashes(ONE_BIT[name], rules)) for name in ("text_a", "text_b"))
    assert len(np.intersect1d(a, b)) == ONE_BIT["jaccard"]["intersection"]
    assert compute.jaccard(a, b) == ONE_BIT["jaccard"]["intersection"] / ONE_BIT["jaccard"]["union"] == 7 / 11


def test_one_bit_xor():
    """The published exclusive or of the two codes has as many bits as their Hamming distance."""
    a, b, xor = (int(ONE_BIT[name], 2) for name in ("bits_a", "bits_b", "xor"))
    assert a ^ b == xor
    assert compute.hamming_distance(a, b) == ONE_BIT["xor"].count("1") == 4


def test_split_chunks():
    """The published code is cut into the published chunks, as text, number and bytes."""
    [(code, chunks)] = ONE_BIT["split_chunks_16_into_4"].items()
    assert compute.split_chunks(code, 4) == chunks
    numbers = [int(chunk, 2) for chunk in chunks]
    assert compute.split_chunks(int(code, 2), 4, bits=16) == numbers
    assert compute.split_chunks(int(code, 2).to_bytes(2, "big"), 4) == numbers


@pytest.mark.parametrize("chunk", ONE_BIT["close_chunks"])
def test_neighbours(chunk):
    """All values within one bit, in the published order (the article's 0111 corrected to 1111)."""
    expected = ONE_BIT["close_chunks"][chunk]
    assert compute.neighbours(chunk, 4, 1) == expected
    assert compute.neighbours(int(chunk, 2), 4, 1) == [int(value, 2) for value in expected]


def test_shingles_of_characters():
    """The 3-grams of the sample document, its space among them."""
    assert compute.shingles("sample document", TextRules.chars(shingle=3)) == BANDS["shingles_3_of_sample_document"]


def test_djb2a():
    """djb2a of the published word."""
    for text, value in BANDS["djb2a"].items():
        assert compute.hash_bytes(text.encode(), "djb2a") == value


def test_universal_hashes():
    """The ten universal hashes of "he", with coefficients drawn as java.util.Random(1337) draws them."""
    signature = compute.minhash([compute.hash_bytes(b"he", "djb2a")], num_perm=10, seed=1337, slot_bits=32, family="java32")
    assert signature.view(np.int32).tolist() == BANDS["hashes_of_he"]


def test_coefficients():
    """The published coefficients a and b of those ten functions: h(0) = b and h(1) = a + b."""
    zero, one = (compute.minhash([x], num_perm=10, seed=1337, slot_bits=32, family="java32").view(np.int32) for x in (0, 1))
    pairs = [[int(a), int(b)] for a, b in zip(one - zero, zero, strict=True)]
    assert pairs == BANDS["java_random_1337_pairs"]


def test_pick_bands():
    """The article's seven band counts for 100 hashes."""
    picked = {threshold: compute.pick_bands(float(threshold), 100) for threshold in BANDS["pick_bands_100"]}
    assert picked == BANDS["pick_bands_100"]


def test_shingle_1_trap():
    """With shingles of one character two different sentences of all letters have equal sets."""
    rules = TextRules.chars(shingle=1)
    texts = ("abcdefghijklmnopqrstuvwxyz ", "the quick brown fox jumps over the lazy dog")
    assert "abcdefghijklmnopqrstuvwxyz " in BANDS["shingle_1_trap"] and texts[1] in BANDS["shingle_1_trap"]
    keep = TextRules(tokens="chars", shingle=1, nonword="keep")
    assert set(compute.shingles(texts[0], keep)) == set(compute.shingles(texts[1], keep))
    assert set(compute.shingles(texts[1], rules)) - set(compute.shingles(texts[0], rules)) == {" "}


def test_fnv1a_defaults():
    """32-bit FNV-1a has the published offset and prime: the hash of nothing, and one step by hand."""
    assert "2166136261" in BOTTOM_K["defaults"]["hash"] and "16777619" in BOTTOM_K["defaults"]["hash"]
    assert compute.hash_bytes(b"", "fnv1a_32") == 2166136261
    assert compute.hash_bytes(b"a", "fnv1a_32") == (2166136261 ^ ord("a")) * 16777619 % 2**32


def test_bottom_k_at_the_threshold():
    """126 and 126 hashes with 112 in common are exactly at 0.8: not lost, and 111 in common are below."""
    a = np.arange(126, dtype=np.uint64)
    for common, expected in ((112, 0.8), (111, 0.0)):
        b = np.concatenate([a[126 - common :], np.arange(1000, 1000 + 126 - common, dtype=np.uint64)])
        assert compute.jaccard(a, b, threshold=0.8) == expected


@one_test(case=CURVE["cases"])
def test_band_curve(case):
    """P(candidate | J) at the published points."""
    assert round(compute.candidate_probability(case["J"], case["bands"], case["rows"]), 3) == case["P"]
