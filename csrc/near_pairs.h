/* near_pairs.h: the one body of the near_pairs kernels; each tier compiles it with its own instruction for counting bits. */
#ifndef NEARDUP_NEAR_PAIRS_H
#define NEARDUP_NEAR_PAIRS_H

#include "internal.h"

static inline int nd_differs_in_all(uint64_t difference, const uint64_t *masks, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if ((difference & masks[i]) == 0)
            return 0;
    return 1;
}

/* for every two records of a run of equal prefixes: if popcount(key ^ key) <= max_distance and they differ in all masks: out */
static inline __attribute__((always_inline)) size_t nd_near_pairs_body(const nd_record *records, size_t count, nd_near *near,
    uint64_t *out, size_t capacity)
{
    size_t found = 0, first = near->first, second = near->second;
    for (; first + 1 < count; first++, second = first + 1) {
        uint64_t key = records[first].key, item = records[first].item;
        for (; second < count; second++) {
            uint64_t difference = records[second].key ^ key;
            if ((difference & near->prefix_mask) != 0)
                break;
            if ((uint64_t)__builtin_popcountll(difference) > near->max_distance)
                continue;
            if (!nd_differs_in_all(difference, near->must_differ, near->must_differ_count))
                continue;
            if (found == capacity) {
                near->first = first;
                near->second = second;
                return found;
            }
            uint64_t other = records[second].item;
            out[found++] = item < other ? item << 32 | other : other << 32 | item;
        }
    }
    near->first = first;
    near->second = first + 1;
    return found;
}

#endif
