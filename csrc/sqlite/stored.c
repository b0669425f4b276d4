/* stored.c: scalar functions that read the settings of an index; DIRECTONLY, not deterministic. The settings are read
 * once for each execution of a statement that names the index by a constant: they are kept beside that argument. */
#include "sqlite/neardup.h"

#include <string.h>

static void settings_free(void *pointer)
{
    nd_settings_clear(pointer);
    sqlite3_free(pointer);
}

/* Reads the settings; NULL where the function has ended with an error. */
static nd_settings *load(sqlite3_context *context, const char *index, int with_rules)
{
    char *message = NULL;
    nd_settings *settings = sqlite3_malloc64(sizeof *settings);
    if (settings == NULL) {
        sqlite3_result_error_nomem(context);
        return NULL;
    }
    int code = nd_settings_load(sqlite3_context_db_handle(context), index, with_rules, settings, &message);
    if (code == SQLITE_OK)
        return settings;
    if (message != NULL)
        nd_fail(context, "%s", message);
    if (code == SQLITE_NOMEM)
        sqlite3_result_error_nomem(context);
    else
        sqlite3_result_error_code(context, code);
    sqlite3_free(message);
    settings_free(settings);
    return NULL;
}

/* Whether settings hold what a call needs; those of an index of codes have no rules to read. */
static int has_rules(const nd_settings *settings)
{
    return settings->rules != NULL || settings->scheme.kind == ND_SCHEME_BINARYCODE;
}

/* The index that argument 0 names; SQLite owns it until the function has returned, at least. */
static const nd_settings *find(sqlite3_context *context, sqlite3_value *index, int with_rules)
{
    const char *name = sqlite3_value_type(index) == SQLITE_TEXT ? (const char *)sqlite3_value_text(index) : NULL;
    if (name == NULL || strlen(name) != (size_t)sqlite3_value_bytes(index)) {
        nd_fail(context, "the name of an index must be text without NUL, not %s", nd_type_name(index));
        return NULL;
    }
    nd_settings *settings = sqlite3_get_auxdata(context, 0);
    if (settings != NULL && strcmp(settings->index, name) == 0 && (!with_rules || has_rules(settings)))
        return settings;
    settings = load(context, name, with_rules);
    if (settings == NULL)
        return NULL;
    sqlite3_set_auxdata(context, 0, settings, settings_free);
    if (sqlite3_get_auxdata(context, 0) == settings)
        return settings;
    /* Memory is out, and SQLite has freed the settings. */
    sqlite3_result_error_nomem(context);
    return NULL;
}

/* ---- neardup_similarity(index, a, b) ----------------------------------------------------------------------------------
 *
 * Similarity of two stored fingerprints (blobs), or of two texts, as the scheme of the index measures it. NULL of NULL. */

/* Of two stored fingerprints into *similarity; 0 where the function has ended with an error. */
static int compare_values(sqlite3_context *context, const nd_settings *settings, const uint8_t *const *bytes, const size_t *sizes,
    double *similarity)
{
    int64_t distance;
    for (int i = 0; i < 2; i++) {
        if (nd_scheme_value_check(&settings->scheme, bytes[i], sizes[i]) != ND_OK) {
            nd_fail(context, "%lld bytes that are no fingerprint of index \"%s\": wrong length or order", (sqlite3_int64)sizes[i],
                settings->index);
            return 0;
        }
    }
    return nd_fail_status(context,
        nd_scheme_similarity(&settings->scheme, bytes[0], sizes[0], bytes[1], sizes[1], similarity, &distance));
}

/* Of two texts; without shingles a text is like nothing. */
static int compare_texts(sqlite3_context *context, const nd_settings *settings, sqlite3_value **texts, double *similarity)
{
    const nd_scheme *scheme = &settings->scheme;
    nd_workspace *workspace = nd_function_workspace(context);
    const uint8_t *bytes[2];
    size_t sizes[2];
    *similarity = 0.0;
    if (settings->rules == NULL) {
        nd_fail(context, "index \"%s\" holds codes, not texts: give them as blobs", settings->index);
        return 0;
    }
    for (int i = 0; i < 2; i++)
        (void)nd_value_bytes(texts[i], &bytes[i], &sizes[i]);
    nd_values *values = workspace->values;
    nd_values_clear(values);
    if (!nd_fail_status(context, nd_scheme_append_texts(scheme, settings->rules, workspace->work, bytes, sizes, 2, values)))
        return 0;
    const uint64_t *ends = values->ends;
    sizes[0] = (size_t)ends[0];
    sizes[1] = (size_t)(ends[1] - ends[0]);
    if (sizes[0] == 0 || sizes[1] == 0)
        return 1;
    bytes[0] = values->bytes;
    bytes[1] = bytes[0] + ends[0];
    return compare_values(context, settings, bytes, sizes, similarity);
}

static void sql_similarity(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    double similarity;
    (void)argc;
    int types[2] = {sqlite3_value_type(argv[1]), sqlite3_value_type(argv[2])};
    const nd_settings *settings = find(context, argv[0], types[0] == SQLITE_TEXT && types[1] == SQLITE_TEXT);
    if (settings == NULL || types[0] == SQLITE_NULL || types[1] == SQLITE_NULL)
        return;
    int done;
    if (types[0] == SQLITE_TEXT && types[1] == SQLITE_TEXT) {
        done = compare_texts(context, settings, argv + 1, &similarity);
    } else if (types[0] == SQLITE_BLOB && types[1] == SQLITE_BLOB) {
        const uint8_t *bytes[2];
        size_t sizes[2];
        for (int i = 0; i < 2; i++)
            (void)nd_value_bytes(argv[i + 1], &bytes[i], &sizes[i]);
        done = compare_values(context, settings, bytes, sizes, &similarity);
    } else {
        nd_fail(context, "two texts, or two fingerprints as blobs, are needed, not %s and %s", nd_type_name(argv[1]),
            nd_type_name(argv[2]));
        return;
    }
    if (done)
        sqlite3_result_double(context, similarity);
}

const nd_scalar_spec nd_stored_scalars[] = {
    {"neardup_similarity", 3, 1, sql_similarity},
    {NULL, 0, 0, NULL},
};
