/* schemes.h: what the files of this room share: values, keys, the arithmetic of sketches, codes and comparisons. */
#ifndef NEARDUP_SCHEMES_H
#define NEARDUP_SCHEMES_H

#include "arrays/arrays.h"

/* ---- lists that grow ----------------------------------------------------------------------------------------------------- */

/* What turns hashes into fingerprints beside the hashes themselves: kept from text to text. */
typedef struct nd_scratch {
    nd_watch watch;
    int32_t family;
    uint64_t seed;
    size_t num_perm;       /* coefficients drawn for (family, seed, num_perm); 0 = none */
    size_t slots_capacity; /* of a, b and slots */
    uint32_t *a, *b, *slots;
    ND_LIST(uint64_t) hashes;
    ND_LIST(int64_t) counters;
} nd_scratch;

void nd_scratch_free(nd_scratch *scratch);
/* The hash family of the scheme, drawn once; ND_ERROR_MEMORY or ND_ERROR_PARAMETER. */
int nd_scratch_family(nd_scratch *scratch, int32_t family, uint64_t seed, size_t num_perm);
/* Room for so many hashes. */
int nd_scratch_hashes(nd_scratch *scratch, size_t count, uint64_t **out);

/* Appends a value of `size` bytes, to be filled by the caller: *out is valid until the next append. */
int nd_values_append(nd_values *values, size_t size, size_t token_count, uint8_t **out);
/* Back to so many values. */
void nd_values_truncate(nd_values *values, size_t count);

int nd_keys_append(nd_keys *keys, int64_t table_no, int64_t low, int64_t high);

/* ---- sketches in parts: what nd_minhash is made of --------------------------------------------------------------- */

/* Not in a file: affine32 of numbers that are mixed already, packed ones. */
#define ND_FAMILY_MIXED (-1)

/* minima[num_perm], all ones before the first hashes; finished they are slots. */
void nd_minhash_add(int32_t family, const uint32_t *a, const uint32_t *b, size_t num_perm, const uint64_t *hashes, size_t count,
    uint32_t *minima);
void nd_minhash_finish(int32_t family, size_t num_perm, uint32_t *minima);
/* ones[i]: how many of `count` hashes have bit i set; used up. */
void nd_simhash_finish(int64_t *ones, size_t bits, size_t count, uint8_t *code);

/* To the kept hashes, ascending and distinct, the others; returns how many are kept then: the k smallest, for which there is room. */
size_t nd_add_smallest(uint64_t *kept, size_t count, const uint64_t *hashes, size_t hash_count, size_t k);

/* ---- bits of codes --------------------------------------------------------------------------------------------------- */

/* Where block i begins, counted from the least significant bit; block i ends where i + 1 begins. */
static inline size_t nd_block_start(size_t bits, size_t blocks, size_t block)
{
    return block * bits / blocks;
}

/* C(n, r), or limit + 1 where it is above limit; limit < 2^56 and n <= 64, or limit < 2^32 */
uint64_t nd_binomial(size_t n, size_t r, uint64_t limit);

/* `width` bits, 1 to 56, of the bit string that begins `at` bits into code, as a number. */
static inline uint64_t nd_read_bits(const uint8_t *code, size_t at, size_t width)
{
    size_t first = at / 8, end = (at + width + 7) / 8;
    return nd_load_big(code + first, end - first) >> (8 * end - at - width) & (((uint64_t)1 << width) - 1);
}

/* ---- packed sets: the numbers of hashes, ascending and distinct ----------------------------------------------------------- */

/* Of each hash fold(fold(h)), whose upper half is x of affine32 (kernels.h), with zeros behind its first 40 bits. */
void nd_set_numbers(const uint64_t *hashes, size_t count, uint64_t *numbers);
/* Bytes of so many numbers. */
size_t nd_set_size(size_t count);
/* First 4 bytes of each number, its bits 8 to 39; then the bits i + (first 8 bits of number i), which are 1 among zeros. */
void nd_set_write(const uint64_t *numbers, size_t count, uint8_t *out);

/* ---- comparisons ----------------------------------------------------------------------------------------------------- */

/* Smallest c with (double)c / count >= threshold; count + 1 if there is none. */
size_t nd_share_needed(size_t count, double threshold);

/* ---- passages: sequences of token hashes, 4 bytes each --------------------------------------------------------------------- */

static inline uint32_t nd_token_hash(const uint8_t *value, size_t token)
{
    uint32_t hash;
    memcpy(&hash, value + 4 * token, sizeof hash);
    return hash;
}

/* The sum of a run of tokens is a polynomial in this; the next run's follows from it. */
#define ND_RUN_BASE UINT64_C(0xD6E8FEB86659FD93)

/* ND_RUN_BASE^(tokens - 1). */
static inline uint64_t nd_run_highest(size_t tokens)
{
    uint64_t highest = 1;
    for (size_t i = 1; i < tokens; i++)
        highest *= ND_RUN_BASE;
    return highest;
}

static inline uint64_t nd_run_first(const uint8_t *value, size_t tokens)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < tokens; i++)
        sum = sum * ND_RUN_BASE + nd_token_hash(value, i);
    return sum;
}

/* The sum of the run that begins behind `place`, from that of the run that begins there. */
static inline uint64_t nd_run_next(const uint8_t *value, size_t tokens, uint64_t highest, uint64_t sum, size_t place)
{
    return (sum - nd_token_hash(value, place) * highest) * ND_RUN_BASE + nd_token_hash(value, place + tokens);
}

/* The hashes that winnowing selects, in their order; a hash that is selected at two places is there twice. */
int nd_winnow(const uint8_t *value, size_t count, size_t k, size_t shortest, nd_scratch *scratch, uint64_t **selected,
    size_t *selected_count);
/* The hashes of the windows of `shortest` tokens with a run that has this key. */
int nd_winnow_around(const uint8_t *value, size_t count, size_t k, size_t shortest, int64_t key, nd_scratch *scratch,
    uint64_t **windows, size_t *window_count);

/* The similarity of the text asked for and another one. */
int nd_passages_share(nd_passages *passages, const uint8_t *other, size_t size, double *similarity);
int nd_passages_similarity(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size, size_t shortest, double *similarity);

/* The first 48 bits, which SQLite stores in 6 bytes. */
static inline int64_t nd_winnow_key(uint64_t selected)
{
    return (int64_t)selected >> 16;
}

/* A suffix automaton: tokens are added with their ascending places, run by run, each after a restart. */
typedef struct nd_runs nd_runs;
nd_runs *nd_runs_new(void);
void nd_runs_free(nd_runs *runs);
int nd_runs_begin(nd_runs *runs);
void nd_runs_restart(nd_runs *runs);
int nd_runs_add(nd_runs *runs, uint32_t token, size_t place);
/* One token of another sequence: from the state, at first 0, and the length of the longest run that ended before it and was added
 * to those behind it. end: the place of the last token of that run where it occurs first. */
void nd_runs_step(const nd_runs *runs, uint32_t token, uint32_t *state, size_t *length, size_t *end);

/* ---- schemes ------------------------------------------------------------------------------------------------------------- */

/* Values of all chunks that a query within `distance` looks up; UINT64_MAX where that overflows. */
uint64_t nd_chunk_probe_count(size_t bits, size_t chunks, size_t distance);
/* Ranges that a query of a Hamming scheme looks up: tables, or neighbours of all chunks; UINT64_MAX where that overflows. */
uint64_t nd_scheme_probe_count(const nd_scheme *scheme);

/* The least similarity of a match: above 0 where any passage is enough. */
double nd_scheme_threshold(const nd_scheme *scheme);
/* Tables that a value has keys in. */
size_t nd_scheme_table_count(const nd_scheme *scheme);
/* The keys of a checked value in tables first_table to end_table - 1. */
int nd_scheme_table_keys(const nd_scheme *scheme, int64_t group_id, const uint8_t *value, size_t size, int probing,
    size_t first_table, size_t end_table, nd_keys *keys);

/* The key at a place of the present table, or of all where there is one; ND_DONE behind the last. */
int nd_filing_at(const nd_filing *filing, size_t place, nd_filed *out);

/* The lows of `most` keys; where there are fewer, the last is repeated, and where there are none they are 0. */
void nd_keys_pack(const nd_keys *keys, size_t most, int64_t *out);

#define ND_CODE_BYTES_MAX (ND_BITS_MAX / 8)
/* What codes of a bucket have in common in a block table with this order of blocks: the first `prefix` bits, or a hash of them. */
uint64_t nd_block_number(const nd_scheme *scheme, const uint8_t *value, const uint8_t *order, size_t prefix);
/* Where the bucket begins of codes that have `number`, of `width` bits, in common. */
int64_t nd_bucket_low(int64_t group_id, size_t table, uint64_t number, size_t width);

/* Bytes of a MinHash signature. */
static inline size_t nd_signature_size(const nd_scheme *scheme)
{
    return (size_t)scheme->num_perm * (size_t)scheme->slot_bits / 8;
}

/* The hash family of the scheme, and no minima yet, in the scratch. */
int nd_scheme_begin_slots(const nd_scheme *scheme, nd_scratch *scratch);
/* Lowers the minima in scratch->slots; ND_ERROR_STOPPED as the scratch is told. */
int nd_scheme_add_minima(const nd_scheme *scheme, nd_scratch *scratch, const uint64_t *hashes, size_t count);
/* The min-hash slots of a MinHash or BitSampling scheme, in scratch->slots. */
int nd_scheme_slots(const nd_scheme *scheme, nd_scratch *scratch, const uint64_t *hashes, size_t count);
/* The low slot_bits of each slot: a signature. */
void nd_scheme_pack_slots(const nd_scheme *scheme, const uint32_t *slots, uint8_t *signature);

/* A value in the making from hashes that come part by part: of all schemes but packed sets, and SimHash of wide digests. */
typedef struct nd_stream {
    const nd_scheme *scheme;
    nd_scratch *scratch;
    size_t hash_bits;
    size_t count;     /* hashes so far */
    int64_t ones[64]; /* SimHash */
    size_t kept;      /* bottom-k: the smallest so far, ascending, are the first of scratch->hashes */
} nd_stream;

/* Whether the scheme can take hashes of digests of this size so. */
int nd_scheme_streams(const nd_scheme *scheme, size_t digest_size);
int nd_stream_begin(nd_stream *stream, const nd_scheme *scheme, size_t digest_size, nd_scratch *scratch);
/* `stream` is an nd_stream; what an nd_drain calls. The hashes are not those of its scratch. */
int nd_stream_take(void *stream, const uint64_t *hashes, size_t count);
int nd_stream_finish(nd_stream *from, size_t token_count, nd_values *values);
/* Texts of ND_LARGE_TEXT bytes or more are worth a value part by part. */
int nd_scheme_append_large(const nd_scheme *scheme, const nd_rules *rules, nd_text *work, const uint8_t *text, size_t size,
    nd_values *values);

#endif
