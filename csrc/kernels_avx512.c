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

const nd_kernels nd_kernels_avx512 = {
    .name = "avx512",
    .premix = premix,
    .minhash_update = minhash_update,
};

#endif
