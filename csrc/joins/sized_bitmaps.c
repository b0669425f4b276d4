/* sized_bitmaps.c: sets in hot buckets by their bitmaps (bitmaps.c), which are all looked at: where most have the same elements, as
 * edits of one text or sentences put together of a few phrases do, rarest elements tell too little. Of elements M that most sets
 * have, a bitmap holds those that its set lacks, beside the others that it has, D(A) = (A | M) - (A & M): such bitmaps are small, and
 *     |A and B| = |D(A) and D(B)| + |A and M| + |B and M| - |M| */
#include <stdlib.h>

#include "joins/bitmaps.h"
#include "kernels/kernels.h"

/* Sets of one size. */
typedef struct bitmap_class {
    size_t size, words;
    ND_LIST(uint64_t) blocks;  /* as the kernel may_overlap takes them */
    ND_LIST(uint32_t) records; /* of each bitmap */
} bitmap_class;

struct nd_sized_bitmaps {
    ND_LIST(bitmap_class) classes;
    size_t words;
    ND_LIST(uint64_t) majority;   /* M, ascending */
    ND_LIST(uint64_t) difference; /* of the present set */
    uint64_t query[(ND_BITMAPS_WORDS_MAX + 1) * ND_SET_LANES];
};

nd_sized_bitmaps *nd_sized_bitmaps_new(void)
{
    return calloc(1, sizeof(nd_sized_bitmaps));
}

static void forget(nd_sized_bitmaps *bitmaps)
{
    for (size_t i = 0; i < bitmaps->classes.count; i++) {
        free(bitmaps->classes.at[i].blocks.at);
        free(bitmaps->classes.at[i].records.at);
    }
    bitmaps->classes.count = bitmaps->words = 0;
}

void nd_sized_bitmaps_free(nd_sized_bitmaps *bitmaps)
{
    if (bitmaps == NULL)
        return;
    forget(bitmaps);
    free(bitmaps->classes.at);
    free(bitmaps->majority.at);
    free(bitmaps->difference.at);
    free(bitmaps);
}

size_t nd_sized_bitmaps_words(const nd_sized_bitmaps *bitmaps)
{
    return bitmaps->words;
}

int nd_sized_bitmaps_begin(nd_sized_bitmaps *bitmaps, const uint64_t *majority, size_t count)
{
    forget(bitmaps);
    const int status = ND_ROOM(bitmaps->majority, count);
    if (status == ND_OK && count > 0)
        memcpy(bitmaps->majority.at, majority, count * sizeof *majority);
    bitmaps->majority.count = status == ND_OK ? count : 0;
    return status;
}

/* Takes the difference of a set from the majority. *common: elements of the majority that it has. */
static int take_difference(nd_sized_bitmaps *bitmaps, const uint64_t *elements, size_t size, size_t *common)
{
    const uint64_t *majority = bitmaps->majority.at;
    const size_t count = bitmaps->majority.count;
    const int status = ND_ROOM(bitmaps->difference, size + count);
    size_t i = 0, j = 0, taken = 0;
    *common = 0;
    if (status != ND_OK)
        return status;
    while (i < size || j < count) {
        if (i < size && j < count && elements[i] == majority[j]) {
            ++*common;
            i++;
            j++;
        } else if (j == count || (i < size && elements[i] < majority[j]))
            bitmaps->difference.at[taken++] = elements[i++];
        else
            bitmaps->difference.at[taken++] = majority[j++];
    }
    bitmaps->difference.count = taken;
    return ND_OK;
}

/* The class of a size, a new one perhaps; NULL if memory is out. */
static bitmap_class *class_of(nd_sized_bitmaps *bitmaps, size_t size, size_t words)
{
    for (size_t i = 0; i < bitmaps->classes.count; i++)
        if (bitmaps->classes.at[i].size == size)
            return &bitmaps->classes.at[i];
    if (ND_ROOM(bitmaps->classes, bitmaps->classes.count + 1) != ND_OK)
        return NULL;
    bitmap_class *class = &bitmaps->classes.at[bitmaps->classes.count++];
    *class = (bitmap_class){.size = size, .words = words};
    return class;
}

int nd_sized_bitmaps_add(nd_sized_bitmaps *bitmaps, uint32_t record, const uint64_t *elements, size_t size, size_t words)
{
    bitmap_class *class = class_of(bitmaps, size, words);
    if (class == NULL)
        return ND_ERROR_MEMORY;
    const size_t lane = class->records.count % ND_SET_LANES, block = (class->words + 1) * ND_SET_LANES;
    size_t common;
    ND_TRY(take_difference(bitmaps, elements, size, &common));
    ND_TRY(ND_ROOM(class->records, class->records.count + 1));
    if (lane == 0)
        ND_TRY(ND_ROOM(class->blocks, class->blocks.count + block));
    if (lane == 0) {
        memset(class->blocks.at + class->blocks.count, 0, block * sizeof *class->blocks.at);
        class->blocks.count += block;
    }
    uint64_t *rows = class->blocks.at + class->blocks.count - block + lane;
    nd_bitmap_draw(bitmaps->difference.at, bitmaps->difference.count, class->words, rows);
    rows[class->words * ND_SET_LANES] += common;
    class->records.at[class->records.count++] = record;
    bitmaps->words += class->words;
    return ND_OK;
}

/* The query's bitmap of so many words, and how many values more than ones it has; with a majority the sets tell that alone. */
static uint64_t draw_query(nd_sized_bitmaps *bitmaps, size_t words)
{
    memset(bitmaps->query, 0, (words + 1) * ND_SET_LANES * sizeof *bitmaps->query);
    nd_bitmap_draw(bitmaps->difference.at, bitmaps->difference.count, words, bitmaps->query);
    for (size_t w = 0; w < words; w++)
        bitmaps->query[w] = bitmaps->query[w * ND_SET_LANES];
    return bitmaps->majority.count > 0 ? UINT32_MAX : bitmaps->query[words * ND_SET_LANES];
}

/* Of a class, the records that may have `needed` elements in common with the query. */
static int ask_class(const nd_sized_bitmaps *bitmaps, const bitmap_class *class, uint64_t excess, size_t needed,
    const nd_bitmap_asker *asker)
{
    enum { BLOCKS = ND_BITMAPS_STEP / ND_SET_LANES };
    uint32_t needs[BLOCKS], found[ND_BITMAPS_STEP];
    const size_t words = (class->words + 1) * ND_SET_LANES, block_count = class->blocks.count / words;
    int status = ND_OK;
    for (size_t i = 0; i < BLOCKS; i++)
        needs[i] = (uint32_t)needed;
    for (size_t first = 0; first < block_count && status == ND_OK; first += BLOCKS) {
        const size_t rest = block_count - first, step = rest < BLOCKS ? rest : BLOCKS;
        const size_t count = nd_kernels_active()->may_overlap(bitmaps->query, class->words, excess,
            class->blocks.at + first * words, step, needs, found);
        for (size_t i = 0; i < count && status == ND_OK; i++)
            if (first * ND_SET_LANES + found[i] < class->records.count)
                status = asker->meet(asker->context, class->records.at[first * ND_SET_LANES + found[i]]);
    }
    return status;
}

int nd_sized_bitmaps_ask(nd_sized_bitmaps *bitmaps, const uint64_t *elements, size_t size, const nd_bitmap_asker *asker)
{
    size_t drawn = 0, common;
    uint64_t excess = 0;
    int status = take_difference(bitmaps, elements, size, &common);
    for (size_t i = 0; i < bitmaps->classes.count && status == ND_OK; i++) {
        const bitmap_class *class = &bitmaps->classes.at[i];
        const size_t needed = asker->needed(asker->context, size, class->size);
        if (needed > size || needed > class->size)
            continue;
        if (drawn != class->words)
            excess = draw_query(bitmaps, class->words);
        drawn = class->words;
        status = ask_class(bitmaps, class, excess, needed + bitmaps->majority.count - common, asker);
    }
    return status;
}
