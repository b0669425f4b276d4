/* vtab_filing.c: neardup_filing(index, first_id, last_id [, keys]) -> group_id, table_no, low, high, crowd, fingerprint_id, code:
 * the rows that the fingerprints from first_id to last_id have in the candidate table, in the order of that table; of codes, the
 * buckets in which they are entries, with the code (else NULL).
 *
 * keys, only of a plan of bands: what the rows follow from, where they have just been made of the values and reading these again
 * would take longer. For each of the ids, one after another, its group and as many keys as there are bands, ascending, the last
 * repeated where there are fewer: a blob of 64-bit numbers, little-endian.
 *
 * DIRECTONLY: it reads the index. All values are read before the first row is given out, so it may feed an INSERT. */
#include "sqlite/neardup.h"

#include <string.h>

typedef struct filing_cursor {
    nd_cursor head;
    nd_filing *filing;
    size_t code_size; /* 0 where keys are not those of codes */
    nd_filed filed;   /* the present row */
} filing_cursor;

static void filing_close(nd_cursor *base)
{
    nd_filing_free(((filing_cursor *)base)->filing);
}

/* One row of the statement: id, group_id, value, value_hash, crowd. */
static int take(nd_table *table, nd_filing *filing, sqlite3_stmt *statement)
{
    const uint8_t *value = sqlite3_column_blob(statement, 2);
    size_t size = (size_t)sqlite3_column_bytes(statement, 2);
    sqlite3_int64 id = sqlite3_column_int64(statement, 0);
    const sqlite3_int64 group_id = sqlite3_column_int64(statement, 1), crowd = sqlite3_column_int64(statement, 4);
    int status = ND_ERROR_DAMAGED;
    if (nd_column_is_intact(statement, 2))
        status = nd_filing_add(filing, group_id, id, crowd, value, size);
    if (status == ND_ERROR_DAMAGED)
        return nd_fail_fingerprint(table, id);
    return nd_table_fail_status(table, status);
}

static const char values_sql[] = "SELECT id, group_id, value, value_hash, crowd FROM {index}_fingerprint "
                                 "WHERE id BETWEEN ? AND ? ORDER BY id";

int nd_filing_collect(nd_table *table, nd_filing *filing, int64_t first_id, int64_t last_id)
{
    sqlite3_stmt **statement = &table->cache.kept[ND_VALUES];
    if (*statement == NULL) /* it is kept: adding one document must not plan it anew */
        ND_TRY(nd_table_prepare(table, values_sql, statement));
    int code = nd_bind_two(*statement, first_id, last_id);
    while (nd_has_row(*statement, &code))
        code = take(table, filing, *statement);
    ND_TRY(nd_table_end(table, *statement, code));
    return nd_table_fail_status(table, nd_filing_sort(filing));
}

/* The rows from `keys`. */
static int take_given(filing_cursor *cursor, const nd_scheme *scheme, int64_t first_id, int64_t last_id)
{
    nd_table *table = nd_table_of(&cursor->head);
    const uint8_t *bytes;
    size_t size, width = (1 + (size_t)scheme->bands) * sizeof(int64_t);
    int given = sqlite3_value_type(cursor->head.inputs[3]) == SQLITE_BLOB &&
                nd_value_bytes(cursor->head.inputs[3], &bytes, &size);
    if (!given || scheme->plan != ND_PLAN_BANDS || size % width != 0 || first_id > last_id ||
        (uint64_t)last_id - (uint64_t)first_id != size / width - 1)
        return nd_table_fail(table, "keys must be a blob of %d 64-bit numbers for each fingerprint of an index of bands",
            (int)(width / sizeof(int64_t)));
    int64_t *numbers = sqlite3_malloc64(width);
    int status = numbers == NULL ? ND_ERROR_MEMORY : ND_OK;
    for (size_t i = 0; i < size / width && status == ND_OK; i++) {
        memcpy(numbers, bytes + i * width, width);
        status = nd_filing_add_keys(cursor->filing, numbers[0], (int64_t)((uint64_t)first_id + i), numbers + 1,
            (size_t)scheme->bands);
    }
    sqlite3_free(numbers);
    if (status == ND_OK)
        status = nd_filing_sort(cursor->filing);
    return nd_table_fail_status(table, status);
}

static int filing_next(nd_cursor *base)
{
    filing_cursor *cursor = (filing_cursor *)base;
    int status = nd_filing_next(cursor->filing, &cursor->filed);
    base->count = status == ND_OK ? SIZE_MAX : 0;
    return status == ND_OK || status == ND_DONE ? SQLITE_OK : nd_table_fail_status(nd_table_of(base), status);
}

static int filing_fill(nd_cursor *base)
{
    filing_cursor *cursor = (filing_cursor *)base;
    nd_table *table = nd_table_of(base);
    const nd_scheme *scheme = &table->cache.settings.scheme;
    int64_t first_id, last_id;
    ND_TRY(nd_input_integer(base, 1, "first_id", INT64_MIN, INT64_MAX, 0, &first_id));
    ND_TRY(nd_input_integer(base, 2, "last_id", INT64_MIN, INT64_MAX, 0, &last_id));
    if (cursor->filing == NULL && (cursor->filing = nd_filing_new()) == NULL)
        return SQLITE_NOMEM;
    cursor->code_size = nd_scheme_has_buckets(scheme) ? (size_t)scheme->bits / 8 : 0;
    nd_filing_begin(cursor->filing, scheme, 0);
    ND_TRY(nd_input_is_null(base, 3) ? nd_filing_collect(table, cursor->filing, first_id, last_id)
                                     : take_given(cursor, scheme, first_id, last_id));
    return filing_next(base);
}

static void filing_column(nd_cursor *base, sqlite3_context *context, int column)
{
    const filing_cursor *cursor = (const filing_cursor *)base;
    int64_t number;
    if (column < 6) {
        memcpy(&number, (const uint8_t *)&cursor->filed + sizeof number * (size_t)column, sizeof number);
        sqlite3_result_int64(context, number);
    } else if (cursor->code_size > 0)
        sqlite3_result_blob64(context, nd_filing_code(cursor->filing, cursor->filed.item), cursor->code_size, SQLITE_TRANSIENT);
}

const nd_table_spec nd_filing_function = {
    .name = "neardup_filing",
    .declaration = "CREATE TABLE x(group_id INTEGER, table_no INTEGER, low, high, crowd INTEGER, fingerprint_id INTEGER, "
                   "code BLOB, index_name HIDDEN, first_id HIDDEN, last_id HIDDEN, keys HIDDEN)",
    .columns = {7, 3, 4, 1000},
    .reads = ND_READS_INDEX,
    .cursor = {sizeof(filing_cursor), filing_close, filing_fill, filing_next, filing_column},
};
