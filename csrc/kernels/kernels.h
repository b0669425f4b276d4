/* kernels.h: the hot loops, one table of them for each instruction set. */
#ifndef NEARDUP_KERNELS_H
#define NEARDUP_KERNELS_H

#include "arrays/arrays.h"

#if defined(__x86_64__)
#define ND_HAVE_X86 1
#define ND_TARGET_AVX2 __attribute__((target("avx2,popcnt")))
#define ND_TARGET_AVX512                                                                                                         \
    __attribute__((target("avx2,popcnt,avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512vpopcntdq")))
#else
#define ND_HAVE_X86 0
#endif

/* The tier that any CPU of the platform can run. */
#if defined(__aarch64__) && defined(__ARM_NEON)
#define ND_HAVE_NEON 1
#define ND_BASE_TIER "neon"
#else
#define ND_HAVE_NEON 0
#define ND_BASE_TIER "scalar"
#endif

/* Pairs of codes to look at: every row with every column that stands behind it. A code is plane_count words, 1, 2 or 4: word w of
 * code i is planes[w * stride + i]. row, column and next_row say where near_pairs goes on; it begins with next_row = row. */
typedef struct nd_near {
    const uint64_t *planes;
    size_t stride, plane_count;
    size_t row, row_end, column, column_end;
    size_t next_row;
    uint64_t max_distance;
} nd_near;

/* Where the words of a text go, and what must be known of the text before. */
typedef struct nd_ascii_words {
    const uint8_t *bytes; /* what starts are counted from */
    uint8_t *out;         /* the next byte of the text of words */
    uint32_t *starts;     /* where the start of the next token is written: the token behind the next joiner */
    int in_word;          /* the byte before was a letter or digit of the token that is being written */
    uint8_t joiner;       /* one byte, put behind each token */
    uint8_t case_bit;     /* 0x20 where upper case becomes lower case, else 0 */
} nd_ascii_words;

/* Code points of one to three bytes for `words`, in pages of those that differ in their last six bits. */
typedef struct nd_letter_page {
    uint8_t kind[64];  /* ND_LETTER_* */
    uint8_t trail[64]; /* the last byte of what a letter or mark becomes, which has as many bytes */
    uint8_t lead[64];  /* the first byte, where there are one or two; three bytes keep their first two */
} nd_letter_page;

#define ND_LETTER_OTHER 0 /* not for the kernel */
#define ND_LETTER_SEPARATES 1
#define ND_LETTER_BEGINS 2    /* a letter or number */
#define ND_LETTER_CONTINUES 4 /* a mark */
#define ND_LETTER_BOUND 8     /* of a mark: text may not be cut before it, and no other one of these may precede it */
#define ND_LETTER_ALONE 16    /* of a script without spaces: a token, three bytes, which stay what they are */
#define ND_LETTER_PAGES 96
typedef struct nd_letters {
    uint8_t page_of[1024]; /* by the code point without its last six bits; that of one and two bytes is its own number */
    nd_letter_page pages[ND_LETTER_PAGES];
    uint32_t short_ones[0x800]; /* of one and two bytes: what letters become, separators 0; else ND_LETTER_NOT_SHORT */
} nd_letters;
#define ND_LETTER_NOT_SHORT 0xFFFFFFFFu

/* The kernels write so much behind what they say they write, and read so much around the bytes of the shingles: */
#define ND_TEXT_PADDING 64   /* bytes behind out, and around the text of tokens on both sides */
#define ND_STARTS_PADDING 32 /* elements behind starts */

/* Shingle i is bytes[starts[i] .. starts[i + tokens] - joiner_size). */
typedef struct nd_shingles {
    const uint8_t *bytes;
    const uint32_t *starts;
    size_t count, tokens, joiner_size;
    uint64_t seed;
} nd_shingles;

/* A call of near_pairs needs room for so many pairs at least. */
#define ND_NEAR_ROOM 32
/* Sets stand in blocks of so many for may_overlap, one a lane. */
#define ND_SET_LANES 8

/* Inputs given as bytes may start at any address. The scalar table is complete and is the definition of each function;
 * another table may leave out (NULL) what it has nothing faster for: the tier below serves then. */
typedef struct nd_kernels {
    const char *name; /* tables of one name make one tier */
    /* x[i] = the high half of nd_fold(nd_fold(hashes[i])) */
    void (*fold_hashes)(const uint64_t *hashes, size_t count, uint32_t *x);
    /* minima[i] = min(minima[i], a[i] * x[j] + b[i] + offset modulo 2^32) for every j */
    void (*minhash_update)(const uint32_t *a, const uint32_t *b, uint32_t offset, size_t num_perm, const uint32_t *x,
        size_t count, uint32_t *minima);
    /* ones[i] += how many of the hashes have bit i set, bit 0 the most significant of 64 */
    void (*count_bits64)(const uint64_t *hashes, size_t count, int64_t *ones);
    /* sums[i] += weights[j] wherever digest j has bit i set, modulo 2^64; digests stand `stride` bytes apart,
     * their first `width` bytes count */
    void (
        *add_weights)(const uint8_t *digests, size_t count, size_t stride, size_t width, const int64_t *weights, uint64_t *sums);
    /* The letters and digits of ASCII text (no byte above 127), case mapped, a joiner in the place of the first byte behind each
     * word; the other bytes are dropped. Moves out by at most `size`, starts by at most size / 2 + 1. */
    void (*ascii_words)(nd_ascii_words *words, const uint8_t *text, size_t size);
    /* The same of UTF-8, as far as all code points have a kind in `letters`, and marks stand in words. Goes
     * up to the last place where the text may be cut of which both sides are such, or stops before; returns how many bytes it
     * took. Moves out by at most half as many more, and 1: a joiner before and behind what stands alone. */
    size_t (*words)(nd_ascii_words *words, const nd_letters *letters, const uint8_t *text, size_t size);
    /* hashes[i] = XXH3-64 of shingle i */
    void (*hash_shingles)(const nd_shingles *shingles, uint64_t *hashes);
    uint64_t (*hamming)(const uint8_t *a, const uint8_t *b, size_t size);
    /* Places of the codes, `size` bytes each, within max_distance of `code`, ascending; out has room for count of them. */
    size_t (
        *keep_near)(const uint8_t *codes, size_t count, size_t size, const uint8_t *code, uint64_t max_distance, uint32_t *out);
    size_t (*equal_slots16)(const uint8_t *a, const uint8_t *b, size_t count);
    size_t (*equal_slots32)(const uint8_t *a, const uint8_t *b, size_t count);
    /* Common values of two ascending arrays of distinct 64-bit values; SIZE_MAX once more than max_skips values of the two
     * have been passed that are not common (it may also finish: then the caller's own verdict refuses the number).
     * max_skips <= SIZE_MAX / 2; a_count + b_count never stops. */
    size_t (*count_common)(const uint8_t *a, size_t a_count, const uint8_t *b, size_t b_count, size_t max_skips);
    /* Pairs of row and column with at most max_distance different bits, as row << 32 | column in no given order; stops when fewer
     * than ND_NEAR_ROOM places are free in out, and goes on there when it is called again. Done when column == column_end. */
    size_t (*near_pairs)(nd_near *near, uint64_t *out, size_t capacity);
    /* Which sets may have as much in common with a query as they need. A block is words + 1 rows of ND_SET_LANES numbers: for
     * each set a bitmap of its values, `words` words, and how many values more than ones in the bitmap it has. Position
     * 8 * block + lane goes to out (room for all), ascending, where
     *     popcount(query & bitmap) + min(excess, excess of the set) >= needed[block]. */
    size_t (*may_overlap)(const uint64_t *query, size_t words, uint64_t excess, const uint64_t *blocks, size_t block_count,
        const uint32_t *needed, uint32_t *out);
} nd_kernels;

#define ND_PREMIX_FACTOR 0x9E3779B97F4A7C15u
static inline uint64_t nd_fold(uint64_t hash)
{
    return (hash ^ hash >> 32) * ND_PREMIX_FACTOR;
}

/* Set bits of a word. x86-64 without POPCNT has no instruction for it: sums of 2, 4 and 8 neighbouring bits, then of all bytes. */
static inline uint64_t nd_population(uint64_t word)
{
#if ND_HAVE_X86
    word -= word >> 1 & 0x5555555555555555;
    word = (word & 0x3333333333333333) + (word >> 2 & 0x3333333333333333);
    word = (word + (word >> 4)) & 0x0f0f0f0f0f0f0f0f;
    return word * 0x0101010101010101 >> 56;
#else
    return (uint64_t)__builtin_popcountll(word);
#endif
}

extern const nd_kernels nd_kernels_scalar;
extern const nd_kernels nd_kernels_text_scalar;
extern const nd_kernels nd_kernels_compare_scalar;
#if ND_HAVE_X86
extern const nd_kernels nd_kernels_compare_avx2;
extern const nd_kernels nd_kernels_compare_avx512;
extern const nd_kernels nd_kernels_avx2;
extern const nd_kernels nd_kernels_text_avx2;
extern const nd_kernels nd_kernels_text_avx512;
#endif

const nd_kernels *nd_kernels_active(void);

#endif
