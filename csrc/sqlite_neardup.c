/* sqlite_neardup.c: entry point of the SQLite extension.
 *
 * Works with SQLite 3.38 and later, whichever library loads it; it is not linked with one. */
#define ND_SQLITE_ENTRY 1
#include "sqlite_neardup.h"
#include "sqlite_export.h"

/* Hidden like everything but the entry point, so a second copy of this file in the process has its own. */
SQLITE_EXTENSION_INIT1

#define ND_SQLITE_MINIMUM 3038000

static int register_all(sqlite3 *db)
{
    nd_workspace *workspace = nd_workspace_new(db);
    if (workspace == NULL)
        return SQLITE_NOMEM;
    int code = nd_register_scalars(db, workspace);
    nd_workspace_release(workspace);
    if (code == SQLITE_OK)
        code = nd_register_stored(db);
    if (code == SQLITE_OK)
        code = nd_register_tables(db);
    if (code == SQLITE_OK)
        code = nd_register_probe(db);
    if (code == SQLITE_OK)
        code = nd_register_filing(db);
    if (code == SQLITE_OK)
        code = nd_register_buckets(db);
    if (code == SQLITE_OK)
        code = nd_register_entries(db);
    if (code == SQLITE_OK)
        code = nd_register_join(db);
    if (code == SQLITE_OK)
        code = nd_register_search(db);
    return code;
}

ND_EXPORT int sqlite3_neardup_init(sqlite3 *db, char **message, const sqlite3_api_routines *api);

ND_EXPORT int sqlite3_neardup_init(sqlite3 *db, char **message, const sqlite3_api_routines *api)
{
    /* One loaded file serves one SQLite library: calls from the connections of another would end in the wrong one. */
    if (sqlite3_api != NULL && sqlite3_api != api) {
        *message = api->mprintf("neardup: this file is already loaded by another SQLite library in this process (SQLite %s); "
                                "load a copy of the file instead",
                                sqlite3_libversion());
        return SQLITE_ERROR;
    }
    SQLITE_EXTENSION_INIT2(api);
    if (sqlite3_libversion_number() < ND_SQLITE_MINIMUM) {
        *message = sqlite3_mprintf("neardup: SQLite %s is too old, 3.38 or later is needed", sqlite3_libversion());
        return SQLITE_ERROR;
    }
    int code = register_all(db);
    if (code != SQLITE_OK)
        *message = sqlite3_mprintf("neardup: the functions could not be registered: %s", sqlite3_errmsg(db));
    return code;
}
