/* compare.c: distances and similarities of fingerprints, and the bounds on them, to the last bit of the verdict. */
#include "kernels/kernels.h"
#include "schemes/schemes.h"

uint64_t nd_hamming(const uint8_t *a, const uint8_t *b, size_t size)
{
    return nd_kernels_active()->hamming(a, b, size);
}

size_t nd_equal_slots(const uint8_t *a, const uint8_t *b, size_t count, int32_t slot_bits)
{
    const nd_kernels *kernels = nd_kernels_active();
    return slot_bits == 16 ? kernels->equal_slots16(a, b, count) : kernels->equal_slots32(a, b, count);
}

static int overlap_passes(size_t common, size_t total, double threshold)
{
    return (double)common / (double)(total - common) >= threshold;
}

static int share_passes(size_t part, size_t count, double threshold)
{
    return (double)part / (double)count >= threshold;
}

/* The smallest number that passes, most + 1 if none up to `most` does. Starts from the real solution, which is off by one at most, and
 * then asks the verdict itself, whose rounding is monotone in it: no product is ever rounded to a bound. */
static inline size_t smallest(double solution, size_t most, int (*passes)(size_t, size_t, double), size_t of, double threshold)
{
    size_t needed = !(solution > 0) ? 0 : solution >= (double)most ? most : (size_t)solution;
    while (needed > 0 && passes(needed - 1, of, threshold))
        needed--;
    while (needed <= most && !passes(needed, of, threshold))
        needed++;
    return needed;
}

size_t nd_overlap_needed(size_t total, double threshold)
{
    const size_t most = total / 2;
    const size_t needed = smallest(threshold / (1 + threshold) * (double)total, most, overlap_passes, total, threshold);
    return needed <= most ? needed : total + 1;
}

size_t nd_share_needed(size_t count, double threshold)
{
    return smallest(threshold * (double)count, count, share_passes, count, threshold);
}

size_t nd_slots_spared(size_t slots, double threshold)
{
    size_t needed = nd_share_needed(slots, threshold);
    return needed > slots ? SIZE_MAX : slots - needed;
}

size_t nd_prefix_count(size_t count, double threshold)
{
    size_t needed = nd_share_needed(count, threshold);
    if (needed == 0)
        return count;
    return count + 1 - needed;
}

double nd_jaccard(const void *a, size_t a_count, const void *b, size_t b_count, double threshold)
{
    size_t total = a_count + b_count, needed = 0;
    if (a_count == 0 || b_count == 0)
        return 0.0;
    if (threshold > 0) {
        needed = nd_overlap_needed(total, threshold);
        if (needed > a_count || needed > b_count)
            return 0.0;
    }
    size_t common = nd_kernels_active()->count_common(a, a_count, b, b_count, total - 2 * needed);
    if (common == SIZE_MAX || common < needed)
        return 0.0;
    return (double)common / (double)(total - common);
}

double nd_jaccard_estimate(const void *a, size_t a_count, const void *b, size_t b_count, size_t k)
{
    const uint8_t *const lefts = a, *const rights = b;
    size_t i = 0, j = 0, common = 0;
    while (i < a_count && j < b_count && i + j - common < k) {
        uint64_t left = nd_load64(lefts + 8 * i), right = nd_load64(rights + 8 * j);
        common += left == right;
        i += left <= right;
        j += right <= left;
    }
    /* Where one array ended first, the rest of the other is the rest of the union, with nothing common in it. */
    size_t in_union = a_count + b_count - common;
    if (i < a_count && j < b_count)
        in_union = k;
    if (in_union > k)
        in_union = k;
    return in_union == 0 ? 0.0 : (double)common / (double)in_union;
}

double nd_containment(const uint64_t *a, size_t a_count, const uint64_t *b, size_t b_count)
{
    if (a_count == 0)
        return 0.0;
    size_t common = nd_kernels_active()->count_common((const uint8_t *)a, a_count, (const uint8_t *)b, b_count,
        a_count + b_count);
    return (double)common / (double)a_count;
}

/* How many of the values are `most` at the most. */
static size_t count_up_to(const uint64_t *values, size_t count, uint64_t most)
{
    size_t low = 0;
    while (low < count) {
        size_t middle = low + (count - low) / 2;
        if (values[middle] <= most)
            low = middle + 1;
        else
            count = middle;
    }
    return low;
}

/* Below the smaller of the two last hashes it is known of every hash of either set: those of A are a random sample of A. */
double nd_containment_estimate(const uint64_t *a, size_t a_count, const uint64_t *b, size_t b_count, size_t k)
{
    uint64_t most = UINT64_MAX;
    if (a_count == 0)
        return 0.0;
    if (a_count >= k)
        most = a[a_count - 1];
    if (b_count >= k && b_count > 0 && b[b_count - 1] < most)
        most = b[b_count - 1];
    size_t covered = count_up_to(a, a_count, most);
    return covered == 0 ? -1.0 : nd_containment(a, covered, b, count_up_to(b, b_count, most));
}
