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

/* Steps the watch statement, and reads what tells whether the settings still hold; SQLITE_ROW, or why there is nothing. */
static int look(nd_settings_cache *cache, int64_t *seen)
{
    const int code = sqlite3_step(cache->watch);
    if (code != SQLITE_ROW)
        return code;
    seen[0] = sqlite3_column_int64(cache->watch, 0);
    seen[1] = sqlite3_column_int64(cache->watch, 1);
    seen[2] = sqlite3_stmt_status(cache->watch, SQLITE_STMTSTATUS_REPREPARE, 0);
    return code;
}

/* Opens the watch statement on its one row, which holds the transaction, then reads the settings in it. */
static int read_again(nd_settings_cache *cache, const char *index, char **message)
{
    nd_cache_clear(cache);
    ND_TRY(nd_index_name_check(index, message));
    cache->serial++;
    int code = nd_prepare(cache->db, watch_sql, index, &cache->watch);
    if (code == SQLITE_OK)
        code = look(cache, cache->seen);
    /* Where the statement failed, this mostly fails for the same reason and says it better. */
    ND_TRY(nd_settings_load(cache->db, index, cache->with_rules, &cache->settings, message));
    return code == SQLITE_ROW ? SQLITE_OK : code;
}

int nd_cache_open(nd_settings_cache *cache, sqlite3_value *index, char **message)
{
    int64_t seen[ND_SEEN];
    const char *name = nd_index_name(index);
    if (name == NULL) {
        *message = sqlite3_mprintf("the name of an index must be text without NUL, not %s", nd_type_name(index));
        return SQLITE_ERROR;
    }
    if (cache->watch != NULL && strcmp(name, cache->settings.index) == 0 && look(cache, seen) == SQLITE_ROW &&
        memcmp(seen, cache->seen, sizeof seen) == 0)
        return SQLITE_OK;
    int code = read_again(cache, name, message);
    if (code != SQLITE_OK)
        nd_cache_clear(cache);
    return code;
}
