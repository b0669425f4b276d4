/* winnow.c: the hashes under which a sequence of tokens is filed (winnowing: Schleimer, Wilkerson and Aiken, SIGMOD 2003).
 *
 * Each run of k tokens has a hash. In each window of w such runs the smallest is selected, the last of equal ones. A run of
 * w + k - 1 = shortest tokens is one whole window, so two texts that share it have selected the same hash there. */
#include "schemes/schemes.h"

#define SPREAD UINT64_C(0x9E3779B97F4A7C15)

/* The hash of a run from its sum. */
static inline uint64_t mix(uint64_t sum)
{
    sum *= SPREAD;
    sum = (sum ^ sum >> 32) * ND_RUN_BASE;
    sum = (sum ^ sum >> 32) * ND_RUN_BASE;
    return sum ^ sum >> 32;
}

/* The hash of each run. */
static void hash_runs(const uint8_t *value, size_t k, size_t runs, uint64_t *hashes)
{
    const uint64_t highest = nd_run_highest(k);
    uint64_t sum = nd_run_first(value, k);
    hashes[0] = mix(sum);
    for (size_t run = 1; run < runs; run++) {
        sum = nd_run_next(value, k, highest, sum, run - 1);
        hashes[run] = mix(sum);
    }
}

/* For each run of a block the place of the smallest hash from it to the end of the block. */
static void smallest_behind(const uint64_t *hashes, size_t start, size_t end, size_t *places)
{
    size_t smallest = end - 1;
    for (size_t run = end; run-- > start;) {
        smallest = hashes[run] < hashes[smallest] ? run : smallest;
        places[run - start] = smallest;
    }
}

/* A window is the end of one block of `window` runs and the beginning of the next: what is smallest in either is known. */
int nd_winnow(const uint8_t *value, size_t count, size_t k, size_t shortest, nd_scratch *scratch, uint64_t **selected,
    size_t *selected_count)
{
    const size_t window = shortest - k + 1, runs = count < shortest ? 0 : count - k + 1;
    *selected_count = 0;
    const int status = nd_scratch_hashes(scratch, 2 * runs + window, selected);
    if (status != ND_OK || runs == 0)
        return status;
    uint64_t *const hashes = *selected + runs; /* what is selected stands in front */
    size_t *const behind = (size_t *)(hashes + runs), windows = runs - window + 1;
    size_t selected_run = runs, kept = 0;
    hash_runs(value, k, runs, hashes);
    for (size_t start = 0; start < windows; start += window) {
        size_t before = start + window; /* the smallest of the next block so far */
        smallest_behind(hashes, start, start + window, behind);
        for (size_t first = start; first < start + window && first < windows; first++) {
            const size_t last = first + window - 1;
            size_t smallest = behind[first - start];
            if (first > start) {
                before = hashes[last] <= hashes[before] ? last : before;
                smallest = hashes[before] <= hashes[smallest] ? before : smallest;
            }
            (*selected)[kept] = hashes[smallest];
            kept += smallest != selected_run;
            selected_run = smallest;
        }
    }
    *selected_count = kept;
    return ND_OK;
}

int nd_winnow_around(const uint8_t *value, size_t count, size_t k, size_t shortest, int64_t key, nd_scratch *scratch,
    uint64_t **windows, size_t *window_count)
{
    const size_t reach = shortest - k + 1, runs = count < shortest ? 0 : count - k + 1;
    size_t next = 0;
    *window_count = 0;
    const int status = nd_scratch_hashes(scratch, 2 * runs, windows);
    if (status != ND_OK || runs == 0)
        return status;
    uint64_t *const hashes = *windows + runs;
    hash_runs(value, k, runs, hashes);
    for (size_t run = 0; run < runs; run++) {
        const size_t first = run < reach ? 0 : run - reach + 1, end = (run < count - shortest ? run : count - shortest) + 1;
        if (nd_winnow_key(hashes[run]) != key)
            continue;
        for (next = next < first ? first : next; next < end; next++)
            (*windows)[(*window_count)++] = nd_xxh3_64(value + 4 * next, 4 * shortest, 0);
    }
    return ND_OK;
}
