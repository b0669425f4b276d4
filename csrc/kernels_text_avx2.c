/* kernels_text_avx2.c: the loops over text for x86-64 CPUs with AVX2 and POPCNT. Same results as in kernels_text_scalar.c. */
#include "internal.h"

#if ND_HAVE_X86

#include <immintrin.h>

/* For each 8-bit mask the shuffle that moves the bytes under its ones to the front: one byte a number, ascending. */
#define TERM(mask, n) ((mask) >> (n) & 1u ? (uint64_t)(n) << 8 * __builtin_popcount((mask) & ((1u << (n)) - 1u)) : 0u)
#define ENTRY(m) (TERM(m, 0) | TERM(m, 1) | TERM(m, 2) | TERM(m, 3) | TERM(m, 4) | TERM(m, 5) | TERM(m, 6) | TERM(m, 7))
#define FOUR(m) ENTRY(m), ENTRY((m) + 1u), ENTRY((m) + 2u), ENTRY((m) + 3u)
#define SIXTEEN(m) FOUR(m), FOUR((m) + 4u), FOUR((m) + 8u), FOUR((m) + 12u)
#define SIXTY_FOUR(m) SIXTEEN(m), SIXTEEN((m) + 16u), SIXTEEN((m) + 32u), SIXTEEN((m) + 48u)
static const uint64_t to_front[256] = {SIXTY_FOUR(0u), SIXTY_FOUR(64u), SIXTY_FOUR(128u), SIXTY_FOUR(192u)};

/* Stores the bytes under the mask's ones; returns where the next go. Writes 8 bytes behind them at most. */
ND_TARGET_AVX2 static inline uint8_t *store_kept(uint8_t *out, __m128i bytes, uint32_t mask)
{
    const uint32_t low = mask & 0xFF, high = mask >> 8;
    const __m128i order = _mm_set_epi64x((long long)(to_front[high] + 0x0808080808080808), (long long)to_front[low]);
    const __m128i packed = _mm_shuffle_epi8(bytes, order);
    _mm_storel_epi64((__m128i *)out, packed);
    out += _mm_popcnt_u32(low);
    _mm_storel_epi64((__m128i *)out, _mm_unpackhi_epi64(packed, packed));
    return out + _mm_popcnt_u32(high);
}

/* 32 bytes, of which `inside` are text: the words as a mask, the first byte behind each word from it, and where these two stay. */
ND_TARGET_AVX2 static inline void take_32(nd_ascii_words *words, __m256i raw, uint32_t inside)
{
    const __m256i lower = _mm256_or_si256(raw, _mm256_set1_epi8(0x20));
    const __m256i letters = _mm256_and_si256(_mm256_cmpgt_epi8(lower, _mm256_set1_epi8('a' - 1)),
                                             _mm256_cmpgt_epi8(_mm256_set1_epi8('z' + 1), lower));
    const __m256i digits = _mm256_and_si256(_mm256_cmpgt_epi8(raw, _mm256_set1_epi8('0' - 1)),
                                            _mm256_cmpgt_epi8(_mm256_set1_epi8('9' + 1), raw));
    const __m256i in_words = _mm256_or_si256(letters, digits);
    const uint32_t word = (uint32_t)_mm256_movemask_epi8(in_words) & inside;
    const uint32_t behind = (word << 1 | (uint32_t)words->in_word) & ~word & inside;
    const uint32_t kept = word | behind;
    words->in_word = (word & (inside ^ inside >> 1)) != 0; /* the last one inside */
    /* A digit has the case bit already; a byte that stays and is of no word is a joiner. */
    const __m256i mapped = _mm256_or_si256(raw, _mm256_set1_epi8((char)words->case_bit));
    const __m256i bytes = _mm256_blendv_epi8(_mm256_set1_epi8((char)words->joiner), mapped, in_words);

    uint8_t *const out = words->out;
    words->out = store_kept(out, _mm256_castsi256_si128(bytes), kept & 0xFFFF);
    words->out = store_kept(words->out, _mm256_extracti128_si256(bytes, 1), kept >> 16);

    const uint32_t base = (uint32_t)(out - words->bytes);
    uint32_t *starts = words->starts;
    words->starts += _mm_popcnt_u32(behind);
    uint32_t left = behind;
    do { /* eight at once, whether there are so many or not: a branch for each would be guessed wrong once a block */
        for (size_t i = 0; i < 8; i++) {
            starts[i] = base + (uint32_t)_mm_popcnt_u32(kept & (left ^ (left - 1)));
            left &= left - 1;
        }
        starts += 8;
    } while (left != 0);
}

ND_TARGET_AVX2 static void ascii_words(nd_ascii_words *words, const uint8_t *text, size_t size)
{
    nd_ascii_words mine = *words; /* stays in registers */
    size_t i = 0;
    for (; i + 32 <= size; i += 32)
        take_32(&mine, _mm256_loadu_si256((const __m256i *)(text + i)), 0xFFFFFFFF);
    if (i < size) {
        uint8_t rest[32] = {0};
        memcpy(rest, text + i, size - i);
        take_32(&mine, _mm256_loadu_si256((const __m256i *)rest), (1u << (size - i)) - 1);
    }
    *words = mine;
}

const nd_kernels nd_kernels_text_avx2 = {
    .name = "avx2",
    .ascii_words = ascii_words,
};

#endif
