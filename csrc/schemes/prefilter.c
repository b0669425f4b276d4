/* prefilter.c: the low bits of the slots of signatures, kept by fingerprint: most that share buckets with a query and are not like it
 * are told by them, without their values. */
#include "schemes/schemes.h"

#include <stdlib.h>

#define OUTLINE_BITS 2 /* of a slot: of slots that differ, three in four do so in these */
#define IN_WORD (64 / OUTLINE_BITS)
#define LOW_BITS (UINT64_MAX / 3) /* of each slot the lower bit */

struct nd_outlines {
    int64_t number;
    size_t slots;
    size_t slot_size;  /* bytes */
    size_t words;      /* of an outline */
    size_t capacity;   /* entries, a power of two; 0 at first */
    uint64_t *entries; /* of each the id, 0 where it is free, then the outline */
};

nd_outlines *nd_outlines_new(void)
{
    return calloc(1, sizeof(nd_outlines));
}

void nd_outlines_free(nd_outlines *outlines)
{
    if (outlines != NULL)
        free(outlines->entries);
    free(outlines);
}

int nd_outlines_are_of(const nd_outlines *outlines, int64_t number, size_t slots, size_t slot_size)
{
    return outlines->number == number && outlines->slots == slots && outlines->slot_size == slot_size;
}

void nd_outlines_begin(nd_outlines *outlines, int64_t number, size_t slots, size_t slot_size)
{
    if (nd_outlines_are_of(outlines, number, slots, slot_size))
        return;
    free(outlines->entries);
    *outlines = (nd_outlines){number, slots, slot_size, nd_outline_words(slots), 0, NULL};
}

size_t nd_outline_words(size_t slots)
{
    return slots / IN_WORD + (slots % IN_WORD > 0);
}

void nd_outline_draw(const uint8_t *signature, size_t slots, size_t slot_size, uint64_t *outline)
{
    memset(outline, 0, nd_outline_words(slots) * sizeof *outline);
    for (size_t i = 0; i < slots; i++) /* little-endian: the low bits come first */
        outline[i / IN_WORD] |= (uint64_t)(signature[i * slot_size] & ((1 << OUTLINE_BITS) - 1)) << OUTLINE_BITS * (i % IN_WORD);
}

/* ---- entries --------------------------------------------------------------------------------------------------------- */

static size_t stride(const nd_outlines *outlines)
{
    return 1 + outlines->words;
}

/* The entry of an id, or a free one for it; NULL where the few places that it may have are others'. */
static uint64_t *find(const nd_outlines *outlines, uint64_t id)
{
    size_t home = (size_t)(id * UINT64_C(0x9E3779B97F4A7C15) >> 32);
    for (size_t i = 0; i < ND_OUTLINE_PLACES; i++) {
        uint64_t *entry = outlines->entries + ((home + i) & (outlines->capacity - 1)) * stride(outlines);
        if (*entry == id || *entry == 0)
            return entry;
    }
    return NULL;
}

/* Twice as many entries, unless that were too many. Those that find no place are forgotten. */
static int grow(nd_outlines *outlines)
{
    nd_outlines grown = *outlines;
    size_t size = stride(outlines) * sizeof(uint64_t);
    grown.capacity = outlines->capacity > 0 ? 2 * outlines->capacity : ND_OUTLINES_FIRST;
    if (grown.capacity > ND_OUTLINES_BYTES / size)
        return 0;
    grown.entries = calloc(grown.capacity, size);
    if (grown.entries == NULL)
        return 0;
    for (size_t i = 0; i < outlines->capacity; i++) {
        const uint64_t *entry = outlines->entries + i * stride(outlines);
        uint64_t *place = *entry == 0 ? NULL : find(&grown, *entry);
        if (place != NULL)
            memcpy(place, entry, size);
    }
    free(outlines->entries);
    *outlines = grown;
    return 1;
}

void nd_outlines_keep(nd_outlines *outlines, int64_t id, const uint8_t *signature)
{
    uint64_t *entry = NULL;
    if (id <= 0 || (outlines->capacity == 0 && !grow(outlines)))
        return;
    while ((entry = find(outlines, (uint64_t)id)) == NULL && grow(outlines))
        ;
    if (entry == NULL) { /* the one at a place of its own goes */
        size_t home = (size_t)((uint64_t)id * UINT64_C(0x9E3779B97F4A7C15) >> 32) & (outlines->capacity - 1);
        entry = outlines->entries + home * stride(outlines);
    }
    *entry = (uint64_t)id;
    nd_outline_draw(signature, outlines->slots, outlines->slot_size, entry + 1);
}

int nd_outlines_tell_apart(const nd_outlines *outlines, int64_t id, const uint64_t *outline, size_t most)
{
    const uint64_t *entry = id > 0 && outlines->capacity > 0 ? find(outlines, (uint64_t)id) : NULL;
    size_t differing = 0;
    if (entry == NULL || *entry == 0)
        return 0;
    for (size_t i = 0; i < outlines->words; i++) {
        uint64_t bits = entry[1 + i] ^ outline[i];
        differing += (size_t)__builtin_popcountll((bits | bits >> 1) & LOW_BITS);
    }
    return differing > most;
}
