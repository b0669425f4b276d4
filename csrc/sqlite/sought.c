/* sought.c: nd_sought(page) -> low, group_id: the keys that the page of a join looks for, in the order of the table. Joined
 * with the table they are looked up by one statement, whose cursor stays where it is: a key that stands on the same page as the
 * one before costs no way down from the root. `page` is a pointer, which SQL cannot make: for anything else there is no row. */
#include "sqlite/join.h"

#include <string.h>

typedef struct sought_cursor {
    sqlite3_vtab_cursor base;
    const nd_bucket_join *join;
    size_t place;
    int64_t low, group_id;
    int ended;
} sought_cursor;

static int sought_connect(sqlite3 *db, void *data, int argc, const char *const *argv, sqlite3_vtab **out, char **message)
{
    (void)data;
    (void)argc;
    (void)argv;
    (void)message;
    int code = sqlite3_declare_vtab(db, "CREATE TABLE x(low INTEGER, group_id INTEGER, page HIDDEN)");
    if (code == SQLITE_OK)
        code = sqlite3_vtab_config(db, SQLITE_VTAB_DIRECTONLY);
    sqlite3_vtab *table = code == SQLITE_OK ? sqlite3_malloc64(sizeof *table) : NULL;
    if (table == NULL)
        return code == SQLITE_OK ? SQLITE_NOMEM : code;
    memset(table, 0, sizeof *table);
    *out = table;
    return SQLITE_OK;
}

static int sought_disconnect(sqlite3_vtab *table)
{
    sqlite3_free(table);
    return SQLITE_OK;
}

static int sought_best_index(sqlite3_vtab *table, sqlite3_index_info *info)
{
    (void)table;
    info->estimatedCost = 1e99;
    for (int i = 0; i < info->nConstraint; i++) {
        if (info->aConstraint[i].iColumn != 2 || info->aConstraint[i].op != SQLITE_INDEX_CONSTRAINT_EQ)
            continue;
        if (!info->aConstraint[i].usable)
            return SQLITE_CONSTRAINT;
        info->aConstraintUsage[i].argvIndex = 1;
        info->aConstraintUsage[i].omit = 1;
        info->idxNum = 1;
        info->estimatedCost = 1000;
        break;
    }
    return SQLITE_OK;
}

static int sought_open(sqlite3_vtab *table, sqlite3_vtab_cursor **out)
{
    (void)table;
    sought_cursor *cursor = sqlite3_malloc64(sizeof *cursor);
    if (cursor == NULL)
        return SQLITE_NOMEM;
    memset(cursor, 0, sizeof *cursor);
    *out = &cursor->base;
    return SQLITE_OK;
}

static int sought_close(sqlite3_vtab_cursor *base)
{
    sqlite3_free(base);
    return SQLITE_OK;
}

static int sought_next(sqlite3_vtab_cursor *base)
{
    sought_cursor *cursor = (sought_cursor *)base;
    cursor->ended = nd_bucket_join_next_key(cursor->join, &cursor->place, &cursor->low, &cursor->group_id) != ND_OK;
    return SQLITE_OK;
}

static int sought_filter(sqlite3_vtab_cursor *base, int given, const char *plan, int argc, sqlite3_value **argv)
{
    sought_cursor *cursor = (sought_cursor *)base;
    (void)given;
    (void)plan;
    cursor->join = argc == 1 ? sqlite3_value_pointer(argv[0], ND_JOIN_POINTER) : NULL;
    cursor->place = 0;
    cursor->ended = 1;
    return cursor->join == NULL ? SQLITE_OK : sought_next(base);
}

static int sought_eof(sqlite3_vtab_cursor *base)
{
    return ((const sought_cursor *)base)->ended;
}

static int sought_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int column)
{
    const sought_cursor *cursor = (const sought_cursor *)base;
    if (column < 2)
        sqlite3_result_int64(context, column == 0 ? cursor->low : cursor->group_id);
    return SQLITE_OK;
}

static int sought_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *rowid)
{
    *rowid = (sqlite3_int64)((const sought_cursor *)base)->place;
    return SQLITE_OK;
}

static const sqlite3_module module = {
    .xConnect = sought_connect,
    .xBestIndex = sought_best_index,
    .xDisconnect = sought_disconnect,
    .xOpen = sought_open,
    .xClose = sought_close,
    .xFilter = sought_filter,
    .xNext = sought_next,
    .xEof = sought_eof,
    .xColumn = sought_column,
    .xRowid = sought_rowid,
};

int nd_register_sought(sqlite3 *db)
{
    return sqlite3_create_module_v2(db, "nd_sought", &module, NULL, NULL);
}
