/* sqlite_stored.c: scalar functions that read the settings of an index; DIRECTONLY, not deterministic. The settings are read
 * once for each execution of a statement that names the index by a constant: they are kept beside that argument. */
#include "sqlite_neardup.h"

#include <string.h>

typedef struct stored {
    nd_settings settings;
    nd_workspace *workspace;
} stored;

static void stored_free(void *pointer)
{
    stored *s = pointer;
    nd_settings_clear(&s->settings);
    if (s->workspace != NULL)
        nd_workspace_release(s->workspace);
    sqlite3_free(s);
}

/* Reads the settings; NULL where the function has ended with an error. */
static stored *stored_load(sqlite3_context *context, const char *function, const char *index, int with_rules)
{
    char *message = NULL;
    stored *s = sqlite3_malloc64(sizeof *s);
    if (s == NULL) {
        sqlite3_result_error_nomem(context);
        return NULL;
    }
    memset(s, 0, sizeof *s);
    int code = nd_settings_load(sqlite3_context_db_handle(context), index, with_rules, &s->settings, &message);
    s->workspace = code == SQLITE_OK ? nd_workspace_new(sqlite3_context_db_handle(context)) : NULL;
    if (s->workspace != NULL)
        return s;
    if (message != NULL)
        nd_fail(context, "%s: %s", function, message);
    if (code == SQLITE_OK || code == SQLITE_NOMEM)
        sqlite3_result_error_nomem(context);
    else
        sqlite3_result_error_code(context, code);
    sqlite3_free(message);
    stored_free(s);
    return NULL;
}

/* Whether settings hold what a call needs; those of an index of codes have no rules to read. */
static int has_rules(const stored *s)
{
    return s->settings.rules != NULL || s->settings.scheme.kind == ND_SCHEME_BINARYCODE;
}

/* The index that argument 0 names; SQLite owns it until the function has returned, at least. */
static stored *stored_find(sqlite3_context *context, const char *function, sqlite3_value *index, int with_rules)
{
    const char *name = sqlite3_value_type(index) == SQLITE_TEXT ? (const char *)sqlite3_value_text(index) : NULL;
    if (name == NULL || strlen(name) != (size_t)sqlite3_value_bytes(index)) {
        nd_fail(context, "%s: the name of an index must be text without NUL, not %s", function, nd_type_name(index));
        return NULL;
    }
    stored *s = sqlite3_get_auxdata(context, 0);
    if (s != NULL && strcmp(s->settings.index, name) == 0 && (!with_rules || has_rules(s)))
        return s;
    s = stored_load(context, function, name, with_rules);
    if (s == NULL)
        return NULL;
    sqlite3_set_auxdata(context, 0, s, stored_free);
    if (sqlite3_get_auxdata(context, 0) == s)
        return s;
    /* Memory is out: SQLite has freed it already. */
    sqlite3_result_error_nomem(context);
    return NULL;
}

/* The shingle hashes of a text, in its order, into buffer `which`; ND_OK or what went wrong. */
static int text_hashes(stored *s, sqlite3_value *text, int which, uint64_t **hashes, size_t *count)
{
    const uint8_t *bytes;
    size_t size;
    if (!nd_value_bytes(text, &bytes, &size))
        return ND_ERROR_PARAMETER;
    nd_text *work = s->workspace->work;
    int status = nd_text_tokenize(work, s->settings.rules, bytes, size);
    if (status == ND_OK)
        status = nd_text_hash(work, s->settings.rules);
    if (status != ND_OK)
        return status;
    *count = nd_text_shingle_count(work, s->settings.rules);
    uint64_t *copy = nd_workspace_numbers(s->workspace, which, *count);
    if (copy == NULL)
        return ND_ERROR_MEMORY;
    if (*count > 0)
        memcpy(copy, nd_text_hashes(work), *count * sizeof *copy);
    *hashes = copy;
    return ND_OK;
}

/* ---- neardup_similarity(index, a, b) ----------------------------------------------------------------------------------
 *
 * Similarity of two stored fingerprints (blobs), or of two texts, as the scheme of the index measures it. NULL of NULL. Of an
 * exact index that stores texts, fingerprints tell the estimate by their signatures, texts the true similarity. */

/* Of two stored fingerprints into *similarity; 0 where the function has ended with an error. */
static int compare_values(sqlite3_context *context, const char *function, const stored *s, const uint8_t *const *bytes,
                          const size_t *sizes, double *similarity)
{
    int64_t distance;
    for (int i = 0; i < 2; i++) {
        if (nd_scheme_value_check(&s->settings.scheme, bytes[i], sizes[i]) != ND_OK) {
            nd_fail(context, "%s: %lld bytes that are no fingerprint of index \"%s\": wrong length or order", function,
                    (sqlite3_int64)sizes[i], s->settings.index);
            return 0;
        }
    }
    int status = nd_scheme_similarity(&s->settings.scheme, bytes[0], sizes[0], bytes[1], sizes[1], similarity, &distance);
    if (status != ND_OK)
        nd_fail_status(context, function, status);
    return status == ND_OK;
}

/* Of two texts; without shingles a text is like nothing. */
static int compare_texts(sqlite3_context *context, const char *function, stored *s, sqlite3_value **texts, double *similarity)
{
    const nd_scheme *scheme = &s->settings.scheme;
    const uint8_t *bytes[2];
    size_t sizes[2];
    int status;
    *similarity = 0.0;
    if (s->settings.rules == NULL) {
        nd_fail(context, "%s: index \"%s\" holds codes, not texts: give them as blobs", function, s->settings.index);
        return 0;
    }
    if (scheme->kind == ND_SCHEME_MINHASH && scheme->evidence != ND_EVIDENCE_NONE) {
        uint64_t *hashes[2];
        for (int i = 0; i < 2; i++) {
            status = text_hashes(s, texts[i], i, &hashes[i], &sizes[i]);
            if (status != ND_OK) {
                nd_fail_status(context, function, status);
                return 0;
            }
            sizes[i] = nd_sort_distinct(hashes[i], sizes[i]);
        }
        *similarity = nd_jaccard(hashes[0], sizes[0], hashes[1], sizes[1], 0.0);
        return 1;
    }
    for (int i = 0; i < 2; i++)
        (void)nd_value_bytes(texts[i], &bytes[i], &sizes[i]);
    nd_values *values = s->workspace->values;
    nd_values_clear(values);
    status = nd_scheme_append_texts(scheme, s->settings.rules, s->workspace->work, bytes, sizes, 2, values);
    if (status != ND_OK) {
        nd_fail_status(context, function, status);
        return 0;
    }
    const uint64_t *ends = nd_values_ends(values);
    sizes[0] = (size_t)ends[0];
    sizes[1] = (size_t)(ends[1] - ends[0]);
    if (sizes[0] == 0 || sizes[1] == 0)
        return 1;
    bytes[0] = nd_values_bytes(values);
    bytes[1] = bytes[0] + ends[0];
    return compare_values(context, function, s, bytes, sizes, similarity);
}

static void sql_similarity(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    static const char function[] = "neardup_similarity";
    double similarity;
    (void)argc;
    int types[2] = {sqlite3_value_type(argv[1]), sqlite3_value_type(argv[2])};
    stored *s = stored_find(context, function, argv[0], types[0] == SQLITE_TEXT && types[1] == SQLITE_TEXT);
    if (s == NULL || types[0] == SQLITE_NULL || types[1] == SQLITE_NULL)
        return;
    int done;
    if (types[0] == SQLITE_TEXT && types[1] == SQLITE_TEXT) {
        done = compare_texts(context, function, s, argv + 1, &similarity);
    } else if (types[0] == SQLITE_BLOB && types[1] == SQLITE_BLOB) {
        const uint8_t *bytes[2];
        size_t sizes[2];
        for (int i = 0; i < 2; i++)
            (void)nd_value_bytes(argv[i + 1], &bytes[i], &sizes[i]);
        done = compare_values(context, function, s, bytes, sizes, &similarity);
    } else {
        nd_fail(context, "%s: two texts, or two fingerprints as blobs, are needed, not %s and %s", function,
                nd_type_name(argv[1]), nd_type_name(argv[2]));
        return;
    }
    if (done)
        sqlite3_result_double(context, similarity);
}

/* ---- neardup_text_jaccard, neardup_text_containment --------------------------------------------------------------------- */

/* What the two functions below compare: the shingle hashes of a text by the text rules of the index, in its order and repeats
 * included, none of a NULL text; and the evidence, the sorted distinct shingle hashes of another text. */
typedef struct comparison {
    uint64_t *hashes;
    size_t hash_count;
    const uint64_t *evidence;
    size_t evidence_count;
} comparison;

/* 0 where the function has ended with an error. */
static int text_and_evidence(sqlite3_context *context, const char *function, stored *s, sqlite3_value **argv, comparison *out)
{
    memset(out, 0, sizeof *out);
    if (s->settings.rules == NULL) {
        nd_fail(context, "%s: index \"%s\" holds codes, not texts", function, s->settings.index);
        return 0;
    }
    int status = nd_ascending_numbers(s->workspace, 1, argv[2], &out->evidence, &out->evidence_count);
    if (status == ND_ERROR_DAMAGED) {
        nd_fail(context, "%s: evidence must be a blob of ascending distinct 64-bit hashes", function);
        return 0;
    }
    if (status == ND_OK && sqlite3_value_type(argv[1]) != SQLITE_NULL)
        status = text_hashes(s, argv[1], 0, &out->hashes, &out->hash_count);
    if (status == ND_ERROR_PARAMETER)
        nd_fail(context, "%s: text (or UTF-8 in a blob) is needed, not %s", function, nd_type_name(argv[1]));
    else if (status != ND_OK)
        nd_fail_status(context, function, status);
    return status == ND_OK;
}

/* neardup_text_jaccard(index, text, evidence, threshold) -> Jaccard similarity of the sets of text and evidence, 64 bits
 * little-endian a hash; 0.0 as soon as it is certain to be below threshold, and where the text is NULL. */
static void sql_text_jaccard(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    static const char function[] = "neardup_text_jaccard";
    comparison found;
    (void)argc;
    stored *s = stored_find(context, function, argv[0], 1);
    if (s == NULL)
        return;
    int threshold_type = sqlite3_value_type(argv[3]);
    if (threshold_type != SQLITE_FLOAT && threshold_type != SQLITE_INTEGER) {
        nd_fail(context, "%s: threshold must be a number, not %s", function, nd_type_name(argv[3]));
        return;
    }
    double threshold = sqlite3_value_double(argv[3]);
    if (threshold > 1.0) {
        nd_fail(context, "%s: threshold must be at most 1, not %g", function, threshold);
    } else if (text_and_evidence(context, function, s, argv, &found)) {
        size_t count = nd_sort_distinct(found.hashes, found.hash_count);
        sqlite3_result_double(context, nd_jaccard(found.hashes, count, found.evidence, found.evidence_count, threshold));
    }
}

/* neardup_text_containment(index, text, evidence) -> how much of the evidence's set is in the text's; 0.0 where the text is NULL or
 * the evidence empty. */
static void sql_text_containment(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    static const char function[] = "neardup_text_containment";
    comparison found;
    (void)argc;
    stored *s = stored_find(context, function, argv[0], 1);
    if (s != NULL && text_and_evidence(context, function, s, argv, &found))
        sqlite3_result_double(context,
                              nd_containment_unordered(found.evidence, found.evidence_count, found.hashes, found.hash_count));
}

int nd_register_stored(sqlite3 *db)
{
    int code = sqlite3_create_function_v2(db, "neardup_similarity", 3, SQLITE_UTF8 | SQLITE_DIRECTONLY, NULL, sql_similarity,
                                          NULL, NULL, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_create_function_v2(db, "neardup_text_jaccard", 4, SQLITE_UTF8 | SQLITE_DIRECTONLY, NULL, sql_text_jaccard,
                                          NULL, NULL, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_create_function_v2(db, "neardup_text_containment", 3, SQLITE_UTF8 | SQLITE_DIRECTONLY, NULL,
                                          sql_text_containment, NULL, NULL, NULL);
    return code;
}
