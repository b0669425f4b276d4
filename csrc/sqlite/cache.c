/* cache.c: settings kept between calls, and how it is known that they still hold. */
#include "sqlite/neardup.h"

#include <string.h>

static const char watch_sql[] = "SELECT (SELECT value FROM {index}_setting WHERE name = 'generation'), "
                                "(SELECT value FROM {index}_setting WHERE name = 'created_at')";

void nd_cache_clear(nd_settings_cache *cache)
{
    sqlite3_finalize(cache->watch);
    for (int i = 0; i < ND_STATEMENTS; i++)
        sqlite3_finalize(cache->kept[i]);
    memset(cache->kept, 0, sizeof cache->kept);
    cache->watch = NULL;
    nd_settings_clear(&cache->settings);
}

void nd_cache_release(nd_settings_cache *cache)
{
    if (cache->watch != NULL)
        sqlite3_reset(cache->watch);
}

/* Steps the watch statement; 1 where it says what it said when the settings were read. */
static int still_holds(nd_settings_cache *cache)
{
    if (sqlite3_step(cache->watch) != SQLITE_ROW)
        return 0;
    return cache->generation == sqlite3_column_int64(cache->watch, 0) &&
           cache->created_at == sqlite3_column_int64(cache->watch, 1) &&
           cache->recompiled == sqlite3_stmt_status(cache->watch, SQLITE_STMTSTATUS_REPREPARE, 0);
}

/* Opens the watch statement on its one row, which holds the transaction, then reads the settings in it. */
static int read_again(nd_settings_cache *cache, const char *index, char **message)
{
    nd_cache_clear(cache);
    ND_TRY(nd_index_name_check(index, message));
    int code = nd_prepare(cache->db, watch_sql, index, &cache->watch);
    if (code == SQLITE_OK && sqlite3_step(cache->watch) == SQLITE_ROW) {
        cache->generation = sqlite3_column_int64(cache->watch, 0);
        cache->created_at = sqlite3_column_int64(cache->watch, 1);
        cache->recompiled = sqlite3_stmt_status(cache->watch, SQLITE_STMTSTATUS_REPREPARE, 0);
        cache->serial++;
    }
    /* Where the statement failed, this fails for the same reason and says it better. */
    return nd_settings_load(cache->db, index, cache->with_rules, &cache->settings, message);
}

int nd_cache_open(nd_settings_cache *cache, sqlite3_value *index, char **message)
{
    if (sqlite3_value_type(index) != SQLITE_TEXT) {
        *message = sqlite3_mprintf("the name of an index must be text, not %s", nd_type_name(index));
        return SQLITE_ERROR;
    }
    const char *name = (const char *)sqlite3_value_text(index);
    if (name == NULL)
        return SQLITE_NOMEM;
    if (strlen(name) != (size_t)sqlite3_value_bytes(index)) {
        *message = sqlite3_mprintf("the name of an index must not hold NUL");
        return SQLITE_ERROR;
    }
    if (cache->watch != NULL && strcmp(name, cache->settings.index) == 0 && still_holds(cache))
        return SQLITE_OK;
    int code = read_again(cache, name, message);
    if (code != SQLITE_OK)
        nd_cache_clear(cache);
    return code;
}
