/* stored.c: scalar functions that read the settings of an index; DIRECTONLY, not deterministic. The settings are read
 * once for each execution of a statement that names the index by a constant: they are kept beside that argument. */
#include "sqlite/neardup.h"

#include <string.h>

static void settings_free(void *pointer)
{
    nd_cache_clear(pointer);
    sqlite3_free(pointer);
}

/* Whether settings hold what a call needs; those of an index of codes have no rules to read. */
static int has_rules(const nd_settings *settings)
{
    return settings->rules != NULL || settings->scheme.kind == ND_SCHEME_BINARYCODE;
}

/* The settings of the index that argument 0 names; SQLite owns them until the function has returned, at least. */
static int find(sqlite3_context *context, sqlite3_value *index, int with_rules, const nd_settings **out)
{
    char *message = NULL;
    const char *name = nd_index_name(index);
    nd_settings_cache *cache = sqlite3_get_auxdata(context, 0);
    *out = cache == NULL ? NULL : &cache->settings;
    if (cache != NULL && name != NULL && strcmp(name, (*out)->index) == 0 && (!with_rules || has_rules(*out)))
        return SQLITE_OK;
    cache = sqlite3_malloc64(sizeof *cache);
    if (cache == NULL)
        return SQLITE_NOMEM;
    *cache = (nd_settings_cache){.db = sqlite3_context_db_handle(context), .with_rules = with_rules};
    *out = &cache->settings;
    const int code = nd_cache_open(cache, index, &message);
    sqlite3_reset(cache->watch);
    if (message != NULL)
        (void)nd_fail(context, "%s", message);
    sqlite3_free(message);
    if (code != SQLITE_OK) {
        settings_free(cache);
        return code;
    }
    sqlite3_set_auxdata(context, 0, cache, settings_free);
    return sqlite3_get_auxdata(context, 0) == cache ? SQLITE_OK : SQLITE_NOMEM; /* then SQLite has freed them */
}

/* ---- neardup_similarity(index, a, b) ----------------------------------------------------------------------------------
 *
 * Similarity of two stored fingerprints (blobs), or of two texts, as the scheme of the index measures it. NULL of NULL. */

/* Makes the stored values of two texts in place of these. */
static int make_values(sqlite3_context *context, const nd_settings *settings, const uint8_t **bytes, size_t *sizes)
{
    nd_workspace *workspace = nd_function_workspace(context);
    nd_values *values = workspace->values;
    if (settings->rules == NULL)
        return nd_fail(context, "index \"%s\" holds codes, not texts: give them as blobs", settings->index);
    nd_values_clear(values);
    ND_TRY(nd_fail_status(context,
        nd_scheme_append_texts(&settings->scheme, settings->rules, workspace->work, bytes, sizes, 2, values)));
    sizes[0] = (size_t)values->ends[0];
    sizes[1] = (size_t)(values->ends[1] - values->ends[0]);
    bytes[0] = values->bytes;
    bytes[1] = bytes[0] + sizes[0];
    return SQLITE_OK;
}

static int sql_similarity(sqlite3_context *context, sqlite3_value **argv)
{
    const int types[] = {sqlite3_value_type(argv[1]), sqlite3_value_type(argv[2])};
    const int texts = types[0] == SQLITE_TEXT && types[1] == SQLITE_TEXT;
    const nd_settings *settings;
    const uint8_t *bytes[2];
    size_t sizes[2];
    double similarity = 0.0;
    int64_t distance;
    ND_TRY(find(context, argv[0], texts, &settings));
    if (types[0] == SQLITE_NULL || types[1] == SQLITE_NULL)
        return SQLITE_OK;
    if (!texts && (types[0] != SQLITE_BLOB || types[1] != SQLITE_BLOB))
        return nd_fail(context, "two texts, or two fingerprints as blobs, are needed, not %s and %s", nd_type_name(argv[1]),
            nd_type_name(argv[2]));
    for (int i = 0; i < 2; i++)
        (void)nd_value_bytes(argv[i + 1], &bytes[i], &sizes[i]);
    if (texts)
        ND_TRY(make_values(context, settings, bytes, sizes));
    if (!texts || (sizes[0] > 0 && sizes[1] > 0)) /* a text without shingles is like nothing */
        ND_TRY(nd_fail_status(context,
            nd_scheme_similarity(&settings->scheme, bytes[0], sizes[0], bytes[1], sizes[1], &similarity, &distance)));
    sqlite3_result_double(context, similarity);
    return SQLITE_OK;
}

const nd_scalar_spec nd_stored_scalars[] = {
    {"neardup_similarity", "***", 1, sql_similarity},
    {NULL, NULL, 0, NULL},
};
