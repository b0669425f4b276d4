/* bitmaps.h: small bitmaps of sets that bound their overlap from above (bitmaps.c). */
#ifndef NEARDUP_JOIN_BITMAPS_H
#define NEARDUP_JOIN_BITMAPS_H

#include "schemes/schemes.h"

typedef struct nd_bitmaps {
    size_t words;      /* of a set's bitmap; 0 = bitmaps tell nothing about sets of such lengths, and there are none */
    uint64_t *blocks;  /* as the kernel may_overlap takes them */
    uint32_t *lengths; /* of the first, shortest set of each block */
    uint32_t *needed;  /* by the sum of two lengths, or of any greater sum */
    uint64_t *query;   /* words of the set that asks */
} nd_bitmaps;

#define ND_BITMAPS_WORDS_MAX 64
/* Words of a bitmap for sets of so many values, so that two with nothing in common are told apart at the threshold. */
size_t nd_bitmaps_words(size_t length, double threshold);
/* The same for sets that have most in common, as edits of one text: eight to sixteen bits a value. */
static inline size_t nd_bitmaps_close_words(size_t length)
{
    size_t words = 4;
    while (words < ND_BITMAPS_WORDS_MAX && words * 8 < length)
        words *= 2;
    return words;
}
/* Draws a bitmap into its lane of a block, as the kernel may_overlap takes it: `rows` is the lane's first word, all 0. */
void nd_bitmap_draw(const uint64_t *values, size_t length, size_t words, uint64_t *rows);
/* Room for `sets` sets, to be added from first to last with ascending lengths. ND_ERROR_MEMORY leaves what nd_bitmaps_free frees. */
int nd_bitmaps_new(nd_bitmaps *bitmaps, size_t words, size_t sets, size_t longest, double threshold);
void nd_bitmaps_free(nd_bitmaps *bitmaps);
void nd_bitmaps_add(nd_bitmaps *bitmaps, size_t set, const uint64_t *values, size_t length);

/* Looks for those among the sets first .. set - 1 that may be similar enough to the set: up to ND_BITMAPS_STEP of them go to out,
 * ascending; *first becomes where to go on, set when done. */
size_t nd_bitmaps_find(const nd_bitmaps *bitmaps, size_t set, size_t length, size_t *first, uint32_t *out);

#endif
