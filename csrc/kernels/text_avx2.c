/* text_avx2.c: the loops over text for x86-64 CPUs with AVX2 and POPCNT. Same results as in text_scalar.c. */
#include "kernels/kernels.h"
#include "kernels/text.h"

#if ND_HAVE_X86

#include <immintrin.h>

/* For each 8-bit mask the shuffle that moves the bytes under its ones to the front: one byte a number, ascending. */
#define TERM(mask, n) (((mask) >> (n)) % 2 ? (uint64_t)(n) << 8 * __builtin_popcount((mask) & ((1u << (n)) - 1u)) : 0u)
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

/* ---- hashes of shingles --------------------------------------------------------------------------------------------------- */

/* Low half XOR high half of four 128-bit products, from the four products of their 32-bit halves. */
ND_TARGET_AVX2 static inline __m256i multiply_fold(__m256i a, __m256i b)
{
    const __m256i low_half = _mm256_set1_epi64x(0xFFFFFFFF);
    const __m256i a_high = _mm256_srli_epi64(a, 32), b_high = _mm256_srli_epi64(b, 32);
    const __m256i low_low = _mm256_mul_epu32(a, b), high_low = _mm256_mul_epu32(a_high, b);
    const __m256i low_high = _mm256_mul_epu32(a, b_high), high_high = _mm256_mul_epu32(a_high, b_high);
    const __m256i middle = _mm256_add_epi64(
        _mm256_add_epi64(_mm256_srli_epi64(low_low, 32), _mm256_and_si256(high_low, low_half)), low_high);
    const __m256i high = _mm256_add_epi64(_mm256_add_epi64(high_high, _mm256_srli_epi64(high_low, 32)),
        _mm256_srli_epi64(middle, 32));
    return _mm256_xor_si256(high, _mm256_blend_epi32(low_low, _mm256_slli_epi64(middle, 32), 0xAA));
}

/* a * b modulo 2^64, b the same in all lanes. */
ND_TARGET_AVX2 static inline __m256i multiply_low(__m256i a, uint64_t b)
{
    const __m256i low = _mm256_set1_epi64x((long long)b), high = _mm256_set1_epi64x((long long)(b >> 32));
    const __m256i cross = _mm256_add_epi64(_mm256_mul_epu32(_mm256_srli_epi64(a, 32), low), _mm256_mul_epu32(a, high));
    return _mm256_add_epi64(_mm256_mul_epu32(a, low), _mm256_slli_epi64(cross, 32));
}

/* The 16 bytes at each of four addresses: their first halves in *first, their second halves in *second. */
ND_TARGET_AVX2 static inline void load_16(const uint8_t *bytes, const uint32_t *at, ptrdiff_t shift, __m256i *first,
    __m256i *second)
{
#define AT(i) _mm_loadu_si128((const __m128i *)(bytes + at[i] + shift))
    const __m256i even = _mm256_inserti128_si256(_mm256_castsi128_si256(AT(0)), AT(2), 1);
    const __m256i odd = _mm256_inserti128_si256(_mm256_castsi128_si256(AT(1)), AT(3), 1);
#undef AT
    *first = _mm256_unpacklo_epi64(even, odd);
    *second = _mm256_unpackhi_epi64(even, odd);
}

typedef struct keys {
    __m256i short_first, short_last;
    __m256i mix[8]; /* secret[8 i] with the seed added or subtracted */
} keys;

ND_TARGET_AVX2 static inline keys make_keys(uint64_t seed)
{
    const uint8_t *const secret = nd_xxh3_secret;
    keys made;
    made.short_first = _mm256_set1_epi64x((long long)((nd_read64(secret + 24) ^ nd_read64(secret + 32)) + seed));
    made.short_last = _mm256_set1_epi64x((long long)((nd_read64(secret + 40) ^ nd_read64(secret + 48)) - seed));
    for (size_t i = 0; i < 8; i++)
        made.mix[i] = _mm256_set1_epi64x((long long)(nd_read64(secret + 8 * i) + (i % 2 == 0 ? seed : 0 - seed)));
    return made;
}

ND_TARGET_AVX2 static inline __m256i mix(const keys *with, size_t place, __m256i first, __m256i second)
{
    return multiply_fold(_mm256_xor_si256(first, with->mix[2 * place]), _mm256_xor_si256(second, with->mix[2 * place + 1]));
}

/* XXH3-64 of four shingles of 9 to 64 bytes, as in text_avx512.c; *others: the lanes of other sizes, whose hashes are to
 * be made again. */
ND_TARGET_AVX2 static inline __m256i hash_four(const nd_shingles *shingles, const keys *with, size_t i, int *others)
{
    const __m256i swap = _mm256_setr_epi8(7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 15, 14,
        13, 12, 11, 10, 9, 8);
    const uint8_t *const bytes = shingles->bytes;
    const uint32_t *const starts = shingles->starts + i, *const ends = starts + shingles->tokens;
    const ptrdiff_t behind = -(ptrdiff_t)shingles->joiner_size;
    const __m128i spans = _mm_sub_epi32(_mm_loadu_si128((const __m128i *)ends), _mm_loadu_si128((const __m128i *)starts));
    const __m256i sizes = _mm256_cvtepu32_epi64(_mm_sub_epi32(spans, _mm_set1_epi32((int)(uint32_t)shingles->joiner_size)));
    const __m256i above_16 = _mm256_cmpgt_epi64(sizes, _mm256_set1_epi64x(16));
    const __m256i above_32 = _mm256_cmpgt_epi64(sizes, _mm256_set1_epi64x(32));
    const __m256i outside = _mm256_or_si256(_mm256_cmpgt_epi64(_mm256_set1_epi64x(9), sizes),
        _mm256_cmpgt_epi64(sizes, _mm256_set1_epi64x(64)));
    *others = _mm256_movemask_pd(_mm256_castsi256_pd(outside));
    __m256i first, second, third, last;
    load_16(bytes, starts, 0, &first, &second);
    load_16(bytes, ends, behind - 16, &third, &last);
    const __m256i a = _mm256_xor_si256(first, _mm256_blendv_epi8(with->short_first, with->mix[0], above_16));
    const __m256i b = _mm256_xor_si256(_mm256_blendv_epi8(last, second, above_16),
        _mm256_blendv_epi8(with->short_last, with->mix[1], above_16));
    const __m256i short_sum = _mm256_add_epi64(_mm256_add_epi64(sizes, _mm256_shuffle_epi8(a, swap)), b);
    __m256i hash = _mm256_blendv_epi8(short_sum, multiply_low(sizes, ND_PRIME64_1), above_16);
    hash = _mm256_add_epi64(hash, multiply_fold(a, b));
    hash = _mm256_add_epi64(hash, _mm256_and_si256(above_16, mix(with, 1, third, last)));
    if (!_mm256_testz_si256(above_32, above_32)) {
        load_16(bytes, starts, 16, &first, &second);
        load_16(bytes, ends, behind - 32, &third, &last);
        hash = _mm256_add_epi64(hash, _mm256_and_si256(above_32, mix(with, 2, first, second)));
        hash = _mm256_add_epi64(hash, _mm256_and_si256(above_32, mix(with, 3, third, last)));
    }
    hash = multiply_low(_mm256_xor_si256(hash, _mm256_srli_epi64(hash, 37)), ND_PRIME_MIX1);
    return _mm256_xor_si256(hash, _mm256_srli_epi64(hash, 32));
}

ND_TARGET_AVX2 static void hash_shingles(const nd_shingles *shingles, uint64_t *hashes)
{
    const keys with = make_keys(shingles->seed);
    size_t i = 0;
    for (; i + 4 <= shingles->count; i += 4) {
        int others;
        _mm256_storeu_si256((__m256i *)(hashes + i), hash_four(shingles, &with, i, &others));
        for (; others != 0; others &= others - 1) {
            const size_t lane = (size_t)__builtin_ctz((unsigned)others);
            hashes[i + lane] = nd_shingle_hash(shingles, i + lane);
        }
    }
    for (; i < shingles->count; i++)
        hashes[i] = nd_shingle_hash(shingles, i);
}

const nd_kernels nd_kernels_text_avx2 = {
    .name = "avx2",
    .ascii_words = ascii_words,
    .hash_shingles = hash_shingles,
};

#endif
