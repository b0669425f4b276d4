/* neardup_abi.h: the C core's interface for Python (cffi parses this file) and the SQLite extension. Functions that only
 * tests call are in neardup_testing.h. Declarations only; the one directive allowed here is "#define NAME number". <stdint.h>
 * and <stddef.h> come first.
 *
 * Conventions. Functions that can fail return one of ND_OK ... below. Sizes are in bytes, counts in elements. Blobs that go to
 * a file are little-endian, but a code (SimHash, one-bit samples, codes of the application) is a string of bits: bit 0 of the
 * string is the most significant bit of byte 0. Handles (nd_rules, nd_text, nd_values, nd_keys, nd_pairs) own their memory;
 * nd_rules is immutable and may be shared by threads, the others belong to one thread at a time. */

#define ND_OK 0
#define ND_ERROR_MEMORY 1    /* an allocation failed */
#define ND_ERROR_PARAMETER 2 /* a parameter is out of its range */
#define ND_ERROR_DAMAGED 3   /* a stored value has the wrong length or order */
#define ND_ERROR_CAPACITY 4  /* the caller's buffer is too small, or the answer would be unreasonably large */
#define ND_DONE 5            /* nothing is left, no error */
#define ND_ERROR_STOPPED 6   /* the callback of nd_text_watch asked to stop */

/* ---- version and CPU --------------------------------------------------------------------------------------------- */

/* Version of all rules that decide a fingerprint: text rules, Unicode tables, hash families. Stored in every file. */
#define ND_ALGORITHM_VERSION 1 /* raised by every change of a fingerprint */
#define ND_SCHEMA_VERSION 2    /* version of a file's tables */

const char *nd_version(void);         /* package version, "0.2.0" */
const char *nd_unicode_version(void); /* version of the Unicode Character Database, "15.0.0" */
const char *nd_isa_name(void);        /* the active tier of kernels: "scalar", "avx2", ... */

/* Returns freed memory to the system; glibc otherwise keeps much of it after large work in several threads. */
void nd_memory_trim(void);

/* ---- hashes ------------------------------------------------------------------------------------------------------ */

#define ND_HASH_XXH3_64 0
#define ND_HASH_FNV1A_32 1
#define ND_HASH_FNV1A_64 2
#define ND_HASH_DJB2A 3
#define ND_HASH_MD5 4
#define ND_HASH_SHA1 5
#define ND_HASH_SHA256 6
#define ND_DIGEST_MAX 32

size_t nd_hash_size(int32_t hash); /* digest size: 8, 4, 8, 4, 16, 20, 32; 0 for an unknown hash */
/* The digest, big-endian. The seed is used by XXH3-64 only. */
int nd_hash_bytes(int32_t hash, uint64_t seed, const uint8_t *data, size_t size, uint8_t *digest);
uint64_t nd_xxh3_64(const uint8_t *data, size_t size, uint64_t seed);
/* The same with seed 0 for each of `count` values; value i ends at ends[i] and begins at the end of value i - 1. */
void nd_hash_values(const uint8_t *bytes, const uint64_t *ends, size_t count, uint64_t *hashes);

/* ---- text rules and shingles --------------------------------------------------------------------------------------- */

#define ND_NORMALIZE_NONE 0
#define ND_NORMALIZE_NFC 1
#define ND_NORMALIZE_NFKC 2

#define ND_CASE_NONE 0
#define ND_CASE_LOWER 1 /* full mapping, no context, no locale */
#define ND_CASE_FOLD 2  /* full case folding, CaseFolding.txt C + F */

#define ND_TOKENS_WORDS 0
#define ND_TOKENS_CHARS 1
#define ND_NONWORD_SPACE 0
#define ND_NONWORD_KEEP 1
#define ND_NONWORD_DROP 2
#define ND_SHORT_WHOLE 0
#define ND_SHORT_DROP 1

typedef struct nd_rules_spec {
    int32_t normalize;     /* ND_NORMALIZE_NONE, _NFC or _NFKC */
    int32_t fold;          /* ND_CASE_* */
    int32_t tokens;        /* ND_TOKENS_* */
    int32_t nonword;       /* ND_NONWORD_*, for tokens = CHARS */
    int32_t short_text;    /* ND_SHORT_*: fewer than `shingle` tokens, at least one */
    int32_t strip_accents; /* 0 or 1 */
    int32_t hash;          /* ND_HASH_* */
    int32_t shingle;       /* consecutive tokens in a shingle, 1 to 1000 */
    int32_t min_tokens;    /* a text of fewer tokens has no shingle; 0 to 1,000,000 */
    uint64_t hash_seed;    /* 0 unless hash is XXH3-64 */
    const uint8_t *joiner; /* between the tokens of a shingle */
    size_t joiner_size;
    const uint8_t *stopwords; /* UTF-8, one after another; each goes through normalisation and folding itself */
    const size_t *stopword_sizes;
    size_t stopword_count;
} nd_rules_spec;

typedef struct nd_rules nd_rules;
typedef struct nd_text nd_text;

int nd_rules_new(const nd_rules_spec *spec, nd_rules **out); /* copies the specification */
void nd_rules_free(nd_rules *rules);

nd_text *nd_text_new(void); /* a workspace; it holds the result of the last run; NULL if memory is out */
void nd_text_free(nd_text *work);
/* From now on long work calls `stopped` every few milliseconds, and ends with ND_ERROR_STOPPED if it returns nonzero.
 * nd_values_watch and nd_keys_watch do the same for the computation of slots. */
void nd_text_watch(nd_text *work, int (*stopped)(void *context), void *context);

/* Normalised and folded text, ignorables dropped, before tokenising (UTF-8, owned by the workspace until the next run). */
int nd_text_normalize(nd_text *work, const nd_rules *rules, const uint8_t *text, size_t size, const uint8_t **out,
    size_t *out_size);
/* Text -> tokens. Invalid UTF-8 and encoded surrogates become U+FFFD. */
int nd_text_tokenize(nd_text *work, const nd_rules *rules, const uint8_t *text, size_t size);
/* The caller's own tokens (their bytes one after another) instead of nd_text_tokenize. No stop words, no folding. */
int nd_text_set_tokens(nd_text *work, const nd_rules *rules, const uint8_t *bytes, const size_t *sizes, size_t count);
/* Tokens -> hashes of the shingles; after one of the two above. */
int nd_text_hash(nd_text *work, const nd_rules *rules);
/* Where each token stands in the text: its bytes are starts[i] to ends[i] - 1, those between them included that it leaves out.
 * Both have room for `most` tokens; *count: how many the text has. ND_ERROR_CAPACITY if these are more. */
int nd_text_locate(nd_text *work, const nd_rules *rules, const uint8_t *text, size_t size, uint64_t *starts, uint64_t *ends,
    size_t most, size_t *count);
/* Text -> hashes: nd_text_tokenize and nd_text_hash. */
int nd_text_to_hashes(nd_text *work, const nd_rules *rules, const uint8_t *text, size_t size);

/* An index is below the count. */
size_t nd_text_token_count(const nd_text *work);
void nd_text_token(const nd_text *work, size_t index, const uint8_t **bytes, size_t *size);
size_t nd_text_shingle_count(const nd_text *work, const nd_rules *rules);
void nd_text_shingle(const nd_text *work, const nd_rules *rules, size_t index, const uint8_t **bytes, size_t *size);
const uint64_t *nd_text_hashes(
    const nd_text *work); /* one a shingle: the digest's first 8 bytes as a big-endian number, or all 4 */
const uint8_t *nd_text_digests(const nd_text *work); /* whole digests if they are wider than 8 bytes, else NULL */

/* ---- fingerprints ---------------------------------------------------------------------------------------------------- */

#define ND_FAMILY_AFFINE32 0 /* docs/reference/format.md has the formula */
#define ND_FAMILY_JAVA32 1   /* a*x + b in signed 32 bits, a and b from java.util.Random(seed) */

/* Digests big-endian, digest_size bytes each; weights may be NULL (all 1). Ties give 0. bits <= 8 * digest_size, a multiple of 8.
 * counters: scratch of `bits`. */
int nd_simhash(const uint8_t *digests, size_t count, size_t digest_size, size_t bits, const int64_t *weights, int64_t *counters,
    uint8_t *code);
int nd_minhash_coefficients(int32_t family, uint64_t seed, size_t num_perm, uint32_t *a, uint32_t *b);
/* slots[num_perm]: full 32 bits; a signature keeps the low slot_bits. count >= 1. */
int nd_minhash(int32_t family, const uint32_t *a, const uint32_t *b, size_t num_perm, const uint64_t *hashes, size_t count,
    uint32_t *slots);
/* The k smallest distinct hashes, ascending. out holds k. */
int nd_bottom_k(const uint64_t *hashes, size_t count, size_t k, uint64_t *out, size_t *out_count);
/* Sorts and removes repeats in place; returns the count left. */
size_t nd_sort_distinct(uint64_t *hashes, size_t count);

/* ---- comparisons ------------------------------------------------------------------------------------------------------ */

uint64_t nd_hamming(const uint8_t *a, const uint8_t *b, size_t size);
size_t nd_equal_slots(const uint8_t *a, const uint8_t *b, size_t count, int32_t slot_bits); /* 16 or 32 */
/* |A and B| / |A or B| of two ascending arrays of distinct 64-bit values, at any addresses; 0.0 as soon as it is certain that it is below threshold.
 * Two empty arrays give 0.0. threshold <= 0 never stops early. */
double nd_jaccard(const void *a, size_t a_count, const void *b, size_t b_count, double threshold);
/* Unbiased bottom-k estimate: common hashes among the min(k, |A or B|) smallest of the union, divided by that number. */
double nd_jaccard_estimate(const void *a, size_t a_count, const void *b, size_t b_count, size_t k);
/* |A and B| / |A| of two ascending arrays of distinct values: the share of A in B. 0.0 if A is empty. */
double nd_containment(const uint64_t *a, size_t a_count, const uint64_t *b, size_t b_count);
/* The same for two sets, estimated from their k smallest hashes in the range that both fingerprints cover: an array of fewer
 * than k hashes is the whole set, one of k covers the hashes up to its last. -1.0 if A has no hash in that range. */
double nd_containment_estimate(const uint64_t *a, size_t a_count, const uint64_t *b, size_t b_count, size_t k);

/* ---- candidate keys ----------------------------------------------------------------------------------------------------- */

uint64_t nd_neighbour_count(size_t bits, size_t radius); /* UINT64_MAX if above 2^63 */
/* All values within radius of chunk: itself, then one bit away (most significant bit first), then two, ... */
int nd_neighbours(uint64_t chunk, size_t bits, size_t radius, uint64_t *out, size_t capacity, size_t *count);
int nd_band_buckets(const uint8_t *signature, size_t num_perm, size_t slot_size, size_t bands, size_t rows, int32_t *buckets);

/* ---- schemes: fingerprint + candidate tables + rule, the one place that knows all six ------------------------------------- */

#define ND_SCHEME_SIMHASH 0
#define ND_SCHEME_MINHASH 1
#define ND_SCHEME_BOTTOMK 2
#define ND_SCHEME_BITSAMPLING 3
#define ND_SCHEME_BINARYCODE 4
#define ND_SCHEME_PASSAGES 5

#define ND_PLAN_SCAN 0   /* all codes of a group in one bucket: popcount over them */
#define ND_PLAN_BLOCKS 1 /* permuted block tables */
#define ND_PLAN_CHUNKS 2 /* multi-index chunk tables */
#define ND_PLAN_BANDS 3
#define ND_PLAN_PREFIX 4
#define ND_PLAN_WINNOW 5

#define ND_EVIDENCE_NONE 0   /* MinHash: similarity = share of equal slots */
#define ND_EVIDENCE_PACKED 1 /* exact: the stored value is the set of the first 40 bits of the hashes, mixed */
#define ND_EVIDENCE_HASHES 2 /* never stored: the numbers of a packed value, ascending, 64 bits each, for joins */

#define ND_MEASURE_FINGERPRINT 0
#define ND_MEASURE_ESTIMATE 1

/* Upper bounds of a scheme's parameters. */
#define ND_BITS_MAX 4096
#define ND_NUM_PERM_MAX 65536
#define ND_K_MAX 65536
#define ND_SHORTEST_MIN 3
#define ND_SHORTEST_MAX 1000
#define ND_BLOCKS_MAX 64
#define ND_CHUNKS_MAX 256
#define ND_CHUNK_BITS_MAX 64
#define ND_TABLES_MAX 4096    /* plan BLOCKS */
#define ND_PROBES_MAX 2000000 /* plan CHUNKS: values that a query looks up */

typedef struct nd_scheme {
    int32_t kind; /* ND_SCHEME_* */
    int32_t plan; /* ND_PLAN_* */
    int32_t bits; /* SimHash, BitSampling, BinaryCode: multiple of 8, 8 to ND_BITS_MAX */
    int32_t max_distance;
    int32_t blocks;   /* plan BLOCKS: max_distance < blocks <= ND_BLOCKS_MAX */
    int32_t chunks;   /* plan CHUNKS: 1 to ND_CHUNKS_MAX, chunks of at most ND_CHUNK_BITS_MAX bits */
    int32_t num_perm; /* MinHash; BitSampling has one slot a bit */
    int32_t bands;
    int32_t rows;
    int32_t slot_bits;   /* 16 or 32 */
    int32_t family;      /* ND_FAMILY_* */
    int32_t evidence;    /* ND_EVIDENCE_* */
    int32_t k;           /* BottomK: hashes; Passages: tokens of a hashed run */
    int32_t measure;     /* ND_MEASURE_* */
    int32_t containment; /* BottomK: 0, or 1 = all k hashes are filed, not only the prefix */
    int32_t shortest;    /* Passages: tokens of the shortest one */
    uint64_t seed;
    double threshold; /* MinHash, BottomK; Passages: 0 where one passage is enough */
} nd_scheme;

/* ND_OK, or ND_ERROR_PARAMETER with a sentence for people in message (always terminated). */
int nd_scheme_check(const nd_scheme *scheme, char *message, size_t message_size);
/* ND_OK if bytes can be a stored value of the scheme: length, ascending order. */
int nd_scheme_value_check(const nd_scheme *scheme, const uint8_t *value, size_t size);

/* For ND_EVIDENCE_PACKED: the number of hashes in a value of `size` bytes, 0 if no value has that size; and the hashes,
 * ascending: 40 bits, then zeros. numbers NULL: the value is only checked. ND_ERROR_DAMAGED if it is not valid. */
size_t nd_set_count(size_t size);
int nd_set_read(const uint8_t *value, size_t size, uint64_t *numbers);

/* Settings that a file stores as words ("scheme", "plan", "text.case", ...): the word for a number, or NULL, and the number for
 * a word, or -1. The numbers are ND_SCHEME_*, ND_PLAN_*, ND_CASE_*, ... */
const char *nd_setting_word(const char *name, int32_t number);
int32_t nd_setting_number(const char *name, const char *word);

/* Bounds of a query's arguments. `containment` 0: similarity by the scheme's measure; 1: the share of a text in others. */
typedef struct nd_bounds {
    double threshold;     /* the default; -1.0: the distance alone decides */
    double lowest;        /* the lowest that a query may give; for containment exclusive */
    int64_t max_distance; /* the highest that a query may give, and the default; -1: the scheme has no distance */
} nd_bounds;
void nd_scheme_bounds(const nd_scheme *scheme, int containment, nd_bounds *out);
/* The NAME of sql/verify_NAME.sql; NULL if stored values cannot answer. */
const char *nd_scheme_query(const nd_scheme *scheme, int containment);
/* 1 if the rule is a Hamming distance; then similarity = max(0, 1 - slope * distance / bits). */
int nd_scheme_is_hamming(const nd_scheme *scheme);
double nd_scheme_slope(const nd_scheme *scheme);

/* A growing list of byte strings: the stored values of texts, one each, of size 0 for a text without shingles. Only to be read. */
typedef struct nd_values {
    uint8_t *bytes;
    uint64_t *ends;   /* value i ends at byte ends[i], where value i + 1 begins */
    uint64_t *tokens; /* tokens of text i */
    size_t count;
    size_t bytes_size, bytes_capacity, ends_capacity, tokens_capacity;
    struct nd_scratch *scratch;
} nd_values;
nd_values *nd_values_new(void);
void nd_values_free(nd_values *values);
void nd_values_watch(nd_values *values, int (*stopped)(void *context), void *context);
void nd_values_clear(nd_values *values);

/* Text -> value, appended; `work` is scratch. SimHash's bits must fit the hash of the rules, else ND_ERROR_PARAMETER. */
int nd_scheme_append_texts(const nd_scheme *scheme, const nd_rules *rules, nd_text *work, const uint8_t *const *texts,
    const size_t *sizes, size_t count, nd_values *values);
/* The values of texts as rows of `width` bytes; a text without shingles has zeros, and empty[i] is 1, else 0. `values` is
 * overwritten. ND_ERROR_PARAMETER if a value has another size. */
int nd_scheme_text_rows(const nd_scheme *scheme, const nd_rules *rules, nd_text *work, const uint8_t *const *texts,
    const size_t *sizes, size_t count, nd_values *values, size_t width, uint8_t *rows, uint8_t *empty);
/* The value of the shingles that the workspace holds (after nd_text_hash). */
int nd_scheme_append_work(const nd_scheme *scheme, const nd_rules *rules, const nd_text *work, nd_values *values);
/* The value of shingles hashed by the caller: digests of digest_size bytes, big-endian. */
int nd_scheme_append_digests(const nd_scheme *scheme, const uint8_t *digests, size_t digest_size, size_t count,
    size_t token_count, nd_values *values);

/* Keys. low and high are integers as SQLite holds them.
 * Bands, prefixes: a row of the candidate table is filed under low = high (64-bit patterns signed, 32-bit buckets sign-extended);
 * table_no is 0. Codes are in buckets; a bucket is the rows of the candidate table with ids from low to high (ND_PART_BITS
 * below); table_no is the number of the block table or of the chunk, 0 for a scan. */
typedef struct nd_key {
    int64_t table_no;
    int64_t low;
    int64_t high;
} nd_key;
typedef struct nd_keys { /* only to be read */
    nd_key *rows;
    size_t count, rows_capacity;
    struct nd_scratch *scratch;
} nd_keys;
nd_keys *nd_keys_new(void);
void nd_keys_free(nd_keys *keys);
void nd_keys_watch(nd_keys *keys, int (*stopped)(void *context), void *context);
/* All three replace the keys, distinct and ascending by (table_no, low). ND_ERROR_DAMAGED if the scheme cannot have made the
 * value. group_id: the fingerprint's or the query's group; it decides the buckets of codes. */
int nd_scheme_file_keys(const nd_scheme *scheme, int64_t group_id, const uint8_t *value, size_t size, nd_keys *keys);
int nd_scheme_probe_keys(const nd_scheme *scheme, int64_t group_id, const uint8_t *value, size_t size, nd_keys *keys);
/* The keys to look up for all fingerprints with nd_containment_estimate(value, fingerprint, k) >= threshold, in a table of all
 * hashes: the first nd_prefix_count(its hashes, threshold). ND_ERROR_PARAMETER unless the scheme has `containment`, 0 <
 * threshold <= 1. */
int nd_scheme_containment_keys(const nd_scheme *scheme, const uint8_t *value, size_t size, double threshold, nd_keys *keys);
/* 1 if the candidate table holds buckets of codes: plans SCAN (one bucket a group), BLOCKS and CHUNKS. */
int nd_scheme_has_buckets(const nd_scheme *scheme);

/* The file keys of many values of a plan of bands, in the layout of nd_values: `bands` of each, ascending; a value with fewer
 * repeats the last, a value of size 0 has zeros. ND_ERROR_PARAMETER for another plan. keys is scratch. */
int nd_scheme_band_keys(const nd_scheme *scheme, const uint8_t *data, const uint64_t *ends, size_t count, nd_keys *keys,
    int64_t *out);

/* A fingerprint with everything that an index stores of it. The pointers are into the handles, valid until these are used
 * again. */
typedef struct nd_sketch {
    const uint8_t *value; /* NULL for a text without shingles: the other members but token_count are then 0 */
    size_t size;
    uint64_t token_count; /* 0 if a value was given */
    int64_t value_hash;   /* XXH3-64 of the value as a signed number, as in SQLite */
    const int64_t *keys;  /* plan BANDS: as in nd_scheme_band_keys; else NULL */
    size_t key_count;
} nd_sketch;

/* The sketch of a text; `work` and `values` are scratch. */
int nd_scheme_sketch_text(const nd_scheme *scheme, const nd_rules *rules, nd_text *work, const uint8_t *text, size_t size,
    nd_values *values, nd_keys *keys, nd_sketch *out);
/* The sketch of a value that was made already. ND_ERROR_DAMAGED if the scheme cannot have made it. */
int nd_scheme_sketch_value(const nd_scheme *scheme, const uint8_t *value, size_t size, nd_keys *keys, nd_sketch *out);

/* Outlines: the low bits of each slot of MinHash signatures, remembered by fingerprint id. Slots with different outlines are
 * different. */
typedef struct nd_outlines nd_outlines;
nd_outlines *nd_outlines_new(void);
void nd_outlines_free(nd_outlines *outlines);
/* Forgets all outlines unless they have this number, and belong to signatures of `slots` slots of slot_size bytes. */
void nd_outlines_begin(nd_outlines *outlines, int64_t number, size_t slots, size_t slot_size);
int nd_outlines_are_of(const nd_outlines *outlines, int64_t number, size_t slots, size_t slot_size);
/* Remembers a fingerprint; may evict another. */
void nd_outlines_keep(nd_outlines *outlines, int64_t id, const uint8_t *signature);
/* 1 if the fingerprint is remembered and more than `most` of its slots differ from the slots behind `outline`. */
int nd_outlines_tell_apart(const nd_outlines *outlines, int64_t id, const uint64_t *outline, size_t most);
size_t nd_outline_words(size_t slots);
void nd_outline_draw(const uint8_t *signature, size_t slots, size_t slot_size, uint64_t *outline);
/* The most slots that may differ if the share of equal slots is to be >= threshold; SIZE_MAX if it never is. */
size_t nd_slots_spared(size_t slots, double threshold);

/* The keys of many values in the order of their candidate table: by low for codes, else by low and group; then in the order of
 * adding. */
typedef struct nd_filing nd_filing;
typedef struct nd_filed { /* in the order of neardup_filing's columns */
    int64_t group_id;
    int64_t table_no;
    int64_t low; /* as in nd_key */
    int64_t high;
    int64_t crowd;
    int64_t id;
    size_t item; /* number of the value, in the order of adding */
} nd_filed;
nd_filing *nd_filing_new(void);
void nd_filing_free(nd_filing *filing);
/* Empties it, for the keys under which values are filed, or with `probing` for the keys that queries for them look up. */
void nd_filing_begin(nd_filing *filing, const nd_scheme *scheme, int probing);
/* crowd is handed through. */
int nd_filing_add(nd_filing *filing, int64_t group_id, int64_t id, int64_t crowd, const uint8_t *value, size_t size);
/* The same for known keys, and no crowd, in a plan with one table of numbers (bands, prefixes); a key equal to the last is skipped. */
int nd_filing_add_keys(nd_filing *filing, int64_t group_id, int64_t id, const int64_t *keys, size_t count);
/* Memory in bytes for the values added so far, sorting included. */
size_t nd_filing_memory(const nd_filing *filing);
/* After the last nd_filing_add; then nd_filing_next gives key after key, and ND_DONE after the last. */
int nd_filing_sort(nd_filing *filing);
int nd_filing_next(nd_filing *filing, nd_filed *out);
/* The code of an item, bits / 8 bytes, if the scheme has buckets of codes. */
const uint8_t *nd_filing_code(const nd_filing *filing, size_t item);

/* ---- buckets of codes ---------------------------------------------------------------------------------------------------- */

/* The id of a row is table_no, bucket, part, from the most significant bits on. A bucket is the bits that its codes share, if
 * these are at most ND_BUCKET_BITS and the group is 0; else a hash of the bits and the group. The latest entries are written
 * under the highest part; if they overflow it, earlier entries move to 0, 1, ..., as do entries of further groups. Once all
 * entries under the highest part are deleted, new entries continue under the last remaining part. */
#define ND_BUCKET_BITS 30
#define ND_PART_BITS 20 /* 2^20 rows of one bucket at most */

/* Entries: the low 4 bytes of XXH3-64 of what follows; a byte w; each code; each fingerprint's id, w bytes. All little-endian;
 * 1 <= w <= 8, one entry at least. */
typedef struct nd_entries {
    const uint8_t *codes;
    const uint8_t *ids;
    size_t count;
    size_t code_size;
    size_t id_size;
} nd_entries;

/* ND_ERROR_DAMAGED if the bytes are not entries of codes of this size, or their hash is wrong. */
int nd_entries_read(const uint8_t *bytes, size_t size, size_t code_size, nd_entries *out);
int64_t nd_entries_id(const nd_entries *entries, size_t place);
/* Places of the codes within max_distance of `code`, ascending; out has room for all. Returns how many. */
size_t nd_entries_near(const nd_entries *entries, const uint8_t *code, uint64_t max_distance, uint32_t *out);
/* The size in bytes of entries with these ids, none negative; and the entries. */
size_t nd_entries_size(const int64_t *ids, size_t count, size_t code_size);
void nd_entries_write(const int64_t *ids, const uint8_t *codes, size_t count, size_t code_size, uint8_t *out);

/* Similarity of two stored values and, for Hamming schemes, the distance (else -1). */
int nd_scheme_similarity(const nd_scheme *scheme, const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size,
    double *similarity, int64_t *distance);
/* Passages: runs of `shortest` tokens or more that two texts share, both given as stored values. The text asked for is indexed
 * once, and stays where it is until the next one. ND_ERROR_DAMAGED if a size is not a multiple of 4. */
typedef struct nd_passages nd_passages;
typedef struct nd_passage { /* in tokens */
    uint64_t start;
    uint64_t other_start;
    uint64_t tokens;
} nd_passage;
nd_passages *nd_passages_new(void);
void nd_passages_free(nd_passages *passages);
int nd_passages_begin(nd_passages *passages, const uint8_t *value, size_t size, size_t shortest);
/* How many tokens of each lie in common passages. */
int nd_passages_compare(nd_passages *passages, const uint8_t *other, size_t size, uint64_t *covered, uint64_t *other_covered);
/* The share of the shorter text's tokens that lie in common passages; of two of equal length the larger share. */
double nd_passage_share(uint64_t covered, size_t count, uint64_t other_covered, size_t other_count);
/* Each run of the text asked for that occurs in the other and cannot be longer at either end, where the other has it first; by
 * start. Valid until the next call. */
int nd_passages_find(nd_passages *passages, const uint8_t *other, size_t size, const nd_passage **out, size_t *count);

/* A few texts, to tell which of many others may share a passage of the scheme with one of them: add texts, fill, then ask. */
typedef struct nd_run_filter nd_run_filter;
nd_run_filter *nd_run_filter_new(const nd_scheme *scheme); /* NULL if memory is out */
void nd_run_filter_free(nd_run_filter *filter);
int nd_run_filter_add(nd_run_filter *filter, const nd_rules *rules, nd_text *work, const uint8_t *const *texts,
    const size_t *sizes, size_t count);
int nd_run_filter_fill(nd_run_filter *filter);
/* met[i]: 0 if text i shares no passage, 1 if it does, or rarely if it does not. */
int nd_run_filter_meet(const nd_run_filter *filter, const nd_rules *rules, nd_text *work, const uint8_t *const *texts,
    const size_t *sizes, size_t count, uint8_t *met);

/* Whether a value is similar to one of `count` others, in the layout of nd_values, by the scheme's rule at its bounds; compares
 * them one by one. */
int nd_scheme_is_like(const nd_scheme *scheme, const uint8_t *value, size_t size, const uint8_t *others, const uint64_t *ends,
    size_t count, int *like);

/* ---- components: disjoint sets of numbers above INT64_MIN ----------------------------------------------------------------- */

typedef struct nd_components nd_components;
nd_components *nd_components_new(void);
void nd_components_free(nd_components *components);
int64_t nd_components_find(const nd_components *components, int64_t member); /* the set's current name; else the member itself */
int nd_components_has(const nd_components *components, int64_t member);      /* whether it was ever joined */
int nd_components_join(nd_components *components, int64_t a, int64_t b);

/* ---- deduplication: which of many records to keep -------------------------------------------------------------------- */

/* Records come in the order of preference. A record is a duplicate if it matches an earlier kept record, by the scheme's rule
 * and in its candidate table; else it is kept. Duplicates are not held in memory. */
typedef struct nd_deduplicator nd_deduplicator;
nd_deduplicator *nd_deduplicator_new(const nd_scheme *scheme); /* NULL if memory is out */
void nd_deduplicator_free(nd_deduplicator *deduplicator);
/* The next records by their stored values, in the layout of nd_values; a value of size 0 matches nothing and is kept. groups:
 * records match within their group; NULL: one group. kept: for each record the number of the most similar kept record, the
 * earlier of two; -1 if the record itself is kept. Records are numbered from 0, in the order of adding. similarities: to that
 * record; 1.0 if the record is kept. After an error the deduplicator can only be freed. */
int nd_deduplicator_add(nd_deduplicator *deduplicator, const uint8_t *data, const uint64_t *ends, size_t count,
    const int64_t *groups, int64_t *kept, double *similarities);

/* ---- all pairs ---------------------------------------------------------------------------------------------------------- */

typedef struct nd_pairs {
    size_t count;
    int64_t *ids;         /* i, j, i, j, ...: i < j, ascending, each pair once */
    double *similarities; /* for joins of sets */
    void *found;          /* until a join has ended: uint64_t i << 32 | j, or nd_record of that key and the similarity's bits */
    size_t found_capacity;
} nd_pairs;
nd_pairs *nd_pairs_new(void);
void nd_pairs_free(nd_pairs *pairs);

/* Enough matching pairs to connect the matching values that share buckets (plan BANDS, in the layout of nd_values), by the
 * scheme's rule; a large bucket is connected component by component, and connected pairs are not compared. Row i: value
 * items[i] is in bucket buckets[i]; buckets ascend. Values before `first` are not compared with each other. known: for each
 * value another that it is already connected with, perhaps itself; NULL: none. ND_ERROR_DAMAGED if a compared value is not
 * valid. */
int nd_scheme_connect(const nd_scheme *scheme, const uint8_t *data, const uint64_t *ends, size_t count, size_t first,
    const int64_t *buckets, const int64_t *items, size_t row_count, const int64_t *known, nd_pairs *pairs);

/* All pairs of `count` codes of bits/8 bytes within max_distance. split: only pairs with i < split <= j, between the first
 * `split` codes and the others; SIZE_MAX: all. */
int nd_find_all(const uint8_t *codes, size_t count, size_t split, size_t bits, size_t max_distance, nd_pairs *pairs);
/* All pairs of ascending arrays (array i is values[ends[i-1]] .. values[ends[i]-1]) with Jaccard >= threshold; threshold > 0. They
 * come in pieces, so memory does not grow with their number. values and ends must stay valid until the last piece. split: as in
 * nd_find_all. Begin a join once. nd_set_join_next gives more pairs, perhaps none, and ND_DONE after the last: a piece ends
 * after the array that brings it to `most`. */
typedef struct nd_set_join nd_set_join;
nd_set_join *nd_set_join_new(void);
void nd_set_join_free(nd_set_join *join);
int nd_set_join_begin(nd_set_join *join, const uint64_t *values, const uint64_t *ends, size_t count, size_t split,
    double threshold);
int nd_set_join_next(nd_set_join *join, size_t most, nd_pairs *pairs);
