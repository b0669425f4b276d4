/* avx2.c: the kernels for x86-64 CPUs with AVX2 and POPCNT. */
#include "kernels/kernels.h"

#if ND_HAVE_X86

#include "kernels/intrinsics.h"

#define ND_TIER ND_TARGET_AVX2
#define ND_WIDTH 32
#define ND_LEAST(a, b) (words32) _mm256_min_epu32((__m256i)(a), (__m256i)(b))
#define ND_ONES(word) (uint64_t) _mm_popcnt_u64(word)
#include "kernels/loops.h"

ND_TARGET_AVX2 static __m256i load(const void *address)
{
    return _mm256_loadu_si256((const __m256i *)address);
}

/* Compares every value of four of a with every one of four of b, in four turns of the second register, then leaves behind the
 * block whose last value is smaller (or both): 16 comparisons for eight values, with no branch on the values. Skips are looked
 * at after every block; the rest is merged. */
ND_TARGET_AVX2 static size_t count_common(const uint8_t *a, size_t a_count, const uint8_t *b, size_t b_count, size_t max_skips)
{
    size_t i = 0, j = 0, common = 0;
    while (i + 4 <= a_count && j + 4 <= b_count) {
        __m256i left = load(a + 8 * i), right = load(b + 8 * j);
        uint64_t left_last = nd_load64(a + 8 * i + 24), right_last = nd_load64(b + 8 * j + 24);
        __m256i equal = _mm256_or_si256(
            _mm256_or_si256(_mm256_cmpeq_epi64(left, right), _mm256_cmpeq_epi64(left, _mm256_permute4x64_epi64(right, 0x39))),
            _mm256_or_si256(_mm256_cmpeq_epi64(left, _mm256_permute4x64_epi64(right, 0x4e)),
                _mm256_cmpeq_epi64(left, _mm256_permute4x64_epi64(right, 0x93))));
        common += (size_t)_mm_popcnt_u32((uint32_t)_mm256_movemask_pd(_mm256_castsi256_pd(equal)));
        i += left_last <= right_last ? 4 : 0;
        j += right_last <= left_last ? 4 : 0;
        if (i + j > max_skips + 2 * common)
            return SIZE_MAX;
    }
    /* Values of the block not yet left behind may be counted as common already: the merge passes them as skips, which the
     * allowance makes good. */
    size_t rest = merge_common(a + 8 * i, a_count - i, b + 8 * j, b_count - j, max_skips + 2 * common - (i + j));
    return rest == SIZE_MAX ? SIZE_MAX : common + rest;
}

const nd_kernels nd_kernels_avx2 = {.name = "avx2", ND_LOOPS, .count_common = count_common};

#endif
