/* statements.c: statements on the tables of an index. */
#include "sqlite/neardup.h"

#include <string.h>

/* While a statement runs, whatever is prepared after sqlite3_interrupt fails with its code, even an empty text. Libraries before
 * 3.41 have no sqlite3_is_interrupted. */
int nd_is_interrupted(void *db)
{
    sqlite3_stmt *none = NULL;
    int code = sqlite3_prepare_v2(db, " ", -1, &none, NULL);
    sqlite3_finalize(none);
    return code == SQLITE_INTERRUPT;
}

int nd_prepare(sqlite3 *db, const char *text, const char *index, sqlite3_stmt **out)
{
    static const char place[] = "{index}";
    sqlite3_str *sql = sqlite3_str_new(db);
    *out = NULL;
    for (const char *next; (next = strstr(text, place)) != NULL; text = next + sizeof place - 1) {
        sqlite3_str_append(sql, text, (int)(next - text));
        sqlite3_str_appendall(sql, index);
    }
    sqlite3_str_appendall(sql, text);
    char *expanded = sqlite3_str_finish(sql);
    if (expanded == NULL)
        return SQLITE_NOMEM;
    int code = sqlite3_prepare_v3(db, expanded, -1, SQLITE_PREPARE_PERSISTENT, out, NULL);
    sqlite3_free(expanded);
    return code;
}

int nd_table_prepare(nd_table *table, const char *text, sqlite3_stmt **out)
{
    const int code = nd_prepare(table->cache.db, text, table->cache.settings.index, out);
    return code == SQLITE_OK ? code : nd_table_fail_database(table, code);
}

int nd_table_end(nd_table *table, sqlite3_stmt *statement, int code)
{
    if (code == SQLITE_ROW || code == SQLITE_DONE)
        code = SQLITE_OK;
    if (code != SQLITE_OK)
        (void)nd_table_fail_database(table, code);
    sqlite3_reset(statement);
    return code;
}

int nd_bind_two(sqlite3_stmt *statement, int64_t first, int64_t second)
{
    int code = sqlite3_bind_int64(statement, 1, first);
    return code == SQLITE_OK ? sqlite3_bind_int64(statement, 2, second) : code;
}

int nd_column_is_intact(sqlite3_stmt *statement, int value)
{
    const uint8_t *bytes = sqlite3_column_blob(statement, value);
    size_t size = (size_t)sqlite3_column_bytes(statement, value);
    return bytes != NULL && nd_xxh3_64(bytes, size, 0) == (uint64_t)sqlite3_column_int64(statement, value + 1);
}

int nd_column_entries(nd_table *table, sqlite3_stmt *statement, int column, size_t code_size, nd_entries *entries)
{
    const uint8_t *bytes = sqlite3_column_blob(statement, column);
    size_t size = (size_t)sqlite3_column_bytes(statement, column);
    if (bytes != NULL && sqlite3_column_type(statement, column) == SQLITE_BLOB &&
        nd_entries_read(bytes, size, code_size, entries) == ND_OK)
        return SQLITE_OK;
    return nd_table_fail(table, "a row of %s_code_bucket is damaged: no entries of codes of %d bytes",
        table->cache.settings.index, (int)code_size);
}
