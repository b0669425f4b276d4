/* vtab_nearest.c: neardup_nearest(index, fingerprint, group_id, count) -> fingerprint_id, distance: of an index of codes the fingerprints of
 * the group, or of all groups where it is NULL, within the smallest distance from this one that holds `count` of them; all where
 * there are fewer. In no order.
 *
 * Every table of {index}_code_bucket holds every code, so the rows of the first one are looked at. DIRECTONLY: it reads the index. */
#include "sqlite/neardup.h"
#include "neardup_buckets.h"

typedef struct nearest_cursor {
    nd_cursor head;
    nd_nearest *nearest;
    const nd_nearest_entry *entries;
} nearest_cursor;

/* All rows of the first table, of one group or, where that is NULL, of all. */
static int add_rows(nearest_cursor *cursor, const int64_t *group_id, size_t code_size)
{
    nd_table *table = nd_table_of(&cursor->head);
    nd_entries entries;
    sqlite3_stmt *rows;
    ND_TRY(nd_table_prepare(table, "SELECT group_id, entries FROM {index}_code_bucket WHERE id BETWEEN ?1 AND ?2", &rows));
    int code = nd_bind_two(rows, 0, (INT64_C(1) << (ND_BUCKET_BITS + ND_PART_BITS)) - 1);
    while (nd_has_row(rows, &code)) {
        if (group_id != NULL && sqlite3_column_int64(rows, 0) != *group_id)
            continue;
        code = nd_column_entries(table, rows, 1, code_size, &entries);
        if (code == SQLITE_OK)
            code = nd_table_fail_status(table, nd_nearest_add(cursor->nearest, &entries));
    }
    code = nd_table_end(table, rows, code);
    sqlite3_finalize(rows);
    return code;
}

static int nearest_fill(nd_cursor *base)
{
    nearest_cursor *cursor = (nearest_cursor *)base;
    nd_table *table = nd_table_of(base);
    const nd_settings *settings = &table->cache.settings;
    const uint8_t *bytes;
    size_t size;
    const int every = nd_input_is_null(base, 2);
    int64_t group_id = 0, count;
    if (!nd_scheme_is_hamming(&settings->scheme))
        return nd_table_fail(table, "index \"%s\" holds sets, not codes", settings->index);
    if (nd_input_is_null(base, 1) || nd_input_is_null(base, 3))
        return SQLITE_OK;
    ND_TRY(nd_input_blob(base, 1, "a fingerprint", &bytes, &size));
    if (8 * size != (size_t)settings->scheme.bits)
        return nd_table_fail(table, "a code of %d bits must have %d bytes, not %lld", settings->scheme.bits,
            settings->scheme.bits / 8, (sqlite3_int64)size);
    ND_TRY(every ? SQLITE_OK : nd_input_integer(base, 2, "group_id", INT64_MIN, INT64_MAX, 0, &group_id));
    ND_TRY(nd_input_integer(base, 3, "count", 0, INT64_MAX, 0, &count));
    if (cursor->nearest == NULL && (cursor->nearest = nd_nearest_new()) == NULL)
        return SQLITE_NOMEM;
    ND_TRY(nd_table_fail_status(table, nd_nearest_begin(cursor->nearest, bytes, size, (uint64_t)count)));
    ND_TRY(add_rows(cursor, every ? NULL : &group_id, size));
    base->count = nd_nearest_entries(cursor->nearest, &cursor->entries);
    return SQLITE_OK;
}

static void nearest_close(nd_cursor *base)
{
    nd_nearest_free(((nearest_cursor *)base)->nearest);
}

static void nearest_column(nd_cursor *base, sqlite3_context *context, int column)
{
    const nd_nearest_entry *entry = ((const nearest_cursor *)base)->entries + base->row;
    sqlite3_result_int64(context, column == 0 ? entry->id : (int64_t)entry->distance);
}

const nd_table_spec nd_nearest_function = {
    .name = "neardup_nearest",
    .declaration = "CREATE TABLE x(fingerprint_id INTEGER, distance INTEGER, index_name HIDDEN, fingerprint HIDDEN, "
                   "group_id HIDDEN, count HIDDEN)",
    .columns = {2, 4, 4, 20},
    .reads = ND_READS_SETTINGS,
    .cursor = {sizeof(nearest_cursor), nearest_close, nearest_fill, NULL, nearest_column},
};
