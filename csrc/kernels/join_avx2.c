/* join_avx2.c: the kernels of the joins for x86-64 CPUs with AVX2 and POPCNT. */
#include "kernels/kernels.h"

#if ND_HAVE_X86

#include "kernels/intrinsics.h"

#define ND_TIER ND_TARGET_AVX2
#define ND_WIDTH 32
#define ND_COUNTED (size_t)31
#define ND_COLUMN_REGISTERS 2
#include "kernels/registers.h"

ND_INLINE words64 spread(uint64_t number)
{
    return (words64)_mm256_set1_epi64x((long long)number);
}

/* Of each byte, by a table of the sixteen halves of a byte (Mula 2008). */
ND_INLINE words64 count(words64 words)
{
    const __m256i table = _mm256_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4, 0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2,
        3, 3, 4);
    const __m256i low = _mm256_set1_epi8(15), bits = (__m256i)words;
    return (words64)_mm256_add_epi8(_mm256_shuffle_epi8(table, _mm256_and_si256(bits, low)),
        _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16(bits, 4), low)));
}

ND_INLINE words64 sums(words64 counters)
{
    return (words64)_mm256_sad_epu8((__m256i)counters, _mm256_setzero_si256());
}

ND_INLINE uint32_t up_to(words64 a, words64 b)
{
    return (uint32_t)_mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpgt_epi64((__m256i)(b + 1), (__m256i)a)));
}

ND_INLINE words64 smaller(words64 a, words64 b)
{
    return (words64)_mm256_blendv_epi8((__m256i)a, (__m256i)b, _mm256_cmpgt_epi64((__m256i)a, (__m256i)b));
}

#include "kernels/join_loops.h"

const nd_kernels nd_kernels_compare_avx2 = {.name = "avx2", .near_pairs = near_pairs, .may_overlap = may_overlap};

#endif
