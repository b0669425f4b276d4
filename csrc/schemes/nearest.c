/* nearest.c: the codes nearest to another one, of all entries, which are looked at row by row. The distance that still counts falls as
 * nearer ones are found, so that the kernel passes by nearly all of the rest. */
#include "neardup_buckets.h"
#include "schemes/schemes.h"

#include <stdlib.h>

struct nd_nearest {
    uint8_t code[ND_CODE_BYTES_MAX];
    uint64_t wanted, bound;           /* the smallest distance that holds as many as are wanted */
    uint64_t within;                  /* entries up to the bound, */
    uint64_t counts[ND_BITS_MAX + 1]; /* by their distance; beyond the bound they count no more */
    ND_LIST(nd_nearest_entry) found;  /* those, and some that were within the bound when they were added */
    ND_LIST(uint32_t) places;
};

nd_nearest *nd_nearest_new(void)
{
    return calloc(1, sizeof(nd_nearest));
}

void nd_nearest_free(nd_nearest *nearest)
{
    if (nearest == NULL)
        return;
    free(nearest->found.at);
    free(nearest->places.at);
    free(nearest);
}

int nd_nearest_begin(nd_nearest *nearest, const uint8_t *code, size_t code_size, uint64_t wanted)
{
    if (code_size < 1 || code_size > ND_CODE_BYTES_MAX)
        return ND_ERROR_PARAMETER;
    memcpy(nearest->code, code, code_size);
    memset(nearest->counts, 0, sizeof nearest->counts);
    nearest->wanted = wanted;
    nearest->bound = 8 * code_size;
    nearest->within = nearest->found.count = 0;
    return ND_OK;
}

/* Leaves out what is beyond the bound. */
static void drop_far(nd_nearest *nearest)
{
    size_t kept = 0;
    for (size_t i = 0; i < nearest->found.count; i++)
        if (nearest->found.at[i].distance <= nearest->bound)
            nearest->found.at[kept++] = nearest->found.at[i];
    nearest->found.count = kept;
}

static void add_entry(nd_nearest *nearest, int64_t id, uint64_t distance)
{
    nearest->found.at[nearest->found.count++] = (nd_nearest_entry){id, distance};
    nearest->counts[distance]++;
    nearest->within++;
    while (nearest->within - nearest->counts[nearest->bound] >= nearest->wanted)
        nearest->within -= nearest->counts[nearest->bound--];
}

int nd_nearest_add(nd_nearest *nearest, const nd_entries *entries)
{
    if (nearest->wanted == 0)
        return ND_OK;
    if (nearest->found.count / 2 > nearest->within)
        drop_far(nearest);
    ND_TRY(ND_ROOM(nearest->places, entries->count));
    ND_TRY(ND_ROOM(nearest->found, nearest->found.count + entries->count));
    size_t near = nd_entries_near(entries, nearest->code, nearest->bound, nearest->places.at);
    for (size_t i = 0; i < near; i++) {
        size_t place = nearest->places.at[i];
        uint64_t distance = nd_hamming(entries->codes + place * entries->code_size, nearest->code, entries->code_size);
        if (distance <= nearest->bound)
            add_entry(nearest, nd_entries_id(entries, place), distance);
    }
    return ND_OK;
}

size_t nd_nearest_entries(nd_nearest *nearest, const nd_nearest_entry **out)
{
    drop_far(nearest);
    *out = nearest->found.at;
    return nearest->found.count;
}
