/* sqlite_tables.c: the table-valued functions that read nothing but their arguments; INNOCUOUS. */
#include "sqlite_neardup.h"

#include <string.h>

/* ---- neardup_shingles(text [, k]) -> shingle, hash, position ------------------------------------------------------------
 *
 * The shingles of k words (3 unless given) of a text under the default rules, in their order, repeats included. hash is the
 * 64-bit hash as a signed number, position counts from 0. A NULL text has no rows. */

static nd_table_spec shingles_spec = {
    .name = "neardup_shingles",
    .declaration = "CREATE TABLE x(shingle TEXT, hash INTEGER, position INTEGER, text HIDDEN, k HIDDEN)",
    .innocuous = 1,
    .outputs = 3,
    .required = 1,
    .inputs = 2,
    .rows = 500,
};

typedef struct shingles_cursor {
    nd_cursor head;
    int32_t shingle; /* of rules */
    nd_rules *rules;
    nd_text *work;
} shingles_cursor;

static int shingles_open(sqlite3_vtab *table, sqlite3_vtab_cursor **out)
{
    int code = nd_cursor_open(sizeof(shingles_cursor), out);
    if (code != SQLITE_OK)
        return code;
    shingles_cursor *cursor = (shingles_cursor *)*out;
    cursor->work = nd_text_new();
    if (cursor->work == NULL) {
        nd_cursor_free(&cursor->head);
        return SQLITE_NOMEM;
    }
    nd_text_watch(cursor->work, nd_is_interrupted, ((nd_table *)table)->cache.db);
    return SQLITE_OK;
}

static int shingles_close(sqlite3_vtab_cursor *base)
{
    shingles_cursor *cursor = (shingles_cursor *)base;
    nd_rules_free(cursor->rules);
    nd_text_free(cursor->work);
    nd_cursor_free(&cursor->head);
    return SQLITE_OK;
}

static int shingles_filter(sqlite3_vtab_cursor *base, int given, const char *plan, int argc, sqlite3_value **argv)
{
    (void)plan;
    shingles_cursor *cursor = (shingles_cursor *)base;
    int64_t shingle;
    const uint8_t *text;
    size_t size;
    int code = nd_cursor_begin(&cursor->head, given, argc, argv);
    if (code == SQLITE_OK)
        code = nd_input_integer(&cursor->head, 1, "k", 1, 1000, ND_DEFAULT_SHINGLE, &shingle);
    if (code != SQLITE_OK)
        return code;
    if (nd_input_is_null(&cursor->head, 0))
        return SQLITE_OK;
    if (!nd_value_bytes(cursor->head.inputs[0], &text, &size))
        return nd_table_fail(base->pVtab, "neardup_shingles: text (or UTF-8 in a blob) is needed, not %s",
                             nd_type_name(cursor->head.inputs[0]));
    int status = ND_OK;
    if (cursor->rules == NULL || cursor->shingle != (int32_t)shingle) {
        nd_rules_free(cursor->rules);
        cursor->rules = NULL;
        cursor->shingle = (int32_t)shingle;
        status = nd_default_rules(cursor->shingle, &cursor->rules);
    }
    if (status == ND_OK)
        status = nd_text_tokenize(cursor->work, cursor->rules, text, size);
    if (status == ND_OK)
        status = nd_text_hash(cursor->work, cursor->rules);
    if (status != ND_OK)
        return nd_table_fail_status(base->pVtab, status);
    cursor->head.count = nd_text_shingle_count(cursor->work, cursor->rules);
    return SQLITE_OK;
}

static int shingles_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int column)
{
    shingles_cursor *cursor = (shingles_cursor *)base;
    const uint8_t *bytes;
    size_t size;
    switch (column) {
    case 0:
        nd_text_shingle(cursor->work, cursor->rules, cursor->head.row, &bytes, &size);
        sqlite3_result_text64(context, (const char *)bytes, size, SQLITE_TRANSIENT, SQLITE_UTF8);
        return SQLITE_OK;
    case 1:
        sqlite3_result_int64(context, (int64_t)nd_text_hashes(cursor->work)[cursor->head.row]);
        return SQLITE_OK;
    case 2:
        sqlite3_result_int64(context, (int64_t)cursor->head.row);
        return SQLITE_OK;
    default:
        return nd_cursor_input(&cursor->head, context, column);
    }
}

/* ---- neardup_bands(fingerprint, bands, rows [, slot_bits]) -> band, bucket -----------------------------------------------
 *
 * The bucket of each band of a MinHash signature of 16-bit (or slot_bits) slots, as the band table holds it. A NULL
 * fingerprint has no rows. */

static nd_table_spec bands_spec = {
    .name = "neardup_bands",
    .declaration = "CREATE TABLE x(band INTEGER, bucket INTEGER, "
                   "fingerprint HIDDEN, bands HIDDEN, rows HIDDEN, slot_bits HIDDEN)",
    .innocuous = 1,
    .outputs = 2,
    .required = 3,
    .inputs = 4,
    .rows = 20,
};

typedef struct bands_cursor {
    nd_cursor head;
    int32_t *buckets;
} bands_cursor;

static int bands_open(sqlite3_vtab *table, sqlite3_vtab_cursor **out)
{
    (void)table;
    return nd_cursor_open(sizeof(bands_cursor), out);
}

static int bands_close(sqlite3_vtab_cursor *base)
{
    bands_cursor *cursor = (bands_cursor *)base;
    sqlite3_free(cursor->buckets);
    nd_cursor_free(&cursor->head);
    return SQLITE_OK;
}

static int bands_filter(sqlite3_vtab_cursor *base, int given, const char *plan, int argc, sqlite3_value **argv)
{
    (void)plan;
    bands_cursor *cursor = (bands_cursor *)base;
    int64_t bands;
    int64_t rows;
    int64_t slot_bits;
    int code = nd_cursor_begin(&cursor->head, given, argc, argv);
    if (code == SQLITE_OK)
        code = nd_input_integer(&cursor->head, 1, "bands", 1, 65536, 0, &bands);
    if (code == SQLITE_OK)
        code = nd_input_integer(&cursor->head, 2, "rows", 1, 65536, 0, &rows);
    if (code == SQLITE_OK)
        code = nd_input_integer(&cursor->head, 3, "slot_bits", 16, 32, 16, &slot_bits);
    if (code != SQLITE_OK || nd_input_is_null(&cursor->head, 0))
        return code;
    sqlite3_value *fingerprint = cursor->head.inputs[0];
    if (sqlite3_value_type(fingerprint) != SQLITE_BLOB)
        return nd_table_fail(base->pVtab, "neardup_bands: fingerprint must be a blob, not %s", nd_type_name(fingerprint));
    if (slot_bits % 16 != 0)
        return nd_table_fail(base->pVtab, "neardup_bands: slot_bits must be 16 or 32, not %lld", slot_bits);
    int64_t slot_size = slot_bits / 8;
    const void *signature = sqlite3_value_blob(fingerprint);
    int64_t size = sqlite3_value_bytes(fingerprint);
    if (size % slot_size != 0 || size / slot_size < bands * rows)
        return nd_table_fail(base->pVtab, "neardup_bands: %lld bands of %lld rows do not fit a fingerprint of %lld bytes", bands,
                             rows, size);
    int32_t *buckets = sqlite3_realloc64(cursor->buckets, (sqlite3_uint64)bands * sizeof *buckets);
    if (buckets == NULL || signature == NULL)
        return SQLITE_NOMEM;
    cursor->buckets = buckets;
    int status = nd_band_buckets(signature, (size_t)(size / slot_size), (size_t)slot_size, (size_t)bands,
                                 (size_t)rows, buckets);
    if (status != ND_OK)
        return nd_table_fail_status(base->pVtab, status);
    cursor->head.count = (size_t)bands;
    return SQLITE_OK;
}

static int bands_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int column)
{
    bands_cursor *cursor = (bands_cursor *)base;
    if (column == 0)
        sqlite3_result_int64(context, (int64_t)cursor->head.row);
    else if (column == 1)
        sqlite3_result_int64(context, cursor->buckets[cursor->head.row]);
    else
        return nd_cursor_input(&cursor->head, context, column);
    return SQLITE_OK;
}

static const sqlite3_module shingles_module = {
    .xConnect = nd_table_connect,
    .xBestIndex = nd_table_best_index,
    .xDisconnect = nd_table_disconnect,
    .xOpen = shingles_open,
    .xClose = shingles_close,
    .xFilter = shingles_filter,
    .xNext = nd_cursor_next,
    .xEof = nd_cursor_eof,
    .xColumn = shingles_column,
    .xRowid = nd_cursor_rowid,
};

static const sqlite3_module bands_module = {
    .xConnect = nd_table_connect,
    .xBestIndex = nd_table_best_index,
    .xDisconnect = nd_table_disconnect,
    .xOpen = bands_open,
    .xClose = bands_close,
    .xFilter = bands_filter,
    .xNext = nd_cursor_next,
    .xEof = nd_cursor_eof,
    .xColumn = bands_column,
    .xRowid = nd_cursor_rowid,
};

int nd_register_tables(sqlite3 *db)
{
    int code = sqlite3_create_module_v2(db, shingles_spec.name, &shingles_module, &shingles_spec, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_create_module_v2(db, bands_spec.name, &bands_module, &bands_spec, NULL);
    return code;
}
