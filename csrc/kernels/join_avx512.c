/* join_avx512.c: the joins for x86-64 CPUs with AVX-512 as Ice Lake and Zen 4 have it. What is not here is hardly faster
 * (below 1.1 times, measured on Zen 4) than in join_avx2.c and avx2.c. */
#include "kernels/kernels.h"

#if ND_HAVE_X86

#include "kernels/intrinsics.h"

#define ND_TIER ND_TARGET_AVX512
#define ND_WIDTH 64
#define ND_COUNTED SIZE_MAX
#define ND_COLUMN_REGISTERS 4
#include "kernels/registers.h"

ND_INLINE words64 spread(uint64_t number)
{
    return (words64)_mm512_set1_epi64((long long)number);
}

ND_INLINE words64 count(words64 words)
{
    return (words64)_mm512_popcnt_epi64((__m512i)words);
}

ND_INLINE words64 sums(words64 counters)
{
    return counters;
}

ND_INLINE uint32_t up_to(words64 a, words64 b)
{
    return nd_number_of_mask(_mm512_cmple_epu64_mask((__m512i)a, (__m512i)b));
}

ND_INLINE words64 smaller(words64 a, words64 b)
{
    return (words64)_mm512_min_epu64((__m512i)a, (__m512i)b);
}

#include "kernels/join_loops.h"

const nd_kernels nd_kernels_compare_avx512 = {.name = "avx512", .near_pairs = near_pairs, .may_overlap = may_overlap};

#endif
