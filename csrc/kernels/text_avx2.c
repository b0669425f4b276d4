/* text_avx2.c: the loops over text for x86-64 CPUs with AVX2 and POPCNT. Same results as in text_scalar.c. */
#include "kernels/kernels.h"
#include "kernels/text.h"

#if ND_HAVE_X86

#include "kernels/intrinsics.h"

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

/* The bytes of ASCII letters and digits. */
ND_TARGET_AVX2 static inline __m256i ascii_in_words(__m256i raw)
{
    const __m256i lower = _mm256_or_si256(raw, _mm256_set1_epi8(0x20));
    const __m256i letters = _mm256_and_si256(_mm256_cmpgt_epi8(lower, _mm256_set1_epi8('a' - 1)),
        _mm256_cmpgt_epi8(_mm256_set1_epi8('z' + 1), lower));
    const __m256i digits = _mm256_and_si256(_mm256_cmpgt_epi8(raw, _mm256_set1_epi8('0' - 1)),
        _mm256_cmpgt_epi8(_mm256_set1_epi8('9' + 1), raw));
    return _mm256_or_si256(letters, digits);
}

/* 32 bytes, of which `inside` are taken, and those of words, as they go out: the first byte behind each word becomes the joiner,
 * and these and the words stay. */
ND_TARGET_AVX2 static inline void take_32(nd_ascii_words *words, __m256i mapped, __m256i in_words, uint32_t inside)
{
    const uint32_t word = (uint32_t)_mm256_movemask_epi8(in_words) & inside;
    const uint32_t behind = (word << 1 | (uint32_t)words->in_word) & ~word & inside;
    const uint32_t kept = word | behind;
    words->in_word = (word & (inside ^ inside >> 1)) != 0; /* the last one inside */
    /* A byte that stays and is of no word is a joiner. */
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

/* The same of ASCII; a digit has the case bit already. */
ND_TARGET_AVX2 static inline void take_ascii(nd_ascii_words *words, __m256i raw, uint32_t inside)
{
    take_32(words, _mm256_or_si256(raw, _mm256_set1_epi8((char)words->case_bit)), ascii_in_words(raw), inside);
}

ND_TARGET_AVX2 static void ascii_words(nd_ascii_words *words, const uint8_t *text, size_t size)
{
    nd_ascii_words mine = *words; /* stays in registers */
    size_t i = 0;
    for (; i + 32 <= size; i += 32)
        take_ascii(&mine, _mm256_loadu_si256((const __m256i *)(text + i)), 0xFFFFFFFF);
    if (i < size) {
        uint8_t rest[32] = {0};
        memcpy(rest, text + i, size - i);
        take_ascii(&mine, _mm256_loadu_si256((const __m256i *)rest), (1u << (size - i)) - 1);
    }
    *words = mine;
}

/* ---- words beyond ASCII --------------------------------------------------------------------------------------------------- */

/* What one of 64 bytes says at each place, by the low six bits of the index. Shared by the tables: which quarter an index is in. */
typedef struct sixths {
    __m256i quarter[4]; /* the index in its quarter, or a negative number where it is in another one */
} sixths;

ND_TARGET_AVX2 static inline sixths sixths_of(__m256i index)
{
    sixths made;
    const __m256i low = _mm256_and_si256(index, _mm256_set1_epi8(0x3F));
    for (int i = 0; i < 4; i++) /* 0x70 and less stays positive, and shuffles take the lower half of that */
        made.quarter[i] = _mm256_adds_epu8(_mm256_xor_si256(low, _mm256_set1_epi8((char)(i << 4))), _mm256_set1_epi8(0x70));
    return made;
}

ND_TARGET_AVX2 static inline __m256i look_up(const uint8_t *table, const sixths *at)
{
    __m256i found = _mm256_setzero_si256();
    for (int i = 0; i < 4; i++) {
        const __m256i sixteen = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(table + 16 * i)));
        found = _mm256_or_si256(found, _mm256_shuffle_epi8(sixteen, at->quarter[i]));
    }
    return found;
}

/* Each byte from the place before, 0 from the first; and from the place behind. */
ND_TARGET_AVX2 static inline __m256i moved_up(__m256i bytes)
{
    return _mm256_alignr_epi8(bytes, _mm256_permute2x128_si256(bytes, bytes, 0x08), 15);
}

ND_TARGET_AVX2 static inline __m256i moved_down(__m256i bytes)
{
    return _mm256_alignr_epi8(_mm256_permute2x128_si256(bytes, bytes, 0x81), bytes, 1);
}

#define MASK(vector) ((uint32_t)_mm256_movemask_epi8(vector))
#define HAS(kinds, bit) MASK(_mm256_slli_epi16(kinds, 7 - __builtin_ctz(bit))) /* the places whose kind has it */

/* Looks up the code points of two and three bytes, page by page, up to one of a page that stands alone; last2, last3: their last
 * bytes. What they become goes to *mapped, their kinds to the places of their last bytes. */
ND_TARGET_AVX2 static inline __m256i look_up_pages(const nd_letters *letters, const uint8_t *text, __m256i raw, uint32_t last2,
    uint32_t last3, __m256i *mapped)
{
    const sixths at = sixths_of(raw);
    const __m256i before = moved_up(raw), first = moved_up(before);
    __m256i kinds = _mm256_setzero_si256();
    for (uint32_t left = last2 | last3; left != 0;) {
        const unsigned place = (unsigned)__builtin_ctz(left);
        const int two = (int)(last2 >> place & 1);
        const uint8_t lead = text[place - (two ? 1 : 2)], second = text[place - 1];
        __m256i here = _mm256_cmpeq_epi8(before, _mm256_set1_epi8((char)second));
        uint32_t mask = MASK(here) & last2;
        if (!two) {
            const __m256i same_lead = _mm256_cmpeq_epi8(first, _mm256_set1_epi8((char)lead));
            here = lead == 0xEB || lead == 0xEC ? same_lead : _mm256_and_si256(here, same_lead); /* all pages are Hangul */
            mask = MASK(here) & last3;
        }
        left &= ~mask;
        const size_t block = two ? lead & 0x1F : (size_t)(lead & 0xF) << 6 | (second & 0x3F);
        const nd_letter_page *const page = &letters->pages[!two && block < 0x20 ? ND_LETTER_PAGES - 1 : letters->page_of[block]];
        if (page == &letters->pages[ND_LETTER_PAGES - 3])
            left = 0; /* what follows is not taken here */
        kinds = _mm256_blendv_epi8(kinds, look_up(page->kind, &at), here);
        *mapped = _mm256_blendv_epi8(*mapped, look_up(page->trail, &at), here);
        if (two)
            *mapped = _mm256_blendv_epi8(*mapped, moved_down(look_up(page->lead, &at)), moved_down(here));
    }
    return kinds;
}

/* Takes what it can of 32 bytes, of which those in `there` are text; returns how many. */
ND_TARGET_AVX2 static inline size_t take_letters(nd_ascii_words *words, const nd_letters *letters, const uint8_t *text,
    uint32_t there)
{
    const __m256i raw = _mm256_loadu_si256((const __m256i *)text);
    const uint32_t high = MASK(raw) & there;
    const uint32_t following = MASK(_mm256_cmpgt_epi8(_mm256_set1_epi8((char)0xC0), raw)) & there;
    const uint32_t from_c2 = MASK(_mm256_cmpgt_epi8(raw, _mm256_set1_epi8((char)0xC1))) & high;
    const __m256i above_df = _mm256_cmpgt_epi8(raw, _mm256_set1_epi8((char)0xDF));
    const uint32_t from_e0 = MASK(above_df) & high;
    const uint32_t from_f0 = MASK(_mm256_cmpgt_epi8(raw, _mm256_set1_epi8((char)0xEF))) & high;
    const uint32_t last2 = (from_c2 & ~from_e0) << 1 & following;
    const uint32_t last3 = (from_e0 & ~from_f0) << 2 & following << 1 & following, last = last2 | last3;
    const __m256i ascii = ascii_in_words(raw);
    __m256i mapped = _mm256_or_si256(raw, _mm256_and_si256(ascii, _mm256_set1_epi8((char)words->case_bit)));
    const __m256i kinds = look_up_pages(letters, text, raw, last2, last3, &mapped);
    const __m256i of_words = _mm256_set1_epi8(ND_LETTER_BEGINS | ND_LETTER_CONTINUES);
    const __m256i ends = _mm256_cmpgt_epi8(_mm256_and_si256(kinds, of_words), _mm256_setzero_si256()), inner = moved_down(ends);
    const __m256i begins = _mm256_and_si256(moved_down(inner),
        _mm256_and_si256(above_df, raw)); /* of three bytes: the sign says */
    const __m256i in_words = _mm256_or_si256(_mm256_or_si256(ascii, ends), _mm256_or_si256(inner, begins));
    const uint32_t word = MASK(in_words), bound = HAS(kinds, ND_LETTER_BOUND) & last;
#define FIRST_OF(mask) (((mask)&last2) >> 1 | ((mask)&last3) >> 2)
    const uint32_t first = FIRST_OF(last), of_kind = FIRST_OF(MASK(_mm256_cmpgt_epi8(kinds, _mm256_setzero_si256())));
    const uint32_t first_bound = FIRST_OF(bound);
    const uint32_t whole = first | last | last3 >> 1; /* all bytes of code points of two and three */
    /* What cannot be taken: no code point, one of no kind, a mark without a word, two bound marks. */
    const uint32_t bad = (high & ~whole) | (first & ~of_kind) | (first_bound & (bound << 1 | 1)) |
                         (FIRST_OF(HAS(kinds, ND_LETTER_CONTINUES)) & ~(word << 1 | (uint32_t)(words->in_word != 0)));
    const uint32_t alone = FIRST_OF(HAS(kinds, ND_LETTER_ALONE)); /* the text can be cut before it */
    const uint32_t cuts = ((there & ~high) | (of_kind & ~first_bound)) & (bad == 0 ? 0xFFFFFFFF : (bad & (0 - bad)) - 1) &
                          (alone ^ (alone - 1));
    if (cuts <= 1)
        return 0;
    const unsigned taken = 31 - (unsigned)__builtin_clz(cuts);
    take_32(words, mapped, in_words, (1u << taken) - 1);
    return taken;
}

/* Ideographs of three bytes from E3 90 to E9, but for E4 B7: up to seven of eight that are read, each with a joiner, to *out. So
 * many that one more follows. Reads 32 bytes. */
ND_TARGET_AVX2 static inline size_t take_ideographs(nd_ascii_words *words, const uint8_t *text)
{
    const __m256i raw = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)text)),
        _mm_loadu_si128((const __m128i *)(text + 12)), 1);
    const __m256i next = _mm256_srli_si256(raw, 1), above_e3 = _mm256_sub_epi8(raw, _mm256_set1_epi8((char)0xE3));
    const __m256i lead = _mm256_cmpeq_epi8(_mm256_min_epu8(above_e3, _mm256_set1_epi8(6)), above_e3);
    const __m256i kana = _mm256_and_si256(_mm256_cmpeq_epi8(raw, _mm256_set1_epi8((char)0xE3)),
        _mm256_cmpgt_epi8(_mm256_set1_epi8((char)0x90), next));
    const __m256i hexagrams = _mm256_and_si256(_mm256_cmpeq_epi8(raw, _mm256_set1_epi8((char)0xE4)),
        _mm256_cmpeq_epi8(next, _mm256_set1_epi8((char)0xB7)));
    const uint32_t leads = MASK(_mm256_andnot_si256(_mm256_or_si256(kana, hexagrams), lead));
    const uint32_t following = MASK(_mm256_cmpgt_epi8(_mm256_set1_epi8((char)0xC0), raw));
    const uint32_t others = ~((leads & 0x02490249) | (following & 0x0DB60DB6)) & 0x0FFF0FFF;
    const unsigned run = (unsigned)__builtin_ctz((others & 0xFFF) | others >> 16 << 12 | 1u << 24) / 3;
    if (run < 2)
        return 0;
    *words->out = words->joiner; /* of the word before */
    words->out += words->in_word != 0;
    *words->starts = (uint32_t)(words->out - words->bytes);
    words->starts += words->in_word != 0;
    words->in_word = 0;
    const __m256i spread = _mm256_setr_epi8(0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1, 0, 1, 2, -1, 3, 4, 5, -1, 6, 7,
        8, -1, 9, 10, 11, -1);
    const __m256i joiners = _mm256_set1_epi32((int)((uint32_t)words->joiner << 24));
    _mm256_storeu_si256((__m256i *)words->out, _mm256_or_si256(_mm256_shuffle_epi8(raw, spread), joiners));
    const __m256i base = _mm256_set1_epi32((int)(uint32_t)(words->out - words->bytes));
    _mm256_storeu_si256((__m256i *)words->starts, _mm256_add_epi32(base, _mm256_setr_epi32(4, 8, 12, 16, 20, 24, 28, 32)));
    words->out += 4 * (run - 1);
    words->starts += run - 1;
    return 3 * (run - 1);
}

/* Some code points one by one that stand alone, or between such; returns their bytes. */
ND_TARGET_AVX2 static inline size_t take_alone(nd_ascii_words *words, const nd_letters *letters, const uint8_t *text, size_t size)
{
    size_t at = 0;
    nd_letter here = nd_letter_at(letters, text, size);
    for (int i = 0; i < 4 && here.kind != ND_LETTER_OTHER && at + here.length < size; i++) {
        const nd_letter next = nd_letter_at(letters, text + at + here.length, size - at - here.length);
        if (next.kind == ND_LETTER_OTHER || (next.kind & ND_LETTER_CONTINUES))
            break;
        if (here.kind == ND_LETTER_ALONE)
            nd_take_alone(words, here.bytes);
        else if (here.kind != ND_LETTER_SEPARATES || words->in_word)
            break;
        at += here.length;
        here = next;
    }
    return at;
}

ND_TARGET_AVX2 static inline size_t take_some(nd_ascii_words *words, const nd_letters *letters, const uint8_t *text, size_t size)
{
    size_t taken = 0;
    if (size < 32) {
        uint8_t rest[32] = {0};
        memcpy(rest, text, size);
        taken = take_letters(words, letters, rest, (1u << size) - 1);
    } else if (MASK(_mm256_loadu_si256((const __m256i *)text)) == 0) {
        take_ascii(words, _mm256_loadu_si256((const __m256i *)text), 0x7FFFFFFF);
        return 31;
    } else if (text[0] >= 0xE3 && text[0] <= 0xE9) {
        taken = take_ideographs(words, text);
        if (taken == 0)
            taken = take_alone(words, letters, text, size);
        if (taken == 0)
            taken = take_letters(words, letters, text, 0xFFFFFFFF);
        return taken;
    } else {
        taken = take_letters(words, letters, text, 0xFFFFFFFF);
    }
    return taken > 0 ? taken : take_alone(words, letters, text, size);
}

ND_TARGET_AVX2 static size_t words_of(nd_ascii_words *words, const nd_letters *letters, const uint8_t *text, size_t size)
{
    nd_ascii_words mine = *words;
    size_t at = 0;
    for (size_t taken = 1; taken > 0 && at < size; at += taken)
        taken = take_some(&mine, letters, text + at, size - at);
    *words = mine;
    return at;
}

/* ---- hashes of shingles --------------------------------------------------------------------------------------------------- */

#define ND_TIER ND_TARGET_AVX2
#define ND_WIDTH 32
#define ND_MASK __m256i
#define ND_ABOVE(words, number) _mm256_cmpgt_epi64((__m256i)(words), _mm256_set1_epi64x(number))
#define ND_CHOOSE(mask, a, b) (words64) _mm256_blendv_epi8((__m256i)(b), (__m256i)(a), mask)
#define ND_LANES(mask) (uint32_t) _mm256_movemask_pd((__m256d)(mask))
#define ND_HALF_PRODUCT(a, b) (words64) _mm256_mul_epu32((__m256i)(a), (__m256i)(b))
#define ND_WIDENED(numbers) (words64) _mm256_cvtepu32_epi64((__m128i)(numbers))
#define ND_SWAPPED(words, order) (words64) _mm256_shuffle_epi8((__m256i)(words), _mm256_broadcastsi128_si256(order))
#include "kernels/registers.h"

ND_INLINE void load_16(const uint8_t *bytes, const uint32_t *at, ptrdiff_t shift, words64 *first, words64 *second)
{
#define AT(i) _mm_loadu_si128((const __m128i *)(bytes + at[i] + shift))
    const __m256i even = _mm256_inserti128_si256(_mm256_castsi128_si256(AT(0)), AT(2), 1);
    const __m256i odd = _mm256_inserti128_si256(_mm256_castsi128_si256(AT(1)), AT(3), 1);
#undef AT
    *first = (words64)_mm256_unpacklo_epi64(even, odd);
    *second = (words64)_mm256_unpackhi_epi64(even, odd);
}

#include "kernels/text_loops.h"

const nd_kernels nd_kernels_text_avx2 = {
    .name = "avx2",
    .ascii_words = ascii_words,
    .words = words_of,
    .hash_shingles = hash_shingles,
};

#endif
