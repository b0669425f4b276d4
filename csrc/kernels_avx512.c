/* kernels_avx512.c: the kernels for x86-64 CPUs with AVX-512 as Ice Lake and Zen 4 have it. Same names and same results as in
 * kernels_scalar.c; what is not here is no faster than in kernels_avx2.c. */
#include "internal.h"

#if ND_HAVE_X86

#include <immintrin.h>

/* Lanes 0 to count - 1 of sixteen, count <= 16. */
ND_TARGET_AVX512 static __mmask16 first16(size_t count)
{
    return (__mmask16)((1u << count) - 1);
}

ND_TARGET_AVX512 static void premix(const uint64_t *hashes, size_t count, uint32_t *x)
{
    const __m512i factor = _mm512_set1_epi64((long long)ND_PREMIX_FACTOR);
    for (size_t j = 0; j < count; j += 8) {
        __mmask8 lanes = count - j < 8 ? (__mmask8)first16(count - j) : 0xff;
        __m512i hash = _mm512_maskz_loadu_epi64(lanes, hashes + j);
        __m512i product = _mm512_mullo_epi64(_mm512_xor_si512(hash, _mm512_srli_epi64(hash, 32)), factor);
        _mm256_mask_storeu_epi32(x + j, lanes, _mm512_cvtepi64_epi32(_mm512_srli_epi64(product, 32)));
    }
}

/* Sixteen slots a register, eight registers at once: a, b and the minima of 128 slots stay in registers over all of x, and each
 * x is broadcast once. Plain loop:
 *     for every slot i, every x[j]: minima[i] = min(minima[i], a[i] * x[j] + b[i] + offset) */
ND_TARGET_AVX512 static void update_128(const uint32_t *a, const uint32_t *b, uint32_t offset, const uint32_t *x, size_t count,
    uint32_t *minima)
{
    const __m512i offsets = _mm512_set1_epi32((int)offset);
#define EACH(do) do(0) do(1) do(2) do(3) do(4) do(5) do(6) do(7)
#define LOAD(n)                                                                                              \
    const __m512i a##n = _mm512_loadu_si512(a + 16 * n);                                                     \
    const __m512i b##n = _mm512_add_epi32(_mm512_loadu_si512(b + 16 * n), offsets);                          \
    __m512i m##n = _mm512_loadu_si512(minima + 16 * n);
#define TAKE(n) m##n = _mm512_min_epu32(m##n, _mm512_add_epi32(_mm512_mullo_epi32(a##n, value), b##n));
#define STORE(n) _mm512_storeu_si512(minima + 16 * n, m##n);
    EACH(LOAD)
    for (size_t j = 0; j < count; j++) {
        const __m512i value = _mm512_set1_epi32((int)x[j]);
        EACH(TAKE)
    }
    EACH(STORE)
#undef EACH
#undef LOAD
#undef TAKE
#undef STORE
}

ND_TARGET_AVX512 static void minhash_update(const uint32_t *a, const uint32_t *b, uint32_t offset, size_t num_perm,
    const uint32_t *x, size_t count, uint32_t *minima)
{
    const __m512i offsets = _mm512_set1_epi32((int)offset);
    size_t i = 0;
    for (; i + 128 <= num_perm; i += 128)
        update_128(a + i, b + i, offset, x, count, minima + i);
    for (; i < num_perm; i += 32) {
        size_t rest = num_perm - i;
        __mmask16 low = first16(rest < 16 ? rest : 16), high = first16(rest < 16 ? 0 : rest < 32 ? rest - 16 : 16);
        __m512i a0 = _mm512_maskz_loadu_epi32(low, a + i), a1 = _mm512_maskz_loadu_epi32(high, a + i + 16);
        __m512i b0 = _mm512_add_epi32(_mm512_maskz_loadu_epi32(low, b + i), offsets);
        __m512i b1 = _mm512_add_epi32(_mm512_maskz_loadu_epi32(high, b + i + 16), offsets);
        __m512i m0 = _mm512_maskz_loadu_epi32(low, minima + i), m1 = _mm512_maskz_loadu_epi32(high, minima + i + 16);
        for (size_t j = 0; j < count; j++) {
            const __m512i value = _mm512_set1_epi32((int)x[j]);
            m0 = _mm512_min_epu32(m0, _mm512_add_epi32(_mm512_mullo_epi32(a0, value), b0));
            m1 = _mm512_min_epu32(m1, _mm512_add_epi32(_mm512_mullo_epi32(a1, value), b1));
        }
        _mm512_mask_storeu_epi32(minima + i, low, m0);
        _mm512_mask_storeu_epi32(minima + i + 16, high, m1);
    }
}

/* ---- SimHash ------------------------------------------------------------------------------------------------------------ */

/* Adds 1 to the byte counters of the lanes whose bit is set in mask, the least significant bit being lane 0. */
ND_TARGET_AVX512 static __m512i count_mask(__m512i counters, uint64_t mask)
{
    return _mm512_mask_sub_epi8(counters, _cvtu64_mask64(mask), counters, _mm512_set1_epi8(-1));
}

/* The same for each of eight masks. */
ND_TARGET_AVX512 static __m512i count_masks(__m512i counters, __m512i masks)
{
    uint64_t words[8];
    _mm512_storeu_si512(words, masks);
    for (size_t i = 0; i < 8; i++)
        counters = count_mask(counters, words[i]);
    return counters;
}

/* Full adders of 512 columns: the bits of the sum a + b + c. */
ND_TARGET_AVX512 static __m512i sum_bit(__m512i a, __m512i b, __m512i c)
{
    return _mm512_ternarylogic_epi64(a, b, c, 0x96);
}

ND_TARGET_AVX512 static __m512i carry_bit(__m512i a, __m512i b, __m512i c)
{
    return _mm512_ternarylogic_epi64(a, b, c, 0xe8);
}

/* Up to 1,984 hashes. Vertical counters: `ones`, `twos` and `fours` hold three binary digits of 512 counts, eight for each bit of
 * a hash; eight registers of hashes go in through seven full adders, and only their carry into the eights, an eighth of the
 * words, is counted in bytes (after Harley and Seal's population count). 31 rounds fill a byte with 248 at most. */
ND_TARGET_AVX512 static void count_bits64_part(const uint64_t *hashes, size_t count, int64_t *ones_of_bits)
{
    const __m512i reversed = _mm512_sub_epi8(_mm512_set1_epi8(63), _mm512_set_epi8(63, 62, 61, 60, 59, 58, 57, 56, 55, 54, 53, 52,
        51, 50, 49, 48, 47, 46, 45, 44, 43, 42, 41, 40, 39, 38, 37, 36, 35, 34, 33, 32, 31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21,
        20, 19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0));
    const __m512i zero = _mm512_setzero_si512();
    __m512i ones = zero, twos = zero, fours = zero, counted = zero, eights_counted = zero;
    size_t j = 0;
    for (; j + 64 <= count; j += 64) {
        __m512i v[8];
        for (size_t i = 0; i < 8; i++)
            v[i] = _mm512_loadu_si512(hashes + j + 8 * i);
        __m512i twos_a = carry_bit(ones, v[0], v[1]);
        ones = sum_bit(ones, v[0], v[1]);
        __m512i twos_b = carry_bit(ones, v[2], v[3]);
        ones = sum_bit(ones, v[2], v[3]);
        __m512i fours_a = carry_bit(twos, twos_a, twos_b);
        twos = sum_bit(twos, twos_a, twos_b);
        twos_a = carry_bit(ones, v[4], v[5]);
        ones = sum_bit(ones, v[4], v[5]);
        twos_b = carry_bit(ones, v[6], v[7]);
        ones = sum_bit(ones, v[6], v[7]);
        __m512i fours_b = carry_bit(twos, twos_a, twos_b);
        twos = sum_bit(twos, twos_a, twos_b);
        eights_counted = count_masks(eights_counted, carry_bit(fours, fours_a, fours_b));
        fours = sum_bit(fours, fours_a, fours_b);
    }
    /* (8 * 2 + 8) * 2 + 8 + 63 fits a byte */
    if (j > 0) {
        counted = count_masks(counted, fours);
        counted = count_masks(_mm512_add_epi8(counted, counted), twos);
        counted = count_masks(_mm512_add_epi8(counted, counted), ones);
    }
    for (; j < count; j++)
        counted = count_mask(counted, hashes[j]);
    uint8_t low[64], high[64];
    _mm512_storeu_si512(low, _mm512_permutexvar_epi8(reversed, counted));
    _mm512_storeu_si512(high, _mm512_permutexvar_epi8(reversed, eights_counted));
    for (size_t i = 0; i < 64; i += 8) {
        __m512i sum = _mm512_cvtepu8_epi64(_mm_loadl_epi64((const __m128i *)(high + i)));
        sum = _mm512_add_epi64(_mm512_slli_epi64(sum, 3), _mm512_cvtepu8_epi64(_mm_loadl_epi64((const __m128i *)(low + i))));
        _mm512_storeu_si512(ones_of_bits + i, _mm512_add_epi64(sum, _mm512_loadu_si512(ones_of_bits + i)));
    }
}

ND_TARGET_AVX512 static void count_bits64(const uint64_t *hashes, size_t count, int64_t *ones)
{
    const size_t most = 31 * 64;
    for (size_t start = 0; start < count; start += most)
        count_bits64_part(hashes + start, count - start < most ? count - start : most, ones);
}

/* 64 bits of up to 255 digests: each as a mask over byte counters. */
ND_TARGET_AVX512 static void count_columns(const uint8_t *digests, size_t count, size_t stride, unsigned drop, int64_t *ones,
    size_t width)
{
    __m512i counters = _mm512_setzero_si512();
    for (size_t j = 0; j < count; j++)
        counters = count_mask(counters, nd_load64(digests + j * stride) >> drop);
    uint8_t sums[64];
    _mm512_storeu_si512(sums, counters);
    for (size_t bit = 0; bit < 8 * width; bit++)
        ones[bit] += sums[bit ^ 7];
}

ND_TARGET_AVX512 static void count_bits(const uint8_t *digests, size_t count, size_t stride, size_t width, int64_t *ones)
{
    const size_t most = 255, rest = width % 8;
    if (width < 8) {
        nd_kernels_avx2.count_bits(digests, count, stride, width, ones);
        return;
    }
    for (size_t start = 0; start < count; start += most) {
        const uint8_t *part = digests + start * stride;
        size_t size = count - start < most ? count - start : most, i = 0;
        for (; i + 8 <= width; i += 8)
            count_columns(part + i, size, stride, 0, ones + 8 * i, 8);
        if (rest > 0) /* the last eight bytes without those that were counted */
            count_columns(part + width - 8, size, stride, (unsigned)(64 - 8 * rest), ones + 8 * i, rest);
    }
}

/* Eight sums of 64 bits a register; a byte of a digest is the mask of those to which the weight is added. */
ND_TARGET_AVX512 static void add_weights(const uint8_t *digests, size_t count, size_t stride, size_t width,
    const int64_t *weights, uint64_t *sums)
{
    const __m512i reversed = _mm512_set_epi64(0, 1, 2, 3, 4, 5, 6, 7);
    for (size_t i = 0; i < width; i++) {
        __m512i sum = _mm512_setzero_si512();
        for (size_t j = 0; j < count; j++)
            sum = _mm512_mask_add_epi64(sum, digests[j * stride + i], sum, _mm512_set1_epi64(weights[j]));
        sum = _mm512_permutexvar_epi64(reversed, sum);
        _mm512_storeu_si512(sums + 8 * i, _mm512_add_epi64(sum, _mm512_loadu_si512(sums + 8 * i)));
    }
}

/* ---- bottom-k ----------------------------------------------------------------------------------------------------------- */

/* Thirty-two values at once are passed over if none is below the limit, which is the rule in a long text. Eight are compressed
 * within the register (to memory it is slow on Zen 4) and stored whole: what lies behind the kept ones is overwritten by the
 * next, and never reaches beyond the place of the last value looked at. */
ND_TARGET_AVX512 static size_t keep_below(const uint64_t *values, size_t count, uint64_t limit, uint64_t *out)
{
    const __m512i limits = _mm512_set1_epi64((long long)limit);
    size_t kept = 0, i = 0;
    for (; i + 32 <= count; i += 32) {
        __m512i eight[4];
        __mmask8 below[4];
        for (size_t n = 0; n < 4; n++) {
            eight[n] = _mm512_loadu_si512(values + i + 8 * n);
            below[n] = _mm512_cmplt_epu64_mask(eight[n], limits);
        }
        if ((below[0] | below[1] | below[2] | below[3]) == 0)
            continue;
        for (size_t n = 0; n < 4; n++) {
            _mm512_storeu_si512(out + kept, _mm512_maskz_compress_epi64(below[n], eight[n]));
            kept += (size_t)_mm_popcnt_u32(below[n]);
        }
    }
    for (; i < count; i += 8) {
        __mmask8 lanes = count - i < 8 ? (__mmask8)first16(count - i) : 0xff;
        __m512i eight = _mm512_maskz_loadu_epi64(lanes, values + i);
        __mmask8 below = _mm512_mask_cmplt_epu64_mask(lanes, eight, limits);
        _mm512_mask_storeu_epi64(out + kept, lanes, _mm512_maskz_compress_epi64(below, eight));
        kept += (size_t)_mm_popcnt_u32(below);
    }
    return kept;
}

const nd_kernels nd_kernels_avx512 = {
    .name = "avx512",
    .premix = premix,
    .minhash_update = minhash_update,
    .count_bits = count_bits,
    .count_bits64 = count_bits64,
    .add_weights = add_weights,
    .keep_below = keep_below,
};

#endif
