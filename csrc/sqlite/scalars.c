/* scalars.c: the pure functions: INNOCUOUS and DETERMINISTIC, they read nothing but their arguments. */
#include "sqlite/neardup.h"

#include <string.h>

/* ---- comparisons --------------------------------------------------------------------------------------------------- */

/* neardup_number(numbers, place) -> the signed 64-bit number at a place, counted from 1, of a blob of such numbers in little-endian
 * order; NULL for INT64_MIN. What a column of a batch is handed over in. */
static int sql_number(sqlite3_context *context, sqlite3_value **argv)
{
    const uint8_t *numbers;
    size_t size;
    int64_t number;
    const int64_t place = sqlite3_value_int64(argv[1]);
    (void)nd_value_bytes(argv[0], &numbers, &size);
    if (place < 1 || (uint64_t)place > size / sizeof number)
        return nd_fail(context, "place must be 1 to %lld, not %lld", (sqlite3_int64)(size / sizeof number), place);
    memcpy(&number, numbers + (size_t)(place - 1) * sizeof number, sizeof number);
    if (number != INT64_MIN)
        sqlite3_result_int64(context, number);
    return SQLITE_OK;
}

/* neardup_intact(value, value_hash) -> 1 where the hash is that of the value (XXH3-64, as a signed number), else an error: a stored
 * fingerprint in which bits have flipped is not compared with anything. */
static int sql_intact(sqlite3_context *context, sqlite3_value **argv)
{
    const uint8_t *value;
    size_t size;
    (void)nd_value_bytes(argv[0], &value, &size);
    if (nd_xxh3_64(value, size, 0) != (uint64_t)sqlite3_value_int64(argv[1]))
        return nd_fail(context, "a fingerprint is damaged: it is not the one that its hash was made of");
    sqlite3_result_int(context, 1);
    return SQLITE_OK;
}

/* neardup_hamming(a, b) -> differing bits of two integers (64-bit patterns) or of two blobs of equal size. NULL of NULL. */
static int sql_hamming(sqlite3_context *context, sqlite3_value **argv)
{
    const int types[] = {sqlite3_value_type(argv[0]), sqlite3_value_type(argv[1])};
    if (types[0] == SQLITE_INTEGER && types[1] == SQLITE_INTEGER) {
        const int64_t a = sqlite3_value_int64(argv[0]), b = sqlite3_value_int64(argv[1]);
        sqlite3_result_int64(context, (int64_t)nd_hamming((const uint8_t *)&a, (const uint8_t *)&b, sizeof a));
        return SQLITE_OK;
    }
    if (types[0] == SQLITE_NULL || types[1] == SQLITE_NULL)
        return SQLITE_OK;
    if (types[0] != SQLITE_BLOB || types[1] != SQLITE_BLOB)
        return nd_fail(context, "two integers or two blobs are needed, not %s and %s", nd_type_name(argv[0]),
            nd_type_name(argv[1]));
    const uint8_t *a = sqlite3_value_blob(argv[0]), *b = sqlite3_value_blob(argv[1]);
    const int a_size = sqlite3_value_bytes(argv[0]), b_size = sqlite3_value_bytes(argv[1]);
    if (a_size != b_size)
        return nd_fail(context, "blobs of equal size are needed, not %d and %d bytes", a_size, b_size);
    if (a_size > 0 && (a == NULL || b == NULL))
        return SQLITE_NOMEM;
    sqlite3_result_int64(context, a_size == 0 ? 0 : (int64_t)nd_hamming(a, b, (size_t)a_size));
    return SQLITE_OK;
}

/* Two blobs of ascending unsigned 64-bit little-endian numbers. */
static int two_sets(sqlite3_context *context, sqlite3_value **argv, const uint64_t **numbers, size_t *counts)
{
    for (int i = 0; i < 2; i++) {
        const int status = nd_ascending_numbers(nd_function_workspace(context), i, argv[i], &numbers[i], &counts[i]);
        if (status == ND_ERROR_DAMAGED)
            return nd_fail(context, "a blob of %d bytes does not hold ascending distinct 64-bit hashes",
                sqlite3_value_bytes(argv[i]));
        ND_TRY(nd_fail_status(context, status));
    }
    return SQLITE_OK;
}

/* neardup_jaccard(a, b [, threshold]) -> Jaccard similarity of two sets of hashes, each a blob of ascending distinct unsigned
 * 64-bit little-endian numbers; 0.0 as soon as it is certain to be below threshold; of two empty sets 0.0. */
static int sql_jaccard(sqlite3_context *context, sqlite3_value **argv)
{
    const uint64_t *numbers[2];
    size_t counts[2];
    const double threshold = argv[2] == NULL ? 0.0 : sqlite3_value_double(argv[2]);
    if (threshold > 1.0)
        return nd_fail(context, "threshold must be at most 1, not %g", threshold);
    ND_TRY(two_sets(context, argv, numbers, counts));
    sqlite3_result_double(context, nd_jaccard(numbers[0], counts[0], numbers[1], counts[1], threshold));
    return SQLITE_OK;
}

/* neardup_hashes(value) -> what neardup_jaccard and neardup_containment compare: the numbers of a packed value, 64 bits each. */
static int sql_hashes(sqlite3_context *context, sqlite3_value **argv)
{
    const uint8_t *value;
    size_t size;
    (void)nd_value_bytes(argv[0], &value, &size);
    const size_t count = nd_set_count(size);
    uint64_t *numbers = nd_workspace_numbers(nd_function_workspace(context), 0, count);
    if (numbers == NULL)
        return SQLITE_NOMEM;
    if (nd_set_read(value, size, numbers) != ND_OK)
        return nd_fail(context, "a blob of %d bytes is no packed set of hashes", sqlite3_value_bytes(argv[0]));
    sqlite3_result_blob64(context, numbers, count * sizeof *numbers, SQLITE_TRANSIENT);
    return SQLITE_OK;
}

/* neardup_jaccard_estimate(a, b, k) -> unbiased estimate of the sets' Jaccard similarity from their k smallest hashes each. */
static int sql_jaccard_estimate(sqlite3_context *context, sqlite3_value **argv)
{
    const uint64_t *numbers[2];
    size_t counts[2];
    int64_t k;
    ND_TRY(nd_argument_integer(context, "k", argv[2], 1, INT32_MAX, &k));
    ND_TRY(two_sets(context, argv, numbers, counts));
    sqlite3_result_double(context, nd_jaccard_estimate(numbers[0], counts[0], numbers[1], counts[1], (size_t)k));
    return SQLITE_OK;
}

/* neardup_containment(a, b) -> |A and B| / |A|: how much of one set of hashes is in the other; 0.0 where A is empty. */
static int sql_containment(sqlite3_context *context, sqlite3_value **argv)
{
    const uint64_t *numbers[2];
    size_t counts[2];
    ND_TRY(two_sets(context, argv, numbers, counts));
    sqlite3_result_double(context, nd_containment(numbers[0], counts[0], numbers[1], counts[1]));
    return SQLITE_OK;
}

/* neardup_containment_estimate(a, b, k) -> the same estimated from the k smallest hashes of each, those that both cover; NULL
 * where b covers none of a's, so that nothing is known. */
static int sql_containment_estimate(sqlite3_context *context, sqlite3_value **argv)
{
    const uint64_t *numbers[2];
    size_t counts[2];
    int64_t k;
    ND_TRY(nd_argument_integer(context, "k", argv[2], 1, INT32_MAX, &k));
    ND_TRY(two_sets(context, argv, numbers, counts));
    const double share = nd_containment_estimate(numbers[0], counts[0], numbers[1], counts[1], (size_t)k);
    if (share >= 0.0)
        sqlite3_result_double(context, share);
    return SQLITE_OK;
}

/* neardup_slot_share(a, b, slot_bits) -> share of equal slots of two MinHash signatures of 16-bit or 32-bit slots. */
static int sql_slot_share(sqlite3_context *context, sqlite3_value **argv)
{
    int64_t slot_bits;
    ND_TRY(nd_argument_integer(context, "slot_bits", argv[2], 16, 32, &slot_bits));
    if (slot_bits % 16 != 0)
        return nd_fail(context, "slot_bits must be 16 or 32, not %lld", slot_bits);
    const uint8_t *a = sqlite3_value_blob(argv[0]), *b = sqlite3_value_blob(argv[1]);
    const size_t size = (size_t)sqlite3_value_bytes(argv[0]), slot_size = (size_t)slot_bits / 8, count = size / slot_size;
    if (size != (size_t)sqlite3_value_bytes(argv[1]) || size == 0 || size % slot_size != 0)
        return nd_fail(context, "signatures of equal size and whole %lld-bit slots are needed, not %d and %d bytes", slot_bits,
            sqlite3_value_bytes(argv[0]), sqlite3_value_bytes(argv[1]));
    if (a == NULL || b == NULL)
        return SQLITE_NOMEM;
    sqlite3_result_double(context, (double)nd_equal_slots(a, b, count, (int32_t)slot_bits) / (double)count);
    return SQLITE_OK;
}

/* ---- fingerprints ---------------------------------------------------------------------------------------------------- */

/* The value of a text under the scheme and the default rules as the function's result; NULL for a text without shingles. */
static int result_fingerprint(sqlite3_context *context, sqlite3_value *text, int64_t shingle, const nd_scheme *scheme)
{
    nd_workspace *workspace = nd_function_workspace(context);
    const uint8_t *bytes;
    size_t size;
    char message[256];
    (void)nd_value_bytes(text, &bytes, &size);
    if (nd_scheme_check(scheme, message, sizeof message) != ND_OK)
        return nd_fail(context, "%s", message);
    nd_values_clear(workspace->values);
    ND_TRY(nd_fail_status(context, nd_workspace_rules(workspace, (int32_t)shingle)));
    ND_TRY(nd_fail_status(context,
        nd_scheme_append_texts(scheme, workspace->rules, workspace->work, &bytes, &size, 1, workspace->values)));
    if (workspace->values->ends[0] > 0)
        sqlite3_result_blob64(context, workspace->values->bytes, workspace->values->ends[0], SQLITE_TRANSIENT);
    return SQLITE_OK;
}

/* neardup_simhash(text [, shingle [, bits]]) -> SimHash code of the text, a blob of bits / 8 bytes, most significant bit first;
 * shingles of 3 words and 64 bits unless given. NULL for a text without words. */
static int sql_simhash(sqlite3_context *context, sqlite3_value **argv)
{
    int64_t shingle = ND_DEFAULT_SHINGLE, bits = 64;
    ND_TRY(nd_argument_integer(context, "shingle", argv[1], 1, 1000, &shingle));
    ND_TRY(nd_argument_integer(context, "bits", argv[2], 8, 64, &bits));
    const nd_scheme scheme = {.kind = ND_SCHEME_SIMHASH, .plan = ND_PLAN_SCAN, .bits = (int32_t)bits};
    return result_fingerprint(context, argv[0], shingle, &scheme);
}

/* neardup_minhash(text [, num_perm [, seed [, shingle]]]) -> MinHash signature of the text, a blob of num_perm 16-bit
 * little-endian slots; 128 slots, seed 1 and shingles of 3 words unless given. NULL for a text without words. */
static int sql_minhash(sqlite3_context *context, sqlite3_value **argv)
{
    int64_t num_perm = 128, seed = 1, shingle = ND_DEFAULT_SHINGLE;
    ND_TRY(nd_argument_integer(context, "num_perm", argv[1], 1, 65536, &num_perm));
    ND_TRY(nd_argument_integer(context, "seed", argv[2], 0, INT64_MAX, &seed));
    ND_TRY(nd_argument_integer(context, "shingle", argv[3], 1, 1000, &shingle));
    const nd_scheme scheme = {.kind = ND_SCHEME_MINHASH,
        .plan = ND_PLAN_BANDS,
        .num_perm = (int32_t)num_perm,
        .bands = 1, /* no table is made here: any bands will do */
        .rows = 1,
        .slot_bits = 16,
        .family = ND_FAMILY_AFFINE32,
        .evidence = ND_EVIDENCE_NONE,
        .seed = (uint64_t)seed,
        .threshold = 0.8};
    return result_fingerprint(context, argv[0], shingle, &scheme);
}

/* ---- the library ------------------------------------------------------------------------------------------------------- */

/* neardup_version() -> version of the package, '0.2.0'. */
static int sql_version(sqlite3_context *context, sqlite3_value **argv)
{
    (void)argv;
    sqlite3_result_text(context, nd_version(), -1, SQLITE_TRANSIENT);
    return SQLITE_OK;
}

/* neardup_isa() -> name of the active tier of kernels, 'scalar', 'avx2', ... */
static int sql_isa(sqlite3_context *context, sqlite3_value **argv)
{
    (void)argv;
    sqlite3_result_text(context, nd_isa_name(), -1, SQLITE_TRANSIENT);
    return SQLITE_OK;
}

const nd_scalar_spec nd_pure_scalars[] = {
    {"neardup_version", "", 0, sql_version},
    {"neardup_isa", "", 0, sql_isa},
    {"neardup_hamming", "**", 0, sql_hamming},
    {"neardup_intact", "bi", 0, sql_intact},
    {"neardup_number", "bi", 0, sql_number},
    {"neardup_jaccard", "bb", 0, sql_jaccard},
    {"neardup_jaccard", "bbn", 0, sql_jaccard},
    {"neardup_hashes", "b", 0, sql_hashes},
    {"neardup_jaccard_estimate", "bbi", 0, sql_jaccard_estimate},
    {"neardup_containment", "bb", 0, sql_containment},
    {"neardup_containment_estimate", "bbi", 0, sql_containment_estimate},
    {"neardup_slot_share", "bbi", 0, sql_slot_share},
    {"neardup_simhash", "t", 0, sql_simhash},
    {"neardup_simhash", "ti", 0, sql_simhash},
    {"neardup_simhash", "tii", 0, sql_simhash},
    {"neardup_minhash", "t", 0, sql_minhash},
    {"neardup_minhash", "ti", 0, sql_minhash},
    {"neardup_minhash", "tii", 0, sql_minhash},
    {"neardup_minhash", "tiii", 0, sql_minhash},
    {NULL, NULL, 0, NULL},
};
