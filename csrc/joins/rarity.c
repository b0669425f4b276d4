/* rarity.c: the elements of a set or signature by how many sets have each. */
#include <stdlib.h>

#include "joins/rarity.h"

int nd_rarity_take(nd_rarity *rarity, const nd_scheme *rule, const uint8_t *bytes, size_t size)
{
    const size_t width = nd_rarity_is_signature(rule) ? (size_t)rule->slot_bits / 8 : sizeof(uint64_t);
    rarity->size = size / width;
    ND_TRY(ND_ROOM(rarity->elements, rarity->size));
    ND_TRY(ND_ROOM(rarity->sorted, rarity->size));
    ND_TRY(ND_ROOM(rarity->plain, rarity->size));
    for (size_t i = 0; i < rarity->size; i++) {
        uint64_t element = 0;
        memcpy(&element, bytes + i * width, width);
        rarity->plain.at[i] = width == sizeof element ? element : (uint64_t)i << 32 | element;
    }
    return ND_OK;
}

void nd_rarity_sort(nd_rarity *rarity)
{
    nd_record *elements = rarity->elements.at, *sorted = rarity->sorted.at;
    uint64_t counts = 1;
    for (size_t i = 0; i < rarity->size; i++) {
        elements[i].item = rarity->plain.at[i];
        counts |= elements[i].key = *nd_rarity_counter(rarity, elements[i].item);
    }
    if (rarity->size > 0 &&
        nd_sort_records(elements, sorted, rarity->size, 0, 64 - (unsigned)__builtin_clzll(counts)) == elements)
        memcpy(sorted, elements, rarity->size * sizeof *elements);
}

void nd_rarity_release(nd_rarity *rarity)
{
    free(rarity->elements.at);
    free(rarity->sorted.at);
    free(rarity->plain.at);
}
