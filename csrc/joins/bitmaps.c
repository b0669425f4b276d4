/* bitmaps.c: an upper bound of the overlap of two sets from bitmaps of a few hundred bits, exact in that it never rules out a
 * pair that passes.
 *
 * Each value of a set sets one bit. Common values set common bits, so that |A and B| could exceed the number of bits common to
 * both bitmaps only where several common values share a bit. A set of n values with p ones in its bitmap has n - p values in
 * excess; a subset of it has no more, and the common values are a subset of both:
 *     |A and B| <= popcount(bitmap(A) & bitmap(B)) + min(excess(A), excess(B))
 * The bitmaps stand in blocks of eight sets, word after word, one set a lane: one instruction takes a word of each of the eight.
 * (128 values and threshold 0.5: 512 bits, a bound of 40 +- 5 for two sets with nothing in common, of which 86 are needed.) */
#include <stdlib.h>

#include "kernels/kernels.h"
#include "joins/bitmaps.h"

/* (1 - 1/bits)^count: the share of bits that are still 0 after so many values. */
static double share_of_zeros(double bits, size_t count)
{
    double power = 1 - 1 / bits, share = 1;
    for (; count > 0; count /= 2, power *= power)
        if (count % 2 != 0)
            share *= power;
    return share;
}

size_t nd_bitmaps_words(size_t length, double threshold)
{
    const double deviations = 4;
    double needed = (double)nd_overlap_needed(2 * length, threshold);
    for (size_t words = 4; words <= ND_BITMAPS_WORDS_MAX; words *= 2) {
        double bits = 64 * (double)words, ones = bits * (1 - share_of_zeros(bits, length)), common = ones * ones / bits;
        double margin = needed - common - ((double)length - ones);
        if (margin > 0 && margin * margin >= deviations * deviations * common)
            return words;
    }
    return 0;
}

int nd_bitmaps_new(nd_bitmaps *bitmaps, size_t words, size_t sets, size_t longest, double threshold)
{
    size_t block_count = (sets + ND_SET_LANES - 1) / ND_SET_LANES;
    *bitmaps = (nd_bitmaps){.words = words};
    bitmaps->blocks = calloc(block_count * (words + 1) * ND_SET_LANES, sizeof *bitmaps->blocks);
    bitmaps->lengths = malloc(block_count * sizeof *bitmaps->lengths);
    bitmaps->needed = malloc((2 * longest + 1) * sizeof *bitmaps->needed);
    bitmaps->query = malloc(words * sizeof *bitmaps->query);
    if (bitmaps->blocks == NULL || bitmaps->lengths == NULL || bitmaps->needed == NULL || bitmaps->query == NULL)
        return ND_ERROR_MEMORY;
    /* What is needed with this total or any greater one: a block holds sets that are longer than its first. A small total, of
     * which no half can be enough, says nothing about them. */
    for (size_t total = 2 * longest + 1, least = SIZE_MAX; total-- > 0;) {
        size_t needed = nd_overlap_needed(total, threshold);
        least = needed < least ? needed : least;
        bitmaps->needed[total] = (uint32_t)least;
    }
    return ND_OK;
}

void nd_bitmaps_free(nd_bitmaps *bitmaps)
{
    free(bitmaps->blocks);
    free(bitmaps->lengths);
    free(bitmaps->needed);
    free(bitmaps->query);
}

static uint64_t *rows_of(const nd_bitmaps *bitmaps, size_t set)
{
    return bitmaps->blocks + set / ND_SET_LANES * (bitmaps->words + 1) * ND_SET_LANES + set % ND_SET_LANES;
}

void nd_bitmap_draw(const uint64_t *values, size_t length, size_t words, uint64_t *rows)
{
    uint64_t ones = 0;
    unsigned shift = 64 - 6 - (unsigned)__builtin_ctzll(words);
    for (size_t i = 0; i < length; i++) {
        /* The values may be anything, the smallest hashes of many for one: the multiplication spreads them over the bitmap. */
        uint64_t bit = values[i] * 0x9E3779B97F4A7C15u >> shift;
        uint64_t *row = rows + bit / 64 * ND_SET_LANES, one = (uint64_t)1 << bit % 64;
        ones += (*row & one) == 0;
        *row |= one;
    }
    rows[words * ND_SET_LANES] = length - ones;
}

void nd_bitmaps_add(nd_bitmaps *bitmaps, size_t set, const uint64_t *values, size_t length)
{
    nd_bitmap_draw(values, length, bitmaps->words, rows_of(bitmaps, set));
    if (set % ND_SET_LANES == 0)
        bitmaps->lengths[set / ND_SET_LANES] = (uint32_t)length;
}

size_t nd_bitmaps_find(const nd_bitmaps *bitmaps, size_t set, size_t length, size_t *first, uint32_t *out)
{
    uint32_t needed[ND_BITMAPS_STEP / ND_SET_LANES];
    size_t words = bitmaps->words, block = *first / ND_SET_LANES, end = (set + ND_SET_LANES - 1) / ND_SET_LANES;
    const uint64_t *rows = rows_of(bitmaps, set);
    if (end > block + ND_BITMAPS_STEP / ND_SET_LANES)
        end = block + ND_BITMAPS_STEP / ND_SET_LANES;
    for (size_t i = block; i < end; i++)
        needed[i - block] = bitmaps->needed[length + bitmaps->lengths[i]];
    for (size_t w = 0; w < words; w++)
        bitmaps->query[w] = rows[w * ND_SET_LANES];
    size_t count = nd_kernels_active()->may_overlap(bitmaps->query, words, rows[words * ND_SET_LANES],
        bitmaps->blocks + block * (words + 1) * ND_SET_LANES, end - block, needed, out);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        size_t found = block * ND_SET_LANES + out[i];
        out[kept] = (uint32_t)found;
        kept += found >= *first && found < set;
    }
    *first = end * ND_SET_LANES < set ? end * ND_SET_LANES : set;
    return kept;
}
