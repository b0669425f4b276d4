/* vtab_probe.c: the keys of a fingerprint under the stored scheme of an index. DIRECTONLY: they read its settings.
 *
 * neardup_probe(index, fingerprint [, containment [, group_id]]) -> table_no, low, high: what a query looks up in the candidate
 * table: a key (low = high), or of codes a bucket, which is the rows with ids from low to high. containment: the query is for what
 * holds at least this share of the fingerprint's hashes (bottom-k indexes made for it); NULL or not given: for what is similar to
 * it. group_id: 0 where it is not given.
 * neardup_keys(index, fingerprint [, group_id]) -> table_no, low: where the candidate table holds a stored fingerprint.
 * A NULL fingerprint has no rows. */
#include "sqlite/neardup.h"

typedef struct keys_cursor {
    nd_cursor head;
    nd_keys *keys;
} keys_cursor;

static void keys_close(nd_cursor *base)
{
    nd_table_give_keys(nd_table_of(base), ((keys_cursor *)base)->keys);
}

/* The keys that a query for containment looks up. */
static int containment_keys(keys_cursor *cursor, const nd_settings *settings, const uint8_t *bytes, size_t size, int *status)
{
    nd_table *table = nd_table_of(&cursor->head);
    sqlite3_value *share = cursor->head.inputs[2];
    int type = sqlite3_value_type(share);
    if (type != SQLITE_FLOAT && type != SQLITE_INTEGER)
        return nd_table_fail(table, "containment must be a number, not %s", nd_type_name(share));
    double threshold = sqlite3_value_double(share);
    if (!(threshold > 0.0 && threshold <= 1.0))
        return nd_table_fail(table, "containment must be above 0 and at most 1, not %g", threshold);
    if (!settings->scheme.containment)
        return nd_table_fail(table, "index \"%s\" does not file all hashes: rebuild it as BottomK(containment=True)",
            settings->index);
    *status = nd_scheme_containment_keys(&settings->scheme, bytes, size, threshold, cursor->keys);
    return SQLITE_OK;
}

/* neardup_keys: the keys under which a fingerprint is filed; neardup_probe: those that a query looks up. */
static int keys_fill(nd_cursor *base)
{
    keys_cursor *cursor = (keys_cursor *)base;
    nd_table *table = nd_table_of(base);
    const nd_settings *settings = &table->cache.settings;
    const int filing = table->spec == &nd_keys_function;
    const uint8_t *bytes;
    size_t size;
    int64_t group_id;
    if (nd_input_is_null(base, 1))
        return SQLITE_OK;
    ND_TRY(nd_input_blob(base, 1, "a fingerprint", &bytes, &size));
    ND_TRY(nd_input_integer(base, filing ? 2 : 3, "group_id", INT64_MIN, INT64_MAX, 0, &group_id));
    ND_TRY(nd_table_take_keys(table, &cursor->keys));
    int status = ND_OK;
    if (filing)
        status = nd_scheme_file_keys(&settings->scheme, group_id, bytes, size, cursor->keys);
    else if (nd_input_is_null(base, 2))
        status = nd_scheme_probe_keys(&settings->scheme, group_id, bytes, size, cursor->keys);
    else
        ND_TRY(containment_keys(cursor, settings, bytes, size, &status));
    ND_TRY(nd_table_fail_value(table, status, size));
    base->count = cursor->keys->count;
    return SQLITE_OK;
}

static void keys_column(nd_cursor *base, sqlite3_context *context, int column)
{
    const nd_key *key = ((const keys_cursor *)base)->keys->rows + base->row;
    sqlite3_result_int64(context, column == 0 ? key->table_no : column == 1 ? key->low : key->high);
}

const nd_table_spec nd_probe_function = {
    .name = "neardup_probe",
    .declaration =
        "CREATE TABLE x(table_no INTEGER, low, high, index_name HIDDEN, fingerprint HIDDEN, containment HIDDEN, group_id HIDDEN)",
    .columns = {3, 2, 4, 20},
    .reads = ND_READS_SETTINGS,
    .cursor = {sizeof(keys_cursor), keys_close, keys_fill, NULL, keys_column},
};

const nd_table_spec nd_keys_function = {
    .name = "neardup_keys",
    .declaration = "CREATE TABLE x(table_no INTEGER, low, index_name HIDDEN, fingerprint HIDDEN, group_id HIDDEN)",
    .columns = {2, 2, 3, 20},
    .reads = ND_READS_SETTINGS,
    .cursor = {sizeof(keys_cursor), keys_close, keys_fill, NULL, keys_column},
};
