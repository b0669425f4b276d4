/* bottom_k.c: hashes of shingles -> the k smallest distinct ones (Cohen and Kaplan 2007), in one pass and fixed memory. */
#include "arrays/arrays.h"
#include "schemes/schemes.h"

/* Hashes are looked at in blocks; what passes waits with what passed before, in twice the room. */
#define WAITING_MOST (2 * ND_HASH_BLOCK)

/* kept[count] and fresh[fresh_count], both ascending and distinct: the k smallest of the two together, in kept, which has room
 * for k. Drops from fresh what kept has, then from the larger end of the two what is beyond k, then merges backwards. */
static size_t merge_smallest(uint64_t *kept, size_t count, uint64_t *fresh, size_t fresh_count, size_t k)
{
    size_t left = 0;
    for (size_t i = 0, j = 0; j < fresh_count; j++) {
        while (i < count && kept[i] < fresh[j])
            i++;
        if (i == count || kept[i] != fresh[j])
            fresh[left++] = fresh[j];
    }
    while (count + left > k) {
        if (left == 0 || (count > 0 && kept[count - 1] > fresh[left - 1]))
            count--;
        else
            left--;
    }
    size_t total = count + left;
    for (size_t out = total; left > 0; out--) {
        if (count > 0 && kept[count - 1] > fresh[left - 1])
            kept[out - 1] = kept[--count];
        else
            kept[out - 1] = fresh[--left];
    }
    return total;
}

/* Of a block of hashes those below the limit, in order, to out, which has room for all; returns how many. */
static size_t keep_below(const uint64_t *hashes, size_t count, uint64_t limit, uint64_t *out)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        out[kept] = hashes[i];
        kept += hashes[i] < limit;
    }
    return kept;
}

/* nd_add_smallest of the hashes below limit (of all if limit is UINT64_MAX). Hashes below the limit wait until there are many, then
 * they are merged in; with k of them kept the k-th smallest is the limit. */
static size_t add_below(uint64_t *kept, size_t count, const uint64_t *hashes, size_t hash_count, size_t k, uint64_t limit)
{
    uint64_t waiting[WAITING_MOST], sorted[WAITING_MOST];
    size_t waiting_count = 0;
    for (size_t start = 0; start < hash_count; start += ND_HASH_BLOCK) {
        size_t size = hash_count - start < ND_HASH_BLOCK ? hash_count - start : ND_HASH_BLOCK;
        if (limit == UINT64_MAX) {
            memcpy(waiting + waiting_count, hashes + start, size * sizeof *hashes);
            waiting_count += size;
        } else {
            waiting_count += keep_below(hashes + start, size, limit, waiting + waiting_count);
        }
        if (waiting_count > WAITING_MOST - ND_HASH_BLOCK) {
            count = merge_smallest(kept, count, sorted, nd_sorted_distinct(waiting, waiting_count, sorted), k);
            waiting_count = 0;
            if (count == k)
                limit = kept[k - 1];
        }
    }
    return merge_smallest(kept, count, sorted, nd_sorted_distinct(waiting, waiting_count, sorted), k);
}

/* Of evenly spread hashes about half as many again as are wanted lie below the first limit, which leaves little to sort. Where
 * that was too few, as with many repeats, it takes a second pass without it. */
size_t nd_add_smallest(uint64_t *kept, size_t count, const uint64_t *hashes, size_t hash_count, size_t k)
{
    const size_t expected = k < hash_count ? k + k / 2 + 16 : hash_count;
    if (count == 0 && expected < hash_count && add_below(kept, 0, hashes, hash_count, k, UINT64_MAX / hash_count * expected) == k)
        return k;
    return add_below(kept, count, hashes, hash_count, k, count == k ? kept[k - 1] : UINT64_MAX);
}

int nd_bottom_k(const uint64_t *hashes, size_t count, size_t k, uint64_t *out, size_t *out_count)
{
    *out_count = k == 0 ? 0 : nd_add_smallest(out, 0, hashes, count, k);
    return k == 0 ? ND_ERROR_PARAMETER : ND_OK;
}
