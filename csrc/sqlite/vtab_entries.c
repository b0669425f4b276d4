/* vtab_entries.c: what rows of {index}_code_bucket hold.
 *
 * neardup_entries(entries, code_bytes) -> fingerprint_id, code: what a row holds.
 * neardup_near(entries, code, max_distance) -> the entries within max_distance bits of the code, as JSON: [[fingerprint_id,
 * distance], ...]; NULL where there is none. */
#include "sqlite/neardup.h"

/* ---- neardup_entries ---------------------------------------------------------------------------------------------------------- */

typedef struct entries_cursor {
    nd_cursor head;
    nd_entries entries;
} entries_cursor;

static int entries_fill(nd_cursor *base)
{
    entries_cursor *cursor = (entries_cursor *)base;
    const uint8_t *bytes;
    size_t size;
    int64_t code_bytes;
    ND_TRY(nd_input_integer(base, 1, "code_bytes", 1, INT32_MAX, 8, &code_bytes));
    if (nd_input_is_null(base, 0))
        return SQLITE_OK;
    if (sqlite3_value_type(base->inputs[0]) != SQLITE_BLOB || !nd_value_bytes(base->inputs[0], &bytes, &size) ||
        nd_entries_read(bytes, size, (size_t)code_bytes, &cursor->entries) != ND_OK)
        return nd_table_fail(nd_table_of(base), "no entries of codes of %lld bytes, or damaged ones", code_bytes);
    base->count = cursor->entries.count;
    return SQLITE_OK;
}

static void entries_column(nd_cursor *base, sqlite3_context *context, int column)
{
    const nd_entries *entries = &((const entries_cursor *)base)->entries;
    if (column == 0)
        sqlite3_result_int64(context, nd_entries_id(entries, base->row));
    else
        sqlite3_result_blob64(context, entries->codes + base->row * entries->code_size, entries->code_size, SQLITE_TRANSIENT);
}

const nd_table_spec nd_entries_function = {
    .name = "neardup_entries",
    .declaration = "CREATE TABLE x(fingerprint_id INTEGER, code BLOB, entries HIDDEN, code_bytes HIDDEN)",
    .columns = {2, 2, 2, 100},
    .cursor = {sizeof(entries_cursor), NULL, entries_fill, NULL, entries_column},
};

/* ---- neardup_near ---------------------------------------------------------------------------------------------------------------- */

static int give_near(sqlite3_context *context, const nd_entries *entries, const uint8_t *code, const uint32_t *places,
    size_t count)
{
    sqlite3_str *json = sqlite3_str_new(sqlite3_context_db_handle(context));
    for (size_t i = 0; i < count; i++) {
        uint64_t distance = nd_hamming(entries->codes + places[i] * entries->code_size, code, entries->code_size);
        sqlite3_str_appendf(json, "%c[%lld,%lld]", i == 0 ? '[' : ',', (sqlite3_int64)nd_entries_id(entries, places[i]),
            (sqlite3_int64)distance);
    }
    sqlite3_str_appendchar(json, 1, ']');
    char *text = sqlite3_str_finish(json);
    if (text == NULL)
        return SQLITE_NOMEM;
    sqlite3_result_text(context, text, -1, sqlite3_free);
    return SQLITE_OK;
}

static int sql_near(sqlite3_context *context, sqlite3_value **argv)
{
    nd_entries entries;
    const uint8_t *bytes, *code;
    size_t size, code_size;
    const int64_t most = sqlite3_value_int64(argv[2]);
    (void)nd_value_bytes(argv[0], &bytes, &size);
    (void)nd_value_bytes(argv[1], &code, &code_size);
    if (nd_entries_read(bytes, size, code_size, &entries) != ND_OK)
        return nd_fail(context, "no entries of codes of %d bytes, or damaged ones", (int)code_size);
    uint32_t *places = (uint32_t *)nd_workspace_numbers(nd_function_workspace(context), 0, (entries.count + 1) / 2);
    if (places == NULL)
        return SQLITE_NOMEM;
    const size_t count = most < 0 ? 0 : nd_entries_near(&entries, code, (uint64_t)most, places);
    return count > 0 ? give_near(context, &entries, code, places, count) : SQLITE_OK;
}

const nd_scalar_spec nd_near_scalars[] = {{"neardup_near", "bbi", 0, sql_near}, {NULL, NULL, 0, NULL}};
