/* vtab_pure.c: the table-valued functions that read nothing but their arguments; INNOCUOUS. */
#include "sqlite/neardup.h"
#include "neardup_values.h"

#include <string.h>

/* What is given out stays in a workspace until the last row. */
typedef struct pure_cursor {
    nd_cursor head;
    nd_workspace *workspace;
} pure_cursor;

static int pure_open(pure_cursor *cursor)
{
    if (cursor->workspace == NULL)
        cursor->workspace = nd_workspace_new(nd_table_of(&cursor->head)->cache.db);
    return cursor->workspace == NULL ? SQLITE_NOMEM : SQLITE_OK;
}

static void pure_close(nd_cursor *base)
{
    nd_workspace_release(((pure_cursor *)base)->workspace);
}

/* ---- neardup_shingles(text [, k]) -> shingle, hash, position ------------------------------------------------------------
 *
 * The shingles of k words (3 unless given) of a text under the default rules, in their order, repeats included. hash is the
 * 64-bit hash as a signed number, position counts from 0. A NULL text has no rows. */

static int shingles_fill(nd_cursor *base)
{
    pure_cursor *cursor = (pure_cursor *)base;
    nd_table *table = nd_table_of(base);
    int64_t shingle;
    const uint8_t *text;
    size_t size;
    ND_TRY(nd_input_integer(base, 1, "k", 1, 1000, ND_DEFAULT_SHINGLE, &shingle));
    if (nd_input_is_null(base, 0))
        return SQLITE_OK;
    if (!nd_value_bytes(base->inputs[0], &text, &size))
        return nd_table_fail(table, "text (or UTF-8 in a blob) is needed, not %s", nd_type_name(base->inputs[0]));
    ND_TRY(pure_open(cursor));
    nd_workspace *workspace = cursor->workspace;
    ND_TRY(nd_table_fail_status(table, nd_workspace_rules(workspace, (int32_t)shingle)));
    ND_TRY(nd_table_fail_status(table, nd_text_to_hashes(workspace->work, workspace->rules, text, size)));
    base->count = nd_text_shingle_count(workspace->work, workspace->rules);
    return SQLITE_OK;
}

static void shingles_column(nd_cursor *base, sqlite3_context *context, int column)
{
    const nd_workspace *workspace = ((const pure_cursor *)base)->workspace;
    const uint8_t *bytes;
    size_t size;
    if (column == 1) {
        sqlite3_result_int64(context, (int64_t)nd_text_hashes(workspace->work)[base->row]);
    } else if (column == 2) {
        sqlite3_result_int64(context, (int64_t)base->row);
    } else {
        nd_text_shingle(workspace->work, workspace->rules, base->row, &bytes, &size);
        sqlite3_result_text64(context, (const char *)bytes, size, SQLITE_TRANSIENT, SQLITE_UTF8);
    }
}

const nd_table_spec nd_shingles_function = {
    .name = "neardup_shingles",
    .declaration = "CREATE TABLE x(shingle TEXT, hash INTEGER, position INTEGER, text HIDDEN, k HIDDEN)",
    .columns = {3, 1, 2, 500},
    .cursor = {sizeof(pure_cursor), pure_close, shingles_fill, NULL, shingles_column},
};

/* ---- neardup_bands(fingerprint, bands, rows [, slot_bits]) -> band, bucket -----------------------------------------------
 *
 * The bucket of each band of a MinHash signature of 16-bit (or slot_bits) slots, as the band table holds it. A NULL
 * fingerprint has no rows. */

static int bands_fill(nd_cursor *base)
{
    pure_cursor *cursor = (pure_cursor *)base;
    int64_t bands, rows, slot_bits;
    const uint8_t *signature;
    size_t bytes;
    ND_TRY(nd_input_integer(base, 1, "bands", 1, 65536, 0, &bands));
    ND_TRY(nd_input_integer(base, 2, "rows", 1, 65536, 0, &rows));
    ND_TRY(nd_input_integer(base, 3, "slot_bits", 16, 32, 16, &slot_bits));
    if (nd_input_is_null(base, 0))
        return SQLITE_OK;
    ND_TRY(nd_input_blob(base, 0, "fingerprint", &signature, &bytes));
    if (slot_bits % 16 != 0)
        return nd_table_fail(nd_table_of(base), "slot_bits must be 16 or 32, not %lld", slot_bits);
    const int64_t slot_size = slot_bits / 8, size = (int64_t)bytes;
    if (size % slot_size != 0 || size / slot_size < bands * rows)
        return nd_table_fail(nd_table_of(base), "%lld bands of %lld rows do not fit a fingerprint of %lld bytes", bands, rows,
            size);
    ND_TRY(pure_open(cursor));
    int32_t *buckets = (int32_t *)nd_workspace_numbers(cursor->workspace, 0, (size_t)bands / 2 + 1);
    if (buckets == NULL)
        return SQLITE_NOMEM;
    ND_TRY(nd_table_fail_status(nd_table_of(base),
        nd_band_buckets(signature, (size_t)(size / slot_size), (size_t)slot_size, (size_t)bands, (size_t)rows, buckets)));
    base->count = (size_t)bands;
    return SQLITE_OK;
}

static void bands_column(nd_cursor *base, sqlite3_context *context, int column)
{
    const pure_cursor *cursor = (const pure_cursor *)base;
    sqlite3_result_int64(context, column == 0 ? (int64_t)base->row : ((const int32_t *)cursor->workspace->numbers[0])[base->row]);
}

const nd_table_spec nd_bands_function = {
    .name = "neardup_bands",
    .declaration =
        "CREATE TABLE x(band INTEGER, bucket INTEGER, fingerprint HIDDEN, bands HIDDEN, rows HIDDEN, slot_bits HIDDEN)",
    .columns = {2, 3, 4, 20},
    .cursor = {sizeof(pure_cursor), pure_close, bands_fill, NULL, bands_column},
};

/* ---- nd_values(pointer) -> value, rowid -----------------------------------------------------------------------------------
 *
 * The items of an array in memory, numbered from 1, as SQLite's own carray gives them, which few libraries have. SQL cannot make
 * the pointer: for anything else there is no row. */

static int values_fill(nd_cursor *base)
{
    const nd_values_array *array = base->pointer;
    base->count = array == NULL ? 0 : array->count;
    return SQLITE_OK;
}

static void values_column(nd_cursor *base, sqlite3_context *context, int column)
{
    const nd_values_array *array = base->pointer;
    const size_t row = base->row;
    if (column == 1)
        sqlite3_result_int64(context, (int64_t)row + 1);
    else if (array->type == SQLITE_INTEGER)
        sqlite3_result_int64(context, array->numbers[row]);
    else if (array->type == SQLITE_TEXT)
        sqlite3_result_text64(context, array->items[row], array->sizes[row], SQLITE_STATIC, SQLITE_UTF8);
    else
        sqlite3_result_blob64(context, array->items[row], array->sizes[row], SQLITE_STATIC);
}

const nd_table_spec nd_values_function = {
    .name = "nd_values",
    .declaration = "CREATE TABLE x(value, rowid INTEGER, pointer HIDDEN)",
    .columns = {2, 1, 1, 100},
    .pointer = ND_VALUES_POINTER,
    .cursor = {sizeof(nd_cursor), NULL, values_fill, NULL, values_column},
};
