/* pairs.c: the list of pairs that a join fills, sorted at the end. */
#include <stdlib.h>

#include "joins/joins.h"

nd_pairs *nd_pairs_new(void)
{
    return calloc(1, sizeof(nd_pairs));
}

void nd_pairs_reset(nd_pairs *pairs)
{
    free(pairs->found);
    free(pairs->ids);
    free(pairs->similarities);
    memset(pairs, 0, sizeof *pairs);
}

void nd_pairs_free(nd_pairs *pairs)
{
    if (pairs == NULL)
        return;
    nd_pairs_reset(pairs);
    free(pairs);
}

int nd_pairs_add_keys(nd_pairs *pairs, const uint64_t *keys, size_t count)
{
    if (count > ND_PAIRS_MAX - pairs->count)
        return ND_ERROR_CAPACITY;
    ND_TRY(nd_reserve(&pairs->found, &pairs->found_capacity, pairs->count + count, sizeof(uint64_t)));
    if (count > 0)
        memcpy((uint64_t *)pairs->found + pairs->count, keys, count * sizeof *keys);
    pairs->count += count;
    return ND_OK;
}

int nd_pairs_add(nd_pairs *pairs, uint64_t key, double similarity)
{
    if (pairs->count == ND_PAIRS_MAX)
        return ND_ERROR_CAPACITY;
    ND_TRY(nd_reserve(&pairs->found, &pairs->found_capacity, pairs->count + 1, sizeof(nd_record)));
    nd_record *record = (nd_record *)pairs->found + pairs->count++;
    record->key = key;
    memcpy(&record->item, &similarity, sizeof similarity);
    return ND_OK;
}

static unsigned bits_of(uint64_t number)
{
    return number == 0 ? 0 : 64 - (unsigned)__builtin_clzll(number);
}

/* ids have the size of records, and twice that of keys: they are the second room of the sort, and both results are written over
 * what they are made of. */

int nd_pairs_finish_keys(nd_pairs *pairs)
{
    size_t count = pairs->count;
    if (count == 0)
        return ND_OK;
    pairs->ids = malloc(2 * count * sizeof *pairs->ids);
    if (pairs->ids == NULL)
        return ND_ERROR_MEMORY;
    uint64_t all = 0, *found = pairs->found, *other = (uint64_t *)pairs->ids;
    for (size_t i = 0; i < count; i++)
        all |= found[i];
    uint64_t *sorted = nd_sort_keys(found, other, count, 0, bits_of(all & UINT32_MAX));
    sorted = nd_sort_keys(sorted, sorted == found ? other : found, count, 32, bits_of(all));
    for (size_t i = count; i-- > 0;) {
        uint64_t key = sorted[i];
        pairs->ids[2 * i] = (int64_t)(key >> 32);
        pairs->ids[2 * i + 1] = (int64_t)(key & UINT32_MAX);
    }
    free(pairs->found);
    pairs->found = NULL;
    pairs->found_capacity = 0;
    return ND_OK;
}

int nd_pairs_finish(nd_pairs *pairs)
{
    size_t count = pairs->count;
    if (count == 0)
        return ND_OK;
    nd_record *found = pairs->found, *other = malloc(count * sizeof *other);
    if (other == NULL)
        return ND_ERROR_MEMORY;
    uint64_t all = 0;
    for (size_t i = 0; i < count; i++)
        all |= found[i].key;
    nd_record *sorted = nd_sort_records(found, other, count, 0, bits_of(all & UINT32_MAX));
    sorted = nd_sort_records(sorted, sorted == found ? other : found, count, 32, bits_of(all));
    free(sorted == found ? other : found);
    pairs->found = NULL;
    pairs->found_capacity = 0;
    pairs->ids = (int64_t *)sorted;
    pairs->similarities = malloc(count * sizeof *pairs->similarities);
    if (pairs->similarities == NULL)
        return ND_ERROR_MEMORY;
    for (size_t i = 0; i < count; i++) {
        nd_record record = sorted[i];
        memcpy(&pairs->similarities[i], &record.item, sizeof(double));
        pairs->ids[2 * i] = (int64_t)(record.key >> 32);
        pairs->ids[2 * i + 1] = (int64_t)(record.key & UINT32_MAX);
    }
    return ND_OK;
}
