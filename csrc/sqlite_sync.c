/* sqlite_sync.c: an extension of its own with one function for the thread that moves the write-ahead log, neardup_sync().
 *
 * SQLite syncs the file when the last page of the log has been moved into it, and then all of it at once. While others write there
 * is always one more page, so that in the end somebody has to stop and to wait for the disk. What has been moved until now can be
 * synced before, by another thread; only little is left then. */
#include <sqlite3ext.h>
#include "sqlite_export.h"

#include <stddef.h>

SQLITE_EXTENSION_INIT1

/* neardup_sync(): wait until what was written to the main database's file, by whichever connection, is on the disk. */
static void sync_file(sqlite3_context *context, int count, sqlite3_value **values)
{
    sqlite3_file *file = NULL;
    (void)count;
    (void)values;
    int code = sqlite3_file_control(sqlite3_context_db_handle(context), "main", SQLITE_FCNTL_FILE_POINTER, &file);
    if (code == SQLITE_OK && file != NULL && file->pMethods != NULL)
        code = file->pMethods->xSync(file, SQLITE_SYNC_NORMAL);
    if (code != SQLITE_OK)
        sqlite3_result_error_code(context, code);
}

ND_EXPORT int sqlite3_neardup_sync_init(sqlite3 *db, char **message, const sqlite3_api_routines *api);

ND_EXPORT int sqlite3_neardup_sync_init(sqlite3 *db, char **message, const sqlite3_api_routines *api)
{
    SQLITE_EXTENSION_INIT2(api);
    (void)message;
    return sqlite3_create_function(db, "neardup_sync", 0, SQLITE_UTF8 | SQLITE_DIRECTONLY, NULL, sync_file, NULL, NULL);
}
