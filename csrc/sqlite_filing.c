/* sqlite_filing.c: neardup_filing(index, first_id, last_id [, keys]) -> group_id, table_no, low, high, crowd, fingerprint_id, code:
 * the rows that the fingerprints from first_id to last_id have in the candidate table, in the order of that table; of codes, the
 * buckets in which they are entries, with the code (else NULL).
 *
 * keys, only of a plan of bands: what the rows follow from, where they have just been made of the values and reading these again
 * would take longer. For each of the ids, one after another, its group and as many keys as there are bands, ascending, the last
 * repeated where there are fewer: a blob of 64-bit numbers, little-endian.
 *
 * DIRECTONLY: it reads the index. All values are read before the first row is given out, so it may feed an INSERT. */
#include "sqlite_neardup.h"

#include <string.h>

static nd_table_spec filing_spec = {
    .name = "neardup_filing",
    .declaration = "CREATE TABLE x(group_id INTEGER, table_no INTEGER, low, high, crowd INTEGER, fingerprint_id INTEGER, "
                   "code BLOB, "
                   "index_name HIDDEN, first_id HIDDEN, last_id HIDDEN, keys HIDDEN)",
    .innocuous = 0,
    .outputs = 7,
    .required = 3,
    .inputs = 4,
    .rows = 1000,
};

typedef struct filing_cursor {
    nd_cursor head;
    nd_filing *filing;
    size_t code_size; /* 0 where keys are not those of codes */
    int done;
    nd_filed filed; /* the present row */
} filing_cursor;

static int filing_open(sqlite3_vtab *table, sqlite3_vtab_cursor **out)
{
    (void)table;
    int code = nd_cursor_open(sizeof(filing_cursor), out);
    if (code != SQLITE_OK)
        return code;
    filing_cursor *cursor = (filing_cursor *)*out;
    cursor->filing = nd_filing_new();
    if (cursor->filing == NULL) {
        nd_cursor_free(&cursor->head);
        return SQLITE_NOMEM;
    }
    return SQLITE_OK;
}

static int filing_close(sqlite3_vtab_cursor *base)
{
    filing_cursor *cursor = (filing_cursor *)base;
    nd_filing_free(cursor->filing);
    nd_cursor_free(&cursor->head);
    return SQLITE_OK;
}

/* One row of the statement: id, group_id, value, crowd, value_hash. */
static int take(nd_table *table, nd_filing *filing, sqlite3_stmt *statement)
{
    const uint8_t *value = sqlite3_column_blob(statement, 2);
    size_t size = (size_t)sqlite3_column_bytes(statement, 2);
    sqlite3_int64 id = sqlite3_column_int64(statement, 0);
    const sqlite3_int64 group_id = sqlite3_column_int64(statement, 1), crowd = sqlite3_column_int64(statement, 3);
    int status = ND_ERROR_DAMAGED;
    if (value != NULL && nd_xxh3_64(value, size, 0) == (uint64_t)sqlite3_column_int64(statement, 4))
        status = nd_filing_add(filing, group_id, id, crowd, value, size);
    if (status == ND_ERROR_DAMAGED)
        return nd_table_fail(&table->base, "%s: fingerprint %lld of index \"%s\" is damaged: wrong hash, length or order",
                             table->spec->name, id, table->cache.settings.index);
    return status == ND_OK ? SQLITE_OK : nd_table_fail_status(&table->base, status);
}

/* The statement is kept: adding one document must not plan it anew. */
static int prepare_values(nd_settings_cache *cache)
{
    if (cache->values != NULL)
        return SQLITE_OK;
    char *sql = sqlite3_mprintf("SELECT id, group_id, value, crowd, value_hash FROM %s_fingerprint "
                                "WHERE id BETWEEN ? AND ? ORDER BY id",
                                cache->settings.index);
    if (sql == NULL)
        return SQLITE_NOMEM;
    int code = sqlite3_prepare_v3(cache->db, sql, -1, SQLITE_PREPARE_PERSISTENT, &cache->values, NULL);
    sqlite3_free(sql);
    return code;
}

int nd_filing_collect(nd_table *table, nd_filing *filing, int64_t first_id, int64_t last_id)
{
    int code = prepare_values(&table->cache);
    sqlite3_stmt *statement = table->cache.values;
    if (code == SQLITE_OK)
        code = sqlite3_bind_int64(statement, 1, first_id);
    if (code == SQLITE_OK)
        code = sqlite3_bind_int64(statement, 2, last_id);
    while (code == SQLITE_OK && (code = sqlite3_step(statement)) == SQLITE_ROW)
        code = take(table, filing, statement);
    if (code != SQLITE_DONE && table->base.zErrMsg == NULL)
        nd_table_fail(&table->base, "%s: %s", table->spec->name, sqlite3_errmsg(table->cache.db));
    sqlite3_reset(statement);
    if (code != SQLITE_DONE)
        return code;
    int status = nd_filing_sort(filing);
    return status == ND_OK ? SQLITE_OK : nd_table_fail_status(&table->base, status);
}

/* The rows from `keys`. */
static int take_given(filing_cursor *cursor, const nd_scheme *scheme, int64_t first_id, int64_t last_id)
{
    sqlite3_vtab *table = cursor->head.base.pVtab;
    const uint8_t *bytes;
    size_t size, width = (1 + (size_t)scheme->bands) * sizeof(int64_t);
    int given = sqlite3_value_type(cursor->head.inputs[3]) == SQLITE_BLOB && nd_value_bytes(cursor->head.inputs[3], &bytes, &size);
    if (!given || scheme->plan != ND_PLAN_BANDS || size % width != 0 || first_id > last_id ||
        (uint64_t)last_id - (uint64_t)first_id != size / width - 1)
        return nd_table_fail(table,
                             "neardup_filing: keys must be a blob of %d 64-bit numbers for each fingerprint of an index of bands",
                             (int)(width / sizeof(int64_t)));
    int64_t *numbers = sqlite3_malloc64(width);
    int status = numbers == NULL ? ND_ERROR_MEMORY : ND_OK;
    for (size_t i = 0; i < size / width && status == ND_OK; i++) {
        memcpy(numbers, bytes + i * width, width);
        status = nd_filing_add_keys(cursor->filing, numbers[0], (int64_t)((uint64_t)first_id + i), 0, numbers + 1,
                                    (size_t)scheme->bands);
    }
    sqlite3_free(numbers);
    if (status == ND_OK)
        status = nd_filing_sort(cursor->filing);
    return status == ND_OK ? SQLITE_OK : nd_table_fail_status(table, status);
}

static int filing_next(sqlite3_vtab_cursor *base)
{
    filing_cursor *cursor = (filing_cursor *)base;
    int status = nd_filing_next(cursor->filing, &cursor->filed);
    cursor->done = status != ND_OK;
    cursor->head.row++;
    return status == ND_OK || status == ND_DONE ? SQLITE_OK : nd_table_fail_status(base->pVtab, status);
}

static int filing_eof(sqlite3_vtab_cursor *cursor)
{
    return ((const filing_cursor *)cursor)->done;
}

static int filing_filter(sqlite3_vtab_cursor *base, int given, const char *plan, int argc, sqlite3_value **argv)
{
    (void)plan;
    filing_cursor *cursor = (filing_cursor *)base;
    nd_table *table = (nd_table *)base->pVtab;
    char *message = NULL;
    int64_t first_id, last_id;
    cursor->done = 1;
    int code = nd_cursor_begin(&cursor->head, given, argc, argv);
    if (code == SQLITE_OK)
        code = nd_input_integer(&cursor->head, 1, "first_id", INT64_MIN, INT64_MAX, 0, &first_id);
    if (code == SQLITE_OK)
        code = nd_input_integer(&cursor->head, 2, "last_id", INT64_MIN, INT64_MAX, 0, &last_id);
    if (code != SQLITE_OK)
        return code;
    code = nd_cache_open(&table->cache, cursor->head.inputs[0], &message);
    if (code != SQLITE_OK)
        return nd_table_fail_message(base->pVtab, code, message);
    const nd_scheme *scheme = &table->cache.settings.scheme;
    cursor->code_size = nd_scheme_has_buckets(scheme) ? (size_t)scheme->bits / 8 : 0;
    nd_filing_begin(cursor->filing, scheme, 0);
    if (nd_input_is_null(&cursor->head, 3))
        code = nd_filing_collect(table, cursor->filing, first_id, last_id);
    else
        code = take_given(cursor, scheme, first_id, last_id);
    nd_cache_release(&table->cache);
    return code == SQLITE_OK ? filing_next(base) : code;
}

static int filing_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int column)
{
    filing_cursor *cursor = (filing_cursor *)base;
    const nd_filed *filed = &cursor->filed;
    switch (column) {
    case 0:
        sqlite3_result_int64(context, filed->group_id);
        return SQLITE_OK;
    case 1:
        sqlite3_result_int64(context, filed->table_no);
        return SQLITE_OK;
    case 2:
        sqlite3_result_int64(context, filed->low);
        return SQLITE_OK;
    case 3:
        sqlite3_result_int64(context, filed->high);
        return SQLITE_OK;
    case 4:
        sqlite3_result_int64(context, filed->crowd);
        return SQLITE_OK;
    case 5:
        sqlite3_result_int64(context, filed->id);
        return SQLITE_OK;
    case 6:
        if (cursor->code_size > 0)
            sqlite3_result_blob64(context, nd_filing_code(cursor->filing, filed->item), cursor->code_size, SQLITE_TRANSIENT);
        return SQLITE_OK;
    default:
        return nd_cursor_input(&cursor->head, context, column);
    }
}

static const sqlite3_module filing_module = {
    .xConnect = nd_table_connect,
    .xBestIndex = nd_table_best_index,
    .xDisconnect = nd_table_disconnect,
    .xOpen = filing_open,
    .xClose = filing_close,
    .xFilter = filing_filter,
    .xNext = filing_next,
    .xEof = filing_eof,
    .xColumn = filing_column,
    .xRowid = nd_cursor_rowid,
};

int nd_register_filing(sqlite3 *db)
{
    return sqlite3_create_module_v2(db, filing_spec.name, &filing_module, &filing_spec, NULL);
}
