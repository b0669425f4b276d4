/* entry.c: entry points of the SQLite extension.
 *
 * Works with SQLite 3.38 and later, whichever library loads it; it is not linked with one. */
#define ND_SQLITE_ENTRY 1
#include "neardup_export.h"
#include "sqlite/neardup.h"

#define ND_SQLITE_MINIMUM 3038000

static int register_all(sqlite3 *db)
{
    static const nd_scalar_spec *const scalars[] = {nd_pure_scalars, nd_stored_scalars, nd_near_scalars, nd_outline_scalars,
        nd_passage_scalars};
    static const nd_table_spec *const tables[] = {&nd_shingles_function, &nd_bands_function, &nd_values_function,
        &nd_probe_function, &nd_keys_function, &nd_candidates_function, &nd_filing_function, &nd_buckets_function,
        &nd_entries_function, &nd_join_function, &nd_sought_function, &nd_nearest_function, &nd_search_function,
        &nd_passages_function};
    nd_workspace *workspace = nd_workspace_new(db);
    int code = workspace == NULL ? SQLITE_NOMEM : SQLITE_OK;
    for (size_t i = 0; i < sizeof scalars / sizeof scalars[0]; i++)
        for (const nd_scalar_spec *spec = scalars[i]; spec->name != NULL && code == SQLITE_OK; spec++)
            code = nd_register_scalar(db, workspace, spec);
    for (size_t i = 0; i < sizeof tables / sizeof tables[0] && code == SQLITE_OK; i++)
        code = nd_register_table(db, tables[i]);
    nd_workspace_release(workspace);
    return code;
}

/* Takes over the functions of the library that loads this file. One loaded file serves one SQLite library: calls from the
 * connections of another would end in the wrong one. */
static int take_functions(char **message, const sqlite3_api_routines *api)
{
    if (sqlite3_api != NULL && sqlite3_api != api) {
        *message = api->mprintf("neardup: this file is already loaded by another SQLite library in this process (SQLite %s); "
                                "load a copy of the file instead",
            sqlite3_libversion());
        return SQLITE_ERROR;
    }
    SQLITE_EXTENSION_INIT2(api);
    if (sqlite3_libversion_number() >= ND_SQLITE_MINIMUM)
        return SQLITE_OK;
    *message = sqlite3_mprintf("neardup: SQLite %s is too old, 3.38 or later is needed", sqlite3_libversion());
    return SQLITE_ERROR;
}

ND_EXPORT int sqlite3_neardup_init(sqlite3 *db, char **message, const sqlite3_api_routines *api);
ND_EXPORT int sqlite3_neardup_fork_init(sqlite3 *db, char **message, const sqlite3_api_routines *api);

/* The functions of SQL. */
ND_EXPORT int sqlite3_neardup_init(sqlite3 *db, char **message, const sqlite3_api_routines *api)
{
    ND_TRY(take_functions(message, api));
    int code = register_all(db);
    if (code != SQLITE_OK)
        *message = sqlite3_mprintf("neardup: the functions could not be registered: %s", sqlite3_errmsg(db));
    return code;
}

/* In a forked child, before it opens a file: no function of SQL, but files are entered anew. */
ND_EXPORT int sqlite3_neardup_fork_init(sqlite3 *db, char **message, const sqlite3_api_routines *api)
{
    (void)db;
    ND_TRY(take_functions(message, api));
    if (nd_enter_files_anew() != SQLITE_OK) {
        *message = sqlite3_mprintf("neardup: this SQLite lets no system call be replaced");
        return SQLITE_ERROR;
    }
    return SQLITE_OK_LOAD_PERMANENTLY; /* the function has to stay when the connection is closed */
}
