/* neardup_testing.h: pieces of the C core that only its tests call from outside. cffi parses this text after neardup_abi.h; the
 * same rules hold for it. */

#define ND_TESTING 1 /* this text was included */

/* ---- kernels ------------------------------------------------------------------------------------------------------------ */

int nd_isa_count(void); /* tiers that this CPU can run, slowest first */
const char *nd_isa_at(int index);
int nd_isa_force(const char *name); /* ND_ERROR_PARAMETER if this CPU cannot; NULL = the best. Not thread-safe. */

/* ---- Unicode, piece by piece -------------------------------------------------------------------------------------------- */

#define ND_NORMALIZE_NFD 3  /* not a text rule; used by strip_accents */
#define ND_NORMALIZE_NFKD 4 /* not a text rule */

/* Flags of a code point */
#define ND_CP_LETTER 1      /* general category L* */
#define ND_CP_NUMBER 2      /* N* */
#define ND_CP_MARK 4        /* M* */
#define ND_CP_UNSPACED 8    /* Script_Extensions has Han, Hiragana, Katakana, Thai, Lao, Khmer or Myanmar */
#define ND_CP_PICTOGRAPH 16 /* Extended_Pictographic or Regional_Indicator: begins an emoji grapheme */
#define ND_CP_IGNORABLE 32  /* Default_Ignorable_Code_Point */
#define ND_CP_ACCENT 64     /* what strip_accents drops: Mn with combining class 10-36 or >= 200 */

/* Grapheme_Cluster_Break (Unicode 15.0) */
#define ND_GCB_OTHER 0
#define ND_GCB_CR 1
#define ND_GCB_LF 2
#define ND_GCB_CONTROL 3
#define ND_GCB_EXTEND 4
#define ND_GCB_ZWJ 5
#define ND_GCB_REGIONAL_INDICATOR 6
#define ND_GCB_PREPEND 7
#define ND_GCB_SPACING_MARK 8
#define ND_GCB_L 9
#define ND_GCB_V 10
#define ND_GCB_T 11
#define ND_GCB_LV 12
#define ND_GCB_LVT 13

uint32_t nd_unicode_properties(uint32_t code_point); /* flags, grapheme break and combining class, 8 bits each */
size_t nd_unicode_case(int32_t fold, uint32_t code_point, uint32_t out[3]);             /* count, 1 to 3 */
size_t nd_unicode_decompose(int32_t compatible, uint32_t code_point, uint32_t out[18]); /* full, one code point */
uint32_t nd_unicode_compose(uint32_t first, uint32_t second);                           /* 0 where there is none */
/* Normal form of a whole sequence. *out_count is always set to the count needed; ND_ERROR_CAPACITY if that is above capacity
 * (nothing usable is in out then). NFC and NFKC need room for a decomposition on the way: after ND_ERROR_CAPACITY the count is
 * a capacity that is enough, not the length of the result. in and out may not overlap. */
int nd_unicode_normalize(int32_t form, const uint32_t *in, size_t count, uint32_t *out, size_t capacity, size_t *out_count);

/* ---- fingerprints and comparisons -------------------------------------------------------------------------------------- */

/* Lowest bit of each of `bits` slots, slot 0 first. */
void nd_bit_sample(const uint32_t *slots, size_t bits, uint8_t *code);
/* Smallest c with (double)c / (double)(total - c) >= threshold; total + 1 if there is none up to total / 2. 0 < threshold <= 1. */
size_t nd_overlap_needed(size_t total, double threshold);

/* ---- candidate keys ----------------------------------------------------------------------------------------------------- */

/* Block i of m, from the least significant end, is bits floor(i*bits/m) .. floor((i+1)*bits/m)-1 of the code as a number.
 * A block table puts m - distance of the blocks in front; there are C(m, m - distance) of them, in lexicographic order of the
 * leading blocks named from the most significant one. order[m]: block numbers, most significant place first. */
size_t nd_block_table_count(size_t blocks, size_t distance); /* 0 where distance >= blocks or the count is above 100,000 */
int nd_block_table(size_t blocks, size_t distance, size_t index, uint8_t *order);
size_t nd_block_prefix_bits(size_t bits, size_t blocks, size_t distance, const uint8_t *order);

/* Chunks have the bounds of blocks; chunk 0 is the most significant. Each at most 64 bits wide. */
int nd_split_chunks(const uint8_t *code, size_t bits, size_t chunks, uint64_t *out);
size_t nd_chunk_bits(size_t bits, size_t chunks, size_t chunk);
/* Radius to probe chunk with, so that nothing within `distance` is missed: with distance = a + K*f the first a+1 of K chunks
 * f, the rest f-1; -1 = not at all. */
int nd_chunk_radius(size_t chunks, size_t distance, size_t chunk);

/* How many of the first hashes of a fingerprint of `count` are filed and probed: count - o + 1, o the smallest c with c/count >= threshold.
 * It never falls as count grows. */
size_t nd_prefix_count(size_t count, double threshold);
