/* kernels_avx2.c: the kernels for x86-64 CPUs with AVX2 and POPCNT. Same names and same results as in kernels_scalar.c. */
#include "internal.h"

#if ND_HAVE_X86

#include <immintrin.h>

ND_TARGET_AVX2 static __m256i load(const void *address)
{
    return _mm256_loadu_si256((const __m256i *)address);
}

ND_TARGET_AVX2 static void store(void *address, __m256i value)
{
    _mm256_storeu_si256((__m256i *)address, value);
}

/* Eight slots a register, four registers at once: the multiplication takes about ten cycles, so that four independent ones are
 * under way while the minima stay in registers over all of x. Plain loop:
 *     for every slot i, every x[j]: minima[i] = min(minima[i], a[i] * x[j] + b[i] + offset) */
ND_TARGET_AVX2 static void minhash_update(const uint32_t *a, const uint32_t *b, uint32_t offset, size_t num_perm,
    const uint32_t *x, size_t count, uint32_t *minima)
{
    const __m256i offsets = _mm256_set1_epi32((int)offset);
    size_t i = 0;
    for (; i + 32 <= num_perm; i += 32) {
        __m256i a0 = load(a + i), a1 = load(a + i + 8), a2 = load(a + i + 16), a3 = load(a + i + 24);
        __m256i b0 = _mm256_add_epi32(load(b + i), offsets), b1 = _mm256_add_epi32(load(b + i + 8), offsets);
        __m256i b2 = _mm256_add_epi32(load(b + i + 16), offsets), b3 = _mm256_add_epi32(load(b + i + 24), offsets);
        __m256i m0 = load(minima + i), m1 = load(minima + i + 8), m2 = load(minima + i + 16), m3 = load(minima + i + 24);
        for (size_t j = 0; j < count; j++) {
            __m256i value = _mm256_set1_epi32((int)x[j]);
            m0 = _mm256_min_epu32(m0, _mm256_add_epi32(_mm256_mullo_epi32(a0, value), b0));
            m1 = _mm256_min_epu32(m1, _mm256_add_epi32(_mm256_mullo_epi32(a1, value), b1));
            m2 = _mm256_min_epu32(m2, _mm256_add_epi32(_mm256_mullo_epi32(a2, value), b2));
            m3 = _mm256_min_epu32(m3, _mm256_add_epi32(_mm256_mullo_epi32(a3, value), b3));
        }
        store(minima + i, m0);
        store(minima + i + 8, m1);
        store(minima + i + 16, m2);
        store(minima + i + 24, m3);
    }
    for (; i + 8 <= num_perm; i += 8) {
        __m256i a0 = load(a + i), b0 = _mm256_add_epi32(load(b + i), offsets), m0 = load(minima + i);
        for (size_t j = 0; j < count; j++)
            m0 = _mm256_min_epu32(m0, _mm256_add_epi32(_mm256_mullo_epi32(a0, _mm256_set1_epi32((int)x[j])), b0));
        store(minima + i, m0);
    }
    nd_kernels_scalar.minhash_update(a + i, b + i, offset, num_perm - i, x, count, minima + i);
}

/* Four bytes of each of up to 255 digests, spread so that byte lane n holds bit n (most significant first) as 0 or -1, and
 * subtracted from byte counters, which cannot overflow within 255. */
ND_TARGET_AVX2 static void count_32_bits(const uint8_t *digests, size_t count, size_t stride, int64_t *ones)
{
    const __m256i byte_of_lane = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3,
        3, 3, 3, 3, 3, 3);
    const __m256i bit_of_lane = _mm256_set1_epi64x(0x0102040810204080);
    __m256i counters = _mm256_setzero_si256();
    for (size_t j = 0; j < count; j++) {
        int four_bytes;
        memcpy(&four_bytes, digests + j * stride, 4);
        __m256i spread = _mm256_shuffle_epi8(_mm256_set1_epi32(four_bytes), byte_of_lane);
        counters = _mm256_sub_epi8(counters, _mm256_cmpeq_epi8(_mm256_and_si256(spread, bit_of_lane), bit_of_lane));
    }
    uint8_t sums[32];
    store(sums, counters);
    for (size_t bit = 0; bit < 32; bit++)
        ones[bit] += sums[bit];
}

ND_TARGET_AVX2 static void count_bits(const uint8_t *digests, size_t count, size_t stride, size_t width, int64_t *ones)
{
    const size_t most = 255;
    size_t whole = width - width % 4;
    for (size_t start = 0; start < count; start += most) {
        size_t size = count - start < most ? count - start : most;
        for (size_t i = 0; i < whole; i += 4)
            count_32_bits(digests + start * stride + i, size, stride, ones + 8 * i);
    }
    if (whole < width)
        nd_kernels_scalar.count_bits(digests + whole, count, stride, width - whole, ones + 8 * whole);
}

ND_TARGET_AVX2 static uint64_t hamming(const uint8_t *a, const uint8_t *b, size_t size)
{
    uint64_t distance = 0;
    size_t i = 0;
    for (; i + 8 <= size; i += 8)
        distance += (uint64_t)_mm_popcnt_u64(nd_load64(a + i) ^ nd_load64(b + i));
    for (; i < size; i++)
        distance += (uint64_t)_mm_popcnt_u32((uint32_t)(a[i] ^ b[i]));
    return distance;
}

/* Equal bytes come out as ones of a 32-bit mask: two for each equal slot of 16 bits, four for one of 32. */
ND_TARGET_AVX2 static size_t equal_slots16(const uint8_t *a, const uint8_t *b, size_t count)
{
    size_t i = 0, ones = 0;
    for (; i + 16 <= count; i += 16)
        ones += (size_t)_mm_popcnt_u32((uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi16(load(a + 2 * i), load(b + 2 * i))));
    return ones / 2 + nd_kernels_scalar.equal_slots16(a + 2 * i, b + 2 * i, count - i);
}

ND_TARGET_AVX2 static size_t equal_slots32(const uint8_t *a, const uint8_t *b, size_t count)
{
    size_t i = 0, ones = 0;
    for (; i + 8 <= count; i += 8)
        ones += (size_t)_mm_popcnt_u32((uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi32(load(a + 4 * i), load(b + 4 * i))));
    return ones / 4 + nd_kernels_scalar.equal_slots32(a + 4 * i, b + 4 * i, count - i);
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
    size_t rest = nd_kernels_scalar.count_common(a + 8 * i, a_count - i, b + 8 * j, b_count - j,
        max_skips + 2 * common - (i + j));
    return rest == SIZE_MAX ? SIZE_MAX : common + rest;
}

const nd_kernels nd_kernels_avx2 = {
    .name = "avx2",
    .minhash_update = minhash_update,
    .count_bits = count_bits,
    .hamming = hamming,
    .equal_slots16 = equal_slots16,
    .equal_slots32 = equal_slots32,
    .count_common = count_common,
};

#endif
