/* scalars.c: the pure functions: INNOCUOUS and DETERMINISTIC, they read nothing but their arguments. A NULL argument gives NULL. */
#include "sqlite/neardup.h"

#include <string.h>

/* ---- comparisons --------------------------------------------------------------------------------------------------- */

/* neardup_number(numbers, place) -> the signed 64-bit number at a place, counted from 1, of a blob of such numbers in little-endian
 * order; NULL for INT64_MIN. What a column of a batch is handed over in. */
static void sql_number(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    if (nd_any_null(argc, argv))
        return;
    const uint8_t *numbers;
    size_t size;
    int64_t number, place = sqlite3_value_int64(argv[1]);
    if (sqlite3_value_type(argv[0]) != SQLITE_BLOB || sqlite3_value_type(argv[1]) != SQLITE_INTEGER) {
        nd_fail(context, "a blob and an integer are needed, not %s and %s", nd_type_name(argv[0]), nd_type_name(argv[1]));
        return;
    }
    (void)nd_value_bytes(argv[0], &numbers, &size);
    if (place < 1 || (uint64_t)place > size / sizeof number) {
        nd_fail(context, "place must be 1 to %lld, not %lld", (sqlite3_int64)(size / sizeof number), place);
        return;
    }
    memcpy(&number, numbers + (size_t)(place - 1) * sizeof number, sizeof number);
    if (number != INT64_MIN)
        sqlite3_result_int64(context, number);
}

/* neardup_intact(value, value_hash) -> 1 where the hash is that of the value (XXH3-64, as a signed number), else an error: a stored
 * fingerprint in which bits have flipped is not compared with anything. */
static void sql_intact(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    const uint8_t *value;
    size_t size;
    if (nd_any_null(argc, argv))
        return;
    if (sqlite3_value_type(argv[0]) != SQLITE_BLOB || sqlite3_value_type(argv[1]) != SQLITE_INTEGER)
        nd_fail(context, "a blob and an integer are needed, not %s and %s", nd_type_name(argv[0]), nd_type_name(argv[1]));
    else if (!nd_value_bytes(argv[0], &value, &size) || nd_xxh3_64(value, size, 0) != (uint64_t)sqlite3_value_int64(argv[1]))
        nd_fail(context, "a fingerprint is damaged: it is not the one that its hash was made of");
    else
        sqlite3_result_int(context, 1);
}

/* neardup_hamming(a, b) -> differing bits of two integers (64-bit patterns) or of two blobs of equal size. Queries call it for
 * every candidate: what they give comes first, and each value is asked for its type once. */
static void sql_hamming(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    int a_type = sqlite3_value_type(argv[0]);
    int b_type = sqlite3_value_type(argv[1]);
    if (a_type == SQLITE_INTEGER && b_type == SQLITE_INTEGER) {
        int64_t a = sqlite3_value_int64(argv[0]);
        int64_t b = sqlite3_value_int64(argv[1]);
        sqlite3_result_int64(context, (int64_t)nd_hamming((const uint8_t *)&a, (const uint8_t *)&b, sizeof a));
        return;
    }
    if (a_type != SQLITE_BLOB || b_type != SQLITE_BLOB) {
        if (!nd_any_null(argc, argv))
            nd_fail(context, "two integers or two blobs are needed, not %s and %s", nd_type_name(argv[0]), nd_type_name(argv[1]));
        return;
    }
    const uint8_t *a = sqlite3_value_blob(argv[0]);
    const uint8_t *b = sqlite3_value_blob(argv[1]);
    int a_size = sqlite3_value_bytes(argv[0]);
    int b_size = sqlite3_value_bytes(argv[1]);
    if (a_size != b_size)
        nd_fail(context, "blobs of equal size are needed, not %d and %d bytes", a_size, b_size);
    else if (a_size > 0 && (a == NULL || b == NULL))
        sqlite3_result_error_nomem(context);
    else
        sqlite3_result_int64(context, a_size == 0 ? 0 : (int64_t)nd_hamming(a, b, (size_t)a_size));
}

/* Two blobs of ascending unsigned 64-bit little-endian numbers; 0 where the function has ended with an error. */
static int two_number_blobs(sqlite3_context *context, sqlite3_value **argv, const uint64_t **numbers, size_t *counts)
{
    nd_workspace *workspace = nd_function_workspace(context);
    for (int i = 0; i < 2; i++) {
        if (sqlite3_value_type(argv[i]) != SQLITE_BLOB) {
            nd_fail(context, "a blob of hashes is needed, not %s", nd_type_name(argv[i]));
            return 0;
        }
        int status = nd_ascending_numbers(workspace, i, argv[i], &numbers[i], &counts[i]);
        if (status == ND_ERROR_DAMAGED) {
            nd_fail(context, "a blob of %d bytes does not hold ascending distinct 64-bit hashes", sqlite3_value_bytes(argv[i]));
            return 0;
        }
        if (!nd_fail_status(context, status))
            return 0;
    }
    return 1;
}

/* neardup_jaccard(a, b [, threshold]) -> Jaccard similarity of two sets of hashes, each a blob of ascending distinct unsigned
 * 64-bit little-endian numbers; 0.0 as soon as it is certain to be below threshold; of two empty sets 0.0. */
static void sql_jaccard(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    const uint64_t *numbers[2];
    size_t counts[2];
    double threshold = 0.0;
    if (nd_any_null(argc, argv))
        return;
    if (argc == 3 && !nd_argument_threshold(context, argv[2], &threshold))
        return;
    if (two_number_blobs(context, argv, numbers, counts))
        sqlite3_result_double(context, nd_jaccard(numbers[0], counts[0], numbers[1], counts[1], threshold));
}

/* neardup_hashes(value) -> what neardup_jaccard and neardup_containment compare: the numbers of a packed value, 64 bits each. */
static void sql_hashes(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    const uint8_t *value;
    size_t size;
    if (nd_any_null(argc, argv))
        return;
    if (sqlite3_value_type(argv[0]) != SQLITE_BLOB || !nd_value_bytes(argv[0], &value, &size)) {
        nd_fail(context, "a packed value is needed, not %s", nd_type_name(argv[0]));
        return;
    }
    const size_t count = nd_set_count(size);
    uint64_t *numbers = nd_workspace_numbers(nd_function_workspace(context), 0, count);
    int status = numbers == NULL ? ND_ERROR_MEMORY : nd_set_read(value, size, numbers);
    if (status == ND_ERROR_DAMAGED)
        nd_fail(context, "a blob of %d bytes is no packed set of hashes", sqlite3_value_bytes(argv[0]));
    else if (nd_fail_status(context, status))
        sqlite3_result_blob64(context, numbers, count * sizeof *numbers, SQLITE_TRANSIENT);
}

/* neardup_jaccard_estimate(a, b, k) -> unbiased estimate of the sets' Jaccard similarity from their k smallest hashes each. */
static void sql_jaccard_estimate(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    const uint64_t *numbers[2];
    size_t counts[2];
    int64_t k;
    if (nd_any_null(argc, argv))
        return;
    if (nd_argument_integer(context, "k", argv[2], 1, INT32_MAX, &k) && two_number_blobs(context, argv, numbers, counts))
        sqlite3_result_double(context, nd_jaccard_estimate(numbers[0], counts[0], numbers[1], counts[1], (size_t)k));
}

/* neardup_containment(a, b) -> |A and B| / |A|: how much of one set of hashes is in the other; 0.0 where A is empty. */
static void sql_containment(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    const uint64_t *numbers[2];
    size_t counts[2];
    if (!nd_any_null(argc, argv) && two_number_blobs(context, argv, numbers, counts))
        sqlite3_result_double(context, nd_containment(numbers[0], counts[0], numbers[1], counts[1]));
}

/* neardup_containment_estimate(a, b, k) -> the same estimated from the k smallest hashes of each, those that both cover; NULL
 * where b covers none of a's, so that nothing is known. */
static void sql_containment_estimate(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    const uint64_t *numbers[2];
    size_t counts[2];
    int64_t k;
    if (nd_any_null(argc, argv) || !nd_argument_integer(context, "k", argv[2], 1, INT32_MAX, &k) ||
        !two_number_blobs(context, argv, numbers, counts))
        return;
    double share = nd_containment_estimate(numbers[0], counts[0], numbers[1], counts[1], (size_t)k);
    if (share >= 0.0)
        sqlite3_result_double(context, share);
}

/* neardup_slot_share(a, b, slot_bits) -> share of equal slots of two MinHash signatures of 16-bit or 32-bit slots. */
static void sql_slot_share(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    int64_t slot_bits;
    if (nd_any_null(argc, argv) || !nd_argument_integer(context, "slot_bits", argv[2], 16, 32, &slot_bits))
        return;
    size_t size = (size_t)sqlite3_value_bytes(argv[0]);
    if (sqlite3_value_type(argv[0]) != SQLITE_BLOB || sqlite3_value_type(argv[1]) != SQLITE_BLOB) {
        nd_fail(context, "two blobs are needed, not %s and %s", nd_type_name(argv[0]), nd_type_name(argv[1]));
        return;
    }
    if (slot_bits % 16 != 0) {
        nd_fail(context, "slot_bits must be 16 or 32, not %lld", slot_bits);
        return;
    }
    size_t slot_size = (size_t)slot_bits / 8, count = size / slot_size;
    if (size != (size_t)sqlite3_value_bytes(argv[1]) || size == 0 || size % slot_size != 0) {
        nd_fail(context, "signatures of equal size and whole %lld-bit slots are needed, not %d and %d bytes", slot_bits,
            sqlite3_value_bytes(argv[0]), sqlite3_value_bytes(argv[1]));
        return;
    }
    const uint8_t *a = sqlite3_value_blob(argv[0]), *b = sqlite3_value_blob(argv[1]);
    if (a == NULL || b == NULL)
        sqlite3_result_error_nomem(context);
    else
        sqlite3_result_double(context, (double)nd_equal_slots(a, b, count, (int32_t)slot_bits) / (double)count);
}

/* ---- fingerprints ---------------------------------------------------------------------------------------------------- */

/* The value of a text under the scheme and the default rules as the function's result; NULL for a text without shingles. */
static void result_fingerprint(sqlite3_context *context, sqlite3_value *text, int64_t shingle, const nd_scheme *scheme)
{
    nd_workspace *workspace = nd_function_workspace(context);
    const uint8_t *bytes;
    size_t size;
    char message[256];
    if (!nd_value_bytes(text, &bytes, &size)) {
        nd_fail(context, "text (or UTF-8 in a blob) is needed, not %s", nd_type_name(text));
        return;
    }
    if (nd_scheme_check(scheme, message, sizeof message) != ND_OK) {
        nd_fail(context, "%s", message);
        return;
    }
    int status = ND_OK;
    if (workspace->rules == NULL || workspace->shingle != (int32_t)shingle) {
        nd_rules_free(workspace->rules);
        workspace->rules = NULL;
        status = nd_default_rules((int32_t)shingle, &workspace->rules);
        workspace->shingle = (int32_t)shingle;
    }
    nd_values_clear(workspace->values);
    if (status == ND_OK)
        status = nd_scheme_append_texts(scheme, workspace->rules, workspace->work, &bytes, &size, 1, workspace->values);
    if (!nd_fail_status(context, status))
        return;
    uint64_t value_size = workspace->values->ends[0];
    if (value_size > 0)
        sqlite3_result_blob64(context, workspace->values->bytes, value_size, SQLITE_TRANSIENT);
}

/* neardup_simhash(text [, shingle [, bits]]) -> SimHash code of the text, a blob of bits / 8 bytes, most significant bit first;
 * shingles of 3 words and 64 bits unless given. NULL for a text without words. */
static void sql_simhash(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    int64_t shingle = ND_DEFAULT_SHINGLE;
    int64_t bits = 64;
    nd_scheme scheme;
    if (nd_any_null(argc, argv))
        return;
    if (argc > 1 && !nd_argument_integer(context, "shingle", argv[1], 1, 1000, &shingle))
        return;
    if (argc > 2 && !nd_argument_integer(context, "bits", argv[2], 8, 64, &bits))
        return;
    memset(&scheme, 0, sizeof scheme);
    scheme.kind = ND_SCHEME_SIMHASH;
    scheme.plan = ND_PLAN_SCAN;
    scheme.bits = (int32_t)bits;
    result_fingerprint(context, argv[0], shingle, &scheme);
}

/* neardup_minhash(text [, num_perm [, seed [, shingle]]]) -> MinHash signature of the text, a blob of num_perm 16-bit
 * little-endian slots; 128 slots, seed 1 and shingles of 3 words unless given. NULL for a text without words. */
static void sql_minhash(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    int64_t num_perm = 128;
    int64_t seed = 1;
    int64_t shingle = ND_DEFAULT_SHINGLE;
    nd_scheme scheme;
    if (nd_any_null(argc, argv))
        return;
    if (argc > 1 && !nd_argument_integer(context, "num_perm", argv[1], 1, 65536, &num_perm))
        return;
    if (argc > 2 && !nd_argument_integer(context, "seed", argv[2], 0, INT64_MAX, &seed))
        return;
    if (argc > 3 && !nd_argument_integer(context, "shingle", argv[3], 1, 1000, &shingle))
        return;
    memset(&scheme, 0, sizeof scheme);
    scheme.kind = ND_SCHEME_MINHASH;
    scheme.plan = ND_PLAN_BANDS;
    scheme.num_perm = (int32_t)num_perm;
    scheme.bands = 1; /* no table is made here: any bands will do */
    scheme.rows = 1;
    scheme.slot_bits = 16;
    scheme.family = ND_FAMILY_AFFINE32;
    scheme.evidence = ND_EVIDENCE_NONE;
    scheme.seed = (uint64_t)seed;
    scheme.threshold = 0.8;
    result_fingerprint(context, argv[0], shingle, &scheme);
}

/* ---- the library ------------------------------------------------------------------------------------------------------- */

/* neardup_version() -> version of the package, '0.2.0'. */
static void sql_version(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    (void)argv;
    sqlite3_result_text(context, nd_version(), -1, SQLITE_TRANSIENT);
}

/* neardup_isa() -> name of the active tier of kernels, 'scalar', 'avx2', ... */
static void sql_isa(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    (void)argv;
    sqlite3_result_text(context, nd_isa_name(), -1, SQLITE_TRANSIENT);
}

const nd_scalar_spec nd_pure_scalars[] = {
    {"neardup_version", 0, 0, sql_version},
    {"neardup_isa", 0, 0, sql_isa},
    {"neardup_hamming", 2, 0, sql_hamming},
    {"neardup_intact", 2, 0, sql_intact},
    {"neardup_number", 2, 0, sql_number},
    {"neardup_jaccard", 2, 0, sql_jaccard},
    {"neardup_jaccard", 3, 0, sql_jaccard},
    {"neardup_hashes", 1, 0, sql_hashes},
    {"neardup_jaccard_estimate", 3, 0, sql_jaccard_estimate},
    {"neardup_containment", 2, 0, sql_containment},
    {"neardup_containment_estimate", 3, 0, sql_containment_estimate},
    {"neardup_slot_share", 3, 0, sql_slot_share},
    {"neardup_simhash", 1, 0, sql_simhash},
    {"neardup_simhash", 2, 0, sql_simhash},
    {"neardup_simhash", 3, 0, sql_simhash},
    {"neardup_minhash", 1, 0, sql_minhash},
    {"neardup_minhash", 2, 0, sql_minhash},
    {"neardup_minhash", 3, 0, sql_minhash},
    {"neardup_minhash", 4, 0, sql_minhash},
    {NULL, 0, 0, NULL},
};
