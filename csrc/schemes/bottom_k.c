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

size_t nd_keep_below(const uint64_t *values, size_t count, uint64_t limit, uint64_t *out)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        out[kept] = values[i];
        kept += values[i] < limit;
    }
    return kept;
}

/* The k smallest distinct ones of the hashes below limit (of all if limit is UINT64_MAX), in out. Hashes below the limit wait
 * until there are many, then they are merged in; with k of them kept the k-th smallest is the limit. */
static size_t smallest_below(const uint64_t *hashes, size_t count, size_t k, uint64_t limit, uint64_t *out)
{
    uint64_t waiting[WAITING_MOST], sorted[WAITING_MOST];
    size_t waiting_count = 0, kept = 0;
    for (size_t start = 0; start < count; start += ND_HASH_BLOCK) {
        size_t size = count - start < ND_HASH_BLOCK ? count - start : ND_HASH_BLOCK;
        if (limit == UINT64_MAX) {
            memcpy(waiting + waiting_count, hashes + start, size * sizeof *hashes);
            waiting_count += size;
        } else {
            waiting_count += nd_keep_below(hashes + start, size, limit, waiting + waiting_count);
        }
        if (waiting_count > WAITING_MOST - ND_HASH_BLOCK) {
            kept = merge_smallest(out, kept, sorted, nd_sorted_distinct(waiting, waiting_count, sorted), k);
            waiting_count = 0;
            if (kept == k)
                limit = out[k - 1];
        }
    }
    return merge_smallest(out, kept, sorted, nd_sorted_distinct(waiting, waiting_count, sorted), k);
}

/* Of evenly spread hashes about half as many again as are wanted lie below the first limit, which leaves little to sort. Where
 * that was too few, as with many repeats, it takes a second pass without it. */
int nd_bottom_k(const uint64_t *hashes, size_t count, size_t k, uint64_t *out, size_t *out_count)
{
    *out_count = 0;
    if (k == 0)
        return ND_ERROR_PARAMETER;
    size_t expected = k < count ? k + k / 2 + 16 : count;
    if (expected < count)
        *out_count = smallest_below(hashes, count, k, UINT64_MAX / count * expected, out);
    if (*out_count < k)
        *out_count = smallest_below(hashes, count, k, UINT64_MAX, out);
    return ND_OK;
}
