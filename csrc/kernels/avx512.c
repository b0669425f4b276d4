/* avx512.c: the kernels for x86-64 CPUs with AVX-512 as Ice Lake and Zen 4 have it. Same names and same results as in
 * scalar.c; what is not here is hardly faster (below 1.2 times, measured on Zen 4) than in avx2.c: MinHash with
 * sixteen lanes was 0.75 times as fast for 10 hashes and 1.03 to 1.10 times from 256 on, 128 to 512 slots. */
#include "kernels/kernels.h"

#if ND_HAVE_X86

#include "kernels/intrinsics.h"

/* ---- MinHash ------------------------------------------------------------------------------------------------------------ */

ND_TARGET_AVX512 static __m512i fold(__m512i hash)
{
    return _mm512_mullo_epi64(_mm512_xor_si512(hash, _mm512_srli_epi64(hash, 32)),
        _mm512_set1_epi64((long long)ND_PREMIX_FACTOR));
}

/* Products of 64 bits are one instruction here, three and their sums in AVX2: 1.5 times as fast. */
ND_TARGET_AVX512 static void premix(const uint64_t *hashes, size_t count, uint32_t *x)
{
    size_t j = 0;
    for (; j + 8 <= count; j += 8) {
        __m512i folded = _mm512_srli_epi64(fold(fold(_mm512_loadu_si512(hashes + j))), 32);
        _mm256_storeu_si256((__m256i *)(x + j), _mm512_cvtepi64_epi32(folded));
    }
    nd_kernels_scalar.premix(hashes + j, count - j, x + j);
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
    const __m512i reversed = _mm512_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23,
        24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53,
        54, 55, 56, 57, 58, 59, 60, 61, 62, 63);
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

const nd_kernels nd_kernels_avx512 = {
    .name = "avx512",
    .premix = premix,
    .count_bits = count_bits,
    .count_bits64 = count_bits64,
    .add_weights = add_weights,
};

#endif
