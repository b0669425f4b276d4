/* text_avx512.c: the loops over text for x86-64 CPUs with AVX-512 as ND_TARGET_AVX512 has it. Same results as in
 * text_scalar.c. */
#include "kernels/kernels.h"
#include "kernels/text.h"
#include "hashes/xxh3.h"

#if ND_HAVE_X86

#include "kernels/intrinsics.h"

/* ---- words ---------------------------------------------------------------------------------------------------------------- */

/* clang-format off */
static const uint8_t one_to_64[64] = {
    1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32,
    33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63, 64,
};
/* clang-format on */

/* 64 bytes at once: the letters and digits as a mask, from it the byte behind each word, where the joiner goes; what is neither
 * drops out by one VPCOMPRESSB. The joiners travel as bytes above 127, so that their places come out as sign bits, and these,
 * compressed from 1, 2, 3, ..., are the starts of the tokens behind them. Compressed in a register: to memory it is slow on Zen 4. */
ND_TARGET_AVX512 static void ascii_words(nd_ascii_words *words, const uint8_t *text, size_t size)
{
    const __m512i places = _mm512_loadu_si512(one_to_64);
    const __m512i joiner = _mm512_set1_epi8((char)words->joiner), marker = _mm512_set1_epi8((char)0x80);
    const __m512i case_bit = _mm512_set1_epi8(0x20), folding = _mm512_set1_epi8((char)words->case_bit);
    uint8_t *out = words->out;
    uint32_t *starts = words->starts;
    uint64_t in_word = words->in_word != 0;
    for (size_t i = 0; i < size; i += 64) {
        const size_t left = size - i;
        const __mmask64 inside = left >= 64 ? ~(__mmask64)0 : ((__mmask64)1 << left) - 1;
        const __m512i raw = _mm512_maskz_loadu_epi8(inside, text + i);
        const __m512i lower = _mm512_or_si512(raw, case_bit);
        const __mmask64 letters = _mm512_cmplt_epu8_mask(_mm512_sub_epi8(lower, _mm512_set1_epi8('a')), _mm512_set1_epi8(26));
        const __mmask64 digits = _mm512_cmplt_epu8_mask(_mm512_sub_epi8(raw, _mm512_set1_epi8('0')), _mm512_set1_epi8(10));
        const __mmask64 word = letters | digits; /* bytes outside are 0 and in no word */
        const __mmask64 behind = (word << 1 | in_word) & ~word & inside;
        in_word = word >> ((left >= 64 ? 64 : left) - 1) & 1;
        const __m512i mapped = _mm512_or_si512(raw, _mm512_maskz_mov_epi8(letters, folding));
        const __m512i packed = _mm512_maskz_compress_epi8(word | behind, _mm512_mask_mov_epi8(mapped, behind, marker));
        const __mmask64 joiners = _mm512_movepi8_mask(packed);
        _mm512_storeu_si512(out, _mm512_mask_mov_epi8(packed, joiners, joiner));
        const __m512i ends = _mm512_maskz_compress_epi8(joiners, places);
        const __m512i base = _mm512_set1_epi32((int)(uint32_t)(out - words->bytes));
        _mm512_storeu_si512(starts, _mm512_add_epi32(base, _mm512_cvtepu8_epi32(_mm512_castsi512_si128(ends))));
        const size_t tokens = (size_t)_mm_popcnt_u64(behind);
        if (tokens > 16)
            _mm512_storeu_si512(starts + 16, _mm512_add_epi32(base, _mm512_cvtepu8_epi32(_mm512_extracti32x4_epi32(ends, 1))));
        starts += tokens;
        out += _mm_popcnt_u64(word | behind);
    }
    words->out = out;
    words->starts = starts;
    words->in_word = (int)in_word;
}

/* ---- hashes of shingles --------------------------------------------------------------------------------------------------- */

/* Low half XOR high half of eight 128-bit products, from the four products of their 32-bit halves. */
ND_TARGET_AVX512 static inline __m512i multiply_fold(__m512i a, __m512i b)
{
    const __m512i low_half = _mm512_set1_epi64(0xFFFFFFFF);
    const __m512i a_high = _mm512_srli_epi64(a, 32), b_high = _mm512_srli_epi64(b, 32);
    const __m512i low_low = _mm512_mul_epu32(a, b), high_low = _mm512_mul_epu32(a_high, b);
    const __m512i low_high = _mm512_mul_epu32(a, b_high), high_high = _mm512_mul_epu32(a_high, b_high);
    const __m512i middle = _mm512_add_epi64(
        _mm512_add_epi64(_mm512_srli_epi64(low_low, 32), _mm512_and_si512(high_low, low_half)), low_high);
    const __m512i high = _mm512_add_epi64(_mm512_add_epi64(high_high, _mm512_srli_epi64(high_low, 32)),
        _mm512_srli_epi64(middle, 32));
    /* (low_low & low_half) ^ high ^ (middle << 32) */
    const __m512i part = _mm512_ternarylogic_epi64(low_low, low_half, high, 0x6A);
    return _mm512_xor_si512(part, _mm512_slli_epi64(middle, 32));
}

/* The 16 bytes at each of eight addresses: their first halves in *first, their second halves in *second. */
ND_TARGET_AVX512 static inline void load_16(const uint8_t *bytes, const uint32_t *at, ptrdiff_t shift, __m512i *first,
    __m512i *second)
{
#define AT(i) _mm_loadu_si128((const __m128i *)(bytes + at[i] + shift))
    __m512i even = _mm512_castsi128_si512(AT(0)), odd = _mm512_castsi128_si512(AT(1));
    even = _mm512_mask_broadcast_i64x2(even, 0x0C, AT(2));
    odd = _mm512_mask_broadcast_i64x2(odd, 0x0C, AT(3));
    even = _mm512_mask_broadcast_i64x2(even, 0x30, AT(4));
    odd = _mm512_mask_broadcast_i64x2(odd, 0x30, AT(5));
    even = _mm512_mask_broadcast_i64x2(even, 0xC0, AT(6));
    odd = _mm512_mask_broadcast_i64x2(odd, 0xC0, AT(7));
#undef AT
    *first = _mm512_unpacklo_epi64(even, odd);
    *second = _mm512_unpackhi_epi64(even, odd);
}

/* The secret's words that the lengths from 9 to 64 use, with the seed in them, in every lane. */
typedef struct keys {
    __m512i short_first, short_last;
    __m512i mix[8]; /* secret[8 i] with the seed added or subtracted */
} keys;

ND_TARGET_AVX512 static inline keys make_keys(uint64_t seed)
{
    const uint8_t *const secret = nd_xxh3_secret;
    keys made;
    made.short_first = _mm512_set1_epi64((long long)((nd_read64(secret + 24) ^ nd_read64(secret + 32)) + seed));
    made.short_last = _mm512_set1_epi64((long long)((nd_read64(secret + 40) ^ nd_read64(secret + 48)) - seed));
    for (size_t i = 0; i < 8; i++)
        made.mix[i] = _mm512_set1_epi64((long long)(nd_read64(secret + 8 * i) + (i % 2 == 0 ? seed : 0 - seed)));
    return made;
}

ND_TARGET_AVX512 static inline __m512i mix(const keys *with, size_t place, __m512i first, __m512i second)
{
    return multiply_fold(_mm512_xor_si512(first, with->mix[2 * place]), _mm512_xor_si512(second, with->mix[2 * place + 1]));
}

/* XXH3-64 of eight shingles at once where they have 9 to 64 bytes: the class of 9 to 16 bytes is one product, that of 17 to 32
 * two, that of 33 to 64 four, so that the first product is shared, and the others are added under a mask. What is shorter or
 * longer is done again one by one. */
ND_TARGET_AVX512 static void hash_shingles(const nd_shingles *shingles, uint64_t *hashes)
{
    const __m512i swap = _mm512_set_epi8(8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1,
        2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6,
        7);
    const keys with = make_keys(shingles->seed);
    const uint8_t *const bytes = shingles->bytes;
    const ptrdiff_t behind = -(ptrdiff_t)shingles->joiner_size;
    const __m256i joiner = _mm256_set1_epi32((int)(uint32_t)shingles->joiner_size);
    size_t i = 0;
    for (; i + 8 <= shingles->count; i += 8) {
        const uint32_t *const starts = shingles->starts + i, *const ends = starts + shingles->tokens;
        const __m256i sizes32 = _mm256_sub_epi32(_mm256_sub_epi32(_mm256_loadu_si256((const __m256i *)ends), joiner),
            _mm256_loadu_si256((const __m256i *)starts));
        const __m512i sizes = _mm512_cvtepu32_epi64(sizes32);
        const __mmask8 above_16 = _mm256_cmpgt_epu32_mask(sizes32, _mm256_set1_epi32(16));
        const __mmask8 above_32 = _mm256_cmpgt_epu32_mask(sizes32, _mm256_set1_epi32(32));
        __mmask8 others = _mm256_cmpgt_epu32_mask(_mm256_sub_epi32(sizes32, _mm256_set1_epi32(9)), _mm256_set1_epi32(64 - 9));
        __m512i first, second, third, last;
        load_16(bytes, starts, 0, &first, &second);
        load_16(bytes, ends, behind - 16, &third, &last);
        const __m512i a = _mm512_xor_si512(first, _mm512_mask_mov_epi64(with.short_first, above_16, with.mix[0]));
        const __m512i b = _mm512_xor_si512(_mm512_mask_mov_epi64(last, above_16, second),
            _mm512_mask_mov_epi64(with.short_last, above_16, with.mix[1]));
        const __m512i short_sum = _mm512_add_epi64(_mm512_add_epi64(sizes, _mm512_shuffle_epi8(a, swap)), b);
        const __m512i long_sum = _mm512_mullo_epi64(sizes, _mm512_set1_epi64((long long)ND_PRIME64_1));
        __m512i hash = _mm512_mask_mov_epi64(short_sum, above_16, long_sum);
        hash = _mm512_add_epi64(hash, multiply_fold(a, b));
        hash = _mm512_mask_add_epi64(hash, above_16, hash, mix(&with, 1, third, last));
        if (above_32) {
            load_16(bytes, starts, 16, &first, &second);
            load_16(bytes, ends, behind - 32, &third, &last);
            hash = _mm512_mask_add_epi64(hash, above_32, hash, mix(&with, 2, first, second));
            hash = _mm512_mask_add_epi64(hash, above_32, hash, mix(&with, 3, third, last));
        }
        hash = _mm512_xor_si512(hash, _mm512_srli_epi64(hash, 37));
        hash = _mm512_mullo_epi64(hash, _mm512_set1_epi64((long long)ND_PRIME_MIX1));
        hash = _mm512_xor_si512(hash, _mm512_srli_epi64(hash, 32));
        _mm512_storeu_si512(hashes + i, hash);
        for (; others != 0; others = (__mmask8)(others & (others - 1))) {
            const size_t lane = (size_t)__builtin_ctz(others);
            hashes[i + lane] = nd_shingle_hash(shingles, i + lane);
        }
    }
    for (; i < shingles->count; i++)
        hashes[i] = nd_shingle_hash(shingles, i);
}

const nd_kernels nd_kernels_text_avx512 = {
    .name = "avx512",
    .ascii_words = ascii_words,
    .hash_shingles = hash_shingles,
};

#endif
