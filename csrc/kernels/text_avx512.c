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

#define ND_TIER ND_TARGET_AVX512
#define ND_WIDTH 64
#define ND_MASK __mmask8
#define ND_ABOVE(words, number) _mm512_cmpgt_epu64_mask((__m512i)(words), _mm512_set1_epi64(number))
#define ND_CHOOSE(mask, a, b) (words64) _mm512_mask_mov_epi64((__m512i)(b), mask, (__m512i)(a))
#define ND_LANES(mask) nd_number_of_mask(mask)
#define ND_HALF_PRODUCT(a, b) (words64) _mm512_mul_epu32((__m512i)(a), (__m512i)(b))
#define ND_WIDENED(numbers) (words64) _mm512_cvtepu32_epi64((__m256i)(numbers))
#define ND_SWAPPED(words, order) (words64) _mm512_shuffle_epi8((__m512i)(words), _mm512_broadcast_i32x4(order))
#include "kernels/registers.h"

ND_INLINE void load_16(const uint8_t *bytes, const uint32_t *at, ptrdiff_t shift, words64 *first, words64 *second)
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
    *first = (words64)_mm512_unpacklo_epi64(even, odd);
    *second = (words64)_mm512_unpackhi_epi64(even, odd);
}

#include "kernels/text_loops.h"

const nd_kernels nd_kernels_text_avx512 = {
    .name = "avx512",
    .fold_hashes = fold_hashes,
    .ascii_words = ascii_words,
    .hash_shingles = hash_shingles,
};

#endif
