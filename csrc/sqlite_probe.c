/* sqlite_probe.c: the keys of a fingerprint under the stored scheme of an index. DIRECTONLY: they read its settings.
 *
 * neardup_probe(index, fingerprint [, containment [, group_id]]) -> table_no, low, high: what a query looks up in the candidate
 * table: a key (low = high), or of codes a bucket, which is the rows with ids from low to high. containment: the query is for what
 * holds at least this share of the fingerprint's hashes (bottom-k indexes made for it); NULL or not given: for what is similar to
 * it. group_id: 0 where it is not given.
 * neardup_keys(index, fingerprint [, group_id]) -> table_no, low: where the candidate table holds a stored fingerprint.
 * A NULL fingerprint has no rows. */
#include "sqlite_neardup.h"

#include <string.h>

static nd_table_spec probe_spec = {
    .name = "neardup_probe",
    .declaration = "CREATE TABLE x(table_no INTEGER, low, high, index_name HIDDEN, fingerprint HIDDEN, containment HIDDEN, group_id HIDDEN)",
    .innocuous = 0,
    .outputs = 3,
    .required = 2,
    .inputs = 4,
    .rows = 20,
};

static nd_table_spec keys_spec = {
    .name = "neardup_keys",
    .declaration = "CREATE TABLE x(table_no INTEGER, low, index_name HIDDEN, fingerprint HIDDEN, group_id HIDDEN)",
    .innocuous = 0,
    .outputs = 2,
    .required = 2,
    .inputs = 3,
    .rows = 20,
};

typedef struct keys_cursor {
    nd_cursor head;
    nd_keys *keys;
    int64_t serial; /* of the settings that this cursor has seen: one statement sees one state of the database */
} keys_cursor;

static int keys_open(sqlite3_vtab *base, sqlite3_vtab_cursor **out)
{
    nd_table *table = (nd_table *)base;
    int code = nd_cursor_open(sizeof(keys_cursor), out);
    if (code != SQLITE_OK)
        return code;
    keys_cursor *cursor = (keys_cursor *)*out;
    cursor->keys = table->spare_keys != NULL ? table->spare_keys : nd_keys_new();
    table->spare_keys = NULL;
    if (cursor->keys == NULL) {
        nd_cursor_free(&cursor->head);
        return SQLITE_NOMEM;
    }
    nd_keys_watch(cursor->keys, nd_is_interrupted, table->cache.db);
    return SQLITE_OK;
}

static int keys_close(sqlite3_vtab_cursor *base)
{
    keys_cursor *cursor = (keys_cursor *)base;
    nd_table *table = (nd_table *)base->pVtab;
    if (table->spare_keys == NULL)
        table->spare_keys = cursor->keys;
    else
        nd_keys_free(cursor->keys);
    nd_cursor_free(&cursor->head);
    return SQLITE_OK;
}

/* The settings of the index that the cursor asks for, in the table's cache. */
static int find_settings(keys_cursor *cursor)
{
    nd_table *table = (nd_table *)cursor->head.base.pVtab;
    sqlite3_value *index = cursor->head.inputs[0];
    char *message = NULL;
    if (table->cache.watch != NULL && cursor->serial == table->cache.serial && sqlite3_value_type(index) == SQLITE_TEXT) {
        const char *name = (const char *)sqlite3_value_text(index);
        if (name != NULL && strcmp(name, table->cache.settings.index) == 0)
            return SQLITE_OK;
    }
    int code = nd_cache_open(&table->cache, index, &message);
    nd_cache_release(&table->cache);
    if (code != SQLITE_OK)
        return nd_table_fail_message(&table->base, code, message);
    cursor->serial = table->cache.serial;
    return SQLITE_OK;
}

/* The keys that a query for containment looks up. */
static int containment_keys(keys_cursor *cursor, const nd_settings *settings, const uint8_t *bytes, size_t size, int *status)
{
    sqlite3_vtab *table = cursor->head.base.pVtab;
    sqlite3_value *share = cursor->head.inputs[2];
    int type = sqlite3_value_type(share);
    if (type != SQLITE_FLOAT && type != SQLITE_INTEGER)
        return nd_table_fail(table, "neardup_probe: containment must be a number, not %s", nd_type_name(share));
    double threshold = sqlite3_value_double(share);
    if (!(threshold > 0.0 && threshold <= 1.0))
        return nd_table_fail(table, "neardup_probe: containment must be above 0 and at most 1, not %g", threshold);
    if (!settings->scheme.containment)
        return nd_table_fail(table, "neardup_probe: index \"%s\" does not file all hashes: rebuild it as "
                                    "BottomK(containment=True)",
                             settings->index);
    *status = nd_scheme_containment_keys(&settings->scheme, bytes, size, threshold, cursor->keys);
    return SQLITE_OK;
}

static int keys_filter(sqlite3_vtab_cursor *base, int given, const char *plan, int argc, sqlite3_value **argv)
{
    (void)plan;
    keys_cursor *cursor = (keys_cursor *)base;
    nd_table *table = (nd_table *)base->pVtab;
    int code = nd_cursor_begin(&cursor->head, given, argc, argv);
    if (code == SQLITE_OK)
        code = find_settings(cursor);
    if (code != SQLITE_OK || nd_input_is_null(&cursor->head, 1))
        return code;
    sqlite3_value *value = cursor->head.inputs[1];
    const nd_settings *settings = &table->cache.settings;
    if (sqlite3_value_type(value) != SQLITE_BLOB)
        return nd_table_fail(base->pVtab, "%s: a fingerprint must be a blob, not %s", table->spec->name, nd_type_name(value));
    const uint8_t *bytes;
    size_t size;
    (void)nd_value_bytes(value, &bytes, &size);
    int status = ND_OK, filing = table->spec == &keys_spec;
    int64_t group_id;
    code = nd_input_integer(&cursor->head, filing ? 2 : 3, "group_id", INT64_MIN, INT64_MAX, 0, &group_id);
    if (code != SQLITE_OK)
        return code;
    if (filing)
        status = nd_scheme_file_keys(&settings->scheme, group_id, bytes, size, cursor->keys);
    else if (nd_input_is_null(&cursor->head, 2))
        status = nd_scheme_probe_keys(&settings->scheme, group_id, bytes, size, cursor->keys);
    else
        code = containment_keys(cursor, settings, bytes, size, &status);
    if (code != SQLITE_OK)
        return code;
    if (status == ND_ERROR_DAMAGED)
        return nd_table_fail(base->pVtab, "%s: %lld bytes that are no fingerprint of index \"%s\": wrong length or order",
                             table->spec->name, (sqlite3_int64)size, settings->index);
    if (status != ND_OK)
        return nd_table_fail_status(base->pVtab, status);
    cursor->head.count = nd_keys_count(cursor->keys);
    return SQLITE_OK;
}

static int probe_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int column)
{
    keys_cursor *cursor = (keys_cursor *)base;
    const nd_key *key = nd_keys_rows(cursor->keys) + cursor->head.row;
    if (column == 0)
        sqlite3_result_int64(context, key->table_no);
    else if (column == 1)
        sqlite3_result_int64(context, key->low);
    else if (column == 2)
        sqlite3_result_int64(context, key->high);
    else
        return nd_cursor_input(&cursor->head, context, column);
    return SQLITE_OK;
}

static int keys_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int column)
{
    return column < 2 ? probe_column(base, context, column) : nd_cursor_input((nd_cursor *)base, context, column);
}

static const sqlite3_module probe_module = {
    .xConnect = nd_table_connect,
    .xBestIndex = nd_table_best_index,
    .xDisconnect = nd_table_disconnect,
    .xOpen = keys_open,
    .xClose = keys_close,
    .xFilter = keys_filter,
    .xNext = nd_cursor_next,
    .xEof = nd_cursor_eof,
    .xColumn = probe_column,
    .xRowid = nd_cursor_rowid,
};

static const sqlite3_module keys_module = {
    .xConnect = nd_table_connect,
    .xBestIndex = nd_table_best_index,
    .xDisconnect = nd_table_disconnect,
    .xOpen = keys_open,
    .xClose = keys_close,
    .xFilter = keys_filter,
    .xNext = nd_cursor_next,
    .xEof = nd_cursor_eof,
    .xColumn = keys_column,
    .xRowid = nd_cursor_rowid,
};

int nd_register_probe(sqlite3 *db)
{
    int code = sqlite3_create_module_v2(db, probe_spec.name, &probe_module, &probe_spec, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_create_module_v2(db, keys_spec.name, &keys_module, &keys_spec, NULL);
    return code;
}
